"""`x.flat`: the elements of a tensor in row-major order, to read and to assign to."""

from __future__ import annotations

from typing import Any

from planish.frontend.tensor import functions
from planish.frontend.tensor.array import Index, Tensor


class FlatView(Tensor):
    """A vector of a tensor's elements. What is assigned to it is assigned to the tensor."""

    __slots__ = ("_origin",)
    _origin: Tensor

    @staticmethod
    def of(x: Tensor) -> FlatView:
        """The elements of a tensor."""
        view = FlatView(functions.ravel(x).snapshot()._value)
        view._origin = x
        return view

    def __setitem__(self, key: Index, value: Any, /) -> None:
        super().__setitem__(key, value)
        self._origin[...] = functions.reshape(Tensor(self._value), self._origin.shape)
