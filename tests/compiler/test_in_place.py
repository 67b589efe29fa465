"""A kernel that writes over what it reads is never given a schedule that writes an output twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from planish import compiler, ptir
from planish.actions.base import Action
from planish.actions.block import Block
from planish.actions.text import kinds
from planish.compiler import scheduling
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp
from tests.optimize.corpus import matmul

V4 = TARGETS["x86-64-v4"]


def test_block_does_not_fit_in_place() -> None:
    with Table() as t:
        sink = matmul(t, 8, 16, 8)
        block = Block("k", 2)
        assert attempts(V4)(sink, block, ()) is not None
        assert attempts(V4, in_place=True)(sink, block, ()) is None


def test_the_compiler_tells_which_kernels_work_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    usual = scheduling.choose

    def watched(sink: UOp, target: Target, *, in_place: bool, streams: bool) -> scheduling.ScheduleChoice:
        told.append(in_place)
        return usual(sink, target, in_place=in_place, streams=streams)

    monkeypatch.setattr(scheduling, "choose", watched)
    monkeypatch.setattr(
        "planish.compiler.lowering.is_worth_sharing", lambda *_: 1
    )  # in other processes nobody watches
    g = ptir.Graph("residual")
    a, b, c, d, e = (g.input(n, ptir.tensor("f32", s)) for n, s in _inputs())
    residual = a.matmul(b)
    hidden = residual.exp().add(residual.matmul(c).matmul(e))
    low = compiler.lower(g.build(hidden.matmul(d)), V4)
    assert told == [bool(slots) for slots in low.sharing.aliased]
    assert any(told)


def _inputs() -> Sequence[tuple[str, tuple[int, int]]]:
    return (("a", (24, 32)), ("b", (32, 48)), ("c", (48, 64)), ("d", (48, 8)), ("e", (64, 48)))


def test_what_was_tried_is_not_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever chooses tries each action; stage 7 takes what came out."""
    applied: list[tuple[UOp, object]] = []

    def watched(apply: Callable[[Action, UOp, Target], UOp]) -> Callable[[Action, UOp, Target], UOp]:
        def call(action: Action, sink: UOp, target: Target) -> UOp:
            made = apply(action, sink, target)  # or it is refused
            applied.append((sink, action))
            return made

        return call

    for kind in kinds().values():
        monkeypatch.setattr(kind, "apply", watched(kind.apply))
    g = ptir.Graph("product")
    x, y = (g.input(name, ptir.tensor("f32", (64, 64))) for name in "xy")
    (choice,) = compiler.lower(g.build(x.matmul(y)), V4).choices
    assert choice.actions
    assert len(applied) == len(set(applied)) >= len(choice.actions)
