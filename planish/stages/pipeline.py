"""The kernel pipeline, as a table of contents. Stages that are not listed are not built yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s14_devectorize import devectorize
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.expander.s08_post_opt_symbolic import post_opt_symbolic
from planish.stages.expander.s09_expander import expand
from planish.stages.linearizer.s16_post_index_symbolic import post_index_symbolic
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.linearizer.s22_cleanup_if import cleanup_if
from planish.stages.rangeify.s01_early_movement_ops import early_movement_ops
from planish.stages.rangeify.s02_load_collapse import load_collapse
from planish.stages.rangeify.s03_split_ranges import split_ranges
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s05_simplify_ranges import simplify_ranges
from planish.stages.rangeify.s06_split_store import split_store
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.actions import Action
from planish.uop.node import UOp

Choose = Callable[[UOp], Sequence[Action]]
"""Picks the actions for a kernel; handed in, since choosing is not a stage's business."""


class Machine(NamedTuple):
    """What stages are told besides the kernel."""

    target: Target
    choose: Choose


class Stage(NamedTuple):
    """One step from graph to graph."""

    number: int
    name: str
    run: Callable[[UOp, Machine], UOp]


def _plain(stage: Callable[[UOp], UOp]) -> Callable[[UOp, Machine], UOp]:
    """A stage that is the same for every machine."""
    return lambda sink, machine: stage(sink)


STAGES: Final = (
    Stage(1, "early movement ops", _plain(early_movement_ops)),
    Stage(2, "load collapse", _plain(load_collapse)),
    Stage(3, "split ranges", _plain(split_ranges)),
    Stage(4, "initial symbolic", _plain(initial_symbolic)),
    Stage(5, "simplify ranges", _plain(simplify_ranges)),
    Stage(6, "split store", _plain(split_store)),
    Stage(7, "apply opts", lambda sink, machine: apply_opts(sink, machine.choose(sink))),
    Stage(8, "post-opt symbolic", _plain(post_opt_symbolic)),
    Stage(9, "expander", _plain(expand)),
    Stage(11, "remove reduce", _plain(remove_reduce)),
    Stage(13, "add loads", _plain(add_loads)),
    Stage(14, "devectorize", lambda sink, machine: devectorize(sink, machine.target)),
    Stage(15, "lower index dtype", _plain(lower_index_dtype)),
    Stage(16, "post-index symbolic", _plain(post_index_symbolic)),
    Stage(18, "decompositions", _plain(decompositions)),
    Stage(19, "final rewrite", _plain(final_rewrite)),
    Stage(20, "add control flow", _plain(add_control_flow)),
)
"""Stage 21 (`linearize`) turns the last graph into a list, stage 22 (`cleanup_if`) branches around gated stores."""

Observer = Callable[[Stage, UOp], None]
"""Called after every stage with its result."""


PLAIN: Final = Machine(TARGETS["scalar"], lambda sink: ())
"""No vectors, no actions: the loops as they are."""


def run(sink: UOp, machine: Machine = PLAIN, observer: Observer | None = None) -> list[UOp]:
    """A kernel as a linear list of UOps."""
    for stage in STAGES:
        sink = stage.run(sink, machine)
        if observer is not None:
            observer(stage, sink)
    return cleanup_if(linearize(sink))
