"""Interval analysis: the least and greatest value of every integer, index and bool node.

Promises
* Sound: no evaluation of a node (`evaluate.py`) leaves its interval. Where a wrapping integer can wrap, the interval
  is the whole dtype, unless both ends wrap by the same multiple.
* Tight for independent operands: where nothing wraps, both ends are reached by some values inside the operands'
  intervals. Operands that depend on each other (`x - x`) are for the rules.
* Iterative and computed once per node. Floats, pointers and void have no interval.

An `index` is an exact integer. What lies in memory, or comes out of a float, may be anything its dtype holds (for an
index: any 64-bit integer); ends beyond `LIMIT` mean that nothing useful is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from planish.dtypes import DType
from planish.uop import bitintervals as bits
from planish.uop.ops import Ops, Variable

if TYPE_CHECKING:
    from planish.uop.node import UOp

Interval = tuple[int, int]
NodeRule = Callable[["UOp"], Interval]

LIMIT: Final = 1 << 256
"""Ends of an index interval are exact up to here, far beyond 64 bits, so that overflow can be told."""
INDEX_BITS: Final = 64
_ANY_INDEX: Final = (-(1 << 63), (1 << 63) - 1)
_ANY_BOOL: Final = (0, 1)
_NO: Final = (0, 0)
_YES: Final = (1, 1)
_POWER_CAP: Final = 256  # an exponent beyond it takes any base but -1, 0, 1 out of every dtype and past LIMIT
_ALL: Final = 1 << 30


def fill(root: UOp) -> Interval | None:
    """The interval of a node, computed and kept for it and all it needs; None on a dtype without intervals."""
    dtype = root.dtype
    if not (dtype.is_integral or dtype.is_bool):
        return None
    stack = [root]
    while stack:
        node = stack[-1]
        if node._bounds is not None:
            stack.pop()
            continue
        op = node.op
        waiting = len(stack)
        for source in node.src[: _CONSULTED[op]]:
            if source._bounds is None:
                dtype = source.dtype
                if dtype.is_integral or dtype.is_bool:
                    stack.append(source)
        if len(stack) == waiting:
            node._bounds = _RULES[op](node)
            stack.pop()
    return root._bounds


def of_dtype(dtype: DType) -> Interval:
    """All values of a dtype; of an index, all that fit 64 bits."""
    low, high = dtype.min, dtype.max
    return _ANY_INDEX if low is None or high is None else (int(low), int(high))


def fit(dtype: DType, low: int, high: int) -> Interval:
    """An interval of exact results, brought into the dtype: moved if it wraps as a whole, else everything."""
    least, greatest = dtype.min, dtype.max
    if least is None or greatest is None:
        return (low, high) if low >= -LIMIT and high <= LIMIT else (-LIMIT, LIMIT)
    least, greatest = int(least), int(greatest)
    if least <= low and high <= greatest:
        return low, high
    if not dtype.is_bool:
        size = greatest - least + 1
        turns = (low - least) // size
        if turns == (high - least) // size:
            return low - turns * size, high - turns * size
    return least, greatest


def union(*intervals: Interval) -> Interval:
    """The least interval that holds all of these."""
    return min([i[0] for i in intervals]), max([i[1] for i in intervals])


def width(dtype: DType) -> int:
    """The bits that shifts and bit counts see."""
    return dtype.bits or INDEX_BITS


# -- arithmetic: exact results, brought into the dtype by `fit` ------------------------------------------------


def _add(d: DType, x: Interval, y: Interval) -> Interval:
    return fit(d, x[0] + y[0], x[1] + y[1])


def _sub(d: DType, x: Interval, y: Interval) -> Interval:
    return fit(d, x[0] - y[1], x[1] - y[0])


def _product(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if c >= 0 and a >= 0:
        return a * c, b * d
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def _mul(d: DType, x: Interval, y: Interval) -> Interval:
    return fit(d, *_product(x, y))


def _mulacc(d: DType, x: Interval, y: Interval, z: Interval) -> Interval:
    low, high = _product(x, y)
    return fit(d, low + z[0], high + z[1])


def _neg(d: DType, x: Interval) -> Interval:
    return fit(d, -x[1], -x[0])


def _magnitude(x: Interval) -> Interval:
    a, b = x
    if a >= 0:
        return x
    return (-b, -a) if b <= 0 else (0, max(-a, b))


def _abs(d: DType, x: Interval) -> Interval:
    return fit(d, *_magnitude(x))


def _signs(y: Interval) -> list[Interval]:
    """The negative and the positive part of an interval of divisors."""
    c, d = y
    if c > 0 or d < 0:
        return [y]
    parts = []
    if c < 0:
        parts.append((c, -1))
    if d > 0:
        parts.append((1, d))
    return parts


def _zero_too(y: Interval, parts: list[Interval]) -> Interval:
    """Division by zero gives 0, in quotient and remainder."""
    if y[0] <= 0 <= y[1]:
        parts.append(_NO)
    return parts[0] if len(parts) == 1 else union(*parts)


def _floordiv(d: DType, x: Interval, y: Interval) -> Interval:
    a, b = x
    if y[0] == y[1] > 0:  # what indexing is full of
        return a // y[0], b // y[0]
    parts = []
    for low, high in _signs(y):
        corners = (a // low, a // high, b // low, b // high)
        parts.append((min(corners), max(corners)))
    return fit(d, *_zero_too(y, parts))


def _truncated(x: int, y: int) -> int:
    return x // y if (x < 0) == (y < 0) else -(-x // y)


def _truncdiv(d: DType, x: Interval, y: Interval) -> Interval:
    parts = []
    for low, high in _signs(y):
        corners = [_truncated(n, m) for n in x for m in (low, high)]
        parts.append((min(corners), max(corners)))
    return fit(d, *_zero_too(y, parts))


def _floormod(d: DType, x: Interval, y: Interval) -> Interval:
    a, b = x
    if y[0] == y[1] > 0:
        period = y[0]
        first = a - a % period
        return (a - first, b - first) if b - first < period else (0, period - 1)
    parts = []
    for low, high in _signs(y):
        if low > 0:
            parts.append(bits.remainder(a, b, low, high))
        else:
            least, most = bits.remainder(-b, -a, -high, -low)
            parts.append((-most, -least))
    return _zero_too(y, parts)


def _truncmod(d: DType, x: Interval, y: Interval) -> Interval:
    a, b = x
    low, high = _magnitude(y)
    parts = []
    if high > 0:
        low = max(low, 1)
        if b >= 0:
            parts.append(bits.remainder(max(a, 0), b, low, high))
        if a < 0:
            least, most = bits.remainder(max(-b, 1), -a, low, high)
            parts.append((-most, -least))
    return _zero_too(y, parts)


def _pow(d: DType, x: Interval, y: Interval) -> Interval:
    # For a fixed exponent extremes lie at the ends or next to 0; for a fixed base at the first and last exponent
    # of each parity. A negative exponent leaves only -1, 0 and 1.
    bases = {*x, *(n for n in (-1, 0, 1) if x[0] <= n <= x[1])}
    c, e = y
    exponents = {n for n in (c, c + 1, -2, -1, 0, 1, e - 1, e) if c <= n <= e}
    results = []
    for base in bases:
        for exponent in exponents:
            if exponent >= 0 and -1 <= base <= 1:
                results.append(base ** (exponent & 1 or 2 * (exponent > 0)))
            elif exponent >= 0:
                if exponent > _POWER_CAP:
                    return (-LIMIT, LIMIT) if d.is_index else of_dtype(d)
                results.append(base**exponent)
            else:
                results.append(base ** (exponent & 1) if abs(base) == 1 else 0)
    return fit(d, min(results), max(results))


# -- order, bits, shifts ---------------------------------------------------------------------------------------


def _max(d: DType, x: Interval, y: Interval) -> Interval:
    return max(x[0], y[0]), max(x[1], y[1])


def _min(d: DType, x: Interval, y: Interval) -> Interval:
    return min(x[0], y[0]), min(x[1], y[1])


def _not(d: DType, x: Interval) -> Interval:
    top = int(d.max or 0) if d.is_bool or d.is_unsigned else -1
    return top - x[1], top - x[0]


def _and(d: DType, x: Interval, y: Interval) -> Interval:
    return bits.conjunction(x, y)


def _or(d: DType, x: Interval, y: Interval) -> Interval:
    # x | y is ~(~x & ~y)
    low, high = bits.conjunction((~x[1], ~x[0]), (~y[1], ~y[0]))
    return ~high, ~low


def _xor(d: DType, x: Interval, y: Interval) -> Interval:
    return bits.difference(x, y)


def _shl(d: DType, x: Interval, y: Interval) -> Interval:
    low, high = max(y[0], 0), min(y[1], width(d) - 1)
    parts = [_product(x, (1 << low, 1 << high))] if low <= high else []
    if y[0] < 0 or y[1] >= width(d):
        parts.append(_NO)
    return fit(d, *union(*parts))


def _shr(d: DType, x: Interval, y: Interval) -> Interval:
    a, b = x
    low, high = max(y[0], 0), min(y[1], width(d) - 1)
    parts = []
    if low <= high:
        corners = (a >> low, a >> high, b >> low, b >> high)
        parts.append((min(corners), max(corners)))
    if y[0] < 0 or y[1] >= width(d):
        parts.append((-(a < 0), -(b < 0)))
    return union(*parts)


def _popcount(d: DType, x: Interval) -> Interval:
    return fit(d, *bits.ones(x, width(d)))


def _clz(d: DType, x: Interval) -> Interval:
    a, b = x
    size = width(d)
    most = 0 if b < 0 else size - max(a, 0).bit_length()
    return fit(d, 0 if a < 0 else max(size - b.bit_length(), 0), max(most, 0))


def _lt(d: DType, x: Interval, y: Interval) -> Interval:
    return _YES if x[1] < y[0] else _NO if x[0] >= y[1] else _ANY_BOOL


def _le(d: DType, x: Interval, y: Interval) -> Interval:
    return _YES if x[1] <= y[0] else _NO if x[0] > y[1] else _ANY_BOOL


def _eq(d: DType, x: Interval, y: Interval) -> Interval:
    if x[1] < y[0] or y[1] < x[0]:
        return _NO
    return _YES if x[0] == x[1] == y[0] == y[1] else _ANY_BOOL


def _ne(d: DType, x: Interval, y: Interval) -> Interval:
    low, high = _eq(d, x, y)
    return 1 - high, 1 - low


def _where(d: DType, condition: Interval, x: Interval, y: Interval) -> Interval:
    if condition[0]:
        return x
    return union(x, y) if condition[1] else y


def _cast(d: DType, x: Interval) -> Interval:
    if d.is_bool:
        return _YES if x[0] > 0 or x[1] < 0 else (0, int(x != _NO))
    return fit(d, *x)


ALU: Final[dict[Ops, Callable[..., Interval]]] = {
    Ops.NEG: _neg, Ops.NOT: _not, Ops.ABS: _abs, Ops.POPCOUNT: _popcount, Ops.CLZ: _clz,
    Ops.ADD: _add, Ops.SUB: _sub, Ops.MUL: _mul, Ops.MULACC: _mulacc, Ops.POW: _pow,
    Ops.FLOORDIV: _floordiv, Ops.FLOORMOD: _floormod, Ops.TRUNCDIV: _truncdiv, Ops.TRUNCMOD: _truncmod,
    Ops.MAX: _max, Ops.MIN: _min, Ops.AND: _and, Ops.OR: _or, Ops.XOR: _xor, Ops.SHL: _shl, Ops.SHR: _shr,
    Ops.CMPLT: _lt, Ops.CMPLE: _le, Ops.CMPEQ: _eq, Ops.CMPNE: _ne, Ops.WHERE: _where, Ops.CAST: _cast,
}  # fmt: skip
"""What an op makes of the intervals of its operands, given the dtype of its result."""


def interval(op: Ops, dtype: DType, *sources: Interval) -> Interval:
    """The interval of an ALU op or CAST of this dtype over operands within these intervals."""
    return ALU[op](dtype, *sources)


# -- nodes: what is more than arithmetic on intervals ----------------------------------------------------------


def _known(node: UOp) -> Interval:
    """The interval of a node that `fill` has met already."""
    return cast("Interval", node._bounds)


def _unary_node(node: UOp) -> Interval:
    (x,) = node.src
    return ALU[node.op](node.dtype, x._bounds)


def _binary_node(node: UOp) -> Interval:
    x, y = node.src
    return ALU[node.op](node.dtype, x._bounds, y._bounds)


def _ternary_node(node: UOp) -> Interval:
    x, y, z = node.src
    return ALU[node.op](node.dtype, x._bounds, y._bounds, z._bounds)


def _compare_node(node: UOp) -> Interval:
    x, y = node.src
    if x._bounds is None or y._bounds is None:  # floats
        return _ANY_BOOL
    return ALU[node.op](node.dtype, x._bounds, y._bounds)


def _cast_node(node: UOp) -> Interval:
    x = node.src[0]._bounds
    return of_dtype(node.dtype) if x is None else _cast(node.dtype, x)


def _anything(node: UOp) -> Interval:
    return of_dtype(node.dtype)


def _first(node: UOp) -> Interval:
    known = node.src[0]._bounds if node.src else None
    return of_dtype(node.dtype) if known is None else known


def _lanes(node: UOp) -> Interval:
    return union(*map(_known, node.src))


def _const(node: UOp) -> Interval:
    value = int(cast("int", node.arg))
    return value, value


def _vconst(node: UOp) -> Interval:
    values = cast("tuple[int, ...]", node.arg)
    return int(min(values)), int(max(values))


def _variable(node: UOp) -> Interval:
    variable = cast("Variable", node.arg)
    return variable.low, variable.high


def _counter(node: UOp) -> Interval:
    # A bound that may be 0 or less makes no iteration there, so no value either.
    return 0, max(0, _known(node.src[0])[1] - 1)


def _gep(node: UOp) -> Interval:
    (x,) = node.src
    selected = cast("tuple[int, ...]", node.arg)
    if x.op is Ops.VCONST:
        values = cast("tuple[int, ...]", x.arg)
        return int(min(values[i] for i in selected)), int(max(values[i] for i in selected))
    if x.op is Ops.VECTORIZE:
        return union(*(_known(x.src[i]) for i in selected))
    return _known(x)


def _pad(node: UOp) -> Interval:
    return union(_known(node.src[0]), _NO)


def _reduce(node: UOp) -> Interval:
    """n values of x combined, where n follows from the bounds of the ranges and the lanes folded together."""
    x, *ranges = node.src
    dtype, op = node.dtype, cast("Ops", node.arg)
    least = most = x.dtype.lanes // dtype.lanes
    for each in ranges:
        if each.op is Ops.CONST:
            continue  # a range of one value, folded
        if each.op is not Ops.RANGE:
            return of_dtype(dtype)  # lanes that stand for a range: how many is known elsewhere
        low, high = _known(each.src[0])
        least, most = least * max(low, 0), most * max(high, 0)
    value = _known(x)
    if most == least == 1:
        return value
    if op is Ops.ADD:
        low = min(value[0] * least, value[0] * most)
        return fit(dtype, low, max(value[1] * least, value[1] * most))
    if least == 0 and op is not Ops.XOR and op is not Ops.OR:
        return of_dtype(dtype)  # of nothing at all: the identity, which is an extreme of the dtype
    return _repeated(dtype, op, value if least else union(value, _NO), most)


def _repeated(dtype: DType, op: Ops, value: Interval, most: int) -> Interval:
    """One to `most` values combined (for OR and XOR none, too, if `value` holds 0)."""
    if op is Ops.MUL and most > INDEX_BITS:
        # Powers of anything beyond -1, 0, 1 leave every bound.
        low, high = value
        if low >= -1 and high <= 1:
            return (-1 if low < 0 else low, 1 if high > 0 or low < 0 else high)
        return (-LIMIT, LIMIT) if dtype.is_index else of_dtype(dtype)
    combine = ALU[op]
    result = value
    for _ in range(min(most - 1, 2 * INDEX_BITS)):
        step = union(result, combine(dtype, result, value))
        if step == result:
            break
        result = step
    else:
        if most > 2 * INDEX_BITS:
            return of_dtype(dtype)
    return result


_OWN: Final[dict[Ops, NodeRule]] = {
    Ops.NOOP: _first, Ops.CONST: _const, Ops.VCONST: _vconst, Ops.DEFINE_VAR: _variable, Ops.SPECIAL: _counter,
    Ops.RANGE: _counter, Ops.RESHAPE: _first, Ops.PERMUTE: _first, Ops.EXPAND: _first,
    Ops.PAD: _pad, Ops.SHRINK: _first, Ops.FLIP: _first, Ops.CONTIGUOUS: _first, Ops.END: _first, Ops.REDUCE: _reduce,
    Ops.BUFFERIZE: _first, Ops.AFTER: _first, Ops.UNROLL: _first, Ops.CONTRACT: _first, Ops.GEP: _gep,
    Ops.VECTORIZE: _lanes, Ops.CAT: _lanes, Ops.CAST: _cast_node, Ops.WHERE: _ternary_node, Ops.MULACC: _ternary_node,
    Ops.CMPLT: _compare_node, Ops.CMPLE: _compare_node, Ops.CMPEQ: _compare_node, Ops.CMPNE: _compare_node,
}  # fmt: skip


def _rule(op: Ops) -> NodeRule:
    if op in _OWN:
        return _OWN[op]
    if op in ALU:
        return _unary_node if op.max_sources == 1 else _binary_node
    return _anything  # memory, tensor cores, random bits, INVALID


_RULES: Final[tuple[NodeRule, ...]] = tuple(map(_rule, Ops))
_CONSULTED: Final[tuple[int, ...]] = tuple(
    0 if rule is _anything else 1 if rule in (_first, _counter, _pad) else _ALL for rule in _RULES
)
"""How many sources the interval of a node depends on."""
