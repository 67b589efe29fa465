"""safetensors: what is written is read, and what is wrong is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import io
from planish.io.safetensors import DTYPES


def written(path: Path, header: dict[str, Any] | bytes, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path, name: str):
    dtype = DTYPES[name]
    raw = np.arange(24 * dtype.numpy.itemsize, dtype=np.uint8)
    array = (raw % 2 if dtype.is_bool else raw).view(dtype.numpy).reshape(2, 3, 4)
    io.save_safetensors(tmp_path / "x.safetensors", {"a": pn.asarray(array), "b": pn.asarray(array[0, 0])})
    back = io.load_safetensors(tmp_path / "x.safetensors")
    assert back["a"].dtype is dtype
    assert back["a"].shape == (2, 3, 4)
    assert np.asarray(back["a"]).tobytes() == array.tobytes()
    assert np.asarray(back["b"]).tobytes() == array[0, 0].tobytes()


def test_scalars_and_empty_tensors_and_metadata(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    io.save_safetensors(path, {"s": pn.asarray(2.5), "e": pn.zeros((0, 3))}, {"format": "pt", "ü": "✓"})
    file = io.SafetensorsFile(path)
    assert file.metadata == {"format": "pt", "ü": "✓"}
    assert file["s"].shape == ()
    assert file["s"].item() == 2.5
    assert file["e"].shape == (0, 3)
    assert sorted(file) == ["e", "s"]
    assert repr(file) == f"SafetensorsFile({str(path)!r}, 2 tensors)"
    with pytest.raises(KeyError, match="no tensor 'ss'; did you mean 's'"):
        file["ss"]


def test_elements_are_mapped_and_aligned_and_read_only(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    io.save_safetensors(path, {"a": pn.ones(3, dtype=pn.int8), "b": pn.ones(5, dtype=pn.float64)})
    shared = np.asarray(io.load(path)["b"])
    assert not shared.flags.writeable
    assert shared.flags.aligned
    base: Any = shared
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_saving_over_a_mapped_file_leaves_its_tensors_alone(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    io.save(path, {"a": pn.ones(3)})
    old = io.load(path)["a"]
    io.save(path, {"a": old + 1})
    assert np.asarray(old).tolist() == [1, 1, 1]
    assert np.asarray(io.load(path)["a"]).tolist() == [2, 2, 2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    io.save(path, {"a": pn.ones(3)})
    with pytest.raises(TypeError, match="'b' is a int, not a named Tensor"):
        io.save(path, {"b": 3})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'c' is complex128"):
        io.save(path, {"c": pn.ones(2, dtype=pn.complex128)})
    with pytest.raises(TypeError, match="metadata maps strings"):
        io.save_safetensors(path, {}, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="__metadata__"):
        io.save_safetensors(path, {"__metadata__": pn.ones(1)})
    assert list(io.load(path)) == ["a"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_file_of_the_reference_library_is_read(tmp_path: Path):
    header = {
        "__metadata__": {"format": "pt"},
        "w": entry("F32", [2, 2], 0, 16),
        "n": entry("I64", [], 16, 24),
    }
    data = np.array([1, 2, 3, 4], np.float32).tobytes() + (7).to_bytes(8, "little")
    back = io.load(written(tmp_path / "x.safetensors", header, data))
    assert back["w"].tolist() == [[1, 2], [3, 4]]
    assert back["n"].item() == 7


def test_misaligned_elements_are_copied(tmp_path: Path):
    header = json.dumps({"w": entry("F32", [2], 0, 8)}).encode()
    header += b" " * (1 - (len(header) + 8) % 2)
    path = written(tmp_path / "x.safetensors", header, np.array([1, 2], np.float32).tobytes())
    assert np.asarray(io.load(path)["w"]).flags.aligned
    assert io.load(path)["w"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("header", "data", "complaint"),
    [
        ({"a": entry("F32", [2], 0, 8)}, b"1234", r"take 8 bytes, but 4 follow the header: truncated\?"),
        ({"a": entry("F32", [1], 0, 4)}, b"12345", "take 4 bytes, but 5 follow"),
        ({"a": entry("F32", [2], 0, 4)}, b"1234", "takes 8 bytes, not 4"),
        ({"a": entry("F32", [1 << 62, 4], 0, 0)}, b"", "bytes, not 0"),
        ({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, b"123456", "overlaps another"),
        ({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 3, 4)}, b"1234", "leaves a gap"),
        ({"a": entry("F4", [1], 0, 1)}, b"1", "dtype 'F4'"),
        ({"a": entry("U8", [-1], 0, 1)}, b"1", "no shape"),
        ({"a": entry("U8", [True], 0, 1)}, b"1", "no shape"),
        ({"a": entry("U8", [1], 1, 0)}, b"1", "no begin and end"),
        ({"a": {"dtype": "U8", "shape": [1]}}, b"1", "not described by"),
        ({"a": [1]}, b"1", "not described by"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__ must map"),
        ({"a": entry("BOOL", [2], 0, 2)}, b"\x01\x02", "other numbers than 0 and 1"),
        (b"[1]", b"", "not a JSON object"),
        (b'{"a": 1', b"", "not JSON"),
        (b"[" * 100_000, b"", "not JSON"),
        (b"\xff\xfe", b"", "not JSON"),
        (b'{"a": {}, "a": {}}', b"", "names something twice"),
    ],
)
def test_forged_files_are_refused(tmp_path: Path, header: Any, data: bytes, complaint: str):
    path = written(tmp_path / "bad.safetensors", header, data)
    with pytest.raises(io.FileFormatError, match=complaint) as raised:
        io.load_safetensors(path)
    assert str(path) in str(raised.value)


def test_truncated_files_are_refused(tmp_path: Path):
    path = tmp_path / "x.safetensors"
    io.save(path, {"a": pn.ones(3), "b": pn.zeros((2, 2))})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(io.FileFormatError):
            io.load_safetensors(path)


def test_a_length_that_cannot_be_is_refused(tmp_path: Path):
    with pytest.raises(io.FileFormatError, match="no safetensors file"):
        io.load(written(tmp_path / "x", b"{}", length=1 << 60))
    with pytest.raises(io.FileFormatError, match="only 2 follow"):
        io.load(written(tmp_path / "x", b"{}", length=3))
