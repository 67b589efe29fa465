"""Lengths that data decides: how many boxes were kept, how many elements are not zero, how many steps a loop took.

What the host makes of data is a parameter of the program that follows. The first two lengths that one has are numbers in programs of
their own; from the third on it has a name, and one program serves all lengths up to a bound, which grows by doubling. Where an op that
follows needs the number, the model is imported again without names, once and for all: `Lengths.reason` says which.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from numpy.typing import NDArray

from planish.onnx.tensors import on_device
from planish.ptir.types import Dim, DimLike

Array = NDArray[Any]
Place: TypeAlias = tuple[str, int, int]
T = TypeVar("T")
_ALONE: Final = 2
"""So many lengths have programs of their own."""
_LEAST: Final = 16
_LARGEST: Final = 1 << 24


class Lengths:
    """What is known of the lengths in a model."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why each length has a program of its own."""
        self._met: dict[Place, set[int]] = {}
        self._bounds: dict[Place, int] = {}

    def bound(self, place: Place, size: int) -> int | None:
        """Up to which length one that is met there is served by one program; None if it has its own."""
        met = self._met.setdefault(place, set())
        if len(met) <= _ALONE:
            met.add(size)
        if len(met) <= _ALONE or not 0 < size <= _LARGEST or self.reason is not None:
            return None
        if size > self._bounds.get(place, 0):
            self._bounds[place] = _bound(size)
        return self._bounds[place]


def _bound(size: int) -> int:
    return max(_LEAST, 2 << (size - 1).bit_length())


class NamedLengths:
    """The names of one import."""

    def __init__(self, known: Lengths) -> None:
        self.known = known
        self._grown: set[str] = set()
        """Names of lengths that grow from step to step of a loop."""
        self._handed_on: dict[int, tuple[str, int]] = {}
        """What the steps of a loop hand on, by the ids of the values: which loop it is, and which of its values."""
        self._dims: dict[int, tuple[Dim, tuple[str, int, int]]] = {}
        """What stands for a size. Two that are the same now are taken for the same; a run where they differ is imported by itself."""

    @property
    def used(self) -> bool:
        return bool(self._grown or self._dims)

    @contextmanager
    def between_steps(self, loop: str, handed_on: Mapping[int, int]) -> Iterator[None]:
        """What is cut here is cut between two steps of a loop, which hand on values: by their ids, which of them."""
        before = self._handed_on
        self._handed_on = {value: (loop, number) for value, number in handed_on.items()}
        try:
            yield
        finally:
            self._handed_on = before

    def grown(
        self, value: int, dims: Sequence[DimLike], array: Array, named: dict[int, Dim]
    ) -> tuple[DimLike, ...]:
        """The dims of what is left when a step of a loop has been run, with names for lengths that were others before.

        Along a way through the model such lengths are always the same. Names begin anew in each step (`named`), so that steps are the
        same program.
        """
        place = self._handed_on.get(value)
        own = [not isinstance(dim, int) for dim in dims]
        if any(
            symbol.name not in self._grown for dim in dims if isinstance(dim, Dim) for symbol in dim.symbols()
        ):
            return tuple(dims)  # lengths that data decides
        sizes: list[DimLike] = list(array.shape)
        for axis, size in enumerate(array.shape if on_device(array.dtype) else ()):
            bound = None if place is None else self.known.bound((*place, axis), size)
            if bound is None and own[axis] and size:
                bound = _bound(size)
            if bound is not None:
                label = f"g{len(named)}"
                self._grown.add(label)
                sizes[axis] = named.setdefault(size, Dim.named(label, 1, bound))
        return tuple(sizes)

    def key(self, where: str, dims: list[tuple[DimLike, ...]], results: Sequence[Array]) -> Hashable:
        """What leads on from a call that made these arrays; their dims, some with names, are added."""
        parts: list[Hashable] = []
        for number, array in enumerate(results):
            sizes: list[DimLike] = list(array.shape)
            told: list[Hashable] = list(array.shape)
            for axis, size in enumerate(array.shape if on_device(array.dtype) else ()):
                bound = self.known.bound((where, number, axis), size)
                if bound is not None:
                    if size not in self._dims:
                        name = f"n{len(self._dims)}"
                        self._dims[size] = Dim.named(name, 1, bound), (name, 1, bound)
                    sizes[axis], told[axis] = self._dims[size]
            parts.append((array.dtype.str, tuple(told)))
            dims.append(tuple(sizes))
        return tuple(parts)


def fitting(after: Mapping[Hashable, T], results: Sequence[Array], named: dict[str, int]) -> T | None:
    """The step that leads on for arrays of such lengths; `named` are those that have names already, and new ones are added."""
    for key, step in list(after.items()):  # another thread may add to it
        bindings = _matched(key, results, named)
        if bindings is not None:
            named.update(bindings)
            return step
    return None


def _matched(key: Any, results: Sequence[Array], named: Mapping[str, int]) -> dict[str, int] | None:
    if len(key) != len(results):
        return None
    bindings = dict(named)
    for (kind, sizes, *_), array in zip(key, results, strict=True):
        if kind != array.dtype.str or len(sizes) != array.ndim:
            return None
        for told, size in zip(sizes, array.shape, strict=True):
            if isinstance(told, tuple):
                name, low, high = told
                if not low <= size <= high or bindings.setdefault(name, size) != size:
                    return None
            elif told != size:
                return None
    return bindings
