"""Stage 16: the algebra once more, on machine integers that may wrap."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from planish import dtypes
from planish.stages import pipeline
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.linearizer.s16_post_index_symbolic import post_index_symbolic
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.symbolic import symbolic
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.test_s15_lower_index_dtype import environment, random_index, used, values_of

i32, f32 = dtypes.int32, dtypes.float32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def simplified(value: UOp) -> UOp:
    """A value as a kernel's index, after the stage."""
    return post_index_symbolic(used(value)).src[0].src[0].src[1]


def test_sums_that_lowering_left_are_folded(t: Table, golden: Golden) -> None:
    i = t.range(10, 0)
    lanes = t.make(Ops.VECTORIZE, dtypes.index.vec(2), (i * 16 + 3, i * 16 + 3 + 16))
    before = lower_index_dtype(used(lanes.gep(1) + 16))
    after = post_index_symbolic(before)
    index = after.src[0].src[0].src[1]
    assert index.op is Ops.ADD
    assert index.src[1].arg == 35
    golden.check(
        "stages/s16_post_index_symbolic/sums.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_lane_selection_moves_to_the_operands(t: Table) -> None:
    w, x, y, z = (t.variable(name, 0, 9, i32) for name in "wxyz")
    pair, other = t.make(Ops.VECTORIZE, i32.vec(2), (w, x)), t.make(Ops.VECTORIZE, i32.vec(2), (y, z))
    assert simplified((pair + other).gep(1)) is simplified(x + z)
    # a vector that is not built of lanes is computed once, and one lane of it selected
    buffer = t.param(1, i32, 8)
    loaded = t.make(Ops.LOAD, i32.vec(2), (t.make(Ops.INDEX, buffer.dtype, (buffer, w)),))
    assert simplified((loaded + other).gep(1)).op is Ops.GEP


def test_joined_and_taken_apart_again_is_nothing(t: Table) -> None:
    a, b = t.variable("a", 0, 9, i32), t.variable("b", 0, 9, i32)
    four = t.make(Ops.VECTORIZE, i32.vec(2), (a, b))
    joined = t.make(Ops.CAT, i32.vec(4), (four, t.make(Ops.VECTORIZE, i32.vec(2), (b, a))))
    assert simplified(joined.gep(2)) is b


def test_what_may_wrap_is_not_cancelled(t: Table) -> None:
    n = t.variable("n", 0, 2**31 - 1, i32)
    product = (n * 4) // 4  # wraps in 32 bits
    assert simplified(product) is not n
    m = t.variable("m", 0, 1000, i32)
    assert simplified((m * 4) // 4) is m


def test_nothing_is_left_to_do_afterwards() -> None:
    for seed in range(40):
        with Table() as t:
            rng = random.Random(seed)
            after = post_index_symbolic(lower_index_dtype(used(random_index(rng, t))))
            spec.check(after, "lowered")
            assert post_index_symbolic(after) is after
            assert all(symbolic(node) is None for node in after.toposort())


def test_values_stay_the_same() -> None:
    for seed in range(150):
        with Table() as t:
            rng = random.Random(seed)
            index = random_index(rng, t)
            given = environment(rng)
            after = post_index_symbolic(lower_index_dtype(used(index)))
            assert values_of(index, given) == values_of(after.src[0].src[0].src[1], given), seed


def test_loops_and_memory_keep_their_shape(t: Table) -> None:
    i = t.range(10, 0)
    kernel = t.sink(t.param(0, f32, 10).index(i).store(t.const(1.0, f32)).end(i))
    lines = pipeline.run(kernel)
    assert [line.op for line in lines].count(Ops.RANGE) == 1
