"""Pytrees: nested Python containers of tensors, taken apart into leaves and put together again.

A tuple, list, dict (by sorted keys, as far as they can be sorted; an OrderedDict in its own order), named tuple or dataclass is a
container, and so is every class that says how with `register`. None is an empty container. Everything else is a leaf. Fields of
a dataclass that hold text, and those that say `field(metadata={"static": True})`, are no leaves: they tell containers apart.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from planish.errors import PlanishError
from planish.records import dataclass

T = TypeVar("T")
Flatten = Callable[[Any], tuple[Sequence[Any], Hashable]]
Unflatten = Callable[[Hashable, Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Structure:
    """The containers of a tree without its leaves; equal for trees of the same shape."""

    kind: type | None
    """None for a leaf."""
    about: Hashable
    children: tuple[Structure, ...]
    leaves: int

    def __repr__(self) -> str:
        text = str(self)
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
        return f"<structure of {self.leaves} leaves: {shown}>"

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        names = self.about.names if isinstance(self.about, Fields) else self.about
        parts = [str(child) for child in self.children]
        if isinstance(names, tuple) and len(names) == len(parts):
            parts = [f"{name}={part}" for name, part in zip(names, parts, strict=True)]
        return f"{self.kind.__name__}({', '.join(parts)})"


class DefaultKeys(tuple[Any, ...]):  # noqa: SLOT001 # a tuple has no slots of its own, and this one carries something
    """What tells a defaultdict apart: its keys, and what makes the value of a new one."""

    factory: Callable[[], Any] | None

    @staticmethod
    def of(tree: defaultdict[Any, Any], keys: Sequence[Any]) -> DefaultKeys:
        default_keys = DefaultKeys(keys)
        default_keys.factory = tree.default_factory
        return default_keys

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, DefaultKeys) and self.factory == other.factory
        return same and tuple.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((tuple(self), self.factory))


class Fields(NamedTuple):
    """What tells a dataclass apart: the fields that are its children, and those that are part of the program."""

    names: tuple[str, ...]
    static: tuple[tuple[str, Hashable], ...]


_LONGEST = 120
"""Characters of a structure that its repr shows; `str` has all."""
_TEXT = (str, bytes, enum.Enum)
LEAF = Structure(None, None, (), 1)
_REGISTRY: dict[type, tuple[Flatten, Unflatten]] = {}


def register(kind: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Say how a class is taken apart (children, and what else is needed) and put together again."""
    for what, given in (
        ("a class", isinstance(kind, type)),
        ("flatten", callable(flatten)),
        ("unflatten", callable(unflatten)),
    ):
        if not given:
            raise PlanishError.of(
                "tree.register",
                f"{what} is missing",
                "register(Box, lambda box: ((box.value,), None), lambda about, children: Box(*children))",
            )
    _REGISTRY[kind] = (flatten, unflatten)


def _sorted_keys(mapping: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def apart(tree: object) -> tuple[Sequence[Any], Hashable] | None:
    """The children of a container, and what else tells it apart; None for a leaf."""
    kind = type(tree)
    known = _REGISTRY.get(kind)
    if known is not None:
        return known[0](tree)
    if tree is None:
        return (), None
    if isinstance(tree, tuple | list):
        return tree, None
    if isinstance(tree, dict):
        if isinstance(tree, OrderedDict):
            return list(tree.values()), tuple(tree)
        keys = _sorted_keys(tree)
        about = DefaultKeys.of(tree, keys) if isinstance(tree, defaultdict) else tuple(keys)
        return [tree[key] for key in keys], about
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names: list[str] = []
        static: list[tuple[str, Any]] = []
        for field in dataclasses.fields(tree):
            if field.init:
                value = getattr(tree, field.name)
                if field.metadata.get("static") or isinstance(value, _TEXT):
                    static.append((field.name, _hashable(tree, field.name, value)))
                else:
                    names.append(field.name)
        return [getattr(tree, name) for name in names], Fields(tuple(names), tuple(static))
    return None


def _hashable(tree: object, name: str, value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        raise PlanishError.at_caller(
            f"the static field {name} of {type(tree).__name__} cannot be hashed: {value!r}",
            "make it a tuple, or a field that is not static",
        ) from None
    return value  # type: ignore[no-any-return] # it can be


def together(kind: type, about: Hashable, children: Sequence[Any]) -> object:
    """A container of that kind with these children."""
    known = _REGISTRY.get(kind)
    if known is not None:
        return known[1](about, children)
    if kind is type(None):
        return None
    if issubclass(kind, tuple):
        return kind(*children) if hasattr(kind, "_fields") else kind(children)
    if issubclass(kind, list):
        return kind(children)
    if isinstance(about, Fields):
        return kind(**dict(zip(about.names, children, strict=True)), **dict(about.static))
    if isinstance(about, DefaultKeys):
        return cast("type[defaultdict[Any, Any]]", kind)(about.factory, zip(about, children, strict=True))
    keys: Iterable[Any] = about  # type: ignore[assignment] # what `apart` wrote down
    container: object = cast("type[dict[Any, Any]]", kind)(zip(keys, children, strict=True))
    return container


def flatten(tree: object) -> tuple[list[Any], Structure]:
    """The leaves from left to right, and how to put them together."""
    leaves: list[Any] = []

    def visit(node: object) -> Structure:
        parts = apart(node)
        if parts is None:
            leaves.append(node)
            return LEAF
        children = tuple([visit(child) for child in parts[0]])
        return Structure(type(node), parts[1], children, sum(child.leaves for child in children))

    return leaves, visit(tree)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of that structure with other leaves."""
    if len(leaves) != structure.leaves:
        raise PlanishError(f"a tree of {structure.leaves} leaves cannot be made of {len(leaves)}")
    rest = iter(leaves)

    def build(part: Structure) -> object:
        if part.kind is None:
            return next(rest)
        return together(part.kind, part.about, [build(child) for child in part.children])

    return build(structure)


def children(tree: object) -> Sequence[Any] | None:
    """The children of a container; None for a leaf."""
    parts = apart(tree)
    return None if parts is None else parts[0]


def aligned(tree: object, structure: Structure) -> list[Any] | None:
    """What a tree has for each leaf of a structure, where None may stand for a leaf; None if it does not fit."""
    by_leaf: list[Any] = []
    pending: list[tuple[object, Structure]] = [(tree, structure)]
    while pending:
        node, part = pending.pop()
        if part.kind is None:
            by_leaf.append(node)
            continue
        parts = apart(node)
        if (
            parts is None
            or type(node) is not part.kind
            or parts[1] != part.about
            or len(parts[0]) != len(part.children)
        ):
            return None
        pending += reversed(list(zip(parts[0], part.children, strict=True)))
    return by_leaf


def leaves(tree: object) -> list[Any]:
    """The leaves of a tree."""
    return flatten(tree)[0]


def map_tree(function: Callable[..., Any], tree: T, *others: object) -> T:
    """A function applied leaf by leaf, over trees of one structure."""
    first, structure = flatten(tree)
    rest = []
    for other in others:
        values, shape = flatten(other)
        if shape != structure:
            raise PlanishError.at_caller(
                f"tree.map: trees differ: {structure} and {shape}",
                "all trees have the containers, keys and static fields of the first",
            )
        rest.append(values)
    result: T = unflatten(structure, [function(*row) for row in zip(first, *rest, strict=True)])
    return result
