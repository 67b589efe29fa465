"""Schedules of what is small or lies crosswise: by their actions, by work that is done once, and by three oracles that agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.actions.accumulators import Accumulators
from planish.actions.lanes import Lanes
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.compiler import Lowered
from planish.frontend.tensor import Tensor
from planish.llir.interpret import interpret
from planish.nn import functional
from planish.optimize.cores import amounts_for
from planish.target import TARGETS


def lowered(function: Callable[..., Tensor], target: str, *dims: tuple[int, ...]) -> Lowered:
    specs = [pn.TensorSpec(shape, pn.float32) for shape in dims]
    return compiler.lower(pn.jit(function).lower(*specs).function, target)


def reasons(low: Lowered, kernel: int = 0) -> str:
    return " · ".join(low.choices[kernel].reasons)


def check(low: Lowered, expected: np.ndarray, *arrays: np.ndarray) -> None:
    """By the interpreter, and by machine code where this machine runs it."""
    (found,) = low.interpreted()(*arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def numbers(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims, dtype=np.float32)


def depthwise(x: np.ndarray, w: np.ndarray, padding: int) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    rows, columns = (padded.shape[axis] - w.shape[axis] + 1 for axis in (2, 3))
    total = np.zeros((*x.shape[:2], rows, columns))
    for a in range(w.shape[2]):
        for b in range(w.shape[3]):
            total += padded[:, :, a : a + rows, b : b + columns] * w[None, :, 0, a, b, None, None]
    return total


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(("batch", "channels", "size", "taps"), [(1, 32, 5, 3), (2, 16, 5, 5), (1, 48, 6, 3)])
def test_channels_of_small_images_run_in_lanes(
    target: str, batch: int, channels: int, size: int, taps: int
) -> None:
    padding = taps // 2
    low = lowered(
        lambda x, w: functional.conv2d(x, w, padding=padding, groups=channels),
        target,
        (batch, channels, size, size),
        (channels, 1, taps, taps),
    )
    if target == "x86-64-v4":  # of half as many lanes rows leave fewer empty
        assert "channels of their own in lanes" in reasons(low)
    x, w = numbers(batch, channels, size, size), numbers(channels, 1, taps, taps, seed=1)
    check(low, depthwise(x, w, padding), x, w)


def test_rows_as_long_as_vectors_stay_in_lanes() -> None:
    low = lowered(
        lambda x, w: functional.conv2d(x, w, padding=1, groups=32),
        "x86-64-v4",
        (1, 32, 16, 16),
        (32, 1, 3, 3),
    )
    assert "pixels in lanes" in reasons(low)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(("channels", "pixels"), [(32, 64), (24, 50), (17, 33)])
def test_rows_that_lie_side_by_side_are_turned(target: str, channels: int, pixels: int) -> None:
    """A norm over channels that come first, stored channels last: nothing is read or written one by one."""
    low = lowered(
        lambda x: functional.layer_norm(pn.permute_dims(x, (1, 0)), (channels,)), target, (channels, pixels)
    )
    assert "squares of rows and columns are turned in registers" in reasons(low)
    x = numbers(channels, pixels).astype(np.float32)
    wide = x.astype(np.float64).T
    centred = wide - wide.mean(1, keepdims=True)
    check(low, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5), x)


def test_heads_that_share_keys_run_in_lanes() -> None:
    dims = (1, 4, 64, 16), (1, 2, 64, 16), (1, 2, 64, 16)
    low = lowered(functional.scaled_dot_product_attention, "x86-64-v4", *dims)
    assert "rows that share an operand" in reasons(low)
    assert Lanes in {type(action) for action in low.choices[0].actions}
    q, k, v = (numbers(*shape, seed=n) for n, shape in enumerate(dims))
    wide = [np.repeat(a.astype(np.float64), 4 // a.shape[1], axis=1) for a in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(2, 3) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    check(low, weights / weights.sum(-1, keepdims=True) @ wide[2], q, k, v)


def test_no_piece_reduces_a_row_again() -> None:
    """13 groups of rows for the cores: as many exponentials as there are elements, whatever the pieces are."""
    low = lowered(lambda x: functional.softmax(x, axis=0), "x86-64-v4", (64, 13 * 16))
    (program,) = low.programs
    x = numbers(64, 13 * 16)
    out = np.zeros(x.size, np.float32)
    counters = interpret(program, [out, x.reshape(-1)])
    read = counters.traffic["arg1"]
    assert read.read == read.distinct_read


@pytest.mark.parametrize(
    ("size", "wanted", "expected"), [(64, 8, 8), (13, 4, 13), (26, 4, 2), (97, 4, None), (12, 1, None)]
)
def test_pieces_of_sizes_without_divisors(size: int, wanted: int, expected: int | None) -> None:
    found = amounts_for(TARGETS["x86-64-v4"], size, wanted)
    assert (found[0] if found else None) == expected


def test_sums_of_narrow_numbers_have_as_many_lanes_as_their_accumulators() -> None:
    """32-bit integers are added up in 64 bits: sixteen of them would be two vectors, put together and taken apart."""
    spec = pn.TensorSpec((90, 160), pn.int32)
    low = compiler.lower(pn.jit(lambda x: pn.sum(x, axis=1)).lower(spec).function, "x86-64-v4")
    (lanes,) = [action.count for action in low.choices[0].actions if isinstance(action, Accumulators)]
    assert lanes == TARGETS["x86-64-v4"].lanes(pn.int64) == 8


@pytest.mark.parametrize(("length", "lanes"), [(5008, 64), (4992, 64), (4896, 48), (272, 16)])
def test_sums_do_not_wait_for_each_other(length: int, lanes: int) -> None:
    """313 vectors of 16 in a row are no multiple of anything: four side by side, the last ones masked; not so few of them."""
    low = lowered(lambda x: pn.sum(x, axis=1), "x86-64-v4", (3, length))
    (found,) = [action.count for action in low.choices[0].actions if isinstance(action, Accumulators)]
    assert found == lanes
    x = numbers(3, length)
    check(low, x.astype(np.float64).sum(-1), x)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(
    ("function", "dims"),
    [
        (lambda x, y: x & ~y, (1000,)),
        (lambda x, y: pn.any(x | y, axis=1), (9, 200)),
        (lambda x, y: pn.all(x | y, axis=0), (9, 200)),
        (lambda x, y: pn.sum(x ^ y, axis=1), (9, 200)),
    ],
)
def test_booleans_run_in_lanes(function: Callable[..., Tensor], dims: tuple[int, ...], target: str) -> None:
    specs = [pn.TensorSpec(dims, pn.bool)] * 2
    low = compiler.lower(pn.jit(function).lower(*specs).function, target)
    assert any(action.amount >= 4 for choice in low.choices for action in choice.actions), low.choices
    x, y = numbers(*dims) > 0, numbers(*dims, seed=1) > 0
    (found,) = low.interpreted()(x, y)
    assert np.array_equal(found, function(pn.asarray(x), pn.asarray(y)).numpy())


@pytest.mark.parametrize("columns", [50, 200, 201])
def test_rows_that_are_added_where_data_says_run_in_lanes(columns: int) -> None:
    """The lanes beyond the end of a padded row belong to no other one."""
    specs = [pn.TensorSpec((40, columns), pn.float32), pn.TensorSpec((40,), pn.int64)]
    low = compiler.lower(
        pn.jit(lambda x, rows: pn.segment_sum(x, rows, 6)).lower(*specs).function, "x86-64-v4"
    )
    assert any(isinstance(action, Upcast) for action in low.choices[-1].actions)
    x, rows = numbers(40, columns), np.random.default_rng(1).integers(0, 6, 40)
    expected = np.zeros((6, columns))
    np.add.at(expected, rows, x)
    (found,) = low.interpreted()(x, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_sums_of_few_channels_by_their_weights_run_in_lanes(
    target: str, transposed: bool, stride: int
) -> None:
    """Channels fill no vector, and rows of the image are summed up in lanes: its taps in registers, two or more channels at once."""
    convolve = functional.conv_transpose2d if transposed else functional.conv2d
    channels, size = 3, 32
    x, w = numbers(2, channels, size, size), numbers(channels, channels, 3, 3, seed=1)
    dims = convolve(pn.asarray(x), pn.asarray(w), stride=stride, padding=1).shape
    c = numbers(*dims, seed=2)

    def gradient(x: Tensor, w: Tensor, c: Tensor) -> Tensor:
        found = pn.grad(lambda w: pn.sum(convolve(x, w, stride=stride, padding=1) * c))(w)
        assert isinstance(found, Tensor)
        return found

    low = lowered(gradient, target, x.shape, w.shape, dims)
    assert len(low.choices) == 1
    assert any(isinstance(action, Accumulators) for action in low.choices[0].actions), reasons(low)
    assert "all taps share" in reasons(low)
    image, other = (c, x) if transposed else (x, c)
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (1, 1 + stride), (1, 1 + stride)))
    rows = other.shape[2]
    expected = np.zeros((channels, channels, 3, 3))
    for a in range(3):
        for b in range(3):
            taken = padded[:, :, a : a + rows * stride : stride, b : b + rows * stride : stride]
            expected[:, :, a, b] = np.einsum("noyx,niyx->oi", other, taken)
    check(low, expected, x, w, c)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(("rows", "along", "columns"), [(100, 200, 3), (50, 130, 5), (64, 96, 2)])
def test_few_columns_are_copied_to_lie_along_the_sum(
    target: str, rows: int, along: int, columns: int
) -> None:
    """The large operand is read as it lies: not it is turned, but the few columns of the other one."""
    low = lowered(lambda x, y: x @ y, target, (rows, along), (along, columns))
    assert "columns that lie along what is summed up" in reasons(low)
    x, y = numbers(rows, along), numbers(along, columns, seed=1)
    check(low, x.astype(np.float64) @ y, x, y)


@pytest.mark.parametrize("columns", [5, 31, 48, 49, 100])
@pytest.mark.parametrize("axis", [0, 1])
def test_masks_of_any_length_are_put_together(columns: int, axis: int) -> None:
    """Rows of booleans end anywhere: what is loaded of one is several vectors of lengths of their own."""
    x = numbers(37, columns) > 1.5
    for ours, theirs in ((pn.any, np.any), (pn.sum, np.sum)):
        assert np.array_equal(
            pn.jit(lambda x, f=ours: f(x, axis=axis))(pn.asarray(x)).numpy(), theirs(x, axis=axis)
        )


@pytest.mark.parametrize(
    ("taps", "stride", "padding"), [(3, 2, 0), (4, 2, 1), (3, 2, 1), (5, 3, 1), (6, 2, 2), (4, 3, 2)]
)
def test_phases_of_a_transposed_convolution_read_the_same_pixels(
    taps: int, stride: int, padding: int
) -> None:
    """Whatever the padding: then pixels run in lanes, and a phase is an axis of the weights alone."""
    x, w = numbers(2, 3, 9, 20), numbers(3, 4, taps, taps, seed=1)
    low = lowered(
        lambda x, w: functional.conv_transpose2d(x, w, stride=stride, padding=padding),
        "x86-64-v4",
        x.shape,
        w.shape,
    )
    assert any("pixels in lanes" in reasons(low, kernel) for kernel in range(len(low.choices)))
    full = np.zeros((2, 4, 8 * stride + taps, 19 * stride + taps))
    for a in range(taps):
        for b in range(taps):
            taken = np.einsum("nihw,io->nohw", x.astype(np.float64), w[:, :, a, b])
            full[:, :, a : a + 8 * stride + 1 : stride, b : b + 19 * stride + 1 : stride] += taken
    end = (full.shape[2] - padding, full.shape[3] - padding)
    check(low, full[:, :, padding : end[0], padding : end[1]], x, w)


def test_no_piece_keeps_a_matrix_again() -> None:
    """What a kernel keeps for all of its rows, each core would make for itself: it is made once, by few."""

    def product(x: Tensor, y: Tensor) -> Tensor:
        rows = pn.maximum(x, y)[9:]
        return rows @ pn.matrix_transpose(rows)

    low = lowered(product, "x86-64-v4", (64, 256), (1, 1))
    pieces = [a.pieces for choice in low.choices for a in choice.actions if isinstance(a, Thread)]
    assert all(n <= 8 for n in pieces), pieces
