"""Results that only look at the memory of something else: of an input, of another result, or, with gaps, of what a segment computes.

A program that returns `y` and `y.T` gives two tensors of one memory; compiled code makes `y` alone, and torch looks at it. Queries, keys and
values of one product lie in one matrix, with gaps between them: stored without gaps they would be copied, and whoever is given them in another
order than eager torch has them answers in another one, too. So on a GPU torch makes such views of a segment, for nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

from planish.torch.importing import is_number
from planish.torch.partition import FxSegment

Tensors = list[torch.Tensor]

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
    views: set[fx.Node] = set()
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
            views.update(way)
    return views


def _is_part(node: fx.Node) -> bool:
    """Whether a node gives another view, or one of several."""
    source = node.args[0] if node.target is operator.getitem else node
    return isinstance(source, fx.Node) and is_view_op(source)


Looks = tuple[Callable[[Any], Any], ...]


def views_of_results(results: Iterable[fx.Node]) -> dict[fx.Node, tuple[fx.Node, Looks]]:
    """Results that look at other ones: at which, and how."""
    views: dict[fx.Node, tuple[fx.Node, Looks]] = {}
    own = set(results)
    for node in results:
        looks: list[Callable[[Any], Any]] = []
        below: fx.Node = node
        while (below is node or below not in own) and (look := look_of(below)) is not None:
            looks.insert(0, look)
            below = below.all_input_nodes[0]
        if below is not node and below in own:
            source, before = views.get(below, (below, ()))
            views[node] = source, (*before, *looks)
    return views


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


# --- of a segment ------------------------------------------------------------------------------------------


def views_of_segment(segment: FxSegment) -> dict[fx.Node, list[fx.Node]]:
    """Such results, each with the views on the way to it."""
    inputs, ways = set(segment.inputs), dict[fx.Node, list[fx.Node]]()
    parts: dict[fx.Node, list[fx.Node]] = {}
    for result in segment.outputs:
        way: list[fx.Node] = []
        node = result
        while node not in inputs and look_of(node) is not None:
            way.append(node)
            node = node.all_input_nodes[0]
        if way and (node in inputs or (_has_gaps(result) and _is_plain(node))):
            ways[result] = way[::-1]
            parts.setdefault(node, []).append(result)
    for base, results in parts.items():
        seen = sum(result.meta["val"].numel() for result in results)
        if base not in inputs and base not in segment.outputs and seen < base.meta["val"].numel():
            for result in results:  # the rest of it need not be computed
                del ways[result]
    is_empty = all(node in ways for node in segment.outputs) and parts.keys() <= inputs
    return {} if is_empty else ways  # what computes nothing is no function


def _has_gaps(node: fx.Node) -> bool:
    """Whether a tensor does not fill the memory that it lies in."""
    fake = node.meta["val"]
    if not isinstance(fake, torch.Tensor) or 0 in fake.shape or 0 in fake.stride():
        return False
    most = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True))
    return bool(most + 1 > fake.numel())


def _is_plain(node: fx.Node) -> bool:
    fake = node.meta.get("val")
    return isinstance(fake, torch.Tensor) and fake.is_contiguous()


class WithViews:
    """A compiled segment that gives `computed`, and the views of its inputs and of those."""

    def __init__(
        self,
        compute: Callable[[Sequence[torch.Tensor]], Tensors],
        segment: FxSegment,
        computed: Sequence[fx.Node],
        ways: Mapping[fx.Node, list[fx.Node]],
    ) -> None:
        self.compute, self.computed = compute, list(computed)
        self.inputs, self.outputs = segment.inputs, segment.outputs
        # views that several results are made of are made once; how is known before they are
        views = dict.fromkeys(node for way in ways.values() for node in way)
        self.views = [(node, node.all_input_nodes[0], look_of(node)) for node in views]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        values: dict[fx.Node, Any] = dict(zip(self.inputs, tensors, strict=True))
        values |= zip(self.computed, self.compute(tensors), strict=True)
        for node, source, look in self.views:
            values[node] = look(values[source])  # type: ignore[misc]  # a way is made of such nodes alone
        return [values[node] for node in self.outputs]
