"""Names and what they stand for, while a graph is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx import GraphProto, NodeProto

from planish.errors import PlanishError
from planish.onnx.attributes import Attributes

Value: TypeAlias = Any
"""GraphValue | Array | list[Value] | None."""


@dataclass(slots=True, eq=False)
class NameScope:
    """Names that are visible: those of a graph, then those around it."""

    names: dict[str, Value] = field(default_factory=dict)
    outer: NameScope | None = None
    caller: NameScope | None = None
    """For the body of a function: where it is called. Its names cannot be seen, and live on."""
    attributes: Attributes | None = None
    """For the body of a function: the attributes of the call."""

    def find(self, name: str) -> Value:
        """What a name stands for."""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise PlanishError(f"the model uses {name!r}, which nothing defines")

    def replace(self, name: str, value: Value) -> None:
        """Something else for a name, where it is defined."""
        for scope in self.visible():
            if name in scope.names:
                scope.names[name] = value
                return

    def visible(self) -> Iterator[NameScope]:
        """This one and those around it."""
        scope: NameScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def call(self) -> Attributes | None:
        """The attributes of the function around here."""
        scope: NameScope | None = self
        while scope is not None:
            if scope.attributes is not None:
                return scope.attributes
            scope = scope.outer
        return None

    def alive(self) -> Iterator[NameScope]:
        """Every scope whose names may still be asked for."""
        scope: NameScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer if scope.outer is not None else scope.caller


def last_uses(nodes: Sequence[NodeProto], needed: Sequence[str]) -> tuple[list[list[str]], set[str]]:
    """Per node, the names nobody asks for after it; and every name that is asked for at all."""
    last: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in names_used(node):
            last[name] = position
    used = set(last) | set(needed)
    for name in needed:
        last.pop(name, None)
    ends: list[list[str]] = [[] for _ in nodes]
    for name, position in last.items():
        ends[position].append(name)
    return ends, used


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_used(node: NodeProto) -> set[str]:
    """Names that a node and the graphs inside it ask for."""
    names = {name for name in node.input if name}
    waiting = list(graphs_of(node))
    while waiting:
        graph = waiting.pop()
        names |= {output.name for output in graph.output}
        for inner in graph.node:
            names.update(name for name in inner.input if name)
            if inner.attribute:
                waiting += graphs_of(inner)
    return names
