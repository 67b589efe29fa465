"""Inputs that a graph writes to: computed as further results, and copied to where they belong all at once, behind everything else.

A batch norm in training has three statistics for each layer. Copied one by one, they cost more of the host than the whole graph does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from planish.torch.saved import results_of

Run = Callable[[list[Any]], list[Any]]


def take_writes(module: fx.GraphModule) -> list[int]:
    """The inputs that a graph writes to, by number. What it writes becomes its last results."""
    graph = module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    writes = [
        node
        for node in graph.nodes
        if node.target is torch.ops.aten.copy_.default and node.args[0] in inputs and not node.users
    ]
    if not writes:
        return []
    places = [inputs.index(node.args[0]) for node in writes]
    output = next(node for node in graph.nodes if node.op == "output")
    output.args = ((*results_of(graph), *(node.args[1] for node in writes)),)
    for node in writes:
        graph.erase_node(node)
    module.recompile()
    return places


def with_writes(run: Run, writes: list[int]) -> Run:
    """A graph that gives its results and, behind them, what is to be written."""
    if not writes:
        return run

    def called(given: list[Any]) -> list[Any]:
        written = [given[number] for number in writes]
        results = run(given)
        pairs: dict[Any, tuple[list[Any], list[Any]]] = {}
        for place, value in zip(written, results[-len(writes) :], strict=True):
            places, values = pairs.setdefault(
                (place.dtype, place.device), ([], [])
            )  # at once are those alike
            places.append(place)
            values.append(value)
        with torch.no_grad():
            for places, values in pairs.values():
                torch._foreach_copy_(places, values)
        return results[: -len(writes)]

    return called
