"""What handlers share: sizes, dtypes by ONNX's numbers, lists of integers, arrays of dtypes that no kernel knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, PlanishError
from planish.onnx.site import NodeSite
from planish.onnx.symbols import TooWide
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.normalize import converted
from planish.ptir.types import Dim, DimLike

Array = NDArray[Any]
Tensor = V | Array


def is_device(dtype: np.dtype[Any]) -> bool:
    """Whether PTIR has the dtype; arrays of others are computed on the host."""
    try:
        dtypes.from_numpy(dtype)
    except (DTypeError, PlanishError, TypeError):
        return False
    return True


def is_host(value: object) -> bool:
    """Whether this is an array of a dtype that PTIR has not."""
    return isinstance(value, np.ndarray) and not is_device(value.dtype)


def host_arrays(at: NodeSite, given: Sequence[Any]) -> list[int]:
    """For `known`: every input, if one of them is of a dtype that PTIR has not."""
    return list(range(len(given))) if any(is_host(value) for value in given) else []


def if_known(*positions: int) -> Callable[[NodeSite, Sequence[Any]], list[int]]:
    """For `known`: these inputs if their data is there anyway."""

    def chosen(at: NodeSite, given: Sequence[Any]) -> list[int]:
        return [n for n in positions if n < len(given) and isinstance(given[n], np.ndarray)]

    return chosen


def numpy_kind(at: NodeSite, number: int) -> np.dtype[Any]:
    """The NumPy dtype of ONNX's number of an element type."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        raise at.refuse(f"there is no element type {number}") from None


def kind(at: NodeSite, number: int) -> DType:
    """The dtype of ONNX's number of an element type."""
    dtype = numpy_kind(at, number)
    if not is_device(dtype):
        raise at.refuse(f"{dtype} is not a dtype that programs have")
    return dtypes.from_numpy(dtype)


def ints(array: Array | Sequence[int]) -> list[int]:
    """Plain integers."""
    return [int(v) for v in np.asarray(array).reshape(-1)]


def dims_of(array: Array) -> list[Any]:
    """Sizes: plain integers, or dims where a model is imported for all sizes."""
    return [size if isinstance(size, Dim) else int(size) for size in np.asarray(array).reshape(-1).tolist()]


def number(array: Array) -> Any:
    """The only element of an array, as a plain number."""
    return np.asarray(array).item(0)


def sizes(at: NodeSite, x: V, start: int = 0) -> list[int]:
    """The dims from an axis on, which must be numbers."""
    return [size_of(at, x, axis) for axis in range(start, x.rank)]


def size_of(at: NodeSite, x: V, axis: int) -> int:
    """One dim, which must be a number."""
    dim = x.dims[axis]
    if not isinstance(dim, int):
        raise at.refuse(f"needs the size of {dim} in {x.type}")
    return dim


def count_of(x: V, axis: int) -> V | int:
    """One dim, to compute with: a number, or where it has a name what the program finds it to be."""
    dim = x.dims[axis]
    return dim if isinstance(dim, int) else x.dimension_size(axis)


def plus(x: V, count: V | int) -> V:
    """A count added to every element."""
    return x.add(count if isinstance(count, int) else converted(count, x.dtype).broadcast_to(x.dims))


def less(x: V, count: V | int) -> V:
    """A count taken off every element."""
    return x.sub(count if isinstance(count, int) else converted(count, x.dtype).broadcast_to(x.dims))


def rows_up_to(table: V, count: DimLike) -> V:
    """The first rows of a table; they have to be there at all sizes."""
    limit = table.dims[0]
    if isinstance(count, Dim) and isinstance(limit, int) and count.hi > limit:
        raise TooWide(f"{count} rows of {limit} are asked for", count, limit)
    return table.slice([0] * table.rank, [count, *table.dims[1:]])


def axis_of(at: NodeSite, axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise at.refuse(f"axis {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def axes_of(at: NodeSite, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    return [axis_of(at, axis, rank) for axis in axes]


def scalar(x: V) -> V:
    """A value of one element, without axes."""
    return x if x.rank == 0 else x.reshape(())


def spread(x: V, like: V) -> V:
    """A value of one element, as often as `like` has elements."""
    return scalar(x).broadcast_to(like.dims)


def outputs(at: NodeSite) -> int:
    """How many outputs of the node anybody asks for (names at the end may be left out)."""
    wanted = [n for n, name in enumerate(at.node.output) if name]
    return wanted[-1] + 1 if wanted else 0
