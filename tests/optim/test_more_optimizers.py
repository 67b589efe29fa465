"""The optimisers beyond the first ones, averages, plateaus, groups, accumulation and loss scaling, step by step against torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from planish.errors import PlanishError
from planish.frontend import tree
from tests.optim.test_optimizers import START, STEPS, S, gradients, ours, place, theirs, torch

T = torch.optim
CASES: dict[str, tuple[optim.Optimizer, Any, dict[str, Any]]] = {
    "NAdam": (optim.NAdam(0.1), T.NAdam, {"lr": 0.1}),
    "NAdam decay": (
        optim.NAdam(0.1, (0.8, 0.95), 1e-3, 0.1, momentum_decay=0.1),
        T.NAdam,
        {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "momentum_decay": 0.1},
    ),
    "NAdam decoupled": (
        optim.NAdam(0.1, weight_decay=0.1, decoupled_weight_decay=True),
        T.NAdam,
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "RAdam": (optim.RAdam(0.1), T.RAdam, {"lr": 0.1}),
    # with this memory the spread is known well enough after the fourth step
    "RAdam rectified": (
        optim.RAdam(0.1, (0.8, 0.8), 1e-3, 0.1),
        T.RAdam,
        {"lr": 0.1, "betas": (0.8, 0.8), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "RAdam decoupled": (
        optim.RAdam(0.1, (0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True),
        T.RAdam,
        {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "Adamax": (optim.Adamax(0.1, weight_decay=0.1), T.Adamax, {"lr": 0.1, "weight_decay": 0.1}),
    "Adadelta": (optim.Adadelta(), T.Adadelta, {}),
    "Adadelta decay": (
        optim.Adadelta(0.5, 0.8, 1e-4, 0.1),
        T.Adadelta,
        {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1},
    ),
    "Adafactor": (optim.Adafactor(), T.Adafactor, {}),
    "Adafactor decay": (
        optim.Adafactor(0.5, -0.5, (1e-3, 0.1), 1.5, 0.1),
        T.Adafactor,
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 1.5, "weight_decay": 0.1},
    ),
    "Rprop": (optim.Rprop(0.1), T.Rprop, {"lr": 0.1}),
    "Rprop bounds": (
        optim.Rprop(0.1, (0.3, 2.0), (0.05, 0.15)),
        T.Rprop,
        {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (0.05, 0.15)},
    ),
    "ASGD": (optim.ASGD(0.1), T.ASGD, {"lr": 0.1}),
    "ASGD averaged": (
        optim.ASGD(0.1, 0.2, 0.5, 2.0, 0.1),
        T.ASGD,
        {"lr": 0.1, "lambd": 0.2, "alpha": 0.5, "t0": 2.0, "weight_decay": 0.1},
    ),
}


@pytest.fixture(autouse=True)
def torch_counts_in_float64() -> Iterator[None]:
    """Steps, rates and products that torch keeps beside the parameters have the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", CASES)
def test_steps_of_torch(name: str):
    optimizer, kind, options = CASES[name]
    for found, wanted in zip(ours(optimizer, START), theirs(kind, START, **options), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_asgd_keeps_torchs_average():
    optimizer = optim.ASGD(0.1, t0=1.0)
    params = torch.tensor(START[0], requires_grad=True)
    reference = T.ASGD([params], lr=0.1, t0=1.0)
    mine, state = [place(START[0])], optimizer.init([place(START[0])])
    for step in range(STEPS):
        params.grad = torch.tensor(gradients(step)[0])
        reference.step()
        mine, state = optimizer.update(mine, [place(gradients(step)[0])], state)
    np.testing.assert_allclose(
        np.asarray(state.slots["average"][0]), reference.state[params]["ax"].numpy(), rtol=1e-11
    )


@pytest.mark.parametrize("name", ["NAdam", "RAdam", "Adamax", "Adadelta", "Rprop", "ASGD"])
def test_an_update_is_one_kernel_per_size(name: str):
    model = nn.Sequential(*[nn.Linear(8, 8, key=n) for n in range(3)], nn.Linear(8, 3, key=9))
    optimizer = getattr(optim, name)()
    given = model, tree.map_tree(pn.ones_like, model), optimizer.init(model)
    compiled = pn.jit(lambda *given: optimizer.update(*given)).lower(*given).compile()
    # four sizes, and what counts the steps
    assert len(compiled.kernels) <= 4 + 2


def test_a_rate_of_this_update_takes_the_place_of_the_own():
    params = [place(START[0])]
    optimizer = optim.Adam(0.1)
    found, _ = optimizer.update(params, [place(START[0])], optimizer.init(params), lr=place(0.01))
    wanted, _ = optim.Adam(0.01).update(params, [place(START[0])], optimizer.init(params))
    np.testing.assert_allclose(np.asarray(found[0]), np.asarray(wanted[0]), rtol=1e-12)


# --- schedules --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Detected call")
@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        (optim.CosineRestarts(0.3, 4, 1, 0.02), lambda o: S.CosineAnnealingWarmRestarts(o, 4, 1, 0.02)),
        (optim.CosineRestarts(0.3, 3, 2), lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2)),
        (optim.Cyclic(0.1, 0.3, 3, 5), lambda o: S.CyclicLR(o, 0.1, 0.3, 3, 5, cycle_momentum=False)),
        (
            optim.Cyclic(0.1, 0.3, 3, mode="triangular2"),
            lambda o: S.CyclicLR(o, 0.1, 0.3, 3, mode="triangular2", cycle_momentum=False),
        ),
        (
            optim.Cyclic(0.1, 0.3, 3, mode="exp_range", gamma=0.9),
            lambda o: S.CyclicLR(o, 0.1, 0.3, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
        ),
    ],
)
def test_rates_of_torch(schedule: Any, kind: Any):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    scheduler = kind(optimizer)
    for step in range(30):
        wanted = optimizer.param_groups[0]["lr"]
        assert schedule(step) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        assert float(schedule(place(step))) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        scheduler.step()


def test_inverse_square_root():
    schedule = optim.InverseSqrt(0.5, 4)
    assert [schedule(n) for n in (0, 2, 4, 16)] == [0, 0.25, 0.5, 0.25]
    assert [float(schedule(place(n))) for n in (0, 2, 4, 16)] == [0, 0.25, 0.5, 0.25]


LOSSES = [3.0, 2.0, 2.1, 2.0, 1.99, 2.5, 2.5, 2.5, 2.5, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 1, "mode": "max", "factor": 0.5},
        {"patience": 0, "cooldown": 2, "min_lr": 0.01},
        {"patience": 2, "threshold": 0.05, "threshold_mode": "abs"},
    ],
)
def test_plateaus_of_torch(options: dict[str, Any]):
    plateau = optim.ReduceLROnPlateau(0.3, **options)
    state = plateau.init()
    update = pn.jit(plateau.update)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    scheduler = S.ReduceLROnPlateau(optimizer, **options)
    for loss in LOSSES:
        state = update(state, pn.asarray(loss, dtype=pn.float64))
        scheduler.step(loss)
        assert float(state.lr) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert update.cache_info().misses == 1


# --- averages ---------------------------------------------------------------------------------------------


# torch's plain mean stumbles over the integer among the buffers
@pytest.mark.parametrize(("decay", "buffers"), [(0.9, False), (0.9, True), (None, False)])
def test_averages_of_torch(decay: float | None, buffers: bool):
    swa: Any = pytest.importorskip("torch.optim.swa_utils")
    theirs = torch.nn.BatchNorm1d(3, dtype=torch.float64)
    multi = swa.get_swa_multi_avg_fn() if decay is None else swa.get_ema_multi_avg_fn(decay)
    reference = swa.AveragedModel(theirs, multi_avg_fn=multi, use_buffers=buffers)
    ours: Any = nn.BatchNorm1d(3, dtype=pn.float64)
    kind: Any = optim.SWA(buffers) if decay is None else optim.EMA(decay, use_buffers=buffers)
    average: Any = None
    for step in range(4):
        with torch.no_grad():
            theirs.weight += float(step) + 0.5
            theirs.running_mean += float(step) - 0.25
        ours.load_state_dict(theirs.state_dict())
        reference.update_parameters(theirs)
        average = kind.init(ours) if average is None else pn.jit(kind.update)(average, ours)
    found, wanted = average.value, reference.module
    np.testing.assert_allclose(np.asarray(found.weight), wanted.weight.detach().numpy(), rtol=1e-12)
    # torch leaves buffers as they were at the start unless they are averaged; here they are the last ones
    expected = wanted.running_mean if buffers else theirs.running_mean
    np.testing.assert_allclose(np.asarray(found.running_mean), expected.numpy(), rtol=1e-12)
    assert int(average.step) == 4


def test_an_average_warms_up_and_keeps_its_dtype():
    ema = optim.EMA(0.999, warmup=True)
    average = ema.init({"x": pn.zeros(2, dtype=pn.bfloat16)})
    average = ema.update(average, {"x": pn.ones(2, dtype=pn.bfloat16)})
    assert average.value["x"].dtype is pn.bfloat16
    assert float(average.value["x"][0]) == pytest.approx(1 - 2 / 11, rel=1e-2)


# --- groups and accumulation ------------------------------------------------------------------------------


def test_groups_are_torchs_parameter_groups():
    params = {"weight": pn.asarray(START[0]), "bias": pn.asarray(START[1]), "frozen": pn.asarray(START[2])}
    optimizer = optim.Groups(
        [
            (lambda path, p: "bias" in path, optim.SGD(0.1, 0.9)),
            (lambda path, p: "frozen" in path, None),
        ],
        default=optim.AdamW(0.05),
    )
    state = optimizer.init(params)
    step = pn.jit(optimizer.update)
    for number in range(STEPS):
        grads = {
            name: pn.asarray(gradients(number)[n]) for n, name in enumerate(("weight", "bias", "frozen"))
        }
        params, state = step(params, grads, state)
    assert step.cache_info().misses == 1
    weight = theirs(T.AdamW, START[:1], lr=0.05)[0]
    np.testing.assert_allclose(np.asarray(params["weight"]), weight, rtol=1e-11)
    start = [torch.tensor(START[1], requires_grad=True)]
    reference = T.SGD(start, lr=0.1, momentum=0.9)
    for number in range(STEPS):
        start[0].grad = torch.tensor(gradients(number)[1])
        reference.step()
    np.testing.assert_allclose(np.asarray(params["bias"]), start[0].detach().numpy(), rtol=1e-11)
    assert np.array_equal(np.asarray(params["frozen"]), START[2])


@pytest.mark.parametrize("compiled", [False, True])
def test_accumulated_gradients_are_one_of_their_mean(compiled: bool):
    params = {"a": pn.asarray(START[0]), "n": pn.asarray(3), "b": pn.asarray(START[1])}
    optimizer = optim.Accumulate(optim.Adam(0.1), 3)
    state = optimizer.init(params)
    plain = optim.Adam(0.1)
    wanted, other = params, plain.init(params)
    step: Any = pn.jit(optimizer.update) if compiled else optimizer.update
    for number in range(6):
        first, second, *_ = map(pn.asarray, gradients(number))
        grads = {"a": first, "n": None, "b": second}
        params, state = step(params, grads, state)
        if number % 3 == 2:
            mean = tree.map_tree(
                lambda *all: sum(all[1:], all[0]) / 3.0,
                *[
                    {"a": pn.asarray(g[0]), "b": pn.asarray(g[1])}
                    for g in map(gradients, range(number - 2, number + 1))
                ],
            )
            wanted, other = plain.update(wanted, {**mean, "n": None}, other)
        for name in ("a", "b", "n"):
            np.testing.assert_allclose(np.asarray(params[name]), np.asarray(wanted[name]), rtol=1e-11)


# --- loss scaling -----------------------------------------------------------------------------------------


def test_scales_of_torch():
    scaling = optim.LossScale(1024.0, growth_interval=2)
    scale = scaling.init()
    reference = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    param = torch.tensor(START[0], requires_grad=True)
    sgd = T.SGD([param], lr=0.1, momentum=0.9)
    optimizer = optim.SGD(0.1, 0.9)
    params = [pn.asarray(START[0])]
    state = optimizer.init(params)
    update = pn.jit(lambda *given: scaling.update(optimizer, *given))
    for number, factor in enumerate([1.0, 1.0, np.inf, 1.0, np.nan, 1.0, 1.0]):
        gradient = gradients(number)[0] * factor
        sgd.zero_grad()
        reference.scale((param * torch.tensor(gradient)).sum()).backward()
        reference.step(sgd)
        reference.update()
        params, state, scale = update(params, [pn.asarray(gradient) * scale.scale], state, scale)
        assert float(scale.scale) == reference.get_scale()
        np.testing.assert_allclose(np.asarray(params[0]), param.detach().numpy(), rtol=1e-11)
    assert int(scale.skipped) == 2
    assert int(state.step) == 5


def test_scaling_saves_gradients_that_float16_does_not_hold():
    x = pn.asarray(1e-5, dtype=pn.float32)
    scaling = optim.LossScale(1024.0)
    scale = scaling.init()

    def loss(x: pn.Tensor) -> pn.Tensor:
        return pn.square(x.astype(pn.float16) * 1e-3)

    lost = pn.grad(lambda x: loss(x).astype(pn.float32))(x)
    kept = pn.grad(lambda x: scaling.scaled(loss(x), scale))(pn.asarray(0.01))
    assert float(lost) == 0
    slope, finite = scaling.unscaled([kept], scale)
    assert bool(finite)
    assert float(slope[0]) == pytest.approx(2e-8, rel=0.3)


def test_mistakes():
    listed: Any = [pn.ones(1)]
    for call, complaint in [
        (lambda: optim.LossScale(growth_factor=0.5), "both grow and shrink"),
        (lambda: optim.Accumulate(optim.SGD(), 0), "every is 0"),
        (lambda: optim.EMA(1.5), "decay is 1.5"),
        (
            lambda: optim.EMA().update(optim.EMA().init(listed), (pn.ones(1),)),
            "not a tree like the one",
        ),
        (lambda: optim.ReduceLROnPlateau(0.1, "least"), "no mode 'least'"),
        (lambda: optim.Rprop(etas=(2.0, 3.0)), "below and one above 1"),
        (lambda: optim.Cyclic(0.1, 0.2, mode="round"), "no mode 'round'"),
        (lambda: optim.LBFGS(line_search="exact"), "no line search 'exact'"),
        (
            lambda: optim.LBFGS().minimize(pn.sum, [pn.ones(1), pn.ones(1, dtype=pn.float64)]),
            "float32, float64",
        ),
        (lambda: optim.LBFGS().minimize(pn.sum, [pn.asarray(1)]), "none, which make no one vector"),
    ]:
        with pytest.raises(PlanishError, match=complaint):
            call()
