"""Nodes in an order in which each stands behind those whose results it reads: some tools write them in another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from planish.onnx.scope import graphs_of, names_used


def put_in_order(model: ModelProto) -> None:
    """Sort the nodes of a model, of its functions and of the graphs inside nodes, where they are not sorted."""
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        order = _order(graph.node)
        if order is not None:
            nodes = [NodeProto.FromString(graph.node[n].SerializeToString()) for n in order]
            del graph.node[:]
            graph.node.extend(nodes)
        waiting += inner_graphs(graph.node)


def inner_graphs(nodes: Iterable[NodeProto]) -> list[GraphProto]:
    """The graphs inside nodes."""
    return [graph for node in nodes if node.attribute for graph in graphs_of(node)]


def _order(nodes: Any) -> list[int] | None:
    """The numbers of nodes in an order that goes, as near to their own as can be; None if their own does, or none would."""
    maker: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            maker.setdefault(name, number)
    needs = [
        {maker[name] for name in names_used(node) if maker.get(name, number) != number}
        for number, node in enumerate(nodes)
    ]
    if all(max(need, default=-1) < number for number, need in enumerate(needs)):
        return None
    order: list[int] = []
    state = [0] * len(needs)
    for start in range(len(needs)):
        stack = [start]
        while stack:
            number = stack[-1]
            if state[number] == 2:
                stack.pop()
                continue
            left = sorted(n for n in needs[number] if state[n] != 2)
            if not left:
                state[number] = 2
                order.append(number)
                stack.pop()
                continue
            if state[number] == 1 and any(state[n] == 1 for n in left):
                return None  # nodes that wait for each other: whoever checks the model says so
            state[number] = 1
            stack += reversed(left)
    return order
