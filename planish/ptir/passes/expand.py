"""`expand`: composite ops become compositions of simpler ones.

Which op becomes what is a table, `library.expansions`. Quantised values become plain integers first, since the types of everything
that holds them change with that: after `expand` no type has a quantisation, and no instruction is a composite except those
of complex parts, which `expand-complex` takes away, and those that a routine of the machine computes (`library.hosted`). Collectives become such as are carried
between ranks (`library.carried`). Results keep every bit (docs/semantics.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from planish.ptir import ops
from planish.ptir.function import Function, Inst, Program
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.carried import CARRIED
from planish.ptir.library.expansions import EXPANSIONS
from planish.ptir.library.hosted import HOSTED
from planish.ptir.library.splice import Splice
from planish.ptir.ops.definition import Attrs, ConstantAttrs
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.expand_types import Parts, convert_function
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import TensorType
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class ExpandPass:
    """Rewrite composite ops into simpler ones."""

    name: ClassVar[str] = "expand"

    only: tuple[str, ...] = ()
    """The ops to expand; none named: all composites."""

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        statistics: dict[str, int | float] = {"expanded": 0}
        changed: list[str] = []
        for function in program:
            counts = expand_composites(function, self.only, context)
            for name, count in counts.items():
                statistics["expanded"] += count
                statistics[f"op.{name}"] = statistics.get(f"op.{name}", 0) + count
            if counts:
                changed.append(function.name)
        return PassResult(bool(changed), statistics, tuple(changed))


def expand_composites(
    function: Function, only: Sequence[str] = (), context: PassContext = DEFAULT_CONTEXT
) -> dict[str, int]:
    """Expand the composites of one function; gives how many of each op there were."""
    counts: dict[str, int] = {}
    rewriter = ProgramRewriter(function, context.listener, pattern="expand")
    if not only or "quantize" in only or "dequantize" in only:
        plain = _PlainIntegers(counts)
        convert_function(function, plain, rewriter)
    for inst in list(function.walk()):
        name = inst.op.name
        build = EXPANSIONS.get(name)
        stays = context.routines and name in HOSTED
        if (build is None and not stays and name not in CARRIED) or (only and name not in only):
            continue
        graph = Splice(rewriter, inst)
        operands = [graph.wrap(value) for value in inst.operands]
        results = HOSTED[name](operands, inst.attrs) if stays else None
        if name in CARRIED:
            carried = CARRIED[name](operands, inst.attrs, context.routines)
            results = None if carried is None else (carried,)
        if results is None:
            if build is None:
                continue
            results = build(operands, inst.attrs)
        rewriter.replace_op(inst, *[result.value for result in results])
        counts[name] = counts.get(name, 0) + 1
    if counts:
        function.version += 1
    return counts


class _PlainIntegers:
    """Quantised values as the integers they are stored in; `quantize` and `dequantize` as what they compute."""

    __slots__ = ("counts",)

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def parts(self, type: TensorType) -> tuple[TensorType, ...] | None:
        return None if type.quant is None else (_plain(type),)

    def memory(self, type: TensorType) -> TensorType:
        return _plain(type)

    def load(self, whole: GraphValue, type: TensorType) -> Parts:
        return (whole,)

    def store(self, parts: Parts) -> GraphValue:
        return parts[0]

    def convert(self, graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        name = inst.op.name
        plain = [part for parts in operands for part in parts]
        if isinstance(inst.attrs, ops.QuantizeAttrs | ops.DequantizeAttrs):
            self.counts[name] = self.counts.get(name, 0) + 1
            return [(result,) for result in EXPANSIONS[name](plain, inst.attrs)]
        return [(result,) for result in graph.emit_many(inst.op, plain, _without_quant(inst.attrs))]


def _plain(type: TensorType) -> TensorType:
    return TensorType(type.dtype, type.dims)


def _without_quant(attrs: Attrs) -> Attrs:
    if isinstance(attrs, ConstantAttrs):
        return dataclasses.replace(attrs, quant=None)
    if isinstance(attrs, ops.CustomCallAttrs):
        return dataclasses.replace(attrs, results=tuple([_plain(type) for type in attrs.results]))
    return attrs
