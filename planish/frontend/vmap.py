"""Batching: a function of one example becomes a function of many.

`batch` is a transform of PTIR: every instruction that depends on a batched parameter is replaced by what does the same for
all examples at once (`planish.frontend.batching` has the table), all others stay as they are. The batch is axis 0 throughout.
A `cond` whose predicate differs from example to example computes both branches and selects; such a `while` runs until the
last example is done, the others waiting. For whoever differentiates that, it says which examples each part is for (`GUARDED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planish import dtypes
from planish.errors import GraphError
from planish.frontend.autodiff.loops import bound
from planish.frontend.batching import BATCHING, UNBATCHED, Batch, batched_type, moved_axis, spread
from planish.frontend.markers import GUARDED, MARKERS
from planish.frontend.replay import Replay, Values, emit, inlined
from planish.ptir.dims import DimLike
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.ops.definition import NO_ATTRS
from planish.ptir.regions import captured
from planish.ptir.types import TensorType


def batch(
    function: Function | Program, batched: Sequence[bool], size: DimLike, *, guards: bool = False
) -> tuple[Function, list[bool]]:
    """The function with a batch in front of some parameters, and which of its results have one.

    With `guards`, marked for a derivative that may be taken of it.
    """
    function = inlined(function, BATCHING)
    if len(batched) != len(function.params):
        raise GraphError(f"{function.name} takes {len(function.params)} parameters, not {len(batched)}")
    graph = Replay(f"{function.name}_vmap")
    mapped = Mapped(graph, size, guards=guards)
    for number, (param, flag) in enumerate(zip(function.params, batched, strict=True)):
        own = batched_type(param.type, size) if flag else param.type
        mapped.put(param, graph.input(f"x{number}", own), flag)
    mapped.run(function.body)
    results = [mapped.values[result] for result in function.results]
    return graph.build(*results), [result in mapped.batched for result in function.results]


class Mapped:
    """What each value of the function has become, and which of them have the batch in front."""

    __slots__ = ("batched", "graph", "guards", "size", "values")

    def __init__(
        self,
        graph: Replay,
        size: DimLike,
        values: Values | None = None,
        batched: set[Value] | None = None,
        guards: bool = False,
    ) -> None:
        self.graph = graph
        self.size = size
        self.guards = guards
        self.values: Values = {} if values is None else values
        self.batched: set[Value] = set() if batched is None else batched

    def inner(self, region: Region, args: Sequence[GraphValue], flags: Sequence[bool]) -> Mapped:
        """The same inside a region."""
        inside = Mapped(self.graph, self.size, dict(self.values), set(self.batched), self.guards)
        for param, arg, flag in zip(region.args, args, flags, strict=True):
            inside.put(param, arg, flag)
        return inside

    def put(self, value: Value, new: GraphValue, flag: bool) -> None:
        """Say what a value has become."""
        self.values[value] = new
        if flag:
            self.batched.add(value)
        else:
            self.batched.discard(value)

    def put_all(self, inst: Inst, results: Sequence[GraphValue], flags: Sequence[bool]) -> None:
        """Say what the results of an instruction have become."""
        for result, own, flag in zip(inst.results, results, flags, strict=True):
            self.put(result, own, flag)

    def flags(self, values: Sequence[Value]) -> list[bool]:
        """Which of these are batched."""
        return [value in self.batched for value in values]

    def all(self, values: Sequence[Value], flags: Sequence[bool]) -> list[GraphValue]:
        """What these have become, with the batch in front where it is wanted."""
        return [
            spread(self.values[value], self.size)
            if flag and value not in self.batched
            else self.values[value]
            for value, flag in zip(values, flags, strict=True)
        ]

    def run(self, region: Region) -> None:
        """Every instruction of a region."""
        for inst in region:
            seen = [value for inner in inst.regions for value in captured(inner)]
            if not any(value in self.batched for value in (*inst.operands, *seen)):
                emit(self.graph, inst, self.values)
                continue
            self.graph.loc = inst.loc
            control = _CONTROL.get(inst.op.name)
            if control is not None:
                control(self, inst)
            else:
                self._one(inst)

    def _one(self, inst: Inst) -> None:
        rule = BATCHING.get(inst.op.name)
        if rule is None:
            raise GraphError(f"{inst.op.name} cannot be batched", op=inst.op.name, location=inst.loc)
        operands = tuple(self.values[operand] for operand in inst.operands)
        results = rule(Batch(self.graph, inst, self.size, operands, tuple(self.flags(inst.operands))))
        if inst.op.name in UNBATCHED:
            self.values.update(zip(inst.results, results, strict=True))
        else:
            self.put_all(inst, results, [True] * len(results))

    def results(self, region: Region, wanted: Sequence[bool]) -> list[GraphValue]:
        """Run a region; its results, batched where that is wanted."""
        self.run(region)
        return self.all(region.results, wanted)


# -- which values get a batch ----------------------------------------------------------------------------------


def _spread_flags(region: Region, live: set[Value]) -> None:
    """Add to the batched values those of a region that come to be batched with them."""
    for inst in region:
        seen = [value for inner in inst.regions for value in captured(inner)]
        if inst.op.name not in UNBATCHED and any(value in live for value in (*inst.operands, *seen)):
            live.update(inst.results)


def _result_flags(mapped: Mapped, region: Region, flags: Sequence[bool]) -> list[bool]:
    """Which results of a region are batched at most, if these arguments are."""
    live = mapped.batched | {arg for arg, flag in zip(region.args, flags, strict=True) if flag}
    _spread_flags(region, live)
    return [result in live for result in region.results]


def _carried_flags(mapped: Mapped, body: Region, given: list[bool], carried: int) -> list[bool]:
    """Which arguments of a loop are batched, once what a step makes of the carried ones is counted."""
    while True:
        after = _result_flags(mapped, body, given)[:carried]
        wider = [a or b for a, b in zip(given[:carried], after, strict=True)]
        if wider == given[:carried]:
            return given
        given = [*wider, *given[carried:]]


# -- control flow ----------------------------------------------------------------------------------------------


def _cond(mapped: Mapped, inst: Inst) -> None:
    first, second = inst.regions
    predicate = mapped.values[inst.operands[0]]
    if inst.operands[0] in mapped.batched:
        every = [True] * len(inst.results)
        chosen = _guarded(mapped, predicate, first, (), every)
        other = _guarded(mapped, predicate.not_(), second, (), every)
        mapped.put_all(inst, [_select(predicate, a, b) for a, b in zip(chosen, other, strict=True)], every)
        return
    pairs = zip(_result_flags(mapped, first, ()), _result_flags(mapped, second, ()), strict=True)
    wanted = [a or b for a, b in pairs]
    results = mapped.graph.cond(
        predicate,
        lambda: mapped.inner(first, (), ()).results(first, wanted),
        lambda: mapped.inner(second, (), ()).results(second, wanted),
    )
    mapped.put_all(inst, results, wanted)


def _guarded(
    mapped: Mapped, mask: GraphValue, region: Region, args: Sequence[GraphValue], wanted: Sequence[bool]
) -> Sequence[GraphValue]:
    """A region for all examples, of which only those in a mask are used; its arguments are batched."""
    flags = [True] * len(args)
    if not mapped.guards:
        return mapped.inner(region, args, flags).results(region, wanted)
    outside = [value for value in captured(region) if value in mapped.batched]
    operands = [mask, *args, *(mapped.values[value] for value in outside)]

    def build(_: GraphValue, *given: GraphValue) -> Sequence[GraphValue]:
        inside = mapped.inner(region, given[: len(args)], flags)
        for value, own in zip(outside, given[len(args) :], strict=True):
            inside.put(value, own, True)
        return inside.results(region, wanted)

    built = mapped.graph.build_region(GUARDED, build, [operand.type for operand in operands])
    return mapped.graph.emit_many(GUARDED, operands, NO_ATTRS, [built])


def _select(predicate: GraphValue, chosen: GraphValue, other: GraphValue) -> GraphValue:
    """By example."""
    wide = predicate.reshape([predicate.dims[0], *[1] * (chosen.rank - 1)]).broadcast_to(chosen.dims)
    return wide.select(chosen, other)


def _while(mapped: Mapped, inst: Inst) -> None:
    condition, body = inst.regions
    count = len(inst.operands)
    flags = _carried_flags(mapped, body, mapped.flags(inst.operands), count)
    graph = mapped.graph
    if not any(_result_flags(mapped, condition, flags)):
        init = mapped.all(inst.operands, flags)
        results = graph.while_loop(
            lambda *args: mapped.inner(condition, args, flags).results(condition, [False])[0],
            lambda *args: mapped.inner(body, args, flags).results(body, flags),
            *init,
        )
        mapped.put_all(inst, results, flags)
        return
    # each example stops by itself: carry which still run, and change nothing in the others
    every = [True] * count
    init = mapped.all(inst.operands, every)

    def runs(args: Sequence[GraphValue]) -> GraphValue:
        return mapped.inner(condition, args, every).results(condition, [True])[0]

    def step(active: GraphValue, *args: GraphValue) -> list[GraphValue]:
        after = _guarded(mapped, active, body, args, every)
        kept = [_select(active, new, old) for new, old in zip(after, args, strict=True)]
        return [active.and_(runs(kept)), *kept]

    most = bound(inst)
    if most is None:
        made_all = graph.while_loop(lambda active, *args: active.reduce_or(), step, runs(init), *init)[1:]
    else:
        # the bound of each example bounds them all, and has to be seen for a reverse derivative
        made_all = graph.while_loop(
            lambda count, active, *args: count.lt(most).and_(active.reduce_or()),
            lambda count, *args: [count.add(1), *step(*args)],
            graph.full((), 0, dtypes.int64),
            runs(init),
            *init,
        )[2:]
    mapped.put_all(inst, made_all, every)


def _scan(mapped: Mapped, inst: Inst) -> None:
    attrs: ScanAttrs = inst.attrs  # type: ignore[assignment] # that of a scan
    (body,) = inst.regions
    carried = attrs.num_carries
    flags = _carried_flags(mapped, body, mapped.flags(inst.operands), carried)
    wanted = [*flags[:carried], *_result_flags(mapped, body, flags)[carried:]]
    operands = mapped.all(inst.operands, flags)
    # slices are taken along the first axis, so that the batch stands behind it
    sequences = [
        moved_axis(x, 0, 1) if flag else x
        for x, flag in zip(operands[carried:], flags[carried:], strict=True)
    ]
    results = mapped.graph.scan(
        lambda *args: mapped.inner(body, args, flags).results(body, wanted),
        operands[:carried],
        sequences,
        attrs.length,
        attrs.reverse,
    )
    outputs = [
        moved_axis(y, 1, 0) if flag else y
        for y, flag in zip(results[carried:], wanted[carried:], strict=True)
    ]
    mapped.put_all(inst, [*results[:carried], *outputs], wanted)


def _marked(mapped: Mapped, inst: Inst) -> None:
    """A function with rules of its own: all its regions batched alike, so that they still fit each other."""
    graph = mapped.graph
    every = [True] * len(inst.operands)

    def built(region: Region) -> Region:
        flags, wanted = [True] * len(region.args), [True] * len(region.results)
        return graph.build_region(
            inst.op,
            lambda *args: mapped.inner(region, args, flags).results(region, wanted),
            _batched_types(region.arg_types, mapped.size),
        )

    regions = [built(region) for region in inst.regions]
    results = graph.emit_many(inst.op, mapped.all(inst.operands, every), inst.attrs, regions)
    mapped.put_all(inst, results, [True] * len(results))


def _batched_types(types: Sequence[TensorType], size: DimLike) -> list[TensorType]:
    return [batched_type(type, size) for type in types]


_CONTROL: Final[Mapping[str, Callable[[Mapped, Inst], None]]] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    **{op.name: _marked for op in MARKERS},
}
BATCHED_CONTROL: Final = frozenset({"cond", "while", "scan", "call"})
"""Ops with rules here; calls are inlined before."""
