"""vmap: a function of many examples made of a function of one.

The function is traced for one example, batched as PTIR (`planish.frontend.vmap`), and applied where it was called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from planish.errors import PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.flat import Flat, TracedTree, Tree, as_tensor, own, shown
from planish.frontend.session import current_scope
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import broadcast
from planish.frontend.trace import inline
from planish.frontend.vmap import batch
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.tracebacks import short_tracebacks

Function = Callable[..., Any]


def moved_to(x: Tensor, source: int, target: int) -> Tensor:
    """One axis elsewhere, the others in order."""
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(target, source)
    if order == sorted(order):
        return x
    return Tensor.apply(ops.transpose, x, attrs=ops.TransposeAttrs(tuple(order)))


def vmap(function: Function, in_axes: Tree = 0, out_axes: Tree = 0) -> Function:
    """A function of many examples made of a function of one.

    `in_axes` says along which axis the examples of each argument lie: one number for all, or a tuple with an entry per
    argument, each a number, None (the same for all examples) or a tree of such like the argument or its upper part.
    Keyword arguments have their examples along the first axis. `out_axes` says where the results have them; None for a
    result that is the same for all.
    """

    @functools.wraps(function, updated=())
    @short_tracebacks
    def mapped(*args: Tree, **kwargs: Tree) -> Tree:
        what = "vmap"
        given = Flat((args, kwargs), None)
        axes = _in_axes(what, in_axes, args, kwargs)
        places = [n for n, axis in enumerate(axes) if axis is not None]
        inputs, size = _examples(what, [(given.leaves[n], axes[n]) for n in places])
        types = [x._type.with_dims(x._type.dims[1:]) for x in inputs]

        def call(params: Sequence[Tensor]) -> Tree:
            leaves = [own(leaf) for leaf in given.leaves]
            for place, param in zip(places, params, strict=True):
                leaves[place] = param
            positional, named = tree.unflatten(given.structure, leaves)
            return function(*positional, **named)

        traced = TracedTree(what, call, types)
        primal, free = traced.captured()
        given_flags = [*[True] * len(inputs), *[False] * len(free)]
        batched, flags = batch(primal, given_flags, size, guards=current_scope() is not None)
        outputs = inline(batched, [*inputs, *free])
        wanted = _spread(what, "out_axes", out_axes, traced.result.structure)
        chosen = [wanted[n] for n in traced.result.places]
        return traced.result.rebuilt(
            [_placed(what, x, flag, axis, size) for x, flag, axis in zip(outputs, flags, chosen, strict=True)]
        )

    return mapped


def _in_axes(what: str, in_axes: Tree, args: Sequence[Tree], kwargs: dict[str, Tree]) -> list[int | None]:
    """An axis for each leaf of the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise PlanishError.of(what, f"in_axes has {len(in_axes)} entries for {len(args)} arguments",
            "give one per positional argument, or one number for all",
        )  # fmt: skip
    return [
        *_spread(what, "in_axes", in_axes, tree.flatten(tuple(args))[1]),
        *_spread(what, "in_axes", 0, tree.flatten(kwargs)[1]),
    ]


def _spread(what: str, name: str, axes: Tree, structure: tree.Structure) -> list[int | None]:
    """An axis for each leaf of a tree, from a tree of axes that may end earlier."""
    by_leaf: list[int | None] = []
    pending: list[tuple[Tree, tree.Structure]] = [(axes, structure)]
    while pending:
        own, part = pending.pop()
        if own is None or (isinstance(own, int) and not isinstance(own, bool)):
            by_leaf += [own] * part.leaves
            continue
        children = tree.children(own)
        if children is None or part.kind is None or len(children) != len(part.children):
            raise PlanishError.of(
                what, f"{name} {own!r} does not fit a tree {part}", "axes are numbers or None"
            )
        pending += reversed(list(zip(children, part.children, strict=True)))
    return by_leaf


def _examples(what: str, given: Sequence[tuple[object, int | None]]) -> tuple[list[Tensor], DimLike]:
    """Tensors with their examples in front, and how many there are."""
    tensors: list[Tensor] = []
    sizes: dict[DimLike, str] = {}
    for leaf, axis in given:
        x = as_tensor(what, leaf)
        place = 0 if axis is None else axis
        if not -x.ndim <= place < x.ndim:
            raise ShapeError.of(what, f"{shown(x._type)} has no axis {place} to map over",
                "give in_axes=None for what is the same for all examples",
            )  # fmt: skip
        tensors.append(moved_to(x, place % x.ndim, 0))
        sizes.setdefault(tensors[-1]._type.dims[0], f"{shown(x._type)} along axis {place}")
    if not sizes:
        raise PlanishError.of(what, "there is nothing to map over", "some argument needs an axis in in_axes")
    if len(sizes) > 1:
        listed = ", ".join(f"{size} ({who})" for size, who in sizes.items())
        raise ShapeError.of(
            what, f"the numbers of examples differ: {listed}", "give in_axes that say where the examples lie"
        )
    return tensors, next(iter(sizes))


def _placed(what: str, x: Tensor, batched: bool, axis: int | None, size: DimLike) -> Tensor:
    """A result with its examples where they are wanted."""
    if axis is None:
        if batched:
            raise PlanishError.of(what, f"out_axes is None for a result that differs between examples: {shown(x._type)}",
                "say along which axis they are to lie",
            )  # fmt: skip
        return x
    whole = x if batched else broadcast(x, (size, *x._type.dims))
    if not -whole.ndim <= axis < whole.ndim:
        raise ShapeError.of(what, f"out_axes is {axis}, and the result is {shown(whole._type)}")
    return moved_to(whole, 0, axis % whole.ndim)
