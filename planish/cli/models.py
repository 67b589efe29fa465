"""What `planish run` and `planish compile` share: the words of their command lines, and arrays for inputs."""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from planish.cli.console import CommandError, UsageError
from planish.errors import did_you_mean
from planish.filenames import file_name

Array = NDArray[Any]
DimSizes = dict[str, int | tuple[int, int]]


class PortLike(Protocol):
    """An input or output of a model."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def dims(self) -> tuple[int | str | None, ...] | None: ...


def read_dims(words: Sequence[str]) -> DimSizes:
    """`batch=4`, or `batch=1..64`."""
    sizes: DimSizes = {}
    for word in words:
        match = re.fullmatch(r"(.+)=(\d+)(?:\.\.(\d+))?", word)
        if match is None:
            raise UsageError(f"{word!r} is no size", remedy="write NAME=4, or NAME=1..64")
        name, low, high = match.groups()
        if high is not None and int(high) < int(low):
            raise UsageError(f"{word!r} has no sizes")
        sizes[name] = int(low) if high is None else (int(low), int(high))
    return sizes


def read_inputs(words: Sequence[str], ports: Sequence[PortLike]) -> dict[str, Array]:
    """`name=file.npy`, or `name=file.npz:key`."""
    arrays: dict[str, Array] = {}
    for word in words:
        name, equals, file = word.rpartition("=")
        if not equals:
            raise UsageError(f"{word!r} names no input", remedy="write NAME=FILE.npy")
        if name not in [port.name for port in ports]:
            close = did_you_mean(name, [port.name for port in ports])
            hint = f"did you mean {close!r}? " if close else ""
            raise UsageError(
                f"the model has no input {name!r}",
                remedy=f"{hint}it has {', '.join(port.name for port in ports)}",
            )
        arrays[name] = read_array(file)
    return arrays


def read_array(file: str) -> Array:
    """`file.npy`, or `file.npz:key`."""
    path, _, key = file.partition(".npz:")
    loaded = read_arrays(path + ".npz" if key else file)
    if isinstance(loaded, np.ndarray):
        return loaded
    if not key and len(loaded) == 1:
        return next(iter(loaded.values()))
    if key not in loaded:
        held = ", ".join(loaded) or "nothing"
        why = f"has no array {key!r}" if key else "holds several arrays"
        raise CommandError(
            f"{path}{'.npz' if key else ''} {why}", remedy=f"write NAME=FILE.npz:KEY; it holds {held}"
        )
    return loaded[key]


def read_arrays(file: str) -> Array | dict[str, Array]:
    """The array of an .npy, the arrays of an .npz. A plain one is mapped: its size is held against what it says."""
    try:
        with Path(file).open("rb") as stream:
            if stream.read(2) != b"PK":
                return np.lib.format.open_memmap(file, mode="r")
            stream.seek(0)
            return dict(np.load(stream, allow_pickle=False))
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from None
    except Exception:  # noqa: BLE001 - NumPy, zipfile and zlib have many ways to say so, some of them misleading
        raise CommandError(
            f"{file} holds no arrays that can be read",
            remedy="it takes what numpy.save and numpy.savez write: numbers, no Python objects",
        ) from None


def random_inputs(
    ports: Sequence[PortLike],
    sizes: Mapping[str, int | tuple[int, int]],
    given: Mapping[str, Array],
    seed: int = 0,
) -> dict[str, Array]:
    """Arrays for every input that is not given: normal floats, small integers, the same ones every time."""
    rng = np.random.default_rng(seed)
    arrays = dict(given)
    for port in ports:
        if port.name in arrays:
            continue
        shape = []
        for dim in port.dims or ():
            size = sizes.get(dim) if isinstance(dim, str) else dim
            if size is None:
                raise UsageError(
                    f"the size of {dim or 'a dim'} in {port} is not known",
                    remedy=f"--dim {dim}=N" if dim else f"--input {port.name}=FILE.npy",
                )
            shape.append(size if isinstance(size, int) else size[0])
        if port.dims is None:
            raise UsageError(f"the shape of {port} is not known", remedy=f"--input {port.name}=FILE.npy")
        try:
            arrays[port.name] = _random(rng, port.dtype, shape)
        except (MemoryError, ValueError):  # a size beyond what an index can say is a ValueError
            text = "x".join(map(str, shape))
            raise CommandError(
                f"there is no memory for {port} of {text}", remedy="smaller sizes by --dim"
            ) from None
    return arrays


def _random(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    if math.prod(shape) > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise MemoryError  # not asked for: the system might promise it
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith(("int", "uint")):
        return rng.integers(0, 8, shape).astype(dtype)
    if dtype in ("string", "unknown", "object"):
        raise UsageError(f"there are no random values of type {dtype}", remedy="--input NAME=FILE.npy")
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return rng.standard_normal(shape).astype(kind)


def _members(names: Iterable[str]) -> list[str]:
    """Outputs in an archive: whoever unpacks it gets files of one folder. Slashes, which are common, become underscores."""
    members: list[str] = []
    for name in names:
        plain = name.replace("/", "_")
        fits = re.fullmatch(r"[\w:][\w:. +-]{0,99}", plain) and plain not in members
        members.append(plain if fits else file_name(f"{name}/"))  # the slash: always with a digest
    return members


def check_output(path: str | None, count: int) -> None:
    """Whether so many outputs can be written there: asked before anything is computed."""
    if path is None:
        return
    place = Path(path)
    if place.suffix not in (".npy", ".npz"):
        raise UsageError(f"{path} is neither .npy nor .npz")
    if place.suffix == ".npy" and count != 1:
        raise UsageError(f"{count} outputs do not fit into one .npy", remedy="write to an .npz")
    if place.is_dir() or not place.parent.is_dir():
        raise CommandError(
            f"cannot write {path}: {'it is a folder' if place.is_dir() else 'there is no such folder'}"
        )


def write_outputs(path: str, names: Sequence[str], values: Sequence[Any]) -> None:
    """One array as .npy, several as .npz."""
    place = Path(path)
    arrays = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
    try:
        if place.suffix == ".npy":
            np.save(place, next(iter(arrays.values())), allow_pickle=False)
            return
        with zipfile.ZipFile(place, "w", allowZip64=True) as archive:
            for name, array in zip(_members(arrays), arrays.values(), strict=True):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None
    except ValueError:
        raise CommandError(f"{path} cannot hold an output of text or lists") from None
