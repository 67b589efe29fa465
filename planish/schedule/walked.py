"""Products of matrices that a GPU makes block by block on the way to another one, with a softmax between them: they never are in memory.

What the action `online` needs, asked of tensors: tensor cores that read LOCAL memory, factors of 16 bits that are no longer than what a block
keeps of them, and enough queries for a tile. Elsewhere on a GPU two products are better off as kernels of their own.
"""

from __future__ import annotations

from typing import Final, cast

from planish.schedule.tensors import most
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import Dim, shape

MOST_COLUMNS: Final = 256
"""Of a query, of a key and of a result: what the registers of a block hold."""
_LEAST_ROWS: Final = 17
"""Queries and keys: with fewer, most of a tile is padding."""
_VIEWS: Final = frozenset({Ops.CAST, Ops.RESHAPE, Ops.PERMUTE})


def may_walk(target: Target, product: UOp) -> bool:
    """Whether a product can be made so on a target."""
    if not any(core.reads_memory for core in target.tensor_cores) or product.op is not Ops.REDUCE_AXIS:
        return False
    value, axes = product.src[0], cast("ReduceAxes", product.arg).axes
    depth = [shape(value)[axis] for axis in axes]
    if (
        value.op is not Ops.MUL
        or most(depth) > MOST_COLUMNS
        or not all(isinstance(dim, int) for dim in depth)
    ):
        return False
    return all(_is_narrow(factor) and _is_long(_repeated(factor)) for factor in value.src)


def _is_long(dims: list[Dim]) -> bool:
    """Whether there are known numbers of rows, enough for a tile."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return len(known) == len(dims) and max(known) >= _LEAST_ROWS


def _is_narrow(factor: UOp) -> bool:
    return factor.op is Ops.CAST and factor.src[0].dtype.is_float and factor.src[0].dtype.itemsize == 2


def _repeated(factor: UOp) -> list[Dim]:
    """The dims along which a factor is the same."""
    while factor.op in _VIEWS:
        (factor,) = factor.src
    if factor.op is not Ops.EXPAND:
        return [1]
    return [new for old, new in zip(shape(factor.src[0]), shape(factor), strict=True) if old != new]
