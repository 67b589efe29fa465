"""Where a handler is: the node it imports, with its attributes, and the graph it writes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from planish.errors import PlanishError
from planish.onnx import work
from planish.onnx.attributes import Attributes
from planish.onnx.registry import Unsupported
from planish.onnx.scope import NameScope
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue

if TYPE_CHECKING:
    from planish.onnx.engine import Importer

Array = NDArray[Any]
T = TypeVar("T")


class CannotTrace(PlanishError):
    """Data is needed inside a region, where nothing can be computed beforehand."""


@dataclass(slots=True)
class NodeSite:
    """Where a handler is: the node, its attributes, the graph it writes to."""

    engine: Importer
    node: NodeProto
    attributes: Attributes
    version: int
    scope: NameScope

    @property
    def graph(self) -> Graph:
        return self.engine.segment.graph

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.attributes.get(name, default)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What is made of attributes alone: made by the first call, the same for those that follow."""
        memory: dict[str, T] = self.attributes.memory
        if name not in memory:
            memory[name] = make()
        return memory[name]

    def constant(self, value: Any, dtype: Any = None) -> GraphValue:
        """A small constant."""
        return self.graph.constant(np.asarray(value, dtype))

    def value(self, value: GraphValue | Array) -> GraphValue:
        """An array or value, as a value."""
        return self.engine.segment.value(value) if isinstance(value, np.ndarray) else value

    def refuse(self, why: str) -> Unsupported:
        """An error that names the node."""
        return Unsupported(f"{title_of(self.node)}: {why}", op=self.node.op_type)

    def room(self, elements: int, itemsize: int = 8) -> None:
        """Make sure that so many elements can be had at all: a number in a file may be anything."""
        if elements * itemsize > work.largest():
            raise self.refuse(f"{elements} elements of {itemsize} bytes are more than this machine holds")

    def work(self, operations: int, elements: int | None = None) -> None:
        """Make sure that so many operations are what elements (those that the node reads, if not told) may ask for."""
        if elements is None:
            elements = self.elements
        why = work.excess(operations, elements)
        if why is not None:
            causes = work.blamed(self.attributes.given)
            error = self.refuse(f"{why}{f' ({causes})' if causes else ''}")
            error.remedy = "smaller attributes and sizes, or settings(work_limit=None)"
            raise error

    @property
    def elements(self) -> int:
        """How many elements the node reads."""
        return sum(work.elements_of(self.scope.find(name)) for name in self.node.input if name)


def title_of(node: NodeProto) -> str:
    """A node, as messages name it."""
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    return f"a {node.op_type} node (for {', '.join(node.output)})"


def label_of(node: NodeProto) -> str:
    """A node in short: its type, and its name or what it makes."""
    return f"{node.op_type} {node.name or ', '.join(node.output)!r}"


def failure_at(node: NodeProto, why: str) -> PlanishError:
    error = PlanishError(f"{title_of(node)}: {why}", op=node.op_type)
    error.names_node = True  # type: ignore[attr-defined]
    return error
