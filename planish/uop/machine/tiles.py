"""What neighbouring threads do together: matrices that they hold, multiplied (WMMA); values of theirs, combined (COMBINE)."""

from __future__ import annotations

from math import prod
from typing import Final, cast

import numpy as np

from planish.dtypes import PtrDType
from planish.uop import arithmetic
from planish.uop.combining import combined
from planish.uop.hardware_index import index_of
from planish.uop.machine.accesses import Accesses
from planish.uop.machine.loops import is_thread, memory_below
from planish.uop.machine.state import Array, BufferElements, Flight
from planish.uop.node import UOp
from planish.uop.ops import DEFINES, AxisType, Combine, Exchange, Ops, TensorCoreOp
from planish.uop.ranges import kind_of
from planish.uop.tensor_cores import MATRICES, ORDERS, ROW, WARP, core_of, exchanged

_HANDED_ON: Final = frozenset({Ops.INDEX, Ops.LOAD, Ops.GEP, Ops.CAT, Ops.VECTORIZE})
_MAY_USE: Final = frozenset({Ops.WMMA, Ops.FINISH, Ops.AFTER, Ops.END, Ops.GROUP, *DEFINES})


class Tiles(Accesses):
    """A run that has tensor cores."""

    __slots__ = ()

    def _tile(self, node: UOp) -> Array:
        """a @ b + c; the threads of a group hold the matrices together."""
        arg = cast("TensorCoreOp", node.arg)
        core = core_of(arg)
        m, n, k = arg.dims
        shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
        threads = 1 if core is None else core.threads
        if min(arg.dims) < 1 or (core is not None and core.dims != arg.dims):
            self._fail(node, "crash", f"a tile of {m}x{n}x{k} is none that {arg.name} has")
        axes = self._thread_axes(threads)
        count = prod(self.values[axis].size for axis in axes)
        if count % threads:
            self._fail(node, "crash", f"{count} threads are not groups of {threads}")
        whole: dict[str, Array] = {}
        if arg.pending:
            self.products.append([])
        for name, source in zip(MATRICES, node.src, strict=False):
            rows, columns = shapes[name]
            if core is not None and core.in_memory(name):
                value = core.seen(self._from_memory(node, source, core.memory_places(name)))
                value = self._threads_last(value, axes, count, threads)
                whole[name] = value[..., :1, :].reshape(*value.shape[:-2], 1, rows, columns)
                continue
            held = rows * columns // threads
            positions, odd = divmod(source.dtype.lanes, held)
            if odd or not positions or node.dtype.lanes % (positions * (m * n // threads)) * (positions > 1):
                self._fail(node, "crash", f"{source.dtype} holds no whole tiles of {rows}x{columns} elements")
            # …, group, thread, lane
            value = self._threads_last(self._with_lanes(source), axes, count, threads)
            value = np.moveaxis(value.reshape(*value.shape[:-1], held, positions), -1, -3)
            matrix = np.empty((*value.shape[:-2], rows * columns), value.dtype)
            where = np.arange(held)[None] if core is None else core.places(name)
            matrix[..., where] = value
            whole[name] = matrix.reshape(*value.shape[:-2], rows, columns)
        wide = node.dtype.scalar
        a, b = (
            arithmetic.convert(whole[name], source.dtype.scalar, wide)
            for name, source in zip(("a", "b"), node.src[:2], strict=True)
        )
        total = whole["c"]
        if core is not None and core.order in ORDERS:
            total, k = ORDERS[core.order](a, b, total), 0
        for step in range(k):
            left, right = a[..., :, step, None], b[..., None, step, :]
            total = arithmetic.apply(Ops.MULACC, wide, *np.broadcast_arrays(left, right, total))
        flat = total.reshape(*total.shape[:-2], m * n)
        where = np.arange(m * n)[None] if core is None else core.places("c")
        lanes = np.moveaxis(flat[..., where], -3, -1)  # …, group, thread, lane, position
        lanes = lanes.reshape(*lanes.shape[:-2], node.dtype.lanes)
        if arg.pending:
            self.unfinished.add(node)
        self._retire(arg.pending)
        return self._threads_back(lanes, axes)

    def _retire(self, pending: int) -> None:
        """Products are done but for the last few."""
        while len(self.products) > pending:
            for flight in self.products.pop(0):
                np.subtract.at(flight.contents.under_product, flight.places, 1)

    def _check_finished(self, node: UOp) -> None:
        """What comes of a product under way is for sums of the core alone."""
        self.unfinished.discard(node)
        held = memory_below(node) if node.op in {Ops.INDEX, Ops.LOAD} else None
        used = node.src[1:2] if node.op is Ops.STORE else node.src
        early = held in self.unfinished or not self.unfinished.isdisjoint(used)
        memory = memory_below(node.src[0]) if node.op is Ops.STORE else None
        if memory is not None and (not early or memory.op is Ops.DEFINE_REG):
            (self.unfinished.add if early else self.unfinished.discard)(memory)
        elif early and node.op in _HANDED_ON:
            self.unfinished.add(node)
        elif early and node.op not in _MAY_USE:
            self._fail(node, "race", "the result of a product under way is used: no FINISH stands between")

    def _from_memory(self, node: UOp, source: UOp, ahead: Array) -> Array:
        """The elements of an operand in LOCAL memory: so far behind the place that the core is told."""
        dtype = source.dtype
        if isinstance(dtype, PtrDType):
            dtype = dtype.base
        wide = dtype.scalar.vec(ahead.size)
        if source in self.place:
            place = self.place[source]
            gate = np.asarray(place.is_open)[..., None]
            several = BufferElements(place.memory, place.offset[..., None] + ahead, gate, ahead.size)
            contents = self.contents[place.memory]
            if cast("TensorCoreOp", node.arg).pending and contents.shared:
                _, places, _ = self._accessed(node, several, ahead.size, True, True)
                flight = Flight(contents, places.reshape(-1), ahead, ahead)
                np.add.at(contents.under_product, flight.places, 1)
                self.products[-1].append(flight)
            return self.full(self._fetch(node, several, wide, True, None), wide)
        buffer, index = source.src[0], self.values[source.src[-1]]
        if source.op is not Ops.INDEX or buffer.op is not Ops.BUFFERIZE or len(source.src) != 2:
            self._fail(node, "crash", "an operand is not in LOCAL memory")
        return self.full(self._staged(node, buffer, [index[..., None] + ahead], True, ahead.size), wide)

    def _combine(self, node: UOp) -> Array:
        """What neighbours get."""
        x, *own = node.src
        how = cast("Combine", node.arg)
        width = how.width
        axes = own or self._thread_axes(width)
        count = prod(self.values[axis].size for axis in axes)
        if count % width:
            self._fail(node, "crash", f"{count} threads are not groups of {width}")
        value = self._threads_last(self._with_lanes(x), axes, count, width)
        value = np.moveaxis(combined(how, node.dtype.scalar, np.moveaxis(value, -2, 0)), 0, -2)
        result = self._threads_back(value, axes)
        result = result if x.dtype.lanes > 1 else result[..., 0]
        # a range is closed here: the result has one position along it
        return result.take([0], self.axes[own[0]]) if own else result

    def _exchange(self, node: UOp) -> Array:
        """Rows of matrices, dealt out among the threads of a warp; of several positions, each for itself."""
        x, how = node.src[0], cast("Exchange", node.arg)
        axes = self._thread_axes(WARP)
        count = prod(self.values[axis].size for axis in axes)
        if not axes or count % WARP:
            self._fail(node, "crash", f"{count} threads are no warps of {WARP}")
        elements = ROW // x.dtype.itemsize
        positions = x.dtype.lanes // elements
        value = self._threads_last(self._with_lanes(x), axes, count, WARP)
        rows = np.moveaxis(value.reshape(*value.shape[:-1], elements, positions), -1, -3)
        threads, lanes = exchanged(how, x.dtype.itemsize)
        dealt = np.moveaxis(rows[..., threads, lanes], -3, -1)
        return self._threads_back(dealt.reshape(*dealt.shape[:-2], node.dtype.lanes), axes)

    def _thread_axes(self, threads: int) -> list[UOp]:
        """The axes over the threads of a block, the fastest last."""
        if threads == 1:
            return []
        special = [n for n in self.axes if isinstance(n, UOp) and n.op is Ops.SPECIAL and is_thread(n)]
        if special:
            return sorted(special, key=lambda n: index_of(n).axis, reverse=True)
        ranges = [n for n in self.axes if isinstance(n, UOp) and n.op is Ops.RANGE]
        return sorted((n for n in ranges if kind_of(n) is AxisType.WARP), key=lambda n: n.order)

    def _with_lanes(self, node: UOp) -> Array:
        """A value with every axis, and one for lanes behind them even if it has one lane."""
        value = self.full(self.values[node], node.dtype)
        return self._lanes(value, node.dtype.lanes, 2)

    def _threads_last(self, value: Array, axes: list[UOp], count: int, threads: int) -> Array:
        dims = list(value.shape)
        for axis in axes:
            dims[self.axes[axis]] = self.values[axis].size
        value = np.broadcast_to(value, dims)
        places = [self.axes[axis] for axis in axes]
        moved = np.moveaxis(value, places, range(value.ndim - 1 - len(places), value.ndim - 1))
        outer = moved.shape[: moved.ndim - 1 - len(places)]
        return moved.reshape(*outer, count // threads, threads, moved.shape[-1])

    def _threads_back(self, value: Array, axes: list[UOp]) -> Array:
        sizes = [self.values[axis].size for axis in axes]
        outer = value.shape[: value.ndim - 3]
        spread = value.reshape(*outer, *sizes, value.shape[-1])
        places = [self.axes[axis] for axis in axes]
        return np.moveaxis(spread, range(len(outer), len(outer) + len(places)), places)
