"""planish: a tensor compiler in Python.

The names in `__all__` are the public face; everything else is private. The IRs `ptir` and `uop` are imported
on first use, so that `import planish` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish._version import __version__
from planish.config import settings
from planish.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# The Array API standard calls it `bool`: from here on the builtin is hidden in this module.
from planish.dtypes import bool_ as bool
from planish.errors import PlanishError

if TYPE_CHECKING:
    from planish import ptir as ptir
    from planish import uop as uop

__all__ = [
    "PlanishError",
    "__version__",
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "ptir",
    "settings",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uop",
]

_LAZY = frozenset({"ptir", "uop"})

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any misspelt attribute.

    def __getattr__(name):
        if name in _LAZY:
            import importlib

            return importlib.import_module(f"planish.{name}")
        raise AttributeError(f"module 'planish' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_LAZY})
