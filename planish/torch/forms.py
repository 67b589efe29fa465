"""How a tensor lies in memory, and how it goes in and out of compiled code without a copy.

Compiled code reads and writes arrays in order. A tensor whose axes are stored in another order (a transpose, channels last),
or that repeats elements (an expanded axis), is given to it in the order of its memory; the program transposes and repeats, which costs nothing.
On a GPU, where a copy is a kernel, one with gaps that are alike (queries, keys or values, which are parts of one tensor) is given as the rows that it is a part of; other
tensors with gaps are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.types import TensorType
from planish.torch.kinds import CARRIERS, TO_PLANISH

Array = NDArray[Any]
_RUN: Final = 16
"""Bytes between gaps, at least, so that a thread reads several elements at once."""


class Gap(NamedTuple):
    """What is left out of rows: of so many parts of each, all but one."""

    place: int
    """How many axes, in the order of memory, count rows; the others are inside of a part."""
    parts: int
    mine: int


@dataclass(frozen=True, slots=True)
class Form:
    """The order in memory of a tensor of one dtype and shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    """The axes, the one that changes slowest first; None if that is the order they have."""
    repeated: tuple[int, ...]
    """Axes along which all elements are one."""
    gap: Gap | None = None

    @property
    def is_plain(self) -> bool:
        return self.order is None and not self.repeated and self.gap is None

    @property
    def type(self) -> TensorType:
        """What the program sees: the memory in order."""
        dims = [1 if axis in self.repeated else size for axis, size in enumerate(self.shape)]
        order = range(len(dims)) if self.order is None else self.order
        return TensorType(TO_PLANISH[self.dtype], self._with_gap([dims[axis] for axis in order]))

    def _with_gap(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The sizes of all that a tensor of these sizes, in the order of memory, is a part of."""
        if self.gap is None:
            return tuple(dims)
        return (*dims[: self.gap.place], self.gap.parts, *dims[self.gap.place :])

    def read(self, graph: Graph, name: str) -> V:
        """A parameter, as the tensor that torch knows."""
        value = graph.input(name, self.type)
        if self.gap is not None:
            place, _, mine = self.gap
            starts, limits = [0] * value.rank, list(value.dims)
            starts[place], limits[place] = mine, mine + 1
            value = value.slice(starts, limits).reshape((*value.dims[:place], *value.dims[place + 1 :]))
        if self.order is not None:
            value = value.transpose([self.order.index(axis) for axis in range(len(self.order))])
        return value.broadcast_to(self.shape) if self.repeated else value

    def write(self, value: V) -> V:
        """A result, as it lies in memory."""
        if self.repeated:
            limits = [1 if axis in self.repeated else size for axis, size in enumerate(self.shape)]
            value = value.slice([0] * len(limits), limits)
        return value if self.order is None else value.transpose(self.order)

    def ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor with its axes in the order of its memory."""
        tensor = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if self.order is not None:
            tensor = tensor.permute(self.order)
        for place, axis in enumerate(self.order if self.order is not None else range(len(self.shape))):
            if axis in self.repeated:
                tensor = tensor.narrow(place, 0, 1)
        return tensor if self.gap is None else self._whole(tensor, self.gap)

    def _whole(self, tensor: torch.Tensor, gap: Gap) -> torch.Tensor:
        """What a tensor in the order of memory is a part of: where it is, if there is memory for all of it, else a copy."""
        place, parts, mine = gap
        sizes, strides = self._with_gap(tensor.shape), tensor.stride()
        part = strides[place - 1] // parts
        begin = tensor.storage_offset() - mine * part
        room = tensor.untyped_storage().nbytes() // tensor.element_size()
        if 0 <= begin <= room - prod(sizes) and prod(tensor.shape[place:]) == part:
            return tensor.as_strided(sizes, (*strides[:place], part, *strides[place:]), begin)
        copy = tensor.new_empty(sizes)
        copy.select(place, mine).copy_(tensor)
        return copy

    def array(self, tensor: torch.Tensor) -> Array:
        """The memory of a tensor, for compiled code; strides decide there whether it has to be copied."""
        return array_of(self.ordered(tensor), self.dtype)

    def tensor(self, array: Array) -> torch.Tensor:
        """What compiled code has made, as torch expects it."""
        return self.restored(tensor_of(array, self.dtype))

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that lies in order, with its axes as the program has them."""
        if self.order is not None:
            tensor = tensor.permute([self.order.index(axis) for axis in range(len(self.order))])
        return tensor.expand(self.shape) if self.repeated else tensor


def array_of(tensor: torch.Tensor, dtype: torch.dtype) -> Array:
    """The elements of a CPU tensor, where they are."""
    carrier = CARRIERS.get(dtype)
    if carrier is None:
        return tensor.numpy()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.view(carrier).numpy().view(TO_PLANISH[dtype].numpy)


def tensor_of(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """An array as a tensor that keeps it alive."""
    carrier = CARRIERS.get(dtype)
    if carrier is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16 if carrier is torch.int16 else np.uint8)).view(dtype)


def form_of(
    dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Form:
    """The form of a tensor of these sizes and strides; one with gaps is taken as if it were in order, unless it is told where it begins."""
    sizes = tuple(map(known, shape))
    stride = tuple(map(known, stride))
    if 0 in sizes:
        return Form(dtype, sizes, None, ())
    repeated = tuple(axis for axis, size in enumerate(sizes) if size > 1 and stride[axis] == 0)
    wide = [axis for axis, size in enumerate(sizes) if size > 1 and axis not in repeated]
    ordered = sorted(wide, key=lambda axis: -stride[axis])
    expected, gap = 1, None
    for place in reversed(range(len(ordered))):
        axis = ordered[place]
        if stride[axis] != expected:
            parts, left = divmod(stride[axis], expected)
            is_run = expected * dtype.itemsize >= _RUN and len(wide) == len(sizes)
            if offset is None or gap is not None or left or not is_run or offset % expected:
                return Form(dtype, sizes, None, ())
            gap = Gap(place + 1, parts, offset // expected % parts)
        expected = stride[axis] * sizes[axis]
    if ordered == wide:
        return Form(dtype, sizes, None, repeated, gap)
    # axes of one element go where they stand in the shape
    rest = iter(ordered)
    order = tuple(next(rest) if axis in wide else axis for axis in range(len(sizes)))
    return Form(dtype, sizes, order, repeated, gap)


def known(size: int | torch.SymInt) -> int:
    """A size as a number: of one with a name, that of the example that was traced. Nothing is guarded by asking."""
    if isinstance(size, torch.SymInt):
        hint = size.node.hint
        if hint is None:
            raise ValueError(f"{size} is known at run time only")
        return int(hint)
    return size


def form_like(tensor: torch.Tensor) -> Form:
    """The form of a tensor, real or fake."""
    return form_of(tensor.dtype, tensor.shape, tensor.stride())


def given_form(tensor: torch.Tensor) -> Form:
    """The form of a tensor that a segment is given, real or fake."""
    offset = tensor.storage_offset() if tensor.device.type == "cuda" else None
    return form_of(tensor.dtype, tensor.shape, tensor.stride(), offset if isinstance(offset, int) else None)
