"""What a scheduled kernel costs on a GPU, in cycles of the whole: it chooses among templates, and ranks the candidates of a search.

What a kernel asks for is counted (`work.py`), what that costs is data of the target (`planish.target.gpu_rates`). Five bounds: arithmetic; lines that the accesses of
warps touch; bytes of memory, each fetched once; products of tensor cores; and how long threads wait, one wait after the other, for memory, for each other, and for the steps of their loops.
Blocks come in waves, as many at once as there are registers, LOCAL memory and threads for: waits are those of a wave, and the last round leaves some multiprocessors without work.
Products on tensor cores that read LOCAL memory have a model of their own, in the same cycles (`core_tiles.py`, `planish.target.rounds`).
"""

from __future__ import annotations

from math import ceil, log2
from typing import Final, NamedTuple

from planish.optimize.gpu.core_tiles import core_tile
from planish.optimize.gpu.work import Work, work_of
from planish.target import Target
from planish.target.gpu_rates import H200, GpuRates
from planish.uop.nest import count
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_LAST: Final = 0.5
"""Of the last of several rounds of blocks, how much is idle on the average: half, on any machine."""


class GpuCost(NamedTuple):
    """Cycles by what they are spent on, and bytes: those that warps ask for, and those of memory."""

    parts: dict[str, float]
    asked: int
    memory: int
    blocks: int
    rates: GpuRates

    def cycles(self) -> float:
        """The whole."""
        bound = max(self.parts.values())
        return self.rates.begin + bound + self.rates.hidden * (sum(self.parts.values()) - bound)


def gpu_cost(nest: Nest, target: Target) -> GpuCost:
    """What a kernel takes."""
    rates, work = target.rates or H200, work_of(nest, target)
    tile = core_tile(nest, work.local)
    parts = _parts(work, rates, target)
    if tile is not None:
        cycles = tile.cycles(target)
        if tile.fetched:
            parts = {"tiles": cycles}
        else:  # threads bring operands, and make them of what they read
            late = rates.copied if tile.buffers > 1 else rates.copied_at_once
            parts = {"tiles": cycles * late, "compute": parts["compute"], "access": parts["access"]}
    return GpuCost(parts, int(work.sectors), int(work.unique), work.blocks, rates)


def least_gpu_cycles(nest: Nest, target: Target) -> float:
    """A bound, of a kernel before any action: what it reads and writes once, or what it computes, by all multiprocessors at full speed."""
    rates, work = target.rates or H200, work_of(nest, target)
    products = [n for n in nest.reductions if n.arg is Ops.ADD and n.src[0].op is Ops.MUL]
    bits = [_multiplied(n, target) for n in products]
    if products and all(bits):
        terms = sum(count(n.src[0].ranges) * each for n, each in zip(products, bits, strict=True))
        computed = terms / rates.walked
    else:
        computed = work.instructions / target.warp / rates.instructions
    return rates.begin + max(_memory(work, rates, target), computed / target.workers)


def _multiplied(product: UOp, target: Target) -> int:
    """Bits of the factors of a sum of products, if tensor cores multiply such; else 0."""
    kinds = {core.inputs for core in target.tensor_cores if not core.is_rough}
    factors = [source.src[0] if source.op is Ops.CAST else source for source in product.src[0].src]
    return max(each.dtype.bits for each in factors) if all(each.dtype in kinds for each in factors) else 0


def _resident(work: Work, rates: GpuRates, target: Target) -> int:
    """Blocks that a multiprocessor runs at once."""
    each, of_sums, doubled, of_loads = rates.registers
    registers = each + of_sums * work.sums + doubled * log2(1 + work.sums) + of_loads * work.held
    threads = ceil(work.threads / target.warp) * target.warp
    blocks = min(
        rates.resident_threads // threads,
        rates.resident_blocks,
        int(target.block_registers / (min(registers, rates.most_registers) * threads)),
        rates.shared_bytes // (work.local + rates.reserved_bytes),
    )
    return max(blocks, 1)


def _memory(work: Work, rates: GpuRates, target: Target) -> float:
    return work.unique * _far(work, rates) / (rates.memory * target.workers)


def _far(work: Work, rates: GpuRates) -> float:
    """How much of what is read comes from memory: what is little was just written by the kernel before, and is in the second cache."""
    least, most = rates.near_bytes
    return min(max((work.unique - least) / (most - least), 0.0), 1.0)


def _parts(work: Work, rates: GpuRates, target: Target) -> dict[str, float]:
    workers, resident = target.workers, _resident(work, rates, target)
    mine = ceil(work.blocks / workers)
    together = min(resident, mine)
    each = work.blocks / workers
    idle = mine / each if mine <= resident else 1 + _LAST * resident / each
    far = _far(work, rates)
    warps = ceil(work.threads / target.warp) * together
    computed = work.instructions / rates.instructions + work.loops * rates.loop + work.places * rates.place
    touched = work.lines * rates.line + work.shared * rates.shared_line
    hidden = 1 - 2 ** (-min(warps, rates.busy_warps) / rates.warps)
    waits = (
        work.waits * (rates.far_wait if far > _LAST else rates.near_wait)
        + work.ordered * rates.ordered_wait
        + work.barriers * rates.barrier
        + work.shuffles * rates.shuffle
        + work.finish * rates.finish
        + work.serial * rates.step
    )
    return {
        "compute": computed / workers * idle,
        "access": touched / workers * idle,
        "memory": _memory(work, rates, target) * max(1.0, rates.enough * workers / min(work.blocks, workers)),
        "tensor cores": (work.tiled / (rates.tiled * hidden) + work.walked / rates.walked) / workers * idle,
        "waiting": waits * max(mine / together, 1.0) + mine * rates.block,
    }
