"""Actions for common kernels, chosen by looking at indices; nothing is measured.

Whether an action fits is not decided here: every step is tried by `attempt`, which stage 7 stands behind, and what is refused
is left out. So no choice is ever illegal, whatever the kernel; the rules only say what is worth trying: `cpu.py` for CPUs and
machines like them, `gpu` for GPUs.
"""

from __future__ import annotations

from planish.actions.base import Action
from planish.optimize.cores import share_among_cores
from planish.optimize.cpu import for_cpu
from planish.optimize.draft import Attempt, Draft
from planish.optimize.gpu.choose import for_gpu
from planish.optimize.lanes import leave_out_masked
from planish.target import Parallel, Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp


def choose(sink: UOp, target: Target, attempt: Attempt, *, cores: bool = True) -> list[Action]:
    """Actions for a kernel whose views are resolved; `cores`: whether it may be cut into pieces for several."""
    return drafted(sink, target, attempt, cores=cores).actions


def drafted(sink: UOp, target: Target, attempt: Attempt, *, cores: bool = True) -> Draft:
    """The same with the reasons, and the kernel as the actions leave it."""
    draft = Draft(sink, target, attempt, cores=cores and target.parallel is Parallel.CORES)
    view = Nest.of(sink)
    if not view.writes:
        return draft
    if target.is_gpu:
        for_gpu(draft, view)
    else:
        for_cpu(draft, view)
        if draft.cores:
            share_among_cores(draft, view)
        leave_out_masked(draft, view)
    return draft
