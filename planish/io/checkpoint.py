"""Checkpoints: any tree (model, optimiser state, step, random key, loader) in a folder or a file, written as a whole or not at all.

```
run/step-0000000100/index.json                      what the tree is, its numbers and texts, which file has which tensor
run/step-0000000100/tensors-3f09c1d2.safetensors    (or .npz; several, if one would be too large)
```

The index is written last and takes the place of an old one in one move: it alone makes a checkpoint. What an interrupted save
leaves behind is never read, and removed by the next one.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor
from planish.io import index, parts
from planish.io.files import PathLike, refuse, replaced
from planish.io.npz import load_npz, save_npz
from planish.io.restore import fitted
from planish.io.safetensors import SafetensorsFile, save_safetensors
from planish.io.torch_files import load_torch

T = TypeVar("T")
INDEX: Final = "index.json"
_EMBEDDED: Final = "planish.checkpoint"
"""Under what name a single file holds the index."""
_VERSION: Final = 1
_STEP: Final = re.compile(r"step-(\d{10,})")
_FORMATS: Final = (".safetensors", ".npz")
SHARD_BYTES: Final = 4 << 30
"""Tensors beyond this go into another file: what common file systems and uploads take."""


def save_checkpoint(
    path: PathLike,
    state: object,
    *,
    step: int | None = None,
    keep: int | None = None,
    format: str = "safetensors",
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """A tree into a folder, or into one file if the path ends in .safetensors or .npz; where it went.

    With a `step` the folder holds a checkpoint per step, of which the last `keep` stay.
    """
    place = Path(path)
    tensors, values, about = index.split(state, "save_checkpoint")
    content: dict[str, Any] = {"version": _VERSION, "step": step, "values": values, "tree": about}
    if place.suffix in _FORMATS:
        if step is not None or keep is not None:
            raise _mistake(f"the one file {place} has no steps", "give a folder, or leave step and keep out")
        _save_file(place, tensors, content)
        return place
    if f".{format}" not in _FORMATS:
        raise _mistake(f"there is no format {format!r}", "safetensors or npz")
    folder = folder_for(place, step, keep)
    folder.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    shards = list(_shards(tensors, shard_bytes))
    files: dict[str, str] = {}
    for number, names in enumerate(shards):
        part = "" if len(shards) == 1 else f"-{number + 1:05d}-of-{len(shards):05d}"
        file = f"tensors-{mark}{part}.{format}"
        save = save_npz if format == "npz" else save_safetensors
        save(folder / file, {name: tensors[name] for name in names})
        files |= dict.fromkeys(names, file)
    content["files"] = files
    with replaced(folder / INDEX) as out:
        out.write(json.dumps(content, indent=1).encode())
    tidy(place, folder, set(files.values()), keep)
    return folder


def folder_for(place: Path, step: int | None, keep: int | None) -> Path:
    """Where a checkpoint goes; what cannot be asked for is an error."""
    if keep is not None and (keep < 1 or step is None):
        raise _mistake(f"keep={keep} with step={step}", "keep the last one or more of numbered steps")
    if step is not None and step < 0:
        raise _mistake(f"the step {step} is negative", "count from 0")
    return place if step is None else place / f"step-{step:010d}"


def tidy(place: Path, folder: Path, files: set[str], keep: int | None) -> None:
    """After an index was written: what no index speaks of goes, and older steps than are kept."""
    _remove_others(folder, files)
    if keep is not None:
        _forget(place, keep)


def _mistake(message: str, remedy: str, op: str = "save_checkpoint") -> PlanishError:
    return PlanishError.of(op, message, remedy)


def _shards(tensors: Mapping[str, Tensor], limit: int) -> Iterator[list[str]]:
    """Names in order, no more bytes together than the limit unless one tensor has them alone."""
    names: list[str] = []
    total = 0
    for name, tensor in tensors.items():
        if names and total + tensor.nbytes > limit:
            yield names
            names, total = [], 0
        names.append(name)
        total += tensor.nbytes
    if names:
        yield names


def _save_file(place: Path, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> None:
    text = json.dumps(content)
    if place.suffix == ".npz":
        save_npz(place, {**tensors, _EMBEDDED: asarray(np.frombuffer(text.encode(), np.uint8).copy())})
    else:
        save_safetensors(place, tensors, {_EMBEDDED: text})


def _remove_others(folder: Path, files: set[str]) -> None:
    """Tensor files that no index speaks of: of the checkpoint that was replaced, or of a save that was cut off."""
    for file in folder.glob("tensors-*"):
        if file.name not in files:
            file.unlink(missing_ok=True)


def _forget(folder: Path, keep: int) -> None:
    """Older steps go: first the index, so that none is there by halves."""
    kept = set(checkpoints(folder)[-keep:])
    newest = max(kept)
    for child in folder.iterdir():
        match = _STEP.fullmatch(child.name)
        # a newer one without an index may be somebody's that is just being written
        if match and int(match[1]) < newest and int(match[1]) not in kept:
            (child / INDEX).unlink(missing_ok=True)
            shutil.rmtree(child, ignore_errors=True)


def checkpoints(path: PathLike) -> list[int]:
    """The steps of which a folder has a complete checkpoint, in order."""
    place = Path(path)
    if not place.is_dir():
        return []
    matches = [(_STEP.fullmatch(child.name), child) for child in place.iterdir()]
    return sorted(int(match[1]) for match, child in matches if match and (child / INDEX).is_file())


def load_checkpoint(
    path: PathLike, like: T | None = None, *, step: int | None = None, strict: bool = True
) -> T:
    """The tree of a checkpoint: of a folder (the last step, or the one that is named) or a file, also of torch's .pt and .pth.

    With `like` the result is built like that tree, leaf by leaf of the same name; missing, unexpected and unfit leaves are one
    error that lists them. Without `strict`, what is missing stays as in `like`, and what is unexpected is left out. Without `like` the
    result is made of dicts, lists, tuples, tensors and numbers.
    """
    place = place_of(Path(path), step)
    stored, about = read(place)
    leaves = {name: leaf.whole() if isinstance(leaf, parts.Parted) else leaf for name, leaf in stored.items()}
    if like is None:
        try:
            rebuilt: T = index.rebuilt(about, leaves.__getitem__)
        except (KeyError, ValueError, TypeError) as error:
            raise refuse(place, f"the index does not fit its tensors ({error})") from None
        return rebuilt
    old, structure = tree.flatten(like)
    names = index.names_of(structure, "load_checkpoint")
    new = fitted(place, dict(zip(names, old, strict=True)), leaves, strict)
    result: T = tree.unflatten(structure, [new[name] for name in names])
    return result


def place_of(path: Path, step: int | None) -> Path:
    """The folder with the index, or the file."""
    if path.is_file() and step is None:
        return path
    if step is None and (path / INDEX).is_file():
        return path
    steps = checkpoints(path)
    wanted = (steps[-1] if steps else None) if step is None else step
    if wanted is None or wanted not in steps:
        there = (
            f"there are steps {', '.join(map(str, steps))}"
            if steps
            else "is the path right, and was it saved?"
        )
        what = "checkpoint" if wanted is None else f"step {wanted}"
        raise _mistake(f"{os.fspath(path)} has no {what}", there, "load_checkpoint")
    return path / f"step-{wanted:010d}"


def read(place: Path) -> tuple[dict[str, Any], Any]:
    """All leaves by name, those in parts as such, and what the containers are."""
    if place.is_file():
        return _read_file(place)
    content = _parsed(place / INDEX, (place / INDEX).read_bytes())
    files, values = content["files"], content["values"]
    if not isinstance(files, dict) or not all(
        isinstance(file, str) and re.fullmatch(r"tensors-[\w-]+\.(safetensors|npz)", file)
        for file in files.values()
    ):
        raise refuse(place / INDEX, "the index names files that are not of a checkpoint")

    @cache
    def opened(file: str) -> Mapping[str, Tensor]:
        if not (place / file).is_file():
            raise refuse(place / INDEX, f"{file}, which it speaks of, is missing")
        return load_npz(place / file) if file.endswith(".npz") else SafetensorsFile(place / file)

    leaves: dict[str, Any] = dict(values)
    for name, file in files.items():
        if not (place / file).is_file():
            raise refuse(place / INDEX, f"{file}, which holds {name!r}, is missing")
        if name not in opened(file):
            raise refuse(place / file, f"{name!r}, which the index has here, is missing")
        leaves[name] = opened(file)[name]
    leaves |= parts.read(place, place / INDEX, content["sharded"], opened)
    return leaves, content["tree"]


def _read_file(place: Path) -> tuple[dict[str, Any], Any]:
    """A single file: with the index in it, or anybody's tensors, whose names are the tree."""
    with place.open("rb") as file:
        start = file.read(2)
    if start == b"PK" and place.suffix != ".npz":
        nested: Any = load_torch(place)
        leaves = index.flat(nested)
        return leaves, {"dict": {name: {"leaf": name} for name in leaves}}
    text: bytes | None
    if start == b"PK":
        tensors = load_npz(place)
        embedded = tensors.pop(_EMBEDDED, None)
        text = None if embedded is None else np.asarray(embedded).tobytes()
    else:
        opened = SafetensorsFile(place)
        tensors = dict(opened)
        about = opened.metadata.get(_EMBEDDED)
        text = None if about is None else about.encode()
    if text is None:
        return dict(tensors), {"dict": {name: {"leaf": name} for name in tensors}}
    content = _parsed(place, text)
    return {**content["values"], **tensors}, content["tree"]


def _parsed(place: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refuse(place, f"the index is not JSON ({type(error).__name__})") from None
    if not isinstance(content, dict) or not {"version", "values", "tree"} <= content.keys():
        raise refuse(place, "this is no index of a checkpoint")
    if content["version"] not in (_VERSION, parts.VERSION):
        raise refuse(place, f"the index has version {content['version']!r}, which this planish does not read")
    values = content["values"]
    if not isinstance(values, dict) or not all(
        isinstance(v, bool | int | float | str) for v in values.values()
    ):
        raise refuse(place, "the index has values that are neither numbers nor texts")
    content.setdefault("files", {})
    content.setdefault("sharded", {})
    return content
