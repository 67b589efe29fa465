"""What choosing a schedule has to know of a kernel: its loops, how indices move along them, how much there is to do."""

from __future__ import annotations

from dataclasses import field
from math import prod
from typing import cast

from planish.dtypes import AddrSpace, PtrDType
from planish.records import dataclass
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.strides import stride


def work_of(node: UOp) -> int:
    """How many iterations the nest of a node has that closes loops."""
    own = {r for listed in node.src[1:] for r in listed.ranges}
    return prod(max(r.vmax + 1, 1) for r in own | node.src[0].ranges)


def _index_of(place: UOp) -> UOp | None:
    """Where in its buffer a place is, the gate left out."""
    indices = [index for index in place.src[1:] if not index.dtype.is_bool]
    if len(indices) != 1:
        return None
    (index,) = indices
    while index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
        index = index.src[1]
    return index


def _is_global(place: UOp) -> bool:
    memory = place.src[0].dtype
    return isinstance(memory, PtrDType) and memory.space is AddrSpace.GLOBAL


@dataclass(slots=True)
class View:
    """One kernel."""

    sink: UOp
    writes: list[UOp] = field(init=False)
    """The places written in parameters."""
    reads: list[UOp] = field(init=False)
    """The places read, in parameters and in what the kernel keeps."""
    reductions: list[UOp] = field(init=False)
    scans: list[UOp] = field(init=False)
    outputs: list[UOp] = field(init=False)
    """Sequential axes that are not reduced, outermost first."""
    rows: list[UOp] = field(init=False)
    """Those of them along which the kernel keeps a value in memory of its own."""
    _strides: dict[tuple[UOp, UOp], int | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.sink.toposort()
        stored = [n.src[0] for n in nodes if n.op is Ops.STORE and n.src[0].op is Ops.INDEX]
        self.writes = [place for place in stored if _is_global(place)]
        self.reads = [n for n in nodes if n.op is Ops.INDEX and n not in set(stored) and len(n.src) > 1]
        self.reductions = [n for n in nodes if n.op is Ops.REDUCE]
        self.scans = [n for n in nodes if n.op is Ops.SCAN]
        axes = [n for n in nodes if n.op is Ops.RANGE]
        kept = [n for n in nodes if n.op is Ops.BUFFERIZE]
        self.rows = [r for r in axes if any(r in n.src[FIRST_RANGE[Ops.BUFFERIZE] :] for n in kept)]
        loops = [r for r in axes if kind_of(r) in {AxisType.LOOP, AxisType.GLOBAL}]
        self.outputs = sorted(loops, key=lambda r: cast("Axis", r.arg).path)

    def stride(self, place: UOp, axis: UOp) -> int | None:
        """By how much the index of a place grows with an axis; None if that is not one number."""
        key = place, axis
        if key not in self._strides:
            index = _index_of(place)
            if index is None:
                self._strides[key] = None if any(axis in i.ranges for i in place.src[1:]) else 0
            else:
                self._strides[key] = stride(index, axis)
        return self._strides[key]

    def inside(self, reduction: UOp) -> list[UOp]:
        """What a reduction reads."""
        below = set(reduction.toposort())
        return [place for place in self.reads if place in below]

    @property
    def work(self) -> int:
        """How many iterations the largest nest has: what it takes to run the kernel, roughly."""
        most = 1
        for node in self.sink.toposort():
            if node.op in FIRST_RANGE:
                most = max(most, work_of(node))
        return most
