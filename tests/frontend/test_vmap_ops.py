"""vmap against a loop over the examples: every op, every choice of batched operands, and random programs."""

from __future__ import annotations

import numpy as np
import pytest

from planish import ptir
from planish.errors import GraphError
from planish.frontend.autodiff import vjp
from planish.frontend.batching import BATCHING, SOURCES
from planish.frontend.vmap import BATCHED_CONTROL, batch
from planish.ptir import ops
from planish.ptir.types import Dim
from tests.frontend.derivative_cases import CASES, Case
from tests.ptir.generate import random_inputs, random_program

SIZE = 3


def test_every_op_has_a_rule():
    tables = [set(BATCHING), set(SOURCES), set(BATCHED_CONTROL), {"return"}]
    assert set().union(*tables) == set(ops.REGISTRY)
    assert sum(map(len, tables)) == len(ops.REGISTRY)


def examples(array: np.ndarray) -> np.ndarray:
    """Different arrays of the same numbers, so that they stay where the function is defined."""
    return np.stack([np.roll(array.reshape(-1), n).reshape(array.shape) for n in range(SIZE)])


def check(function, flags, arrays, size: int | Dim = SIZE, length=SIZE):
    """The batched function against the function, example by example."""
    batched, results = batch(function, flags, size)
    ptir.verify(batched)
    found = ptir.interpret(batched, arrays)
    each = [
        ptir.interpret(function, [a[n] if flag else a for a, flag in zip(arrays, flags, strict=True)])
        for n in range(length)
    ]
    for number, (own, flag) in enumerate(zip(found, results, strict=True)):
        wanted = np.stack([one[number] for one in each])
        np.testing.assert_allclose(own if flag else np.stack([own] * length), wanted, rtol=1e-10, atol=1e-10)
    return found


def choices(count: int):
    """All, each alone, and all but each."""
    every = [tuple([True] * count)]
    every += [tuple(n == k for n in range(count)) for k in range(count)]
    every += [tuple(n != k for n in range(count)) for k in range(count)]
    return [flags for flags in dict.fromkeys(every) if any(flags)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_vmap_is_a_loop(case: Case):
    function = case.function()
    for flags in choices(len(case.inputs)):
        if case.op == "bind_dim" and flags[1]:
            with pytest.raises(GraphError, match="differs from example to example"):
                batch(function, flags, SIZE)
            continue
        arrays = [examples(a) if flag else a for a, flag in zip(case.inputs, flags, strict=True)]
        if case.op in ("bind_dim", "while") and case.inputs[-1].ndim == 0 and flags[-1]:
            arrays[-1] = np.array([4, 0, 2])
        check(function, flags, arrays)


SMOOTH = [
    c for c in CASES if c.op not in ("custom_call", "bind_dim") and any(a.dtype.kind in "f" for a in c.inputs)
]


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_vmap_of_a_gradient_is_a_loop(case: Case):
    results = [y for y in ptir.interpret(case.function(), case.inputs) if y.dtype.kind in "fc"]
    gradient = vjp(case.function())
    arrays = [examples(a) for a in (*case.inputs, *results)]
    check(gradient, [True] * len(arrays), arrays)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.op in ("gather", "scatter", "dot_general", "sort", "cond", "scan")],
    ids=lambda c: c.name,
)
def test_a_batch_may_have_a_named_size(case: Case):
    for flags in choices(len(case.inputs)):
        arrays = [examples(a) if flag else a for a, flag in zip(case.inputs, flags, strict=True)]
        check(case.function(), flags, arrays, Dim.named("examples", 1, 8))


def test_twice():
    g = ptir.Graph("f")
    x, y = g.input("x", ptir.tensor("f64", (3,))), g.input("y", ptir.tensor("f64", (3,)))
    function = g.build(x.dot_general(y, ops.DotDims((), (0,), (0,))))
    rows, _ = batch(function, (True, False), 4)
    table, flags = batch(rows, (False, True), 5)
    assert flags == [True]
    a, b = np.random.default_rng(0).random((4, 3)), np.random.default_rng(1).random((5, 3))
    np.testing.assert_allclose(ptir.interpret(table, [a, b])[0], b @ a.T)


def _check_program(seed: int, program) -> None:
    rng = np.random.default_rng(seed)
    first = random_inputs(program, seed, odd=False)
    sizes = [a.shape for a in first]
    flags = tuple(bool(f) for f in rng.random(len(first)) < 0.6) or (True,)
    others = [random_inputs(program, seed + 1000 + n, odd=False) for n in range(40)]
    same = [arrays for arrays in others if [a.shape for a in arrays] == sizes][: SIZE - 1]
    rows = [first, *same, *[first] * (SIZE - 1 - len(same))]
    arrays = [np.stack([row[n] for row in rows]) if flag else first[n] for n, flag in enumerate(flags)]
    batched, results = batch(program, flags, SIZE)
    ptir.verify(batched)
    found = ptir.interpret(batched, arrays)
    each = [
        ptir.interpret(program, [a[n] if flag else a for a, flag in zip(arrays, flags, strict=True)])
        for n in range(SIZE)
    ]
    for number, (own, flag) in enumerate(zip(found, results, strict=True)):
        wanted = np.stack([one[number] for one in each])
        whole = own if flag else np.stack([own] * SIZE)
        assert (whole.shape, whole.dtype) == (wanted.shape, wanted.dtype)
        if whole.dtype.kind not in "biu":
            whole, wanted = whole.astype(np.complex128), wanted.astype(np.complex128)
        np.testing.assert_allclose(whole, wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}")


# What is ill-conditioned on arbitrary numbers, loops that need not end on other numbers, and what is an error.
_STRAY = (
    "qr", "svd", "eigh", "lu", "cholesky", "triangular_solve", "fft", "ifft", "rfft", "irfft", "while", "bind_dim"
)  # fmt: skip


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block):
    for seed in range(block * 30, block * 30 + 30):
        _check_program(seed, random_program(seed, exclude=_STRAY))


@pytest.mark.fuzz
def test_many_random_programs():
    for seed in range(1000, 10000):
        _check_program(seed, random_program(seed, exclude=_STRAY))


def test_flags_must_fit():
    with pytest.raises(GraphError, match="takes 1 parameters, not 2"):
        batch(CASES[0].function(), (True, True), 2)
