"""planish: a tensor compiler in Python.

The names in `__all__` are the public face; everything else is private. The Tensor API and the IRs `ptir`, `uop` and
`llir` are imported on first use, so that `import planish` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish import forking as _forking
from planish._version import __version__
from planish.collector import collector_off as _collector_off
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
from planish.errors import UnknownName as UnknownName
from planish.errors import spelt_like as spelt_like

if TYPE_CHECKING:
    from planish import data as data
    from planish import debug as debug
    from planish import distributed as distributed
    from planish import fft as fft
    from planish import io as io
    from planish import linalg as linalg
    from planish import llir as llir
    from planish import memory as memory
    from planish import nn as nn
    from planish import optim as optim
    from planish import ptir as ptir
    from planish import random as random
    from planish import tree as tree
    from planish import uop as uop
    from planish.frontend.arguments import TensorSpec
    from planish.frontend.associative import associative_scan
    from planish.frontend.callbacks import io_callback, pure_callback
    from planish.frontend.control import cond, fori_loop, map, scan, switch, while_loop
    from planish.frontend.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
    from planish.frontend.jit import Dim, disable_jit, jit
    from planish.frontend.sharding import Mesh, P, Sharded, Sharding, shard, with_sharding
    from planish.frontend.tensor import *  # noqa: F403
    from planish.frontend.tensor.inspection import __array_namespace_info__
    from planish.frontend.transforms import (
        eval_shape,
        grad,
        hessian,
        jacfwd,
        jacrev,
        jvp,
        linearize,
        value_and_grad,
        vjp,
        vmap,
    )
    from planish.numpy_names import *  # noqa: F403

__array_api_version__ = "2025.12"
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

_OWN = (
    "Dim", "Mesh", "P", "PlanishError", "Sharded", "Sharding", "TensorSpec", "__array_api_version__", "__version__", "associative_scan", "bfloat16", "bool",
    "checkpoint", "complex64", "complex128", "cond", "custom_jvp", "custom_vjp", "data", "debug", "disable_jit", "distributed", "e", "eval_shape", "fft", "float8_e4m3fn",
    "float8_e5m2", "float16", "float32", "float64", "fori_loop", "grad", "hessian", "inf", "int8", "int16",
    "int32", "int64", "io", "io_callback", "jacfwd", "jacrev", "jit", "jvp", "linalg", "linearize", "llir", "map", "memory", "nan",
    "newaxis", "nn", "optim", "pi", "ptir", "pure_callback", "random", "scan", "settings", "shard", "stop_gradient", "switch", "tree", "uint8",
    "uint16", "uint32", "uint64", "uop", "value_and_grad", "vjp", "vmap", "while_loop", "with_sharding",
)  # fmt: skip
_MODULES = frozenset(
    {
        "data", "debug", "distributed", "fft", "io", "linalg", "llir", "memory", "nn", "optim", "ptir",
        "random", "tree", "uop",
    }
)  # fmt: skip
_HOMES = {
    "arguments": "TensorSpec",
    "associative": "associative_scan",
    "callbacks": "io_callback pure_callback",
    "control": "cond fori_loop map scan switch while_loop",
    "custom": "checkpoint custom_jvp custom_vjp stop_gradient",
    "jit": "Dim disable_jit jit",
    "sharding": "Mesh P Sharded Sharding shard with_sharding",
    "transforms": "eval_shape grad hessian jacfwd jacrev jvp linearize value_and_grad vjp vmap",
}
"""Modules of the front end whose names are imported on first use; all others come from the Tensor API."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any misspelt attribute. What the Tensor API's
    # chapters export is asked of them, when somebody wants it: a list of it here would be a second one.

    def _imported(name):
        import importlib
        import sys

        if name in sys.modules:
            return importlib.import_module(name)
        with _collector_off():  # it would go over all that was imported before, again and again
            return importlib.import_module(name)

    def __getattr__(name):
        import importlib.util

        if name in _MODULES:
            return _suggesting(_imported(f"planish.{name}"))
        if name in _HOME:
            value = getattr(_imported(f"planish.frontend.{_HOME[name]}"), name)
        elif name.startswith("_") and name not in ("__all__", "__array_namespace_info__"):
            raise AttributeError(f"module 'planish' has no attribute {name!r}")
        elif importlib.util.find_spec(f"planish.{name}") is not None:
            # `from planish import module` asks for an attribute first: that must not import the Tensor API
            raise UnknownName(
                "module 'planish'", name, lambda name: f" yet; it comes with `import planish.{name}`"
            )
        else:
            tensor = _imported("planish.frontend.tensor")
            if name in tensor.__all__:
                value = getattr(tensor, name)
            else:
                names = _imported("planish.numpy_names")
                if name == "__all__":
                    value = sorted((*_OWN, *tensor.__all__, *names.__all__))
                elif name in names.__all__:
                    value = getattr(names, name)
                else:
                    raise _unknown(name)
        globals()[name] = value
        return value

    def _unknown(name):
        """The error for a name that is not there, with those that look like it."""
        return UnknownName(
            "module 'planish'", name, lambda name: _hint("planish", name, __getattr__("__all__"))
        )

    def _hint(module, name, valid):
        from planish.elsewhere import hint

        return hint(module, name, valid, lambda room: __getattr__(room).__all__)

    def _suggesting(module):
        """The module, which tells names that look like one that is not there."""

        def unknown(name):
            hint = lambda name: _hint(module.__name__, name, getattr(module, "__all__", ()))  # noqa: E731
            raise UnknownName(f"module {module.__name__!r}", name, hint)

        vars(module).setdefault("__getattr__", unknown)
        return module

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
