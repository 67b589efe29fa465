"""Runs a partitioned graph: compiled segments on the memory of the tensors, the rest by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from planish import compiler, ptir
from planish.compiler.device_kinds import accelerator
from planish.compiler.object_code import pool
from planish.config import settings
from planish.torch.any_size import NamedSizes, rows_for
from planish.torch.forms import Array, Form, array_of, form_like, given_form, tensor_of
from planish.torch.importing import Import
from planish.torch.kinds import CARRIERS
from planish.torch.options import BackendOptions
from planish.torch.partition import FxSegment, Step, call, draws, partition, unlowered
from planish.torch.reporting import total
from planish.torch.views import Looks, WithViews, views_by_torch, views_of_results, views_of_segment

Tensors = list[torch.Tensor]
Variant = Callable[[Sequence[torch.Tensor]], Tensors]


@dataclass(frozen=True, slots=True)
class CompiledSegment:
    """A segment as machine code for tensors of given forms."""

    run: Callable[..., Sequence[Array]]
    reads: tuple[Callable[[torch.Tensor], Array], ...]
    writes: tuple[Callable[[Array], torch.Tensor], ...]
    seen: tuple[tuple[int, Looks], ...] = ()
    """Where some results look at others: for each result, the number of what is computed, and how to look at it."""

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Results as torch expects them."""
        arrays = [read(tensor) for read, tensor in zip(self.reads, tensors, strict=True)]
        outputs = [write(array) for write, array in zip(self.writes, self.run(*arrays), strict=True)]
        if not self.seen:
            return outputs
        results = []
        for number, looks in self.seen:
            view = outputs[number]
            for look in looks:
                view = look(view)
            results.append(view)
        return results


def _plain_array(tensor: torch.Tensor) -> Array:
    try:
        return tensor.detach().numpy()
    except RuntimeError:  # the imaginary part of a conjugate: its sign is a mark that torch keeps
        return tensor.detach().resolve_neg().numpy()


def _reader(form: Form) -> Callable[[torch.Tensor], Array]:
    if form.is_plain and not form.dtype.is_complex:
        if form.dtype in CARRIERS:
            return lambda tensor: array_of(tensor.detach(), form.dtype)
        return _plain_array
    return form.array


def _writer(form: Form) -> Callable[[Array], torch.Tensor]:
    if form.is_plain:
        return (lambda array: tensor_of(array, form.dtype)) if form.dtype in CARRIERS else torch.from_numpy
    return form.tensor


def _on_threads(executable: compiler.Executable, threads: int) -> Callable[..., Sequence[Array]]:
    """A function that always runs on so many threads."""
    builtin = executable.builtin
    if builtin is None:
        return settings(threads=threads)(executable)
    count = threads if executable.is_parallel else 1
    workers = pool()

    def run(*arrays: Array, _alive: compiler.Executable = executable) -> Sequence[Array]:
        if workers.workers < count - 1:  # at first, and in a process that was forked
            workers.prepare(count)
        return builtin(count, *arrays)

    return run


class _OnGpu:
    """Tensors in the memory of a GPU, in place, in and out."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._gpu = device, accelerator(device.type)

    def reader(self, form: Form) -> Callable[[torch.Tensor], Any]:
        ways, number = self._gpu, self.device.index or 0
        plain, is_complex = form.is_plain, form.dtype.is_complex
        in_place = ways.reader_of(number, form.dtype, form.type.shape)

        def read(tensor: torch.Tensor) -> Any:
            ordered = tensor if plain else form.ordered(tensor)
            is_here = ordered.is_cuda and ordered.get_device() == number
            if not is_complex and is_here and ordered.is_contiguous() and not ordered.is_neg():
                array = in_place(ordered)
                if array is not None:
                    return array
            ordered = ordered.detach().to(self.device).contiguous()
            array = ways.at_once(ordered)
            return ways.borrowed(ordered)[0] if array is None else array

        return read

    def writer(self, form: Form) -> Callable[[Any], torch.Tensor]:
        dtype = np.dtype(form.type.dtype.numpy)
        write = self._gpu.writer_of(self.device.index or 0, dtype, form.type.shape)
        return write if form.is_plain else lambda array: form.restored(write(array))


def device_of(nodes: Sequence[fx.Node]) -> torch.device | None:
    """The GPU that nodes compute on; None for the CPU."""
    for node in nodes:
        result = node.meta.get("val")
        for fake in result if isinstance(result, tuple | list) else [result]:
            if isinstance(fake, torch.Tensor) and fake.device.type == "cuda":
                return torch.device("cuda", fake.device.index or 0)
    return None


def compiled(
    function: ptir.Function,
    inputs: Sequence[Form],
    outputs: Sequence[Form],
    options: BackendOptions,
    device: torch.device | None = None,
) -> CompiledSegment:
    """The machine code of a function whose parameters and results lie in memory as told, on the CPU or a GPU."""
    if options.device == "interpreter":

        def run(*arrays: Array) -> Sequence[Array]:
            return ptir.interpret(function, list(arrays))

        return CompiledSegment(run, tuple(map(_reader, inputs)), tuple(map(_writer, outputs)))
    with settings(**options.settings()):
        code: Any = compiler.compile(function, device=str(device or "cpu"))
    if options.threads is not None and device is None:
        code = _on_threads(code, options.threads)
    if device is None:
        return CompiledSegment(code, tuple(map(_reader, inputs)), tuple(map(_writer, outputs)))
    place = _OnGpu(device)
    return CompiledSegment(code, tuple(map(place.reader, inputs)), tuple(map(place.writer, outputs)))


class SegmentRunner:
    """A segment: compiled when it is first met with sizes and numbers that it was not compiled for."""

    def __init__(self, segment: FxSegment, options: BackendOptions) -> None:
        self.segment = segment
        self.options = options
        self.variants: dict[tuple[object, ...], Variant] = {}
        self.open: list[tuple[object, NamedSizes, tuple[Any, ...], Variant]] = []
        """Those for all sizes within bounds, by the order of axes in memory; and the names that no tensor tells them."""
        self.by_size = "on a GPU each size is compiled by itself" if device_of(segment.nodes) else None
        """Why there is no program for all sizes."""
        self.only: Variant | None = None
        """The one for all calls, where no size has a name."""
        self.waits = (
            is_static(segment) and self.by_size is not None and not all(map(is_given, segment.inputs))
        )
        """Whether it is compiled when it is first called: torch's kernels on a GPU lay out results otherwise than they say."""
        if is_static(segment) and not self.waits:
            self.only = self.compile([given_form(node.meta["val"]) for node in segment.inputs], ())

    def __call__(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float]) -> Tensors:
        if self.waits:
            self.waits, self.only = False, self.compile([given_form(tensor) for tensor in tensors], ())
        if self.only is not None:
            return self.only(tensors)
        key = (*((tensor.shape, tensor.stride()) for tensor in tensors), *numbers)
        variant = self.variants.get(key)
        if variant is None:
            variant = self.for_any_size(tensors, numbers)
            if variant is None:
                variant = self.compile([given_form(tensor) for tensor in tensors], numbers)
            if len(self.variants) >= _MANY:
                self.variants.clear()  # a number that counts up is another one in every call
            self.variants[key] = variant
        return variant(tensors)

    def for_any_size(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float]) -> Variant | None:
        """Machine code for all sizes within bounds; None if what is computed depends on them."""
        if self.by_size is not None:
            return None
        forms = [form_like(tensor) for tensor in tensors]
        layout = tuple((form.order, form.repeated) for form in forms)
        nodes, given = [*self.segment.inputs, *self.segment.numbers], [*tensors, *numbers]
        for known, names, untold, variant in self.open:
            if known == layout and names.holds(nodes, given):
                return _told(variant, rows_for(nodes, given, untold))
        try:
            names = NamedSizes(nodes, given)
            if not names.holds(nodes, given):
                return None  # a number below 2: it is compiled by itself
            sizes = [names.size(node.meta["val"]) for node in self.segment.numbers]
            shapes = [names.form(node, form) for node, form in zip(self.segment.inputs, forms, strict=True)]
            untold = names.untold(shapes)
            variant = self._compile(shapes, sizes, names, untold)
        except Exception as error:  # noqa: BLE001 - whatever it is: each size is compiled by itself then
            self.by_size = f"{type(error).__name__}: {getattr(error, 'message', error)}"
            return None
        self.open.append((layout, names, untold, variant))
        return _told(variant, rows_for(nodes, given, untold))

    def compile(self, forms: Sequence[Form], numbers: Sequence[int | float]) -> Variant:
        """Machine code for tensors of these forms; where that fails, torch runs the nodes."""
        try:
            return self._compile(forms, numbers)
        except Exception as error:  # noqa: BLE001 - whatever it is: the user's program goes on
            why = f"not compiled: {type(error).__name__}: {getattr(error, 'message', error)}"
            for node in self.segment.nodes:
                if is_op(node):
                    total().lowered[str(node.target)] -= 1
                    total().handed_back[str(node.target), why] += 1
            return lambda tensors: self._by_torch(tensors, numbers)

    def _compile(
        self,
        forms: Sequence[Form],
        numbers: Sequence[Any],
        names: NamedSizes | None = None,
        untold: Sequence[Any] = (),
    ) -> Variant:
        writing = Import("torch_segment", names)
        for node, form in zip(self.segment.inputs, forms, strict=True):
            writing.take(node, form)
        if names is not None and untold:
            rows = [names.rows(name) for name in untold]
            for place, form in enumerate(rows):
                form.read(writing.graph, f"rows{place}")
            forms = [*forms, *rows]
        writing.values |= dict(zip(self.segment.numbers, numbers, strict=True))
        for node in self.segment.nodes:
            writing.lower(node)
        outputs = {node: _result_form(writing, node) for node in self.segment.outputs}
        device = device_of(self.segment.nodes)
        ways = views_of_segment(self.segment) if names is None and device is not None else {}
        for node in ways:
            del outputs[node]
        for way in ways.values():
            base = way[0].all_input_nodes[0]
            if base not in self.segment.inputs:
                outputs.setdefault(base, form_like(base.meta["val"]))
        seen = views_of_results(outputs)
        own = {node: form for node, form in outputs.items() if node not in seen}
        function = writing.build(own.items())
        variant = compiled(function, forms, list(own.values()), self.options, device)
        if seen:
            places = {node: number for number, node in enumerate(own)}
            looks = [seen.get(node, (node, ())) for node in outputs]
            variant = replace(variant, seen=tuple((places[source], way) for source, way in looks))
        return WithViews(variant, self.segment, list(outputs), ways) if ways else variant

    def _by_torch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float]) -> Tensors:
        values: dict[fx.Node, Any] = dict(zip(self.segment.inputs, tensors, strict=True))
        values |= dict(zip(self.segment.numbers, numbers, strict=True))
        for node in self.segment.nodes:
            values[node] = call(node, values)
        return [values[node] for node in self.segment.outputs]


_MANY: Final = 4096
"""Calls that differ in their sizes, of which each segment remembers what to run."""


def _told(variant: Variant, rows: Tensors) -> Variant:
    """A variant that is told sizes by empty tensors."""
    return (lambda tensors: variant([*tensors, *rows])) if rows else variant


def is_op(node: fx.Node) -> bool:
    """Whether a node is a call of one of torch's ops."""
    return isinstance(node.target, torch._ops.OperatorBase)


def is_given(node: fx.Node) -> bool:
    """Whether it is an input of the whole graph."""
    return node.op in ("placeholder", "get_attr")


def is_static(segment: FxSegment) -> bool:
    """Whether all sizes are numbers."""
    fakes = [node.meta["val"] for node in (*segment.inputs, *segment.nodes)]
    flat = [fake for result in fakes for fake in (result if isinstance(result, tuple | list) else [result])]
    sizes = [size for fake in flat if isinstance(fake, torch.Tensor) for size in fake.shape]
    return not segment.numbers and all(isinstance(size, int) for size in sizes)


def _result_form(writing: Import, node: fx.Node) -> Form:
    """As torch's strides have it; where sizes have names, in the order of axes of the example that was traced."""
    fake = node.meta["val"]
    if all(isinstance(size, int) for size in (*fake.shape, *fake.stride())):
        return form_like(fake)
    try:
        order = form_like(fake).order
    except ValueError:  # a size that is known at run time only
        order = None
    return Form(fake.dtype, tuple(writing.values[node].dims), order, ())


def with_numbers(module: fx.GraphModule) -> fx.Graph:
    """A graph whose constants of no axes on the CPU are numbers (what a program assigns to a slice): as inputs, each call would copy them to the GPU."""
    graph = module.graph
    for node in [each for each in graph.nodes if each.op == "get_attr"]:
        constant = attribute(module, str(node.target))
        if not isinstance(constant, torch.Tensor) or constant.dim() or constant.device.type != "cpu":
            continue
        with unset_fake_temporarily():  # it is compiled where torch only pretends to compute
            value = constant.item()
        with graph.inserting_before(node):
            how: dict[str, Any] = {"dtype": constant.dtype, "device": constant.device}
            number = graph.call_function(torch.ops.aten.full.default, ([], value), how)
        number.meta = dict(node.meta)
        node.replace_all_uses_with(number)
        graph.erase_node(node)
    return graph


class Runner:
    """A compiled graph: called with its inputs, it gives its outputs."""

    def __init__(self, module: fx.GraphModule, options: BackendOptions) -> None:
        self.module = module
        graph = with_numbers(module)
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        output = next(node for node in graph.nodes if node.op == "output")
        self.results: list[Any] = (
            list(output.args[0]) if isinstance(output.args[0], tuple | list) else [output.args[0]]
        )
        views = views_by_torch(graph)
        reasons = unlowered(graph)
        self.steps = [
            (step, SegmentRunner(step, options) if isinstance(step, FxSegment) else None)
            for step in partition(graph, reasons, views)
        ]
        self.steps += [(node, None) for node in graph.nodes if node in views and node not in reasons]
        self.constants = {
            node: attribute(module, str(node.target)) for node in graph.nodes if node.op == "get_attr"
        }
        self.direct = self._directly()
        _count(self.steps, reasons)

    def _directly(self) -> Callable[[list[Any]], list[Any]] | None:
        """Where the graph is one compiled function of all inputs: just that."""
        if len(self.steps) != 1 or self.constants:
            return None
        step, runner = self.steps[0]
        if not isinstance(step, FxSegment) or runner is None or not isinstance(runner.only, CompiledSegment):
            return None
        if step.outputs != self.results:
            return None
        function = runner.only
        if step.inputs == self.inputs:
            return function
        places = [self.inputs.index(node) for node in step.inputs]
        return lambda given: function([given[place] for place in places])

    def __call__(self, given: list[Any]) -> list[Any]:
        if self.direct is not None:
            return self.direct(given)
        values: dict[fx.Node, Any] = dict(zip(self.inputs, given, strict=True))
        values |= self.constants
        for step, runner in self.steps:
            if isinstance(step, FxSegment) and runner is not None:
                tensors = [values[node] for node in step.inputs]
                outputs = runner(tensors, [values[node] for node in step.numbers])
                values |= zip(step.outputs, outputs, strict=True)
            elif isinstance(step, fx.Node):
                values[step] = call(step, values)
        return [values[result] if isinstance(result, fx.Node) else result for result in self.results]


def attribute(module: fx.GraphModule, path: str) -> Any:
    """What a graph module has under a path."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _count(steps: Sequence[tuple[Step, object]], reasons: Mapping[fx.Node, str]) -> None:
    counts = total()
    counts.graphs += 1
    counts.segments += sum(isinstance(step, FxSegment) for step, _ in steps)
    for step, _ in steps:
        if isinstance(step, FxSegment):
            counts.lowered.update(str(node.target) for node in step.nodes if is_op(node))
    for node, why in reasons.items():
        asserted = _asserted(node)
        if asserted is not None:
            counts.checks[asserted] += 1
        elif draws(node):
            counts.draws[str(node.target)] += 1
        elif is_op(node):
            counts.handed_back[str(node.target), why] += 1


def _asserted(node: fx.Node) -> str | None:
    """The op of a node that only asserts something."""
    name = str(node.args[1] if str(node.target) == "with_effects" else node.target)
    return (
        name
        if any(part in name for part in ("_linalg_check_errors", "_assert_", "sym_constrain_range"))
        else None
    )
