"""Sorting by a comparator, and the largest elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.ops.elementwise import total_order
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import HloBlock, HloValue, Operation

_ORDERS: Final = {"LT": False, "LE": False, "GT": True, "GE": True}


@dataclass(frozen=True, slots=True)
class _Key:
    """A comparison of one operand's elements, of which the same is computed on both sides."""

    place: int
    value: HloValue
    """What is computed of the first."""
    descending: bool
    total: bool


@lowering("stablehlo.sort")
def sort(at: Site, *operands: V, dimension: int = -1, is_stable: bool = False) -> tuple[V, ...]:
    axis = dimension % operands[0].rank if operands[0].rank else 0
    if not operands[0].rank or operands[0].dims[axis] == 1 or 0 in operands[0].dims:
        return operands
    keys = _keys(at.regions[0])
    if keys is None or len({key.descending for key in keys}) != 1:
        return _by_counting(at, operands, axis)
    if len(keys) == 1 and len(operands) == 1 and _is_plain(at, keys[0]):
        return (operands[0].sort(axis, keys[0].descending),)
    # the key of the canonical form is the operand's own order: NaN last, both zeros alike
    key_values = [_key_values(at, key, operands) for key in keys]
    if [key.place for key in keys] == list(range(len(keys))) and all(_is_plain(at, key) for key in keys):
        return at.graph.sort(operands, axis, keys[0].descending, len(keys))
    return at.graph.sort([*key_values, *operands], axis, keys[0].descending, len(keys))[len(keys) :]


def _key_values(at: Site, key: _Key, operands: tuple[V, ...]) -> V:
    """What is compared, for all elements at once."""
    block = at.regions[0]
    shown = HloBlock(
        block.args, [*_needed(block, key.value), Operation("stablehlo.return", [key.value], {}, [])]
    )
    args = [x for x in operands for _ in range(2)]
    (compared,) = at.each(shown, args)
    compared = cast(compared, dtypes.uint8) if compared.dtype.is_bool else compared
    return total_order(compared) if key.total and compared.dtype.is_float else compared


def _needed(block: HloBlock, value: HloValue) -> list[Operation]:
    wanted: set[int] = set()
    pending = [value]
    while pending:
        op = pending.pop().op
        if op is not None and id(op) not in wanted:
            wanted.add(id(op))
            pending += op.operands
    return [op for op in block.body if id(op) in wanted]


def _is_plain(at: Site, key: _Key) -> bool:
    """Whether a key is its operand in PTIR's own order: itself, compared as integers or floats, or with zeros and NaNs made alike."""
    block = at.regions[0]
    source = block.args[2 * key.place]
    type = source.type
    if getattr(getattr(type, "element", None), "is_bool", True):
        return False
    if key.value is source:
        return not (key.total and type.element.is_float)  # type: ignore[union-attr]
    return _canonical(key.value, source) and not key.descending


def _canonical(value: HloValue, source: HloValue) -> bool:
    """select(x != x, NaN, select(x == 0, 0, x))."""
    outer = value.op
    if outer is None or outer.name != "stablehlo.select":
        return False
    test, _, rest = outer.operands
    inner = rest.op
    if inner is None or inner.name != "stablehlo.select" or inner.operands[2] is not source:
        return False
    zero_test = inner.operands[0].op
    nan_test = test.op
    return (
        _compares(nan_test, "NE", source)
        and nan_test is not None
        and nan_test.operands[1] is source
        and _compares(zero_test, "EQ", source)
    )


def _compares(op: Operation | None, word: str, first: HloValue) -> bool:
    return (
        op is not None
        and op.name == "stablehlo.compare"
        and op.attributes["comparison_direction"] == word
        and op.operands[0] is first
    )


# --- what a comparator compares ---------------------------------------------------------------------------


def _keys(block: HloBlock) -> list[_Key] | None:
    """`x0 < y0 or (x0 == y0 and …)` as a list of keys."""
    return _lexicographic(block, block.end.operands[0])


def _lexicographic(block: HloBlock, value: HloValue) -> list[_Key] | None:
    op = value.op
    if op is None:
        return None
    if op.name == "stablehlo.compare":
        key = _key(block, op)
        return None if key is None else [key]
    if op.name == "stablehlo.or":
        for first, second in (op.operands, op.operands[::-1]):
            key = _key(block, first.op)
            rest = second.op
            if key is None or rest is None or rest.name != "stablehlo.and":
                continue
            for tie, other in (rest.operands, rest.operands[::-1]):
                if tie.op is not None and _is_tie(tie.op, first.op):
                    tail = _lexicographic(block, other)
                    return None if tail is None else [key, *tail]
    if op.name == "stablehlo.select":
        test, then, otherwise = op.operands
        key = _key(block, otherwise.op)
        if key is not None and test.op is not None and _is_tie(test.op, otherwise.op):
            tail = _lexicographic(block, then)
            return None if tail is None else [key, *tail]
    return None


def _key(block: HloBlock, op: Operation | None) -> _Key | None:
    if op is None or op.name != "stablehlo.compare":
        return None
    word = op.attributes["comparison_direction"]
    left, right = op.operands
    place = _mirrored(block, left, right)
    if word not in _ORDERS or place is None:
        return None
    total = op.attributes.get("compare_type") == "TOTALORDER"
    descending = _ORDERS[word]
    if place % 2:  # the second element stands on the left
        return _Key(place // 2, right, not descending, total)
    return _Key(place // 2, left, descending, total)


def _mirrored(block: HloBlock, left: HloValue, right: HloValue) -> int | None:
    """The number of the only argument that the left side is computed from, if the right side is the same of its partner."""
    seen: set[int] = set()
    if not _alike(block, left, right, seen) or len(seen) != 1:
        return None
    return seen.pop()


def _alike(block: HloBlock, one: HloValue, other: HloValue, seen: set[int]) -> bool:
    if one in block.args or other in block.args:
        if one not in block.args or other not in block.args:
            return False
        first, second = block.args.index(one), block.args.index(other)
        seen.add(first)
        return first // 2 == second // 2 and first != second
    mine, theirs = one.op, other.op
    if mine is None or theirs is None:
        return one is other
    return (
        mine.name == theirs.name
        and mine.attributes == theirs.attributes
        and not mine.regions
        and len(mine.operands) == len(theirs.operands)
        and all(_alike(block, a, b, seen) for a, b in zip(mine.operands, theirs.operands, strict=True))
    )


def _is_tie(tie: Operation, order: Operation | None) -> bool:
    """x == y of the same that `order` compares."""
    return (
        order is not None
        and tie.name == "stablehlo.compare"
        and tie.attributes["comparison_direction"] == "EQ"
        and _same_pair(tie.operands, order.operands)
    )


def _same_pair(one: list[HloValue], other: list[HloValue]) -> bool:
    return all(_same(a, b) for a, b in zip(one, other, strict=True)) or all(
        _same(a, b) for a, b in zip(one, other[::-1], strict=True)
    )


def _same(one: HloValue, other: HloValue) -> bool:
    if one is other or one.op is None or other.op is None:
        return one is other
    mine, theirs = one.op, other.op
    return (
        (mine.name, mine.attributes, len(mine.operands))
        == (theirs.name, theirs.attributes, len(theirs.operands))
        and not mine.regions
        and all(_same(a, b) for a, b in zip(mine.operands, theirs.operands, strict=True))
    )


# --- any comparator ---------------------------------------------------------------------------------------


def _by_counting(at: Site, operands: tuple[V, ...], axis: int) -> tuple[V, ...]:
    """Each element goes where the number of those before it says: all pairs are compared, equals keep their order."""
    rank = operands[0].rank
    order = [a for a in range(rank) if a != axis] + [axis]
    turned = [x if order == sorted(order) else x.transpose(order) for x in operands]
    lead, size = turned[0].dims[:-1], turned[0].dims[-1]
    pairs = (*lead, size, size)
    rows = [x.expand_dims(rank).broadcast_to(pairs) for x in turned]
    columns = [x.expand_dims(rank - 1).broadcast_to(pairs) for x in turned]
    block = at.regions[0]
    (after,) = at.each(block, [v for pair in zip(columns, rows, strict=True) for v in pair])
    (before,) = at.each(block, [v for pair in zip(rows, columns, strict=True) for v in pair])
    earlier = at.graph.iota(pairs, rank, dtypes.int64).lt(at.graph.iota(pairs, rank - 1, dtypes.int64))
    ahead = after.or_(before.not_().and_(earlier))
    place = cast(ahead, dtypes.int64).reduce_sum([rank])
    places = [at.graph.iota(place.dims, a, dtypes.int64) for a in range(rank - 1)]
    back = [order.index(a) for a in range(rank)]
    axes = list(range(rank))
    in_order = [x.scatter(x, [*places, place], axes, "replace", True) for x in turned]
    return tuple(x if back == axes else x.transpose(back) for x in in_order)


@lowering("chlo.top_k")
def top_k(at: Site, x: V, *, k: int) -> tuple[V, V]:
    if not k:
        dims = (*x.dims[:-1], 0)
        return at.full(dims, 0, x.dtype), at.full(dims, 0, dtypes.int32)
    values, places = x.top_k(k, x.rank - 1, dtype=at.dtype_of(1))
    return values, places
