"""Trying an action of stage 7: the kernel after it, or nothing if it is refused. Whoever chooses actions is handed this."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish.actions.align import Align
from planish.actions.base import Action, Refusal, apply_action
from planish.actions.block import Block
from planish.actions.shift_inwards import ShiftInwards
from planish.target import Target
from planish.uop.node import UOp


def attempts(
    target: Target, *, in_place: bool = False, streams: bool = True
) -> Callable[[UOp, Action, Sequence[Action]], UOp | None]:
    """For a target: a kernel, an action and those before it -> the kernel after it, None if it does not fit.

    A kernel that works `in_place` writes each output over an operand that it reads at that element: it may do so once, so
    `block`, whose passes write the outputs again and again, and `shift_inwards`, which writes some of them twice, do not fit. Only where outputs stream (`streams`) past the caches do
    whole lines matter: elsewhere `align` is nothing but masks.
    """
    left_out = (*((Block, ShiftInwards) if in_place else ()), *(() if streams else (Align,)))

    def attempt(sink: UOp, action: Action, before: Sequence[Action]) -> UOp | None:
        if isinstance(action, left_out):
            return None
        try:
            return apply_action(sink, action, target, before)
        except Refusal:
            return None

    return attempt
