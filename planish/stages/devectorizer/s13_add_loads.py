"""Stage 13, add loads: an INDEX used as a value becomes a LOAD of the place it names.

Why: until here `buffer[i]` is both the place and the value there; code needs to know which accesses read memory.

Before → after::

    ADD(INDEX(a, i), x)              ADD(LOAD(INDEX(a, i)), x)
    STORE(INDEX(c, i), y)            STORE(INDEX(c, i), y)

Would break without it: a store would read the place it is about to write.

Holds afterwards: every INDEX is a place (a pointer), read by LOAD, written by STORE.
"""

from __future__ import annotations

from planish.dtypes import PtrDType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite


def _load(root: UOp) -> UOp | None:
    buffer = root.src[0].dtype
    if root.dtype.is_pointer or not isinstance(buffer, PtrDType):
        return None
    return root.table.make(Ops.LOAD, root.dtype, (root.replace(dtype=buffer),))


pm_add_loads = Matcher(
    "pm_add_loads",
    [
        rule(node(Ops.INDEX), _load, says="INDEX(b, i) -> LOAD(INDEX(b, i))"),
        rule(
            node(Ops.STORE, node(Ops.LOAD, anything("place"), rest=True), anything("x"), rest=True),
            lambda root, place: root.replace(src=(place, *root.src[1:])),
            says="STORE(LOAD(place), x) -> STORE(place, x)",
        ),
    ],
)


def add_loads(sink: UOp) -> UOp:
    """Make reads of memory explicit."""
    return rewrite(sink, pm_add_loads)
