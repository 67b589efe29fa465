"""Few rows against stored weights, of random sizes, bits, groups and dtypes: whatever schedule is chosen computes the product."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.config import settings

KINDS: dict[Any, tuple[Any, float]] = {
    pn.float16: (np.float16, 1e-3),
    pn.bfloat16: (ml_dtypes.bfloat16, 8e-3),
    pn.float32: (np.float32, 1e-5),
}


def unpacked(w: Any, bits: int, lib: Any) -> Any:
    if bits == 8:
        return w
    parts = [(w >> n) & ((1 << bits) - 1) for n in range(0, 8, bits)]
    return lib.stack(parts, axis=2).reshape((w.shape[0], -1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.fuzz) for n in range(1, 40))])
def test_any_product_with_stored_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = list(KINDS)[int(rng.choice(3, p=(0.45, 0.45, 0.1)))]
    kind, bound = KINDS[dtype]
    bits, rows = int(rng.choice([8, 4, 2])), int(rng.integers(1, 17))
    group = int(rng.choice([32, 64, 128]))
    depth, columns = group * int(rng.integers(1, 7)), int(rng.choice([64, 70, 96]))
    signed = bits == 8 and rng.random() < 0.5
    low, high = (-128, 128) if signed else (0, 256)
    stored = rng.integers(low, high, (columns, depth * bits // 8)).astype(np.int8 if signed else np.uint8)
    scale = (rng.random((columns, depth // group)) + 0.1).astype(kind)
    x = rng.standard_normal((rows, depth)).astype(kind)
    zero = float(rng.choice([0, 1 << bits - 1, 7]))

    def product(x: Any, w: Any, s: Any) -> Any:
        wide = (unpacked(w, bits, pn).astype(dtype) - zero).reshape((columns, depth // group, group))
        return x @ (wide * s[:, :, None]).reshape((columns, depth)).T

    traced = pn.jit(product).lower(*map(pn.asarray, (x, stored, scale))).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    (found,) = lowered.interpreted()(x, stored, scale)
    weights = unpacked(stored, bits, np).astype(np.float64) - zero
    want = x.astype(np.float64) @ (weights * np.repeat(scale.astype(np.float64), group, 1)).T
    said = "; ".join(map(str, lowered.choices[0].actions))
    assert np.linalg.norm(found.astype(np.float64) - want) < bound * np.linalg.norm(want), said
    lowered.as_text("ptx")
