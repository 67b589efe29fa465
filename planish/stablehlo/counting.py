"""Loops that count: `while i < n` with `i` from a constant in steps of 1 is a scan, which has a derivative.

What a loop hands on unchanged is no part of what goes around. A sequence that is read at `i` alone becomes one that the scan
takes slices of, and a buffer that is only written at `i` one that it stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planish.frontend.replay import Replay, emit
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.inst import Value as SSAValue
from planish.stablehlo.site import Site
from planish.stablehlo.syntax import HloValue, captured


def _times(at: Site, init: Sequence[Any]) -> tuple[int, int, int] | None:
    """The place of the counter, where it starts, and how often the loop runs."""
    condition, body = at.regions
    if not condition.body:
        return None
    *before, test = condition.body
    if test.name != "stablehlo.compare" or condition.end.operands != test.results:
        return None
    if test.attributes["comparison_direction"] != "LT" or any(
        op.name != "stablehlo.constant" for op in before
    ):
        return None
    left, right = test.operands
    if left not in condition.args:
        return None
    place = condition.args.index(left)
    limit = at.importer.number(right) if right not in condition.args else _invariant_number(at, right)
    start = at.importer.number(at.op.operands[place])
    step = body.end.operands[place].op
    if step is None or step.name != "stablehlo.add" or step not in body.ops or limit is None or start is None:
        return None
    if body.args[place] not in step.operands:
        return None
    others = [v for v in step.operands if v is not body.args[place]]
    if len(others) != 1 or at.importer.number(others[0]) != 1:
        return None
    return place, int(start.real), max(int(limit.real) - int(start.real), 0)


def _invariant_number(at: Site, value: HloValue) -> Any:
    """The number that an argument of the loop has all the time."""
    condition, body = at.regions
    place = condition.args.index(value)
    if body.end.operands[place] is not body.args[place]:
        return None
    return at.importer.number(at.op.operands[place])


def recognise(at: Site, init: Sequence[Any]) -> tuple[Any, ...] | None:
    """The results of a loop that counts; None if it is none."""
    turns = _times(at, init)
    if turns is None or not all(isinstance(x, V) for x in init):
        return None
    place, start, times = turns
    turn = _Turn(at, init, place)
    if turn.has_checks:
        return None
    if not start:
        turn.find_slices(times)
    counter = init[place]
    numbers = at.graph.iota((times,), 0, counter.dtype)
    numbers = numbers.add(start) if start else numbers
    results: list[V] = list(init)
    results[place] = at.full((), start + times, counter.dtype) if times else counter
    for n, x in turn.scanned(numbers, times).items():
        results[n] = x
    return tuple(results)


class _Turn:
    """One turn of a loop as a function: of the counter, of what goes around, and of what stays."""

    def __init__(self, at: Site, init: Sequence[V], place: int) -> None:
        body = at.regions[1]
        outer = at.importer
        self.graph = outer.graph
        self.init = init
        fixed = [n for n, v in enumerate(body.end.operands) if v is body.args[n]]
        self.moving = [n for n in range(len(init)) if n not in fixed and n != place]
        graph = Replay("turn")
        inner = type(outer)(outer.module, graph)
        inner.frame, inner.sizes.given = outer.frame, outer.sizes.given
        self.number = graph.input("number", init[place].type)
        carried = {n: graph.input(f"carry{n}", init[n].type) for n in self.moving}
        self.outside: list[V] = []
        """What the parameters after these are."""

        def stays(value: V, source: HloValue) -> V:
            known = outer.number(source)
            if known is not None:
                return graph.full(value.dims, known, value.dtype)
            self.outside.append(value)
            return graph.input(f"outer{len(self.outside)}", value.type)

        for value in captured(body):
            own = outer.values.get(value)
            inner.values[value] = stays(own, value) if isinstance(own, V) else own
        args: list[V] = [stays(x, at.op.operands[n]) if n in fixed else x for n, x in enumerate(init)]
        args[place] = self.number
        for n, x in carried.items():
            args[n] = x
        results = inner.block(body, args)
        self.function = graph.build(*(results[n] for n in self.moving))
        self.has_checks = bool(inner.checks)
        self.reads: dict[Inst, tuple[int, bool]] = {}
        """Instructions that take the slice of this turn: of which outer value, and whether from its end."""
        self.writes: dict[int, tuple[Inst, bool]] = {}
        """Carries (by number) that are written one slice per turn: how, and whether from their end."""

    def find_slices(self, times: int) -> None:
        """Sequences that are read, and buffers that are written, at the number of the turn alone."""
        params = list(self.function.params)
        first_outside = 1 + len(self.moving)
        for inst in self.function:
            if inst.op is ops.dynamic_slice and inst.operands[0] in params[first_outside:]:
                way = self._at_turn(inst.operands[1:], times)
                source = inst.operands[0].type.dims
                if way is not None and source[0] == times and inst.result.type.dims == (1, *source[1:]):
                    self.reads[inst] = params.index(inst.operands[0]) - first_outside, way
        for n, (param, result) in enumerate(zip(params[1:], self.function.results, strict=False)):
            update = result.def_inst
            if update is None or update.op is not ops.dynamic_update_slice or update.operands[0] is not param:
                continue
            whole, part = param.type.dims, update.operands[1].type.dims
            way = self._at_turn(update.operands[2:], times)
            alone = param.has_one_use and result.has_one_use
            if way is not None and alone and whole[0] == times and part == (1, *whole[1:]):
                self.writes[n] = update, way

    def _at_turn(self, starts: Sequence[SSAValue], times: int) -> bool | None:
        """Whether a slice is counted from the end; None if it is another than that of the turn."""
        if not starts or any(not _is_number(x, 0) for x in starts[1:]):
            return None
        if starts[0] is self.number.value:
            return False
        return True if self._is_from_end(starts[0], times) else None

    def _is_from_end(self, value: SSAValue, times: int) -> bool:
        """(times - number) - 1, or (times - 1) - number."""
        inst = value.def_inst
        if inst is None or inst.op is not ops.sub:
            return False
        left, right = inst.operands
        if right is self.number.value:
            return _is_number(left, times - 1)
        inner = left.def_inst
        return (
            _is_number(right, 1)
            and inner is not None
            and inner.op is ops.sub
            and _is_number(inner.operands[0], times)
            and inner.operands[1] is self.number.value
        )

    def scanned(self, numbers: V, times: int) -> dict[int, V]:
        """What goes around, after all turns."""
        kept = [n for n in range(len(self.moving)) if n not in self.writes]
        sources = sorted(set(self.reads.values()))
        sequences = [
            numbers,
            *(x.reverse([0]) if way else x for x, way in ((self.outside[n], w) for n, w in sources)),
        ]
        params = list(self.function.params)

        def body(*args: V) -> list[V]:
            carried, number, slices = args[: len(kept)], args[len(kept)], args[len(kept) + 1 :]
            values = dict(zip(params[1 + len(self.moving) :], self.outside, strict=True))
            values[params[0]] = number
            for n, x in zip(kept, carried, strict=True):
                values[params[1 + n]] = x
            skipped = {inst for inst, _ in self.writes.values()}
            for inst in self.function:
                if inst in self.reads:
                    x = slices[sources.index(self.reads[inst])]
                    values[inst.result] = x.reshape((1, *x.dims))
                elif inst not in skipped:
                    emit(self.graph, inst, values)
            new = [values[self.function.results[n]] for n in kept]
            parts = [values[inst.operands[1]] for inst, _ in self.writes.values()]
            return [*new, *(x.reshape(x.dims[1:]) for x in parts)]

        results = self.graph.scan(body, [self.init[self.moving[n]] for n in kept], sequences, times)
        carries = dict(zip((self.moving[n] for n in kept), results, strict=False))
        for (n, (_, way)), x in zip(self.writes.items(), results[len(kept) :], strict=True):
            carries[self.moving[n]] = x.reverse([0]) if way else x
        return carries


def _is_number(value: SSAValue, wanted: int) -> bool:
    literal = value.literal
    return literal is not None and literal.splat and literal.item == wanted
