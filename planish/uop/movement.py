"""Movement ops as index arithmetic: where an element of the result lies in the source.

The only place that knows what RESHAPE, PERMUTE, EXPAND, PAD, SHRINK and FLIP mean; scheduling and lowering both ask here.
`source_indices` goes through one op, `resolve` through a chain of them down to what it views. Indices come back
simplified. A RESHAPE is cut into blocks of axes with equal sizes first, and only what remains is flattened and divided.

Validity. Only PAD can leave its source. Its condition is returned beside the indices, which mean nothing where it
does not hold (so they are simplified as if it did).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.errors import GraphError
from planish.records import dataclass
from planish.uop.node import Table, UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import Dim, Shape, same_dim, shape
from planish.uop.symbolic import simplify


@dataclass(frozen=True, slots=True)
class Place:
    """An element of `base`: its indices, and when there is one (None: always)."""

    base: UOp
    indices: tuple[UOp, ...]
    valid: UOp | None

    @property
    def index(self) -> UOp:
        """The one flat index into a row-major base, INVALID where there is no element."""
        flat = flat_index(shape(self.base), self.indices, self.base.table)
        if self.valid is not None:
            flat = self.valid.where(flat, flat.table.invalid(flat.dtype))
        return simplify(flat)


def flat_index(dims: Shape, indices: Sequence[UOp], table: Table) -> UOp:
    """The row-major position of an element. (Not simplified.)"""
    total: UOp | None = None
    for dim, index in zip(dims, indices, strict=True):
        total = index if total is None else total * dim + index
    return table.const(0) if total is None else total


def resolve(view: UOp, indices: Sequence[UOp]) -> Place:
    """The element of what a chain of movement ops views."""
    here, valid, base = tuple(indices), None, view
    dims = shape(view)
    if len(dims) != len(here):
        raise GraphError(
            f"{view.op.name}: {len(here)} indices for {len(dims)} axes",
            op=view.op.name,
            remedy="one index per axis",
        )
    while base.op in MOVEMENT:
        source = base.src[0]
        here, condition = source_indices(base.op, base.arg, shape(source), here, table=view.table)
        if condition is not None:
            valid = condition if valid is None else simplify(valid & condition)
        if valid is not None:
            here = tuple([_under(valid, index) for index in here])
        base = source
    return Place(base, here, valid)


def _under(valid: UOp, index: UOp) -> UOp:
    """The index, simplified where the condition holds."""
    gated = simplify(valid.where(index, index.table.invalid(index.dtype)))
    return gated.src[1] if gated.op is Ops.WHERE and gated.src[2].op is Ops.INVALID else index


def source_indices(
    op: Ops, arg: object, in_shape: Shape, out_indices: Sequence[UOp], *, table: Table | None = None
) -> tuple[tuple[UOp, ...], UOp | None]:
    """The indices in the source of a movement op, and when they are inside it (None: always).

    `table` is needed only where there is no index to take it from.
    """
    if op not in MOVEMENT:
        raise GraphError(f"{op.name} is not a movement op", op=op.name)
    if table is None:
        if not out_indices:
            raise GraphError(f"{op.name}: without indices, name the table to make constants in", op=op.name)
        table = out_indices[0].table
    if op is Ops.RESHAPE:
        return _reshape(cast("Shape", arg), in_shape, out_indices, table), None
    _require(len(out_indices) == len(in_shape), op, f"{len(out_indices)} indices for {len(in_shape)} axes")
    if op is Ops.PERMUTE:
        indices: list[UOp | None] = [None] * len(in_shape)
        for index, axis in zip(out_indices, cast("tuple[int, ...]", arg), strict=True):
            indices[axis] = index
        return tuple([cast("UOp", index) for index in indices]), None
    if op is Ops.EXPAND:
        zero = table.const(0)
        targets = cast("Shape", arg)
        return tuple(
            [
                zero if _is_one(dim) and not _is_one(target) else index
                for index, dim, target in zip(out_indices, in_shape, targets, strict=True)
            ]
        ), None
    if op is Ops.FLIP:
        flips = cast("tuple[bool, ...]", arg)
        return tuple(
            [
                simplify(index * -1 + (dim - 1)) if flip else index
                for index, dim, flip in zip(out_indices, in_shape, flips, strict=True)
            ]
        ), None
    pairs = cast("tuple[tuple[Dim, Dim], ...]", arg)
    if op is Ops.SHRINK:
        return tuple(
            [_shifted(index, begin, 1) for index, (begin, _) in zip(out_indices, pairs, strict=True)]
        ), None
    return _pad(pairs, in_shape, out_indices)


def _require(condition: bool, op: Ops, what: str) -> None:
    if not condition:
        raise GraphError(f"{op.name}: {what}", op=op.name)


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _shifted(index: UOp, by: Dim, sign: int) -> UOp:
    if isinstance(by, int) and by == 0:
        return index
    return simplify(index + by * sign)


def _pad(
    pairs: tuple[tuple[Dim, Dim], ...], in_shape: Shape, out_indices: Sequence[UOp]
) -> tuple[tuple[UOp, ...], UOp | None]:
    indices: list[UOp] = []
    valid: UOp | None = None
    for index, dim, (before, after) in zip(out_indices, in_shape, pairs, strict=True):
        inner = _shifted(index, before, -1)
        indices.append(inner)
        conditions = []
        if not (isinstance(before, int) and before == 0):
            conditions.append(inner >= 0)
        if not (isinstance(after, int) and after == 0):
            conditions.append(inner < dim)
        for condition in conditions:
            valid = condition if valid is None else valid & condition
    if valid is not None:
        valid = simplify(valid)
        if valid.op is Ops.CONST and valid.arg:
            valid = None
    return tuple(indices), valid


# -- RESHAPE -----------------------------------------------------------------------------------------------------


def _reshape(out_shape: Shape, in_shape: Shape, out_indices: Sequence[UOp], table: Table) -> tuple[UOp, ...]:
    _require(
        len(out_indices) == len(out_shape),
        Ops.RESHAPE,
        f"{len(out_indices)} indices for {len(out_shape)} axes",
    )
    zero = table.const(0)
    # An axis of size 1 has one index; leaving it out makes blocks match that it would separate.
    outs = [(dim, index) for dim, index in zip(out_shape, out_indices, strict=True) if not _is_one(dim)]
    ins = [axis for axis, dim in enumerate(in_shape) if not _is_one(dim)]
    indices = [zero] * len(in_shape)
    for out_block, in_block in _blocks([dim for dim, _ in outs], [in_shape[axis] for axis in ins]):
        dims = tuple(in_shape[ins[position]] for position in in_block)
        block = [outs[position] for position in out_block]
        for position, index in zip(in_block, _divide(block, dims, table), strict=True):
            indices[ins[position]] = index
    return tuple(indices)


def _divide(block: list[tuple[Dim, UOp]], dims: Shape, table: Table) -> list[UOp]:
    """One flat index, taken apart into indices of these dims."""
    if len(block) == len(dims) == 1:
        return [block[0][1]]
    flat = simplify(flat_index(tuple(dim for dim, _ in block), [index for _, index in block], table))
    indices: list[UOp] = []
    for dim in reversed(dims[1:]):
        indices.append(simplify(flat % dim))
        flat = simplify(flat // dim)
    indices.append(flat)
    return indices[::-1]


_Block = tuple[range, range]


def _blocks(outs: list[Dim], ins: list[Dim]) -> list[_Block]:
    """The axes of both sides, cut where as many elements lie to the left on one side as on the other.

    Symbolic dims are compared by identity, from both ends; what is left between is one block.
    """
    if any(isinstance(n, int) and n == 0 for n in (*outs, *ins)):
        return [(range(len(outs)), range(len(ins)))]  # nothing is there, wherever one looks
    first, last = [], []
    left, out_end, in_end = 0, len(outs), len(ins)
    while left < min(out_end, in_end) and same_dim(outs[left], ins[left]):
        first.append((range(left, left + 1), range(left, left + 1)))
        left += 1
    while out_end > left and in_end > left and same_dim(outs[out_end - 1], ins[in_end - 1]):
        out_end, in_end = out_end - 1, in_end - 1
        last.append((range(out_end, out_end + 1), range(in_end, in_end + 1)))
    middle = _cut(outs, ins, range(left, out_end), range(left, in_end))
    return first + middle + last[::-1]


def _cut(outs: list[Dim], ins: list[Dim], out_range: range, in_range: range) -> list[_Block]:
    if not out_range and not in_range:
        return []
    numbers = [*(outs[i] for i in out_range), *(ins[i] for i in in_range)]
    if any(isinstance(n, UOp) or n == 0 for n in numbers):
        return [(out_range, in_range)]
    blocks = []
    o, i = out_range.start, in_range.start
    while o < out_range.stop or i < in_range.stop:
        out_start, in_start = o, i
        have = want = 1
        while have != want or have == 1:
            if (have <= want and o < out_range.stop) or i == in_range.stop:
                have *= cast("int", outs[o])
                o += 1
            else:
                want *= cast("int", ins[i])
                i += 1
        blocks.append((range(out_start, o), range(in_start, i)))
    return blocks


__all__: Final = ["Place", "flat_index", "resolve", "source_indices"]
