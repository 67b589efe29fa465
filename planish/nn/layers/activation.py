"""Activation functions as layers."""

from __future__ import annotations

from planish.dtypes import DType, float32
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import activations, init
from planish.nn.layers.applied import FunctionLayer
from planish.nn.module import Module


class _AlongAxis(FunctionLayer):
    def __init__(self, axis: int = -1, *, dim: int | None = None) -> None:
        """`dim` is PyTorch's name of it."""
        self.axis = axis if dim is None else dim


class ReLU(FunctionLayer, function=activations.relu):
    """max(x, 0)."""


class ReLU6(FunctionLayer, function=activations.relu6):
    """x between 0 and 6."""


class LeakyReLU(FunctionLayer, function=activations.leaky_relu):
    """x where positive, else negative_slope · x."""


class PReLU(Module):
    """`LeakyReLU` with slopes that are learnt."""

    def __init__(self, num_parameters: int = 1, slope: float = 0.25, dtype: DType = float32) -> None:
        self.weight = init.constant((num_parameters,), slope, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """One slope for all, or one per channel on axis 1."""
        return activations.prelu(x, self.weight)


class RReLU(Module):
    """`LeakyReLU` whose slopes are drawn in training."""

    takes_key = True

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        self.lower = lower
        self.upper = upper

    def __call__(self, x: Tensor, *, key: Tensor | None = None) -> Tensor:
        """Needs a random key in training."""
        return activations.rrelu(x, self.lower, self.upper, self.training, key)


class ELU(FunctionLayer, function=activations.elu):
    """x where positive, else alpha · (eˣ - 1)."""


class CELU(FunctionLayer, function=activations.celu):
    """x where positive, else alpha · (exp(x/alpha) - 1)."""


class SELU(FunctionLayer, function=activations.selu):
    """`ELU`, scaled."""


class GELU(FunctionLayer, function=activations.gelu):
    """x·Φ(x)."""


class SiLU(FunctionLayer, function=activations.silu):
    """x · sigmoid(x)."""


class Mish(FunctionLayer, function=activations.mish):
    """x · tanh(softplus(x))."""


class Sigmoid(FunctionLayer, function=activations.sigmoid):
    """1 / (1 + e⁻ˣ)."""


class LogSigmoid(FunctionLayer, function=activations.log_sigmoid):
    """log(sigmoid(x))."""


class Tanh(FunctionLayer, function=fn.tanh):
    """The hyperbolic tangent."""


class Tanhshrink(FunctionLayer, function=activations.tanhshrink):
    """x - tanh(x)."""


class Softplus(FunctionLayer, function=activations.softplus):
    """log(1 + exp(beta·x)) / beta."""


class Softsign(FunctionLayer, function=activations.softsign):
    """x / (1 + |x|)."""


class Softshrink(FunctionLayer, function=activations.softshrink):
    """x moved towards 0."""


class Hardshrink(FunctionLayer, function=activations.hardshrink):
    """0 near 0, x elsewhere."""


class Hardtanh(FunctionLayer, function=activations.hardtanh):
    """x between two bounds."""


class Hardsigmoid(FunctionLayer, function=activations.hardsigmoid):
    """x/6 + 1/2, between 0 and 1."""


class Hardswish(FunctionLayer, function=activations.hardswish):
    """x · hardsigmoid(x)."""


class Threshold(FunctionLayer, function=activations.threshold):
    """x above a threshold, a value elsewhere."""


class GLU(_AlongAxis, function=activations.glu):
    """One half along an axis gated by the other."""


class Softmax(_AlongAxis, function=activations.softmax):
    """eˣ / Σ eˣ along an axis."""


class Softmin(_AlongAxis, function=activations.softmin):
    """softmax(-x) along an axis."""


class Softmax2d(FunctionLayer, function=lambda x: activations.softmax(x, -3)):
    """`Softmax` over the channels of (N, C, H, W)."""


class LogSoftmax(_AlongAxis, function=activations.log_softmax):
    """log(softmax(x)) along an axis."""


__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip
