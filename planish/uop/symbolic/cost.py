"""What an expression costs to compute, as one number: the measure that simplification must not raise.

Weights stand for machine cycles in order of magnitude: a division or modulo outweighs everything that replaces
it, a product outweighs a few sums. They are counted once per distinct node (`cost`, what a kernel executes).

On `index`, a constant factor weighs what an addition does (it becomes a shift, a scaled address or the step of
a loop), so that `x + x` and `x*2` cost the same, and a factor of -1 is free: a sum with such a term is a subtraction.
Two forms of one sum then differ only if one of them really does more.
"""

from __future__ import annotations

from typing import Final

from planish.uop.node import UOp
from planish.uop.ops import ALU, COMPARISONS, UNARY, Ops

# a member of an enum costs more to look up than a name
_CONST, _MUL, _NEG = Ops.CONST, Ops.MUL, Ops.NEG

_WEIGHTS: Final[dict[Ops, int]] = {
    **dict.fromkeys(ALU, 1),
    **dict.fromkeys(UNARY, 20),
    **dict.fromkeys((Ops.NEG, Ops.NOT, Ops.ABS, Ops.CAST, Ops.BITCAST), 1),
    **dict.fromkeys((Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND, Ops.POPCOUNT, Ops.CLZ), 3),
    **dict.fromkeys((Ops.SQRT, Ops.RSQRT, Ops.RECIP, Ops.FDIV), 12),
    **dict.fromkeys((Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD), 12),
    **dict.fromkeys((Ops.POW, Ops.FMOD, Ops.ATAN2, Ops.THREEFRY), 40),
    **dict.fromkeys(COMPARISONS, 2),
    **dict.fromkeys((Ops.WHERE, Ops.MAX, Ops.MIN), 2),
    Ops.MUL: 3,
    Ops.MULACC: 4,
    Ops.LOAD: 20,
    Ops.STORE: 20,
    Ops.INDEX: 1,
}
DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD})


def weight(node: UOp) -> int:
    """What one node adds, without what it is made of."""
    if node.dtype.is_index:
        if node.op is _NEG:
            return 0
        if node.op is _MUL and node.src[1].op is _CONST:
            return 0 if node.src[1].arg == -1 else 1
    return _WEIGHTS.get(node.op, 0)


def _made_of(nodes: tuple[UOp, ...]) -> list[UOp]:
    """These and all that they are made of, each once."""
    seen = set(nodes)
    reached = list(seen)
    for node in reached:
        for source in node.src:
            if source not in seen:
                seen.add(source)
                reached.append(source)
    return reached


def cost(*nodes: UOp) -> int:
    """The weights of all distinct nodes that these are made of."""
    return sum(weight(node) for node in _made_of(nodes))


def division_count(*nodes: UOp) -> int:
    """How many distinct divisions and modulos there are."""
    return sum(1 for node in _made_of(nodes) if node.op in DIVISIONS)


def op_count(*nodes: UOp) -> int:
    """How many distinct ALU operations there are; a factor of -1 on `index` is not one."""
    return sum(1 for node in _made_of(nodes) if node.op in ALU and weight(node))
