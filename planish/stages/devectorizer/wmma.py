"""Tensor cores in the devectorizer: sums that a core does itself, and tiles cut to what one core computes.

* `pm_wmma_accumulate`: a core adds to what it is given, so the accumulator is given to it. Only accumulators: adding
  something else first would round in another order than the program says.
* `pm_split_wmma`: between stages 9 and 14 a WMMA may stand for several tiles (an axis of tiles in registers). Of P tiles, lane
  l·P + p of its operands and of its result is lane l of tile p.
* `pm_reduce_tiles`: a sum of several tiles is as many sums of one, each with an accumulator of its own: what a core keeps in
  one of its registers must lie together. Tiles along an unrolled sum are one chain of products.
* `pm_whole_tiles`: what a core of one thread reads and keeps as a whole is accessed as a whole, however wide: its
  registers are not those of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops, TensorCoreOp
from planish.uop.pattern import anything, node
from planish.uop.tensor_cores import ROW, core_of


def _is_accumulator(x: UOp) -> bool:
    place = x.src[0] if x.op is Ops.LOAD else x
    if place.op is not Ops.INDEX:
        return False
    memory = place.src[0].dtype
    return isinstance(memory, PtrDType) and memory.space is AddrSpace.REG


def _starts_at_zero(tile: UOp) -> bool:
    start = tile.src[2]
    return start.op is Ops.CONST and start.arg == 0


def _give(x: UOp, tile: UOp) -> UOp | None:
    if not _is_accumulator(x):
        return None
    if tile.src[2].op is Ops.WMMA:
        given = _give(x, tile.src[2])
        return None if given is None else _begun(tile, given)
    return _begun(tile, x) if _starts_at_zero(tile) else None


def _begun(tile: UOp, start: UOp) -> UOp:
    """A product that is added to something."""
    return tile.replace(src=(*tile.src[:2], start, *tile.src[3:]))


_TILE: Final = node(Ops.WMMA, name="tile")

pm_wmma_accumulate: Final = Matcher(
    "pm_wmma_accumulate",
    [
        rule(node(Ops.ADD, anything("x"), _TILE), _give, says="acc + WMMA(a, b, 0) -> WMMA(a, b, acc)"),
        rule(node(Ops.ADD, _TILE, anything("x")), _give, says="WMMA(a, b, 0) + acc -> WMMA(a, b, acc)"),
    ],
)


def _tiles(root: UOp) -> tuple[list[UOp], tuple[int, ...]] | None:
    """A WMMA for each tile that one stands for, and which lane of their results, joined, each lane of its result is."""
    core = core_of(cast("TensorCoreOp", root.arg))
    if core is None:
        return None
    lanes = core.lanes("c")
    count = root.dtype.lanes // lanes
    if count == 1:
        return None
    tiles = []
    for position in range(count):
        src = []
        for source in root.src[:3]:
            held = source.dtype.lanes // count
            if source.op is Ops.CONST:
                src.append(source.replace(dtype=source.dtype.scalar.vec(held)))
            else:
                src.append(source.gep(*(lane * count + position for lane in range(held))))
        tiles.append(root.replace(dtype=root.dtype.scalar.vec(lanes), src=(*src, *root.src[3:])))
    return tiles, tuple(position * lanes + lane for lane in range(lanes) for position in range(count))


def _split(root: UOp) -> UOp | None:
    tiled = _tiles(root)
    if tiled is None:
        return None
    tiles, order = tiled
    return root.table.make(Ops.CAT, root.dtype, tuple(tiles)).gep(*order)


def _split_exchange(root: UOp) -> UOp | None:
    """Rows at several positions, each dealt out for itself."""
    rows = root.src[0]
    held = ROW // rows.dtype.itemsize
    count = rows.dtype.lanes // held
    if count == 1:
        return None
    lanes = root.dtype.lanes // count
    dealt = [
        root.replace(
            dtype=root.dtype.scalar.vec(lanes),
            src=(rows.gep(*(lane * count + position for lane in range(held))),),
        )
        for position in range(count)
    ]
    order = tuple(position * lanes + lane for lane in range(lanes) for position in range(count))
    return root.table.make(Ops.CAT, root.dtype, tuple(dealt)).gep(*order)


pm_split_wmma: Final = Matcher(
    "pm_split_wmma",
    [
        rule(node(Ops.WMMA), _split, says="WMMA of several tiles -> one WMMA for each"),
        rule(node(Ops.EXCHANGE), _split_exchange, says="EXCHANGE at several positions -> one for each"),
    ],
)


def _split_sum(root: UOp) -> UOp | None:
    value = root.src[0]
    tile = value.src[0] if value.op is Ops.GEP else value
    if (
        tile.op is not Ops.WMMA
        or value.dtype.lanes != root.dtype.lanes
        or tile.dtype.lanes != root.dtype.lanes
    ):
        return None
    tiled = _tiles(tile)
    if tiled is None:
        if value is tile:
            return None
        tiles, order = [tile], tuple(range(tile.dtype.lanes))  # one tile, its lanes put in another order
    else:
        tiles, order = tiled
    sums = tuple(root.replace(dtype=each.dtype, src=(each, *root.src[1:])) for each in tiles)
    whole = sums[0] if len(sums) == 1 else root.table.make(Ops.CAT, tile.dtype, sums)
    if value is not tile:
        order = tuple(order[lane] for lane in cast("tuple[int, ...]", value.arg))
    return whole.gep(*order)


def _chain_sum(root: UOp) -> UOp | None:
    """Tiles that are added up: each begins with the sums of the one before."""
    value, width = root.src[0], root.dtype.lanes
    tile = value.src[0] if value.op is Ops.GEP else value
    if root.arg is not Ops.ADD or tile.op is not Ops.WMMA or value.dtype.lanes <= width:
        return None
    tiled = _tiles(tile)
    if tiled is None or not all(map(_starts_at_zero, tiled[0])):
        return None
    tiles, order = tiled
    lanes = tiles[0].dtype.lanes
    if value is not tile:
        order = tuple(order[lane] for lane in cast("tuple[int, ...]", value.arg))
    sums: dict[tuple[int, ...], int] = {}
    where = []
    for lane in range(width):
        places = order[lane::width]
        if len({place % lanes for place in places}) != 1:
            return None
        added = tuple(place // lanes for place in places)
        where.append(sums.setdefault(added, len(sums)) * lanes + places[0] % lanes)
    parts = []
    for added in sums:
        total = tiles[added[0]]
        for number in added[1:]:
            total = _begun(tiles[number], total)
        parts.append(
            total if len(root.src) == 1 else root.replace(dtype=total.dtype, src=(total, *root.src[1:]))
        )
    whole = parts[0]
    if len(parts) > 1:
        whole = root.table.make(Ops.CAT, whole.dtype.scalar.vec(lanes * len(parts)), tuple(parts))
    return whole.gep(*where)


pm_reduce_tiles: Final = Matcher(
    "pm_reduce_tiles",
    [
        rule(node(Ops.REDUCE), _split_sum, says="REDUCE of several tiles -> one REDUCE for each"),
        rule(node(Ops.REDUCE), _chain_sum, says="REDUCE of tiles that are added up -> WMMA(a, b, WMMA(…))"),
    ],
)


def _place(access: UOp) -> tuple[UOp, UOp, int] | None:
    """Memory, and the first element of an access as an expression and a number; None if it has gates."""
    place = access.src[0]
    if (
        len(access.src) > (1 if access.op is Ops.LOAD else 2)
        or place.op is not Ops.INDEX
        or len(place.src) != 2
    ):
        return None
    index = place.src[1]
    if index.op is Ops.CONST:
        return place.src[0], index.const_like(0), cast("int", index.arg)
    if index.op is Ops.ADD and index.src[1].op is Ops.CONST:
        return place.src[0], index.src[0], cast("int", index.src[1].arg)
    return place.src[0], index, 0


def _follow(accesses: Sequence[UOp], lanes: Sequence[int]) -> bool:
    """Whether accesses are to neighbours, one after another."""
    places = [_place(access) for access in accesses]
    first = places[0]
    if first is None:
        return False
    memory, base, expected = first
    for place, count in zip(places, lanes, strict=True):
        if place is None or place[0] is not memory or place[1] is not base or place[2] != expected:
            return False
        expected += count
    return True


def _whole_loads(root: UOp) -> UOp | None:
    core = core_of(cast("TensorCoreOp", root.arg))
    if core is None or core.threads > 1:
        return None
    src = []
    for source in root.src:
        parts = source.src
        whole = (
            source.op is Ops.CAT
            and all(part.op is Ops.LOAD for part in parts)
            and _follow(parts, [part.dtype.lanes for part in parts])
        )
        src.append(parts[0].replace(dtype=source.dtype) if whole else source)
    changed = any(new is not old for new, old in zip(src, root.src, strict=True))
    return root.replace(src=tuple(src)) if changed else None


def _whole_stores(root: UOp) -> UOp | None:
    stores = root.src
    if len(stores) < 2 or any(s.op is not Ops.STORE for s in stores):
        return None
    values = [s.src[1] for s in stores]
    if all(v.op is Ops.CONST and v.arg == values[0].arg for v in values):
        return _whole_start(stores)
    tile = values[0].src[0] if values[0].op is Ops.GEP else values[0]
    if tile.op is not Ops.WMMA or any(v.op is not Ops.GEP or v.src[0] is not tile for v in values):
        return None
    core = core_of(cast("TensorCoreOp", tile.arg))
    lanes = [lane for v in values for lane in cast("tuple[int, ...]", v.arg)]
    if core is None or core.threads > 1 or lanes != list(range(tile.dtype.lanes)):
        return None
    if not _follow(stores, [v.dtype.lanes for v in values]):
        return None
    return stores[0].replace(src=(stores[0].src[0], tile))


def _whole_start(stores: tuple[UOp, ...]) -> UOp | None:
    """The value that an accumulator starts from, as one store."""
    value = stores[0].src[1]
    lanes = [s.src[1].dtype.lanes for s in stores]
    place = stores[0].src[0]
    memory = place.src[0].dtype
    if not isinstance(memory, PtrDType) or memory.space is not AddrSpace.REG or not _follow(stores, lanes):
        return None
    return stores[0].replace(src=(place, value.replace(dtype=value.dtype.scalar.vec(sum(lanes)))))


pm_whole_tiles: Final = Matcher(
    "pm_whole_tiles",
    [
        rule(node(Ops.WMMA), _whole_loads, says="WMMA(CAT(LOAD(i), LOAD(i + 16), …), …) -> WMMA(LOAD(i), …)"),
        rule(node(Ops.GROUP), _whole_stores, says="GROUP(STORE(i, GEP(WMMA, 0…15)), …) -> STORE(i, WMMA)"),
    ],
)
"""After accesses have been cut to vectors."""
