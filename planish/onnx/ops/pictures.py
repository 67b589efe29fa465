"""ImageDecoder, on the host: PNG, BMP, PNM and TIFF by themselves, other formats where Pillow is there to read them."""

from __future__ import annotations

import importlib
import io
import struct
import zlib
from typing import Any

import numpy as np

from planish.errors import PlanishError
from planish.onnx.engine import At
from planish.onnx.ops.common import Array
from planish.onnx.registry import op

_MOST = 1 << 28
"""Pixels that a header may announce."""


class NotAPicture(PlanishError):
    """Bytes that are not what their header says."""


def _sized(height: int, width: int) -> tuple[int, int]:
    if height <= 0 or width <= 0 or height * width > _MOST:
        raise NotAPicture(f"a picture of {width} by {height}")
    return height, width


# -- PNG -------------------------------------------------------------------------------------------------------------

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _png(data: bytes) -> Array:
    at, packed, palette = len(_PNG), b"", b""
    header: tuple[int, ...] = ()
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"PLTE":
            palette = body
        elif kind == b"IDAT":
            packed += body
        elif kind == b"IEND":
            break
    if not header:
        raise NotAPicture("a PNG without a header")
    width, height, bits, color, _, _, interlaced = header
    _sized(height, width)
    if bits != 8 or interlaced or color not in _CHANNELS:
        raise NotAPicture(f"a PNG of {bits} bits, kind {color}, interlaced {interlaced} is not read")
    channels = _CHANNELS[color]
    lines = zlib.decompressobj().decompress(packed, height * (width * channels + 1))
    picture = _unfiltered(lines, height, width * channels, channels).reshape(height, width, channels)
    if color == 3:
        return np.frombuffer(palette, np.uint8).reshape(-1, 3)[picture[:, :, 0]]
    return picture[:, :, :3] if channels == 4 else picture[:, :, :1] if channels == 2 else picture


def _unfiltered(lines: bytes, height: int, stride: int, step: int) -> Array:
    """Each line says how its bytes were predicted from those to the left and above."""
    raw = np.frombuffer(lines, np.uint8)
    if raw.size != height * (stride + 1):
        raise NotAPicture("a PNG that ends early")
    raw = raw.reshape(height, stride + 1)
    result = np.zeros((height, stride), np.uint8)
    above = np.zeros(stride, np.int32)
    for row in range(height):
        kind, line = int(raw[row, 0]), raw[row, 1:].astype(np.int32)
        if kind == 2:
            line = (line + above) & 255
        elif kind in (1, 3, 4):
            for n in range(stride):
                left = int(line[n - step]) if n >= step else 0
                corner = int(above[n - step]) if n >= step else 0
                up = int(above[n])
                guess = left if kind == 1 else (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
                line[n] = (line[n] + guess) & 255
        elif kind != 0:
            raise NotAPicture(f"a PNG line of kind {kind}")
        result[row], above = line, line
    return result


def _paeth(left: int, up: int, corner: int) -> int:
    """Whichever neighbour is nearest to left + up - corner."""
    target = left + up - corner
    return min((left, up, corner), key=lambda v: abs(target - v))


# -- BMP, PNM, TIFF --------------------------------------------------------------------------------------------------


def _bmp(data: bytes) -> Array:
    (offset,) = struct.unpack_from("<I", data, 10)
    width, height, _, bits, packing = struct.unpack_from("<iiHHI", data, 18)
    upside_down = height > 0
    rows, columns = _sized(abs(height), width)
    if bits not in (24, 32) or packing not in (0, 3):
        raise NotAPicture(f"a BMP of {bits} bits with compression {packing} is not read")
    stride = (columns * bits // 8 + 3) // 4 * 4
    lines = np.frombuffer(data, np.uint8, rows * stride, offset).reshape(rows, stride)
    picture = lines[:, : columns * bits // 8].reshape(rows, columns, bits // 8)[:, :, 2::-1]
    return picture[::-1] if upside_down else picture


def _pnm(data: bytes) -> Array:
    words: list[bytes] = []
    at = 0
    while len(words) < 4:
        while data[at : at + 1].isspace():
            at += 1
        if data[at : at + 1] == b"#":
            at = data.index(b"\n", at) + 1
            continue
        end = at
        while end < len(data) and not data[end : end + 1].isspace():
            end += 1
        words.append(data[at:end])
        at = end
    width, height, top = (int(word) for word in words[1:])
    _sized(height, width)
    if words[0] not in (b"P5", b"P6") or top != 255:
        raise NotAPicture(f"a PNM of kind {words[0]!r} up to {top} is not read")
    channels = 3 if words[0] == b"P6" else 1
    return np.frombuffer(data, np.uint8, height * width * channels, at + 1).reshape(height, width, channels)


_TIFF_SIZES = {1: "B", 3: "H", 4: "I"}


def _tiff(data: bytes) -> Array:
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    tags: dict[int, tuple[int, ...]] = {}
    for n in range(count):
        tag, kind, number = struct.unpack_from(order + "HHI", data, start + 2 + 12 * n)
        letter = _TIFF_SIZES.get(kind)
        if letter is None:
            continue
        form = f"{order}{number}{letter}"
        where = start + 2 + 12 * n + 8
        if struct.calcsize(form) > 4:
            (where,) = struct.unpack_from(order + "I", data, where)
        tags[tag] = struct.unpack_from(form, data, where)
    width, height = tags[256][0], tags[257][0]
    _sized(height, width)
    channels, packing = tags.get(277, (1,))[0], tags.get(259, (1,))[0]
    if set(tags.get(258, (8,))) != {8} or packing not in (1, 8, 32946) or tags.get(284, (1,))[0] != 1:
        raise NotAPicture(f"a TIFF with compression {packing} is not read")
    strips = [data[o : o + n] for o, n in zip(tags[273], tags[279], strict=True)]
    if packing != 1:
        strips = [zlib.decompressobj().decompress(s, height * width * channels) for s in strips]
    picture = np.frombuffer(b"".join(strips), np.uint8, height * width * channels)
    picture = picture.reshape(height, width, channels)
    if tags.get(317, (1,))[0] == 2:
        picture = np.cumsum(picture, 1, dtype=np.uint8)
    return picture[:, :, :3] if channels > 3 else picture


# -- the op ----------------------------------------------------------------------------------------------------------


def _decoded(data: bytes) -> Array:
    if data.startswith(_PNG):
        return _png(data)
    if data.startswith(b"BM"):
        return _bmp(data)
    if data[:2] in (b"P5", b"P6"):
        return _pnm(data)
    if data[:4] in (b"II*\0", b"MM\0*"):
        return _tiff(data)
    return _by_pillow(data)


def _by_pillow(data: bytes) -> Array:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise NotAPicture("the format of the picture is not read without Pillow") from None
    with pillow.open(io.BytesIO(data)) as picture:
        found = picture if picture.mode in ("L", "RGB") else picture.convert("RGB")
        array: Array = np.asarray(found, np.uint8)
    return array if array.ndim == 3 else array[:, :, None]


@op("ImageDecoder", host=True)
def image_decoder(at: At, stream: Array) -> Array:
    wanted = at.attr("pixel_format", "RGB")
    try:
        picture = _decoded(stream.tobytes())
    except (NotAPicture, struct.error, KeyError, IndexError, ValueError, OSError, zlib.error) as error:
        raise at.refuse(f"the picture cannot be decoded: {error}") from None
    if wanted == "Grayscale":
        if picture.shape[2] == 1:
            return picture
        # ITU-R 601, in sixteen bits as Pillow has it
        weights = np.array([19595, 38470, 7471])
        gray = (picture.astype(np.int64) @ weights + 0x8000) >> 16
        return np.asarray(gray, np.uint8)[:, :, None]
    if wanted not in ("RGB", "BGR"):
        raise at.refuse(f"there is no pixel format {wanted!r}")
    colors = np.repeat(picture, 3, 2) if picture.shape[2] == 1 else picture
    return np.ascontiguousarray(colors[:, :, ::-1] if wanted == "BGR" else colors)
