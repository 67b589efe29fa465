"""Files whose headers say something else than they did: read as another valid file, or refused; never anything else."""

from __future__ import annotations

import io as streams
import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import io
from planish.frontend import tree
from tests.damage import damaging
from tests.damage.damaging import Trial

LONG = pytest.param(20_000, marks=pytest.mark.fuzz)


def touched(found: object) -> None:
    """Look at every element."""
    for leaf in tree.leaves(found):
        if isinstance(leaf, pn.Tensor) and leaf.size < 1 << 20:
            np.asarray(leaf).tobytes()


def safetensors(header: bytes, data: bytes, path: Path) -> None:
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    touched(io.load_safetensors(path))


HEADER: dict[str, Any] = {
    "__metadata__": {"k": "v"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BOOL", "shape": [2], "data_offsets": [24, 26]},
    "c": {"dtype": "I64", "shape": [0, 4], "data_offsets": [26, 26]},
}


@pytest.mark.parametrize("rounds", [500, LONG])
def test_safetensors_headers(rounds: int, tmp_path: Path) -> None:
    trial = Trial(io.FileFormatError)
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        text = json.dumps(damaging.damaged_json(json.loads(json.dumps(HEADER)), rng))
        if rng.random() < 0.05:
            text = text.replace(rng.choice("0246"), "9" * 5000, 1)
        trial(lambda given: safetensors(given.encode(), bytes(26), tmp_path / "x"), text)
    trial.check()


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [0, 2**70], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0, 10**400], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0] * 70, "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]},
    ],
)
def test_shapes_that_no_array_has(entry: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(pn.PlanishError):
        safetensors(json.dumps({"a": entry}).encode(), b"", tmp_path / "x")


def npz(header: bytes, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header + bytes(24)
        archive.writestr("a.npy", member)
    touched(io.load_npz(path))


NPY = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
SHAPES = [
    "(0, 2**70)",
    "(0,) * 70",
    f"({'0, ' * 70})",
    "(0, 281474976710655, 281474976710655, 281474976710655)",
    "(-1, 6)",
    "(True, 6)",
    "6",
    "()",
]


@pytest.mark.parametrize("rounds", [500, LONG])
def test_npy_headers(rounds: int, tmp_path: Path) -> None:
    trial = Trial(io.FileFormatError)
    words = [
        "'O'",
        "'<f8'",
        "'|V8'",
        "'<U2'",
        "'<c8'",
        "'>i2'",
        "(",
        ")",
        "{",
        ",",
        "'shape'",
        "True",
        *SHAPES,
    ]
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        text = (
            NPY.replace("(2, 3)", rng.choice(SHAPES))
            if rng.random() < 0.1
            else damaging.damaged_text(NPY, rng, words)
        )
        trial(lambda given: npz(given.encode("utf-8", "replace")[:60_000], tmp_path / "x.npz"), text)
    trial.check()


def test_arrays_of_the_command_line(tmp_path: Path) -> None:
    """What `planish run --input` reads: npy and npz, by bytes."""
    from planish.cli.console import CommandError
    from planish.cli.models import read_inputs

    class Input:
        name, dtype, dims = "x", "float32", (2, 3)

    plain, packed = streams.BytesIO(), streams.BytesIO()
    np.save(plain, np.ones((2, 3), np.float32))
    np.savez_compressed(packed, k=np.ones((200, 3), np.float32))
    trial = Trial(CommandError)
    for number in range(400):
        rng = random.Random(number)
        whole, name = rng.choice([(plain.getvalue(), "x.npy"), (packed.getvalue(), "x.npz:k")])
        (tmp_path / name.partition(":")[0]).write_bytes(damaging.damaged_bytes(whole, rng))
        trial(lambda word: read_inputs([word], [Input()])["x"].tobytes(), f"x={tmp_path / name}")
    header = NPY.replace("(2, 3)", "(1099511627776, 3)").encode()
    (tmp_path / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(24)
    )
    trial(lambda word: read_inputs([word], [Input()]), f"x={tmp_path / 'x.npy'}")
    trial.check()
