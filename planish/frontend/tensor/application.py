"""Ops applied to tensors: a node of the graph for each, with the types that PTIR infers, and its results as tensors.

Every operation of a program comes through here. Signatures that were seen before are found by the identity of types; what grows
too deep without anybody asking for elements is computed on the way.
"""

from __future__ import annotations

from typing import Final
from weakref import ref

from planish.errors import Location, PlanishError, call_site
from planish.frontend.devices import common_device
from planish.frontend.expression import LazyValue, Node, OpSignature, TracedBody
from planish.frontend.session import DEEPEST, SESSION, SIDE, current_scope
from planish.frontend.tensor.array import Tensor
from planish.ptir import ops
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef

_SIGNATURES: Final = SESSION.signatures
_FAST: Final = _SIGNATURES.fast
_new: Final = object.__new__


def apply(
    op: OpDef, *inputs: Tensor, attrs: Attrs = NO_ATTRS, bodies: tuple[TracedBody, ...] = ()
) -> tuple[Tensor, ...]:
    """An op on tensors of exactly the types it takes; its results."""
    if op.num_results == 1 and not bodies:
        return (applied(op, inputs, attrs),)
    return _results(op, inputs, attrs, bodies)


def apply_one(op: OpDef, *inputs: Tensor, attrs: Attrs = NO_ATTRS) -> Tensor:
    """An op with one result and no bodies on tensors of exactly the types it takes."""
    return applied(op, inputs, attrs)


def applied(op: OpDef, inputs: tuple[Tensor, ...], attrs: Attrs) -> Tensor:
    """`apply_one`, where signatures that were seen are found at once."""
    if inputs:
        ids = [id(x._value.type) for x in inputs]
        signature = _FAST.get((op, *ids) if attrs is NO_ATTRS else (op, attrs, *ids))
        if signature is not None:
            return resulting(signature, tuple([x._value for x in inputs]))
    return _results(op, inputs, attrs, ())[0]


def _results(
    op: OpDef, inputs: tuple[Tensor, ...], attrs: Attrs, bodies: tuple[TracedBody, ...]
) -> tuple[Tensor, ...]:
    given = tuple([x._value for x in inputs])
    types = tuple([x.type for x in given])
    try:
        if bodies:
            signature = _SIGNATURES.with_bodies(op, attrs, types, bodies)
        elif isinstance(attrs, ConstantAttrs):
            signature = _SIGNATURES.constant(op, attrs)
        else:
            signature = _SIGNATURES.find(op, attrs, types)
    except PlanishError as error:
        if error.location is None:
            error.location = Location.caller()
        raise
    node = Node()
    node.signature = signature
    node.inputs = given
    node.bodies = bodies
    node.depth = 0
    node.scope = current_scope()
    node.site = call_site()
    node.name = node.origin = device = None
    for source in node.needs():
        source.shared = True
        device = _joined(op, device, source.device)
        if source.node is not None:
            below, node.depth = sorted((source.node.depth, node.depth))
            node.depth += min(below, SIDE)
    node.depth += bool(given)  # constants are at the bottom, like data
    values = [
        LazyValue.of(type, node=node, index=index, device=device)
        for index, type in enumerate(signature.types)
    ]
    results = tuple([Tensor(value) for value in values])
    node.others = tuple(map(ref, results))
    if (bodies or op is ops.custom_call) and node.effects:
        if node.scope is None:
            SESSION.evaluate(values)
        elif not bodies:
            node.scope.token = values[-1]
    if node.depth >= DEEPEST:
        SESSION.settle_deep(values, node)
    return results


def resulting(signature: OpSignature, given: tuple[LazyValue, ...]) -> Tensor:
    """A known signature, of one result and no bodies, applied.

    Every operation of a program comes through here, so it is written out.
    """
    depth, device, last = 0, None, None
    for x in given:
        node = x.node
        x.shared = True
        if node is not None and node is not last:
            last, below = node, node.depth
            if below > depth:
                depth, below = below, depth
            depth += below if below < SIDE else SIDE
        if x.device is not device:
            device = _joined(signature.op, device, x.device)
    new_node = Node()
    new_node.signature = signature
    new_node.inputs = given
    new_node.bodies = new_node.others = ()
    new_node.origin = None
    new_node.depth = depth + 1
    new_node.scope = scope = current_scope()
    new_node.site = call_site()
    value = LazyValue()
    value.type = signature.types[0]
    value.storage = None
    value.node = new_node
    value.index = 0
    value.device = device
    value.shared = False
    result = _new(Tensor)
    result._value = value
    result._scope = scope
    new_node.name = ref(result)
    if depth >= DEEPEST - 1:
        SESSION.settle_deep((value,), new_node)
    return result


def _joined(op: OpDef, one: str | None, other: str | None) -> str | None:
    """The device of operands, of which some may live anywhere."""
    return (
        one or other if one is None or other is None or one == other else common_device(op.name, {one, other})
    )
