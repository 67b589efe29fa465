"""NumPy's broadcasting, which ONNX has and PTIR has not."""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import ShapeError
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V


def broadcast_dims(*shapes: Sequence[DimLike]) -> tuple[DimLike, ...]:
    """The dims that all shapes stretch to."""
    rank = max(map(len, shapes))
    dims: list[DimLike] = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        chosen = next((size for size in sizes if size != 1), 1)
        if any(size not in (1, chosen) for size in sizes):
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast together")
        dims.append(chosen)
    return tuple(dims)


def stretched(x: V, dims: Sequence[DimLike]) -> V:
    """x in those dims."""
    return x if x.dims == tuple(dims) else x.broadcast_to(dims)


def together(*values: V) -> tuple[V, ...]:
    """Values in one shape."""
    dims = broadcast_dims(*(x.dims for x in values))
    return tuple(stretched(x, dims) for x in values)
