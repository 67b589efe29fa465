"""Meshes of ranks, and specs that say how tensors are cut over them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from contextvars import ContextVar, Token
from typing import Final, Self

from planish.errors import Location, PlanishError, ShapeError
from planish.ptir.ops.collective import MeshAxes, SpecAxes, check_mesh, check_spec

_CURRENT: Final[ContextVar[Mesh | None]] = ContextVar("mesh", default=None)


class Mesh:
    """Ranks in a grid whose axes have names: `Mesh((2, 4), ("data", "model"))`. Ranks count row by row.

    `with mesh:` makes it the one that specs without a mesh mean.
    """

    __slots__ = ("_tokens", "axes")

    axes: Final[MeshAxes]
    """The name and size of each axis."""

    def __init__(self, shape: int | Sequence[int], names: str | Sequence[str]) -> None:
        sizes = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
        labels = (names,) if isinstance(names, str) else tuple(names)
        if len(sizes) != len(labels):
            raise ShapeError(
                f"a mesh of {len(sizes)} axes {sizes} and {len(labels)} names {', '.join(map(str, labels)) or 'none'}",
                location=Location.caller(),
                remedy='name every axis: Mesh((2, 4), ("data", "model"))',
            )
        self.axes = tuple(zip(labels, sizes, strict=True))
        self._tokens: list[Token[Mesh | None]] = []
        _located(lambda: check_mesh("Mesh", self.axes, labels))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple([size for _, size in self.axes])

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each axis."""
        return tuple([name for name, _ in self.axes])

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(self.shape)

    def __enter__(self) -> Self:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.reset(self._tokens.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def __repr__(self) -> str:
        return f"Mesh({self.shape}, {self.names})"


class P:
    """A spec: for each axis of a tensor, the axis of the mesh that it is cut along, several of them, or None.

    `P("data", None)` cuts the first axis along `data`; axes that are not mentioned stay whole, so `P()` cuts nothing.
    """

    __slots__ = ("entries",)

    entries: Final[tuple[tuple[str, ...], ...]]

    def __init__(self, *entries: str | Sequence[str] | None) -> None:
        self.entries = tuple([() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in entries])
        for names in self.entries:
            for name in names:
                if not isinstance(name, str):
                    raise PlanishError(
                        f"a spec names axes of a mesh, not {name!r}",
                        location=Location.caller(),
                        remedy='write P("data", None, ("model", "data"))',
                    )

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, P) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        shown = [
            repr(names[0]) if len(names) == 1 else repr(names) if names else "None" for names in self.entries
        ]
        return f"P({', '.join(shown)})"


class Sharding:
    """A spec over a mesh: `Sharding(mesh, P("data"))`."""

    __slots__ = ("mesh", "spec")

    mesh: Final[Mesh]
    spec: Final[P]

    def __init__(self, mesh: Mesh, spec: P) -> None:
        self.mesh, self.spec = mesh, spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"Sharding({self.mesh!r}, {self.spec!r})"


def spec_axes(what: str, mesh: Mesh, spec: P, dims: Sequence[int]) -> SpecAxes:
    """The spec of a tensor with these sizes, axis by axis; mistakes name the user's line."""
    if not isinstance(spec, P):
        raise PlanishError(
            f"{what}: {spec!r} is no spec", location=Location.caller(), remedy='write planish.P("data", None)'
        )
    if len(spec.entries) > len(dims):
        raise ShapeError(
            f"{what}: {spec!r} is about {len(spec.entries)} axes, and the shape is {tuple(dims)}",
            location=Location.caller(),
            remedy="give at most one entry per axis",
        )
    axes = (*spec.entries, *[()] * (len(dims) - len(spec.entries)))
    _located(lambda: check_spec(what, mesh.axes, axes, dims))
    return axes


def _located(check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise


def current_mesh() -> Mesh | None:
    """The mesh that specs without one mean."""
    return _CURRENT.get()


def needed_mesh(what: str, mesh: Mesh | None) -> Mesh:
    """A mesh, given or the current one."""
    found = mesh or current_mesh()
    if found is None:
        raise PlanishError(
            f"{what}: no mesh says what the axes of the spec are",
            location=Location.caller(),
            remedy="pass mesh=, or call it inside `with mesh:` or a function under jit with shardings",
        )
    return found


__all__ = ["Mesh", "P", "Sharding", "current_mesh", "needed_mesh", "spec_axes"]
