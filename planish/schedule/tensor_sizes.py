"""Sizes of tensor-level UOps as sizes of PTIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from planish.ptir.dims import Dim, DimLike, bounds, product
from planish.uop.node import UOp
from planish.uop.ops import Ops, Variable
from planish.uop.shape import Dim as UOpDim


def size_of(dims: Sequence[UOpDim]) -> DimLike:
    """The number of elements of tensor-level dims, as a size of PTIR."""
    return product(map(plain, dims))


def plain(dim: UOpDim) -> DimLike:
    """A tensor-level dim as a size of PTIR; what PTIR cannot say counts as its maximum."""
    if isinstance(dim, int):
        return dim
    sizes: dict[UOp, DimLike] = {}
    for node in dim.toposort():
        sources = [sizes[source] for source in node.src]
        if node.op is Ops.CONST:
            sizes[node] = int(cast("int", node.arg))
        elif node.op is Ops.DEFINE_VAR:
            name, low, high = cast("Variable", node.arg)
            sizes[node] = Dim.named(name, low, high) if low < high else low
        elif node.op in _ARITHMETIC and (node.op not in _DIVISIONS or bounds(sources[1])[0] > 0):
            sizes[node] = _ARITHMETIC[node.op](*sources)
        elif node.op is Ops.CAST:
            sizes[node] = sources[0]
        else:
            sizes[node] = int(node.vmax)
    return sizes[dim]


_ARITHMETIC: Final[dict[Ops, Callable[..., DimLike]]] = {
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.NEG: lambda x: -x,
    Ops.FLOORDIV: lambda x, y: x // y,
    Ops.FLOORMOD: lambda x, y: x % y,
}
_DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD})
