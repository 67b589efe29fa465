"""The kernel pipeline, as a table of contents: the stages in order, what holds after each, and what may be left out.

    lines = run(sink, machine)              a kernel as a linear program
    for step in steps(sink, machine): …     the same, one stage after the other, with what each one made and how long it took

The settings in force decide what happens at the boundaries: `check="spec"` holds every stage to the spec of its phase,
`debug="ir"` prints, `dump_dir` writes a file per kernel and stage, `disable_stages` leaves optional stages out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from time import perf_counter
from typing import Any, Final, NamedTuple

from planish.actions.base import Action
from planish.config import current
from planish.dtypes import DType
from planish.errors import SettingsError, did_you_mean
from planish.stages.boundaries import Boundaries
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s12_add_gpu_dims import add_gpu_dims
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s14_devectorize import devectorize
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.expander.s08_post_opt_symbolic import post_opt_symbolic
from planish.stages.expander.s09_expander import expand
from planish.stages.expander.s10_add_local_buffers import add_local_buffers
from planish.stages.linearizer.calls import kernel
from planish.stages.linearizer.s16_post_index_symbolic import post_index_symbolic
from planish.stages.linearizer.s17_pre_matcher import pre_matcher
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
from planish.uop.node import Table, UOp
from planish.uop.ops import ESTIMATES, Ops

Choose = Callable[[UOp], Sequence[Action]]
"""Picks the actions for a kernel; handed in, since choosing is not a stage's business."""


class Machine(NamedTuple):
    """What stages are told besides the kernel."""

    target: Target
    choose: Choose


PHASES: Final = {
    1: "kernel",
    9: "unrolled",
    10: "expanded",
    11: "reduced",
    13: "devectorized",
    15: "lowered",
    21: "program",
}
"""From which stage on a kernel has to satisfy which spec (`planish.uop.spec`)."""


@cache
def phase_after(number: int) -> str:
    """The spec that holds after a stage."""
    return PHASES[max(first for first in PHASES if first <= max(number, 1))]


Form = UOp | list[UOp]
"""A kernel on its way: a graph, and from stage 21 on a list of lines."""


class PipelineStage(NamedTuple):
    """One step: from graph to graph up to stage 20, from a graph to lines (21), and from lines to lines."""

    number: int
    name: str
    run: Callable[[Any, Machine], Any]
    matchers: tuple[str, ...] = ()
    """The names of its rule tables, in order of precedence."""
    optional: bool = False
    """Whether a kernel without it is still right."""


def _plain(stage: Callable[[UOp], UOp]) -> Callable[[UOp, Machine], UOp]:
    """A stage that is the same for every machine."""
    return lambda sink, machine: stage(sink)


# fmt: off
STAGES: Final = (
    PipelineStage(1, "early movement ops", _plain(early_movement_ops), ("pm_mops", "pm_syntactic_sugar")),
    PipelineStage(2, "load collapse", _plain(load_collapse), ("pm_load_collapse",), optional=True),
    PipelineStage(3, "split ranges", _plain(split_ranges), ("pm_split_ranges", "pm_flatten_range"), optional=True),
    PipelineStage(4, "initial symbolic", _plain(initial_symbolic), ("sym", "pm_flatten_range"), optional=True),
    PipelineStage(5, "simplify ranges", _plain(simplify_ranges), ("pm_simplify_ranges",), optional=True),
    PipelineStage(6, "split store", lambda sink, machine: sink if machine.target.is_gpu else split_store(sink), ("pm_split_store",), optional=True),
    PipelineStage(7, "apply opts", lambda sink, machine: apply_opts(sink, machine.choose(sink), machine.target), optional=True),
    PipelineStage(8, "post-opt symbolic", lambda sink, machine: post_opt_symbolic(sink, estimates=machine.target.supported_ops >= ESTIMATES), ("sym", "pm_move_where_on_load"), optional=True),
    PipelineStage(9, "expander", lambda sink, machine: expand(sink, warp=machine.target.warp), ("sym", "pm_pre_expander", "expander")),
    PipelineStage(10, "add local buffers", _plain(add_local_buffers), ("pm_add_buffers_local",)),
    PipelineStage(11, "remove reduce", _plain(remove_reduce), ("pm_reduce",)),
    PipelineStage(12, "add GPU dims", lambda sink, machine: add_gpu_dims(sink, machine.target)),
    PipelineStage(13, "add loads", _plain(add_loads), ("pm_add_loads",)),
    PipelineStage(14, "devectorize", lambda sink, machine: devectorize(sink, machine.target), ("load_store_folding", "correct_load_store", "devectorize")),
    PipelineStage(15, "lower index dtype", _plain(lower_index_dtype), ("pm_lower_index_dtype", "load_store_indexing")),
    PipelineStage(16, "post-index symbolic", _plain(post_index_symbolic), ("symbolic",), optional=True),
    PipelineStage(17, "pre-matcher", lambda sink, machine: pre_matcher(sink, machine.target)),
    PipelineStage(18, "decompositions", lambda sink, machine: decompositions(sink, machine.target), ("pm_decomp",)),
    PipelineStage(19, "final rewrite", lambda sink, machine: final_rewrite(sink, machine.target), ("pm_move_gates_from_index", "pm_split_ends")),
    PipelineStage(20, "add control flow", _plain(add_control_flow), ("pm_add_control_flow",)),
)
LINE_STAGES: Final = (
    PipelineStage(21, "linearize", lambda sink, machine: linearize(sink)),
    PipelineStage(22, "clean up if", lambda lines, machine: cleanup_if(lines, predicated_stores=machine.target.predicated_stores), matchers=("pm_linearize_cleanups",)),
)
# fmt: on

Observer = Callable[[PipelineStage, UOp], None]
"""Called after every stage that makes a graph, with it."""


def stages() -> list[PipelineStage]:
    """The stages that the settings leave in, in order."""
    off = disabled(current().disable_stages)
    return [stage for stage in (*STAGES, *LINE_STAGES) if stage.number not in off]


class StageRun(NamedTuple):
    """One stage that has run: what it made, how long it took, and whether that differs from what it was given."""

    stage: PipelineStage
    form: Form
    seconds: float
    changed: bool


PLAIN: Final = Machine(TARGETS["scalar"], lambda sink: ())
"""No vectors, no actions: the loops as they are."""


def disabled(text: str | None) -> frozenset[int]:
    """The numbers of the stages named in the setting `disable_stages`: `load collapse, 6`."""
    left_out: set[int] = set()
    known = {stage.name: stage for stage in (*STAGES, *LINE_STAGES)}
    numbers = {str(stage.number): stage for stage in known.values()}
    for word in (text or "").split(","):
        name = word.strip().replace("_", " ")
        stage = known.get(name) or numbers.get(name)
        if not name:
            continue
        legal = ", ".join(stage.name for stage in known.values() if stage.optional)
        if stage is None:
            close = did_you_mean(name, known)
            hint = "" if close is None else f"did you mean {close!r}? "
            raise SettingsError(f"there is no stage {name!r}", remedy=f"{hint}may be left out: {legal}")
        if not stage.optional:
            raise SettingsError(
                f"stage {stage.number} ({stage.name}) cannot be left out: later stages need what it does",
                remedy=f"may be left out: {legal}",
            )
        left_out.add(stage.number)
    return frozenset(left_out)


def steps(sink: UOp, machine: Machine = PLAIN, name: str = "kernel") -> Iterator[StageRun]:
    """Run a kernel through the stages, one at a time; `name` is what dumps and errors call it."""
    boundaries = Boundaries(current(), name, sink)
    form: Form = sink
    for stage in stages():
        before, started = form, perf_counter()
        form = stage.run(before, machine)
        seconds = perf_counter() - started
        boundaries.passed(stage.number, stage.name, phase_after(stage.number), form, before)
        same = form is before or (isinstance(form, list) and isinstance(before, list) and form == before)
        yield StageRun(stage, form, seconds, not same)


def function_lines(op: Ops, dtype: DType, table: Table, target: Target) -> list[UOp]:
    """The linear list of a function that kernels call."""
    sink = decompositions(kernel(op, dtype, table), target, calls=False)
    sink = add_control_flow(final_rewrite(sink, target))
    return cleanup_if(linearize(sink), predicated_stores=target.predicated_stores)


def run(
    sink: UOp, machine: Machine = PLAIN, observer: Observer | None = None, name: str = "kernel"
) -> list[UOp]:
    """A kernel as a linear list of UOps."""
    form: Form = [sink]
    for step in steps(sink, machine, name):
        form = step.form
        if observer is not None and isinstance(form, UOp):
            observer(step.stage, form)
    return form if isinstance(form, list) else [form]
