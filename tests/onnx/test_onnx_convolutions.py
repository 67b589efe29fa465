"""Convolutions whose images are smaller than their kernels are products."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from planish.onnx import load
from planish.ptir import ops

RNG = np.random.default_rng(5)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'


@pytest.mark.parametrize("crop", [(0, 0, 0, 0), (1, 0, 2, 1)])
@pytest.mark.parametrize("room", [0, 1])
def test_a_pixel_spread_out_is_a_product_with_the_kernel(crop: tuple[int, ...], room: int):
    begin, left, end, right = crop
    kernel = RNG.standard_normal((8, 5, 4, 6)).astype(np.float32)
    attributes = f"pads = [{', '.join(map(str, crop))}], strides = [2, 2], output_padding = [{room}, 0]"
    text = f"m (float[2, 8, 1, 1] x, float[8, 5, 4, 6] k) => (float[2, 5, h, w] y) {{ y = ConvTranspose<{attributes}>(x, k) }}"
    model = load(onnx.parser.parse_model(HEAD + text).SerializeToString())
    x = RNG.standard_normal((2, 8, 1, 1)).astype(np.float32)
    (y,) = model.run(None, {"x": x, "k": kernel})
    full = np.einsum("nc,cohw->nohw", x[:, :, 0, 0], kernel)
    full = np.pad(full, ((0, 0), (0, 0), (0, room), (0, 0)))
    np.testing.assert_allclose(y, full[:, :, begin : 4 + room - end, left : 6 - right], atol=1e-5)
    function = model.lower(x=x.shape, k=kernel.shape).function
    assert ops.convolution not in {inst.op for inst in function.walk()}
