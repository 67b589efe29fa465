"""tfloat32: rounded alike by everybody, moved and multiplied, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import compiler, dtypes, ptir
from planish.codegen import c
from planish.errors import PlanishError
from planish.ptir import ops
from planish.target import TARGETS

TF32 = dtypes.tfloat32
SUMS = ops.DotAttrs(dtypes.float32, dtypes.float32)
HOPPER = TARGETS["sm_90"]
COPYING = replace(HOPPER, parts=replace(HOPPER.parts, channels_last=0))
"""For which no product is too small to be laid out."""


def rounding(count: int) -> ptir.Function:
    g = ptir.Graph("rounding")
    return g.build(g.input("x", ptir.tensor("f32", (count,))).cast(TF32).cast(dtypes.float32))


def patterns(count: int) -> Any:
    """Floats of all kinds: any bits, ties, and what is next to them."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    bits[::4] = bits[::4] & 0xFFFFE000 | 0x1000
    bits[1::8] += np.uint32(1)
    bits[:6] = 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x00000FFF, 0x7FC00001
    return bits.view(np.float32)


def test_everybody_rounds_alike() -> None:
    x = patterns(1 << 12)
    function = rounding(x.size)
    exact = np.array([TF32.const(float(value)) for value in x], np.float32)
    lowered = compiler.lower(function, "sm_90")
    for (made,) in (ptir.interpret(function, [x]), compiler.compile(function)(x), lowered.interpreted()(x)):
        np.testing.assert_array_equal(made, exact)  # NaN is NaN, and zeros keep their sign
        np.testing.assert_array_equal(np.signbit(made[~np.isnan(x)]), np.signbit(exact[~np.isnan(x)]))
    (program,) = compiler.lower(function, "x86-64-v4").programs
    assert "<< 13" in c.render(program)


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_rounding_keeps_the_order(x: float, y: float) -> None:
    a, b = (float(TF32.const(value).real) for value in (x, y))
    assert TF32.const(a) == a
    assert (x <= y) <= (a <= b)


def test_dtype() -> None:
    assert dtypes.parse("tf32") is dtypes.parse("tfloat32") is TF32
    assert (TF32.bits, TF32.itemsize) == (19, 4)
    assert dtypes.promote(TF32, dtypes.float16) is dtypes.promote(TF32, dtypes.float32) is dtypes.float32
    assert dtypes.value_preserving(TF32, dtypes.float32)
    assert not dtypes.value_preserving(dtypes.float32, TF32)
    assert TF32 not in dtypes.ALL


def test_nothing_is_computed_in_it() -> None:
    x = ptir.Graph("f").input("x", ptir.tensor("f32", (4,))).cast(TF32)
    with pytest.raises(PlanishError, match=r"dtype tf32.*in add.*cast it first"):
        x.add(x)
    with pytest.raises(PlanishError, match="tf32"):
        x.bitcast(dtypes.uint32)


def convolution(x: Any, w: Any, ends: Any = ((1, 1), (1, 1)), step: int = 1, holes: int = 1, groups: int = 1) -> ptir.Function:  # fmt: skip
    g = ptir.Graph("convolution")
    values = [
        g.input(name, ptir.tensor("f32", array.shape)).cast(TF32) for name, array in (("x", x), ("w", w))
    ]
    found = values[0].convolution(
        values[1], "NCXY", "OIXY", "NCXY", [step] * 2, ends, [holes] * 2, [1, 1], groups, SUMS
    )
    return g.build(found.max(g.full(found.dims, 0.0, dtypes.float32)))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


CONVOLUTIONS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "3 x 3": (numbers(1, 32, 6, 6), numbers(32, 32, 1, 3), {}, "tensor_core(wgmma"),
    "few channels": (numbers(1, 3, 12, 12), numbers(32, 3, 3, 3), {}, "tensor_core(wgmma"),
    "phases": (numbers(2, 32, 4, 4), numbers(32, 32, 2, 2), {"ends": ((1, 2), (1, 2)), "holes": 2}, "pad_to(k, 2); split(k, 2)"),
    "groups": (numbers(1, 64, 8, 8), numbers(64, 32, 3, 3), {"groups": 2}, "tensor_core(wgmma"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "3 x 3" else [pytest.mark.slow]) for n in CONVOLUTIONS]
)
def test_convolutions_take_tensor_cores(name: str) -> None:
    """As exactly as any: products of 11 bits are exact, sums are float32's."""
    x, w, options, expected = CONVOLUTIONS[name]
    function = convolution(x, w, **options)
    (exact,) = ptir.interpret(function, [x, w])
    lowered = compiler.lower(function, COPYING)
    said = "; ".join(str(action) for action in lowered.choices[-1].actions)
    assert expected in said
    assert "tfloat32" in said
    for (made,) in (lowered.interpreted()(x, w), compiler.compile(function)(x, w)):
        assert np.linalg.norm(made - exact) <= 1e-6 * np.linalg.norm(exact)


def test_older_gpus_multiply_it_too() -> None:
    g = ptir.Graph("product")
    x, y = (g.input(name, ptir.tensor("f32", (32, 32))).cast(TF32) for name in "xy")
    function = g.build(x.matmul(y, SUMS))
    lowered = compiler.lower(function, "sm_80")
    assert any(
        "mma_m16n8k8_tfloat32" in str(action) for choice in lowered.choices for action in choice.actions
    )
    a, b = numbers(32, 32), numbers(32, 32)
    (made,), (exact,) = lowered.interpreted()(a, b), ptir.interpret(function, [a, b])
    assert np.linalg.norm(made - exact) <= 1e-6 * np.linalg.norm(exact)


def test_products_of_single_terms() -> None:
    g = ptir.Graph("outer")
    x, y = (g.input(name, ptir.tensor("f32", (5, 1))).cast(TF32) for name in "xy")
    function = g.build(x.dot_general(y, ops.DotDims((), (1,), (1,))))
    a, b = numbers(5, 1), numbers(5, 1) + 1
    (made,), (exact,) = compiler.compile(function)(a, b), ptir.interpret(function, [a, b])
    np.testing.assert_array_equal(made, exact)
    assert function.results[0].type.dtype is dtypes.float32


def test_a_copy_engine_fetches_what_was_rounded() -> None:
    """Operands of a product are rounded once, and stored along the sum."""
    g = ptir.Graph("product")
    x, y = (g.input(name, ptir.tensor("f32", (64, 64))).cast(TF32) for name in "xy")
    function = g.build(x.matmul(y, SUMS))
    lowered = compiler.lower(function, COPYING)
    assert "engine=true" in str(lowered.choices[-1].actions[-1])
    a, b = numbers(64, 64), numbers(64, 64)
    (made,), (exact,) = lowered.interpreted()(a, b), ptir.interpret(function, [a, b])
    assert np.linalg.norm(made - exact) <= 1e-6 * np.linalg.norm(exact)
