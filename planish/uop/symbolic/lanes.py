"""Lanes: GEP selects them, VECTORIZE and CAT build them; a selection of something built is found where it was built.

GEP is lane selection, so pushing it through an ALU op selects the lanes of the operands. It is pushed only where the
operands are built of lanes themselves: elsewhere one selection would become several, and a wide op many.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Final, cast

from planish.uop.matcher import Matcher, rule
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, CONSTANTS, Ops
from planish.uop.pattern import node
from planish.uop.symbolic.letters import x

_SEEN_THROUGH: Final = 32
"""Nodes looked at before a GEP is pushed: what it would be pushed through is small or it stays."""
_ELEMENTWISE: Final = ALU | {Ops.CAST}
_BUILT: Final = CONSTANTS | {Ops.VECTORIZE}
_SCATTERED: Final = 4
"""So many lanes, each of another vector, are not selected one by one if either the lanes or those of a vector are more."""
# a member of an enum costs more to look up than a name
_CAT, _CONST, _GEP, _VCONST, _VECTORIZE = Ops.CAT, Ops.CONST, Ops.GEP, Ops.VCONST, Ops.VECTORIZE


def _lanes(root: UOp) -> tuple[int, ...]:
    return cast("tuple[int, ...]", root.arg)


@cache
def _first_lanes(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def selected(value: UOp, lanes: tuple[int, ...]) -> UOp:
    """Lanes of a value, found where they were built, as the rules below find them: most need no GEP that is made and taken back."""
    wanted = len(lanes)
    while True:
        op, count = value.op, value.dtype.lanes
        if count == wanted and lanes == _first_lanes(count):
            return value
        if op is _GEP:
            inner = _lanes(value)
            lanes = tuple([inner[i] for i in lanes])
            value = value.src[0]
        elif op is _CAT:
            first, start, end, part = lanes[0], 0, 0, value
            for part in value.src:
                end = start + part.dtype.lanes
                if first < end:
                    break
                start = end
            if min(lanes) < start or max(lanes) >= end:
                break  # of several parts
            if start:
                lanes = tuple([i - start for i in lanes])
            value = part
        elif op is _VECTORIZE:
            return _vector(tuple([value.src[i] for i in lanes]))
        elif op is _CONST:
            return value.table.const(cast("Number", value.arg), value.dtype.scalar.vec(wanted))
        elif op is _VCONST:
            values = cast("tuple[Number, ...]", value.arg)
            return value.table.lanes([values[i] for i in lanes], value.dtype.scalar)
        elif count == 1 and not value.dtype.is_pointer:
            return _vector((value,) * wanted)
        else:
            break
    return value.table.make(_GEP, value.dtype.scalar.vec(wanted), (value,), lanes)


def _vector(lanes: tuple[UOp, ...]) -> UOp:
    """Scalars as one value."""
    first = lanes[0]
    if len(lanes) == 1:
        return first
    return first.table.make(Ops.VECTORIZE, first.dtype.vec(len(lanes)), lanes)


def _select_all(root: UOp, x: UOp) -> UOp | None:
    return x if x.dtype is root.dtype and _lanes(root) == tuple(range(x.dtype.lanes)) else None


def _select_scalar(root: UOp, x: UOp) -> UOp | None:
    """Lanes of a scalar: copies of it."""
    if x.dtype.lanes != 1 or x.dtype.is_pointer:
        return None
    return _vector((x,) * len(_lanes(root)))


def _select_selected(root: UOp, x: UOp, y: UOp) -> UOp:
    inner = _lanes(y)
    return selected(x, tuple([inner[i] for i in _lanes(root)]))


def _select_built(root: UOp, x: UOp) -> UOp:
    return _vector(tuple(x.src[i] for i in _lanes(root)))


def _select_joined(root: UOp, x: UOp) -> UOp | None:
    """Lanes of CAT: of the parts they fall in, if that makes no more selections than there are parts."""
    parts_of = [part for part in x.src for _ in range(part.dtype.lanes)]
    begins = [0, *accumulate(part.dtype.lanes for part in x.src)]
    first_of = [begin for begin, part in zip(begins, x.src, strict=False) for _ in range(part.dtype.lanes)]
    runs: list[tuple[UOp, list[int]]] = []
    last: UOp | None = None
    for lane in _lanes(root):
        part = parts_of[lane]
        if part is not last:
            if len(runs) == len(x.src):
                return None
            last = part
            runs.append((part, []))
        runs[-1][1].append(lane - first_of[lane])
    if len({part for part, _ in runs}) == len(_lanes(root)) >= _SCATTERED and _are_rows(x.src):
        return None  # a transposition, or nearly one: it stays one node for every vector of the result
    parts = tuple([selected(part, tuple(lanes)) for part, lanes in runs])
    return parts[0] if len(parts) == 1 else x.replace(src=parts, dtype=root.dtype)


def _are_rows(parts: tuple[UOp, ...]) -> bool:
    """Whether vectors are of one length, none of them built of lanes, and not few by few."""
    dtype = parts[0].dtype
    if dtype.lanes == 1 or max(dtype.lanes, len(parts)) <= _SCATTERED:
        return False
    return all(part.op not in _BUILT and part.dtype is dtype for part in parts)


def _select_constant(root: UOp, x: UOp) -> UOp:
    if x.op is Ops.CONST:
        return root.table.const(cast("Number", x.arg), root.dtype)
    values = cast("tuple[Number, ...]", x.arg)
    return root.table.lanes([values[i] for i in _lanes(root)], root.dtype.scalar)


def _takes_selection(root: UOp) -> bool:
    """Whether everything below ALU ops, down to a few nodes, is built of lanes."""
    seen = {root}
    todo = [root]
    built = False
    for part in todo:
        if part.op in _ELEMENTWISE:
            for source in part.src:
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
            if len(todo) > _SEEN_THROUGH:
                return False
        elif part.op is Ops.VECTORIZE or part.op is Ops.VCONST:
            built = True
        elif part.op is not Ops.CONST:
            return False
    return built


def _is_pair(x: UOp) -> bool:
    """Whether a machine may compute both lanes at once: two 16-bit floats. What is made of one of them is made of the pair."""
    dtype = x.dtype
    return dtype.lanes == 2 and dtype.is_float and dtype.bits == 16


def _select_through(root: UOp, x: UOp) -> UOp | None:
    """GEP(op(a, b)) as op(GEP(a), GEP(b)): no lane is computed twice, and every operand gives up its lanes."""
    lanes = _lanes(root)
    if len(set(lanes)) != len(lanes) or _is_pair(x) or not _takes_selection(x):
        return None
    return x.replace(dtype=x.dtype.scalar.vec(len(lanes)), src=tuple([selected(s, lanes) for s in x.src]))


def _join_scalars(root: UOp) -> UOp | None:
    """CAT of scalars and built vectors: one VECTORIZE."""
    lanes: list[UOp] = []
    for part in root.src:
        if part.op is Ops.VECTORIZE:
            lanes.extend(part.src)
        elif part.dtype.lanes == 1 and not part.dtype.is_pointer:
            lanes.append(part)
        else:
            return None
    return _vector(tuple(lanes))


def _flatten(root: UOp) -> UOp | None:
    if all(part.op is not Ops.CAT for part in root.src):
        return None
    parts = [inner for part in root.src for inner in (part.src if part.op is Ops.CAT else (part,))]
    return root.replace(src=tuple(parts))


def _rejoin(root: UOp) -> UOp | None:
    """Selections of one vector, joined: one selection."""
    first = root.src[0]
    if first.op is not Ops.GEP:
        return None
    whole = first.src[0]
    lanes: list[int] = []
    for part in root.src:
        if part.op is not Ops.GEP or part.src[0] is not whole:
            return None
        lanes.extend(_lanes(part))
    return selected(whole, tuple(lanes))


def _join_constants(root: UOp) -> UOp | None:
    if len(root.src) == 1:
        return None
    values: list[Number] = []
    for part in root.src:
        if part.op is Ops.CONST:
            values.extend([cast("Number", part.arg)] * part.dtype.lanes)
        elif part.op is Ops.VCONST:
            values.extend(cast("tuple[Number, ...]", part.arg))
        else:
            return None
    return root.table.lanes(values, root.dtype.scalar)


def is_broadcast(x: UOp) -> bool:
    """One scalar in every lane."""
    return x.op is Ops.VECTORIZE and all(lane is x.src[0] for lane in x.src)


def _broadcast_once(root: UOp) -> UOp | None:
    """op of broadcasts: the op once, then the broadcast."""
    scalars = []
    for source in root.src:
        if is_broadcast(source):
            scalars.append(source.src[0])
        elif source.op is Ops.CONST:
            scalars.append(root.table.const(cast("Number", source.arg), source.dtype.scalar))
        else:
            return None
    lanes = root.dtype.lanes
    return _vector((root.replace(dtype=root.dtype.scalar, src=tuple(scalars)),) * lanes)


def _broadcast_after(root: UOp, x: UOp) -> UOp | None:
    if not is_broadcast(x):
        return None
    lane = root.replace(dtype=root.dtype.scalar, src=(x.src[0], *root.src[1:]))
    return _vector((lane,) * root.dtype.lanes)


def _choose_lanes(root: UOp, c: UOp, x: UOp, y: UOp) -> UOp | None:
    """Lanes of one vector or of another, by constants: lanes of both, selected once."""
    mask = cast("tuple[Number, ...]", c.arg)
    one, other = x.src[0], y.src[0]
    if one is other:
        return selected(
            one, tuple([i if m else j for m, i, j in zip(mask, _lanes(x), _lanes(y), strict=True)])
        )
    count = one.dtype.lanes
    both = root.table.make(Ops.CAT, root.dtype.scalar.vec(count + other.dtype.lanes), (one, other))
    places = tuple([i if m else count + j for m, i, j in zip(mask, _lanes(x), _lanes(y), strict=True)])
    return selected(both, places)


_built = node(Ops.VECTORIZE, name="x")
_operand = node((Ops.VECTORIZE, Ops.CONST))

lanes: Final = Matcher(
    "lanes",
    [
        # -- selection --------------------------------------------------------------------------------------------
        rule(node(Ops.GEP, x), _select_all, says="gep(x, all lanes) -> x"),
        rule(node(Ops.GEP, x), _select_scalar, says="gep(scalar, 0, …) -> vectorize(scalar, …)"),
        rule(node(Ops.GEP, node(Ops.GEP, x, name="y")), _select_selected, says="gep(gep(x, i), j) -> gep(x, i[j])"),
        rule(node(Ops.GEP, _built), _select_built, says="gep(vectorize(x…), i) -> x[i]"),
        rule(node(Ops.GEP, node(Ops.CAT, name="x")), _select_joined, says="gep(cat(x…), i) -> cat(gep(x, i)…)"),
        rule(node(Ops.GEP, node(CONSTANTS, name="x")), _select_constant, says="gep(constant, i) -> constant"),
        rule(node(Ops.GEP, node(_ELEMENTWISE, name="x")), _select_through, says="gep(x ∘ y, i) -> gep(x, i) ∘ gep(y, i)"),
        rule(node(Ops.WHERE, node(Ops.VCONST, name="c"), node(Ops.GEP, name="x"), node(Ops.GEP, name="y")), _choose_lanes,
             says="where(constant, gep(x, i), gep(y, j)) -> gep(cat(x, y), k)"),
        # -- building ---------------------------------------------------------------------------------------------
        rule(node((Ops.VECTORIZE, Ops.CAT), x), x, says="vectorize(x), cat(x) -> x"),
        rule(node((Ops.VECTORIZE, Ops.CAT)), _join_constants, says="vectorize(constants) -> constant"),
        rule(node(Ops.CAT), _join_scalars, says="cat(scalars) -> vectorize(scalars)"),
        rule(node(Ops.CAT), _flatten, says="cat(cat(x…), y) -> cat(x…, y)"),
        rule(node((Ops.VECTORIZE, Ops.CAT)), _rejoin, says="vectorize(gep(x, i), gep(x, j)) -> gep(x, i, j)"),
        # -- broadcasts -------------------------------------------------------------------------------------------
        rule(node(_ELEMENTWISE, _operand, rest=True), _broadcast_once,
             says="vectorize(x, …, x) ∘ vectorize(y, …, y) -> vectorize(x ∘ y, …)"),
        rule(node((Ops.AFTER, Ops.END), _built, rest=True), _broadcast_after,
             says="after(vectorize(x, …, x), e) -> vectorize(after(x, e), …)"),
    ],
)  # fmt: skip
