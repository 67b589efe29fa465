"""Kernels with named sizes have the tiles of kernels of fixed sizes, and give what the interpreter gives at every size."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.config import settings
from planish.optimize.stand_in import named_axes, stand_in
from planish.ptir import Dim, Graph, tensor
from planish.uop.nest import axes_of, size_of
from planish.uop.node import Table, UOp
from planish.uop.symbolic import simplify
from tests.stages.kernels import f32

RNG = np.random.default_rng(0)


def product(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (n, 48))), graph.input("w", tensor("f32", (48, 96)))
    return graph.build((x @ w).tanh())


def columns(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (24, 33))), graph.input("w", tensor("f32", (33, n)))
    return graph.build(x @ w)


def convolution(n: Dim, m: Dim, stride: int = 1) -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (2, 16, n, m)))
    w = graph.input("w", tensor("f32", (32, 16, 3, 3)))
    made = x.convolution(w, "NCHW", "OIHW", strides=(stride, stride), padding=((1, 1), (1, 1)))
    return graph.build(made.max(0.0))


def strided(n: Dim, m: Dim) -> ptir.Function:
    return convolution(n, m, 2)


def depthwise(n: Dim, m: Dim, stride: int = 1) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (1, 8, n, m))), graph.input("w", tensor("f32", (8, 1, 3, 3)))
    around, by = ((1, 1), (1, 1)), (stride, stride)
    return graph.build(x.convolution(w, "NCHW", "OIHW", strides=by, padding=around, groups=8))


def strided_depthwise(n: Dim, m: Dim) -> ptir.Function:
    return depthwise(n, m, 2)


def wide_windows(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (1, 4, n, m))), graph.input("w", tensor("f32", (4, 1, 5, 5)))
    around = ((2, 2), (2, 2))
    return graph.build(x.convolution(w, "NCHW", "OIHW", strides=(2, 2), padding=around, groups=4))


def line(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (1, 8, 1, m))), graph.input("w", tensor("f32", (8, 1, 1, 31)))
    return graph.build(x.convolution(w, "NCHW", "OIHW", padding=((0, 0), (15, 15)), groups=8))


def pixels(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (2, 16, n, m))), graph.input("w", tensor("f32", (24, 16, 1, 1)))
    return graph.build(x.convolution(w, "NCHW", "OIHW"))


def softmax(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (n, m)))
    e = (x - x.reduce_max([1], keepdims=True).broadcast_like(x)).exp()
    return graph.build(e / e.reduce_sum([1], keepdims=True).broadcast_like(x))


def batch(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (n, 16, 9, 7)))
    w = graph.input("w", tensor("f32", (32, 16, 3, 3)))
    return graph.build(x.convolution(w, "NCHW", "OIHW", padding=((1, 1), (1, 1))))


PROGRAMS: Sequence[Callable[[Dim, Dim], ptir.Function]] = (
    product, columns, convolution, strided, depthwise, strided_depthwise, wide_windows, line, pixels, softmax, batch,
)  # fmt: skip
SIZES = [(1, 1), (2, 3), (7, 8), (8, 16), (17, 9), (31, 40), (40, 33)]


def arrays(function: ptir.Function, sizes: dict[str, int]) -> list[NDArray[Any]]:
    shapes = [type.substitute(sizes).max_shape for type in function.param_types]
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_every_size_is_right(program: Callable[[Dim, Dim], ptir.Function], target: str) -> None:
    function = program(Dim.named("n", 1, 40), Dim.named("m", 1, 40))
    with settings(target=target, threads=2):
        compiled = compiler.compile(function)
        for n, m in SIZES:
            given = arrays(function, {"n": n, "m": m})
            (found,), (wanted,) = compiled(*given), ptir.interpret(function, given)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def chosen(function: ptir.Function, target: str = "x86-64-v4") -> list[str]:
    with settings(target=target):
        lowered = compiler.lower(function)
    (why,) = lowered.explained
    return [str(step.action) for step in why.steps]


def words(actions: Sequence[str]) -> list[str]:
    return [action.partition("(")[0] for action in actions]


def test_a_named_number_of_rows_has_register_tiles() -> None:
    actions = chosen(product(Dim.named("n", 1, 512), Dim.named("m", 1, 2)))
    assert words(actions)[:3] == ["upcast", "overrun", "upcast"]
    # one row may be all there is: nothing is copied for it
    assert "stage" not in words(actions)


def test_a_named_batch_has_the_nest_of_one_picture() -> None:
    named = words(chosen(batch(Dim.named("n", 1, 8), Dim.named("m", 1, 2))))
    assert named.count("stage") == 2
    assert named.count("upcast") == 2


def test_a_picture_of_named_sizes_has_tiles_and_copies_for_one_tile() -> None:
    actions = chosen(convolution(Dim.named("n", 8, 256), Dim.named("m", 8, 256)))
    assert words(actions).count("upcast") == 2
    assert any(action.startswith("stage(arg1, at=") for action in actions)


def test_cores_share_axes_of_named_sizes() -> None:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (Dim.named("n", 1, 4096), 512)))
    actions = chosen(graph.build(x.exp().sin()))
    assert any(action.startswith("thread(") for action in actions)


def stand_in_sizes(high: int, *computed: Callable[[UOp], UOp]) -> list[int]:
    """The sizes that axes of a size, and of what is computed of it, have in the stand-in of a kernel."""
    with Table() as t:
        n = t.variable("n", 1, high)
        axes = [t.range(simplify(size(n)), k) for k, size in enumerate((lambda n: n, *computed))]
        place = t.const(0)
        for axis in axes:
            place = place * 5000 + axis
        stored = t.param(0, f32, 1 << 40).index(place).store(t.const(1.0, f32))
        made = stand_in(t.sink(stored.end(*axes)))
    assert made is not None
    assert not named_axes(made)
    return [size_of(axis) for axis in axes_of(made)]


def test_sizes_of_a_stand_in_have_no_small_divisors() -> None:
    assert [stand_in_sizes(high)[0] for high in (2, 8, 64, 512, 10**6)] == [2, 7, 61, 509, 4093]
    sizes = stand_in_sizes(512, lambda n: (n + 1) // 2, lambda n: n + 6)
    assert all(size % prime for size in sizes for prime in (2, 3, 5, 7, 11, 13))
    assert 400 < sizes[0] <= 512
    # a size that always has a divisor does not make the kernel a small one
    assert stand_in_sizes(8, lambda n: n * 5)[1] == 35


def test_rows_of_strided_windows_share_what_they_load() -> None:
    actions = words(chosen(depthwise(Dim.named("n", 8, 512), Dim.named("m", 8, 512), 2)))
    # clamped rows (overrun) would each load their own, padded ones a gate
    assert actions.count("pad_to") == actions.count("shift_inwards") == 1
    assert "overrun" not in actions


def test_a_row_of_a_named_length_is_copied_with_its_padding() -> None:
    actions = chosen(line(Dim.named("n", 1, 2), Dim.named("m", 16, 4096)))
    assert any(action.startswith("stage(arg1") for action in actions)


def test_a_plane_of_named_sizes_is_one_loop() -> None:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (1, 16, Dim.named("n", 1, 512), Dim.named("m", 1, 512))))
    w = graph.input("w", tensor("f32", (16, 16, 1, 1)))
    function = graph.build(x.convolution(w, "NCHW", "OIHW"))
    with settings(target="x86-64-v4"):
        text = compiler.lower(function).as_text("uop:5")
    # channels, pixels, and what is summed up
    assert text.count(" = range ") == 3


def test_gates_of_a_tile_are_no_wider_than_what_they_gate() -> None:
    with settings(target="x86-64-v4"):
        text = compiler.lower(depthwise(Dim.named("n", 8, 512), Dim.named("m", 8, 512))).as_text("llir")
    assert "boolx16" in text
    assert not re.search(r"boolx(32|48|64)", text)


def transposed(n: Dim, m: Dim) -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (1, 16, n, m)))
    w = graph.input("w", tensor("f32", (24, 16, 2, 2)))
    made = x.convolution(w, "NCHW", "OIHW", padding=((1, 1), (1, 1)), lhs_dilation=(2, 2))
    return graph.build(made)


def test_holes_of_a_transposed_convolution_are_not_multiplied_with() -> None:
    named = transposed(Dim.named("n", 2, 40), Dim.named("m", 2, 40))
    compiled = compiler.compile(named)
    for n, m in ((2, 2), (3, 5), (16, 16), (40, 33)):
        given = arrays(named, {"n": n, "m": m})
        np.testing.assert_allclose(compiled(*given)[0], ptir.interpret(named, given)[0], rtol=1e-4, atol=1e-4)
    # four taps, of which each phase has one
    assert compiled.cost.flops < 1.5 * 2 * 24 * 16 * 80 * 80


@pytest.mark.parametrize("size", [3, 5])
def test_masks_of_strided_windows_are_shuffled_not_built_lane_by_lane(size: int) -> None:
    graph = Graph("f")
    n, m = Dim.named("n", 5, 32) * 16, Dim.named("m", 5, 32) * 16
    x = graph.input("x", tensor("f32", (1, 8, n, m)))
    w = graph.input("w", tensor("f32", (8, 1, size, size)))
    around = (size // 2, size // 2)
    made = x.convolution(w, "NCHW", "OIHW", strides=(2, 2), padding=(around, around), groups=8)
    function = graph.build(made)
    given = arrays(function, {"n": 6, "m": 5})
    found, wanted = compiler.compile(function)(*given)[0], ptir.interpret(function, given)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    with settings(target="x86-64-v4"):
        text = compiler.lower(function).as_text("llvm")
    assert not re.search(r"insertelement <\d+ x i1>.*, i32 [1-9]", text)
    assert not re.search(r"= shufflevector <33 x i1>", text)
