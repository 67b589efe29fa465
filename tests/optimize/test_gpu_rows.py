"""Rows on a GPU, however long, and whatever is made beside them: a block shares each, and what it computes is what one thread would."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.compiler.grids import grid_of
from planish.config import settings
from planish.dtypes import AddrSpace
from planish.llir.makers import owners_of
from planish.llir.program import EndLoop, Load, Loop
from planish.nn import functional
from planish.target import TARGETS

RNG = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def loads_each(program: Any) -> int:
    """How often a thread loads from memory, one after the other."""
    owners, times, total = owners_of(program), [1], 0
    for i in program.body:
        if isinstance(i, Loop):
            times.append(times[-1] * int(getattr(i.bound, "value", 1)))
        elif isinstance(i, EndLoop):
            times.pop()
        elif isinstance(i, Load) and owners[i.address].space is AddrSpace.GLOBAL:
            total += times[-1]
    return total


def threads(program: Any) -> int:
    grid = grid_of(program)
    return prod(map(int, grid.blocks)) * prod(map(int, grid.threads))


def kept(program: Any) -> int:
    return sum(each.nbytes for each in program.locals if each.space is AddrSpace.LOCAL)


def cosines(x: Any, y: Any) -> Any:
    return (
        x / pn.sqrt(pn.sum(x * x, axis=1, keepdims=True)) * y / pn.sqrt(pn.sum(y * y, axis=1, keepdims=True))
    )


def summed(f: Any) -> Any:
    return pn.grad(lambda x, y: pn.sum((f(x) * y).astype(pn.float32)))


LONG = {
    "softmax": lambda x, y: functional.softmax(x, axis=-1) + y,
    "softmax and what it is made of": lambda x, y: functional.softmax(x, axis=-1) * x,
    "cosines": cosines,
    "gradient of softmax": summed(lambda x: functional.softmax(x, axis=-1)),
    "gradient of logarithms": summed(lambda x: functional.log_softmax(x, axis=-1)),
    "gradient of norms": summed(lambda x: functional.layer_norm(x, (x.shape[-1],))),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("columns", [20000, 32000, 40000, 50257, 57856, 200_000])
@pytest.mark.parametrize("dtype", [pn.float32, pytest.param(pn.float64, marks=pytest.mark.slow)])
def test_no_row_is_left_to_one_thread(name: str, columns: int, dtype: Any) -> None:
    """Rows that find no room are read again; those that lie in each other's place are counted as they will lie."""
    spec = pn.TensorSpec((1024, columns), dtype)
    lowered = compiler.lower(pn.jit(LONG[name]).lower(spec, spec).function, "sm_90")
    for program in lowered.programs:
        assert kept(program) <= TARGETS["sm_90"].local_bytes
        assert threads(program) >= 1024 * 256
        assert loads_each(program) <= 5 * columns / 256


@pytest.mark.parametrize("name", LONG)
def test_rows_that_find_no_room_are_read_again(name: str) -> None:
    """The same schedules of short rows, on a GPU with little memory, compute the same."""
    small = 2048
    target = replace(TARGETS["sm_90"], local_bytes=small)
    x, y = data(3, 300), data(3, 300)
    traced = pn.jit(LONG[name]).lower(pn.asarray(x), pn.asarray(y)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    for program in lowered.programs:
        assert kept(program) <= small
        assert threads(program) >= 3 * 16
    (found,), (wanted,) = lowered.interpreted()(x, y), compiler.compile(traced)(x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def excited(x: Any, w1: Any, w2: Any) -> Any:
    """Channels times what a small network makes of their means."""
    hidden = functional.relu(pn.mean(x, axis=(2, 3)) @ w1)
    return x * functional.sigmoid(hidden @ w2)[:, :, None, None]


def clipped(*slopes: Any) -> Any:
    norm = pn.sqrt(pn.sum(pn.stack([pn.sum(x * x) for x in slopes])))
    return [x * pn.minimum(1.0, 1.0 / norm) for x in slopes]


def masked(x: Any, mask: Any) -> Any:
    return pn.sum(x * mask[:, :, None], axis=1) / pn.sum(mask, axis=1)[:, None]


def pooled(x: Any) -> Any:
    return pn.grad(lambda x: pn.sum(pn.mean(x, axis=(2, 3)) ** 2))(x)


def smoothed(x: Any, t: Any) -> Any:
    return pn.grad(lambda x: functional.cross_entropy(x, t, label_smoothing=0.1))(x)


def of_squares(f: Any, place: int) -> Any:
    return pn.grad(lambda *given: pn.sum(f(*given) ** 2), argnums=place)


BESIDE: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "few terms before a row": (
        of_squares(excited, 2),
        ((2, 6, 9, 8), (6, 4), (4, 6)),
        ((32, 256, 56, 56), (256, 16), (16, 256)),
    ),
    "lengths that differ": (
        clipped,
        ((40, 3), (64,), (33,), (130,)),
        ((768, 768), (768,), (3072, 768), (3072,)),
    ),
    "a sum for few rows beside": (masked, ((2, 40, 33), (2, 40)), ((8, 1024, 768), (8, 1024))),
    "rows that are stored together": (pooled, ((2, 3, 8, 9),), ((32, 64, 56, 56),)),
    "a sum that reads nothing": (smoothed, ((4, 130), 4), ((8192, 32000), 8192)),
}


def given(shapes: tuple[Any, ...]) -> list[Any]:
    return [RNG.integers(0, 9, shape) if isinstance(shape, int) else data(*shape) for shape in shapes]


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_made_beside_rows(name: str) -> None:
    function, small, _ = BESIDE[name]
    arrays = given(small)
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    for found, wanted in zip(lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert ".local" not in lowered.as_text("ptx")


@pytest.mark.parametrize("dtype", [pn.float32, pn.bfloat16])
@pytest.mark.parametrize("name", BESIDE)
def test_no_thread_reads_for_long_beside_others_that_are_idle(name: str, dtype: Any) -> None:
    function, _, large = BESIDE[name]
    specs = [
        pn.TensorSpec((shape,), pn.int64) if isinstance(shape, int) else pn.TensorSpec(shape, dtype)
        for shape in large
    ]
    for program in compiler.lower(pn.jit(function).lower(*specs).function, "sm_90").programs:
        assert loads_each(program) <= 256, program.name
