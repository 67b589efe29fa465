"""Convolutions among other ops: what is computed before one has memory, two that are added have a kernel each."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import gcd, prod

import numpy as np
import pytest

import planish as pn
from planish.frontend.tensor import Tensor
from planish.nn import functional


def kernels(function: Callable[..., Tensor], *dims: tuple[int, ...]) -> list[str]:
    lowered = pn.jit(function).lower(*(pn.zeros(shape) for shape in dims))
    return [line for line in lowered.as_text("llir").splitlines() if line.startswith("kernel")]


def relu(x: Tensor) -> Tensor:
    return pn.maximum(x, 0)


IMAGE, KERNEL = (1, 32, 14, 14), (32, 32, 3, 3)


def test_what_a_window_reads_again_and_again_has_memory() -> None:
    found = kernels(
        lambda x, k, b: functional.conv2d(relu(x * b + b), k, padding=1), IMAGE, KERNEL, (32, 1, 1)
    )
    assert [name.split()[1].split("_")[0] for name in found] == ["map", "reduce"]


def test_convolutions_that_are_added_have_a_kernel_each() -> None:
    found = kernels(
        lambda x, k, m: relu(functional.conv2d(x, k, padding=1) + functional.conv2d(x, m, padding=1)),
        IMAGE,
        KERNEL,
        KERNEL,
    )
    assert len(found) == 2


def test_a_residual_is_part_of_the_kernel() -> None:
    def blocks(x: Tensor, k: Tensor, m: Tensor) -> Tensor:
        y = relu(functional.conv2d(x, k, padding=1) + x)
        z = relu(functional.conv2d(y, m, padding=1) + y)
        return relu(functional.conv2d(z, k, padding=1) + z)

    assert len(kernels(blocks, IMAGE, KERNEL, KERNEL)) == 1  # one for all three


@pytest.mark.parametrize(
    ("size", "taps", "stride", "padding", "extra", "gap"),
    [
        (5, 3, 2, 1, 0, 1), (4, 4, 2, 1, 0, 1), (5, 2, 3, 0, 0, 1), (4, 5, 2, 2, 1, 1), (3, 1, 2, 0, 0, 1),
        (4, 3, 5, 1, 0, 2), (4, 3, 2, 1, 0, 3), (4, 4, 3, 2, 1, 2), (4, 3, 2, 1, 0, 2), (3, 3, 4, 2, 1, 6), (3, 2, 6, 1, 3, 4),
    ],
)  # fmt: skip
def test_transposed_convolutions_multiply_no_holes(
    size: int, taps: int, stride: int, padding: int, extra: int, gap: int
) -> None:
    """Also with gaps in the kernel: what holes and gaps have in common leaves results that nothing is added to."""
    rng = np.random.default_rng(7)
    x, k = (
        rng.standard_normal((2, 3, size, size), np.float32),
        rng.standard_normal((3, 4, taps, taps), np.float32),
    )
    reach = (taps - 1) * gap + 1
    whole = (size - 1) * stride + reach + extra
    wanted = np.zeros((2, 4, whole, whole))
    for a in range(size):
        for b in range(size):
            part = np.einsum("nc,cors->nors", x[:, :, a, b], k)
            down, right = a * stride, b * stride
            wanted[:, :, down : down + reach : gap, right : right + reach : gap] += part
    end = whole - padding
    given = pn.jit(
        lambda x, k: functional.conv_transpose2d(
            x, k, stride=stride, padding=padding, output_padding=extra, dilation=gap
        )
    )
    np.testing.assert_allclose(
        np.asarray(given(x, k)), wanted[:, :, padding:end, padding:end], rtol=1e-4, atol=1e-5
    )
    reduced = re.findall(r"range (\d+) axis=\w+:R", given.lower(x, k).as_text("uop:6"))
    assert prod(map(int, reduced)) == 3 * (-(-taps // (stride // gcd(stride, gap)))) ** 2


def test_phases_of_transposed_convolutions_are_loops_of_their_own() -> None:
    """Not remainders of places in the result, by which nothing could be read in lanes: what is beyond the edge is left out by a copy."""
    found = kernels(lambda x, k: functional.conv_transpose2d(x, k, stride=2, padding=1), IMAGE, KERNEL)
    assert [name.split()[1].split("_")[0] for name in found] == ["reduce", "copy"]
    assert "14x2x14x2" in found[0]


def test_results_are_the_same_on_every_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    x, k = rng.standard_normal(IMAGE, np.float32), rng.standard_normal((48, 32, 3, 3), np.float32)
    found = []
    for threads in (1, 2, 3):
        with pn.settings(threads=threads):
            found.append(np.asarray(pn.jit(lambda x, k: functional.conv2d(x, k, padding=1))(x, k)))
    assert all(array.tobytes() == found[0].tobytes() for array in found)


BORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "reflect": lambda x: pn.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect"),
    "edge": lambda x: pn.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="edge"),
    "wrap": lambda x: pn.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="wrap"),
    "resized": lambda x: functional.interpolate(x, scale_factor=2),
    "chosen rows": lambda x: pn.take(x, pn.asarray(np.arange(16)[::-1].copy()), axis=1),
}


@pytest.mark.parametrize("name", BORDERS)
def test_what_no_fixed_step_leads_through_is_copied_before_windows_read_it(name: str) -> None:
    """A convolution reads a plain image: no place is worked out again for every tap and channel."""
    border = BORDERS[name]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 16, 12, 12), np.float32)
    k = rng.standard_normal((24, 16, 3, 3), np.float32)
    function = pn.jit(lambda x, k: functional.conv2d(border(x), k))
    found = kernels(lambda x, k: functional.conv2d(border(x), k), x.shape, k.shape)
    assert [line.split()[1].split("_")[0] for line in found][-1] == "reduce"
    assert len(found) >= 2
    image = border(pn.asarray(x)).numpy()
    wanted = np.zeros((24, image.shape[2] - 2, image.shape[3] - 2))
    for a in range(3):
        for b in range(3):
            part = image[0, :, a : a + wanted.shape[1], b : b + wanted.shape[2]].astype(np.float64)
            wanted += np.einsum("chw,oc->ohw", part, k[:, :, a, b])
    np.testing.assert_allclose(function(x, k).numpy()[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [32, 96])
def test_a_convolution_is_no_part_of_the_rows_that_normalise_it(channels: int) -> None:
    """Every product is computed once, whatever rows are made of it: as many as the convolution alone has, and those of the norm."""

    def block(x: Tensor, k: Tensor) -> Tensor:
        y = functional.conv2d(x, k, padding=3, groups=channels)
        return functional.layer_norm(pn.permute_dims(y, (0, 2, 3, 1)), (channels,))

    x, k = pn.zeros((1, channels, 14, 14)), pn.zeros((channels, 1, 7, 7))
    alone = pn.jit(lambda x, k: functional.conv2d(x, k, padding=3, groups=channels)).lower(x, k).compile()
    whole = pn.jit(block).lower(x, k).compile()
    assert len(whole.kernels) == 2
    assert whole.cost.flops <= alone.cost.flops + 10 * channels * 14 * 14
