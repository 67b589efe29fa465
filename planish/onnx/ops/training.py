"""Steps of optimisers, and gradients (ai.onnx.preview.training)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto

from planish import dtypes
from planish.frontend.autodiff.reverse import vjp
from planish.onnx.ops.common import scalar
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.function import Value
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.normalize import converted

_DOMAIN = "ai.onnx.preview.training"


def _lists(at: NodeSite, values: tuple[V, ...], kinds: int) -> list[tuple[V, ...]]:
    """Tensors, gradients and states come one list after the other: one tuple per tensor."""
    count = len(values) // kinds
    if count * kinds != len(values):
        raise at.refuse(f"{len(values)} tensors do not make lists of {kinds}")
    return [values[n::count] for n in range(count)]


def _in_order(results: Sequence[tuple[V, ...]]) -> tuple[V, ...]:
    return tuple(value for kind in zip(*results, strict=True) for value in kind)


def _everywhere(number: V, like: V) -> V:
    return converted(scalar(number), like.dtype).broadcast_to(like.dims)


@op("Adagrad", domain=_DOMAIN)
def adagrad(at: NodeSite, rate: V, step: V, *values: V) -> tuple[V, ...]:
    decay, epsilon = at.attr("decay_factor", 0.0), at.attr("epsilon", 0.0)
    norm = at.attr("norm_coefficient", 0.0)
    adjusted = scalar(rate).div(converted(scalar(step), rate.dtype).mul(decay).add(1.0))
    results = []
    for x, gradient, squares in _lists(at, values, 3):
        slope = x.mul(norm).add(gradient)
        sums = squares.add(slope.square())
        moved = _everywhere(adjusted, x).mul(slope).div(sums.sqrt().add(epsilon))
        results.append((x.sub(moved), sums))
    return _in_order(results)


@op("Adam", domain=_DOMAIN)
def adam(at: NodeSite, rate: V, step: V, *values: V) -> tuple[V, ...]:
    alpha, beta = at.attr("alpha", 0.9), at.attr("beta", 0.999)
    epsilon, norm = at.attr("epsilon", 0.0), at.attr("norm_coefficient", 0.0)
    after = at.attr("norm_coefficient_post", 0.0)
    time = converted(scalar(step), dtypes.float64)
    base = at.graph.full((), alpha, dtypes.float64), at.graph.full((), beta, dtypes.float64)
    left = [b.pow(time).neg().add(1.0) for b in base]
    wide = converted(scalar(rate), dtypes.float64)
    adjusted = time.gt(0.0).select(wide.mul(left[1].sqrt()).div(left[0]), wide)
    results = []
    for x, gradient, speed, squares in _lists(at, values, 4):
        slope = x.mul(norm).add(gradient)
        new_speed = speed.mul(alpha).add(slope.mul(1 - alpha))
        new_squares = squares.mul(beta).add(slope.square().mul(1 - beta))
        moved = _everywhere(adjusted, x).mul(new_speed.div(new_squares.sqrt().add(epsilon)))
        results.append((x.sub(moved).mul(1 - after), new_speed, new_squares))
    return _in_order(results)


@op("Momentum", domain=_DOMAIN)
def momentum(at: NodeSite, rate: V, step: V, *values: V) -> tuple[V, ...]:
    alpha, beta = at.attributes.require("alpha"), at.attributes.require("beta")
    norm, mode = at.attr("norm_coefficient", 0.0), at.attr("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise at.refuse(f"there is no mode {mode!r}")
    results = []
    for x, gradient, speed in _lists(at, values, 3):
        slope = x.mul(norm).add(gradient)
        # At the first step the gradient counts in full.
        first = scalar(step).gt(0).broadcast_to(x.dims)
        share = first.select(slope.mul(beta), slope)
        new_speed = speed.mul(alpha).add(share)
        direction = new_speed if mode == "standard" else slope.add(new_speed.mul(alpha))
        results.append((x.sub(_everywhere(rate, x).mul(direction)), new_speed))
    return _in_order(results)


@op("Gradient", domain=_DOMAIN, sequences=True)
def gradient(at: NodeSite, *values: Any) -> tuple[V, ...]:
    """The derivatives of one name by others, at the values given for these and for what else it depends on.

    The nodes between them are imported once more, as a function, and that is differentiated.
    """
    xs, zs, y = list(at.attributes.require("xs")), list(at.attr("zs") or []), at.attributes.require("y")
    names = [*xs, *zs]
    if len(values) != len(names) or any(value is None or isinstance(value, list) for value in values):
        raise at.refuse(f"{len(values)} values for {', '.join(names)}")
    given = [at.value(value) for value in values]
    types = {name: value.type for name, value in zip(names, given, strict=True)}
    function, arrays = at.engine.apart(at.scope, _between(at, names, y), types, y)
    pulled = vjp(function, range(len(xs)))
    (result,) = function.results
    dims = result.type.dims
    ones = at.graph.full(dims, 1, result.type.dtype)
    params = [*given, *(at.engine.segment.value(array) for array in arrays), ones]
    inside: dict[Value, V] = dict(zip(pulled.params, params, strict=True))
    for inst in pulled.body:
        if inst.regions:
            raise at.refuse(f"goes through {inst.op.name}, a region")
        copies = at.graph.emit_many(inst.op, [inside[value] for value in inst.operands], inst.attrs)
        inside.update(zip(inst.results, copies, strict=True))
    return tuple(inside[value] for value in pulled.results[1:])


def _between(at: NodeSite, names: Sequence[str], y: str) -> list[NodeProto]:
    """The nodes that lead from names to y, in order."""
    nodes = list(at.engine.nodes)
    makers = {output: n for n, node in enumerate(nodes) for output in node.output if output}
    needed: set[int] = set()
    waiting = [y]
    while waiting:
        name = waiting.pop()
        maker = makers.get(name)
        if name in names or maker is None or maker in needed or nodes[maker].op_type == "Constant":
            continue
        needed.add(maker)
        waiting += [each for each in nodes[maker].input if each]
    if not needed:
        raise at.refuse(f"no node makes {y!r}")
    return [nodes[n] for n in sorted(needed)]
