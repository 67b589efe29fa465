"""Checkpoints of sharded trees: every rank writes the parts that are its own, and the index, written last, makes the checkpoint.

```
run/step-0000000100/index.json                               as of any checkpoint; a cut tensor with the place of each part
run/step-0000000100/tensors-3f09c1d2.safetensors             what is not cut, by the first rank
run/step-0000000100/tensors-3f09c1d2-rank00003.safetensors   the parts of a rank
```

A part that several ranks have is written by the first of them. A rank reads only what it needs of the files, whatever mesh they were written on:
`load` cuts tensors as those of `like` are cut. `pn.io.load_checkpoint` reads the same folders, each tensor as a whole.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.tensor import asarray
from planish.io import checkpoint as whole
from planish.io import index, parts
from planish.io.files import PathLike, replaced
from planish.io.restore import fitted
from planish.io.safetensors import save_safetensors
from planish.ptir.ops.collective import group_size, place_of
from planish.runtime.ranks import world

if TYPE_CHECKING:
    from planish.frontend.sharding import Sharded

T = TypeVar("T")


def is_sharded(leaf: object) -> bool:
    """Whether a leaf of a tree is cut over a mesh."""
    return hasattr(leaf, "mesh") and hasattr(leaf, "spec") and hasattr(leaf, "parts")


def save(path: PathLike, state: object, *, step: int | None = None, keep: int | None = None) -> Path:
    """A tree with sharded tensors into a folder; all ranks call it together. Where it went.

    With a `step` the folder holds a checkpoint per step, of which the last `keep` stay.
    """
    here = world()
    place = Path(path)
    folder = whole.folder_for(place, step, keep)
    if here.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    mark = here.agree("saving a checkpoint", secrets.token_hex(4).encode())[0].decode()
    leaves, structure = tree.flatten(state)
    names = index.names_of(structure, "save")
    cut = {name: leaf for name, leaf in zip(names, leaves, strict=True) if is_sharded(leaf)}
    own = {
        rank: {name: leaf.parts[rank] for name, leaf in cut.items() if rank in _writers(leaf)}
        for rank in sorted({rank for leaf in cut.values() for rank in leaf.parts})
    }
    for rank, tensors in own.items():
        if tensors:
            save_safetensors(folder / _file(mark, rank), tensors)
    here.barrier("saving a checkpoint: waiting for the files of all ranks")
    if here.rank == 0:
        plain = [asarray(np.zeros(0)) if is_sharded(leaf) else leaf for leaf in leaves]
        tensors, values, about = index.split(tree.unflatten(structure, plain), "save")
        content = {"version": parts.VERSION, "step": step, "values": values, "tree": about}
        content["sharded"] = {name: _described(leaf, mark) for name, leaf in cut.items()}
        uncut = {name: tensor for name, tensor in tensors.items() if name not in cut}
        file = f"tensors-{mark}.safetensors"
        if uncut:
            save_safetensors(folder / file, uncut)
        content["files"] = dict.fromkeys(uncut, file)
        with replaced(folder / whole.INDEX) as out:
            out.write(json.dumps(content, indent=1).encode())
        used = {file, *(part["file"] for about in content["sharded"].values() for part in about["parts"])}
        whole.tidy(place, folder, used, keep)
    here.barrier("saving a checkpoint: waiting for the index")
    return folder


def load(path: PathLike, like: T, *, step: int | None = None, strict: bool = True) -> T:
    """The tree of a checkpoint, built like another one: where that has a tensor cut over a mesh, so has the result.

    Each rank reads the parts it needs; the checkpoint may have been written on any mesh, or on none.
    """
    place = whole.place_of(Path(path), step)
    old, structure = tree.flatten(like)
    names = index.names_of(structure, "load")
    saved, _ = whole.read(place)
    wanted = {name: leaf for name, leaf in zip(names, old, strict=True) if is_sharded(leaf)}
    plain = {
        name: asarray(np.empty(0, leaf.dtype.numpy)) if name in wanted else leaf
        for name, leaf in zip(names, old, strict=True)
    }
    given = {
        name: plain[name] if name in wanted else leaf.whole() if isinstance(leaf, parts.Parted) else leaf
        for name, leaf in saved.items()
    }
    new = fitted(place, plain, given, strict)
    for name, leaf in wanted.items():
        if name in saved:
            new[name] = _cut(place, name, leaf, saved[name])
        else:
            new[name] = leaf
    result: T = tree.unflatten(structure, [new[name] for name in names])
    return result


def _cut(place: Path, name: str, leaf: Sharded, tensor: Any) -> Sharded:
    """What this process has of a tensor in a file, cut as `leaf` is."""
    if tuple(tensor.shape) != leaf.shape or tensor.dtype is not leaf.dtype:
        raise PlanishError(
            f"load: {place} does not fit: {name} is {leaf.dtype.name}{list(leaf.shape)} in the tree, "
            f"{tensor.dtype.name}{list(tensor.shape)} in the checkpoint",
            remedy="give a tree of these shapes and dtypes",
        )
    own = {}
    for rank in leaf.parts:
        region = _region(leaf, rank)
        own[rank] = asarray(np.ascontiguousarray(parts.region_of(tensor, region)))
    return type(leaf)(leaf.mesh, leaf.spec, leaf.shape, leaf.dtype, own)


def _region(leaf: Sharded, rank: int) -> tuple[slice, ...]:
    """Where the part of a rank lies."""
    slices = []
    for size, names in zip(leaf.shape, leaf.spec, strict=True):
        part = size // group_size(leaf.mesh.axes, names)
        start = part * place_of(leaf.mesh.axes, names, rank)
        slices.append(slice(start, start + part))
    return tuple(slices)


def _writers(leaf: Sharded) -> list[int]:
    """Of the ranks that have the same part, the first; for every part."""
    used = {name for names in leaf.spec for name in names}
    rest = [name for name, _ in leaf.mesh.axes if name not in used]
    return [rank for rank in range(leaf.mesh.size) if place_of(leaf.mesh.axes, rest, rank) == 0]


def _file(mark: str, rank: int) -> str:
    return f"tensors-{mark}-rank{rank:05d}.safetensors"


def _described(leaf: Sharded, mark: str) -> dict[str, Any]:
    """A cut tensor as the index has it."""
    there = [
        {"file": _file(mark, rank), "start": [each.start for each in _region(leaf, rank)]}
        for rank in _writers(leaf)
    ]
    return {"shape": list(leaf.shape), "dtype": leaf.dtype.short, "parts": there}
