"""LlvmValues in LLVM IR: arithmetic and conversions, on operands that are already text.

Everything has a value for every operand: shifts beyond the width, divisions by zero, floats out of range. Narrow floats are
computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from planish import dtypes
from planish.codegen import symbols
from planish.codegen.llvm_lines import LlvmLines
from planish.codegen.llvm_table import (
    FLAGGED,
    constant,
    function_of,
    llvm_type,
    suffix,
    template_of,
    vector_of,
)
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.llir.program import COMPARISONS, Ops

_NARROW: Final = frozenset(
    {dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float16, dtypes.bfloat16, dtypes.tfloat32}
)
_EIGHT_BITS: Final = {dtypes.float8_e4m3fn: (3, 7, 0x7F), dtypes.float8_e5m2: (2, 15, 0x7C)}
"""Bits of the mantissa, bias of the exponent, and what stands for everything too large."""

_RANGE: Final = {Ops.MAX: "5", Ops.MIN: "4"}
"""What `vrangeps` is to choose: by value, with the sign of what was chosen."""
_LEAST_ROOT: Final = (127 - 100) << 23
_INFINITY: Final = 0xFF << 23
"""The bits of 2**-100 and of infinity."""

_QUOTIENTS: Final = frozenset({Ops.FDIV, Ops.FMOD})
"""Where LLVM 22 takes lanes of 0 / 0 for zeros, and leaves the mask out that hides them: it is not shown what divides."""


class LlvmValues(LlvmLines):
    """Writes arithmetic and conversions."""

    def __init__(self, *, avx512: bool = False) -> None:
        super().__init__()
        self.avx512 = avx512
        self.refines_roots = False
        self.functions: Collection[tuple[Ops, DType]] = ()
        """What is called: whoever writes the kernel writes these too."""

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def alu(self, op: Ops, dtype: DType, x: Sequence[str], into: str | None = None) -> str:
        """An op on values of one dtype."""
        kind = llvm_type(dtype)
        if op is Ops.WHERE:
            condition = vector_of("i1", dtype.lanes)
            return self.let(f"select {condition} {x[0]}, {kind} {x[1]}, {kind} {x[2]}", into)
        if dtype.scalar in _NARROW:
            return self.narrow_alu(op, dtype, x, into)
        if self.functions and (op, dtype) in self.functions:
            arguments = ", ".join(f"{kind} {value}" for value in x)
            return self.let(f"call {kind} @{symbols.function(op, dtype)}({arguments})", into)
        if op is Ops.SCALE:
            return self.scale(dtype, x[0], x[1], into)
        if op in _RANGE and self.avx512 and _has_range(dtype, x):
            return self.extreme(op, dtype, x[0], x[1], into)
        if op is Ops.SQRT and self.refines_roots and self.avx512 and dtype == dtypes.float32.vec(16):
            return self.refined_root(dtype, x[0], into)
        special = _OWN.get(op)
        if special is not None and dtype.is_int:
            return special(self, op, dtype, x, into)
        if op in _QUOTIENTS and dtype.lanes > 1 and dtype.is_float and x[1].startswith("%"):
            x = (x[0], self.let(self.call(kind, f"llvm.arithmetic.fence.{suffix(dtype)}", (kind, x[1]))))
        template = template_of(op, dtype)
        if template is not None:
            return self.let(template.format(*x), into)
        function = function_of(op, dtype)
        if function is None:
            raise LoweringError(f"{op.name} on {dtype} has no LLVM form yet", op=op.name)
        flag = (("i1", "false"),) if function in FLAGGED else ()
        return self.let(
            self.call(kind, f"llvm.{function}.{suffix(dtype)}", *((kind, v) for v in x), *flag), into
        )

    def arithmetic(self, dtype: DType) -> Callable[..., str]:
        """Ops on values of one dtype, with plain numbers for its constants."""
        return lambda op, *x: self.alu(
            op, dtype, [v if isinstance(v, str) else constant(v, dtype) for v in x]
        )

    def same_bits(self, value: str, source: DType, target: DType, into: str | None = None) -> str:
        return self.let(f"bitcast {llvm_type(source)} {value} to {llvm_type(target)}", into)

    def narrow_alu(self, op: Ops, dtype: DType, x: Sequence[str], into: str | None) -> str:
        """float16 and bfloat16: computed in float32 and rounded once."""
        if op is Ops.MULACC:
            return self.convert_value(self.odd_fma(dtype, x), dtypes.float64.vec(dtype.lanes), dtype, into)
        single = dtypes.float32.vec(dtype.lanes)
        wide = [self.convert_value(v, dtype, single) for v in x]
        if op in COMPARISONS:
            return self.alu(op, single, wide, into)
        return self.convert_value(self.alu(op, single, wide), single, dtype, into)

    def odd_fma(self, dtype: DType, x: Sequence[str]) -> str:
        """x·y + z of narrow floats in float64, its last bit set where the sum is not exact: rounding it is rounding once."""
        double = dtypes.float64.vec(dtype.lanes)
        a, b, c = (self.convert_value(v, dtype, double) for v in x)
        number = self.arithmetic(double)
        product = number(Ops.MUL, a, b)  # exact
        total = number(Ops.ADD, product, c)
        virtual = number(Ops.SUB, total, product)
        rest, back = number(Ops.SUB, c, virtual), number(Ops.SUB, total, virtual)
        error = number(Ops.ADD, number(Ops.SUB, product, back), rest)
        zero, kind = constant(0.0, double), llvm_type(double)
        inexact = self.let(f"fcmp one {kind} {error}, {zero}")
        error_down = self.let(f"fcmp olt {kind} {error}, {zero}")
        total_down = self.let(f"fcmp olt {kind} {total}, {zero}")
        beyond = self.alu(Ops.XOR, dtypes.bool_.vec(dtype.lanes), [error_down, total_down])
        return self.make_odd(total, double, inexact, beyond)

    def make_odd(self, value: str, dtype: DType, inexact: str, beyond: str) -> str:
        """A float whose magnitude was rounded, up where `beyond`, brought toward zero and marked in its last bit."""
        whole = (dtypes.int64 if dtype.bits == 64 else dtypes.int32).vec(dtype.lanes)
        bits, word = self.same_bits(value, dtype, whole), self.arithmetic(whole)
        inward = word(Ops.OR, word(Ops.WHERE, beyond, word(Ops.SUB, bits, 1), bits), 1)
        return self.same_bits(word(Ops.WHERE, inexact, inward, bits), whole, dtype)

    def scale(self, dtype: DType, x: str, y: str, into: str | None) -> str:
        """x * 2 ** floor(y): one instruction of AVX-512; elsewhere a function of the C library."""
        kind, lanes, bits = llvm_type(dtype), dtype.lanes, dtype.bits * dtype.lanes
        if self.avx512 and bits in {128, 256, 512}:
            name = f"llvm.x86.avx512.mask.scalef.p{'s' if dtype.bits == 32 else 'd'}.{bits}"
            rounding = (("i32", "4"),) if bits == 512 else ()
            every = (f"i{max(lanes, 8)}", "-1")
            return self.let(
                self.call(kind, name, (kind, x), (kind, y), (kind, "poison"), every, *rounding), into
            )
        if self.avx512 and lanes == 1:
            few = dtype.vec(128 // dtype.bits)
            wide = [self.widen(v, 1, few.lanes, dtype) for v in (x, y)]
            return self.select(self.scale(few, wide[0], wide[1], None), few, [0], into)
        whole = dtypes.int32.vec(lanes)
        power = self.convert_value(self.alu(Ops.FLOOR, dtype, [y]), dtype, whole)
        word = f"llvm.ldexp.{suffix(dtype)}.{suffix(whole)}"
        scaled = self.let(self.call(kind, word, (kind, x), (llvm_type(whole), power)))
        # 2**inf times 0, and 2**-inf times infinity: as the product of the powers themselves
        end = self.alu(Ops.WHERE, dtype, [
            self.let(f"fcmp ogt {kind} {y}, {constant(0.0, dtype)}"), y, constant(0.0, dtype)
        ])  # fmt: skip
        finite = self.let(f"fcmp one {kind} {self.alu(Ops.ABS, dtype, [y])}, {constant(float('inf'), dtype)}")
        is_nan = self.let(f"fcmp uno {kind} {x}, {x}")
        endless = self.alu(Ops.WHERE, dtype, [is_nan, end, self.alu(Ops.MUL, dtype, [x, end])])
        lost = self.alu(Ops.WHERE, dtype, [self.let(f"fcmp uno {kind} {y}, {y}"), y, endless])
        return self.alu(Ops.WHERE, dtype, [finite, scaled, lost], into)

    def extreme(self, op: Ops, dtype: DType, x: str, y: str, into: str | None) -> str:
        """The larger or smaller one; NaN if either is. The instruction of AVX-512 knows -0 from 0, and leaves NaN to us.

        (Of a constant LLVM knows that it is neither NaN nor -0, and does as well.)
        """
        kind, bits = llvm_type(dtype), dtype.bits * dtype.lanes
        if bits < 128:  # a part of a register
            few = dtype.scalar.vec(128 // dtype.bits)
            wide = [self.widen(value, dtype.lanes, few.lanes, dtype.scalar) for value in (x, y)]
            return self.select(self.extreme(op, few, wide[0], wide[1], None), few, range(dtype.lanes), into)
        name = f"llvm.x86.avx512.mask.range.p{'s' if dtype.bits == 32 else 'd'}.{bits}"
        every = (f"i{max(dtype.lanes, 8)}", "-1")
        rounding = (("i32", "4"),) if bits == 512 else ()
        arguments = ((kind, x), (kind, y), ("i32", _RANGE[op]), (kind, "poison"), every, *rounding)
        chosen = self.let(self.call(kind, name, *arguments))
        lost = self.let(f"fcmp uno {kind} {x}, {y}")
        return self.alu(Ops.WHERE, dtype, [lost, self.alu(Ops.ADD, dtype, [x, y]), chosen], into)

    def refined_root(self, dtype: DType, x: str, into: str | None) -> str:
        """The root by an estimate and two steps that double its bits: half the time of the instruction, and the same bits.

        (They are for every float from 2**-100 on, up to the largest, which a test goes through. Below, the rest of the last step is lost;
        zero, infinity and what is negative have no estimate: if there is one such lane, the instruction does it.)
        """
        kind, whole, name = llvm_type(dtype), dtypes.uint32.vec(16), f"root{len(self.lines)}"
        bits = self.let(f"bitcast {kind} {x} to {llvm_type(whole)}")
        distance = self.alu(Ops.SUB, whole, [bits, constant(_LEAST_ROOT, whole)])
        inside = self.alu(Ops.CMPLT, whole, [distance, constant(_INFINITY - _LEAST_ROOT, whole)])
        every = self.let(f"icmp eq i16 {self.let(f'bitcast <16 x i1> {inside} to i16')}, -1")
        likely = self.attach('!{{!"branch_weights", i32 1000, i32 1}}')
        self.emit(f"br i1 {every}, label %{name}.refined, label %{name}.plain, !prof {likely}")
        self.label(f"{name}.refined")
        half = constant(0.5, dtype)
        estimate = self.let(self.call(kind, "llvm.x86.avx512.rsqrt14.ps.512", (kind, x), (kind, "zeroinitializer"), ("i16", "-1")))  # fmt: skip
        root, slope = (self.alu(Ops.MUL, dtype, [estimate, other]) for other in (x, half))
        error = self.alu(Ops.MULACC, dtype, [self.alu(Ops.NEG, dtype, [root]), slope, half])
        root, slope = (self.alu(Ops.MULACC, dtype, [each, error, each]) for each in (root, slope))
        error = self.alu(Ops.MULACC, dtype, [self.alu(Ops.NEG, dtype, [root]), root, x])
        refined = self.alu(Ops.MULACC, dtype, [error, slope, root])
        self.emit(f"br label %{name}.done")
        self.label(f"{name}.plain")
        plain = self.let(self.call(kind, f"llvm.sqrt.{suffix(dtype)}", (kind, x)))
        self.emit(f"br label %{name}.done")
        self.label(f"{name}.done")
        return self.let(f"phi {kind} [ {refined}, %{name}.refined ], [ {plain}, %{name}.plain ]", into)

    def fused(self, op: Ops, dtype: DType, x: Sequence[str], into: str | None) -> str:
        return self.alu(Ops.ADD, dtype, [self.alu(Ops.MUL, dtype, x[:2]), x[2]], into)

    def shift(self, op: Ops, dtype: DType, x: Sequence[str], into: str | None) -> str:
        """By the width or more, and by negative amounts: every bit moves out."""
        kind, (value, amount) = llvm_type(dtype), x
        if op is Ops.SHR and dtype.is_signed:
            last = constant(dtype.bits - 1, dtype)
            most = self.let(self.call(kind, f"llvm.umin.{suffix(dtype)}", (kind, amount), (kind, last)))
            return self.let(f"ashr {kind} {value}, {most}", into)
        word = "shl" if op is Ops.SHL else "lshr"
        # beyond the width LLVM's shift has no value, but then it is not chosen
        moved = self.let(f"{word} {kind} {value}, {amount}")
        inside = self.let(f"icmp ult {kind} {amount}, {constant(dtype.bits, dtype)}")
        return self.alu(Ops.WHERE, dtype, [inside, moved, constant(0, dtype)], into)

    def divide(self, op: Ops, dtype: DType, x: Sequence[str], into: str | None) -> str:
        """x / 0 and x % 0 are 0, MIN / -1 wraps; the machine's division would trap on either."""
        kind, (value, divisor) = llvm_type(dtype), x
        quotient = op is Ops.TRUNCDIV
        word = ("s" if dtype.is_signed else "u") + ("div" if quotient else "rem")
        if _is_harmless(divisor):
            return self.let(f"{word} {kind} {value}, {divisor}", into)
        zero, one = constant(0, dtype), constant(1, dtype)
        by_zero = self.let(f"icmp eq {kind} {divisor}, {zero}")
        bad, by_minus_one = by_zero, ""
        if dtype.is_signed:
            by_minus_one = self.let(f"icmp eq {kind} {divisor}, {constant(-1, dtype)}")
            bad = self.alu(Ops.OR, dtypes.bool_.vec(dtype.lanes), [by_zero, by_minus_one])
        safe = self.alu(Ops.WHERE, dtype, [bad, one, divisor])
        result = self.let(f"{word} {kind} {value}, {safe}")
        if by_minus_one and quotient:
            result = self.alu(Ops.WHERE, dtype, [by_minus_one, self.alu(Ops.NEG, dtype, [value]), result])
        return self.alu(Ops.WHERE, dtype, [by_zero, zero, result], into)

    # -- conversions -----------------------------------------------------------------------------------------------

    def convert_value(self, value: str, source: DType, target: DType, into: str | None = None) -> str:
        if source is target:
            kind = llvm_type(source)
            return self.let(f"bitcast {kind} {value} to {kind}", into)
        if source.scalar in _NARROW and target.scalar is not dtypes.float32:
            single = dtypes.float32.vec(source.lanes)
            value, source = self.widen_narrow(value, source), single
        a, b = llvm_type(source), llvm_type(target)
        if target.is_bool:
            word = "fcmp une" if source.is_float else "icmp ne"
            return self.let(f"{word} {a} {value}, {constant(0, source)}", into)
        if source.is_float:
            return self.convert_float(value, source, target, into)
        if target.is_float:
            return self.convert_integer(value, source, target, into)
        if a == b:
            return self.let(f"bitcast {a} {value} to {b}", into)
        if target.bits < source.bits and not source.is_bool:
            return self.let(f"trunc {a} {value} to {b}", into)
        return self.let(f"{'sext' if source.is_signed else 'zext'} {a} {value} to {b}", into)

    def convert_float(self, value: str, source: DType, target: DType, into: str | None) -> str:
        a, b = llvm_type(source), llvm_type(target)
        if not target.is_float:
            if target.lanes > 1 and (target.is_signed or target.scalar.bits < 32):
                return self.convert_lanes(value, source, target, into)
            word = "s" if target.is_signed else "u"
            return self.let(
                self.call(b, f"llvm.fpto{word}i.sat.{suffix(target)}.{suffix(source)}", (a, value)), into
            )
        if source.scalar in _NARROW:
            return self.widen_narrow(value, source, into)
        if target.scalar in _NARROW:
            single = value if source.bits == 32 else self.to_odd_single(value, source)
            return self.round_single(single, target, into)
        return self.let(f"{'fpext' if target.bits > source.bits else 'fptrunc'} {a} {value} to {b}", into)

    def convert_lanes(self, value: str, source: DType, target: DType, into: str | None) -> str:
        """Floats to the nearest integers that a dtype has, what is no number to 0: in vectors (x86 would take lane after lane)."""
        least, most = int(target.scalar.min or 0), int(target.scalar.max or 0)
        low, high = constant(float(least), source), constant(float(most + 1), source)
        kind, zero = llvm_type(source), constant(0.0, source)
        wide = vector_of(f"i{max(target.scalar.bits, 32)}", target.lanes)
        # (one comparison answers for what is too large and for what is no number; a comparison of what it chooses from is a maximum)
        fits = self.let(f"fcmp olt {kind} {value}, {high}")
        number = self.alu(Ops.WHERE, source, [fits, value, zero])
        over = self.let(f"fcmp ogt {kind} {number}, {low}")
        safe = self.alu(Ops.WHERE, source, [over, number, low])
        whole = self.let(f"fptosi {kind} {safe} to {wide}")
        if target.scalar.bits < 32:
            whole = self.let(f"trunc {wide} {whole} to {llvm_type(target)}")
        above = self.let(f"fcmp oge {kind} {value}, {high}")
        return self.alu(Ops.WHERE, target, [above, constant(most, target), whole], into)

    def widen_narrow(self, value: str, source: DType, into: str | None = None) -> str:
        """A narrow float as float32."""
        lanes, a = source.lanes, llvm_type(source)
        single, whole = llvm_type(dtypes.float32.vec(lanes)), dtypes.uint32.vec(lanes)
        if source.scalar is dtypes.float16:
            half = vector_of("half", lanes)
            return self.let(f"fpext {half} {self.let(f'bitcast {a} {value} to {half}')} to {single}", into)
        if source.scalar is dtypes.tfloat32:
            return self.let(f"bitcast {a} {value} to {single}", into)
        wide = self.let(f"zext {a} {value} to {llvm_type(whole)}")
        if source.scalar in _EIGHT_BITS:
            return self.widen_eight(wide, source, into)
        bits = self.let(f"shl {llvm_type(whole)} {wide}, {constant(16, whole)}")
        return self.let(f"bitcast {llvm_type(whole)} {bits} to {single}", into)

    def widen_eight(self, bits: str, source: DType, into: str | None) -> str:
        """Eight bits, as integers of 32: their exponent read as that of a float32, which a power of two puts right."""
        mantissa, bias, largest = _EIGHT_BITS[source.scalar]
        whole, single = dtypes.uint32.vec(source.lanes), dtypes.float32.vec(source.lanes)
        word, number = self.arithmetic(whole), self.arithmetic(single)
        size = word(Ops.AND, bits, 0x7F)
        sign = word(Ops.SHL, word(Ops.AND, bits, 0x80), 24)
        placed = word(Ops.SHL, size, 23 - mantissa)
        scaled = number(Ops.MUL, self.same_bits(placed, whole, single), 2.0 ** (127 - bias))
        special = word(Ops.CMPLE, largest, size)
        infinite = word(Ops.CMPEQ, size, 0x7C)
        beyond = constant(float("nan"), single)
        if source.scalar is dtypes.float8_e5m2:
            beyond = number(Ops.WHERE, infinite, float("inf"), beyond)
        magnitude = self.same_bits(number(Ops.WHERE, special, beyond, scaled), single, whole)
        return self.same_bits(word(Ops.OR, magnitude, sign), whole, single, into)

    def round_eight(self, value: str, target: DType, into: str | None) -> str:
        """float32 to eight bits, to nearest, ties to even."""
        mantissa, bias, largest = _EIGHT_BITS[target.scalar]
        whole, single = dtypes.uint32.vec(target.lanes), dtypes.float32.vec(target.lanes)
        word, number = self.arithmetic(whole), self.arithmetic(single)
        bits = self.same_bits(value, single, whole)
        size = word(Ops.AND, bits, 0x7FFFFFFF)
        sign = word(Ops.AND, word(Ops.SHR, bits, 24), 0x80)
        drop = 23 - mantissa
        even = word(Ops.AND, word(Ops.SHR, size, drop), 1)
        nudged = word(Ops.ADD, word(Ops.ADD, size, (1 << drop - 1) - 1), even)
        normal = word(Ops.SUB, word(Ops.SHR, nudged, drop), 127 - bias << mantissa)
        # a subnormal is a whole number of the least one: adding a large number rounds it there
        total = number(Ops.ADD, self.same_bits(size, whole, single), 2.0 ** (24 - bias - mantissa))
        small = word(Ops.SUB, self.same_bits(total, single, whole), 127 + 24 - bias - mantissa << 23)
        magnitude = word(Ops.WHERE, word(Ops.CMPLT, size, 127 + 1 - bias << 23), small, normal)
        magnitude = word(Ops.MIN, magnitude, largest)
        is_nan = self.let(f"fcmp uno {llvm_type(single)} {value}, {value}")
        magnitude = word(Ops.WHERE, is_nan, 0x7F, magnitude)
        byte = vector_of("i8", target.lanes)
        return self.let(f"trunc {llvm_type(whole)} {word(Ops.OR, magnitude, sign)} to {byte}", into)

    def to_odd_single(self, value: str, source: DType) -> str:
        """float64 to float32 such that rounding on to fewer bits is rounding once."""
        single = dtypes.float32.vec(source.lanes)
        a, b = llvm_type(source), llvm_type(single)
        nearest = self.let(f"fptrunc {a} {value} to {b}")
        back = self.let(f"fpext {b} {nearest} to {a}")
        lost = self.let(f"fcmp one {a} {back}, {value}")
        sizes = [self.alu(Ops.ABS, source, [x]) for x in (back, value)]
        beyond = self.let(f"fcmp ogt {a} {sizes[0]}, {sizes[1]}")
        return self.make_odd(nearest, single, lost, beyond)

    def round_single(self, value: str, target: DType, into: str | None) -> str:
        """float32 to a narrow float."""
        lanes = target.lanes
        single, whole, half = dtypes.float32.vec(lanes), dtypes.uint32.vec(lanes), dtypes.uint16.vec(lanes)
        if target.scalar is dtypes.float16:
            kind = vector_of("half", lanes)
            return self.let(
                f"bitcast {kind} {self.let(f'fptrunc {llvm_type(single)} {value} to {kind}')} to {llvm_type(half)}",
                into,
            )
        if target.scalar in _EIGHT_BITS:
            return self.round_eight(value, target, into)
        # by hand: the machine's own conversion to bfloat16 flushes subnormals
        drop = 13 if target.scalar is dtypes.tfloat32 else 16
        bits, word = self.same_bits(value, single, whole), self.arithmetic(whole)
        high = self.let(f"lshr {llvm_type(whole)} {bits}, {constant(drop, whole)}")
        even = word(Ops.AND, high, 1)
        nudged = word(Ops.ADD, word(Ops.ADD, bits, (1 << drop - 1) - 1), even)
        rounded = self.let(f"lshr {llvm_type(whole)} {nudged}, {constant(drop, whole)}")
        quiet = word(Ops.OR, high, 1 << 22 - drop)
        is_nan = self.let(f"fcmp uno {llvm_type(single)} {value}, {value}")
        chosen = word(Ops.WHERE, is_nan, quiet, rounded)
        if target.scalar is dtypes.tfloat32:
            return self.let(f"shl {llvm_type(whole)} {chosen}, {constant(drop, whole)}", into)
        return self.let(f"trunc {llvm_type(whole)} {chosen} to {llvm_type(half)}", into)

    def convert_integer(self, value: str, source: DType, target: DType, into: str | None) -> str:
        word = "sitofp" if source.is_signed else "uitofp"
        a = llvm_type(source)
        if target.scalar not in _NARROW:
            return self.let(f"{word} {a} {value} to {llvm_type(target)}", into)
        if source.bits <= 16:
            single = dtypes.float32.vec(source.lanes)
            return self.round_single(self.let(f"{word} {a} {value} to {llvm_type(single)}"), target, into)
        double = dtypes.float64.vec(source.lanes)
        exact = self.let(f"{word} {a} {value} to {llvm_type(double)}")
        if source.bits == 64:
            # large ones lose their last bits here: those go into one that says whether there were any
            low = self.alu(Ops.AND, source, [value, constant(0xFFF, source)])
            some = self.let(f"icmp ne {a} {low}, {constant(0, source)}")
            mark = self.let(f"zext {vector_of('i1', source.lanes)} {some} to {a}")
            shifted = self.let(
                f"{'ashr' if source.is_signed else 'lshr'} {a} {value}, {constant(12, source)}"
            )
            odd = self.let(f"{word} {a} {self.alu(Ops.OR, source, [shifted, mark])} to {llvm_type(double)}")
            scaled = self.alu(Ops.MUL, double, [odd, constant(4096.0, double)])
            bound = constant(float(1 << 52), double)
            small = self.let(f"fcmp olt {llvm_type(double)} {self.alu(Ops.ABS, double, [exact])}, {bound}")
            exact = self.alu(Ops.WHERE, double, [small, exact, scaled])
        return self.convert_value(exact, double, target, into)


def _has_range(dtype: DType, x: Sequence[str]) -> bool:
    """Whether values, none of them a constant, are what `vrangeps` takes, or the beginning of it."""
    is_float = dtype.is_float and dtype.bits * dtype.lanes in {32, 64, 128, 256, 512}
    return is_float and all(value.startswith("%") for value in x)


def _is_harmless(divisor: str) -> bool:
    """Whether a divisor, as written, is a constant other than 0 and -1."""
    words = divisor.removesuffix(")").split()
    number = words[-1] if not divisor.startswith("<") else ""
    return number.lstrip("-").isdigit() and number not in {"0", "-1"}


_OWN: Final[dict[Ops, Callable[[LlvmValues, Ops, DType, Sequence[str], str | None], str]]] = {
    Ops.MULACC: LlvmValues.fused,
    Ops.SHL: LlvmValues.shift,
    Ops.SHR: LlvmValues.shift,
    Ops.TRUNCDIV: LlvmValues.divide,
    Ops.TRUNCMOD: LlvmValues.divide,
}
"""Integer ops that take more than an instruction."""
