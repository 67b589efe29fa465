"""Optimisers against torch.optim where it has them, against their papers' formulas where not; trees, dtypes, schedules, kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from planish.errors import PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.jit import jit
from planish.frontend.transforms import value_and_grad
from planish.optim.optimizers import orthogonalized

torch: Any = pytest.importorskip("torch")
SHAPES = [(4, 3), (3,), (2, 3, 2, 2), ()]
STEPS = 5


def gradients(step: int, dtype: Any = np.float64) -> list[Any]:
    generator = np.random.default_rng(100 + step)
    return [generator.normal(size=shape).astype(dtype) for shape in SHAPES]


def place(x: Any) -> pn.Tensor:
    return pn.asarray(np.asarray(x)).to_device("interpreter")


def ours(optimizer: optim.Optimizer, start: list[Any], dtype: Any = np.float64) -> list[Any]:
    params = {f"p{n}": place(x) for n, x in enumerate(start)}
    state = optimizer.init(params)
    state = tree.map_tree(lambda x: x.to_device("interpreter"), state)
    for step in range(STEPS):
        grads = {f"p{n}": place(g) for n, g in enumerate(gradients(step, dtype)[: len(start)])}
        params, state = optimizer.update(params, grads, state)
        pn.realize(*tree.leaves((params, state)))
    assert int(np.asarray(state.step)) == STEPS
    return [np.asarray(params[f"p{n}"]) for n in range(len(start))]


def theirs(kind: Any, start: list[Any], scheduler: Any = None, **options: Any) -> list[Any]:
    params = [torch.tensor(x) for x in start]
    for param in params:
        param.requires_grad_()
    optimizer = kind(params, **options)
    schedule = None if scheduler is None else scheduler(optimizer)
    for step in range(STEPS):
        for param, gradient in zip(params, gradients(step), strict=False):
            param.grad = torch.tensor(gradient).to(param.dtype)
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return [param.detach().numpy() for param in params]


START = [np.random.default_rng(7).normal(size=shape) for shape in SHAPES]
CASES: dict[str, tuple[optim.Optimizer, Any, dict[str, Any]]] = {
    "SGD": (optim.SGD(0.1), torch.optim.SGD, {"lr": 0.1}),
    "SGD momentum": (
        optim.SGD(0.1, 0.9, 0.2, 0.05),
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.05},
    ),
    "SGD nesterov": (
        optim.SGD(0.1, 0.9, nesterov=True),
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ),
    "Adam": (optim.Adam(0.1), torch.optim.Adam, {"lr": 0.1}),
    "Adam decay": (
        optim.Adam(0.1, (0.8, 0.95), 1e-3, 0.1, True),
        torch.optim.Adam,
        {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True},
    ),
    "Adam no memory": (optim.Adam(0.1, (0.0, 0.9)), torch.optim.Adam, {"lr": 0.1, "betas": (0.0, 0.9)}),
    "AdamW": (optim.AdamW(0.1), torch.optim.AdamW, {"lr": 0.1}),
    "Adagrad": (
        optim.Adagrad(0.1, 0.2, 0.1, 0.3),
        torch.optim.Adagrad,
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
    ),
    "RMSprop": (optim.RMSprop(0.1), torch.optim.RMSprop, {"lr": 0.1}),
    "RMSprop centered": (
        optim.RMSprop(0.1, 0.9, 1e-3, 0.1, 0.8, True),
        torch.optim.RMSprop,
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.8, "centered": True},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_of_torch(name: str):
    optimizer, kind, options = CASES[name]
    for found, wanted in zip(ours(optimizer, START), theirs(kind, START, **options), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_in_float32_the_corrections_stay_exact():
    start = [x.astype(np.float32) for x in START]
    found = ours(optim.AdamW(1e-3), start, np.float32)
    for a, b in zip(found, theirs(torch.optim.AdamW, start, lr=1e-3), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)


def test_lion_by_its_paper():
    p, m = [x.copy() for x in START], [np.zeros_like(x) for x in START]
    for step in range(STEPS):
        for n, g in enumerate(gradients(step)):
            p[n] = p[n] - 0.1 * (np.sign(0.9 * m[n] + 0.1 * g) + 0.2 * p[n])
            m[n] = 0.99 * m[n] + 0.01 * g
    for found, wanted in zip(ours(optim.Lion(0.1, weight_decay=0.2), START), p, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)


def test_lamb_by_its_paper():
    p = [x.copy() for x in START]
    p[1] *= 0
    start = [x.copy() for x in p]
    m, v = ([np.zeros_like(x) for x in START] for _ in range(2))
    for step in range(STEPS):
        for n, g in enumerate(gradients(step)):
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.99 * v[n] + 0.01 * g * g
            r = (
                m[n] / (1 - 0.9 ** (step + 1)) / (np.sqrt(v[n] / (1 - 0.99 ** (step + 1))) + 1e-6)
                + 0.1 * p[n]
            )
            length = np.sqrt(np.sum(p[n] ** 2))
            p[n] = p[n] - 0.05 * (length / np.sqrt(np.sum(r**2)) if length > 0 else 1.0) * r
    optimizer = optim.LAMB(0.05, (0.9, 0.99), weight_decay=0.1)
    for found, wanted in zip(ours(optimizer, start), p, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_muon_by_its_definition_and_adamw_for_the_rest():
    p, m = [START[0].copy(), START[2].copy()], [np.zeros(START[0].shape), np.zeros(START[2].shape)]
    for step in range(STEPS):
        g = [gradients(step)[0], gradients(step)[2]]
        for n in range(2):
            m[n] = 0.95 * m[n] + 0.05 * g[n]
            look = (0.05 * g[n] + 0.95 * m[n]).reshape(g[n].shape[0], -1)
            y = look.T if look.shape[0] > look.shape[1] else look
            y = y / max(float(np.linalg.norm(y)), 1e-7)
            for _ in range(5):
                a = y @ y.T
                y = 3.4445 * y + (-4.775 * a + 2.0315 * a @ a) @ y
            y = y.T if look.shape[0] > look.shape[1] else y
            factor = math.sqrt(max(1, look.shape[0] / look.shape[1]))
            p[n] = p[n] * (1 - 0.02 * 0.1) - 0.02 * factor * y.reshape(p[n].shape)
    found = ours(optim.Muon(0.02, others=optim.AdamW(0.1)), START)
    np.testing.assert_allclose(found[0], p[0], rtol=1e-9)
    np.testing.assert_allclose(found[2], p[1], rtol=1e-9)
    rest = theirs(torch.optim.AdamW, START, lr=0.1)
    np.testing.assert_allclose(found[1], rest[1], rtol=1e-10)
    np.testing.assert_allclose(found[3], rest[3], rtol=1e-10)


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon_is_torchs_up_to_its_bfloat16(adjust: str):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    start = [START[0]]
    found = ours(optim.Muon(0.02, adjust=adjust), start)
    wanted = theirs(torch.optim.Muon, start, lr=0.02, adjust_lr_fn=adjust)
    np.testing.assert_allclose(found[0] - start[0], wanted[0] - start[0], atol=4e-3)


def test_orthogonalized_singular_values_are_near_one():
    x = place(np.random.default_rng(0).normal(size=(20, 8)))
    values = np.linalg.svd(np.asarray(orthogonalized(x, (3.4445, -4.775, 2.0315), 8)), compute_uv=False)
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_which_parameters_decay():
    chosen = optim.AdamW(0.1, weight_decay=0.5, decays=lambda p: p.ndim >= 2)
    found = ours(chosen, START)
    plain, decayed = (theirs(torch.optim.AdamW, START, lr=0.1, weight_decay=w) for w in (0.0, 0.5))
    for n, wanted in enumerate((decayed[0], plain[1], decayed[2], plain[3])):
        np.testing.assert_allclose(found[n], wanted, rtol=1e-10)


def test_narrow_parameters_have_wide_slots():
    params = [pn.ones((3,), dtype=pn.bfloat16)]
    optimizer = optim.Adam(0.1)
    state = optimizer.init(params)
    assert state.slots["mean"][0].dtype is pn.float32
    (new,), state = optimizer.update(params, [pn.ones((3,), dtype=pn.bfloat16)], state)
    assert new.dtype is pn.bfloat16
    assert state.slots["square"][0].dtype is pn.float32
    assert abs(float(new[0]) - 0.9) < 0.01


def test_buffers_integers_and_missing_gradients_stay():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1, key=0))
    optimizer = optim.AdamW(0.1, weight_decay=0.5)
    state = optimizer.init(model)
    assert len(state.slots["mean"]) == 4
    grads = tree.map_tree(lambda x: pn.ones_like(x) if x.dtype.is_float else None, model)
    grads[1].bias = None
    new, state = optimizer.update(model, grads, state)
    assert new[0].running_var is model[0].running_var
    assert new[0].num_batches_tracked is model[0].num_batches_tracked
    assert new[1].bias is model[1].bias
    assert np.asarray(new[1].weight).tolist() != np.asarray(model[1].weight).tolist()
    assert tree.flatten(new)[1] == tree.flatten(model)[1]


def test_a_whole_step_is_few_kernels():
    """One kernel per size of parameter, each writing the parameter and both moments; scalars apart."""
    model = nn.Sequential(*[nn.Linear(8, 8, key=n) for n in range(6)], nn.Linear(8, 3, key=9))
    optimizer = optim.AdamW(optim.Cosine(1e-3, 100))
    state = optimizer.init(model)
    grads = tree.map_tree(pn.ones_like, model)
    step = jit(lambda model, grads, state: optimizer.update(model, grads, state))
    exe = step.lower(model, grads, state).compile()
    parameters = len(model.parameters())
    sizes = len({value.size for value in model.parameters().values()})
    launches = sum(kernel.launches for kernel in exe.kernels)
    assert parameters == 14
    # four sizes: 64, 8, 24, 3; and one or two kernels for the rate and the corrections
    assert len(exe.kernels) <= sizes + 2
    assert launches <= parameters + 2


def test_training_a_line():
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2], [3]], np.float32) + 0.5
    model = nn.Linear(3, 1, key=0)
    optimizer = optim.Adam(0.1)

    @jit
    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = value_and_grad(lambda m: nn.mse_loss(m(x), y))(model)
        grads, _ = optim.clip_by_norm(grads, 1.0)
        return loss, *optimizer.update(model, grads, state)

    state = optimizer.init(model)
    loss: Any = None
    for _ in range(150):
        loss, model, state = step(model, state, pn.asarray(x), pn.asarray(y))
    assert float(loss) < 1e-3
    assert step.cache_info().misses == 1
    np.testing.assert_allclose(np.asarray(model.weight), [[1, -2, 3]], atol=0.05)


# --- clipping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clipping_by_norm(p: float, limit: float):
    arrays = gradients(0)
    reference = [torch.zeros(x.shape, dtype=torch.float64, requires_grad=True) for x in arrays]
    for parameter, x in zip(reference, arrays, strict=True):
        parameter.grad = torch.tensor(x)
    length = torch.nn.utils.clip_grad_norm_(reference, limit, p)
    clipped, found = optim.clip_by_norm([place(x) for x in arrays], limit, p)
    np.testing.assert_allclose(float(found), float(length), rtol=1e-12)
    for a, b in zip(clipped, reference, strict=True):
        np.testing.assert_allclose(np.asarray(a), b.grad.numpy(), rtol=1e-12)


def test_clipping_by_value():
    grads = {"a": place([-3.0, 0.5, 3.0]), "n": None, "i": place([7])}
    clipped = optim.clip_by_value(grads, 1.0)
    assert np.asarray(clipped["a"]).tolist() == [-1, 0.5, 1]
    assert np.asarray(clipped["i"]).tolist() == [7]
    assert float(optim.global_norm({})) == 0


# --- schedules --------------------------------------------------------------------------------------------

S = torch.optim.lr_scheduler
SCHEDULES: dict[str, tuple[Any, Any]] = {
    "Constant": (optim.Constant(0.3), lambda o: S.ConstantLR(o, 1.0, 1)),
    "LinearWarmup": (optim.LinearWarmup(0.3, 7, 0.25), lambda o: S.LinearLR(o, 0.25, 1.0, 7)),
    "Cosine": (optim.Cosine(0.3, 20, 0.05), lambda o: S.CosineAnnealingLR(o, 20, 0.05)),
    "Step": (optim.Step(0.3, 6, 0.5), lambda o: S.StepLR(o, 6, 0.5)),
    "MultiStep": (optim.MultiStep(0.3, (9, 4), 0.5), lambda o: S.MultiStepLR(o, [4, 9], 0.5)),
    "Exponential": (optim.Exponential(0.3, 0.9), lambda o: S.ExponentialLR(o, 0.9)),
    "Polynomial": (optim.Polynomial(0.3, 15, 2.0), lambda o: S.PolynomialLR(o, 15, 2.0)),
    "OneCycle": (optim.OneCycle(0.3, 20), lambda o: S.OneCycleLR(o, 0.3, 20)),
    "OneCycle linear": (
        optim.OneCycle(0.3, 20, 0.4, "linear", 10.0, 100.0),
        lambda o: S.OneCycleLR(
            o, 0.3, 20, pct_start=0.4, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call")
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_of_torch(name: str):
    schedule, kind = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    scheduler = kind(optimizer)
    for step in range(20):
        wanted = optimizer.param_groups[0]["lr"]
        assert schedule(step) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        assert float(schedule(place(step))) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        scheduler.step()


def test_joined_rates():
    whole = optim.WarmupCosine(0.3, 5, 25, 0.01)
    parts = optim.Join([optim.LinearWarmup(0.3, 5), optim.Cosine(0.3, 20, 0.01)], [5])
    for step in range(30):
        assert whole(step) == pytest.approx(parts(step))
        assert float(parts(place(step))) == pytest.approx(whole(step))
    assert whole(0) == 0
    assert whole(5) == 0.3
    assert whole(29) == pytest.approx(0.01)


def test_an_optimiser_follows_its_schedule():
    found = ours(optim.SGD(optim.Step(0.3, 2, 0.5)), START)
    wanted = theirs(torch.optim.SGD, START, lambda o: S.StepLR(o, 2, 0.5), lr=0.3)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# --- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: optim.SGD(-1.0), "lr is -1.0, and has to be at least 0"),
        (lambda: optim.Adam(betas=(0.9, 1.0)), "a beta is 1.0"),
        (lambda: optim.SGD(nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.Muon(adjust="none"), "no way 'none' to adjust"),
        (lambda: optim.Cosine(0.1, 0), "steps is 0"),
        (lambda: optim.OneCycle(0.1, 10, anneal="exp"), "no way 'exp'"),
        (lambda: optim.Join([optim.Constant(1.0)], [3]), "1 schedules have 0 boundaries, not 1"),
        (lambda: optim.clip_by_norm([], -1.0), "max_norm is -1.0"),
    ],
)
def test_bad_options(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint.replace(".", r"\.")) as caught:
        call()
    assert caught.value.location is None or caught.value.location.file == __file__


def test_bad_trees():
    optimizer = optim.Adam()
    params = {"a": pn.ones(2), "b": pn.ones(3)}
    state = optimizer.init(params)
    with pytest.raises(PlanishError, match="not a tree like the parameters"):
        optimizer.update(params, {"a": pn.ones(2)}, state)
    with pytest.raises(ShapeError, match=r"gradient of a parameter \(2,\) is \(3,\)"):
        optimizer.update(params, {"a": pn.ones(3), "b": pn.ones(3)}, state)
    with pytest.raises(PlanishError, match="has 1 × mean for 2 parameters"):
        optimizer.update(params, params, optimizer.init({"a": pn.ones(2)}))
