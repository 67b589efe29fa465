"""ImageDecoder, on the host: pictures are decoded by Pillow (the extra `images`)."""

from __future__ import annotations

import importlib
import io
from typing import Any, Final

import numpy as np

from planish.onnx.ops.common import Array
from planish.onnx.registry import op
from planish.onnx.site import NodeSite

_MOST: Final = 1 << 28
"""Pixels that a header may announce."""
_MODES: Final = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
"""What Pillow calls the pixel formats."""


@op("ImageDecoder", host=True)
def image_decoder(at: NodeSite, stream: Array) -> Array:
    wanted = at.attr("pixel_format", "RGB")
    if wanted not in _MODES:
        raise at.refuse(f"there is no pixel format {wanted!r}; there are {', '.join(_MODES)}")
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise at.refuse(
            "decoding a picture takes Pillow, which is not installed: pip install pillow"
        ) from None
    try:
        with pillow.open(io.BytesIO(stream.tobytes())) as picture:
            width, height = picture.size
            if width * height > _MOST:
                raise at.refuse(f"a picture of {width} by {height} pixels is more than {_MOST} pixels")
            array: Array = np.array(picture.convert(_MODES[wanted]), np.uint8)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, pillow.DecompressionBombError) as error:  # fmt: skip
        raise at.refuse(f"the picture cannot be decoded: {error}") from None
    if wanted == "Grayscale":
        return array[:, :, None]
    return np.ascontiguousarray(array[:, :, ::-1]) if wanted == "BGR" else array
