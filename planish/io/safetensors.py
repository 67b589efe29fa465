"""safetensors: eight bytes that give the length of a JSON header, the header, and the elements.

The header says of each tensor its dtype, shape, and where its bytes begin and end. It is believed only if all of that fits:
every byte behind it belongs to exactly one tensor, and to one of the size that dtype and shape ask for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, did_you_mean
from planish.frontend.tensor.array import Tensor
from planish.io.files import FileFormatError, PathLike, checked, mapped, refuse, replaced, tensor_of

DTYPES: Final[Mapping[str, DType]] = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "U16": dtypes.uint16,
    "I16": dtypes.int16,
    "U32": dtypes.uint32,
    "I32": dtypes.int32,
    "U64": dtypes.uint64,
    "I64": dtypes.int64,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_LENGTH: Final = 8
"""Bytes that hold the length of the header."""
_LONGEST: Final = 100_000_000
"""The length up to which a header is read; the format's own limit."""


@dataclass(frozen=True, slots=True)
class _TensorEntry:
    dtype: DType
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsFile(Mapping[str, Tensor]):
    """An open file: a mapping from names to tensors, each made when it is asked for."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._bytes = mapped(self.path)
        self._entries, self.metadata, self._data = self._read_header()

    def _read_header(self) -> tuple[dict[str, _TensorEntry], dict[str, str], int]:
        size = self._bytes.size
        if size < _LENGTH:
            raise refuse(self.path, f"a safetensors file begins with {_LENGTH} bytes; this one has {size}")
        length = int.from_bytes(self._bytes[:_LENGTH].tobytes(), "little")
        if length > _LONGEST:
            raise refuse(self.path, f"this is no safetensors file: its header would be {length} bytes long")
        if _LENGTH + length > size:
            raise refuse(
                self.path, f"the header is {length} bytes long, but only {size - _LENGTH} follow: truncated?"
            )
        header = self._parsed(self._bytes[_LENGTH : _LENGTH + length].tobytes())
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise refuse(self.path, "__metadata__ must map strings to strings")
        entries = {name: self._entry(name, about) for name, about in header.items()}
        self._check_cover(entries, size - _LENGTH - length)
        return entries, metadata, _LENGTH + length

    def _parsed(self, text: bytes) -> dict[str, object]:
        def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
            entries = dict(pairs)
            if len(entries) != len(pairs):
                raise refuse(self.path, "the header names something twice")
            return entries

        try:
            header = json.loads(text.decode("utf-8"), object_pairs_hook=once)
        except FileFormatError:
            raise
        except (ValueError, RecursionError) as error:  # no text, no JSON, or a number of thousands of digits
            raise refuse(self.path, f"the header is not JSON ({type(error).__name__})") from None
        if not text.startswith(b"{") or not isinstance(header, dict):
            raise refuse(self.path, "the header is not a JSON object")
        return header

    def _entry(self, name: str, about: object) -> _TensorEntry:
        if not isinstance(about, dict) or about.keys() != {"dtype", "shape", "data_offsets"}:
            raise refuse(self.path, f"{name!r} is not described by dtype, shape and data_offsets")
        dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise refuse(self.path, f"{name!r} has dtype {dtype!r}, which planish does not read")
        if not _are_sizes(shape):
            raise refuse(self.path, f"{name!r} has no shape, but {shape!r}")
        if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise refuse(self.path, f"{name!r} has no begin and end, but {offsets!r}")
        entry = _TensorEntry(DTYPES[dtype], tuple(shape), offsets[0], offsets[1])
        wanted = prod(entry.shape) * entry.dtype.numpy.itemsize
        if entry.stop - entry.start != wanted:
            raise refuse(
                self.path,
                f"{name!r} is {dtype}{shape}, which takes {wanted} bytes, not {entry.stop - entry.start}",
            )
        return entry

    def _check_cover(self, entries: Mapping[str, _TensorEntry], size: int) -> None:
        """Every byte is of one tensor: nothing is hidden, nothing shared."""
        end = 0
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
            if entry.start != end:
                what = "overlaps another tensor" if entry.start < end else "leaves a gap before it"
                raise refuse(self.path, f"{name!r} begins at {entry.start}, not {end}: it {what}")
            end = entry.stop
        if end != size:
            what = "truncated?" if end > size else "what are the rest?"
            raise refuse(self.path, f"the tensors take {end} bytes, but {size} follow the header: {what}")

    def __getitem__(self, name: str) -> Tensor:
        try:
            entry = self._entries[name]
        except KeyError:
            near = did_you_mean(name, self._entries)
            hint = "" if near is None else f"; did you mean {near!r}?"
            raise KeyError(f"{self.path} has no tensor {name!r}{hint}") from None
        data = self._bytes[self._data + entry.start : self._data + entry.stop]
        return tensor_of(data, entry.dtype, entry.shape, self.path, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"SafetensorsFile({str(self.path)!r}, {len(self)} tensors)"


def _are_sizes(sizes: object) -> bool:
    return isinstance(sizes, list) and all(type(one) is int and 0 <= one < 1 << 63 for one in sizes)


def load_safetensors(path: PathLike) -> dict[str, Tensor]:
    """All tensors of a safetensors file, mapped into memory. `SafetensorsFile` gives them one by one, and the metadata."""
    file = SafetensorsFile(path)
    return {name: file[name] for name in file}


def load_shards(path: PathLike) -> dict[str, Tensor]:
    """All tensors of a model in several files, by the index that says which is where (`model.safetensors.index.json`)."""
    place = Path(path)
    try:
        files = json.loads(place.read_bytes())["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise refuse(place, f"this is no index of safetensors files ({type(error).__name__})") from None
    if not isinstance(files, dict) or not all(
        isinstance(file, str) and Path(file).name == file for file in files.values()
    ):
        raise refuse(place, "the weight_map does not map names to files beside it")
    opened = {file: SafetensorsFile(place.parent / file) for file in sorted(set(files.values()))}
    return {name: opened[file][name] for name, file in files.items()}


def save_safetensors(
    path: PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Tensors by name, and texts by name; the file appears when it is complete."""
    given = checked(tensors)
    if "__metadata__" in given:
        raise DTypeError.of("save_safetensors", "no tensor can be called __metadata__")
    about = dict(metadata or {})
    if not all(isinstance(text, str) for text in (*about, *about.values())):
        raise DTypeError.of(
            "save_safetensors",
            "metadata maps strings to strings",
            "write other values as text, for example with json.dumps",
        )
    # Wide elements first, so that each tensor lies at a multiple of its element's size.
    order = sorted(given, key=lambda name: (-given[name].dtype.numpy.itemsize, name))
    header: dict[str, object] = {} if metadata is None else {"__metadata__": about}
    end = 0
    for name in order:
        tensor = given[name]
        if tensor.dtype not in _NAMES:
            raise DTypeError.of(
                "save_safetensors",
                f"{name!r} is {tensor.dtype.name}, which the format does not have",
                f"convert it to one of {', '.join(sorted(dtype.name for dtype in _NAMES))}",
            )
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with replaced(path) as file:
        file.write(len(text).to_bytes(_LENGTH, "little"))
        file.write(text)
        for name in order:
            array = np.ascontiguousarray(np.asarray(given[name]))
            file.write(array.reshape(-1).view(np.uint8).data)
