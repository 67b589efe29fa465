"""Pictures for the examples, without other packages: PNG files both ways, and line charts as SVG."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Per colour type of PNG the numbers of a pixel: grey, colours, grey with transparency, colours with it."""
_INKS = ("#1b6ca8", "#d1495b", "#edae49", "#3a7d44", "#6b4e71")


def write_png(path: Path, pixels: Pixels) -> Path:
    """(height, width) greys or (height, width, 3) colours, 0 to 255."""
    height, width = pixels.shape[:2]
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(raw, 9)), chunk(b"IEND", b"")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_SIGNATURE + b"".join(parts))
    return path


def read_picture(path: Path) -> Pixels:
    """(height, width, 3) colours of a PNG file; of any other format if Pillow is there."""
    data = path.read_bytes()
    if not data.startswith(_SIGNATURE):
        from PIL import Image

        return np.asarray(Image.open(path).convert("RGB"), np.uint8)
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 8 or colour not in _CHANNELS or interlaced:
        raise ValueError(
            f"{path} is a PNG with palettes, odd depths or interlacing; install Pillow to read it"
        )
    body, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            body += data[at + 8 : at + 8 + length]
        at += 12 + length
    count = _CHANNELS[colour]
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * count)
    whole = _unfiltered(lines, count).reshape(height, width, count)
    grey = whole[..., :1] if count < 3 else whole[..., :3]
    return np.ascontiguousarray(np.broadcast_to(grey, (height, width, 3)))


def _unfiltered(lines: Pixels, count: int) -> Pixels:
    """Bytes are told by what lies left of them, above, or both."""
    result = np.zeros((len(lines), lines.shape[1] - 1), np.uint8)
    above = np.zeros(lines.shape[1] - 1, np.int64)
    for number, line in enumerate(lines):
        kind, row = int(line[0]), line[1:].astype(np.int64)
        if kind == 2:
            row = (row + above) % 256
        elif kind:
            for place in range(len(row)):
                left = row[place - count] if place >= count else 0
                corner = above[place - count] if place >= count else 0
                row[place] = (row[place] + _guess(kind, left, above[place], corner)) % 256
        result[number], above = row, row
    return result


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 3:
        return (left + above) // 2
    return min((left, above, corner), key=lambda value: abs(left + above - corner - value))


def chart(
    path: Path,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str = "",
    dots: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> Path:
    """Lines (and dots) by name, each x and y, as an SVG file."""
    points = [*lines.values(), *(dots or {}).values()]
    xs = np.concatenate([np.asarray(x, float) for x, _ in points])
    ys = np.concatenate([np.asarray(y, float) for _, y in points])
    low, high = np.array([xs.min(), ys.min()]), np.array([xs.max(), ys.max()])
    span = np.where(high > low, high - low, 1.0)

    def placed(x: Sequence[float], y: Sequence[float]) -> list[str]:
        scaled = (np.stack([x, y], axis=1) - low) / span
        return [f"{40 + 420 * a:.1f},{230 - 190 * b:.1f}" for a, b in scaled]

    shown = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 260" font-family="sans-serif" font-size="11">'
    ]
    shown += [
        '<rect width="480" height="260" fill="white"/>',
        f'<text x="40" y="20" font-size="14">{title}</text>',
    ]
    shown += ['<path d="M40 40V230H460" fill="none" stroke="#888"/>']
    for value, y in ((high[1], 44), (low[1], 230)):
        shown.append(f'<text x="36" y="{y}" text-anchor="end">{value:.3g}</text>')
    for value, x in ((low[0], 40), (high[0], 460)):
        shown.append(f'<text x="{x}" y="245" text-anchor="middle">{value:.3g}</text>')
    for number, (name, (x, y)) in enumerate(lines.items()):
        ink = _INKS[number % len(_INKS)]
        shown.append(
            f'<polyline points="{" ".join(placed(x, y))}" fill="none" stroke="{ink}" stroke-width="1.8"/>'
        )
        shown.append(f'<text x="455" y="{50 + 15 * number}" text-anchor="end" fill="{ink}">{name}</text>')
    for number, (name, (x, y)) in enumerate((dots or {}).items(), start=len(lines)):
        ink = _INKS[number % len(_INKS)]
        for one in placed(x, y):
            a, b = one.split(",")
            shown.append(f'<circle cx="{a}" cy="{b}" r="2.6" fill="{ink}"/>')
        shown.append(f'<text x="455" y="{50 + 15 * number}" text-anchor="end" fill="{ink}">{name}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*shown, "</svg>", ""]), encoding="utf-8")
    return path
