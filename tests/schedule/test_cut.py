"""Cutting a program into kernels: memory, order, sharing of equal kernels, sizes known at launch, split reductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish.errors import LoweringError
from planish.ptir.dims import Dim
from planish.schedule import split
from planish.schedule.kernels import cut, schedule
from planish.schedule.lowering import to_tensors
from planish.schedule.order import KernelEffects, in_order
from planish.schedule.parameters import buffer_of
from planish.schedule.split import split_reductions
from planish.schedule.tensors import Tensors
from planish.uop.node import Table
from planish.uop.ops import Ops
from planish.uop.shape import shape
from planish.uop.spec import check
from tests.schedule.programs import Build, attention, data, like, program, softmax
from tests.schedule.running import close, reference, run_graphs, run_programs

Array = NDArray[Any]


# -- cut -------------------------------------------------------------------------------------------------------------


def _softmax_tensors(table: Table) -> tuple[Tensors, ptir.Function]:
    made = program(lambda g, x: softmax(x), data(20, 24))
    return to_tensors(made.function, table), made.function


def test_what_is_realised_has_memory_of_its_own() -> None:
    with Table() as table:
        tensors, function = _softmax_tensors(table)
        (wanted,) = (tensors.values[result] for result in function.results)
        (kernel,) = cut(tensors, [wanted])
        memory = tensors.realised[wanted]
        assert shape(memory) == shape(wanted)
        assert kernel.written == (buffer_of(memory),)
        assert set(kernel.buffers) == {0, buffer_of(memory)}
        assert cut(tensors, [wanted]) == []


def test_memory_is_used_by_the_next_cut() -> None:
    with Table() as table:
        tensors, function = _softmax_tensors(table)
        (result,) = (tensors.values[each] for each in function.results)
        inner = next(node for node in result.toposort() if node.op is Ops.EXP)
        (first,) = cut(tensors, [inner])
        (second,) = cut(tensors, [result])
        assert buffer_of(tensors.realised[inner]) in second.buffers
        assert set(second.buffers).isdisjoint(set(first.buffers) - set(first.written))


def test_a_whole_buffer_needs_no_kernel_and_a_view_is_copied() -> None:
    with Table() as table:
        made = program(lambda g, x: (x, x.transpose((1, 0))), data(3, 4))
        tensors = to_tensors(made.function, table)
        whole, turned = (tensors.values[each] for each in made.function.results)
        (kernel,) = cut(tensors, [whole, turned])
        assert tensors.realised[whole] is whole
        assert kernel.name.startswith("copy_")


def test_results_that_are_parameters_or_equal_get_memory_each() -> None:
    made = program(lambda g, x: (x, x, x.add(1.0), x.add(1.0)), data(3, 4))
    with Table() as table:
        plan = schedule(made.function, table)
        assert len({number for number, _ in plan.results}) == 4
    close(run_graphs(*made).results, reference(*made))


def test_graphs_keep_the_laws() -> None:
    for build in (
        lambda g, x: softmax(x),
        lambda g, x: x.cumsum(1, reverse=True),
        lambda g, x: attention(x, x, x),
    ):
        with Table() as table:
            for kernel in schedule(program(build, data(20, 24)).function, table).kernels:
                check(kernel.sink, "kernel")


def test_equal_kernels_are_one() -> None:
    def layers(g: ptir.Graph, *given: Any) -> Any:
        x, *weights = given
        for weight in weights:
            x = (x @ weight).max(0.0)
        return x

    with Table() as table:
        kernels = schedule(
            program(layers, data(8, 8), *(data(8, 8, seed=n) for n in range(4))).function, table
        ).kernels
        assert len(kernels) == 4
        assert len({kernel.key for kernel in kernels}) == len({kernel.name for kernel in kernels}) == 1
        assert len({kernel.sink for kernel in kernels}) == 1
        assert len({kernel.buffers for kernel in kernels}) == 4


def test_names_do_not_depend_on_what_was_compiled_before() -> None:
    made = program(lambda g, x: softmax(x.exp() @ x.exp()), data(20, 20))
    found = set()
    for _ in range(2):
        with Table() as table:
            schedule(program(lambda g, x: x.cumsum(0), data(3, 3)).function, table)
            found.add(tuple(kernel.name for kernel in schedule(made.function, table).kernels))
    assert len(found) == 1


# -- order -----------------------------------------------------------------------------------------------------------


def test_readers_wait_for_writers_and_writers_for_readers() -> None:
    table = Table()
    old, new, copy, sum_ = (table.variable(name, 0, 1, dtypes.int32) for name in ("a", "b", "c", "d"))
    overwrite = KernelEffects("overwrite", (), (new,), (old,))
    read_old, read_new = (
        KernelEffects("read old", (old,), (copy,)),
        KernelEffects("read new", (new,), (sum_,)),
    )
    fill = KernelEffects("fill", (), (old,))
    assert in_order([read_new, overwrite, read_old, fill]) == ["fill", "read old", "overwrite", "read new"]
    with pytest.raises(LoweringError, match="circle"):
        in_order([KernelEffects("x", (old,), (new,)), KernelEffects("y", (new,), (old,))])


def test_results_that_need_each_other_through_memory_are_not_one_kernel() -> None:
    def crossed(g: ptir.Graph, x: Any) -> Any:
        rows = x.reduce_sum([1], keepdims=True)
        low = like(rows.reduce_max([0], keepdims=True), x).add(x)
        return x.mul(2.0), low, low.reduce_sum([0]), like(low.reduce_sum([0], keepdims=True), x).sub(x)

    made = program(crossed, data(20, 24))
    close(run_graphs(*made).results, reference(*made), 500)


# -- split reductions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 17, (1 << 17) - 1])
@pytest.mark.parametrize("kind", ["reduce_sum", "reduce_max", "reduce_prod"])
def test_a_large_reduction_is_made_of_parts(size: int, kind: str) -> None:
    x = (np.random.default_rng(0).integers(-3, 3, size) * 2 + 1).astype(np.int32)
    made = program(lambda g, x: getattr(x, kind)([0]), x)
    ran = run_graphs(*made)
    close(ran.results, reference(*made))
    assert [name.split("_")[0] for name in ran.kernels] == ["reduce", "reduce"]
    assert ran.kernels[1].startswith("reduce_1_")


@pytest.mark.parametrize(("dims", "axis"), [((1 << 18,), 0), ((2, 300000), 1), ((1 << 18, 3), 0)])
@pytest.mark.parametrize("kind", ["cumsum", "cummax"])
def test_a_long_scan_is_made_of_parts(dims: tuple[int, ...], axis: int, kind: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, dims).astype(np.int32)
    made = program(lambda g, x: getattr(x, kind)(axis), x)
    ran = run_graphs(*made)
    close(ran.results, reference(*made))
    assert [name.split("_")[0] for name in ran.kernels] == ["reduce", "scan", "scan"]


def test_scans_that_are_short_uneven_or_of_many_rows_stay_whole() -> None:
    for dims, axis in (((1 << 17,), 0), (((1 << 18) + 3,), 0), ((16, 1 << 18), 1)):
        with Table() as table:
            made = program(lambda g, x, axis=axis: x.cumsum(axis), np.zeros(dims, np.int32))
            assert len(schedule(made.function, table).kernels) == 1


def test_parts_are_a_function_of_the_shape() -> None:
    made = program(lambda g, x: x.reduce_sum([0, 1]), data(512, 512))
    with Table() as table:
        tensors = to_tensors(made.function, table)
        (root,) = (tensors.values[each] for each in made.function.results)
        smaller = split_reductions(tensors, [root])[root]
        parts = next(node for node in smaller.toposort() if node.op is Ops.CONTIGUOUS)
        assert shape(parts) == (512 * 512 // split.PART, 1)


def test_small_reductions_and_those_of_many_rows_stay_whole() -> None:
    for dims, axes in (((1 << 15,), [0]), ((64, 1 << 12), [1])):
        with Table() as table:
            made = program(lambda g, x, axes=axes: x.reduce_sum(axes), data(*dims))
            assert len(schedule(made.function, table).kernels) == 1


def test_sums_of_the_same_memory_are_split_together() -> None:
    made = program(lambda g, x: (x.reduce_sum([0]), x.reduce_max([0])), data(1 << 17))
    close(run_graphs(*made).results, reference(*made), 1 << 17)
    with Table() as table:
        parts, whole = schedule(made.function, table).kernels
        assert len(parts.written) == len(whole.written) == 2
        assert len(parts.buffers) == 3  # one of them read


# -- sizes known at launch -------------------------------------------------------------------------------------------

B, N = Dim.named("B", 1, 7), Dim.named("N", 1, 9)
DYNAMIC: dict[str, tuple[Build, list[tuple[int | Dim, ...]], int]] = {
    "map": (lambda g, x, y: x.add(y).mul(2.0), [(B, N), (B, N)], 1),
    "softmax": (lambda g, x: softmax(x), [(B, N)], 1),
    "product": (lambda g, x, w: x @ w, [(B, N), (N, 4)], 1),
    "reshape": (lambda g, x: x.reshape((B * 6,)).add(1.0), [(B, 2, 3)], 1),
    "scan": (lambda g, x: x.cumsum(1, reverse=True), [(B, N)], 1),
    "concat": (lambda g, x, y: x.concat([y], 1), [(B, N), (B, 3)], 1),
    "pad": (lambda g, x: x.pad((1, 0), (0, 2)), [(B, N)], 1),
    "attention": (lambda g, q, k, v: attention(q, k, v), [(2, B, 4), (2, N, 4), (2, N, 4)], 1),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_one_schedule_serves_all_sizes(name: str) -> None:
    build, dims, count = DYNAMIC[name]
    graph = ptir.Graph("f")
    inputs = [graph.input(f"x{n}", ptir.tensor("f32", each)) for n, each in enumerate(dims)]
    function = graph.build(build(graph, *inputs))
    for sizes in ({"B": 1, "N": 1}, {"B": 3, "N": 5}, {"B": 7, "N": 9}):
        arrays = [data(*_sizes(each, sizes), seed=n) for n, each in enumerate(dims)]
        wanted = reference(function, arrays)
        ran = run_graphs(function, arrays, sizes)
        assert len(ran.kernels) == count
        close(ran.results, wanted, 64)
        close(run_programs(function, arrays, sizes).results, wanted, 64)


def _sizes(dims: tuple[int | Dim, ...], sizes: Mapping[str, int]) -> list[int]:
    return [dim if isinstance(dim, int) else dim.evaluate(sizes) for dim in dims]


def test_kernels_name_their_variables() -> None:
    graph = ptir.Graph("f")
    x, y = graph.input("x", ptir.tensor("f32", (B, N))), graph.input("y", ptir.tensor("f32", (3, 4)))
    with Table() as table:
        plan = schedule(graph.build(x.add(1.0), y.add(1.0)), table)
        assert sorted(kernel.variables for kernel in plan.kernels) == [(), ("B", "N")]
        assert sorted(b.size for b in plan.buffers) == [12, 12, 63, 63]
