"""Stage 13, add loads: an INDEX used as a value becomes a LOAD of the place it names.

Why: until here `buffer[i]` is both the place and the value there; code needs to know which accesses read memory.

Before → after::

    ADD(INDEX(a, i), x)              ADD(LOAD(INDEX(a, i)), x)
    STORE(INDEX(c, i), y)            STORE(INDEX(c, i), y)
    WMMA(INDEX(m, i), …)             WMMA(INDEX(m, i), …)         of a core that reads LOCAL memory itself
    INDEX(a, n - 1), n in 0..3       LOAD(INDEX(a, n - 1, -1 < n - 1))

A place that could lie before its buffer is that of loops which do not run then (the last of n elements, where n is 0). What does not change
in a loop is loaded in front of it, whether it runs or not: so such a place has a gate.

Would break without it: a store would read the place it is about to write.

Holds afterwards: every INDEX is a place (a pointer), read by LOAD, written by STORE.
"""

from __future__ import annotations

from typing import Final, cast

from planish.dtypes import PtrDType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops, TensorCoreOp
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite
from planish.uop.tensor_cores import MATRICES, core_of

_OBSERVED: Final = frozenset({Ops.AFTER, Ops.NOOP})


def _load(root: UOp) -> UOp | None:
    buffer = root.src[0].dtype
    if root.dtype.is_pointer or not isinstance(buffer, PtrDType):
        return None
    if len(root.src) == 2 and _may_be_before(index := root.src[1]):
        root = root.replace(src=(*root.src, index.const_like(-1) < index))
    return root.table.make(Ops.LOAD, root.dtype, (root.replace(dtype=buffer),))


def _may_be_before(index: UOp) -> bool:
    """Whether an index without a gate is below 0 for some sizes."""
    if not index.dtype.is_index or index.vmin >= 0:
        return False
    ops = {node.op for node in index.toposort()}
    return Ops.DEFINE_VAR in ops and Ops.INVALID not in ops


def _place(root: UOp) -> UOp | None:
    """What a STORE writes to is a place: the load that its INDEX became is taken off again."""
    chain = [root.src[0]]
    while chain[-1].op in _OBSERVED and chain[-1].src:
        chain.append(chain[-1].src[0])
    if chain[-1].op is not Ops.LOAD:
        return None
    place = chain.pop().src[0]
    for observed in reversed(chain):
        place = observed.replace(dtype=place.dtype, src=(place, *observed.src[1:]))
    return root.replace(src=(place, *root.src[1:]))


def _operands(root: UOp) -> UOp | None:
    """What a core reads from LOCAL memory is a place: it loads by itself."""
    core = core_of(cast("TensorCoreOp", root.arg))
    if core is None or not core.reads_memory:
        return None
    src = tuple(
        source.src[0] if core.in_memory(matrix) and source.op is Ops.LOAD else source
        for matrix, source in zip(MATRICES, root.src, strict=False)
    )
    return None if src == root.src else root.replace(src=src)


pm_add_loads = Matcher(
    "pm_add_loads",
    [
        rule(node(Ops.INDEX), _load, says="INDEX(b, i) -> LOAD(INDEX(b, i))"),
        rule(node(Ops.STORE), _place, says="STORE(LOAD(place), x) -> STORE(place, x)"),
        rule(
            node(Ops.WMMA),
            _operands,
            says="WMMA(LOAD(place), …) -> WMMA(place, …), of operands in LOCAL memory",
        ),
    ],
)


def add_loads(sink: UOp) -> UOp:
    """Make reads of memory explicit."""
    return rewrite(sink, pm_add_loads)
