"""Forward mode: a function that also carries the tangents of its parameters to those of its results."""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import GraphError
from planish.frontend.autodiff.elementwise import DERIVATIVES
from planish.frontend.autodiff.linear import LINEAR
from planish.frontend.autodiff.replay import At, Values, captured, emit, is_differentiable, replay, zeros
from planish.frontend.autodiff.rules import FLAT, TANGENTS
from planish.ptir.builder import Graph
from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.types import TensorType

Tangents = dict[Value, GraphValue]


def jvp(function: Function, wrt: Sequence[int] | None = None) -> Function:
    """A function of the parameters and a tangent for each of `wrt`: the results, then a tangent for each that is a number
    of the reals or complex numbers."""
    chosen = _chosen(function, wrt)
    graph = Graph(f"{function.name}_jvp")
    values: Values = {p: graph.input(f"x{n}", p.type) for n, p in enumerate(function.params)}
    tangents: Tangents = {function.params[n]: graph.input(f"t{n}", function.params[n].type) for n in chosen}
    results = push(graph, function.body, values, tangents)
    own = [
        tangents[result] if result in tangents else zeros(graph, result.type)
        for result in function.results
        if is_differentiable(result.type)
    ]
    return graph.build(*results, *own)


def _chosen(function: Function, wrt: Sequence[int] | None) -> list[int]:
    if wrt is None:
        return [n for n, param in enumerate(function.params) if is_differentiable(param.type)]
    for number in wrt:
        if not is_differentiable(function.params[number].type):
            raise GraphError(
                f"{function.name}: parameter {number} is {function.params[number].type}, which has no derivative",
                remedy="differentiate with respect to floats or complex numbers",
            )
    return list(wrt)


def push(graph: Graph, region: Region, values: Values, tangents: Tangents) -> tuple[GraphValue, ...]:
    """Emit a region with its tangents; both maps are filled."""
    for inst in region:
        inner = any(value in tangents for r in inst.regions for value in captured(r))
        if inst.op.name in FLAT or not (inner or any(operand in tangents for operand in inst.operands)):
            emit(graph, inst, values)
            continue
        control = _CONTROL.get(inst.op.name)
        if control is not None:
            control(graph, inst, values, tangents)
            continue
        emit(graph, inst, values)
        _push_one(At.of(graph, inst, values), tangents)
    return tuple(values[result] for result in region.results)


def _push_one(at: At, tangents: Tangents) -> None:
    inst = at.inst
    given = [tangents.get(operand) for operand in inst.operands]
    own = TANGENTS.get(inst.op.name)
    if own is not None:
        filled = [
            zeros(at.graph, x.type) if t is None and is_differentiable(x.type) else t
            for t, x in zip(given, at.x, strict=True)
        ]
        for result, tangent in zip(inst.results, own(at, filled), strict=True):
            if tangent is not None:
                tangents[result] = tangent
        return
    derivatives = DERIVATIVES.get(inst.op.name)
    total: GraphValue | None = None
    if derivatives is not None:
        for scale, t in zip(derivatives, given, strict=True):
            if scale is not None and t is not None:
                part = scale(t, at)
                total = part if total is None else total.add(part)
    elif inst.op.name in LINEAR:
        total = LINEAR[inst.op.name].push(at, given)
    else:
        raise GraphError(
            f"{inst.op.name} has no derivative rule", op=inst.op.name, location=inst.loc,
            remedy="wrap it in stop_gradient, or give it one with custom_jvp or custom_vjp",
        )  # fmt: skip
    if total is not None:
        tangents[inst.results[0]] = total


# -- control flow ----------------------------------------------------------------------------------------------


def _active(region: Region, given: Sequence[bool], tangents: Tangents) -> list[bool]:
    """Which results of a region carry tangents if these arguments do."""
    live: set[Value] = {arg for arg, flag in zip(region.args, given, strict=True) if flag}
    live |= set(tangents)
    _spread(region, live)
    return [result in live for result in region.results]


def _spread(region: Region, live: set[Value]) -> None:
    for inst in region:
        if inst.op.name in FLAT:
            continue
        inside = any(value in live for r in inst.regions for value in captured(r))
        if inside or any(operand in live for operand in inst.operands):
            live.update(result for result in inst.results if is_differentiable(result.type))


def _fixpoint(region: Region, carried: int, given: list[bool], tangents: Tangents) -> list[bool]:
    """Which carries have tangents, once those that a step gives them are counted."""
    while True:
        after = _active(region, given, tangents)[:carried]
        wider = [a or b for a, b in zip(given[:carried], after, strict=True)]
        if wider == given[:carried]:
            return given
        given = [*wider, *given[carried:]]


def _with_tangents(
    graph: Graph, region: Region, flags: Sequence[bool], wanted: Sequence[bool], values: Values, tangents: Tangents,
    args: Sequence[GraphValue], own: Sequence[GraphValue],
) -> tuple[list[GraphValue], list[GraphValue]]:  # fmt: skip
    """The body of a region with tangents of some arguments: results, and the tangents of those wanted."""
    inner = values | dict(zip(region.args, args, strict=True))
    moving = dict(tangents)
    flagged = [arg for arg, flag in zip(region.args, flags, strict=True) if flag]
    moving.update(zip(flagged, own, strict=True))
    results = list(push(graph, region, inner, moving))
    out = [
        moving[result] if result in moving else zeros(graph, result.type)
        for result, flag in zip(region.results, wanted, strict=True)
        if flag
    ]
    return results, out


def _push_cond(graph: Graph, inst: Inst, values: Values, tangents: Tangents) -> None:
    first, second = inst.regions
    wanted = [
        a or b for a, b in zip(_active(first, (), tangents), _active(second, (), tangents), strict=True)
    ]

    def branch(region: Region) -> tuple[GraphValue, ...]:
        results, own = _with_tangents(graph, region, (), wanted, values, tangents, (), ())
        return (*results, *own)

    made = graph.cond(values[inst.operands[0]], lambda: branch(first), lambda: branch(second))
    _store(inst, made, wanted, values, tangents)


def _store(
    inst: Inst, made: Sequence[GraphValue], wanted: Sequence[bool], values: Values, tangents: Tangents
) -> None:
    count = len(inst.results)
    values.update(zip(inst.results, made[:count], strict=True))
    flagged = [result for result, flag in zip(inst.results, wanted, strict=True) if flag]
    tangents.update(zip(flagged, made[count:], strict=True))


def _push_while(graph: Graph, inst: Inst, values: Values, tangents: Tangents) -> None:
    condition, body = inst.regions
    flags = [operand in tangents for operand in inst.operands]
    flags = _fixpoint(body, len(flags), flags, tangents)
    init = [values[operand] for operand in inst.operands]
    moving = [
        tangents[operand] if operand in tangents else zeros(graph, operand.type)
        for operand, flag in zip(inst.operands, flags, strict=True)
        if flag
    ]
    count = len(init)

    def test(*args: GraphValue) -> GraphValue:
        return replay(graph, condition, values | dict(zip(condition.args, args[:count], strict=True)))[0]

    def step(*args: GraphValue) -> tuple[GraphValue, ...]:
        results, own = _with_tangents(
            graph, body, flags, flags, values, tangents, args[:count], args[count:]
        )
        return (*results, *own)

    _store(inst, graph.while_loop(test, step, *init, *moving), flags, values, tangents)


def _push_scan(graph: Graph, inst: Inst, values: Values, tangents: Tangents) -> None:
    attrs: ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries
    flags = _fixpoint(body, carried, [operand in tangents for operand in inst.operands], tangents)
    wanted = [*flags[:carried], *_active(body, flags, tangents)[carried:]]

    def own_of(operands: Sequence[Value], own: Sequence[bool]) -> list[GraphValue]:
        return [
            tangents[operand] if operand in tangents else zeros(graph, operand.type)
            for operand, flag in zip(operands, own, strict=True)
            if flag
        ]

    init, sequences = inst.operands[:carried], inst.operands[carried:]
    moving, moving_slices = own_of(init, flags[:carried]), own_of(sequences, flags[carried:])
    count, length = len(moving), len(sequences)

    def step(*args: GraphValue) -> tuple[GraphValue, ...]:
        carries, rest = args[:carried], args[carried:]
        tangents_of_carries, rest = rest[:count], rest[count:]
        slices, tangents_of_slices = rest[:length], rest[length:]
        results, own = _with_tangents(
            graph, body, flags, wanted, values, tangents,
            (*carries, *slices), (*tangents_of_carries, *tangents_of_slices),
        )  # fmt: skip
        return (*results[:carried], *own[:count], *results[carried:], *own[count:])

    made = graph.scan(
        step,
        [*(values[v] for v in init), *moving],
        [*(values[v] for v in sequences), *moving_slices],
        attrs.length,
        attrs.reverse,
    )
    outputs = len(inst.results) - carried
    order = [*made[:carried], *made[carried + count : carried + count + outputs]]
    own = [*made[carried : carried + count], *made[carried + count + outputs :]]
    _store(inst, [*order, *own], wanted, values, tangents)


_CONTROL = {"cond": _push_cond, "while": _push_while, "scan": _push_scan}


def tangent_type(type: TensorType) -> TensorType:
    """The type of a tangent: that of the value."""
    return type
