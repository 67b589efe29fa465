"""Tensors made of numbers and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from planish import dtypes
from planish.ptir.dims import Dim, DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, plain
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand


@lowering("aten.full")
def full(at: FxSite, size: Sequence[DimLike], fill_value: Operand, **how: Any) -> V:
    _only_placement(at, how)
    if isinstance(fill_value, V):
        return cast(fill_value, at.dtype).reshape(()).broadcast_to(tuple(size))
    return at.full(size, fill_value)


@lowering("aten.full_like", "aten.new_full")
def full_like(at: FxSite, x: V, *given: Any, **how: Any) -> V:
    _only_placement(at, how)
    size, number = given if len(given) == 2 else (x.dims, given[0])
    return full(at, size, number)


def _filled(number: int) -> Any:
    def sized(at: FxSite, size: Sequence[DimLike], **how: Any) -> V:
        _only_placement(at, how)
        return at.full(size, number)

    def like(at: FxSite, x: V, size: Sequence[DimLike] | None = None, **how: Any) -> V:
        _only_placement(at, how)
        return at.full(x.dims if size is None else size, number)

    return sized, like


for _name, _number in (("_efficientzerotensor", 0), ("zeros", 0), ("ones", 1), ("empty", 0)):
    _sized, _like = _filled(_number)
    lowering(f"aten.{_name}")(_sized)
    lowering(f"aten.{_name}_like", f"aten.new_{_name}")(_like)


@lowering("aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted")
def empty_strided(at: FxSite, *given: Any, **how: Any) -> V:
    """What is in it nobody may ask: zeros."""
    _only_placement(at, how)
    size = given[1] if isinstance(given[0], V) else given[0]
    return at.full(size, 0)


@lowering("aten.scalar_tensor")
def scalar_tensor(at: FxSite, s: Any, **how: Any) -> V:
    _only_placement(at, how)
    return at.full((), s)


@lowering("aten.fill")
def fill(at: FxSite, x: V, value: Operand) -> V:
    return at.of(value, at.dtype).reshape(()).broadcast_to(x.dims)


@lowering("aten.arange")
def arange(at: FxSite, *given: Any, **how: Any) -> V:
    _only_placement(at, how)
    start, end, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    if all(isinstance(x, int | Dim) for x in (start, end, step)):
        return _counted(at, -((start - end) // step), start, step)
    return _counted(at, math.ceil((end - start) / step), start, step)


@lowering("prims.iota")
def iota(
    at: FxSite, length: DimLike, *, start: int, step: int, dtype: Any, device: Any, requires_grad: bool
) -> V:
    return _counted(at, length, start, step)


def _counted(at: FxSite, length: DimLike, start: Any, step: Any) -> V:
    own = at.dtype
    if own.is_float:
        wide = dtypes.float64
        line = at.graph.iota((length,), 0, dtypes.int64).cast(wide)
        return cast(line.mul(float(step)).add(float(start)), own)
    line = at.graph.iota((length,), 0, dtypes.int64)
    line = line if step == 1 else line.mul(plain(step, dtypes.int64))
    return cast(line if start == 0 else line.add(plain(start, dtypes.int64)), own)


@lowering("aten.eye")
def eye(at: FxSite, n: DimLike, m: DimLike | None = None, **how: Any) -> V:
    _only_placement(at, how)
    dims = (n, n if m is None else m)
    rows, columns = (at.graph.iota(dims, axis, dtypes.int64) for axis in range(2))
    return cast(rows.eq(columns), at.dtype)


_PLACEMENT = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "requires_grad"})


def _only_placement(at: FxSite, how: dict[str, Any]) -> None:
    """Where and how it is stored follows from the result that torch expects; anything else must be understood."""
    unread = how.keys() - _PLACEMENT
    if unread:
        raise at.refuse(f"argument {', '.join(sorted(unread))} is not understood")
    layout = how.get("layout")
    if layout is not None and str(layout) != "torch.strided":
        raise at.refuse(f"the layout {layout}")
