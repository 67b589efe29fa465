"""StableHLO modules run by planish: `planish.stablehlo.load(text | bytes | path | what jax lowered or exported)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planish.stablehlo.program import CheckFailed, StableHLOProgram
from planish.stablehlo.sources import Source, read

__all__ = ["CheckFailed", "StableHLOProgram", "load"]


def load(
    source: Source, *, entry: str | None = None, device: str = "cpu", dims: Mapping[str, Any] | None = None
) -> StableHLOProgram:
    """A function of a module, by default `main`, or its only one.

    `dims` gives bounds to sizes that the module leaves open, so that there is one program for all of them: `{"b": (1, 64)}` for a size that
    jax.export calls b, `{"x.0": (1, 64)}` for axis 0 of argument x, which may be a PTIR `Dim` that several share.
    """
    module = read(source)
    if entry is None:
        entry = (
            "main"
            if "main" in module.functions or len(module.functions) > 1
            else next(iter(module.functions))
        )
    avals = getattr(source, "in_avals", None) if hasattr(source, "mlir_module_serialized") else None
    shapes = None if avals is None else [[str(size) for size in aval.shape] for aval in avals]
    return StableHLOProgram(module, entry, device=device, dims=dims, shapes=shapes)
