"""The kernel pipeline, as a table of contents. Stages that are not listed are not built yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.rangeify.s01_early_movement_ops import early_movement_ops
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.uop.node import UOp


class Stage(NamedTuple):
    """One step from graph to graph."""

    number: int
    name: str
    run: Callable[[UOp], UOp]


STAGES: Final = (
    Stage(1, "early movement ops", early_movement_ops),
    Stage(4, "initial symbolic", initial_symbolic),
    Stage(11, "remove reduce", remove_reduce),
    Stage(13, "add loads", add_loads),
    Stage(15, "lower index dtype", lower_index_dtype),
    Stage(18, "decompositions", decompositions),
    Stage(19, "final rewrite", final_rewrite),
    Stage(20, "add control flow", add_control_flow),
)
"""Stage 21 (`linearize`) turns the last graph into a list."""

Observer = Callable[[Stage, UOp], None]
"""Called after every stage with its result."""


def run(sink: UOp, observer: Observer | None = None) -> list[UOp]:
    """A kernel as a linear list of UOps."""
    for stage in STAGES:
        sink = stage.run(sink)
        if observer is not None:
            observer(stage, sink)
    return linearize(sink)
