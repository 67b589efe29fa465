"""Recurrent layers over a `scan`: RNN, LSTM and GRU.

Sequences are (T, B, I), states (B, H), weights (gates·H, I) and (gates·H, H) with the gates one after the other in the order that
`gates` names; biases (gates·H). The product with the whole sequence is taken once, in front of the loop; the loop holds the product with the state. With
`lengths` (B), a sample's state stops at its length and its outputs after it are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from planish import dtypes
from planish.errors import GraphError
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along

Activation: TypeAlias = Callable[[GraphValue], GraphValue]
Weight: TypeAlias = GraphValue | Callable[[GraphValue], GraphValue]
"""A matrix, or what multiplies by one (with integers, say)."""


def _linear(x: GraphValue, weight: Weight, bias: GraphValue | None = None) -> GraphValue:
    """x · weightᵀ + bias over the last axis of x."""
    if isinstance(weight, GraphValue):
        result = x.dot_general(weight, ops.DotDims((), (x.rank - 1,), (1,)))
    else:
        result = weight(x)
    return result if bias is None else result.add(bias.broadcast_to(result.dims))


def _split(x: GraphValue, gates: str) -> dict[str, GraphValue]:
    """The last axis cut into equal parts, by name."""
    *lead, width = x.dims
    size = width // len(gates)
    return {
        name: x.slice([0] * len(lead) + [i * size], [*lead, (i + 1) * size]) for i, name in enumerate(gates)
    }


def _check_gates(op: str, gates: str, wanted: str) -> None:
    if sorted(gates) != sorted(wanted):
        raise GraphError(f"gates {gates!r} are not an order of {wanted!r}", op=op)


def _run(
    step: Callable[[Sequence[GraphValue], GraphValue], tuple[GraphValue, ...]],
    x: GraphValue,
    states: Sequence[GraphValue],
    lengths: GraphValue | None,
    reverse: bool,
) -> tuple[GraphValue, ...]:
    """Outputs and last states; the first state is what is put out."""
    graph = x.graph
    count = len(states)
    sequences = [x] if lengths is None else [x, graph.iota(x.dims[:1], 0, dtypes.int64)]

    def body(*values: GraphValue) -> tuple[GraphValue, ...]:
        old, now = values[:count], values[count]
        new = step(old, now)
        if lengths is None:
            return (*new, new[0])
        # Past its end a sample keeps its state and puts out nothing.
        alive = values[count + 1].broadcast_to(lengths.dims).lt(lengths.cast(dtypes.int64))
        inside = along(alive, new[0].dims, 0)
        kept = tuple(inside.select(a, b) for a, b in zip(new, old, strict=True))
        return (*kept, inside.select(new[0], 0))

    *last, outputs = graph.scan(body, states, sequences, reverse=reverse)
    return outputs, *last


def rnn(
    x: GraphValue,
    state: GraphValue,
    weight: GraphValue,
    recurrence: GraphValue,
    bias: GraphValue | None = None,
    activation: Activation = GraphValue.tanh,
    lengths: GraphValue | None = None,
    reverse: bool = False,
) -> tuple[GraphValue, GraphValue]:
    """h' = activation(weight·x + recurrence·h + bias); outputs (T, B, H) and the last state."""

    def step(states: Sequence[GraphValue], now: GraphValue) -> tuple[GraphValue, ...]:
        return (activation(now.add(_linear(states[0], recurrence))),)

    outputs, last = _run(step, _linear(x, weight, bias), [state], lengths, reverse)
    return outputs, last


def lstm(
    x: GraphValue,
    state: GraphValue,
    cell: GraphValue,
    weight: Weight,
    recurrence: Weight,
    bias: GraphValue | None = None,
    gates: str = "ifgo",
    peepholes: dict[str, GraphValue] | None = None,
    lengths: GraphValue | None = None,
    reverse: bool = False,
    gate_activation: Activation = GraphValue.sigmoid,
    cell_activation: Activation = GraphValue.tanh,
    output_activation: Activation = GraphValue.tanh,
    coupled: bool = False,
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """Outputs (T, B, H), last state and last cell.

    c' = f·c + i·g, h' = o·output_activation(c'). `gates` is the order of i(nput), f(orget), g (the candidate) and o(utput) in the weights: `"ifgo"` is
    PyTorch's, `"iofg"` ONNX's. `peepholes` gives vectors by which the cell enters the gates i, f, o. `coupled` makes f = 1 - i.
    """
    _check_gates("lstm", gates, "ifgo")
    peep = peepholes or {}

    def looked(gate: GraphValue, name: str, at: GraphValue) -> GraphValue:
        return gate if name not in peep else gate.add(peep[name].broadcast_to(at.dims).mul(at))

    def step(states: Sequence[GraphValue], now: GraphValue) -> tuple[GraphValue, ...]:
        hidden, held = states
        part = _split(now.add(_linear(hidden, recurrence)), gates)
        enter = gate_activation(looked(part["i"], "i", held))
        forget = enter.neg().add(1) if coupled else gate_activation(looked(part["f"], "f", held))
        new = forget.mul(held).add(enter.mul(cell_activation(part["g"])))
        leave = gate_activation(looked(part["o"], "o", new))
        return leave.mul(output_activation(new)), new

    outputs, last, last_cell = _run(step, _linear(x, weight, bias), [state, cell], lengths, reverse)
    return outputs, last, last_cell


def gru(
    x: GraphValue,
    state: GraphValue,
    weight: GraphValue,
    recurrence: GraphValue,
    bias: GraphValue | None = None,
    recurrence_bias: GraphValue | None = None,
    gates: str = "rzn",
    reset_after: bool = True,
    lengths: GraphValue | None = None,
    reverse: bool = False,
    gate_activation: Activation = GraphValue.sigmoid,
    cell_activation: Activation = GraphValue.tanh,
) -> tuple[GraphValue, GraphValue]:
    """Outputs (T, B, H) and the last state.

    h' = (1 - z)·n + z·h with n = cell_activation(x part + r·(recurrence·h + bias)) if `reset_after`, else with (r·h) in the product. `gates` is the
    order of r(eset), z (update) and n (the candidate): `"rzn"` is PyTorch's, `"zrn"` ONNX's (there called z, r, h).
    """
    _check_gates("gru", gates, "rzn")
    size = state.dims[1]
    at = gates.index("n")
    lines = recurrence.slice([at * size, 0], [(at + 1) * size, recurrence.dims[1]])
    shift = None
    if recurrence_bias is not None:
        shift = recurrence_bias.slice([at * size], [(at + 1) * size])

    def step(states: Sequence[GraphValue], now: GraphValue) -> tuple[GraphValue, ...]:
        (hidden,) = states
        given = _split(now, gates)
        back = _split(_linear(hidden, recurrence, recurrence_bias), gates)
        reset = gate_activation(given["r"].add(back["r"]))
        update = gate_activation(given["z"].add(back["z"]))
        inner = reset.mul(back["n"]) if reset_after else _linear(reset.mul(hidden), lines, shift)
        candidate = cell_activation(given["n"].add(inner))
        return (update.neg().add(1).mul(candidate).add(update.mul(hidden)),)

    outputs, last = _run(step, _linear(x, weight, bias), [state], lengths, reverse)
    return outputs, last
