"""Actions for CPUs, and machines like them, in order, unless a tensor core does the work.

1. **Lanes.** Of every store, the axis along which it is contiguous, if what is read moves by 0 or 1 along it. A reduction
   over something contiguous whose outputs are not (rows of a matrix) gets its lanes on the reduced axis instead, with
   accumulators of their own. A length that no vector divides is padded where the machine masks lanes.
2. **Register tiles.** If a reduction runs inside of the lanes (a contraction), several vectors of lanes and several of
   an output axis that some operand does not depend on, as many as there are registers for (`contraction.py`).
3. **Cores.** The outermost axis that all stores run over, in pieces of enough work each (`cores.py`).
"""

from __future__ import annotations

from planish.optimize.contraction import contract
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View
from planish.optimize.lanes import lanes_along, reduce_in_lanes, take_lanes, vector_axes
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.actions import ActionKind


def for_cpu(draft: Draft, view: View) -> None:
    if draft.target.register_bytes == 1:
        return  # no vectors
    if use_tensor_core(draft):
        return
    vectors = vector_axes(view)
    for axis in vectors:
        inner = [r for r in view.reductions if axis in r.ranges]
        if inner:
            contract(draft, view, axis, inner)
        else:
            take_lanes(draft, axis, ActionKind.UPCAST, lanes_along(draft.target, view, axis), least=4)
    for reduction in view.reductions:
        if not any(axis in reduction.ranges for axis in vectors):
            reduce_in_lanes(draft, view, reduction)
