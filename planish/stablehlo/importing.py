"""A module becomes one PTIR function: calls are inlined, regions are built where they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from planish import ptir
from planish.errors import PlanishError, did_you_mean
from planish.frontend.replay import Replay, replay
from planish.frontend.vmap import batch
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.handle import Number
from planish.ptir.types import TensorType
from planish.stablehlo import ops  # noqa: F401 - fills the table
from planish.stablehlo.ops.quantization import dequantized, element_of, expressed, is_computed, quantized
from planish.stablehlo.registry import ELEMENTWISE, TABLE
from planish.stablehlo.site import CannotImport, Site
from planish.stablehlo.sizes import Frame, KnownSizes
from planish.stablehlo.syntax import (
    HloBlock,
    HloFunction,
    HloModule,
    HloTensorType,
    HloValue,
    Operation,
    captured,
)

_DEEPEST: Final = 200
"""Calls inside of calls: more are a recursion, which StableHLO does not have."""

_ELSEWHERE: Final = "it talks to a host or another device, and there is one program here"
_REFUSED: Final = {
    **dict.fromkeys((f"stablehlo.{n}" for n in ("infeed", "outfeed", "send", "recv")), _ELSEWHERE),
    **dict.fromkeys((f"stablehlo.{n}" for n in ("async_start", "async_done")), _ELSEWHERE),
    **dict.fromkeys(("chlo.ragged_dot", "chlo.scan", "chlo._asin_acos_kernel"), "it has no lowering yet"),
}


class ModuleImporter:
    """A graph under construction, and what the values of the module are in it."""

    def __init__(self, module: HloModule, graph: Replay) -> None:
        self.module = module
        self.graph = graph
        self.values: dict[HloValue, Any] = {}
        """Values of the graph; tuples of them for tuples, None for tokens."""
        self.frame: Frame = Frame({}, None)
        self.sizes = KnownSizes(self)
        self.checks: list[tuple[Operation, V]] = []
        """What `check.…` operations compare: each a bool that ought to be True."""
        self._depth = 0

    # --- functions and regions ---

    def call(
        self, function: HloFunction, args: Sequence[Any], given: Sequence[HloValue] = ()
    ) -> tuple[Any, ...]:
        """The body of a function in place of a call of it."""
        if self._depth > _DEEPEST:
            raise CannotImport(f"{function.name} calls itself", location=function.location)
        outer, self.frame = self.frame, self.frame.called(function, given)
        self._depth += 1
        kept = {value: self.values.get(value) for value in function.block.args} if self._depth > 1 else {}
        try:
            return self.block(function.block, args)
        finally:
            self.frame = outer
            self._depth -= 1
            self.values |= kept

    def block(self, block: HloBlock, args: Sequence[Any]) -> tuple[Any, ...]:
        """What a block returns for these arguments."""
        self.values.update(zip(block.args, args, strict=True))
        for op in block.body:
            self.operation(op)
        return tuple(self.values[v] for v in block.end.operands)

    def operation(self, op: Operation) -> None:
        """One operation, its results bound."""
        if is_computed(op):
            self._quantized(op)
            return
        known = TABLE.get(op.name)
        site = Site(self, op)
        if known is None:
            close = None if op.name in _REFUSED else did_you_mean(op.name, TABLE)
            why = _REFUSED.get(op.name, "there is no such operation")
            site.refuse(why, f"did you mean {close}?" if close else None)
        attributes = {n: a for n, a in op.attributes.items() if "." not in n or known.attributes is None}
        for name, value in attributes.items():
            if known.attributes is not None and name not in known.attributes:
                site.refuse(
                    f"the attribute {name} = {value!r} is not known",
                    f"it has {', '.join(sorted(known.attributes)) or 'none'}",
                )
        outer, self.graph.loc = self.graph.loc, op.location
        try:
            output = known.call(site, *(self.values[v] for v in op.operands), **attributes)
        except CannotImport:
            raise
        except PlanishError as error:
            error.location = op.location or error.location
            error.op = op.name
            raise
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # of the call itself
                site.refuse(f"it is incomplete: {error}")
            raise
        finally:
            self.graph.loc = outer
        results = output if isinstance(output, list | tuple) and not _is_tuple(op) else (output,)
        if len(results) != len(op.results):
            site.refuse(f"{len(op.results)} results are wanted, {len(results)} were made")
        for result, graph_value in zip(op.results, results, strict=True):
            self._check(site, result, graph_value)
            self.values[result] = graph_value

    def _quantized(self, op: Operation) -> None:
        """Of the numbers that are meant, and back to integers."""
        inner = expressed(op)
        for value, own in zip(op.operands, inner.operands, strict=True):
            element = element_of(value)
            if element is not None:
                self.graph.loc = op.location
                self.values[own] = dequantized(self.values[value], element)
        self.operation(inner)
        for value, own in zip(op.results, inner.results, strict=True):
            element = element_of(value)
            graph_value = self.values[own]
            self.values[value] = graph_value if element is None else quantized(graph_value, element)

    def _check(self, site: Site, value: HloValue, graph_value: Any) -> None:
        """What was made has the type that the module says, as far as it says one."""
        if not isinstance(value.type, HloTensorType) or not isinstance(graph_value, V) or self.lifted:
            return
        wanted = value.type.dims
        if len(wanted) != graph_value.rank or any(
            w is not None and isinstance(d, int) and w != d
            for w, d in zip(wanted, graph_value.dims, strict=True)
        ):
            site.refuse(f"{value.type} is wanted, {graph_value.type} was made")

    lifted = False
    """Whether regions of scalars are applied to tensors."""

    # --- regions of scalars ---

    def elementwise(self, site: Site, block: HloBlock, args: Sequence[V]) -> tuple[V, ...]:
        """A region of scalars, for all elements at once."""
        if not args or not args[0].rank:
            return self.block(block, args)
        dims = args[0].dims
        if self.is_elementwise(block):
            before, self.lifted = self.lifted, True
            try:
                values = self.block(block, args)
            finally:
                self.lifted = before
            return tuple(x if x.dims == dims else x.broadcast_to(dims) for x in values)
        return self._mapped(site, block, args)

    def is_elementwise(self, block: HloBlock) -> bool:
        """Whether every operation of a region does to each element what it does to a scalar."""
        for op in block.body:
            if op.name == "func.call":
                inner = self.module.functions.get(op.attributes["callee"])
                if inner is None or not self.is_elementwise(inner.block):
                    return False
            elif op.name not in ELEMENTWISE and not _is_trivial(op):
                return False
        return True

    def _mapped(self, site: Site, block: HloBlock, args: Sequence[V]) -> tuple[V, ...]:
        """Any region: built as a function of scalars, and that function for every element."""
        outside = [v for v in captured(block) if isinstance(self.values.get(v), V)]
        graph = Replay("region")
        inner = ModuleImporter(self.module, graph)
        inner.frame = self.frame
        inner.values = {v: graph.input(f"c{n}", self.values[v].type) for n, v in enumerate(outside)}
        own = [graph.input(f"x{n}", TensorType(x.dtype, ())) for n, x in enumerate(args)]
        function = graph.build(*inner.block(block, own))
        size = args[0].type.size
        vectorized, batched = batch(function, [*[False] * len(outside), *[True] * len(args)], size)
        flat = [self.values[v] for v in outside] + [x.reshape((size,)) for x in args]
        results = replay(self.graph, vectorized.body, dict(zip(vectorized.params, flat, strict=True)))
        dims = args[0].dims
        return tuple(
            x.reshape(dims) if flag else x.broadcast_to(dims)
            for x, flag in zip(results, batched, strict=True)
        )

    # --- constants ---

    def number(self, value: HloValue) -> Number | None:
        """The number that a value is everywhere, if it is a constant."""
        value, frame = self.frame.resolve(value)
        op = value.op
        while op is not None and op.name in (
            "stablehlo.broadcast_in_dim",
            "stablehlo.reshape",
            "stablehlo.broadcast",
        ):
            value, frame = frame.resolve(op.operands[0])
            op = value.op
        if op is None or not op.name.endswith(".constant"):
            return None
        elements = op.attributes["value"].array
        if not elements.size or (elements.ndim and not _alike(elements)):
            return None
        element: Number = np.asarray(elements).reshape(-1)[0].item()
        return element


def _alike(elements: Any) -> bool:
    flat = np.ascontiguousarray(elements).reshape(-1)
    return flat.tobytes() == np.ascontiguousarray(np.broadcast_to(flat[0], flat.shape)).tobytes()


def _is_tuple(op: Operation) -> bool:
    return op.name in ("stablehlo.tuple", "stablehlo.get_tuple_element")


def _is_trivial(op: Operation) -> bool:
    """Scalars made of scalars: nothing moves."""
    return op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.transpose") and all(
        isinstance(v.type, HloTensorType) and not v.type.dims for v in (*op.operands, *op.results)
    )


def import_function(
    module: HloModule, name: str, types: Sequence[TensorType], names: Sequence[str]
) -> tuple[ptir.Function, ModuleImporter]:
    """A function of a module for arguments of given types."""
    function = module.functions[name]
    graph = Replay(name)
    graph.loc = function.location
    importer = ModuleImporter(module, graph)
    importer.sizes.given = dict(zip(function.block.args, types, strict=True))
    args = [graph.input(n, t) for n, t in zip(names, types, strict=True)]
    results = importer.call(function, args)
    flat: list[V] = []
    _flatten(results, flat)
    checks = [ok for _, ok in importer.checks]
    return graph.build(*flat, *checks), importer


def _flatten(results: Sequence[Any], flat: list[V]) -> None:
    for result in results:
        if isinstance(result, tuple):
            _flatten(result, flat)
        elif result is not None:
            flat.append(result)


__all__ = ["ModuleImporter", "captured", "import_function"]
