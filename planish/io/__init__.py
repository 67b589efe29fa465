"""Tensors in files: safetensors and npz both ways, PyTorch checkpoints without running the code in them.

Elements are mapped from the file rather than read, so that loading costs nothing until they are used, and a file larger than
memory can be opened. Everything a file says about itself is checked first: a truncated or forged one is a `FileFormatError`
that names the file and what is wrong with it, never a crash, a wrong array, or a program that somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.mistaken import report_all
from planish.io.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from planish.io.files import FileFormatError, PathLike
from planish.io.npz import load_npz, save_npz
from planish.io.restore import CheckpointError
from planish.io.safetensors import SafetensorsFile, load_safetensors, load_shards, save_safetensors
from planish.io.torch_files import Checkpoint, load_torch

__all__ = [
    "Checkpoint", "CheckpointError", "FileFormatError", "SafetensorsFile", "checkpoints", "load",
    "load_checkpoint", "load_npz", "load_safetensors", "load_torch", "save", "save_checkpoint", "save_npz",
    "save_safetensors",
]  # fmt: skip


def load(path: PathLike) -> dict[str, Tensor]:
    """Named tensors from a file; its content tells safetensors, npz and PyTorch checkpoints apart.

    The index of a model in several files (`model.safetensors.index.json`) stands for all of them.
    """
    place = Path(path)
    if place.suffix == ".json":
        return load_shards(place)
    with place.open("rb") as file:
        start = file.read(9)
    if start[8:] == b"{":  # after the length of its header
        return load_safetensors(place)
    # what is none of them is told as what it is called
    if place.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        return _named(place, load_torch(place))
    return load_npz(place) if start[:2] == b"PK" or place.suffix == ".npz" else load_safetensors(place)


def _named(path: Path, content: Checkpoint) -> dict[str, Tensor]:
    """The tensors of a checkpoint that holds nothing else, as a state_dict does."""
    result: dict[str, Tensor] = {}
    for name, value in content.items() if isinstance(content, dict) else [("the whole", content)]:
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise FileFormatError(
                f"{path} is more than names and tensors: {name!r} is a {type(value).__name__}",
                remedy="use planish.io.load_torch and take the part that is",
            )
        result[name] = value
    return result


def save(path: PathLike, tensors: Mapping[str, Tensor]) -> None:
    """Named tensors to a file: npz if it is called so, else safetensors."""
    if Path(path).suffix == ".npz":
        save_npz(path, tensors)
    else:
        save_safetensors(path, tensors)


report_all(globals(), __all__)
