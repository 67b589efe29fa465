"""Functions of functions: a Python function along an axis, over a grid, or on every element."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import DTypeLike, Sizes, as_shape, axis_of, common_shape, tensor
from planish.frontend.transforms import vmap

_SIGNATURE = re.compile(r"\s*\([\w, ]*\)(\s*,\s*\([\w, ]*\))*\s*->\s*\([\w, ]*\)(\s*,\s*\([\w, ]*\))*\s*")


def apply_along_axis(
    function: Callable[..., Any], axis: int, x: Tensor, /, *args: Any, **kwargs: Any
) -> Tensor:
    """A function of vectors on every line along an axis; what it gives takes the place of the line."""
    given = tensor("apply_along_axis", x)
    along = axis_of("apply_along_axis", axis, given.ndim, given.shape)
    lines = api.moveaxis(given, along, -1)
    mapped: Callable[..., Any] = lambda line: tensor("apply_along_axis", function(line, *args, **kwargs))  # noqa: E731
    for _ in range(given.ndim - 1):
        mapped = vmap(mapped)
    values = mapped(lines)
    fresh = values.ndim - (given.ndim - 1)
    order = [*range(along), *range(given.ndim - 1, given.ndim - 1 + fresh), *range(along, given.ndim - 1)]
    return api.permute_dims(values, order)


def apply_over_axes(function: Callable[..., Tensor], x: Tensor, axes: int | Sequence[int], /) -> Tensor:
    """A function `f(x, axis)` for one axis after the other; each stays, of size 1."""
    given = tensor("apply_over_axes", x)
    for axis in (axes,) if isinstance(axes, int) else axes:
        reduced = function(given, axis)
        given = reduced if reduced.ndim == given.ndim else api.expand_dims(reduced, axis=axis)
    return given


def fromfunction(
    function: Callable[..., Any], shape: Sizes, /, *, dtype: DTypeLike = dtypes.float32, **kwargs: Any
) -> Any:
    """A function of the coordinates of a grid, called once with all of them."""
    sizes = as_shape("fromfunction", shape)
    lines = [api.arange(size, dtype=dtype) for size in sizes]
    return function(*(api.meshgrid(*lines, indexing="ij") if lines else ()), **kwargs)


def vectorize(
    function: Callable[..., Any] | None = None,
    /,
    *,
    excluded: Sequence[int] = (),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function of single elements (or of the axes that `signature` names: `(n),(n)->()`) on broadcast arrays, through `vmap`."""
    if function is None:
        return functools.partial(vectorize, excluded=excluded, signature=signature)
    if signature is not None and not _SIGNATURE.fullmatch(signature):
        raise ShapeError.of("vectorize", f"{signature!r} is no signature", "such as (m,n),(n)->(m)")
    core = (
        None
        if signature is None
        else [
            part.count(",") + 1 if part.strip() else 0
            for part in re.findall(r"\(([^)]*)\)", signature.split("->")[0])
        ]
    )

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        mapped = [number for number in range(len(args)) if number not in excluded]
        own = dict(zip(mapped, core or [0] * len(mapped), strict=True))
        given = {number: tensor("vectorize", args[number]) for number in mapped}
        lead = {number: x.shape[: x.ndim - own[number]] for number, x in given.items()}
        shape = common_shape("vectorize", list(lead.values()))
        ready = [
            api.broadcast_to(x, (*shape, *x.shape[x.ndim - own[number] :])) for number, x in given.items()
        ]

        def inner(*elements: Tensor) -> Any:
            every = list(args)
            for number, element in zip(mapped, elements, strict=True):
                every[number] = element
            return function(*every)

        nested: Callable[..., Any] = inner
        for _ in shape:
            nested = vmap(nested)
        return nested(*ready)

    return wrapper


def frompyfunc(function: Callable[..., Any], nin: int, nout: int, /) -> Callable[..., Any]:
    """A function of `nin` single elements on broadcast arrays."""
    vectorized = vectorize(function)

    def wrapper(*args: Any) -> Any:
        if len(args) != nin:
            raise ShapeError.of("frompyfunc", f"{len(args)} arguments for a function of {nin}")
        return vectorized(*args)

    return functools.wraps(function)(wrapper)


__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "frompyfunc", "vectorize"]
