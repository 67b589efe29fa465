"""The accesses of a vector of places: which lanes lie side by side, and under which gate.

The index of every lane is written as base + constant (`lane_forms.py`); lanes with the same base and consecutive constants are one
access, however long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from planish import dtypes
from planish.dtypes import DType
from planish.records import dataclass
from planish.stages.devectorizer.lane_forms import Forms, LaneForm, of_scalars
from planish.stages.devectorizer.lane_gates import gate_of
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.lanes import selected

_LISTED: Final = frozenset({Ops.GEP, Ops.VCONST, Ops.VECTORIZE})
_REACH: Final = 4
"""How many times its length one run may start behind the one before, to be loaded with it: further, most of what is loaded is not wanted."""
_FEWER: Final = 2
"""How many times fewer accesses have to be left by that: lanes are selected from all of them."""


class LanePlaces(NamedTuple):
    """Where the lanes of a place are: their indices, and their gates one by one and (if they come as one) together."""

    form: LaneForm
    gates: Sequence[UOp | None]
    gate: UOp | None
    is_open: bool
    """Whether no lane has a gate."""


@dataclass(frozen=True, slots=True)
class LaneAccess:
    """Consecutive elements from an index on: for each the lanes that it is, none for a gap."""

    index: UOp
    lanes: tuple[tuple[int, ...], ...]
    places: LanePlaces
    forms: Forms

    def gate(self, start: int = 0, end: int | None = None) -> UOp | None:
        """The gate of some of the elements: of one lane, or one for each."""
        places = self.places
        if places.is_open:
            return None
        first = [lanes[0] if lanes else None for lanes in self.lanes[start:end]]
        # what follows the last lane of a piece, or precedes the first, is there if the lanes beyond it are: under gates of their own
        outside = (first[0] is None or first[-1] is None) and len(self._gates()) > 1
        return gate_of(places.gate, places.gates, first, self.forms, gaps=not outside)

    def _gates(self) -> set[UOp | None]:
        return {self.places.gates[lanes[0]] for lanes in self.lanes if lanes}


def parted(place: UOp) -> tuple[UOp, UOp | None]:
    """The index of a place, and its gate."""
    index = place.src[1]
    gates = list(place.src[2:])
    while (opened := _opened(index)) is not None:
        index, gate = opened
        gates.append(gate)
    if not gates:
        return index, None
    lanes = max(index.dtype.lanes, *(gate.dtype.lanes for gate in gates))
    gate = _spread(gates[0], lanes)
    for other in gates[1:]:
        gate = gate & _spread(other, lanes)
    return index, gate


def _opened(index: UOp) -> tuple[UOp, UOp] | None:
    """What a gated index is where it is somewhere, and its gate; of one that has been cut to vectors, those of all pieces."""
    pieces = index.src if index.op is Ops.CAT else (index,)
    if not all(piece.op is Ops.WHERE and _is_nowhere(piece.src[2]) for piece in pieces):
        return None
    indices, gates = [piece.src[1] for piece in pieces], [piece.src[0] for piece in pieces]
    return join(indices, index.dtype), join(gates, dtypes.bool_.vec(index.dtype.lanes))


def _is_nowhere(index: UOp) -> bool:
    """INVALID, in all lanes."""
    return index.op is Ops.INVALID or (
        index.op is Ops.VECTORIZE and all(lane.op is Ops.INVALID for lane in index.src)
    )


def _spread(gate: UOp, lanes: int) -> UOp:
    if gate.dtype.lanes == lanes:
        return gate
    return gate.table.make(Ops.VECTORIZE, gate.dtype.vec(lanes), (gate,) * lanes)


def lanes_of(place: UOp, forms: Forms) -> LanePlaces:
    """Where the lanes of a place are; found once, whoever asks."""
    known = forms.places.get(place)
    if known is None:
        known = forms.places[place] = _lanes_of(place, forms)
    return cast("LanePlaces", known)


def _lanes_of(place: UOp, forms: Forms) -> LanePlaces:
    index, gate = parted(place)
    count = index.dtype.lanes
    gates: list[UOp | None] = [None] * count if gate is None else list(forms.scalars(gate))
    if all(n.op is not Ops.INVALID for n in index.toposort()):
        return LanePlaces(forms.form(index), gates, gate, gate is None)
    # Some lanes are nowhere, or have gates of their own.
    closed = place.table.const(False, dtypes.bool_)
    indices: list[UOp] = []
    for number, lane in enumerate(forms.scalars(index)):
        at, own = lane, gates[number]
        while at.op is Ops.WHERE and at.src[2].op is Ops.INVALID:
            own = at.src[0] if own is None else own & at.src[0]
            at = at.src[1]
        if at.op is Ops.INVALID:
            at, own = at.const_like(0), closed
        indices.append(at)
        gates[number] = own
    return LanePlaces(of_scalars(indices), gates, None, gates.count(None) == count)


def accesses_of(place: UOp, masked: bool, forms: Forms, width: int = 1) -> Iterator[LaneAccess]:
    """The runs of elements that the lanes of a place make. Lanes whose gate is never open are in none.

    Elements of a run are consecutive; with a width, that of whole vectors which may start anywhere, there may be others between them.
    """
    places = lanes_of(place, forms)
    form, gates = places.form, places.gates
    like = place.table.const(0, place.src[1].dtype.scalar)
    for by_offset in (_layers(form) if places.is_open else _layers_by_gate(form, gates, masked)).values():
        for run in _runs(sorted(by_offset), width):
            lanes = tuple([tuple(by_offset.get(offset, ())) for offset in range(run[0], run[-1] + 1)])
            yield LaneAccess(forms.at(form, by_offset[run[0]][0], like), lanes, places, forms)


Layers = dict[object, dict[int, list[int]]]
"""Lanes by their places: for each base the lanes at each constant."""


def _layers(form: LaneForm) -> Layers:
    constants = form.constants
    if not form.terms and len(set(constants)) == len(constants):  # mostly each lane is at a place of its own
        return {(): {offset: [lane] for lane, offset in enumerate(constants)}}
    layers: Layers = {}
    for lane, (base, offset) in enumerate(zip(form.bases(), constants, strict=True)):
        layer = layers.get(base)
        if layer is None:
            layers[base] = {offset: [lane]}
            continue
        known = layer.get(offset)
        if known is None:
            layer[offset] = [lane]
        else:
            known.append(lane)
    return layers


def _layers_by_gate(form: LaneForm, gates: Sequence[UOp | None], masked: bool) -> Layers:
    """The same of lanes under gates. One layer holds each place once; a place wanted again under another gate starts a second layer."""
    layers: Layers = {}
    for lane, (base, offset) in enumerate(zip(form.bases(), form.constants, strict=True)):
        here = gates[lane]
        if here is not None and here.op is Ops.CONST and not here.arg:
            continue
        layer = layers.setdefault((base, 0) if masked else (base, here), {})
        depth = 0
        while masked and offset in layer and gates[layer[offset][0]] is not here:
            depth += 1
            layer = layers.setdefault((base, depth), {})
        layer.setdefault(offset, []).append(lane)
    return layers


def _runs(offsets: list[int], width: int) -> Iterator[list[int]]:
    """Sorted offsets in runs: consecutive ones, or ones that are near each other, if whole vectors of all between leave fewer accesses."""
    if width == 1 or offsets[-1] - offsets[0] == len(offsets) - 1:
        yield from _consecutive(offsets)
        return
    near: list[list[list[int]]] = []
    for run in _consecutive(offsets):
        before = near[-1][-1] if near else run
        if before is not run and run[0] - before[0] <= _REACH * len(before):
            near[-1].append(run)
        else:
            near.append([run])
    for runs in near:
        whole = -(-(runs[-1][-1] - runs[0][0] + 1) // width)
        pieces = [len(run) // width + (len(run) % width).bit_count() for run in runs]
        # (parts of vectors are loaded as such for nothing)
        parts = len(runs[0]) > 1 and max(pieces) == 1
        yield from [[n for run in runs for n in run]] if _FEWER * whole <= sum(pieces) and not parts else runs


def _consecutive(offsets: list[int]) -> Iterator[list[int]]:
    for _, neighbours in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
        yield [offset for _, offset in neighbours]


def join(pieces: list[UOp], dtype: DType) -> UOp:
    """Pieces as one vector."""
    return pieces[0] if len(pieces) == 1 else pieces[0].table.make(Ops.CAT, dtype, tuple(pieces))


def pieces_of(value: UOp, width: int) -> list[UOp]:
    """A value of many lanes in pieces of a width, the last of what is left."""
    op, count = value.op, value.dtype.lanes
    if count <= width:
        return [value]
    if op is Ops.CAT and all(part.dtype.lanes == width for part in value.src):
        return list(value.src)
    starts = range(0, count, width)
    if op not in _LISTED or (op is Ops.VCONST and not value.dtype.is_integral):  # 0.0 == -0.0
        return [selected(value, tuple(range(start, min(start + width, count)))) for start in starts]
    # written out lane by lane; the pieces of a register tile are mostly few, again and again
    lanes: tuple[Any, ...] = value.src if op is Ops.VECTORIZE else cast("tuple[Any, ...]", value.arg)
    cuts = [lanes[start : start + width] for start in starts]
    known: dict[tuple[Any, ...], UOp] = {}
    for cut, start in zip(cuts, starts, strict=True):
        if cut not in known:
            known[cut] = selected(value, tuple(range(start, start + len(cut))))
    return [known[cut] for cut in cuts]


def moved(place: UOp, index: UOp, gate: UOp | None) -> UOp:
    """A place of the same memory at another index, under a gate."""
    return place.replace(src=(place.src[0], index) if gate is None else (place.src[0], index, gate))
