"""Reverse mode: a function that also pulls the cotangents of its results back to its parameters.

Conventions are torch's: the cotangent of a complex value is conjugate to its derivative, so that a step against it descends.
A loop keeps the carried values of its steps and computes each step again on the way back; everything else that the way back
needs is kept or computed again as the compiler sees fit, since both ways are one program.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import GraphError
from planish.frontend.autodiff.elementwise import DERIVATIVES
from planish.frontend.autodiff.forward import _chosen, _spread
from planish.frontend.autodiff.linear import LINEAR
from planish.frontend.autodiff.replay import At, Values, captured, is_differentiable, replay, zeros
from planish.frontend.autodiff.rules import COTANGENTS, FLAT
from planish.ptir.builder import Graph
from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.control import ScanAttrs


def vjp(function: Function, wrt: Sequence[int] | None = None) -> Function:
    """A function of the parameters and a cotangent for each float or complex result: the results, then a gradient for each
    parameter in `wrt` (by default every one that has a derivative)."""
    chosen = _chosen(function, wrt)
    graph = Graph(f"{function.name}_vjp")
    values: Values = {p: graph.input(f"x{n}", p.type) for n, p in enumerate(function.params)}
    given = {
        n: graph.input(f"c{n}", result.type)
        for n, result in enumerate(function.results)
        if is_differentiable(result.type)
    }
    results = replay(graph, function.body, values)
    wanted = [function.params[n] for n in chosen]
    pulled = Cotangents(graph)
    for n, cotangent in given.items():
        pulled.add(function.results[n], cotangent)
    pull(graph, function.body, values, pulled, set(wanted))
    return graph.build(*results, *(pulled.of(param) for param in wanted))


class Cotangents:
    """What has come back to each value so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found: dict[Value, GraphValue] = {}

    def add(self, value: Value, cotangent: GraphValue) -> None:
        before = self.found.get(value)
        self.found[value] = cotangent if before is None else before.add(cotangent)

    def of(self, value: Value) -> GraphValue:
        found = self.found.get(value)
        return zeros(self.graph, value.type) if found is None else found


def pull(graph: Graph, region: Region, values: Values, pulled: Cotangents, wanted: set[Value]) -> None:
    """Walk a region backwards; only what depends on the wanted values is followed."""
    live = {value for value in wanted if is_differentiable(value.type)}
    _spread(region, live)
    for inst in reversed(list(region)):
        if inst.op.name in FLAT or not any(result in pulled.found for result in inst.results):
            continue
        inside = [value for r in inst.regions for value in captured(r)]
        if not any(value in live for value in (*inst.operands, *inside)):
            continue
        control = _CONTROL.get(inst.op.name)
        if control is not None:
            control(graph, inst, values, pulled, live)
        else:
            _pull_one(At.of(graph, inst, values), pulled, live)


def _pull_one(at: At, pulled: Cotangents, live: set[Value]) -> None:
    inst, name = at.inst, at.inst.op.name
    needs = [operand in live for operand in inst.operands]
    own = COTANGENTS.get(name)
    if own is not None:
        found = own(at, [pulled.of(r) if is_differentiable(r.type) else None for r in inst.results], needs)
        for operand, cotangent, need in zip(inst.operands, found, needs, strict=True):
            if need and cotangent is not None:
                pulled.add(operand, cotangent)
        return
    (result,) = inst.results
    cotangent = pulled.of(result)
    derivatives = DERIVATIVES.get(name)
    if derivatives is not None:
        for operand, scale, need in zip(inst.operands, derivatives, needs, strict=True):
            if need and scale is not None:
                pulled.add(operand, _conjugated(scale, cotangent, at))
    elif name in LINEAR:
        for position, cotangent_of in LINEAR[name].pull(at, cotangent, needs):
            pulled.add(inst.operands[position], cotangent_of)
    else:
        raise GraphError(
            f"{name} has no derivative rule", op=name, location=inst.loc,
            remedy="wrap it in stop_gradient, or give it one with custom_vjp",
        )  # fmt: skip


def _conjugated(scale: object, cotangent: GraphValue, at: At) -> GraphValue:
    if not cotangent.dtype.is_complex:
        return scale(cotangent, at)  # type: ignore[operator,no-any-return] # a Scaled
    return scale(cotangent.conj(), at).conj()  # type: ignore[operator,no-any-return]


# -- control flow ----------------------------------------------------------------------------------------------


def _moving(region: Region, live: set[Value]) -> list[Value]:
    """What a region sees from outside that gradients are wanted for."""
    return [value for value in captured(region) if value in live]


def _pull_cond(graph: Graph, inst: Inst, values: Values, pulled: Cotangents, live: set[Value]) -> None:
    outside = list(dict.fromkeys(value for region in inst.regions for value in _moving(region, live)))
    given = {result: pulled.of(result) for result in inst.results if is_differentiable(result.type)}

    def branch(region: Region) -> list[GraphValue]:
        inner: Values = dict(values)
        replay(graph, region, inner)
        own = Cotangents(graph)
        for result, outer in zip(region.results, inst.results, strict=True):
            if outer in given:
                own.add(result, given[outer])
        pull(graph, region, inner, own, set(outside))
        return [own.of(value) for value in outside]

    first, second = inst.regions
    if not outside:
        return
    made = graph.cond(values[inst.operands[0]], lambda: branch(first), lambda: branch(second))
    for value, cotangent in zip(outside, made, strict=True):
        pulled.add(value, cotangent)


def _pull_while(graph: Graph, inst: Inst, values: Values, pulled: Cotangents, live: set[Value]) -> None:
    raise GraphError(
        "a while loop has no reverse derivative: the number of its steps is not known beforehand",
        op="while",
        location=inst.loc,
        remedy="use scan or fori_loop with a fixed number of steps, give while_loop a bound with max_steps=, or use jvp",
    )


def _pull_scan(graph: Graph, inst: Inst, values: Values, pulled: Cotangents, live: set[Value]) -> None:
    attrs: ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries
    init, sequences = inst.operands[:carried], inst.operands[carried:]
    outside = _moving(body, live)
    flags = [is_differentiable(value.type) for value in init]
    slices = [value in live for value in sequences]
    kept = _kept_carries(graph, inst, body, attrs, values)
    ends = [pulled.of(r) for r, flag in zip(inst.results[:carried], flags, strict=True) if flag]
    outputs = [r for r in inst.results[carried:] if is_differentiable(r.type)]
    stacked = [pulled.of(r) for r in outputs]
    totals = [zeros(graph, value.type) for value in outside]
    moving = len(ends)

    def step(*args: GraphValue) -> list[GraphValue]:
        coming, sums = list(args[:moving]), list(args[moving : moving + len(totals)])
        rest = args[moving + len(totals) :]
        before, given, own_outputs = (
            rest[:carried], rest[carried : carried + len(sequences)], rest[carried + len(sequences) :],
        )  # fmt: skip
        inner: Values = values | dict(zip(body.args, (*before, *given), strict=True))
        replay(graph, body, inner)
        own = Cotangents(graph)
        floats = [r for r, flag in zip(body.results[:carried], flags, strict=True) if flag]
        for result, cotangent in zip(floats, coming, strict=True):
            own.add(result, cotangent)
        differentiable = [r for r in body.results[carried:] if is_differentiable(r.type)]
        for result, cotangent in zip(differentiable, own_outputs, strict=True):
            own.add(result, cotangent)
        carries = [arg for arg, flag in zip(body.args[:carried], flags, strict=True) if flag]
        wanted_slices = [arg for arg, flag in zip(body.args[carried:], slices, strict=True) if flag]
        pull(graph, body, inner, own, {*carries, *wanted_slices, *outside})
        return [
            *(own.of(arg) for arg in carries),
            *(total.add(own.of(value)) for total, value in zip(sums, outside, strict=True)),
            *(own.of(arg) for arg in wanted_slices),
        ]

    made = graph.scan(
        step,
        [*ends, *totals],
        [*kept, *(values[v] for v in sequences), *stacked],
        attrs.length,
        not attrs.reverse,
    )
    rest = list(made)
    for value, flag in zip(init, flags, strict=True):
        if flag:
            cotangent = rest.pop(0)
            if value in live:
                pulled.add(value, cotangent)
    for value in outside:
        pulled.add(value, rest.pop(0))
    for value, flag in zip(sequences, slices, strict=True):
        if flag:
            pulled.add(value, rest.pop(0))


def _kept_carries(graph: Graph, inst: Inst, body: Region, attrs: ScanAttrs, values: Values) -> list[GraphValue]:
    """The carried values at the start of every step, from a loop like the first that stacks them."""
    carried = attrs.num_carries
    if not carried:
        return []

    def step(*args: GraphValue) -> list[GraphValue]:
        inner: Values = values | dict(zip(body.args, args, strict=True))
        results = replay(graph, body, inner)
        return [*results[:carried], *args[:carried]]

    operands = [values[operand] for operand in inst.operands]
    made = graph.scan(step, operands[:carried], operands[carried:], attrs.length, attrs.reverse)
    return list(made[carried:])


_CONTROL = {"cond": _pull_cond, "while": _pull_while, "scan": _pull_scan}
