"""Stage 12 as seed 001 describes it: axes become hardware indices within the limits of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from planish.errors import LoweringError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages import pipeline
from planish.stages.devectorizer.s12_add_gpu_dims import add_gpu_dims, limit_dims
from planish.target import TARGETS
from planish.uop.evaluate import evaluate
from planish.uop.hardware_index import index_named
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.symbolic import simplify
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.kernels import REDUCE, f32, i32

GPU, CPU = TARGETS["cuda"], TARGETS["x86-64-v3"]
GLOBAL, LOCAL, WARP, THREAD = AxisType.GLOBAL, AxisType.LOCAL, AxisType.WARP, AxisType.THREAD


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def filled(t: Table, *axes: UOp) -> UOp:
    """out[all axes] = their number."""
    flat = t.const(0)
    for axis in axes:
        flat = flat * axis.src[0] + axis
    size = prod(axis.vmax + 1 for axis in axes)
    return t.sink(t.param(0, i32, size).index(flat).store(flat.cast(i32)).end(*axes))


def specials(sink: UOp) -> dict[str, int]:
    return {str(n.arg): int(n.src[0].arg) for n in sink.toposort() if n.op is Ops.SPECIAL}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("kind", "target", "name"),
    [
        (GLOBAL, GPU, "gidx0"),
        (LOCAL, GPU, "lidx0"),
        (WARP, GPU, "lidx0"),
        (AxisType.GROUP_REDUCE, GPU, "lidx0"),
        (THREAD, CPU, "core"),
        (GLOBAL, CPU, "core"),
    ],
)
def test_which_axis_becomes_which_index(t: Table, kind: AxisType, target: object, name: str) -> None:
    after = add_gpu_dims(filled(t, t.range(32, 0, kind)), GPU if target is GPU else CPU)
    assert specials(after) == {name: 32}
    assert not any(n.op is Ops.RANGE for n in after.toposort())


def test_256_blocks_are_an_index(t: Table, golden: Golden) -> None:
    before = filled(t, t.range(256, 0, GLOBAL), t.range(32, 1, LOCAL))
    after = add_gpu_dims(before, GPU)
    assert specials(after) == {"gidx0": 256, "lidx0": 32}
    golden.check(
        "stages/seed/s12_index.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_loops_and_reductions_stay_loops(t: Table) -> None:
    g, i, r = t.range(8, 0, GLOBAL), t.range(3, 1), t.range(4, 2, REDUCE)
    kernel = filled(t, g, i, r)
    kinds = {n.arg.kind for n in add_gpu_dims(kernel, GPU).toposort() if n.op is Ops.RANGE}  # type: ignore[attr-defined]
    assert kinds == {AxisType.LOOP, REDUCE}


# -- limits ---------------------------------------------------------------------------------------------------------------


def test_neighbours_are_grouped_only_while_they_fit() -> None:
    assert limit_dims([16, 16, 256], [256, 256]) == [((16, 16), (256,)), ((256,), (256,))]
    # [65536, 256] would break the limit that it is made for
    assert limit_dims([256, 256, 256], [256, 256]) is None


def test_what_is_too_long_is_split() -> None:
    assert limit_dims([2048], [1024, 1024]) == [((2048,), (2, 1024))]
    assert limit_dims([2048], [1024]) is None


def test_axes_are_computed_back_by_division(t: Table) -> None:
    narrow = replace(GPU, grid=(64,), block=(8, 8), block_threads=64)
    kernel = filled(t, t.range(4, 0, GLOBAL), t.range(16, 1, GLOBAL), t.range(16, 2, LOCAL))
    after = add_gpu_dims(kernel, narrow)
    assert specials(after) == {"gidx0": 64, "lidx0": 8, "lidx1": 2}
    lines = pipeline.run(kernel, pipeline.Machine(narrow, lambda sink: []))
    result = np.zeros(1024, np.int32)
    interpret(lower("fill", lines), [result])
    np.testing.assert_array_equal(result, np.arange(1024))


def test_more_than_a_block_holds_is_refused_with_the_reason(t: Table) -> None:
    with pytest.raises(LoweringError, match="2048 threads are more than the 1024 of a block"):
        add_gpu_dims(filled(t, t.range(2048, 0, LOCAL)), GPU)
    with pytest.raises(LoweringError, match="has no threads in blocks"):
        add_gpu_dims(filled(t, t.range(4, 0, LOCAL)), CPU)


# -- stores ---------------------------------------------------------------------------------------------------------------


def test_a_store_that_does_not_use_an_index_is_done_by_the_first_thread(t: Table) -> None:
    g, a, b = t.range(4, 0, GLOBAL), t.range(8, 1, LOCAL), t.range(2, 2, LOCAL)
    place = t.param(0, f32, 32).index(g * 8 + a)
    kernel = t.sink(place.store(t.const(1.0, f32)).end(g, a, b))
    (store,) = [n for n in add_gpu_dims(kernel, GPU).toposort() if n.op is Ops.STORE]
    index = store.src[0].src[1]
    assert index.op is Ops.WHERE
    gate = simplify(index.src[0])
    (thread,) = [n for n in gate.toposort() if n.op is Ops.SPECIAL]
    assert thread.arg == index_named("lidx0")
    assert [bool(evaluate(gate, {thread: number})) for number in range(2)] == [True, False]
