"""A call of an op that works on arrays on the host: the node it is, and which of its inputs it is given.

It is plain data besides: another process can make the same call of the node's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from planish.errors import InternalError
from planish.onnx import registry

if TYPE_CHECKING:
    from planish.onnx.attributes import Attributes
    from planish.onnx.registry import OpForm
    from planish.onnx.site import NodeSite

Array = NDArray[Any]


class HostCall:
    """Calls the handler of a node with arrays for some of its inputs; the others are absent."""

    def __init__(
        self, node: NodeProto, version: int, places: Sequence[int], attributes: Attributes | None = None
    ) -> None:
        self.node = node
        self.version = version
        self.places = tuple(places)
        self._attributes = attributes
        self._inputs = len(node.input)
        self._names = [node.input[place] for place in self.places]
        self._called: tuple[NodeSite, OpForm] | None = None

    def __call__(self, *arrays: Array) -> list[Array]:
        """What the op makes of them."""
        if self._called is None:
            self._called = self._find()
        at, entry = self._called
        values: list[Array | None] = [None] * self._inputs
        names = at.scope.names
        for place, name, array in zip(self.places, self._names, arrays, strict=True):
            values[place] = names[name] = array
        return [np.asarray(result) for result in at.engine.on_arrays(entry, at, values)]

    def _find(self) -> tuple[NodeSite, OpForm]:
        """What calls it: looked for once."""
        from planish.onnx.importing import site_of

        entry = registry.find(self.node.domain, self.node.op_type, self.version)
        if entry is None:
            raise InternalError(f"there is no import of {self.node.op_type} any more")
        return site_of(self.node, self.version, self._attributes), entry
