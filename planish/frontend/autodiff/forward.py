"""Forward mode: a function that also carries the tangents of its parameters to those of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planish.frontend.autodiff.instruction import RuleSite, added, is_differentiable, no_rule, zeros
from planish.frontend.autodiff.reverse import differentiable_parameters
from planish.frontend.autodiff.rules import (
    DERIVATIVES,
    KNOWN,
    LINEAR,
    RULES,
    emit_moving,
    is_flat,
    reads,
    spread,
)
from planish.frontend.autodiff.sweep import transposed
from planish.frontend.replay import Replay, Values, emit, inlined, replay
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.control import ScanAttrs

Tangents = dict[Value, GraphValue]


def jvp(function: Function | Program, wrt: Sequence[int] | None = None) -> Function:
    """The results, then a tangent for each that is a float or complex number: a function of parameters and tangents.

    There is a tangent for each parameter in `wrt`, by default for every one that is a float or complex number.
    """
    function = inlined(function, KNOWN)
    chosen = differentiable_parameters(function, wrt)
    graph = Replay(f"{function.name}_jvp")
    values: Values = {p: graph.input(f"x{n}", p.type) for n, p in enumerate(function.params)}
    tangents: Tangents = {function.params[n]: graph.input(f"t{n}", function.params[n].type) for n in chosen}
    results = push(graph, function.body, values, tangents)
    moved = [
        tangents[result] if result in tangents else zeros(graph, result.type)
        for result in function.results
        if is_differentiable(result.type)
    ]
    return graph.build(*results, *moved)


def push(graph: Replay, region: Region, values: Values, tangents: Tangents) -> tuple[GraphValue, ...]:
    """Emit a region with its tangents; both maps are filled."""
    for inst in region:
        if is_flat(inst) or not any(value in tangents for value in reads(inst)):
            emit(graph, inst, values)
            continue
        graph.loc = inst.loc
        control = _CONTROL.get(inst.op.name)
        if control is not None:
            control(graph, inst, values, tangents)
        else:
            emit_moving(graph, inst, values)
            _push_one(RuleSite.of(graph, inst, values), tangents)
    return tuple(values[result] for result in region.results)


def _push_one(at: RuleSite, tangents: Tangents) -> None:
    inst = at.inst
    given = [tangents.get(operand) for operand in inst.operands]
    name = inst.op.name
    total: GraphValue | None = None
    if name in RULES:
        filled = [
            zeros(at.graph, x.type) if t is None and is_differentiable(x.type) else t
            for t, x in zip(given, at.x, strict=True)
        ]
        for result, tangent in zip(inst.results, RULES[name][0](at, filled), strict=True):
            if tangent is not None:
                tangents[result] = tangent
        return
    if name in DERIVATIVES:
        for scale, t in zip(DERIVATIVES[name], given, strict=True):
            if scale is not None and t is not None:
                total = added(total, scale(t, at))
    elif name in LINEAR:
        total = LINEAR[name].push(at, given)
    else:
        raise no_rule(
            inst, f"{name} has no derivative", "wrap it in stop_gradient, or give it one with custom_jvp"
        )
    if total is not None:
        tangents[inst.results[0]] = total


# -- regions ---------------------------------------------------------------------------------------------------


def _active(region: Region, given: Sequence[bool], tangents: Tangents) -> list[bool]:
    """Which results of a region carry tangents if these arguments do."""
    live: set[Value] = {arg for arg, flag in zip(region.args, given, strict=True) if flag}
    live |= set(tangents)
    spread(region, live)
    return [result in live for result in region.results]


def _fixpoint(region: Region, carried: int, given: list[bool], tangents: Tangents) -> list[bool]:
    """Which carries have tangents, once those that a step gives them are counted."""
    while True:
        after = _active(region, given, tangents)[:carried]
        wider = [a or b for a, b in zip(given[:carried], after, strict=True)]
        if wider == given[:carried]:
            return given
        given = [*wider, *given[carried:]]


def _flagged(items: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    return [item for item, flag in zip(items, flags, strict=True) if flag]


def _tangents_of(graph: Replay, values: Sequence[Value], tangents: Tangents) -> list[GraphValue]:
    return [tangents[value] if value in tangents else zeros(graph, value.type) for value in values]


def _pushed_region(
    graph: Replay, region: Region, flags: Sequence[bool], wanted: Sequence[bool], values: Values, tangents: Tangents,
    args: Sequence[GraphValue], own: Sequence[GraphValue],
) -> tuple[list[GraphValue], list[GraphValue]]:  # fmt: skip
    """The body of a region with tangents of some arguments: results, and the tangents of those wanted."""
    inner = values | dict(zip(region.args, args, strict=True))
    moving = tangents | dict(zip(_flagged(region.args, flags), own, strict=True))
    results = list(push(graph, region, inner, moving))
    return results, _tangents_of(graph, _flagged(region.results, wanted), moving)


def _store(
    inst: Inst, both: Sequence[GraphValue], wanted: Sequence[bool], values: Values, tangents: Tangents
) -> None:
    count = len(inst.results)
    values.update(zip(inst.results, both[:count], strict=True))
    tangents.update(zip(_flagged(inst.results, wanted), both[count:], strict=True))


def _push_cond(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    first, second = inst.regions
    pairs = zip(_active(first, (), tangents), _active(second, (), tangents), strict=True)
    wanted = [a or b for a, b in pairs]

    def branch(region: Region) -> tuple[GraphValue, ...]:
        results, own = _pushed_region(graph, region, (), wanted, values, tangents, (), ())
        return (*results, *own)

    both = graph.cond(values[inst.operands[0]], lambda: branch(first), lambda: branch(second))
    _store(inst, both, wanted, values, tangents)


def _push_while(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    condition, body = inst.regions
    flags = [operand in tangents for operand in inst.operands]
    flags = _fixpoint(body, len(flags), flags, tangents)
    init = [values[operand] for operand in inst.operands]
    moving = _tangents_of(graph, _flagged(inst.operands, flags), tangents)
    count = len(init)

    def test(*args: GraphValue) -> GraphValue:
        return replay(graph, condition, values | dict(zip(condition.args, args[:count], strict=True)))[0]

    def step(*args: GraphValue) -> tuple[GraphValue, ...]:
        results, own = _pushed_region(graph, body, flags, flags, values, tangents, args[:count], args[count:])
        return (*results, *own)

    _store(inst, graph.while_loop(test, step, *init, *moving), flags, values, tangents)


def _push_scan(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    attrs: ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries
    flags = _fixpoint(body, carried, [operand in tangents for operand in inst.operands], tangents)
    wanted = [*flags[:carried], *_active(body, flags, tangents)[carried:]]
    init, sequences = inst.operands[:carried], inst.operands[carried:]
    moving = _tangents_of(graph, _flagged(init, flags[:carried]), tangents)
    moving_slices = _tangents_of(graph, _flagged(sequences, flags[carried:]), tangents)
    count, length = len(moving), len(sequences)

    def step(*args: GraphValue) -> tuple[GraphValue, ...]:
        carries, rest = args[:carried], args[carried:]
        tangents_of_carries, rest = rest[:count], rest[count:]
        slices, tangents_of_slices = rest[:length], rest[length:]
        results, own = _pushed_region(
            graph, body, flags, wanted, values, tangents,
            (*carries, *slices), (*tangents_of_carries, *tangents_of_slices),
        )  # fmt: skip
        return (*results[:carried], *own[:count], *results[carried:], *own[count:])

    both = graph.scan(
        step,
        [*(values[v] for v in init), *moving],
        [*(values[v] for v in sequences), *moving_slices],
        attrs.length,
        attrs.reverse,
    )
    outputs = len(inst.results) - carried
    order = [*both[:carried], *both[carried + count : carried + count + outputs]]
    own = [*both[carried : carried + count], *both[carried + count + outputs :]]
    _store(inst, [*order, *own], wanted, values, tangents)


def _push_checkpoint(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    """One that holds the tangents too: what the way back over it computes again is both. So for what is guarded."""
    (body,) = inst.regions
    flags = [operand in tangents for operand in inst.operands]
    wanted = _active(body, flags, tangents)
    moving = _tangents_of(graph, _flagged(inst.operands, flags), tangents)
    given = [values[operand] for operand in inst.operands]
    count = len(given)

    def build(*args: GraphValue) -> tuple[GraphValue, ...]:
        results, own = _pushed_region(
            graph, body, flags, wanted, values, tangents, args[:count], args[count:]
        )
        return (*results, *own)

    region = graph.build_region(inst.op, build, [value.type for value in (*given, *moving)])
    both = graph.emit_many(inst.op, (*given, *moving), inst.attrs, (region,))
    _store(inst, both, wanted, values, tangents)


def _push_custom_jvp(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    rule = inst.regions[1]
    moving = _tangents_of(graph, [v for v in inst.operands if is_differentiable(v.type)], tangents)
    args = [*(values[operand] for operand in inst.operands), *moving]
    both = replay(graph, rule, values | dict(zip(rule.args, args, strict=True)))
    _store(inst, both, [is_differentiable(result.type) for result in inst.results], values, tangents)


def _push_custom_vjp(graph: Replay, inst: Inst, values: Values, tangents: Tangents) -> None:
    """The rule says how cotangents go back; how tangents go is the transpose of that."""
    _, forward, backward = inst.regions
    given = [values[operand] for operand in inst.operands]
    outputs = replay(graph, forward, values | dict(zip(forward.args, given, strict=True)))
    count = len(inst.results)
    results, kept = outputs[:count], outputs[count:]
    moving = _tangents_of(graph, [v for v in inst.operands if is_differentiable(v.type)], tangents)
    own = transposed(graph, backward, values, kept, backward.results, moving)
    wanted = [is_differentiable(result.type) for result in inst.results]
    _store(inst, [*results, *own], wanted, values, tangents)


_CONTROL: Final[Mapping[str, Callable[[Replay, Inst, Values, Tangents], None]]] = {
    "cond": _push_cond,
    "while": _push_while,
    "scan": _push_scan,
    "checkpoint": _push_checkpoint,
    "guarded": _push_checkpoint,
    "custom_jvp": _push_custom_jvp,
    "custom_vjp": _push_custom_vjp,
}
