"""The attributes of a node: read by name and kind, and all of them read, or the importer has misunderstood something."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto

from planish.errors import PlanishError
from planish.onnx.tensors import Array, dense, to_array

_HINTS: Final = ("consumed_inputs",)
"""What the first opset said of memory: nobody has to read it."""


class Attributes:
    """What a node says besides its inputs."""

    def __init__(self, node: NodeProto, outer: Attributes | None = None, folder: str | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._read = set(_HINTS)
        self.memory: dict[str, Any] = {}
        """What a handler has made of them, for the next call."""
        self.node = node
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                # inside a function: the attribute of the call, if it has one
                if outer is not None and attribute.ref_attr_name in outer._values:
                    self._values[attribute.name] = outer._values[attribute.ref_attr_name]
                    outer._read.add(attribute.ref_attr_name)
                continue
            self._values[attribute.name] = _value(attribute, folder)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Its value as ONNX has it: int, float, str, array, graph, or a list of those."""
        self._read.add(name)
        return self._values.get(name, default)

    @property
    def given(self) -> dict[str, Any]:
        """All of them; nothing counts as read."""
        return dict(self._values)

    def require(self, name: str) -> Any:
        """A value that must be there."""
        if name not in self._values:
            raise PlanishError(
                f"node {self.node.name!r} ({self.node.op_type}) has no attribute {name!r}",
                op=self.node.op_type,
            )
        return self.get(name)

    def default(self, name: str, value: Any) -> None:
        """What an attribute is if the node does not have it; nobody has to ask for that."""
        if name not in self._values:
            self._values[name] = value
            self._read.add(name)

    def said(self) -> NodeProto:
        """The node with the attributes themselves where it refers to those of a call."""
        if not any(attribute.ref_attr_name for attribute in self.node.attribute):
            return self.node
        node = NodeProto()
        node.CopyFrom(self.node)
        del node.attribute[:]
        node.attribute.extend(
            _attribute(attribute.name, self._values[attribute.name]) if attribute.ref_attr_name else attribute
            for attribute in self.node.attribute
            if attribute.name in self._values
        )
        return node

    def unread(self) -> list[str]:
        """Attributes that nobody asked for."""
        return sorted(set(self._values) - self._read)


def _attribute(name: str, value: Any) -> AttributeProto:
    tensor = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
    return onnx.helper.make_attribute(name, tensor)


def _value(attribute: AttributeProto, folder: str | None = None) -> Any:
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return to_array(attribute.t, folder)
    if kind == AttributeProto.TENSORS:
        return [to_array(t, folder) for t in attribute.tensors]
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "surrogateescape")
    if kind == AttributeProto.STRINGS:
        return [s.decode("utf-8", "surrogateescape") for s in attribute.strings]
    if kind == AttributeProto.SPARSE_TENSOR:
        return dense(attribute.sparse_tensor, folder)
    value = onnx.helper.get_attribute_value(attribute)
    return list(value) if kind in (AttributeProto.INTS, AttributeProto.FLOATS) else value


__all__ = ["Array", "Attributes", "GraphProto", "dense", "to_array"]
