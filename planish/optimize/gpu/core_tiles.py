"""Products on tensor cores that read LOCAL memory, as the tiles that blocks do: what `planish.target.rounds` prices."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, NamedTuple, cast

from planish.dtypes import PtrDType
from planish.target import Target
from planish.target.rounds import (
    BESIDE,
    WARPGROUP_TILES,
    BlockTile,
    ProductSizes,
    Rings,
    fetched_registers,
    ring_cycles,
)
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Box, Bufferize, Ops, TensorCoreOp
from planish.uop.ranges import kind_of
from planish.uop.tensor_cores import CORES

_MOST_BLOCKS: Final = 8
"""Of a multiprocessor: more are not asked for (`codegen/cuda_blocks.py`)."""
_SPEEDS: Final = {(tile.rows, tile.columns): tile for tile in WARPGROUP_TILES}


class CoreTile(NamedTuple):
    """A product, the tile of it that a block does, in so many parts, and how its operands come."""

    sizes: ProductSizes
    tile: BlockTile
    parts: int
    buffers: int
    stay: int
    """Blocks that stay; 0: each does one tile."""
    fetched: bool
    """Whether a copy engine brings them."""
    local: int
    """Bytes of LOCAL memory of a block."""

    def cycles(self, target: Target) -> float:
        """The time of all tiles."""
        threads, sums = 2 * self.tile.rows, self.tile.columns // 2
        fitting = min(max(target.local_bytes // max(self.local, 1), 1), _MOST_BLOCKS)
        blocks = next(
            (
                n
                for n in range(fitting, 1, -1)
                if fetched_registers(target.block_registers, n, threads) >= sums + BESIDE
            ),
            1,
        )
        workers = min(target.workers, self.stay) if self.stay else target.workers
        way = Rings(blocks, self.buffers, self.stay > 0)
        return ring_cycles(replace(target, workers=workers), self.sizes, self.tile, self.parts, way)


def reads_memory(core: UOp) -> bool:
    """Whether a core takes its right operand from LOCAL memory."""
    return CORES[cast("TensorCoreOp", core.arg).name].in_memory("b")


def core_tile(nest: Nest, local: int) -> CoreTile | None:
    """The one product of a kernel, if a core that reads LOCAL memory does it."""
    cores = [n for n in nest.nodes if n.op is Ops.WMMA and isinstance(n.arg, TensorCoreOp)]
    if len(cores) != 1 or not reads_memory(cores[0]):
        return None
    (core,) = cores
    kept = [next((n for n in each.toposort() if n.op is Ops.BUFFERIZE), None) for each in core.src[:2]]
    if kept[0] is None or kept[1] is None or kept[0] is kept[1]:
        return None
    a, b = (_outer(each) for each in cast("list[UOp]", kept))
    rows, columns, terms = cast("TensorCoreOp", core.arg).dims
    groups = prod(r.vmax + 1 for r in core.ranges if kind_of(r) is AxisType.LOCAL)
    everywhere = {r for r in core.ranges if kind_of(r) in OUTPUT}
    parts = prod(r.vmax + 1 for r in core.ranges if kind_of(r) is AxisType.CLUSTER)
    steps = prod(r.vmax + 1 for r in core.ranges if kind_of(r) is AxisType.REDUCE)
    tile = _SPEEDS.get((rows * groups, columns), BlockTile(rows * groups, columns))
    boxes = [n.arg for n in nest.nodes if n.op is Ops.FETCH and isinstance(n.arg, Box)]
    late = next((n for n in nest.nodes if n.op is Ops.BUFFERIZE and n not in kept), None)
    first, second = (_elements(each) for each in cast("list[UOp]", kept))
    itemsize = core.src[0].dtype.scalar.itemsize
    sizes = ProductSizes(
        tile.rows * _many(a - b), columns * _many(b - a), terms * steps * parts, _many(everywhere - (a ^ b)), itemsize,
        itemsize if late is None else late.src[0].dtype.itemsize, first, second,
    )  # fmt: skip
    how = cast("Bufferize", kept[0].arg)
    return CoreTile(
        sizes, tile, parts, how.buffers, max((box.stay for box in boxes), default=0), len(boxes) > 1, local
    )


def _outer(value: UOp) -> frozenset[UOp]:
    """Blocks that an operand depends on."""
    return frozenset(r for r in value.ranges if kind_of(r) in OUTPUT)


def _many(ranges: frozenset[UOp] | set[UOp]) -> int:
    return prod(r.vmax + 1 for r in ranges)


def _elements(value: UOp) -> int:
    """How many elements of memory an operand is made of."""
    memories = {n.src[0] for n in value.toposort() if n.op is Ops.INDEX and n.src[0].op is Ops.DEFINE_GLOBAL}
    return sum(cast("PtrDType", memory.dtype).size for memory in memories)
