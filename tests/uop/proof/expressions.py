"""Random expressions of the kinds that tensor indexing makes, and some it does not: deep, signed, gated, symbolic.

An expression is described before it is built (`Plan`: a function of a table and the bounds of its variables), so that
the same one can be built again with other bounds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from planish import dtypes
from planish.dtypes import DType
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops

Bounds = tuple[int, int]
Build = Callable[["Leaves"], UOp]

SMALL: list[Bounds] = [(0, 3), (0, 7), (-3, 4), (0, 5), (-4, -1), (0, 1), (2, 5), (-6, 1), (1, 7)]
LARGE: list[Bounds] = [(0, 63), (0, 1023), (-100, 100), (0, 11), (0, 1 << 20), (-5, 5), (0, 255), (1, 7)]
DIVISORS: list[Bounds] = [(1, 4), (2, 5), (1, 7), (-4, -1), (3, 3)]
FACTORS = [2, 3, 4, 5, 6, 8, 10, 12, 16, -1, -2, -3, -4]
SHIFTS = [1, 2, 3, 4, 5, 7, 8, 15, -1, -2, -3, -5, -8]
PERIODS = [2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32, -2, -3, -4]


class Leaves:
    """Variables x0 … and divisors n0, n1 of one build."""

    def __init__(self, table: Table, variables: list[Bounds], divisors: list[Bounds]) -> None:
        self.table = table
        self.variables = [
            table.range(high + 1, k) if k % 3 == 2 and low == 0 else table.variable(f"x{k}", low, high)
            for k, (low, high) in enumerate(variables)
        ]
        self.divisors = [table.variable(f"n{k}", low, high) for k, (low, high) in enumerate(divisors)]


@dataclass(frozen=True, slots=True)
class Plan:
    """An expression without bounds, and bounds that suit it."""

    build: Build
    variables: list[Bounds]
    divisors: list[Bounds]

    def node(self) -> UOp:
        return self.build(Leaves(Table(), self.variables, self.divisors))

    def cut(self) -> UOp:
        """The same with at most 8 values for each variable."""
        short = [(low, min(high, low + 7)) for low, high in self.variables]
        return self.build(Leaves(Table(), short, self.divisors))


def plan(rng: random.Random, depth: int, *, large: bool = False, gated: bool = False) -> Plan:
    """A random expression of at least this depth."""
    bounds = LARGE if large else SMALL
    variables = [rng.choice(bounds) for _ in range(rng.randint(2, 4))]
    divisors = [rng.choice(DIVISORS) for _ in range(1 if large else 2)]
    maker = _Maker(rng, len(variables), len(divisors))
    build = maker.index(depth)
    if gated:
        condition = maker.condition(3)

        def guarded(leaves: Leaves) -> UOp:
            return condition(leaves).where(build(leaves), leaves.table.invalid())

        return Plan(guarded, variables, divisors)
    return Plan(build, variables, divisors)


def truth(rng: random.Random, depth: int) -> Plan:
    """A random condition."""
    variables = [rng.choice(SMALL) for _ in range(rng.randint(2, 4))]
    divisors = [rng.choice(DIVISORS)]
    return Plan(_Maker(rng, len(variables), 1).condition(depth), variables, divisors)


def wrapping(rng: random.Random, depth: int) -> Plan:
    """An expression on 8-bit integers, two of them over their whole range."""
    dtype = rng.choice([dtypes.int8, dtypes.uint8])

    def leaf(leaves: Leaves, number: int) -> UOp:
        return leaves.table.param(number, dtype, 4).index(leaves.table.const(0))

    def go(levels: int) -> Build:
        if levels == 0:
            k = rng.randrange(2)
            return lambda leaves: leaf(leaves, k)
        x = go(levels - 1)
        op = rng.choice([Ops.ADD, Ops.SUB, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.MIN, Ops.SHL, Ops.SHR])  # fmt: skip
        if rng.random() < 0.15:
            unary = rng.choice([Ops.NEG, Ops.NOT, Ops.ABS])
            return lambda leaves: x(leaves).alu(unary)
        if rng.random() < 0.6:
            c = dtype.wrap(rng.choice([*FACTORS, *SHIFTS, 0, 1, 127, 128, 255]))
            return lambda leaves: x(leaves).alu(op, c)
        y = go(rng.randrange(levels))
        return lambda leaves: x(leaves).alu(op, y(leaves))

    return Plan(go(depth), [], [])


def real(rng: random.Random, depth: int) -> Plan:
    """An expression on floats of two widths, with comparisons, selects and conversions."""
    start = rng.choice([dtypes.float32, dtypes.float32, dtypes.float16, dtypes.float64])
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -4.0, 3.0, math.inf, -math.inf, math.nan]

    def go(levels: int, dtype: DType) -> Build:
        if levels == 0:
            k = rng.randrange(2)
            return lambda leaves: leaves.table.param(10 * k + dtype.bits, dtype, 4).index(
                leaves.table.const(0)
            )
        choice = rng.random()
        if choice < 0.08:
            other = rng.choice(
                [d for d in (dtypes.float16, dtypes.float32, dtypes.float64) if d is not dtype]
            )
            wide = go(levels - 1, other)
            return lambda leaves: wide(leaves).cast(dtype)
        x = go(levels - 1, dtype)
        if choice < 0.25:
            unary = rng.choice([Ops.NEG, Ops.NEG, Ops.ABS, Ops.SQRT, Ops.RECIP, Ops.FLOOR, Ops.TRUNC])
            return lambda leaves: x(leaves).alu(unary)
        if choice < 0.35:
            # Through a comparison and back.
            compare, c, y = (
                rng.choice([Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE]),
                rng.choice(numbers),
                go(levels - 1, dtype),
            )
            return lambda leaves: x(leaves).alu(compare, c).where(y(leaves), x(leaves))
        op = rng.choice([Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN])
        if choice < 0.75:
            c = rng.choice(numbers)
            return lambda leaves: x(leaves).alu(op, c)
        y = go(rng.randrange(levels), dtype)
        return lambda leaves: x(leaves).alu(op, y(leaves))

    return Plan(go(depth, start), [], [])


class _Maker:
    def __init__(self, rng: random.Random, variables: int, divisors: int) -> None:
        self.rng = rng
        self.variables = variables
        self.divisors = divisors

    def leaf(self) -> Build:
        k = self.rng.randrange(self.variables)
        return lambda leaves: leaves.variables[k]

    def divisor(self) -> Build:
        k = self.rng.randrange(self.divisors)
        return lambda leaves: leaves.divisors[k]

    def index(self, depth: int) -> Build:
        """One operand goes all the way down, others stop early."""
        if depth <= 0:
            return self.leaf()
        rng = self.rng
        x = self.index(depth - 1)
        choice = rng.choices(range(len(_SHAPES)), _WEIGHTS)[0]
        return _SHAPES[choice](self, x, depth)

    def other(self, depth: int) -> Build:
        return self.index(self.rng.randint(0, max(min(depth - 1, 2), 0)))

    def condition(self, depth: int) -> Build:
        rng = self.rng
        if depth > 1 and rng.random() < 0.4:
            p, q = self.condition(depth - 1), self.condition(rng.randint(0, depth - 1))
            op = rng.choice([Ops.AND, Ops.AND, Ops.OR, Ops.XOR])
            return lambda leaves: p(leaves).alu(op, q(leaves))
        if depth > 1 and rng.random() < 0.1:
            p = self.condition(depth - 1)
            return lambda leaves: p(leaves).logical_not()
        x = self.index(max(depth - 1, 0))
        op = rng.choice([Ops.CMPLT, Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE])
        if rng.random() < 0.65:
            c = rng.choice([*SHIFTS, 0, 0, 12, 20])
            if rng.random() < 0.5:
                return lambda leaves: x(leaves).alu(op, c)
            return lambda leaves: leaves.table.const(c).alu(op, x(leaves))
        y = self.other(depth)
        return lambda leaves: x(leaves).alu(op, y(leaves))


def _with_constant(op: Ops, numbers: list[int]) -> Callable[[_Maker, Build, int], Build]:
    def shape(maker: _Maker, x: Build, depth: int) -> Build:
        c = maker.rng.choice(numbers)
        return lambda leaves: x(leaves).alu(op, c)

    return shape


def _with_other(op: Ops) -> Callable[[_Maker, Build, int], Build]:
    def shape(maker: _Maker, x: Build, depth: int) -> Build:
        y = maker.other(depth)
        if maker.rng.random() < 0.5:
            return lambda leaves: x(leaves).alu(op, y(leaves))
        return lambda leaves: y(leaves).alu(op, x(leaves))

    return shape


def _with_divisor(op: Ops) -> Callable[[_Maker, Build, int], Build]:
    def shape(maker: _Maker, x: Build, depth: int) -> Build:
        n = maker.divisor()
        return lambda leaves: x(leaves).alu(op, n(leaves))

    return shape


def _choice(maker: _Maker, x: Build, depth: int) -> Build:
    p, y = maker.condition(2), maker.other(depth)
    return lambda leaves: p(leaves).where(x(leaves), y(leaves))


def _parts(maker: _Maker, x: Build, depth: int) -> Build:
    """A split index put together again, as reshapes do."""
    c, f = maker.rng.choice([2, 3, 4, 6, 8]), maker.rng.choice([1, 1, 2, 3])
    return lambda leaves: x(leaves) // c * (c * f) + x(leaves) % c * f


def _row(maker: _Maker, x: Build, depth: int) -> Build:
    """x*c + y with y in 0 … c-1."""
    c, y = maker.rng.choice([2, 3, 4, 6, 8]), maker.other(depth)
    return lambda leaves: x(leaves) * c + y(leaves) % c


_TABLE: list[tuple[float, Callable[[_Maker, Build, int], Build]]] = [
    (4.0, _with_other(Ops.ADD)),
    (3.0, _with_constant(Ops.MUL, FACTORS)),
    (2.5, _with_constant(Ops.ADD, SHIFTS)),
    (3.5, _with_constant(Ops.FLOORDIV, PERIODS)),
    (3.5, _with_constant(Ops.FLOORMOD, PERIODS)),
    (1.0, _with_other(Ops.SUB)),
    (0.8, _with_divisor(Ops.MUL)),
    (1.2, _with_divisor(Ops.FLOORDIV)),
    (1.2, _with_divisor(Ops.FLOORMOD)),
    (0.6, _with_other(Ops.MAX)),
    (0.6, _with_constant(Ops.MIN, SHIFTS)),
    (1.0, _choice),
    (1.0, _parts),
    (1.5, _row),
    (0.3, _with_constant(Ops.AND, [1, 3, 7, 15])),
    (0.3, _with_constant(Ops.SHR, [1, 2, 3])),
    (0.3, _with_constant(Ops.SHL, [1, 2])),
    (0.3, _with_constant(Ops.TRUNCDIV, [2, 3, -4])),
    (0.3, _with_constant(Ops.TRUNCMOD, [2, 3, -4])),
]
_WEIGHTS = [weight for weight, _ in _TABLE]
_SHAPES = [shape for _, shape in _TABLE]
