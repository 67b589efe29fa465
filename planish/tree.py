"""Trees: nested containers of tensors, taken apart into leaves and put together again.

Tuples, lists, dicts, named tuples and dataclasses are containers, and so is every class that says how with `register`. Fields of
a dataclass that hold text or say `field(metadata={"static": True})` are no leaves: they are part of what the tree is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from planish.frontend.arguments import paths
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tree import Structure, flatten, leaves, register, unflatten
from planish.frontend.tree import map_tree as map

T = TypeVar("T")


def structure(tree: object) -> Structure:
    """The containers of a tree without its leaves."""
    return flatten(tree)[1]


def flatten_with_path(tree: object) -> tuple[list[tuple[str, Any]], Structure]:
    """The leaves, each with how one gets there in Python (`[0].weight['a']`), and how to put them together."""
    values, shape = flatten(tree)
    return list(zip(paths(shape, ""), values, strict=True)), shape


def map_with_path(function: Callable[..., Any], tree: T, *others: object) -> T:
    """A function of path and leaf applied leaf by leaf, over trees of one structure."""
    named, shape = flatten_with_path(tree)
    rest = [leaves(map(lambda leaf, other: other, tree, other)) for other in others]
    mapped: T = unflatten(
        shape,
        [
            function(path, *row)
            for (path, first), *more in zip(named, *rest, strict=True)
            for row in [(first, *more)]
        ],
    )
    return mapped


def reduce(function: Callable[[Any, Any], Any], tree: object, *initial: Any) -> Any:
    """The leaves combined from left to right."""
    return functools.reduce(function, leaves(tree), *initial)


def all(tree: object) -> bool:
    """Whether all leaves are true."""
    return not any(not leaf for leaf in leaves(tree))


__all__ = [
    "Structure", "all", "flatten", "flatten_with_path", "leaves", "map", "map_with_path", "reduce", "register", "structure",
    "unflatten",
]  # fmt: skip

report_all(globals(), __all__)
