"""From Python functions to PTIR and back: trace, capture, inline.

`trace` calls a function with parameters, `capture` writes tensors down as a PTIR function, `inline` applies one to tensors.
Transforms live on these three: a function is traced, captured, transformed as PTIR, and inlined where it was called. As the
tensors may themselves be parameters of an outer trace, transforms compose in any order.

All three hold versions of tensors (`planish.frontend.tensor.array`): what a function has seen is what it was given and what
stood outside when it asked, whatever is assigned afterwards. What they hand to a program has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import cast

from planish import ptir
from planish.errors import GraphError, Location, PlanishError
from planish.frontend.expression import Body, Node, tracing
from planish.frontend.markers import MARKERS
from planish.frontend.realize import DEEPEST, settle_deep, whole
from planish.frontend.replay import captured
from planish.frontend.tensor.application import apply_versions
from planish.frontend.tensor.array import Tensor
from planish.ptir import ops
from planish.ptir.function import Inst, Region
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.movement import BroadcastToAttrs
from planish.ptir.types import TensorType


def trace(
    what: str,
    function: Callable[..., Sequence[Tensor]],
    types: Sequence[TensorType],
    names: Sequence[str] = (),
) -> Body:
    """Call a function with parameters of these types. `what` names the transform in messages, `names` the parameters."""
    with tracing(what) as scope:
        params = [Tensor.parameter(type, scope) for type in types]
        scope.names.update(zip(map(id, params), names, strict=False))
        results = [result.latest for result in function(*[param._named() for param in params])]
    return Body(scope, params, results)


def capture_body(
    body: Body, name: str = "main", *, markers: bool = False, names: Sequence[str] = ()
) -> tuple[ptir.Function, tuple[Tensor, ...]]:
    """A body as a function of its parameters and then of what it uses from outside, which is returned too.

    `names` are those of its first parameters. `markers` keeps what only transforms know (`planish.frontend.markers`); the compiler is given the function without.
    """
    writer = _Writer(name, markers)
    params = [*body.params, *body.free]
    for number, param in enumerate(params):
        writer.parameter(param, names[number] if number < len(names) else f"x{number}")
    writer.write(body.results)
    return writer.finish(body.results), body.free


def capture(
    roots: Sequence[Tensor],
    name: str = "main",
    params: Sequence[Tensor] | None = None,
    lifted: Sequence[Node] = (),
) -> tuple[ptir.Function, list[Tensor]]:
    """Versions as a function of the data that they are computed from, and the tensors that hold the data.

    `params` says in which order the data comes; constants in `lifted` become parameters after it.
    """
    writer = _Writer(name)
    found = leaves(roots) if params is None else list(params)
    for number, tensor in enumerate(found):
        writer.parameter(tensor, f"x{number}")
    for number, node in enumerate(lifted):
        writer.lift(node, f"c{number}")
    writer.write(roots)
    return writer.finish(roots), found


def leaves(roots: Sequence[Tensor]) -> list[Tensor]:
    """The data that tensors are computed from, in the order in which they need it."""
    found: list[Tensor] = []
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        tensor = stack.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if tensor._storage is not None:
            found.append(tensor)
        elif tensor._node is not None:
            stack.extend(reversed(list(tensor._node.needs())))
        else:
            raise unknown(tensor)
    return found


def unknown(parameter: Tensor, what: str | None = None) -> GraphError:
    """What is raised when the value of a parameter is asked for."""
    scope = parameter._scope
    tracer = "a transform" if scope is None else scope.what
    name = None if scope is None else scope.names.get(id(parameter))
    which = "a parameter" if name is None else name
    if scope is not None and not scope.open:
        return GraphError(
            f"the value of a tensor is asked for that {tracer} made while it traced a function: it depends on {which}",
            op=what,
            location=Location.caller(),
            remedy="return it from the function, and use what that returns",
        )
    return GraphError(
        f"the value of a tensor is asked for while {tracer} traces the function: it depends on {which},"
        " which is not known yet",
        op=what,
        location=Location.caller(),
        remedy="decide with planish.where or planish.cond, loop with planish.while_loop, make the argument static,"
        " or return the tensor and look at it outside",
    )


class _Writer:
    """Writes nodes into a PTIR function, each into the region of its scope."""

    def __init__(self, name: str, markers: bool = False) -> None:
        self.function = ptir.Function(name)
        self.markers = markers
        self.region: Region = self.function.body
        self.values: dict[int, ptir.SSAValue] = {}
        """By tensor: what holds data or is a parameter."""
        self.results: dict[Node, Sequence[ptir.SSAValue]] = {}

    def parameter(self, tensor: Tensor, name: str) -> None:
        self.values[id(tensor)] = self.function.body.add_arg(tensor._type, name)

    def lift(self, node: Node, name: str) -> None:
        """A parameter in place of a constant; of one number, if the constant is one number everywhere."""
        body, (type,) = self.function.body, node.types
        literal = cast("ConstantAttrs", node.attrs).literal
        if literal.splat and literal.shape:
            number = body.add_arg(TensorType(type.dtype, ()), name)
            self.results[node] = body.append(ops.broadcast_to, [number], BroadcastToAttrs(type.dims)).results
        else:
            self.results[node] = [body.add_arg(type, name)]

    def value(self, tensor: Tensor) -> ptir.SSAValue:
        found = self.values.get(id(tensor))
        return self.results[cast("Node", tensor._node)][tensor._index] if found is None else found

    def known(self, tensor: Tensor) -> bool:
        return id(tensor) in self.values or (tensor._node is not None and tensor._node in self.results)

    def write(self, roots: Sequence[Tensor]) -> None:
        """Everything the roots need that is not there yet, sources first."""
        stack: list[tuple[Tensor, bool]] = [(root, False) for root in reversed(roots)]
        while stack:
            tensor, ready = stack.pop()
            if self.known(tensor):
                continue
            node = tensor._node
            if node is None:
                raise GraphError("a parameter of another trace is used here")
            if ready:
                self.emit(node)
            else:
                stack.append((tensor, True))
                stack.extend((source, False) for source in reversed(list(node.needs())))

    def emit(self, node: Node) -> None:
        operands = [self.value(source) for source in node.inputs]
        if node.op in MARKERS and not self.markers:
            self.results[node] = self.in_place(node.bodies[0], operands)
            return
        regions = [self.body(body) for body in node.bodies]
        inst = self.region.append(node.op, operands, node.attrs, regions, loc=node.location)
        self.results[node] = inst.results

    def in_place(self, body: Body, operands: Sequence[ptir.SSAValue]) -> list[ptir.SSAValue]:
        """A body without a region of its own."""
        for param, value in zip(body.params, operands, strict=True):
            self.values[id(param)] = value
        self.write(body.results)
        return [self.value(result) for result in body.results]

    def body(self, body: Body) -> Region:
        region = Region(self.function, body.arg_types, ())
        for param, value in zip(body.params, region.args, strict=True):
            self.values[id(param)] = value
        outer, self.region = self.region, region
        try:
            self.write(body.results)
        finally:
            self.region = outer
        region.set_results(self.value(result) for result in body.results)
        return region

    def finish(self, roots: Sequence[Tensor]) -> ptir.Function:
        self.function.body.set_results(self.value(root) for root in roots)
        return self.function


def inline(function: ptir.Function, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """A PTIR function applied to versions; its results have names of their own."""
    if len(tensors) != len(function.params):
        raise PlanishError(f"{function.name} takes {len(function.params)} tensors, not {len(tensors)}")
    values: dict[ptir.SSAValue, Tensor] = dict(zip(function.params, tensors, strict=True))
    with whole():
        results = _inline(function.body, values)
    values.clear()
    deepest = max((x._node for x in results if x._node is not None), key=attrgetter("depth"), default=None)
    if deepest is not None and deepest.depth >= DEEPEST and deepest.scope is None:
        settle_deep(results, deepest)
    return own_names(results, tensors)


def own_names(results: Sequence[Tensor], taken: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Versions for a program to keep: each a name of its own, also where it is one of the `taken` or comes twice."""
    seen = set(map(id, taken))
    found = []
    for version in results:
        found.append(version._named() if id(version) in seen else version)
        seen.add(id(version))
    return tuple(found)


def inline_known(function: ptir.Function, values: dict[ptir.SSAValue, Tensor]) -> None:
    """As much of a PTIR function as can be applied to the tensors that are known; what they become is added."""
    for inst in function:
        seen = [value for inner in inst.regions for value in captured(inner)]
        if inst.results[0] not in values and all(value in values for value in (*inst.operands, *seen)):
            _apply_inst(inst, values)


def _inline(region: Region, values: dict[ptir.SSAValue, Tensor]) -> tuple[Tensor, ...]:
    for inst in region:
        _apply_inst(inst, values)
    return tuple(values[result] for result in region.results)


def _apply_inst(inst: Inst, values: dict[ptir.SSAValue, Tensor]) -> None:
    bodies = tuple(_inlined_body(inst.op.name, inner, values) for inner in inst.regions)
    inputs = [values[operand] for operand in inst.operands]
    made = apply_versions(inst.op, *inputs, attrs=inst.attrs, bodies=bodies)
    if inst.loc is not None and made[0]._node is not None:
        # the line that the function was written in, not that of the transform
        made[0]._node.site = inst.loc
    values.update(zip(inst.results, made, strict=True))


def _inlined_body(what: str, region: Region, values: dict[ptir.SSAValue, Tensor]) -> Body:
    with tracing(what) as scope:
        params = [Tensor.parameter(arg.type, scope) for arg in region.args]
        inner = values | dict(zip(region.args, params, strict=True))
        results = _inline(region, inner)
    return Body(scope, params, results)
