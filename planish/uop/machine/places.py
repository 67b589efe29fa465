"""From an INDEX to memory: views are followed by numbers, staged rows are tables, and an access has its elements.

The arithmetic of movement ops is written out here once more, on numbers: what the stages make of them symbolically can
be held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, cast

import numpy as np

from planish.dtypes import DType, PtrDType
from planish.uop.evaluate import RULES
from planish.uop.machine.state import Array, BufferElements, KeptValues, MachineState, Mask, first_of
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops, UnrolledLanes
from planish.uop.shape import shape

VIEWS: Final = frozenset({Ops.AFTER, Ops.CONTIGUOUS, Ops.NOOP})


class Places(MachineState):
    """A run that knows where every INDEX points."""

    __slots__ = ()

    def _index(self, node: UOp) -> BufferElements | None:
        """The place that an INDEX names; None if it names memory as a whole, or a row, whose value it then has."""
        buffer, *listed = node.src
        gate = listed.pop() if listed and listed[-1].dtype.is_bool else None
        if not listed:
            return None
        lanes = max(each.dtype.lanes for each in listed)
        is_open: Mask = True
        if gate is not None and gate.dtype.lanes <= lanes:
            is_open = self._lanes(self.values[gate], gate.dtype.lanes, lanes)
            gate = None
        indices = []
        for each in listed:
            value = self._lanes(self.values[each], each.dtype.lanes, lanes)
            try:
                indices.append(value.astype(np.int64))
            except OverflowError:
                self._fail(node, "outside", "an index has more than 64 bits")
            if each in self.invalid:
                is_open = is_open & ~self._lanes(self.invalid[each], each.dtype.lanes, lanes)
        base = buffer
        if base.op in MOVEMENT or base.op is Ops.INDEX:
            self._check_view(node, indices, is_open)
        while True:
            if base.op in MOVEMENT:
                if any(self._dim(d) == 0 for d in shape(base.src[0])):
                    is_open = False
                    indices = [np.zeros((), np.int64)] * len(shape(base.src[0]))
                else:
                    indices, is_open = self._moved(base, indices, is_open)
            elif base.op is Ops.INDEX and len(base.src) > 1:
                inner = self.place[base]
                base = inner.memory
                offset = self._lanes(inner.offset, inner.lanes, lanes) + indices[0]
                return BufferElements(base, offset, is_open & inner.is_open, lanes)
            elif base.op not in VIEWS and base.op is not Ops.INDEX:
                break
            base = base.src[0]
        if base.op is Ops.BUFFERIZE:
            self.values[node] = self._staged(node, base, indices, is_open, lanes)
            return None
        if len(indices) != 1 or base not in self.contents:
            self._fail(node, "crash", f"{len(indices)} indices into a {base.op.name}")
        step = cast("PtrDType", base.dtype).base.lanes
        offset = indices[0] * step
        if gate is not None:  # a gate per element of those from the first on
            lanes = gate.dtype.lanes
            offset = offset[..., None] + np.arange(lanes)
            is_open = np.asarray(is_open)[..., None] & self.values[gate]
        return BufferElements(base, offset, is_open, lanes, cast("int | None", node.arg))

    def _check_view(self, node: UOp, indices: Sequence[Array], is_open: Mask) -> None:
        dims = shape(node.src[0])
        if len(dims) != len(indices):
            self._fail(node, "crash", f"{len(indices)} indices for {len(dims)} axes")
        is_open = is_open & self._active(node)
        for dim, index in zip(dims, indices, strict=True):
            bad = np.asarray(is_open & ((index < 0) | (index >= self._dim(dim))))
            if bad.any():
                value = np.broadcast_to(index, np.broadcast_shapes(bad.shape, index.shape))
                self._fail(
                    node,
                    "outside",
                    f"index {first_of(value, bad)} is outside a view of size {self._dim(dim)}",
                    bad,
                )

    def _moved(self, view: UOp, indices: list[Array], is_open: Mask) -> tuple[list[Array], Mask]:
        """Indices into what a movement op views."""
        source = [self._dim(dim) for dim in shape(view.src[0])]
        arg = cast("tuple[Any, ...]", view.arg)
        if view.op is Ops.RESHAPE:
            flat: Array = np.zeros((), np.int64)
            for dim, index in zip(arg, indices, strict=True):
                flat = flat * self._dim(dim) + index
            parts: list[Array] = []
            for size in reversed(source):
                parts.append(np.asarray(flat % size))
                flat = np.asarray(flat // size)
            return parts[::-1], is_open
        if view.op is Ops.PERMUTE:
            return [indices[arg.index(axis)] for axis in range(len(source))], is_open
        if view.op is Ops.EXPAND:
            return [i * 0 if size == 1 else i for i, size in zip(indices, source, strict=True)], is_open
        if view.op is Ops.FLIP:
            flipped = zip(indices, arg, source, strict=True)
            return [size - 1 - i if flip else i for i, flip, size in flipped], is_open
        if view.op is Ops.SHRINK:
            return [i + self._dim(pair[0]) for i, pair in zip(indices, arg, strict=True)], is_open
        inner = [i - self._dim(pair[0]) for i, pair in zip(indices, arg, strict=True)]
        for index, size in zip(inner, source, strict=True):
            is_open = is_open & (index >= 0) & (index < size)
        return inner, is_open

    # -- staged rows -------------------------------------------------------------------------------------------------

    def _stage(self, node: UOp) -> None:
        """A BUFFERIZE as a table: what x is at each position that its other sources name."""
        x, *named = node.src
        ranges = frozenset().union(*(each.ranges for each in named))
        spread_over = {
            path
            for each in named
            for n in each.toposort()
            if n.op is Ops.UNROLL
            for path, _ in cast("UnrolledLanes", n.arg).axes
        }
        closed = sorted(self.axes[r] for r in (*ranges, *spread_over) if r in self.axes)
        wide = max((each.dtype.lanes for each in named), default=1)
        entry = x.dtype.lanes if wide == 1 else 1  # lanes that are stored together
        extents = tuple(max(each.vmax + 1, 1) for each in named)
        rank = len(self.axes)

        def spread(value: Array, dtype: DType) -> Array:
            return self._lanes(self.full(value, dtype), dtype.lanes, 2)

        position: Array = np.zeros((1,) * (rank + 1), np.int64)
        for each, extent in zip(named, extents, strict=True):
            position = position * extent + spread(self.values[each], each.dtype).astype(np.int64)
        runs: Array = np.ones((1,) * (rank + 1), np.bool_)
        for r in ranges:
            runs = runs & self.full(self.values[r] >= 0, r.dtype)[..., None]
            if r in self.masks:
                runs = runs & self.full(self.masks[r], r.dtype)[..., None]
        values = spread(self.values[x], x.dtype)
        shape = np.broadcast_shapes(values.shape[:-1], position.shape[:-1], runs.shape[:-1])
        outer = tuple(1 if axis in closed else size for axis, size in enumerate(shape))
        copy = np.arange(prod(outer)).reshape(*outer, 1)
        number = np.broadcast_to(copy * prod(extents) + position, (*shape, wide))
        runs = np.broadcast_to(runs, (*shape, wide))
        held = np.zeros((prod(outer) * prod(extents), entry), values.dtype)
        known = np.zeros(len(held), np.bool_)
        stored = np.broadcast_to(values, (*shape, wide * entry)).reshape(*shape, wide, entry)
        held[number[runs]] = stored[runs]
        known[number[runs]] = True
        self.tables[node] = KeptValues(held, known, extents, outer)

    def _staged(self, node: UOp, buffer: UOp, indices: Sequence[Array], is_open: Mask, lanes: int) -> Array:
        """The element of a BUFFERIZE at a position."""
        table = self.tables[buffer]
        is_open = is_open & self._active(node, lanes)
        position: Array = np.zeros((), np.int64)
        for extent, index in zip(table.extents, indices, strict=True):
            bad = np.asarray(is_open & ((index < 0) | (index >= extent)))
            if bad.any():
                self._fail(node, "outside", f"index {first_of(index, bad)} is outside a row of {extent}", bad)
            position = position * extent + index
        copy = np.arange(prod(table.outer)).reshape(table.outer)
        number = self._lanes(copy, 1, lanes) * prod(table.extents) + np.where(is_open, position, 0)
        open_at = np.broadcast_to(np.asarray(is_open), number.shape)
        if not table.known[number[open_at]].all():
            self._fail(node, "unwritten", "a row is read where nothing was stored")
        zero = np.zeros((), table.held.dtype)
        if table.held.shape[1] == 1:
            return np.where(open_at, table.held[number, 0], zero)
        return np.where(open_at[..., None], table.held[number], zero)

    # -- places of accesses ------------------------------------------------------------------------------------------

    def _place_of(self, node: UOp) -> BufferElements:
        """The place that an access names."""
        chosen: list[int] | None = None
        while node not in self.place:
            if node.op is Ops.GEP:
                picked = list(cast("tuple[int, ...]", node.arg))
                chosen = picked if chosen is None else [picked[lane] for lane in chosen]
            if not node.src:
                self._fail(node, "crash", f"{node.op.name} is no place in memory")
            node = node.src[0]
        place = self.place[node]
        if chosen is None:
            return place
        offset, is_open = self._elements(place, max(*chosen, 1) + 1)
        is_open = np.broadcast_to(is_open, np.broadcast_shapes(np.shape(is_open), offset.shape))
        if len(chosen) == 1:
            return place._replace(offset=offset[..., chosen[0]], is_open=is_open[..., chosen[0]], lanes=1)
        return place._replace(offset=offset[..., chosen], is_open=is_open[..., chosen], lanes=len(chosen))

    def _unrolled_place(self, node: UOp) -> None:
        """The places in the lanes of an INDEX, spread over unrolled axes."""
        inner = self.place[node.src[0]]

        def spread(lanes: Array) -> Array:
            self.values[node.src[0]] = np.broadcast_to(
                lanes, np.broadcast_shapes(lanes.shape, (inner.lanes,))
            )
            unrolled = RULES[Ops.UNROLL](self, node)
            del self.values[node.src[0]]
            return unrolled

        self.place[node] = inner._replace(
            offset=spread(inner.offset), is_open=spread(np.asarray(inner.is_open)), lanes=node.dtype.lanes
        )

    def _elements(self, place: BufferElements, lanes: int) -> tuple[Array, Mask]:
        """The elements that an access of so many lanes touches, and where it does."""
        if lanes == 1 or place.lanes > 1:
            return place.offset, place.is_open
        gate = np.asarray(place.is_open)
        return place.offset[..., None] + np.arange(lanes), gate[..., None]
