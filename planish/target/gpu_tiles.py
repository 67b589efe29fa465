"""Tiles of products on the tensor cores of a GPU that were the fastest: those of warps, and those of walks over keys.

`planish.target.rounds` has the tiles of warpgroups and of threads.
"""

from __future__ import annotations

from typing import NamedTuple

from planish.records import dataclass


class WarpTile(NamedTuple):
    """The warps of a block along rows and columns, the tiles of the core of each, and how fast that is by the fastest."""

    down: int
    across: int
    high: int
    wide: int
    speed: float


class KeyBlocks(NamedTuple):
    """What threads have registers for, and what was fastest, the best first."""

    columns: int
    """Of the result, at most."""
    keys: tuple[int, ...]
    """Of a block."""
    groups: tuple[int, ...]
    """Groups of threads that share keys and values: several blocks of few registers, or one."""


@dataclass(frozen=True, slots=True)
class GpuTiles:
    """Timed on an H200."""

    of_warps: tuple[WarpTile, ...] = (
        WarpTile(4, 2, 2, 8, 1.0),
        WarpTile(2, 2, 4, 8, 0.97),
        WarpTile(2, 2, 2, 8, 0.7),
        WarpTile(2, 2, 2, 4, 0.6),
        WarpTile(1, 4, 2, 2, 0.4),
        WarpTile(1, 2, 1, 2, 0.2),
    )
    """Speeds of bf16 with matrices of 4096."""
    one_between: tuple[KeyBlocks, ...] = (
        KeyBlocks(64, (128, 64), (1, 2)),
        KeyBlocks(128, (128, 64), (2, 1)),
        KeyBlocks(256, (64,), (2, 1)),
    )
    """Walks over keys where one product lies between, narrow results first."""
    two_between: tuple[KeyBlocks, ...] = (
        KeyBlocks(64, (64, 128), (1, 2)),
        KeyBlocks(128, (64,), (1, 2)),
        KeyBlocks(256, (64,), (2, 1)),
    )
    """The same for two: a thread holds both."""
    two_sums: tuple[KeyBlocks, ...] = (KeyBlocks(64, (64,), (1, 2)), KeyBlocks(128, (64,), (2, 1)))
    """The same where two sums are made of them, as gradients by keys and by values are."""
    turned: float = 6.0
    """How many times longer everything takes that waits for an operand which is turned."""
    least: int = 32
    """Columns and terms from which on a product is worth a core that reads LOCAL memory."""
