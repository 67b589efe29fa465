"""Windows, maxima with places, unpooling, sampling by grids, bags of embeddings and images of integers, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError
from tests.nn.compare import arrays, same_function, torch

F = torch.nn.functional
SHAPES = {1: (2, 3, 9), 2: (2, 3, 8, 7), 3: (1, 2, 5, 6, 7)}


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2, "stride": 1},
        {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
    ],
)
def test_maxima_with_their_places_and_back(space: int, options: dict[str, Any]):
    (x,) = arrays([SHAPES[space]], space)
    x.flat[3] = x.flat[4]  # of equal ones the first
    ours, theirs = getattr(nn, f"max_pool{space}d_with_indices"), getattr(F, f"max_pool{space}d")
    kept: dict[str, Any] = {}

    def mine(x: Any) -> Any:
        values, kept["ours"] = ours(x, **options)
        return values

    def reference(x: Any) -> Any:
        values, kept["theirs"] = theirs(x, return_indices=True, **options)
        return values

    same_function(mine, reference, [x])
    places = np.asarray(ours(pn.asarray(x), **options)[1])
    assert np.array_equal(places, kept["theirs"].numpy())
    if "dilation" not in options:
        window = {name: options[name] for name in ("kernel_size", "stride", "padding") if name in options}
        y = np.asarray(ours(pn.asarray(x), **options)[0])
        there = pn.asarray(places).to_device("interpreter")
        ours, theirs = getattr(nn, f"max_unpool{space}d"), getattr(F, f"max_unpool{space}d")
        if options["kernel_size"] <= options.get("stride", options["kernel_size"]):
            same_function(
                lambda y: ours(y, there, **window, output_size=x.shape[2:]),
                lambda y: theirs(y, torch.tensor(places), **window, output_size=x.shape[2:]),
                [y],
            )
        else:
            # windows that overlap write one place twice: here the one that stays has the slope, in torch both
            found = ours(pn.asarray(y), pn.asarray(places), **window, output_size=x.shape[2:])
            wanted = theirs(torch.tensor(y), torch.tensor(places), **window, output_size=x.shape[2:])
            assert np.array_equal(np.asarray(found), wanted.numpy())


@pytest.mark.parametrize(("space", "size"), [(1, 4), (2, (3, 5)), (3, (2, None, 7))])
def test_adaptive_maxima_with_their_places(space: int, size: Any):
    (x,) = arrays([SHAPES[space]], 7)
    ours, theirs = (
        getattr(nn, f"adaptive_max_pool{space}d_with_indices"),
        getattr(F, f"adaptive_max_pool{space}d"),
    )
    same_function(lambda x: ours(x, size)[0], lambda x: theirs(x, size), [x])
    places = theirs(torch.tensor(x), size, return_indices=True)[1]
    assert np.array_equal(np.asarray(ours(pn.asarray(x), size)[1]), places.numpy())


def test_pooling_layers_give_places_and_take_them():
    x = pn.asarray(arrays([(1, 2, 4, 4)], 0, np.float32)[0])
    pooled: Any = nn.MaxPool2d(2)
    values, places = nn.MaxPool2d(2, return_indices=True)(x)
    back = nn.MaxUnpool2d(2)(values, places)
    assert back.shape == x.shape
    assert float(pn.sum(back)) == pytest.approx(float(pn.sum(pooled(x))), rel=1e-6)
    assert nn.ChannelShuffle(2)(x).shape == x.shape
    assert nn.LPPool2d(2.0, 2)(x).shape == (1, 2, 2, 2)
    assert nn.Fold((4, 4), 2)(nn.Unfold(2)(x)).shape == x.shape


@pytest.mark.parametrize(
    "options",
    [{"kernel_size": 2}, {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (1, 0), "stride": (2, 1)}],
)
def test_unfold_and_fold(options: dict[str, Any]):
    (x,) = arrays([(2, 3, 6, 5)])
    same_function(lambda x: nn.unfold(x, **options), lambda x: F.unfold(x, **options), [x])
    columns = F.unfold(torch.tensor(x), **options).numpy()
    same_function(lambda c: nn.fold(c, (6, 5), **options), lambda c: F.fold(c, (6, 5), **options), [columns])


@pytest.mark.parametrize("space", [1, 2, 3])
def test_norm_pooling(space: int):
    (x,) = arrays([SHAPES[space]], 4)
    ours, theirs = getattr(nn, f"lp_pool{space}d"), getattr(F, f"lp_pool{space}d")
    same_function(
        lambda x: (ours(x, 2.0, 2), ours(x, 3.0, 3, 1)),
        lambda x: (theirs(x, 2.0, 2), theirs(x, 3.0, 3, 1)),
        [np.abs(x)],
    )


def test_channel_shuffle():
    (x,) = arrays([(2, 6, 3, 2)])
    same_function(lambda x: nn.channel_shuffle(x, 3), lambda x: F.channel_shuffle(x, 3), [x])


# --- sampling ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample(mode: str, padding_mode: str, align_corners: bool):
    x, grid = arrays([(2, 3, 5, 4), (2, 4, 6, 2)], 3)
    options: Any = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    same_function(
        lambda x, g: nn.grid_sample(x, g, **options),
        lambda x, g: F.grid_sample(x, g, **options),
        [x, 1.3 * grid],
        scale=10,
    )


@pytest.mark.parametrize(
    ("mode", "padding_mode"), [("nearest", "border"), ("bilinear", "zeros"), ("bilinear", "reflection")]
)
def test_grid_sample_of_volumes(mode: str, padding_mode: str):
    x, grid = arrays([(1, 2, 3, 4, 5), (1, 2, 3, 2, 3)], 3)
    options: Any = {"mode": mode, "padding_mode": padding_mode, "align_corners": False}
    same_function(
        lambda x, g: nn.grid_sample(x, g, **options),
        lambda x, g: F.grid_sample(x, g, **options),
        [x, grid],
        scale=10,
    )


def test_grid_sample_compiled():
    x, grid = arrays([(2, 3, 5, 4), (2, 4, 6, 2)], 3, np.float32)
    same_function(
        lambda x, g: nn.grid_sample(x, g),
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        [x, grid],
        native=True,
        scale=5,
    )


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(2, 1, 4, 5), (2, 1, 3, 2, 4)])
def test_affine_grid(align_corners: bool, size: tuple[int, ...]):
    space = len(size) - 2
    (theta,) = arrays([(2, space, space + 1)])
    same_function(
        lambda t: nn.affine_grid(t, size, align_corners),
        lambda t: F.affine_grid(t, size, align_corners),
        [theta],
    )


# --- bags -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str):
    (weight,) = arrays([(7, 3)])
    rows, line, starts = np.array([[1, 2, 5], [6, 6, 0]]), np.array([1, 2, 5, 6, 2]), np.array([0, 2, 2])
    there = lambda x: pn.asarray(x).to_device("interpreter")  # noqa: E731
    same_function(
        lambda w: (
            nn.embedding_bag(there(rows), w, mode=mode),
            nn.embedding_bag(there(line), w, there(starts), mode),
            nn.embedding_bag(there(line), w, there(starts), mode, padding_idx=2),
            nn.embedding_bag(there(line), w, there(np.array([0, 2, 2, 5])), mode, include_last_offset=True),
        ),
        lambda w: (
            F.embedding_bag(torch.tensor(rows), w, mode=mode),
            F.embedding_bag(torch.tensor(line), w, torch.tensor(starts), mode=mode),
            F.embedding_bag(torch.tensor(line), w, torch.tensor(starts), mode=mode, padding_idx=2),
            F.embedding_bag(
                torch.tensor(line), w, torch.tensor([0, 2, 2, 5]), mode=mode, include_last_offset=True
            ),
        ),
        [weight],
    )


def test_weighted_bags_and_the_layer():
    weight, share = arrays([(7, 3), (2, 3)])
    rows = np.array([[1, 2, 5], [6, 6, 0]])
    same_function(
        lambda w, s: nn.embedding_bag(
            pn.asarray(rows).to_device("interpreter"), w, mode="sum", per_sample_weights=s
        ),
        lambda w, s: F.embedding_bag(torch.tensor(rows), w, mode="sum", per_sample_weights=s),
        [weight, share],
    )
    assert nn.EmbeddingBag(7, 3, key=0)(pn.asarray(rows)).shape == (2, 3)


# --- integers ---------------------------------------------------------------------------------------------


def test_pooling_of_integers():
    x = np.random.default_rng(0).integers(-50, 50, (2, 3, 7, 6))
    options: Any = {"kernel_size": 3, "stride": 2, "padding": 1}
    ours, theirs = pn.asarray(x), torch.tensor(x)
    assert np.array_equal(np.asarray(nn.max_pool2d(ours, **options)), F.max_pool2d(theirs, **options).numpy())
    assert np.array_equal(np.asarray(nn.avg_pool2d(ours, **options)), F.avg_pool2d(theirs, **options).numpy())
    assert np.asarray(nn.max_pool2d(pn.asarray(x.astype(np.uint8)), 2)).dtype == np.uint8


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_images_of_bytes_are_resized_as_torchs(mode: str):
    x = np.random.default_rng(1).integers(0, 256, (1, 3, 9, 8)).astype(np.uint8)
    found = np.asarray(nn.interpolate(pn.asarray(x), (13, 5), mode=mode))
    wanted = F.interpolate(torch.tensor(x), (13, 5), mode=mode).numpy()
    assert found.dtype == np.uint8
    # torch rounds the ones between after each axis
    assert np.abs(found.astype(int) - wanted).max() <= (0 if mode.startswith("nearest") else 2)
    exact = F.interpolate(torch.tensor(x).double(), (13, 5), mode=mode).clamp(0, 255).numpy()
    assert np.abs(found - exact).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.unfold(pn.ones((1, 1, 2, 2)), 3), r"a window of \(3, 3\) does not fit sizes \(2, 2\)"),
        (lambda: nn.fold(pn.ones((1, 5, 4)), (3, 3), 2), "no columns of windows"),
        (lambda: nn.fold(pn.ones((1, 4, 5)), (3, 3), 2), "there are 4 windows .* and 5 columns"),
        (lambda: nn.max_unpool2d(pn.ones((1, 1, 2, 2)), pn.ones((1, 1, 2, 2)), 2), "the indices float32"),
        (lambda: nn.grid_sample(pn.ones((1, 1, 2, 2)), pn.ones((1, 2, 2, 3))), "the grid"),
        (lambda: nn.grid_sample(pn.ones((1, 1, 2, 2)), pn.ones((1, 2, 2, 2)), "cubic"), "no mode 'cubic'"),
        (lambda: nn.affine_grid(pn.ones((1, 2, 2)), (1, 1, 2, 2)), "do not fit the size"),
        (lambda: nn.embedding_bag(pn.asarray([1]), pn.ones((2, 2))), "without offsets"),
        (lambda: nn.embedding_bag(pn.asarray([[1]]), pn.ones((2, 2)), mode="last"), "the mode is 'last'"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()


@pytest.mark.parametrize(("size", "stride"), [(1, 3), (2, 3), (4, 2), (7, 4), (7, 3)])
def test_windows_that_reach_beyond_the_end(size: int, stride: int):
    (x,) = arrays([(1, 2, size)])
    there = pn.asarray(x).to_device("interpreter")
    found = nn.max_pool1d_with_indices(there, 3, stride, 1, ceil_mode=True)
    wanted = F.max_pool1d(torch.tensor(x), 3, stride, 1, ceil_mode=True, return_indices=True)
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.array_equal(np.asarray(ours), theirs.numpy())
    alone = nn.max_pool1d_with_indices(there[..., :1], 3, 3, ceil_mode=True)[0]
    assert np.array_equal(np.asarray(alone), x[..., :1])


def test_the_function_gives_places_as_the_layer_does() -> None:
    x = pn.asarray(np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(np.float32))
    values, places = nn.max_pool2d(x, 2, return_indices=True)
    wanted = torch.nn.functional.max_pool2d(torch.asarray(x.numpy()), 2, return_indices=True)
    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(places, wanted[1])
