"""Products of matrices on a GPU, by tensor cores: layouts, sizes and dtypes, held against float64 by norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn

GPU = "cuda:0"
LAYOUTS = {
    "nn": lambda a, b: a @ b,
    "nt": lambda a, b: a @ pn.matrix_transpose(b),
    "tn": lambda a, b: pn.matrix_transpose(a) @ b,
    "tt": lambda a, b: pn.matrix_transpose(a) @ pn.matrix_transpose(b),
}
BOUNDS = {"bfloat16": 4e-3, "float16": 5e-4, "float32": 1e-3}


def operands(layout: str, sizes: tuple[int, int, int], batch: tuple[int, ...]) -> tuple[Any, Any]:
    m, n, k = sizes
    rng = np.random.default_rng(sum(sizes))
    left = (k, m) if layout[0] == "t" else (m, k)
    right = (n, k) if layout[1] == "t" else (k, n)
    return tuple(rng.standard_normal((*batch, *shape)).astype(np.float32) for shape in (left, right))  # type: ignore[return-value]  # two


def error(layout: str, sizes: tuple[int, int, int], dtype: str, batch: tuple[int, ...] = ()) -> float:
    given = [pn.asarray(x, device=GPU).astype(getattr(pn, dtype)) for x in operands(layout, sizes, batch)]
    found = np.asarray(pn.jit(LAYOUTS[layout])(*given).astype(pn.float32), np.float64)
    a, b = (np.asarray(x.astype(pn.float32), np.float64) for x in given)
    exact = (np.swapaxes(a, -1, -2) if layout[0] == "t" else a) @ (
        np.swapaxes(b, -1, -2) if layout[1] == "t" else b
    )
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("sizes", [(256, 512, 448), (333, 222, 111), (1000, 1000, 1000)], ids=str)
def test_layouts(layout: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    assert error(layout, sizes, dtype) < BOUNDS[dtype]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 16, 24, 64])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_few_rows(rows: int, layout: str) -> None:
    """Memory is what is waited for: a wait that is missing shows here first, so it is tried again and again."""
    for _ in range(3):
        assert error(layout, (rows, 4096, 2048), "bfloat16") < BOUNDS["bfloat16"]


def test_batches() -> None:
    assert error("nn", (130, 72, 96), "float16", (3,)) < BOUNDS["float16"]


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_tf32_for_those_who_allow_it(layout: str) -> None:
    with pn.settings(fastmath=True):
        assert 1e-5 < error(layout, (512, 256, 384), "float32") < BOUNDS["float32"]
    assert error(layout, (512, 256, 384), "float32") < 1e-6


@pytest.mark.parametrize("sizes", [(256, 512, 384), (4096, 1024, 512), (100, 72, 144)], ids=str)
def test_fp8_for_those_who_allow_it(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(k)
    given = [
        pn.asarray(rng.standard_normal(shape).astype(np.float32), device=GPU).astype(pn.float8_e4m3fn)
        for shape in ((m, k), (n, k))
    ]
    with pn.settings(fastmath=True):
        found = pn.jit(lambda a, b: a.astype(pn.float32) @ b.astype(pn.float32).T)(*given)
    a, b = (np.asarray(x.astype(pn.float32), np.float64) for x in given)
    assert np.linalg.norm(np.asarray(found) - a @ b.T) < 4e-3 * np.linalg.norm(a @ b.T)


def test_int8() -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((300, 500), (200, 500)))
    product = pn.jit(lambda a, b: a.astype(pn.int32) @ b.astype(pn.int32).T)
    found = np.asarray(product(*(pn.asarray(x, device=GPU) for x in (a, b))))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32).T)


# -- weights that are stored narrow ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 11, 16])
@pytest.mark.parametrize("kind", ["uint8", "int8", "half bytes"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_stored_weights(rows: int, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(rows)
    depth, columns, group = 1024, 384, 64
    low, high = (-128, 128) if kind == "int8" else (0, 256)
    stored = rng.integers(low, high, (columns, depth // (2 if kind == "half bytes" else 1)))
    stored = stored.astype(np.int8 if kind == "int8" else np.uint8)
    whole = (
        np.stack([stored & 15, stored >> 4], 2).reshape(columns, depth) if kind == "half bytes" else stored
    )
    wanted = getattr(pn, dtype)
    x = rng.standard_normal((rows, depth)).astype(wanted.numpy)
    scale = (rng.random((columns, depth // group)) * 0.1).astype(wanted.numpy)

    def product(x: Any, w: Any, s: Any) -> Any:
        if kind == "half bytes":
            w = pn.stack([w & 15, w >> 4], axis=2).reshape(columns, depth)
        wide = (w.astype(wanted) - 7.0).reshape(columns, depth // group, group) * s[:, :, None]
        return x @ wide.reshape(columns, depth).T

    arrays = [pn.asarray(array, device=GPU) for array in (x, stored, scale)]
    compiled = pn.jit(product)
    weights = (whole.astype(np.float64) - 7.0) * np.repeat(scale.astype(np.float64), group, 1)
    want = x.astype(np.float64) @ weights.T
    bound = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[dtype]
    for _ in range(3):
        found = np.asarray(compiled(*arrays)).astype(np.float64)
        assert np.linalg.norm(found - want) < bound * np.linalg.norm(want)
