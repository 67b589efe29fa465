"""Activation functions as layers."""

from __future__ import annotations

from planish.dtypes import DType, float32
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import activations, init
from planish.nn.module import Module


class ReLU(Module):
    """max(x, 0)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.relu(x)


class ReLU6(Module):
    """x between 0 and 6."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.relu6(x)


class LeakyReLU(Module):
    """x where positive, else negative_slope · x."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.leaky_relu(x, self.negative_slope)


class PReLU(Module):
    """`LeakyReLU` with slopes that are learnt."""

    def __init__(self, num_parameters: int = 1, slope: float = 0.25, dtype: DType = float32) -> None:
        self.weight = init.constant((num_parameters,), slope, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """One slope for all, or one per channel on axis 1."""
        return activations.prelu(x, self.weight)


class ELU(Module):
    """x where positive, else alpha · (eˣ - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.elu(x, self.alpha)


class CELU(Module):
    """x where positive, else alpha · (exp(x/alpha) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.celu(x, self.alpha)


class SELU(Module):
    """`ELU`, scaled."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.selu(x)


class GELU(Module):
    """x·Φ(x)."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.gelu(x, self.approximate)


class SiLU(Module):
    """x · sigmoid(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.silu(x)


class Mish(Module):
    """x · tanh(softplus(x))."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.mish(x)


class Sigmoid(Module):
    """1 / (1 + e⁻ˣ)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.sigmoid(x)


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.log_sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return fn.tanh(x)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.tanhshrink(x)


class Softplus(Module):
    """log(1 + exp(beta·x)) / beta."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.softplus(x, self.beta, self.threshold)


class Softsign(Module):
    """x / (1 + |x|)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.softsign(x)


class Softshrink(Module):
    """x moved towards 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.softshrink(x, self.lambd)


class Hardshrink(Module):
    """0 near 0, x elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.hardshrink(x, self.lambd)


class Hardtanh(Module):
    """x between two bounds."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.hardtanh(x, self.min_val, self.max_val)


class Hardsigmoid(Module):
    """x/6 + 1/2, between 0 and 1."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.hardsigmoid(x)


class Hardswish(Module):
    """x · hardsigmoid(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.hardswish(x)


class Threshold(Module):
    """x above a threshold, a value elsewhere."""

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def __call__(self, x: Tensor) -> Tensor:
        """Element by element."""
        return activations.threshold(x, self.threshold, self.value)


class GLU(Module):
    """One half along an axis gated by the other."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, x: Tensor) -> Tensor:
        """Half as long along the axis."""
        return activations.glu(x, self.axis)


class Softmax(Module):
    """eˣ / Σ eˣ along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, x: Tensor) -> Tensor:
        """Along the axis."""
        return activations.softmax(x, self.axis)


class LogSoftmax(Module):
    """log(softmax(x)) along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, x: Tensor) -> Tensor:
        """Along the axis."""
        return activations.log_softmax(x, self.axis)
