"""Differentiation as a transform of PTIR: `jvp` pushes tangents forward, `vjp` pulls cotangents back."""

from planish.frontend.autodiff.forward import jvp
from planish.frontend.autodiff.reverse import vjp

__all__ = ["jvp", "vjp"]
