"""RNN, LSTM and GRU: layers of recurrences, in one or both directions, with PyTorch's names and shapes."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

from planish import random
from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend import library
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import init
from planish.nn.arguments import floating
from planish.nn.elementary import dropout
from planish.nn.init import Key, keys_of
from planish.nn.module import Module

States = tuple[Tensor, ...]


class _Recurrent(Module):
    """(T, B, I) to (T, B, H), and the last states (layers · directions, B, H). With `batch_first`, (B, T, …); B may be missing."""

    gates: ClassVar[int]
    count: ClassVar[int] = 1
    """Of states."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.has_bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        directions = 2 if bidirectional else 1
        bound = 1 / math.sqrt(hidden_size)
        rows = self.gates * hidden_size
        keys = iter(keys_of(key, 4 * num_layers * directions))
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * directions
            for direction in range(directions):
                suffix = _suffix(layer, direction)
                shapes: dict[str, tuple[int, ...]]
                shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden_size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                for name, shape in shapes.items():
                    setattr(self, name + suffix, init.uniform(next(keys), shape, -bound, bound, dtype))

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one
        """Whether there is dropout between its layers."""
        return self.dropout > 0 and self.num_layers > 1

    @abstractmethod
    def _step(self, x: Tensor, states: States, suffix: str, reverse: bool) -> tuple[Tensor, States]:
        """One layer in one direction: its outputs and last states."""

    def _biases(self, suffix: str) -> tuple[Tensor | None, Tensor | None]:
        if not self.has_bias:
            return None, None
        return getattr(self, f"bias_ih{suffix}"), getattr(self, f"bias_hh{suffix}")

    def _run(self, x: Tensor, given: States | None, key: Tensor | None) -> tuple[Tensor, States]:
        name = type(self).__name__
        floating(name, x)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError.of(name, f"the input {x.shape} is no sequence of vectors of {self.input_size}",
                "(T, B, I), (B, T, I) with batch_first, or (T, I) are expected",
            )  # fmt: skip
        alone = x.ndim == 2
        if alone:
            x = fn.expand_dims(x, axis=1)
        elif self.batch_first:
            x = fn.permute_dims(x, (1, 0, 2))
        directions = 2 if self.bidirectional else 1
        shape = (self.num_layers * directions, x.shape[1], self.hidden_size)
        states = self._initial(x, given, shape, alone)
        last: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = dropout(x, self.dropout, True, None if key is None else random.fold_in(key, layer))
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                own = tuple(state[number] for state in states)
                output, ends = self._step(x, own, _suffix(layer, direction), direction == 1)
                outputs.append(output)
                last.append(ends)
            x = outputs[0] if directions == 1 else fn.concat(outputs, axis=2)
        ends = tuple(fn.stack([part[n] for part in last]) for n in range(self.count))
        if alone:
            return fn.squeeze(x, 1), tuple(fn.squeeze(end, 1) for end in ends)
        return (fn.permute_dims(x, (1, 0, 2)) if self.batch_first else x), ends

    def _initial(self, x: Tensor, given: States | None, shape: tuple[int, ...], alone: bool) -> States:
        if given is None:
            return (fn.zeros(shape, dtype=x.dtype),) * self.count
        wanted = (shape[0], shape[2]) if alone else shape
        for state in given:
            if state.shape != wanted:
                raise ShapeError.of(type(self).__name__, f"a state is {state.shape}, not {wanted}")
        return tuple(fn.expand_dims(state, axis=1) for state in given) if alone else given


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}{'_reverse' if direction else ''}"


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else first + second


class RNN(_Recurrent):
    """h' = tanh(weight·x + recurrence·h + biases), or with relu."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ShapeError.of("RNN", f"there is no nonlinearity {nonlinearity!r}", "tanh or relu")
        self.nonlinearity = nonlinearity
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, key=key, dtype=dtype
        )  # fmt: skip

    def _step(self, x: Tensor, states: States, suffix: str, reverse: bool) -> tuple[Tensor, States]:
        outputs, last = library.rnn(
            x,
            states[0],
            getattr(self, f"weight_ih{suffix}"),
            getattr(self, f"weight_hh{suffix}"),
            _sum(*self._biases(suffix)),
            self.nonlinearity,
            reverse=reverse,
        )
        return outputs, (last,)

    def __call__(
        self, x: Tensor, h_0: Tensor | None = None, *, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Outputs and last states."""
        outputs, (last,) = self._run(x, None if h_0 is None else (h_0,), key)
        return outputs, last


class LSTM(_Recurrent):
    """Long short-term memory: c' = f·c + i·g, h' = o·tanh(c')."""

    gates = 4
    count = 2

    def _step(self, x: Tensor, states: States, suffix: str, reverse: bool) -> tuple[Tensor, States]:
        outputs, last, cell = library.lstm(
            x,
            states[0],
            states[1],
            getattr(self, f"weight_ih{suffix}"),
            getattr(self, f"weight_hh{suffix}"),
            _sum(*self._biases(suffix)),
            reverse=reverse,
        )
        return outputs, (last, cell)

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None, *, key: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs, and last states and cells."""
        outputs, (last, cell) = self._run(x, state, key)
        return outputs, (last, cell)


class GRU(_Recurrent):
    """Gated recurrence: h' = (1 - z)·n + z·h."""

    gates = 3

    def _step(self, x: Tensor, states: States, suffix: str, reverse: bool) -> tuple[Tensor, States]:
        bias, recurrence_bias = self._biases(suffix)
        outputs, last = library.gru(
            x,
            states[0],
            getattr(self, f"weight_ih{suffix}"),
            getattr(self, f"weight_hh{suffix}"),
            bias,
            recurrence_bias,
            reverse=reverse,
        )
        return outputs, (last,)

    def __call__(
        self, x: Tensor, h_0: Tensor | None = None, *, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Outputs and last states."""
        outputs, (last,) = self._run(x, None if h_0 is None else (h_0,), key)
        return outputs, last


__all__ = [
    "GRU", "LSTM", "RNN",
]  # fmt: skip
