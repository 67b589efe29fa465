"""Control flow: If, Loop and Scan as regions of PTIR where their types allow it, else step by step.

A branch that is known is taken while importing. A loop whose carried types stay the same is a `scan` (its number of steps is
known and nothing stops it before) or a `while` (what it stacks has a limit). Every other loop is unrolled as it runs: one
iteration after another is imported, and where the condition depends on data, what has been imported is run to find it out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, helper

from planish.errors import PlanishError
from planish.onnx.loop_sizes import named_steps
from planish.onnx.ops.common import numpy_kind
from planish.onnx.registry import OWN, op
from planish.onnx.scope import NameScope, graphs_of, names_used
from planish.onnx.segment import lazy_in
from planish.onnx.site import CannotTrace, NodeSite
from planish.onnx.tensors import on_device
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.types import DimLike, TensorType

Array = NDArray[Any]
Value = Any
_ROOM: Final = 1 << 24
"""Elements of the rows that a loop of unknown length may leave."""
_LEAST_ROOM: Final = 16
_STEPS: Final = 10_000
"""Steps that are written out where nothing but their number ends a loop."""


def _values(at: NodeSite, values: Sequence[Value]) -> list[V]:
    """Outputs of a body as values of the graph; a sequence cannot leave a region."""
    if any(isinstance(value, list) or value is None for value in values):
        raise CannotTrace("a sequence leaves a region")
    if any(isinstance(value, np.ndarray) and not on_device(value.dtype) for value in values):
        raise CannotTrace("what leaves a region has a dtype that programs do not have")
    return [at.value(value) for value in values]


def _imported(at: NodeSite, graph: GraphProto, names: dict[str, Value]) -> list[V]:
    """A body imported into the region under construction."""
    at.engine.depth += 1
    try:
        return _values(at, at.engine.run_graph(graph, NameScope(names, at.scope)))
    finally:
        at.engine.depth -= 1


@op("If", since=1, sequences=True)
def if_(at: NodeSite, condition: Value) -> tuple[Value, ...]:
    """One of two graphs."""
    then, otherwise = at.attr("then_branch"), at.attr("else_branch")
    if isinstance(condition, V):
        try:
            predicate = condition.reshape([])
            return tuple(
                at.graph.cond(
                    predicate, lambda: _imported(at, then, {}), lambda: _imported(at, otherwise, {})
                )
            )
        except PlanishError:
            pass  # the branches differ in their types, or need data: find out which it is
        condition = at.engine.known(at, [0], [condition])[0]
    chosen = then if bool(np.asarray(condition).reshape(-1)[0]) else otherwise
    return tuple(at.engine.run_graph(chosen, NameScope({}, at.scope)))


def _known_steps(
    at: NodeSite, body: GraphProto, most: int | None, condition: Value, carried: Sequence[Value]
) -> int | None:
    """How many steps a loop takes, if what ends it follows from known values alone; None if data ends it.

    The part of the body that its condition needs is computed, step after step, and nothing else.
    """
    if condition is not None and not isinstance(condition, np.ndarray):
        return None
    number, flag, *names = [i.name for i in body.input]
    outputs = [o.name for o in body.output]
    needed, before = {outputs[0]}, 0
    nodes: list[NodeProto] = []
    while len(needed) != before:
        before = len(needed)
        nodes = []
        for node in reversed(body.node):
            if any(name in needed for name in node.output):
                nodes.append(node)
                needed.update(names_used(node))
        needed.update(outputs[1 + k] for k, name in enumerate(names) if name in needed)
    defined = {name for node in body.node for name in node.output}
    start = dict(zip(names, carried, strict=True))
    inside = {number, flag, *start, *(t.name for t in body.initializer)}
    around = [
        start.get(name) if name in start else at.scope.find(name)
        for name in needed - defined - (inside - set(start))
    ]
    if any(any(graphs_of(node)) for node in nodes) or not all(isinstance(v, np.ndarray) for v in around):
        return None
    nodes.reverse()
    wanted = [outputs[0], *(outputs[1 + k] for k, name in enumerate(names) if name in needed)]
    values = {name: start[name] for name in names if name in needed}
    going, step = condition is None or bool(condition.reshape(-1)[0]), 0
    constants = at.engine.initializers(body)
    while going and (most is None or step < most):
        if step >= _STEPS:
            return None
        scope = NameScope({**constants, **values, number: np.array(step), flag: np.array(True)}, at.scope)
        at.engine.run_nodes(nodes, scope, wanted)
        results = [scope.find(name) for name in wanted]
        if not all(isinstance(value, np.ndarray) for value in results):
            return None
        values = dict(zip(values, results[1:], strict=True))
        going = bool(results[0].reshape(-1)[0])
        step += 1
        if going and not values and number not in needed:
            return most  # it is the same in every step
    return step


def _as_scan(at: NodeSite, body: GraphProto, steps: DimLike, carried: Sequence[V]) -> tuple[V, ...]:
    """A loop of a known number of steps, or of as many as a size; its condition has been seen to hold until then."""
    number, flag, *names = [i.name for i in body.input]

    def step(*args: V) -> list[V]:
        *carries, counter = args
        scope = {number: counter, flag: np.array(True), **dict(zip(names, carries, strict=True))}
        at.engine.depth += 1
        try:
            outputs = at.engine.run_graph(body, NameScope(scope, at.scope))
        finally:
            at.engine.depth -= 1
        return _values(at, outputs[1:])

    counters = at.graph.iota([steps], 0, "i64")
    return tuple(at.graph.scan(step, list(carried), [counters], steps))


def _as_while(
    at: NodeSite,
    body: GraphProto,
    most: V | None,
    start: V | Array | None,
    carried: Sequence[V],
    limit: int | None,
) -> tuple[V, ...]:
    """A loop that data ends: the number of steps it took, what it carried, and the rows that steps stacked.

    Rows are written into room for as many as there can be, so that is only possible where a limit is known.
    """
    number, flag, *names = [i.name for i in body.input]
    true = at.graph.constant(np.array(True))
    first = true if start is None else at.value(start).reshape([])
    rows: list[V] = []
    if len(body.output) > 1 + len(names):
        for type in _row_types(at, body, carried):
            if limit is None or any(not isinstance(d, int) for d in type.dims):
                raise CannotTrace("a loop that data ends stacks results")
            if limit * math.prod(d for d in type.dims if isinstance(d, int)) > _ROOM:
                raise CannotTrace("there may be more rows than there is room for")
            rows.append(at.graph.full([limit, *type.dims], 0, type.dtype))

    def test(counter: V, going: V, *rest: V) -> V:
        return going if most is None else going.and_(counter.lt(most))

    def step(counter: V, going: V, *values: V) -> list[V]:
        carries, stacks = values[: len(names)], values[len(names) :]
        scope = {number: counter, flag: going, **dict(zip(names, carries, strict=True))}
        goes_on, *rest = _imported(at, body, scope)
        zero = at.graph.constant(np.array(0, np.int64))
        written = [
            stack.dynamic_update_slice(row.expand_dims(0), [counter, *[zero] * row.rank])
            for stack, row in zip(stacks, rest[len(names) :], strict=True)
        ]
        return [counter.add(1), goes_on.reshape([]), *rest[: len(names)], *written]

    zero = at.graph.constant(np.array(0, np.int64))
    results = at.graph.while_loop(test, step, zero, first, *carried, *rows)
    return (results[0], *results[2:])


def _row_types(at: NodeSite, body: GraphProto, carried: Sequence[V]) -> list[TensorType]:
    """The types of what a step stacks: a step is written once to see, and forgotten."""
    number, flag, *names = [i.name for i in body.input]
    types: list[TensorType] = []

    def look() -> list[V]:
        counter = at.graph.constant(np.array(0, np.int64)).add(0)
        going = at.graph.constant(np.array(True)).not_()
        outputs = _imported(
            at, body, {number: counter, flag: going, **dict(zip(names, carried, strict=True))}
        )
        types.extend(value.type for value in outputs[1 + len(names) :])
        raise _Seen("seen")

    with contextlib.suppress(_Seen):
        at.graph.cond(at.graph.constant(np.array(True)), look, look)
    return types


class _Seen(Exception):
    """What was to be seen has been."""


@op("Loop", since=1, sequences=True)
def loop(at: NodeSite, most: Value, condition: Value = None, *carried: Value) -> tuple[Value, ...]:
    """At most so many steps, while a condition holds; results of steps are stacked."""
    body = at.attr("body")
    if len(body.input) != 2 + len(carried) or len(body.output) < 1 + len(carried):
        raise at.refuse(f"its body has {len(body.input)} inputs and {len(body.output)} outputs")
    plain = all(isinstance(v, V) or (isinstance(v, np.ndarray) and on_device(v.dtype)) for v in carried)
    limit = int(most.reshape(-1)[0]) if isinstance(most, np.ndarray) else None
    if limit is not None and limit <= 0:
        return _unrolled(at, body, most, condition, carried)
    if plain:
        try:
            steps: DimLike | None = None
            if at.engine.symbols:
                steps = named_steps(body, most, condition, carried, at.scope.find, at.engine.named)
            if steps is None and (limit is not None or most is None):
                steps = _known_steps(at, body, limit, condition, carried)
            if steps:
                values = [at.value(value) for value in carried]
                return _as_scan(at, body, steps, values)
        except PlanishError:
            pass  # carried types change from step to step, or a step needs data
        try:
            values = [at.value(value) for value in carried]
            end = None if most is None else at.value(most).reshape([]).cast("i64")
            stacks = len(body.output) - 1 - len(carried)
            if not stacks or (at.engine.recorder is not None and not at.engine.depth):
                if stacks and isinstance(most, V):
                    limit, end, values, condition = _room(at, most, condition, values)
                count, *results = _as_while(at, body, end, condition, values, limit)
                return _counted(at, count, results, len(carried))
        except PlanishError:
            pass
    return _unrolled(at, body, most, condition, carried)


def _room(at: NodeSite, most: V, condition: Value, carried: Sequence[V]) -> tuple[int, V, list[V], Value]:
    """Room for the rows of a loop whose number of steps is data, and what it works on after that was looked at.

    Only the room is: the same program serves every number of steps that it is enough for.
    """
    names = {"$most": most, "$if": condition, "$carried": list(carried)}
    own = NameScope(names, at.scope)
    node = helper.make_node("Room", ["$most"], ["$room"], domain=OWN)
    at.engine.run_nodes([node], own, ["$room", *names])
    room = int(at.engine.require(at, own, "$room").reshape(-1)[0])
    end = at.value(own.names["$most"]).reshape([]).cast("i64")
    return room, end, [at.value(value) for value in own.names["$carried"]], own.names["$if"]


@op("Room", domain=OWN, host=True)
def room_of(at: NodeSite, most: Array) -> Array:
    """The power of two that so many rows fit into."""
    steps = max(int(most.reshape(-1)[0]), 1)
    return np.array(max(_LEAST_ROOM, 1 << (steps - 1).bit_length()), np.int64)


@op("Rows", domain=OWN, host=True)
def rows_of(at: NodeSite, count: Array, stacked: Array) -> Array:
    """The first rows of a stack."""
    return stacked[: int(count.reshape(-1)[0])]


def _counted(at: NodeSite, count: V, results: Sequence[V], carried: int) -> tuple[Value, ...]:
    """The rows that were written, of those there was room for."""
    if len(results) == carried:
        return tuple(results)
    names = {f"$made{n}": value for n, value in enumerate(results)}
    own = NameScope({"$count": count, **names}, at.scope)
    stacks = [name for n, name in enumerate(names) if n >= carried]
    nodes = [helper.make_node("Rows", ["$count", name], [f"{name}.rows"], domain=OWN) for name in stacks]
    at.engine.run_nodes(nodes, own, [*names, *(f"{name}.rows" for name in stacks)])
    kept = [own.find(name) for name in names][:carried]
    return (*map(at.value, kept), *(own.find(f"{name}.rows") for name in stacks))


def _unrolled(
    at: NodeSite, body: GraphProto, most: Value, condition: Value, carried: Sequence[Value]
) -> tuple[Value, ...]:
    """One step after another. The names of the loop live in a scope of their own, where a cut finds them."""
    number, flag, *names = [i.name for i in body.input]
    stacks = len(body.output) - 1 - len(names)
    own = NameScope({}, at.scope)
    own.names["$most"], own.names["$going"] = most, condition
    own.names["$carried"] = list(carried)
    for k in range(stacks):
        own.names[f"$stack{k}"] = []
    engine = at.engine
    can_run = engine.recorder is not None and not engine.depth
    counted = can_run and isinstance(most, V)
    limit = None if most is None else int(engine.require(at, own, "$most").reshape(-1)[0])
    going = condition is None or bool(engine.require(at, own, "$going").reshape(-1)[0])
    step, by_data = 0, False
    while going and (limit is None or step < limit):
        if step >= _STEPS and not by_data:
            raise at.refuse(f"a loop that nothing ends before {limit or 'ever'} cannot be written out")
        counter = np.array(step, np.int64)
        # what a step knows is given to the program, not written into it: every step is the same one then
        engine.vary([counter, *own.names["$carried"]])
        inner = NameScope({number: counter, flag: np.array(True)}, own)
        inner.names.update(zip(names, own.names["$carried"], strict=True))
        own.names["$carried"] = []
        outputs = engine.run_graph(body, inner)
        own.names["$going"] = outputs[0]
        own.names["$carried"] = outputs[1 : 1 + len(names)]
        for k, value in enumerate(outputs[1 + len(names) :]):
            own.names[f"$stack{k}"] = [*own.names[f"$stack{k}"], value]
        by_data = by_data or isinstance(outputs[0], V)
        handed_on = {lazy.id: k for k, value in enumerate(own.names["$carried"]) for lazy in lazy_in(value)}
        with engine.lengths.between_steps(" ".join(at.node.output), handed_on):
            going = _goes_on(at, own, counted)
        step += 1
    if by_data or counted:
        engine.vary(own.names["$carried"])  # what was counted on the way is data too
    for k in range(stacks):
        own.names[f"$stack{k}"] = _rows_of_steps(at, own, own.names[f"$stack{k}"], body, k + 1 + len(names))
    return (*own.names["$carried"], *(own.names[f"$stack{k}"] for k in range(stacks)))


def _goes_on(at: NodeSite, own: NameScope, counted: bool) -> bool:
    """Whether another step follows. Where their number is data each is run by itself: any number of them is the same program."""
    going = at.engine.require(at, own, "$going")
    if counted and any(map(lazy_in, own.names["$carried"])):
        at.engine.cut(at, own)
    return bool(going.reshape(-1)[0])


@op("Stack", domain=OWN, host=True)
def stack_of(at: NodeSite, *rows: Array) -> Array:
    """What the steps of a loop made, however many there were."""
    return np.stack(rows)


def _stacked(at: NodeSite, values: Sequence[Value], body: GraphProto, position: int) -> Value:
    if not values:
        tensor = body.output[position].type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        return np.zeros((0, *dims), numpy_kind(at, tensor.elem_type or 1))
    if all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values)
    rows = [at.value(value).expand_dims(0) for value in values]
    return rows[0].concat(rows[1:], 0) if len(rows) > 1 else rows[0]


def _rows_of_steps(
    at: NodeSite, own: NameScope, values: Sequence[Value], body: GraphProto, position: int
) -> Value:
    """The same where the number of steps is data: it is not written into the program that goes on."""
    can_run = at.engine.recorder is not None and not at.engine.depth
    if not can_run or not any(isinstance(value, V) for value in values):
        return _stacked(at, values, body, position)
    inner = NameScope({f"$row{n}": value for n, value in enumerate(values)}, own)
    node = helper.make_node("Stack", list(inner.names), ["$rows"], domain=OWN)
    at.engine.run_nodes([node], inner, ["$rows"])
    return inner.find("$rows")


def _flipped(value: V, axis: int, backwards: bool) -> V:
    """The scanned axis in front, from the end if asked for."""
    front = value.transpose([axis, *(k for k in range(value.rank) if k != axis)])
    return front.reverse([0]) if backwards else front


@op("Scan", since=9, sequences=True)
def scan(at: NodeSite, *inputs: Value) -> tuple[Value, ...]:
    """Steps along an axis of sequences."""
    body, count = at.attr("body"), at.attributes.require("num_scan_inputs")
    if not 0 < count <= len(inputs) or len(body.input) != len(inputs):
        raise at.refuse(f"{len(inputs)} inputs, {count} of them to scan, for a body of {len(body.input)}")
    values = [at.value(value) for value in inputs]
    states, sequences = values[: len(inputs) - count], values[len(inputs) - count :]
    ways = at.attr("scan_input_directions") or [0] * count
    axes = at.attr("scan_input_axes") or [0] * count
    given = [
        _flipped(value, axis % value.rank, bool(way))
        for value, axis, way in zip(sequences, axes, ways, strict=True)
    ]
    results = _scanned(at, body, states, given)
    stacks = results[len(states) :]
    out_ways = at.attr("scan_output_directions") or [0] * len(stacks)
    out_axes = at.attr("scan_output_axes") or [0] * len(stacks)
    placed = []
    for value, axis, way in zip(stacks, out_axes, out_ways, strict=True):
        turned = value.reverse([0]) if way else value
        place = axis % turned.rank
        order = list(range(1, turned.rank))
        order.insert(place, 0)
        placed.append(turned.transpose(order))
    return (*results[: len(states)], *placed)


def _scanned(at: NodeSite, body: GraphProto, states: Sequence[V], given: Sequence[V]) -> list[V]:
    """A region, or step by step where the body needs data or changes the types of its states."""
    names = [i.name for i in body.input]

    def step(*args: V) -> list[V]:
        return _imported(at, body, dict(zip(names, args, strict=True)))

    try:
        return list(at.graph.scan(step, list(states), list(given)))
    except PlanishError:
        if at.engine.depth:
            raise
    length = given[0].dims[0]
    if not isinstance(length, int) or length == 0:
        raise at.refuse("a scan that cannot be a region needs a length that is known")
    own = NameScope({"$states": list(states), "$given": list(given), "$rows": []}, at.scope)
    for k in range(length):
        inner = NameScope({}, own)
        slices = [value[k] for value in own.names["$given"]]
        inner.names.update(zip(names, [*own.names["$states"], *slices], strict=True))
        outputs = at.engine.run_graph(body, inner)
        own.names["$states"] = outputs[: len(states)]
        own.names["$rows"] = [*own.names["$rows"], outputs[len(states) :]]
    rows = zip(*own.names["$rows"], strict=True)
    final = [at.value(value) for value in own.names["$states"]]
    return [*final, *(at.value(_stacked(at, row, body, 0)) for row in rows)]


@op("Scan", since=8, sequences=True)
def scan_batched(at: NodeSite, lengths: Value, *inputs: Value) -> tuple[Value, ...]:
    """The old form: a batch in front, and lengths of the sequences, which may be left out."""
    if lengths is not None:
        raise at.refuse("sequence lengths of an old Scan")
    body, count = at.attr("body"), at.attributes.require("num_scan_inputs")
    ways = at.attr("directions") or [0] * count
    values = [at.value(value) for value in inputs]
    states, sequences = values[: len(values) - count], values[len(values) - count :]
    batch = sequences[0].dims[0]
    if not isinstance(batch, int) or batch == 0:
        raise at.refuse("a batch whose size is not known")
    results: list[list[V]] = []
    for b in range(batch):
        given = [
            (value[b].reverse([0]) if way else value[b]) for value, way in zip(sequences, ways, strict=True)
        ]
        results.append(_scanned(at, body, [value[b] for value in states], given))
    return tuple(
        rows[0].expand_dims(0).concat([row.expand_dims(0) for row in rows[1:]], 0)
        if len(rows) > 1
        else rows[0].expand_dims(0)
        for rows in zip(*results, strict=True)
    )
