"""Transformer layers and recurrent cells with torch's weights: results and all gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError
from tests.nn.compare import arrays, same_module, torch


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("batch_first", "activation"), [(False, "relu"), (True, "gelu")])
def test_encoder_layers(norm_first: bool, batch_first: bool, activation: str):
    options: Any = {
        "batch_first": batch_first,
        "activation": activation,
        "norm_first": norm_first,
        "dropout": 0.0,
    }
    ours = nn.TransformerEncoderLayer(8, 2, 12, key=0, **options)
    same_module(ours, torch.nn.TransformerEncoderLayer(8, 2, 12, **options), arrays([(5, 3, 8)]))


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layers(norm_first: bool):
    options: Any = {"norm_first": norm_first, "dropout": 0.0, "bias": norm_first}
    ours = nn.TransformerDecoderLayer(8, 2, 12, key=0, **options)
    same_module(ours, torch.nn.TransformerDecoderLayer(8, 2, 12, **options), arrays([(5, 3, 8), (4, 3, 8)]))


def test_masks_and_causality():
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, dtype=torch.float64)
    ours = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, key=0).astype(pn.float64)
    ours.load_state_dict({name: x.numpy() for name, x in theirs.state_dict().items()})
    (x,) = arrays([(3, 5, 8)])
    padded = np.arange(5) >= np.array([[5], [3], [4]])
    square = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    mine = nn.Transformer.generate_square_subsequent_mask(5, pn.float64)
    assert np.array_equal(np.asarray(mine), square.numpy())
    wanted = theirs(
        torch.tensor(x),
        square,
        torch.zeros(3, 5, dtype=torch.float64).masked_fill(torch.tensor(padded), -np.inf),
    )
    found = ours(pn.asarray(x), mine, pn.asarray(padded))
    np.testing.assert_allclose(np.asarray(found), wanted.detach().numpy(), rtol=1e-10, atol=1e-11)
    causal = ours(pn.asarray(x), is_causal=True)
    masked = ours(pn.asarray(x), mine)
    np.testing.assert_allclose(np.asarray(causal), np.asarray(masked), rtol=1e-11, atol=1e-12)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_whole_transformer():
    options: Any = {"dim_feedforward": 12, "dropout": 0.0, "num_encoder_layers": 2, "num_decoder_layers": 1}
    ours = nn.Transformer(8, 2, key=0, **options)
    same_module(ours, torch.nn.Transformer(8, 2, **options), arrays([(4, 2, 8), (3, 2, 8)]), scale=5.0)


def test_stacks_of_copies_and_of_own_layers():
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, key=0)
    copies = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
    same_module(
        copies,
        torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0),
            2,
            torch.nn.LayerNorm(8),
            enable_nested_tensor=False,
        ),
        arrays([(5, 3, 8)]),
    )
    own = nn.TransformerEncoder(lambda key: nn.TransformerEncoderLayer(8, 2, 12, key=key), 2, key=1)
    weights = [np.asarray(one.linear1.weight) for one in own.layers]  # type: ignore[attr-defined]
    assert not np.array_equal(weights[0], weights[1])
    with pytest.raises(PlanishError, match="need a random key"):
        nn.TransformerEncoder(lambda key: layer, 2)
    with pytest.raises(PlanishError, match="no activation 'sine'"):
        nn.TransformerEncoderLayer(8, 2, activation="sine", key=0)


def test_dropout_takes_a_key_and_ends_with_training():
    layer = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.5, key=0)
    x, memory = map(pn.asarray, arrays([(5, 3, 8), (4, 3, 8)], dtype=np.float32))
    assert layer.takes_key
    first, again, other = (np.asarray(layer(x, memory, key=pn.random.key(n))) for n in (1, 1, 2))
    np.testing.assert_allclose(first, again, rtol=1e-4, atol=1e-5)
    assert not np.allclose(first, other, atol=1e-2)
    with pytest.raises(PlanishError, match="needs a random key"):
        layer(x, memory)
    layer.eval()
    plain = np.asarray(layer(x, memory))
    np.testing.assert_allclose(
        plain, np.asarray(layer(x, memory, key=pn.random.key(3))), rtol=1e-5, atol=1e-5
    )


CELLS: list[tuple[str, dict[str, Any]]] = [
    ("RNNCell", {}),
    ("RNNCell", {"nonlinearity": "relu", "bias": False}),
    ("LSTMCell", {}),
    ("LSTMCell", {"bias": False}),
    ("GRUCell", {}),
    ("GRUCell", {"bias": False}),
]


@pytest.mark.parametrize(("name", "options"), CELLS)
def test_cells(name: str, options: dict[str, Any]):
    ours, theirs = getattr(nn, name)(3, 4, key=0, **options), getattr(torch.nn, name)(3, 4, **options)
    same_module(ours, theirs, arrays([(5, 3)]))
    if name != "LSTMCell":
        same_module(ours, theirs, arrays([(5, 3), (5, 4)]))
        same_module(ours, theirs, arrays([(3,), (4,)]))


def test_a_cell_step_by_step_is_its_layer():
    layer = nn.LSTM(3, 4, key=0)
    cell = nn.LSTMCell(3, 4, key=1)
    cell.load_state_dict({name: layer.state_dict()[f"{name}_l0"] for name in cell.state_dict()})
    x = pn.asarray(arrays([(6, 2, 3)], dtype=np.float32)[0])
    outputs, (h, c) = layer(x)
    state: Any = None
    for number in range(6):
        state = cell(x[number], state)
        np.testing.assert_allclose(np.asarray(state[0]), np.asarray(outputs)[number], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(state[1]), np.asarray(c)[0], rtol=1e-5, atol=1e-6)
    assert h.shape == (1, 2, 4)
    with pytest.raises(PlanishError, match=r"the state is \(2, 3\), not \(2, 4\)"):
        nn.GRUCell(3, 4, key=0)(x[0], x[0])
