"""Properties that follow from a node's content: open ranges, content key, sort key.

Each `fill_…` computes the property for a node and all below it that lack it, sources first and without recursion, and
leaves it cached in the node.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast
from zlib import crc32

from planish.uop.access_hints import AccessHints
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Ops, Variable

if TYPE_CHECKING:
    from planish.uop.node import UOp

# a member of an enum costs more to look up than a name
_serial, _ranges_of, _key_of, _order_of = map(attrgetter, ("serial", "_ranges", "_key", "_order"))
_AFTER, _CONST, _MUL, _RANGE, _VCONST = Ops.AFTER, Ops.CONST, Ops.MUL, Ops.RANGE, Ops.VCONST


def _without(root: UOp, known: Callable[[UOp], object]) -> list[UOp]:
    """The nodes under one that lack a property, itself among them, sources first; below a node that has it, all have."""
    seen = {root}
    nodes = [root]
    for node in nodes:
        for source in node.src:
            if known(source) is None and source not in seen:
                seen.add(source)
                nodes.append(source)
    nodes.sort(key=_serial)
    return nodes


def fill_ranges(root: UOp) -> frozenset[UOp]:
    ranges = _NO_RANGES
    for node in _without(root, _ranges_of):
        ranges = _union(node.src)
        if node.op is _RANGE:
            ranges = ranges | {node}
        elif node.op is _AFTER:
            # what an effect has closed is closed for the value observed after it
            for effect in node.src[1:]:
                ranges = ranges - _closed(effect)
        elif node.op in FIRST_RANGE:
            ranges = ranges - _closed(node)
        node._ranges = ranges
    return ranges


def _closed(node: UOp) -> frozenset[UOp]:
    """The ranges a node closes: a RANGE listed there itself, of an expression listed there all that are open in it.

    A range on which only the length of another depends stays open: it runs around that one.
    """
    first = FIRST_RANGE.get(node.op)
    if first is None:
        return _NO_RANGES
    listed = node.src[first:]
    itself = frozenset(r for r in listed if r.op is _RANGE)
    return itself | without_bounds(_union(tuple(r for r in listed if r.op is not _RANGE)))


def without_bounds(ranges: frozenset[UOp]) -> frozenset[UOp]:
    """Those of some ranges on which the length of no other depends."""
    bounds = [r.src[0] for r in ranges if r.src[0].op is not _CONST]
    return ranges.difference(*(bound.ranges for bound in bounds)) if bounds else ranges


_NO_RANGES: Final[frozenset[UOp]] = frozenset()


def _union(nodes: tuple[UOp, ...]) -> frozenset[UOp]:
    result = _NO_RANGES
    for node in nodes:
        ranges = node._ranges
        if ranges is not result and ranges:
            result = result | ranges if result else ranges
    return result


def fill_keys(root: UOp) -> None:
    for node in _without(root, _key_of):
        digest = blake2b(f"{node.op.name} {node.dtype} {stable_text(node.arg)}".encode(), digest_size=16)
        for source in node.src:
            digest.update(cast("bytes", source._key))
        node._key = digest.digest()


_INT: Final = {int}


def stable_text(arg: object) -> str:
    """An argument as text, the same in every process."""
    if type(arg) is float:
        return arg.hex()
    if isinstance(arg, Enum):
        return arg.name
    if type(arg) is AccessHints:
        return repr(arg.text)
    if isinstance(arg, tuple):
        if type(arg) is tuple and set(map(type, arg)) == _INT:  # the lanes of a register tile
            return f"tuple({str(arg)[1:-1].replace(' ', '') if len(arg) > 1 else arg[0]})"
        return f"{type(arg).__name__}({','.join(map(stable_text, arg))})"
    key = getattr(arg, "key", None)  # a symbolic dim is a node
    return key.hex() if isinstance(key, bytes) else repr(arg)


_LEAF_RANK: Final = {Ops.DEFINE_VAR: 0, Ops.SPECIAL: 1, Ops.RANGE: 2}
_NAME_ORDER: Final = {op: int.from_bytes(op.name.encode().ljust(24)) for op in Ops}
"""An op by its name: a number of its own that no other op changes, in the order of the alphabet."""
_KIND_ORDER: Final = {kind: place for place, kind in enumerate(AxisType)}
_CONST_RANK: Final = 9
_START: Final = (
    6  # how much of the first operand's order a compound term shows: enough for names, and bounded
)


def fill_orders(root: UOp) -> None:
    innermost: dict[frozenset[UOp], tuple[int, ...]] = {_NO_RANGES: (-1,)}
    _ = root.ranges  # all below have them from now on
    for node in _without(root, _order_of):
        node._order = _order(node, innermost)


def _order(node: UOp, innermost: dict[frozenset[UOp], tuple[int, ...]]) -> tuple[int, ...]:
    op, src = node.op, node.src
    if op is _CONST:
        value = node.arg
        return (_CONST_RANK, value if isinstance(value, int) else int.from_bytes(node.key[:8]))
    if op is _VCONST:
        return (_CONST_RANK - 1, int.from_bytes(node.key[:8]))
    rank = _LEAF_RANK.get(op)
    if rank is not None:
        if isinstance(node.arg, Axis):
            return (rank, *node.arg.path, -1, _KIND_ORDER[node.arg.kind])  # -1: shorter paths first
        return (rank, *(node.arg.name if isinstance(node.arg, Variable) else str(node.arg)).encode())
    if op is _MUL and src[1].op is _CONST:
        return cast("tuple[int, ...]", src[0]._order)
    # Compound terms: by the innermost range they depend on (what a loop does not change is then computed before it), by the
    # op's name, by the beginning of what they start with (so that `a < 3` stands before `b < 2`), then by structure.
    # Hashes of tuples of integers are the same in every process; a collision would only cost canonicity.
    arg = node.arg
    number = arg if type(arg) is int else 0 if arg is None else crc32(stable_text(arg).encode())
    name = _NAME_ORDER[op]
    digest = hash((name, number, crc32(node.dtype.short.encode()), *[s._order for s in src]))
    start = cast("tuple[int, ...]", src[0]._order)[:_START] if src else ()
    ranges = cast("frozenset[UOp]", node._ranges)
    inside = innermost.get(ranges)
    if inside is None:
        inside = innermost[ranges] = max([r.order for r in ranges])[1:]
    return (5, *inside, name, *start, digest)
