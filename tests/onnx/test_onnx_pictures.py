"""ImageDecoder: every format that Pillow reads, in every pixel format, and one clear error where there is none."""

from __future__ import annotations

import io
import sys

import numpy as np
import onnx
import pytest

from planish.onnx import Model
from planish.onnx.registry import Unsupported
from tests.onnx.onnx_suite import PASSED, cases, run

Image = pytest.importorskip("PIL.Image")
COLORS = np.random.default_rng(3).integers(0, 256, (5, 7, 3), np.uint8)


def decoded(data: bytes, pixels: str = "RGB") -> np.ndarray:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
        agraph (uint8[n] data) => (uint8[h, w, c] picture) {{
          picture = ImageDecoder<pixel_format = "{pixels}">(data)
        }}"""
    model = Model(onnx.parser.parse_model(text), interpret=True)
    return np.asarray(model(data=np.frombuffer(data, np.uint8))[0])


def encoded(pixels: np.ndarray, kind: str, mode: str | None = None) -> bytes:
    stream = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture.convert(mode) if mode else picture).save(stream, kind)
    return stream.getvalue()


def test_the_suite_s_pictures_are_decoded():
    names = [name for name in cases(True) if "image_decoder" in name]
    assert len(names) == 9
    assert [name for name in names if run(name, True)[0] != PASSED] == []


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_pixels_come_in_the_order_that_was_asked_for(kind: str):
    data = encoded(COLORS, kind)
    np.testing.assert_array_equal(decoded(data), COLORS)
    np.testing.assert_array_equal(decoded(data, "BGR"), COLORS[:, :, ::-1])
    gray = decoded(data, "Grayscale")
    assert gray.shape == (5, 7, 1)
    np.testing.assert_allclose(gray[:, :, 0], COLORS @ [0.299, 0.587, 0.114], atol=0.6)


def test_gray_and_translucent_pictures_have_three_colors_too():
    gray = encoded(COLORS[:, :, 0], "PNG")
    np.testing.assert_array_equal(decoded(gray), np.repeat(COLORS[:, :, :1], 3, 2))
    np.testing.assert_array_equal(decoded(encoded(COLORS, "PNG", "RGBA")), COLORS)


def test_a_picture_that_is_none_is_one_error_that_names_the_node():
    data = encoded(COLORS, "PNG")
    for bad in (b"", b"no picture", data[:40], data[:60] + b"\0" * 30):
        with pytest.raises(Unsupported, match=r"ImageDecoder.*cannot be decoded"):
            decoded(bad)
    with pytest.raises(Unsupported, match="no pixel format 'HSV'; there are RGB, BGR, Grayscale"):
        decoded(data, "HSV")


def test_a_header_may_not_announce_more_than_a_machine_holds():
    with pytest.raises(Unsupported, match=r"ImageDecoder.*(pixels|decoded)"):
        decoded(b"P6 200000 200000 255\n" + bytes(10))


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(Unsupported, match=r"takes Pillow.*pip install pillow"):
        decoded(encoded(COLORS, "BMP"))
