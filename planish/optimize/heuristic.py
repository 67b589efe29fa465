"""Actions for common kernels, chosen by looking at indices; nothing is measured.

Whether an action fits is not decided here: every step is tried by `attempt`, which stage 7 stands behind, and what is refused
is left out. So no choice is ever illegal, whatever the kernel; templates only say what is worth trying: `cpu.py` lists them for CPUs and
machines like them, `gpu` for GPUs, and `templates.py` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planish.actions.base import Action
from planish.optimize.cost import estimate
from planish.optimize.cpu import CPU, finish
from planish.optimize.draft import Attempt, Draft
from planish.optimize.stand_in import named_axes, replay, stand_in, watched
from planish.optimize.templates import Finish, Template, choose_best, every_candidate, only
from planish.optimize.why import Rival
from planish.target import Parallel, Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_AS_IT_IS: Final = only("loops as they are", lambda draft, nest: True)


def choose(sink: UOp, target: Target, attempt: Attempt, *, cores: bool = True) -> list[Action]:
    """Actions for a kernel whose views are resolved; `cores`: whether it may be cut into pieces for several."""
    return drafted(sink, target, attempt, cores=cores).actions


def drafted(sink: UOp, target: Target, attempt: Attempt, *, cores: bool = True) -> Draft:
    """The same with the reasons, and the kernel as the actions leave it."""
    draft = Draft(sink, target, attempt, cores=cores and target.parallel is Parallel.CORES)
    nest = Nest.of(sink)
    if not nest.writes:
        return draft
    as_fixed = None
    if not target.is_gpu and (named := named_axes(sink)):
        as_fixed, fits = _as_of_fixed_sizes(draft, sink, named)
        if as_fixed is not None and fits:
            return as_fixed
    choose_best(draft, nest, *_templates(target, nest))
    if as_fixed is None:
        return draft
    threads = target.workers if draft.cores else 1
    cycles = [estimate(each.sink, target, threads=threads).cycles for each in (draft, as_fixed)]
    return as_fixed if cycles[1] < cycles[0] else draft


def _as_of_fixed_sizes(draft: Draft, sink: UOp, named: Mapping[str, int]) -> tuple[Draft | None, bool]:
    """What is chosen for a kernel of fixed sizes in place of one with named ones, done to that one, and whether all of it fits."""
    target, attempt, fixed = draft.target, draft.attempt, stand_in(sink)
    if fixed is None:
        return None, False
    trial = Draft(fixed, target, watched(attempt, named), cores=draft.cores, named=named)
    nest = Nest.of(fixed)
    if not choose_best(trial, nest, *_templates(target, nest)):
        return None, False
    general = Draft(sink, target, attempt, cores=draft.cores, template=trial.template, refused=trial.refused)
    return general, replay(general, trial.actions, trial.reasons, named)


def rivals(sink: UOp, target: Target, attempt: Attempt, threads: int | None = None) -> list[Rival]:
    """All that templates offer for a kernel, the cheapest first."""
    draft = Draft(sink, target, attempt, cores=target.parallel is Parallel.CORES)
    nest = Nest.of(sink)
    if not nest.writes:
        return []
    by_sink = {
        trial.sink: Rival(name, tuple(trial.actions), estimate(trial.sink, target, threads=threads))
        for name, trial in every_candidate(draft, nest, *_templates(target, nest))
    }
    return sorted(by_sink.values(), key=lambda each: each.cost.cycles)


def _templates(target: Target, nest: Nest) -> tuple[Sequence[Template], Finish]:
    if target.is_gpu:
        from planish.optimize.gpu.choose import GPU  # a CPU does not wait for it

        return GPU, lambda draft: None
    # without vectors there is nothing to choose but the pieces
    return CPU if target.register_bytes > 1 else (_AS_IT_IS,), lambda draft: finish(draft, nest)
