"""Templates for CPUs, and machines like them.

1. **Lanes.** Of every store, the axis along which it is contiguous, if what is read moves by 0 or 1 along it. A reduction
   over something contiguous whose outputs are not (rows of a matrix) gets its lanes on the reduced axis instead, with
   accumulators of their own. A length that no vector divides is padded where the machine masks lanes.
2. **Register tiles.** If a reduction runs inside of the lanes (a contraction), several vectors of lanes and several of
   an output axis that some operand does not depend on, as many as there are registers for (`contraction.py`).
   Columns that are reduced each by itself are taken several vectors wide, in blocks of rows (`lanes.py`).
   **Moves and scans.** Layouts that disagree are turned in squares of registers (`movement.py`); a scan along lanes makes
   running sums of whole vectors.
3. **Cores.** The outermost axis that all stores run over, in pieces of enough work each (`cores.py`).

Those are taken axis by axis, in the ways of `_WAYS`; kernels of one kind have templates of their own beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from planish.actions.upcast import Upcast
from planish.optimize.contraction import contract
from planish.optimize.convolution import contractions
from planish.optimize.cores import share_among_cores
from planish.optimize.draft import Draft
from planish.optimize.lanes import (
    align_rows,
    columns_of,
    fills_none,
    following_rows,
    lanes_along,
    leave_out_masked,
    reduce_in_columns,
    reduce_in_lanes,
    rows_in_lanes,
    scan_in_lanes,
    take_lanes,
    vector_axes,
)
from planish.optimize.movement import contiguous_elsewhere, sum_in_squares, summed_square, turn
from planish.optimize.rows import blocks_of_rows
from planish.optimize.streaming import streams
from planish.optimize.templates import Candidate, Template
from planish.optimize.tensor_cores import with_tensor_cores
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp


class _LaneChoice(NamedTuple):
    """How axes go into lanes."""

    name: str
    outputs: bool = False
    """Along outputs, also where what is reduced is contiguous and they are not."""
    columns: bool = True
    """What is reduced in columns in blocks of rows, not in register tiles."""
    squares: bool = True
    """What is read along another axis than it is written in squares of registers."""
    sums: bool = False
    """Sums of what lies otherwise in squares of registers."""
    together: bool = False
    """Rows that are shorter than a vector together with those that follow them."""
    padded: bool = True
    """What is shorter than a vector, and no part of one, in a vector that it does not fill."""

    def differs(self, draft: Draft, nest: Nest, vectors: Sequence[UOp]) -> bool:
        """Whether it is another way than plain lanes for a kernel that has these axes in lanes."""
        if self.sums:
            return any(summed_square(nest, reduction) is not None for reduction in nest.reductions)
        if self.together:
            return any(following_rows(draft.target, nest, axis) is not None for axis in _free(nest, vectors))
        if not self.padded:
            return any(fills_none(draft.target, nest, axis) for axis in vectors)
        if self.outputs:
            return vector_axes(nest, every=True) != list(vectors)
        if not self.columns:
            return any(columns_of(nest, axis, _reductions_of(nest, axis)) for axis in vectors)
        if not self.squares:
            return any(contiguous_elsewhere(nest, axis) is not None for axis in _free(nest, vectors))
        return True


_WAYS: Final = (
    _LaneChoice("lanes over several rows", together=True),
    _LaneChoice("lanes of whole vectors", padded=False),
    _LaneChoice("lanes"),
    _LaneChoice("sums in squares", sums=True),
    _LaneChoice("lanes along outputs", outputs=True),
    _LaneChoice("columns in register tiles", columns=False),
    _LaneChoice("lanes of elements that are apart", squares=False),
)


def _reductions_of(nest: Nest, axis: UOp) -> list[UOp]:
    """The reductions that are made for each element of an axis."""
    return [r for r in nest.reductions if axis in r.ranges]


def _free(nest: Nest, vectors: Sequence[UOp]) -> list[UOp]:
    """Those along which nothing is reduced or scanned."""
    return [axis for axis in vectors if not _reductions_of(nest, axis) and not nest.scans]


def axis_by_axis(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """The ways to put axes into lanes, whatever the kernel."""
    vectors = vector_axes(nest)
    for way in _WAYS:
        if way.differs(draft, nest, vectors):
            yield Candidate(way.name, partial(_in_lanes, nest=nest, way=way))


def _in_lanes(draft: Draft, nest: Nest, way: _LaneChoice) -> bool:
    squared = [r for r in nest.reductions if way.sums and sum_in_squares(draft, nest, r)]
    if way.sums and not squared:
        return False
    vectors = [
        axis
        for axis in vector_axes(nest, every=way.outputs)
        if not any(axis in reduction.ranges for reduction in squared)
        and (way.padded or not fills_none(draft.target, nest, axis))
    ]
    for axis in vectors:
        if inner := _reductions_of(nest, axis):
            if not (way.columns and reduce_in_columns(draft, nest, axis, inner)):
                contract(draft, nest, axis, inner)
        elif way.together and (rows := following_rows(draft.target, nest, axis)) is not None:
            if not rows_in_lanes(draft, nest, axis, rows):
                return False
        elif not scan_in_lanes(draft, nest, axis) and not (way.squares and turn(draft, nest, axis)):
            lanes = lanes_along(draft.target, nest, axis)
            align_rows(draft, nest, axis, lanes)
            take_lanes(draft, axis, Upcast, lanes, least=4)
    for reduction in nest.reductions:
        if reduction not in squared and not any(axis in reduction.ranges for axis in vectors):
            reduce_in_lanes(draft, nest, reduction)
    return True


CPU: Final[Sequence[Template]] = (
    with_tensor_cores,
    blocks_of_rows,
    contractions,
    streams,
    axis_by_axis,
)


def finish(draft: Draft, nest: Nest) -> None:
    """What every schedule ends with: pieces for cores, and loops that end where a mask hides the rest."""
    if draft.cores:
        share_among_cores(draft, nest)
    leave_out_masked(draft, nest)
