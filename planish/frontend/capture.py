"""Capture: expressions written down as PTIR functions.

`capture` writes values as a function of the data they are computed from, `capture_body` a traced function as one of its
parameters and of what it uses from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from planish import ptir
from planish.errors import GraphError
from planish.frontend.expression import LazyValue, Node, Settled, TracedBody
from planish.frontend.leaks import unknown
from planish.frontend.markers import MARKERS
from planish.ptir import ops
from planish.ptir.function import Region
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.types import TensorType


def capture_body(
    body: TracedBody, name: str = "main", *, markers: bool = False, names: Sequence[str] = ()
) -> tuple[ptir.Function, tuple[LazyValue, ...]]:
    """A body as a function of its parameters and then of what it uses from outside, which is returned too.

    `names` are those of its first parameters. `markers` keeps what only transforms know (`planish.frontend.markers`); the compiler is given the function without.
    """
    writer = _FunctionWriter(name, markers)
    for number, param in enumerate([*body.params, *body.free]):
        writer.parameter(param, names[number] if number < len(names) else f"x{number}")
    return writer.finish(body.results), body.free


def capture(
    roots: Sequence[LazyValue],
    name: str = "main",
    params: Sequence[LazyValue] | None = None,
    lifted: Sequence[Node] = (),
) -> tuple[ptir.Function, list[LazyValue]]:
    """Values as a function of the data that they are computed from, and that data.

    `params` says in which order the data comes; constants in `lifted` become parameters after it.
    """
    writer = _FunctionWriter(name)
    inputs = leaves(roots) if params is None else list(params)
    for number, value in enumerate(inputs):
        writer.parameter(value, f"x{number}")
    for number, node in enumerate(lifted):
        writer.lift(node, f"c{number}")
    return writer.finish(roots), inputs


def leaves(roots: Sequence[LazyValue]) -> list[LazyValue]:
    """The data that values are computed from, in the order in which they need it."""
    inputs: dict[LazyValue, None] = {}
    seen: set[LazyValue] = set()
    stack = list(reversed(roots))
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.storage is not None:
            inputs[value] = None
        elif value.node is not None:
            stack.extend(reversed(list(value.node.needs())))
        else:
            raise unknown(value, None, roots)
    return list(inputs)


class _FunctionWriter:
    """Writes nodes into a PTIR function, each into the region of its scope."""

    def __init__(self, name: str, markers: bool = False) -> None:
        self.function = ptir.Function(name)
        self.markers = markers
        self.region: Region = self.function.body
        self.values: dict[LazyValue, ptir.SSAValue] = {}
        """What holds data or is a parameter."""
        self.results: dict[Node, Sequence[ptir.SSAValue]] = {}

    def parameter(self, value: LazyValue, name: str) -> None:
        self.values[value] = self.function.body.add_arg(value.type, name)

    def lift(self, node: Node, name: str) -> None:
        """A parameter in place of a constant; of one number, if the constant is one number everywhere."""
        body, (type,) = self.function.body, node.types
        literal = cast("ConstantAttrs", node.attrs).literal
        if literal.splat and literal.shape:
            number = body.add_arg(TensorType(type.dtype, ()), name)
            self.results[node] = body.append(
                ops.broadcast_to, [number], ops.BroadcastToAttrs(type.dims)
            ).results
        else:
            self.results[node] = [body.add_arg(type, name)]

    def value(self, value: LazyValue) -> ptir.SSAValue:
        known = self.values.get(value)
        if known is not None:
            return known
        node = value.node
        if node is None:
            raise Settled
        return self.results[node][value.index]

    def write(self, roots: Sequence[LazyValue]) -> None:
        """Everything the roots need that is not there yet, sources first."""
        stack: list[tuple[LazyValue, bool]] = [(root, False) for root in reversed(roots)]
        while stack:
            value, ready = stack.pop()
            node = value.node
            if value in self.values or node in self.results:
                continue
            if value.storage is not None:
                raise Settled
            if node is None:
                raise GraphError("a parameter of another trace is used here")
            if ready:
                self.emit(node)
            else:
                stack.append((value, True))
                stack.extend((source, False) for source in reversed(list(node.needs())))

    def emit(self, node: Node) -> None:
        operands = [self.value(source) for source in node.inputs]
        if node.op in MARKERS and not self.markers:
            self.results[node] = self.in_place(node.bodies[0], operands)
            return
        regions = [self.body(body) for body in node.bodies]
        inst = self.region.append(node.op, operands, node.attrs, regions, loc=node.location)
        self.results[node] = inst.results

    def in_place(self, body: TracedBody, operands: Sequence[ptir.SSAValue]) -> list[ptir.SSAValue]:
        """A body without a region of its own."""
        self.values.update(zip(body.params, operands, strict=True))
        self.write(body.results)
        return [self.value(result) for result in body.results]

    def body(self, body: TracedBody) -> Region:
        region = Region(self.function, body.arg_types, ())
        outer, self.region = self.region, region
        try:
            region.set_results(self.in_place(body, region.args))
        finally:
            self.region = outer
        return region

    def finish(self, roots: Sequence[LazyValue]) -> ptir.Function:
        self.write(roots)
        self.function.body.set_results(self.value(root) for root in roots)
        return self.function
