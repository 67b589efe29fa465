"""The attributes of a node: read by name and kind, and all of them read, or the importer has misunderstood something."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, numpy_helper

from planish.errors import PlanishError

Array = NDArray[Any]
T = TypeVar("T")
_REQUIRED: Any = object()


class Attributes:
    """What a node says besides its inputs."""

    def __init__(self, node: NodeProto, outer: Attributes | None = None) -> None:
        self._found: dict[str, Any] = {}
        self._read: set[str] = set()
        self.node = node
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                # inside a function: the attribute of the call, if it has one
                if outer is not None and attribute.ref_attr_name in outer._found:
                    self._found[attribute.name] = outer._found[attribute.ref_attr_name]
                    outer._read.add(attribute.ref_attr_name)
                continue
            self._found[attribute.name] = _value(attribute)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def get(self, name: str, default: Any = None) -> Any:
        """Its value as ONNX has it: int, float, str, array, graph, or a list of those."""
        self._read.add(name)
        return self._found.get(name, default)

    def require(self, name: str) -> Any:
        """A value that must be there."""
        if name not in self._found:
            raise PlanishError(
                f"node {self.node.name!r} ({self.node.op_type}) has no attribute {name!r}",
                op=self.node.op_type,
            )
        return self.get(name)

    def unread(self) -> list[str]:
        """Attributes that nobody asked for."""
        return sorted(set(self._found) - self._read)


def _value(attribute: AttributeProto) -> Any:
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return to_array(attribute.t)
    if kind == AttributeProto.TENSORS:
        return [to_array(t) for t in attribute.tensors]
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "surrogateescape")
    if kind == AttributeProto.STRINGS:
        return [s.decode("utf-8", "surrogateescape") for s in attribute.strings]
    if kind == AttributeProto.SPARSE_TENSOR:
        return dense(attribute.sparse_tensor)
    found = onnx.helper.get_attribute_value(attribute)
    return list(found) if kind in (AttributeProto.INTS, AttributeProto.FLOATS) else found


def to_array(tensor: onnx.TensorProto, folder: str = "") -> Array:
    """The data of a tensor; strings as an array of objects."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return np.array([s.decode("utf-8", "surrogateescape") for s in tensor.string_data], object).reshape(
            tuple(tensor.dims)
        )
    return np.asarray(numpy_helper.to_array(tensor, folder))


def dense(sparse: onnx.SparseTensorProto) -> Array:
    """A sparse tensor with its zeros."""
    values, indices = to_array(sparse.values), to_array(sparse.indices)
    dims = tuple(sparse.dims)
    result = np.zeros(dims, values.dtype)
    if indices.ndim == 1:
        result.reshape(-1)[indices] = values
    else:
        result[tuple(indices.T)] = values
    return result


__all__ = ["Array", "Attributes", "GraphProto", "dense", "to_array"]
