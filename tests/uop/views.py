"""Movement ops done naively: one raw expression, nothing simplified, for simplifiers to be measured against."""

from __future__ import annotations

from math import prod
from typing import Any

from planish.uop.node import Table, UOp
from planish.uop.ops import Ops

Dim = Any  # an int or a UOp


class View:
    """A row-major tensor seen through movement ops; indexing gives the flat position, INVALID in the padding."""

    def __init__(
        self, table: Table, dims: tuple[Dim, ...], ops: tuple[tuple[Ops, Any, tuple[Dim, ...]], ...] = ()
    ):
        self.table = table
        self.dims = dims
        self.ops = ops

    def _then(self, op: Ops, arg: Any, dims: tuple[Dim, ...]) -> View:
        return View(self.table, dims, (*self.ops, (op, arg, self.dims)))

    def reshape(self, *dims: Dim) -> View:
        if all(isinstance(d, int) for d in (*dims, *self.dims)):
            assert prod(dims) == prod(self.dims), (dims, self.dims)
        return self._then(Ops.RESHAPE, dims, dims)

    def permute(self, *order: int) -> View:
        return self._then(Ops.PERMUTE, order, tuple(self.dims[axis] for axis in order))

    def expand(self, *dims: Dim) -> View:
        return self._then(Ops.EXPAND, dims, dims)

    def pad(self, *pairs: tuple[int, int]) -> View:
        return self._then(
            Ops.PAD, pairs, tuple(b + d + a for d, (b, a) in zip(self.dims, pairs, strict=True))
        )

    def shrink(self, *pairs: tuple[int, int]) -> View:
        return self._then(Ops.SHRINK, pairs, tuple(e - b for b, e in pairs))

    def flip(self, *axes: int) -> View:
        return self._then(Ops.FLIP, tuple(axis in axes for axis in range(len(self.dims))), self.dims)

    def __getitem__(self, indices: Any) -> UOp:
        here = list(indices) if isinstance(indices, tuple) else [indices]
        here = [i if isinstance(i, UOp) else self.table.const(i) for i in here]
        assert len(here) == len(self.dims), (len(here), self.dims)
        valid: UOp | None = None
        for op, arg, dims in reversed(self.ops):
            if op is Ops.RESHAPE:
                here = self._unflatten(self._flatten(here, arg), dims)
            elif op is Ops.PERMUTE:
                here = [here[arg.index(axis)] for axis in range(len(dims))]
            elif op is Ops.EXPAND:
                here = [self.table.const(0) if d == 1 else i for i, d in zip(here, dims, strict=True)]
            elif op is Ops.SHRINK:
                here = [i + begin for i, (begin, _) in zip(here, arg, strict=True)]
            elif op is Ops.FLIP:
                here = [(d - 1) - i if flip else i for i, d, flip in zip(here, dims, arg, strict=True)]
            else:
                here = [i - before for i, (before, _) in zip(here, arg, strict=True)]
                for i, d, (before, after) in zip(here, dims, arg, strict=True):
                    if before or after:
                        inside = (i >= 0) & (i < d)
                        valid = inside if valid is None else valid & inside
        base = self.ops[0][2] if self.ops else self.dims
        flat = self._flatten(here, base)
        return flat if valid is None else valid.where(flat, self.table.invalid())

    def _flatten(self, indices: list[UOp], dims: tuple[Dim, ...]) -> UOp:
        total = self.table.const(0)
        for index, dim in zip(indices, dims, strict=True):
            total = total * dim + index
        return total

    def _unflatten(self, flat: UOp, dims: tuple[Dim, ...]) -> list[UOp]:
        found = []
        for dim in reversed(dims):
            found.append(flat % dim)
            flat = flat // dim
        return found[::-1]
