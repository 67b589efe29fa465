"""Random programs of the kind that algebraic and control-flow rules look for: few values, many odd constants.

General random programs (generate.py) rarely meet the same value twice in one expression, or the one constant that
makes a rule wrong. Here a handful of values of one dtype is combined again and again, with units, zeros of either sign,
extremes and infinities among the constants; and loops hand their carried values round.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.errors import PlanishError
from planish.ptir import ops
from planish.ptir.function import Function, Program, Region, Value
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, Attrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, DimLike, TensorType
from tests.ptir.ops_testing import samples

DTYPES: tuple[DType, ...] = (
    dtypes.bool_,
    dtypes.int4,
    dtypes.uint4,
    dtypes.int8,
    dtypes.uint8,
    dtypes.int64,
    dtypes.uint64,
    dtypes.float8_e4m3fn,
    dtypes.float8_e5m2,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.complex64,
)
SIZE = Dim.named("B", 1, 24)
ONE = tuple(
    op for op in REGISTRY.values() if op.key in (OpKey.ELEMENTWISE_UNARY, OpKey.COMPLEX) and op.arity == 1
)
TWO = tuple(
    op
    for op in REGISTRY.values()
    if op.key in (OpKey.ELEMENTWISE_BINARY, OpKey.COMPARE, OpKey.COMPLEX) and op.arity == 2
)
# Correctly rounded up to one unit only (semantics 1.5): x * x need not be what pow makes of it in float64.
INEXACT = frozenset({ops.pow})
FAVOURITES = (
    *(
        ops.add,
        ops.sub,
        ops.mul,
        ops.neg,
        ops.and_,
        ops.or_,
        ops.xor,
        ops.not_,
        ops.max,
        ops.min,
        ops.eq,
        ops.lt,
    ),
    *(
        ops.floor_div,
        ops.trunc_div,
        ops.floor_mod,
        ops.trunc_mod,
        ops.shl,
        ops.shr_logical,
        ops.shr_arithmetic,
    ),
    *(ops.abs, ops.sign, ops.real, ops.imag, ops.conj, ops.complex),
)

# Two of a family with constants, one after the other, are what many rules look for.
CHAINS: tuple[tuple[OpDef, ...], ...] = (
    (ops.add, ops.sub),
    (ops.mul, ops.add, ops.sub, ops.neg),
    (ops.floor_div, ops.floor_mod),
    (ops.trunc_div, ops.trunc_mod),
    (ops.shl, ops.shr_logical, ops.shr_arithmetic),
    (ops.and_, ops.or_, ops.xor, ops.not_),
    (ops.max, ops.min, ops.neg),
    (ops.add, ops.sub, ops.xor, ops.eq, ops.ne),
    (ops.mul, ops.abs),
    (ops.real, ops.imag, ops.add, ops.complex),
)


class AlgebraPrograms:
    """One program, from a seed."""

    def __init__(self, seed: int, steps: int, dtype: DType | None = None) -> None:
        self.rng = random.Random(seed)
        self.steps = steps
        self.dtype = self.rng.choice(DTYPES) if dtype is None else dtype
        self.dims: tuple[DimLike, ...] = self.rng.choice([(24,), (SIZE,), (1, SIZE)])
        self.function = Function("f")
        self.region = self.function.body
        self.pool: list[Value] = []

    # --- making instructions ---

    def emit(self, op: OpDef, *operands: Value, attrs: Attrs = NO_ATTRS) -> Value:
        value = self.region.append(op, operands, attrs).results[0]
        self.pool.append(value)
        return value

    def constant(self, dtype: DType) -> Value:
        """A constant of the common shape: mostly uniform, mostly a number that rules care about."""
        odd = samples(dtype)
        if dtype.is_float and self.rng.random() < 0.3:
            odd = odd[:2]  # the two zeros
        unit = Literal.full(dtype, (), self.rng.choice([0, 1] if dtype.is_bool else [0, 1, 2, 3, 4, 6]))
        literal = unit if self.rng.random() < 0.4 else Literal(odd[self.rng.randrange(len(odd))].reshape(()))
        count = self.dims[0]
        if (
            all(isinstance(dim, int) for dim in self.dims)
            and isinstance(count, int)
            and self.rng.random() < 0.2
        ):
            start = self.rng.randrange(len(odd))
            literal = Literal(odd[[(start + i) % len(odd) for i in range(count)]])
            return self.region.append(ops.constant, (), ops.ConstantAttrs(literal)).results[0]
        scalar = self.region.append(ops.constant, (), ops.ConstantAttrs(literal)).results[0]
        return self.region.append(ops.broadcast_to, (scalar,), ops.BroadcastToAttrs(self.dims)).results[0]

    def value(self, dtype: DType) -> Value:
        """A value of the common shape and a dtype."""
        found = [v for v in self.pool if v.type.dtype is dtype]
        if not found or self.rng.random() < 0.3:
            return self.constant(dtype)
        return self.rng.choice(found[-6:])

    def any(self) -> Value:
        """A recent value, mostly of the dtype that the program is about."""
        own = [value for value in self.pool if value.type.dtype is self.dtype]
        return self.rng.choice((own if self.rng.random() < 0.6 else self.pool)[-8:])

    def chain(self) -> None:
        """A few ops of one family, each on the last result and a constant, or on a value seen before."""
        family = self.rng.choice(CHAINS)
        first = value = self.any()
        for _ in range(self.rng.randint(2, 4)):
            op = self.rng.choice(family)
            others = [
                first if self.rng.random() < 0.25 else self.constant(value.type.dtype)
                for _ in range(op.min_operands - 1)
            ]
            operands = [value, *others]
            if self.rng.random() < 0.3:
                operands.reverse()
            value = self.emit(op, *operands)

    def step(self) -> None:
        kind = self.rng.random()
        try:
            if kind < 0.3:
                self.chain()
            elif kind < 0.65:
                op = self.rng.choice(FAVOURITES if self.rng.random() < 0.5 else (*ONE, *TWO))
                if op in INEXACT:
                    return
                x = self.any()
                others = [
                    x if self.rng.random() < 0.2 else self.value(x.type.dtype)
                    for _ in range(op.min_operands - 1)
                ]
                operands = [x, *others]
                self.rng.shuffle(operands)
                self.emit(op, *operands)
            elif kind < 0.82:
                x = self.any()
                self.emit(ops.select, self.value(dtypes.bool_), x, self.value(x.type.dtype))
            else:
                self.emit(ops.cast, self.any(), attrs=ops.CastAttrs(self.rng.choice([self.dtype, *DTYPES])))
        except PlanishError:
            return

    def build(self) -> Program:
        types = [TensorType(self.dtype, self.dims)] * 2 + [TensorType(dtypes.bool_, self.dims)]
        self.function = Function("f", types)
        self.region = self.function.body
        self.pool = list(self.function.params)
        # Most ops do not take most dtypes: a step that comes to nothing is tried again.
        for _ in range(20 * self.steps):
            self.step()
            if len(self.pool) >= self.steps + len(types):
                break
        # Many values are results, so that a difference shows where it arises and not only if it survives; the others
        # leave room for rules that want a single use.
        made = self.pool[len(types) :]
        shown = [value for value in made if self.rng.random() < 0.5]
        self.region.set_results(shown or self.pool[-1:])
        return Program([self.function])


class ControlPrograms:
    """Conditionals and loops whose carried values are kept, exchanged, copied, dropped and computed at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.type = TensorType(dtypes.int32, (3,))
        self.counter = TensorType(dtypes.int64)
        self.function = Function("f", [self.type] * 3 + [TensorType(dtypes.bool_)])

    def constant(self, region: Region, type: TensorType, number: int | bool) -> Value:
        literal = Literal.full(type.dtype, type.shape, number)
        return region.append(ops.constant, (), ops.ConstantAttrs(literal)).results[0]

    def fill(self, region: Region, pool: list[Value], depth: int) -> None:
        """Some instructions on the values of the common type in `pool`, which they join."""
        for _ in range(self.rng.randint(0, 4)):
            kind = self.rng.random()
            if kind < 0.15:
                pool.append(self.constant(region, self.type, self.rng.randint(0, 2)))
            elif kind < 0.75 or depth == 0:
                op = self.rng.choice((ops.add, ops.sub, ops.mul, ops.max, ops.xor))
                pool.append(region.append(op, (self.rng.choice(pool), self.rng.choice(pool))).results[0])
            else:
                pool += self.control(region, pool, depth - 1)

    def control(self, region: Region, pool: list[Value], depth: int) -> Sequence[Value]:
        make = self.rng.choice((self.a_cond, self.a_while, self.a_scan))
        return make(region, pool, depth)

    def chosen(self, pool: Sequence[Value], count: int) -> list[Value]:
        return [self.rng.choice(pool) for _ in range(count)]

    def a_cond(self, region: Region, pool: list[Value], depth: int) -> Sequence[Value]:
        predicate = self.function.params[3]
        kind = self.rng.random()
        if kind < 0.2:
            predicate = self.constant(region, predicate.type, self.rng.random() < 0.5)
        elif kind < 0.4:
            predicate = region.append(ops.not_, (predicate,)).results[0]
        count = self.rng.randint(1, 3)
        arms = []
        for _ in range(2):
            arm = Region(self.function)
            inner = list(pool)
            self.fill(arm, inner, depth)
            arm.set_results(self.chosen(inner[-4:], count))
            arms.append(arm)
        return region.append(ops.cond, (predicate,), NO_ATTRS, arms).results

    def carried(self, inner: list[Value], args: Sequence[Value]) -> list[Value]:
        """What a body hands on: often what it got, sometimes another's, sometimes something computed."""
        return [arg if self.rng.random() < 0.35 else self.rng.choice([*args, *inner[-4:]]) for arg in args]

    def a_while(self, region: Region, pool: list[Value], depth: int) -> Sequence[Value]:
        starts = self.chosen(pool, self.rng.randint(1, 4))
        types = [self.counter, *[v.type for v in starts]]
        condition, body = Region(self.function, types), Region(self.function, types)
        limit = self.constant(condition, self.counter, self.rng.randint(0, 3))
        condition.set_results(condition.append(ops.lt, (condition.args[0], limit)).results)
        following = body.append(ops.add, (body.args[0], self.constant(body, self.counter, 1))).results[0]
        inner = [*pool, *body.args[1:]]
        self.fill(body, inner, depth)
        body.set_results([following, *self.carried(inner, body.args[1:])])
        zero = self.constant(region, self.counter, 0)
        return region.append(ops.while_, (zero, *starts), NO_ATTRS, (condition, body)).results[1:]

    def a_scan(self, region: Region, pool: list[Value], depth: int) -> Sequence[Value]:
        starts = self.chosen(pool, self.rng.randint(0, 3))
        length = self.rng.choice((0, 1, 2, 3))
        sequences = []
        for value in self.chosen(pool, self.rng.randint(0, 2)):
            dims = ops.BroadcastToAttrs((length, 3))
            spread = region.append(ops.broadcast_to, (value,), dims).results[0]
            if self.rng.random() < 0.6:
                counted = ops.IotaAttrs(self.type.dtype, (length, 3), 0)
                spread = region.append(
                    ops.add, (spread, region.append(ops.iota, (), counted).results[0])
                ).results[0]
            sequences.append(spread)
        body = Region(self.function, [*[v.type for v in starts], *[self.type] * len(sequences)])
        args = body.args[: len(starts)]
        inner = [*pool, *body.args]
        self.fill(body, inner, depth)
        outputs = self.chosen(inner[-5:], self.rng.randint(0 if starts else 1, 2))
        body.set_results([*self.carried(inner, args), *outputs])
        attrs = ops.ScanAttrs(len(starts), length, self.rng.random() < 0.5)
        results = region.append(ops.scan, (*starts, *sequences), attrs, (body,)).results
        stacked = []
        for value in results[len(starts) :]:
            # Rows are told apart by their place, so that an output in another order shows.
            weights = region.append(ops.iota, (), ops.IotaAttrs(self.type.dtype, (length, 3), 0)).results[0]
            weighted = region.append(ops.mul, (value, weights)).results[0]
            stacked.append(region.append(ops.reduce_sum, (weighted,), ops.ReduceAttrs((0,))).results[0])
        return [*results[: len(starts)], *stacked]

    def build(self) -> Program:
        pool = list(self.function.params[:3])
        body = self.function.body
        self.fill(body, pool, 2)
        pool += self.control(body, pool, 2)
        pool += self.control(body, pool, 1)
        body.set_results(self.chosen(pool[-6:], 3))
        return Program([self.function])
