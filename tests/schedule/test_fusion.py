"""What shares a kernel, by the number of kernels and by the bytes that they move."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from planish.compiler.grids import grid_of
from planish.ptir.graph_value import GraphValue
from planish.schedule.kernels import schedule
from planish.uop.node import Table
from planish.uop.ops import Ops
from tests.schedule.programs import (
    Build,
    Program,
    attention,
    causal,
    data,
    gelu,
    layernorm,
    like,
    mean,
    program,
    rmsnorm,
    softmax,
)
from tests.schedule.running import Ran, close, names, reference, run_graphs, run_programs

Array = NDArray[Any]


def all_agree(made: Program, terms: int = 64) -> Ran:
    """The function by every way to run it; the run as plain loops, for its counters."""
    wanted = reference(*made)
    close(run_graphs(*made).results, wanted, terms)
    plain = run_programs(*made)
    close(plain.results, wanted, terms)
    lowered = compiler.lower(made.function)
    close(lowered.interpreted()(*made.arrays), wanted, terms)
    close(lowered.compile()(*made.arrays), wanted, terms)
    return plain


def kinds(build: Build, *dims: Sequence[int]) -> list[str]:
    """The kernels of a function of large inputs, which is only looked at."""
    graph = ptir.Graph("f")
    inputs = [graph.input(f"x{n}", ptir.tensor("f32", tuple(each))) for n, each in enumerate(dims)]
    built = build(graph, *inputs)
    return names(graph.build(*(built if isinstance(built, tuple) else (built,))))


# -- elementwise, epilogues, siblings --------------------------------------------------------------------------------


def test_a_chain_is_one_kernel() -> None:
    ran = all_agree(
        program(lambda g, a, b, c: a.mul(b).add(c).tanh(), data(6, 7), data(6, 7, seed=1), data(6, 7, seed=2))
    )
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written, ran.scratch) == (3 * 6 * 7 * 4, 6 * 7 * 4, 0)


def test_an_epilogue_joins_its_product() -> None:
    def layer(g: ptir.Graph, x: GraphValue, w: GraphValue, b: GraphValue) -> GraphValue:
        product = x @ w
        return gelu(product.add(like(b, product)))

    ran = all_agree(program(layer, data(6, 5), data(5, 8), data(8)))
    assert [name.split("_")[0] for name in ran.kernels] == ["reduce"]
    assert ran.written == 6 * 8 * 4


def test_reductions_of_the_same_rows_read_them_once() -> None:
    ran = all_agree(program(lambda g, x: (x.reduce_sum([1]), x.reduce_max([1])), data(6, 16)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (6 * 16 * 4, 2 * 6 * 4)


def test_results_of_the_same_input_share_a_kernel() -> None:
    ran = all_agree(program(lambda g, x: (x.add(1.0), x.mul(2.0)), data(6, 16)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (6 * 16 * 4, 2 * 6 * 16 * 4)


def test_results_of_different_inputs_do_not() -> None:
    assert len(kinds(lambda g, x, y: (x.add(1.0), y.mul(2.0)), (6, 16), (6, 16))) == 2


def test_products_do_not_share_registers() -> None:
    assert len(kinds(lambda g, x, a, b: (x @ a, x @ b), (64, 32), (32, 64), (32, 64))) == 2


# -- rows ------------------------------------------------------------------------------------------------------------

ROWS: dict[str, tuple[Build, list[tuple[int, ...]]]] = {
    "softmax": (lambda g, x: softmax(x), []),
    "layernorm": (lambda g, x, a, b: layernorm(x, a, b), [(24,), (24,)]),
    "rmsnorm": (lambda g, x, a: rmsnorm(x, a), [(24,)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read_once_and_written_once(name: str) -> None:
    build, others = ROWS[name]
    x = data(20, 24)
    made = program(build, x, *(data(*dims, seed=5) for dims in others))
    for ran in (
        all_agree(made),
        run_programs(*made, target="x86-64-v4"),
        run_programs(*made, target="aarch64"),
    ):
        close(ran.results, reference(*made), 64)
        (counted,) = ran.counters
        moved = [t for t in counted.traffic.values() if max(t.distinct_read, t.distinct_written) == x.nbytes]
        assert sorted((t.read, t.written) for t in moved) == [(0, x.nbytes), (x.nbytes, 0)]
        assert ran.scratch <= 24 * 4


def test_columns_are_rows_too() -> None:
    ran = all_agree(program(lambda g, x: softmax(x, 0), data(12, 20)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (12 * 20 * 4, 12 * 20 * 4)
    assert ran.scratch <= 12 * 4


def test_a_statistic_that_is_a_result_is_stored_on_the_way() -> None:
    ran = all_agree(program(lambda g, x: (x.sub(like(mean(x), x)), mean(x)), data(20, 24)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (20 * 24 * 4, 20 * 24 * 4 + 20 * 4)


def test_rows_that_are_reduced_at_last_are_read_once() -> None:
    def logsumexp(g: ptir.Graph, x: GraphValue) -> GraphValue:
        top = x.reduce_max([1], keepdims=True)
        total = x.sub(like(top, x)).exp().reduce_sum([1])
        return total.log().add(top.reshape((20,)))

    ran = all_agree(program(logsumexp, data(20, 24)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (20 * 24 * 4, 20 * 4)


def test_rows_too_long_to_keep_are_read_again() -> None:
    for size, kept in ((60000, 2), (70000, 0)):
        with Table() as table:
            made = program(lambda g, x: softmax(x), np.zeros((16, size), np.float32))
            (kernel,) = schedule(made.function, table).kernels
            assert sum(node.op is Ops.BUFFERIZE for node in kernel.sink.toposort()) == kept


def test_a_few_long_rows_are_left_to_all_cores() -> None:
    assert kinds(lambda g, x: softmax(x), (1 << 20,)) == ["reduce", "rows", "rows"]
    assert kinds(lambda g, x: softmax(x), (4096, 4096)) == ["rows"]


def test_rows_and_columns_cannot_lead_at_once() -> None:
    def centred(g: ptir.Graph, x: GraphValue) -> GraphValue:
        rows = like(x.reduce_sum([1], keepdims=True), x)
        return x.sub(rows).sub(like(x.reduce_sum([0], keepdims=True), x))

    assert len(all_agree(program(centred, data(20, 24))).kernels) == 2


def test_reductions_of_reductions_are_one_kernel() -> None:
    ran = all_agree(program(lambda g, x: x.reduce_max([2]).reduce_sum([1]), data(4, 5, 6)))
    assert len(ran.kernels) == 1
    assert ran.read == 4 * 5 * 6 * 4


def test_a_window_over_a_reduction_reads_it_from_memory() -> None:
    def smoothed(g: ptir.Graph, x: GraphValue) -> GraphValue:
        rows = x.reduce_sum([1])
        return rows.slice([0], [18]).add(rows.slice([1], [19])).add(rows.slice([2], [20]))

    assert len(all_agree(program(smoothed, data(20, 6))).kernels) == 1  # so few that they are kept
    assert kinds(smoothed, (20, 6000)) == ["reduce", "map"]


# -- products in a row -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_attention_keeps_its_scores(masked: bool) -> None:
    build: Build = causal if masked else (lambda g, q, k, v: attention(q, k, v))
    made = program(build, data(2, 12, 4), data(2, 12, 4, seed=1), data(2, 12, 4, seed=2))
    ran = all_agree(made)
    assert len(ran.kernels) == 1
    assert ran.written == 2 * 12 * 4 * 4
    assert ran.scratch <= 2 * 64  # two rows of scores, each from an address that vectors like
    assert kinds(build, *[(12, 512, 64)] * 3) == ["rows"]


def test_layers_are_kernels_of_their_own() -> None:
    assert kinds(lambda g, x, a, b: gelu(x @ a) @ b, (64, 32), (32, 64), (64, 32)) == ["reduce", "reduce"]
    assert kinds(
        lambda g, x, a, b, w: layernorm(x, a, b) @ w, (64, 32), (32,), (32,), (32, 128)
    ) == ["rows", "reduce"]  # fmt: skip


def test_a_residual_is_added_where_the_product_is_made() -> None:
    def block(g: ptir.Graph, x: GraphValue, w: GraphValue, v: GraphValue) -> GraphValue:
        y = x.add(x @ w)
        return y.add(y.max(0.0) @ v)

    assert kinds(block, (64, 32), (32, 32), (32, 32)) == ["reduce", "reduce"]


def test_what_is_cheap_is_computed_inside_a_product_and_what_is_not_before_it() -> None:
    assert kinds(lambda g, x, w: x.max(0.0) @ w, (64, 32), (32, 64)) == ["reduce"]
    assert kinds(lambda g, x, w: x.exp() @ w, (64, 32), (32, 64)) == ["map", "reduce"]


def _convolved(x: GraphValue, w: GraphValue) -> GraphValue:
    return x.convolution(w, padding=[(1, 1), (1, 1)])


def _normalised(x: GraphValue, *four: GraphValue) -> GraphValue:
    scale, shift, average, variance = (v.reshape((1, 4, 1, 1)).broadcast_like(x) for v in four)
    return x.sub(average).mul(variance.abs().add(1e-5).rsqrt()).mul(scale).add(shift).max(0.0)


def test_convolution_and_batchnorm_and_relu_are_one_kernel() -> None:
    made = program(
        lambda g, x, w, *four: _normalised(_convolved(x, w), *four),
        data(1, 3, 5, 5), data(4, 3, 3, 3), *(data(4, seed=n) for n in range(4)),
    )  # fmt: skip
    ran = all_agree(made)
    assert len(ran.kernels) == 1
    assert ran.written == 4 * 5 * 5 * 4


def test_convolutions_in_a_row_write_what_the_next_reads() -> None:
    def two(g: ptir.Graph, x: GraphValue, w: GraphValue, *four: GraphValue) -> GraphValue:
        return _normalised(_convolved(_normalised(_convolved(x, w), *four), w), *four).add(x)

    assert kinds(two, (1, 4, 8, 8), (4, 4, 3, 3), *[(4,)] * 4) == ["reduce", "reduce"]


# -- positions -------------------------------------------------------------------------------------------------------


def test_an_embedding_reads_its_rows_only() -> None:
    ids = np.asarray([3, 0, 3, 7], np.int64)
    ran = all_agree(program(lambda g, table, ids: table.take(ids, 0), data(100, 8), ids))
    assert len(ran.kernels) == 1
    assert ran.read == 4 * 8 * 4 + ids.nbytes
    (counted,) = ran.counters
    assert counted.distinct_bytes_read == 3 * 8 * 4 + ids.nbytes


def test_concat_writes_once() -> None:
    ran = all_agree(program(lambda g, a, b: a.concat([b], 1), data(6, 16), data(6, 20, seed=1)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (6 * 36 * 4, 6 * 36 * 4)


def test_pad_writes_once() -> None:
    ran = all_agree(program(lambda g, x: x.add(1.0).pad((1, 2), (0, 3)), data(6, 16)))
    assert len(ran.kernels) == 1
    assert (ran.read, ran.written) == (6 * 16 * 4, 7 * 21 * 4)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_is_linear_work(axis: int, reverse: bool) -> None:
    ran = all_agree(program(lambda g, x: x.cumsum(axis, reverse=reverse).mul(2.0), data(6, 16)))
    assert [name.split("_")[0] for name in ran.kernels] == ["scan"]
    assert (ran.read, ran.written) == (6 * 16 * 4, 6 * 16 * 4)


def test_a_scan_of_a_scan_backwards_has_two_kernels() -> None:
    ran = all_agree(program(lambda g, x: x.cumsum(1, reverse=True).cumsum(1), data(6, 16)))
    assert [name.split("_")[0] for name in ran.kernels] == ["scan", "scan"]


def test_scatter_writes_into_a_copy() -> None:
    ids = np.asarray([3, 0, 3, 30, -1], np.int64)
    made = program(
        lambda g, x, ids, u: x.scatter(u, [ids], [0], "add").mul(2.0), data(10, 4), ids, data(5, 4, seed=1)
    )
    ran = all_agree(made)
    assert [name.split("_")[0] for name in ran.kernels] == ["copy", "scatter", "map"]


def test_scatters_into_the_same_tensor_do_not_meet() -> None:
    ids = np.asarray([3, 0], np.int64)

    def both(g: ptir.Graph, x: GraphValue, ids: GraphValue, u: GraphValue) -> tuple[GraphValue, ...]:
        return x.scatter(u, [ids], [0]), x.scatter(u.neg(), [ids], [0])

    all_agree(program(both, data(10, 4), ids, data(2, 4, seed=1)))


def test_a_position_that_is_computed_may_be_reduced() -> None:
    ran = all_agree(program(lambda g, x, w: w.take(x.argmax(1), 0), data(6, 16), data(16, 3)))
    assert len(ran.kernels) == 1


def test_one_number_on_the_way_does_not_leave_a_gpu_with_one_block() -> None:
    """A length that masks 16,000 sums of 475 terms is a result as well: in one kernel, its one block would make all of them."""
    graph = ptir.Graph("masked")
    x, w = (
        graph.input(name, ptir.tensor("f32", dims)) for name, dims in (("x", (160, 475)), ("w", (475, 100)))
    )
    length = graph.input("n", ptir.tensor("f32", ())).exp()
    sums = x.dot_general(w, ptir.ops.DotDims(lhs_contract=(1,), rhs_contract=(0,)))
    lowered = compiler.lower(graph.build(sums.mul(length.broadcast_like(sums)), length), "sm_90")
    last = lowered.programs[lowered.plan.launches[-1].kernel]
    assert prod(map(int, grid_of(last).blocks)) > 8
    assert len(lowered.plan.launches) == 2


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90"])
def test_a_smaller_result_on_the_way_does_not_give_a_large_one_its_loops(target: str) -> None:
    """A weight that is kept beside what is made of it would be around all other loops: on a GPU the blocks, and the only ones."""

    def scaled(x: Any, w: Any) -> Any:
        wide = pn.exp(w)
        return x * wide, wide

    specs = pn.TensorSpec((20000, 96), pn.float32), pn.TensorSpec((96,), pn.float32)
    lowered = compiler.lower(pn.jit(scaled).lower(*specs).function, target)
    assert len(lowered.plan.kernels) == 2
    small = pn.TensorSpec((20, 96), pn.float32)
    assert len(compiler.lower(pn.jit(scaled).lower(small, specs[1]).function, target).plan.kernels) == 1


def test_a_statistic_may_still_lead_a_large_result() -> None:
    def normed(x: Any) -> Any:
        mean = pn.mean(x, axis=1, keepdims=True)
        return x - mean, mean

    traced = pn.jit(normed).lower(pn.TensorSpec((4096, 512), pn.float32)).function
    for target in ("x86-64-v3", "sm_90"):
        assert len(compiler.lower(traced, target).plan.kernels) == 1


def test_sums_of_few_elements_and_many_terms_are_made_before_they_are_scattered() -> None:
    """A gradient by the bias of windows: few elements go to rows that data chooses, each a sum over all windows."""

    def slopes(scores: Any, places: Any) -> Any:
        summed = pn.permute_dims(pn.sum(scores, axis=0), (1, 0))
        return pn.zeros((169, 6)).at[places].add(summed)

    specs = pn.TensorSpec((1024, 6, 2401), pn.float32), pn.TensorSpec((2401,), pn.int64)
    traced = pn.jit(slopes).lower(*specs).function
    for target in ("x86-64-v3", "sm_90"):
        names = [kernel.name for kernel in compiler.lower(traced, target).plan.kernels]
        assert any(name.startswith("reduce") for name in names)
        assert any(name.startswith("scatter") for name in names)
