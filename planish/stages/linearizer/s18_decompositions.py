"""Stage 18, decompositions: ops the machine lacks, in terms of ops it has.

Why: no CPU has an exponential, a floor division or a shift by more than the width; a call per element would end
vectorisation. Everything here is straight-line arithmetic on any number of lanes: no calls, no loops, selects
instead of branches. `docs/math.md` states how far each function may be from the exact result, and how that is tested.

Before → after::

    exp(x)                           2**n * p(x - n ln2)              polynomials, bits and pairs of floats
    x // 8, x % 8, x * 8             x >> 3, x & 7, x << 3
    x // 10                          (x * 205) >> 11                  0 <= x <= 1028; the magic number follows the bounds of x
    x // y                           truncdiv(x, y), corrected where signs differ; no zero or overflow reaches the machine
    x << y                           0 <= y < 32 ? x << (y & 31) : 0
    acc[0] = acc[0] + a*b            acc[0] = mulacc(a, b, acc[0])    floats: only what feeds a reduction, unless `contract`
    a*b + c                          mulacc(a, b, c)                  integers
    ~(x < y)                         y <= x                           integers

Of a function that a kernel uses very often the op stays, to be called (`calls`).

In four steps, each a fixpoint of its own: contraction (on what the program says, before functions bring exact sums of
their own), `pm_decomp` with the simple algebra, guards (which must see final divisors and amounts), and late forms
(which the algebra would undo).

That `pm_decomp` ends: there is an order of what it rewrites (an op, on narrow or wide numbers, by what kind of divisor) in which every
rule leads to lower things only, and the algebra makes nothing higher than what it replaces. A function leads to arithmetic, a narrow
float to a wide one, floor division to truncation and never back. `tests/stages/test_s18_order.py` finds the order for each target.

Would break without it: code generation has no template for these ops, and integer division would trap.

Holds afterwards: every ALU op is one of the target's or called (integers below 8 bits and floats below 32 aside, which the
target computes in wider registers); every shift amount and divisor is proved or guarded. Running it again changes nothing.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final, NamedTuple

from planish.dtypes import DType
from planish.stages.linearizer.calls import NO_CALLS, Calls, calls_in, kernel
from planish.stages.linearizer.decompositions.bits import SHIFT_GUARDS, SHIFTS, bit_rules
from planish.stages.linearizer.decompositions.contraction import float_contraction, integer_contraction
from planish.stages.linearizer.decompositions.division import (
    CONSTANT_DIVISORS,
    DIVISION_GUARDS,
    FLOOR_BY_TRUNCATION,
)
from planish.stages.linearizer.decompositions.functions import function_rules
from planish.stages.linearizer.decompositions.plain import condition_rules, plain_rules
from planish.stages.linearizer.decompositions.powers import is_short_power
from planish.stages.linearizer.decompositions.support import CPU, Support
from planish.target import Target
from planish.uop.matcher import Matcher, Rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import symbolic_simple


class Fixpoint(NamedTuple):
    """One fixpoint: its matcher, and the ops without which it has nothing to do."""

    matcher: Matcher
    roots: frozenset[Ops]


def _step(name: str, rules: list[Rule], around: Matcher | None = None) -> Fixpoint:
    roots = frozenset(op for rule_ in rules for v in rule_.variants for op in v.pattern.ops or ())
    matcher = Matcher(name, rules)
    return Fixpoint(matcher if around is None else Matcher(name, (*around, *rules)), roots)


def _decompositions(support: Support) -> list[Rule]:
    divisions = FLOOR_BY_TRUNCATION
    if Ops.SHR in support.ops:
        # The machine's own truncating division is slower than a product, too.
        divisions = [*CONSTANT_DIVISORS, *divisions]
    kept = support.ops & {Ops.FLOORDIV, Ops.FLOORMOD}
    return [
        *function_rules(support),
        *bit_rules(support),
        *(rule_ for rule_ in divisions if not kept.intersection(rule_.left.ops or ())),
    ]


def _late(support: Support) -> list[Rule]:
    shifts = [SHIFTS] if Ops.SHL in support.ops else []
    return [*shifts, *integer_contraction(support), *plain_rules(support), *condition_rules(support)]


@cache
def steps(support: Support) -> tuple[Fixpoint, ...]:
    """The steps of this stage for a target, in order."""
    return (
        _step("pm_contract", float_contraction(support)),
        _step("pm_decomp", _decompositions(support), symbolic_simple),
        _step("pm_guard", [*DIVISION_GUARDS, *SHIFT_GUARDS]),
        _step("pm_late", _late(support)),
    )


pm_decomp: Final = steps(CPU)[1].matcher
"""What a CPU lacks, with the simple algebra."""


def decompositions(
    sink: UOp, target: Target | Support | frozenset[Ops] | None = None, *, calls: bool = True
) -> UOp:
    """Rewrite what the target lacks; without one, what a CPU lacks. An op among `target`'s is left alone.

    So is a function of which there are too many, to be called; not without `calls`.
    """
    support = _support(target)
    called = NO_CALLS
    if calls and support.calls:
        nodes = [node for node in sink.toposort() if not is_short_power(node, support)]
        called = calls_in(nodes, partial(_size, support))
    return _decomposed(sink, support, called)


def _decomposed(sink: UOp, support: Support, calls: Calls) -> UOp:
    for matcher, roots in steps(support):
        if not roots.isdisjoint(node.op for node in sink.toposort()):
            sink = rewrite(sink, matcher, calls)
    return sink


@cache
def _size(support: Support, op: Ops, dtype: DType) -> int:
    """How many nodes a function becomes; 1 if the target has it."""
    if not support.lacks(op):
        return 1
    with Table() as table:
        return len(_decomposed(kernel(op, dtype, table), support, NO_CALLS).toposort())


def _support(target: Target | Support | frozenset[Ops] | None) -> Support:
    if target is None:
        return CPU
    if isinstance(target, Target):
        return Support.of(target)
    return target if isinstance(target, Support) else Support(target)
