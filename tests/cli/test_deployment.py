"""Folders of `planish compile` that are damaged, old or crafted: one clear error, or the right result; never anything else."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planish import ptir
from planish.cli import deployment, main
from planish.cli.console import CommandError
from planish.cli.deployment import Port
from planish.config import settings
from planish.errors import PlanishError

PROGRAM = """ptir 1
func @f(%x: tensor<f32, 2x3>, %w: tensor<f32, 3x4>) -> tensor<f32, 2x4> {
  %0 = dot_general %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype=f32, out_dtype=f32} : tensor<f32, 2x4>
  return %0
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("deployed") / "out"
    ports = [Port("x", "float32", (2, 3))], [Port("y", "float32", (2, 4))]
    deployment.save(made, ptir.parse(PROGRAM).entry, [W], *ports)
    return made


def result(folder: Path) -> np.ndarray[Any, Any]:
    (found,) = deployment.load(str(folder)).run(None, {"x": X})
    return found


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_by_python(folder: Path) -> list[Path]:
    """Without what is there for C."""
    return [path for path in files(folder) if path.suffix not in {".so", ".h"} and path.name != "plan.bin"]


def test_it_runs_whoever_owns_it_and_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    before = {path: path.read_bytes() for path in files(copy)}
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o022)  # a folder that was given, not a cache
    assert np.array_equal(result(copy), X @ W)
    with settings(cache=False):
        assert np.array_equal(result(copy), X @ W)
    assert {path: path.read_bytes() for path in files(copy)} == before


def test_others_may_read_what_was_compiled(folder: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert all(path.stat().st_mode & 0o444 == 0o444 & ~umask for path in files(folder))


class Runs:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


def test_a_crafted_plan_runs_nothing(folder: Path, tmp_path: Path) -> None:
    exploit, trace = pickle.dumps(Runs(tmp_path / "trace")), tmp_path / "trace"
    crafted = 0
    for place in files(folder / "code"):
        if b'{"plan"' not in place.read_bytes():
            continue  # machine code: that is run, as it was asked for
        copy = Path(shutil.copytree(folder, tmp_path / "copy"))
        path = copy / place.relative_to(folder)
        crafted += 1
        key = path.parent.name + path.name
        digest = hashlib.sha256(key.encode() + exploit).digest()
        path.write_bytes(struct.pack("<8sIQ32s", b"planish\n", 2, len(exploit), digest) + exploit)
        assert np.array_equal(result(copy), X @ W)
        assert not trace.exists()
    assert crafted == 1


def mutated(data: bytes, rng: random.Random) -> bytes:
    raw = bytearray(data)
    match rng.randrange(3):
        case 0:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        case 1:
            del raw[rng.randrange(len(raw)) :]
        case _:
            at = rng.randrange(len(raw))
            raw[at : at + rng.randrange(16)] = rng.randbytes(rng.randrange(16))
    return bytes(raw)


@pytest.mark.parametrize("rounds", [60, pytest.param(3000, marks=pytest.mark.fuzz)])
def test_damage_is_one_clear_error(rounds: int, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    rng = random.Random(rounds)
    refused = 0
    for _ in range(rounds):
        path = rng.choice(read_by_python(copy))
        whole = path.read_bytes()
        path.write_bytes(mutated(whole, rng))
        try:
            assert np.array_equal(result(copy), X @ W)  # spaces in the manifest may go
        except (CommandError, PlanishError):
            refused += 1
        path.write_bytes(whole)
    assert refused > rounds // 2


@pytest.mark.parametrize("rounds", [200, pytest.param(5000, marks=pytest.mark.fuzz)])
def test_a_manifest_may_say_anything(rounds: int, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    manifest = copy / "model.json"
    whole = manifest.read_text()
    rng = random.Random(rounds)
    junk = [
        None,
        True,
        -1,
        0,
        2**31,
        2**63,
        10**40,
        1.5,
        "x",
        "f32",
        "../x",
        [],
        {},
        [[1]],
        {"a": 1},
        [2**40, 2**40],
    ]
    refused = 0
    for _ in range(rounds):
        record = json.loads(whole)
        places: list[tuple[Any, Any]] = []

        def walk(part: Any, places: list[tuple[Any, Any]] = places) -> None:
            for key in range(len(part)) if isinstance(part, list) else list(part):
                places.append((part, key))
                if isinstance(part[key], list | dict):
                    walk(part[key])

        walk(record)
        part, key = rng.choice(places)
        part[key] = rng.choice(junk)
        manifest.write_text(json.dumps(record))
        try:
            result(copy)
        except (CommandError, PlanishError):
            refused += 1
    assert refused > rounds // 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "0.0.1"}, "was compiled by planish 0.0.1, and this is"),
        ({"processor": "x86_64-unknown-linux-gnu another +feature"}, "was compiled for another, and this processor is"),
        ({"target": "aarch64"}, "does not run on this machine"),
        ({"target": "abacus"}, "unknown target 'abacus'"),
    ],
)  # fmt: skip
def test_another_version_or_processor_is_one_sentence(
    change: dict[str, str], message: str, folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    manifest = copy / "model.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises(CommandError, match=re.escape(message)) as caught:
        result(copy)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1}', "has format 1, not 3"),
        ("[]", "is no compiled model"),
        ("", "is no compiled model"),
        ("[" * 100_000, "is no compiled model"),
        ('{"format": ' + "9" * 5000 + "}", "is no compiled model"),
        ('{"format": 3, "digests": {}}', "is no compiled model"),
    ],
)
def test_what_is_wrong_is_said(
    text: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "model.json").write_text(text)
    assert main(["run", str(copy), "--random"]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert told.count("error:") == 1
