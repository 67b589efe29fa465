"""Inputs and outputs of a model: what they are, and whether something given fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TypeProto, ValueInfoProto

from planish.compiler.arguments import DeviceArray
from planish.errors import PlanishError, ShapeError
from planish.onnx.element_types import word_of
from planish.onnx.status import InvalidArgument, MissingInput, WrongShape

Array = NDArray[Any]
Bounds: TypeAlias = tuple[int, int]
DimSizes: TypeAlias = Mapping[str, "int | Bounds"]
Size: TypeAlias = "int | tuple[str, Bounds]"


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output: its dtype, and its dims (a number, a name, or None). `dims` is None if not even the rank is known."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor"
    """tensor, sequence, map or unknown."""
    is_optional: bool = False
    type_text: str = ""
    """The type of a map, in onnxruntime's words."""

    def __str__(self) -> str:
        dims = "…" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        text = f"{self.dtype}[{dims}]"
        text = text if self.kind == "tensor" else f"{self.kind}({text})"
        return f"{self.name}: {f'optional({text})' if self.is_optional else text}"

    def sizes(self, known: DimSizes, given: Sequence[int] | None = None) -> list[Size]:
        """Its dims, with sizes from `known` or as `given`."""
        if given is not None:
            if self.dims is not None and len(given) != len(self.dims):
                raise ShapeError(f"input {self} is given the shape {list(given)}")
            return [int(size) for size in given]
        sizes: list[Size] = []
        if self.dims is None:
            raise ShapeError(f"the shape of {self} is not known", remedy="give it")
        for dim in self.dims:
            size = known.get(dim) if isinstance(dim, str) else dim
            if size is None:
                remedy = f"--dim {dim}=… or dims={{{dim!r}: …}}" if dim else "give the shape of the input"
                raise ShapeError(f"the size of {dim or 'a dim'} in {self} is not known", remedy=remedy)
            sizes.append(size if isinstance(size, int) else (str(dim), size))
        return sizes


def describe(value: ValueInfoProto) -> PortInfo:
    """What a model says of an input or output."""
    if not isinstance(value.name, str):
        raise PlanishError(f"the name of an input or output is no text: {value.name!r}")
    return _describe(value.name, value.type, False)


def _describe(name: str, type: TypeProto, optional: bool) -> PortInfo:
    which = type.WhichOneof("value")
    if which == "optional_type":
        return _describe(name, type.optional_type.elem_type, True)
    if which == "sequence_type":
        inner = _describe(name, type.sequence_type.elem_type, False)
        return PortInfo(name, inner.dtype, inner.dims, "sequence", optional, inner.type_text)
    if which == "map_type":
        inner = _describe(name, type.map_type.value_type, False)
        key = word_of(_element(name, type.map_type.key_type))
        text = f"map({key},{inner.type_text or f'tensor({word_of(inner.dtype)})'})"
        return PortInfo(name, inner.dtype, None, "map", optional, text)
    if which not in ("tensor_type", "sparse_tensor_type"):
        return PortInfo(name, "unknown", None, (which or "unknown").removesuffix("_type"), optional)
    tensor = getattr(type, which)
    dtype = _element(name, tensor.elem_type)
    if not tensor.HasField("shape"):
        return PortInfo(name, dtype, None, "tensor", optional)
    dims = tuple(_dim(d) for d in tensor.shape.dim)
    return PortInfo(name, dtype, dims, "tensor", optional)


def _element(name: str, number: int) -> str:
    if number == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number)) if number else "unknown"
    except KeyError:
        raise PlanishError(f"{name!r} has the element type {number}, which is none") from None


def checked(info: PortInfo, value: Any, sizes: DimSizes) -> Any:
    """What is given for an input, as arrays; an error if it does not fit."""
    if info.kind == "unknown" and not isinstance(value, np.ndarray | np.generic):
        return value
    if value is None:
        if not info.is_optional:
            raise MissingInput(f"input {info} is missing")
        return None
    if isinstance(value, list) and info.kind == "sequence":
        return [np.asarray(item) if item is not None else None for item in value]
    array: Any = value if isinstance(value, np.ndarray | DeviceArray) else _as_array(info, value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if isinstance(array, np.ndarray) and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if (
        info.kind == "tensor"
        and info.dtype != "unknown"
        and (array.dtype == object) is not (info.dtype == "string")
    ):
        what = "text" if array.dtype == object else array.dtype
        raise InvalidArgument(f"input {info} is given {what}{list(array.shape)}")
    if info.dtype not in ("string", "unknown") and array.dtype != object and array.dtype.name != info.dtype:
        raise InvalidArgument(
            f"input {info} is given {array.dtype}{list(array.shape)}",
            remedy=f"convert it with .astype({info.dtype!r})",
        )
    if info.dims is not None and info.kind == "tensor":
        if len(info.dims) != array.ndim:
            raise WrongShape(f"input {info} is given {array.dtype}{list(array.shape)}")
        for dim, size in zip(info.dims, array.shape, strict=True):
            want = sizes.get(dim, size) if isinstance(dim, str) else size if dim is None else dim
            low, high = (want, want) if isinstance(want, int) else want
            if not low <= size <= high:
                told = (
                    ""
                    if isinstance(dim, int)
                    else f" ({dim} is {low if low == high else f'{low} to {high}'})"
                )
                raise WrongShape(f"input {info} is given {array.dtype}{list(array.shape)}{told}")
    return array


def _as_array(info: PortInfo, value: Any) -> Array:
    """An array of what is none: lists and numbers get the dtype of the input."""
    plain = isinstance(value, list | tuple | int | float) and info.dtype not in ("string", "unknown")
    try:
        return np.asarray(value, np.dtype(info.dtype) if plain else None)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"input {info} is given a {type(value).__name__}: {error}") from None


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """A size, a name, or nothing; some exporters write -1 for what is not known."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    if not isinstance(dim.dim_param, str):  # protobuf hands out bytes where they are no text
        raise PlanishError(f"the name of a dim is no text: {dim.dim_param!r}")
    return dim.dim_param or None
