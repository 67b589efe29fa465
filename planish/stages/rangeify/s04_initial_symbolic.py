"""Stage 4, initial symbolic: the whole algebra, once, before ranges are shaped.

Why: division and remainder are slow and hide structure; most of what tensor indexing produces cancels.

Before → after::

    (i // 8) * 8 + i % 8             i

Would break without it: later stages compare and merge ranges by the form of indices, which must be normal.

Holds afterwards: no rule of `sym` fires.
"""

from __future__ import annotations

from planish.uop.node import UOp
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import sym


def initial_symbolic(sink: UOp) -> UOp:
    """Simplify."""
    return rewrite(sink, sym)
