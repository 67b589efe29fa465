"""Named sizes, from the shapes of arrays: what a shape tells, and whether all shapes agree.

A name is known from the first axis that tells it: its own, or an expression a·name + b. Every other axis must agree, and
bounds hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planish.errors import ShapeError
from planish.ptir.dims import Dim, DimLike, substitute
from planish.ptir.types import TensorType


def learn(
    types: Sequence[TensorType], shapes: Sequence[Sequence[int]], sizes: dict[str, int], labels: Sequence[str]
) -> None:
    """Add what shapes tell about named sizes, or find them in disagreement. Numbers and names come first, expressions after."""
    for expressions in (False, True):
        for type, shape, label in zip(types, shapes, labels, strict=True):
            for axis, (dim, size) in enumerate(zip(type.dims, shape, strict=True)):
                if (isinstance(dim, Dim) and dim.name is None) is expressions:
                    _learn(dim, size, sizes, f"axis {axis} of {label} ({type})")


def _learn(dim: DimLike, size: int, sizes: dict[str, int], what: str) -> None:
    known = substitute(dim, sizes)
    if isinstance(known, Dim):
        name, value = _solve(known, size, what)
        symbol = next(symbol for symbol in known.symbols() if symbol.name == name)
        if not symbol.lo <= value <= symbol.hi:
            raise ShapeError(f"{what} has size {size}: {name} = {value} is outside {symbol.lo}..{symbol.hi}")
        sizes[name] = value
    elif known != size:
        raise ShapeError(f"{what} has size {size}, not {known}{_because(dim, sizes)}")


def _because(dim: DimLike, sizes: Mapping[str, int]) -> str:
    if isinstance(dim, int):
        return ""
    names = sorted({symbol.name for symbol in dim.symbols()})
    return f" ({dim} with {', '.join(f'{name} = {sizes[name]}' for name in names)})"


def _solve(dim: Dim, size: int, what: str) -> tuple[str, int]:
    """The one name that a·name + b = size determines."""
    names = {symbol.name for symbol in dim.symbols()}
    if len(names) == 1:
        name = names.pop()
        offset, at_one = substitute(dim, {name: 0}), substitute(dim, {name: 1})
        if isinstance(offset, int) and isinstance(at_one, int) and at_one != offset:
            value, rest = divmod(size - offset, at_one - offset)
            if rest == 0 and substitute(dim, {name: value}) == size:
                return name, value
    raise ShapeError(
        f"{what} has size {size}, which does not determine {dim}", remedy="use the name itself as a size"
    )
