"""Small sizes of a named one have schedules of their own in the same kernel; every size gives what the interpreter gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.config import settings
from planish.dtypes import float32
from planish.llir.program import If
from planish.llir.text import parse, print_program
from planish.llir.verify import verify
from planish.optimize.versions import within
from planish.ptir import Dim, Graph, tensor
from planish.uop.node import Table

RNG = np.random.default_rng(0)


def product(low: int = 1, high: int = 512) -> ptir.Function:
    graph = Graph("f")
    x, w = (
        graph.input("x", tensor("f32", (Dim.named("n", low, high), 96))),
        graph.input("w", tensor("f32", (96, 384))),
    )
    return graph.build((x @ w).tanh())


def convolution(batch: int | Dim, low: int = 8, high: int = 256, stride: int = 1) -> ptir.Function:
    graph = Graph("f")
    n, m = Dim.named("n", low, high), Dim.named("m", low, high)
    x, w = graph.input("x", tensor("f32", (batch, 16, n, m))), graph.input("w", tensor("f32", (32, 16, 3, 3)))
    return graph.build(x.convolution(w, "NCHW", "OIHW", strides=(stride, stride), padding=((1, 1), (1, 1))))


def arrays(function: ptir.Function, sizes: dict[str, int]) -> list[NDArray[Any]]:
    shapes = [type.substitute(sizes).max_shape for type in function.param_types]
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


def versions(function: ptir.Function) -> list[str]:
    with settings(target="x86-64-v4"):
        (choice,) = compiler.lower(function).choices
    return [str(each) for each in choice.versions]


def test_few_rows_of_a_product_have_tiles_of_their_own() -> None:
    found = versions(product())
    assert found
    assert all(each.startswith("n in 1..") for each in found)
    assert int(found[0].rpartition("..")[2]) < int(found[-1].rpartition("..")[2]) <= 32
    # there is nothing to choose among where all sizes are large, or known
    assert not versions(product(256, 512))
    assert not versions(product(8, 8))


def test_small_pictures_are_copied_as_a_whole() -> None:
    with settings(target="x86-64-v4"):
        small, large = (compiler.lower(convolution(1, 8, high)).choices[0] for high in (32, 256))
    assert "stage(arg1)" in map(str, small.actions)
    # of larger ones rows are, with all of their width
    assert "stage(arg1)" not in map(str, large.actions)
    assert any(str(action).startswith("stage(arg1, at=") for action in large.actions)


def test_versions_differ_in_more_than_pieces_for_cores() -> None:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (Dim.named("n", 1, 64), 196, 192)))
    e = (x - x.reduce_max([2], keepdims=True).broadcast_like(x)).exp()
    assert not versions(graph.build(e / e.reduce_sum([2], keepdims=True).broadcast_like(x)))


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100, 512])
def test_every_number_of_rows_is_right(size: int, target: str) -> None:
    function = product()
    with settings(target=target, threads=2):
        compiled = compiler.compile(function)
    given = arrays(function, {"n": size})
    np.testing.assert_allclose(compiled(*given)[0], ptir.interpret(function, given)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "sizes", [(1, 8, 8), (1, 8, 9), (2, 14, 14), (3, 32, 8), (1, 32, 33), (1, 33, 32), (2, 17, 40)]
)
def test_every_picture_is_right(sizes: tuple[int, int, int], stride: int) -> None:
    function = convolution(Dim.named("b", 1, 4), high=64, stride=stride)
    with settings(threads=2):
        compiled = compiler.compile(function)
    given = arrays(function, dict(zip("bnm", sizes, strict=True)))
    np.testing.assert_allclose(compiled(*given)[0], ptir.interpret(function, given)[0], rtol=1e-4, atol=1e-4)


def turned(low: int = 1, high: int = 512) -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (Dim.named("n", low, high), Dim.named("m", low, high))))
    return graph.build(x.transpose([1, 0]).exp())


def test_a_transpose_of_enough_of_any_size_has_no_masks() -> None:
    with settings(target="x86-64-v4"):
        (choice,) = compiler.lower(turned()).choices
    (large,) = choice.versions
    assert dict(large.bounds) == {"n": (16, 512), "m": (16, 512)}
    words = [str(each) for each in large.actions]
    assert {"shift_inwards(i, 16)", "shift_inwards(j, 16)"} <= set(words)
    assert not any(each.startswith("pad_to") for each in words)


@pytest.mark.parametrize("sizes", [(1, 1), (15, 200), (16, 15), (16, 16), (17, 33), (100, 512), (512, 1)])
def test_every_transpose_is_right(sizes: tuple[int, int]) -> None:
    function = turned()
    given = arrays(function, dict(zip("nm", sizes, strict=True)))
    with settings(threads=2):
        found = compiler.compile(function)(*given)[0]
        read = compiler.lower(function).interpreted()(*given)[0] if max(sizes) < 50 else found
    expected = ptir.interpret(function, given)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(read, expected, rtol=1e-5)


def test_versions_are_one_program_and_only_one_of_them_runs() -> None:
    function = product(1, 64)
    with settings(target="x86-64-v4", threads=1):
        lowered = compiler.lower(function)
        (program,), (choice,) = lowered.programs, lowered.choices
        assert sum(isinstance(i, If) for i in program.body) >= len(choice.versions) + 1
        verify(program)
        assert print_program(parse(print_program(program))) == print_program(program)
        for size in (1, 2, 4, 8, 9, 64):
            given = arrays(function, {"n": size})
            found = lowered.interpreted()(*given)[0]
            np.testing.assert_allclose(found, ptir.interpret(function, given)[0], rtol=1e-4, atol=1e-4)


def test_work_is_that_of_the_largest_size() -> None:
    with settings(target="x86-64-v4"):
        flops = compiler.compile(product(1, 512)).cost.flops
        alone = compiler.compile(product(256, 512)).cost.flops
    assert flops == pytest.approx(alone, rel=0.02)


def test_versions_are_kept(tmp_path: Path) -> None:
    with settings(cache_dir=str(tmp_path)):
        first = compiler.lower(product(1, 200))
        compiler.compile(product(1, 200))
        again = compiler.compile(product(1, 200)).lowered
    assert again.choices[0].versions == first.choices[0].versions
    assert again.programs == first.programs


def test_a_size_that_is_left_is_a_number() -> None:
    with Table() as table:
        n = table.variable("n", 1, 512)
        place = table.param(0, float32, 1 << 20).index(table.range(n * 4, 0))
        kernel = table.sink(place.store(table.const(1.0, float32)).end(place.src[1]))
        assert [r.src[0].arg for r in within(kernel, {"n": (3, 3)}).toposort() if r.op.name == "RANGE"] == [
            12
        ]
        assert within(kernel, {}) is kernel
