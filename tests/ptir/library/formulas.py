"""Shared by the tests of library functions: run one on arrays, and compare with a formula in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planish import dtypes
from planish.ptir import interpret, verify
from planish.ptir.types import TensorType
from tests.ptir.library.expanding import function_of, types_of


def run(
    build: Callable[..., object], *arrays: np.ndarray, types: Sequence[TensorType] | None = None
) -> tuple[np.ndarray, ...]:
    """The results of what a library function builds for these arrays; the function verifies."""
    given = [np.asarray(a) for a in arrays]
    function = function_of(types_of(given) if types is None else types, build)
    verify(function)
    return interpret(function, given)


def close(got, wanted, dtype=None, ulps: float = 64) -> None:
    """Within so many units of the last place of the largest element; NaN and infinities exactly."""
    wanted = np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape
    kind = dtypes.from_numpy(got.dtype)
    eps = 2.0 ** (1 - dtypes.float_format(kind).precision)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1.0, finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=ulps * eps, atol=ulps * eps * scale)


def normal(seed: int, *shape: int, dtype=np.float32) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)
