"""Every module against torch, with torch's own state: results, gradients of inputs and parameters, running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from tests.nn.compare import arrays, close, interpreted, same_module, torch

T = torch.nn
KEY = 0

CASES: dict[str, tuple[Any, Any, list[tuple[int, ...]]]] = {
    "Linear": (lambda: nn.Linear(4, 3, key=KEY), lambda: T.Linear(4, 3), [(2, 5, 4)]),
    "Linear no bias": (lambda: nn.Linear(4, 3, False, key=KEY), lambda: T.Linear(4, 3, False), [(4,)]),
    "Bilinear": (lambda: nn.Bilinear(4, 3, 2, key=KEY), lambda: T.Bilinear(4, 3, 2), [(5, 4), (5, 3)]),
    "Conv1d": (
        lambda: nn.Conv1d(4, 6, 3, 2, 1, 2, 2, key=KEY),
        lambda: T.Conv1d(4, 6, 3, 2, 1, 2, 2),
        [(2, 4, 11)],
    ),
    "Conv2d": (
        lambda: nn.Conv2d(3, 4, (3, 2), (2, 1), (1, 0), key=KEY),
        lambda: T.Conv2d(3, 4, (3, 2), (2, 1), (1, 0)),
        [(2, 3, 7, 6)],
    ),
    "Conv2d depthwise": (
        lambda: nn.Conv2d(4, 8, 3, 1, 2, 2, 4, False, key=KEY),
        lambda: T.Conv2d(4, 8, 3, 1, 2, 2, 4, False),
        [(2, 4, 6, 5)],
    ),
    "Conv2d same": (
        lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2, key=KEY),
        lambda: T.Conv2d(2, 3, 3, padding="same", dilation=2),
        [(2, 2, 7, 6)],
    ),
    "Conv2d reflect": (
        lambda: nn.Conv2d(2, 3, 3, padding=2, padding_mode="reflect", key=KEY),
        lambda: T.Conv2d(2, 3, 3, padding=2, padding_mode="reflect"),
        [(2, 2, 7, 6)],
    ),
    "Conv2d circular": (
        lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular", key=KEY),
        lambda: T.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
        [(2, 2, 5, 4)],
    ),
    "Conv2d replicate": (
        lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="replicate", key=KEY),
        lambda: T.Conv2d(2, 3, 3, padding=1, padding_mode="replicate"),
        [(2, 2, 5, 4)],
    ),
    "Conv2d one sample": (lambda: nn.Conv2d(2, 3, 3, key=KEY), lambda: T.Conv2d(2, 3, 3), [(2, 5, 4)]),
    "Conv3d": (
        lambda: nn.Conv3d(2, 4, 2, 1, 1, groups=2, key=KEY),
        lambda: T.Conv3d(2, 4, 2, 1, 1, groups=2),
        [(2, 2, 3, 4, 5)],
    ),
    "ConvTranspose1d": (
        lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, True, 2, key=KEY),
        lambda: T.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, True, 2),
        [(2, 4, 5)],
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(3, 4, (3, 2), (2, 3), (1, 0), (1, 2), key=KEY),
        lambda: T.ConvTranspose2d(3, 4, (3, 2), (2, 3), (1, 0), (1, 2)),
        [(2, 3, 4, 3)],
    ),
    "ConvTranspose2d padded": (
        lambda: nn.ConvTranspose2d(2, 3, 2, 1, 2, key=KEY),
        lambda: T.ConvTranspose2d(2, 3, 2, 1, 2),
        [(2, 2, 6, 6)],
    ),
    "ConvTranspose3d": (
        lambda: nn.ConvTranspose3d(2, 3, 2, 2, bias=False, key=KEY),
        lambda: T.ConvTranspose3d(2, 3, 2, 2, bias=False),
        [(1, 2, 3, 2, 3)],
    ),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4)), lambda: T.LayerNorm((3, 4)), [(2, 3, 4)]),
    "LayerNorm no bias": (
        lambda: nn.LayerNorm(4, 1e-3, bias=False),
        lambda: T.LayerNorm(4, 1e-3, bias=False),
        [(2, 3, 4)],
    ),
    "RMSNorm": (lambda: nn.RMSNorm(4), lambda: T.RMSNorm(4), [(2, 3, 4)]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), [(2, 4, 3, 3)]),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3), lambda: T.InstanceNorm1d(3), [(2, 3, 5)]),
    "InstanceNorm2d": (
        lambda: nn.InstanceNorm2d(3, affine=True),
        lambda: T.InstanceNorm2d(3, affine=True),
        [(2, 3, 4, 5)],
    ),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(2), lambda: T.InstanceNorm3d(2), [(2, 2, 2, 3, 2)]),
    "LocalResponseNorm": (
        lambda: nn.LocalResponseNorm(3, 0.5),
        lambda: T.LocalResponseNorm(3, 0.5),
        [(2, 5, 3, 3)],
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), lambda: T.BatchNorm1d(3), [(5, 3)]),
    "BatchNorm1d sequence": (
        lambda: nn.BatchNorm1d(3, momentum=None),
        lambda: T.BatchNorm1d(3, momentum=None),
        [(2, 3, 4)],
    ),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3, affine=False), lambda: T.BatchNorm2d(3, affine=False), [(2, 3, 4, 2)]),
    "BatchNorm3d": (
        lambda: nn.BatchNorm3d(2, track_running_stats=False),
        lambda: T.BatchNorm3d(2, track_running_stats=False),
        [(2, 2, 2, 3, 2)],
    ),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), lambda: T.MaxPool1d(3, 2, 1), [(2, 3, 9)]),
    "MaxPool2d": (
        lambda: nn.MaxPool2d((3, 2), 2, (1, 0), (1, 2), ceil_mode=True),
        lambda: T.MaxPool2d((3, 2), 2, (1, 0), (1, 2), ceil_mode=True),
        [(2, 3, 8, 7)],
    ),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), lambda: T.MaxPool3d(2), [(2, 2, 4, 5, 4)]),
    "AvgPool1d": (
        lambda: nn.AvgPool1d(3, 2, 1, True, False),
        lambda: T.AvgPool1d(3, 2, 1, True, False),
        [(2, 3, 8)],
    ),
    "AvgPool2d": (
        lambda: nn.AvgPool2d((3, 2), 2, 1, True),
        lambda: T.AvgPool2d((3, 2), 2, 1, True),
        [(2, 3, 6, 7)],
    ),
    "AvgPool3d": (lambda: nn.AvgPool3d(2, 1), lambda: T.AvgPool3d(2, 1), [(2, 2, 3, 4, 3)]),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), lambda: T.AdaptiveAvgPool1d(3), [(2, 3, 7)]),
    "AdaptiveAvgPool2d": (
        lambda: nn.AdaptiveAvgPool2d((2, None)),
        lambda: T.AdaptiveAvgPool2d((2, None)),
        [(2, 3, 5, 4)],
    ),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), lambda: T.AdaptiveAvgPool3d(2), [(1, 2, 4, 5, 3)]),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), lambda: T.AdaptiveMaxPool1d(3), [(2, 3, 7)]),
    "AdaptiveMaxPool2d": (
        lambda: nn.AdaptiveMaxPool2d((2, 3)),
        lambda: T.AdaptiveMaxPool2d((2, 3)),
        [(2, 3, 6, 5)],
    ),
    "AdaptiveMaxPool3d": (lambda: nn.AdaptiveMaxPool3d(2), lambda: T.AdaptiveMaxPool3d(2), [(1, 2, 4, 5, 3)]),
    "Upsample": (
        lambda: nn.Upsample(scale_factor=2.0, mode="bilinear"),
        lambda: T.Upsample(scale_factor=2.0, mode="bilinear"),
        [(2, 2, 3, 4)],
    ),
    "Upsample bicubic": (
        lambda: nn.Upsample((5, 7), mode="bicubic", align_corners=True),
        lambda: T.Upsample((5, 7), mode="bicubic", align_corners=True),
        [(1, 2, 3, 4)],
    ),
    "Upsample nearest": (lambda: nn.Upsample(7), lambda: T.Upsample(7), [(2, 2, 3)]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: T.PixelShuffle(2), [(2, 8, 3, 2)]),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), lambda: T.PixelUnshuffle(2), [(2, 2, 4, 6)]),
    "Flatten": (lambda: nn.Flatten(1, 2), lambda: T.Flatten(1, 2), [(2, 3, 4, 5)]),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), lambda: T.Unflatten(1, (2, 3)), [(2, 6, 2)]),
    "PReLU": (lambda: nn.PReLU(3), lambda: T.PReLU(3), [(2, 3, 4)]),
    "RNN": (lambda: nn.RNN(4, 3, key=KEY), lambda: T.RNN(4, 3), [(5, 2, 4)]),
    "RNN relu": (
        lambda: nn.RNN(4, 3, 2, "relu", False, True, key=KEY),
        lambda: T.RNN(4, 3, 2, "relu", False, True),
        [(2, 5, 4), (2, 2, 3)],
    ),
    "LSTM": (lambda: nn.LSTM(4, 3, key=KEY), lambda: T.LSTM(4, 3), [(5, 2, 4)]),
    "LSTM both ways": (
        lambda: nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True, key=KEY),
        lambda: T.LSTM(4, 3, 2, batch_first=True, bidirectional=True),
        [(2, 5, 4)],
    ),
    "LSTM one sample": (lambda: nn.LSTM(4, 3, bias=False, key=KEY), lambda: T.LSTM(4, 3, bias=False), [(5, 4)]),
    "GRU": (lambda: nn.GRU(4, 3, key=KEY), lambda: T.GRU(4, 3), [(5, 2, 4), (1, 2, 3)]),
    "GRU both ways": (
        lambda: nn.GRU(4, 3, 2, bidirectional=True, key=KEY),
        lambda: T.GRU(4, 3, 2, bidirectional=True),
        [(5, 2, 4)],
    ),
    "MultiHeadAttention": (
        lambda: nn.MultiHeadAttention(6, 2, key=KEY),
        lambda: T.MultiheadAttention(6, 2),
        [(4, 2, 6), (5, 2, 6), (5, 2, 6)],
    ),
    "MultiHeadAttention other sizes": (
        lambda: nn.MultiHeadAttention(6, 3, kdim=4, vdim=5, batch_first=True, key=KEY),
        lambda: T.MultiheadAttention(6, 3, kdim=4, vdim=5, batch_first=True),
        [(2, 4, 6), (2, 3, 4), (2, 3, 5)],
    ),
    "MultiHeadAttention no bias": (
        lambda: nn.MultiHeadAttention(6, 2, bias=False, key=KEY),
        lambda: T.MultiheadAttention(6, 2, bias=False),
        [(4, 6), (5, 6), (5, 6)],
    ),
    "Sequential": (
        lambda: nn.Sequential(nn.Linear(4, 3, key=KEY), nn.Tanh(), nn.Linear(3, 2, key=1), nn.Softmax(-1)),
        lambda: T.Sequential(T.Linear(4, 3), T.Tanh(), T.Linear(3, 2), T.Softmax(-1)),
        [(2, 4)],
    ),
}  # fmt: skip
NATIVE = [
    "Linear", "Conv1d", "Conv2d", "Conv2d depthwise", "ConvTranspose2d", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm2d",
    "MaxPool2d", "AvgPool2d", "Upsample", "LSTM", "GRU", "RNN", "MultiHeadAttention", "Sequential",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_in_float64(name: str):
    ours, theirs, shapes = CASES[name]
    same_module(ours(), theirs(), arrays(shapes), scale=5)


@pytest.mark.parametrize("name", NATIVE)
def test_compiled_in_float32(name: str):
    ours, theirs, shapes = CASES[name]
    same_module(ours(), theirs(), arrays(shapes), dtype=np.float32, native=True, scale=5)


def test_embedding():
    indices = np.array([[1, 3, 1], [0, 2, 2]])
    same_module(nn.Embedding(4, 5, key=KEY), T.Embedding(4, 5), [indices])
    same_module(nn.Embedding(4, 5, 2, key=KEY), T.Embedding(4, 5, 2), [indices])
    same_module(nn.Embedding(4, 5, key=KEY), T.Embedding(4, 5), [indices], dtype=np.float32, native=True)
    assert np.asarray(nn.Embedding(4, 5, -1, key=KEY).weight)[3].tolist() == [0] * 5


def test_one_hot_has_more_classes_than_its_indices_have_numbers():
    indices = np.array([[0, 100], [7, 7]], np.int8)
    wanted = T.functional.one_hot(torch.from_numpy(indices).long(), 200)
    got = nn.one_hot(pn.asarray(indices), 200)
    assert got.dtype == pn.int64
    assert np.array_equal(np.asarray(got), wanted.numpy())


@pytest.mark.parametrize(
    "name", ["BatchNorm1d", "BatchNorm1d sequence", "BatchNorm2d", "InstanceNorm tracked"]
)
def test_running_statistics_in_training_and_after(name: str):
    if name == "InstanceNorm tracked":
        ours, theirs = (
            nn.InstanceNorm1d(3, track_running_stats=True),
            T.InstanceNorm1d(3, track_running_stats=True),
        )
        shape: tuple[int, ...] = (2, 3, 4)
    else:
        make, make_theirs, (shape,) = CASES[name]
        ours, theirs = make(), make_theirs()
    ours = interpreted(ours)
    x: Any = None
    for step in range(3):
        (x,) = arrays([shape], step, np.float32)
        close(ours(interpreted(pn.asarray(x))), theirs(torch.tensor(x)).detach().numpy(), 5)
        for buffer, value in theirs.named_buffers():
            np.testing.assert_allclose(np.asarray(ours.buffers()[buffer]), value.numpy(), rtol=1e-5)
    ours, theirs = ours.eval(), theirs.eval()
    before = {name: np.asarray(value) for name, value in ours.buffers().items()}
    close(ours(interpreted(pn.asarray(x))), theirs(torch.tensor(x)).detach().numpy(), 5)
    for buffer, value in ours.buffers().items():
        np.testing.assert_array_equal(np.asarray(value), before[buffer])


def test_batch_norm_after_training_in_float64():
    theirs = T.BatchNorm2d(3)
    theirs.running_mean.copy_(torch.tensor([1.0, -2, 0.5]))
    theirs.running_var.copy_(torch.tensor([0.3, 4, 1]))
    same_module(nn.BatchNorm2d(3), theirs.eval(), arrays([(2, 3, 4, 2)]))


@pytest.mark.parametrize("kind", ["bool", "float", "padding", "both", "per head"])
def test_masks_of_multi_head_attention(kind: str):
    generator = np.random.default_rng(2)
    hidden = np.triu(np.ones((4, 4), bool), 1)
    padding = np.array([[False] * 4, [False, False, True, True]])
    choices: dict[str, dict[str, Any]] = {
        "bool": {"attn_mask": hidden},
        "float": {"attn_mask": generator.normal(size=(4, 4))},
        "padding": {"key_padding_mask": padding},
        "both": {"attn_mask": hidden, "key_padding_mask": padding},
        "per head": {"attn_mask": generator.normal(size=(4, 4, 4)), "average_attn_weights": False},
    }
    options = choices[kind]
    (x,) = arrays([(4, 2, 6)])
    ours, theirs = (
        nn.MultiHeadAttention(6, 2, key=KEY).astype(pn.float64),
        T.MultiheadAttention(6, 2).double(),
    )
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    wrapped: Any = {k: pn.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    theirs_options = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    given, reference = pn.asarray(x), torch.tensor(x)
    found, weights = ours(given, given, given, **wrapped)
    wanted, their_weights = theirs(reference, reference, reference, **theirs_options)
    close(found, wanted.detach().numpy(), 5)
    close(weights, their_weights.detach().numpy(), 5)
    fused, nothing = ours(given, given, given, need_weights=False, **wrapped)
    assert nothing is None
    close(fused, wanted.detach().numpy(), 5)
