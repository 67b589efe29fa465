"""Stage 3, split ranges: a range seen through a remainder becomes an outer and an inner one.

Why: `r % 4` hides that r runs over groups of 4. As two ranges the index is a plain sum again: the inner range can become
lanes, the outer can be spread over cores, and stage 5 sees what is contiguous.

How: the remainders are only collected (`pm_split_ranges`, context: range → divisors), and the SINK exchanges all ranges
at once. Divisors that divide each other and the size are used together: `r % 12` and `r % 4` give three ranges. Of
divisors that do not, the smaller wins, so the result does not depend on what was seen first. Ranges whose size is not
a number, or is not divisible, stay as they are, and so do ranges that a SCAN runs along. Where several ops close a range
they all close its parts; a BUFFERIZE goes on to store at the same place.

Before → after::

    x[r % 4], r = RANGE(12)          x[(o*4 + i) % 4], o = RANGE(3), i = RANGE(4)        (stage 4: x[i])
    END(e, r)                        END(e, o, i)

Would break without it: indices keep their remainders, nothing merges or vectorises; results would be right, and slow.

Holds afterwards: END and REDUCE list ranges only; no RANGE of constant size stands in a remainder that divides it.
"""

from __future__ import annotations

from typing import Final, cast

from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import NUMBERED, Axis, AxisType, Ops
from planish.uop.pattern import constant, node
from planish.uop.rewrite import rewrite, substitute

Divisors = dict[UOp, set[int]]

_GIVEN: Final = frozenset({AxisType.WARP})
"""Axes whose size belongs to the hardware."""


def _collect(r: UOp, c: UOp, ctx: Divisors) -> None:
    """Note a remainder; nothing changes before the SINK is reached."""
    size, divisor = r.src[0].arg, cast("int", c.arg)
    if len(r.src) > 1 or not isinstance(size, int) or cast("Axis", r.arg).kind in _GIVEN:
        return
    if 1 < divisor < size and size % divisor == 0:
        ctx.setdefault(r, set()).add(divisor)


def _split(r: UOp, divisors: set[int]) -> UOp:
    """The range as a sum of ranges, one per step from divisor to divisor."""
    steps = [1]
    for divisor in sorted(divisors):
        if divisor % steps[-1] == 0:
            steps.append(divisor)
    axis, table = cast("Axis", r.arg), r.table
    bound = cast("int", r.src[0].arg)
    total: UOp | None = None
    # two parts are the outer and the inner one, of more each has a number
    for number, step in enumerate(reversed(steps), NUMBERED if len(steps) > 2 else 0):
        part = table.range(bound // step, axis.part(number))
        term = part * step if step > 1 else part
        total = term if total is None else total + term
        bound = step
    return cast("UOp", total)


def _exchange(root: UOp, ctx: Divisors) -> UOp | None:
    if not ctx:
        return None
    # a running reduction follows one range: two would be two of them
    scanned = {n.src[1] for n in root.toposort() if n.op is Ops.SCAN}
    parts = {r: _split(r, divisors) for r, divisors in ctx.items() if r not in scanned}
    ctx.clear()  # what was collected is done: the new SINK is offered again
    return substitute(root, parts)


pm_split_ranges: Final = Matcher(
    "pm_split_ranges",
    [
        rule(
            node(Ops.FLOORMOD, node(Ops.RANGE, name="r"), constant("c")),
            _collect,
            says="r % c: r is to be split by c, where c divides its size",
        ),
        rule(node(Ops.SINK), _exchange, says="sink: r -> o*c + i for all ranges to be split"),
    ],
)


_RULES: Final = pm_split_ranges + pm_flatten_range


def split_ranges(sink: UOp) -> UOp:
    """Split ranges at the remainders that are taken of them."""
    return rewrite(sink, _RULES, {})
