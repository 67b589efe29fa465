"""Are all accesses inside their buffers? Decided by intervals: inside, outside, or not known.

An access `INDEX(b, i)` is *inside* if the bounds of i, under its gate, lie in 0 … size - 1; it is *outside* if none of its values
does and its gate can hold. Intervals do not know how two parts of an index depend on each other: what they leave open is
proved by z3 in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from planish.dtypes import PtrDType
from planish.uop.infix import infix
from planish.uop.node import UOp
from planish.uop.ops import DEFINES, Ops
from planish.uop.reached import joined_by

Verdict = Literal["inside", "outside", "unknown"]


class BoundedAccess(NamedTuple):
    """Elements `at` … `at + lanes - 1` of a buffer, wherever all of the gates hold."""

    place: UOp
    at: UOp
    lanes: int
    gates: tuple[UOp, ...]
    size: int

    @property
    def verdict(self) -> Verdict:
        """What intervals say."""
        gates = self.gates
        if any(gate.bounds is not None and gate.vmax < 1 for gate in gates):
            return "inside"  # it never happens
        low, high = narrowed(self.at, gates)
        if low > high or (low >= 0 and high + self.lanes <= self.size):
            return "inside"
        sure = all(gate.bounds is not None and gate.vmin >= 1 for gate in gates)
        return "outside" if sure and (high < 0 or low + self.lanes > self.size) else "unknown"


def narrowed(index: UOp, gates: Sequence[UOp]) -> tuple[int, int]:
    """The bounds of an index where the gates hold, as far as a gate compares the index itself."""
    low, high = index.vmin, index.vmax
    for gate in gates:
        for clause in joined_by(Ops.AND, gate):
            if clause.op not in {Ops.CMPLT, Ops.CMPLE}:
                continue
            x, y = clause.src
            strict = clause.op is Ops.CMPLT
            if x is index and y.bounds is not None:
                high = min(high, y.vmax - strict)
            if y is index and x.bounds is not None:
                low = max(low, x.vmin + strict)
    return low, high


def accesses(graph: UOp | Sequence[UOp]) -> Iterator[BoundedAccess]:
    """Every element that a kernel may touch: of each INDEX of memory with one index, whatever reads or writes there."""
    nodes = graph.toposort() if isinstance(graph, UOp) else list(graph)
    users: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op in {Ops.LOAD, Ops.STORE} and node.src[0].op is Ops.INDEX:
            users.setdefault(node.src[0], []).append(node)
    for node in nodes:
        if node.op is not Ops.INDEX:
            continue
        memory = node.src[0]
        while memory.op is Ops.AFTER:
            memory = memory.src[0]
        if memory.op not in DEFINES or not isinstance(memory.dtype, PtrDType) or len(node.src) < 2:
            continue
        yield from _of_index(node, memory.dtype, users.get(node, []))


def _of_index(node: UOp, memory: PtrDType, users: Sequence[UOp]) -> Iterator[BoundedAccess]:
    _, index, *gates = node.src
    if index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
        gates.append(index.src[0])
        index = index.src[1]
    if index.op is Ops.INVALID or index.bounds is None:
        return
    size = memory.size
    if memory.base.lanes > 1:  # the index counts vectors
        yield BoundedAccess(node, index, 1, tuple(gates), size)
        return
    if not node.dtype.is_pointer:
        lanes = 1 if index.dtype.lanes > 1 else node.dtype.lanes
        yield BoundedAccess(node, index, lanes, tuple(gates), size)
    for user in users:
        value = user if user.op is Ops.LOAD else user.src[1]
        lanes = 1 if index.dtype.lanes > 1 else value.dtype.lanes
        yield BoundedAccess(node, index, lanes, (*gates, *user.src[2:]), size)


def outside(graph: UOp | Sequence[UOp]) -> list[str]:
    """Accesses that certainly leave their buffer, in words."""
    return [
        f"{infix(access.at)} is {narrowed(access.at, access.gates)} in a buffer of {access.size} elements"
        for access in accesses(graph)
        if access.verdict == "outside" and access.size >= 0
    ]


def undecided(graph: UOp | Sequence[UOp]) -> list[BoundedAccess]:
    """Accesses that intervals alone do not prove to be inside."""
    return [access for access in accesses(graph) if access.verdict == "unknown" and access.size >= 0]
