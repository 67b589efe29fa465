"""PyTorch checkpoints: what torch.save writes is read without torch, and nothing in a file is ever run."""

from __future__ import annotations

import io as bytes_io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import io


def archive(path: Path, data: bytes, storages: dict[str, bytes] | None = None, **more: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", data)
        for key, content in (storages or {}).items():
            file.writestr(f"x/data/{key}", content)
        for key, content in more.items():
            file.writestr(f"x/{key}", content)
    return path


class Named:
    """Pickles as a call of a name with arguments."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self.call = (name, arguments)


class Kind:
    """Pickles as a name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Id:
    """Pickles as a persistent id."""

    def __init__(self, *about: Any) -> None:
        self.about = about


_PythonPickler: Any = vars(pickle)["_Pickler"]


class Writer(_PythonPickler):  # type: ignore[misc] # the one written in Python can be taught names
    def persistent_id(self, obj: Any) -> Any:
        return obj.about if isinstance(obj, Id) else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Kind):
            module, _, name = obj.name.rpartition(".")
            self.write(b"c" + module.encode() + b"\n" + name.encode() + b"\n")
        elif isinstance(obj, Named):
            self.save(Kind(obj.call[0]))
            self.save(obj.call[1])
            self.write(b"R")
        else:
            super().save(obj, save_persistent_id)


def pickled(obj: Any) -> bytes:
    buffer = bytes_io.BytesIO()
    Writer(buffer, 2).dump(obj)
    return buffer.getvalue()


def storage(kind: str, key: str, count: int) -> Id:
    return Id("storage", Kind(f"torch.{kind}"), key, "cpu", count)


def tensor(kind: str, key: str, count: int, offset: Any, shape: Any, strides: Any) -> Named:
    return Named(
        "torch._utils._rebuild_tensor_v2",
        storage(kind, key, count),
        offset,
        shape,
        strides,
        False,
        OrderedDict(),
    )


FOUR = {"0": np.arange(4, dtype=np.float32).tobytes()}


def test_torch_save_is_read_back(tmp_path: Path):
    torch = pytest.importorskip("torch")
    base = torch.arange(12.0).reshape(3, 4)
    saved = {
        "whole": base,
        "turned": base.T,
        "part": base[1:, 2],
        "wide": torch.ones(1).expand(3, 2),
        "parameter": torch.nn.Parameter(torch.full((2,), 5.0)),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "empty": torch.zeros(0, 2),
        "nested": [1, (2.5, "three"), None, {"k": torch.tensor([True, False])}, {1, 2}],
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
    }
    torch.save(saved, tmp_path / "x.pt")
    back: Any = io.load_torch(tmp_path / "x.pt")
    for name in ("whole", "turned", "part", "wide", "scalar", "empty"):
        assert np.asarray(back[name]).tolist() == saved[name].tolist()
        assert back[name].shape == tuple(saved[name].shape)
    assert back["parameter"].tolist() == [5, 5]
    assert back["nested"][:3] == [1, (2.5, "three"), None]
    assert back["nested"][3]["k"].tolist() == [True, False]
    assert back["nested"][4] == {1, 2}
    assert back["size"] == (2, 3)
    assert back["dtype"] is pn.bfloat16
    assert back["device"] == "cpu"


@pytest.mark.parametrize(
    "name",
    ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"],
)  # fmt: skip
def test_every_dtype_of_torch(tmp_path: Path, name: str):
    torch = pytest.importorskip("torch")
    values = torch.tensor([0.0, 1.0, 2.0, 1.5]).to(getattr(torch, name))
    torch.save({"x": values}, tmp_path / "x.pt")
    found = io.load(tmp_path / "x.pt")["x"]
    assert found.dtype is getattr(pn, name)
    assert np.asarray(found).tobytes() == values.view(torch.uint8).numpy().tobytes()


def test_a_state_dict_with_its_metadata(tmp_path: Path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.save(model.state_dict(), tmp_path / "m.pth")
    found = io.load(tmp_path / "m.pth")
    assert list(found) == list(model.state_dict())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(np.asarray(found[name]), value.numpy())


def test_a_whole_module_is_refused_by_name(tmp_path: Path):
    torch = pytest.importorskip("torch")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    with pytest.raises(io.FileFormatError, match=r"torch\.nn\.modules\.linear\.Linear.*state_dict"):
        io.load_torch(tmp_path / "m.pt")


def test_more_than_tensors_is_refused_by_load(tmp_path: Path):
    path = archive(tmp_path / "x.pt", pickled({"step": 3}))
    assert io.load_torch(path) == {"step": 3}
    with pytest.raises(io.FileFormatError, match="'step' is a int"):
        io.load(path)


def test_big_endian_files(tmp_path: Path):
    data = np.array([1.5, -2.0], ">f4").tobytes()
    path = archive(
        tmp_path / "x.pt",
        pickled(tensor("FloatStorage", "0", 2, 0, (2,), (1,))),
        {"0": data},
        byteorder=b"big",
    )
    found: Any = io.load_torch(path)
    assert found.tolist() == [1.5, -2.0]


def test_a_file_that_wants_to_run_something_is_refused_and_runs_nothing(tmp_path: Path):
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/owned",)

    path = archive(tmp_path / "x.pt", pickle.dumps({"a": Evil()}))
    with pytest.raises(io.FileFormatError, match=r"posix\.system to be called"):
        io.load_torch(path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\n(Vid\ntR.",  # GLOBAL … REDUCE
        b"(cos\nsystem\nVid\no.",  # OBJ
        b"(Vid\nios\nsystem\n.",  # INST
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x05\x97.",  # NEXT_BUFFER
        b"ccollections\nOrderedDict\n(dtb.",  # state for a class
        b"ccollections\nOrderedDict\n(K\x01tR.",  # OrderedDict(1)
        b"ctorch._utils\n_rebuild_parameter\n(K\x01tR.",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n(Vid\nt}tR.",
        b"]]K\x01s.",  # an item set in a list
        b"}]K\x01s.",  # a list as a key
        b"K\x01a.",  # append to a number
        b"h\x05.",  # memo that was never put
        b"\x85.",
        b"t.",
        b"0.",
        b"R.",
        b"K\x01",
        b"",
        b"\xff",
        b"Vid\nQ.",
    ],
)
def test_hostile_pickles_are_refused(tmp_path: Path, program: bytes):
    with pytest.raises(io.FileFormatError):
        io.load_torch(archive(tmp_path / "x.pt", program))


@pytest.mark.parametrize(
    ("obj", "complaint"),
    [
        (tensor("FloatStorage", "0", 4, 0, (5,), (1,)), "beyond its storage"),
        (tensor("FloatStorage", "0", 4, 1, (2, 2), (2, 1)), "beyond its storage"),
        (tensor("FloatStorage", "0", 4, 5, (0,), (1,)), "beyond its storage"),
        (tensor("FloatStorage", "0", 4, 3, (2,), (-1,)), "are not sizes"),
        (tensor("FloatStorage", "0", 4, -1, (2,), (1,)), "at -1"),
        (tensor("FloatStorage", "0", 4, 0, (2, 2), (1,)), "with strides"),
        (tensor("FloatStorage", "0", 4, 0, (1 << 60,), (0,)), "are not sizes"),
        (tensor("FloatStorage", "0", 4, 0, 4, (1,)), "are not sizes"),
        (tensor("FloatStorage", "0", 400, 0, (4,), (1,)), "1600 bytes long, but is 16"),
        (tensor("FloatStorage", "1", 4, 0, (4,), (1,)), "'1' is missing"),
        (tensor("StringStorage", "0", 4, 0, (4,), (1,)), "kind torch.StringStorage"),
        (tensor("UntypedStorage", "0", 16, 0, (4,), (1,)), "nothing says what"),
        (Named("torch._utils._rebuild_tensor_v2", 1, 0, (1,), (1,), False, None), "without a storage"),
        (Id("module", 1), "no storage"),
        (storage("FloatStorage", "0", 4), "not tensors"),
        (Kind("torch.FloatStorage"), "not tensors"),
    ],
)
def test_tensors_that_cannot_be_are_refused(tmp_path: Path, obj: Any, complaint: str):
    with pytest.raises(io.FileFormatError, match=complaint):
        io.load_torch(archive(tmp_path / "x.pt", pickled(obj), FOUR))


def test_an_expanded_tensor_takes_no_memory_until_it_is_used(tmp_path: Path):
    path = archive(tmp_path / "x.pt", pickled(tensor("FloatStorage", "0", 4, 1, (1 << 40,), (0,))), FOUR)
    found: Any = io.load_torch(path)
    assert found.shape == (1 << 40,)
    assert np.asarray(found)[12345] == 1.0


def test_other_files_are_refused(tmp_path: Path):
    old = tmp_path / "old.pt"
    old.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(io.FileFormatError, match=r"zip format of PyTorch 1\.6"):
        io.load_torch(old)
    np.savez(tmp_path / "x.npz", a=np.ones(1))
    with pytest.raises(io.FileFormatError, match=r"one data\.pkl; this archive has 0"):
        io.load_torch(tmp_path / "x.npz")
    with pytest.raises(io.FileFormatError, match="byte order"):
        io.load_torch(archive(tmp_path / "b.pt", pickled(1), byteorder=b"middle"))
    with pytest.raises(FileNotFoundError):
        io.load_torch(tmp_path / "nothing.pt")


def test_truncated_files_are_refused(tmp_path: Path):
    path = archive(tmp_path / "x.pt", pickled(tensor("FloatStorage", "0", 4, 0, (4,), (1,))), FOUR)
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        with pytest.raises(io.FileFormatError):
            io.load_torch(path)
