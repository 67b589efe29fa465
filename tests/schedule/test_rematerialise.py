"""What several kernels or places need is stored where that is cheaper: work and bytes grow with a program, never with its depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, nn, optim
from planish.frontend.ahead_of_time import Compiled
from planish.frontend.tensor import Tensor
from planish.schedule import fusion
from planish.schedule.kernels import schedule
from planish.uop.node import Table
from planish.uop.ops import Ops

ROWS, WIDTH = 512, 256


def residual(layers: int) -> tuple[Callable[..., object], Sequence[object]]:
    """Gradients by all weights of layers that each add a product of what was normalised."""

    def loss(weights: list[Tensor], x: Tensor) -> Tensor:
        for weight in weights:
            x = x + nn.layer_norm(x, (WIDTH,)) @ weight
        return pn.mean(x * x)

    return pn.grad(loss), ([pn.zeros((WIDTH, WIDTH))] * layers, pn.zeros((ROWS, WIDTH)))


def compiled(layers: int) -> Compiled:
    function, arguments = residual(layers)
    return pn.jit(function).lower(*arguments).compile()


def relaxed(x: Tensor, steps: int) -> Tensor:
    """Every inner element becomes the mean of its four neighbours, again and again."""
    for _ in range(steps):
        inner = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
        x = pn.pad(inner, ((1, 1), (1, 1)))
    return x


def test_gradients_of_deep_networks_compute_each_op_once() -> None:
    for layers in (2, 8, 48):
        cost = compiled(layers).cost
        # three products a layer (but for the first, which nobody differentiates by its input), and some ten ops beside them
        as_written = (3 * layers - 1) * 2 * ROWS * WIDTH * WIDTH + layers * 40 * ROWS * WIDTH
        assert cost.flops <= 1.15 * as_written


def test_a_layer_costs_what_every_layer_costs() -> None:
    few, more, many = (compiled(layers) for layers in (4, 8, 48))
    assert many.cost.nbytes - more.cost.nbytes == 10 * (more.cost.nbytes - few.cost.nbytes)
    assert many.cost.launches - more.cost.launches == 10 * (more.cost.launches - few.cost.launches)
    assert len(many.kernels) == len(few.kernels)  # equal layers are the same kernels


def test_no_kernel_reads_the_whole_chain() -> None:
    function, arguments = residual(16)
    with Table() as table:
        made = schedule(pn.jit(function).lower(*arguments).function, table)
        reads = [
            sum(node.op is Ops.DEFINE_GLOBAL for node in kernel.sink.toposort()) for kernel in made.kernels
        ]
    assert max(reads) <= 10


def test_planning_is_linear_in_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    decide = fusion.Fusion._decide

    def counted(self: fusion.Fusion, node: object) -> None:
        nonlocal visits
        visits += 1
        decide(self, node)  # type: ignore[arg-type]

    monkeypatch.setattr(fusion.Fusion, "_decide", counted)
    found = []
    for layers in (4, 8, 16):
        function, arguments = residual(layers)
        lowered = pn.jit(function).lower(*arguments)
        visits = 0
        with Table() as table:
            schedule(lowered.function, table)
        found.append(visits)
    few, more, many = found
    assert many - more <= 2.1 * (more - few)


def test_what_a_kernel_needs_and_cannot_store_on_the_way_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product after a product: the first attempt finds that it needs the other, the second has it in memory."""
    attempts: list[int] = []
    begin = fusion.Fusion.__init__

    def counted(self: fusion.Fusion, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        attempts.append(len(self.needs))

    monkeypatch.setattr(fusion.Fusion, "__init__", counted)
    a = pn.zeros((64, 64))
    lowered = pn.jit(lambda a: pn.tanh(a @ a) @ a).lower(a)
    attempts.clear()
    with Table() as table:
        assert len(schedule(lowered.function, table).kernels) == 2
    assert attempts == [1, 0, 0]


def test_chains_of_stencils_compute_each_element_once() -> None:
    size, steps = 1000, 10
    exe = pn.jit(lambda x: relaxed(x, steps)).lower(pn.zeros((size, size))).compile()
    assert exe.cost.flops <= 1.15 * 4 * size * size * steps
    assert exe.cost.launches == steps
    assert exe.cost.nbytes <= 2 * 4 * size * size * steps


def heated(x: Tensor, steps: int) -> Tensor:
    """Diffusion: the middle of a window is read, too."""
    inside = (slice(1, -1),) * x.ndim
    for _ in range(steps):
        middle = x[inside]
        around = -2.0 * x.ndim * middle
        for axis in range(x.ndim):
            for moved in (slice(2, None), slice(-2)):
                around = (
                    around + x[tuple(moved if each == axis else part for each, part in enumerate(inside))]
                )
        x = pn.pad(middle + 0.1 * around, ((1, 1),) * x.ndim)
    return x


@pytest.mark.parametrize("shape", [(200, 200), (24, 24, 24)])
def test_the_middle_of_a_window_is_read_where_its_neighbours_are(shape: tuple[int, ...]) -> None:
    """From one tensor, with its padding: each step is the same kernel, and computes no step before it again."""
    steps = 6
    exe = pn.jit(lambda x: heated(x, steps)).lower(pn.zeros(shape)).compile()
    one = pn.jit(lambda x: heated(x, 1)).lower(pn.zeros(shape)).compile()
    assert len(exe.kernels) == 1
    assert exe.cost.launches == steps
    assert exe.cost.flops <= steps * one.cost.flops
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = x.astype(np.float64)
    for _ in range(steps):
        inner = expected[(slice(1, -1),) * x.ndim]
        around = -2.0 * x.ndim * inner
        for axis in range(x.ndim):
            for moved in (slice(2, None), slice(-2)):
                at = [slice(1, -1)] * x.ndim
                at[axis] = moved
                around = around + expected[tuple(at)]
        expected = np.pad(inner + 0.1 * around, 1)
    found = pn.jit(lambda a: heated(a, steps))(pn.asarray(x))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)


def test_short_chains_of_small_stencils_are_one_kernel() -> None:
    """What is near and cheap is computed again: a kernel costs more."""
    exe = pn.jit(lambda x: relaxed(x, 2)).lower(pn.zeros((8, 8))).compile()
    assert exe.cost.launches == 1


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [3, 5, 40, 300])
def test_stencils_are_right(steps: int, size: int) -> None:
    x = np.random.default_rng(steps).standard_normal((size, size + 1)).astype(np.float32)
    expected = x.astype(np.float64)
    for _ in range(steps):
        inner = 0.25 * (expected[1:-1, :-2] + expected[1:-1, 2:] + expected[:-2, 1:-1] + expected[2:, 1:-1])
        expected = np.pad(inner, 1)
    found = pn.jit(lambda a: relaxed(a, steps))(pn.asarray(x))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


def attracted(p: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Bodies that every other one draws towards itself."""
    for _ in range(steps):
        d = p[None] - p[:, None]
        near = pn.sum(d * d, axis=-1) + 1e-2
        v = v + 1e-3 * pn.sum(d / (near * pn.sqrt(near))[:, :, None], axis=1)
        p = p + 1e-3 * v
    return p, v


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_what_is_paired_with_itself_needs_nothing_of_a_pair_in_memory(steps: int) -> None:
    """A sum whose results are paired is one kernel's, so that only that one needs what it sums up; and every step is the same kernels."""
    count = 150
    p = np.random.default_rng(steps).standard_normal((count, 3)).astype(np.float32)
    exe = pn.jit(lambda p, v: attracted(p, v, steps)).lower(pn.asarray(p), pn.asarray(p)).compile()
    assert (exe.cost.launches, len(exe.kernels)) == (2 * steps, 2)
    assert "needed again" not in exe.why()
    x = v = p.astype(np.float64)
    for _ in range(steps):
        d = x[None] - x[:, None]
        near = np.sum(d * d, -1) + 1e-2
        v = v + 1e-3 * np.sum(d / (near * np.sqrt(near))[:, :, None], 1)
        x = x + 1e-3 * v
    for own, meant in zip(exe(pn.asarray(p), pn.asarray(p)), (x, v), strict=True):
        np.testing.assert_allclose(np.asarray(own), meant, rtol=1e-4, atol=1e-5)


def test_both_costs_are_told() -> None:
    text = pn.jit(lambda x: relaxed(x, 3)).lower(pn.zeros((1000, 1000))).compile().why()
    assert "needed again: 4 places of a kernel need it: computed again " in text


def test_masks_are_made_again_unless_they_are_dear() -> None:
    """A comparison is cheaper than packing its bits; random bits are not."""

    def masks(chosen: Callable[[Tensor], Tensor]) -> int:
        def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            mask = chosen(a)
            return pn.where(mask, a, 0.0) @ b, pn.where(mask, b, 0.0) @ a

        square = pn.zeros((512, 512))
        plan = compiler.lower(pn.jit(both).lower(square, square).function, "x86-64-v4").plan
        return sum(buffer.dtype.is_bool for buffer in plan.buffers)

    assert masks(lambda a: a > 0) == 0
    assert masks(lambda a: pn.random.uniform(pn.random.key(0), a.shape) < 0.9) == 1


def test_an_update_is_part_of_the_kernel_of_its_gradient() -> None:
    """Three kernels a layer, whatever the depth: the product, and both gradients, the second with all that AdamW does."""
    adam = optim.AdamW(1e-3)

    def loss(weights: list[Tensor], x: Tensor) -> Tensor:
        for weight in weights:
            x = pn.tanh(x @ weight)
        return pn.mean(x * x)

    def step(weights: list[Tensor], state: optim.State, x: Tensor) -> object:
        return adam.update(weights, pn.grad(loss)(weights, x), state)

    launches = []
    for layers in (2, 3, 6):
        weights = [pn.zeros((WIDTH, WIDTH))] * layers
        exe = pn.jit(step).lower(weights, adam.init(weights), pn.zeros((ROWS, WIDTH))).compile()
        launches.append(exe.cost.launches)
    assert launches[1] - launches[0] == 3
    assert launches[2] - launches[1] == 9


def test_kernels_read_a_bounded_number_of_tensors() -> None:
    arrays = [np.full((64,), number, np.float32) for number in range(200)]

    def reads(function: Callable[..., Tensor]) -> list[int]:
        with Table() as table:
            made = schedule(pn.jit(function).lower(*map(pn.asarray, arrays)).function, table)
            return [len(kernel.buffers) for kernel in made.kernels]

    def total(*xs: Tensor) -> Tensor:
        found = xs[0]
        for x in xs[1:]:
            found = found + x * 2.0
        return found

    assert max(reads(total)) <= 60
    assert len(reads(total)) <= 6
    assert len(reads(lambda *xs: pn.concat(list(xs[:100])))) == 1  # a loop for each
    expected = arrays[0] + 2.0 * sum(arrays[1:])
    np.testing.assert_allclose(np.asarray(pn.jit(total)(*map(pn.asarray, arrays))), expected)


def correlated(x: Tensor) -> Tensor:
    """A product of matrices that is asked for as a whole, and along its diagonal."""
    d = x - pn.mean(x, axis=0)
    c = d.T @ d / 199.0
    s = pn.sqrt(pn.linalg.diagonal(c))
    return c / (s[:, None] * s[None])


@pytest.mark.parametrize(("rows", "is_apart"), [(200, True), (3, False)])
def test_a_product_that_is_kept_whole_is_a_kernel_of_its_own(rows: int, is_apart: bool) -> None:
    """In loops of another kernel nobody lays it out; where it is little, a kernel costs more."""
    with pn.settings(ready_kernels=False):
        exe = pn.jit(correlated).lower(pn.zeros((rows, 32))).compile()
    products = [kernel for kernel in exe.kernels if kernel.cost.flops >= 2 * rows * 32 * 32]
    assert all(kernel.name.startswith("reduce" if is_apart else "rows") for kernel in products)
    x = np.random.default_rng(1).standard_normal((rows, 32)).astype(np.float32)
    d = x.astype(np.float64) - x.astype(np.float64).mean(axis=0)
    c = d.T @ d / 199.0
    s = np.sqrt(np.diagonal(c))
    np.testing.assert_allclose(
        np.asarray(correlated(pn.asarray(x))), c / (s[:, None] * s[None]), rtol=1e-4, atol=1e-5
    )
