"""Values in CUDA C++: a thread works on scalars, so the lanes of a vector are values of their own; 16-bit floats may go in pairs.

Threads of a warp combine their values here, too: shuffles are values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planish import dtypes
from planish.codegen import cuda_bytes, cuda_helpers, cuda_pairs, symbols
from planish.codegen.c_table import is_narrow, literal, scalar_type
from planish.codegen.c_values import CValues
from planish.dtypes import DType
from planish.llir import program as ir
from planish.llir.program import COMPARISONS, ESTIMATES, Immediate, Operand, OpFunction, Ops, Register

_NANS: Final = {
    'nanf("")': "__int_as_float(0x7fc00000)",
    'nan("")': "__longlong_as_double(0x7ff8000000000000)",
}


class CudaValues(CValues):
    """What is computed of registers."""

    def __init__(self, functions: Sequence[OpFunction]) -> None:
        super().__init__()
        self.functions = {(each.op, each.dtype) for each in functions}
        self.split: dict[Register, tuple[str, ...]] = {}
        """The lanes of vectors, each a text."""
        self.narrowed: dict[str, str] = {}
        """What 16-bit floats were rounded from."""
        self.bytes: dict[str, cuda_bytes.Byte] = {}
        """Where bytes are that were loaded by words."""
        self.above: dict[str, cuda_bytes.Above] = {}
        """Words of two floats: where they are known to be too large, and by what."""
        self.small: dict[str, tuple[str, int]] = {}
        """Words of two floats that are known as others times a power of two."""
        self.halves: dict[str, tuple[str, str]] = {}
        """Which half of which word a 16-bit float is."""
        self.uses_vectors = self.uses_bits = self.uses_shuffles = self.uses_words = self.uses_bytes = False

    # -- words -----------------------------------------------------------------------------------------------------

    def type(self, dtype: DType) -> str:
        return self.pointer(dtype) if dtype.is_pointer else scalar_type(dtype)

    def helper(self, name: str) -> str:
        if name in cuda_helpers.SINGLE:
            self.helpers[name] = cuda_helpers.SINGLE[name]
            return name
        return super().helper(name)

    def helper_for(self, kind: str, dtype: DType) -> str:
        scalar = dtype.scalar
        name = f"{kind}_{scalar.short}"
        if name in cuda_helpers.SINGLE:
            return self.helper(name)
        if kind in cuda_helpers.OVERRIDES:
            words = {
                "t": scalar_type(scalar),
                "s": scalar.short,
                "bits": scalar.bits,
                "mask": f"{(1 << scalar.bits) - 1:#x}u",
            }
            self.helpers[name] = cuda_helpers.OVERRIDES[kind].format(**words)
            return name
        return super().helper_for(kind, dtype)

    def constant(self, value: Any, dtype: DType) -> str:
        text = literal(value, dtype)
        return _NANS.get(text, text)

    def lane_of(self, operand: Operand, lane: int) -> str:
        """One lane of an operand."""
        if isinstance(operand, Immediate):
            value = operand.value
            return self.constant(value[lane] if isinstance(value, tuple) else value, operand.dtype)
        if operand.dtype.lanes == 1:
            return f"r{operand.number}"
        return self.split[operand][lane]

    def value(self, operand: Operand) -> str:
        return self.lane_of(operand, 0)

    def lanes_of(self, operand: Operand) -> list[str]:
        return [self.lane_of(operand, lane) for lane in range(operand.dtype.lanes)]

    def define(self, register: Register, texts: Sequence[str]) -> None:
        """A register, or the lanes of one, as values of their own."""
        if register.dtype.lanes == 1:
            self.let(register, texts[0])
            return
        names = tuple(f"r{register.number}_{lane}" for lane in range(register.dtype.lanes))
        kind = self.pointer(register.dtype) if register.dtype.is_pointer else scalar_type(register.dtype)
        for name, text in zip(names, texts, strict=True):
            self.emit(f"{kind} {name} = {text};")
        self.split[register] = names

    def same(self, register: Register, texts: Sequence[str]) -> None:
        """A register whose lanes are there already."""
        if register.dtype.lanes == 1:
            self.let(register, texts[0])
            name, text = f"r{register.number}", texts[0]
            if text in self.bytes:
                self.bytes[name] = self.bytes[text]
            if text in self.halves:
                self.halves[name] = self.halves[text]
        else:
            self.split[register] = tuple(texts)

    # -- values ----------------------------------------------------------------------------------------------------

    def compute(self, i: ir.Compute) -> None:
        dtype = i.inputs[0].dtype if i.op in COMPARISONS else i.result.dtype
        count = i.result.dtype.lanes
        inputs = [[self.lane_of(x, k if x.dtype.lanes > 1 else 0) for x in i.inputs] for k in range(count)]
        if (i.op, dtype) in self.functions:
            name = symbols.function(i.op, dtype)
            self.define(i.result, [f"{name}({', '.join(lane)})" for lane in inputs])
            return
        function = cuda_pairs.function_of(i.op, dtype) if count == 2 else None
        if function is not None:
            words = [self.words_of(x)[0] for x in i.inputs]
            above = self.less(i, words[0])
            if above is not None:
                self.settle(i.result, above)
                return
            if i.op is Ops.MUL:
                words = self.shared_out(words, dtype)
            self.pair(i.result, f"{self.pair_helper(function)}({', '.join(words)})")
            return
        texts = [self.scalar(i.op, dtype, lane) for lane in inputs]
        if dtype.scalar is dtypes.float32:
            for k, (first, *_) in enumerate(inputs):
                above = self.less(i, first, k)
                texts[k] = texts[k] if above is None else self.lowered(above, dtype)
        self.define(i.result, texts)
        if count == 1 and dtype is dtypes.uint8 and inputs[0][0] in self.bytes:
            last = i.inputs[-1]
            by = last.value if isinstance(last, Immediate) and isinstance(last.value, int) else -1
            bits = cuda_bytes.bits_of(i.op, self.bytes[inputs[0][0]], by)
            if bits is not None:
                self.bytes[f"r{i.result.number}"] = bits

    def less(self, i: ir.Compute, word: str, lane: int | None = None) -> cuda_bytes.Above | None:
        """What is left of floats that are known to be too large, if a whole number is added to or taken from them."""
        above, last = self.above.get(word), i.inputs[-1]
        if above is None or i.op not in {Ops.ADD, Ops.SUB} or not isinstance(last, Immediate):
            return None
        given = last.value if isinstance(last.value, tuple) else (last.value,)
        values = set(given if lane is None or len(given) == 1 else given[lane : lane + 1])
        number = values.pop()
        if values or not isinstance(number, int | float) or number != number // 1:
            return None
        left = above.less(int(number) if i.op is Ops.SUB else -int(number))
        return left if all(cuda_bytes.holds(by, i.result.dtype) for by in left.by) else None

    def lowered(self, above: cuda_bytes.Above, dtype: DType) -> str:
        """Floats that are known to be too large, as they should be, but for what is left of a power of two."""
        scalar, left = dtype.scalar, above.left
        if scalar is dtypes.float32:
            return f"({above.word} - {self.constant(float(above.by[0]), scalar)})"

        def pair(values: Sequence[float]) -> str:
            return f"pack2({', '.join(self.constant(value, scalar) for value in values)})"

        if any(above.powers):
            factors = pair([2.0 ** (power - left) for power in above.powers])
            taken = pair([-by / (1 << left) for by in above.by])
            return f"{self.pair_helper(f'fma2_{scalar.short}')}({above.word}, {factors}, {taken})"
        if not any(above.by):
            return above.word
        taken = pair([float(by) for by in above.by])
        return f"{self.pair_helper(f'sub2_{scalar.short}')}({above.word}, {taken})"

    def settle(self, register: Register, above: cuda_bytes.Above) -> None:
        """A register of two floats that are known to be too large, as they should be; the power of two that is left is told for products."""
        dtype, text, name = register.dtype, self.lowered(above, register.dtype), f"r{register.number}"
        if above.left:
            self.emit(f"uint32_t {name}_small = {text};")
            self.small[name] = f"{name}_small", above.left
            text = self.times(f"{name}_small", above.left, dtype)
        self.pair(register, text)

    def times(self, word: str, power: int, dtype: DType) -> str:
        """Two floats, times a power of two."""
        factor = self.constant(float(1 << power), dtype.scalar)
        return f"{self.pair_helper(f'mul2_{dtype.scalar.short}')}({word}, pack2({factor}, {factor}))"

    def shared_out(self, words: Sequence[str], dtype: DType) -> list[str]:
        """The factors of a product, with a power of two that one of them lacks given to the other, which many have in common."""
        first, second = words
        for word, other in ((first, second), (second, first)):
            if word in self.small and other not in self.small:
                small, power = self.small[word]
                return [small, self.times(other, power, dtype)]
        return [first, second]

    def pair(self, register: Register, text: str) -> None:
        """A register of two halves."""
        self.uses_words = True
        name = f"r{register.number}"
        self.emit(f"uint32_t {name} = {text};")
        self.split[register] = self.halves_of(name)

    def halves_of(self, word: str) -> tuple[str, str]:
        """The two halves of a word, which are known as such from now on."""
        low, high = cuda_pairs.halves(word)
        self.halves[low], self.halves[high] = (word, "low"), (word, "high")
        return low, high

    def words_of(self, operand: Operand) -> list[str]:
        """The lanes of 16-bit floats two by two; those that were just narrowed, together."""
        lanes, words = self.lanes_of(operand), []
        for low, high in zip(lanes[::2], lanes[1::2], strict=True):
            wide = [self.narrowed.get(lane) for lane in (low, high)]
            if None in wide:
                words.append(cuda_pairs.word_of(low, high, self.halves))
            else:
                helper = self.pair_helper(f"narrow2_{operand.dtype.scalar.short}")
                words.append(f"{helper}({wide[0]}, {wide[1]})")
        return words

    def pair_helper(self, name: str) -> str:
        *needed, text = cuda_pairs.PAIRS[name]
        for each in needed:
            self.pair_helper(each)
        self.helpers.setdefault(name, text)
        return name

    def scalar(self, op: Ops, dtype: DType, x: Sequence[str]) -> str:
        if op in ESTIMATES:
            return f"{self.helper(f'{op.name.lower()}_{dtype.scalar.short}')}({', '.join(x)})"
        return super().scalar(op, dtype, x)

    def narrow_scalar(self, op: Ops, dtype: DType, x: Sequence[str]) -> str:
        if op is Ops.MULACC and f"fma_{dtype.short}" in cuda_helpers.SINGLE:
            return f"{self.helper(f'fma_{dtype.short}')}({', '.join(x)})"
        return super().narrow_scalar(op, dtype, x)

    def cast_text(self, text: str, source: DType, target: DType) -> str:
        source, target = source.scalar, target.scalar
        single = dtypes.float32
        if source is dtypes.float16 and target is single and text in self.halves:
            word, half = self.halves[text]
            return f"{self.helper(f'widen_{half}_f16')}({word})"
        if is_narrow(source) and source is not target and f"widen_{source.short}" in cuda_helpers.SINGLE:
            wide = f"{self.helper(f'widen_{source.short}')}({text})"
            return wide if target is single else self.cast_text(wide, single, target)
        exact = source is single or source.is_bool or (source.is_int and source.bits <= 16)
        if is_narrow(target) and exact and f"narrow_{target.short}" in cuda_helpers.SINGLE:
            return f"{self.helper(f'narrow_{target.short}')}({text})"
        if source is single and f"to_{target.short}_f32" in cuda_helpers.SINGLE:
            return f"{self.helper(f'to_{target.short}_f32')}({text})"
        return super().cast_text(text, source, target)

    def cast(self, i: ir.Convert) -> None:
        source, target = i.operand.dtype, i.result.dtype
        if target.lanes == 2 and source.scalar is dtypes.float32 and cuda_pairs.is_half(target):
            low, high = self.lanes_of(i.operand)
            self.pair(i.result, f"{self.pair_helper(f'narrow2_{target.scalar.short}')}({low}, {high})")
            return
        if target.lanes == 2 and source.bits == 8 and source.is_int and cuda_pairs.is_half(target):
            low, high = self.lanes_of(i.operand)
            above = cuda_bytes.halves_of_bytes(low, high, source, target, self.bytes)
            self.pair_helper(f"sub2_{target.scalar.short}")
            word = f"r{i.result.number}_above"
            self.emit(f"uint32_t {word} = {above.word};")
            self.above[f"r{i.result.number}"] = above._replace(word=word)
            self.settle(i.result, above._replace(word=word))
            return
        if source.bits == 8 and source.is_int and target.scalar is dtypes.float32:
            self.floats_of_bytes(i)
            return
        if target.lanes == 1 and source is dtypes.float32 and cuda_pairs.is_half(target):
            self.narrowed[f"r{i.result.number}"] = self.value(i.operand)
        self.define(i.result, [self.cast_text(x, source, target) for x in self.lanes_of(i.operand)])

    def floats_of_bytes(self, i: ir.Convert) -> None:
        """Those that lie in words by moving bits; they are known to be too large as long as somebody may want them so."""
        source, target, number = i.operand.dtype, i.result.dtype, i.result.number
        texts = []
        for lane, text in enumerate(self.lanes_of(i.operand)):
            byte = self.bytes.get(text)
            if byte is None:
                texts.append(self.cast_text(text, source, target))
                continue
            above = cuda_bytes.float_of_byte(byte, source)
            name = f"r{number}_{lane}" if target.lanes > 1 else f"r{number}"
            self.emit(f"float {name}_above = {above.word};")
            self.above[name] = above._replace(word=f"{name}_above")
            texts.append(self.lowered(self.above[name], target))
        self.define(i.result, texts)

    def bitcast(self, i: ir.Bitcast) -> None:
        source, target = i.operand.dtype, i.result.dtype
        given = self.lanes_of(i.operand)
        if source.bits == target.bits or source.is_bool or target.is_bool:
            if source.scalar is target.scalar or (
                is_narrow(source) and scalar_type(source) == scalar_type(target)
            ):
                self.define(i.result, given)
                return
            self.uses_bits = True
            kinds = scalar_type(target), scalar_type(source)
            self.define(i.result, [f"bits_as<{kinds[0]}>(({kinds[1]}){x})" for x in given])
            return
        if source.bits < 8 or target.bits < 8:
            self._bitcast_nibbles(i, given)
            return
        self.uses_vectors = self.uses_bits = True
        whole = f"vec<{scalar_type(source)}, {source.lanes}>{{{', '.join(given)}}}"
        kind = f"vec<{scalar_type(target)}, {target.lanes}>"
        name = f"r{i.result.number}_all"
        self.emit(f"{kind} {name} = bits_as<{kind}>({whole});")
        self.define(i.result, [f"{name}.at[{k}]" for k in range(target.lanes)])

    def _bitcast_nibbles(self, i: ir.Bitcast, given: Sequence[str]) -> None:
        """Two lanes of four bits to a byte, least significant first."""
        source, target = i.operand.dtype, i.result.dtype
        if source.bits < 8 and target.bits < 8:
            self.define(i.result, [f"{self.helper(f'wrap_{target.scalar.short}')}({x})" for x in given])
        elif source.bits < 8:
            per = target.bits // 4
            texts = []
            for k in range(target.lanes):
                parts = [
                    f"((uint64_t)({x} & 15) << {4 * n})" for n, x in enumerate(given[k * per : (k + 1) * per])
                ]
                texts.append(f"({scalar_type(target)})({' | '.join(parts)})")
            self.define(i.result, texts)
        else:
            per = source.bits // 4
            wrap = self.helper(f"wrap_{target.scalar.short}")
            self.define(
                i.result,
                [
                    f"{wrap}((int)((uint64_t){given[k // per]} >> {4 * (k % per)}))"
                    for k in range(target.lanes)
                ],
            )

    def lanes(self, i: ir.SelectLanes) -> None:
        given = self.lanes_of(i.operand)
        self.same(i.result, [given[k if len(given) > 1 else 0] for k in i.lanes])

    def build(self, i: ir.Build | ir.Concat) -> None:
        self.same(i.result, [text for x in i.inputs for text in self.lanes_of(x)])

    concat = build

    def lookup(self, i: ir.Lookup) -> None:
        kind, entries = scalar_type(i.table.dtype), self.lanes_of(i.table)
        name = f"table{i.result.number}"
        storage = "static const __constant__ " if isinstance(i.table, Immediate) else "const "
        self.emit(f"{storage}{kind} {name}[{len(entries)}] = {{{', '.join(entries)}}};")
        self.define(i.result, [f"{name}[{x} & {len(entries) - 1}]" for x in self.lanes_of(i.index)])

    def any(self, i: ir.AnyLane) -> None:
        self.let(i.result, " || ".join(self.lanes_of(i.operand)))

    # -- threads ---------------------------------------------------------------------------------------------------

    def combine(self, i: ir.CombineThreads) -> None:
        """In each step with the thread whose number differs in one bit, the highest first; or with one so many before."""
        dtype = i.result.dtype
        names = [
            f"r{i.result.number}_{k}" if dtype.lanes > 1 else f"r{i.result.number}"
            for k in range(dtype.lanes)
        ]
        for name, given in zip(names, self.lanes_of(i.operand), strict=True):
            self.emit(f"{scalar_type(dtype)} {name} = {given};")
        self.uses_shuffles |= i.before or i.width > 1
        for power in range(i.width.bit_length() - 1):
            bit = 1 << power if i.before else i.width >> power + 1
            for name in names:
                self.exchange(i, name, bit)
        if i.before:
            nothing = literal(i.nothing, dtype.scalar)
            for name in names:
                self.emit(f"{name} = from_before({name}, 1, {i.width});")
                self.emit(f"{name} = {_within(i)} ? {name} : {nothing};")
        if dtype.lanes > 1:
            self.split[i.result] = tuple(names)

    def exchange(self, i: ir.CombineThreads, name: str, away: int) -> None:
        """One step. The value of the other has a name before it is used: all threads have to ask, whatever they choose then."""
        dtype, other = i.result.dtype, f"{name}_from{away}"
        if not i.before:
            self.emit(f"{scalar_type(dtype)} {other} = from_thread({name}, {away});")
            self.emit(f"{name} = {self.scalar(i.op, dtype, [name, other])};")
            return
        self.emit(f"{scalar_type(dtype)} {other} = from_before({name}, {away}, {i.width});")
        both = self.scalar(i.op, dtype, [other, name])
        self.emit(f"{name} = {_within(i)} >= {away} ? {both} : {name};")


def _within(i: ir.CombineThreads) -> str:
    """The number of a thread among those that combine their values."""
    return f"((int)threadIdx.x & {i.width - 1})"
