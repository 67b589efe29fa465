"""One region, there and back: its instructions emitted on the way there, cotangents pulled through them on the way back.

Only what moves with the wanted values is followed. Control flow has rules of its own, in two tables that `loops` and
`reverse` fill: what to keep on the way there, and how to come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from planish.frontend.autodiff.instruction import RuleSite, Scaled, added, is_differentiable, no_rule, zeros
from planish.frontend.autodiff.rules import DERIVATIVES, LINEAR, RULES, emit_moving, is_flat, reads, spread
from planish.frontend.replay import Replay, Values, emit
from planish.ptir.function import Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.regions import captured


class Cotangents:
    """What has come back to each value so far."""

    __slots__ = ("by_value", "graph")

    def __init__(self, graph: Replay) -> None:
        self.graph = graph
        self.by_value: dict[Value, GraphValue] = {}

    def add(self, value: Value, cotangent: GraphValue) -> None:
        """More of it."""
        self.by_value[value] = added(self.by_value.get(value), cotangent)

    def of(self, value: Value) -> GraphValue:
        """All of it."""
        cotangent = self.by_value.get(value)
        return zeros(self.graph, value.type) if cotangent is None else cotangent


class Sweep:
    """A region with what its arguments (and what it sees from outside) are, and the values that gradients are wanted of."""

    __slots__ = ("graph", "live", "region", "saved", "values")

    def __init__(self, graph: Replay, region: Region, values: Values, wanted: Iterable[Value]) -> None:
        self.graph = graph
        self.region = region
        self.values = values
        self.live = {value for value in wanted if is_differentiable(value.type)}
        """What moves with the wanted values."""
        spread(region, self.live)
        self.saved: dict[Inst, Sequence[GraphValue]] = {}
        """What instructions with regions keep for the way back."""

    def forward(self) -> tuple[GraphValue, ...]:
        """The results."""
        for inst in self.region:
            if not any(result in self.live for result in inst.results):
                emit(self.graph, inst, self.values)
                continue
            keep = THERE.get(inst.op.name)
            self.graph.loc = inst.loc
            if keep is None:
                emit_moving(self.graph, inst, self.values)
            else:
                results, self.saved[inst] = keep(self, inst)
                self.values.update(zip(inst.results, results, strict=True))
        return tuple(self.values[result] for result in self.region.results)

    def backward(self, given: Iterable[tuple[Value, GraphValue]]) -> Cotangents:
        """The cotangents of everything that moves, from those of some results."""
        pulled = Cotangents(self.graph)
        for value, cotangent in given:
            pulled.add(value, cotangent)
        for inst in reversed(self.region):
            if is_flat(inst) or not any(result in pulled.by_value for result in inst.results):
                continue
            if not any(value in self.live for value in reads(inst)):
                continue
            self.graph.loc = inst.loc
            back = BACK.get(inst.op.name)
            if back is not None:
                back(self, inst, pulled)
            else:
                self._pull(RuleSite.of(self.graph, inst, self.values), pulled)
        return pulled

    def _pull(self, at: RuleSite, pulled: Cotangents) -> None:
        inst, name = at.inst, at.inst.op.name
        needs = [operand in self.live for operand in inst.operands]
        if name in RULES:
            parts = RULES[name][1](at, [pulled.by_value.get(result) for result in inst.results], needs)
            for operand, part, need in zip(inst.operands, parts, needs, strict=True):
                if need and part is not None:
                    pulled.add(operand, part)
            return
        cotangent = pulled.of(inst.results[0])
        if name in DERIVATIVES:
            for operand, scale, need in zip(inst.operands, DERIVATIVES[name], needs, strict=True):
                if need and scale is not None:
                    pulled.add(operand, _conjugated(scale, cotangent, at))
        elif name in LINEAR:
            for position, part in LINEAR[name].pull(at, cotangent, needs):
                pulled.add(inst.operands[position], part)
        else:
            raise no_rule(
                inst, f"{name} has no derivative", "wrap it in stop_gradient, or give it one with custom_vjp"
            )

    def seen(self, *regions: Region) -> list[Value]:
        """What regions see from here that gradients are wanted of, each once."""
        values = (value for region in regions for value in captured(region))
        return [value for value in dict.fromkeys(values) if value in self.live]


def _conjugated(scale: Scaled, cotangent: GraphValue, at: RuleSite) -> GraphValue:
    if not cotangent.dtype.is_complex:
        return scale(cotangent, at)
    return scale(cotangent.conj(), at).conj()


def transposed(
    graph: Replay,
    region: Region,
    values: Values,
    fixed: Sequence[GraphValue],
    results: Sequence[Value],
    given: Sequence[GraphValue],
) -> list[GraphValue]:
    """What a region that is linear in its last arguments pulls back to them from some of its results."""
    linear = region.args[len(fixed) :]
    args = [*fixed, *(zeros(graph, arg.type) for arg in linear)]
    sweep = Sweep(graph, region, values | dict(zip(region.args, args, strict=True)), linear)
    sweep.forward()
    pulled = sweep.backward(zip(results, given, strict=True))
    return [pulled.of(arg) for arg in linear]


There = Callable[[Sweep, Inst], tuple[Sequence[GraphValue], Sequence[GraphValue]]]
"""Emit an instruction: its results, and what the way back needs."""
Back = Callable[[Sweep, Inst, Cotangents], None]
"""Add the cotangents of what an instruction reads."""
THERE: Final[dict[str, There]] = {}
BACK: Final[dict[str, Back]] = {}
