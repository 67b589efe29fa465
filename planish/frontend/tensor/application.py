"""Ops applied to tensors: a node of the graph for each, with the types that PTIR infers, and its results as tensors.

Every operation of a program comes through here. Names become the versions they stand for; what is held as versions is
applied with `apply_versions`. Signatures that were seen before are found by the identity of types; what grows too deep
without anybody asking for elements is computed on the way.
"""

from __future__ import annotations

from typing import Final
from weakref import ref

from planish.errors import Location, PlanishError, call_site
from planish.frontend import devices
from planish.frontend.expression import SIGNATURES, Body, Node, Signature, current_scope
from planish.frontend.realize import DEEPEST, SIDE, settle_deep
from planish.frontend.tensor.array import Tensor
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef

_FAST: Final = SIGNATURES.fast
_new: Final = object.__new__


def apply(
    op: OpDef, *inputs: Tensor, attrs: Attrs = NO_ATTRS, bodies: tuple[Body, ...] = ()
) -> tuple[Tensor, ...]:
    """An op on tensors of exactly the types it takes; its results."""
    if op.num_results == 1 and not bodies:
        return (applied(op, inputs, attrs),)
    return _apply(op, tuple([x if x._latest is None else x.latest for x in inputs]), attrs, bodies)


def apply_versions(
    op: OpDef, *versions: Tensor, attrs: Attrs = NO_ATTRS, bodies: tuple[Body, ...] = ()
) -> tuple[Tensor, ...]:
    """An op on versions, whatever their names stand for by now; its results."""
    for x in versions:
        if x._latest is not None:
            return _apply(op, versions, attrs, bodies)
    return apply(op, *versions, attrs=attrs, bodies=bodies)


def _apply(
    op: OpDef, versions: tuple[Tensor, ...], attrs: Attrs, bodies: tuple[Body, ...]
) -> tuple[Tensor, ...]:
    node, device = _noted(op, versions, attrs, bodies)
    results = [Tensor(type, node=node, index=index, device=device) for index, type in enumerate(node.types)]
    node.made = tuple(map(ref, results))
    if node.depth >= DEEPEST and node.scope is None:
        settle_deep(results, node)
    return tuple(results)


def _noted(
    op: OpDef, given: tuple[Tensor, ...], attrs: Attrs, bodies: tuple[Body, ...]
) -> tuple[Node, str | None]:
    """An op applied to versions, and the device of its operands."""
    types = tuple([x._type for x in given])
    try:
        if bodies:
            signature = SIGNATURES.with_bodies(op, attrs, types, bodies)
        elif isinstance(attrs, ConstantAttrs):
            signature = SIGNATURES.constant(op, attrs)
        else:
            signature = SIGNATURES.find(op, attrs, types)
    except PlanishError as error:
        if error.location is None:
            error.location = Location.caller()
        raise
    node = Node(signature, given, bodies, 0, current_scope(), call_site())
    device = None
    for source in node.needs():
        source._used = True
        device = _joined(op, device, source._device)
        if source._node is not None:
            below, node.depth = sorted((source._node.depth, node.depth))
            node.depth += min(below, SIDE)
    node.depth += bool(given)  # constants are at the bottom, like data
    return node, device


def applied(op: OpDef, inputs: tuple[Tensor, ...], attrs: Attrs) -> Tensor:
    """An op with one result and no bodies."""
    if inputs:
        for x in inputs:
            if x._latest is not None:
                return applied(op, tuple([x.latest for x in inputs]), attrs)
        ids = [id(x._type) for x in inputs]
        signature = _FAST.get((op, *ids) if attrs is NO_ATTRS else (op, attrs, *ids))
        if signature is not None:
            return resulting(signature, inputs)
    node, device = _noted(op, inputs, attrs, ())
    result = Tensor(node.types[0], node=node, device=device)
    if node.depth >= DEEPEST and node.scope is None:
        settle_deep((result,), node)
    return result


def resulting(signature: Signature, inputs: tuple[Tensor, ...]) -> Tensor:
    """A known signature, of one result and no bodies, applied.

    Every operation of a program comes through here, so it is written out.
    """
    depth, device, last = 0, None, None
    for x in inputs:
        if x._latest is not None:
            return resulting(signature, tuple([x.latest for x in inputs]))
        x._used = True
        node = x._node
        if node is not None and node is not last:
            last, below = node, node.depth
            if below > depth:
                depth, below = below, depth
            depth += below if below < SIDE else SIDE
        if x._device is not device:
            device = _joined(signature.op, device, x._device)
    made = _new(Node)
    made.signature = signature
    made.inputs = inputs
    made.bodies = made.made = ()
    made.arrays = None
    made.depth = depth + 1
    made.scope = scope = current_scope()
    made.site = call_site()
    result = _new(Tensor)
    result._type = signature.types[0]
    result._storage = result._latest = None
    result._scope = scope
    result._node = made
    result._index = 0
    result._device = device
    result._used = False
    if depth >= DEEPEST - 1 and scope is None:
        settle_deep((result,), made)
    return result


def _joined(op: OpDef, one: str | None, other: str | None) -> str | None:
    """The device of operands, of which some may live anywhere."""
    return (
        one or other
        if one is None or other is None or one == other
        else devices.common_device(op.name, {one, other})
    )
