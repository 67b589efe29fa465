"""Everything around a model in one compiled step: float16 with loss scaling, groups, accumulation, clipping, a plateau, an average; and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import planish as pn
from planish import nn, optim

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = np.tanh(X @ np.random.default_rng(1).normal(size=(4, 1))).astype(np.float32)
SCALING = optim.LossScale(2.0**14, growth_interval=10)
OPTIMIZER = optim.Accumulate(
    optim.Groups([(lambda path, p: path.endswith("bias"), optim.SGD(0.05, 0.9))], default=optim.NAdam(0.02)),
    2,
)
PLATEAU = optim.ReduceLROnPlateau(0.02, patience=3, factor=0.5)
EMA = optim.EMA(0.9)


def start() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(4, 16, key=0), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1, key=1))
    return {
        "model": model,
        "state": OPTIMIZER.init(model),
        "scale": SCALING.init(),
        "average": EMA.init(model),
        "plateau": PLATEAU.init(),
        "key": pn.random.key(0),
    }


@pn.jit
def step(run: dict[str, Any], x: pn.Tensor, y: pn.Tensor) -> tuple[dict[str, Any], pn.Tensor]:
    key = pn.random.fold_in(run["key"], run["average"].step)
    noisy = x + 0.01 * pn.random.normal(key, x.shape)

    def loss(model: Any) -> Any:
        found = model.astype(pn.float16)(noisy.astype(pn.float16)).astype(pn.float32)
        value = nn.mse_loss(found, y)
        return SCALING.scaled(value, run["scale"]), value

    (_, value), slope = pn.value_and_grad(loss, has_aux=True)(run["model"])
    model, state, scale = SCALING.update(OPTIMIZER, run["model"], slope, run["state"], run["scale"])
    average = EMA.update(run["average"], model)
    after = {**run, "model": model, "state": state, "scale": scale, "average": average}
    return {**after, "plateau": PLATEAU.update(run["plateau"], value)}, value


def trained(run: dict[str, Any], loader: pn.data.Loader, epochs: int) -> tuple[dict[str, Any], list[float]]:
    values = []
    while loader.epoch < epochs:
        for x, y in loader:
            run, value = step(run, x, y)
            values.append(float(value))
    return run, values


def test_a_run_with_everything_learns_and_goes_on_bit_by_bit(tmp_path: Path):
    whole, values = trained(start(), pn.data.Loader((X, Y), 16, shuffle=True), 12)
    assert values[-1] < values[0] / 4
    assert step.cache_info().misses == 1
    assert int(whole["average"].step) == 1 + 48
    assert float(whole["scale"].scale) != 2.0**14
    assert all(x.dtype is pn.float32 for x in whole["model"].parameters().values())

    loader = pn.data.Loader((X, Y), 16, shuffle=True)
    half, _ = trained(start(), loader, 5)
    pn.io.save_checkpoint(tmp_path, {**half, "loader": loader.state_dict()}, step=20)
    again = pn.data.Loader((X, Y), 16, shuffle=True)
    found = pn.io.load_checkpoint(tmp_path, {**start(), "loader": again.state_dict()})
    again.load_state_dict(found.pop("loader"))
    resumed, _ = trained(found, again, 12)
    for a, b in zip(pn.tree.leaves(whole), pn.tree.leaves(resumed), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
