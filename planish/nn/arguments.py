"""What functions and layers are given, checked: tensors of floats, one number per spatial axis, padding as pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor.array import Tensor

Sizes: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = int | str | Sequence[int] | Sequence[tuple[int, int]]
"""As sizes; as pairs (before, after); "valid" for none, "same" for as much as keeps the size."""
Pairs: TypeAlias = tuple[tuple[int, int], ...]


def floating(op: str, x: Tensor) -> Tensor:
    """A tensor of real floats."""
    if not isinstance(x, Tensor):
        raise DTypeError.of(op, f"{type(x).__name__} is not a Tensor", "convert it with planish.asarray")
    if not x.dtype.is_float:
        raise DTypeError.of(op, f"{x.dtype.name} is not a real float dtype", "convert it with astype")
    return x


def same_dtype(op: str, x: Tensor, *others: Tensor | None) -> None:
    """All tensors of one dtype."""
    for other in others:
        if other is not None and other.dtype is not x.dtype:
            raise DTypeError.of(
                op,
                f"the input is {x.dtype.name}, a parameter {other.dtype.name}",
                "convert one of them with astype",
            )


def per_axis(op: str, what: str, given: Sizes, count: int, least: int = 1) -> tuple[int, ...]:
    """One number for each of `count` spatial axes."""
    numbers = (given,) * count if isinstance(given, int) else tuple(given)
    if len(numbers) != count:
        raise ShapeError.of(op, f"{what} {numbers} has {len(numbers)} numbers for {count} spatial axes")
    if any(number < least for number in numbers):
        raise ShapeError.of(op, f"{what} {numbers} has a number below {least}")
    return numbers


def pairs(
    op: str, given: Padding, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Pairs:
    """Padding before and after each spatial axis."""
    count = len(window)
    if isinstance(given, str):
        if given == "valid":
            return ((0, 0),) * count
        if given != "same":
            raise ShapeError.of(op, f"there is no padding {given!r}", 'numbers, "same" or "valid"')
        if any(stride != 1 for stride in strides):
            raise ShapeError.of(op, f'padding "same" with strides {tuple(strides)}', "use strides of 1")
        spans = [gap * (size - 1) for size, gap in zip(window, dilation, strict=True)]
        return tuple((span // 2, span - span // 2) for span in spans)
    if isinstance(given, int):
        return ((given, given),) * count
    entries = [one if isinstance(one, tuple) else (one, one) for one in given]
    if len(entries) != count or any(len(entry) != 2 for entry in entries):
        raise ShapeError.of(op, f"padding {given!r} does not fit {count} spatial axes")
    return tuple((int(low), int(high)) for low, high in entries)


def batched(op: str, x: Tensor, space: int, integers: bool = False) -> tuple[Tensor, bool]:
    """(N, C, …) with `space` spatial axes; one sample (C, …) becomes a batch of one, and True says so."""
    given: object = x
    if not (integers and isinstance(given, Tensor) and given.dtype.is_int):
        floating(op, x)
    if x.ndim == space + 1:
        return x.reshape((1, *x.shape)), True
    if x.ndim != space + 2:
        raise ShapeError.of(
            op,
            f"shape {x.shape} has {x.ndim} axes",
            f"(batch, channels, {space} spatial axes) or one sample without the batch are expected",
        )
    return x, False


def unbatched(x: Tensor, alone: bool) -> Tensor:
    """The one sample of a batch of one."""
    return x.reshape(x.shape[1:]) if alone else x
