"""Files with some bytes changed: refused, or read as some other valid file; never anything else."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import io
from planish.frontend import tree


def safetensors(path: Path) -> Path:
    io.save_safetensors(path, {"a": pn.ones((2, 3)), "b": pn.asarray([True, False])}, {"k": "v"})
    return path


def npz(path: Path) -> Path:
    np.savez(path, a=np.arange(6).reshape(2, 3), b=np.ones(3, bool))
    return path


def compressed(path: Path) -> Path:
    np.savez_compressed(path, a=np.arange(600).reshape(20, 30))
    return path


def checkpoint(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        program = (
            b"\x80\x02}q\x00X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n"
            b"FloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89}tRs."
        )
        assert program == b"" or pickle.PROTO in program
        archive.writestr("m/data.pkl", program)
        archive.writestr("m/data/0", np.arange(6, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize(
    ("make", "load"),
    [
        (safetensors, io.load_safetensors),
        (npz, io.load_npz),
        (compressed, io.load_npz),
        (checkpoint, io.load_torch),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rounds", [300, pytest.param(5_000, marks=pytest.mark.fuzz)])
@pytest.mark.filterwarnings("ignore:.*Reading.*:UserWarning")
def test_changed_bytes(make, load, rounds: int, tmp_path: Path):
    path = make(tmp_path / ("x.npz" if make in (npz, compressed) else "x"))
    whole = path.read_bytes()
    assert [np.asarray(x).size for x in tree.leaves(load(path))]
    generator = np.random.default_rng(len(whole))
    refused = 0
    for _ in range(rounds):
        data = bytearray(whole)
        for _ in range(generator.integers(1, 4)):
            data[generator.integers(len(data))] = generator.integers(256)
        if generator.random() < 0.1:
            del data[generator.integers(len(data)) :]
        path.write_bytes(data)
        try:
            found = load(path)
        except io.FileFormatError:
            refused += 1
        else:
            for leaf in tree.leaves(found):
                if isinstance(leaf, pn.Tensor) and leaf.size < 1 << 20:
                    np.asarray(leaf).tobytes()
    assert refused > rounds // 20
