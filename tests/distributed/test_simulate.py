"""Predictions: what the model must say by its own formulas, and what must hold whatever its figures are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import ptir
from planish.distributed import Device, Link, Network, simulate
from planish.distributed.network import COSTS, group_on
from planish.errors import PlanishError

NETWORK = Network(4, Link(1e-6, 100e9), Link(5e-6, 10e9))
DEVICE = Device(1e12, 1e11)


def program(mesh: tuple[tuple[str, int], ...], turns: int = 1) -> ptir.Function:
    graph = ptir.Graph("step")
    x = graph.input("x", ptir.tensor("f32", (64, 64)))
    y = x
    for _ in range(turns):
        y = y.matmul(x).all_reduce(mesh, ("a",))
    return graph.build(y)


def test_a_ring_within_a_node() -> None:
    ranks = list(range(4))
    found = COSTS["all_reduce"](NETWORK, group_on(NETWORK, ranks, 4), 1e9, 1e9)
    assert found.seconds == pytest.approx(6 * (1e-6 + 1e9 / 4 / 100e9))
    assert found.inside == pytest.approx(1.5e9)
    assert found.between == 0


def test_small_messages_take_trees() -> None:
    found = COSTS["all_reduce"](NETWORK, group_on(NETWORK, list(range(4)), 4), 8, 8)
    assert found.seconds == pytest.approx(2 * 2 * (1e-6 + 8 / 100e9))


@pytest.mark.parametrize("op", sorted(COSTS))
def test_what_holds_for_every_collective(op: str) -> None:
    cost = COSTS[op]
    for nbytes in (8.0, 1e4, 1e8):
        sizes = [1, 2, 4, 8, 64, 4096]
        found = [cost(NETWORK, group_on(NETWORK, list(range(n)), n), nbytes, nbytes).seconds for n in sizes]
        assert found[0] == 0
        assert all(math.isfinite(each) and each > 0 for each in found[1:])
        slower = Network(4, Link(2e-6, 50e9), Link(1e-5, 5e9))
        for n, own in zip(sizes[1:], found[1:], strict=True):
            assert cost(slower, group_on(slower, list(range(n)), n), nbytes, nbytes).seconds >= own
            group = group_on(NETWORK, list(range(n)), n)
            assert cost(NETWORK, group, 2 * nbytes, 2 * nbytes).seconds >= own


def test_work_and_collectives_add_up_and_overlap_never_takes_longer() -> None:
    mesh = (("a", 8),)
    found = simulate(program(mesh, 3), mesh, NETWORK, DEVICE)
    assert found.flops == 3 * 2 * 64**3
    assert found.collectives["all_reduce"][0] == 3
    assert found.seconds == pytest.approx(found.compute + found.communication)
    assert max(found.compute, found.communication) <= found.overlapped <= found.seconds * (1 + 1e-9)
    fitted = simulate(program(mesh, 3), mesh, NETWORK, DEVICE.fitted(found, 2.0))
    assert fitted.compute == pytest.approx(2.0)
    assert "8 ranks" in str(found)


def test_a_loop_counts_every_turn() -> None:
    mesh = (("a", 2),)
    text = """ptir 1
func @f(%x: tensor<f32, 8x8>) -> tensor<f32, 8x8> {
  %0 = scan %x {num_carries=1, length=10} : tensor<f32, 8x8> (%c: tensor<f32, 8x8>) {
    %1 = all_reduce %c {mesh=[["a", 2]], over=["a"]} : tensor<f32, 8x8>
    return %1
  }
  return %0
}
"""
    function = ptir.parse(text).entry
    assert simulate(function, mesh, NETWORK, DEVICE).collectives["all_reduce"][0] == 10


def test_another_mesh_than_the_programs_is_one_error() -> None:
    with pytest.raises(PlanishError, match="is a program for the mesh"):
        simulate(program((("a", 8),)), (("a", 4),), NETWORK, DEVICE)
    with pytest.raises(PlanishError, match="a device of 0 FLOP/s"):
        Device(0, 1e9)
    step: Any = pn.jit(lambda x: x, mesh=pn.Mesh(2, "a"))
    with pytest.raises(PlanishError, match=r"the program of a rank, not <sharded jit.*lower the function"):
        simulate(step, (("a", 2),), NETWORK, DEVICE)


def test_a_training_step_on_thousands_of_ranks() -> None:
    mesh = pn.Mesh((512, 8), ("data", "model"))

    @pn.jit(
        mesh=mesh,
        in_shardings=(pn.P(None, "model"), pn.P("data")),
        out_shardings=(pn.P(), pn.P(None, "model")),
    )
    def step(w: pn.Tensor, x: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        loss, gradient = pn.value_and_grad(lambda w: pn.mean((x @ w) ** 2))(w)
        return loss, w - 0.1 * gradient

    w, x = np.zeros((256, 1024), np.float32), np.zeros((4096, 256), np.float32)
    found = simulate(step.lower(w, x), mesh, NETWORK, DEVICE)  # type: ignore[arg-type]
    assert found.ranks == 4096
    # two products of 4096 rows and 1024 columns, cut over 512 and 8
    assert found.flops == 2 * 2 * 8 * 256 * 128
    # the gradient of a rank's columns goes around the ranks that share them
    assert found.between > 0
