"""Ops whose addresses are data: gather, scatter, dynamic_slice, dynamic_update_slice; and iota (docs/semantics.md 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish import dtypes
from planish.ptir.function import Inst
from planish.ptir.ops.indexing import DynamicSliceAttrs, GatherAttrs, IotaAttrs, ScatterAttrs
from planish.schedule.lowering.channels_last import unpermuted
from planish.schedule.lowering.computed_places import read_or_different
from planish.schedule.lowering.positions import clamped, in_bounds, indices_of, spread, take
from planish.schedule.lowering.rules import Lowering, accumulator, convert, is_tiny, operands
from planish.schedule.lowering.scattered_parts import scattered_in_parts
from planish.schedule.lowering.single_updates import updated_once
from planish.schedule.tensors import Dims, Tensors, full, is_empty, largest, minus, permute, reshape, shrink
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import Dim, same_dim, shape


def _iota(tensors: Tensors, inst: Inst) -> UOp:
    attrs = cast("IotaAttrs", inst.attrs)
    return convert(tensors.position(tensors.dims(attrs.dims), attrs.axis, dtypes.int64), attrs.dtype)


def _gather(tensors: Tensors, inst: Inst) -> UOp:
    """An index outside is clamped."""
    axes = cast("GatherAttrs", inst.attrs).axes
    x, *indices = operands(tensors, inst)
    have, lead = tensors.dims_of(inst.operands[0]), tensors.dims_of(inst.operands[1])
    dims = tensors.dims_of(inst.results[0])
    if is_empty(dims) or x.op is Ops.CONST:
        return tensors.filled(0, x.dtype, dims) if is_empty(dims) else x
    places = {axis: clamped(index, minus(have[axis], 1)) for axis, index in zip(axes, indices, strict=True)}
    base, of = unpermuted(full(x, have))
    if tensors.target.is_gpu and len(have) - 1 not in {of[axis] for axis in axes}:
        return _as_they_lie(tensors, base, of, places, lead)
    given = {axis: spread(place, lead, dims) for axis, place in places.items()}
    return take(full(x, have), indices_of(tensors, dims, given, lead, len(have)))


def _as_they_lie(tensors: Tensors, x: UOp, of: Sequence[int], places: Mapping[int, UOp], lead: Dims) -> UOp:
    """Chosen rows, or pixels, in the place that all of them have in memory: what lies together (channels) does so afterwards."""
    chosen = {of[axis]: place for axis, place in places.items()}
    first, has = min(chosen), shape(x)
    left = [axis for axis in range(len(has)) if axis not in chosen]
    after = [has[axis] for axis in left if axis > first]
    sizes = (*has[:first], *lead, *after)

    def at(axis: int) -> int:
        """Where an axis that is left is in the result, as it lies."""
        return axis if axis < first else left.index(axis) + len(lead)

    taken = take(
        x,
        [
            spread(reshape(full(chosen[axis], lead), (*(1,) * first, *lead)), (*(1,) * first, *lead), sizes)
            if axis in chosen
            else tensors.position(sizes, at(axis))
            for axis in range(len(has))
        ],
    )
    kept = [at(of[axis]) for axis in range(len(has)) if axis not in places]
    return permute(taken, (*range(first, first + len(lead)), *kept))


_COMBINE: Final = {"add": Ops.ADD, "mul": Ops.MUL, "min": Ops.MIN, "max": Ops.MAX}


def _is_outside(index: UOp, size: Dim) -> bool:
    """Whether an index is known to lie beyond an axis."""
    return index.op is Ops.CONST and not 0 <= cast("int", index.arg) < largest(size)


def _scatter(tensors: Tensors, inst: Inst) -> UOp:
    """A copy of x in memory of its own, written update by update, in order; what lies outside is dropped.

    Sums and products run in the accumulation dtype and are rounded once, at the end.
    """
    attrs = cast("ScatterAttrs", inst.attrs)
    x, updates, *indices = operands(tensors, inst)
    have, lead = tensors.dims_of(inst.operands[0]), tensors.dims_of(inst.operands[2])
    dims = tensors.dims_of(inst.operands[1])
    if is_empty(dims) or is_empty(have):
        return x
    dtype = x.dtype
    wide = dtype
    if attrs.kind in ("add", "mul"):
        wide = accumulator(dtype)
    elif attrs.kind != "replace" and is_tiny(dtype):
        wide = dtypes.float32
    if any(_is_outside(index, have[axis]) for axis, index in zip(attrs.axes, indices, strict=True)):
        return x
    indices = [read_or_different(tensors, index, lead) for index in indices]
    gate: UOp | None = None
    given: dict[int, UOp] = {}
    for axis, index in zip(attrs.axes, indices, strict=True):
        here = spread(in_bounds(index, have[axis]), lead, dims)
        gate = here if gate is None else gate & here
        given[axis] = spread(clamped(index, minus(have[axis], 1)), lead, dims)
    value = full(updates, dims).cast(wide)
    by_axis, op = dict(zip(attrs.axes, indices, strict=True)), _COMBINE.get(attrs.kind)
    if x.op is Ops.CONST:
        once = updated_once(tensors, x.cast(wide), value, by_axis, (have, lead), op)
        if once is not None:
            return once.cast(dtype)
    if op is not None:
        parts = scattered_in_parts(tensors, full(x, have).cast(wide), value, by_axis, (have, lead), op)
        if parts is not None:
            return parts.cast(dtype)
    memory = x.table.make(Ops.CONTIGUOUS, wide, (full(x, have).cast(wide),))
    place = take(memory, indices_of(tensors, dims, given, lead, len(have)), gate)
    if attrs.kind != "replace":
        value = place.alu(_COMBINE[attrs.kind], value)
    return memory.after(place.store(value)).cast(dtype)


# -- windows at run-time positions -----------------------------------------------------------------------------------


def _start(start: UOp, most: Dim) -> UOp | int:
    """The first position of a window, moved inside; a number where it is known."""
    if same_dim(most, 0):
        return 0
    if start.op is Ops.CONST and isinstance(most, int):
        return min(max(cast("int", start.arg), 0), most)
    return clamped(start, most)


def _starts(starts: list[UOp], have: Dims, sizes: Dims) -> list[UOp | int]:
    return [_start(start, minus(n, size)) for start, n, size in zip(starts, have, sizes, strict=True)]


def _dynamic_slice(tensors: Tensors, inst: Inst) -> UOp:
    x, *given = operands(tensors, inst)
    have = tensors.dims_of(inst.operands[0])
    sizes = tensors.dims(cast("DynamicSliceAttrs", inst.attrs).sizes)
    if x.op is Ops.CONST or is_empty(sizes):
        return x if x.op is Ops.CONST else tensors.filled(0, x.dtype, sizes)
    starts = _starts(given, have, sizes)
    if all(isinstance(start, int) for start in starts):
        numbers = cast("list[int]", starts)
        return shrink(
            full(x, have), have, [(b, b + s if b else s) for b, s in zip(numbers, sizes, strict=True)]
        )
    places = [
        tensors.position(sizes, axis) if start == 0 else tensors.position(sizes, axis) + start
        for axis, start in enumerate(starts)
    ]
    return take(full(x, have), places)


def _dynamic_update_slice(tensors: Tensors, inst: Inst) -> UOp:
    """Every element of x asks whether the window covers it."""
    x, update, *given = operands(tensors, inst)
    have, sizes = (tensors.dims_of(operand) for operand in inst.operands[:2])
    if is_empty(sizes):
        return x
    gate: UOp | None = None
    places: list[UOp] = []
    for axis, (start, n, size) in enumerate(zip(_starts(given, have, sizes), have, sizes, strict=True)):
        place = tensors.position(have, axis)
        if not same_dim(n, size):
            place = place - start
            here = (place >= 0) & (place < size)
            gate = here if gate is None else gate & here
        places.append(place)
    if gate is None:
        return update
    new = update if update.op is Ops.CONST else take(full(update, sizes), places, gate)
    return gate.where(new, x)


INDEXING: Final[dict[str, Lowering]] = {
    "iota": _iota,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
