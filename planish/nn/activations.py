"""Activation functions, with PyTorch's definitions, and its derivatives where there is a corner.

What others use too stands in `planish.ptir.library.activations`. Corners are written with `where`, so that the slope there is
the slope of one side: 0 for relu at 0.
"""

from __future__ import annotations

from planish import random
from planish.errors import GraphError, ShapeError
from planish.frontend import library
from planish.frontend.custom import custom_jvp, stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return library.activation("relu", x)


def relu6(x: Tensor) -> Tensor:
    """x between 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, else negative_slope · x."""
    return library.activation("leaky_relu", floating("leaky_relu", x), slope=negative_slope)


def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, key: Tensor | None = None
) -> Tensor:
    """`leaky_relu` whose slopes are drawn between two bounds in training, and are their middle else."""
    floating("rrelu", x)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    if key is None:
        raise GraphError.of("rrelu", "training needs a random key", "pass key=, or call eval() on the module")
    return fn.where(x > 0, x, x * random.uniform(key, x.shape, x.dtype, lower, upper))


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a slope that is learnt: one, or one per channel (axis 1)."""
    floating("prelu", x)
    slope = weight
    if weight.size > 1:
        if x.ndim < 2 or x.shape[1] != weight.size:
            raise ShapeError.of("prelu", f"{weight.size} slopes for the channels of shape {x.shape}")
        slope = weight.reshape((-1, *[1] * (x.ndim - 2)))
    return fn.where(x > 0, x, x * slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha · (eˣ - 1)."""
    return library.activation("elu", floating("elu", x), alpha=alpha)


def selu(x: Tensor) -> Tensor:
    """elu, scaled such that mean 0 and variance 1 reproduce themselves."""
    return library.activation("selu", floating("selu", x))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha · (exp(x/alpha) - 1)."""
    return library.activation("celu", floating("celu", x), alpha=alpha)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)."""
    return _sigmoid(floating("sigmoid", x))


@custom_jvp
def _sigmoid(x: Tensor) -> Tensor:
    return library.activation("sigmoid", x)


@_sigmoid.defjvp
def _sigmoid_rule(primals: tuple[Tensor], tangents: tuple[Tensor]) -> tuple[Tensor, Tensor]:
    # The rules of what it is made of would multiply 0 and inf far to the left.
    y = _sigmoid(*primals)
    return y, tangents[0] * (y * (1.0 - y))


def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow."""
    return library.activation("log_sigmoid", floating("log_sigmoid", x))


def silu(x: Tensor) -> Tensor:
    """x · sigmoid(x), also called swish."""
    return x * sigmoid(x)  # the library's has no slope far to the left, where that of its sigmoid is 0 · inf


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta·x)) / beta; x itself where beta·x is above the threshold."""
    return library.activation("softplus", floating("softplus", x), beta=beta, threshold=threshold)


def mish(x: Tensor) -> Tensor:
    """x · tanh(softplus(x))."""
    return library.activation("mish", floating("mish", x), threshold=20.0)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return library.activation("softsign", floating("softsign", x))


def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - fn.tanh(floating("tanhshrink", x))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x), with Φ by erf ("none") or tanh ("tanh")."""
    if approximate not in ("none", "tanh"):
        raise ShapeError.of("gelu", f"there is no approximation {approximate!r}", '"none" or "tanh"')
    return library.activation("gelu", floating("gelu", x), approximate=approximate)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x between two bounds; flat from the bounds on."""
    floating("hardtanh", x)
    return fn.where(x <= min_val, min_val, fn.where(x >= max_val, max_val, x))


def hardsigmoid(x: Tensor) -> Tensor:
    """x/6 + 1/2, between 0 and 1."""
    return library.activation("hard_sigmoid", floating("hardsigmoid", x))


def hardswish(x: Tensor) -> Tensor:
    """x · hardsigmoid(x)."""
    return library.activation("hard_swish", floating("hardswish", x))


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
        raise ShapeError.of("glu", f"axis {axis} of shape {x.shape} has no halves")
    first, second = fn.split(x, 2, axis=axis)
    return first * sigmoid(second)


# --- softmax ----------------------------------------------------------------------------------------------


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """eˣ · (1 / Σ eˣ) along an axis: one division per row."""
    return library.softmax(floating("softmax", x), axis)


def softmin(x: Tensor, axis: int = -1) -> Tensor:
    """softmax(-x)."""
    return softmax(-x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) without overflow."""
    return library.log_softmax(floating("log_softmax", x), axis)


def logsumexp(x: Tensor, axis: int | tuple[int, ...] = -1, keepdims: bool = False) -> Tensor:
    """log Σ eˣ over axes, without overflow."""
    return library.logsumexp(floating("logsumexp", x), axis, keepdims)


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
    "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "mish", "prelu", "relu", "relu6", "rrelu", "selu",
    "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip
