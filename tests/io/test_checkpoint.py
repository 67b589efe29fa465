"""Checkpoints of trees: every leaf comes back bit by bit, a save is there as a whole or not at all, and what does not fit is listed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from planish.errors import PlanishError
from planish.io import CheckpointError, FileFormatError


def model(key: int = 0) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4, key=key), nn.BatchNorm1d(4), nn.Linear(4, 2, key=key + 1))


OPTIMIZER = optim.AdamW(optim.WarmupCosine(1e-2, 2, 20))


@pn.jit
def step(net: Any, state: optim.State, x: pn.Tensor) -> Any:
    def loss(net: Any) -> Any:
        return pn.mean(pn.square(net(x))), net

    (value, net), slope = pn.value_and_grad(loss, has_aux=True)(net)
    net, state = OPTIMIZER.update(net, slope, state)
    return net, state, value


def run(net: Any, state: optim.State, key: pn.Tensor, first: int, last: int) -> tuple[Any, optim.State]:
    for number in range(first, last):
        net, state, _ = step(net, state, pn.random.normal(pn.random.fold_in(key, number), (5, 3)))
    return net, state


def same(a: Any, b: Any) -> None:
    first, second = pn.tree.flatten(a), pn.tree.flatten(b)
    assert first[1] == second[1]
    for x, y in zip(first[0], second[0], strict=True):
        assert type(x) is type(y)
        if isinstance(x, pn.Tensor):
            assert x.dtype is y.dtype
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        elif isinstance(x, np.ndarray):
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes()
        else:
            assert x == y


@pytest.mark.parametrize("where", ["run", "run.safetensors", "run.npz"])
def test_a_resumed_run_is_the_run_that_was_never_stopped(tmp_path: Path, where: str):
    key = pn.random.key(7)
    net = model()
    start: dict[str, Any] = {"model": net, "state": OPTIMIZER.init(net), "key": key, "step": 0}
    whole = run(start["model"], start["state"], key, 0, 6)

    half = run(start["model"], start["state"], key, 0, 3)
    pn.io.save_checkpoint(tmp_path / where, {"model": half[0], "state": half[1], "key": key, "step": 3})
    other = model(5)
    like: dict[str, Any] = {
        "model": other,
        "state": OPTIMIZER.init(other),
        "key": pn.random.key(0),
        "step": 0,
    }
    found = pn.io.load_checkpoint(tmp_path / where, like)
    assert found["step"] == 3
    same(run(found["model"], found["state"], found["key"], found["step"], 6), whole)


TREE = {
    "tensors": [
        pn.asarray([1.5, np.inf], dtype=pn.bfloat16),
        pn.ones((0, 3), dtype=pn.int8),
        pn.asarray(True),
    ],
    "pair": (np.arange(3, dtype=np.int16), 2, -1.25, "text", None),
    "deep": {"a": {}, "b": [], "flag": True, "large": 1 << 100},
    3: {"x": pn.asarray(2.0 + 1j, dtype=pn.complex64)},
}


@pytest.mark.parametrize("shard", [1, 1 << 30])
def test_every_kind_of_leaf_comes_back(tmp_path: Path, shard: int):
    folder = pn.io.save_checkpoint(tmp_path / "run", TREE, shard_bytes=shard)
    assert len(list(folder.glob("tensors-*"))) == (4 if shard == 1 else 1)  # an empty tensor takes no room
    same(pn.io.load_checkpoint(folder), TREE)
    same(pn.io.load_checkpoint(folder, TREE), TREE)


def test_without_a_tree_modules_and_states_are_dicts(tmp_path: Path):
    net = model()
    pn.io.save_checkpoint(tmp_path / "a", {"model": net, "state": OPTIMIZER.init(net)})
    found: Any = pn.io.load_checkpoint(tmp_path / "a")
    assert found["model"]["0"]["weight"].shape == (4, 3)
    assert found["state"]["slots"]["mean"][0].shape == (4, 3)
    assert found["state"]["step"].item() == 0


def test_a_module_alone_has_the_names_of_its_state_dict(tmp_path: Path):
    net = model()
    pn.io.save_checkpoint(tmp_path / "net.safetensors", net)
    assert set(pn.io.load(tmp_path / "net.safetensors")) == set(net.state_dict())
    same(model(9).load_state_dict(pn.io.load(tmp_path / "net.safetensors")), net)
    pn.io.save(tmp_path / "plain.safetensors", net.state_dict())
    same(pn.io.load_checkpoint(tmp_path / "plain.safetensors", model(9)), net)


@pytest.mark.parametrize("suffix", ["pt", "pth"])
def test_what_torch_saved_loads_into_a_tree(tmp_path: Path, suffix: str):
    torch: Any = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    path = tmp_path / f"net.{suffix}"
    torch.save({"model": theirs.state_dict(), "epoch": 4, "rates": [0.1, 0.2]}, path)
    found: Any = pn.io.load_checkpoint(path, {"model": model(), "epoch": 0, "rates": [0.0, 0.0]})
    assert found["epoch"] == 4
    assert found["rates"] == [0.1, 0.2]
    for name, value in found["model"].state_dict().items():
        assert np.array_equal(np.asarray(value), theirs.state_dict()[name].numpy()), name


def test_steps_are_kept_and_old_ones_go(tmp_path: Path):
    for number in (1, 5, 20, 100):
        pn.io.save_checkpoint(tmp_path, {"x": pn.full((), number)}, step=number, keep=2)
    assert pn.io.checkpoints(tmp_path) == [20, 100]
    assert sorted(child.name for child in tmp_path.iterdir()) == ["step-0000000020", "step-0000000100"]
    found: Any = pn.io.load_checkpoint(tmp_path)
    assert found["x"].item() == 100
    found = pn.io.load_checkpoint(tmp_path, step=20)
    assert found["x"].item() == 20
    with pytest.raises(PlanishError, match=r"has no step 5; .*there are steps 20, 100"):
        pn.io.load_checkpoint(tmp_path, step=5)
    with pytest.raises(PlanishError, match="has no checkpoint"):
        pn.io.load_checkpoint(tmp_path / "nowhere")
    assert pn.io.checkpoints(tmp_path / "nowhere") == []


def test_tensors_of_a_checkpoint_outlive_it(tmp_path: Path):
    pn.io.save_checkpoint(tmp_path, {"x": pn.arange(4)}, step=1)
    found: Any = pn.io.load_checkpoint(tmp_path)
    pn.io.save_checkpoint(tmp_path, {"x": pn.zeros(4)}, step=1)
    pn.io.save_checkpoint(tmp_path, {"x": pn.zeros(4)}, step=2, keep=1)
    assert found["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("stop", ["before the tensors", "before the index"])
def test_an_interrupted_save_leaves_the_old_checkpoint(
    tmp_path: Path, stop: str, monkeypatch: pytest.MonkeyPatch
):
    from planish.io import checkpoint

    pn.io.save_checkpoint(tmp_path, {"x": pn.asarray(1)}, step=1)

    def fails(*args: object) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_safetensors" if stop == "before the tensors" else "replaced", fails)
        for number in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                pn.io.save_checkpoint(tmp_path, {"x": pn.asarray(2)}, step=number)
    assert pn.io.checkpoints(tmp_path) == [1]
    found: Any = pn.io.load_checkpoint(tmp_path)
    assert found["x"].item() == 1
    pn.io.save_checkpoint(tmp_path, {"x": pn.asarray(3)}, step=3, keep=1)
    assert [child.name for child in tmp_path.iterdir()] == ["step-0000000003"]
    assert len(list((tmp_path / "step-0000000003").iterdir())) == 2


def test_what_does_not_fit_is_listed(tmp_path: Path):
    path = pn.io.save_checkpoint(tmp_path / "a", {"weigth": pn.ones(3), "bias": pn.ones(2), "old": 1, "n": 2})
    with pytest.raises(CheckpointError) as caught:
        pn.io.load_checkpoint(path, {"weight": pn.ones(3), "bias": pn.ones(5), "n": pn.ones(2)})
    error = caught.value
    assert error.missing == ["weight"]
    assert error.unexpected == ["old", "weigth"]
    assert error.mismatched == [
        "bias ([5] in the tree, [2] in the checkpoint)",
        "n ([2] in the tree, the int 2 in the checkpoint)",
    ]
    assert "missing weight; unexpected old, weigth; mismatched bias" in str(error)
    assert "'weigth' may be 'weight'" in str(error)
    assert __file__ in str(error)
    assert pickle.loads(pickle.dumps(error)).missing == ["weight"]
    part = pn.io.load_checkpoint(path, {"bias": pn.zeros(2), "new": pn.zeros(1)}, strict=False)
    assert part["bias"].tolist() == [1, 1]
    assert part["new"].tolist() == [0]
    with pytest.raises(CheckpointError, match="mismatched bias"):
        pn.io.load_checkpoint(path, {"bias": pn.zeros(5)}, strict=False)


def test_floats_take_the_width_of_the_tree_and_integers_must_agree(tmp_path: Path):
    path = pn.io.save_checkpoint(tmp_path / "a", {"x": pn.asarray([1.5, 2.5])})
    assert pn.io.load_checkpoint(path, {"x": pn.zeros(2, dtype=pn.float64)})["x"].dtype is pn.float64
    with pytest.raises(CheckpointError, match="int32 in the tree, float32 in the checkpoint"):
        pn.io.load_checkpoint(path, {"x": pn.zeros(2, dtype=pn.int32)})


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda at: pn.io.save_checkpoint(at, {"f": print}), "f is a builtin_function_or_method"),
        (lambda at: pn.io.save_checkpoint(at, {"a.b": 1, "a": {"b": 2}}), "both be called 'a.b'"),
        (lambda at: pn.io.save_checkpoint(at, {}, keep=2), "keep=2 with step=None"),
        (lambda at: pn.io.save_checkpoint(at, {}, step=-1), "the step -1 is negative"),
        (lambda at: pn.io.save_checkpoint(at, {}, format="pt"), "no format 'pt'"),
        (lambda at: pn.io.save_checkpoint(f"{at}.npz", {}, step=1), "has no steps"),
    ],
)
def test_mistakes(tmp_path: Path, call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call(tmp_path / "here")
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda c: c.update(version=9), "version 9"),
        (lambda c: c.pop("tree"), "no index"),
        (lambda c: c["files"].update(x="../secret.safetensors"), "files that are not of a checkpoint"),
        (lambda c: c["files"].update(y=c["files"]["x"]), "'y', which the index has here, is missing"),
        (lambda c: c["values"].update(n=[1]), "neither numbers nor texts"),
        (lambda c: c.update(tree={"leaf": "nothing"}), "does not fit its tensors"),
        (lambda c: c.update(tree={"strange": 1}), "describes no container"),
    ],
)
def test_a_forged_index_is_refused(tmp_path: Path, change: Any, complaint: str):
    folder = pn.io.save_checkpoint(tmp_path / "a", {"x": pn.ones(2), "n": 1})
    content = json.loads((folder / "index.json").read_text())
    change(content)
    (folder / "index.json").write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=complaint):
        pn.io.load_checkpoint(folder)


def test_a_cut_index_or_file_is_refused(tmp_path: Path):
    folder = pn.io.save_checkpoint(tmp_path / "a", {"x": pn.ones(2)})
    text = (folder / "index.json").read_bytes()
    (folder / "index.json").write_bytes(text[:-5])
    with pytest.raises(FileFormatError, match="not JSON"):
        pn.io.load_checkpoint(folder)
    (folder / "index.json").write_bytes(text)
    next(folder.glob("tensors-*")).unlink()
    with pytest.raises(FileFormatError, match="which holds 'x', is missing"):
        pn.io.load_checkpoint(folder)


def test_a_model_in_several_files_is_loaded_by_its_index(tmp_path: Path):
    pn.io.save(tmp_path / "m-1.safetensors", {"a": pn.ones(2)})
    pn.io.save(tmp_path / "m-2.safetensors", {"b": pn.zeros(3)})
    place = tmp_path / "m.safetensors.index.json"
    place.write_text(
        json.dumps({"metadata": {}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})
    )
    assert {name: x.shape for name, x in pn.io.load(place).items()} == {"a": (2,), "b": (3,)}
    place.write_text(json.dumps({"weight_map": {"a": "../m-1.safetensors"}}))
    with pytest.raises(FileFormatError, match="files beside it"):
        pn.io.load(place)
