"""Stage 14, devectorize: vectors of any width become accesses and operations of the widths the target has.

Why: until here a node may have 384 lanes; a register holds 16. Memory is read fastest in whole vectors.

How, in one walk
* **Accesses.** The index of every lane is written out as base + constant. Lanes with the same base and consecutive
  constants make one access, as wide as the target's fold lengths allow; what stands alone is a scalar access. The loaded
  pieces are joined and put into lane order by one lane selection; a store selects the lanes of its value.
* **Values.** An operation wider than the target's registers becomes several of full width, joined.
* **Accumulators.** A vector in an accumulator is accessed in pieces of full width.

Before → after::

    LOAD(INDEX(a, ⟨i i+1 … i+31⟩)) : f32x32         CAT(LOAD(INDEX(a, i)) : f32x16, LOAD(INDEX(a, i + 16)) : f32x16)
    LOAD(INDEX(a, ⟨i i i i⟩)) : f32x4               ⟨x x x x⟩, x = LOAD(INDEX(a, i))
    ADD(x, y) : f32x32                              CAT(ADD(x[0:16], y[0:16]), ADD(x[16:32], y[16:32]))

Would break without it: every lane of an index would be computed in vectors, and every access would be a gather.

Holds afterwards: indices are scalars; no operation has more lanes than a register; results are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.target import Target
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import simplify, symbolic
from planish.uop.symbolic.lanes import lanes as lane_rules

_CUT: Final = ALU | {Ops.CAST, Ops.BITCAST}


@dataclass(slots=True)
class _Run:
    """One kernel: the machine, and the lanes written out so far."""

    target: Target
    known: dict[tuple[UOp, int], UOp]


def _lane(value: UOp, number: int, run: _Run) -> UOp:
    """One lane of a vector of indices or gates, as a scalar expression. (Iterative: index sums can be deep.)"""
    known = run.known
    stack = [(value, number)]
    while stack:
        key = node, lane = stack[-1]
        if key in known:
            stack.pop()
            continue
        needs = _lane_needs(node, lane)
        missing = [need for need in needs if need not in known]
        if missing:
            stack.extend(missing)
            continue
        known[key] = _lane_value(node, lane, [known[need] for need in needs])
        stack.pop()
    return known[value, number]


def _lane_needs(node: UOp, lane: int) -> list[tuple[UOp, int]]:
    if node.dtype.lanes == 1 or node.op in {Ops.CONST, Ops.VCONST, Ops.VECTORIZE}:
        return []
    if node.op is Ops.GEP:
        return [(node.src[0], cast("tuple[int, ...]", node.arg)[lane])]
    if node.op in _CUT:
        return [(source, lane) for source in node.src]
    if node.op is Ops.CAT:
        for source in node.src:
            if lane < source.dtype.lanes:
                return [(source, lane)]
            lane -= source.dtype.lanes
    return []


def _lane_value(node: UOp, lane: int, parts: list[UOp]) -> UOp:
    if node.dtype.lanes == 1:
        return node
    scalar = node.dtype.scalar
    if node.op is Ops.CONST:
        return node.replace(dtype=scalar)
    if node.op is Ops.VCONST:
        return node.table.const(cast("tuple[int, ...]", node.arg)[lane], scalar)
    if node.op is Ops.VECTORIZE:
        return node.src[lane]
    if node.op in {Ops.GEP, Ops.CAT}:
        return parts[0]
    if node.op in _CUT:
        return node.table.make(node.op, scalar, tuple(parts), node.arg)
    return node.gep(lane)


def _base_and_offset(index: UOp) -> tuple[UOp | None, int]:
    """An index as a base and a constant; no base if it is a constant."""
    if index.op is Ops.CONST:
        return None, cast("int", index.arg)
    if index.op is Ops.ADD and index.src[1].op is Ops.CONST:
        return index.src[0], cast("int", index.src[1].arg)
    return index, 0


@dataclass(frozen=True, slots=True)
class _Access:
    """Consecutive elements from an index on, and which lanes they are (one list per element)."""

    index: UOp
    lanes: tuple[tuple[int, ...], ...]


def _accesses(index: UOp, dtype: DType, run: _Run) -> Iterator[_Access]:
    """The accesses to a vector of places, each as wide as the target allows for the dtype."""
    count, most = dtype.lanes, run.target.lanes(dtype)
    folds = [width for width in run.target.folds if width <= most]
    places: dict[UOp | None, dict[int, list[int]]] = {}
    first: dict[tuple[UOp | None, int], UOp] = {}
    for lane in range(count):
        place = simplify(_lane(index, lane, run), symbolic)
        base, offset = _base_and_offset(place)
        places.setdefault(base, {}).setdefault(offset, []).append(lane)
        first.setdefault((base, offset), place)
    for base, by_offset in places.items():
        offsets = sorted(by_offset)
        for _, run_of in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
            consecutive = [offset for _, offset in run_of]
            while consecutive:
                width = next((w for w in folds if w <= len(consecutive)), 1)
                chosen, consecutive = consecutive[:width], consecutive[width:]
                yield _Access(first[base, chosen[0]], tuple(tuple(by_offset[o]) for o in chosen))


def _join(pieces: list[UOp], dtype: DType) -> UOp:
    return pieces[0] if len(pieces) == 1 else pieces[0].table.make(Ops.CAT, dtype, tuple(pieces))


def _select(value: UOp, chosen: tuple[int, ...]) -> UOp:
    return value if chosen == tuple(range(value.dtype.lanes)) else value.gep(*chosen)


def _split_load(root: UOp, ctx: _Run) -> UOp | None:
    place = root.src[0]
    if place.op is not Ops.INDEX or len(place.src) != 2 or place.src[1].dtype.lanes == 1 or len(root.src) > 1:
        return None
    buffer, index = place.src
    scalar = root.dtype.scalar
    pieces: list[UOp] = []
    order = [0] * root.dtype.lanes
    taken = 0
    for access in _accesses(index, root.dtype, ctx):
        width = len(access.lanes)
        pieces.append(root.replace(dtype=scalar.vec(width), src=(place.replace(src=(buffer, access.index)),)))
        for element, lanes in enumerate(access.lanes):
            for lane in lanes:
                order[lane] = taken + element
        taken += width
    joined = _join(pieces, scalar.vec(taken))
    if taken == 1:
        return root.table.make(Ops.VECTORIZE, root.dtype, (joined,) * root.dtype.lanes)
    return _select(joined, tuple(order))


def _split_store(root: UOp, ctx: _Run) -> UOp | None:
    place, value = root.src[:2]
    if place.op is not Ops.INDEX or len(place.src) != 2 or place.src[1].dtype.lanes == 1 or len(root.src) > 2:
        return None
    buffer, index = place.src
    stores = []
    for access in _accesses(index, value.dtype, ctx):
        # of several lanes that write one place, the last one wins
        chosen = tuple(lanes[-1] for lanes in access.lanes)
        stores.append(root.replace(src=(place.replace(src=(buffer, access.index)), _select(value, chosen))))
    return stores[0] if len(stores) == 1 else root.table.make(Ops.GROUP, dtypes.void, tuple(stores))


def _split_value(root: UOp, ctx: _Run) -> UOp | None:
    count = root.dtype.lanes
    widest = max((root.dtype, *(s.dtype for s in root.src)), key=lambda d: d.itemsize)
    width = ctx.target.lanes(widest)
    if count <= width or root.op is Ops.BITCAST:
        return None
    pieces = []
    for start in range(0, count, width):
        chosen = tuple(range(start, min(start + width, count)))
        src = tuple(
            s.replace(dtype=s.dtype.scalar.vec(len(chosen))) if s.op is Ops.CONST else _select(s, chosen)
            for s in root.src
        )
        pieces.append(root.table.make(root.op, root.dtype.scalar.vec(len(chosen)), src, root.arg))
    return _join(pieces, root.dtype)


def _register_access(root: UOp, ctx: _Run) -> UOp | None:
    """A vector in a register, in pieces of full width."""
    place = root.src[0]
    value = root if root.op is Ops.LOAD else root.src[1]
    count, dtype = value.dtype.lanes, place.dtype
    if (
        count == 1
        or place.op is not Ops.INDEX
        or not isinstance(dtype, PtrDType)
        or dtype.space is not AddrSpace.REG
    ):
        return None
    width = ctx.target.lanes(value.dtype)
    index = place.src[1]
    if index.dtype.lanes > 1 or count <= width:
        return None
    pieces = []
    for start in range(0, count, width):
        chosen = tuple(range(start, min(start + width, count)))
        at = place.replace(src=(place.src[0], index + start))
        if root.op is Ops.LOAD:
            pieces.append(root.replace(dtype=value.dtype.scalar.vec(len(chosen)), src=(at,)))
        else:
            pieces.append(root.replace(src=(at, _select(value, chosen))))
    if root.op is Ops.LOAD:
        return _join(pieces, root.dtype)
    return root.table.make(Ops.GROUP, dtypes.void, tuple(pieces))


load_store_folding = Matcher(
    "load_store_folding",
    [
        rule(node(Ops.LOAD), _split_load, says="LOAD(INDEX(b, ⟨i…⟩)) -> CAT(LOAD(INDEX(b, i)), …)"),
        rule(
            node(Ops.STORE), _split_store, says="STORE(INDEX(b, ⟨i…⟩), x) -> GROUP(STORE(INDEX(b, i), x), …)"
        ),
        rule(
            node({Ops.LOAD, Ops.STORE}),
            _register_access,
            says="an access to a register -> accesses of full width",
        ),
    ],
)

devectorize_values = Matcher(
    "devectorize",
    [rule(node(_CUT), _split_value, says="op on many lanes -> CAT(op on a register's lanes, …)")],
)


def devectorize(sink: UOp, target: Target) -> UOp:
    """Cut vectors to what the target has."""
    if not any(n.dtype.lanes > 1 for n in sink.toposort()):
        return sink
    return rewrite(sink, lane_rules + load_store_folding + devectorize_values, _Run(target, {}))
