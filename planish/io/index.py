"""What a checkpoint says about a tree: each leaf under a dotted name, and how the containers nest.

Names are those of `state_dict`: a module's parameter is `model.conv.weight`, an entry of a list `slots.mean.0`. Tensors and arrays
go into files by these names; numbers and texts stand in the index itself. Containers are written down by kind, so that a
checkpoint can be read without the program that wrote it: modules and dataclasses then come back as dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from planish.errors import DTypeError, PlanishError
from planish.frontend import tree
from planish.frontend.arguments import steps_of
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor
from planish.frontend.tree import Structure

Json: TypeAlias = Any
"""What a JSON file holds."""
Number: TypeAlias = bool | int | float | str
_VALUES = (bool, int, float, str)


def names_of(structure: Structure, op: str) -> list[str]:
    """A dotted name for each leaf; two leaves of one name are an error."""
    names: list[str] = []

    def visit(part: Structure, name: str) -> None:
        if part.kind is None:
            names.append(name or "value")
            return
        for child, step in _entries(part):
            visit(child, f"{name}.{step}" if name else step)

    visit(structure, "")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanishError.of(
            op,
            f"two leaves of the tree would both be called {twice!r}",
            "rename a key that has a dot, or that is a number written as text",
        )
    return names


def _entries(part: Structure) -> list[tuple[Structure, str]]:
    """The children of a container with their names: keys, attributes, or numbers."""
    if part.kind is not None and issubclass(part.kind, dict) and isinstance(part.about, tuple):
        return [(child, str(key)) for key, child in zip(part.about, part.children, strict=True)]
    return [(child, step.strip(".[]")) for child, step in steps_of(part)]


def split(state: object, op: str) -> tuple[dict[str, Tensor], dict[str, Number], Json]:
    """A tree as named tensors, named numbers and texts, and what its containers are."""
    leaves, structure = tree.flatten(state)
    tensors: dict[str, Tensor] = {}
    values: dict[str, Number] = {}
    arrays: set[str] = set()
    for name, leaf in zip(names_of(structure, op), leaves, strict=True):
        if isinstance(leaf, Tensor):
            tensors[name] = leaf
        elif isinstance(leaf, np.ndarray | np.generic):
            tensors[name] = asarray(np.asarray(leaf))
            arrays.add(name)
        elif isinstance(leaf, _VALUES):
            values[name] = leaf
        else:
            raise DTypeError.of(
                op,
                f"{name} is a {type(leaf).__name__}, which a checkpoint does not hold",
                "save tensors, arrays, numbers and texts, in containers",
            )
    return tensors, values, _described(structure, "", arrays)


def _described(part: Structure, name: str, arrays: set[str]) -> Json:
    if part.kind is None:
        return {"array" if (name or "value") in arrays else "leaf": name or "value"}
    if part.kind is type(None):
        return None
    inner = [
        (step, _described(child, f"{name}.{step}" if name else step, arrays))
        for child, step in _entries(part)
    ]
    if issubclass(part.kind, dict) and isinstance(part.about, tuple):
        if all(isinstance(key, str) for key in part.about):
            return {"dict": dict(inner)}
        return {"items": [[key, one] for key, (_, one) in zip(part.about, inner, strict=True)]}
    if part.kind in (list, tuple):
        return {part.kind.__name__: [one for _, one in inner]}
    return {"record": part.kind.__name__, "fields": dict(inner)}


def rebuilt(about: Json, leaf: Callable[[str], Any]) -> Any:
    """The containers of a description, with a leaf for each name. A `ValueError` or `KeyError` if it describes none."""
    match about:
        case None:
            return None
        case {"leaf": str(name)}:
            return leaf(name)
        case {"array": str(name)}:
            return np.asarray(leaf(name))
        case {"dict": dict(inner)} | {"record": str(), "fields": dict(inner)}:
            return {key: rebuilt(one, leaf) for key, one in inner.items()}
        case {"items": list(inner)}:
            return {key: rebuilt(one, leaf) for key, one in inner}
        case {"list": list(inner)}:
            return [rebuilt(one, leaf) for one in inner]
        case {"tuple": list(inner)}:
            return tuple(rebuilt(one, leaf) for one in inner)
    raise ValueError(f"{str(about)[:80]!r} describes no container")


def flat(nested: object, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dicts, lists and tuples, by dotted names."""
    if isinstance(nested, Mapping):
        entries = list(nested.items())
    elif isinstance(nested, list | tuple):
        entries = list(enumerate(nested))
    else:
        return {} if nested is None else {prefix or "value": nested}
    result: dict[str, Any] = {}
    for key, one in entries:
        result |= flat(one, f"{prefix}.{key}" if prefix else str(key))
    return result
