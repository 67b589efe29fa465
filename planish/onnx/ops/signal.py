"""Signals: Fourier transforms, mel weights. (Windows are functions of ONNX's own.)"""

from __future__ import annotations

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, axis_of, number, numpy_kind, size_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along
from planish.ptir.library.normalize import converted


def _signal(at: NodeSite, x: V) -> V:
    """The last axis, real or real and imaginary, as complex numbers."""
    *lead, parts = x.dims
    wide = x if x.dtype.bits >= 32 else x.cast(dtypes.float32)
    real = wide.slice([0] * x.rank, [*lead, 1]).reshape(lead)
    if parts == 1:
        return real.complex(at.graph.full(lead, 0.0, wide.dtype))
    if parts != 2:
        raise at.refuse(f"its last axis has {parts} entries, not 1 or 2")
    return real.complex(wide.slice([*[0] * len(lead), 1], [*lead, 2]).reshape(lead))


def _fitted(at: NodeSite, x: V, axis: int, length: int) -> V:
    """An axis cut or filled with zeros to a length."""
    size = size_of(at, x, axis)
    if size == length:
        return x
    low = [0] * x.rank
    high = [length - size if n == axis else 0 for n in range(x.rank)]
    return x.pad(low, high)


def _parts(z: V) -> V:
    """Complex numbers as a last axis of two."""
    last = z.rank
    return z.real().expand_dims(last).concat([z.imag().expand_dims(last)], last)


def _dft(at: NodeSite, x: V, length: int | None, axis: int) -> V:
    inverse, half = bool(at.attr("inverse", 0)), bool(at.attr("onesided", 0))
    axis = axis_of(at, axis, x.rank)
    if axis == x.rank - 1:
        raise at.refuse("the last axis holds real and imaginary parts")
    size = size_of(at, x, axis)
    if length is None:
        length = 2 * (size - 1) if inverse and half else size
    z = _signal(at, x)
    if inverse and half:
        kept = _fitted(at, z, axis, length // 2 + 1)
        return converted(kept.irfft(length, [axis]).expand_dims(z.rank), x.dtype)
    z = _fitted(at, z, axis, length)
    result = _parts(z.ifft([axis]) if inverse else z.fft([axis]))
    if half:
        dims = list(result.dims)
        dims[axis] = length // 2 + 1
        result = result.slice([0] * result.rank, dims)
    return converted(result, x.dtype)


@op("DFT", known=(1,))
def dft_attribute(at: NodeSite, x: V, length: Array | None = None) -> V:
    return _dft(at, x, None if length is None else int(number(length)), at.attr("axis", 1))


@op("DFT", since=20, known=(1, 2))
def dft(at: NodeSite, x: V, length: Array | None = None, axis: Array | None = None) -> V:
    chosen = -2 if axis is None else int(number(axis))
    return _dft(at, x, None if length is None else int(number(length)), chosen)


@op("STFT", known=(1, 3))
def stft(at: NodeSite, x: V, step: Array, window: V | None = None, length: Array | None = None) -> V:
    # A signal without a last axis of parts is real.
    x = x.expand_dims(2) if x.rank == 2 else x
    batch, size, _ = x.dims
    half = bool(at.attr("onesided", 1))
    if length is not None:
        frame = int(number(length))
    else:
        frame = size_of(at, x, 1) if window is None else size_of(at, window, 0)
    hop = int(number(step))
    count = 1 + (size - frame) // hop
    first, place = (at.graph.iota((count, frame), axis, dtypes.int64) for axis in (0, 1))
    frames = x.take(first.mul(hop).add(place), 1)
    if window is not None:
        weights = converted(window, x.dtype)
        if size_of(at, window, 0) != frame:
            raise at.refuse(f"a window of {size_of(at, window, 0)} for frames of {frame}")
        frames = frames.mul(along(weights, frames.dims, 2))
    result = _parts(_signal(at, frames).fft([2]))
    if half:
        result = result.slice([0] * 4, [batch, count, frame // 2 + 1, 2])
    return converted(result, x.dtype)


@op("MelWeightMatrix", known="all")
def mel_weight_matrix(
    at: NodeSite, bins: Array, length: Array, rate: Array, low: Array, high: Array
) -> Array:
    """Triangles that are equally wide on the mel scale, one per column."""
    dtype = numpy_kind(at, at.attr("output_datatype", 1))
    count, size = int(number(bins)), int(number(length))
    at.room(count * size, 8)
    bottom, top = (2595 * np.log10(1 + float(number(edge)) / 700) for edge in (low, high))
    edges = bottom + np.arange(count + 2) * ((top - bottom) / (count + 2))
    hertz = 700 * (10 ** (edges / 2595) - 1)
    marks = ((size + 1) * hertz // int(number(rate))).astype(np.int64)
    result = np.zeros((size // 2 + 1, count))
    for n in range(count):
        left, middle, right = (int(m) for m in marks[n : n + 3])
        if middle == left:
            result[middle, n] = 1
        else:
            rise = np.arange(left, middle + 1)
            result[rise, n] = (rise - left) / (middle - left)
        if right > middle:
            fall = np.arange(middle, right)
            result[fall, n] = (right - fall) / (right - middle)
    return result.astype(dtype)
