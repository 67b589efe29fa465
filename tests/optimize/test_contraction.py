"""Products of matrices: the nest that they get, whatever their sizes and however their operands lie; and that it computes them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import cast

import numpy as np
import pytest

from planish import compiler, ptir
from planish.actions.accumulators import Accumulators
from planish.actions.base import apply_action
from planish.actions.stage import Stage
from planish.actions.thread import Thread
from planish.dtypes import float32 as f32
from planish.dtypes import void
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Compute, EndLoop, Immediate, Load, Loop, Program, Store
from planish.optimize.cores import CoreCut, best_cut
from planish.optimize.heuristic import choose
from planish.optimize.tiles import Division, Shape, best_division, best_sums, best_tile
from planish.stages.pipeline import Machine, run
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.strides import stride
from tests.optimize.corpus import offered
from tests.placed import brief
from tests.stages.kernels import Array

V4 = TARGETS["x86-64-v4"]
Sizes = tuple[int, int, int]


def matmul(
    t: Table, sizes: Sizes, *, left: bool = False, right: bool = False, batch: int = 0, epilogue: bool = False
) -> UOp:
    """A product; `left` and `right`: that operand lies transposed."""
    m, n, k = sizes
    b, i, j = t.range(max(batch, 1), 0), t.range(m, 1), t.range(n, 2)
    r = t.range(k, 3, AxisType.REDUCE)
    at = (lambda index, size: b * size + index) if batch else (lambda index, size: index)
    count = max(batch, 1)
    x = t.param(1, f32, count * m * k).index(at(r * m + i if left else i * k + r, m * k))
    y = t.param(2, f32, count * k * n).index(at(j * k + r if right else r * n + j, k * n))
    total = (x * y).reduce(Ops.ADD, r)
    if epilogue:
        total = (total + t.param(3, f32, n).index(j)).max(0.0)
    place = t.param(0, f32, count * m * n).index(at(i * n + j, m * n))
    axes = (b, i, j) if batch else (i, j)
    return t.sink(place.store(total).end(*axes))


def program_of(target: Target, sizes: Sizes, *, cores: bool = True, **options: object) -> Program:
    with Table() as t:
        sink = matmul(t, sizes, **options)  # type: ignore[arg-type]
        return lower(
            "kernel",
            run(sink, Machine(target, partial(choose, target=target, attempt=attempts(target), cores=cores))),
        )


def nest_of(target: Target, sizes: Sizes, **options: object) -> tuple[list[str], Program]:
    """The nest of a product, whether it is the one that is chosen or not."""
    with Table() as t:
        sink = matmul(t, sizes, **options)  # type: ignore[arg-type]
        actions = offered(sink, target, "a product of matrices")
        return brief(actions), lower("kernel", run(sink, Machine(target, lambda kernel: actions)))


def kinds(sizes: Sizes, target: Target = V4, *, cores: bool = True, **options: object) -> list[str]:
    with Table() as t:
        sink = matmul(t, sizes, **options)  # type: ignore[arg-type]
        found = choose(sink, target, attempts(target), cores=cores)
    return brief(found)


def expected_of(
    arrays: dict[int, Array], sizes: Sizes, *, left: bool, right: bool, batch: int, epilogue: bool
) -> Array:
    m, n, k = sizes
    count = max(batch, 1)
    x = arrays[1].reshape(count, k, m).swapaxes(1, 2) if left else arrays[1].reshape(count, m, k)
    y = arrays[2].reshape(count, n, k).swapaxes(1, 2) if right else arrays[2].reshape(count, k, n)
    total = x.astype(np.float64) @ y
    if epilogue:
        total = np.maximum(total + arrays[3], 0)
    return total.reshape(-1)


CASES = (
    ("x86-64-v4", (13, 17, 5)),
    ("x86-64-v4", (64, 48, 3)),
    ("x86-64-v4", (7, 130, 3)),
    ("x86-64-v4", (40, 66, 70)),
    ("x86-64-v3", (29, 20, 4)),
    ("aarch64", (9, 24, 5)),
    ("aarch64", (9, 13, 20)),
    ("aarch64", (9, 33, 20)),
)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_every_nest_computes_the_product(name: str, sizes: Sizes) -> None:
    """All ways to lie, with and without batches and what follows; exact, since the numbers are small and whole."""
    m, n, k = sizes
    for number, (left, right) in enumerate(product((False, True), repeat=2)):
        batch, epilogue = (0, 3)[number % 2], number > 1
        program = program_of(TARGETS[name], sizes, left=left, right=right, batch=batch, epilogue=epilogue)
        rng, count = np.random.default_rng(number), max(batch, 1)
        arrays: dict[int, Array] = {
            slot: rng.integers(-4, 5, size).astype(np.float32)
            for slot, size in enumerate((count * m * n, count * m * k, count * k * n, n))
        }
        expected = expected_of(arrays, sizes, left=left, right=right, batch=batch, epilogue=epilogue)
        interpret(program, [arrays[int(param.name.removeprefix("arg"))] for param in program.params])
        np.testing.assert_array_equal(arrays[0], expected)


def test_a_block_goes_on_from_what_the_last_one_left() -> None:
    """Sums start from the result so far: after a block nothing is added, so no second tile is held beside the one of sums."""
    tiny = replace(V4, caches=(1 << 10, 4 << 10, 16 << 20))
    found, program = nest_of(tiny, (12, 64, 64))
    assert "block" in {word.split()[0] for word in found}
    adds = [i for i in program.body if isinstance(i, Compute) and i.op is Ops.ADD and i.result.dtype.is_float]
    assert not adds


def test_the_last_column_is_apart_only_where_what_is_summed_up_needs_no_blocks() -> None:
    """49 columns: three vectors and one column, unless a panel of all terms would leave the second cache between two rows of tiles."""
    near, far = kinds((512, 49, 1024)), kinds((512, 49, 8192))
    assert "peel" in {word.split()[0] for word in near}
    assert {"peel", "block"} & {word.split()[0] for word in far} == {"block"}


def test_what_is_copied_is_read_in_the_order_of_memory() -> None:
    """A transposed left operand, kept tile by tile: a row of it is read from end to end, not six elements of every row."""
    with Table() as t:
        sink = matmul(t, (516, 512, 64), left=True)
        for action in choose(sink, V4, attempts(V4), cores=False):
            sink = apply_action(sink, action, V4)
        copies = [n.src[0] for n in sink.toposort() if n.op is Ops.BUFFERIZE]
        (left,) = [n for n in copies if n.op is Ops.INDEX and n.src[0].arg == 1]
        loops = sorted((r for r in left.ranges if kind_of(r) is AxisType.LOOP), key=lambda r: r.order)
        steps = [stride(left.src[1], r) for r in loops]
    assert steps == [516, 6]


def test_small_caches_make_blocks_of_everything() -> None:
    """A machine with hardly any cache: the reduction in passes, a transposed operand in blocks of rows."""
    tiny = replace(V4, caches=(1 << 10, 4 << 10, 16 << 20), local_bytes=4 << 10, workers=2)
    sizes = (42, 70, 24)
    for left in (False, True):
        found, program = nest_of(tiny, sizes, left=left)
        assert "block" in {word.split()[0] for word in found}, found
        rng = np.random.default_rng(0)
        arrays = {s: rng.integers(-4, 5, z).astype(np.float32) for s, z in enumerate((2940, 1008, 1680))}
        expected = expected_of(arrays, sizes, left=left, right=False, batch=0, epilogue=False)
        interpret(program, [arrays[int(param.name.removeprefix("arg"))] for param in program.params])
        np.testing.assert_array_equal(arrays[0], expected)


# -- what is chosen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((512, 512, 512), ["upcast 64", "overrun 516", "upcast 6", "swap", "stage 2"]),
        ((768, 768, 64), ["upcast 48", "upcast 8", "swap", "stage 2"]),
        ((66, 32, 64), ["upcast 32", "upcast 11"]),
        ((1023, 1023, 64), ["pad_to 64", "upcast 64", "overrun 1026", "upcast 6", "swap", "stage 2"]),
        ((64, 10, 512), ["upcast 4", "upcast 5", "accumulators 16", "stage 2"]),
    ],
    ids=str,
)
def test_one_nest_for_all_sizes(sizes: Sizes, expected: list[str]) -> None:
    with Table() as t:
        found = choose(matmul(t, sizes), V4, attempts(V4), cores=False)
    assert brief(found) == expected


def test_operands_are_copied_where_they_do_not_lie_well() -> None:
    def slots(**options: object) -> list[int]:
        with Table() as t:
            found = choose(matmul(t, (512, 512, 512), **options), V4, attempts(V4))  # type: ignore[arg-type]
        return [a.param for a in found if isinstance(a, Stage)]

    assert slots() == [2]
    assert slots(right=True) == [2]
    assert slots(left=True) == [2, 1]
    assert slots(left=True, right=True) == [2, 1]


@pytest.mark.parametrize("rows", [2, 4, 7, 8, 16])
def test_few_rows_against_the_rows_of_a_matrix_are_sums_in_lanes(rows: int) -> None:
    """Nothing is gathered element by element, nothing copied, also where rows are a multiple of a page apart, and cores share it."""
    for along in (4096, 4112):
        with Table() as t:
            found = choose(matmul(t, (rows, 4096, along), right=True), V4, attempts(V4))
        kinds = [type(action) for action in found]
        assert Stage not in kinds
        assert {Accumulators, Thread} <= set(kinds)


def test_cores_share_batches_then_columns_then_rows() -> None:
    def shared(sizes: Sizes, **options: object) -> str:
        with Table() as t:
            sink = matmul(t, sizes, **options)  # type: ignore[arg-type]
            found = choose(sink, V4, attempts(V4))
        return next((f"{a.axis} {a.amount}" for a in found if isinstance(a, Thread)), "none")

    assert shared((256, 256, 64), batch=16).startswith("i ")
    assert shared((512, 1024, 64)).startswith("k.outer ")
    assert shared((4096, 64, 64)).startswith("j.outer ")
    assert shared((32, 32, 32)) == "none"


def test_pieces_are_equal_unless_that_costs_more_than_it_gains() -> None:
    with Table() as t:
        i, j = t.range(90, 0), t.range(11, 1)
        columns, rows = CoreCut(j, 11), CoreCut(i, 90, is_free=True)
        best = best_cut(V4, 1 << 30, [columns, rows])
        assert best is not None
        assert best.axis is i  # eleven panels do not go evenly into eight cores
        dear = CoreCut(i, 90, copied=1 << 28, is_free=True)
        best = best_cut(V4, 1 << 30, [columns, dear])
        assert best is not None
        assert best.axis is j
        assert best_cut(V4, 1 << 10, [columns, rows]) is None


def test_of_equal_cuts_the_one_with_less_waste_and_large_enough_pieces() -> None:
    two = replace(V4, workers=2)
    with Table() as t:
        rows = CoreCut(t.range(66, 0), 11, is_free=True)
        best = best_cut(two, 1 << 24, [rows])
        assert best is not None
        assert best.pieces == 11  # not four of three, which are twelve
        best = best_cut(two, 1 << 24, [rows], rounds=1)
        assert best is not None
        assert best.pieces == 2  # large ones were asked for
        columns = CoreCut(t.range(6400, 1), 100)
        assert best_cut(two, 1 << 30, [columns], rounds=1) == columns._replace(pieces=2)
        assert best_cut(two, 1 << 30, [columns], rounds=2) == columns._replace(pieces=4)
        small = columns._replace(least=10)
        assert best_cut(two, 1 << 30, [small]) == small._replace(pieces=10)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # few rows: blocks of rows of the right operand, each walked from end to end; copied if it is read again
        ((3, 2048, 2048), ["upcast 64", "upcast 3", "block 64"]),
        ((16, 1536, 2048), ["upcast 48", "upcast 8", "swap", "block 64", "stage 2"]),
        # near enough to be read where it is
        ((12, 192, 64), ["upcast 64", "upcast 6", "swap"]),
        # one panel: it lies together, but not all of it stays near from one row of tiles to the next
        ((66, 64, 1 << 16), ["upcast 64", "upcast 6", "block 1024"]),
    ],
    ids=str,
)
def test_what_is_far_is_fetched_in_blocks(sizes: Sizes, expected: list[str]) -> None:
    assert kinds(sizes, cores=False) == expected


def test_pieces_of_a_walk_keep_their_results_near() -> None:
    """More pieces than cores if results that every block adds to would not stay in the second cache; otherwise long walks."""
    two = replace(V4, workers=2)
    assert "thread 2" in kinds((16, 1536, 2048), two)
    assert "thread 2" in kinds((64, 64, 1 << 16), two)  # a block of the only panel is for all rows of a piece
    found = kinds((16, 48 << 10, 768), two)
    pieces = int(next(word for word in found if word.startswith("thread")).split()[1])
    assert 16 * (48 << 10) * 4 // pieces <= V4.caches[1] // 4


def test_cores_share_columns_of_a_few_rows_that_are_copied() -> None:
    """Each then copies the left operand, which is less than all of the right one."""
    found = kinds((64, 512, 512), replace(V4, workers=2), left=True)
    assert found[:4] == ["upcast 64", "pad_to 66", "upcast 6", "thread 2"]


def test_columns_run_over_their_end_to_be_shared() -> None:
    """43 panels, 44 with one that nothing is in: not 43 pieces of one panel."""
    found = kinds((16, 2048, 2048), replace(V4, workers=2))
    assert found[0] == "pad_to 96"
    assert "thread 2" in found


def test_a_product_with_two_results_has_the_nest_of_one() -> None:
    """An activation, and the sum before it, which its gradient needs. There is not one result that could hold parts of sums."""

    def both(t: Table, m: int, n: int, k: int) -> UOp:
        i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
        total = (t.param(2, f32, m * k).index(i * k + r) * t.param(3, f32, k * n).index(r * n + j)).reduce(
            Ops.ADD, r
        )
        before = t.param(0, f32, m * n).index(i * n + j).store(total)
        after = t.param(1, f32, m * n).index(i * n + j).store(total.max(0.0))
        return t.sink(t.make(Ops.GROUP, void, (before, after)).end(i, j))

    with Table() as t:
        found = choose(both(t, 64, 512, 784), V4, attempts(V4), cores=False)
        words = brief(found)
        assert words == ["upcast 64", "overrun 66", "upcast 6", "swap", "stage 3"]
        sink = both(t, 40, 130, 24)
        program = lower("kernel", run(sink, Machine(V4, partial(choose, target=V4, attempt=attempts(V4)))))
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((40, 24), (24, 130)))
    arrays = [np.zeros(5200, np.float32), np.zeros(5200, np.float32), x.reshape(-1), y.reshape(-1)]
    interpret(program, [arrays[int(param.name.removeprefix("arg"))] for param in program.params])
    np.testing.assert_array_equal(arrays[0].reshape(40, 130), x @ y)
    np.testing.assert_array_equal(arrays[1].reshape(40, 130), np.maximum(x @ y, 0))


# -- register tiles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_tiles_fit_the_registers(name: str) -> None:
    target = TARGETS[name]
    lanes = target.lanes(f32)
    for rows, columns in product((1, 5, 30, 64, 77, 512), (16, 48, 64, 96, 512)):
        shape = best_tile(target, rows, columns, lanes)
        assert shape is not None
        assert shape.rows * shape.vectors + shape.vectors + 1 <= target.registers
        assert shape.rows <= rows


def test_tiles_are_wide_and_waste_little() -> None:
    assert best_tile(V4, 512, 512, 16) == Shape(6, 4)
    assert best_tile(V4, 511, 517, 16) == Shape(7, 3)  # 528 columns instead of 576
    assert best_tile(V4, 5, 512, 16) == Shape(5, 4)
    assert best_tile(V4, 64, 10, 16) == Shape(16, 1)
    assert best_tile(V4, 64, 10, 16, pitch=8192) == Shape(
        8, 1
    )  # more rows would drive each other out of the cache
    assert best_tile(TARGETS["aarch64"], 64, 30, 4) is None  # nothing divides, and lanes cannot be left out


def test_a_tile_is_small_where_much_follows_each_of_few_terms() -> None:
    """Functions are written out for every sum of a tile; beside them, what a large tile spares is little."""
    assert best_tile(V4, 100, 120, 16, after=5.0) == Shape(4, 2)
    assert best_tile(V4, 100, 120, 16) == Shape(5, 4)


@pytest.mark.parametrize(("terms", "tile"), [(5, (32, 4)), (64, (64, 5))])
def test_what_follows_is_counted_by_term(terms: int, tile: tuple[int, int]) -> None:
    """Distances to many points: a function for each, of few terms or of many."""
    g = ptir.Graph("f")
    x, y = g.input("x", ptir.tensor("f32", (100, terms))), g.input("y", ptir.tensor("f32", (120, terms)))
    points = (
        each.reshape(dims).broadcast_to([100, 120, terms])
        for each, dims in ((x, [100, 1, terms]), (y, [1, 120, terms]))
    )
    apart = next(points).sub(next(points))
    lowered = compiler.lower(g.build(apart.mul(apart).reduce_sum([2]).sqrt().exp()), "x86-64-v4")
    chosen = re.findall(r"upcast\(\w+, (\d+)\)", lowered.as_text("schedule"))
    assert tuple(map(int, chosen)) == tile


def test_columns_that_fill_no_vector_are_sums_in_lanes_where_that_is_cheaper() -> None:
    assert best_division(V4, 512, 49, 512, 16) == Division(Shape(8, 3), 48, Shape(8, 1))
    assert best_division(V4, 64, 196, 256, 16) == Division(Shape(8, 3), 192, Shape(8, 2))
    assert best_division(V4, 512, 62, 512, 16) == Division(Shape(6, 4), 62)  # nearly four vectors
    assert best_division(V4, 512, 49, 32, 16) == Division(Shape(6, 4), 49)  # sums of two vectors
    assert best_division(V4, 8, 49, 512, 16) == Division(Shape(8, 2), 49)  # few rows to copy anything for
    assert best_division(TARGETS["aarch64"], 64, 30, 64, 4) == Division(Shape(8, 3), 24, Shape(8, 3))


@pytest.mark.parametrize("sizes", [(512, 49, 512), (64, 196, 256), (128, 33, 64), (200, 193, 208)], ids=str)
def test_odd_columns_cost_hardly_more_than_they_are(sizes: Sizes) -> None:
    """What is multiplied, empty lanes included, in the loops that are innermost."""
    program = program_of(V4, sizes, cores=False)
    times, products = [1], 0
    for line in program.body:
        if isinstance(line, Loop):
            assert isinstance(line.bound, Immediate)
            times.append(times[-1] * cast("int", line.bound.value))
        elif isinstance(line, EndLoop):
            times.pop()
        elif isinstance(line, Compute) and line.op is Ops.MULACC:
            products += times[-1] * line.result.dtype.lanes * line.result.dtype.is_float
    assert products <= 1.05 * prod(sizes)


def test_the_innermost_loop_does_nothing_else() -> None:
    """Four loads of vectors, six of scalars, 24 sums: none of them is read from or kept in memory that is not its own."""
    program = program_of(V4, (516, 512, 512), cores=False)
    body = list(program.body)
    end = next(
        n
        for n, i in enumerate(body)
        if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float
    )
    start = max(n for n in range(end) if isinstance(body[n], Loop))
    stop = next(n for n in range(end, len(body)) if isinstance(body[n], EndLoop))
    inner = body[start:stop]
    sums = [i for i in inner if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float]
    assert len(sums) == 24
    assert not any(isinstance(i, Load) and i.gate is not None for i in inner)
    registers = [i for i in inner if isinstance(i, Load | Store) and "reg" in str(i.address.dtype)]
    assert len([i for i in inner if isinstance(i, Load)]) - sum(isinstance(i, Load) for i in registers) == 10


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_vector_longer_than_a_tile_is_a_tile(target: str, dtype: str) -> None:
    """128 lanes of 8 bits are more than a tile has across; it then has one vector."""
    g = ptir.Graph("product")
    a, b = g.input("a", ptir.tensor(dtype, (8, 12))), g.input("b", ptir.tensor(dtype, (12, 16)))
    lowered = compiler.lower(g.build(a.matmul(b)), TARGETS[target])
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 100, shape).astype(f"{dtype[0]}1") for shape in ((8, 12), (12, 16))]
    np.testing.assert_array_equal(
        lowered.interpreted()(*given)[0], ptir.interpret(lowered.function, given)[0]
    )


def test_rows_a_page_apart_are_few_enough_to_stay_in_the_first_cache() -> None:
    """Sums in lanes walk all rows of a tile side by side: where they share a set of the cache, no more than it has ways."""
    target = TARGETS["x86-64-v4"]
    apart, together = (best_sums(target, 20, 8210, 1024, 16, (pitch, pitch)) for pitch in (4160, 4096))
    assert apart is not None
    assert together is not None
    assert sum(apart) > 8 >= sum(together)
