"""What forward keeps for backward, in the order in which it is computed: torch is told how it lies, and hands it on as it is.

Nobody but the backward graph reads such a result, which is planish's as well. On a GPU convolutions compute with their channels last, and so does all that is
made of them element by element; stored in the order of the program, each of these tensors would be turned by the one graph and back by the other.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, Final, cast

import torch
from torch import fx

Order = tuple[int, ...]
_SOURCES: Final = ("aten.convolution", "aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
"""What is computed with channels last, whatever it is given; the second and third only of such."""
_SAME: Final = frozenset({"aten._to_copy", "aten.detach", "aten.alias", "aten.clone"})
"""What gives the same elements."""
_IMAGE: Final = 4
"""Axes from which on a tensor is one of images."""


def choose_orders(graph: fx.Graph) -> None:
    """Give each result that only backward reads the strides that it is best stored with, in `meta`; told to torch by `report`."""
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if context is None or metadata is None or context.output_strides is None:
        return
    results = _without_tokens(results_of(graph), metadata)
    shown = {node for node in results[: metadata.num_forward] if isinstance(node, fx.Node)}
    images = _images(graph)
    for node in results[metadata.num_forward :]:
        if isinstance(node, fx.Node) and node in images and node not in shown:
            node.meta["val"] = _channels_last(node.meta["val"], images[node])


def report(graph: fx.Graph) -> None:
    """Tell torch the strides of all results."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.output_strides is None:
        return
    results = _without_tokens(results_of(graph), context.fw_metadata)
    fakes = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in results]
    strides = [fake.stride() if isinstance(fake, torch.Tensor) else None for fake in fakes]
    known = [s is None or all(isinstance(size, int) for size in s) for s in strides]
    if all(known):
        context.output_strides.extend(strides)


def take_orders(graph: fx.Graph, examples: Sequence[Any]) -> None:
    """Inputs as they will lie in memory: what forward kept may have other strides than those it was traced with."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node, example in zip(inputs, examples, strict=False):
        if isinstance(example, torch.Tensor) and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["val"] = example


def results_of(graph: fx.Graph) -> list[Any]:
    """What a graph gives."""
    output = next(node for node in graph.nodes if node.op == "output")
    results = output.args[0]
    return list(results) if isinstance(results, tuple | list) else [results]


def _without_tokens(results: Sequence[Any], metadata: Any) -> Sequence[Any]:
    """The results that torch counts: tokens, which keep effects in order (checks that may raise), come before them."""
    return results[len(getattr(metadata, "tokens", ())) :]


def _images(graph: fx.Graph) -> dict[fx.Node, Order]:
    """Tensors on a GPU that are computed with their channels last, each with the axes of the image that its own are."""
    orders: dict[fx.Node, Order] = {}
    for node in graph.nodes:
        name = str(node.target).removesuffix(".default")
        fake = node.meta.get("val")
        if node.op != "call_function":
            continue
        if name in _SOURCES[1:]:
            if node.args[0] in orders:
                orders[node] = orders[node.args[0]]
            continue
        if not isinstance(fake, torch.Tensor) or not _is_known(fake):
            continue
        order = _order(node, name, orders)
        if order is not None and _lies(fake, [order.index(axis) for axis in range(fake.ndim)]):
            orders[node] = order
    return orders


def _order(node: fx.Node, name: str, orders: Mapping[fx.Node, Order]) -> Order | None:
    """The axes of the image that those of a tensor are, if it is one: what images are made of, looked at in another order, or computed element by element."""
    if name == _SOURCES[0]:
        return tuple(range(node.meta["val"].ndim))
    given = cast("fx.Node", node.args[0]) if node.args else node
    if name == "aten.permute":
        below = orders.get(given)
        return None if below is None else tuple(below[axis] for axis in cast("list[int]", node.args[1]))
    if torch.Tag.pointwise in getattr(node.target, "tags", ()) or name in _SAME:
        shape = node.meta["val"].shape
        alike = (each for each in node.all_input_nodes if each in orders and each.meta["val"].shape == shape)
        return next((orders[each] for each in alike), None)
    return orders.get(given) if node.target is operator.getitem else None


def _is_known(fake: torch.Tensor) -> bool:
    is_static = all(isinstance(size, int) for size in (*fake.shape, *fake.stride()))
    return is_static and fake.device.type == "cuda" and fake.ndim >= _IMAGE


def _lies(fake: torch.Tensor, axes: Sequence[int]) -> bool:
    """Whether a tensor is in one piece, its axes in this order."""
    sizes = [fake.shape[axis] for axis in axes]
    strides = [fake.stride()[axis] for axis in axes]
    return all(
        size == 1 or stride == prod(sizes[place + 1 :])
        for place, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    )


def _channels_last(fake: Any, order: Order) -> torch.Tensor:
    """The same tensor without data, stored with the second axis of the image last."""
    batch, channels, *space = (order.index(axis) for axis in range(fake.ndim))
    stored = [batch, *space, channels]
    strides = [
        prod(fake.shape[each] for each in stored[stored.index(axis) + 1 :]) for axis in range(fake.ndim)
    ]
    mode = getattr(fake, "fake_mode", None)
    with nullcontext() if mode is None else mode:
        return torch.empty_strided(fake.shape, strides, dtype=fake.dtype, device=fake.device)
