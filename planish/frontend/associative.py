"""associative_scan: running results of an associative function, in logarithmically many steps of whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planish.errors import ShapeError
from planish.frontend import tree
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.manipulation import concat, flip, reshape, stack
from planish.frontend.tensor.operands import axis_of, tensor

Tree = Any


def associative_scan(
    function: Callable[[Tree, Tree], Tree], elems: Tree, reverse: bool = False, axis: int = 0
) -> Tree:
    """Running results along an axis of trees of tensors: the first, function(first, second), and so on.

    The function takes stretches of both sides at once and must be associative. Neighbours are combined in pairs, the pairs are
    scanned, and what lies between follows from them: twice as many calls as a power of two needs to reach the size.
    """
    given, structure = tree.flatten(elems)
    leaves = [tensor("associative_scan", leaf) for leaf in given]
    if not leaves:
        return elems
    axes = [axis_of("associative_scan", axis, leaf.ndim, leaf.shape) for leaf in leaves]
    sizes = {leaf.shape[along] for leaf, along in zip(leaves, axes, strict=True)}
    if len(sizes) != 1:
        raise ShapeError.of(
            "associative_scan", f"axis {axis} has the sizes {sorted(sizes)} in the leaves", "all must agree"
        )

    def part(x: Tensor, along: int, piece: slice) -> Tensor:
        return x[(*[slice(None)] * along, piece)]

    def parts(lines: Sequence[Tensor], piece: slice) -> list[Tensor]:
        return [part(x, along, piece) for x, along in zip(lines, axes, strict=True)]

    def combined(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        returned = function(tree.unflatten(structure, list(left)), tree.unflatten(structure, list(right)))
        outputs, shape = tree.flatten(returned)
        if shape != structure:
            raise ShapeError.of("associative_scan", f"the function makes {shape} of {structure}")
        return [tensor("associative_scan", x) for x in outputs]

    def scanned(lines: Sequence[Tensor]) -> list[Tensor]:
        size = lines[0].shape[axes[0]]
        if size < 2:
            return list(lines)
        odd = scanned(combined(parts(lines, slice(0, size - 1, 2)), parts(lines, slice(1, None, 2))))
        first = parts(lines, slice(0, 1))
        if size == 2:
            even = first
        else:
            before = odd if size % 2 else parts(odd, slice(0, -1))
            between = combined(before, parts(lines, slice(2, None, 2)))
            even = [concat(pair, axis=along) for *pair, along in zip(first, between, axes, strict=True)]
        return [_interleaved(a, b, along) for a, b, along in zip(even, odd, axes, strict=True)]

    if reverse:
        leaves = [flip(x, axis=along) for x, along in zip(leaves, axes, strict=True)]
    running = scanned(leaves)
    if reverse:
        running = [flip(x, axis=along) for x, along in zip(running, axes, strict=True)]
    return tree.unflatten(structure, running)


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Elements in turn along an axis; the even ones may be one more."""
    count = odd.shape[axis]
    lead = [slice(None)] * axis
    pairs = stack([even[(*lead, slice(0, count))], odd], axis=axis + 1)
    joined = reshape(pairs, (*odd.shape[:axis], 2 * count, *odd.shape[axis + 1 :]))
    return (
        joined
        if even.shape[axis] == count
        else concat([joined, even[(*lead, slice(count, None))]], axis=axis)
    )
