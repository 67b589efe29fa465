"""Sums of products, seen as matrix products: which axes of a kernel a tensor core could take.

`products` finds every REDUCE(ADD, a*b) whose operands come in the dtype of a core and lists the ways to read it as
C[m, n] += A[m, k] @ B[k, n]: m is an output axis that only a depends on, n one that only b depends on, k a reduced axis of
both. A SCAN runs along none of them: a core's threads have elements of a tile in an order of their own. Stage 7 applies one of them; `optimize/` asks whether there is any. `why_not` says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planish.dtypes import DType
from planish.uop.nest import OF_MANY_ELEMENTS, OUTPUT, size_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.symbolic.conditions import conjuncts
from planish.uop.tensor_cores import Core


class Product(NamedTuple):
    """A reduction read as a matrix product: operands in the dtype of the core, and the axes."""

    reduce: UOp
    a: UOp
    b: UOp
    m: UOp
    n: UOp
    k: UOp
    offset: UOp | None = None
    """What was added to a, the same everywhere; None: nothing."""


class _Operands(NamedTuple):
    reduce: UOp
    a: UOp
    b: UOp
    offset: UOp | None


def _is_zero(x: UOp) -> bool:
    return x.op is Ops.CONST and x is x.const_like(0)


def _narrow(x: UOp, core: Core, dtype: DType) -> UOp | None:
    """An operand in the dtype that the core reads, if that is where it comes from."""
    if dtype is core.output:
        return x
    if x.op is Ops.CAST and x.src[0].dtype is dtype:
        return x.src[0]
    if core.widens and x.op is not Ops.WHERE and x.dtype is core.output and _fits(x, dtype):
        return (x.src[0] if x.op is Ops.CAST else x).cast(dtype)
    if x.op is Ops.WHERE and _is_zero(x.src[2]):
        inner = _narrow(x.src[1], core, dtype)
        return None if inner is None else x.src[0].where(inner, inner.const_like(0))
    return None


class _Shifted(NamedTuple):
    """An operand in the dtype of a core, and what was added to it for that; None: nothing."""

    value: UOp
    offset: UOp | None = None


def _left(x: UOp, core: Core) -> _Shifted | None:
    """The left operand in the dtype that the core reads."""
    narrow = _narrow(x, core, core.inputs)
    if narrow is not None or not core.shifts or x.dtype is not core.output:
        return None if narrow is None else _Shifted(narrow)
    dtype = core.inputs
    if x.op is Ops.CAST and x.src[0].dtype.is_signed and x.src[0].dtype.itemsize == dtype.itemsize:
        half = 1 << dtype.bits - 1  # of as many bits: the sign, turned
        return _Shifted(x.src[0].bitcast(dtype) ^ half, x.const_like(half))
    if _fits(x - x.vmin, dtype):
        return _Shifted((x - x.vmin).cast(dtype), x.const_like(-x.vmin))
    if x.op in {Ops.ADD, Ops.SUB} and not x.src[1].ranges:
        inner = _left(x.src[0], core)
        if inner is not None:
            point = x.src[1] if x.op is Ops.SUB else -x.src[1]
            return _Shifted(inner.value, point if inner.offset is None else inner.offset + point)
    return None


def _fits(x: UOp, dtype: DType) -> bool:
    """Whether an integer dtype holds every value that something can have."""
    return (
        isinstance(dtype.min, int)
        and isinstance(dtype.max, int)
        and dtype.min <= x.vmin
        and x.vmax <= dtype.max
    )


def _guarded(x: UOp, clauses: list[UOp]) -> UOp:
    for clause in clauses:
        if not _is_nowhere_without(x, clause):
            x = clause.where(x, x.const_like(0))
    return x


def _is_nowhere_without(x: UOp, clause: UOp) -> bool:
    """Whether a value is that of a place that is nowhere unless a condition holds: it is 0 there anyway."""
    if x.op is not Ops.INDEX or len(x.src) < 2:
        return False
    gates = [x.src[-1]] if x.src[-1].dtype.is_bool else []
    index = x.src[1]
    while index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
        gates.append(index.src[0])
        index = index.src[1]
    return any(clause is each for gate in gates for each in (gate, *(conjuncts(gate) or ())))


def _operands(reduce: UOp, core: Core) -> tuple[list[_Operands], str]:
    """What is multiplied, either factor as the left one, or why that is nothing for the core."""
    if reduce.arg is not Ops.ADD or reduce.dtype is not core.output:
        return [], f"no sum in {core.output}"
    value = reduce.src[0]
    clauses: list[UOp] = []
    while value.op is Ops.WHERE and _is_zero(value.src[2]):
        clauses += conjuncts(value.src[0]) or [value.src[0]]
        value = value.src[1]
    if value.op is not Ops.MUL:
        return [], "no sum of products"
    operands: list[_Operands] = []
    for left, right in (value.src, value.src[::-1]):
        shifted, b = _left(left, core), _narrow(right, core, core.right or core.inputs)
        if shifted is None or b is None:
            continue
        a, offset = shifted
        if any(node.op in OF_MANY_ELEMENTS for factor in (a, b) for node in factor.toposort()):
            return [], "a factor is itself a reduction or staged"
        if clauses:
            # 0 for the whole product is 0 for both factors; for one of them only where the other is no infinity.
            shared = a.ranges & b.ranges
            if not all(clause.ranges <= shared for clause in clauses):
                return [], "a condition on the products is about one factor alone"
            if core.output.is_float:
                a = _guarded(a, clauses)
            if offset is not None or core.output.is_float or _guarded(a, clauses) is not a:
                b = _guarded(b, clauses)
        operands.append(_Operands(reduce, a, b, offset))
    read = str(core.inputs) if core.right is None else f"{core.inputs} and {core.right}"
    return operands, "" if operands else f"the factors are not {read}"


def _readings(
    operands: list[_Operands], core: Core, scanned: frozenset[UOp]
) -> Iterator[tuple[Product | None, str]]:
    """The ways to read a reduction in tiles of a core, last axes first."""
    for product in _axes(operands, scanned):
        misfit = [
            f"{axis.arg} has {size_of(axis) or 'an unknown number of'} values, no multiple of {size}"
            for axis, size in zip((product.m, product.n, product.k), core.dims, strict=True)
            if size > 1 and (not size_of(axis) or size_of(axis) % size)
        ]
        if misfit:
            yield None, f"{'; '.join(misfit)} (pad_to makes it one)"
        else:
            yield product, ""


def _scanned(nodes: Sequence[UOp]) -> frozenset[UOp]:
    """The ranges that SCANs run along."""
    return frozenset(r for n in nodes if n.op is Ops.SCAN for along in n.src[1:] for r in along.ranges)


def _axes(operands: list[_Operands], scanned: frozenset[UOp]) -> Iterator[Product]:
    """The ways to read a reduction as a product of matrices of any size, last axes first."""
    reduce = operands[0].reduce
    ranges = sorted(reduce.ranges, key=lambda r: r.order, reverse=True)
    outputs = [r for r in ranges if kind_of(r) in OUTPUT and r not in scanned]
    reduced = sorted((r for r in reduce.src[1:] if r.op is Ops.RANGE), key=lambda r: r.order, reverse=True)
    for n in outputs:
        for _, a, b, offset in operands:
            if n not in b.ranges or n in a.ranges:
                continue
            for m in outputs:
                if m not in a.ranges or m in b.ranges:
                    continue
                for k in reduced:
                    if kind_of(k) is not AxisType.REDUCE or k not in a.ranges or k not in b.ranges:
                        continue
                    yield Product(reduce, a, b, m, n, k, offset)


def _search(sink: UOp, core: Core) -> tuple[list[Product], str]:
    ways: list[Product] = []
    reason = "there is no reduction"
    nodes = sink.toposort()
    scanned = _scanned(nodes)
    for node in nodes:
        if node.op is not Ops.REDUCE:
            continue
        operands, why = _operands(node, core)
        if not operands:
            reason = why
            continue
        reason = "no output axis belongs to one factor alone, or no reduced axis to both"
        if scanned:
            reason += ", but for axes that a SCAN runs along"
        misses: list[str] = []
        for product, why in _readings(operands, core, scanned):
            if product is None:
                misses.append(why)
            else:
                ways.append(product)
        if misses:  # the nearest miss: the one with the least to complain about
            reason = min(misses, key=lambda text: (text.count(";"), " 1 values" in text))
    return ways, reason


def factors(reduce: UOp, core: Core) -> list[tuple[UOp, UOp]]:
    """What a sum multiplies, either factor as the left one, in the dtypes of a core that takes them as they are."""
    return [(each.a, each.b) for each in _operands(reduce, core)[0] if each.offset is None]


def narrowed(factor: UOp, core: Core) -> UOp | None:
    """A factor in the dtype that a core reads, if that is where it comes from."""
    return _narrow(factor, core, core.inputs)


def nearly(sink: UOp, core: Core) -> list[Product]:
    """Every way in which a core could be used if axes had the sizes for it."""
    ways: list[Product] = []
    nodes = sink.toposort()
    scanned = _scanned(nodes)
    for node in nodes:
        operands = _operands(node, core)[0] if node.op is Ops.REDUCE else []
        if operands:
            ways += _axes(operands, scanned)
    return ways


def products(sink: UOp, core: Core) -> list[Product]:
    """Every way to use a core in a kernel, the preferred ones first."""
    return _search(sink, core)[0]


def why_not(sink: UOp, core: Core) -> str:
    """What keeps a core from being used in a kernel; empty if nothing does."""
    ways, reason = _search(sink, core)
    return "" if ways else reason
