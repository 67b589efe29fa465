"""Dot products of pairs and quads in vectors: x86 multiplies 16-bit integers and adds neighbours in one instruction, or four bytes.

LLVM finds `vpmaddwd` in a product of widened integers whose even and odd lanes are added, and `vpdpwssd` where that is added to
something else and the processor has it; on other machines the same text is what it says. `vpdpbusd` and `vdpbf16ps` have to be named.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.codegen.llvm_table import llvm_type
from planish.codegen.llvm_values import LlvmValues
from planish.llir.program import Tile

_KINDS: Final = {
    (2, dtypes.int16, dtypes.int16, dtypes.int32): "pairs",
    (2, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32): "halves",
    (4, dtypes.uint8, dtypes.int8, dtypes.int32): "quads",
    (4, dtypes.int8, dtypes.uint8, dtypes.int32): "quads",
}
"""What there are instructions for: how many factors, and the dtypes of a, b and c."""


def kind_of(i: Tile) -> str:
    """Which dot products a tile is, c[n] += a[0]·b[0, n] + a[1]·b[1, n] …, what is multiplied by one element side by side; nothing if none."""
    tile = i.tile
    kind = _KINDS.get((tile.k, i.a.dtype.scalar, i.b.dtype.scalar, i.c.dtype.scalar), "")
    if (tile.m, tile.threads) != (1, 1) or (kind != "pairs" and tile.n != 16):
        return ""
    lanes = [n + tile.n * k for n in range(tile.n) for k in range(tile.k)]
    return kind if lanes == tile.places("b")[0].tolist() else ""


def add_halves(to: LlvmValues, i: Tile, a: str, b: str, c: str, into: str) -> None:
    """The tile, of the texts of its operands."""
    count = i.tile.n
    kind, halves = llvm_type(dtypes.float32.vec(count)), f"<{2 * count} x bfloat>"
    words = llvm_type(dtypes.int32.vec(count))
    pair = to.let(f"bitcast {llvm_type(i.a.dtype)} {a} to i32")
    left = to.let(f"bitcast {words} {to.splat(pair, dtypes.int32, count)} to {halves}")
    right = to.let(f"bitcast {llvm_type(i.b.dtype)} {b} to {halves}")
    sums = to.call(kind, "llvm.x86.avx512bf16.dpbf16ps.512", (kind, c), (halves, left), (halves, right))
    to.let(sums, into)


def add_quads(to: LlvmValues, i: Tile, a: str, b: str, c: str, into: str) -> None:
    """The tile, of the texts of its operands."""
    count = i.tile.n
    kind, quads = llvm_type(dtypes.int32.vec(count)), llvm_type(dtypes.int8.vec(4 * count))
    left = to.splat(to.let(f"bitcast <4 x i8> {a} to i32"), dtypes.int32, count)
    right = to.let(f"bitcast {quads} {b} to {kind}")
    # the first of the two is the one without a sign
    factors = (left, right) if i.a.dtype.scalar is dtypes.uint8 else (right, left)
    sums = to.call(kind, "llvm.x86.avx512.vpdpbusd.512", (kind, c), *((kind, each) for each in factors))
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


ADD: Final = {"pairs": add_pairs, "halves": add_halves, "quads": add_quads}
