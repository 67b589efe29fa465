"""Reductions along an axis on which tensors are joined: each of them is reduced, and nothing asks which of them an element is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.uop.ops import COMPARISONS, Ops
from tests.schedule.running import reference

RNG = np.random.default_rng(3)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def taps(x: Any, k: Any) -> Any:
    return pn.sum(pn.stack([x[:, i : i + 40] * k[i] for i in range(5)]), axis=0)


def deep(x: Any, y: Any, z: Any) -> Any:
    """Another operand is a long chain, which is no part of what is joined."""
    for _ in range(300):
        z = pn.sin(z) * 1.01
    return pn.sum(pn.concat([x, y]) * z)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "stacked": (lambda x, y, z: pn.sum(pn.stack([x, y, z]), axis=0), (data(6, 8), data(6, 8), data(6, 8))),
    "taps": (taps, (data(3, 44), data(5))),
    "joined": (lambda x, y: pn.sum(pn.concat([x, y], axis=1), axis=1), (data(6, 8), data(6, 3))),
    "joined of all": (lambda x, y: pn.sum(pn.concat([x, y])), (data(6, 8), data(5, 8))),
    "weights": (
        lambda x, y, w: pn.sum(pn.stack([x, y]) * w[:, None, None], axis=0),
        (data(6, 8), data(6, 8), data(2)),
    ),
    "function of it": (
        lambda x, y: pn.sum(pn.exp(-pn.concat([x, y])) + 1.0, axis=0),
        (data(6, 8), data(5, 8)),
    ),
    "twice": (
        lambda x, y: pn.sum(pn.concat([pn.exp(pn.concat([x, y])), x]) * 2.0, axis=0),
        (data(6, 8), data(5, 8)),
    ),
    "chosen": (
        lambda x, y, w: pn.sum(pn.where(w > 0, pn.concat([x, y]), 0.0), axis=0),
        (data(6, 8), data(5, 8), data(11, 8)),
    ),
    "product": (lambda x, y: pn.prod(pn.concat([x, y]) * 0.9, axis=0), (data(3, 8), data(2, 8))),
    "padded": (
        lambda x, y: pn.sum(pn.concat([pn.pad(x, ((1, 1), (0, 0))), y]), axis=0),
        (data(3, 8), data(2, 8)),
    ),
    "deep": (deep, (data(6), data(5), data(11))),
    "halves": (
        lambda x, y: pn.sum(pn.concat([x.astype(pn.float16), y.astype(pn.float16)], axis=1), axis=1),
        (data(6, 900), data(6, 700)),
    ),
    "bfloat16": (
        lambda x, y: pn.mean(pn.stack([x.astype(pn.bfloat16), y.astype(pn.bfloat16)]), axis=0),
        (data(6, 9), data(6, 9)),
    ),
    "integers": (
        lambda x, y: pn.sum(pn.concat([x, y]) * 3, axis=0),
        (RNG.integers(-9, 9, (3, 8)), RNG.integers(-9, 9, (2, 8))),
    ),
    "extremes": (
        lambda x, y: pn.max(pn.concat([x, y]) * 2.0, axis=0) - pn.min(pn.abs(pn.stack([x, y])), axis=0)[0],
        (data(3, 8), data(3, 8)),
    ),
    "bools": (
        lambda x, y: pn.any(pn.concat([x, y]) > 1.0, axis=0) | pn.all(pn.stack([x, y]) < 0.5, axis=0)[0],
        (data(3, 8), data(3, 8)),
    ),
}


def asks(lowered: compiler.Lowered) -> bool:
    """Whether a kernel compares a position inside of a reduction."""
    return any(
        n.op in COMPARISONS and n.src[0].dtype.is_index
        for kernel in lowered.plan.kernels
        for reduction in kernel.sink.toposort()
        if reduction.op is Ops.REDUCE
        for n in reduction.src[0].toposort()
    )


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_each_tensor_is_reduced_by_itself(name: str, target: str) -> None:
    function, arrays = CASES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, target)
    if target != "sm_90" and name != "padded":
        assert not asks(lowered)
    (wanted,) = reference(traced, arrays)
    (found,) = lowered.interpreted()(*arrays)
    if np.asarray(wanted).dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
    else:
        size = np.asarray(wanted).dtype.itemsize
        actual, expected = (np.asarray(each, np.float64) for each in (found, wanted))
        np.testing.assert_allclose(actual, expected, rtol=2e-5 if size == 4 else 2e-2, atol=1e-5)


def test_what_somebody_else_needs_stays_whole() -> None:
    def function(x: Any, y: Any) -> Any:
        both = pn.concat([x, y])
        return both, pn.sum(both, axis=0)

    arrays = data(6, 8), data(5, 8)
    lowered = compiler.lower(pn.jit(function).lower(*map(pn.asarray, arrays)).function, "x86-64-v3")
    joined, total = lowered.interpreted()(*arrays)
    np.testing.assert_array_equal(joined, np.concatenate(arrays))
    np.testing.assert_allclose(total, np.concatenate(arrays).sum(0), rtol=1e-6)


def test_terms_are_added_where_they_were_asked_for() -> None:
    """Sixteen taps: no loop over them, and no more operations than taps."""
    arrays = data(4, 80), data(16)
    given = pn.jit(lambda x, k: pn.sum(pn.stack([x[:, i : i + 64] * k[i] for i in range(16)]), axis=0)).lower(
        *map(pn.asarray, arrays)
    )
    (kernel,) = compiler.lower(given.function, "x86-64-v3").plan.kernels
    ops = [n.op for n in kernel.sink.toposort()]
    assert Ops.REDUCE not in ops
    assert ops.count(Ops.MUL) - ops.count(Ops.ADD) <= 16
    assert sum(n.op is Ops.MUL and n.dtype is pn.float32 for n in kernel.sink.toposort()) == 16
