"""planish: a tensor compiler in Python.

The names in `__all__` are the public face; everything else is private. The Tensor API and the IRs `ptir`, `uop` and
`llir` are imported on first use, so that `import planish` stays quick.
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
    from planish import llir as llir
    from planish import ptir as ptir
    from planish import uop as uop
    from planish.frontend.tensor import (
        Tensor,
        abs,
        add,
        asarray,
        divide,
        exp,
        log,
        matmul,
        max,
        maximum,
        min,
        minimum,
        multiply,
        negative,
        permute_dims,
        reshape,
        sqrt,
        subtract,
        sum,
        tanh,
    )

__all__ = [
    "PlanishError",
    "Tensor",
    "__version__",
    "abs",
    "add",
    "asarray",
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "divide",
    "exp",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "llir",
    "log",
    "matmul",
    "max",
    "maximum",
    "min",
    "minimum",
    "multiply",
    "negative",
    "permute_dims",
    "ptir",
    "reshape",
    "settings",
    "sqrt",
    "subtract",
    "sum",
    "tanh",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uop",
]

_MODULES = frozenset({"llir", "ptir", "uop"})
_TENSOR = frozenset(__all__) - _MODULES - globals().keys()
"""Names that come from the Tensor API."""

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any misspelt attribute.

    def __getattr__(name):
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"planish.{name}")
        if name in _TENSOR:
            return getattr(importlib.import_module("planish.frontend.tensor"), name)
        raise AttributeError(f"module 'planish' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
