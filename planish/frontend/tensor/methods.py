"""Methods of tensors that NumPy's arrays have, each a function of the API; and how NumPy's own functions reach them.

`np.sin(x)` and `np.mean(x)` of a tensor are planish's `sin` and `mean` where it has one of that name that takes the same
arguments; any other function of NumPy gets the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from planish import elsewhere
from planish.errors import DTypeError, UnknownName
from planish.frontend.tensor.face import ROOMS, public
from planish.frontend.tensor.spelling import Call, UnknownOption, binds, respelled, signature

if TYPE_CHECKING:
    from planish.dtypes import DType
    from planish.frontend.tensor.array import Axis, Scalar, Tensor
    from planish.frontend.tensor.operands import DTypeLike

_UPDATES: Final = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
"""NumPy's functions whose `.at` is an update of `x.at[i]`."""
_REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_ACCUMULATIONS: Final = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cumulative_max", "minimum": "cumulative_min",
    "logaddexp": "cumulative_logsumexp",
}  # fmt: skip
_SPELLED: Final = (
    "all", "any", "argmax", "argmin", "argpartition", "choose", "clip", "copy", "cumprod", "cumsum", "diagonal", "dot", "max",
    "mean", "min", "nonzero", "prod", "ptp", "repeat", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "take",
    "trace", "var",
)  # fmt: skip
_ROOMS: Final = {"numpy": public, "numpy.linalg": ROOMS["linalg"], "numpy.fft": ROOMS["fft"]}
"""Where the functions of NumPy's modules are found."""


class ArrayMethods:
    """What a tensor has because arrays of NumPy have it."""

    __slots__ = ()

    if not TYPE_CHECKING:
        # hidden from the type checker, which would otherwise accept any misspelt attribute

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            raise UnknownName("a Tensor", name, _instead_of)

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name: str | None = ufunc.__name__
        if method == "reduce":
            name = _REDUCTIONS.get(ufunc.__name__)
            options.setdefault("axis", 0)
        elif method == "accumulate":
            name = _ACCUMULATIONS.get(ufunc.__name__)
            options.setdefault("axis", 0)
        elif method == "outer" and len(inputs) == 2:
            first, second = (_call("asarray", x) for x in inputs)
            inputs = (first[(..., *[None] * second.ndim)], second)
        elif method == "at" and isinstance(inputs[0], ArrayMethods):
            return _update_at(ufunc.__name__, *inputs)
        elif method != "__call__":
            name = None
        if any(target is not None for target in options.get("out", ())):
            return _written_to(ufunc, method, inputs, options)
        given = {key: value for key, value in options.items() if key != "out"}
        ours: Any = getattr(public(), name, None) if name else None
        if _taken(ours, None, (inputs, given)) is not None:
            return ours(*inputs, **given)
        plainly = ufunc if method == "outer" else getattr(ufunc, method)
        return _on_elements(plainly, f"{ufunc.__name__}.{method}", inputs, given)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        room = _ROOMS.get(function.__module__)
        if room is not None:
            ours: Any = getattr(room(), function.__name__, None)
            spelled = _taken(ours, function, (args, kwargs))
            if spelled is not None:
                return ours(*spelled[0], **spelled[1])
        return _on_elements(function, function.__name__, args, kwargs)

    # --- methods ---

    def argpartition(self, kth: int, axis: int = -1) -> Tensor:
        """Positions that put the smallest `kth` first along an axis."""
        return _call("argpartition", self, kth, axis)

    def byteswap(self) -> Tensor:
        """The bytes of every element the other way round."""
        return _call("asarray", cast("Tensor", self).numpy().byteswap())

    def choose(self, choices: Sequence[Tensor | Scalar], mode: str = "raise") -> Tensor:
        """The element of the choice that each index names."""
        return _call("choose", self, choices, mode=mode)

    def compress(self, condition: Tensor | Sequence[bool], axis: int | None = None) -> Tensor:
        """The slices along an axis where a condition holds."""
        return _call("compress", condition, self, axis)

    def partition(self, kth: int, axis: int = -1) -> None:
        """Put the smallest `kth` first along an axis: the name stands for them from now on."""
        cast("Tensor", self)[...] = _call("partition", self, kth, axis)

    def argsort(self, axis: int | None = -1, kind: str | None = None) -> Tensor:
        """Positions that sort along an axis."""
        return _call("argsort", self, axis)

    def conj(self) -> Tensor:
        """Complex conjugates."""
        return _call("conj", self)

    conjugate = conj

    def copy(self) -> Tensor:
        """The same elements under a name of their own."""
        return _call("copy", self)

    def cumsum(self, axis: int | None = None, dtype: DType | None = None) -> Tensor:
        """Running sums."""
        return _call("cumsum", self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DType | None = None) -> Tensor:
        """Running products."""
        return _call("cumprod", self, axis, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements of a diagonal."""
        return _call("diagonal", self, offset, axis1, axis2)

    def dot(self, other: Tensor, /) -> Tensor:
        """The product with another."""
        return _call("dot", self, other)

    def fill(self, value: Scalar, /) -> None:
        """Assign one number to all elements."""
        cast("Tensor", self)[...] = value

    @property
    def flat(self) -> Tensor:
        """The elements in row-major order; what is assigned to them is assigned to the tensor."""
        from planish.frontend.tensor.flat_view import FlatView  # a tensor, which stands on this

        return FlatView.of(cast("Tensor", self))

    @flat.setter
    def flat(self, value: Tensor | Scalar) -> None:
        self.flat[...] = value

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return cast("Tensor", self).dtype.itemsize

    def nonzero(self) -> tuple[Tensor, ...]:
        """Positions of the elements that are not zero."""
        return cast("tuple[Tensor, ...]", _call("nonzero", self))

    def ptp(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The distance from the smallest to the greatest."""
        return _call("ptp", self, axis, keepdims=keepdims)

    def put(self, indices: Tensor | Sequence[int], values: Tensor | Scalar, mode: str = "raise") -> None:
        """Assign to elements by their places in row-major order."""
        _call("put", self, indices, values, mode=mode)

    def ravel(self, order: str = "C") -> Tensor:
        """One axis."""
        return _call("ravel", self, order)

    def repeat(self, repeats: int | Tensor, axis: int | None = None) -> Tensor:
        """Elements repeated."""
        return _call("repeat", self, repeats, axis)

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to decimals."""
        return _call("round", self, decimals)

    def view(self, *given: int | tuple[int, ...] | DTypeLike) -> Tensor:
        """The same bits as another dtype, or the same elements in another shape."""
        if len(given) == 1 and not isinstance(given[0], int | tuple | list):
            return _call("bitcast", self, given[0])
        return cast("Tensor", self).reshape(*cast("tuple[int, ...]", given))

    def searchsorted(self, values: Tensor | Scalar, side: str = "left") -> Tensor:
        """Where values belong in this ascending vector."""
        return _call("searchsorted", self, values, side=side)

    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        """Sort along an axis: the name stands for the sorted elements from now on."""
        cast("Tensor", self)[...] = _call("sort", self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes exchanged."""
        return _call("swapaxes", self, axis1, axis2)

    def take(self, indices: Tensor | Sequence[int], axis: int | None = None) -> Tensor:
        """Elements along an axis by position."""
        return _call("take", self, indices, axis)

    def tobytes(self) -> bytes:
        """The elements as bytes, in row-major order."""
        return cast("Tensor", self).numpy().tobytes()

    def tofile(self, file: Any) -> None:
        """Write the elements as bytes."""
        cast("Tensor", self).numpy().tofile(file)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The sum of a diagonal."""
        return _call("trace", self, offset, axis1, axis2)

    # --- what people know from torch ---

    def permute(self, *axes: int) -> Tensor:
        """Axes in another order."""
        return _call("permute_dims", self, axes)

    def unsqueeze(self, axis: int) -> Tensor:
        """With an axis of size 1."""
        return _call("expand_dims", self, axis)

    def expand(self, *shape: int) -> Tensor:
        """Axes of size 1 repeated; -1 keeps a size."""
        sizes = cast("Tensor", self).shape
        lead = len(shape) - len(sizes)
        wanted = [sizes[at - lead] if size == -1 else size for at, size in enumerate(shape)]
        return _call("broadcast_to", self, tuple(wanted))

    def abs(self) -> Tensor:
        """Absolute values."""
        return _call("abs", self)

    def exp(self) -> Tensor:
        """Exponentials."""
        return _call("exp", self)

    def log(self) -> Tensor:
        """Natural logarithms."""
        return _call("log", self)

    def sqrt(self) -> Tensor:
        """Square roots."""
        return _call("sqrt", self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangents."""
        return _call("tanh", self)

    def matmul(self, other: Tensor, /) -> Tensor:
        """The matrix product."""
        return _call("matmul", self, other)


def _instead_of(name: str) -> str:
    """What to write in place of a method that tensors do not have."""
    for room in (public, ROOMS["nn"], ROOMS["linalg"]):
        module = room()
        if name not in elsewhere.TENSOR and name in module.__all__ and callable(getattr(module, name)):
            return f"; there is a function: {module.__name__}.{name}(x)"
    methods = [each for each in dir(ArrayMethods.__subclasses__()[0]) if each[0] != "_"]
    return elsewhere.hint_of_object(elsewhere.TENSOR, name, methods)


def spell_methods(kind: type[Tensor]) -> None:
    """Let methods that are functions of the API, too, be called in NumPy's spelling: `x.sum(0, None, None, True)`."""
    for name in _SPELLED:
        setattr(kind, name, _spelled(name, getattr(kind, name)))


def _spelled(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Tensor, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except TypeError:
            own = signature(method)
            if own is None or binds(own, ((self, *args), options)):
                raise
        return _call(name, self, *args, **options)

    return call


def _call(name: str, *args: Any, **kwargs: Any) -> Tensor:
    return cast("Tensor", getattr(public(), name)(*args, **kwargs))


def _taken(ours: Any, like: Callable[..., Any] | None, call: Call) -> Call | None:
    """The arguments as planish's function of that name takes them; None where it does not."""
    if not callable(ours) or isinstance(ours, type):
        return None
    own = signature(ours)
    if own is None or binds(own, call):
        return None if own is None else call
    try:
        return None if like is None else respelled(ours, like, call)
    except UnknownOption:
        return None


def _written_to(ufunc: np.ufunc, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """`array += x`, `np.sin(x, out=array)`: the results of tensors in arrays, or in tensors, whose names stand for them from now on."""
    targets, where = options.pop("out"), options.pop("where", True)
    returned = getattr(ufunc, method)(*inputs, **options)
    results = returned if isinstance(returned, tuple) else (returned,)
    for target, result in zip(targets, results, strict=True):
        if isinstance(target, ArrayMethods):
            cast("Any", target)[...] = result if where is True else _call("where", where, result, target)
        elif target is not None:
            np.copyto(target, np.asarray(result), where=np.asarray(where))
    outputs = tuple(
        [result if target is None else target for target, result in zip(targets, results, strict=True)]
    )
    return outputs if isinstance(returned, tuple) else outputs[0]


def _update_at(name: str, x: Any, at: Any, *values: Any) -> None:
    """`np.add.at(x, i, v)`: the name stands for the updated tensor from now on. (NumPy would write even where it may not.)"""
    update = _UPDATES.get(name)
    if update is None or len(values) != 1:
        raise DTypeError.at_caller(
            f"numpy.{name}.at writes into a tensor, which has no such update",
            f"numpy.{', '.join(_UPDATES)} have; x.numpy().copy() is an array to write into",
            op=name,
        )
    x[...] = getattr(x.at[at], update)(*values)


def _on_elements(function: Callable[..., Any], name: str, args: Any, options: Any) -> Any:
    """A function of NumPy on the elements of tensors. One that writes into its argument would write where nobody looks."""
    try:
        return function(*_elements(args), **_elements(options))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise DTypeError.at_caller(
            f"numpy.{name} writes into a tensor, which NumPy cannot",
            "x[i] = v and x.at[i].add(v) do; x.numpy().copy() is an array to write into",
            op=name,
        ) from error


def _elements(given: Any) -> Any:
    """Tensors in arguments as arrays that cannot be written to."""
    if isinstance(given, ArrayMethods):
        array = np.asarray(given).view()
        array.flags.writeable = False
        return array
    if isinstance(given, list | tuple):
        return type(given)([_elements(one) for one in given])
    if isinstance(given, dict):
        return {key: _elements(value) for key, value in given.items()}
    return given
