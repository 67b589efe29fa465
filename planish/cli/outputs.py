"""What `planish run` says about outputs: in a line, as data, and beside what another runtime computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.cli.console import FAILED, OK, CommandError, Console

Array = NDArray[Any]
_TOLERANCE: Final = 1e-3
"""Of the largest element of an output: what order of summation may change."""


def write_text(console: Console, text: str) -> None:
    """A part of the product as text, where that is not wanted as JSON."""
    if not console.json:
        console.write(text)


def described(value: Any) -> Any:
    """An output as data: its elements where they are few."""
    if isinstance(value, list):
        return [described(item) for item in value]
    if not isinstance(value, np.ndarray):
        return str(value)
    record: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if value.dtype.kind in "biu" or value.dtype.name.startswith(("float", "bfloat")):
        few = value.size <= 8
        wide = value.astype(np.float64)
        facts = (
            {"values": value.tolist()}
            if few
            else {"min": float(wide.min()), "max": float(wide.max()), "mean": float(wide.mean())}
        )
        record |= facts
    return record


def summary(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(summary(item) for item in value)}]"
    if not isinstance(value, np.ndarray):
        return str(value)
    shape = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if value.dtype == object or not value.size:
        return shape
    if value.size <= 8:
        return f"{shape} {' '.join(f'{v}' for v in value.reshape(-1))}"
    wide = value.astype(np.float64) if value.dtype.kind != "c" else np.abs(value)
    return f"{shape} min {wide.min():.6g} max {wide.max():.6g} mean {wide.mean():.6g}"


def check_with_onnxruntime(
    path: str,
    feeds: Mapping[str, Array],
    names: Sequence[str],
    results: Sequence[Any],
    record: dict[str, Any],
    console: Console,
) -> int:
    """Compare each output; the exit status."""
    try:
        import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise CommandError("onnxruntime is not installed", remedy="pip install onnxruntime") from None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for name, ours, theirs in zip(names, results, session.run(list(names), dict(feeds)), strict=True):
        error = difference(ours, theirs)
        worst = max(worst, error)
        record.setdefault("apart_from_onnxruntime", {})[name] = error
        write_text(console, f"{name}: {error:.2e} of the largest element apart from onnxruntime\n")
    if worst > _TOLERANCE:
        console.complain(f"an output is {worst:.2e} apart from onnxruntime's")
        return FAILED
    return OK


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference, as a part of the largest element."""
    if isinstance(theirs, list):
        return max((difference(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
    if np.shape(ours) != np.shape(theirs):
        return float("inf")
    if np.asarray(theirs).dtype.kind in "OUS":
        return (
            0.0
            if np.array_equal(np.asarray(ours).astype(str), np.asarray(theirs).astype(str))
            else float("inf")
        )
    a, b = (np.asarray(value).astype(np.float64) for value in (ours, theirs))
    if not a.size:
        return 0.0
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    same = np.isfinite(a)
    scale = np.max(np.abs(b[same]), initial=0.0)
    apart = np.max(np.abs(a[same] - b[same]), initial=0.0)
    return float(apart / (scale + 1e-6))
