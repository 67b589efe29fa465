"""Values of one type become values of others, throughout a function: the engine of passes that take types away.

A `Conversion` says which types go and what stands for them (complex numbers: two reals; quantised integers: plain ones),
and rewrites the instructions that have such operands or results. The engine does what is the same for all of them:
parameters, results and calls, which pass a value whole (`memory`, `load`, `store`), and the regions of `cond`, `while` and `scan`,
which carry it in parts. Instructions that have nothing to do with those types are left alone, with their ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Protocol

from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.splice import Splice
from planish.ptir.ops.control import CallAttrs, ScanAttrs
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import TensorType

Parts = tuple[GraphValue, ...]


class Conversion(Protocol):
    """Which types go, and what becomes of the instructions that know them."""

    def parts(self, type: TensorType) -> tuple[TensorType, ...] | None:
        """The types that stand for one; None if it stays."""
        ...

    def memory(self, type: TensorType) -> TensorType:
        """How a value of a type that goes is passed between functions."""
        ...

    def load(self, whole: GraphValue, type: TensorType) -> Parts:
        """The parts of a value of that type, given as `memory` says."""
        ...

    def store(self, parts: Parts) -> GraphValue:
        """The inverse of `load`."""
        ...

    def convert(self, graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        """Build what `inst` computes, one entry per result; what stays has one part."""
        ...


_CONTROL = frozenset({OpKey.COND, OpKey.WHILE, OpKey.SCAN})


def convert_function(function: Function, conversion: Conversion, rewriter: ProgramRewriter) -> bool:
    """Convert a function in place; gives whether anything was to do."""
    if all(conversion.parts(value.type) is None for value in function.values()):
        return False
    engine = _Engine(conversion, rewriter)
    engine.region(function.body)
    function.version += 1
    return True


class _Engine:
    """One function being converted: what stands for each value that goes."""

    __slots__ = ("conversion", "mapping", "rewriter")

    def __init__(self, conversion: Conversion, rewriter: ProgramRewriter) -> None:
        self.conversion = conversion
        self.rewriter = rewriter
        self.mapping: dict[Value, tuple[Value, ...]] = {}

    def flat(self, values: Iterable[Value]) -> list[Value]:
        return [part for value in values for part in self.mapping.get(value, (value,))]

    def goes(self, value: Value) -> bool:
        return self.conversion.parts(value.type) is not None

    # Nesting is as deep as the user's control flow, not as the graph: recursion is in order.
    def region(self, region: Region) -> None:
        """Parameters, instructions and results, in place."""
        self.parameters(region)
        doomed: list[Inst] = []
        # What is built goes before the instruction it stands for, so the walk does not meet it.
        for inst in region:
            for inner in inst.regions:
                self.region(inner)
            if any(map(self.goes, inst.operands)) or any(map(self.goes, inst.results)):
                self.instruction(inst)
                doomed.append(inst)
        self.results(region)
        for inst in reversed(doomed):
            self.rewriter.erase_inst(inst)

    def parameters(self, region: Region) -> None:
        old = region.args
        if not any(map(self.goes, old)):
            return
        region.args = ()
        wholes: list[tuple[Value, Value]] = []
        for value in old:
            if not self.goes(value):
                value.index = len(region.args)
                region.args = (*region.args, value)
            elif region.owner is None:
                wholes.append((value, region.add_arg(self.conversion.memory(value.type), value.name)))
            else:
                types = self.conversion.parts(value.type) or ()
                name = value.name if len(types) == 1 else None
                self.mapping[value] = tuple([region.add_arg(type, name) for type in types])
        graph = Splice(self.rewriter, region.end.next)
        for value, whole in wholes:
            self.mapping[value] = _values(self.conversion.load(graph.wrap(whole), value.type))

    def results(self, region: Region) -> None:
        old = region.results
        if not any(map(self.goes, old)):
            return
        if region.owner is not None:
            self.rewriter.set_region_results(region, self.flat(old))
            return
        graph = Splice(self.rewriter, region.end)
        wholes = [self.whole(graph, value) for value in old]
        self.rewriter.set_region_results(region, wholes)

    def whole(self, graph: Splice, value: Value) -> Value:
        """A value as it is passed between functions."""
        if not self.goes(value):
            return value
        return self.conversion.store(self.handles(graph, value)).value

    def handles(self, graph: Splice, value: Value) -> Parts:
        return tuple([graph.wrap(part) for part in self.mapping.get(value, (value,))])

    def instruction(self, inst: Inst) -> None:
        """Build what stands for an instruction before it, and hand its results over."""
        graph = Splice(self.rewriter, inst)
        if inst.op.key in _CONTROL:
            results = self.control(inst)
        elif isinstance(inst.attrs, CallAttrs):
            results = self.call(graph, inst, inst.attrs)
        else:
            operands = [self.handles(graph, value) for value in inst.operands]
            results = [_values(parts) for parts in self.conversion.convert(graph, inst, operands)]
        for old, new in zip(inst.results, results, strict=True):
            if self.goes(old):
                self.mapping[old] = new
            else:
                self.rewriter.replace_all_uses(old, new[0])

    def control(self, inst: Inst) -> list[tuple[Value, ...]]:
        """The same op around its regions, which are converted already."""
        attrs: Attrs = inst.attrs
        if isinstance(attrs, ScanAttrs):
            carried = self.flat(inst.operands[: attrs.num_carries])
            attrs = dataclasses.replace(attrs, num_carries=len(carried))
        regions = self.rewriter.detach_regions(inst)
        new = self.rewriter.insert_before(
            inst, inst.op, self.flat(inst.operands), attrs, regions, loc=inst.loc
        )
        left = iter(new.results)
        counts = [len(self.conversion.parts(value.type) or (value,)) for value in inst.results]
        return [tuple([next(left) for _ in range(count)]) for count in counts]

    def call(self, graph: Splice, inst: Inst, attrs: CallAttrs) -> list[tuple[Value, ...]]:
        """A call of the converted callee."""
        conversion = self.conversion
        types = tuple(conversion.memory(type) if conversion.parts(type) else type for type in attrs.results)
        operands = [self.whole(graph, value) for value in inst.operands]
        new = self.rewriter.insert_before(
            inst, inst.op, operands, dataclasses.replace(attrs, results=types), loc=inst.loc
        )
        return [
            _values(conversion.load(graph.wrap(value), old.type)) if self.goes(old) else (value,)
            for old, value in zip(inst.results, new.results, strict=True)
        ]


def _values(parts: Parts) -> tuple[Value, ...]:
    return tuple([part.value for part in parts])
