"""How operations become PTIR: one table, keyed by the name of the operation.

    @lowering("stablehlo.transpose")
    def transpose(at: Site, x: V, *, permutation: Sequence[int]) -> V: ...

A lowering takes the operands as values of the graph under construction and the attributes by name; one that it does not name
is an error. It returns a value, or as many as the operation has results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

Function: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Function)


class Lowering(NamedTuple):
    """A lowering, and the attributes that it knows."""

    call: Function
    attributes: frozenset[str] | None
    """None: any."""


TABLE: Final[dict[str, Lowering]] = {}


ELEMENTWISE: Final[set[str]] = set()
"""Operations that do to each element of a tensor what they do to a scalar."""


def lowering(*names: str, elementwise: bool = False) -> Callable[[F], F]:
    """Register a lowering for operations by name."""

    def register(function: F) -> F:
        parameters = inspect.signature(function).parameters.values()
        known = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        every = any(p.kind is p.VAR_KEYWORD for p in parameters)
        for name in names:
            if name in TABLE:
                raise ValueError(f"two lowerings of {name}")
            TABLE[name] = Lowering(function, None if every else known)
            if elementwise:
                ELEMENTWISE.add(name)
        return function

    return register
