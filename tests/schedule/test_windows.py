"""Convolutions among other ops: what is computed before one has memory, two that are added have a kernel each."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

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
    ("size", "taps", "stride", "padding", "extra"),
    [(5, 3, 2, 1, 0), (4, 4, 2, 1, 0), (5, 2, 3, 0, 0), (4, 5, 2, 2, 1), (3, 1, 2, 0, 0)],
)
def test_transposed_convolutions_multiply_no_holes(
    size: int, taps: int, stride: int, padding: int, extra: int
) -> None:
    rng = np.random.default_rng(7)
    x, k = (
        rng.standard_normal((2, 3, size, size), np.float32),
        rng.standard_normal((3, 4, taps, taps), np.float32),
    )
    whole = (size - 1) * stride + taps + extra
    wanted = np.zeros((2, 4, whole, whole))
    for a in range(size):
        for b in range(size):
            part = np.einsum("nc,cors->nors", x[:, :, a, b], k)
            wanted[:, :, a * stride : a * stride + taps, b * stride : b * stride + taps] += part
    end = whole - padding
    given = pn.jit(
        lambda x, k: functional.conv_transpose2d(x, k, stride=stride, padding=padding, output_padding=extra)
    )
    np.testing.assert_allclose(
        np.asarray(given(x, k)), wanted[:, :, padding:end, padding:end], rtol=1e-4, atol=1e-5
    )
    reduced = re.findall(r"range (\d+) axis=R", given.lower(x, k).as_text("uop:6"))
    assert prod(map(int, reduced)) == 3 * (-(-taps // stride)) ** 2


def test_results_are_the_same_on_every_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    x, k = rng.standard_normal(IMAGE, np.float32), rng.standard_normal((48, 32, 3, 3), np.float32)
    found = []
    for threads in (1, 2, 3):
        with pn.settings(threads=threads):
            found.append(np.asarray(pn.jit(lambda x, k: functional.conv2d(x, k, padding=1))(x, k)))
    assert all(array.tobytes() == found[0].tobytes() for array in found)
