"""Lines of samples: convolution, differences and integrals, windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import (
    Operand,
    axes_of,
    axis_of,
    constant,
    default_float,
    promoted,
    tensor,
)
from planish.frontend.tensor.pointwise import real_floating

# --- convolution ------------------------------------------------------------------------------------------


def _slid(name: str, x: Tensor, kernel: Tensor, mode: str) -> Tensor:
    """Products of a kernel with every stretch of a line that it covers."""
    if x.ndim != 1 or kernel.ndim != 1 or 0 in (x.size, kernel.size):
        raise ShapeError.of(name, f"shapes {x.shape} and {kernel.shape} are not two vectors with elements")
    beside = {"full": kernel.size - 1, "valid": 0, "same": kernel.size - 1}.get(mode)
    if beside is None:
        raise ShapeError.of(name, f"there is no mode {mode!r}", "full, same or valid")
    line = api.pad(x, [(beside, beside)])
    count = line.size - kernel.size + 1
    stretch = api.arange(count)[:, None] + api.arange(kernel.size)[None, :]
    products = api.matmul(api.take(line, stretch), kernel)
    if mode != "same":
        return products
    start = (kernel.size - 1) // 2
    return products[start : start + x.size]


def convolve(x1: Tensor, x2: Tensor, /, mode: str = "full") -> Tensor:
    """The convolution of two vectors: coefficients of the product of polynomials."""
    x, kernel = promoted("convolve", x1, x2)
    x, kernel = (kernel, x) if kernel.size > x.size else (x, kernel)
    return _slid("convolve", x, api.flip(kernel), mode)


def correlate(x1: Tensor, x2: Tensor, /, mode: str = "valid") -> Tensor:
    """The correlation of two vectors, the second conjugated."""
    x, kernel = promoted("correlate", x1, x2)
    if kernel.size > x.size:
        return api.conj(api.flip(_slid("correlate", kernel, api.conj(x), mode)))
    return _slid("correlate", x, api.conj(kernel), mode)


# --- differences and integrals ----------------------------------------------------------------------------


def gradient(
    f: Tensor, /, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Tensor | list[Tensor]:
    """Slopes by central differences, by differences of one side at the ends."""
    given = default_float(tensor("gradient", f))
    axes = axes_of("gradient", axis if axis is None or isinstance(axis, int) else tuple(axis), given)
    if axis is not None and not isinstance(axis, int):  # slopes and spacings come in the order of the call
        axes = tuple([axis_of("gradient", one, given.ndim, given.shape) for one in axis])
    if len(spacing) not in (0, 1, len(axes)):
        raise ShapeError.of("gradient", f"{len(spacing)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ShapeError.of("gradient", f"there is no edge_order {edge_order}", "1 or 2")
    steps: Sequence[Operand] = spacing if len(spacing) == len(axes) else (spacing or (1.0,)) * len(axes)
    slopes = [_slope(given, step, along, edge_order) for step, along in zip(steps, axes, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(f: Tensor, step: Operand, axis: int, edge_order: int) -> Tensor:
    line = api.moveaxis(f, axis, -1)
    size = line.shape[-1]
    if size < edge_order + 1:
        raise ShapeError.of(
            "gradient", f"an axis of {size} is too short", f"it takes {edge_order + 1} elements"
        )
    distance = tensor("gradient", step)
    if distance.ndim:
        if distance.shape != (size,):
            raise ShapeError.of("gradient", f"{distance.shape} coordinates for an axis of {size}")
        gaps = api.astype(api.diff(distance), f.dtype)
    else:
        gaps = api.broadcast_to(api.astype(distance, f.dtype), (size - 1,))
    before, after = gaps[:-1], gaps[1:]
    middle = (
        -after / (before * (before + after)) * line[..., :-2]
        + (after - before) / (before * after) * line[..., 1:-1]
        + before / (after * (before + after)) * line[..., 2:]
    )
    if edge_order == 1:
        first = (line[..., 1:2] - line[..., :1]) / gaps[:1]
        last = (line[..., -1:] - line[..., -2:-1]) / gaps[-1:]
    else:
        first, last = (
            _curved(line[..., :3], gaps[0], gaps[1]),
            -_curved(api.flip(line[..., -3:], axis=-1), gaps[-1], gaps[-2]),
        )
    return api.moveaxis(api.concat([first, middle, last], axis=-1), -1, axis)


def _curved(three: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """The slope at the first of three elements of a parabola."""
    both = near + far
    return (
        -(near + both) / (near * both) * three[..., 0:1]
        + both / (near * far) * three[..., 1:2]
        - near / (both * far) * three[..., 2:3]
    )


def trapezoid(y: Tensor, /, x: Tensor | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral by the trapezoidal rule."""
    line = api.moveaxis(default_float(tensor("trapezoid", y)), axis, -1)
    width: Operand = dx
    if x is not None:
        places = tensor("trapezoid", x)
        width = api.diff(places if places.ndim == 1 else api.moveaxis(places, axis, -1), axis=-1)
    return api.sum((line[..., 1:] + line[..., :-1]) * width, axis=-1) * 0.5


def ediff1d(x: Tensor, /, to_end: Operand | None = None, to_begin: Operand | None = None) -> Tensor:
    """Differences of neighbours in row-major order, with something before and behind."""
    middle = api.diff(api.ravel(tensor("ediff1d", x)))
    ends = [
        None if end is None else api.ravel(api.astype(tensor("ediff1d", end), middle.dtype))
        for end in (to_begin, to_end)
    ]
    return api.concat([part for part in (ends[0], middle, ends[1]) if part is not None])


def unwrap(
    x: Tensor, /, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Tensor:
    """Phases without jumps: differences of more than half a period are taken the other way round."""
    given = tensor("unwrap", x)
    given = given if given.dtype.is_int and isinstance(period, int) else default_float(given)
    along = axis_of("unwrap", axis, given.ndim, given.shape)
    line = api.moveaxis(given, along, -1)
    steps = api.diff(line)
    half = period / 2 if not (given.dtype.is_int) else period // 2
    folded = api.remainder(steps + half, period) - half
    folded = api.where(api.logical_and(folded == -half, steps > 0), half, folded)
    correction = api.where(api.abs(steps) < (half if discont is None else discont), 0, folded - steps)
    unwound = line[..., 1:] + api.cumulative_sum(correction, axis=-1, dtype=line.dtype)
    return api.moveaxis(api.concat([line[..., :1], unwound], axis=-1), -1, along)


# --- windows ----------------------------------------------------------------------------------------------


def _window(terms: Sequence[float], size: int) -> Tensor:
    """A sum of cosines over one period."""
    if size < 2:
        return api.ones((max(size, 0),))
    angle = api.arange(size, dtype=dtypes.float64) * (2 * math.pi / (size - 1))
    total: Operand = 0.0
    for number, term in enumerate(terms):
        total = total + term * api.cos(angle * float(number))
    return api.astype(tensor("window", total), dtypes.DEFAULT_FLOAT)


def hanning(size: int, /) -> Tensor:
    """Hann's window."""
    return _window((0.5, -0.5), size)


def hamming(size: int, /) -> Tensor:
    """Hamming's window."""
    return _window((0.54, -0.46), size)


def blackman(size: int, /) -> Tensor:
    """Blackman's window."""
    return _window((0.42, -0.5, 0.08), size)


def bartlett(size: int, /) -> Tensor:
    """The triangular window."""
    if size < 2:
        return api.ones((max(size, 0),))
    place = api.arange(size, dtype=dtypes.float64) * (2.0 / (size - 1))
    return api.astype(api.where(place <= 1.0, place, 2.0 - place), dtypes.DEFAULT_FLOAT)


def kaiser(size: int, beta: float, /) -> Tensor:
    """Kaiser's window."""
    if size < 2:
        return api.ones((max(size, 0),))
    place = api.arange(size, dtype=dtypes.float64) * (2.0 / (size - 1)) - 1.0
    arch = i0(float(beta) * api.sqrt(api.maximum(1.0 - place * place, 0.0)))
    return api.astype(arch / i0(constant(float(beta), dtypes.float64)), dtypes.DEFAULT_FLOAT)


def i0(x: Operand, /) -> Tensor:
    """The modified Bessel function of order 0: its power series near zero, its asymptotic one beyond."""
    given = api.abs(real_floating("i0", default_float(tensor("i0", x))))
    wide = api.astype(given, dtypes.float64)
    near = api.minimum(wide, 30.0)
    quarter, series, far = near * near * 0.25, constant(1.0, dtypes.float64), api.maximum(wide, 30.0)
    for number in range(60, 0, -1):
        series = 1.0 + series * quarter / float(number * number)
    tail = constant(1.0, dtypes.float64)
    for number in range(24, 0, -1):
        tail = 1.0 + tail * ((2 * number - 1) ** 2 / (8.0 * number)) / far
    beyond = api.exp(far * 0.5) * (tail / (api.sqrt(far) * math.sqrt(2 * math.pi))) * api.exp(far * 0.5)
    return api.astype(api.where(wide <= 30.0, series, beyond), given.dtype)


__all__ = [
    "bartlett", "blackman", "convolve", "correlate", "ediff1d", "gradient", "hamming", "hanning", "i0", "kaiser", "trapezoid",
    "unwrap",
]  # fmt: skip
