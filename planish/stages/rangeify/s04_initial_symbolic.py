"""Stage 4, initial symbolic: the whole algebra, once, before ranges are shaped.

Why: division and remainder are slow and hide structure; most of what tensor indexing produces cancels.

Before → after::

    (i // 8) * 8 + i % 8             i
    END(x, o*4 + i)                  END(x, o, i)                (`pm_flatten_range`)

Would break without it: later stages compare and merge ranges by the form of indices, which must be normal.

Holds afterwards: no rule of `sym` fires; END and REDUCE list ranges only.
"""

from __future__ import annotations

from planish.uop.kernel_algebra import kernel_sym
from planish.uop.node import UOp
from planish.uop.rewrite import rewrite


def initial_symbolic(sink: UOp) -> UOp:
    """Simplify."""
    return rewrite(sink, kernel_sym)
