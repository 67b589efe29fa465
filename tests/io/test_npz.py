"""npz: exchanged with NumPy both ways, mapped where possible, refused where wrong."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import io

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "f": np.arange(6, dtype=np.float32).reshape(2, 3),
    "i": np.array(7, np.int64),
    "b": np.array([True, False]),
    "c": np.array([1 + 2j]),
    "e": np.zeros((0, 4)),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big": np.arange(3, dtype=">i4"),
}


def same(tensors: dict[str, pn.Tensor]) -> None:
    assert list(tensors) == list(ARRAYS)
    for name, array in ARRAYS.items():
        found = np.asarray(tensors[name])
        assert found.dtype == array.dtype.newbyteorder("=")
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_saves_is_loaded(tmp_path: Path, save: Any):
    save(tmp_path / "x.npz", **ARRAYS)
    same(io.load(tmp_path / "x.npz"))


@pytest.mark.parametrize("compress", [False, True])
def test_what_is_saved_numpy_loads(tmp_path: Path, compress: bool):
    io.save_npz(tmp_path / "x.npz", {k: pn.asarray(v) for k, v in ARRAYS.items()}, compress=compress)
    same(io.load_npz(tmp_path / "x.npz"))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as back:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(back[name], array)


def test_saved_elements_lie_at_multiples_of_64_in_the_file(tmp_path: Path):
    io.save(tmp_path / "x.npz", {name * 3: pn.asarray(array) for name, array in ARRAYS.items()})
    for tensor in io.load(tmp_path / "x.npz").values():
        if tensor.size:
            assert np.asarray(tensor).ctypes.data % 64 == 0


def test_dtypes_that_numpy_lacks_are_refused(tmp_path: Path):
    with pytest.raises(TypeError, match="'x' is bfloat16, which NumPy does not have"):
        io.save(tmp_path / "x.npz", {"x": pn.ones(2, dtype=pn.bfloat16)})


def test_pickled_objects_are_refused(tmp_path: Path):
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    with pytest.raises(io.FileFormatError, match="pickled Python object"):
        io.load(tmp_path / "x.npz")


def member(path: Path, name: str, data: bytes, kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr(name, data)
    return path


def header(text: str) -> bytes:
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("a.txt", b"hello", "not an array"),
        ("a.npy", b"hello", "not an npy file"),
        ("a.npy", b"\x93NUMPY\x09\x00" + bytes(20), "version 9\\.0"),
        ("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + bytes(20), "65535 bytes long"),
        ("a.npy", header("(" * 5000), "no valid npy header"),
        (
            "a.npy",
            header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}") + bytes(4),
            "no valid",
        ),
        ("a.npy", header("{}"), "no valid npy header \\(KeyError\\)"),
        ("a.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}"), "36 bytes, but 0"),
        (
            "a.npy",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}") + b"1234",
            "no valid npy header",
        ),
        ("a.npy", header("{'descr': '<U4', 'fortran_order': False, 'shape': ()}") + bytes(16), "dtype <U4"),
        ("a.npy", header("{'descr': '|O', 'fortran_order': False, 'shape': ()}"), "pickled"),
        ("a.npy", header("__import__('os')"), "no valid npy header"),
        ("a.npy", header("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}") + b"\x05", "0 and 1"),
    ],
)
def test_forged_members_are_refused(tmp_path: Path, name: str, data: bytes, complaint: str):
    with pytest.raises(io.FileFormatError, match=complaint):
        io.load(member(tmp_path / "x.npz", name, data))


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(tmp_path: Path):
    path = member(tmp_path / "x.npz", "a.npy", bytes(100_000), zipfile.ZIP_DEFLATED)
    forged = path.read_bytes().replace((100_000).to_bytes(4, "little"), (5000).to_bytes(4, "little"))
    path.write_bytes(forged)
    with pytest.raises(io.FileFormatError, match="does not unpack to what"):
        io.load(path)
    forged = forged.replace((5000).to_bytes(4, "little"), (1 << 30).to_bytes(4, "little"))
    path.write_bytes(forged)
    with pytest.raises(io.FileFormatError, match="claims 1073741824 bytes"):
        io.load(path)


def test_truncated_files_are_refused(tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3), b=np.ones(2))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(io.FileFormatError):
            io.load_npz(path)


def test_what_is_no_file_of_tensors_is_told_by_its_name(tmp_path: Path):
    pn.io.save(tmp_path / "weights.bin", {"a": pn.ones(2)})  # safetensors, whatever it is called
    assert list(pn.io.load(tmp_path / "weights.bin")) == ["a"]
    for name, words in (("x.pt", "PyTorch"), ("x.npz", "zip archive"), ("x.safetensors", "8 bytes")):
        (tmp_path / name).write_bytes(b"junk")
        with pytest.raises(pn.PlanishError, match=words):
            pn.io.load(tmp_path / name)
