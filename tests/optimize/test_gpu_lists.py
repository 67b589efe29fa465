"""Lists of what is added up at places that data chooses: warps go through them, long ones by parts that have tables of their own."""

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
from planish.llir.leading import leads_of
from planish.llir.program import Loop
from planish.nn import functional
from planish.target import TARGETS, Target

RNG = np.random.default_rng(0)
COUNT = 160
PLACES = RNG.integers(-12, 15, COUNT)  # some from the end, some nowhere


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def along(w: Any, i: Any) -> Any:
    return pn.sum(pn.take_along_axis(w, i, axis=1) ** 2)


LISTS: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "counts": (lambda i: pn.zeros((12,), dtype=pn.int32).at[i].add(1), (PLACES,), True),
    "sums": (lambda i, x: pn.zeros((12,)).at[i].add(x), (PLACES, data(COUNT)), True),
    "onto others": (lambda i, x, y: y.at[i].add(x), (PLACES, data(COUNT), data(12)), True),
    "largest": (lambda i, x, y: y.at[i].max(x), (PLACES, data(COUNT), data(12)), True),
    "smallest": (
        lambda i, x, y: y.at[i].min(x),
        (PLACES, RNG.integers(-9, 9, COUNT), RNG.integers(-9, 9, 12)),
        True,
    ),
    "products": (lambda i, x, y: y.at[i].multiply(x), (PLACES, data(COUNT) * 0.1 + 1, data(12)), True),
    "no equal parts": (lambda i, x: pn.zeros((13,)).at[i].add(x), (PLACES[:153], data(153)), True),
    "narrow": (
        lambda i, x: pn.zeros((12,), dtype=pn.bfloat16).at[i].add(x.astype(pn.bfloat16)),
        (PLACES, data(COUNT)),
        True,
    ),
    "two indices": (
        lambda i, j, x: pn.zeros((12, 7)).at[i, j].add(x),
        (PLACES, RNG.integers(0, 7, COUNT), data(COUNT)),
        True,
    ),
    "several lists": (pn.grad(along), (data(2, 10), RNG.integers(0, 10, (2, 140))), True),
    "rows": (lambda i, x: pn.zeros((12, 32)).at[i].add(x), (PLACES, data(COUNT, 32)), False),
    "short rows": (lambda i, x: pn.zeros((12, 6)).at[i].add(x), (PLACES, data(COUNT, 6)), False),
}


def with_lists(**numbers: int) -> Target:
    """A GPU to which other lists are long."""
    plain = TARGETS["sm_90"]
    return replace(plain, lists=replace(plain.lists, **numbers))


def is_led(lowered: Any) -> bool:
    return any(leads_of(program) for program in lowered.programs)


def agree(lowered: Any, traced: Any, arrays: tuple[Any, ...], close: float) -> None:
    for found, wanted in zip(lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays), strict=True):
        exact = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(*exact, rtol=close, atol=close)
    assert ".local" not in lowered.as_text("ptx")


@pytest.mark.parametrize("name", LISTS)
def test_long_lists_are_gone_through_by_parts(name: str) -> None:
    target = with_lists(parted=1, part=34)
    function, arrays, single = LISTS[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    assert len(lowered.programs) == 3
    assert is_led(lowered) is single
    agree(lowered, traced, arrays, 1e-2 if name == "narrow" else 2e-5)


@pytest.mark.parametrize("steps", [1, 64])
@pytest.mark.parametrize("name", [*LISTS, "the last counts"])
def test_warps_go_through_lists_in_their_order(name: str, steps: int) -> None:
    """One for each list, or many of which each has a share of the places: to the bit what one thread does."""
    target = with_lists(warp_steps=steps)
    known = {"the last counts": (lambda i, x: pn.zeros((12,)).at[i].set(x), (PLACES, data(COUNT)), True)}
    function, arrays, single = (LISTS | known)[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    assert is_led(lowered) is single
    text = lowered.as_text("cuda")
    assert ("__match_any_sync" in text) is single
    assert text.count("__syncwarp();") == single
    agree(lowered, traced, arrays, 0.0)


def test_who_stands_for_the_first_thread_reads_nothing_that_others_change() -> None:
    """A scan on the way, whose running sum is the thread's own, is gone through by one thread alone."""
    slopes = pn.grad(lambda x: pn.sum(pn.cumulative_max(x, axis=1) ** 2))
    x = data(3, 70)
    traced = pn.jit(slopes).lower(pn.asarray(x)).function
    lowered = compiler.lower(traced, "sm_90")
    assert not is_led(lowered)
    agree(lowered, traced, (x,), 1e-5)


def entries_each(program: Any) -> float:
    """How many entries of a list a thread looks at, one after the other."""
    led = leads_of(program)
    most = 1.0
    for at, i in enumerate(program.body):
        if isinstance(i, Loop):
            most = max(most, int(getattr(i.bound, "value", 1)) / (32 if at in led else 1))
    return most


N = 1 << 20
LARGE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "counts": (lambda i: pn.zeros((1000,), dtype=pn.int32).at[i].add(1), (pn.TensorSpec((N,), pn.int32),)),
    "counts of many": (
        lambda i: pn.zeros((100_000,), dtype=pn.int32).at[i].add(1),
        (pn.TensorSpec((N,), pn.int32),),
    ),
    "sums": (
        lambda i, x: pn.zeros((N,)).at[i].add(x),
        (pn.TensorSpec((N,), pn.int32), pn.TensorSpec((N,), pn.float32)),
    ),
    "histogram": (
        lambda x: pn.histogram(x, bins=256, range=(0.0, 1.0))[0],
        (pn.TensorSpec((N,), pn.float32),),
    ),
    "scalars that were taken": (
        pn.grad(lambda w, i: pn.sum(pn.take(w, i, axis=0) ** 2)),
        (pn.TensorSpec((50_000,), pn.float32), pn.TensorSpec((N,), pn.int32)),
    ),
    "taken along rows": (
        pn.grad(along),
        (pn.TensorSpec((4096, 4096), pn.float32), pn.TensorSpec((4096, 512), pn.int32)),
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_list_of_elements_is_left_to_few_threads(name: str) -> None:
    function, specs = LARGE[name]
    lowered = compiler.lower(pn.jit(function).lower(*specs).function, "sm_90")
    for program in lowered.programs:
        grid = grid_of(program)
        assert entries_each(program) <= 2048
        if program.name.startswith("scatter"):
            assert prod(map(int, grid.blocks)) >= 1000


def test_lists_that_batches_keep_apart_are_claimed_by_blocks() -> None:
    """The gradient of a sampled picture: places of a picture follow from those of all of them, so blocks may have shares of them."""
    specs = pn.TensorSpec((8, 64, 56, 56), pn.float32), pn.TensorSpec((8, 56, 56, 2), pn.float32)
    slopes = pn.grad(lambda x, g: pn.sum(functional.grid_sample(x, g) ** 2))
    lowered = compiler.lower(pn.jit(slopes).lower(*specs).function, "sm_90")
    programs = [each for each in lowered.programs if each.name.startswith("scatter")]
    assert programs
    for program in programs:
        grid = grid_of(program)
        assert prod(map(int, grid.blocks)) * prod(map(int, grid.threads)) >= 132 * 128
        assert sum(isinstance(i, Loop) for i in program.body) == 1  # that of the list


def test_sampled_pictures_have_the_same_gradient() -> None:
    arrays = data(1, 2, 3, 4), data(1, 5, 7, 2) * 0.8
    slopes = pn.grad(lambda x, g: pn.sum(functional.grid_sample(x, g) ** 2))
    traced = pn.jit(slopes).lower(*map(pn.asarray, arrays)).function
    agree(compiler.lower(traced, "sm_90"), traced, arrays, 1e-4)
