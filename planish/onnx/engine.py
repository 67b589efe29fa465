"""The importer: walks the nodes of a graph and writes PTIR, computing on the way what has to be known.

A name stands for a value of the PTIR function under construction (a *segment*), for an array, for a list of such (a sequence)
or for None (an optional that is absent). What follows from constants and shapes alone is computed while importing. Where a
handler needs data that depends on the inputs of the model (the shape of a Reshape, the length of a Range), the segment is
cut: compiled and run, and a new one begins with what is still needed. Without such a cut, a model is one function.
Everything that is run goes through a recorder, so that the next run with such inputs repeats it without importing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import FunctionProto, GraphProto, NodeProto

from planish import ptir
from planish.errors import Location, PlanishError
from planish.onnx import registry, work
from planish.onnx.attributes import Attributes
from planish.onnx.functions import body_of, defaults_of
from planish.onnx.host_call import HostCall
from planish.onnx.lengths import Lengths, NamedLengths
from planish.onnx.prepared_weights import Prepared
from planish.onnx.preparing import prepared
from planish.onnx.registry import OpForm, Unsupported
from planish.onnx.scope import NameScope, Value, last_uses
from planish.onnx.segment import Segment, arrays_in, lazy_in, trimmed, with_arrays
from planish.onnx.site import CannotTrace, NodeSite, failure_at, label_of, title_of
from planish.onnx.symbols import as_numbers, follow, whole_kind
from planish.onnx.tape import Call, TapeRecorder
from planish.onnx.tensors import dense, on_device, to_array
from planish.onnx.value_kinds import WITH_WORDS, is_text, kind_of_value, stays_in_program
from planish.ptir.dims import bounds
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import DimLike, TensorType

Array = NDArray[Any]
Compile = Callable[[ptir.Function], Call]


class Importer:
    """One import. Without a recorder (a program for given types is wanted) nothing can be run, and nothing cut."""

    def __init__(
        self,
        versions: Mapping[str, int],
        functions: Mapping[tuple[str, str, str], FunctionProto],
        recorder: TapeRecorder | None,
        compile: Compile | None,
        name: str = "model",
        folder: str | None = None,
    ) -> None:
        self.versions = versions
        self.functions = functions
        self.recorder = recorder
        self.compile = compile
        self.name = name
        self.folder = folder
        self.varying: dict[int, Array] = {}
        """Known arrays that are others in the next step of a loop: parameters of the program, so that steps are equal."""
        self.segment = Segment(name, self.varying)
        self.depth = 0
        """How many regions are open: no cut is possible inside one."""
        self.steps: dict[int, tuple[Any, ...]] = {}
        """What quantised values were made of, by their ids: the value, its steps, its zero point, how they are laid out."""
        self.units: dict[int, Any] = {}
        """What values that stand for integers were made of, by their ids."""
        self.nodes: Sequence[NodeProto] = ()
        """The nodes of the graph that is being imported."""
        self.number = 0
        """Which node of the model that is, counted from 1: its place, as a line is that of a program's."""
        self.symbols: dict[int, tuple[GraphValue, Array]] = {}
        """Values that hold sizes with names, by id, and these."""
        self.prepared = Prepared()
        """Work on weights that was done already."""
        self.lengths = NamedLengths(Lengths())
        self._ends: dict[int, tuple[Any, tuple[list[list[str]], set[str]]]] = {}
        self._initial: dict[int, tuple[GraphProto, dict[str, Array]]] = {}

    # -- graphs ------------------------------------------------------------------------------------------------------

    def run_nodes(self, nodes: Sequence[NodeProto], scope: NameScope, needed: Sequence[str]) -> None:
        """Import nodes in order; `needed` are the names that must be there afterwards."""
        kept = self._ends.get(id(nodes))
        if kept is None or kept[0] is not nodes:
            kept = self._ends[id(nodes)] = (nodes, last_uses(nodes, needed))
        ends, used = kept[1]
        around, self.nodes = self.nodes, nodes
        for number, (node, ended) in enumerate(zip(nodes, ends, strict=True), 1):
            if not around:
                self.number = number
            self.segment.graph.place = Location(self.name, self.number, None, label_of(node))
            self.run_node(node, scope, used)
            for name in ended:
                scope.names.pop(name, None)  # nobody asks for it again: a cut need not keep it
        self.nodes = around

    def run_graph(self, graph: GraphProto, scope: NameScope) -> list[Value]:
        """Import a graph whose inputs are in the scope already; the values of its outputs."""
        if graph.initializer or graph.sparse_initializer:
            for name, array in self.initializers(graph).items():
                scope.names.setdefault(name, array)
        wanted = [output.name for output in graph.output]
        self.run_nodes(graph.node, scope, wanted)
        return [scope.find(name) for name in wanted]

    def give_initializers(self, graph: GraphProto, arrays: dict[str, Array]) -> None:
        """The initialisers of a graph, where they are known already."""
        self._initial[id(graph)] = (graph, arrays)

    def initializers(self, graph: GraphProto) -> dict[str, Array]:
        """The arrays that a graph brings along."""
        kept = self._initial.get(id(graph))
        if kept is None:
            arrays = {tensor.name: to_array(tensor, self.folder) for tensor in graph.initializer}
            arrays |= {sparse.values.name: dense(sparse, self.folder) for sparse in graph.sparse_initializer}
            kept = self._initial[id(graph)] = (graph, arrays)
        return kept[1]

    def run_node(self, node: NodeProto, scope: NameScope, used: set[str]) -> None:
        """Import one node; only names in `used` are kept."""
        try:
            outputs = self._outputs(node, scope)
        except CannotTrace:
            raise
        except PlanishError as error:
            if not getattr(error, "names_node", False):
                error.names_node = True  # type: ignore[attr-defined]
                if not error.message.startswith(title_of(node)):
                    error.message = f"{title_of(node)}: {error.message}"
            raise
        except (RecursionError, MemoryError) as error:
            raise failure_at(node, f"takes too much ({type(error).__name__})") from None
        except Exception as error:
            raise failure_at(node, f"{type(error).__name__}: {error}") from error
        for name, value in zip(node.output, outputs, strict=False):
            if name and name in used:
                scope.names[name] = value

    def _outputs(self, node: NodeProto, scope: NameScope) -> Sequence[Value]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = Attributes(node, scope.call(), self.folder)
        inputs = [scope.find(name) if name else None for name in node.input]
        function = self.functions.get((domain, node.op_type, getattr(node, "overload", "")))
        if function is not None:
            return self.run_function(function, node, attributes, inputs, scope)
        version = self.versions.get(domain, 1)
        entry = registry.find(domain, node.op_type, version)
        if entry is None:
            body = body_of(domain, attributes.said(), version, [kind_of_value(value) for value in inputs])
            if body is None:
                raise Unsupported(f"there is no import of {domain or 'ai.onnx'}:{node.op_type} {version}")
            for default in defaults_of(domain, node, version):
                attributes.default(default.name, Attributes(NodeProto(attribute=[default])).get(default.name))
            try:
                return self.run_function(body, node, attributes, inputs, scope)
            except CannotTrace:
                raise
            except PlanishError as error:
                # the user wrote this node, not those that it stands for
                error.message = f"{title_of(node)}: {error.message}"
                raise
        at = NodeSite(self, node, attributes, version, scope)
        before = self.segment
        last = before.graph.region.end.prev
        outputs = self.call(entry, at, inputs)
        region = self.segment.graph.region
        written = work.since(region, last if self.segment is before else None)
        at.work(sum(map(work.work_of, written)), at.elements + work.elements_of(outputs))
        unread = attributes.unread()
        if unread:
            raise at.refuse(f"attribute {', '.join(unread)} is not understood")
        for value in outputs:
            if isinstance(value, GraphValue):
                at.room(math.prod(bounds(dim)[1] for dim in value.dims), max(value.dtype.itemsize, 1))
        return outputs

    def run_function(
        self,
        function: FunctionProto,
        node: NodeProto,
        attributes: Attributes,
        inputs: Sequence[Value],
        scope: NameScope,
    ) -> list[Value]:
        """A function of the model, or of a function op, in place of its call."""
        inner = NameScope(caller=scope, attributes=attributes)
        for position, name in enumerate(function.input):
            inner.names[name] = inputs[position] if position < len(inputs) else None
        for default in function.attribute_proto:
            attributes.default(default.name, Attributes(NodeProto(attribute=[default])).get(default.name))
        unread = set(attributes.unread()) - set(function.attribute)
        if unread:
            raise Unsupported(
                f"{title_of(node)}: attribute {', '.join(sorted(unread))} is not understood", op=node.op_type
            )
        before = self.versions
        own = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in function.opset_import}
        self.versions = {**before, **own}
        # what nobody asks for need not even be defined
        asked = [name for name, given in zip(function.output, node.output, strict=False) if given]
        try:
            self.run_nodes(function.node, inner, asked)
        finally:
            self.versions = before
        return [inner.find(name) if name in asked else None for name in function.output]

    # -- one node ------------------------------------------------------------------------------------------------------

    def call(self, entry: OpForm, at: NodeSite, inputs: Sequence[Value]) -> Sequence[Value]:
        """The outputs of a node."""
        given = list(inputs)
        if not self.symbols:
            return self._called(entry, at, given)
        sizes = self._sizes(at, given)
        known = None if sizes is None else as_numbers(sizes)
        if known is not None:
            for attribute in at.node.attribute:
                at.attr(attribute.name)
            return [
                known
                if known.dtype == np.bool_
                else known.astype(whole_kind(at.node.op_type, at.attributes, given))
            ]
        outputs = self._called(entry, at, given)
        if sizes is not None and isinstance(outputs[0], GraphValue):
            self.symbols[outputs[0].id] = (outputs[0], sizes)
        return outputs

    def _sizes(self, at: NodeSite, given: Sequence[Value]) -> Array | None:
        """The sizes, some with names, that a node makes of sizes with names."""
        known = [self.named(value) for value in given]
        if not any(value is not None and value.dtype == object for value in known):
            return None
        if any(a is None and b is not None for a, b in zip(known, given, strict=True)):
            return None
        return follow(at.node.op_type, at.attributes, known)

    def named(self, value: Value) -> Array | None:
        """A known array, or the sizes, some with names, that a value holds."""
        if isinstance(value, GraphValue):
            kept = self.symbols.get(value.id)
            return kept[1] if kept is not None and kept[0].value is value.value else None
        return value if isinstance(value, np.ndarray) else None

    def _is_read_text(self, value: Value) -> bool:
        """Whether it is text of this run, which another run has otherwise: the tape knows where it is, not what it says."""
        return (
            self.recorder is not None
            and isinstance(value, np.ndarray)
            and not on_device(value.dtype)
            and id(value) in self.recorder.numbers
        )

    def _called(self, entry: OpForm, at: NodeSite, given: list[Value]) -> Sequence[Value]:
        if not entry.host and not entry.sequences and (entry.texts(at) or any(map(is_text, given))):
            return self._on_host(entry, at, given)
        passes = entry.host or at.node.op_type == "Identity"
        if self.recorder is not None and not passes and any(map(self._is_read_text, given)):
            self.recorder.keeps = False  # what follows from it is written into the program
        if entry.sequences:
            return entry.outputs(at, given)
        if entry.host:
            return self._on_host(entry, at, given)
        known = all(value is None or isinstance(value, np.ndarray) for value in given)
        if known and not stays_in_program(at, given):
            folded = self.fold(entry, at, given)
            if folded is not None:
                return folded
        positions = self._positions(entry, at, given)
        if positions:
            given = self.known(at, positions, given)
        ready = [
            value if value is None or isinstance(value, list) or n in positions else at.value(value)
            for n, value in enumerate(given)
        ]
        return entry.outputs(at, ready)

    def _on_host(self, entry: OpForm, at: NodeSite, given: Sequence[Value]) -> Sequence[Value]:
        """An op on arrays. What it makes of data is data: no later step may count on what it was this time."""
        unknown = any(isinstance(value, GraphValue) or self._is_read_text(value) for value in given)
        known = self.known(at, range(len(given)), given, look=False)
        recorder = self.recorder
        if (
            recorder is None
            or not unknown
            or not all(value is None or isinstance(value, np.ndarray) for value in known)
        ):
            if unknown and recorder is not None:
                recorder.keeps = False
            return self.on_arrays(entry, at, known)
        places = [n for n, value in enumerate(known) if value is not None]
        call = HostCall(at.attributes.said(), at.version, places, at.attributes)
        dims: list[tuple[DimLike, ...]] = []
        key_of = partial(self.lengths.key, " ".join(at.node.output), dims)
        pairs = zip(recorder.call(call, [known[n] for n in places], False, key_of), dims, strict=True)
        return [self.segment.parameter(array, d) if on_device(array.dtype) else array for array, d in pairs]

    def on_arrays(self, entry: OpForm, at: NodeSite, given: Sequence[Value]) -> Sequence[Value]:
        """A node on arrays, text among them perhaps: what moves elements about, or compares them, is done with numbers for words."""
        if entry.host:
            return entry.outputs(at, given)
        if at.node.op_type not in WITH_WORDS:
            return self._folded(entry, at, given)
        flat = [value.reshape(-1) for value in given if is_text(value)]
        if not flat:
            return self._folded(entry, at, given)
        words, codes = np.unique(np.concatenate(flat).astype(str), return_inverse=True)
        parts = iter(np.split(codes, np.cumsum([len(part) for part in flat])[:-1]))
        numbers = [next(parts).reshape(value.shape) if is_text(value) else value for value in given]
        outputs = self._folded(entry, at, numbers)
        held = words.astype(object)
        return [held[output] for output in outputs] if WITH_WORDS[at.node.op_type] else outputs

    def _folded(self, entry: OpForm, at: NodeSite, given: Sequence[Value]) -> Sequence[Value]:
        outputs = self.fold(entry, at, given)
        if outputs is None:
            raise at.refuse("takes too much on the host")
        return outputs

    def fresh(self, make: Callable[[], Array]) -> GraphValue:
        """Data that each run makes anew: the key of random numbers without a seed."""
        if self.recorder is None or self.depth:
            raise CannotTrace("every run makes this anew")
        return self.segment.parameter(self.recorder.call(lambda: [make()], [], True)[0])

    def _positions(self, entry: OpForm, at: NodeSite, given: Sequence[Value]) -> set[int]:
        chosen = (
            range(len(given))
            if entry.known == "all"
            else entry.known(at, given)
            if callable(entry.known)
            else entry.known
        )
        return {n % len(given) if n < 0 else n for n in chosen if -len(given) <= n < len(given)}

    def fold(self, entry: OpForm, at: NodeSite, given: Sequence[Value]) -> Sequence[Value] | None:
        """A node of which everything is known: computed now, by the interpreter. None if that is too much."""
        positions = self._positions(entry, at, given)
        before, self.segment = self.segment, Segment("fold")
        try:
            ready = [
                value if value is None or n in positions else self.segment.value(value)
                for n, value in enumerate(given)
            ]
            outputs = entry.outputs(at, ready)
            lazy = [value for value in outputs if isinstance(value, GraphValue)]
            results: list[Array] = []
            if lazy:
                function = self.segment.graph.build(*lazy)
                held = sum(value.size for value in given if value is not None)
                if work.too_much(function, held):
                    return None
                # views are laid out here, once: a call would copy them every time
                results = [np.asarray(r, order="C") for r in ptir.interpret(function, self.segment.arrays)]
            rest = iter(results)
            folded = [next(rest) if isinstance(value, GraphValue) else value for value in outputs]
            if self.varying and any(id(value) in self.varying for value in given):
                self.vary(folded)
            return folded
        finally:
            self.segment = before

    def apart(
        self, scope: NameScope, nodes: Sequence[NodeProto], given: Mapping[str, TensorType], result: str
    ) -> tuple[ptir.Function, list[Array]]:
        """Some nodes as a function of names with types, and then of arrays; other names are those of the scope, known ones."""
        before, self.segment = self.segment, Segment("apart")
        self.depth += 1
        try:
            graph = self.segment.graph
            inner = NameScope({name: graph.input(name, type) for name, type in given.items()}, outer=scope)
            self.run_nodes(nodes, inner, [result])
            computed = inner.find(result)
            value = self.segment.value(computed) if isinstance(computed, np.ndarray) else computed
            return graph.build(value), self.segment.arrays
        finally:
            self.segment = before
            self.depth -= 1

    def vary(self, values: Sequence[Value]) -> None:
        """Arrays among these are others in the next step of a loop."""
        self.varying.update((id(value), value) for value in values if isinstance(value, np.ndarray))

    def varies(self, value: Value) -> bool:
        """Whether a known array is another in the next step of a loop."""
        return id(value) in self.varying

    # -- data ----------------------------------------------------------------------------------------------------------

    def known(
        self,
        at: NodeSite,
        positions: Sequence[int] | range | set[int],
        given: Sequence[Value],
        look: bool = True,
    ) -> list[Value]:
        """The inputs, those at the positions as arrays; the segment is cut if it computes one of them."""
        values = list(given)
        if self.symbols and (look or self.recorder is None):
            for n in positions:
                array = self.named(values[n])
                values[n] = values[n] if array is None else array
        if any(isinstance(values[n], GraphValue) for n in positions):
            names = [at.node.input[n] for n in positions if n < len(at.node.input) and at.node.input[n]]
            arrays = self.data(at, at.scope, names, look)
            for n, name in enumerate(at.node.input[: len(values)]):
                if name:
                    values[n] = arrays[name] if n in positions else at.scope.find(name)
        return values

    def require(self, at: NodeSite, scope: NameScope, name: str) -> Array:
        """The data of a name, whatever it takes."""
        array: Array = self.data(at, scope, [name], True)[name]
        return array

    def data(self, at: NodeSite, scope: NameScope, names: Sequence[str], look: bool) -> dict[str, Value]:
        """The arrays of names. What is looked at is data from now on; the rest stay parameters of the program."""
        lazy = [name for name in names if lazy_in(scope.find(name))]
        if lazy and self.recorder is None:
            raise CannotTrace(
                f"{title_of(at.node)} needs the data of {', '.join(lazy)}, which depends on the inputs"
            )
        if any(value.id not in self.segment.data for name in lazy for value in lazy_in(scope.find(name))):
            self.cut(at, scope)
        values: dict[str, Value] = {}
        for name in names:
            value = scope.find(name)
            values[name] = self._arrays(value)
            if look:
                scope.replace(name, values[name])
        if look and self.recorder is not None:
            flat = [array for name in lazy for array in arrays_in(values[name])]
            self.recorder.look(flat)
        return values

    def _arrays(self, value: Value) -> Value:
        if isinstance(value, list):
            return [self._arrays(item) for item in value]
        return self.segment.data[value.id] if isinstance(value, GraphValue) else value

    def cut(self, at: NodeSite, scope: NameScope) -> None:
        """Run what has been written; a new segment begins, its parameters what is still asked for."""
        if self.recorder is None or self.depth:
            raise CannotTrace(f"{title_of(at.node)} needs data that is computed around it")
        live: dict[int, GraphValue] = {}
        for each in scope.alive():
            for value in each.names.values():
                live.update((lazy.id, lazy) for lazy in lazy_in(value))
        before = self.segment
        wanted = [value for value in live.values() if value.id not in before.data]
        computed = self.finish(wanted)
        arrays = dict(before.data)
        arrays.update((value.id, array) for value, array in zip(wanted, computed, strict=True))
        for each in scope.alive():
            for name, value in each.names.items():
                if lazy_in(value):
                    each.names[name] = self._after_cut(value, arrays)

    def _after_cut(self, value: Value, arrays: Mapping[int, Array]) -> Value:
        if isinstance(value, list):
            return [self._after_cut(item, arrays) for item in value]
        if not isinstance(value, GraphValue):
            return value
        array = arrays[value.id]
        return self.segment.parameter(
            array, self.lengths.grown(value.id, value.dims, array, self.segment.named)
        )

    def finish(self, values: Sequence[GraphValue]) -> list[Array]:
        """Run the segment for these values; a new one begins."""
        if self.recorder is None or self.compile is None:
            raise CannotTrace("nothing can be computed here")
        done, self.segment = self.segment, Segment(self.name, self.varying)
        if not values:
            return []
        function, arrays = trimmed(done, values)
        inputs = self.recorder.numbers
        fixed = [id(array) not in inputs and id(array) not in self.varying for array in arrays]
        function, arrays = prepared(function, arrays, fixed, self.prepared)
        # lengths with names say what the shapes of the results are
        return self.recorder.call(self.compile(function), arrays, True)

    def outputs(self, values: Sequence[Value]) -> list[Any]:
        """The end of a run: the outputs as arrays."""
        if self.recorder is None:
            raise CannotTrace("nothing can be computed here")
        lazy = {value.id: value for output in values for value in lazy_in(output)}
        before = self.segment
        wanted = [value for value in lazy.values() if value.id not in before.data]
        arrays = dict(before.data)
        arrays.update((v.id, array) for v, array in zip(wanted, self.finish(wanted), strict=True))
        return self.recorder.end([with_arrays(value, arrays) for value in values])
