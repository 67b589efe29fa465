"""Fourier transforms: torch's three forms with their scalings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast
from planish.torch.registry import lowering
from planish.torch.site import FxSite, axis_of, sizes


def _scale(at: FxSite, count: int, normalization: int) -> float:
    """0: as it is, 1: by the root of the count, 2: by the count."""
    return {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization]


def _scaled(x: V, scale: float) -> V:
    return x if scale == 1.0 else x.mul(complex(scale) if x.dtype.is_complex else scale)


@lowering("aten._fft_r2c")
def r2c(at: FxSite, x: V, dim: Sequence[int], normalization: int, onesided: bool) -> V:
    axes = [axis_of(axis, x.rank) for axis in dim]
    count = math.prod(sizes(at, x)[axis] for axis in axes)
    if onesided:
        spectrum = x.rfft(axes)
    else:
        spectrum = cast(x, at.dtype).fft(axes)
    return _scaled(cast(spectrum, at.dtype), _scale(at, count, normalization))


@lowering("aten._fft_c2r")
def c2r(at: FxSite, x: V, dim: Sequence[int], normalization: int, last_dim_size: int) -> V:
    axes = [axis_of(axis, x.rank) for axis in dim]
    count = math.prod([sizes(at, x)[axis] for axis in axes[:-1]]) * last_dim_size
    signal = x.irfft(last_dim_size, axes)
    # the inverse divides by the count, torch's by what it is told
    return _scaled(cast(signal, at.dtype), _scale(at, count, normalization) * count)


@lowering("aten._fft_c2c")
def c2c(at: FxSite, x: V, dim: Sequence[int], normalization: int, forward: bool) -> V:
    axes = [axis_of(axis, x.rank) for axis in dim]
    if not axes:
        return x
    count = math.prod(sizes(at, x)[axis] for axis in axes)
    scale = _scale(at, count, normalization)
    return _scaled(x.fft(axes), scale) if forward else _scaled(x.ifft(axes), scale * count)
