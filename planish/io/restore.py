"""Leaves of a checkpoint brought into a tree: each has to fit the one whose place it takes, and what does not is listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planish.errors import Location, ShapeError, did_you_mean
from planish.frontend.tensor.array import Tensor

_SHOWN = 5


class CheckpointError(ShapeError):
    """A checkpoint that does not fit the tree it is loaded into; what is wrong is in three lists."""

    def __init__(
        self,
        message: str,
        *,
        missing: Sequence[str] = (),
        unexpected: Sequence[str] = (),
        mismatched: Sequence[str] = (),
        location: Location | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, op="load_checkpoint", location=location, remedy=remedy)
        self.missing = list(missing)
        self.unexpected = list(unexpected)
        self.mismatched = list(mismatched)


def fitted(path: Path, old: Mapping[str, Any], stored: Mapping[str, Any], strict: bool) -> dict[str, Any]:
    """For each leaf of a tree the one of the same name, in its dtype and on its device."""
    missing = [name for name in old if name not in stored]
    unexpected = [name for name in stored if name not in old]
    result = dict(old)
    mismatched: list[str] = []
    for name, leaf in old.items():
        if name in stored:
            new, problem = _taken(leaf, stored[name])
            if problem is None:
                result[name] = new
            else:
                mismatched.append(f"{name} ({problem})")
    if mismatched or (strict and (missing or unexpected)):
        parts = [
            f"{what} {_listed(names)}"
            for what, names in (("missing", missing), ("unexpected", unexpected), ("mismatched", mismatched))
            if names
        ]
        near = [(name, did_you_mean(name, unexpected)) for name in missing[:3]]
        hints = [f"{there!r} may be {name!r}" for name, there in near if there is not None]
        raise CheckpointError(
            f"load_checkpoint: {path} does not fit: {'; '.join(parts)}",
            missing=missing,
            unexpected=unexpected,
            mismatched=mismatched,
            location=Location.caller(),
            remedy=", ".join(hints)
            or ("give a tree of these shapes" if mismatched else "strict=False takes what is there"),
        )
    return result


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _taken(old: Any, new: Any) -> tuple[Any, str | None]:
    """What takes the place of a leaf, or why it cannot."""
    if isinstance(old, np.generic):
        old = np.asarray(old)
    if isinstance(old, Tensor | np.ndarray):
        if not isinstance(new, Tensor):
            return None, f"{list(old.shape)} in the tree, the {type(new).__name__} {new!r} in the checkpoint"
        if tuple(new.shape) != tuple(old.shape):
            return None, f"{list(old.shape)} in the tree, {list(new.shape)} in the checkpoint"
        if isinstance(old, np.ndarray):
            given = np.asarray(new)
            return (given, None) if given.dtype == old.dtype else (None, f"{old.dtype}, not {given.dtype}")
        if new.dtype is not old.dtype:
            if not (new.dtype.is_float and old.dtype.is_float):
                return None, f"{old.dtype.name} in the tree, {new.dtype.name} in the checkpoint"
            new = new.astype(old.dtype)
        return (new if new.device == old.device else new.to_device(old.device)), None
    if isinstance(new, Tensor) and isinstance(old, bool | int | float) and new.ndim == 0:
        # torch and NumPy keep numbers as arrays without axes
        new = new.item()
    if isinstance(old, float) and type(new) is int:
        new = float(new)
    if type(new) is not type(old):
        return None, f"{type(old).__name__} in the tree, {type(new).__name__} in the checkpoint"
    return new, None
