"""Modules as trees: names, state, modes, what may change where, and how they go through transforms."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import io, nn
from planish.errors import DTypeError, GraphError, ShapeError
from planish.frontend import tree
from planish.frontend.jit import jit
from planish.frontend.transforms import grad, value_and_grad, vmap


class Block(nn.Module):
    seen: pn.Tensor

    def __init__(self, key: Any) -> None:
        self.norm = nn.BatchNorm1d(3)
        self.parts = [nn.Linear(3, 3, key=key), nn.Linear(3, 3, False, key=key)]
        self.scale = pn.ones(())
        self.register_buffer("seen", pn.zeros((), dtype=pn.int64))
        self.register_buffer("scratch", pn.zeros(2), persistent=False)
        self.sizes = [1, 2]
        self.name = "block"

    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        self.seen = self.seen + 1
        for part in self.parts:
            x = nn.relu(part(x))
        return self.norm(x) * self.scale


def module() -> Block:
    return Block(pn.random.key(0))


def test_names_are_those_of_torch():
    model = module()
    assert list(model.parameters()) == [
        "scale", "norm.weight", "norm.bias", "parts.0.weight", "parts.0.bias", "parts.1.weight",
    ]  # fmt: skip
    assert list(model.buffers()) == [
        "seen",
        "scratch",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert "scratch" not in model.state_dict()
    assert list(model.modules()) == ["", "norm", "parts.0", "parts.1"]


def test_a_module_is_a_tree():
    model = module()
    leaves, structure = tree.flatten(model)
    assert len(leaves) == 11
    assert tree.flatten(module())[1] == structure
    rebuilt = tree.unflatten(structure, leaves)
    assert isinstance(rebuilt, Block)
    assert rebuilt is not model
    assert rebuilt.name == "block"
    assert rebuilt.norm.training
    assert tree.flatten(rebuilt)[1] == structure
    other = tree.map_tree(lambda x: x.shape, model)
    assert tree.flatten(model.eval())[1] != structure
    assert other.scale == ()
    model.sizes.append(3)
    assert tree.flatten(model.train())[1] != structure


def test_hyperparameters_tell_structures_apart():
    kinds = [nn.Dropout(0), nn.Dropout(0.0), nn.Dropout(False), nn.Dropout(0.5)]
    assert len({tree.flatten(kind)[1] for kind in kinds}) == 4


def test_attributes_that_cannot_be_compared_are_refused():
    model = module()
    model.data = np.zeros(3)
    with pytest.raises(DTypeError, match=r"Block\.data is a ndarray.*make it a tensor"):
        tree.flatten(model)


def test_parameters_and_buffers_are_told_apart():
    model = module()
    learnt, kept = nn.partition(model)
    assert len(tree.leaves(learnt)) == 6
    assert len(tree.leaves(kept)) == 5
    whole = nn.combine(learnt, kept)
    assert tree.flatten(whole)[1] == tree.flatten(model)[1]
    assert all(a is b for a, b in zip(tree.leaves(whole), tree.leaves(model), strict=True))
    assert sum(nn.parameter_mask(tree.flatten((model, {"a": pn.ones(1)}))[1])) == 7


def test_state_goes_through_files(tmp_path: Path):
    model = module()
    model(pn.ones((4, 3)))
    io.save(tmp_path / "m.safetensors", model.state_dict())
    other = Block(pn.random.key(1)).load_state_dict(io.load(tmp_path / "m.safetensors"))
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(model.state_dict()[name]))
    assert int(np.asarray(other.state_dict()["seen"])) == 1


def test_loading_checks_names_shapes_and_changes_nothing_on_error():
    model = nn.Linear(3, 2, key=0)
    good = {"weight": np.ones((2, 3)), "bias": np.zeros(2)}
    before = np.asarray(model.weight).copy()
    with pytest.raises(ShapeError, match=r"missing bias; unexpected bais.*did you mean 'bias'"):
        model.load_state_dict({"weight": good["weight"], "bais": good["bias"]})
    with pytest.raises(ShapeError, match=r"bias is \(2,\) in the module, and \(3,\)"):
        model.load_state_dict({"weight": good["weight"], "bias": np.zeros(3)})
    np.testing.assert_array_equal(np.asarray(model.weight), before)
    model.load_state_dict({"weight": good["weight"], "more": 1}, strict=False)
    assert model.weight.dtype is pn.float32
    assert np.asarray(model.weight).tolist() == [[1] * 3] * 2
    with pytest.raises(ShapeError, match=r"missing .* and 6 more"):
        nn.Sequential(*[nn.LayerNorm(2) for _ in range(6)]).load_state_dict({"0.weight": np.ones(2)})


def test_modes_reach_all_modules():
    model = nn.Sequential(
        nn.Dropout(), nn.ModuleList([nn.Dropout()]), nn.ModuleDict({"a": nn.BatchNorm1d(2)})
    )
    assert model.eval() is model
    assert not any(part.training for part in model.modules().values())
    assert all(part.training for part in model.train().modules().values())


def test_containers():
    layers: list[Any] = [nn.Linear(2, 3, key=0), nn.relu, nn.Linear(3, 1, key=1)]
    model = nn.Sequential(*layers)
    assert len(model) == 3
    assert model[1] is nn.relu
    assert [type(layer).__name__ for layer in model[::2]] == ["Linear", "Linear"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert model(pn.ones((4, 2))).shape == (4, 1)
    several = nn.ModuleList([nn.Identity()]).append(nn.Tanh())
    assert [type(one).__name__ for one in several] == ["Identity", "Tanh"]
    named = nn.ModuleDict({"one": nn.Linear(1, 1, key=0)})
    named["two"] = nn.Identity()
    assert named.keys() == ["one", "two"]
    assert "two" in named
    assert len(named) == 2
    assert list(named) == ["one", "two"]
    assert list(named.state_dict()) == ["one.weight", "one.bias"]
    assert isinstance(named["two"], nn.Identity)
    assert [name for name, _ in named.items()] == ["one", "two"]
    assert len(named.values()) == 2


def test_dropout_takes_a_key_and_keeps_the_mean():
    model = nn.Sequential(nn.Dropout(0.25), nn.Identity(), nn.Dropout2d(0.5))
    assert model.takes_key
    assert not nn.Sequential(nn.Identity()).takes_key
    x = pn.ones((20, 30, 8, 8))
    found = np.asarray(model(x, key=pn.random.key(0)))
    assert abs(found.mean() - 1) < 0.1
    channels = (found == 0).all((2, 3)).mean()
    assert 0.4 < channels < 0.6
    np.testing.assert_array_equal(found, np.asarray(model(x, key=pn.random.key(0))))
    with pytest.raises(GraphError, match=r"needs a random key.*eval\(\)"):
        model(x)
    np.testing.assert_array_equal(np.asarray(model.eval()(x)), np.asarray(x))
    assert float(pn.sum(nn.dropout(x, 1.0, key=pn.random.key(0)))) == 0
    with pytest.raises(pn.PlanishError, match="not a probability"):
        nn.dropout(x, 1.5)


def test_a_compiled_step_gives_back_what_changed():
    model = module()
    x = pn.asarray(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))

    def loss(model: Block, x: pn.Tensor) -> tuple[pn.Tensor, Block]:
        return pn.sum(model(x) ** 2), model

    @jit
    def step(model: Block, x: pn.Tensor) -> tuple[pn.Tensor, Block, Block]:
        (value, model), gradient = value_and_grad(loss, has_aux=True)(model, x)
        return value, model, gradient

    value, new, gradient = step(model, x)
    assert int(np.asarray(new.seen)) == 1
    assert int(np.asarray(model.seen)) == 0
    assert gradient.seen is None
    assert gradient.norm.num_batches_tracked is None
    eager = module()
    expected = pn.sum(eager(x) ** 2)
    np.testing.assert_allclose(float(value), float(expected), rtol=1e-5)
    np.testing.assert_allclose(
        np.asarray(new.norm.running_mean), np.asarray(eager.norm.running_mean), rtol=1e-4, atol=1e-7
    )
    _, newer, _ = step(new, x)
    assert int(np.asarray(newer.seen)) == 2
    assert step.cache_info().misses == 1
    step(newer.eval(), x)
    assert step.cache_info().misses == 2


def test_changing_a_module_from_outside_in_a_trace_is_told():
    model = module()
    with pytest.raises(GraphError, match=r"Block\.seen is set while grad traces.*argument"):
        grad(lambda x: pn.sum(model(x)))(pn.ones((4, 3)))
    assert int(np.asarray(model.seen)) == 0


def test_an_ensemble_by_vmap():
    models = [nn.Linear(3, 2, key=seed) for seed in range(4)]
    stacked = tree.map_tree(lambda *leaves: pn.stack(leaves), models[0], *models[1:])
    x = pn.asarray(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    found = vmap(lambda model: model(x))(stacked)
    expected = np.stack([np.asarray(model(x)) for model in models])
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


def test_copies_and_pickles():
    model = module()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert tree.flatten(other)[1] == tree.flatten(model)[1]
        other.seen = other.seen + 1
        assert int(np.asarray(model.seen)) == 0
    wide = model.astype(pn.float64)
    assert wide.scale.dtype is pn.float64
    assert wide.seen.dtype is pn.int64
    assert model.scale.dtype is pn.float32


def test_repr():
    assert repr(nn.Linear(2, 3, key=0)) == "Linear(in_features=2, out_features=3)"
    shown = repr(nn.Sequential(nn.Linear(2, 3, key=0), nn.ModuleList([nn.Tanh()])))
    assert shown == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3)\n  (1): ModuleList(\n    (0): Tanh()\n  )\n)"
    )


def test_a_module_without_a_call_says_so():
    class Empty(nn.Module):
        pass

    with pytest.raises(pn.PlanishError, match="Empty does not define __call__"):
        Empty()(1)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.Linear(3, 2, key=0)(pn.ones((4, 5))), r"input \(4, 5\) does not fit the weight \(2, 3\)"),
        (
            lambda: nn.Linear(3, 2, key=0)(pn.ones(3, dtype=pn.float64)),
            "input is float64, a parameter float32",
        ),
        (lambda: nn.Conv2d(3, 4, 3, groups=2, key=0), "3 and 4 channels do not make 2 groups"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror", key=0), "no padding_mode 'mirror'"),
        (lambda: nn.Conv2d(3, 4, 3, 2, "same", key=0), "same.*strides"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3), key=0), "3 numbers for 2 spatial axes"),
        (lambda: nn.Conv2d(3, 4, 3, key=0)(pn.ones((2, 2, 5, 5))), r"\(4, 3, 3, 3\).*\(2, 2, 5, 5\)"),
        (lambda: nn.Conv2d(3, 4, 3, key=0)(pn.ones((2, 3, 2, 5))), "a window of 3 does not fit axis 2"),
        (lambda: nn.Conv2d(3, 4, 3, key=0)(pn.ones((2, 3))), "has 2 axes"),
        (
            lambda: nn.ConvTranspose2d(3, 4, 3, output_padding=1, key=0)(pn.ones((1, 3, 4, 4))),
            "output_padding",
        ),
        (lambda: nn.MaxPool2d(3, padding=2)(pn.ones((1, 1, 5, 5))), "more than half"),
        (lambda: nn.LayerNorm(4)(pn.ones((2, 3))), r"\(2, 3\) does not end in \(4,\)"),
        (lambda: nn.GroupNorm(3, 4), "4 channels do not make 3 groups"),
        (lambda: nn.BatchNorm1d(3)(pn.ones((1, 3))), r"one value per channel.*eval\(\)"),
        (lambda: nn.BatchNorm2d(3)(pn.ones((2, 4, 2, 2))), "does not have 3 channels"),
        (lambda: nn.Embedding(3, 4, key=0)(pn.ones(2)), "indices are float32"),
        (lambda: nn.LSTM(3, 4, key=0)(pn.ones((5, 2, 2))), "no sequence of vectors of 3"),
        (lambda: nn.GRU(3, 4, key=0)(pn.ones((5, 2, 3)), pn.ones((1, 3, 4))), r"a state is \(1, 3, 4\), not"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu", key=0), "no nonlinearity 'gelu'"),
        (lambda: nn.MultiHeadAttention(5, 2, key=0), "5 does not split into 2 heads"),
        (lambda: nn.one_hot(pn.ones(2), 3), "float32 is no index"),
        (lambda: nn.interpolate(pn.ones((2, 3))), "no spatial axes"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(pn.PlanishError, match=complaint):
        call()


def test_layers_of_functions_show_and_take_the_functions_settings():
    assert repr(nn.MSELoss(reduction="sum")) == "MSELoss(reduction='sum')"
    assert repr(nn.MaxPool1d([2])).startswith("MaxPool1d(kernel_size=(2,), padding=0")
    with pytest.raises(TypeError, match=r"'aplha'.*ELU\(alpha=1.0\)"):
        nn.ELU(aplha=2.0)
