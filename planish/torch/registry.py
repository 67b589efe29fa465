"""How ATen ops become PTIR: one table, keyed by the name of the op, with or without its overload.

    @lowering("aten.embedding")
    def embedding(at: FxSite, weight: V, indices: V, padding_idx: int = -1) -> V: ...

A lowering takes the arguments of the op under the names of its schema: tensors as values of the graph under construction,
everything else as it is. An argument that it does not name is an error, and the node is handed back to torch.
It returns a value, or as many as the op has results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from planish.errors import PlanishError

Lowering: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Lowering)

_TABLE: Final[dict[str, Lowering]] = {}


class LeftToTorch(PlanishError):
    """Something in a graph that planish does not do: torch does it."""


def lowering(*names: str) -> Callable[[F], F]:
    """Register a lowering for ops by name."""

    def register(function: F) -> F:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"two lowerings of {name}")
            _TABLE[name] = function
        return function

    return register


def find(target: object) -> Lowering | None:
    """The lowering of an op: that of its overload, else that of all of them."""
    name = str(target)
    entry = _TABLE.get(name)
    return _TABLE.get(name.rpartition(".")[0]) if entry is None else entry


def names() -> list[str]:
    """Every op there is a lowering for."""
    return sorted(_TABLE)
