"""Python functions of trees as functions of tensors: what transforms trace.

Tensors in arguments and results are what is traced, as what they stand for when the tree is taken apart; everything else in
a tree (strings, flags, None) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from planish import ptir
from planish.errors import DTypeError
from planish.frontend import tree
from planish.frontend.capture import capture_body
from planish.frontend.expression import TracedBody
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.foreign import is_foreign
from planish.frontend.tensor.operands import tensor
from planish.frontend.trace import trace
from planish.ptir.types import TensorType

Tree: TypeAlias = Any
"""Nested containers of tensors, of any type."""


def name_of(function: object) -> str:
    """What a function is called in errors and programs."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def is_data(leaf: object) -> bool:
    """Whether a leaf is a tensor, or something that is taken for one: arrays and numbers."""
    return isinstance(leaf, Tensor | np.ndarray | np.generic | bool | int | float | complex) or is_foreign(
        type(leaf)
    )


def as_tensor(what: str, leaf: object) -> Tensor:
    """A leaf as a tensor, under a name that nobody assigns to."""
    if not is_data(leaf):
        raise DTypeError.of(
            what,
            f"a {type(leaf).__name__} is no tensor, nor a number that could be one",
            "hand it over in a closure: lambda x: f(x, other)",
        )
    return _unnamed(tensor(what, leaf))


def _unnamed(x: Tensor) -> Tensor:
    """What a tensor stands for now."""
    return Tensor(x._value)


def is_real_or_complex(type: TensorType) -> bool:
    """Whether a tensor can move: floats and complex numbers can."""
    return type.dtype.is_float or type.dtype.is_complex


class Flat:
    """A tree taken apart: its tensors, and what else there is in it."""

    __slots__ = ("leaves", "places", "structure", "tensors")

    def __init__(self, whole: Tree, what: str | None = None) -> None:
        """With `what`, arrays and numbers are made tensors; without, only tensors are."""
        self.leaves, self.structure = tree.flatten(whole)
        if what is not None:
            self.leaves = [as_tensor(what, leaf) if is_data(leaf) else leaf for leaf in self.leaves]
        self.places = [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.tensors: list[Tensor] = [_unnamed(self.leaves[n]) for n in self.places]
        """Its tensors as they are now, from left to right."""

    @property
    def types(self) -> list[TensorType]:
        """Their types."""
        return [x._type for x in self.tensors]

    def rebuilt(self, tensors: Sequence[object]) -> Tree:
        """The tree with others in their place."""
        leaves = list(self.leaves)
        for place, other in zip(self.places, tensors, strict=True):
            leaves[place] = other
        return tree.unflatten(self.structure, leaves)


def own(given: Tree) -> Tree:
    """A tree for a function to keep: the same tensors under names of its own, which it may assign to.

    What holds no tensors is handed over as it is.
    """
    leaves, structure = tree.flatten(given)
    if not any(type(leaf) is Tensor for leaf in leaves):
        return given
    return tree.unflatten(structure, [leaf.snapshot() if type(leaf) is Tensor else leaf for leaf in leaves])


class TracedTree:
    """A function called once with parameters: what it computes, and the tree that it returned."""

    __slots__ = ("body", "result", "what")

    body: TracedBody
    result: Flat

    def __init__(
        self,
        what: str,
        call: Callable[[Sequence[Tensor]], Tree],
        types: Sequence[TensorType],
        *,
        convert: bool = True,
        arguments: Sequence[Tensor] | None = None,
        once: bool = True,
    ) -> None:
        """With `convert`, numbers and arrays in the result are tensors. With `arguments`, it is traced for these alone (`trace`)."""
        self.what = what

        def flat(*params: Tensor) -> list[Tensor]:
            self.result = Flat(call(params), what if convert else None)
            return self.result.tensors

        self.body = trace(what, flat, types, arguments=arguments, once=once)

    def captured(self) -> tuple[ptir.Function, tuple[Tensor, ...]]:
        """As PTIR, and the tensors from outside that follow its parameters."""
        function, free = capture_body(self.body, self.what, markers=True)
        return function, tuple(map(Tensor, free))


def shown(type: TensorType) -> str:
    """A type as messages have it."""
    return f"{type.dtype.name}{[dim if isinstance(dim, int) else str(dim) for dim in type.dims]}"
