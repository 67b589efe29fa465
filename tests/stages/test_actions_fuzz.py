"""No sequence of actions changes a result: random kernels, random sequences; and mistakes in actions are found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, cast

import numpy as np
import pytest

from planish import dtypes
from planish.actions import padding
from planish.actions.accumulators import Accumulators
from planish.actions.align import Align
from planish.actions.base import Action, OneAxis, Refusal, apply_action
from planish.actions.block import Block
from planish.actions.claim import Claim
from planish.actions.group import Group
from planish.actions.hold import Hold
from planish.actions.join import Join
from planish.actions.lanes import Lanes
from planish.actions.limit import Limit
from planish.actions.local import Local
from planish.actions.no_locals import NoLocals
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.peel import Peel
from planish.actions.prefix import Prefix
from planish.actions.relay import Relay
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.spare import Spare
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.swap import Swap
from planish.actions.tensor_core import TensorCore
from planish.actions.text import parse_schedule
from planish.actions.thread import Thread
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.config import settings
from planish.stages import pipeline
from planish.stages.devectorizer import s12_add_gpu_dims
from planish.stages.expander import s10_add_local_buffers
from planish.stages.rangeify import s07_apply_opts
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS, Target, host
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import substitute
from tests.placed import Action as Placed
from tests.placed import ActionKind
from tests.stages.fuzz_actions import (
    CPUS,
    EVERY,
    GPUS,
    KERNELS,
    KINDS,
    SMALL_GPU,
    Kind,
    Mistake,
    contents,
    fuzz,
    native_results,
    results,
    two_stores,
)
from tests.stages.memory_kernels import crossed

CUDA = TARGETS["cuda"]


def host_runs(target: Target) -> bool:
    """Whether this machine has vectors as long as those of a target."""
    return target.register_bytes <= host().register_bytes


def test_a_sample_of_sequences_keeps_results() -> None:
    counts: Counter[Kind] = Counter()
    found = [fuzz(seed, counts=counts) for seed in range(500, 610)]
    # what fits few kernels, where it does, and what changes loops before and after
    kernels = ("multiplied rows", "masked attention", "triangle", "ragged rows", "matmul", "cumsum rows")
    rare = (Hold, Limit, Block, Prefix)
    chosen = (*rare, *rare, Upcast, Unroll, Split, Thread, Join)
    for seed in range(40):
        found.append(fuzz(seed, kernels=kernels, targets=CPUS, chosen=chosen, tries=20, counts=counts))
    for seed in range(12):
        found.append(
            fuzz(seed, kernels=("scatter",), targets=GPUS, chosen=(Claim, Local), tries=20, counts=counts)
        )
    for seed in range(12):
        beside = (Spare, Spare, Upcast, Split, Local, Unroll)
        found.append(fuzz(seed, kernels=("vector product",), chosen=beside, tries=8, counts=counts))
    mistakes = [str(mistake) for mistake in found if mistake is not None]
    assert not mistakes, "\n".join(mistakes)
    # the sample is worth something: nearly every action was applied
    assert len(counts) >= len(KINDS) - 1, counts


def test_a_sample_of_sequences_keeps_results_in_machine_code() -> None:
    targets = tuple(target for target in CPUS if host_runs(target))
    mistakes = [
        str(m) for seed in range(40) if (m := fuzz(seed, targets=targets, run=native_results)) is not None
    ]
    assert not mistakes, "\n".join(mistakes)


def test_tensor_cores_keep_results() -> None:
    chosen = (TensorCore,) * 6 + (Upcast, Local, Split, Stage)
    counts: Counter[Kind] = Counter()
    for seed in range(4):
        mistake = fuzz(seed, kernels=("half matmul",), targets=(CUDA,), chosen=chosen, tries=6, counts=counts)
        assert mistake is None, str(mistake)
    assert counts[TensorCore] >= 2


WARP_TILES: Final = replace(TARGETS["sm_80"], name="sm_80 with few threads", block_threads=128)
TILED: Final = (Split, Local, Local, Stage, Stage, Stage, Upcast, Unroll, PadTo)


def tiled(seed: int, counts: Counter[Kind] | None = None) -> Mistake | None:
    """Tiles that threads share: rings, turned, swizzled, of tensor cores too."""
    if seed % 3:
        return fuzz(
            seed,
            kernels=("matmul", "two stores"),
            targets=(WARP_TILES, SMALL_GPU),
            chosen=TILED,
            tries=14,
            counts=counts,
        )
    chosen = (TensorCore, TensorCore, *TILED)
    return fuzz(seed, kernels=("half matmul",), targets=(WARP_TILES,), chosen=chosen, tries=14, counts=counts)


def test_tiles_that_threads_share_keep_results() -> None:
    counts: Counter[Kind] = Counter()
    for seed in range(12):
        mistake = tiled(seed, counts)
        assert mistake is None, str(mistake)
    assert counts[Stage] >= 3


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(10))
def test_many_tiles_that_threads_share_keep_results(batch: int) -> None:
    mistakes = [str(m) for seed in range(batch * 60, batch * 60 + 60) if (m := tiled(seed)) is not None]
    assert not mistakes, "\n".join(mistakes)


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(10))
def test_cores_that_read_local_memory_keep_results(batch: int) -> None:
    """(Single schedules of them are in test_warpgroup_cores.py: 128 threads take the interpreters seconds.)"""
    chosen = (TensorCore,) * 6 + (Upcast, Local, Split)
    counts: Counter[Kind] = Counter()
    for seed in range(10 * batch, 10 * batch + 10):
        mistake = fuzz(
            seed,
            kernels=("tiled matmul",),
            targets=(TARGETS["sm_90"],),
            chosen=chosen,
            tries=3,
            counts=counts,
        )
        assert mistake is None, str(mistake)
    assert counts[TensorCore] >= 1


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(40))
def test_many_sequences_keep_results(batch: int) -> None:
    mistakes = [
        str(m)
        for seed in range(1000 + batch * 500, 1500 + batch * 500)
        if (m := fuzz(seed, targets=EVERY)) is not None
    ]
    assert not mistakes, "\n".join(mistakes)


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(10))
def test_many_sequences_keep_results_in_machine_code(batch: int) -> None:
    targets = tuple(target for target in CPUS if host_runs(target))
    seeds = range(9000 + batch * 200, 9200 + batch * 200)
    mistakes = [
        str(m) for seed in seeds if (m := fuzz(seed, targets=targets, run=native_results)) is not None
    ]
    assert not mistakes, "\n".join(mistakes)


# -- planted mistakes ------------------------------------------------------------------------------------------------


def _loses_one(kind: AxisType | None) -> Callable[[UOp, UOp], UOp]:
    """The new axis (of a kind) ends one too early."""

    def mutate(before: UOp, after: UOp) -> UOp:
        known = set(before.toposort())
        for r in after.toposort():
            if (
                r.op is Ops.RANGE
                and r not in known
                and kind in {None, cast("Axis", r.arg).kind}
                and r.vmax > 0
            ):
                shorter = r.replace(src=(r.src[0].const_like(r.vmax),))
                return substitute(after, {r: shorter})
        return after

    return mutate


def _takes_the_maximum(before: UOp, after: UOp) -> UOp:
    """Accumulators are combined by the wrong op."""
    known = set(before.toposort())
    for node in after.toposort():
        if node.op is Ops.REDUCE and node not in known and node.src[0].op is Ops.REDUCE:
            return substitute(after, {node: node.replace(arg=Ops.MIN if node.arg is Ops.MAX else Ops.MAX)})
    return after


def _exchanges_values(before: UOp, after: UOp) -> UOp:
    """The two axes also count in each other's place."""
    ranges = [n for n in after.toposort() if n.op is Ops.RANGE and n not in set(before.toposort())]
    for index in (n for n in after.toposort() if n.op is Ops.INDEX):
        if len(ranges) == 2 and set(ranges) <= index.ranges:
            return substitute(after, {index: substitute(index, {ranges[0]: ranges[1], ranges[1]: ranges[0]})})
    return after


def _forgets_a_gate(before: UOp, after: UOp) -> UOp:
    """Some place of a padded axis is somewhere everywhere: beyond its end it is another element."""
    for node in after.toposort():
        if node.op is Ops.REDUCE and node.src[0].op is Ops.WHERE:
            value = node.src[0].src[1]
            return substitute(after, {node: node.replace(src=(value + 1, *node.src[1:]))})
    return after


def _stores_beyond(before: UOp, after: UOp) -> UOp:
    """What is computed beyond the end of an axis is stored there."""
    for node in after.toposort():
        if node.op is Ops.STORE and node.src[0].op is Ops.INDEX and node.src[0].src[1].op is Ops.WHERE:
            place = node.src[0]
            open_place = place.replace(src=(place.src[0], place.src[1].src[1]))
            return substitute(after, {node: node.replace(src=(open_place, *node.src[1:]))})
    return after


def _reads_the_neighbour(before: UOp, after: UOp) -> UOp:
    """What was staged is read one element too early, where there is one."""
    for node in after.toposort():
        if node.op is Ops.INDEX and node.src[0].op is Ops.BUFFERIZE and node not in set(before.toposort()):
            index = node.src[1]
            return substitute(after, {node: node.replace(src=(node.src[0], (index - 1).max(0)))})
    return after


def _multiplies_wrongly(before: UOp, after: UOp) -> UOp:
    """The core starts from ones."""
    for node in after.toposort():
        if node.op is Ops.WMMA:
            one = node.table.const(1.0, node.dtype)
            return substitute(after, {node: node.replace(src=(*node.src[:2], one))})
    return after


def _ends_early(before: UOp, after: UOp) -> UOp:
    """A loop whose bound is an expression runs once only."""
    known = set(before.toposort())
    for r in after.toposort():
        if r.op is Ops.RANGE and r not in known and r.src[0].op is not Ops.CONST:
            return substitute(after, {r: r.replace(src=(r.src[0].const_like(1),))})
    return after


def _scans_by_another_op(before: UOp, after: UOp) -> UOp:
    """What threads hand on is combined by the wrong op."""
    known = set(before.toposort())
    for node in after.toposort():
        if node.op is Ops.SCAN and node not in known:
            return substitute(after, {node: node.replace(arg=Ops.MIN if node.arg is Ops.MAX else Ops.MAX)})
    return after


class Plant(NamedTuple):
    """A mistake made after an action, and where to look for it."""

    kind: Kind
    mutate: Callable[[UOp, UOp], UOp]
    kernels: tuple[str, ...]
    targets: tuple[Target, ...]
    helpers: tuple[Kind, ...] = ()


PLANTS = (
    Plant(Upcast, _loses_one(AxisType.UPCAST), ("random", "softmax"), CPUS),
    Plant(Lanes, _loses_one(AxisType.UPCAST), ("random", "softmax"), CPUS),
    Plant(Prefix, _loses_one(AxisType.UPCAST), ("cumsum rows",), CPUS),
    Plant(Hold, _loses_one(AxisType.LOOP), ("multiplied rows",), CPUS),
    Plant(Limit, _ends_early, ("masked attention", "triangle", "ragged rows"), CPUS, (Hold, Upcast, Lanes)),
    Plant(Unroll, _loses_one(AxisType.UNROLL), ("matmul", "reduction"), CPUS),
    Plant(Accumulators, _takes_the_maximum, ("matmul", "reduction"), CPUS),
    Plant(Local, _loses_one(AxisType.LOCAL), ("matmul", "kept rows"), GPUS),
    Plant(Group, _loses_one(AxisType.GROUP_REDUCE), ("matmul", "reduction"), GPUS),
    Plant(Thread, _loses_one(AxisType.THREAD), ("matmul", "softmax"), CPUS),
    Plant(Split, _loses_one(None), ("matmul", "layernorm"), CPUS),
    Plant(Swap, _exchanges_values, ("matmul", "transposed tile"), CPUS),
    Plant(Peel, _loses_one(AxisType.LOOP), ("matmul", "random"), CPUS),
    Plant(PadTo, _forgets_a_gate, ("reduction", "matmul"), CPUS),
    Plant(Overrun, _stores_beyond, ("matmul", "random"), CPUS),
    Plant(ShiftInwards, _loses_one(None), ("matmul", "random"), CPUS),
    Plant(Align, _stores_beyond, ("random", "softmax"), CPUS),
    Plant(Stage, _reads_the_neighbour, ("matmul",), CPUS + GPUS),
    Plant(Block, _loses_one(AxisType.LOOP), ("matmul",), CPUS),
    Plant(TensorCore, _multiplies_wrongly, ("half matmul",), (CUDA,)),
    Plant(Join, _loses_one(None), ("matmul", "random"), CPUS),
    Plant(Claim, _loses_one(None), ("scatter",), GPUS),
    Plant(Spare, _stores_beyond, ("vector product",), CPUS + GPUS),
    Plant(Relay, _scans_by_another_op, ("cumsum rows", "cumsum repeated"), GPUS),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: p.kind.word)
def test_a_mistake_in_an_action_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    original = plant.kind.apply

    def wrong(self: Action, sink: UOp, target: Target) -> UOp:
        return plant.mutate(sink, original(self, sink, target))

    monkeypatch.setattr(plant.kind, "apply", wrong)
    chosen = (plant.kind, *plant.helpers)
    assert any(fuzz(seed, kernels=plant.kernels, targets=plant.targets, chosen=chosen) for seed in range(40))


def test_every_kind_of_action_has_a_mistake_planted() -> None:
    # what walks over keys has its own in tests/optimize; that threads after no_locals are found is seen below
    assert {plant.kind for plant in PLANTS} == {*KINDS, TensorCore} - {NoLocals}


def test_threads_after_nolocals_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(sink: UOp, action: Action, target: Target, before: object) -> UOp:
        return action.apply(sink, target)

    monkeypatch.setattr("tests.stages.fuzz_actions.apply_action", careless)
    monkeypatch.setattr(s07_apply_opts, "apply_action", careless)
    chosen = (NoLocals, Local, Local)
    assert any(fuzz(seed, kernels=("matmul",), targets=GPUS, chosen=chosen) for seed in range(40))


def test_a_missing_barrier_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s12_add_gpu_dims, "add_barriers", lambda sink, rings: sink)
    monkeypatch.setenv("PLANISH_CHECK", "none")
    chosen = (Group,)
    assert any(fuzz(seed, kernels=("reduction",), targets=GPUS, chosen=chosen) for seed in range(40))


def test_threads_that_overwrite_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s10_add_local_buffers, "THREADS", frozenset())
    chosen = (Group, Local)
    assert any(
        fuzz(seed, kernels=("matmul", "kept rows"), targets=(SMALL_GPU,), chosen=chosen) for seed in range(60)
    )


def test_padding_that_is_not_neutral_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "_neutral", lambda root, value, condition: value)
    chosen = (PadTo,)
    assert any(fuzz(seed, kernels=("reduction",), targets=CPUS, chosen=chosen) for seed in range(40))


def test_stores_in_any_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the law of order, rows scattered to one place are added side by side."""
    monkeypatch.setattr(OneAxis, "check_order", lambda self, facts, r: None)
    chosen = (Upcast, Local)
    assert any(fuzz(seed, kernels=("scatter",), targets=CPUS, chosen=chosen) for seed in range(40))


def test_every_kernel_is_fuzzed() -> None:
    assert set(KERNELS) >= {name for plant in PLANTS for name in plant.kernels} - {"half matmul"}


@pytest.mark.parametrize("schedule", ["local(i); align(k, 5)", "local(i, 2); align(k, 5); local(k, 5)"])
def test_a_gate_that_picks_the_thread_of_a_store_is_enough(schedule: str) -> None:
    """Rows that start apart are written to places that no thread is named in: which one writes, the gate says."""
    actions = parse_schedule(schedule)
    with Table() as table, settings(check="spec"):
        sink = two_stores(random.Random(1), table)
        before = contents(sink, 1)
        expected = results(sink, before, pipeline.PLAIN)
        found = results(sink, before, pipeline.Machine(CUDA, lambda _: actions))
    assert {n: array.tolist() for n, array in found.items()} == {n: a.tolist() for n, a in expected.items()}


def test_shared_memory_waits_for_no_thread_that_is_still_at_work() -> None:
    """Two sums that cross, each shared by threads: what one leaves is read under an axis that the other does not have."""
    actions = [
        Placed(ActionKind.GROUPTOP, 0, 0),
        Placed(ActionKind.STAGE, -1, 2, 3),
        Placed(ActionKind.GROUPTOP, 1, 2),
    ]
    with Table() as table, settings(check="spec"):
        sink = crossed(table)
        before = contents(sink, 1)
        expected = results(sink, before, pipeline.PLAIN)
        found = results(sink, before, pipeline.Machine(SMALL_GPU, lambda _: actions))
    assert {n: array.tolist() for n, array in found.items()} == {n: a.tolist() for n, a in expected.items()}


def test_lanes_that_depend_on_no_loop_are_stored_in_every_turn() -> None:
    """Two rows, of which the last four of eight columns are hidden: what is kept of these is a constant, and written over in place."""
    actions = parse_schedule("peel(i, 2); unroll(n.first, 8)")
    with Table() as table:
        sink = KERNELS["masked attention"](random.Random(0), table)
        before = contents(sink, 539)
        expected = results(sink, before, pipeline.PLAIN)
        found = results(sink, before, pipeline.Machine(TARGETS["x86-64"], lambda _: actions))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["scalar", "x86-64-v4", "sm_90"])
def test_rows_that_are_kept_with_room_at_their_ends_are_read_where_they_are(target: str) -> None:
    """`overrun` of a row in two parts moves the second one: whoever reads it has to know."""
    actions = parse_schedule("split(j, 2); overrun(j.inner, 4)")
    with Table() as table, settings(check="spec"):
        sink = KERNELS["softmax, one range"](random.Random(0), table)
        before = contents(sink, 1)
        expected = results(sink, before, pipeline.PLAIN)
        found = results(sink, before, pipeline.Machine(TARGETS[target], lambda _: actions))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_a_copy_for_one_loop_does_not_serve_another_around_it() -> None:
    """x @ x.T, of which rows are copied inside of the loops over both: those of one are not those of the other."""
    f32 = dtypes.float32
    with Table() as t, settings(check="spec"):
        out, x = t.param(0, f32, 3 * 16), t.param(1, f32, 60)
        i, j, b, k = t.range(4, 0), t.range(4, 1), t.range(3, 2), t.range(5, 3, AxisType.REDUCE)
        product = x.index(b * 20 + i * 5 + k) * x.index(b * 20 + j * 5 + k)
        sink = t.sink(out.index(b * 16 + i * 4 + j).store(product.reduce(Ops.ADD, k)).end(i, j, b))
        before = contents(sink, 1)
        expected = results(sink, before, pipeline.PLAIN)
        actions = parse_schedule("stage(arg1, at=k)")
        found = results(sink, before, pipeline.Machine(TARGETS["x86-64-v4"], lambda _: actions))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_tiles_that_overlap_are_refused_where_twice_is_not_once() -> None:
    cpu = TARGETS["x86-64-v4"]
    with Table() as t:
        n, f32 = t.variable("n", 3, 40), dtypes.float32
        out, x = t.param(0, f32, 400), t.param(1, f32, 400)
        i, k = t.range(n, 0), t.range(8, 1, AxisType.REDUCE)
        total = x.index(i * 8 + k).reduce(Ops.ADD, k)
        sink = t.sink(out.index(i).store(total).end(i))
        tiled = apply_action(sink, ShiftInwards("i", 3), cpu)
        for action, why in (
            (ShiftInwards("i", 4), "no more than 3"),
            (ShiftInwards("j", 3), "REDUCE"),
        ):
            with pytest.raises(Refusal, match=why):
                apply_action(sink, action, cpu)
        with pytest.raises(Refusal, match="added to twice"):
            apply_action(tiled, Block("j", 4), cpu, (ShiftInwards("i", 3),))
        own = t.sink(out.index(i).store(out.index(i) + total).end(i))
        with pytest.raises(Refusal, match="reads what it writes"):
            apply_action(own, ShiftInwards("i", 3), cpu)
        assert attempts(cpu, in_place=True)(sink, ShiftInwards("i", 3), ()) is None
