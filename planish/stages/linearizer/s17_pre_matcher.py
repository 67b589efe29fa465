"""Stage 17, pre-matcher: a target's own rules, before ops are decomposed.

Why: once an exponential is a polynomial, nobody finds it again. A machine with an instruction for a whole expression says so
here (`Target.pre_matcher`), while the expression still stands. Most machines have nothing to say; those with AVX-512 scale by
powers of two (`planish/target/powers.py`).

Before → after (AVX-512)::

    x * exp2(cast(n))                scale(x, cast(n))       n an 8-bit integer
    exp2(floor(x))                   scale(1, x)

Would break without it: nothing; special instructions would not be used.

Holds afterwards: no rule of the target fires, and the graph is still one that stage 18 takes.
"""

from __future__ import annotations

from planish.target import Target
from planish.uop.node import UOp
from planish.uop.rewrite import rewrite


def pre_matcher(sink: UOp, target: Target) -> UOp:
    """Apply the target's own rules, if it has any."""
    return sink if target.pre_matcher is None else rewrite(sink, target.pre_matcher)
