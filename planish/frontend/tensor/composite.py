"""Compositions of `planish.ptir.library` as functions of tensors.

A composition is written once on the handles of a PTIR graph. Here it is built for the types at hand, kept, and applied to
tensors op by op, so that it fuses, differentiates and prints like anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from planish import ptir
from planish.errors import Location, PlanishError
from planish.frontend import trace as tracer
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.recipes import remembered
from planish.ptir.types import TensorType

Options = tuple[tuple[str, Hashable], ...]


def composite(function: Callable[..., Any], *tensors: Tensor | None, **options: Hashable) -> Tensor:
    """A composition with one result; None stands for an operand that is left out."""
    return composites(function, *tensors, **options)[0]


def composites(
    function: Callable[..., Any], *tensors: Tensor | None, **options: Hashable
) -> tuple[Tensor, ...]:
    """A composition with several results."""
    return _applied(function, tuple(options.items()))(*tensors)


@lru_cache(maxsize=1024)
def _applied(function: Callable[..., Any], options: Options) -> Callable[..., tuple[Tensor, ...]]:
    @remembered
    def apply(*tensors: Tensor | None) -> tuple[Tensor, ...]:
        types = tuple([None if x is None else x._type for x in tensors])
        try:
            built = _built(function, types, options)
        except PlanishError as error:
            error.op = getattr(
                function, "__name__", error.op
            )  # the op of a graph inside says nothing to its user
            error.location = Location.caller()
            raise
        return tracer.inline(built, [x for x in tensors if x is not None])

    return apply


@lru_cache(maxsize=1024)
def _built(
    function: Callable[..., Any], types: Sequence[TensorType | None], options: Options
) -> ptir.Function:
    graph = ptir.Graph(getattr(function, "__name__", "composite"))
    inputs = [None if type is None else graph.input(f"x{number}", type) for number, type in enumerate(types)]
    result = function(*inputs, **dict(options))
    return graph.build(*result) if isinstance(result, tuple | list) else graph.build(result)
