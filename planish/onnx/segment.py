"""A segment: the PTIR function that an import is writing, and the arrays it stands on.

Names of a model stand for values of the segment, for arrays, or for lists of both; what is asked of such a value is here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish.onnx.scope import Value
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import Dim, DimLike, TensorType

Array = NDArray[Any]
_SMALL: Final = 64
"""Arrays up to so many elements are constants of the program; larger ones are given to it as parameters."""


class Segment:
    """A PTIR function under construction, and the arrays its parameters stand for."""

    def __init__(self, name: str, varying: Mapping[int, Array] | None = None) -> None:
        self.graph = Graph(name)
        self.arrays: list[Array] = []
        self.varying = {} if varying is None else varying
        self.parameters: dict[int, GraphValue] = {}
        self.data: dict[int, Array] = {}
        """The array of each parameter, by the id of its value."""
        self.named: dict[int, Dim] = {}
        """What stands for lengths of things that grow from step to step of a loop."""

    def value(self, array: Array) -> GraphValue:
        """An array as a value: a constant if it is small, else a parameter."""
        parameter = self.parameters.get(id(array))
        if parameter is not None:
            return parameter
        if array.size <= _SMALL and id(array) not in self.varying:
            return self.graph.constant(np.ascontiguousarray(array).reshape(array.shape))
        return self.parameter(array)

    def parameter(self, array: Array, dims: Sequence[DimLike] | None = None) -> GraphValue:
        """An array as a parameter."""
        parameter = self.parameters.get(id(array))
        if parameter is None:
            type = TensorType(
                dtypes.from_numpy(array.dtype), tuple(array.shape if dims is None else dims)
            )  # fmt: skip
            parameter = self.graph.input(f"x{len(self.arrays)}", type)
            self.arrays.append(array)
            self.parameters[id(array)] = parameter
            self.data[parameter.id] = array
        return parameter


def trimmed(segment: Segment, values: Sequence[GraphValue]) -> tuple[ptir.Function, list[Array]]:
    """The function of a segment for these values, without what they do not need, and its arguments."""
    function = segment.graph.build(*values)
    ptir.PassManager.parse("dce").run(ptir.Program([function]))
    used = {value.id for inst in function.body.walk() for value in inst.operands}
    used |= {value.id for inst in function.body.walk() for region in inst.regions for value in region.results}
    used |= {value.id for value in function.results}
    args = function.body.args
    kept = [number for number, value in enumerate(args) if value.id in used]
    function.body.args = tuple(args[number] for number in kept)
    for position, value in enumerate(function.body.args):
        value.index = position
        # one name per place, so that equal segments are equal texts
        value.name = f"x{position}"
    return function, [segment.arrays[number] for number in kept]


def lazy_in(value: Value) -> list[GraphValue]:
    """The values of the segment in a value, those in sequences too."""
    if isinstance(value, list):
        return [lazy for item in value for lazy in lazy_in(item)]
    return [value] if isinstance(value, GraphValue) else []


def arrays_in(value: Value) -> list[Array]:
    """The arrays in a value, those in sequences too."""
    if isinstance(value, list):
        return [array for item in value for array in arrays_in(item)]
    return [value] if isinstance(value, np.ndarray) else []


def with_arrays(value: Value, arrays: Mapping[int, Array]) -> Value:
    """A value, its values of the segment replaced by arrays, by their ids."""
    if isinstance(value, list):
        return [with_arrays(item, arrays) for item in value]
    return arrays[value.id] if isinstance(value, GraphValue) else value
