"""Control flow: If, Loop and Scan as regions of PTIR where their types allow it, else step by step.

A branch that is known is taken while importing. A loop whose carried types stay the same is a `scan` (its number of steps is
known and nothing stops it before) or a `while` (nothing is stacked). Every other loop is unrolled as it runs: one
iteration after another is imported, and where the condition depends on data, what has been imported is run to find it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto

from planish.errors import PlanishError
from planish.onnx.engine import At, CannotTrace, Scope
from planish.onnx.registry import op
from planish.ptir.graph_value import GraphValue as V

Array = NDArray[Any]
Value = Any


def _values(at: At, values: Sequence[Value]) -> list[V]:
    """Outputs of a body as values of the graph; a sequence cannot leave a region."""
    if any(isinstance(value, list) or value is None for value in values):
        raise CannotTrace("a sequence leaves a region")
    if any(isinstance(value, np.ndarray) and value.dtype == object for value in values):
        raise CannotTrace("strings leave a region")
    return [at.value(value) for value in values]


def _inside(at: At, graph: GraphProto, names: dict[str, Value]) -> list[V]:
    """A body imported into the region under construction."""
    at.engine.depth += 1
    try:
        return _values(at, at.engine.run_graph(graph, Scope(names, at.scope)))
    finally:
        at.engine.depth -= 1


@op("If", since=1, sequences=True)
def if_(at: At, condition: Value) -> tuple[Value, ...]:
    """One of two graphs."""
    then, otherwise = at.attr("then_branch"), at.attr("else_branch")
    if isinstance(condition, V):
        try:
            predicate = condition.reshape([])
            return tuple(
                at.graph.cond(predicate, lambda: _inside(at, then, {}), lambda: _inside(at, otherwise, {}))
            )
        except CannotTrace:
            pass
        except PlanishError:
            pass  # the branches differ in their types: find out which it is
        condition = at.engine.known(at, [0], [condition])[0]
    chosen = then if bool(np.asarray(condition).reshape(-1)[0]) else otherwise
    return tuple(at.engine.run_graph(chosen, Scope({}, at.scope)))


def _as_scan(at: At, body: GraphProto, steps: int, carried: Sequence[V]) -> tuple[V, ...]:
    """A loop of a known number of steps that nothing ends before: its condition stays true by itself."""
    number, flag, *names = [i.name for i in body.input]

    def step(*args: V) -> list[V]:
        *carries, counter = args
        scope = {number: counter, flag: np.array(True), **dict(zip(names, carries, strict=True))}
        at.engine.depth += 1
        try:
            outputs = at.engine.run_graph(body, Scope(scope, at.scope))
        finally:
            at.engine.depth -= 1
        goes_on, *rest = outputs
        if not (isinstance(goes_on, np.ndarray) and bool(goes_on.reshape(-1)[0])):
            raise CannotTrace("the condition of a loop depends on its data")
        return _values(at, rest)

    counters = at.graph.iota([steps], 0, "i64")
    return tuple(at.graph.scan(step, list(carried), [counters], steps))


def _as_while(
    at: At, body: GraphProto, most: V | None, start: V | Array | None, carried: Sequence[V]
) -> tuple[V, ...]:
    """A loop that stacks nothing."""
    number, flag, *names = [i.name for i in body.input]
    if len(body.output) != 1 + len(names):
        raise CannotTrace("a loop that data ends stacks results")
    true = at.graph.constant(np.array(True))
    first = true if start is None else at.value(start).reshape([])

    def test(counter: V, going: V, *rest: V) -> V:
        return going if most is None else going.and_(counter.lt(most))

    def step(counter: V, going: V, *carries: V) -> list[V]:
        scope = {number: counter, flag: going, **dict(zip(names, carries, strict=True))}
        goes_on, *rest = _inside(at, body, scope)
        return [counter.add(1), goes_on.reshape([]), *rest]

    zero = at.graph.constant(np.array(0, np.int64))
    return tuple(at.graph.while_loop(test, step, zero, first, *carried)[2:])


@op("Loop", since=1, sequences=True)
def loop(at: At, most: Value, condition: Value, *carried: Value) -> tuple[Value, ...]:
    """At most so many steps, while a condition holds; results of steps are stacked."""
    body = at.attr("body")
    plain = all(
        isinstance(value, V | np.ndarray) and getattr(value, "dtype", None) != object for value in carried
    )
    always = condition is None or (isinstance(condition, np.ndarray) and bool(condition.reshape(-1)[0]))
    if plain:
        try:
            values = [at.value(value) for value in carried]
            if always and isinstance(most, np.ndarray):
                return _as_scan(at, body, max(int(most.reshape(-1)[0]), 0), values)
            limit = None if most is None else at.value(most).reshape([]).cast("i64")
            return _as_while(at, body, limit, condition, values)
        except CannotTrace:
            pass
        except PlanishError:
            pass  # carried types change from step to step
        try:
            if isinstance(most, np.ndarray) or most is None:
                limit = None if most is None else at.value(most).reshape([]).cast("i64")
                return _as_while(at, body, limit, condition, [at.value(value) for value in carried])
        except PlanishError:
            pass
    return _unrolled(at, body, most, condition, carried)


def _unrolled(
    at: At, body: GraphProto, most: Value, condition: Value, carried: Sequence[Value]
) -> tuple[Value, ...]:
    """One step after another. The names of the loop live in a scope of their own, where a cut finds them."""
    number, flag, *names = [i.name for i in body.input]
    stacks = len(body.output) - 1 - len(names)
    own = Scope({}, at.scope)
    own.names["$most"], own.names["$going"] = most, condition
    own.names["$carried"] = list(carried)
    for k in range(stacks):
        own.names[f"$stack{k}"] = []
    limit = None if most is None else int(at.engine.require(at, own, "$most").reshape(-1)[0])
    going = condition is None or bool(at.engine.require(at, own, "$going").reshape(-1)[0])
    step = 0
    while going and (limit is None or step < limit):
        inner = Scope({number: np.array(step, np.int64), flag: np.array(True)}, own)
        inner.names.update(zip(names, own.names["$carried"], strict=True))
        outputs = at.engine.run_graph(body, inner)
        own.names["$going"] = outputs[0]
        own.names["$carried"] = outputs[1 : 1 + len(names)]
        for k, value in enumerate(outputs[1 + len(names) :]):
            own.names[f"$stack{k}"] = [*own.names[f"$stack{k}"], value]
        going = bool(at.engine.require(at, own, "$going").reshape(-1)[0])
        step += 1
    return (
        *own.names["$carried"],
        *(_stacked(at, own.names[f"$stack{k}"], body, k + 1 + len(names)) for k in range(stacks)),
    )


def _stacked(at: At, values: Sequence[Value], body: GraphProto, position: int) -> Value:
    if not values:
        import onnx

        tensor = body.output[position].type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        return np.zeros((0, *dims), onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values)
    rows = [at.value(value).expand_dims(0) for value in values]
    return rows[0].concat(rows[1:], 0)


def _flipped(value: V, axis: int, backwards: bool) -> V:
    """The scanned axis in front, from the end if asked for."""
    front = value.transpose([axis, *(k for k in range(value.rank) if k != axis)])
    return front.reverse([0]) if backwards else front


@op("Scan", since=9, known=())
def scan(at: At, *inputs: V) -> tuple[V, ...]:
    """Steps along an axis of sequences."""
    body, count = at.attr("body"), at.attr("num_scan_inputs")
    states, sequences = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    ways = at.attr("scan_input_directions") or [0] * count
    axes = at.attr("scan_input_axes") or [0] * count
    given = [
        _flipped(value, axis % value.rank, bool(way))
        for value, axis, way in zip(sequences, axes, ways, strict=True)
    ]
    names = [i.name for i in body.input]

    def step(*args: V) -> list[V]:
        return _inside(at, body, dict(zip(names, args, strict=True)))

    made = list(at.graph.scan(step, states, given))
    stacks = made[len(states) :]
    out_ways = at.attr("scan_output_directions") or [0] * len(stacks)
    out_axes = at.attr("scan_output_axes") or [0] * len(stacks)
    placed = []
    for value, axis, way in zip(stacks, out_axes, out_ways, strict=True):
        turned = value.reverse([0]) if way else value
        place = axis % turned.rank
        order = list(range(1, turned.rank))
        order.insert(place, 0)
        placed.append(turned.transpose(order))
    return (*made[: len(states)], *placed)


@op("Scan", since=8, known=())
def scan_batched(at: At, *inputs: V) -> tuple[V, ...]:
    """The old form: a batch in front, and lengths that may be left out."""
    if inputs[0] is not None:
        raise at.refuse("sequence lengths of an old Scan")
    body, count = at.attr("body"), at.attr("num_scan_inputs")
    ways = at.attr("directions") or [0] * count
    values = list(inputs[1:])
    states, sequences = values[: len(values) - count], values[len(values) - count :]
    names = [i.name for i in body.input]
    batch = sequences[0].dims[0] if sequences else states[0].dims[0]
    if not isinstance(batch, int):
        raise at.refuse("a batch whose size is not known")
    results: list[list[V]] = []
    for b in range(batch):
        own = [value[b] for value in states]
        given = [
            (value[b].reverse([0]) if way else value[b]) for value, way in zip(sequences, ways, strict=True)
        ]

        def step(*args: V) -> list[V]:
            return _inside(at, body, dict(zip(names, args, strict=True)))

        results.append(list(at.graph.scan(step, own, given)))
    return tuple(
        rows[0].expand_dims(0).concat([row.expand_dims(0) for row in rows[1:]], 0)
        if len(rows) > 1
        else rows[0].expand_dims(0)
        for rows in zip(*results, strict=True)
    )
