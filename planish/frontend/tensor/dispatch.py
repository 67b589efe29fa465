"""Remembered dispatch: what has to happen to the operands of a function before its op applies, worked out once per types.

Promotion and broadcasting depend on the types of operands alone, and programs apply the same functions to the same types over
and over. The first call prepares its operands the long way (with all checks and messages); what was done to them is kept
under their types, and done again without asking. Python numbers become constants of the shape and dtype that they are used in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from planish.errors import Location, PlanishError
from planish.frontend.expression import LazyValue, OpSignature
from planish.frontend.session import SESSION, current_scope
from planish.frontend.storage import Array
from planish.frontend.tensor.application import apply_one, resulting
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.weak import WeakTensor, stay_weak
from planish.ptir import ops
from planish.ptir.ops.definition import NO_ATTRS, ConstantAttrs, OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.types import TensorType
from planish.tracebacks import shorten

Operand: TypeAlias = Tensor | Scalar | Array
Steps: TypeAlias = tuple[OpSignature, ...]
"""Ops from one type to another."""
_LARGEST: Final = 4096
_NUMBERS: Final[dict[tuple[int, type, object], LazyValue]] = {}
"""Constants by the identity of their type. Each keeps its type alive."""
_ON_NUMBERS: Final = frozenset({ops.neg, ops.abs})
"""What Python itself does to a number."""
_PYTHON: Final = frozenset({bool, int, float, complex})


def number(type: TensorType, value: Scalar) -> LazyValue:
    """A number everywhere in a tensor of a static type."""
    kind = value.__class__
    # 0.0 and -0.0 are equal, and two constants
    key = (id(type), kind, value or str(value))
    eager = current_scope() is None
    if eager:
        known = _NUMBERS.get(key)
        if known is not None:
            return known
    try:
        literal = Literal.of_item(type.dtype, type.shape, type.dtype.const(value))
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    constant = apply_one(ops.constant, attrs=ConstantAttrs(literal))._value
    if eager and constant.type is type:
        if len(_NUMBERS) >= _LARGEST:
            _NUMBERS.clear()
        _NUMBERS[key] = constant
    return constant


def binary(
    op: OpDef, prepare: Callable[[Operand, Operand], Sequence[Tensor]], of_bools: OpDef | None = None
) -> Callable[[Operand, Operand], Tensor]:
    """An op on two operands that `prepare` makes into what it takes; another where these are bools."""
    pairs: dict[tuple[object, object], _PreparedPair] = {}

    def function(x1: Operand, x2: Operand, /) -> Tensor:
        try:
            if x1.__class__ is Tensor:
                left = x1._value
                if x2.__class__ is Tensor:
                    right = x2._value
                    pair = pairs.get((id(left.type), id(right.type)))
                    if pair is not None:
                        if pair.steps:
                            left, right = _ready(left, pair.left), _ready(right, pair.right)
                        return resulting(pair.signature, (left, right))
                else:
                    pair = pairs.get((id(left.type), x2.__class__))
                    if pair is not None:
                        right = number(pair.types[1], cast("Scalar", x2))
                        return resulting(pair.signature, (_ready(left, pair.left), right))
            elif x2.__class__ is Tensor:
                right = x2._value
                pair = pairs.get((x1.__class__, id(right.type)))
                if pair is not None:
                    left = number(pair.types[0], cast("Scalar", x1))
                    return resulting(pair.signature, (left, _ready(right, pair.right)))
            first, second = prepare(x1, x2)
            chosen = of_bools if of_bools is not None and first.dtype.is_bool else op
            result = apply_one(chosen, first, second)
        except Exception as error:
            shorten(error)
            raise
        if isinstance(x1, WeakTensor) or isinstance(x2, WeakTensor):
            return stay_weak(result, x1, x2)
        ways = _way(x1, first), _way(x2, second)
        if ways[0] is None or ways[1] is None or (x1.__class__ is not Tensor and x2.__class__ is not Tensor):
            return result
        if len(pairs) >= _LARGEST:
            pairs.clear()
        signature = SESSION.signatures.find(chosen, NO_ATTRS, (first._type, second._type))
        pairs[_key(x1), _key(x2)] = _PreparedPair(signature, ways[0], ways[1], (x1, x2))
        return function(x1, x2)  # so that the first expression is like all others

    return function


class _PreparedPair:
    """What is done to two operands of certain types."""

    __slots__ = ("kept", "left", "right", "signature", "steps", "types")

    def __init__(
        self, signature: OpSignature, left: Steps, right: Steps, operands: tuple[Operand, Operand]
    ) -> None:
        self.signature = signature
        self.left = left
        self.right = right
        self.steps = bool(left or right)
        self.types = signature.operands
        # The pair is found by the identity of these types: they have to stay theirs.
        self.kept = [x._type for x in operands if isinstance(x, Tensor)]


def unary(op: OpDef, prepare: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An op on one operand that `prepare` makes into what it takes."""
    known: dict[int, tuple[Steps, OpSignature, TensorType]] = {}

    def function(x: Tensor, /) -> Tensor:
        try:
            if x.__class__ is Tensor:
                entry = known.get(id(x._value.type))
                if entry is not None:
                    return resulting(entry[1], (_ready(x._value, entry[0]),))
            if isinstance(x, WeakTensor) and op in _ON_NUMBERS:
                return stay_weak(apply_one(op, x), x)
            ready = prepare(x)
            result = apply_one(op, ready)
        except Exception as error:
            shorten(error)
            raise
        way = _way(x, ready)
        if way is None or not isinstance(x, Tensor):
            return result
        if len(known) >= _LARGEST:
            known.clear()
        known[id(x._type)] = (way, SESSION.signatures.find(op, NO_ATTRS, (ready._type,)), x._type)
        return function(x)

    return function


def _ready(x: LazyValue, steps: Steps) -> LazyValue:
    """An operand as its op takes it."""
    for step in steps:
        x = resulting(step, (x,))._value
    return x


def _key(x: Operand) -> object:
    return id(x._type) if isinstance(x, Tensor) else x.__class__


def _way(given: Operand, ready: Tensor) -> Steps | None:
    """How an operand was made ready; None where that depends on more than its type. A number becomes a constant."""
    if given.__class__ is Tensor:
        start = given._value
        steps: list[OpSignature] = []
        now = ready._value
        while now is not start:
            node = now.node
            if node is None or len(node.inputs) != 1 or node.bodies or node.op.num_results != 1:
                return None
            steps.append(node.signature)
            now = node.inputs[0]
        return tuple(reversed(steps))
    if given.__class__ not in _PYTHON or not ready._type.is_static or ready._type.quant is not None:
        return None
    node, converted = ready._value.node, False
    while node is not None and node.op in (ops.broadcast_to, ops.cast):
        converted = converted or node.op is ops.cast
        node = node.inputs[0].node
    if node is None or node.op is not ops.constant:
        return None
    # An integer that is converted afterwards is the same number of that dtype; a truth value is not.
    if converted and not (given.__class__ is int and ready.dtype.is_float):
        return None
    return ()
