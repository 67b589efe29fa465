"""What planish offers its users, for tensors that speak of all of it: NumPy's protocols, hints, `__array_namespace__`.

These modules stand above the front end, and each is looked up when somebody asks: who only computes waits for none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Final


def public() -> ModuleType:
    """All of planish."""
    return import_module("planish")


ROOMS: Final[Mapping[str, Callable[[], ModuleType]]] = {
    "fft": lambda: import_module("planish.fft"),
    "linalg": lambda: import_module("planish.linalg"),
    "nn": lambda: import_module("planish.nn"),
}
"""Its modules of functions, by their names."""
