"""Stage 16, post-index symbolic: the algebra on machine integers, once indices have a width.

Why: lowering indices and cutting vectors leaves sums of constants and lane selections that cancel. This is the last look
before ops are decomposed. The middle tier: loops and memory keep the shape that earlier stages gave them.

Before → after::

    (i + 16) + 16 : i32              i + 32
    gep(cat(a, b), 16 … 31)          b

Would break without it: nothing; the code would do more than it has to.

Holds afterwards: no rule of `symbolic` fires.
"""

from __future__ import annotations

from planish.uop.node import UOp
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import symbolic


def post_index_symbolic(sink: UOp) -> UOp:
    """Simplify."""
    return rewrite(sink, symbolic)
