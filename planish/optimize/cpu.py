"""Actions for CPUs, and machines like them, in order, unless a tensor core does the work.

1. **Lanes.** Of every store, the axis along which it is contiguous, if what is read moves by 0 or 1 along it. A reduction
   over something contiguous whose outputs are not (rows of a matrix) gets its lanes on the reduced axis instead, with
   accumulators of their own. A length that no vector divides is padded where the machine masks lanes.
2. **Register tiles.** If a reduction runs inside of the lanes (a contraction), several vectors of lanes and several of
   an output axis that some operand does not depend on, as many as there are registers for (`contraction.py`).
   Columns that are reduced each by itself are taken several vectors wide, in blocks of rows (`lanes.py`).
   **Moves and scans.** Layouts that disagree are turned in squares of registers (`movement.py`); a scan along lanes makes
   running sums of whole vectors.
3. **Cores.** The outermost axis that all stores run over, in pieces of enough work each (`cores.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.actions.upcast import Upcast
from planish.optimize.candidates import Template
from planish.optimize.contraction import contract
from planish.optimize.convolution import contract_any
from planish.optimize.draft import Draft
from planish.optimize.lanes import (
    align_rows,
    lanes_along,
    reduce_in_columns,
    reduce_in_lanes,
    scan_in_lanes,
    take_lanes,
    vector_axes,
)
from planish.optimize.movement import turn
from planish.optimize.rows import block_rows
from planish.optimize.streaming import stream
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.nest.kernel import Nest

_WHOLE: Final[Sequence[Template]] = (
    lambda draft, view: use_tensor_core(draft),
    block_rows,
    contract_any,
    stream,
)
"""Templates for kernels of one kind: no two fit the same. Of a contraction there are several, among which the cost model chooses."""


def for_cpu(draft: Draft, view: Nest) -> None:
    if draft.target.register_bytes == 1:
        return  # no vectors
    if any(template(draft, view) for template in _WHOLE):
        return
    vectors = vector_axes(view)
    for axis in vectors:
        inner = [r for r in view.reductions if axis in r.ranges]
        if inner:
            if not reduce_in_columns(draft, view, axis, inner):
                contract(draft, view, axis, inner)
        elif not scan_in_lanes(draft, view, axis) and not turn(draft, view, axis):
            lanes = lanes_along(draft.target, view, axis)
            align_rows(draft, view, axis, lanes)
            take_lanes(draft, axis, Upcast, lanes, least=4)
    for reduction in view.reductions:
        if not any(axis in reduction.ranges for axis in vectors):
            reduce_in_lanes(draft, view, reduction)
