"""State of sharded programs: checkpoints that any mesh reads, and batches that ranks share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import distributed
from planish.errors import PlanishError
from planish.io.files import FileFormatError


def _tree(mesh: pn.Mesh, *specs: pn.P) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "weights": [pn.shard(rng.standard_normal((8, 12)).astype(np.float32), mesh, spec) for spec in specs],
        "half": pn.shard(rng.standard_normal((4, 4)).astype(np.float16), mesh, pn.P()),
        "bias": pn.asarray(rng.standard_normal(5)),
        "step": 7,
    }


def _zeros(mesh: pn.Mesh, *specs: pn.P) -> dict[str, object]:
    return {
        "weights": [pn.shard(np.zeros((8, 12), np.float32), mesh, spec) for spec in specs],
        "half": pn.shard(np.zeros((4, 4), np.float16), mesh, pn.P("a")),
        "bias": pn.zeros(5, dtype=pn.float64),
        "step": 0,
    }


@pytest.mark.parametrize("shape", [(2, 2), (4, 1), (1, 1)])
def test_what_one_mesh_wrote_another_reads(tmp_path: Path, shape: tuple[int, int]) -> None:
    mesh = pn.Mesh((2, 4), ("a", "b"))
    state = _tree(mesh, pn.P("a", "b"), pn.P(None, "a"), pn.P(("a", "b"), None))
    folder = distributed.save(tmp_path, state, step=3)
    other = pn.Mesh(shape, ("a", "b"))
    made = distributed.load(tmp_path, _zeros(other, pn.P("b", "a"), pn.P("a"), pn.P(None, None)))
    for mine, theirs in zip(made["weights"], state["weights"], strict=True):  # type: ignore[call-overload]
        assert mine.mesh == other
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    np.testing.assert_array_equal(made["half"].numpy(), state["half"].numpy())  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.asarray(made["bias"]), np.asarray(state["bias"]))
    assert made["step"] == 7
    whole: Any = pn.io.load_checkpoint(tmp_path)
    np.testing.assert_array_equal(np.asarray(whole["weights"][0]), state["weights"][0].numpy())  # type: ignore[index]
    # every part is written once: 8 x 12 floats thrice, 16 halves, 5 doubles
    files = [path for path in folder.iterdir() if path.suffix == ".safetensors"]
    stored = sum(t.nbytes for path in files for t in pn.io.load_safetensors(path).values())
    assert stored == 3 * 8 * 12 * 4 + 16 * 2 + 5 * 8


def test_a_checkpoint_without_an_index_is_none_and_the_next_save_tidies(tmp_path: Path) -> None:
    mesh = pn.Mesh((2, 1), ("a", "b"))
    folder = distributed.save(tmp_path, _tree(mesh, pn.P("a")), step=1)
    (folder / "index.json").unlink()
    with pytest.raises(PlanishError, match="no checkpoint"):
        distributed.load(tmp_path, _zeros(mesh, pn.P("a")))
    before = set(folder.iterdir())
    distributed.save(tmp_path, _tree(mesh, pn.P("a")), step=1)
    assert not before & set(folder.iterdir())


@pytest.mark.parametrize("damage", ["missing file", "missing part", "start", "escape", "dtype"])
def test_a_damaged_index_is_one_error(tmp_path: Path, damage: str) -> None:
    mesh = pn.Mesh((2, 1), ("a", "b"))
    folder = distributed.save(tmp_path / "run", _tree(mesh, pn.P("a")))
    content = json.loads((folder / "index.json").read_text())
    about = content["sharded"]["weights.0"]
    if damage == "missing file":
        (folder / about["parts"][1]["file"]).unlink()
    elif damage == "missing part":
        about["parts"].pop()
    elif damage == "start":
        about["parts"][1]["start"] = [0, 0]
    elif damage == "escape":
        about["parts"][1]["file"] = "../tensors-x.safetensors"
    else:
        about["dtype"] = "f31"
    (folder / "index.json").write_text(json.dumps(content))
    with pytest.raises(FileFormatError):
        pn.io.load_checkpoint(tmp_path / "run")


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    mesh = pn.Mesh((2, 1), ("a", "b"))
    distributed.save(tmp_path, {"w": pn.shard(np.zeros((4, 4), np.float32), mesh, pn.P("a"))})
    with pytest.raises(PlanishError, match=r"w is float32\[2, 4\] in the tree, float32\[4, 4\]"):
        distributed.load(tmp_path, {"w": pn.shard(np.zeros((2, 4), np.float32), mesh, pn.P("a"))})


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["arrays", "examples", "stream"])
def test_parts_of_batches_make_up_the_batches(shuffle: bool, kind: str) -> None:
    rows = np.arange(48).reshape(24, 2)
    data = {"arrays": rows, "examples": list(rows), "stream": (row for row in rows)}

    def loader(part: tuple[int, int]) -> pn.data.Loader:
        given = iter(rows) if kind == "stream" else data[kind]
        return pn.data.Loader(
            given, 8, shuffle=shuffle, seed=5, part=part, shuffle_buffer=4 if kind == "stream" else 0
        )

    whole = [np.asarray(batch) for batch in loader((0, 1))]
    parts = [[np.asarray(batch) for batch in loader((k, 4))] for k in range(4)]
    assert [len(batch) for batch in parts[0]] == [2, 2, 2]
    for number, batch in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([own[number] for own in parts]), batch)


def test_the_state_of_a_loader_does_not_depend_on_its_part() -> None:
    rows = np.arange(32)
    two = pn.data.Loader(rows, 8, shuffle=True, part=(1, 2))
    next(iter(two))
    four = pn.data.Loader(rows, 8, shuffle=True, part=(3, 4)).load_state_dict(two.state_dict())
    whole = pn.data.Loader(rows, 8, shuffle=True).load_state_dict(two.state_dict())
    np.testing.assert_array_equal(np.asarray(next(iter(four))), np.asarray(next(iter(whole)))[6:])


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 3)])
def test_parts_that_do_not_cut_a_batch_are_refused(part: tuple[int, int]) -> None:
    with pytest.raises(PlanishError, match="part"):
        pn.data.Loader(np.arange(32), 8, part=part)
    with pytest.raises(PlanishError, match="drop_last"):
        pn.data.Loader(np.arange(33), 8, part=(0, 2))
