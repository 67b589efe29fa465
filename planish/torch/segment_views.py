"""Results of a segment on a GPU that torch makes for nothing: views of its inputs, and views with gaps of what it computes.

Queries, keys and values of one product are such: with gaps between them they lie in one matrix. Stored without gaps they would be copied, and whoever is given
them in another order than eager torch has them answers in another one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from planish.torch.partition import FxSegment
from planish.torch.views import look_of

Tensors = list[torch.Tensor]


def views_of_segment(segment: FxSegment) -> dict[fx.Node, list[fx.Node]]:
    """Such results, each with the views on the way to it."""
    inputs, found = set(segment.inputs), dict[fx.Node, list[fx.Node]]()
    parts: dict[fx.Node, list[fx.Node]] = {}
    for result in segment.outputs:
        way: list[fx.Node] = []
        node = result
        while node not in inputs and look_of(node) is not None:
            way.append(node)
            node = node.all_input_nodes[0]
        if way and (node in inputs or (_has_gaps(result) and _is_plain(node))):
            found[result] = way[::-1]
            parts.setdefault(node, []).append(result)
    for base, results in parts.items():
        seen = sum(result.meta["val"].numel() for result in results)
        if base not in inputs and base not in segment.outputs and seen < base.meta["val"].numel():
            for result in results:  # the rest of it need not be computed
                del found[result]
    is_empty = all(node in found for node in segment.outputs) and parts.keys() <= inputs
    return {} if is_empty else found  # what computes nothing is no function


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
        made: Callable[[Sequence[torch.Tensor]], Tensors],
        segment: FxSegment,
        computed: Sequence[fx.Node],
        ways: Mapping[fx.Node, list[fx.Node]],
    ) -> None:
        self.made, self.computed = made, list(computed)
        self.inputs, self.outputs = segment.inputs, segment.outputs
        # views that several results are made of are made once; how is known before they are
        views = dict.fromkeys(node for way in ways.values() for node in way)
        self.views = [(node, node.all_input_nodes[0], look_of(node)) for node in views]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        values: dict[fx.Node, Any] = dict(zip(self.inputs, tensors, strict=True))
        values |= zip(self.computed, self.made(tensors), strict=True)
        for node, source, look in self.views:
            values[node] = look(values[source])  # type: ignore[misc]  # a way is made of such nodes alone
        return [values[node] for node in self.outputs]
