"""The space of actions: its size per target is a fact, and nothing that stage 7 would take is left out beforehand."""

from __future__ import annotations

from functools import partial

import pytest

from planish.optimize.space import actions, amounts, obstacle, overfull, reason_of, table
from planish.stages.rangeify.refusal import Refusal
from planish.stages.rangeify.s07_apply_opts import apply_action, apply_opts
from planish.target import TARGETS
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import Table
from tests.optimize.corpus import CORPUS, matmul

SIZES = {
    "x86-64": 543,
    "x86-64-v3": 641,
    "x86-64-v4": 675,
    "x86-64-vnni": 675,
    "x86-64-amx": 675,
    "aarch64": 543,
    "scalar": 499,
    "dsp": 509,
    "cuda": 576,
}
"""Tensor cores not counted. A change of the space is a decision: searches take longer, or see less."""


def test_the_size_of_the_space_of_each_target() -> None:
    found = {name: len(actions(target)) - len(target.tensor_cores) for name, target in TARGETS.items()}
    assert found == SIZES


def test_no_action_is_there_twice() -> None:
    for target in TARGETS.values():
        assert len(set(actions(target))) == len(actions(target))


def test_every_kind_of_action_is_tried_somewhere() -> None:
    tried = {row.kind for target in TARGETS.values() for row in table(target)}
    assert tried == set(ActionKind)


def test_what_a_target_lacks_is_not_tried() -> None:
    def kinds(name: str) -> set[ActionKind]:
        return {row.kind for row in table(TARGETS[name])}

    assert ActionKind.THREAD not in kinds("scalar") | kinds("dsp") | kinds("cuda")
    assert ActionKind.LOCAL in kinds("cuda") - kinds("x86-64-v4")
    assert ActionKind.TC in kinds("cuda")
    assert ActionKind.PADTO not in kinds("aarch64")
    assert {16, 32, 64} <= set(amounts(TARGETS["x86-64-v4"], ActionKind.UPCAST))
    assert max(amounts(TARGETS["aarch64"], ActionKind.ACCUMULATORS)) == 16


@pytest.mark.parametrize("name", ["x86-64-v4", "cuda"])
@pytest.mark.parametrize("kernel", ["matmul", "elementwise, odd", "softmax", "convolution", "symbolic rows"])
def test_an_obstacle_is_never_in_the_way_of_an_action_that_fits(kernel: str, name: str) -> None:
    target = TARGETS[name]
    with Table() as t:
        sink = CORPUS[kernel](t)
        axes = axes_of(sink)
        stopped = [a for a in actions(target) if obstacle(sink, axes, a, target) is not None]
        assert len(stopped) > len(actions(target)) // 2  # asking stage 7 about all would be slow
        for action in stopped:
            with pytest.raises(Refusal):
                apply_action(sink, action, target)


def test_tiles_that_no_machine_holds_are_overfull() -> None:
    target = TARGETS["x86-64-v4"]
    with Table() as t:
        sink = matmul(t, 64, 64, 64)
        fits = [Action(ActionKind.UPCAST, 1, 32), Action(ActionKind.UPCAST, 0, 8)]
        assert not overfull(apply_opts(sink, fits, target), target)
        large = [Action(ActionKind.UPCAST, 1, 64), Action(ActionKind.UPCAST, 0, 64)]
        assert overfull(apply_opts(sink, large, target), target)


def test_reasons_do_not_depend_on_numbers() -> None:
    one = reason_of("UPCAST: 3 does not divide the 64 of axis 1\nhelp: PADTO 3 first")
    assert (
        one
        == reason_of("UPCAST: 5 does not divide the 32 of axis 0")
        == "UPCAST: n does not divide the n of axis n"
    )


def test_the_whole_space_is_refused_for_reasons() -> None:
    """What stage 7 says can be counted: few different words for many actions."""
    target = TARGETS["x86-64-v4"]
    reasons = set()
    with Table() as t:
        sink = partial(matmul, m=12, n=32, k=20)(t)
        for action in actions(target):
            try:
                apply_action(sink, action, target)
            except Refusal as refusal:
                reasons.add(reason_of(refusal.message))
    assert 5 < len(reasons) < 60
