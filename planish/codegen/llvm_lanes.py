"""Lanes in LLVM IR: vectors built, joined, transposed and looked up, and products of small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.codegen import dot_products, transposition
from planish.codegen.llvm_memory import MemoryAccesses
from planish.codegen.llvm_table import constant, llvm_type, suffix
from planish.codegen.questions import one_thread
from planish.codegen.transposition import LanesOfMany, Transposition
from planish.dtypes import DType
from planish.llir import program as ir
from planish.llir.program import Ops

_WORDS: Final = frozenset({8, 16, 32, 64})
"""The bits of integers that are masks as they are."""
_FEW_ROWS: Final = 2
"""Registers whose lanes one shuffle brings together."""
_ROUNDS_AT_ONCE: Final = 2
"""Rounds of a transposition that LLVM may see as one: it looks for better shuffles through all of them, 2 to the rounds for every row, and
finds none. The code is the same, in two thirds of the time (16 rows of 16 floats with the product around it: 19.7 to 13.5 ms)."""


class LaneMoves(MemoryAccesses):
    """Writes what moves between lanes."""

    many: LanesOfMany
    turned: dict[int, list[str]]
    picked: dict[ir.Register, tuple[ir.Register, int]]
    """Bools that are one lane of a vector: masks are built of them."""
    taken: dict[ir.Register, ir.SelectLanes]
    """Selections of lanes by what they give."""
    longer: dict[ir.Register, tuple[ir.Register, int]]
    """Masks with one more lane, which is the same always: LLVM takes odd numbers of lanes one by one."""

    def lanes(self, i: ir.SelectLanes) -> None:
        if self.piece(i.result):
            return
        if i.result in self.many.scattered:
            kind, scalar, whole = llvm_type(i.result.dtype), llvm_type(i.result.dtype.scalar), "poison"
            for lane, (row, place) in enumerate(self.many.scattered[i.result]):
                into = self.value(i.result) if lane + 1 == len(i.lanes) else None
                element = self.select(self.value(row), row.dtype, (place,))
                whole = self.let(f"insertelement {kind} {whole}, {scalar} {element}, i32 {lane}", into)
            return
        mask = i.operand
        if mask.dtype.is_bool and isinstance(mask, ir.Register):
            if len(i.lanes) == 1:
                self.picked[i.result] = mask, i.lanes[0]
            elif mask in self.longer:
                source, last = self.longer[mask]
                count = source.dtype.lanes
                order = [count + last if lane == count else lane for lane in i.lanes]
                self.rearrange(source, order, i.result)
                return
        self.select(self.value(i.operand), i.operand.dtype, i.lanes, self.value(i.result))

    def build(self, i: ir.Build) -> None:
        if self.piece(i.result):
            return
        first, kind = i.inputs[0], llvm_type(i.result.dtype)
        if all(x == first for x in i.inputs):
            self.select(self.value(first), first.dtype, [0] * len(i.inputs), self.value(i.result))
            return
        if first.dtype.is_bool and (self.build_mask(i) or self.rearrange_mask(i)):
            return
        whole = "poison"
        for lane, x in enumerate(i.inputs):
            into = self.value(i.result) if lane + 1 == len(i.inputs) else None
            whole = self.let(f"insertelement {kind} {whole}, {self.typed(x)}, i32 {lane}", into)

    def piece(self, result: ir.Register) -> bool:
        """A piece of a transposition; False if it is none."""
        wanted = self.many.pieces.get(result)
        if wanted is None:
            return False
        start, width, count = wanted.pieces[result], wanted.lanes, result.dtype.lanes
        rows, dtype = self.transpose(wanted), wanted.rows[0].dtype
        at = start // width
        if count == width:
            kind = llvm_type(dtype)
            self.let(f"bitcast {kind} {rows[at]} to {kind}", self.value(result))
        elif count < width:
            self.select(rows[at], dtype, range(start % width, start % width + count), self.value(result))
        else:
            parts = [(row, width) for row in rows[at : at + count // width]]
            self.join(parts, dtype.scalar, self.value(result))
        return True

    def build_mask(self, i: ir.Build) -> bool:
        """Lanes of a few bools, as bits of one integer: a lane at a time takes several instructions each."""
        count, kind = len(i.inputs), f"i{len(i.inputs)}"
        bits: dict[ir.Operand, int] = {}
        for lane, x in enumerate(i.inputs):
            bits[x] = bits.get(x, 0) | 1 << lane
        if count < 8 or count & (count - 1) or len(bits) > count // 4 + 1:
            return False
        always = sum(mask for x, mask in bits.items() if not isinstance(x, ir.Register) and x.value)
        asked = [x for x in bits if isinstance(x, ir.Register)]
        if len(asked) == 1 and self.build_end(i, asked[0], always, always | bits[asked[0]]):
            return True
        word = str(always)
        for x, mask in bits.items():
            if isinstance(x, ir.Register):
                chosen = self.let(f"select {self.typed(x)}, {kind} {mask}, {kind} 0")
                word = self.let(f"or {kind} {word}, {chosen}")
        self.let(f"bitcast {kind} {word} to {llvm_type(i.result.dtype)}", self.value(i.result))
        return True

    def build_end(self, i: ir.Build, more: ir.Register, fewer: int, most: int) -> bool:
        """Lanes up to an end, which is one of two: the numbers of lanes are compared with it.

        (Bits of an integer would be set in a part of a register, and wait for what it held: in a scan that is the sum so far.)
        """
        count = len(i.inputs)
        if fewer & (fewer + 1) or most & (most + 1) or count > 16:
            return False
        vector = f"<{count} x i32>"
        end = self.let(f"select {self.typed(more)}, i32 {most.bit_length()}, i32 {fewer.bit_length()}")
        first = self.let(f"insertelement {vector} poison, i32 {end}, i32 0")
        ends = self.let(f"shufflevector {vector} {first}, {vector} poison, {vector} zeroinitializer")
        numbers = ", ".join(f"i32 {lane}" for lane in range(count))
        self.let(f"icmp ugt {vector} {ends}, <{numbers}>", self.value(i.result))
        return True

    def rearrange_mask(self, i: ir.Build) -> bool:
        """Lanes of one mask in another order, some of them the same always: one shuffle, where lanes one by one take many instructions."""
        sources = {self.picked[x][0] for x in i.inputs if isinstance(x, ir.Register) and x in self.picked}
        if len(sources) != 1 or any(isinstance(x, ir.Register) and x not in self.picked for x in i.inputs):
            return False
        (source,) = sources
        count = source.dtype.lanes
        if count < 2:
            return False
        order = [
            self.picked[x][1] if isinstance(x, ir.Register) else count + int(bool(x.value)) for x in i.inputs
        ]
        self.rearrange(source, order, i.result)
        return True

    def rearrange(self, mask: ir.Register, order: Sequence[int], result: ir.Register) -> None:
        """Lanes of a mask in an order; behind its own come what is false and what is true."""
        count, kind = mask.dtype.lanes, llvm_type(mask.dtype)
        fixed = f"<i1 false, i1 true{', i1 false' * (count - 2)}>"
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        text = f"shufflevector {kind} {self.value(mask)}, {kind} {fixed}, <{len(order)} x i32> <{lanes}>"
        self.let(text, self.value(result))

    def transpose(self, wanted: Transposition) -> list[str]:
        """The rows of a transposition; made where the first is asked for, which is before all others."""
        rows = self.turned.get(id(wanted))
        if rows is None:
            dtype = wanted.rows[0].dtype
            kind = llvm_type(dtype)
            rows = [self.value(row) for row in wanted.rows]
            for number, round_ in enumerate(transposition.rounds(len(rows), wanted.lanes, dtype.itemsize)):
                if number == _ROUNDS_AT_ONCE and dtype.is_float and dtype.bits >= 32:
                    fence = f"llvm.arithmetic.fence.{suffix(dtype)}"
                    rows = [self.let(self.call(kind, fence, (kind, row))) for row in rows]
                rows = [
                    self.let(
                        f"shufflevector {kind} {rows[a]}, {kind} {rows[b]}, "
                        f"<{wanted.lanes} x i32> <{', '.join(f'i32 {lane}' for lane in mask)}>"
                    )
                    for a, b, mask in round_
                ]
            self.turned[id(wanted)] = rows
        return rows

    def concat(self, i: ir.Concat) -> None:
        if i.result in self.many.unneeded:
            return
        mask, *others = i.inputs
        if i.result.dtype.is_bool and len(others) == 1 and isinstance(mask, ir.Register):
            (last,) = others
            if mask.dtype.lanes > 1 and last.dtype.lanes == 1 and not isinstance(last, ir.Register):
                self.longer[i.result] = mask, int(bool(last.value))
        if self.join_selections(i):
            return
        parts = [(self.value(x), x.dtype.lanes) for x in i.inputs]
        if not self.join_masks(i, parts):
            self.join(parts, i.result.dtype.scalar, self.value(i.result))

    def join_selections(self, i: ir.Concat) -> bool:
        """Few lanes of each of several registers: lanes of two go to where they belong at once, then what is there already is kept.

        Pieces that are joined two by two are vectors of odd lengths, which LLVM takes long for, and more shuffles.
        """
        dtype = i.result.dtype
        places = [place for x in i.inputs for place in self.places_of(x)]
        rows = dict.fromkeys(row for row, _ in places)
        if dtype.bits < 8 or len(places) != dtype.lanes or any(row.dtype is not dtype for row in rows):
            return False
        if len(rows) <= _FEW_ROWS or len({x.dtype.lanes for x in i.inputs}) == 1:
            return False  # one shuffle; or pieces of one length, which LLVM knows how to join
        count, kind, named = dtype.lanes, llvm_type(dtype), list(rows)
        parts: list[tuple[str, list[int | None]]] = []
        for pair in zip(named[::2], [*named[1::2], None] if len(named) % 2 else named[1::2], strict=True):
            order = [None if row not in pair else lane + count * pair.index(row) for row, lane in places]
            second = "poison" if pair[1] is None else self.value(pair[1])
            parts.append((self.shuffled(kind, self.value(pair[0]), second, order), order))
        while len(parts) > 1:
            (a, first), (b, second_order), *rest = parts
            order = [
                n if first[n] is not None else None if second_order[n] is None else count + n
                for n in range(count)
            ]
            into = None if rest else self.value(i.result)
            parts = [*rest, (self.shuffled(kind, a, b, order, into), order)]
        return True

    def places_of(self, x: ir.Operand) -> list[tuple[ir.Register, int]]:
        """The lanes of which registers a selection is; none of anything else."""
        taken = self.taken.get(x) if isinstance(x, ir.Register) else None
        if taken is None or not isinstance(taken.operand, ir.Register):
            return []
        return [(taken.operand, lane) for lane in taken.lanes]

    def shuffled(
        self, kind: str, a: str, b: str, order: Sequence[int | None], into: str | None = None
    ) -> str:
        """Lanes of two values; None: whatever."""
        mask = ", ".join("i32 poison" if lane is None else f"i32 {lane}" for lane in order)
        return self.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{mask}>", into)

    def join_masks(self, i: ir.Concat, parts: Sequence[tuple[str, int]]) -> bool:
        """Masks of different lengths, as bits of one integer: LLVM moves their lanes one by one."""
        count = i.result.dtype.lanes
        uneven = len({lanes for _, lanes in parts}) > 1
        if not (self.avx512 and i.result.dtype.is_bool and uneven) or count not in _WORDS:
            return False
        word, first = "0", 0
        for value, lanes in parts:
            bits = value if lanes == 1 else self.let(f"bitcast <{lanes} x i1> {value} to i{lanes}")
            wide = self.let(f"zext i{lanes} {bits} to i{count}")
            moved = self.let(f"shl i{count} {wide}, {first}") if first else wide
            word, first = self.let(f"or i{count} {word}, {moved}"), first + lanes
        self.let(f"bitcast i{count} {word} to <{count} x i1>", self.value(i.result))
        return True

    def lookup(self, i: ir.Lookup) -> None:
        """Element by element: LLVM finds the permutation instruction where there is one; on AVX-512 we name it."""
        table, index = i.table, i.index
        if self.avx512 and _is_permutation(table.dtype, index.dtype):
            self.permute(i)
            return
        whole, scalar = "poison", llvm_type(table.dtype.scalar)
        inside = self.alu(
            Ops.AND, index.dtype, [self.value(index), constant(table.dtype.lanes - 1, index.dtype)]
        )
        for lane in range(index.dtype.lanes):
            place = inside
            if index.dtype.lanes > 1:
                place = self.let(f"extractelement {llvm_type(index.dtype)} {inside}, i32 {lane}")
            last = self.value(i.result) if lane + 1 == index.dtype.lanes else None
            single = last if index.dtype.lanes == 1 else None
            if table.dtype.lanes == 1:
                element = self.select(self.value(table), table.dtype, [0], single)
            else:
                element = self.let(
                    f"extractelement {self.typed(table)}, {llvm_type(index.dtype.scalar)} {place}", single
                )
            if index.dtype.lanes > 1:
                kind = llvm_type(i.result.dtype)
                whole = self.let(f"insertelement {kind} {whole}, {scalar} {element}, i32 {lane}", last)

    def permute(self, i: ir.Lookup) -> None:
        """A lookup in one register; an index of fewer lanes is the beginning of one."""
        table, lanes = i.table.dtype, i.index.dtype.lanes
        name = f"llvm.x86.avx512.permvar.{'sf' if table.bits == 32 else 'df'}.512"
        places = self.widen(self.value(i.index), lanes, table.lanes, i.index.dtype.scalar)
        kind, whole = llvm_type(table), llvm_type(i.index.dtype.scalar.vec(table.lanes))
        permuted = self.call(kind, name, (kind, self.value(i.table)), (whole, places))
        if lanes == table.lanes:
            self.let(permuted, self.value(i.result))
        else:
            self.select(self.let(permuted), table, range(lanes), self.value(i.result))

    def any(self, i: ir.AnyLane) -> None:
        lanes, value = i.operand.dtype.lanes, self.value(i.operand)
        if lanes == 1:
            self.select(value, dtypes.bool_, [0], self.value(i.result))
        else:
            kind = llvm_type(i.operand.dtype)
            self.let(
                self.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", (kind, value)), self.value(i.result)
            )

    def tile(self, i: ir.Tile) -> None:
        tile, wide = i.tile, i.c.dtype.scalar
        one_thread(i)

        kind = dot_products.kind_of(i)
        if kind == "pairs" or (self.avx512 and kind):
            add = dot_products.ADD[kind]
            add(self, i, self.value(i.a), self.value(i.b), self.value(i.c), self.value(i.result))
            return

        def rows(matrix: str, operand: ir.Operand, count: int) -> list[str]:
            """The rows of a matrix, in the dtype of the sum."""
            value, dtype = self.value(operand), operand.dtype
            if dtype.scalar is not wide:
                value, dtype = self.convert_value(value, dtype, wide.vec(dtype.lanes)), wide.vec(dtype.lanes)
            lane_of = {int(place): lane for lane, place in enumerate(tile.places(matrix)[0])}
            size = dtype.lanes // count
            return [
                self.select(value, dtype, [lane_of[row * size + column] for column in range(size)])
                for row in range(count)
            ]

        a, b, c = rows("a", i.a, tile.m), rows("b", i.b, tile.k), rows("c", i.c, tile.m)
        row, across = wide.vec(tile.n), wide.vec(tile.k)
        for k in range(tile.k):
            for m in range(tile.m):
                factor = self.select(a[m], across, [k]) if tile.k > 1 else a[m]
                spread = self.splat(factor, wide, tile.n) if tile.n > 1 else factor
                c[m] = self.alu(Ops.MULACC, row, [spread, b[k], c[m]])
        whole = self.join([(value, tile.n) for value in c], wide)
        order = [int(place) for place in tile.places("c")[0]]
        self.select(whole, i.c.dtype, order, self.value(i.result))


def _is_permutation(table: DType, index: DType) -> bool:
    """Whether a lookup is one of floats in a whole register of AVX-512."""
    whole = table.is_float and table.bits * table.lanes == 512 and table.bits >= 32
    return whole and index.bits == table.bits and index.lanes <= table.lanes
