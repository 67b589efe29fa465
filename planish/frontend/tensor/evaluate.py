"""Evaluation: what happens when the elements of a lazy tensor are asked for.

Everything below the tensors that are asked for becomes one PTIR function, which their device runs. Executables are kept by
structure (ops, attributes, shapes, dtypes), so the same expression on new data compiles nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import Executable, compile
from planish.config import Settings, current
from planish.frontend import trace as tracer
from planish.frontend.tensor.devices import CPU, common_device, default_device
from planish.ptir import ops
from planish.ptir.ops.definition import ConstantAttrs

if TYPE_CHECKING:
    from planish.frontend.expression import Body, Node
    from planish.frontend.tensor.array import Tensor

Array = NDArray[Any]
_KEPT: Final = 4096
"""Executables that are kept: more than an interactive session has different expressions."""
_EXECUTABLES: OrderedDict[tuple[Hashable, Settings], Executable] = OrderedDict()


def evaluate(tensors: Sequence[Tensor]) -> None:
    """Give tensors their data; those of one device are computed together."""
    waiting = [tensor for tensor in tensors if tensor._array is None]
    for tensor in waiting:
        _look_up(tensor)
    waiting = [tensor for tensor in waiting if tensor._array is None]
    if not waiting:
        return
    placed = {tensor._device for tensor in waiting if tensor._device is not None}
    device = common_device("realize", placed) or default_device()
    for tensor, array in zip(waiting, _run(waiting, device), strict=True):
        _settle(tensor, array)


def realize(*tensors: Tensor) -> None:
    """Compute the elements of several tensors at once."""
    evaluate([tensor.latest for tensor in tensors])


def _look_up(tensor: Tensor) -> None:
    """A constant needs no computation."""
    node = tensor._node
    if node is not None and node.op is ops.constant and isinstance(node.attrs, ConstantAttrs):
        literal = node.attrs.literal
        _settle(tensor, np.full(literal.shape, literal.data) if literal.splat else literal.data)


def _settle(tensor: Tensor, array: Array) -> None:
    array.flags.writeable = False
    tensor._array = array
    if tensor._node is not None:
        tensor._scope = tensor._node.scope
        tensor._node = None  # what it was computed from is no longer needed


def _run(roots: Sequence[Tensor], device: str) -> tuple[Array, ...]:
    if device != CPU:
        function, leaves = tracer.capture(roots)
        return ptir.interpret(function, [cast("Array", leaf._array) for leaf in leaves])
    structure, leaves = _Structure().of(roots)
    key = (structure, current())
    found = _EXECUTABLES.get(key)
    if found is None:
        function, leaves = tracer.capture(roots)
        found = _EXECUTABLES[key] = compile(function)
        if len(_EXECUTABLES) > _KEPT:
            _EXECUTABLES.popitem(last=False)
    else:
        _EXECUTABLES.move_to_end(key)
    return found(*[cast("Array", leaf._array) for leaf in leaves])


class _Structure:
    """An expression without its data and its place in the source: equal for expressions that compute the same."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        """Of tensors that are leaves or parameters, by identity."""
        self.nodes: dict[Node, int] = {}
        self.leaves: list[Tensor] = []
        self.parts: list[Hashable] = []

    def of(self, roots: Sequence[Tensor]) -> tuple[Hashable, list[Tensor]]:
        # in the order in which `capture` finds them
        for leaf in tracer.leaves(roots):
            self.numbers[id(leaf)] = len(self.leaves)
            self.leaves.append(leaf)
            self.parts.append(leaf._type)
        self.visit(roots)
        return (tuple(self.parts), tuple([self.name(root) for root in roots])), self.leaves

    def name(self, tensor: Tensor) -> Hashable:
        number = self.numbers.get(id(tensor))
        return (self.nodes[cast("Node", tensor._node)], tensor._index) if number is None else number

    def known(self, tensor: Tensor) -> bool:
        return id(tensor) in self.numbers or tensor._node in self.nodes

    def visit(self, roots: Sequence[Tensor]) -> None:
        stack: list[tuple[Tensor, bool]] = [(root, False) for root in reversed(roots)]
        while stack:
            tensor, ready = stack.pop()
            if self.known(tensor):
                continue
            node = cast("Node", tensor._node)
            if ready:
                bodies = tuple([self.body(body) for body in node.bodies])
                inputs = tuple([self.name(source) for source in node.inputs])
                self.nodes[node] = len(self.nodes)
                self.parts.append((node.op.name, inputs, node.attrs, bodies))
            else:
                stack.append((tensor, True))
                stack.extend((source, False) for source in node.needs())

    def body(self, body: Body) -> Hashable:
        outer, self.parts = self.parts, []
        for param in body.params:
            self.numbers[id(param)] = -1 - len(self.numbers)
            self.parts.append((self.numbers[id(param)], param._type))
        self.visit(body.results)
        inner: Hashable = (tuple(self.parts), tuple([self.name(result) for result in body.results]))
        self.parts = outer
        return inner
