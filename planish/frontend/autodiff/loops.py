"""Loops in reverse: `scan`, and `while` where a bound on the number of its steps can be seen.

On the way there the carried values before each step are stacked; on the way back each step is computed again from them and
pulled through, last step first. A `while` becomes a scan of as many steps as it can take, in which the steps after its end
do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planish.frontend.autodiff.instruction import is_differentiable, no_rule, zeros
from planish.frontend.autodiff.sweep import BACK, THERE, Cotangents, Sweep
from planish.frontend.replay import Values, replay
from planish.ptir import ops
from planish.ptir.function import Inst, Region, Value
from planish.ptir.graph_value import GraphValue


def _scan_there(sweep: Sweep, inst: Inst) -> tuple[Sequence[GraphValue], Sequence[GraphValue]]:
    attrs: ops.ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries

    def step(*args: GraphValue) -> list[GraphValue]:
        results = replay(sweep.graph, body, sweep.values | dict(zip(body.args, args, strict=True)))
        return [*results, *args[:carried]]

    operands = [sweep.values[operand] for operand in inst.operands]
    outputs = sweep.graph.scan(step, operands[:carried], operands[carried:], attrs.length, attrs.reverse)
    count = len(inst.results)
    return outputs[:count], outputs[count:]


def _scan_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    attrs: ops.ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries
    sequences = inst.operands[carried:]
    outside = sweep.seen(body)
    wanted = [arg for arg, value in zip(body.args[carried:], sequences, strict=True) if value in sweep.live]
    outputs = [
        (result, pulled.by_value[outer])
        for result, outer in zip(body.results[carried:], inst.results[carried:], strict=True)
        if outer in pulled.by_value
    ]
    moving = _moving(body.args[:carried])
    ends = [pulled.of(inst.results[arg.index]) for arg in moving]
    totals = [zeros(sweep.graph, value.type) for value in outside]

    def step(*args: GraphValue) -> list[GraphValue]:
        coming, sums = args[: len(ends)], args[len(ends) : len(ends) + len(totals)]
        rest = args[len(ends) + len(totals) :]
        inputs, given = rest[: len(body.args)], rest[len(body.args) :]
        inner = Sweep(
            sweep.graph,
            body,
            sweep.values | dict(zip(body.args, inputs, strict=True)),
            (*moving, *wanted, *outside),
        )
        inner.forward()
        seeds = [(body.results[arg.index], cotangent) for arg, cotangent in zip(moving, coming, strict=True)]
        seeds += [(result, cotangent) for (result, _), cotangent in zip(outputs, given, strict=True)]
        own = inner.backward(seeds)
        return [
            *(own.of(arg) for arg in moving),
            *_added(sums, own, outside),
            *(own.of(arg) for arg in wanted),
        ]

    cotangents = sweep.graph.scan(
        step,
        [*ends, *totals],
        [*sweep.saved[inst], *(sweep.values[v] for v in sequences), *(c for _, c in outputs)],
        attrs.length,
        not attrs.reverse,
    )
    targets = [
        *(inst.operands[arg.index] for arg in moving),
        *outside,
        *(inst.operands[a.index] for a in wanted),
    ]
    for value, cotangent in zip(targets, cotangents, strict=True):
        if value in sweep.live:
            pulled.add(value, cotangent)


def _moving(args: Sequence[Value]) -> list[Value]:
    return [arg for arg in args if is_differentiable(arg.type)]


def _added(sums: Sequence[GraphValue], own: Cotangents, values: Sequence[Value]) -> Iterator[GraphValue]:
    for total, value in zip(sums, values, strict=True):
        yield total.add(own.by_value[value]) if value in own.by_value else total


# -- while -----------------------------------------------------------------------------------------------------


def bound(inst: Inst) -> int | None:
    """How many steps a `while` can take at most, where its condition asks a counter to stay below (above) a constant."""
    condition, body = inst.regions
    limits: list[int] = []
    pending = [condition.results[0]]
    while pending:
        test = pending.pop()
        if test.def_inst is None:
            continue
        if test.def_inst.op is ops.and_:
            pending += test.def_inst.operands
            continue
        steps = _steps_until(test.def_inst, condition, body, inst.operands)
        if steps is not None:
            limits.append(steps)
    return min(limits, default=None)


_MIRRORED = {ops.lt: ops.gt, ops.gt: ops.lt, ops.le: ops.ge, ops.ge: ops.le}


def _steps_until(test: Inst, condition: Region, body: Region, operands: Sequence[Value]) -> int | None:
    """The steps of a counter until a comparison with a constant fails."""
    if test.op not in _MIRRORED:
        return None
    op = test.op
    counter, limit = test.operands
    if limit.owner is condition:
        counter, limit, op = limit, counter, _MIRRORED[op]
    if counter.owner is not condition:
        return None
    end, start = _integer(limit), _integer(operands[counter.index])
    change = _increment(body, counter.index)
    if end is None or start is None or not change:
        return None
    if op in (ops.gt, ops.ge):
        start, end, change = -start, -end, -change
    if change < 0:
        return None
    return max(0, -(-(end - start + (op in (ops.le, ops.ge))) // change))


def _increment(body: Region, number: int) -> int | None:
    """By how much a carried integer changes in every step."""
    inst = body.results[number].def_inst
    if inst is None or inst.op not in (ops.add, ops.sub):
        return None
    left, right = inst.operands
    if inst.op is ops.add and right is body.args[number]:
        left, right = right, left
    step = _integer(right)
    if left is not body.args[number] or step is None:
        return None
    return step if inst.op is ops.add else -step


def _integer(value: Value) -> int | None:
    literal = value.literal
    if literal is None or value.type.dims or not value.type.dtype.is_int:
        return None
    return int(literal.array())


def _while_there(sweep: Sweep, inst: Inst) -> tuple[Sequence[GraphValue], Sequence[GraphValue]]:
    condition, body = inst.regions
    most = bound(inst)
    if most is None:
        raise no_rule(
            inst,
            "a while loop has no reverse derivative: how many steps it takes is not known beforehand",
            "use scan or fori_loop with a fixed number of steps, give while_loop a bound with max_steps=, or use jvp",
        )
    graph, values = sweep.graph, sweep.values

    def step(*args: GraphValue) -> list[GraphValue]:
        (active,) = replay(graph, condition, values | dict(zip(condition.args, args, strict=True)))
        after = graph.cond(
            active,
            lambda: replay(graph, body, values | dict(zip(body.args, args, strict=True))),
            lambda: args,
        )
        return [*after, active, *args]

    outputs = graph.scan(step, [values[operand] for operand in inst.operands], (), most)
    count = len(inst.results)
    return outputs[:count], outputs[count:]


def _while_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    body = inst.regions[1]
    graph, values = sweep.graph, sweep.values
    outside = sweep.seen(body)
    moving = _moving(body.args)
    ends = [pulled.of(inst.results[arg.index]) for arg in moving]
    totals = [zeros(graph, value.type) for value in outside]
    active, *before = sweep.saved[inst]

    def step(*args: GraphValue) -> Sequence[GraphValue]:
        coming, sums = args[: len(ends)], args[len(ends) : len(ends) + len(totals)]
        runs, *inputs = args[len(ends) + len(totals) :]

        def pull() -> list[GraphValue]:
            inner: Values = values | dict(zip(body.args, inputs, strict=True))
            own = Sweep(graph, body, inner, (*moving, *outside))
            own.forward()
            seeds = zip((body.results[arg.index] for arg in moving), coming, strict=True)
            gradients = own.backward(seeds)
            return [*(gradients.of(arg) for arg in moving), *_added(sums, gradients, outside)]

        return graph.cond(runs, pull, lambda: (*coming, *sums))

    cotangents = graph.scan(step, [*ends, *totals], [active, *before], active.dims[0], True)
    for value, cotangent in zip(
        (*(inst.operands[arg.index] for arg in moving), *outside), cotangents, strict=True
    ):
        if value in sweep.live:
            pulled.add(value, cotangent)


THERE.update({"scan": _scan_there, "while": _while_there})
BACK.update({"scan": _scan_back, "while": _while_back})
