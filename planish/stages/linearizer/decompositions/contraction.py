"""Multiply-add: where a product and a sum may be one op.

Integers always: a*b + c means the same either way. Floats by the float contract: a fused op rounds once where the program
rounds twice, so only a product that feeds a reduction is fused (the order of that sum is ours to choose anyway),
or any product where `contract` allows it. This comes before functions are expanded: their exact sums and
products must stay as they are.
"""

from __future__ import annotations

from planish.stages.linearizer.decompositions.support import Support
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, INTEGERS, anything, node
from planish.uop.reached import joined_by

_X, _Y, _Z = anything("x"), anything("y"), anything("z")
_PRODUCT = node(Ops.MUL, _X, _Y)


def _wide_enough(root: UOp) -> bool:
    """Narrow floats compute in float32, where the fused op would not be one instruction."""
    return root.dtype.bits >= 32


def register_of(place: UOp) -> UOp | None:
    """The accumulator that an INDEX addresses."""
    buffer = place.src[0] if place.op is Ops.INDEX else place
    while buffer.op is Ops.AFTER:
        buffer = buffer.src[0]
    return buffer if buffer.op is Ops.DEFINE_REG else None


def _accumulation(root: UOp) -> UOp | None:
    return _fused(root, lanes_apart=False)


def _fused(root: UOp, *, lanes_apart: bool) -> UOp | None:
    """acc = acc + x*y + … along the spine of sums from the store to the load of the same accumulator.

    `lanes_apart`: what is added is itself a sum of products, of neighbours that are values of their own; all go to the spine.
    """
    place, value, *gate = root.src
    register = register_of(place)
    if register is None or not value.dtype.is_float or not _wide_enough(value):
        return None
    added: list[UOp] = []
    spine = value
    while spine.op is Ops.ADD:
        left, right = spine.src
        if _leads_to(left, register):
            spine, other = left, right
        elif _leads_to(right, register):
            spine, other = right, left
        else:
            return None
        added.append(other)
    if lanes_apart:
        added = [term for other in added for term in _terms(other)]
    if not any(other.op is Ops.MUL for other in added):
        return None
    result = spine
    for other in reversed(added):
        result = other.src[0].alu(Ops.MULACC, other.src[1], result) if other.op is Ops.MUL else result + other
    return root.replace(src=(place, result, *gate))


def _accumulation_of_lanes(root: UOp) -> UOp | None:
    return _fused(root, lanes_apart=True)


def _terms(sum_: UOp) -> list[UOp]:
    """What a sum of products adds up, the last first; another value is one term."""
    terms = list(joined_by(Ops.ADD, sum_))
    return terms if all(term.op is Ops.MUL for term in terms) else [sum_]


def _leads_to(node: UOp, register: UOp) -> bool:
    """Whether sums lead from here to a load of the accumulator."""
    return any(
        term.op is Ops.LOAD and register_of(term.src[0]) is register for term in joined_by(Ops.ADD, node)
    )


def float_contraction(support: Support) -> list[Rule]:
    """The rules for floats; none without a fused multiply-add."""
    if not support.fused:
        return []
    rules = [
        rule(
            node(Ops.STORE),
            _accumulation_of_lanes if support.estimates else _accumulation,
            says="acc = acc + x*y -> acc = mulacc(x, y, acc)",
        )
    ]
    if support.contract:
        rules += [
            rule(
                _PRODUCT + _Z, node(Ops.MULACC, _X, _Y, _Z), when=_wide_enough, on=FLOAT,
                says="contract: x*y + z -> mulacc(x, y, z)",
            ),
            rule(
                _PRODUCT - _Z, node(Ops.MULACC, _X, _Y, -_Z), when=_wide_enough, on=FLOAT,
                says="contract: x*y - z -> mulacc(x, y, -z)",
            ),
            rule(
                node(Ops.SUB, _Z, _PRODUCT), node(Ops.MULACC, -_X, _Y, _Z), when=_wide_enough, on=FLOAT,
                says="contract: z - x*y -> mulacc(-x, y, z)",
            ),
        ]  # fmt: skip
    return rules


def integer_contraction(support: Support) -> list[Rule]:
    """a*b + c, wherever the target has it in one op."""
    if not support.fused:
        return []
    return [
        rule(
            _PRODUCT + _Z,
            node(Ops.MULACC, _X, _Y, _Z),
            on=INTEGERS,
            says="integer: x*y + z -> mulacc(x, y, z)",
        )
    ]
