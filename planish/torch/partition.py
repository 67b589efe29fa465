"""Cuts an FX graph into segments that planish runs and nodes that torch runs.

A node's level is the number of changes of sides on the longest way to it; nodes of one level and side that planish runs make one
segment, wherever they stand. If everything can be lowered, the graph is one segment.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from planish.torch.forms import form_like
from planish.torch.importing import Import, is_number
from planish.torch.registry import LeftToTorch


@dataclass(slots=True)
class FxSegment:
    """Nodes that planish runs together."""

    nodes: list[fx.Node] = field(default_factory=list)
    inputs: list[fx.Node] = field(default_factory=list)
    """Tensors from outside."""
    numbers: list[fx.Node] = field(default_factory=list)
    """Numbers from outside that only a run knows."""
    outputs: list[fx.Node] = field(default_factory=list)


Step = FxSegment | fx.Node


def unlowered(graph: fx.Graph) -> dict[fx.Node, str]:
    """The nodes that planish does not do, each with the reason."""
    reasons: dict[fx.Node, str] = {}
    writing = Import("torch_graph")
    device = _gpu_of(graph)
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            _take(writing, node, reasons)
        elif node.op == "call_function" and is_number(node):
            writing.values[node] = example_of(node.meta["val"])
        elif node.op == "call_function":
            if node.target is operator.getitem and node.args[0] in reasons:
                reasons[node] = "its tuple is torch's"
                _take(writing, node, {})
                continue
            try:
                writing.lower(node)
            except LeftToTorch as error:
                reasons[node] = error.message
                _take(writing, node, {})
        elif node.op not in ("output", "call_function"):
            reasons[node] = f"{node.op} is not a call of an op"
            _take(writing, node, {})
    if device is not None:
        _leave_elsewhere(graph, device, reasons)
    return reasons


def _leave_elsewhere(graph: fx.Graph, device: torch.device, reasons: dict[fx.Node, str]) -> None:
    """Nodes on the CPU stay torch's, unless only our nodes on the GPU see what they make: constants that a program writes there."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and node not in reasons and _elsewhere(node, device):
            is_seen = any(user.op == "output" or user in reasons for user in node.users)
            if is_seen or draws(node):
                parts = [user for user in node.users if user.target is operator.getitem]
                reasons.update(dict.fromkeys((node, *parts), "on the CPU, beside tensors on a GPU"))


def _gpu_of(graph: fx.Graph) -> torch.device | None:
    """The GPU that a graph computes on, if there is one."""
    for node in graph.nodes:
        fake = node.meta.get("val")
        if isinstance(fake, torch.Tensor) and fake.device.type == "cuda":
            return fake.device
    return None


def _elsewhere(node: fx.Node, device: torch.device) -> bool:
    result = node.meta.get("val")
    fakes = result if isinstance(result, tuple | list) else [result]
    return any(isinstance(fake, torch.Tensor) and fake.device != device for fake in fakes)


def _take(writing: Import, node: fx.Node, refused: dict[fx.Node, str]) -> None:
    """A tensor from outside, as far as it is one that programs have."""
    fake = node.meta.get("val")
    if isinstance(fake, torch.Tensor):
        try:
            writing.take(node, form_like(fake))
        except (KeyError, RuntimeError, ValueError, NotImplementedError):
            writing.values[node] = None
    else:
        writing.values[node] = example_of(fake)


def example_of(fake: object) -> object:
    """A number, as it was when the graph was traced."""
    if isinstance(fake, torch.SymInt):
        return fake.node.hint
    return fake if isinstance(fake, int | float | bool) else None


def partition(
    graph: fx.Graph, reasons: Mapping[fx.Node, str], views: AbstractSet[fx.Node] = frozenset()
) -> list[Step]:
    """Segments and nodes of torch's, in an order in which everything is known before it is needed.

    `views` are results that torch makes of inputs: no segment has to give them.
    """
    level: dict[fx.Node, int] = {}
    theirs: dict[fx.Node, bool] = {}
    random = 0
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            level[node], theirs[node] = 0, True
            continue
        if node.op == "output":
            continue
        own = node in reasons or is_number(node)
        theirs[node] = own
        place = max(
            (level[source] + (theirs[source] is not own) for source in node.all_input_nodes),
            default=0 if own else 1,
        )
        if own and draws(node):
            # random numbers are drawn in the order of the program
            place = random = max(place, random)
        level[node] = place
    steps: list[Step] = []
    needed = _needed(graph, reasons, views)
    called = [node for node in graph.nodes if node in needed]
    for number in sorted({level[node] for node in called}):
        here = [node for node in called if level[node] == number]
        steps += [node for node in here if theirs[node]]
        nodes = [node for node in here if not theirs[node]]
        if nodes:
            steps.append(segment_of(nodes, views))
    return steps


def draws(node: fx.Node) -> bool:
    """Whether a node takes numbers from a generator."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def _needed(graph: fx.Graph, reasons: Mapping[fx.Node, str], views: AbstractSet[fx.Node]) -> set[fx.Node]:
    """The calls that results depend on; views of inputs that nothing else depends on are not among them."""
    calls: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        users = [
            user
            for user in node.users
            if user in calls
            or (user.op == "output" and node not in views)
            or (user in views and is_number(node))
        ]
        if users or node in reasons:
            calls.add(node)
    return calls


def segment_of(nodes: list[fx.Node], views: AbstractSet[fx.Node] = frozenset()) -> FxSegment:
    """The segment of some nodes: what they need from others, and what others need of them."""
    inside = set(nodes)
    sources = dict.fromkeys(
        source for node in nodes for source in node.all_input_nodes if source not in inside
    )
    outputs = [
        node
        for node in nodes
        if any(user not in inside and not (node in views and user.op == "output") for user in node.users)
    ]
    # a tuple is no result; its elements are
    outputs = [node for node in outputs if isinstance(node.meta.get("val"), torch.Tensor)]
    numbers = [node for node in sources if is_number(node) and not isinstance(node.meta["val"], int | float)]
    inputs = [node for node in sources if not is_number(node)]
    return FxSegment(nodes, inputs, numbers, outputs)


def call(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """One node by torch; a number that was known when the graph was traced is that (a length that planish gives beside tensors is none of its results)."""
    known = node.meta.get("val")
    if isinstance(known, int | float):
        return known
    args: Any = fx.map_arg(node.args, values.__getitem__)
    named: Any = fx.map_arg(node.kwargs, values.__getitem__)
    if node.target is torch.ops.aten.view.default:
        # what planish made may lie in memory otherwise than torch would have it
        return torch.reshape(*args)
    return node.target(*args, **named)  # type: ignore[operator]
