"""Stage 14: which accesses a vector makes on which target, and that no setting changes a result."""

from __future__ import annotations

import random
from typing import Literal, cast

import numpy as np
import pytest

from planish import dtypes
from planish.config import settings
from planish.dtypes import AddrSpace, DType
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages.devectorizer import accesses as lane_accesses
from planish.stages.devectorizer import lane_forms
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s14_devectorize import devectorize
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.expander.s09_expander import expand
from planish.stages.linearizer.s16_post_index_symbolic import post_index_symbolic
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.linearizer.s22_cleanup_if import cleanup_if
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.target import TARGETS, Target
from planish.uop import spec
from planish.uop.access_hints import AccessHints
from planish.uop.matcher import Matcher
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.symbolic import simplify
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.kernels import Array, buffers_of

f32, f16, i32 = dtypes.float32, dtypes.float16, dtypes.int32
V4, CUDA, DSP, SCALAR = (TARGETS[name] for name in ("x86-64-v4", "cuda", "dsp", "scalar"))
VECTORS: tuple[Literal[0, 1, 2], ...] = (0, 1, 2)


def devectorized(sink: UOp, target: Target) -> UOp:
    return devectorize(add_loads(remove_reduce(expand(initial_symbolic(sink)))), target)


def result(sink: UOp, target: Target) -> Array:
    """What the kernel writes to slot 0."""
    cut = post_index_symbolic(lower_index_dtype(devectorized(sink, target)))
    lines = linearize(add_control_flow(final_rewrite(decompositions(cut, target), target)))
    program = lower("kernel", cleanup_if(lines, predicated_stores=target.predicated_stores))
    buffers = buffers_of(sink)
    interpret(program, [buffers[int(param.name.removeprefix("arg"))] for param in program.params])
    return buffers[0]


def accesses(sink: UOp, op: Ops = Ops.LOAD) -> list[UOp]:
    """The accesses to parameters."""
    return [n for n in sink.toposort() if n.op is op and n.src[0].src[0].op is Ops.DEFINE_GLOBAL]


def widths(sink: UOp, op: Ops = Ops.LOAD) -> list[int]:
    found = accesses(sink, op)
    return sorted((n if op is Ops.LOAD else n.src[1]).dtype.lanes for n in found)


def gates(sink: UOp, op: Ops = Ops.LOAD) -> list[int]:
    """The lanes of the gates of the accesses; 0 for none."""
    places = [n.src[0] for n in accesses(sink, op)]
    return sorted(p.src[-1].dtype.lanes if p.src[-1].dtype.is_bool else 0 for p in places)


def copy(
    t: Table, dtype: DType = f32, rows: int = 4, columns: int = 64, lanes: int = 32, start: int = 0
) -> UOp:
    """out[i, j] = a[start + i, j], `lanes` of j at once."""
    out, a = t.param(0, dtype, rows * columns), t.param(1, dtype, rows * columns + start)
    i, j, u = t.range(rows, 0), t.range(columns // lanes, 1), t.range(lanes, 2, AxisType.UPCAST)
    at = i * columns + j * lanes + u
    return t.sink(out.index(at).store(a.index(at + start)).end(i, j, u))


@pytest.mark.parametrize(
    ("target", "dtype", "expected"),
    [
        (V4, f32, [16, 16]),
        (V4, f16, [32]),
        (TARGETS["x86-64-v3"], f32, [8] * 4),
        (DSP, f32, [32]),
        (CUDA, f32, [4] * 8),
        (CUDA, dtypes.float64, [2] * 16),
        (SCALAR, f32, [1] * 32),
    ],
)
def test_accesses_have_the_lengths_that_the_target_folds(
    target: Target, dtype: DType, expected: list[int]
) -> None:
    with Table() as t:
        cut = devectorized(copy(t, dtype), target)
        assert widths(cut) == expected
        assert widths(cut, Ops.STORE) == expected


@pytest.mark.parametrize("target", [V4, TARGETS["x86-64-v3"], CUDA], ids=lambda target: target.name)
def test_a_vector_is_cut_to_what_the_target_moves(target: Target, golden: Golden) -> None:
    """24 lanes of a row that starts anywhere: the longest accesses first, the rest as short as it is."""
    with Table() as t:
        before = add_loads(remove_reduce(expand(initial_symbolic(copy(t, columns=24, lanes=24, start=3)))))
        after = devectorize(before, target)
        spec.check(after, "devectorized")
        assert devectorize(after, target) is after
        golden.check(
            f"stages/s14_devectorize/copy_{target.name}.txt",
            f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
        )


def test_a_dsp_moves_more_than_a_register_at_once() -> None:
    with Table() as t:
        cut = devectorized(copy(t, f32, columns=128, lanes=128), DSP)
        assert widths(cut) == [128]


def test_eight_halves_move_at_once_where_that_is_allowed() -> None:
    with Table() as t:
        assert widths(devectorized(copy(t, f16), CUDA)) == [4] * 8
    with Table() as t, settings(allow_half8=True):
        assert widths(devectorized(copy(t, f16), CUDA)) == [8] * 4
        assert widths(devectorized(copy(t, f32), CUDA)) == [4] * 8
        assert widths(devectorized(copy(t, f16), V4)) == [32]


# -- alignment ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "expected"), [(32, [4] * 8), (34, [2] * 16), (33, [1] * 32)])
def test_where_wide_accesses_must_be_aligned_that_is_proved(columns: int, expected: list[int]) -> None:
    with Table() as t:
        out, a = t.param(0, f32, 4 * 32), t.param(1, f32, 4 * columns)
        i, u = t.range(4, 0), t.range(32, 1, AxisType.UPCAST)
        sink = t.sink(out.index(i * 32 + u).store(a.index(i * columns + u)).end(i, u))
        assert widths(devectorized(sink, CUDA)) == expected
        assert widths(devectorized(sink, V4)) == [16, 16]


def test_an_access_that_starts_in_between_is_cut_where_it_becomes_aligned() -> None:
    with Table() as t:
        cut = devectorized(copy(t, start=3, lanes=32), CUDA)
        assert widths(cut) == [1, 1, 2] + [4] * 7  # in order: 1, seven times 4, 2, 1


def test_alignment_is_said_only_where_it_is_proved() -> None:
    with Table() as t:
        assert {n.arg for n in accesses(devectorized(copy(t), V4))} == {None}  # callers bring what they have
        assert {n.arg for n in accesses(devectorized(copy(t), CUDA))} == {AccessHints(align=16)}
        shifted = devectorized(copy(t, f16, start=2), CUDA)
        assert {n.arg for n in accesses(shifted) if n.dtype.lanes == 2} == {AccessHints(align=4)}
        assert {n.arg for n in accesses(shifted) if n.dtype.lanes == 4} == {AccessHints(align=8)}


def test_memory_of_our_own_is_known_to_be_aligned() -> None:
    with Table() as t:
        out = t.param(0, f32, 64)
        local = t.make(Ops.DEFINE_LOCAL, f32.ptr(64, AddrSpace.LOCAL), (), 0)
        i, u = t.range(4, 0), t.range(16, 1, AxisType.UPCAST)
        fill = local.index(i * 16 + u).store(t.const(1.0, f32)).end(i, u)
        j, v = t.range(4, 2), t.range(16, 3, AxisType.UPCAST)
        sink = t.sink(out.index(j * 16 + v).store(local.after(fill).index(j * 16 + v)).end(j, v))
        cut = devectorized(sink, V4)
        own = [n for n in cut.toposort() if n.op in {Ops.LOAD, Ops.STORE} and n not in accesses(cut, n.op)]
        assert [n.arg for n in own] == [AccessHints(align=64)] * 2
        np.testing.assert_array_equal(result(sink, V4), 1.0)


def test_an_element_in_all_lanes_is_loaded_by_itself() -> None:
    """out[i, j] = a[i] * b[j] with i and j in registers: of a every element is spread, of b whole vectors are loaded."""
    with Table() as t:
        out, a, b = t.param(0, f32, 64), t.param(1, f32, 4), t.param(2, f32, 16)
        i, j = t.range(4, 0, AxisType.UPCAST), t.range(16, 1, AxisType.UPCAST)
        sink = t.sink(out.index(i * 16 + j).store(a.index(i) * b.index(j)).end(i, j))
        assert widths(devectorized(sink, V4)) == [1, 1, 1, 1, 16]
        assert widths(devectorized(sink, CUDA)) == [4] * 5  # threads have no lanes to spread to
        buffers = buffers_of(sink)
        np.testing.assert_array_equal(result(sink, V4), np.outer(buffers[1], buffers[2]).ravel())


STREAMED = AccessHints(nontemporal=True)


def test_other_hints_stay_on_every_piece() -> None:
    with Table() as t:
        sink = copy(t)
        effect = sink.src[0].src[0].replace(arg=STREAMED)
        streamed = t.sink(sink.src[0].replace(src=(effect, *sink.src[0].src[1:])))
        assert [n.arg for n in accesses(devectorized(streamed, V4), Ops.STORE)] == [STREAMED] * 2
        assert {n.arg for n in accesses(devectorized(streamed, CUDA), Ops.STORE)} == {
            STREAMED._replace(align=16)
        }


# -- gates -------------------------------------------------------------------------------------------------------


def guarded(t: Table, inside: int, lanes: int = 16, step: int = 1) -> UOp:
    """out[i, u] = a[i*lanes + u] where that is below `inside`, else 0: and only so many are stored."""
    out, a = t.param(0, f32, 4 * lanes), t.param(1, f32, 4 * lanes)
    i, u = t.range(4, 0), t.range(lanes, 1, AxisType.UPCAST)
    at = i * lanes + u
    gate = at // step * step < inside
    place = gate.where(at, t.invalid())
    return t.sink(out.index(place).store(a.index(place)).end(i, u))


def test_lanes_with_one_gate_are_one_access() -> None:
    with Table() as t:
        cut = devectorized(guarded(t, 48), V4)  # a whole number of vectors: all lanes or none
        assert widths(cut) == [16]
        assert gates(cut) == [1]
        assert widths(cut, Ops.STORE) == [16]
        assert gates(cut, Ops.STORE) == [1]
        assert gates(devectorized(guarded(t, 12, lanes=4), CUDA)) == [1]


def test_neighbours_with_different_gates_are_one_masked_access() -> None:
    with Table() as t:
        cut = devectorized(guarded(t, 37), V4)
        assert widths(cut) == [16]
        assert gates(cut) == [16]
        assert widths(cut, Ops.STORE) == [16]
        assert gates(cut, Ops.STORE) == [16]


def test_without_masks_different_gates_are_different_accesses() -> None:
    with Table() as t:
        cut = devectorized(guarded(t, 37), CUDA)
        assert set(gates(cut)) == {1}
        assert len(widths(cut)) > 4  # 37 = 2·16 + 5: the gates of 16 lanes are not all the same
        assert max(gates(devectorized(guarded(t, 37), TARGETS["aarch64"]))) == 1


def test_pieces_of_a_masked_access_whose_lanes_agree_have_one_gate() -> None:
    with Table() as t:
        cut = devectorized(guarded(t, 40, lanes=32, step=16), V4)
        assert widths(cut) == [16, 16]
        assert max(gates(cut)) == 1


def test_lanes_that_are_never_open_are_not_loaded() -> None:
    with Table() as t:
        out, a = t.param(0, f32, 16), t.param(1, f32, 5)
        u = t.range(16, 0, AxisType.UPCAST)
        sink = t.sink(out.index(u).store(a.index((u < 5).where(u, t.invalid()))).end(u))
        cut = devectorized(sink, V4)
        assert sum(widths(cut)) == 5
        assert set(gates(cut)) == {0}


@pytest.mark.parametrize("inside", [0, 1, 15, 16, 37, 48, 63, 64])
@pytest.mark.parametrize("name", TARGETS)
def test_gates_hold_on_every_target(inside: int, name: str) -> None:
    with Table() as t:
        sink = guarded(t, inside)
        buffers = buffers_of(sink)
        expected = np.concatenate([buffers[1][:inside], buffers[0][inside:]]) if inside else buffers[0]
        np.testing.assert_array_equal(result(sink, TARGETS[name]), expected)


# -- settings ----------------------------------------------------------------------------------------------------


def product(t: Table) -> UOp:
    """A 4 × 32 tile of a matmul."""
    m, n, k = 4, 64, 5
    out, a, b = t.param(0, f32, m * n), t.param(1, f32, m * k), t.param(2, f32, k * n)
    j, r = t.range(n // 32, 0), t.range(k, 1, AxisType.REDUCE)
    u, v = t.range(m, 2, AxisType.UPCAST), t.range(32, 3, AxisType.UPCAST)
    total = (a.index(u * k + r) * b.index(r * n + j * 32 + v)).reduce(Ops.ADD, r)
    return t.sink(out.index(u * n + j * 32 + v).store(total).end(j, u, v))


def _widest(sink: UOp, *ops: Ops) -> int:
    return max(n.dtype.lanes for n in sink.toposort() if n.op in ops and n.dtype.is_float)


def test_settings_say_what_is_cut() -> None:
    with Table() as t:
        sink = product(t)
        assert widths(devectorized(sink, V4)) == [1] * 4 + [16, 16]
        assert _widest(devectorized(sink, V4), Ops.MUL) == 16
        with settings(devectorize=0):
            cut = devectorized(sink, V4)
            assert _widest(cut, Ops.MUL) == 128
            assert widths(cut) == [1] * 4 + [16, 16]
        with settings(devectorize=2):
            cut = devectorized(sink, V4)
            assert _widest(cut, Ops.MUL) == 128
            assert widths(cut) == [1] * 4 + [32]


@pytest.mark.parametrize("how", VECTORS)
@pytest.mark.parametrize("name", TARGETS)
def test_no_setting_changes_a_result(how: Literal[0, 1, 2], name: str) -> None:
    with Table() as t, settings(devectorize=how):
        sink = product(t)
        buffers = buffers_of(sink)
        expected = buffers[1].reshape(4, 5) @ buffers[2].reshape(5, 64)
        np.testing.assert_array_equal(result(sink, TARGETS[name]).reshape(4, 64), expected)


@pytest.mark.parametrize("seed", range(30))
def test_any_pattern_of_lanes_is_loaded_right(seed: int) -> None:
    """Random places, some twice, some shifted by a loop, some of other rows, some guarded."""
    rng = random.Random(seed)
    lanes = rng.choice((2, 3, 8, 12, 16, 24, 32))
    offsets = [rng.randrange(12) if rng.random() < 0.3 else (n + 3) % 24 for n in range(lanes)]
    rows = [rng.choice((0, 0, 0, 7)) for _ in range(lanes)]
    target = TARGETS[rng.choice(list(TARGETS))]
    with Table() as t, settings(devectorize=rng.choice(VECTORS)):
        out, a = t.param(0, i32, 3 * lanes), t.param(1, i32, 64)
        i = t.range(3, 0)
        u = t.make(Ops.UNROLL, dtypes.index, (t.vconst(range(lanes)),), _axis(lanes))
        offset = t.make(Ops.UNROLL, dtypes.index, (t.vconst(offsets),), _axis(lanes))
        row = t.make(Ops.UNROLL, dtypes.index, (t.vconst(rows),), _axis(lanes))
        at = i * row + offset + i
        if rng.random() < 0.5:
            at = (u + i * 2 < rng.randrange(1, lanes + 2)).where(at, t.invalid())
        marked = t.range(2, 9, AxisType.UPCAST)  # the expander looks for one
        value = a.index(at) + marked.cast(i32) * 0
        sink = t.sink(out.index(i * lanes + u).store(value).end(i, marked))
        buffers = buffers_of(sink)
        places = np.array(
            [[r * row_ + o + r for o, row_ in zip(offsets, rows, strict=True)] for r in range(3)]
        )
        expected = buffers[1][places]
        limit = _gate(at)
        if limit is not None:
            numbers = np.arange(lanes)[None, :] + 2 * np.arange(3)[:, None]
            expected = np.where(numbers < limit, expected, 0)
        np.testing.assert_array_equal(result(sink, target).reshape(3, lanes), expected)


def _axis(lanes: int) -> object:
    from planish.uop.ops import UnrolledLanes

    return UnrolledLanes((((5,), lanes),))


def _gate(at: UOp) -> int | None:
    return cast("int", at.src[0].src[1].arg) if at.op is Ops.WHERE else None


# -- cost --------------------------------------------------------------------------------------------------------


def tiled(t: Table, m: int, n: int, k: int, rows: int, columns: int) -> UOp:
    """A matmul with a register tile of rows × columns."""
    out, a, b = t.param(0, f32, m * n), t.param(1, f32, m * k), t.param(2, f32, k * n)
    i, j, r = t.range(m // rows, 0), t.range(n // columns, 1), t.range(k, 2, AxisType.REDUCE)
    u, v = t.range(rows, 3, AxisType.UPCAST), t.range(columns, 4, AxisType.UPCAST)
    row, column = i * rows + u, j * columns + v
    total = (a.index(row * k + r) * b.index(r * n + column)).reduce(Ops.ADD, r)
    return t.sink(out.index(row * n + column).store(total).end(i, j, u, v))


@pytest.mark.parametrize("name", TARGETS)
def test_the_number_of_nodes_does_not_grow_with_the_tensors(name: str) -> None:
    counts = set()
    for m, n, k in ((96, 256, 100), (1200, 4096, 1000), (12288, 65536, 4096)):
        with Table() as t:
            counts.add(len(devectorized(tiled(t, m, n, k, 6, 32), TARGETS[name]).toposort()))
    assert max(counts) - min(counts) <= 16  # constants may coincide


def test_a_large_register_tile_takes_few_nodes() -> None:
    with Table() as t:
        before = len(
            add_loads(remove_reduce(expand(initial_symbolic(tiled(t, 1200, 4096, 64, 12, 32))))).toposort()
        )
        cut = devectorized(tiled(t, 1200, 4096, 64, 12, 32), V4)
    assert before < 80
    # 24 vectors: load, product, sum, store and addresses of each, 12 broadcasts, 12 + 2 loads
    assert len(cut.toposort()) < 24 * 12 + 14 * 8 + 100


def test_places_of_a_tile_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ by constants: what they have in common is simplified once, and their lanes are found once."""
    bases: list[UOp] = []
    places: list[UOp] = []
    lanes_of = lane_accesses._lanes_of

    def simplified(base: UOp, matcher: Matcher) -> UOp:
        bases.append(base)
        return simplify(base, matcher)

    def looked_at(place: UOp, forms: lane_forms.Forms) -> lane_accesses.LanePlaces:
        places.append(place)
        return lanes_of(place, forms)

    monkeypatch.setattr(lane_forms, "simplify", simplified)
    monkeypatch.setattr(lane_accesses, "_lanes_of", looked_at)
    with Table() as t:
        cut = devectorized(tiled(t, 1200, 4096, 64, 12, 32), V4)
        assert len(accesses(cut, Ops.STORE)) == 24
    assert len(bases) == 3  # of both operands and the result: that of the accumulators is 0
    assert len(places) == len(set(places))


def test_loops_around_a_tile_are_one_number_for_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lanes of a register tile differ by are constants: no list of factors is kept for a loop."""
    found: list[lane_accesses.LanePlaces] = []
    lanes_of = lane_accesses._lanes_of

    def looked_at(place: UOp, forms: lane_forms.Forms) -> lane_accesses.LanePlaces:
        found.append(lanes_of(place, forms))
        return found[-1]

    monkeypatch.setattr(lane_accesses, "_lanes_of", looked_at)
    with Table() as t:
        devectorized(tiled(t, 1200, 4096, 64, 12, 32), V4)
        assert [len(each.form.common) for each in found if each.form.common]
        assert not any(each.form.terms for each in found)


def test_sums_with_different_factors_are_summed_lane_by_lane() -> None:
    with Table() as t:
        a, b = t.variable("a", 0, 9), t.variable("b", 0, 9)
        of = lane_forms.of_scalars
        apart, alike = of([a * 2, a * 3 + 1]), of([a + b, a + b + 5])
        assert (apart.common, apart.terms, apart.constants) == ({}, {a: [2, 3]}, [0, 1])
        assert (alike.common, alike.terms, alike.constants) == ({a: 1, b: 1}, {}, [0, 5])
        both = (apart.plus(alike, -1), alike.plus(apart, 1))
        assert [(each.common, each.terms, each.constants) for each in both] == [
            ({b: -1}, {a: [1, 2]}, [0, -4]),
            ({b: 1}, {a: [3, 4]}, [0, 6]),
        ]
        assert alike.times([2, 2]) == ({a: 2, b: 2}, {}, [0, 10])
        assert alike.times([1, 2]) == ({}, {a: [1, 2], b: [1, 2]}, [0, 10])
        assert lane_forms._joined([alike, apart]) == ({}, {a: [1, 1, 2, 3], b: [1, 1, 0, 0]}, [0, 5, 0, 1])
        assert apart.chosen((1, 1)).bases() == [(3,), (3,)]
