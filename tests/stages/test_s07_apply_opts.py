"""Stage 7: what each action makes of a kernel, and what it refuses and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from planish import dtypes
from planish.actions import base
from planish.actions.accumulators import Accumulators
from planish.actions.base import Refusal, apply_action
from planish.actions.block import Block
from planish.actions.text import kinds, parse_schedule, print_schedule
from planish.llir.counters import Counters
from planish.llir.interpret import interpret
from planish.llir.program import Loop, Program
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.interpret import interpret as uop_interpret
from planish.uop.nest import axes_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.placed import Action, ActionKind, by_name
from tests.stages.action_kernels import (
    attention,
    product_of_halves,
    product_of_products,
    rows_from_anywhere,
    vector_product,
)
from tests.stages.kernels import Array, buffers_of
from tests.stages.memory_kernels import (
    compiled,
    cumsum_rows,
    keep,
    masked_attention,
    ragged,
    read,
    scan_and_sum,
    softmax,
    transposed_tile,
    triangle,
)

K = ActionKind
f32, i32 = dtypes.float32, dtypes.int32
CPU, GPU, SCALAR = TARGETS["x86-64-v4"], TARGETS["cuda"], TARGETS["scalar"]
HOPPER = TARGETS["sm_90"]
Build = Callable[[Table], UOp]


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def matmul(t: Table, m: int = 4, n: int = 8, k: int = 6) -> UOp:
    out, a, b = t.param(0, f32, m * n), t.param(1, f32, m * k), t.param(2, f32, k * n)
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
    total = (a.index(i * k + r) * b.index(r * n + j)).reduce(Ops.ADD, r)
    return t.sink(out.index(i * n + j).store(total).end(i, j))


def row_sums(t: Table, rows: int = 4, n: int = 30) -> UOp:
    out, a = t.param(0, f32, rows), t.param(1, f32, rows * n)
    i, r = t.range(rows, 0), t.range(n, 1, AxisType.REDUCE)
    return t.sink(out.index(i).store(a.index(i * n + r).reduce(Ops.ADD, r)).end(i))


def scatter(t: Table) -> UOp:
    """m[w[i], j] += x[i, j]"""
    i, j = t.range(5, 0), t.range(8, 1)
    row = t.param(1, i32, 5).index(i).cast(dtypes.index)
    place = t.param(0, f32, 32).index((row % 4) * 8 + j)
    return t.sink(place.store(place + t.param(2, f32, 40).index(i * 8 + j)).end(i, j))


def two_results(t: Table) -> UOp:
    """A matrix and its first column, each stored over."""
    i, j, a = t.range(4, 0), t.range(8, 1), t.param(2, f32, 32)
    whole = t.param(0, f32, 32).index(i * 8 + j).store(a.index(i * 8 + j) * 2).end(i, j)
    return t.sink(whole, t.param(1, f32, 4).index(i).store(a.index(i * 8)).end(i))


def names(sink: UOp) -> list[str]:
    return [f"{r.arg}<{r.src[0].arg}" for r in axes_of(sink)]


def ran(sink: UOp, actions: Sequence[base.Action], target: Target) -> tuple[Array, Counters, Program]:
    buffers = buffers_of(sink)
    program = compiled(sink, target, actions)
    counters = interpret(program, [buffers[int(p.name.removeprefix("arg"))] for p in program.params])
    return buffers[0], counters, program


def check(sink: UOp, actions: Sequence[base.Action], target: Target) -> tuple[Counters, Program]:
    """Run with actions and without; equal."""
    expected, _, _ = ran(sink, [], SCALAR)
    found, counters, program = ran(sink, actions, target)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    return counters, program


# -- what actions make -----------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """What an action makes of the axes of a kernel."""

    schedule: str
    target: Target
    axes: list[str]
    kernel: Build = matmul
    error: float = 1e-6
    """How far results may be apart, by the largest."""


FORMS: dict[str, Form] = {
    "upcast": Form("upcast(j, 4)", CPU, ["L0<4", "L1_0<2", "u1_1<4", "R2<6"]),
    "upcast all": Form("upcast(j)", CPU, ["L0<4", "u1_1<8", "R2<6"]),
    "lanes": Form("lanes(i, 2)", CPU, ["L0_0<2", "L1<8", "u3<2", "R2<6"]),
    "unroll": Form("unroll(k, 3)", CPU, ["L0<4", "L1<8", "R2_0<2", "r2_1<3"]),
    "accumulators": Form("accumulators(k, 3)", CPU, ["L0<4", "L1<8", "u2_1<3", "R2_0<2"]),
    "local": Form("local(j, 4)", GPU, ["L0<4", "L1_0<2", "l1_1<4", "R2<6"]),
    "group": Form("group(k, 3)", GPU, ["L0<4", "L1<8", "G2_1<3", "R2_0<2"]),
    "grouptop": Form("group(k, 3, contiguous=true)", GPU, ["L0<4", "L1<8", "G2_0<3", "R2_1<2"]),
    "thread": Form("thread(i, 2)", CPU, ["L0_1<2", "L1<8", "t0_0<2", "R2<6"]),
    "split": Form("split(j, 4)", CPU, ["L0<4", "L1_0<2", "L1_1<4", "R2<6"]),
    "swap": Form("swap(i, j)", CPU, ["L0<8", "L1<4", "R2<6"]),
    "join": Form("join(i, j)", CPU, ["L0<32", "R2<6"]),
    "peel": Form("peel(j, 6)", CPU, ["L0<4", "L1_2<6", "L1_3<2", "R2_2<6", "R2_3<6"]),
    "padto": Form("pad_to(k, 4)", CPU, ["L0<4", "L1<8", "R2<8"]),
    "overrun": Form("overrun(i, 3)", CPU, ["L0<6", "L1<8", "R2<6"]),
    "shift_inwards": Form("shift_inwards(i, 3)", CPU, ["L0_0<2", "L0_1<3", "L1<8", "R2<6"]),
    "stage": Form("stage(arg2, at=i)", CPU, ["L0<4", "L1<8", "L3<6", "u4<8", "R2<6"]),
    "block": Form("block(k, 3)", CPU, ["L0_0<2", "L0_1<4", "L1<8", "R2_1<3"]),
    "nolocals": Form("no_locals()", GPU, ["L0<4", "L1<8", "R2<6"]),
    "align": Form("align(j, 16)", CPU, ["L0<2", "L1<128"], rows_from_anywhere),
    "prefix": Form("prefix(j, 2)", CPU, ["L0<4", "L1_0<3", "u1_1<2"], cumsum_rows),
    "relay": Form("relay(j, 2)", GPU, ["L0<4", "L1_0<3", "w1_1<2"], cumsum_rows),
    "claim": Form("claim(i, 2)", GPU, ["L0_0<2", "L0_1<5", "L1<8"], scatter),
    "spare": Form("spare(8)", GPU, ["L0<4", "L2<8", "R1<6"], vector_product),
    "tensor core": Form(
        "tensor_core(mma_m16n8k16_f16_f32, i, j, k)", GPU, ["L0_0<2", "L1_0<2", "w0_1<32", "R2_0<2"], product_of_halves
    ),
    # of the 128 keys two blocks; threads, their registers, and the loops by which operands are copied
    "online": Form(
        "online(wgmma_m64n64_bf16_f32_kk, i, j, l)", HOPPER,
        ["L7<4", "L9<4", "w0_1<128", "u8<8", "u10<8", "u11<4", "u12<4", "R3_0<2"], attention, error=4e-3,
    ),
    "chain": Form(
        "chain(wgmma_m64n64_bf16_f32_kk, i, j, l)", HOPPER,
        ["L5<4", "L7<4", "w0_1<128", "u6<8", "u8<8", "u9<4", "u10<4", "R3_0<2"], product_of_products,
    ),
}  # fmt: skip


def test_every_kind_has_its_golden() -> None:
    here = {parse_schedule(form.schedule)[0].word for form in FORMS.values()}
    assert here | {"hold", "limit"} == set(kinds())  # these two are below


@pytest.mark.parametrize("name", FORMS)
def test_an_action_makes_these_axes(name: str, t: Table, golden: Golden) -> None:
    """Kernels that are not the product of matrices are shown as they were, too."""
    form = FORMS[name]
    (action,) = parse_schedule(form.schedule)
    assert str(action) == form.schedule
    sink = form.kernel(t)
    after = apply_action(sink, action, form.target)
    assert names(after) == form.axes
    shown = "" if form.kernel is matmul else f"=== before\n{print_graph(sink)}\n"
    golden.check(
        f"stages/s07_apply_opts/{name.replace(' ', '_')}.txt", f"{shown}=== {action}\n{print_graph(after)}"
    )
    expected = uop_interpret(sink, buffers_of(sink))[0]
    found, _, _ = ran(sink, [action], form.target)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=form.error * abs(expected).max())


def test_output_loops_go_on_the_grid_after_the_actions(t: Table) -> None:
    after = apply_opts(matmul(t), [Action(K.LOCAL, 1, 4)], GPU)
    assert names(after) == ["g0<4", "g1_0<2", "l1_1<4", "R2<6"]
    assert names(apply_opts(matmul(t), [], CPU)) == ["L0<4", "L1<8", "R2<6"]


def test_a_loop_over_which_a_row_would_be_made_again_is_no_grid_axis(t: Table) -> None:
    after = apply_opts(softmax(t, 4, 128), [], GPU)
    assert names(after)[:3] == ["L3<128", "g0<4", "R1<128"]


# -- padding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [K.UNROLL, K.ACCUMULATORS])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL])
def test_padded_lanes_are_neutral_before_they_are_combined(
    lanes: Callable[..., base.Action], op: Ops, t: Table
) -> None:
    """Of 30 elements padded to 32, the last four lanes hold two that count."""
    out, a = t.param(0, f32, 1), t.param(1, f32, 30)
    r = t.range(30, 0, AxisType.REDUCE)
    sink = t.sink(out.index(t.const(0)).store(a.index(r).reduce(op, r)))
    data = np.arange(1, 31, dtype=np.float32)
    if op is not Ops.ADD:
        data = (-data[::-1] / 16).astype(np.float32)
    program = compiled(sink, CPU, [Action(K.PADTO, 0, 32), Action(lanes, 0, 4)])
    result = np.zeros(1, np.float32)
    interpret(program, [result, data])
    expected = {Ops.ADD: np.float32(465), Ops.MAX: data.max(), Ops.MUL: data.prod()}[op]
    np.testing.assert_allclose(result[0], expected, rtol=1e-5)


def test_a_dynamic_axis_is_split_once_it_is_padded(t: Table) -> None:
    n = t.variable("n", 1, 20)
    out, a = t.param(0, f32, 20), t.param(1, f32, 20)
    i = t.range(n, 0)
    sink = t.sink(out.index(i).store(a.index(i) * 2).end(i))
    with pytest.raises(Refusal, match="not known"):
        apply_action(sink, Action(K.UPCAST, 0, 8), CPU)
    program = compiled(sink, CPU, [Action(K.PADTO, 0, 8), Action(K.UPCAST, 0, 8)])
    for size in (1, 7, 8, 20):
        result, data = np.full(20, 7, np.float32), np.arange(20, dtype=np.float32)
        interpret(program, [result, data], {"n": size})
        np.testing.assert_array_equal(result[:size], data[:size] * 2)
        assert (result[size:] == 7).all()


# -- nests that must be expressible ----------------------------------------------------------------------------------


def depth(program: Program) -> int:
    deepest = now = 0
    for instruction in program.body:
        now += isinstance(instruction, Loop)
        deepest = max(deepest, now)
        now -= instruction.mnemonic == "end"
    return deepest


def test_the_one_nest_of_a_matmul(t: Table) -> None:
    """THREAD m/2 · k blocks · n/16 · [stage B] · m/2 · REDUCE k · a register tile: B is packed once per panel."""
    m, n, k = 16, 32, 8
    sink = matmul(t, m, n, k)
    actions = [
        Action(K.UPCAST, 1, 16),  # L0<16 L1_0<2 u1_1 R2<8
        Action(K.UPCAST, 0, 2),  # L0_0<8 L1_0<2 u0_1 u1_1 R2
        Action(K.THREAD, 0, 2),  # L0_0_1<4 L1_0<2 t0_0_0 u0_1 u1_1 R2
        Action(K.SWAP, 0, 1),  # n outside of m
        Action(K.STAGE, 0, 2),  # the panel of B, at n
    ]
    counters, program = check(sink, actions, CPU)
    assert counters.blocks == 2
    assert counters.local_bytes == k * 16 * 4
    assert counters.traffic["arg2"].read == 2 * k * n * 4  # each core reads B once
    assert depth(program) == 3  # n, m, k


def test_k_blocks_around_the_outputs(t: Table) -> None:
    sink = matmul(t, 8, 16, 16)
    actions = [
        Action(K.UPCAST, 1, 16),  # L0<8 u1_1<16 R2<16
        Action(K.BLOCK, 2, 4),  # L0_0<4 (passes) L0_1<8 u1_1 R2_1<4
        Action(K.STAGE, 0, 2),  # the block of B
        Action(K.STAGE, 0, 1, 3),  # and of A, with a pitch of its own
    ]
    counters, _ = check(sink, actions, CPU)
    assert counters.traffic["arg0"].written == 4 * 8 * 16 * 4
    assert counters.traffic["arg1"].read == 8 * 16 * 4
    assert counters.traffic["arg2"].read == 16 * 16 * 4


def test_sums_whose_lanes_are_combined_later_are_not_held_in_the_outputs(t: Table) -> None:
    """Each lane has a sum of its own: the one place that an output has would be added to all of them."""
    lanes = apply_action(matmul(t, 3, 4, 8), Accumulators("k", 2), CPU)
    with pytest.raises(Refusal, match="combined later"):
        apply_action(lanes, Block("k.outer", 2), CPU)
    check(matmul(t, 3, 4, 8), parse_schedule("block(k, 4); accumulators(k.inner, 2)"), CPU)


def weighted(t: Table, rows: int = 4, n: int = 8, columns: int = 6) -> UOp:
    """softmax(a) @ b, with the quotients kept."""
    out, a, b = t.param(0, f32, rows * columns), t.param(1, f32, rows * n), t.param(2, f32, n * columns)
    i, c, u = t.range(rows, 0), t.range(columns, 1), t.range(n, 2)
    j, s, r = (t.range(n, number, AxisType.REDUCE) for number in (3, 4, 5))
    x = a.index(i * n + r)
    row, top = keep(x, r), x.reduce(Ops.MAX, r)
    e = (read(row, s) - top).alu(Ops.EXP)
    quotients = keep(read(keep(e, s), u) / e.reduce(Ops.ADD, s), u)
    value = (read(quotients, j) * b.index(j * columns + c)).reduce(Ops.ADD, j)
    return t.sink(out.index(i * columns + c).store(value).end(i, c))


def test_a_block_of_kept_rows_at_a_time(t: Table, golden: Golden) -> None:
    sink = weighted(t)
    actions = [Action(K.UPCAST, 0, 4), Action(K.HOLD, 3, 2)]  # L1<6 L2<8 u0_1<4 R3<8 R4 R5
    after = apply_opts(sink, actions, CPU)
    assert [name for name in names(after) if name[1] in "123"] == [
        "L1<6", "L1_4<4", "L1_5<6", "L2_1<2", "R3_1<2",
    ]  # fmt: skip
    golden.check(
        "stages/s07_apply_opts/hold.txt",
        f"=== {print_schedule(by_name(sink, actions, CPU))}\n{print_graph(after)}",
    )
    counters, program = check(sink, actions, CPU)
    rows, block, sums = 4 * 8 * 4, 4 * 2 * 4, 4 * 6 * 4
    assert sorted(b.nbytes for b in program.locals if b.name.startswith("local")) == [block, sums, rows]
    assert counters.traffic["arg0"].written == 4 * 6 * 4


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action(K.UPCAST, 0, 4), "same LOCAL memory"),  # the rows
        (Action(K.UPCAST, 2, 2), "order"),  # the passes
        (Action(K.THREAD, 3, 2), "held over"),  # the columns inside of a pass
    ],
)
def test_what_is_held_is_not_mixed_up(action: Action, reason: str, t: Table) -> None:
    after = apply_action(weighted(t), Action(K.HOLD, 3, 2), CPU)  # L0<4 L1<6 L1_2<4 L1_3<6 L2_1 R3_1 R4 R5
    with pytest.raises(Refusal, match=reason):
        apply_action(after, action, CPU)
    check(weighted(t), [Action(K.HOLD, 3, 2), Action(K.THREAD, 0, 2)], CPU)


def test_a_mask_ends_the_rows(t: Table, golden: Golden) -> None:
    sink = masked_attention(t, 8, 8, 4)
    actions = [Action(K.UPCAST, 0, 4), Action(K.LIMIT, 6, 2)]  # L0_0<2 L1 L2 u0_1<4 R3 R4 R5
    after = apply_opts(sink, actions, CPU)
    golden.check(
        "stages/s07_apply_opts/limit.txt",
        f"=== {print_schedule(by_name(sink, actions, CPU))}\n{print_graph(after)}",
    )
    counters, _ = check(sink, actions, CPU)
    # the first four rows see four columns, the others all eight
    assert counters.traffic["arg1"].read == (4 * 4 + 4 * 8) * 4
    with pytest.raises(Refusal, match="depends on other loops"):
        apply_action(after, Action(K.UNROLL, 6, 2), CPU)


def test_a_mask_ends_every_reduction_whose_terms_it_makes_neutral(t: Table, golden: Golden) -> None:
    sink = triangle(t, 8, 16)
    actions = [Action(K.UPCAST, 0, 4), Action(K.ACCUMULATORS, 2, 2), Action(K.LIMIT, 3, 2)]
    after = apply_opts(sink, actions, CPU)
    golden.check("stages/s07_apply_opts/limit_sums.txt", f"=== {actions[2]}\n{print_graph(after)}")
    counters, _ = check(sink, actions, CPU)
    assert (
        counters.traffic["arg2"].distinct_read == (4 * 4 + 4 * 8) * 4
    )  # of 16 columns: what the last of four rows sees


def test_rows_of_any_length_end_where_the_longest_in_lanes_does(t: Table) -> None:
    sink = ragged(t, 8, 16)
    actions = [Action(K.UPCAST, 0, 4), Action(K.LIMIT, 2, 1)]
    lengths = buffers_of(sink)[2]
    expected = sum(4 * min(max(*lengths[rows : rows + 4], 0), 16) for rows in (0, 4))
    counters, _ = check(sink, actions, CPU)
    assert counters.traffic["arg1"].read == expected * 4
    assert 0 < expected < 8 * 16


def test_passes_over_nothing_but_hidden_columns_are_left_out(t: Table) -> None:
    sink = masked_attention(t, 8, 16, 4)
    held = [
        Action(K.UPCAST, 0, 4),
        Action(K.HOLD, 4, 4),
    ]  # L0_0<2 L1 L1_2<4 (passes) L1_3 L2_1 u0_1 R3_1 R4 R5
    limited = [*held, Action(K.LIMIT, 8, 4)]
    (passes,) = [r for r in axes_of(apply_opts(sink, limited, CPU)) if str(r.arg) == "L1_4"]
    assert passes.src[0].vmin == 1
    assert passes.src[0].vmax == 2
    before, after = check(sink, held, CPU)[0], check(sink, limited, CPU)[0]
    assert after.instructions["store"] < before.instructions["store"]
    # values behind the mask are looked at all the same
    assert after.traffic["arg2"].distinct_read == before.traffic["arg2"].distinct_read == 16 * 4 * 4


def test_a_tile_in_shared_memory(t: Table) -> None:
    """Blocks of 4 x 4 threads fetch tiles of A and B together: each element is read once per block."""
    sink = matmul(t, 8, 8, 8)
    actions = [
        Action(K.LOCAL, 1, 4),  # L0<8 L1_0<2 l1_1 R2
        Action(K.LOCAL, 0, 4),  # L0_0<2 L1_0<2 l0_1 l1_1 R2
        Action(K.SPLIT, 4, 4),  # R2_0<2 R2_1<4
        Action(K.STAGE, 4, 1),  # adds no axis: every thread copies one element
        Action(K.STAGE, 4, 2),
    ]
    counters, _ = check(sink, actions, GPU)
    assert (counters.blocks, counters.threads) == (4, 16)
    assert counters.traffic["arg1"].read == 2 * 8 * 8 * 4
    assert counters.traffic["arg2"].read == 2 * 8 * 8 * 4
    assert counters.instructions["barrier"] == 4 * 16 * 2 * (
        2 + 1
    )  # per k tile: two fills, one before the next


def test_a_tile_whose_size_threads_do_not_divide(t: Table) -> None:
    sink = matmul(t, 6, 6, 5)
    check(sink, [Action(K.LOCAL, 1, 3), Action(K.LOCAL, 0, 2), Action(K.STAGE, -1, 2, 3)], GPU)


def test_lanes_sum_apart_and_are_combined_once(t: Table) -> None:
    counters, _ = check(row_sums(t, 2, 64), [Action(K.ACCUMULATORS, 1, 16)], CPU)
    assert counters.instructions["load"] == 2 * (
        4 * 2 + 1
    )  # per row 4 vectors and the accumulator, once more at the end
    unrolled, _ = check(row_sums(t, 2, 64), [Action(K.UNROLL, 1, 16)], CPU)
    assert counters.instructions["add"] < unrolled.instructions["add"]


def test_each_core_has_its_own_row(t: Table) -> None:
    counters, _ = check(softmax(t, 4, 8), [Action(K.THREAD, 0, 4)], CPU)
    assert counters.blocks == 4
    assert counters.local_bytes == 8 * 4


def test_a_row_is_shared_by_threads(t: Table) -> None:
    """All loops of a softmax over 32 threads: the row is read once by all together."""
    sink = softmax(t, 2, 128)
    actions = [
        Action(K.LOCAL, 1, 32),  # the loop that writes: L0 L3_0<4 l3_1 R1 R2
        Action(K.GROUP, 3, 32),  # the maximum, by the same threads: L0 L3_0<4 G1_1 R1_0<4 R2
        Action(K.GROUP, 4, 32),  # the sum
    ]
    after = apply_opts(sink, actions, GPU)
    assert names(after) == ["L3_0<4", "g0<2", "G1_1<32", "R1_0<4", "R2_0<4"]
    counters, _ = check(sink, actions, replace(GPU, block_threads=32))
    assert counters.threads == 32
    assert counters.traffic["arg1"].read == counters.traffic["arg0"].written == 2 * 128 * 4
    assert (
        counters.local_bytes == 0
    )  # each thread reads the part of the row that it kept; a warp needs no memory
    assert counters.register_bytes == 128 // 32 * 4 + 6 * 4  # that part, in place, and accumulators


# -- refusals --------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Build, Action, Target, str]] = [
    (matmul, Action(K.UPCAST, 7, 2), CPU, "no axis z7"),
    (matmul, Action(K.UPCAST, 2, 2), CPU, "REDUCE"),
    (matmul, Action(K.UNROLL, 0, 2), CPU, "LOOP"),
    (matmul, Action(K.UPCAST, 1, 3), CPU, "does not divide"),
    (matmul, Action(K.LOCAL, 1, 4), CPU, "no threads in blocks"),
    (matmul, Action(K.GROUP, 2, 2), CPU, "no threads in blocks"),
    (matmul, Action(K.LOCAL, 1, 8), replace(GPU, block_threads=4), "more than the 4 of a block"),
    (matmul, Action(K.THREAD, 0, 2), GPU, "no cores"),
    (matmul, Action(K.THREAD, 0, 2), SCALAR, "no cores"),
    (matmul, Action(K.THREAD, 1, 8), replace(CPU, cores=4), "more than the 4"),
    (matmul, Action(K.SPLIT, 1, 8), CPU, "is all of"),
    (matmul, Action(K.SWAP, 0, 2), CPU, "LOOP and REDUCE"),
    (matmul, Action(K.SWAP, 0, 0), CPU, "are one axis"),
    (matmul, Action(K.PADTO, 1, 4), CPU, "multiple"),
    (matmul, Action(K.PADTO, 1, 32), CPU, "too long"),
    (matmul, Action(K.PADTO, 1, 1), CPU, "no number"),
    (matmul, Action(K.STAGE, 0, 0), CPU, "writes arg0"),
    (matmul, Action(K.STAGE, 0, 9), CPU, "does not read"),
    (matmul, Action(K.STAGE, -1, 2), replace(CPU, local_bytes=16), "LOCAL memory"),
    (matmul, Action(K.STAGE, 2, 1), CPU, "nothing of arg1"),
    (matmul, Action(K.BLOCK, 1, 2), CPU, "REDUCE"),
    (matmul, Action(K.BLOCK, 2, 6), CPU, "is all of"),
    (matmul, Action(K.TC, 0, 0), SCALAR, "no tensor core"),
    (two_results, Action(K.THREAD, 1, 2), CPU, "not every store"),
    (transposed_tile, Action(K.THREAD, 0, 2), CPU, "reduced or kept"),
    (softmax, Action(K.BLOCK, 3, 2), CPU, "alone|hold"),
    (matmul, Action(K.HOLD, 2, 3), CPU, "not one of kept rows"),
    (matmul, Action(K.HOLD, 2, 6), CPU, "is all of"),
    (matmul, Action(K.HOLD, 2, 3), GPU, "share LOCAL memory"),
    (softmax, Action(K.HOLD, 2, 2), CPU, "alone"),
    (softmax, Action(K.LIMIT, 2, 2), CPU, "no mask hides"),
    (matmul, Action(K.LIMIT, 2, 2), CPU, "no mask hides"),
    (masked_attention, Action(K.LIMIT, 5, 3), CPU, "no number of steps"),
    (softmax, Action(K.SWAP, 0, 1), CPU, "more often"),
    (matmul, Action(K.PEEL, 1, 8), CPU, "no element inside"),
    (matmul, Action(K.PEEL, 2, 2), CPU, "REDUCE"),
    (softmax, Action(K.PEEL, 1, 2), CPU, "for both parts"),
    (cumsum_rows, Action(K.PEEL, 1, 2), CPU, "order|for both parts|reduced or kept"),
    (scatter, Action(K.PEEL, 0, 2), CPU, "order"),
    (cumsum_rows, Action(K.UPCAST, 1, 2), CPU, "SCAN"),
    (cumsum_rows, Action(K.LOCAL, 1, 2), GPU, "SCAN"),
    (cumsum_rows, Action(K.THREAD, 1, 2), CPU, "SCAN"),
    (cumsum_rows, Action(K.SPLIT, 1, 2), CPU, "SCAN"),
    (cumsum_rows, Action(K.OVERRUN, 1, 4), CPU, "SCAN"),
    (cumsum_rows, Action(K.PREFIX, 0, 2), CPU, "no SCAN runs along"),
    (cumsum_rows, Action(K.PREFIX, 1, 4), CPU, "does not divide"),
    (matmul, Action(K.PREFIX, 0, 2), CPU, "no SCAN runs along"),
    (scan_and_sum, Action(K.PREFIX, 1, 2), CPU, "is REDUCE"),
    (scan_and_sum, Action(K.UNROLL, 1, 2), CPU, "SCAN"),
    (scan_and_sum, Action(K.GROUP, 1, 2), GPU, "SCAN"),
    (scatter, Action(K.UPCAST, 0, 5), CPU, "data decides"),
    (scatter, Action(K.THREAD, 0, 5), CPU, "data decides"),
    (scatter, Action(K.LOCAL, 0, 5), GPU, "data decides"),
]


@pytest.mark.parametrize(
    ("build", "action", "target", "reason"),
    REFUSED,
    ids=[f"{getattr(b, '__name__', b)} {a} {target.name}" for b, a, target, _ in REFUSED],
)
def test_what_does_not_fit_is_refused_with_a_reason(
    build: Build, action: Action, target: Target, reason: str, t: Table
) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        apply_action(build(t), action, target)
    assert str(caught.value).startswith(action.word)


def test_memory_for_shared_sums_is_asked_of_the_whole_schedule(t: Table) -> None:
    """A later action may take what an earlier one keeps to registers."""
    shared, tight = Action(K.GROUP, 2, 6), replace(GPU, local_bytes=8)
    apply_action(matmul(t), shared, tight)
    with pytest.raises(Refusal, match="LOCAL memory"):
        apply_opts(matmul(t), [shared], tight)


def test_columns_of_scattered_rows_are_free(t: Table) -> None:
    sink = scatter(t)
    assert set(map(str, (r.arg for r in Nest.of(sink).ordered))) == {"L0"}
    check(sink, [Action(K.UPCAST, 1, 4), Action(K.THREAD, 1, 2)], CPU)


def test_nolocals_forbids_threads_afterwards(t: Table) -> None:
    none = Action(K.NOLOCALS)
    for kind, axis in ((K.LOCAL, 1), (K.GROUP, 2), (K.GROUPTOP, 2)):
        with pytest.raises(Refusal, match="no_locals"):
            apply_opts(matmul(t), [none, Action(kind, axis, 2)], GPU)
    with pytest.raises(Refusal, match="already"):
        apply_opts(matmul(t), [Action(K.LOCAL, 1, 2), none], GPU)


def test_a_loop_whose_length_depends_on_an_axis(t: Table) -> None:
    """A triangle: rows of growing length."""
    i = t.range(8, 0)
    r = t.range(i + 1, 1, AxisType.REDUCE)
    sink = t.sink(
        t.param(0, f32, 8).index(i).store(t.param(1, f32, 64).index(i * 8 + r).reduce(Ops.ADD, r)).end(i)
    )
    for action in (Action(K.UPCAST, 0, 2), Action(K.THREAD, 0, 2), Action(K.PADTO, 0, 3)):
        with pytest.raises(Refusal, match="length of another loop"):
            apply_action(sink, action, CPU)


def test_local_memory_counts_threads_and_lanes(t: Table) -> None:
    sink = softmax(
        t, 4, 8
    )  # two rows, the second made of the first, in its place: a thread reads just what it writes
    assert local_bytes(sink) == 8 * 4
    assert local_bytes(apply_action(sink, Action(K.UPCAST, 0, 4), CPU)) == 4 * 8 * 4
    assert local_bytes(apply_action(sink, Action(K.LOCAL, 0, 2), GPU)) == 2 * 8 * 4
