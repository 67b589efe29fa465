"""L-BFGS against torch's, iterate by iterate in float64; and that it finds what there is to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim

torch: Any = pytest.importorskip("torch")


def valley(x: Any) -> Any:
    """Rosenbrock's, of any number of axes, in either library."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def bowl(x: Any) -> Any:
    return (x * x * abs(x + 0.1)).sum() + (x[0] * x[1] - 1.0) ** 2


@pytest.mark.parametrize("name", ["valley", "bowl"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 4},
        {"max_iter": 6, "history_size": 2},
        {"max_iter": 3, "lr": 0.3, "line_search": None},
        {"max_iter": 30, "max_eval": 9},
        {"max_iter": 1},
    ],
)
def test_steps_of_torch(name: str, options: dict[str, Any]):
    function = {"valley": valley, "bowl": bowl}[name]
    start = np.array([-1.2, 1.0, 0.7, 1.5])
    given = dict(options)
    search = given.pop("line_search", "strong_wolfe")
    if search is None:
        given["lr"] = 1e-3 if name == "valley" else given["lr"]
    x = torch.tensor(start, requires_grad=True)
    reference = torch.optim.LBFGS([x], line_search_fn=search, **given)

    def closure() -> Any:
        reference.zero_grad()
        loss = function(x)
        loss.backward()
        return loss

    solver = optim.LBFGS(line_search=search, **given)
    params: Any = {"x": pn.asarray(start)}
    state: Any = None

    def loss(params: Any) -> Any:
        return function(params["x"])

    for _ in range(6):
        reference.step(closure)
        params, state = solver.minimize(loss, params, state=state)
        np.testing.assert_allclose(np.asarray(params["x"]), x.detach().numpy(), rtol=1e-7, atol=1e-9)
        assert state.evaluations == reference.state[x]["func_evals"]
        assert state.iterations == reference.state[x]["n_iter"]


def test_it_finds_the_minimum_of_a_valley():
    params, state = optim.LBFGS(max_iter=200, tolerance_change=1e-14).minimize(
        valley, pn.asarray(np.zeros(10))
    )
    np.testing.assert_allclose(np.asarray(params), 1.0, atol=1e-6)
    assert state.iterations < 100
    assert float(state.value) < 1e-12


def test_a_module_with_buffers_and_data_is_fitted():
    x = np.linspace(-1, 1, 40)[:, None]
    data = pn.asarray(x), pn.asarray(np.sin(3 * x))
    model = nn.Sequential(nn.Linear(1, 8, key=0), nn.Tanh(), nn.Linear(8, 1, key=1)).astype(pn.float64)
    model.register_buffer("kept", pn.asarray(3))

    def loss(model: Any, x: pn.Tensor, y: pn.Tensor) -> pn.Tensor:
        return nn.mse_loss(model(x), y)

    fitted: Any
    fitted, _ = optim.LBFGS(max_iter=150).minimize(loss, model, *data)
    assert float(loss(fitted, *data)) < 1e-4 < float(loss(model, *data))
    assert int(fitted.kept) == 3


def test_a_function_without_a_minimum_or_a_number_ends():
    params, _ = optim.LBFGS(max_iter=5).minimize(lambda x: pn.sum(x), pn.asarray([1.0]))
    assert float(params[0]) < 0
    params, _ = optim.LBFGS(max_iter=5).minimize(lambda x: pn.sum(pn.sqrt(x)), pn.asarray([-1.0]))
    assert float(params[0]) == -1
