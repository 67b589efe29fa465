"""Callbacks: Python functions called by a program while it runs, with the elements that it has computed.

`pure_callback` is for functions of their arguments alone: they are called when their results are needed, perhaps never, perhaps more than
once. `io_callback` is for effects: it is called as often as the program comes by, in order. In compiled code both are steps on the host,
between kernels; the arrays they are given are copies. Where values are known (outside of traces, under `grad` without `jit`) the function
is called at once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, Location, PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.arguments import TensorSpec
from planish.frontend.custom import stop_gradient
from planish.frontend.effects import EFFECT, TOKEN, all_known, incoming
from planish.frontend.flat import is_data, name_of
from planish.frontend.session import current_scope, tensor_type
from planish.frontend.storage import Array
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tensor.operands import as_dtype, from_data
from planish.frontend.tensor.operands import tensor as as_tensor
from planish.frontend.tree import Structure
from planish.ptir import ops
from planish.ptir.ops.control import CustomCallAttrs, register_custom_call
from planish.ptir.types import TensorType

Tree = Any
_numbers: Final = itertools.count()
_names: Final[dict[Hashable, str]] = {}
"""Names of callbacks that are registered, by what they do."""
_lock: Final = threading.Lock()


class _Arguments:
    """Arguments of a callback without their tensors and numbers: everything else is as it was when the function was traced."""

    def __init__(self, leaves: Sequence[Any], structure: Structure) -> None:
        self.structure = structure
        self.places = tuple([number for number, leaf in enumerate(leaves) if is_data(leaf)])
        self.static = tuple([None if is_data(leaf) else leaf for leaf in leaves])

    def rebuilt(self, arrays: Sequence[Any]) -> tuple[Sequence[Tree], dict[str, Tree]]:
        """The arguments, with arrays in the places of tensors. They belong to whoever is called."""
        leaves = list(self.static)
        for place, array in zip(self.places, arrays, strict=True):
            leaves[place] = np.array(array)
        args, kwargs = tree.unflatten(self.structure, leaves)
        return args, kwargs


class _Results:
    """What a callback was said to give."""

    def __init__(self, op: str, name: str, specs: Tree) -> None:
        self.op, self.name = op, name
        leaves, self.structure = tree.flatten(specs)
        self.types = [_type(op, leaf) for leaf in leaves]
        self.location = Location.caller()

    def checked(self, returned: Tree) -> list[Array]:
        """The arrays of what it gave, which has to be that."""
        leaves: Sequence[Any] | None = tree.aligned(returned, self.structure)
        if leaves is None:
            raise self._wrong(PlanishError, f"gave a tree {tree.flatten(returned)[1]}, not {self.structure}")
        arrays = []
        for leaf, type in zip(leaves, self.types, strict=True):
            array = np.asarray(leaf)
            kept = np.can_cast(array.dtype, type.dtype.numpy, "same_kind") or not array.ndim
            if array.ndim != type.rank or not kept or not _fits(array.shape, type):
                raise self._wrong(ShapeError, f"gave {array.dtype}{list(array.shape)}, {type} is expected")
            arrays.append(np.array(array, type.dtype.numpy, order="C"))
        return arrays

    def _wrong(self, kind: type[PlanishError], what: str) -> PlanishError:
        return kind(
            f"{self.op}: {self.name} {what}", op=self.op, location=self.location,
            remedy="return arrays of the shapes and dtypes that it was declared with",
        )  # fmt: skip

    def rebuilt(self, tensors: Sequence[Tensor]) -> Tree:
        return tree.unflatten(self.structure, tensors)


def _fits(shape: Sequence[int], type: TensorType) -> bool:
    return all(not isinstance(dim, int) or have == dim for have, dim in zip(shape, type.dims, strict=True))


def _type(op: str, spec: Any) -> TensorType:
    if isinstance(spec, Tensor | TensorSpec):
        return spec._type if isinstance(spec, Tensor) else spec.type
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return tensor_type(as_dtype(spec.dtype), tuple(spec.shape))
    if isinstance(spec, bool | int | float | complex):
        return tensor_type(dtypes.result_type(spec), ())
    raise DTypeError.of(op, f"a result is described by {spec!r}, which has no shape and dtype",
        "give a planish.TensorSpec((2, 3), planish.float32), or a tensor like the result",
    )  # fmt: skip


def registered(key: Hashable, name: str, function: Callable[[Sequence[Array]], tuple[Array, ...]]) -> str:
    """The name under which programs call a function. What does the same has the same name."""
    with _lock:
        target = _names.get(key)
        if target is None:
            target = _names[key] = f"callback {next(_numbers)}: {name}"
            register_custom_call(target, lambda arrays, _: function(arrays))
    return target


def pure_callback(
    function: Callable[..., Tree], result: Tree, *args: Tree, vmap_method: str | None = None, **kwargs: Tree
) -> Tree:
    """What a Python function gives for the elements of tensors, while the program runs.

    `result` says what that is: a tree of `TensorSpec`s, or of tensors like it. The function is given NumPy arrays and must depend on
    nothing else. It has no derivative unless it is given one (`custom_jvp`, `custom_vjp`). `vmap` calls it once per example.
    """
    if vmap_method not in (None, "sequential"):
        raise PlanishError.of("pure_callback", f"vmap_method {vmap_method!r} is not known",
            "'sequential' calls the function once per example",
        )  # fmt: skip
    return _called("pure_callback", function, result, args, kwargs, effect=False)


def io_callback(
    function: Callable[..., Tree], result: Tree, *args: Tree, ordered: bool = True, **kwargs: Tree
) -> Tree:
    """Like `pure_callback`, for a function that does something: called each time the program comes by, in order."""
    return _called("io_callback", function, result, args, kwargs, effect=True)


def effect(op: str, function: Callable[..., object], args: Sequence[Tree], kwargs: dict[str, Tree]) -> None:
    """Call a function with the elements of tensors, when the program comes by."""
    _called(op, function, None, args, kwargs, effect=True)


def _called(
    op: str,
    function: Callable[..., Tree],
    result: Tree,
    args: Sequence[Tree],
    kwargs: dict[str, Tree],
    effect: bool,
) -> Tree:
    leaves, structure = tree.flatten((tuple(args), kwargs))
    given, wanted = _Arguments(leaves, structure), _Results(op, name_of(function), result)
    tensors = [as_tensor(op, leaves[place]) for place in given.places]
    has_results = bool(wanted.types)

    def call(arrays: Sequence[Any]) -> list[Array]:
        positional, named = given.rebuilt(arrays)
        returned = function(*positional, **named)
        return wanted.checked(returned) if has_results else []

    # under a derivative a pure function stays in the program, which says where it has none; its elements by themselves would have zero
    if all_known() and (effect or current_scope() is None):
        return wanted.rebuilt([from_data(array) for array in call([x._elements(op) for x in tensors])])
    token = np.zeros((), np.uint8)

    def run(arrays: Sequence[Array]) -> tuple[Array, ...]:
        return (*call(arrays[:-1]), token) if effect else tuple(call(arrays))

    key = (
        op,
        function,
        effect,
        tuple(wanted.types),
        wanted.structure,
        given.structure,
        given.places,
        given.static,
    )
    types = tuple(wanted.types)
    target = registered(_hashable(key), wanted.name, run)
    if not effect:
        results = apply(ops.custom_call, *tensors, attrs=CustomCallAttrs(target, types))
        return wanted.rebuilt(results)
    attrs = CustomCallAttrs(target, (*types, TOKEN), config=EFFECT)
    # what an effect sees has no derivative through it
    operands = [stop_gradient(x) for x in tensors]
    *made_with, _ = apply(ops.custom_call, *operands, Tensor(incoming(current_scope())), attrs=attrs)
    return wanted.rebuilt(made_with)


def _hashable(key: tuple[Any, ...]) -> Hashable:
    try:
        hash(key)
    except TypeError:
        return object()  # a name of its own
    return key


report_all(globals(), ("io_callback", "pure_callback"))
