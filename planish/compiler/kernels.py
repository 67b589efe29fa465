"""One kernel by itself: from stage 7 to LLIR with a list of actions, as the schedule search wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.compiler.functions import with_functions
from planish.config import current
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.streaming import with_streaming
from planish.stages import pipeline
from planish.stages.linearizer.s21_linearize import linearize
from planish.target import Target
from planish.uop.actions import Action
from planish.uop.node import UOp

FIRST: Final = 7
"""The stage that applies actions."""


def after_choice(sink: UOp, actions: Sequence[Action], target: Target, name: str = "kernel") -> Program:
    """A kernel that has come to stage 7, with these actions. Its large results stream by, as those of a function do."""
    machine = pipeline.Machine(target, lambda kernel: actions)
    off = pipeline.disabled(current().disable_stages)
    for stage in pipeline.STAGES:
        if stage.number >= FIRST and stage.number not in off:
            sink = stage.run(sink, machine)
    lines = linearize(sink)
    for line_stage in pipeline.LINE_STAGES:
        if line_stage.number not in off:
            lines = line_stage.run(lines, machine)
    program = with_functions(lower_to_llir(name, lines), target)
    large = target.streamed_bytes
    return with_streaming(program, target, [b.name for b in program.params if large and b.nbytes >= large])
