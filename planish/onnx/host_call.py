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

if TYPE_CHECKING:
    from planish.onnx.attributes import Attributes
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
        self._at: NodeSite | None = None

    def __call__(self, *arrays: Array) -> list[Array]:
        """What the op makes of them."""
        from planish.onnx import registry
        from planish.onnx.importing import site_of

        if self._at is None:
            self._at = site_of(self.node, self.version, self._attributes)
        values: list[Array | None] = [None] * len(self.node.input)
        for place, array in zip(self.places, arrays, strict=True):
            values[place] = array
            self._at.scope.names[self.node.input[place]] = array
        entry = registry.find(self.node.domain, self.node.op_type, self.version)
        if entry is None:
            raise InternalError(f"there is no import of {self.node.op_type} any more")
        return [np.asarray(result) for result in self._at.engine.on_arrays(entry, self._at, values)]
