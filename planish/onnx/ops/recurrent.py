"""RNN, GRU and LSTM with every activation, direction, layout, clip, peephole and length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish.onnx.ops.activations import thresholded
from planish.onnx.ops.common import size_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import activations as act
from planish.ptir.library import recurrent
from planish.ptir.library.shaping import stack

Activation = Callable[[V], V]
_DEFAULTS: dict[str, tuple[float, float]] = {
    "affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0),
}  # fmt: skip
_FORMULAS: dict[str, Callable[[V, float, float], V]] = {
    "relu": lambda x, a, b: x.max(0),
    "tanh": lambda x, a, b: x.tanh(),
    "sigmoid": lambda x, a, b: x.sigmoid(),
    "affine": lambda x, a, b: x.mul(a).add(b),
    "leakyrelu": lambda x, a, b: act.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: thresholded(x, a),
    "scaledtanh": lambda x, a, b: x.mul(b).tanh().mul(a),
    "hardsigmoid": act.hard_sigmoid,
    "elu": lambda x, a, b: act.elu(x, a),
    "softsign": lambda x, a, b: act.softsign(x),
    "softplus": lambda x, a, b: act.softplus(x),
}


def _activations(at: NodeSite, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """Per direction the activations in the order of the op."""
    names = at.attr("activations") or list(default) * directions
    alphas, betas = list(at.attr("activation_alpha") or []), list(at.attr("activation_beta") or [])
    clip = at.attr("clip")
    if len(names) != len(default) * directions:
        raise at.refuse(f"{len(names)} activations, not {len(default) * directions}")
    functions = [_activation(at, name, alphas, betas, clip) for name in names]
    count = len(default)
    return [functions[n * count : (n + 1) * count] for n in range(directions)]


def _activation(
    at: NodeSite, name: str, alphas: list[float], betas: list[float], clip: float | None
) -> Activation:  # fmt: skip
    key = name.lower()
    formula = _FORMULAS.get(key)
    if formula is None:
        raise at.refuse(f"there is no activation {name!r}")
    alpha, beta = _DEFAULTS.get(key, (0.0, 0.0))
    # The lists hold numbers for those activations alone that take one.
    if key in _DEFAULTS and alphas:
        alpha = alphas.pop(0)
    if key in ("affine", "scaledtanh", "hardsigmoid") and betas:
        beta = betas.pop(0)

    def function(x: V) -> V:
        return formula(x if clip is None else x.clamp(-clip, clip), alpha, beta)

    return function


class Layer:
    """What the three have in common: directions, layouts, and inputs that may be left out."""

    def __init__(
        self, at: NodeSite, x: V, recurrence: V, lengths: V | None, bias: V | None, gates: int
    ) -> None:  # fmt: skip
        self.at = at
        direction = at.attr("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise at.refuse(f"there is no direction {direction!r}")
        self.reversed = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.batch_first = bool(at.attr("layout", 0))
        at.attr("output_sequence")
        self.x = x.transpose((1, 0, 2)) if self.batch_first else x
        self.lengths = lengths
        self.size = size_of(at, recurrence, 2)
        wanted = at.attr("hidden_size")
        if wanted is not None and wanted != self.size:
            raise at.refuse(f"a hidden size of {wanted} with weights for {self.size}")
        self.gates = gates
        self.bias = bias

    def part(self, value: V, direction: int) -> V:
        """What a direction has of a value."""
        dims = value.dims
        piece = value.slice([direction, *[0] * (len(dims) - 1)], [direction + 1, *dims[1:]])
        return piece.reshape(dims[1:])

    def state(self, given: V | None, direction: int) -> V:
        """The state to begin with."""
        batch = self.x.dims[1]
        if given is None:
            return self.at.graph.full((batch, self.size), 0, self.x.dtype)
        return self.part(given.transpose((1, 0, 2)) if self.batch_first else given, direction)

    def biases(self, direction: int) -> tuple[V | None, V | None]:
        """Those of the input and of the recurrence."""
        if self.bias is None:
            return None, None
        both = self.part(self.bias, direction)
        half = self.gates * self.size
        return both.slice([0], [half]), both.slice([half], [2 * half])

    def together(self, per_direction: Sequence[Sequence[V]]) -> tuple[V, ...]:
        """Outputs (T, directions, B, H) and last states (directions, B, H), or batch first."""
        whole = stack([results[0] for results in per_direction], 1)
        states = [
            stack([results[n] for results in per_direction], 0) for n in range(1, len(per_direction[0]))
        ]  # fmt: skip
        if self.batch_first:
            whole = whole.transpose((2, 0, 1, 3))
            states = [state.transpose((1, 0, 2)) for state in states]
        return (whole, *states)


def _sum(pair: tuple[V | None, V | None]) -> V | None:
    first, second = pair
    return None if first is None or second is None else first.add(second)


@op("RNN")
def rnn(
    at: NodeSite, x: V, w: V, r: V, b: V | None = None, lengths: V | None = None, h: V | None = None
) -> tuple[V, ...]:  # fmt: skip
    layer = Layer(at, x, r, lengths, b, 1)
    functions = _activations(at, ["Tanh"], len(layer.reversed))
    return layer.together(
        [
            recurrent.rnn(
                layer.x,
                layer.state(h, n),
                layer.part(w, n),
                layer.part(r, n),
                _sum(layer.biases(n)),
                functions[n][0],
                lengths,
                backwards,
            )
            for n, backwards in enumerate(layer.reversed)
        ]
    )


@op("GRU")
def gru(
    at: NodeSite, x: V, w: V, r: V, b: V | None = None, lengths: V | None = None, h: V | None = None
) -> tuple[V, ...]:  # fmt: skip
    layer = Layer(at, x, r, lengths, b, 3)
    functions = _activations(at, ["Sigmoid", "Tanh"], len(layer.reversed))
    after = bool(at.attr("linear_before_reset", 0))
    directions = []
    for n, backwards in enumerate(layer.reversed):
        inner, outer = layer.biases(n)
        directions.append(
            recurrent.gru(
                layer.x,
                layer.state(h, n),
                layer.part(w, n),
                layer.part(r, n),
                inner,
                outer,
                "zrn",
                after,
                lengths,
                backwards,
                functions[n][0],
                functions[n][1],
            )
        )
    return layer.together(directions)


@op("LSTM")
def lstm(
    at: NodeSite, x: V, w: V, r: V, b: V | None = None, lengths: V | None = None, *more: V | None
) -> tuple[V, ...]:
    """`more` are the first output and state, and the weights of peepholes."""
    return long_short(
        Layer(at, x, r, lengths, b, 4), lambda layer, n: (layer.part(w, n), layer.part(r, n)), *more
    )


def long_short(
    layer: Layer,
    weights: Callable[[Layer, int], tuple[recurrent.Weight, recurrent.Weight]],
    h: V | None = None,
    c: V | None = None,
    p: V | None = None,
) -> tuple[V, ...]:
    """An LSTM whose weights, of the input and of the recurrence, are given per direction."""
    functions = _activations(layer.at, ["Sigmoid", "Tanh", "Tanh"], len(layer.reversed))
    coupled = bool(layer.at.attr("input_forget", 0))
    directions = []
    for n, backwards in enumerate(layer.reversed):
        looks: dict[str, V] | None = None
        if p is not None:
            line = layer.part(p, n)
            looks = {
                gate: line.slice([k * layer.size], [(k + 1) * layer.size]) for k, gate in enumerate("iof")
            }  # fmt: skip
        directions.append(
            recurrent.lstm(
                layer.x,
                layer.state(h, n),
                layer.state(c, n),
                *weights(layer, n),
                _sum(layer.biases(n)),
                "iofg",
                looks,
                layer.lengths,
                backwards,
                functions[n][0],
                functions[n][1],
                functions[n][2],
                coupled,
            )
        )
    return layer.together(directions)
