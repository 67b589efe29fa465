"""Dot products of pairs and quads in vectors: x86 multiplies 16-bit integers and adds neighbours in one instruction, or four bytes.

LLVM finds `vpmaddwd` in a product of widened integers whose even and odd lanes are added, and `vpdpwssd` where that is added to
something else and the processor has it; on other machines the same text is what it says. `vpdpbusd` has to be named.
"""

from __future__ import annotations

from planish import dtypes
from planish.codegen.llvm_table import llvm_type
from planish.codegen.llvm_values import LlvmValues
from planish.llir.program import Tile


def is_pairs(i: Tile) -> bool:
    """Whether a tile is c[n] += a[0]·b[0, n] + a[1]·b[1, n] on 16-bit integers, the pairs of b side by side."""
    tile, a, b = i.tile, i.a.dtype, i.b.dtype
    if (
        (tile.m, tile.k, tile.threads) != (1, 2, 1)
        or a.scalar is not dtypes.int16
        or b.scalar is not dtypes.int16
    ):
        return False
    lanes = [n + tile.n * k for n in range(tile.n) for k in range(2)]
    return i.c.dtype.scalar is dtypes.int32 and lanes == tile.places("b")[0].tolist()


def is_quads(i: Tile) -> bool:
    """Whether a tile is c[n] += a[0]·b[0, n] + … + a[3]·b[3, n] of bytes, a's without a sign, the quads of b side by side."""
    tile, a, b = i.tile, i.a.dtype, i.b.dtype
    if (
        (tile.m, tile.n, tile.k, tile.threads) != (1, 16, 4, 1)
        or a.scalar is not dtypes.uint8
        or b.scalar is not dtypes.int8
    ):
        return False
    lanes = [n + tile.n * k for n in range(tile.n) for k in range(4)]
    return i.c.dtype.scalar is dtypes.int32 and lanes == tile.places("b")[0].tolist()


def add_quads(to: LlvmValues, i: Tile, a: str, b: str, c: str, into: str) -> None:
    """The tile, of the texts of its operands."""
    count = i.tile.n
    kind, quads = llvm_type(dtypes.int32.vec(count)), llvm_type(dtypes.int8.vec(4 * count))
    left = to.splat(to.let(f"bitcast <4 x i8> {a} to i32"), dtypes.int32, count)
    right = to.let(f"bitcast {quads} {b} to {kind}")
    sums = to.call(kind, "llvm.x86.avx512.vpdpbusd.512", (kind, c), (kind, left), (kind, right))
    to.let(sums, into)


def add_pairs(to: LlvmValues, i: Tile, a: str, b: str, c: str, into: str) -> None:
    """The tile, of the texts of its operands."""
    count = i.tile.n
    words, wide = llvm_type(dtypes.int16.vec(2 * count)), llvm_type(dtypes.int32.vec(2 * count))
    pair = to.let(f"bitcast <2 x i16> {a} to i32")
    spread = to.splat(pair, dtypes.int32, count)
    left = to.let(f"bitcast {llvm_type(dtypes.int32.vec(count))} {spread} to {words}")
    factors = [to.let(f"sext {words} {x} to {wide}") for x in (left, b)]
    products = to.let(f"mul {wide} {factors[0]}, {factors[1]}")
    halves = [
        to.select(products, dtypes.int32.vec(2 * count), range(first, 2 * count, 2)) for first in (0, 1)
    ]
    kind = llvm_type(dtypes.int32.vec(count))
    both = to.let(f"add {kind} {halves[0]}, {halves[1]}")
    to.let(f"add {kind} {c}, {both}", into)
