"""Stage 2, load collapse: a REDUCE whose result can be computed without iterating does not iterate.

Why: "how many k below 64 are at least n", "the element whose number is n", "the sum of the first n numbers" are written
as loops over a condition by one-hot encodings, masks and index arithmetic. The answer is a formula or one load.

How, for one range r of a REDUCE at a time: what does not depend on r is replaced by fresh variables with its bounds
(or, for floats and bools, by elements of memory of their own), so that only the question about r is left. `pm_reduce_collapse`,
together with the whole algebra, is applied to that. If no range and no REDUCE remain, the inputs are put back and the
result takes the place of the loop; otherwise nothing changes.

Before → after::

    sum(where(n <= k, 1, 0), k < 64)           max(64 - max(n, 0), 0)
    sum(where(k == i, x[k], 0), k < 10)        where(0 <= i < 10, x[i if 0 <= i < 10], 0)          (a gather)
    sum(k, k < n)                              n*(n - 1) // 2
    max(where(n <= k, a, MIN), k < 64)         where(n < 64, a, MIN)

Floats only where not a single rounding differs. A gather adds one element to zeros: that is the element, plus
0.0 (as -0.0 would become). A product with 0 or 1 is not a select on floats, because 0 times infinity or NaN is NaN. A
constant is counted while its multiples are exact.

The index of a gathered load comes from data, so it carries its own validity: outside the range it loads nothing.
A part that contains a store, or another loop over r, is left alone.

Would break without it: nothing; but an embedding lookup would read the whole table for every row.

Holds afterwards: no REDUCE is left that these rules can do without.
"""

from __future__ import annotations

from functools import reduce as fold_left
from typing import Final, NamedTuple, cast

from planish.dtypes import DType
from planish.stages.rangeify.counting import (
    IDEMPOTENT,
    Span,
    pm_reduce_unused,
    repeated,
    solved,
)
from planish.uop.kernel_algebra import kernel_sym, simplified
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, COMPARISONS, CONSTANTS, Ops, Variable
from planish.uop.pattern import INTEGERS, NodePattern, anything, constant, node, where
from planish.uop.reached import joined_by
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic.cast import exact_integers, holds
from planish.uop.symbolic.conditions import conjuncts
from planish.uop.symbolic.reduce import identity

_INPUT: Final = "_input"
_FIRST_SLOT: Final = 1 << 30
"""Memory that stands for float and bool inputs is numbered from here, away from the kernel's own."""
_MOST_NODES: Final = 512
"""Larger questions are not asked: the answer would hardly be a formula."""
_INSIDE: Final = ALU | {Ops.CAST, Ops.BITCAST, Ops.INDEX}
_LEAVES: Final = CONSTANTS | {Ops.INVALID, Ops.DEFINE_VAR}
_INDEX_LIMIT: Final = 1 << 62


# -- the question about one range --------------------------------------------------------------------------------


class Question(NamedTuple):
    """A REDUCE over one range, and what its stand-ins stand for."""

    reduce: UOp
    inputs: dict[UOp, UOp]


def isolate(op: Ops, value: UOp, r: UOp) -> Question | None:
    """What depends on r alone, all else replaced; None if it cannot or need not be asked."""
    inside = [n for n in value.toposort(lambda n: r in n.ranges) if r in n.ranges and n is not r]
    if len(inside) > _MOST_NODES or any(n.op not in _INSIDE for n in inside):
        return None
    asks = any(n.op in COMPARISONS or n.op is Ops.WHERE for n in inside)
    if not asks and any(n.op is Ops.INDEX for n in inside):
        return None  # a plain sum of elements
    stand_ins: dict[UOp, UOp] = {}
    for each in (*(s for n in inside for s in n.src), r.src[0], *(() if inside or value is r else (value,))):
        if r in each.ranges or each.op in _LEAVES or each.dtype.is_pointer or each in stand_ins:
            if isinstance(each.arg, Variable) and each.arg.name.startswith(_INPUT):
                return None
            continue
        stand_ins[each] = _stand_in(each, len(stand_ins))
    bound = stand_ins.get(r.src[0])
    if bound is not None:
        stand_ins[r] = r.replace(src=(bound,))
    asked = substitute(value, stand_ins).reduce(op, stand_ins.get(r, r))
    return Question(asked, {stand_in: each for each, stand_in in stand_ins.items()})


def _stand_in(value: UOp, number: int) -> UOp:
    table, dtype = value.table, value.dtype
    if dtype.is_integral and dtype.lanes == 1:
        return table.variable(f"{_INPUT}{number}", value.vmin, value.vmax, dtype)
    memory = table.param(_FIRST_SLOT + number, dtype.scalar, 1)
    return table.make(Ops.INDEX, dtype, (memory, table.const(0)))


def _collapse(root: UOp) -> UOp | None:
    x, *ranges = root.src
    op = cast("Ops", root.arg)
    if root.dtype is not x.dtype or any(r.op is not Ops.RANGE for r in ranges):
        return None
    for r in ranges:
        others = tuple(other for other in ranges if other is not r)
        if len(r.src) > 1 or any(r in other.ranges for other in others):
            continue
        question = isolate(op, x, r)
        if question is None:
            continue
        answer = rewrite(question.reduce, pm_reduce_collapse)
        if any(n.op in {Ops.RANGE, Ops.REDUCE} for n in answer.toposort()):
            continue
        collapsed = simplified(substitute(answer, question.inputs))
        return collapsed.reduce(op, *others) if others else collapsed
    return None


# -- answers: all rules are about REDUCE(x, r) with one range ----------------------------------------------------


def _one_range(root: UOp) -> UOp | None:
    r = root.src[-1]
    return r if len(root.src) == 2 and r.op is Ops.RANGE and root.dtype is root.src[0].dtype else None


def _is_exact(op: Ops, dtype: DType) -> bool:
    """Whether a reduction may be done in any order and grouping without a change."""
    return not (dtype.is_float or dtype.is_complex) or op in {Ops.MAX, Ops.MIN}


def _again(root: UOp, x: UOp) -> UOp:
    return root.replace(src=(x, *root.src[1:]))


def _nothing(root: UOp) -> UOp | None:
    """The identity of a REDUCE's op, as a constant."""
    value = identity(cast("Ops", root.arg), root)
    return None if value is None else root.const_like(value)


def _is_nothing(root: UOp, x: UOp) -> bool:
    if x.op is Ops.CONST and root.arg is Ops.ADD:
        return x.arg == 0  # -0.0 too: sums start from 0.0
    return x is _nothing(root)


def _distribute(root: UOp) -> UOp | None:
    """Σ (x + y) = Σ x + Σ y, and so for every op that may be regrouped."""
    op = cast("Ops", root.arg)
    x = root.src[0]
    if _one_range(root) is None or not _is_exact(op, root.dtype):
        return None
    if x.op is op:
        return _again(root, x.src[0]).alu(op, _again(root, x.src[1]))
    if op is Ops.ADD and x.op is Ops.SUB:
        return _again(root, x.src[0]) - _again(root, x.src[1])
    if op is Ops.ADD and x.op is Ops.NEG:
        return -_again(root, x.src[0])
    return None


def _convert_after(root: UOp, x: UOp) -> UOp | None:
    """Σ cast(x) = cast(Σ x) for index x, where neither side rounds: integers wrap alike, small floats are whole."""
    r = _one_range(root)
    if r is None or not x.dtype.is_index:
        return None
    total = max(abs(x.vmin), abs(x.vmax)) * max(r.vmax + 1, 1)
    dtype = root.dtype
    if root.arg is Ops.ADD:
        fits = total < _INDEX_LIMIT and (dtype.is_int or (dtype.is_float and total <= exact_integers(dtype)))
    else:
        fits = root.arg in {Ops.MAX, Ops.MIN} and holds(dtype, x) and r.src[0].vmin >= 1
    return x.reduce(cast("Ops", root.arg), r).cast(dtype) if fits else None


def _convert_select(root: UOp, p: UOp, x: UOp, c: UOp) -> UOp | None:
    """where(p, cast(x), 0) = cast(where(p, x, 0)), so that `_convert_after` sees it."""
    if root.arg is not Ops.ADD or not x.dtype.is_index or c.arg != 0:
        return None
    converted = p.where(x, 0).cast(root.dtype)
    return _convert_after(_again(root, converted), converted.src[0])


def _sum_of_numbers(root: UOp) -> UOp | None:
    """The range itself: Σ r = n(n - 1)/2, max r = n - 1, min r = 0."""
    r = _one_range(root)
    if r is None or root.src[0] is not r or r.vmax >= 1 << 31:
        return None
    size = r.src[0]
    if root.arg is Ops.ADD:
        n = size.max(0)
        return n * (n - 1) // 2
    if size.vmin < 1:
        return None
    return {Ops.MAX: size - 1, Ops.MIN: root.const_like(0)}.get(cast("Ops", root.arg))


def _select_factor(root: UOp) -> UOp | None:
    """Σ x·bool = Σ where(bool, x, 0): on floats only for a constant x >= 0, since 0·x need not be 0."""
    r = _one_range(root)
    if r is None or root.arg is not Ops.ADD:
        return None
    factors = list(joined_by(Ops.MUL, root.src[0]))
    for position, factor in enumerate(factors):
        if r not in factor.ranges:
            continue
        condition, chosen = _as_select(root, factor)
        if condition is None:
            continue
        rest = factors[:position] + factors[position + 1 :]
        if root.dtype.is_float:
            finite = all(x.op is Ops.CONST and 0 <= cast("float", x.arg) < float("inf") for x in rest)
            if not finite or len(rest) > 1:
                return None
        product = fold_left(lambda x, y: x * y, rest, chosen)
        return _again(root, condition.where(product, product.const_like(0)))
    return None


def _as_select(root: UOp, factor: UOp) -> tuple[UOp | None, UOp]:
    """A factor that is x where a condition holds, else 0."""
    if factor.op is Ops.CAST and factor.src[0].dtype.is_bool:
        return factor.src[0], factor.const_like(1)
    if factor.op is Ops.WHERE and factor.src[2] is factor.const_like(0) and not root.dtype.is_float:
        return factor.src[0], factor.src[1]
    return None, factor


def _exists(root: UOp) -> UOp | None:
    """any(p) and all(p) of a condition on r."""
    r = _one_range(root)
    if r is None or not root.dtype.is_bool or root.arg not in {Ops.OR, Ops.AND}:
        return None
    if root.arg is Ops.OR:
        gathered = _gather(root, r, root.src[0], root.const_like(True), negated=False)
        if gathered is not None:
            return gathered
    span = Span.of(root.src[0], r, negated=root.arg is Ops.AND)
    if span is None:
        return None
    exists = _all((span.low < span.high, *span.others))
    return exists.logical_not() if root.arg is Ops.AND else exists


def _all(conditions: tuple[UOp, ...]) -> UOp:
    return fold_left(lambda p, q: p & q, conditions)


def _choose(root: UOp, p: UOp, x: UOp, y: UOp) -> UOp | None:
    """REDUCE(where(p, x, y), r), by what p says about r."""
    r = _one_range(root)
    if r is None:
        return None
    if r not in p.ranges:
        return p.where(_again(root, x), _again(root, y))
    nothing = _nothing(root)
    if nothing is None:
        return None
    if _is_nothing(root, y):
        return _where_holds(root, r, p, x, negated=False)
    if _is_nothing(root, x):
        return _where_holds(root, r, p, y, negated=True)
    op = cast("Ops", root.arg)
    if not _is_exact(op, root.dtype):
        return None
    return _again(root, p.where(x, nothing)).alu(op, _again(root, p.where(nothing, y)))


def _where_holds(root: UOp, r: UOp, p: UOp, x: UOp, *, negated: bool) -> UOp | None:
    """x combined over the r for which p (or not p) holds."""
    gathered = _gather(root, r, p, x, negated)
    if gathered is not None:
        return gathered
    span = Span.of(p, r, negated)
    if span is None:
        return None
    op, nothing = cast("Ops", root.arg), cast("UOp", _nothing(root))
    if r not in x.ranges:
        if op in IDEMPOTENT:
            return _all((span.low < span.high, *span.others)).where(x, nothing)
        result = repeated(op, x, span.length)
    elif op is Ops.ADD and x is r and r.vmax < 1 << 31:
        result = (span.low + span.high - 1) * span.length // 2
    else:
        return None
    return result if result is None or not span.others else _all(span.others).where(result, nothing)


def _gather(root: UOp, r: UOp, p: UOp, x: UOp, negated: bool) -> UOp | None:
    """Where p says r == e, x there, if e is a value of r."""
    parts = [p] if negated else conjuncts(p) or []
    for part in parts:
        e = solved(part, r, negated) if r in part.ranges else None
        if e is None:
            continue
        inside = (e >= 0) & (e < r.src[0])
        chosen = _at(x, r, e, inside)
        others = [_at(other, r, e, inside) for other in parts if other is not part]
        is_element = x.op is Ops.INDEX and r in x.src[1].ranges and not others
        if root.arg is Ops.ADD and root.dtype.is_float:
            chosen = chosen + 0.0  # as the sum with zeros would: -0.0 becomes 0.0
        nothing = cast("UOp", _nothing(root))
        # an element that is loaded only inside is 0 outside already
        return chosen if is_element and nothing.arg == 0 else _all((inside, *others)).where(chosen, nothing)
    return None


def _at(x: UOp, r: UOp, e: UOp, inside: UOp) -> UOp:
    """x with r := e; what is loaded at an index that depends on r is loaded only where e is a value of r."""
    final = {r: e}
    for each in x.toposort(lambda n: r in n.ranges):
        if each is r or r not in each.ranges:
            continue
        sources = [final.get(s, s) for s in each.src]
        if each.op is Ops.INDEX:
            sources[1:] = [
                s if s.dtype.is_bool or old is s else inside.where(s, s.table.invalid(s.dtype))
                for s, old in zip(sources[1:], each.src[1:], strict=True)
            ]
        final[each] = each.replace(src=tuple(sources))
    return final.get(x, x)


# -- comparisons of user integers as comparisons of index values -------------------------------------------------


def _compare_left(root: UOp, x: UOp, y: UOp) -> UOp | None:
    index = _lifted(x, y)
    return None if index is None else root.replace(src=(x, index))


def _compare_right(root: UOp, x: UOp, y: UOp) -> UOp | None:
    index = _lifted(x, y)
    return None if index is None else root.replace(src=(index, x))


def _lifted(x: UOp, y: UOp) -> UOp | None:
    """y as an index value, to be compared with the index x instead of with its conversion."""
    return y.cast(x.dtype) if x.dtype.is_index and y.op is not Ops.CONST and holds(y.dtype, x) else None


def _compute_as_index(root: UOp) -> UOp | None:
    """Integer arithmetic on converted index values that cannot wrap is index arithmetic."""
    if not any(s.op is Ops.CAST and s.src[0].dtype.is_index for s in root.src):
        return None
    operands = []
    for s in root.src:
        if s.op is Ops.CONST:
            operands.append(root.table.const(cast("int", s.arg)))
        elif s.op is Ops.CAST and s.src[0].dtype.is_index and holds(s.dtype, s.src[0]):
            operands.append(s.src[0])
        else:
            return None
    exact = operands[0].alu(root.op, *operands[1:])
    return exact.cast(root.dtype) if holds(root.dtype, exact) else None


_x, _y, _p = anything("x"), anything("y"), anything("p")
_converted: Final[NodePattern] = node(Ops.CAST, _x)


def _reduction(operand: NodePattern) -> NodePattern:
    return node(Ops.REDUCE, operand, rest=True)


pm_lift_to_index: Final = Matcher(
    "pm_lift_to_index",
    [
        rule(node(COMPARISONS, _converted, _y), _compare_left, on=INTEGERS, says="int(x) ? y -> x ? index(y), x kept by int"),
        rule(node(COMPARISONS, _y, _converted), _compare_right, on=INTEGERS, says="y ? int(x) -> index(y) ? x, x kept by int"),
        rule(node((Ops.ADD, Ops.SUB, Ops.MUL)), _compute_as_index, on=INTEGERS, says="int(x) + int(y) -> int(x + y), which fits"),
    ],
)  # fmt: skip

pm_reduce_answers: Final = Matcher(
    "pm_reduce_answers",
    [
        rule(_reduction(anything()), _sum_of_numbers, says="sum(r, r) -> n*(n - 1)//2; max -> n - 1, min -> 0"),
        rule(_reduction(anything()), _exists, says="any(low <= r < high, r) -> low < high; all alike"),
        rule(_reduction(_converted), _convert_after, says="sum(cast(x), r) -> cast(sum(x, r)), x an index, exact"),
        rule(_reduction(where(_p, _converted, constant("c"))), _convert_select, says="sum(where(p, cast(x), 0), r) -> cast(sum(where(p, x, 0), r))"),
        rule(_reduction(where(_p, _x, _y)), _choose, says="reduce(where(p(r), x, y), r) -> counted, gathered or split"),
        rule(_reduction(anything()), _select_factor, says="sum(x * bool, r) -> sum(where(bool, x, 0), r)"),
        rule(_reduction(anything()), _distribute, says="reduce(x ∘ y, r) -> reduce(x, r) ∘ reduce(y, r), ∘ exact"),
    ],
)  # fmt: skip

pm_reduce_collapse: Final = kernel_sym + pm_reduce_unused + pm_lift_to_index + pm_reduce_answers

pm_load_collapse: Final = Matcher(
    "pm_load_collapse",
    [rule(_reduction(anything()), _collapse, says="reduce(x, r) -> formula or gather, if no loop over r is needed")],
)  # fmt: skip


def load_collapse(sink: UOp) -> UOp:
    """Do without the loops of reductions that have an answer."""
    return rewrite(sink, pm_load_collapse)
