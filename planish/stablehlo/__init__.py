"""StableHLO modules run by planish: `planish.stablehlo.load(text | bytes | path | what jax lowered or exported)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planish.stablehlo.program import CheckFailed, Program
from planish.stablehlo.sources import Source, read

__all__ = ["CheckFailed", "Program", "load"]


def load(
    source: Source, *, entry: str | None = None, device: str = "cpu", dims: Mapping[str, Any] | None = None
) -> Program:
    """A function of a module, by default `main`, or its only one.

    `dims` gives bounds to sizes that the module leaves open: `{"x.0": (1, 64)}` for axis 0 of argument x, or a `planish.Dim` that several share.
    """
    module = read(source)
    if entry is None:
        entry = "main" if "main" in module.functions or len(module.functions) > 1 else next(iter(module.functions))
    return Program(module, entry, device=device, dims=dims)
