"""What the inference functions share: dtype classes, axis and size checks, and their error messages.

Every check names the op, what it was given, and what to do instead. Sizes are compared as expressions:
two dynamic sizes are equal when their normal forms are, and "at most" needs a proof from the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.ptir.types import DimLike, TensorType, bounds

DTypeSet = frozenset[DType]

BOOL: DTypeSet = frozenset({dtypes.bool_})
INTS: DTypeSet = frozenset(d for d in dtypes.ALL if d.is_int)
FLOATS: DTypeSet = frozenset(d for d in dtypes.ALL if d.is_float)
COMPLEX: DTypeSet = frozenset(d for d in dtypes.ALL if d.is_complex)
REAL: DTypeSet = INTS | FLOATS
ORDERED: DTypeSet = REAL | BOOL
BITS: DTypeSet = INTS | BOOL
INEXACT: DTypeSet = FLOATS | COMPLEX
NUMBERS: DTypeSet = REAL | COMPLEX
ALL: DTypeSet = NUMBERS | BOOL
ROUNDED: DTypeSet = ALL | {dtypes.tfloat32}
"""What may be cast and contracted."""
WIDE: DTypeSet = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})

CLASSES: dict[str, DTypeSet] = {"FLOATS": FLOATS, "INEXACT": INEXACT}
"""By the names that records of scalar functions use."""
_CLASS_NAMES: dict[DTypeSet, str] = {
    BOOL: "bool",
    INTS: "an integer dtype",
    FLOATS: "a float dtype",
    COMPLEX: "a complex dtype",
    REAL: "an integer or float dtype",
    ORDERED: "bool, an integer or a float dtype",
    BITS: "bool or an integer dtype",
    INEXACT: "a float or complex dtype",
    NUMBERS: "a numeric dtype",
    ALL: "a bool or numeric dtype",
    ROUNDED: "a bool or numeric dtype",
    WIDE: "float32, float64, complex64 or complex128",
}


def show(types: Sequence[TensorType]) -> str:
    return ", ".join(str(t) for t in types) or "nothing"


def shape_text(dims: Sequence[DimLike]) -> str:
    return "(" + ", ".join(str(d) for d in dims) + ")"


def shape_error(op: str, message: str, remedy: str | None = None) -> NoReturn:
    raise ShapeError(message, op=op, remedy=remedy)


def dtype_error(op: str, message: str, remedy: str | None = None) -> NoReturn:
    raise DTypeError(message, op=op, remedy=remedy)


def describe(allowed: DTypeSet) -> str:
    return _CLASS_NAMES.get(allowed) or ", ".join(sorted(d.short for d in allowed))


def need_dtype(op: str, operand: TensorType, allowed: DTypeSet, what: str = "operand") -> None:
    """The operand holds plain numbers of an allowed dtype."""
    if operand.quant is not None:
        dtype_error(
            op,
            f"{what} is quantised: {operand}",
            "dequantize it, or bitcast it to its storage dtype to work on the integers",
        )
    if operand.dtype not in allowed:
        dtype_error(op, f"{what} has dtype {operand.dtype.short}, not {describe(allowed)}", "cast it first")


def need_same_dtype(op: str, types: Sequence[TensorType]) -> None:
    first = types[0]
    for other in types[1:]:
        if other.dtype is not first.dtype or other.quant != first.quant:
            dtype_error(
                op,
                f"operands have different dtypes: {show(types)}",
                "nothing is promoted inside PTIR; cast one of them",
            )


def need_same_dims(op: str, types: Sequence[TensorType]) -> None:
    first = types[0]
    for other in types[1:]:
        if other.dims != first.dims:
            shape_error(
                op,
                f"operands have different shapes: {show(types)}",
                "nothing is broadcast inside PTIR; use broadcast_to or broadcast_like",
            )


def need_rank(op: str, operand: TensorType, rank: int, what: str = "operand") -> None:
    if operand.rank != rank:
        shape_error(op, f"{what} has rank {operand.rank} ({operand}), not {rank}")


def need_scalar(op: str, operand: TensorType, allowed: DTypeSet, what: str) -> None:
    need_dtype(op, operand, allowed, what)
    if operand.dims:
        shape_error(op, f"{what} is {operand}, not a scalar", "reshape it to ()")


def need_axis(op: str, axis: int, rank: int) -> None:
    """Attributes hold axes counted from the front; the builder turns negative ones round."""
    if not 0 <= axis < rank:
        valid = f"0 to {rank - 1}" if rank else "none, it is a scalar"
        shape_error(op, f"axis {axis} is out of range for rank {rank}", f"valid axes: {valid}")


def need_axes(op: str, axes: Sequence[int], rank: int) -> None:
    for axis in axes:
        need_axis(op, axis, rank)
    if len(set(axes)) != len(axes):
        shape_error(op, f"axes {tuple(axes)} name an axis twice")


def need_length(op: str, what: str, given: Sequence[object], length: int) -> None:
    if len(given) != length:
        shape_error(op, f"{what} has {len(given)} entries, not {length}")


def at_most(small: DimLike, large: DimLike) -> bool:
    """Provably small <= large, for every value of the dynamic sizes."""
    return bounds(large - small)[0] >= 0


def keep_quant(op: str, operand: TensorType, dims: Sequence[DimLike], axis_map: dict[int, int]) -> TensorType:
    """The operand with new dims. A per-axis scale must find its axis, whole, in `axis_map` (old → new)."""
    quant = operand.quant
    if quant is None or quant.axis is None:
        return TensorType(operand.dtype, tuple(dims), quant)
    moved = axis_map.get(quant.axis)
    if moved is None or dims[moved] != operand.dims[quant.axis]:
        dtype_error(
            op, f"{operand} has one scale per index of axis {quant.axis}, which {op} does not keep whole"
        )
    if moved != quant.axis:
        quant = type(quant)(quant.expressed, quant.scale, quant.zero_point, moved)
    return TensorType(operand.dtype, tuple(dims), quant)
