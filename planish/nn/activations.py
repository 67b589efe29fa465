"""Activation functions, with PyTorch's definitions, and its derivatives where there is a corner.

Corners are written with `where`, so that the slope there is the slope of one side: 0 for relu at 0. What a branch would compute
for the elements of the other is kept finite, since 0 · inf is not 0.
"""

from __future__ import annotations

import math

from planish import random
from planish.dtypes import float16, float32
from planish.errors import ShapeError
from planish.frontend.custom import custom_jvp, stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating, mistake


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return fn.where(x <= 0, 0, x)


def relu6(x: Tensor) -> Tensor:
    """x between 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, else negative_slope · x."""
    return fn.where(floating("leaky_relu", x) > 0, x, x * negative_slope)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a slope that is learnt: one, or one per channel (axis 1)."""
    floating("prelu", x)
    slope = weight
    if weight.size > 1:
        if x.ndim < 2 or x.shape[1] != weight.size:
            raise mistake(ShapeError, "prelu", f"{weight.size} slopes for the channels of shape {x.shape}")
        slope = weight.reshape((-1, *[1] * (x.ndim - 2)))
    return fn.where(x > 0, x, x * slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha · (eˣ - 1)."""
    positive = floating("elu", x) > 0
    return fn.where(positive, x, fn.expm1(fn.where(positive, 0.0, x)) * alpha)


def selu(x: Tensor) -> Tensor:
    """elu, scaled such that mean 0 and variance 1 reproduce themselves."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha · (exp(x/alpha) - 1)."""
    positive = floating("celu", x) > 0
    return fn.where(positive, x, fn.expm1(fn.where(positive, 0.0, x) / alpha) * alpha)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)."""
    return _sigmoid(floating("sigmoid", x))


@custom_jvp
def _sigmoid(x: Tensor) -> Tensor:
    return fn.reciprocal(fn.exp(-x) + 1.0)


@_sigmoid.defjvp
def _sigmoid_rule(primals: tuple[Tensor], tangents: tuple[Tensor]) -> tuple[Tensor, Tensor]:
    # The rules of what it is made of would multiply 0 and inf far to the left.
    y = _sigmoid(*primals)
    return y, tangents[0] * (y * (1.0 - y))


def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow."""
    # From there on log(1 + eˣ) is x to the last bit, and eˣ still a number.
    return -softplus(-floating("log_sigmoid", x), threshold=10.0 if x.dtype is float16 else 40.0)


def silu(x: Tensor) -> Tensor:
    """x · sigmoid(x), also called swish."""
    return x * sigmoid(x)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta·x)) / beta; x itself where beta·x is above the threshold."""
    scaled = floating("softplus", x) * beta
    linear = scaled > threshold
    return fn.where(linear, x, fn.log1p(fn.exp(fn.where(linear, 0.0, scaled))) / beta)


def mish(x: Tensor) -> Tensor:
    """x · tanh(softplus(x))."""
    return x * fn.tanh(softplus(x))


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (fn.abs(floating("softsign", x)) + 1.0)


def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - fn.tanh(floating("tanhshrink", x))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x), with Φ by erf ("none") or tanh ("tanh")."""
    floating("gelu", x)
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (fn.tanh(inner) + 1.0)
    if approximate != "none":
        raise mistake(ShapeError, "gelu", f"there is no approximation {approximate!r}", '"none" or "tanh"')
    return x * 0.5 * (fn.erf(x * math.sqrt(0.5)) + 1.0)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x between two bounds; flat from the bounds on."""
    floating("hardtanh", x)
    return fn.where(x <= min_val, min_val, fn.where(x >= max_val, max_val, x))


def hardsigmoid(x: Tensor) -> Tensor:
    """x/6 + 1/2, between 0 and 1."""
    floating("hardsigmoid", x)
    return fn.where(x <= -3, 0.0, fn.where(x >= 3, 1.0, x / 6.0 + 0.5))


def hardswish(x: Tensor) -> Tensor:
    """x · hardsigmoid(x)."""
    floating("hardswish", x)
    return fn.where(x <= -3, 0.0, fn.where(x >= 3, x, x * (x + 3.0) / 6.0))


def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """0 between -lambd and lambd, x elsewhere."""
    return fn.where(fn.abs(floating("hardshrink", x)) <= lambd, 0.0, x)


def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, and no further."""
    floating("softshrink", x)
    return fn.where(x > lambd, x - lambd, fn.where(x < -lambd, x + lambd, x * 0.0))


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x above the threshold, the value elsewhere."""
    return fn.where(x <= threshold, value, x)


def glu(x: Tensor, axis: int = -1) -> Tensor:
    """The first half along an axis, gated by the sigmoid of the second."""
    size = floating("glu", x).shape[axis]
    if size % 2:
        raise mistake(ShapeError, "glu", f"axis {axis} of shape {x.shape} has no halves")
    first, second = fn.split(x, 2, axis=axis)
    return first * sigmoid(second)


# --- softmax ----------------------------------------------------------------------------------------------


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """eˣ · (1 / Σ eˣ) along an axis: one division per row."""
    grown = fn.exp(_shifted("softmax", x, axis))
    return (grown * (1 / fn.sum(grown, axis=axis, keepdims=True))).astype(x.dtype)


def softmin(x: Tensor, axis: int = -1) -> Tensor:
    """softmax(-x)."""
    return softmax(-x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) without overflow."""
    shifted = _shifted("log_softmax", x, axis)
    return (shifted - fn.log(fn.sum(fn.exp(shifted), axis=axis, keepdims=True))).astype(x.dtype)


def logsumexp(x: Tensor, axis: int | tuple[int, ...] = -1, keepdims: bool = False) -> Tensor:
    """log Σ eˣ over axes, without overflow."""
    wide = _wide(floating("logsumexp", x))
    top = stop_gradient(fn.max(wide, axis=axis, keepdims=True))
    # An infinite shift would make NaN of the infinities it meets.
    shift = fn.where(fn.isfinite(top), top, 0.0)
    total = fn.log(fn.sum(fn.exp(wide - shift), axis=axis, keepdims=True)) + shift
    return (total if keepdims else fn.squeeze(total, axis)).astype(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """Narrow floats are computed with in float32."""
    return x if x.dtype.bits >= 32 else x.astype(float32)


def _shifted(op: str, x: Tensor, axis: int) -> Tensor:
    """Less the largest of its line. The shift cancels, so that nothing needs to be differentiated through it."""
    wide = _wide(floating(op, x))
    return wide - stop_gradient(fn.max(wide, axis=axis, keepdims=True))


def gumbel_softmax(x: Tensor, key: Tensor, tau: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """A random class as a soft choice; `hard` makes it one, with the gradient of the soft one."""
    noise = random.gumbel(key, x.shape, floating("gumbel_softmax", x).dtype)
    soft = softmax((x + noise) / tau, axis)
    if not hard:
        return soft
    best = fn.argmax(soft, axis=axis, keepdims=True)
    count = fn.reshape(fn.arange(x.shape[axis]), [-1 if n == axis % x.ndim else 1 for n in range(x.ndim)])
    chosen = fn.where(count == best, 1.0, 0.0).astype(x.dtype)
    return stop_gradient(chosen - soft) + soft


__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "mish", "prelu", "relu", "relu6", "selu",
    "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip
