"""What one run of a kernel knows: values, memory, where it is, and how to say what went wrong.

Values are NumPy arrays with a leading axis per range that is not a loop (`loops.py`), and one more, the last, for lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, Literal, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import AddrSpace, PtrDType
from planish.errors import DTypeError, ShapeError, VerifyError
from planish.uop.evaluate import Run, evaluate
from planish.uop.machine.contents import Contents
from planish.uop.machine.loops import LoopPlan, is_rank_axis, is_thread
from planish.uop.node import UOp
from planish.uop.ops import DEFINES, Ops, Variable
from planish.uop.shape import Dim
from planish.uop.text import in_order, name_nodes, node_line

Array = NDArray[Any]
Mask = Any
"""A bool array, or a bool that holds everywhere."""
Arrays = Mapping[int, Array]

_MOST_BYTES: Final = 1 << 34
"""Of memory of a kernel's own, with a copy for each position that has one."""

Fault = Literal["outside", "unwritten", "race", "crash"]


class ExecutionError(VerifyError):
    """A kernel that does what no kernel may do; `fault` says what kind of thing."""

    fault: Fault = "crash"


class InTheWay(Exception):
    """Two positions of an axis touch the same memory: they must run one after the other."""


class BufferElements(NamedTuple):
    """Elements of a buffer, by number, and where there are such elements."""

    memory: UOp
    offset: Array
    is_open: Mask
    lanes: int
    """How many elements it names per position; an access may take more, one after another."""
    peer: int | None = None
    """The block of the cluster whose memory it is, where that is another's."""


class KeptValues(NamedTuple):
    """What a BUFFERIZE holds: entries by number, which of them were stored, extents, and the sizes of the axes around it."""

    held: Array
    known: Array
    extents: tuple[int, ...]
    outer: tuple[int, ...]


class Flight(NamedTuple):
    """An asynchronous store under way: what it writes where, and by which threads."""

    contents: Contents
    places: Array
    values: Array
    threads: Array


class MachineState(Run):
    """One run of one kernel."""

    __slots__ = ("after", "cluster_time", "contents", "effects", "flights", "gates", "masks", "names", "nodes", "ordered", "place", "plan", "products", "root", "slow", "tables", "threads", "time", "undefined", "unfinished", "variables")  # fmt: skip

    def __init__(
        self,
        nodes: Sequence[UOp],
        root: UOp | None,
        plan: LoopPlan,
        buffers: Arrays,
        variables: Mapping[str, int],
        undefined: frozenset[int],
        in_order: bool = False,
    ) -> None:
        known = {n: value_of(n, variables) for n in nodes if n.op is Ops.DEFINE_VAR}
        super().__init__(known, axes=dict(plan.axes))
        self.nodes, self.root, self.plan, self.slow = nodes, root, plan, in_order
        self.effects = plan.effects
        self.variables = variables
        self.undefined = undefined
        self.place: dict[UOp, BufferElements] = {}
        self.tables: dict[UOp, KeptValues] = {}
        self.masks: dict[UOp, Array] = {}
        """For ranges of a size that varies: at which positions the value at hand is below it."""
        self.gates: list[Array] = []
        """The conditions of the IFs we are in."""
        self.time = 0
        """Barriers passed."""
        self.cluster_time = 0
        """The same when all blocks of a cluster last waited for each other."""
        self.flights: list[list[Flight]] = [[]]
        """Asynchronous stores that nobody has waited for, in groups; the last group is not committed."""
        self.products: list[list[Flight]] = []
        """What tensor cores read in the background."""
        self.unfinished: set[UOp] = set()
        """Results of theirs, and registers that hold such."""
        self.threads: Array | None = None
        self.names: dict[UOp, str] | None = None
        self.ordered = {s for s in self.effects.stores if self.effects.is_ordered(s)}
        self.after = dict(buffers)
        self.contents: dict[UOp, Contents] = {}
        for node in nodes:
            if node.op in DEFINES:
                self.contents[node] = self._allocate(node, buffers)

    def _allocate(self, node: UOp, buffers: Arrays) -> Contents:
        dtype, slot = cast("PtrDType", node.dtype), cast("int", node.arg)
        has_threads = any(n.op is Ops.SPECIAL and is_thread(n) for n in self.nodes)
        if dtype.space is AddrSpace.GLOBAL:
            given = buffers.get(slot)
            if given is None:
                raise ShapeError(f"buffer {slot} is not given", remedy="pass an array for every slot")
            if given.dtype != dtype.base.scalar.numpy:
                raise DTypeError(f"buffer {slot} holds {dtype.base.scalar}, not {given.dtype}")
            data = np.array(given).reshape(-1)
            self.after[slot] = data
            fresh = slot in self.undefined
            known = np.full(data.size, not fresh)
            return Contents(
                f"buffer {slot}", dtype.base.scalar, data.size, data, known, has_threads, is_parameter=True
            )
        size = dtype.size * dtype.base.lanes
        copies = prod(max(axis.src[0].vmax, 1) for axis in self.plan.private[node])
        if copies * size * dtype.base.itemsize > _MOST_BYTES:
            raise ShapeError(
                f"{node_line(node, {})}: {copies} × {size} elements are more than a run can hold"
            )
        data = np.zeros(copies * size, dtype.base.scalar.numpy)
        name = f"{'LOCAL buffer' if dtype.space is AddrSpace.LOCAL else 'register'} {slot}"
        shared = has_threads and dtype.space is AddrSpace.LOCAL
        return Contents(name, dtype.base.scalar, size, data, np.zeros(data.size, np.bool_), shared)

    # -- where we are ------------------------------------------------------------------------------------------------

    def _active(self, node: UOp, lanes: int = 1) -> Mask:
        """At which positions a node runs at all."""
        mask: Mask = True
        if self.masks:
            for r in self.effects.open(node):
                if r in self.masks:
                    mask = mask & self.masks[r]
        for gate in self.gates:
            mask = mask & gate
        return mask if lanes == 1 or np.ndim(mask) == 0 else np.asarray(mask)[..., None]

    def _copy(self, memory: UOp, peer: int | None = None) -> Array:
        """The number of the first element of the copy at each position, or of that of another block of the cluster."""
        contents = self.contents[memory]
        number: Array = np.zeros((), np.int64)
        for axis in self.plan.private.get(memory, ()):
            # an axis that is not open yet or any more does not vary here
            position = self.values.get(axis, np.zeros((), np.int64))
            if peer is not None and is_rank_axis(axis):
                position = np.asarray(peer)
            number = number * max(axis.src[0].vmax, 1) + position.astype(np.int64)
        return number * contents.size

    def _dim(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        known = {n: value_of(n, self.variables) for n in dim.toposort() if n.op is Ops.DEFINE_VAR}
        return int(evaluate(dim, known))

    @staticmethod
    def _lanes(value: Array, have: int, want: int) -> Array:
        """With a lane axis if there is one to be."""
        return value[..., None] if want > 1 and have == 1 else value

    # -- errors ------------------------------------------------------------------------------------------------------

    def _fail(self, node: UOp, fault: Fault, what: str, where: Array | None = None) -> NoReturn:
        position: dict[object, int] = {}
        if where is not None and where.ndim >= len(self.axes) and where.any():
            first = np.argwhere(where)[0]
            position = {axis: int(first[place]) for axis, place in self.axes.items()}
        shown = []
        for r in sorted(self.effects.open(node), key=lambda r: r.order):
            value = self.values.get(r)
            if r in position:
                shown.append(f"{r.arg} = {position[r]}")
            elif value is not None and value.ndim == 0:
                shown.append(f"{r.arg} = {int(value)}")
        shown += [f"{n.arg} = {v}" for n, v in position.items() if isinstance(n, UOp) and n.op is Ops.SPECIAL]
        at = f", at {', '.join(shown)}" if shown else ""
        error = ExecutionError(f"{self._line(node)}: {what}{at}", op=node.op.name)
        error.fault = fault
        raise error

    def _line(self, node: UOp) -> str:
        if self.names is None:
            if self.root is not None:
                self.names = name_nodes(in_order(self.root), self.root)
            else:
                self.names = {line: f"%{number}" for number, line in enumerate(self.nodes)}
        return node_line(node, self.names) if node in self.names else node.op.name


def value_of(node: UOp, given: Mapping[str, int]) -> int:
    name, low, high = cast("Variable", node.arg)
    if name not in given:
        raise ShapeError(f"variable {name} has no value", remedy=f"give it one within {low}..{high}")
    if not low <= given[name] <= high:
        raise ShapeError(f"variable {name} = {given[name]} is outside {low}..{high}")
    return given[name]


def first_of(values: Array, where: Array) -> int:
    wide = np.broadcast_shapes(values.shape, where.shape)
    return int(np.broadcast_to(values, wide)[np.broadcast_to(where, wide)][0])
