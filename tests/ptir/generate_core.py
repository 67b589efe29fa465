"""The generator of random programs: decisions, the values at hand, and the instructions made of them.

Which instructions are made is the business of `generate_ops`; tests use `generate`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st

from planish import dtypes
from planish.dtypes import DType
from planish.errors import Location, PlanishError
from planish.ptir import ops
from planish.ptir.function import Function, Program, Region, Value
from planish.ptir.ops.checking import ALL
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, DimLike, TensorType, bounds
from tests.ptir.ops_testing import samples

T = TypeVar("T")

DTYPES: tuple[DType, ...] = tuple(d for d in dtypes.ALL if d in ALL)
COMMON: tuple[DType, ...] = (
    dtypes.float32,
    dtypes.float32,
    dtypes.int64,
    dtypes.bool_,
    dtypes.float64,
    dtypes.int32,
)
BOUNDED: tuple[Dim, ...] = (Dim.named("B", 1, 4), Dim.named("N", 0, 3))
MAX_DEPTH = 2
I64 = TensorType(dtypes.int64)
BOOL = TensorType(dtypes.bool_)

Maker = Callable[["Generator"], object]


class Choices(Protocol):
    """Where the generator's decisions come from."""

    def integer(self, low: int, high: int) -> int: ...


@dataclass
class Seeded:
    """Decisions from a seed."""

    rng: random.Random

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)


@dataclass
class Drawn:
    """Decisions from hypothesis, which can then shrink a program."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


class Rejected(Exception):
    """This op does not suit the values at hand; another one is tried."""


class Generator:
    """One program in the making."""

    most_elements = 128

    def __init__(self, choices: Choices, size: int, makers: Sequence[Maker]) -> None:
        self.choices = choices
        self.size = size
        self.makers = makers
        """What adds an instruction or a few; each raises `Rejected` or an error of planish if it cannot."""
        self.function = Function("none")
        self.region: Region = self.function.body
        self.pool: list[Value] = []
        self.depth = 0
        self.fresh = 0
        self.callees: list[Function] = []
        self.sizes: Sequence[Dim] = BOUNDED
        """The named sizes that may be used: all for parameters, then those the parameters have."""

    # --- decisions ---

    def integer(self, low: int, high: int) -> int:
        return self.choices.integer(low, high)

    def pick(self, items: Sequence[T]) -> T:
        if not items:
            raise Rejected
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) < percent

    def subset(self, count: int) -> tuple[int, ...]:
        return tuple(i for i in range(count) if self.chance(50))

    # --- programs ---

    def program(self) -> Program:
        functions = [self.a_function(f"callee{i}", self.size // 3) for i in range(self.integer(0, 2))]
        self.callees = functions
        main = self.a_function("main", self.size)
        order = [main, *functions] if self.chance(50) else [*functions, main]
        return Program(order, "main")

    def a_function(self, name: str, size: int) -> Function:
        self.sizes = BOUNDED
        types = [self.a_type() for _ in range(self.integer(1, 4))]
        names = [self.pick((None, f"p{i}", "x" if i == 0 else f"p{i}")) for i in range(len(types))]
        loc = Location("model.py", 3, None, name) if self.chance(30) else None
        self.function = Function(name, types, names, loc)
        self.region = self.function.body
        self.pool = list(self.function.params)
        self.fresh = 0
        known = {symbol.name for type in types for symbol in type.symbols()}
        self.sizes = [dim for dim in BOUNDED if dim.name in known]
        self.fill(size)
        self.region.set_results([self.recent() for _ in range(self.integer(1, 4))])
        return self.function

    def fill(self, size: int) -> None:
        """Add instructions to the current region."""
        limit = self.region.count + size
        for _ in range(4 * size):
            if self.region.count >= limit:
                return
            make = self.pick(self.makers)
            try:
                make(self)
            except (Rejected, PlanishError):
                continue

    def a_type(self) -> TensorType:
        dtype = self.pick(COMMON) if self.chance(70) else self.pick(DTYPES)
        return TensorType(dtype, self.dims(self.integer(0, 3)))

    def dims(self, rank: int) -> tuple[DimLike, ...]:
        return tuple(self.a_size() for _ in range(rank))

    def a_size(self) -> DimLike:
        if self.sizes and self.chance(25):
            return self.pick(self.sizes)
        return self.pick((1, 2, 2, 3, 3, 4, 0) if self.chance(20) else (1, 2, 3, 4))

    # --- instructions ---

    def emit_all(
        self,
        op: OpDef,
        operands: Sequence[Value] = (),
        attrs: Attrs = NO_ATTRS,
        regions: Sequence[Region] = (),
    ) -> tuple[Value, ...]:
        types = op.result_types([v.type for v in operands], attrs, regions)
        for type in types:
            if int(np.prod([*type.max_shape, 1])) > self.most_elements or type.rank > 5:
                raise Rejected
            for symbol in type.symbols():
                if symbol.hi > 4 and symbol.name in ("B", "N"):
                    raise Rejected
        loc = None
        if self.chance(20):
            loc = Location(
                "model.py",
                self.integer(1, 99),
                4 if self.chance(50) else None,
                'f"\\' if self.chance(20) else None,
            )
        inst = self.region.append(op, operands, attrs, regions, types=types, loc=loc)
        for value in inst.results:
            if self.chance(15):
                value.name = self.pick(("x", "x", "y.1", "a b", "7", "é", '"'))
        self.pool += inst.results
        return inst.results

    def emit(self, op: OpDef, *operands: Value, attrs: Attrs = NO_ATTRS) -> Value:
        return self.emit_all(op, operands, attrs)[0]

    # --- values ---

    def any(self) -> Value:
        return self.pick(self.pool)

    def recent(self) -> Value:
        return self.pool[-1 - min(self.integer(0, 7), len(self.pool) - 1)]

    def ranked(self, rank: int = 1) -> Value:
        """A value with at least that many axes."""
        found = [v for v in self.pool if v.type.rank >= rank]
        if not found:
            return self.of_type(TensorType(self.pick(COMMON), self.dims(rank)))
        return self.pick(found)

    def plain(self, rank: int = 0) -> Value:
        """A value that is not quantised."""
        found = [v for v in self.pool if v.type.rank >= rank and v.type.quant is None]
        return self.pick(found) if found else self.of_type(TensorType(dtypes.float32, self.dims(rank)))

    def accepted(self, op: OpDef, count: int, attrs: Attrs = NO_ATTRS, rank: int = 0) -> Value:
        """A value that the op takes `count` times; cast if need be."""
        value = self.plain(rank)
        for _ in range(8):
            try:
                op.result_types([value.type] * count, attrs)
            except PlanishError:
                value = self.to(value, self.pick(DTYPES))
            else:
                return value
        raise Rejected

    def to(self, value: Value, dtype: DType) -> Value:
        """A value cast to a dtype."""
        if value.type.dtype is dtype and value.type.quant is None:
            return value
        if value.type.quant is not None:
            value = self.emit(ops.dequantize, value, attrs=ops.DequantizeAttrs(value.type.quant))
        if value.type.dtype.is_complex and not (dtype.is_complex or dtype.is_bool):
            value = self.emit(ops.real, value)
        return self.emit(ops.cast, value, attrs=ops.CastAttrs(dtype))

    def of_type(self, type: TensorType) -> Value:
        """A value of exactly this type: one that exists, a constant, or something computed for it."""
        found = [v for v in self.pool if v.type == type]
        if found and self.chance(80):
            return self.pick(found)
        if type.quant is not None:
            source = self.of_type(TensorType(type.quant.expressed, type.dims))
            return self.emit(ops.quantize, source, attrs=ops.QuantizeAttrs(type.dtype, type.quant))
        if type.is_static and self.chance(50):
            return self.constant(type)
        scalars = [v for v in self.pool if v.type.quant is None and not v.type.dtype.is_complex]
        if scalars and self.chance(50):
            source = self.pick(scalars)
            axes = tuple(range(source.type.rank))
            source = self.to(self.emit(ops.reduce_max, source, attrs=ops.ReduceAttrs(axes)), type.dtype)
        else:
            source = self.constant(TensorType(type.dtype))
        return (
            source
            if not type.dims
            else self.emit(ops.broadcast_to, source, attrs=ops.BroadcastToAttrs(type.dims))
        )

    def constant(self, type: TensorType) -> Value:
        dtype = type.dtype
        odd = samples(dtype)
        if self.chance(40):
            number: int | bool = self.chance(50) if dtype.is_bool else self.integer(0, 3)
            literal = Literal.full(dtype, type.shape, number)
        elif self.chance(30):
            literal = Literal(odd[self.integer(0, len(odd) - 1)].reshape(())).with_shape(type.shape)
        else:
            count = int(np.prod(type.shape, dtype=np.int64))
            start = self.integer(0, len(odd) - 1)
            literal = Literal(odd[(start + 3 * np.arange(count)) % len(odd)].reshape(type.shape))
        return self.emit(ops.constant, attrs=ops.ConstantAttrs(literal))

    def scalar(self, dtype: DType) -> Value:
        return self.of_type(TensorType(dtype))

    def axis(self, value: Value, *, nonempty: bool = False) -> int:
        axes = [a for a, d in enumerate(value.type.dims) if not nonempty or bounds(d)[0] > 0]
        if not axes:
            raise Rejected
        return self.pick(axes)

    # --- regions ---

    def nested(
        self, arg_types: Sequence[TensorType], build: Callable[[tuple[Value, ...]], Sequence[Value]]
    ) -> Region:
        """A region with some instructions, and what `build` makes of its parameters as results."""
        if self.depth >= MAX_DEPTH:
            raise Rejected
        region = Region(self.function, arg_types, [self.pick((None, "i", "acc")) for _ in arg_types])
        outer, pool = self.region, self.pool
        self.region, self.pool = region, [*pool, *region.args]
        self.depth += 1
        try:
            self.fill(self.integer(0, 3))
            region.set_results(build(region.args))
        except BaseException:
            forget(region)
            raise
        finally:
            self.region, self.pool = outer, pool
            self.depth -= 1
        return region

    def changed(self, value: Value) -> Value:
        """Another value of the same type."""
        for op in (self.pick(_PRESERVING), ops.max, ops.xor):
            try:
                if op.result_types([value.type] * op.min_operands, NO_ATTRS) == (value.type,):
                    others = [self.of_type(value.type) for _ in range(op.min_operands - 1)]
                    return self.emit(op, value, *others)
            except PlanishError:
                continue
        return self.of_type(value.type)


def forget(region: Region) -> None:
    """Drop the uses that a region given up on has made of outer values."""
    for inst in [*region.walk(), region.end, *(r.end for i in region.walk() for r in i.regions)]:
        for value in inst.operands:
            value.users.pop(inst, None)


_PRESERVING = (ops.neg, ops.add, ops.mul, ops.abs, ops.sub, ops.min, ops.not_)
