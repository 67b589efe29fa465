"""Random programs through the public API: machine code, GPU kernels in the interpreter and named sizes give what NumPy gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.compiler.bisect import Memory, run_plan
from planish.compiler.scheduling import choose
from planish.config import settings
from planish.schedule.plan import Kernel
from planish.stages import pipeline
from planish.stages.bisection import outputs_of
from planish.target import TARGETS
from planish.uop.interpret import interpret
from tests.e2e.random_programs import (
    EXACT,
    FLOATS,
    GENERIC,
    WIDTHS,
    Array,
    RandomProgram,
    random_program,
    shapes,
)


def some(quick: int, many: int) -> list[Any]:
    return [*range(quick), *(pytest.param(n, marks=pytest.mark.fuzz) for n in range(quick, many))]


def floats(seed: int, most: int, lines: int = 10) -> RandomProgram:
    rng = np.random.default_rng(seed)
    arrays = [np.round(rng.standard_normal(s) * 64) / 64 for s in shapes(rng, int(rng.integers(1, 4)), most)]
    return random_program(rng, arrays, FLOATS, lines, most)


def integers(seed: int, most: int) -> RandomProgram:
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for shape in shapes(rng, int(rng.integers(2, 5)), most):
        dtype = np.dtype(WIDTHS[int(rng.integers(len(WIDTHS)))])
        low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        arrays.append(
            rng.integers(low, high, shape, dtype if dtype != np.bool_ else np.int8, True).astype(dtype)
        )
    return random_program(rng, arrays, EXACT, 10, most)


def hold(program: RandomProgram, found: Sequence[Array], arrays: Sequence[Array], where: str) -> None:
    """Integers by their bits; floats as near to the exact result as NumPy's float32 is, up to a factor."""
    exact = program.meant([x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays])
    for number, (have, want, near) in enumerate(zip(found, exact, program.meant(arrays), strict=True)):
        what = f"{where}, result {number} of\n{program.text}"
        assert have.shape == want.shape, what
        if want.dtype.kind != "f":
            if np.array_equal(near, want):  # else it hangs on rounding
                np.testing.assert_array_equal(have, want, err_msg=what)
        elif want.size:
            scale, own = max(float(np.abs(want).max()), 0.1), float(np.abs(near - want).max())
            if own < 1e-2 * scale:  # else what it computes is ill-conditioned
                assert np.abs(have - want).max() <= max(30 * own, 2e-4 * scale), what


def single(program: RandomProgram) -> list[Array]:
    return [x.astype(np.float32) if x.dtype.kind == "f" else x for x in program.arrays]


def natively(program: RandomProgram, threads: int) -> None:
    arrays = single(program)
    function = pn.jit(program.over(pn))
    for _ in range(2):  # compiled, and once more on the short way
        with settings(check="spec", threads=threads):
            found = [x.numpy() for x in function(*map(pn.asarray, arrays))]
        hold(program, found, arrays, "machine code")


def by_blocks(program: RandomProgram, target: str) -> None:
    """All blocks of a grid at once: the interpreter runs the last form of each kernel."""
    machine = TARGETS[target]
    arrays = single(program)

    def run(kernel: Kernel, memory: Memory, sizes: Mapping[str, int]) -> Mapping[int, Array]:
        with settings(check="spec"):
            lines = pipeline.run(
                kernel.sink, pipeline.Machine(machine, lambda sink: choose(sink, machine).actions)
            )
        return interpret(lines, memory, sizes, undefined=outputs_of(kernel.sink))

    results = program.meant(arrays)
    made = program.over(pn)
    function = pn.jit(lambda *given: tuple(x + 0 if x.dtype != pn.bool else x for x in made(*given)))
    traced = function.lower(*map(pn.asarray, arrays)).function
    found = run_plan(traced, arrays, machine, run)
    if len(found) == len(results):  # equal results are one
        hold(program, found, arrays, target)


@pytest.mark.parametrize("seed", some(6, 400))
def test_floats_natively(seed: int) -> None:
    natively(floats(seed, 40_000), 1 + seed % 2)


def test_lanes_of_two_vectors_in_turn_are_compiled() -> None:
    """LLVM 22 ended the process: no instruction for lanes in turn with zeros, of which others are chosen."""
    natively(floats(216, 40_000), 1)


@pytest.mark.parametrize("seed", some(6, 400))
def test_integers_natively(seed: int) -> None:
    natively(integers(seed, 20_000), 1 + seed % 2)


@pytest.mark.parametrize("seed", some(4, 300))
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_floats_by_blocks(target: str, seed: int) -> None:
    by_blocks(floats(1000 + seed, 4000, 7), target)


@pytest.mark.parametrize("seed", some(3, 200))
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_integers_by_blocks(target: str, seed: int) -> None:
    by_blocks(integers(1000 + seed, 2000), target)


@pytest.mark.parametrize("seed", some(4, 200))
def test_named_sizes_at_their_bounds(seed: int) -> None:
    """One function for all sizes: made at sizes that are no other's, run where they are equal, one, and none."""
    rng = np.random.default_rng(seed)
    least, greatest = int(rng.integers(3)), int(rng.choice([13, 40]))
    sizes = {"N": 13, "M": 11, "K": 3}
    axes = [
        [("N", "M", "K")[int(rng.integers(3))] for _ in range(int(rng.integers(1, 4)))]
        for _ in range(int(rng.integers(1, 4)))
    ]

    def arrays(**named: int) -> list[Array]:
        return [rng.standard_normal([{**sizes, **named}[axis] for axis in each]) for each in axes]

    program = random_program(rng, arrays(), GENERIC, 8, 20_000)
    dims = {name: pn.Dim(name, least, greatest) for name in "NM"}
    function = pn.jit(
        program.over(pn), dims={n: tuple(dims.get(axis) for axis in each) for n, each in enumerate(axes)}
    )
    for n, m in ((13, 11), (least, greatest), (greatest, least), (least, least), (greatest, greatest)):
        given = [x.astype(np.float32) for x in arrays(N=n, M=m)]
        with settings(check="spec", threads=1 + seed % 2):
            found = [x.numpy() for x in function(*map(pn.asarray, given))]
        hold(program, found, given, f"N={n}, M={m}")
    assert function.cache_info().misses == 1
