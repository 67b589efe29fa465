"""Sizes with names: what torch calls `s0` is a bounded size of PTIR, so that one program serves all sizes.

torch captures a graph once for all sizes of a dimension (`dynamic=True`), with guards for what it assumes of them. Bounds are chosen from the sizes
that are met: from 2 (0 and 1 have graphs of their own) to sixteen times as many, at least 1024. Beyond them the segment is compiled again.

A program learns its sizes from the shapes of what it is given. A name that is the size of no tensor (a number that the user passes, an offset) comes
with an empty tensor of its own, of so many rows without elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import fx
from torch.utils._sympy.functions import FloorDiv

from planish.ptir.dims import Dim, DimLike
from planish.torch.forms import Form
from planish.torch.registry import LeftToTorch

_LEAST: Final = 2
_ROOM: Final = 16
_AT_LEAST: Final = 1024


class NamedSizes:
    """The names in a segment's shapes, with bounds."""

    def __init__(self, named: Sequence[fx.Node], given: Sequence[Any]) -> None:
        """Nodes of tensors and numbers, and what they are in the call at hand."""
        self.bounds: dict[Any, tuple[int, int]] = {
            name: (_least(size), max(_AT_LEAST, _ROOM * actual))
            for name, size, actual in _names(named, given)
        }
        self.dims = {
            name: Dim.named(str(name) if name.is_Symbol else f"number_{place}", *bounds)
            for place, (name, bounds) in enumerate(self.bounds.items())
        }

    def holds(self, named: Sequence[fx.Node], given: Sequence[Any]) -> bool:
        """Whether the sizes of a call are within the bounds."""
        return all(
            self.bounds[name][0] <= actual <= self.bounds[name][1] for name, _, actual in _names(named, given)
        )

    def untold(self, forms: Sequence[Form]) -> tuple[Any, ...]:
        """The names that no axis in memory has for its size."""
        sizes = {dim for form in forms for dim in form.type.dims}
        return tuple(name for name, dim in self.dims.items() if dim not in sizes)

    def rows(self, name: Any) -> Form:
        """The form of the empty tensor that tells a size."""
        return Form(torch.bool, (self.dims[name], 0), None, ())  # type: ignore[arg-type]

    def form(self, node: fx.Node, form: Form) -> Form:
        """The form of a tensor with names for sizes."""
        return replace(form, shape=self.shape(node.meta["val"].shape))

    def shape(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes as PTIR has them."""
        return tuple(self.size(size) for size in sizes)

    def size(self, size: Any) -> DimLike:
        """A size: a number, or a polynomial of names."""
        if isinstance(size, int):
            return size
        if not isinstance(size, torch.SymInt):
            raise LeftToTorch(f"{size} is known at run time only")
        return self._of(size.node.expr)

    def _of(self, expression: Any) -> DimLike:
        if expression.is_Integer:
            return int(expression)
        if expression in self.dims:
            return self.dims[expression]
        parts = [self._of(part) for part in expression.args]
        if expression.is_Add or expression.is_Mul:
            total = parts[0]
            for part in parts[1:]:
                total = total + part if expression.is_Add else total * part
            return total
        if isinstance(expression, FloorDiv):
            return parts[0] // parts[1]
        if expression.is_Pow and isinstance(parts[1], int) and parts[1] > 0:
            power: DimLike = 1
            for _ in range(parts[1]):
                power = power * parts[0]
            return power
        raise LeftToTorch(f"the size {expression} has no name")


def rows_for(named: Sequence[fx.Node], given: Sequence[Any], untold: Sequence[Any]) -> list[torch.Tensor]:
    """The empty tensors that tell a program sizes that no other tensor has."""
    actual = {name: size for name, _, size in _names(named, given)}
    return [torch.empty((actual[name], 0), dtype=torch.bool) for name in untold]


def _names(named: Sequence[fx.Node], given: Sequence[Any]) -> Iterator[tuple[Any, torch.SymInt, int]]:
    """The sizes that are a name alone, and numbers of names that are no size here; and how large each is."""
    known = set()
    others = []
    for node, value in zip(named, given, strict=True):
        fake = node.meta["val"]
        sizes = (
            zip(fake.shape, value.shape, strict=True) if isinstance(fake, torch.Tensor) else [(fake, value)]
        )
        for size, actual in sizes:
            if not isinstance(size, torch.SymInt):
                continue
            if size.node.expr.is_Symbol:
                known.add(size.node.expr)
                yield size.node.expr, size, actual
            elif not isinstance(fake, torch.Tensor):
                others.append((size.node.expr, size, actual))
    for expression, size, actual in others:
        if not expression.free_symbols <= known:
            yield expression, size, actual


def _least(size: torch.SymInt) -> int:
    """The least that torch's guards allow."""
    ranges = size.node.shape_env.var_to_range
    interval = ranges.get(size.node.expr)
    return _LEAST if interval is None or not interval.lower.is_Integer else int(interval.lower)
