"""One step of a recurrence: RNNCell, LSTMCell and GRUCell, with PyTorch's names and shapes."""

from __future__ import annotations

import math
from typing import ClassVar

from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import init
from planish.nn.activations import relu, sigmoid
from planish.nn.arguments import floating
from planish.nn.elementary import linear
from planish.nn.init import Key, keys_of
from planish.nn.module import Module


class _Cell(Module):
    """(B, I) and a state (B, H) to the next state; B may be missing."""

    gates: ClassVar[int]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, key: Key, dtype: DType = float32
    ) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        bound, rows = 1 / math.sqrt(hidden_size), self.gates * hidden_size
        keys = keys_of(key, 4)
        self.weight_ih = init.uniform(keys[0], (rows, input_size), -bound, bound, dtype)
        self.weight_hh = init.uniform(keys[1], (rows, hidden_size), -bound, bound, dtype)
        self.bias_ih = init.uniform(keys[2], (rows,), -bound, bound, dtype) if bias else None
        self.bias_hh = init.uniform(keys[3], (rows,), -bound, bound, dtype) if bias else None

    def _state(self, x: Tensor, given: Tensor | None) -> Tensor:
        name = type(self).__name__
        floating(name, x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError.of(
                name, f"the input {x.shape} has no vectors of {self.input_size}", "(B, I) or (I,)"
            )
        wanted = (*x.shape[:-1], self.hidden_size)
        if given is None:
            return fn.zeros(wanted, dtype=x.dtype)
        if given.shape != wanted:
            raise ShapeError.of(name, f"the state is {given.shape}, not {wanted}")
        return given

    def _parts(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """What input and state say to all gates."""
        return linear(x, self.weight_ih, self.bias_ih), linear(state, self.weight_hh, self.bias_hh)


class RNNCell(_Cell):
    """h' = tanh(weight·x + recurrence·h + biases), or with relu."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ShapeError.of("RNNCell", f"there is no nonlinearity {nonlinearity!r}", "tanh or relu")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, key=key, dtype=dtype)

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """The next state."""
        own, before = self._parts(x, self._state(x, h))
        return fn.tanh(own + before) if self.nonlinearity == "tanh" else relu(own + before)


class LSTMCell(_Cell):
    """c' = f·c + i·g, h' = o·tanh(c')."""

    gates = 4

    def __call__(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next state and cell."""
        given = (None, None) if state is None else state
        h, c = (self._state(x, one) for one in given)
        own, before = self._parts(x, h)
        i, f, g, o = fn.split(own + before, 4, axis=-1)
        cell = sigmoid(f) * c + sigmoid(i) * fn.tanh(g)
        return sigmoid(o) * fn.tanh(cell), cell


class GRUCell(_Cell):
    """h' = (1 - z)·n + z·h."""

    gates = 3

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """The next state."""
        state = self._state(x, h)
        (own_r, own_z, own_n), (r, z, n) = (fn.split(part, 3, axis=-1) for part in self._parts(x, state))
        update = sigmoid(own_z + z)
        new = fn.tanh(own_n + sigmoid(own_r + r) * n)
        return (1.0 - update) * new + update * state


__all__ = ["GRUCell", "LSTMCell", "RNNCell"]
