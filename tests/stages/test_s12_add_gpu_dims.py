"""Stage 12: hardware indices within their limits, stores by one thread, and barriers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from planish import dtypes
from planish.errors import LoweringError
from planish.llir.interpret import interpret
from planish.llir.program import Barrier, EndLoop, Loop, Program
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s12_add_gpu_dims import add_gpu_dims, limit_dims
from planish.stages.expander.s10_add_local_buffers import add_local_buffers
from planish.target import TARGETS, Target
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.memory_kernels import compiled, keep, read

f32 = dtypes.float32
CPU, GPU = TARGETS["x86-64-v4"], TARGETS["cuda"]
GLOBAL, LOCAL, THREAD, WARP = AxisType.GLOBAL, AxisType.LOCAL, AxisType.THREAD, AxisType.WARP


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([256], [1024], [((256,), (256,))]),
        ([2, 3, 4], [8, 8, 8], [((2,), (2,)), ((3,), (3,)), ((4,), (4,))]),
        ([2, 3, 4], [8, 8], [((2, 3), (6,)), ((4,), (4,))]),  # grouped: what fits
        ([2048], [1024, 64], [((2048,), (2, 1024))]),  # split
        ([256, 256, 256], [65536, 256], [((256,), (256,)), ((256, 256), (65536,))]),
        ([256, 256, 256], [256, 256], None),  # the product of two would break the limit
        ([5, 4, 3, 2], [6, 20], [((5, 4), (20,)), ((3, 2), (6,))]),
        ([4, 2048], [1024, 1024, 2], [((4, 2048), (8, 1024))]),  # 4 does not fit beside the halves: both
        ([2, 2048], [1024, 1024, 2], [((2,), (2,)), ((2048,), (2, 1024))]),
        ([1021 * 2], [1024], None),
        ([], [4], []),
    ],
)
def test_axes_are_grouped_and_split_within_limits(
    sizes: list[int], limits: list[int], expected: object
) -> None:
    assert limit_dims(sizes, limits) == expected


def test_random_axes_fit_their_limits_or_cannot() -> None:
    rng = random.Random(0)
    for _ in range(300):
        sizes = [rng.choice((1, 2, 3, 4, 6, 8, 16)) for _ in range(rng.randint(1, 5))]
        limits = [rng.choice((2, 4, 8, 32)) for _ in range(rng.randint(1, 3))]
        found = limit_dims(sizes, limits)
        if found is None:
            continue
        assert [size for axes, _ in found for size in axes] == sizes
        indices = [size for _, parts in found for size in parts]
        assert len(indices) <= len(limits)
        assert all(size <= limit for size, limit in zip(reversed(indices), limits, strict=False))
        assert all(prod(axes) == prod(parts) for axes, parts in found)


def test_what_cannot_be_numbered_is_refused_with_the_limits(t: Table) -> None:
    g = t.range(1009, 0, GLOBAL)
    sink = t.sink(t.param(0, f32, 1009).index(g).store(t.const(1.0, f32)).end(g))
    with pytest.raises(LoweringError, match=r"1009 does not fit the limits \(16, 8\)"):
        add_gpu_dims(sink, replace(GPU, grid=(16, 8)))
    threads = t.range(8, 1, LOCAL)
    shared = t.sink(t.param(0, f32, 8).index(threads).store(t.const(1.0, f32)).end(threads))
    with pytest.raises(LoweringError, match="no threads in blocks"):
        add_gpu_dims(shared, CPU)


# -- indices ---------------------------------------------------------------------------------------------------------


def copy(t: Table, kinds: tuple[AxisType, ...], sizes: tuple[int, ...]) -> UOp:
    ranges = [
        t.range(size, number, kind) for number, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
    ]
    flat = t.const(0)
    for r, size in zip(ranges, sizes, strict=True):
        flat = flat * size + r
    total = prod(sizes)
    return t.sink(t.param(0, f32, total).index(flat).store(t.param(1, f32, total).index(flat)).end(*ranges))


COPIES: dict[str, tuple[tuple[AxisType, ...], tuple[int, ...], Target]] = {
    "grid and block": ((GLOBAL, GLOBAL, LOCAL), (3, 4, 8), GPU),
    "grouped": (
        (GLOBAL, GLOBAL, GLOBAL, LOCAL, LOCAL),
        (3, 2, 4, 2, 4),
        replace(GPU, grid=(8, 8), block=(8,)),
    ),
    "split": ((GLOBAL, LOCAL), (12, 8), replace(GPU, grid=(4, 4), block=(4, 2))),
    "warp": ((GLOBAL, WARP, LOCAL), (2, 4, 3), GPU),
    "cores": ((THREAD, AxisType.LOOP), (4, 6), CPU),
    "cores of two axes": ((THREAD, GLOBAL, AxisType.LOOP), (4, 2, 3), CPU),
}


@pytest.mark.parametrize("name", COPIES)
def test_parallel_axes_become_indices(name: str, t: Table, golden: Golden) -> None:
    kinds, sizes, target = COPIES[name]
    sink = copy(t, kinds, sizes)
    after = add_gpu_dims(sink, target)
    spec.check(after, "reduced")
    assert add_gpu_dims(after, target) is after
    golden.check(
        f"stages/s12_add_gpu_dims/{name.replace(' ', '_')}.txt",
        f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}",
    )
    program = compiled(sink, target)
    data = np.arange(prod(sizes), dtype=np.float32)
    result = np.zeros_like(data)
    interpret(program, [result, data])
    np.testing.assert_array_equal(result, data)


def test_a_warp_is_the_fastest_index(t: Table) -> None:
    after = add_gpu_dims(copy(t, (WARP, LOCAL), (4, 8)), GPU)
    found = {str(n.arg): n.src[0].arg for n in after.toposort() if n.op is Ops.SPECIAL}
    assert found == {"lidx0": 4, "lidx1": 8}


def test_cores_have_one_index(t: Table) -> None:
    after = add_gpu_dims(copy(t, (THREAD, GLOBAL), (4, 2)), CPU)
    assert {str(n.arg): n.src[0].arg for n in after.toposort() if n.op is Ops.SPECIAL} == {"core": 8}


def test_a_grid_of_varying_size(t: Table) -> None:
    n = t.variable("n", 1, 9)
    g, h = t.range(n, 0, GLOBAL), t.range(4, 1, LOCAL)
    place = g * 4 + h
    sink = t.sink(t.param(0, f32, 36).index(place).store(t.param(1, f32, 36).index(place)).end(g, h))
    program = compiled(sink, GPU)
    data, result = np.arange(36, dtype=np.float32), np.zeros(36, np.float32)
    counters = interpret(program, [result, data], {"n": 5})
    np.testing.assert_array_equal(result[:20], data[:20])
    assert counters.blocks == 5
    assert not result[20:].any()


# -- stores and barriers ---------------------------------------------------------------------------------------------


def test_a_store_that_all_threads_would_do_is_done_by_one(t: Table) -> None:
    g, h = t.range(3, 0, GLOBAL), t.range(4, 1, LOCAL)
    a = t.param(2, f32, 12)
    sink = t.sink(
        t.param(0, f32, 12).index(g * 4 + h).store(a.index(g * 4 + h)).end(g, h),
        t.param(1, f32, 3).index(g).store(a.index(g * 4)).end(g),
    )
    memory = [np.zeros(12, np.float32), np.zeros(3, np.float32), np.arange(12, dtype=np.float32)]
    counters = interpret(compiled(sink, GPU), memory)
    assert counters.traffic["arg1"].written == 3 * 4
    np.testing.assert_array_equal(memory[1], memory[2][::4])


def opposite(t: Table, same: bool) -> UOp:
    """Each thread adds up what its opposite has stored, in every iteration of a loop; by the same threads or by others."""
    h, r = t.range(4, 0, LOCAL), t.range(3, 1, AxisType.REDUCE)
    m = h if same else t.range(4, 2, LOCAL)
    kept = keep(t.param(1, f32, 12).index(r * 4 + h), h)
    return t.sink(t.param(0, f32, 4).index(m).store(read(kept, m * -1 + 3).reduce(Ops.ADD, r)).end(m))


def barriers(program: Program) -> list[int]:
    """How deep in loops each barrier is."""
    depth, found = 0, []
    for instruction in program.body:
        depth += isinstance(instruction, Loop)
        depth -= isinstance(instruction, EndLoop)
        if isinstance(instruction, Barrier):
            found.append(depth)
    return found


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_threads_wait_before_reading_and_before_filling_again(same: bool, reverse: bool, t: Table) -> None:
    program = compiled(opposite(t, same), GPU)
    assert barriers(program) == [1, 1]  # after the fill, and before the next
    data, result = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    interpret(program, [result, data], reverse=reverse)
    np.testing.assert_array_equal(result, data.reshape(3, 4).sum(0)[::-1])


def test_no_barriers_without_threads(t: Table) -> None:
    i, r, s = t.range(3, 0, THREAD), t.range(4, 1), t.range(4, 2)
    row = keep(t.param(1, f32, 12).index(i * 4 + r), r)
    sink = t.sink(t.param(0, f32, 12).index(i * 4 + s).store(read(row, s * -1 + 3)).end(i, s))
    assert not barriers(compiled(sink, CPU))
    after = add_gpu_dims(remove_reduce(add_local_buffers(sink)), CPU)
    assert not any(n.op is Ops.BARRIER for n in after.toposort())
