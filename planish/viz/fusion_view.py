"""What kernels give each other, and why two that touch the same memory are not one kernel.

Of a kernel that reads what another one makes the planner itself said why that is in memory. Two that read the same memory are
*siblings*: what kept them apart is worked out here, by the conditions under which the planner lets results share a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import Final, NamedTuple

from planish.schedule.graph import REUSE
from planish.schedule.kernels import MOST_RESULTS, NEAR
from planish.schedule.memory import elements
from planish.schedule.plan import Kernel, Plan, PlanBuffer, Role
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.viz import schema

_ALL_PAIRS: Final = 12
"""Readers of one buffer of which each two are looked at; of more, those that run one after the other."""
_MOST_PAIRS: Final = 4000


class Flow(NamedTuple):
    """Something in memory that is read."""

    source: str
    """The kernel that wrote it, or the input's name."""
    sink: str
    """The kernel that reads it, or the result's name."""
    buffer: int
    reason: str
    """Why it is in memory."""


class Flows:
    """Who reads what somebody wrote, of one plan."""

    def __init__(self, program: str, plan: Plan, named: Callable[[int], str]) -> None:
        self.program = program
        self.plan = plan
        self.named = named

    @cached_property
    def all(self) -> list[Flow]:
        """Kernels, inputs and results, and why what lies between them is in memory."""
        return list(dict.fromkeys(self._flows()))

    def _flows(self) -> Iterator[Flow]:
        plan = self.plan
        writers: dict[int, tuple[str, str]] = {}
        for launch in plan.launches:
            kernel = plan.kernels[launch.kernel]
            id = f"{self.program}/k/{launch.kernel}"
            written = dict(zip(kernel.written, kernel.because, strict=False))
            for planned, buffer in zip(kernel.buffers, launch.buffers, strict=False):
                if planned not in written or buffer in writers:
                    source, reason = writers.get(buffer, ("", ""))
                    role = plan.buffers[buffer].role
                    if source != id and (source or role in {Role.PARAMETER, Role.CONSTANT}):
                        yield Flow(source or self.named(buffer), id, buffer, reason)
            for planned, buffer in zip(kernel.buffers, launch.buffers, strict=False):
                if planned in written:
                    writers[buffer] = id, written[planned]
        for position, buffer in enumerate(plan.results):
            if buffer in writers:
                yield Flow(writers[buffer][0], f"result {position}", buffer, writers[buffer][1])

    def edges(self) -> list[list[object]]:
        """Flows as the index has them."""
        return [
            [source, sink, self.named(buffer), bytes_of(self.plan.buffers[buffer])]
            for source, sink, buffer in dict.fromkeys(flow[:3] for flow in self.all)
        ]

    def fusion(self) -> schema.FusionView:
        """Why kernels that give each other something, or read the same, are not one."""
        inside = f"{self.program}/"
        given = [f for f in self.all if f.source.startswith(inside) and f.sink.startswith(inside)]
        pairs = dict.fromkeys((f.source, f.sink, f.reason, self.named(f.buffer)) for f in given)
        adjacent = [schema.FusionPair(p, c, False, reason, tensor) for p, c, reason, tensor in pairs]
        connected = {(f.source, f.sink) for f in given}
        siblings = [
            schema.FusionPair(
                one, other, False, self._apart(one, other), ", ".join(sorted(tensors)[:4]), True
            )
            for (one, other), tensors in self._siblings().items()
            if (one, other) not in connected and (other, one) not in connected
        ]
        left = max(0, len(adjacent) + len(siblings) - _MOST_PAIRS)
        return schema.FusionView([*adjacent, *siblings][:_MOST_PAIRS], left)

    # -- siblings ----------------------------------------------------------------------------------------------------

    def _siblings(self) -> dict[tuple[str, str], set[str]]:
        """Each two kernels that read the same memory, and what that is."""
        readers: dict[int, dict[str, None]] = {}
        for flow in self.all:
            if flow.sink.startswith(f"{self.program}/"):
                readers.setdefault(flow.buffer, {})[flow.sink] = None
        shared: dict[tuple[str, str], set[str]] = {}
        for buffer, sinks in readers.items():
            for pair in combinations(sinks, 2) if len(sinks) <= _ALL_PAIRS else pairwise(sinks):
                shared.setdefault(pair, set()).add(self.named(buffer))
        return shared

    @cached_property
    def _needs(self) -> dict[str, int]:
        """By kernel: a bit for each kernel that must have run before it."""
        needs: dict[str, int] = {}
        for flow in self.all:
            if flow.source.startswith(f"{self.program}/"):
                own = needs.get(flow.source, 0) | 1 << _number(flow.source)
                needs[flow.sink] = needs.get(flow.sink, 0) | own
        return needs

    def _apart(self, one: str, other: str) -> str:
        """Why two siblings are two."""
        for first, second in ((one, other), (other, one)):
            if self._needs.get(second, 0) >> _number(first) & 1:
                return f"{self._name(second)} waits for what other kernels make of the results of {self._name(first)}"
        shapes = [_loops(self._kernel(id)) for id in (one, other)]
        if shapes[0] != shapes[1]:
            first, second = ("x".join(map(str, dims)) or "1" for dims in shapes)
            return f"results of one kernel have the same dims: {first} here, {second} there"
        for id in (one, other):
            if self._is_product(_number(id)):
                return f"{self._name(id)} is a product of matrices, which has all registers for itself"
        for id in (one, other):
            if _has(self._kernel(id), Ops.SCAN):
                return f"{self._name(id)} is a scan: its loops run in the order of what it adds up"
        results = sum(len(self._kernel(id).written) for id in (one, other))
        if results > MOST_RESULTS:
            return f"together they store {results} results, and a kernel stores up to {MOST_RESULTS}"
        return f"they store the same dims; results are looked for among {NEAR} that the program has in a row"

    def _is_product(self, number: int) -> bool:
        """Whether a reduction of a kernel uses what it reads again and again, as a product of matrices does."""
        launch = next(each for each in self.plan.launches if each.kernel == number)
        sizes = [elements(self.plan.buffers[each].size) for each in launch.buffers]
        for node in self.plan.kernels[number].sink.toposort():
            if node.op is Ops.REDUCE:
                below = node.src[0].toposort()
                turns = prod(e for axis in _ranges(node.src[0]) if isinstance(e := _extent(axis), int))
                slots = {each.arg for each in below if each.op is Ops.DEFINE_GLOBAL}
                read = sum(sizes[slot] for slot in slots if isinstance(slot, int) and slot < len(sizes))
                if turns >= REUSE * max(1, read):
                    return True
        return False

    def _kernel(self, id: str) -> Kernel:
        return self.plan.kernels[_number(id)]

    def _name(self, id: str) -> str:
        return self._kernel(id).name


def _number(id: str) -> int:
    return int(id.rpartition("/")[2])


def _stores(kernel: Kernel) -> list[UOp]:
    return [node for node in kernel.sink.toposort() if node.op is Ops.STORE]


def _ranges(node: UOp) -> dict[UOp, None]:
    return dict.fromkeys(each for each in node.toposort() if each.op is Ops.RANGE)


def _extent(axis: UOp) -> int | str:
    size = axis.src[0]
    return size.arg if size.op is Ops.CONST and isinstance(size.arg, int) else "n"


def _loops(kernel: Kernel) -> tuple[int | str, ...]:
    """The dims that a kernel stores over: the loops of its largest store."""
    dims = [tuple(_extent(axis) for axis in _ranges(store.src[0])) for store in _stores(kernel)]
    return max(dims, key=len, default=())


def _has(kernel: Kernel, op: Ops) -> bool:
    return any(node.op is op for node in kernel.sink.toposort())


def bytes_of(buffer: PlanBuffer) -> int:
    """How much memory a buffer takes."""
    return elements(buffer.size) * buffer.dtype.itemsize
