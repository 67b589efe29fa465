"""The importer: walks the nodes of a graph and writes PTIR, computing on the way what has to be known.

A name stands for a value of the PTIR function under construction (a *segment*), for an array, for a list of such (a sequence)
or for None (an optional that is absent). What follows from constants and shapes alone is computed while importing. Where a
handler needs data that depends on the inputs of the model (the shape of a Reshape, the length of a Range), the segment is
cut: compiled and run, and a new one begins with what is still needed. Without such a cut, a model is one function, and
is kept per types of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import FunctionProto, GraphProto, NodeProto

from planish import dtypes, ptir
from planish.errors import PlanishError
from planish.onnx import registry
from planish.onnx.attributes import Attributes
from planish.onnx.registry import Entry, Unsupported
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import TensorType

Array = NDArray[Any]
Value = Any
"""GraphValue | Array | list[Value] | None."""
Execute = Callable[[ptir.Function, Sequence[Array]], Sequence[Array]]
_SMALL: Final = 64
"""Arrays up to so many elements are constants of the program; larger ones are given to it as parameters."""


class CannotTrace(PlanishError):
    """Data is needed inside a region, where nothing can be computed beforehand."""


class Segment:
    """A PTIR function under construction, and the arrays its parameters stand for."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.arrays: list[Array] = []
        self.parameters: dict[int, GraphValue] = {}
        self.kept: list[Array] = []

    def value(self, array: Array) -> GraphValue:
        """An array as a value: a constant if it is small, else a parameter."""
        if array.size <= _SMALL:
            return self.graph.constant(np.ascontiguousarray(array))
        found = self.parameters.get(id(array))
        if found is None:
            found = self.parameter(array)
        return found

    def parameter(self, array: Array) -> GraphValue:
        """An array as a parameter."""
        type = TensorType(dtypes.from_numpy(array.dtype), array.shape)
        found = self.graph.input(f"x{len(self.arrays)}", type)
        self.arrays.append(array)
        self.parameters[id(array)] = found
        self.kept.append(array)
        return found


@dataclass(slots=True)
class Scope:
    """Names that are visible: those of a graph, then those around it."""

    names: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    is_function: bool = False

    def find(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise PlanishError(f"the model uses {name!r}, which nothing defines")

    def every(self) -> dict[str, Scope]:
        """Each visible name with the scope it is in."""
        found: dict[str, Scope] = {}
        scope: Scope | None = self
        while scope is not None:
            for name in scope.names:
                found.setdefault(name, scope)
            scope = scope.outer
        return found


@dataclass(slots=True)
class At:
    """Where a handler is: the node, its attributes, the graph it writes to."""

    engine: Engine
    node: NodeProto
    attributes: Attributes
    version: int
    scope: Scope

    @property
    def graph(self) -> Graph:
        return self.engine.segment.graph

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.attributes.get(name, default)

    def constant(self, value: Any, dtype: Any = None) -> GraphValue:
        """A small constant."""
        return self.graph.constant(np.asarray(value, dtype))

    def value(self, value: GraphValue | Array) -> GraphValue:
        """An array or value, as a value."""
        return self.engine.segment.value(value) if isinstance(value, np.ndarray) else value

    def refuse(self, why: str) -> Unsupported:
        """An error that names the node."""
        return Unsupported(f"{_title(self.node)}: {why}", op=self.node.op_type)


class Engine:
    """One import. `execute` runs a finished segment; without it (inside a compilation for given types) nothing can be cut."""

    def __init__(
        self,
        versions: Mapping[str, int],
        functions: Mapping[tuple[str, str, str], FunctionProto],
        execute: Execute | None,
        name: str = "model",
    ) -> None:
        self.versions = versions
        self.functions = functions
        self.execute = execute
        self.name = name
        self.segment = Segment(name)
        self.cuts = 0
        self.depth = 0
        """How many regions are open: no cut is possible inside one."""

    # -- graphs ------------------------------------------------------------------------------------------------------

    def run_nodes(
        self, nodes: Sequence[NodeProto], scope: Scope, needed: Sequence[str], outer: Attributes | None = None
    ) -> None:
        """Import nodes in order; `needed` are the names that must be there afterwards."""
        last = _last_uses(nodes, needed)
        for position, node in enumerate(nodes):
            self.run_node(node, scope, outer)
            for name in [n for n in node.input if n and last.get(n) == position]:
                if name in scope.names and name not in needed:
                    del scope.names[name]  # nobody asks for it again: a cut need not keep it

    def run_graph(self, graph: GraphProto, scope: Scope) -> list[Value]:
        """Import a graph whose inputs are in the scope already; the values of its outputs."""
        from planish.onnx.attributes import dense, to_array

        for tensor in graph.initializer:
            scope.names.setdefault(tensor.name, to_array(tensor))
        for sparse in graph.sparse_initializer:
            scope.names.setdefault(sparse.values.name, dense(sparse))
        wanted = [output.name for output in graph.output]
        self.run_nodes(graph.node, scope, wanted)
        return [scope.find(name) for name in wanted]

    def run_node(self, node: NodeProto, scope: Scope, outer: Attributes | None) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = Attributes(node, outer)
        function = self.functions.get((domain, node.op_type, getattr(node, "overload", "")))
        inputs = [scope.find(name) if name else None for name in node.input]
        if function is not None:
            self.run_function(function, node, attributes, inputs, scope)
            return
        version = self.versions.get(domain, 1)
        entry = registry.find(domain, node.op_type, version)
        if entry is None:
            raise Unsupported(
                f"{_title(node)}: there is no import of {domain or 'ai.onnx'}:{node.op_type} {version}"
            )
        at = At(self, node, attributes, version, scope)
        outputs = self.call(entry, at, inputs)
        unread = attributes.unread()
        if unread:
            raise at.refuse(f"attribute {', '.join(unread)} is not understood")
        for name, value in zip(node.output, outputs, strict=False):
            if name:
                scope.names[name] = value

    def run_function(
        self,
        function: FunctionProto,
        node: NodeProto,
        attributes: Attributes,
        inputs: Sequence[Value],
        scope: Scope,
    ) -> None:
        """A function of the model, or of a function op, in place of its call."""
        inner = Scope(is_function=True)
        for position, name in enumerate(function.input):
            inner.names[name] = inputs[position] if position < len(inputs) else None
        for default in function.attribute_proto:
            if default.name not in attributes:
                attributes._found[default.name] = Attributes(NodeProto(attribute=[default])).get(default.name)
        for name in function.attribute:
            attributes.get(name)
        before = self.versions
        self.versions = {
            **before,
            **{i.domain if i.domain != "ai.onnx" else "": i.version for i in function.opset_import},
        }
        try:
            self.run_nodes(function.node, inner, list(function.output), attributes)
        finally:
            self.versions = before
        for name, result in zip(node.output, function.output, strict=False):
            if name:
                scope.names[name] = inner.find(result)

    # -- one node ------------------------------------------------------------------------------------------------------

    def call(self, entry: Entry, at: At, inputs: Sequence[Value]) -> Sequence[Value]:
        """The outputs of a node."""
        given = list(inputs)
        if entry.sequences:
            return _several(entry.handler(at, *given))
        if entry.host:
            known = self.known(at, range(len(given)), given)
            return _several(entry.handler(at, *known))
        if all(value is None or isinstance(value, np.ndarray) for value in given) and not _makes_noise(at):
            return self.fold(entry, at, given)
        positions = self._positions(entry, at, given)
        if positions:
            given = self.known(at, positions, given)
        ready = [
            value if value is None or isinstance(value, list) or n in positions else at.value(value)
            for n, value in enumerate(given)
        ]
        try:
            return _several(entry.handler(at, *ready))
        except PlanishError as error:
            if not isinstance(error, Unsupported | CannotTrace) and _title(at.node) not in str(error):
                error.add_note(f"while importing {_title(at.node)}")
            raise

    def _positions(self, entry: Entry, at: At, given: Sequence[Value]) -> set[int]:
        chosen = (
            range(len(given))
            if entry.known == "all"
            else entry.known(at, given)
            if callable(entry.known)
            else entry.known
        )
        return {n % len(given) if n < 0 else n for n in chosen if -len(given) <= n < len(given)}

    def fold(self, entry: Entry, at: At, given: Sequence[Value]) -> Sequence[Value]:
        """A node of which everything is known: computed now, by the interpreter."""
        positions = self._positions(entry, at, given)
        before, self.segment = self.segment, Segment("fold")
        try:
            ready = [
                value if value is None or n in positions else self.segment.value(value)
                for n, value in enumerate(given)
            ]
            outputs = _several(entry.handler(at, *ready))
            lazy = [value for value in outputs if isinstance(value, GraphValue)]
            results: list[Array] = []
            if lazy:
                function = self.segment.graph.build(*lazy)
                results = [np.asarray(r) for r in ptir.interpret(function, self.segment.arrays)]
            rest = iter(results)
            return [next(rest) if isinstance(value, GraphValue) else value for value in outputs]
        finally:
            self.segment = before

    def known(
        self, at: At, positions: Sequence[int] | range | set[int], given: Sequence[Value]
    ) -> list[Value]:
        """The inputs, those at the positions as arrays; the segment is cut if it computes one of them."""
        values = list(given)
        lazy = [n for n in positions if isinstance(values[n], GraphValue)]
        if lazy:
            names = {at.node.input[n] for n in lazy}
            self.cut(at, names)
            for n, name in enumerate(at.node.input):
                if name and isinstance(values[n], GraphValue):
                    values[n] = at.scope.find(name)
        return values

    def require(self, at: At, scope: Scope, name: str) -> Array:
        """The data of a name, whatever it takes."""
        if isinstance(scope.find(name), GraphValue):
            self.cut(At(self, at.node, at.attributes, at.version, scope), {name})
        found: Array = scope.find(name)
        return found

    def cut(self, at: At, demanded: set[str]) -> None:
        """Run what has been written, and go on with arrays where there were values."""
        if self.execute is None or self.depth:
            raise CannotTrace(
                f"{_title(at.node)} needs the data of {', '.join(sorted(demanded))}, which depends on the inputs"
            )
        visible = at.scope.every()
        live: dict[GraphValue, None] = {}
        for name, scope in visible.items():
            live.update(dict.fromkeys(_lazy_in(scope.names[name])))
        arrays = dict(zip(live, self.finish(list(live)), strict=True))
        self.cuts += 1
        for name, scope in visible.items():
            # what was demanded is data from now on; the rest are inputs of the next segment
            scope.names[name] = self._after_cut(scope.names[name], arrays, name in demanded)

    def _after_cut(self, value: Value, arrays: Mapping[GraphValue, Array], demanded: bool) -> Value:
        if isinstance(value, list):
            return [self._after_cut(item, arrays, demanded) for item in value]
        if not isinstance(value, GraphValue):
            return value
        array = arrays[value]
        if demanded:
            return array
        known = self.segment.parameters.get(id(array))
        return self.segment.parameter(array) if known is None else known

    def finish(self, values: Sequence[GraphValue]) -> list[Array]:
        """Run the segment for these values; a new one begins."""
        done, self.segment = self.segment, Segment(self.name)
        function = done.graph.build(*values)
        if self.execute is None:
            raise CannotTrace("nothing can be computed here")
        return [np.asarray(result) for result in self.execute(function, done.arrays)]


def _lazy_in(value: Value) -> list[GraphValue]:
    """The values of the segment in a value, those in sequences too."""
    if isinstance(value, list):
        return [found for item in value for found in _lazy_in(item)]
    return [value] if isinstance(value, GraphValue) else []


def _several(outputs: Any) -> list[Value]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _title(node: NodeProto) -> str:
    return (
        f"node {node.name!r} ({node.op_type})"
        if node.name
        else f"a {node.op_type} node (for {', '.join(node.output)})"
    )


def _makes_noise(at: At) -> bool:
    """Random ops have no inputs, and are not constants for that."""
    return at.node.op_type.startswith(("Random", "Multinomial", "Bernoulli")) or any(
        a.g.ByteSize() or a.graphs for a in at.node.attribute
    )


def _last_uses(nodes: Sequence[NodeProto], needed: Sequence[str]) -> dict[str, int]:
    """After which node a name is not asked for any more; names that graphs inside nodes use count."""
    last: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in _names_used(node):
            last[name] = position
    for name in needed:
        last.pop(name, None)
    return last


def _names_used(node: NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                found |= _names_used(inner)
            found |= {output.name for output in graph.output}
    return found
