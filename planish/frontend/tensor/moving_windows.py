"""Windows whose place is computed: parts of fixed sizes that begin wherever a tensor says.

`x[i : i + n]` needs numbers, since they decide the shape. Here the sizes are numbers and the place is data, so that a compiled function has
one program for every place.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.elementwise import where
from planish.frontend.tensor.manipulation import unstack
from planish.frontend.tensor.operands import Operand, Shape, as_shape, cast_to, tensor
from planish.ptir import ops

__all__ = ["dynamic_slice", "dynamic_update_slice"]

Starts = Tensor | Sequence["Tensor | int"]
"""Where a window begins, along each axis."""


def dynamic_slice(x: Tensor, /, starts: Starts, sizes: Sequence[int]) -> Tensor:
    """The part of a tensor that begins at `starts`, which may be computed, and has these sizes.

    Negative starts count from the end. A window that would stick out is moved inside.
    """
    name = "dynamic_slice"
    given = tensor(name, x)
    wanted = as_shape(name, sizes)
    if not _fits(wanted, given.shape):
        raise ShapeError.of(
            name,
            f"a window of sizes {wanted} does not fit shape {given.shape}",
            "a size per axis, none longer than it",
        )
    places = _places(name, given, starts)
    return Tensor.apply(ops.dynamic_slice, given, *places, attrs=ops.DynamicSliceAttrs(wanted))


def dynamic_update_slice(x: Tensor, update: Operand, /, starts: Starts) -> Tensor:
    """The tensor with the part that begins at `starts`, which may be computed, replaced by another tensor.

    Negative starts count from the end. A window that would stick out is moved inside.
    """
    name = "dynamic_update_slice"
    given = tensor(name, x)
    part = cast_to(tensor(name, update), given.dtype)
    if not _fits(part.shape, given.shape):
        raise ShapeError.of(
            name,
            f"a window of shape {part.shape} does not fit shape {given.shape}",
            "as many axes, none longer",
        )
    return Tensor.apply(ops.dynamic_update_slice, given, part, *_places(name, given, starts))


def _fits(window: Shape, shape: Shape) -> bool:
    """Whether a window has as many axes, none of which is known to be longer."""
    pairs = zip(window, shape, strict=False)
    known = [(size, whole) for size, whole in pairs if type(size) is int and type(whole) is int]
    return len(window) == len(shape) and all(size <= whole for size, whole in known)


def _places(name: str, x: Tensor, starts: Starts) -> list[Tensor]:
    """A start for each axis, counted from the front."""
    if isinstance(starts, Tensor) and starts.ndim == 1:
        starts = unstack(starts)
    tensors = [tensor(name, start) for start in starts] if isinstance(starts, Sequence) else []
    if len(tensors) != x.ndim:
        raise ShapeError.of(
            name, f"{len(tensors)} starts for the {x.ndim} axes of shape {x.shape}", "one for each axis"
        )
    places = []
    for start, size in zip(tensors, x.shape, strict=True):
        if start.ndim or not start.dtype.is_int:
            raise DTypeError.of(
                name, f"a start is {start.dtype.name}{list(start.shape)}", "starts are single integers"
            )
        place = cast_to(start, dtypes.int64)
        places.append(
            where(place < 0, place + size, place) if start._known is None or start._known < 0 else place
        )
    return places
