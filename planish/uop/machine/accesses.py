"""Reads and writes: inside the buffer, of what is known, by one thread at a time."""

from __future__ import annotations

from typing import cast

import numpy as np

from planish.dtypes import DType
from planish.uop import arithmetic
from planish.uop.access_hints import hints_of
from planish.uop.machine.contents import Contents
from planish.uop.machine.places import Places
from planish.uop.machine.state import Array, BufferElements, Flight, InTheWay, Mask, first_of
from planish.uop.node import UOp


class Accesses(Places):
    """A run that loads and stores."""

    __slots__ = ()

    def _element(self, node: UOp) -> None:
        """An INDEX, which until stage 13 is both a place and the value there."""
        place = self._index(node)
        if place is None:
            return
        self.place[node] = place
        if not node.dtype.is_pointer and node in self.effects.read:
            self.values[node] = self._fetch(node, place, node.dtype, True, None)

    def _accessed(
        self, node: UOp, place: BufferElements, lanes: int, gate: Mask, active: Mask
    ) -> tuple[Array, Array, Array]:
        """Elements in their buffer, the same in all copies of it, and where they are accessed; all inside."""
        offset, is_open = self._elements(place, lanes)
        touched = np.asarray(is_open & gate & active)
        contents = self.contents[place.memory]
        bad = touched & ((offset < 0) | (offset >= contents.size))
        if bad.any():
            first = first_of(np.broadcast_to(offset, np.broadcast_shapes(offset.shape, bad.shape)), bad)
            self._fail(
                node, "outside", f"{contents.name}[{first}] is outside its {contents.size} elements", bad
            )
        copy = self._copy(place.memory, place.peer)
        return offset, offset + (copy if lanes == 1 else copy[..., None]), touched

    def _fetch(
        self, node: UOp, place: BufferElements, dtype: DType, gate: Mask, alternative: Array | None
    ) -> Array:
        lanes = dtype.lanes
        _, places, touched = self._accessed(node, place, lanes, gate, self._active(node, lanes))
        contents = self.contents[place.memory]
        wide = np.broadcast_shapes(places.shape, touched.shape)
        places, touched = np.broadcast_to(places, wide), np.broadcast_to(touched, wide)
        read = places[touched]
        if contents.in_flight.any():
            self._check_landed(node, contents, read)
        unknown = contents.unknown(read)
        if unknown.any():
            if not self.slow and self.root is not None:
                raise InTheWay
            where = np.zeros(wide, np.bool_)
            where[touched] = unknown
            number = int(read[unknown][0]) % max(contents.size, 1)
            self._fail(
                node,
                "unwritten",
                f"{contents.name}[{number}] is read before anything is written there",
                where,
            )
        if contents.shared and self.threads is not None:
            threads = self._lanes(self.threads, 1, lanes)
            every = np.broadcast_shapes(wide, threads.shape)
            touching = np.broadcast_to(touched, every)
            by_all = np.broadcast_to(places, every)[touching]
            since = self.time if place.peer is None else self.cluster_time
            racing = contents.hears(by_all, np.broadcast_to(threads, every)[touching], self.time, since)
            if racing.size:
                number = int(racing[0]) % contents.size
                self._fail(node, "race", f"{contents.name}[{number}] is read while another thread writes it: no barrier stands between")  # fmt: skip
        otherwise = np.zeros((), arithmetic.carrier(dtype)) if alternative is None else alternative
        result = np.array(np.broadcast_to(otherwise, np.broadcast_shapes(wide, np.shape(otherwise))))
        touched = np.broadcast_to(touched, result.shape)
        result[touched] = arithmetic.load(contents.data[np.broadcast_to(places, result.shape)[touched]], dtype.scalar)  # fmt: skip
        return result

    def _check_landed(self, node: UOp, contents: Contents, read: Array) -> None:
        early = read[contents.in_flight[read]]
        if early.size:
            number = int(early[0]) % contents.size
            self._fail(node, "race", f"{contents.name}[{number}] is read while its copy is under way: no WAIT stands between")  # fmt: skip

    def _load(self, node: UOp) -> None:
        alternative = self.values[node.src[1]] if len(node.src) > 1 else None
        gate: Mask = True
        if len(node.src) > 2:
            gate = self._lanes(self.values[node.src[2]], node.src[2].dtype.lanes, node.dtype.lanes)
        self.values[node] = self._fetch(node, self._place_of(node.src[0]), node.dtype, gate, alternative)

    def _store(self, node: UOp) -> None:
        target, x = node.src[:2]
        if any(not self.values[r].size for r in self.effects.around.get(node, ()) if r in self.axes):
            return  # a loop around it that never runs
        place, lanes = self._place_of(target), x.dtype.lanes
        lanes = max(lanes, place.lanes)
        gate: Mask = True
        if len(node.src) > 2:
            gate = self._lanes(self.values[node.src[2]], node.src[2].dtype.lanes, lanes)
        _, places, touched = self._accessed(node, place, lanes, gate, self._active(node, lanes))
        contents = self.contents[place.memory]
        stored = arithmetic.store(self._lanes(self.values[x], x.dtype.lanes, lanes), x.dtype)
        wide = np.broadcast_shapes(places.shape, touched.shape, stored.shape)
        touched = np.broadcast_to(touched, wide)
        flat, values = np.broadcast_to(places, wide)[touched], np.broadcast_to(stored, wide)[touched]
        self._check_races(node, contents, flat, values)
        if contents.shared and self.threads is not None:
            threads = self._lanes(self.threads, 1, lanes)
            every = np.broadcast_shapes(wide, threads.shape)
            touching = np.broadcast_to(touched, every)
            by_all = Flight(
                contents, *(np.broadcast_to(x, every)[touching] for x in (places, stored, threads))
            )
            self._disturb(node, by_all)
            if hints_of(node).asynchronous:
                contents.in_flight[by_all.places] = True
                self.flights[-1].append(by_all)
                return
        contents.write(flat, values)

    def _disturb(self, node: UOp, flight: Flight) -> None:
        """What other threads use without a barrier in between must not be written, nor what a tensor core still reads."""
        contents, places, values, threads = flight
        read = places[contents.under_product[places] > 0]
        if read.size:
            number = int(read[0]) % contents.size
            self._fail(node, "race", f"{contents.name}[{number}] is written while a tensor core reads it")
        racing = contents.disturbs(places, threads, values, self.time)
        if racing.size:
            number = int(racing[0]) % contents.size
            self._fail(node, "race", f"{contents.name}[{number}] is written while another thread uses it: no barrier stands between")  # fmt: skip

    def _land(self, node: UOp) -> None:
        """A WAIT: what the groups but the last few store is there, for the threads that stored it."""
        under_way = cast("int", node.arg) + 1  # and what is in no group yet
        while len(self.flights) > under_way:
            for flight in self.flights.pop(0):
                self._disturb(node, flight)
                flight.contents.in_flight[flight.places] = False
                flight.contents.write(flight.places, flight.values)

    def _check_races(self, node: UOp, contents: Contents, flat: Array, values: Array) -> None:
        clash = contents.clash(flat, values)
        if not clash.size and contents.is_parameter and node not in self.ordered:
            clash = contents.overwritten(flat, values)
        if clash.size:
            if not self.slow:
                raise InTheWay
            number = int(clash[0]) % contents.size
            self._fail(
                node, "race", f"{contents.name}[{number}] gets two different values, and nothing orders them"
            )
