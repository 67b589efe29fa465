"""The space of actions: its size per target is a fact, and nothing that stage 7 would take is left out beforehand."""

from __future__ import annotations

from functools import partial

import pytest

from planish import dtypes
from planish.actions.accumulators import Accumulators
from planish.actions.base import Action, Refusal, apply_action
from planish.actions.chain import Chained
from planish.actions.join import Join
from planish.actions.local import Local
from planish.actions.online import Online
from planish.actions.pad_to import PadTo
from planish.actions.spare import Spare
from planish.actions.tensor_core import TensorCore
from planish.actions.text import kinds
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.config import settings
from planish.optimize.space import AXES, actions, amounts, candidates, obstacle, overfull, reason_of, table
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of, name_of
from planish.uop.node import Table, UOp
from planish.uop.ops import axis_name
from tests.optimize.corpus import CORPUS, matmul

SIZES = {
    "x86-64": 551,
    "x86-64-v3": 649,
    "x86-64-v4": 683,
    "x86-64-vnni": 683,
    "x86-64-bf16": 683,
    "x86-64-amx": 683,
    "aarch64": 551,
    "scalar": 507,
    "dsp": 517,
    "cuda": 586,
    "sm_80": 586,
    "sm_90": 586,
}
"""Tensor cores not counted. A change of the space is a decision: searches take longer, or see less."""


NAMES = [axis_name((number,)) for number in range(AXES)]


def space(target: Target) -> list[Action]:
    """All that is tried on a kernel of so many axes."""
    return list(actions(target, NAMES))


def test_the_size_of_the_space_of_each_target() -> None:
    assert {name: len(space(target)) for name, target in TARGETS.items()} == SIZES


def test_no_action_is_there_twice() -> None:
    for target in TARGETS.values():
        assert len(set(space(target))) == len(space(target))


def test_every_kind_of_action_is_tried_somewhere() -> None:
    tried = {type(action) for target in TARGETS.values() for action in space(target)}
    # what templates of tensor cores alone make sense of
    assert tried == set(kinds().values()) - {TensorCore, Join, Online, Chained, Spare}


def test_tensor_cores_are_tried_where_they_fit() -> None:
    with Table() as t:
        half = matmul(t, 32, 32, 32, dtype=dtypes.bfloat16)
        found = [a for a in candidates(half, TARGETS["cuda"]) if isinstance(a, TensorCore)]
        assert found
        with settings(fastmath=True):
            assert all(isinstance(apply_action(half, a, TARGETS["cuda"]), UOp) for a in found)


def test_what_a_target_lacks_is_not_tried() -> None:
    def tried(name: str) -> set[type[Action]]:
        return {row.kind for row in table(TARGETS[name])}

    assert Thread not in tried("scalar") | tried("dsp") | tried("cuda")
    assert Local in tried("cuda") - tried("x86-64-v4")
    assert PadTo not in tried("aarch64")
    assert {16, 32, 64} <= set(amounts(TARGETS["x86-64-v4"], Upcast))
    assert max(amounts(TARGETS["aarch64"], Accumulators)) == 16


@pytest.mark.parametrize("name", ["x86-64-v4", "cuda"])
@pytest.mark.parametrize("kernel", ["matmul", "elementwise, odd", "softmax", "convolution", "symbolic rows"])
def test_an_obstacle_is_never_in_the_way_of_an_action_that_fits(kernel: str, name: str) -> None:
    target = TARGETS[name]
    with Table() as t:
        sink = CORPUS[kernel](t)
        axes = {name_of(r): r for r in axes_of(sink)}
        tried = list(candidates(sink, target))
        stopped = [a for a in tried if obstacle(axes, a) is not None]
        assert len(stopped) > len(tried) // 4  # asking stage 7 about all would be slow
        for action in stopped:
            with pytest.raises(Refusal):
                apply_action(sink, action, target)


def test_tiles_that_no_machine_holds_are_overfull() -> None:
    target = TARGETS["x86-64-v4"]
    with Table() as t:
        sink = matmul(t, 64, 64, 64)
        assert not overfull(apply_opts(sink, [Upcast("j", 32), Upcast("i", 8)], target), target)
        assert overfull(apply_opts(sink, [Upcast("j", 64), Upcast("i", 64)], target), target)


def test_reasons_do_not_depend_on_numbers_and_names() -> None:
    one = reason_of("upcast: 3 does not divide the 64 of axis j\nhelp: pad_to(j, 3) first")
    assert (
        one
        == reason_of("upcast: 5 does not divide the 32 of axis i.outer")
        == "upcast: n does not divide the n of axis n"
    )
    assert reason_of("swap: axes i and k.inner are LOOP and REDUCE") == "swap: axes n are LOOP and REDUCE"
    assert reason_of("stage: the kernel does not read arg3") == "stage: the kernel does not read n"


def test_the_whole_space_is_refused_for_reasons() -> None:
    """What stage 7 says can be counted: few different words for many actions."""
    target = TARGETS["x86-64-v4"]
    reasons = set()
    with Table() as t:
        sink = partial(matmul, m=12, n=32, k=20)(t)
        for action in candidates(sink, target):
            try:
                apply_action(sink, action, target)
            except Refusal as refusal:
                reasons.add(reason_of(refusal.message))
    assert 5 < len(reasons) < 60
