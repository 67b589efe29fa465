"""Results that only look at the memory of something else: of an input, or of another result.

A program that returns `y` and `y.T` gives two tensors of one memory; compiled code makes `y` alone, and torch looks at it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import fx

from planish.torch.importing import is_number

VIEWS: Final = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "permute",
        "t",
        "transpose",
        "unsqueeze",
        "squeeze",
        "expand",
        "slice",
        "select",
        "alias",
        "detach",
        "as_strided",
        "diagonal",
        "_reshape_alias",
        "split",
        "split_with_sizes",
        "unbind",
        "unfold",
        "view_as_real",
    ]
)
"""Ops that give another view of the same memory: of an input, torch makes it for nothing."""


def is_view_op(node: fx.Node) -> bool:
    name = str(node.target)
    return node.op == "call_function" and (name in VIEWS or name.rpartition(".")[0] in VIEWS)


def views_by_torch(graph: fx.Graph) -> set[fx.Node]:
    """Nodes on the way to a result that only look at an input; or at another result, by numbers that only a run knows."""
    output = next(node for node in graph.nodes if node.op == "output")
    found: set[fx.Node] = set()
    for result in output.all_input_nodes:
        way: list[fx.Node] = []
        node: fx.Node = result
        while _is_part(node):
            way.append(node)
            node = node.all_input_nodes[0]
        numbers = [number for step in way for number in step.all_input_nodes[1:]]
        if not way or not all(map(is_number, numbers)):
            continue
        if node.op == "placeholder" or (numbers and node in output.all_input_nodes):
            found.update(way)
    return found


def _is_part(node: fx.Node) -> bool:
    """Whether a node gives another view, or one of several."""
    source = node.args[0] if node.target is operator.getitem else node
    return isinstance(source, fx.Node) and is_view_op(source)


Looks = tuple[Callable[[Any], Any], ...]


def views_of_results(results: Iterable[fx.Node]) -> dict[fx.Node, tuple[fx.Node, Looks]]:
    """Results that look at other ones: at which, and how."""
    found: dict[fx.Node, tuple[fx.Node, Looks]] = {}
    own = set(results)
    for node in results:
        looks: list[Callable[[Any], Any]] = []
        below: fx.Node = node
        while (below is node or below not in own) and (look := look_of(below)) is not None:
            looks.insert(0, look)
            below = below.all_input_nodes[0]
        if below is not node and below in own:
            source, before = found.get(below, (below, ()))
            found[node] = source, (*before, *looks)
    return found


def look_of(node: fx.Node) -> Callable[[Any], Any] | None:
    """How torch looks at the memory of what a node is given; None if the node makes something new."""
    if len(node.all_input_nodes) != 1 or node.args[:1] != (node.all_input_nodes[0],):
        return None
    if node.target is operator.getitem and is_view_op(node.all_input_nodes[0]):
        return operator.itemgetter(node.args[1])
    # what planish made may lie in memory otherwise than torch would have it
    is_shape = node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
    if not is_shape and (not is_view_op(node) or str(node.target).startswith("aten.as_strided")):
        return None
    target: Any = torch.reshape if is_shape else node.target
    rest, named = node.args[1:], dict(node.kwargs)
    return lambda base: target(base, *rest, **named)
