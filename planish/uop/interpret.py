"""Executes a kernel: the graph after any stage, or the list of lines that the last stages make.

    after = interpret(sink, {0: out, 1: a, 2: b}, {"n": 7})        buffers by slot, variables by name

What is executed is what the nodes say, by definition: views are followed to their memory by numbers, REDUCE and SCAN
combine in order, BUFFERIZE is a table of values, registers and LOCAL memory are written and read, threads of a block run
in lock step from barrier to barrier. Ranges are NumPy axes where that gives the same (`loops.py` decides); should two
positions of such an axis get in each other's way, the kernel is run again in order, which is its meaning.

A mistake in the kernel is an `ExecutionError` that names the line and the position: an access outside its buffer or view, a
read of what nobody has written, one place that gets two values in no order, a thread that does not wait for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final, Literal, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.errors import DTypeError, ShapeError, VerifyError
from planish.uop import arithmetic
from planish.uop.contents import Contents
from planish.uop.evaluate import RULES, Run, evaluate
from planish.uop.loops import THREADS, Facts, Plan, is_thread, kind_of, make_plan
from planish.uop.node import UOp
from planish.uop.ops import ALU, DEFINES, MOVEMENT, Ops, TensorCore, Variable
from planish.uop.shape import Dim, shape
from planish.uop.tensor_cores import MATRICES, core_of
from planish.uop.text import in_order, name_nodes, node_line

Array = NDArray[Any]
Mask = Any
"""A bool array, or a bool that holds everywhere."""
Arrays = Mapping[int, Array]

_NO_VARIABLES: Final[Mapping[str, int]] = {}
_VIEWS: Final = frozenset({Ops.AFTER, Ops.CONTIGUOUS, Ops.NOOP})
_SILENT: Final = (
    DEFINES
    | MOVEMENT
    | {Ops.SINK, Ops.GROUP, Ops.END, Ops.PTRCAT, Ops.CONTIGUOUS, Ops.IF, Ops.ENDIF, Ops.BUFFER}
)
"""What does nothing by itself: effects that happen below them, and memory, which INDEX looks at."""


def interpret(
    kernel: UOp | Sequence[UOp],
    buffers: Arrays,
    variables: Mapping[str, int] = _NO_VARIABLES,
    *,
    undefined: Iterable[int] = (),
) -> dict[int, Array]:
    """The buffers after a kernel has run on copies of them.

    `buffers` are flat arrays by slot; what those in `undefined` hold at the start may not be read.
    """
    nodes = kernel.toposort() if isinstance(kernel, UOp) else list(kernel)
    root = kernel if isinstance(kernel, UOp) else None
    unknown = frozenset(undefined)
    with np.errstate(all="ignore"):
        if root is not None:
            try:
                return _Machine(nodes, root, make_plan(nodes), buffers, variables, unknown).run()
            except _InTheWay:
                pass  # positions that were to run at once have an order
        plan = make_plan(nodes, in_order=True, is_list=root is None)
        return _Machine(nodes, root, plan, buffers, variables, unknown, in_order=True).run()


Fault = Literal["outside", "unwritten", "race", "crash"]


class ExecutionError(VerifyError):
    """A kernel that does what no kernel may do; `fault` says what kind of thing."""

    fault: Fault = "crash"


class _InTheWay(Exception):
    """Two positions of an axis touch the same memory: they must run one after the other."""


class _Place(NamedTuple):
    """Elements of a buffer, by number, and where there are such elements."""

    memory: UOp
    offset: Array
    is_open: Mask
    lanes: int
    """How many elements it names per position; an access may take more, one after another."""


class _Table(NamedTuple):
    """What a BUFFERIZE holds: entries by number, which of them were stored, extents, and the sizes of the axes around it."""

    held: Array
    known: Array
    extents: tuple[int, ...]
    outer: tuple[int, ...]


class _Machine(Run):
    """One run of one kernel."""

    __slots__ = ("after", "contents", "facts", "gates", "masks", "names", "nodes", "ordered", "place", "plan", "root", "slow", "tables", "threads", "time", "undefined", "variables")  # fmt: skip

    def __init__(
        self,
        nodes: Sequence[UOp],
        root: UOp | None,
        plan: Plan,
        buffers: Arrays,
        variables: Mapping[str, int],
        undefined: frozenset[int],
        in_order: bool = False,
    ) -> None:
        known = {n: _variable(n, variables) for n in nodes if n.op is Ops.DEFINE_VAR}
        super().__init__(known, axes=dict(plan.axes))
        self.nodes, self.root, self.plan, self.slow = nodes, root, plan, in_order
        self.facts = Facts(nodes)
        self.variables = variables
        self.undefined = undefined
        self.place: dict[UOp, _Place] = {}
        self.tables: dict[UOp, _Table] = {}
        self.masks: dict[UOp, Array] = {}
        """For ranges of a size that varies: at which positions the value at hand is below it."""
        self.gates: list[Array] = []
        """The conditions of the IFs we are in."""
        self.time = 0
        """Barriers passed."""
        self.threads: Array | None = None
        self.names: dict[UOp, str] | None = None
        self.ordered = {s for s in self.facts.stores if self.facts.is_ordered(s)}
        self.after = dict(buffers)
        self.contents: dict[UOp, Contents] = {}
        for node in nodes:
            if node.op in DEFINES:
                self.contents[node] = self._allocate(node, buffers)

    # -- memory ------------------------------------------------------------------------------------------------------

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
            return Contents(f"buffer {slot}", dtype.base.scalar, data.size, data, known, has_threads)
        size = dtype.size * dtype.base.lanes
        copies = prod(max(axis.src[0].vmax, 1) for axis in self.plan.private[node])
        data = np.zeros(copies * size, dtype.base.scalar.numpy)
        name = f"{'LOCAL buffer' if dtype.space is AddrSpace.LOCAL else 'register'} {slot}"
        shared = has_threads and dtype.space is AddrSpace.LOCAL
        return Contents(name, dtype.base.scalar, size, data, np.zeros(data.size, np.bool_), shared)

    def _copy(self, memory: UOp) -> Array:
        """The number of the first element of the copy at each position."""
        contents = self.contents[memory]
        number: Array = np.zeros((), np.int64)
        for axis in self.plan.private.get(memory, ()):
            # an axis that is not open yet or any more does not vary here
            position = self.values.get(axis, np.zeros((), np.int64))
            number = number * max(axis.src[0].vmax, 1) + position.astype(np.int64)
        return number * contents.size

    def _index(self, node: UOp) -> None:
        buffer, *listed = node.src
        gate = listed.pop() if listed and listed[-1].dtype.is_bool else None
        if not listed:
            return  # memory as a whole
        lanes = max(each.dtype.lanes for each in listed)
        is_open: Mask = True
        if gate is not None and gate.dtype.lanes <= lanes:
            is_open = self._lanes(self.values[gate], gate.dtype.lanes, lanes)
            gate = None
        indices = []
        for each in listed:
            value = self._lanes(self.values[each], each.dtype.lanes, lanes)
            indices.append(value.astype(np.int64))
            if each in self.invalid:
                is_open = is_open & ~self._lanes(self.invalid[each], each.dtype.lanes, lanes)
        base = buffer
        if base.op in MOVEMENT or base.op is Ops.INDEX:
            self._check_view(node, indices, is_open)
        while True:
            if base.op in MOVEMENT:
                if any(self._dim(d) == 0 for d in shape(base.src[0])):
                    is_open = False
                    indices = [np.zeros((), np.int64)] * len(shape(base.src[0]))
                else:
                    indices, is_open = self._moved(base, indices, is_open)
            elif base.op is Ops.INDEX and len(base.src) > 1:
                inner = self.place[base]
                base = inner.memory
                offset = self._lanes(inner.offset, inner.lanes, lanes) + indices[0]
                self.place[node] = _Place(base, offset, is_open & inner.is_open, lanes)
                return
            elif base.op not in _VIEWS and base.op is not Ops.INDEX:
                break
            base = base.src[0]
        if base.op is Ops.BUFFERIZE:
            self.values[node] = self._staged(node, base, indices, is_open, lanes)
            return
        if len(indices) != 1 or base not in self.contents:
            self._fail(node, "crash", f"{len(indices)} indices into a {base.op.name}")
        step = cast("PtrDType", base.dtype).base.lanes
        offset = indices[0] * step
        if gate is not None:  # a gate per element of those from the first on
            lanes = gate.dtype.lanes
            offset = offset[..., None] + np.arange(lanes)
            is_open = np.asarray(is_open)[..., None] & self.values[gate]
        self.place[node] = _Place(base, offset, is_open, lanes)
        if not node.dtype.is_pointer and node in self.facts.read:
            self.values[node] = self._fetch(node, self.place[node], node.dtype, True, None)

    @staticmethod
    def _lanes(value: Array, have: int, want: int) -> Array:
        """With a lane axis if there is one to be."""
        return value[..., None] if want > 1 and have == 1 else value

    def _dim(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        known = {n: _variable(n, self.variables) for n in dim.toposort() if n.op is Ops.DEFINE_VAR}
        return int(evaluate(dim, known))

    def _check_view(self, node: UOp, indices: Sequence[Array], is_open: Mask) -> None:
        dims = shape(node.src[0])
        if len(dims) != len(indices):
            self._fail(node, "crash", f"{len(indices)} indices for {len(dims)} axes")
        is_open = is_open & self._active(node)
        for dim, index in zip(dims, indices, strict=True):
            bad = np.asarray(is_open & ((index < 0) | (index >= self._dim(dim))))
            if bad.any():
                value = np.broadcast_to(index, np.broadcast_shapes(bad.shape, index.shape))
                self._fail(
                    node,
                    "outside",
                    f"index {_first(value, bad)} is outside a view of size {self._dim(dim)}",
                    bad,
                )

    def _moved(self, view: UOp, indices: list[Array], is_open: Mask) -> tuple[list[Array], Mask]:
        """Indices into what a movement op views."""
        source = [self._dim(dim) for dim in shape(view.src[0])]
        arg = cast("tuple[Any, ...]", view.arg)
        if view.op is Ops.RESHAPE:
            flat: Array = np.zeros((), np.int64)
            for dim, index in zip(arg, indices, strict=True):
                flat = flat * self._dim(dim) + index
            found: list[Array] = []
            for size in reversed(source):
                found.append(np.asarray(flat % size))
                flat = np.asarray(flat // size)
            return found[::-1], is_open
        if view.op is Ops.PERMUTE:
            return [indices[arg.index(axis)] for axis in range(len(source))], is_open
        if view.op is Ops.EXPAND:
            return [i * 0 if size == 1 else i for i, size in zip(indices, source, strict=True)], is_open
        if view.op is Ops.FLIP:
            flipped = zip(indices, arg, source, strict=True)
            return [size - 1 - i if flip else i for i, flip, size in flipped], is_open
        if view.op is Ops.SHRINK:
            return [i + self._dim(pair[0]) for i, pair in zip(indices, arg, strict=True)], is_open
        inner = [i - self._dim(pair[0]) for i, pair in zip(indices, arg, strict=True)]
        for index, size in zip(inner, source, strict=True):
            is_open = is_open & (index >= 0) & (index < size)
        return inner, is_open

    def _stage(self, node: UOp) -> None:
        """A BUFFERIZE as a table: what x is at each position that its other sources name."""
        x, *named = node.src
        ranges = frozenset().union(*(each.ranges for each in named))
        closed = sorted(self.axes[r] for r in ranges if r in self.axes)
        wide = max((each.dtype.lanes for each in named), default=1)
        entry = x.dtype.lanes if wide == 1 else 1  # lanes that are stored together
        extents = tuple(max(each.vmax + 1, 1) for each in named)
        rank = len(self.axes)

        def spread(value: Array, dtype: DType) -> Array:
            return self._lanes(self.full(value, dtype), dtype.lanes, 2)

        position: Array = np.zeros((1,) * (rank + 1), np.int64)
        for each, extent in zip(named, extents, strict=True):
            position = position * extent + spread(self.values[each], each.dtype).astype(np.int64)
        runs: Array = np.ones((1,) * (rank + 1), np.bool_)
        for r in ranges:
            runs = runs & self.full(self.values[r] >= 0, r.dtype)[..., None]
            if r in self.masks:
                runs = runs & self.full(self.masks[r], r.dtype)[..., None]
        values = spread(self.values[x], x.dtype)
        shape = np.broadcast_shapes(values.shape[:-1], position.shape[:-1], runs.shape[:-1])
        outer = tuple(1 if axis in closed else size for axis, size in enumerate(shape))
        copy = np.arange(prod(outer)).reshape(*outer, 1)
        number = np.broadcast_to(copy * prod(extents) + position, (*shape, wide))
        runs = np.broadcast_to(runs, (*shape, wide))
        held = np.zeros((prod(outer) * prod(extents), entry), values.dtype)
        known = np.zeros(len(held), np.bool_)
        stored = np.broadcast_to(values, (*shape, wide * entry)).reshape(*shape, wide, entry)
        held[number[runs]] = stored[runs]
        known[number[runs]] = True
        self.tables[node] = _Table(held, known, extents, outer)

    def _staged(self, node: UOp, buffer: UOp, indices: Sequence[Array], is_open: Mask, lanes: int) -> Array:
        """The element of a BUFFERIZE at a position."""
        table = self.tables[buffer]
        is_open = is_open & self._active(node, lanes)
        position: Array = np.zeros((), np.int64)
        for extent, index in zip(table.extents, indices, strict=True):
            bad = np.asarray(is_open & ((index < 0) | (index >= extent)))
            if bad.any():
                self._fail(node, "outside", f"index {_first(index, bad)} is outside a row of {extent}", bad)
            position = position * extent + index
        copy = np.arange(prod(table.outer)).reshape(table.outer)
        number = self._lanes(copy, 1, lanes) * prod(table.extents) + np.where(is_open, position, 0)
        open_at = np.broadcast_to(np.asarray(is_open), number.shape)
        if not table.known[number[open_at]].all():
            self._fail(node, "unwritten", "a row is read where nothing was stored")
        zero = np.zeros((), table.held.dtype)
        if table.held.shape[1] == 1:
            return np.where(open_at, table.held[number, 0], zero)
        return np.where(open_at[..., None], table.held[number], zero)

    def _place_of(self, node: UOp) -> _Place:
        """The place that an access names."""
        if node in self.place:
            return self.place[node]
        if node.op is Ops.PTRCAT:
            parts = [self._place_of(s) for s in node.src]
            rank = len(self.axes)
            offsets = [np.broadcast_to(self._lanes(p.offset, p.lanes, 2), (1,) * rank + (p.lanes,)) if p.offset.ndim == 0 else self._lanes(p.offset, p.lanes, 2) for p in parts]  # fmt: skip
            wide = np.broadcast_shapes(*(o.shape[:-1] for o in offsets))
            joined = np.concatenate([np.broadcast_to(o, (*wide, o.shape[-1])) for o in offsets], -1)
            gates = [np.broadcast_to(self._lanes(np.asarray(p.is_open), 1 if np.ndim(p.is_open) < rank + 1 else 2, 2), (*wide, p.lanes)) for p in parts]  # fmt: skip
            return _Place(parts[0].memory, joined, np.concatenate(gates, -1), joined.shape[-1])
        if node.op is Ops.GEP:
            inner = self._place_of(node.src[0])
            chosen = list(cast("tuple[int, ...]", node.arg))
            offset = self._lanes(inner.offset, inner.lanes, 2)
            offset = offset[..., chosen] if inner.lanes > 1 else offset + np.array(chosen)
            gate = inner.is_open[..., chosen] if inner.lanes > 1 and np.ndim(inner.is_open) else inner.is_open
            if len(chosen) == 1:
                offset, gate = offset[..., 0], gate[..., 0] if np.ndim(gate) else gate
            return _Place(inner.memory, offset, gate, len(chosen))
        return self._place_of(node.src[0])

    def _unrolled_place(self, node: UOp) -> None:
        """The places in the lanes of an INDEX, spread over unrolled axes."""
        inner = self.place[node.src[0]]

        def spread(lanes: Array) -> Array:
            self.values[node.src[0]] = np.broadcast_to(
                lanes, np.broadcast_shapes(lanes.shape, (inner.lanes,))
            )
            found = RULES[Ops.UNROLL](self, node)
            del self.values[node.src[0]]
            return found

        self.place[node] = _Place(
            inner.memory, spread(inner.offset), spread(np.asarray(inner.is_open)), node.dtype.lanes
        )

    def _elements(self, place: _Place, lanes: int) -> tuple[Array, Mask]:
        """The elements that an access of so many lanes touches, and where it does."""
        if lanes == 1 or place.lanes > 1:
            return place.offset, place.is_open
        gate = np.asarray(place.is_open)
        return place.offset[..., None] + np.arange(lanes), gate[..., None]

    def _active(self, node: UOp, lanes: int = 1) -> Mask:
        """At which positions a node runs at all."""
        found: Mask = True
        if self.masks:
            for r in self.facts.open(node):
                if r in self.masks:
                    found = found & self.masks[r]
        for gate in self.gates:
            found = found & gate
        return found if lanes == 1 or np.ndim(found) == 0 else np.asarray(found)[..., None]

    def _accessed(
        self, node: UOp, place: _Place, lanes: int, gate: Mask, active: Mask
    ) -> tuple[Array, Array, Array]:
        """Elements in their buffer, the same in all copies of it, and where they are accessed; all inside."""
        offset, is_open = self._elements(place, lanes)
        touched = np.asarray(is_open & gate & active)
        contents = self.contents[place.memory]
        bad = touched & ((offset < 0) | (offset >= contents.size))
        if bad.any():
            first = _first(np.broadcast_to(offset, np.broadcast_shapes(offset.shape, bad.shape)), bad)
            self._fail(
                node, "outside", f"{contents.name}[{first}] is outside its {contents.size} elements", bad
            )
        copy = self._copy(place.memory)
        return offset, offset + (copy if lanes == 1 else copy[..., None]), touched

    def _fetch(self, node: UOp, place: _Place, dtype: DType, gate: Mask, alternative: Array | None) -> Array:
        lanes = dtype.lanes
        _, places, touched = self._accessed(node, place, lanes, gate, self._active(node, lanes))
        contents = self.contents[place.memory]
        wide = np.broadcast_shapes(places.shape, touched.shape)
        places, touched = np.broadcast_to(places, wide), np.broadcast_to(touched, wide)
        read = places[touched]
        unknown = contents.unknown(read)
        if unknown.any():
            if not self.slow and self.root is not None:
                raise _InTheWay
            where = np.zeros(wide, np.bool_)
            where[touched] = unknown
            number = int(read[unknown][0]) % max(contents.size, 1)
            self._fail(
                node,
                "unwritten",
                f"{contents.name}[{number}] is read before anything is written there",
                where,
            )
        if contents.shared and self.threads is not None:
            threads = self._lanes(self.threads, 1, lanes)
            every = np.broadcast_shapes(wide, threads.shape)
            touching = np.broadcast_to(touched, every)
            by_all = np.broadcast_to(places, every)[touching]
            racing = contents.hears(by_all, np.broadcast_to(threads, every)[touching], self.time)
            if racing.size:
                number = int(racing[0]) % contents.size
                self._fail(node, "race", f"{contents.name}[{number}] is read while another thread writes it: no barrier stands between")  # fmt: skip
        otherwise = np.zeros((), arithmetic.carrier(dtype)) if alternative is None else alternative
        result = np.array(np.broadcast_to(otherwise, np.broadcast_shapes(wide, np.shape(otherwise))))
        touched = np.broadcast_to(touched, result.shape)
        result[touched] = arithmetic.load(contents.data[np.broadcast_to(places, result.shape)[touched]], dtype.scalar)  # fmt: skip
        return result

    def _load(self, node: UOp) -> None:
        alternative = self.values[node.src[1]] if len(node.src) > 1 else None
        gate: Mask = True
        if len(node.src) > 2:
            gate = self._lanes(self.values[node.src[2]], node.src[2].dtype.lanes, node.dtype.lanes)
        self.values[node] = self._fetch(node, self._place_of(node.src[0]), node.dtype, gate, alternative)

    def _store(self, node: UOp) -> None:
        target, x = node.src[:2]
        if any(not self.values[r].size for r in self.facts.around.get(node, ()) if r in self.axes):
            return  # a loop around it that never runs
        place, lanes = self._place_of(target), x.dtype.lanes
        lanes = max(lanes, place.lanes)
        gate: Mask = True
        if len(node.src) > 2:
            gate = self._lanes(self.values[node.src[2]], node.src[2].dtype.lanes, lanes)
        _, places, touched = self._accessed(node, place, lanes, gate, self._active(node, lanes))
        contents = self.contents[place.memory]
        stored = arithmetic.store(self._lanes(self.values[x], x.dtype.lanes, lanes), x.dtype)
        wide = np.broadcast_shapes(places.shape, touched.shape, stored.shape)
        touched = np.broadcast_to(touched, wide)
        flat, values = np.broadcast_to(places, wide)[touched], np.broadcast_to(stored, wide)[touched]
        self._check_races(node, contents, flat, values)
        if contents.shared and self.threads is not None:
            threads = self._lanes(self.threads, 1, lanes)
            every = np.broadcast_shapes(wide, threads.shape)
            touching = np.broadcast_to(touched, every)
            racing = contents.disturbs(
                np.broadcast_to(places, every)[touching],
                np.broadcast_to(threads, every)[touching],
                np.broadcast_to(stored, every)[touching],
                self.time,
            )
            if racing.size:
                number = int(racing[0]) % contents.size
                self._fail(node, "race", f"{contents.name}[{number}] is written while another thread uses it: no barrier stands between")  # fmt: skip
        contents.write(flat, values)

    def _check_races(self, node: UOp, contents: Contents, flat: Array, values: Array) -> None:
        clash = contents.clash(flat, values)
        is_global = contents.name.startswith("buffer")
        if not clash.size and is_global and node not in self.ordered:
            clash = contents.overwritten(flat, values)
        if clash.size:
            if not self.slow:
                raise _InTheWay
            number = int(clash[0]) % contents.size
            self._fail(
                node, "race", f"{contents.name}[{number}] gets two different values, and nothing orders them"
            )

    # -- values ------------------------------------------------------------------------------------------------------

    def _counter(self, node: UOp) -> None:
        """A range or special index as an axis."""
        bound = self.values[node.src[0]]
        size = max(int(bound.max()), 0) if bound.size else 0
        dims = [1] * len(self.axes)
        dims[self.axes[node]] = size
        counted = np.arange(size, dtype=arithmetic.carrier(node.dtype)).reshape(dims)
        self.values[node] = counted
        self._mask(node, counted, bound)

    def _mask(self, node: UOp, value: Array, bound: Array) -> None:
        self.masks.pop(node, None)
        if bound.size > 1:
            self.masks[node] = np.asarray(value < bound)

    def _tile(self, node: UOp) -> Array:
        """a @ b + c; the threads of a group hold the matrices together."""
        arg = cast("TensorCore", node.arg)
        core = core_of(arg)
        m, n, k = arg.dims
        shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
        threads = 1 if core is None else core.threads
        axes = self._thread_axes(threads)
        count = prod(self.values[axis].size for axis in axes)
        if count % threads:
            self._fail(node, "crash", f"{count} threads are not groups of {threads}")
        whole: dict[str, Array] = {}
        for name, source in zip(MATRICES, node.src, strict=True):
            rows, columns = shapes[name]
            held = rows * columns // threads
            positions = source.dtype.lanes // held
            value = self.full(self.values[source], source.dtype)
            value = self._threads_last(value, axes, count, threads)  # …, group, thread, lane
            value = np.moveaxis(value.reshape(*value.shape[:-1], held, positions), -1, -3)
            matrix = np.empty((*value.shape[:-2], rows * columns), value.dtype)
            where = np.arange(held)[None] if core is None else core.places(name)
            matrix[..., where] = value
            whole[name] = matrix.reshape(*value.shape[:-2], rows, columns)
        narrow, wide = node.src[0].dtype.scalar, node.dtype.scalar
        a, b = (arithmetic.convert(whole[name], narrow, wide) for name in ("a", "b"))
        total = whole["c"]
        for step in range(k):
            left, right = a[..., :, step, None], b[..., None, step, :]
            total = arithmetic.apply(Ops.MULACC, wide, *np.broadcast_arrays(left, right, total))
        flat = total.reshape(*total.shape[:-2], m * n)
        where = np.arange(m * n)[None] if core is None else core.places("c")
        lanes = np.moveaxis(flat[..., where], -3, -1)  # …, group, thread, lane, position
        lanes = lanes.reshape(*lanes.shape[:-2], node.dtype.lanes)
        return self._threads_back(lanes, axes)

    def _thread_axes(self, threads: int) -> list[UOp]:
        """The axes over the threads of a block, the fastest last."""
        if threads == 1:
            return []
        special = [n for n in self.axes if isinstance(n, UOp) and n.op is Ops.SPECIAL and is_thread(n)]
        if special:
            return sorted(special, key=lambda n: str(n.arg), reverse=True)
        ranges = [n for n in self.axes if isinstance(n, UOp) and n.op is Ops.RANGE and kind_of(n) in THREADS]
        return sorted((n for n in ranges if kind_of(n).name == "WARP"), key=lambda n: n.order)

    def _threads_last(self, value: Array, axes: list[UOp], count: int, threads: int) -> Array:
        dims = list(value.shape)
        for axis in axes:
            dims[self.axes[axis]] = self.values[axis].size
        value = np.broadcast_to(value, dims)
        places = [self.axes[axis] for axis in axes]
        moved = np.moveaxis(value, places, range(value.ndim - 1 - len(places), value.ndim - 1))
        outer = moved.shape[: moved.ndim - 1 - len(places)]
        return moved.reshape(*outer, count // threads, threads, moved.shape[-1])

    def _threads_back(self, value: Array, axes: list[UOp]) -> Array:
        sizes = [self.values[axis].size for axis in axes]
        outer = value.shape[: value.ndim - 3]
        spread = value.reshape(*outer, *sizes, value.shape[-1])
        places = [self.axes[axis] for axis in axes]
        return np.moveaxis(spread, range(len(outer), len(outer) + len(places)), places)

    def visit(self, node: UOp) -> None:
        op = node.op
        if op is Ops.INDEX:
            self._index(node)
        elif op is Ops.LOAD:
            self._load(node)
        elif op is Ops.STORE:
            self._store(node)
        elif op is Ops.RANGE or op is Ops.SPECIAL:
            self._counter(node)
        elif op is Ops.BARRIER:
            if any(gate.size > 1 and not gate.all() for gate in self.gates):
                self._fail(node, "crash", "not every thread of the block comes to this barrier")
            self.time += 1
        elif op is Ops.WMMA:
            self.values[node] = self._tile(node)
        elif op is Ops.BUFFERIZE:
            self._stage(node)
        elif op in _SILENT or node.dtype.is_pointer or node.dtype.name == "void":
            pass
        elif op in _VIEWS and node.src and node.src[0] not in self.values:
            pass  # memory
        elif op is Ops.UNROLL and node.src[0] in self.place and node.src[0] not in self.values:
            self._unrolled_place(node)
        elif op in ALU or op in RULES or node in self.env:
            super().visit(node)
        else:
            self._fail(node, "crash", f"{op.name} cannot be executed")

    # -- order -------------------------------------------------------------------------------------------------------

    def run(self) -> dict[int, Array]:
        """Run the kernel; the buffers afterwards."""
        self._begin([node for node in self.nodes if node.op is Ops.SPECIAL])
        if self.root is not None:
            self._run_nodes(self.plan.top)
        else:
            self._run_lines()
        return self.after

    def _begin(self, specials: Sequence[UOp]) -> None:
        """What every thread knows from the start: its place in the grid."""
        for special in specials:
            for node in special.toposort():
                self.visit(node)
        # lidx0 runs fastest: neighbouring threads form a group
        inner = sorted((n for n in specials if is_thread(n)), key=lambda n: str(n.arg), reverse=True)
        if inner:
            number: Array = np.zeros((), np.int64)
            for special in inner:
                number = number * self.values[special].size + self.values[special]
            self.threads = np.asarray(number, np.int64)

    def _run_nodes(self, nodes: Sequence[UOp]) -> None:
        for node in nodes:
            nest = self.plan.nests.get(node)
            if nest is None:
                self.visit(node)
            else:
                self._run_nest(node, 0)

    def _run_nest(self, end: UOp, level: int) -> None:
        nest = self.plan.nests[end]
        if level == len(nest.ranges):
            return
        r = nest.ranges[level]
        bound = self.values[r.src[0]]
        size = max(int(bound.max()), 0) if bound.size else 0
        for number in range(size):
            self._bind(r, number, bound)
            self._run_nodes(nest.bodies[level])
            self._run_nest(end, level + 1)

    def _bind(self, r: UOp, number: int, bound: Array) -> None:
        self.values[r] = np.asarray(number, arithmetic.carrier(r.dtype))
        self._mask(r, self.values[r], bound)

    def _run_lines(self) -> None:
        lines = self.nodes
        ends = {line.src[-1]: number for number, line in enumerate(lines) if line.op in {Ops.END, Ops.ENDIF}}
        starts = {line: number for number, line in enumerate(lines) if line.op is Ops.RANGE}
        number = 0
        counts: dict[UOp, int] = {}
        while number < len(lines):
            line = lines[number]
            number += 1
            if line in self.plan.loops:
                bound = self.values[line.src[0]]
                counts[line] = 0
                if not bound.size or int(bound.max()) <= 0:
                    number = ends[line] + 1
                    continue
                self._bind(line, 0, bound)
            elif line.op is Ops.END and line.src[-1] in counts:
                header = line.src[-1]
                counts[header] += 1
                bound = self.values[header.src[0]]
                if counts[header] < int(bound.max()):
                    self._bind(header, counts[header], bound)
                    number = starts[header] + 1
                else:
                    self.masks.pop(header, None)
            elif line.op is Ops.IF:
                self.gates.append(self.values[line.src[0]])
                if not self.gates[-1].any():
                    self.gates.pop()
                    number = ends[line] + 1
            elif line.op is Ops.ENDIF:
                self.gates.pop()
            else:
                self.visit(line)

    # -- errors ------------------------------------------------------------------------------------------------------

    def _fail(self, node: UOp, fault: Fault, what: str, where: Array | None = None) -> NoReturn:
        position: dict[object, int] = {}
        if where is not None and where.ndim >= len(self.axes) and where.any():
            first = np.argwhere(where)[0]
            position = {axis: int(first[place]) for axis, place in self.axes.items()}
        shown = []
        for r in sorted(self.facts.open(node), key=lambda r: r.order):
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


def _variable(node: UOp, given: Mapping[str, int]) -> int:
    name, low, high = cast("Variable", node.arg)
    if name not in given:
        raise ShapeError(f"variable {name} has no value", remedy=f"give it one within {low}..{high}")
    if not low <= given[name] <= high:
        raise ShapeError(f"variable {name} = {given[name]} is outside {low}..{high}")
    return given[name]


def _first(values: Array, where: Array) -> int:
    wide = np.broadcast_shapes(values.shape, where.shape)
    return int(np.broadcast_to(values, wide)[np.broadcast_to(where, wide)][0])


__all__ = ["ExecutionError", "interpret"]
