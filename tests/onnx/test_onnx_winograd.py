"""Convolutions of constant kernels by fewer products: the same answers, where it is worth it, and from the weights of the model."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from planish import dtypes, target
from planish.config import settings
from planish.onnx import kept_tapes, load
from planish.ptir.library.interpolated_convolution import interpolated, interpolation
from planish.ptir.ops.contract import ConvolutionAttrs

RNG = np.random.default_rng(18)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'
POINTS = 6


@pytest.mark.parametrize("taps", [2, 3, 4, 5])
def test_interpolation_is_exact(taps: int):
    found = interpolation(taps)
    assert found is not None
    assert found.rows == POINTS + 1 - taps
    image = [Fraction(n * n - 3 * n + 1, n + 2) for n in range(POINTS)]
    weights = [Fraction(2 * n - 3, 7) for n in range(taps)]
    looked = [sum(a * b for a, b in zip(row, image, strict=True)) for row in found.image]
    taken = [sum(a * b for a, b in zip(row, weights, strict=True)) for row in found.weights]
    products = [a * b for a, b in zip(looked, taken, strict=True)]
    for row, factors in enumerate(found.results):
        plain = sum(weights[tap] * image[row + tap] for tap in range(taps))
        assert sum(a * b for a, b in zip(factors, products, strict=True)) == plain


@pytest.mark.parametrize("taps", [1, 6, 7])
def test_not_with_too_few_points(taps: int):
    assert interpolation(taps) is None
    with pytest.raises(ValueError, match="no interpolation"):
        interpolated(np.zeros((2, 2, taps, 3), np.float32), 2)


def model(
    dims: str, kernel: NDArray[Any], attributes: str = "pads = [1, 1, 1, 1]", *, bias: bool = True
) -> Any:
    text = f"""m (float[{dims}] x) => (float[a, b, c, d] y)
    {{ p = Conv<{attributes}>(x, w{", b" if bias else ""}) y = Relu(p) }}"""
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.append(numpy_helper.from_array(kernel, "w"))
    if bias:
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(len(kernel), np.float32), "b"))
    return load(proto.SerializeToString())


def kernel_of(outs: int, inputs: int, *taps: int) -> NDArray[Any]:
    found = RNG.standard_normal((outs, inputs, *taps)) / np.sqrt(inputs * np.prod(taps))
    kernel: NDArray[Any] = found.astype(np.float32)
    return kernel


def convolved(x: NDArray[Any], kernel: NDArray[Any], pads: tuple[int, int, int, int]) -> NDArray[Any]:
    top, left, bottom, right = pads
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    height, width = x.shape[2] - kernel.shape[2] + 1, x.shape[3] - kernel.shape[3] + 1
    total = sum(
        np.einsum("oi,nihw->nohw", kernel[:, :, a, b], x[:, :, a : a + height, b : b + width])
        for a in range(kernel.shape[2])
        for b in range(kernel.shape[3])
    )
    result: NDArray[Any] = np.maximum(total + 1, 0)
    return result


def groups(loaded: Any) -> list[int]:
    function = loaded.program().function
    return [inst.attrs.groups for inst in function.walk() if isinstance(inst.attrs, ConvolutionAttrs)]


@pytest.mark.parametrize(
    ("shape", "taps", "pads"),
    [
        ((1, 48, 24, 24), (3, 3), (1, 1, 1, 1)),
        ((1, 64, 13, 14), (3, 3), (1, 1, 1, 1)),  # rows that no step divides
        ((2, 48, 18, 16), (3, 1), (0, 0, 0, 0)),
        ((1, 48, 19, 16), (3, 5), (2, 0, 0, 1)),
        ((1, 48, 20, 20), (5, 3), (2, 1, 2, 1)),
    ],
)
def test_rows_of_taps_take_fewer_products(
    shape: tuple[int, ...], taps: tuple[int, int], pads: tuple[int, int, int, int]
):
    kernel = kernel_of(64, shape[1], *taps)
    loaded = model(", ".join(map(str, shape)), kernel, f"pads = {list(pads)}")
    x = RNG.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(loaded.run(None, {"x": x})[0], convolved(x, kernel, pads), atol=2e-5)
    assert groups(loaded) == [POINTS]


@pytest.mark.parametrize(
    ("inputs", "outs", "attributes"),
    [
        (3, 32, "pads = [1, 1, 1, 1]"),  # little to save, as much to move
        (64, 64, "pads = [1, 1, 1, 1], strides = [2, 2]"),
        (64, 64, "pads = [2, 2, 2, 2], dilations = [2, 2]"),
    ],
)
def test_what_stays_a_plain_sum(inputs: int, outs: int, attributes: str):
    loaded = model(f"1, {inputs}, 32, 32", kernel_of(outs, inputs, 3, 3), attributes)
    assert groups(loaded) == [1]


def test_plain_sums_on_request():
    """Where a row is not finite, the rows that no window of it reaches are."""
    kernel = kernel_of(64, 48, 3, 3)
    x = RNG.standard_normal((1, 48, 24, 24)).astype(np.float32)
    x[:, :, 12] = np.inf
    with settings(winograd=False):
        loaded = model("1, 48, 24, 24", kernel)
        result = loaded.run(None, {"x": x})[0]
        assert groups(loaded) == [1]
    assert np.isfinite(np.delete(result, [11, 12, 13], axis=2)).all()


@pytest.mark.parametrize(
    ("outs", "inputs", "taps", "width"),
    [(64, 256, 1, 32), (48, 256, 1, 16), (40, 256, 1, 0), (64, 64, 1, 0), (64, 64, 3, 32)],
)
def test_channels_of_a_register_tile_lie_side_by_side(outs: int, inputs: int, taps: int, width: int):
    """Not where they fill no vectors, nor where sums are short."""
    kernel = kernel_of(outs, inputs, taps, taps)
    loaded = model(f"1, {inputs}, 14, 14", kernel, f"pads = {[taps // 2] * 4}, strides = [2, 2]")
    x = RNG.standard_normal((1, inputs, 14, 14)).astype(np.float32)
    answer = loaded.run(None, {"x": x})[0]
    expected = convolved(x, kernel, (taps // 2,) * 4)[:, :, ::2, ::2]
    np.testing.assert_allclose(answer, expected, atol=2e-5)
    shapes = [value.type.dims for value in loaded.program().function.params[1:]]
    lanes = target.host().lanes(dtypes.float32)
    if lanes == 16:
        packed = (outs // width, inputs, taps, taps, width) if width else (outs, inputs, taps, taps)
        assert packed in shapes


def test_windows_far_apart_read_weights_as_they_are():
    kernel = kernel_of(64, 1, 1, 300)
    loaded = model("1, 1, 1, 4000", kernel, "strides = [1, 256]")
    x = RNG.standard_normal((1, 1, 1, 4000)).astype(np.float32)
    expected = convolved(x, kernel, (0, 0, 0, 0))[:, :, :, ::256]
    np.testing.assert_allclose(loaded.run(None, {"x": x})[0], expected, atol=2e-5)
    assert (64, 1, 1, 300) in [value.type.dims for value in loaded.program().function.params[1:]]


def test_named_sizes():
    kernel = kernel_of(64, 64, 3, 3)
    loaded = model("n, 64, h, w", kernel)
    with settings(cache=False):
        for n, height, width in ((2, 14, 18), (3, 17, 20), (2, 24, 24), (4, 31, 16)):
            x = RNG.standard_normal((n, 64, height, width)).astype(np.float32)
            expected = convolved(x, kernel, (1, 1, 1, 1))
            np.testing.assert_allclose(loaded.run(None, {"x": x})[0], expected, atol=2e-5)
    assert loaded.compilations <= 4


def test_what_is_kept_names_the_weight(tmp_path: Path):
    kernel = kernel_of(96, 96, 3, 3)
    x = RNG.standard_normal((1, 96, 16, 16)).astype(np.float32)
    with settings(cache_dir=str(tmp_path)):
        first = model("1, 96, 16, 16", kernel)
        answer = first.run(None, {"x": x})[0]
        (tape,) = first._tapes.values()
        data = kept_tapes._TapeWriter(first._signatures, first.initial, first.prepared.layouts).pack(tape)
        assert len(data) < kernel.nbytes // 4
        again = model("1, 96, 16, 16", kernel)
        np.testing.assert_array_equal(again.run(None, {"x": x})[0], answer)
        assert not again.is_ready  # it was not imported
