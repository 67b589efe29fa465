"""Products of matrices on a GPU: operands that are laid out first, and sums that are cut into parts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.compiler import Lowered
from planish.config import settings
from planish.schedule import products
from planish.target import TARGETS

RNG = np.random.default_rng(11)


def lowered(m: int, n: int, k: int, dtype: Any = pn.bfloat16, *, fastmath: bool = False) -> Lowered:
    specs = pn.TensorSpec((m, k), dtype), pn.TensorSpec((k, n), dtype)
    with settings(fastmath=fastmath):
        return compiler.lower(pn.jit(lambda a, b: a @ b).lower(*specs).function, "sm_90")


@pytest.mark.parametrize(
    ("sizes", "kernels"),
    [
        ((1024, 1024, 1024), 1),
        ((1027, 1031, 1029), 3),  # rows of both operands start anywhere
        ((1024, 1031, 1024), 2),  # those of one do
        ((100, 100, 1029), 1),  # what is used so rarely is not worth a copy
        ((256, 256, 8192), 2),  # sixteen tiles for 132 multiprocessors
        ((128, 3072, 3072), 1),  # blocks of one kernel share sums
        ((4096, 4096, 8192), 1),
    ],
)
def test_kernels_follow_from_sizes(sizes: tuple[int, int, int], kernels: int) -> None:
    found = lowered(*sizes)
    assert len(found.programs) == kernels
    product = next(c for c in found.choices if "wgmma" in str(c.actions))
    assert ("engine=true" in str(product.actions)) is (sizes[2] != 1029 or kernels > 1)


def test_products_of_threads_are_cut_too() -> None:
    assert len(lowered(128, 4096, 4096, pn.float32).programs) == 2
    assert len(lowered(4096, 4096, 4096, pn.float32).programs) == 1


def test_what_a_core_reads_along_the_sum_alone_is_turned() -> None:
    found = lowered(1024, 1024, 1024, pn.float32, fastmath=True)
    assert "_tf32_f32_kk" in str(found.choices[-1].actions)
    assert "engine=true" in str(found.choices[-1].actions)
    assert len(found.programs) == 2


CASES: dict[str, tuple[tuple[int, int, int], Any, int]] = {
    "rows padded": ((65, 67, 69), ml_dtypes.bfloat16, 3),
    "parts": ((64, 64, 256), ml_dtypes.bfloat16, 2),
    "turned": ((64, 64, 64), np.float32, 2),
    "parts by threads": ((32, 32, 256), np.float32, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (m, n, k), dtype, kernels = CASES[name]
    plain, terms = TARGETS["sm_90"], 128 if "parts" in name else 1 << 20
    target = replace(plain, parts=replace(plain.parts, copied=1, often=1, product_terms=terms))
    monkeypatch.setattr(products, "_GAIN", 1e9)
    monkeypatch.setattr(products, "cycles", lambda target, sizes, tile, engine, parts: 1e9 / parts)
    monkeypatch.setattr(products, "shared_sum_cycles", lambda *_: math.inf)
    a, b = (RNG.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    with settings(fastmath=name == "turned"):
        traced = pn.jit(lambda a, b: a @ b + 1).lower(pn.asarray(a), pn.asarray(b)).function
        found = compiler.lower(traced, target)
        assert len(found.programs) == kernels
        (result,) = found.interpreted()(a, b)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + 1
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=1e-2)


def test_axes_of_one_element_are_no_rows() -> None:
    """The weights of a convolution of one tap lie as a matrix does: nothing is padded."""
    specs = pn.TensorSpec((16, 28, 28, 512), pn.bfloat16), pn.TensorSpec((256, 512, 1, 1), pn.bfloat16)

    def pointwise(x: Any, w: Any) -> Any:
        return pn.nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), w)

    found = compiler.lower(pn.jit(pointwise).lower(*specs).function, "sm_90")
    assert len(found.programs) == 1


def test_a_bias_of_what_attention_reads_is_not_stored_on_the_way() -> None:
    """No product is computed on the way to another, so that one kernel asks for the bias; a second result would take an axis off the grid."""
    x, w, b = (pn.TensorSpec(shape, pn.bfloat16) for shape in ((12608, 768), (2304, 768), (2304,)))

    def attention(x: Any, w: Any, b: Any) -> Any:
        y = (x.astype(pn.float32) @ w.T.astype(pn.float32) + b.astype(pn.float32)).astype(pn.bfloat16)
        y = pn.permute_dims(y.reshape((64, 197, 3, 12, 64)), (2, 0, 3, 1, 4))
        return pn.nn.scaled_dot_product_attention(y[0], y[1], y[2])

    found = compiler.lower(pn.jit(attention).lower(x, w, b).function, "sm_90")
    assert [len(kernel.written) for kernel in found.plan.kernels] == [1, 1]
