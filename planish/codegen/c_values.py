"""CValues in C: types, helper functions, operands and lanes as text, and the statements that compute, convert and rearrange.

Vectors are vector types where C has the operation; else a loop over the lanes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from planish import dtypes
from planish.codegen import amx, amx_text, dot_products, symbols
from planish.codegen.c_helpers import GENERIC, NEEDS, SINGLE
from planish.codegen.c_table import (
    MATH,
    NARROW,
    is_narrow,
    lanes_in_c,
    literal,
    memory_type,
    scalar_type,
    stem,
    template_of,
    unused_bits,
    vector_template_of,
    wrap_type,
)
from planish.codegen.questions import one_thread
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.llir import program as ir

_INTEGER_HELPERS: Final = {
    ir.Ops.SHL: "shl", ir.Ops.SHR: "shr", ir.Ops.TRUNCDIV: "div", ir.Ops.TRUNCMOD: "mod", ir.Ops.ABS: "abs", ir.Ops.POPCOUNT: "popcount",
    ir.Ops.CLZ: "clz",
}  # fmt: skip
_BY_SIGN: Final = frozenset({ir.Ops.SHR, ir.Ops.TRUNCDIV, ir.Ops.TRUNCMOD})
"""Ops with a helper of their own for unsigned integers."""


def is_wide(dtype: DType) -> bool:
    """Whether it has lanes."""
    return dtype.lanes > 1


def _is_whole(dtype: DType) -> bool:
    """Whether it is as many floats as the widest register holds."""
    return dtype.is_float and dtype.bits >= 32 and dtype.bits * dtype.lanes == 512


_MOST_SHUFFLED: Final = 128
"""Lanes of a vector that compilers are asked to shuffle as one; of longer ones, some do not survive it (GCC 12)."""


class CValues:
    """Writes statements, and keeps the types and helper functions that they need."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.depth = 1
        self.functions: Container[tuple[ir.Ops, DType]] = ()
        """What is called: whoever writes the kernel writes these too."""

    # -- words -----------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def type(self, dtype: DType) -> str:
        """The type of a register."""
        if dtype.is_pointer:
            return (
                "u64x" + self.vector("u64", "uint64_t", 8, dtype.lanes)
                if is_wide(dtype)
                else self.pointer(dtype)
            )
        if not is_wide(dtype):
            return scalar_type(dtype)
        lane = "int8_t" if dtype.is_bool else scalar_type(dtype)
        return stem(dtype) + "x" + self.vector(stem(dtype), lane, max(dtype.itemsize, 1), dtype.lanes)

    def vector(self, word: str, lane: str, size: int, lanes: int) -> str:
        """Declares a vector type, and the same type wherever its elements may lie in memory."""
        count = lanes_in_c(lanes)
        name = f"{word}x{count}"
        self.types[name] = (
            f"typedef {lane} {name} __attribute__((vector_size({count * size})));\n"
            f"typedef {lane} {name}_at __attribute__((vector_size({count * size}), aligned({size}), may_alias));"
        )
        return str(count)

    def integers_like(self, dtype: DType) -> str:
        """The vector type of integers as wide as the lanes of another."""
        return self.type(
            {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}[max(dtype.bits, 8)].vec(
                dtype.lanes
            )
        )

    def unsigned_like(self, dtype: DType) -> str:
        return self.type(
            {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits].vec(
                dtype.lanes
            )
        )

    @staticmethod
    def pointer(dtype: DType) -> str:
        base = getattr(dtype.scalar, "base", dtype.scalar)
        return f"{memory_type(base)} *"

    def helper(self, name: str) -> str:
        for needed in NEEDS.get(name, ()):
            self.helper(needed)
        self.helpers[name] = SINGLE[name]
        return name

    def helper_for(self, kind: str, dtype: DType) -> str:
        """A helper function for values of a dtype."""
        scalar = dtype.scalar
        name = f"{kind}_{scalar.short}"
        if name not in self.helpers:
            words: dict[str, object] = {"t": scalar_type(scalar), "s": scalar.short, "bits": scalar.bits}
            if scalar.is_float:
                lanes = 512 // scalar.bits
                wide = self.type(scalar.vec(lanes)), self.integers_like(scalar.vec(lanes))
                words |= {"f": "f" if scalar.bits == 32 else "", "p": "s" if scalar.bits == 32 else "d"}
                words |= {"v": wide[0], "w": wide[1], "lanes": lanes}
            if scalar.is_int:
                low, high = int(scalar.min or 0), int(scalar.max or 0)
                words |= {
                    "u": wrap_type(scalar), "mask": f"{(1 << scalar.bits) - 1:#x}u", "low": float(low).hex(),
                    "high": float(high + 1).hex(), "least": literal(low, scalar), "most": literal(high, scalar),
                }  # fmt: skip
            self.helpers[name] = GENERIC[kind].format(**words)
        return name

    def value(self, operand: ir.Operand) -> str:
        if isinstance(operand, ir.Register):
            return f"r{operand.number}"
        dtype = operand.dtype
        if not is_wide(dtype):
            return (
                literal(operand.value, dtype)
                if not isinstance(operand.value, tuple)
                else literal(operand.value[0], dtype)
            )
        return f"({self.type(dtype)}){{{', '.join(self.constants(operand))}}}"

    def constants(self, operand: ir.Immediate) -> list[str]:
        values = operand.value if isinstance(operand.value, tuple) else (operand.value,) * operand.dtype.lanes
        lanes = [literal(v, operand.dtype) for v in values]
        return [("-1" if lane == "1" else "0") for lane in lanes] if operand.dtype.is_bool else lanes

    def lane(self, operand: ir.Operand, lane: str) -> str:
        """One lane of an operand, in its scalar form."""
        if not is_wide(operand.dtype):
            return self.value(operand)
        if isinstance(operand, ir.Immediate) and not isinstance(operand.value, tuple):
            return literal(operand.value, operand.dtype)
        text = f"{self.value(operand)}[{lane}]"
        return f"({text} != 0)" if operand.dtype.is_bool else text

    def loaded(self, text: str, dtype: DType) -> str:
        """A lane in memory, as its scalar form in a register."""
        if dtype.is_bool:
            return f"({text} != 0)"
        if dtype.is_int and dtype.bits < 8:
            return f"{self.helper(f'wrap_{dtype.scalar.short}')}({text})"
        return text

    def let(self, register: ir.Register, text: str) -> None:
        self.emit(f"{self.type(register.dtype)} r{register.number} = {text};")

    def each_lane(self, register: ir.Register, text: str) -> None:
        """The lanes of a register, one by one; `text` says what lane `l` is, in its scalar form."""
        dtype = register.dtype
        self.emit(f"{self.type(dtype)} r{register.number} = {{0}};")
        stored = f"-({text})" if dtype.is_bool else text
        self.emit(f"for (int l = 0; l < {dtype.lanes}; l++) r{register.number}[l] = {stored};")

    # -- values ----------------------------------------------------------------------------------------------------

    def compute(self, i: ir.Compute) -> None:
        dtype = i.inputs[0].dtype if i.op in ir.COMPARISONS else i.result.dtype
        if (i.op, dtype) in self.functions:
            self.let(i.result, f"{symbols.function(i.op, dtype)}({', '.join(map(self.value, i.inputs))})")
            return
        if not is_wide(i.result.dtype):
            self.let(i.result, self.scalar(i.op, dtype, [self.value(x) for x in i.inputs]))
        elif i.op is ir.Ops.WHERE:
            self.let(i.result, self.where(dtype, [*i.inputs]))
        elif i.op in ir.COMPARISONS and not (is_narrow(dtype) or dtype.is_bool):
            template = template_of(i.op, dtype)
            text = (template or "").format(*map(self.value, i.inputs))
            self.let(i.result, f"__builtin_convertvector{text[:-1]}, {self.type(i.result.dtype)})")
        elif i.op is ir.Ops.SCALE and _is_whole(dtype):
            self.helper_for("scale", dtype)
            operands = ", ".join(map(self.value, i.inputs))
            self.let(i.result, f"{self.helper_for('scale_whole', dtype)}({operands})")
        else:
            template = vector_template_of(i.op, dtype)
            if template is None:
                self.each_lane(i.result, self.scalar(i.op, dtype, [self.lane(x, "l") for x in i.inputs]))
            else:
                unsigned = self.unsigned_like(dtype) if dtype.is_int else ""
                text = template.format(*map(self.value, i.inputs), t=self.type(dtype), u=unsigned)
                self.let(i.result, f"({self.type(dtype)}){text}" if dtype.is_bool else text)

    def where(self, dtype: DType, inputs: list[ir.Operand]) -> str:
        """A choice by the bits of a mask as wide as the values."""
        condition, x, y = inputs
        if not is_wide(condition.dtype):
            return f"{self.value(condition)} ? {self.value(x)} : {self.value(y)}"
        if dtype.is_bool:
            mask, a, b = (self.value(v) for v in inputs)
            return f"({mask} & {a}) | (~{mask} & {b})"
        whole = self.integers_like(dtype)
        mask = f"__builtin_convertvector({self.value(condition)}, {whole})"
        return f"({self.type(dtype)})((({whole}){self.value(x)} & {mask}) | (({whole}){self.value(y)} & ~{mask}))"

    def scalar(self, op: ir.Ops, dtype: DType, x: Sequence[str]) -> str:
        """An op on one lane."""
        dtype = dtype.scalar
        if op is ir.Ops.WHERE:
            return f"({x[0]} ? {x[1]} : {x[2]})"
        if is_narrow(dtype):
            return self.narrow_scalar(op, dtype, x)
        if op in {ir.Ops.MAX, ir.Ops.MIN, ir.Ops.SCALE} and dtype.is_float:
            return f"{self.helper_for(op.name.lower(), dtype)}({', '.join(x)})"
        special = _INTEGER_HELPERS.get(op)
        if special is not None and dtype.is_int:
            if op is ir.Ops.ABS and not dtype.is_signed:
                return x[0]
            kind = special if dtype.is_signed or op not in _BY_SIGN else "u" + special
            return self.wrapped(f"{self.helper_for(kind, dtype)}({', '.join(x)})", dtype)
        template = template_of(op, dtype)
        if template is not None:
            wide = wrap_type(dtype) if dtype.is_int else ""
            text = template.format(*x, t=scalar_type(dtype), u=wide)
            return text if op in ir.COMPARISONS else self.wrapped(text, dtype)
        function = MATH.get(op)
        if function is None or not dtype.is_float:
            raise LoweringError(f"{op.name} on {dtype} has no C form", op=op.name)
        return f"{function}{'f' if dtype.bits == 32 else ''}({', '.join(x)})"

    def wrapped(self, text: str, dtype: DType) -> str:
        return f"{self.helper(f'wrap_{dtype.short}')}({text})" if dtype.is_int and dtype.bits < 8 else text

    def narrow_scalar(self, op: ir.Ops, dtype: DType, x: Sequence[str]) -> str:
        """Computed in float32 and rounded once."""
        single = dtypes.float32
        wide = [self.cast_text(v, dtype, single) for v in x]
        if op in ir.COMPARISONS:
            return self.scalar(op, single, wide)
        if op is ir.Ops.MULACC:
            return self.cast_text(f"{self.helper('odd_fma')}({', '.join(wide)})", dtypes.float64, dtype)
        return self.cast_text(self.scalar(op, single, wide), single, dtype)

    def cast_text(self, text: str, source: DType, target: DType) -> str:
        """One lane, converted."""
        source, target = source.scalar, target.scalar
        if source is target:
            return text
        if is_narrow(source):
            mantissa, exponent, infinite = NARROW[source.short]
            below = unused_bits(source)
            text = f"{text} >> {below}" if below else text
            single = f"{self.helper('widen')}({text}, {mantissa}, {exponent}, {infinite})"
            return self.cast_text(single, dtypes.float32, target) if target is not dtypes.float32 else single
        if target.is_bool:
            return f"({text} != 0)"
        if is_narrow(target):
            mantissa, exponent, infinite = NARROW[target.short]
            if source.is_int and source.bits == 64:
                text = f"{self.helper('odd_' + source.short)}({text})"
            word = f"{self.helper('narrow')}({text}, {mantissa}, {exponent}, {infinite})"
            below = unused_bits(target)
            return f"({scalar_type(target)}){f'({word} << {below})' if below else word}"
        if source.is_float and target.is_int:
            return f"{self.helper_for('round_to', target)}({text})"
        return self.wrapped(f"({scalar_type(target)}){text}", target)

    def cast(self, i: ir.Convert) -> None:
        source, target = i.operand.dtype, i.result.dtype
        if not is_wide(target):
            self.let(i.result, self.cast_text(self.value(i.operand), source, target))
        elif (
            self.converts_whole(source)
            and self.converts_whole(target)
            and not (source.is_float and target.is_int)
        ):
            self.let(i.result, f"__builtin_convertvector({self.value(i.operand)}, {self.type(target)})")
        else:
            self.each_lane(i.result, self.cast_text(self.lane(i.operand, "l"), source, target))

    @staticmethod
    def converts_whole(dtype: DType) -> bool:
        return not (dtype.is_bool or is_narrow(dtype) or dtype.bits < 8)

    def bitcast(self, i: ir.Bitcast) -> None:
        source, target = i.operand.dtype, i.result.dtype
        number, size = i.result.number, target.bits * target.lanes // 8
        if source.is_bool or target.is_bool:
            if source is not target:
                raise LoweringError(f"the bits of {source} as {target} have no C form", op="BITCAST")
            self.let(i.result, self.value(i.operand))
            return
        given = self.value(i.operand)
        if source.bits < 8:  # two lanes to a byte
            self.emit(f"uint8_t packed{number}[{size}] = {{0}};")
            lane = self.lane(i.operand, "l")
            self.emit(
                f"for (int l = 0; l < {source.lanes}; l++) packed{number}[l / 2] |= (uint8_t)(({lane} & 15) << l % 2 * 4);"
            )
            given = f"packed{number}"
        elif isinstance(i.operand, ir.Immediate) and not is_wide(source):
            given = f"({self.type(source)}){{{given}}}"
        if target.bits < 8:
            self.emit(f"uint8_t parts{number}[{size}];")
            self.emit(f"memcpy(parts{number}, &{given}, {size});")
            part = f"{self.helper(f'wrap_{target.scalar.short}')}(parts{number}[{{0}} / 2] >> {{0}} % 2 * 4)"
            if is_wide(target):
                self.each_lane(i.result, part.format("l"))
            else:
                self.let(i.result, part.format(0))
            return
        self.emit(f"{self.type(target)} r{number}{' = {0}' if is_wide(target) else ''};")
        self.emit(f"memcpy(&r{number}, &{given}, {size});")

    def lanes(self, i: ir.SelectLanes) -> None:
        operand, dtype = i.operand, i.result.dtype
        if not is_wide(dtype):
            self.let(i.result, self.lane(operand, str(i.lanes[0])))
        elif not is_wide(operand.dtype):
            self.spread(i.result, [operand] * dtype.lanes)
        elif operand.dtype.lanes > _MOST_SHUFFLED and isinstance(operand, ir.Register):
            self.emit(f"{self.type(dtype)} r{i.result.number};")
            for lane, source in enumerate(i.lanes):
                self.emit(f"r{i.result.number}[{lane}] = {self.value(operand)}[{source}];")
        elif lanes_in_c(operand.dtype.lanes) == lanes_in_c(dtype.lanes) or isinstance(operand, ir.Register):
            order = [*map(str, i.lanes), *["-1"] * (lanes_in_c(dtype.lanes) - dtype.lanes)]
            given = self.value(operand)
            self.let(i.result, f"__builtin_shufflevector({given}, {given}, {', '.join(order)})")
        else:
            self.each_item(i.result, [self.raw_lane(operand, lane) for lane in i.lanes])

    def raw_lane(self, operand: ir.Operand, lane: int) -> str:
        """A lane as it is in a vector: bools as masks."""
        if isinstance(operand, ir.Immediate) and is_wide(operand.dtype):
            return self.constants(operand)[lane]
        if is_wide(operand.dtype):
            return f"{self.value(operand)}[{lane}]"
        return f"-{self.value(operand)}" if operand.dtype.is_bool else self.value(operand)

    def each_item(self, register: ir.Register, items: Sequence[str]) -> None:
        self.let(register, f"{{{', '.join(items)}}}")

    def spread(self, register: ir.Register, inputs: Sequence[ir.Operand]) -> None:
        self.each_item(register, [self.raw_lane(x, lane) for x in inputs for lane in range(x.dtype.lanes)])

    def build(self, i: ir.Build) -> None:
        self.spread(i.result, i.inputs)

    def concat(self, i: ir.Concat) -> None:
        sizes = {x.dtype.lanes for x in i.inputs}
        whole = (
            len(i.inputs) == 2 and len(sizes) == 1 and max(sizes) > 1 and lanes_in_c(max(sizes)) == max(sizes)
        )
        if whole:
            a, b = map(self.value, i.inputs)
            order = ", ".join(map(str, range(2 * max(sizes))))
            self.let(i.result, f"__builtin_shufflevector({a}, {b}, {order})")
        else:
            self.spread(i.result, i.inputs)

    def lookup(self, i: ir.Lookup) -> None:
        table, index, last = i.table.dtype, i.index.dtype, i.table.dtype.lanes - 1
        if _is_whole(table) and (index.lanes, index.bits) == (table.lanes, table.bits) and index.is_signed:
            name = self.helper_for("lookup_whole", table)
            self.let(i.result, f"{name}({self.value(i.table)}, {self.value(i.index)})")
        elif not is_wide(i.result.dtype):
            self.let(i.result, self.lane(i.table, f"({self.value(i.index)} & {last})"))
        else:
            self.each_lane(i.result, self.lane(i.table, f"({self.lane(i.index, 'l')} & {last})"))

    def any(self, i: ir.AnyLane) -> None:
        if not is_wide(i.operand.dtype):
            self.let(i.result, self.value(i.operand))
            return
        self.emit(f"bool r{i.result.number} = 0;")
        lanes = i.operand.dtype.lanes
        self.emit(f"for (int l = 0; l < {lanes}; l++) r{i.result.number} |= {self.lane(i.operand, 'l')};")

    def tile_steps(self, steps: Iterable[amx.TileStep]) -> None:
        for step in steps:
            kind, value = (
                ("", "") if step.value is None else (self.type(step.value.dtype), self.value(step.value))
            )
            for line in amx_text.c_step(step, kind, value):
                self.emit(line)

    def tile(self, i: ir.Tile) -> None:
        tile, wide = i.tile, i.c.dtype.scalar
        one_thread(i)
        lane = {m: {int(place): n for n, place in enumerate(tile.places(m)[0])} for m in "abc"}
        kind, number = scalar_type(wide), i.result.number
        self.emit(f"{self.type(i.result.dtype)} r{number} = {self.value(i.c)};")
        if products := dot_products.kind_of(i):
            # (of halves the odd one is added first, and nothing is subnormal)
            clean = self.helper("flushed") if products == "halves" else ""
            text = f"{clean}(r{number}[l])" if clean else f"r{number}[l]"
            for k in reversed(range(tile.k)) if clean else range(tile.k):
                a = self.cast_text(self.lane(i.a, str(k)), i.a.dtype, wide)
                b = self.cast_text(self.lane(i.b, f"l * {tile.k} + {k}"), i.b.dtype, wide)
                factors = [f"{clean}({x})" if clean else x for x in (a, b)]
                text = self.scalar(ir.Ops.MULACC, wide, [*factors, text])
                text = f"{clean}({text})" if clean else text
            self.emit(f"for (int l = 0; l < {tile.n}; l++) r{number}[l] = ({kind}){text};")
            return
        # the rows and columns of the matrices by lane; the loops are the definition
        for m in range(tile.m):
            for n in range(tile.n):
                at = lane["c"][m * tile.n + n]
                total = f"r{number}[{at}]" if is_wide(i.result.dtype) else f"r{number}"
                text = total
                for k in range(tile.k):
                    a = self.cast_text(self.lane(i.a, str(lane["a"][m * tile.k + k])), i.a.dtype, wide)
                    b = self.cast_text(self.lane(i.b, str(lane["b"][k * tile.n + n])), i.b.dtype, wide)
                    text = self.scalar(ir.Ops.MULACC, wide, [a, b, text])
                self.emit(f"{total} = ({kind}){text};")

    # -- control, the same in C and in CUDA C++ --------------------------------------------------------------------

    def open_loop(self, i: ir.Loop) -> None:
        name, kind = f"r{i.counter.number}", scalar_type(i.counter.dtype)
        self.emit(f"for ({kind} {name} = 0; {name} < {self.value(i.bound)}; {name}++) {{")
        self.depth += 1

    def end(self, i: ir.EndLoop | ir.EndIf) -> None:
        self.depth -= 1
        self.emit("}")

    endif = end

    def if_(self, i: ir.If) -> None:
        self.emit(f"if ({self.value(i.condition)}) {{")
        self.depth += 1
