"""What the records of scalar functions claim: parity, sign, slopes, and that every layer has taken its part."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import planish as pn
from planish import dtypes, ptir
from planish.dtypes import DType
from planish.frontend.autodiff.rules import DERIVATIVES, FLAT
from planish.frontend.batching import BATCHING
from planish.ptir import ops
from planish.scalars import FUNCTIONS, Scalar, conversion, functions
from planish.schedule.lowering.elementwise import ELEMENTWISE
from planish.uop.functions import FUNCTION_OPS
from planish.uop.weights import weight

ALL = sorted(FUNCTIONS)
INSIDE = {
    "acosh": (1.1, 4.0),
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "atanh": (-0.9, 0.9),
    "erfinv": (-0.9, 0.9),
}
"""Where a function is smooth, if not everywhere between the default bounds."""
SPECIAL = np.array([0.0, 1.0, 0.5, 1e-310, 1e300, np.inf, np.nan])


def computed(
    of: Scalar, *x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    with np.errstate(all="ignore"):
        return np.asarray(of.compute(*x), np.float64)


@pytest.mark.parametrize("name", ALL)
def test_every_layer_has_taken_its_part(name: str) -> None:
    of = FUNCTIONS[name]
    op = ops.find(name)
    assert (op.min_operands, op.doc, op.elementwise) == (of.arity, of.doc, True)
    assert (name in DERIVATIVES) is bool(of.slopes)
    assert (name in FLAT) is not bool(of.slopes)
    assert len(of.slopes) in (0, of.arity)
    assert name in BATCHING
    assert name in ELEMENTWISE
    assert name in dir(ptir.Value)
    kernel = next((op for op, record in FUNCTION_OPS.items() if record is of), None)
    assert kernel is None or weight(kernel) == of.weight
    assert name not in functions.__all__ or callable(getattr(pn, name))


@pytest.mark.parametrize("name", [name for name in ALL if FUNCTIONS[name].arity == 1])
@given(drawn=st.lists(st.floats(allow_nan=False), max_size=20))
def test_parity_and_sign_hold_to_the_last_bit(name: str, drawn: list[float]) -> None:
    of = FUNCTIONS[name]
    x = np.concatenate([SPECIAL, np.array(drawn, np.float64)])
    y, mirrored = computed(of, x), computed(of, -x)
    expected = {"odd": -y, "even": y, "": None}[of.parity]
    if expected is not None:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(mirrored), ~number)
        np.testing.assert_array_equal(mirrored[number].view(np.int64), expected[number].view(np.int64))
    if of.positive:
        assert not np.signbit(y[~np.isnan(y)]).any()
        assert not np.signbit(mirrored[~np.isnan(mirrored)]).any()


@pytest.mark.parametrize("name", [name for name in ALL if FUNCTIONS[name].slopes])
def test_slopes_are_those_of_differences(name: str) -> None:
    of = FUNCTIONS[name]
    low, high = INSIDE.get(name, (0.2, 2.5))
    given_ = [np.linspace(low, high, 11), np.linspace(high, low, 11) + 0.05][: of.arity]
    graph = ptir.Graph("g")
    t, *x = [graph.input(f"x{n}", ptir.tensor("f64", (11,))) for n in range(of.arity + 1)]
    y = graph.emit(ops.find(name), x)
    built = graph.build(*[cast("ptir.Value", slope(t, *x, y)) for slope in of.slopes if slope is not None])
    slopes = iter(ptir.interpret(built, [np.ones(11), *given_]))
    step = 1e-6
    for place, slope in enumerate(of.slopes):
        if slope is not None:
            up, down = (
                [each + sign * step * (n == place) for n, each in enumerate(given_)] for sign in (1, -1)
            )
            differences = (computed(of, *up) - computed(of, *down)) / (2 * step)
            np.testing.assert_allclose(next(slopes), differences, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", [dtypes.int64, dtypes.uint64], ids=str)
@pytest.mark.parametrize("target", [dtypes.bfloat16, dtypes.float16, dtypes.float32], ids=str)
def test_large_integers_are_rounded_once(source: DType, target: DType, lanes: int) -> None:
    middles = [(1 << n) + (1 << n - 8) + d for n in range(20, 63) for d in (-1, 0, 1)]
    values = np.array(middles, source.numpy)
    with np.errstate(over="ignore"):
        got = conversion.convert(values, source.vec(lanes), target.vec(lanes)).astype(np.float64)
    expected = [float(dtypes.float_format(target).round(value)) for value in middles]
    np.testing.assert_array_equal(got, expected)
