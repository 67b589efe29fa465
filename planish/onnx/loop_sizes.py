"""Loops whose number of steps is a size with a name: a trip count that is one, or a counter of the body's own that is below one.

    Loop(n, true, …)                                 the body hands its condition on
    Loop(, start < n, …, start, …)                   the body ends with counter + 1 < n, and n does not change

Such a loop is a `scan` of that length, whatever the size is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, numpy_helper

from planish.ptir import ops
from planish.ptir.dims import Dim, DimLike, bounds
from planish.ptir.function import Value
from planish.ptir.ops.definition import ConstantAttrs

Named = Callable[[Any], NDArray[Any] | None]
"""The numbers and sizes that a value holds; None if it holds something else."""


_EXACT: Final = 1 << 24
"""Whole numbers below are floats, too."""


class LoopBody:
    """The names of a body of a loop, and what they stand for."""

    def __init__(self, body: GraphProto, carried: Sequence[Any], outer: Callable[[str], Any]) -> None:
        self.number, self.flag, *self.names = [each.name for each in body.input]
        self.outputs = [each.name for each in body.output]
        self.makers: dict[str, NodeProto] = {name: node for node in body.node for name in node.output}
        self.constants = {each.name: numpy_helper.to_array(each) for each in body.initializer}
        self.carried = dict(zip(self.names, carried, strict=True))
        self.outer = outer

    def origin(self, name: str) -> str:
        """The name that a name repeats."""
        while name in self.makers and self.makers[name].op_type == "Identity":
            name = self.makers[name].input[0]
        return name

    def number_of(self, name: str) -> str:
        """The whole number that a name repeats, maybe as a float: what is compared stays the same."""
        while (before := self.origin(name)) in self.makers and self.makers[before].op_type == "Cast":
            name = self.makers[before].input[0]
        return before

    def next(self, name: str) -> str:
        """What a carried name is in the next step."""
        return self.origin(self.outputs[1 + self.names.index(name)])

    def fixed(self, name: str) -> Any:
        """The value of a name that is the same in every step; None if it is not."""
        name = self.origin(name)
        if name in self.carried:
            return self.carried[name] if self.next(name) == name else None
        if name in (self.number, self.flag):
            return None
        if name in self.constants:
            return self.constants[name]
        node = self.makers.get(name)
        if node is None:
            return self.outer(name)
        held = next((each.t for each in node.attribute if each.name == "value"), None)
        return numpy_helper.to_array(held) if node.op_type == "Constant" and held is not None else None

    def goes_on(self) -> bool:
        """Whether nothing in the body ends the loop."""
        name = self.origin(self.outputs[0])
        held = self.fixed(name)
        return name == self.flag or (isinstance(held, np.ndarray) and held.size == 1 and bool(held.item()))

    def counter(self, name: str) -> Any:
        """Where a counter begins that is one more in every step, of which a name is the next value; None if it is no such."""
        node = self.makers.get(self.number_of(name))
        if node is None or node.op_type != "Add":
            return None
        for one, other in (node.input, node.input[::-1]):
            counted, step = self.origin(one), self.fixed(other)
            if not isinstance(step, np.ndarray) or step.size != 1 or step.item() != 1:
                continue
            if counted == self.number:
                return np.array(0)
            if counted in self.carried and self.next(counted) == self.number_of(name):
                return self.carried[counted]
        return None


def named_steps(
    body: GraphProto,
    most: Any,
    condition: Any,
    carried: Sequence[Any],
    outer: Callable[[str], Any],
    named: Named,
) -> DimLike | None:
    """The size that a loop has as many steps as; None if its steps are something else, or may be none."""
    if not _holds(condition, named):
        return None
    inside = LoopBody(body, carried, outer)
    if most is not None:
        steps = _size(named(most)) if inside.goes_on() else None
    else:
        test = inside.makers.get(inside.origin(inside.outputs[0]))
        if test is None or test.op_type not in ("Less", "Greater"):
            return None
        below, limit = test.input if test.op_type == "Less" else test.input[::-1]
        start, end = (
            _size(named(each)) for each in (inside.counter(below), inside.fixed(inside.number_of(limit)))
        )
        steps = None if start is None or end is None else end - start
    return steps if isinstance(steps, Dim) and bounds(steps)[0] >= 1 and bounds(steps)[1] < _EXACT else None


def _holds(condition: Any, named: Named) -> bool:
    """Whether a loop begins in any case: nothing asks, it is known, or a number is compared with a size that is always larger."""
    if condition is None or isinstance(condition, np.ndarray):
        return condition is None or bool(condition.reshape(-1)[0])
    value: Value = condition.value
    while value.def_inst is not None and value.def_inst.op in (ops.reshape, ops.cast):
        value = value.def_inst.operands[0]
    test = value.def_inst
    if test is None or test.op is not ops.lt:
        return False
    first, limit = test.operands
    start = first.def_inst
    size = _size(named(condition.graph.wrap(limit)))
    while size is None and limit.def_inst is not None and limit.def_inst.op in (ops.reshape, ops.cast):
        limit = limit.def_inst.operands[0]
        size = _size(named(condition.graph.wrap(limit)))
    if start is None or not isinstance(start.attrs, ConstantAttrs) or not start.attrs.literal.splat:
        return False
    return size is not None and float(start.attrs.literal.array().reshape(-1)[0]) < bounds(size)[0]


def _size(held: NDArray[Any] | None) -> DimLike | None:
    """The only element of an array of sizes."""
    if held is None or held.size != 1:
        return None
    element = held.reshape(-1).tolist()[0]
    return element if isinstance(element, int | Dim) and not isinstance(element, bool) else None
