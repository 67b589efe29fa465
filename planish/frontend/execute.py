"""Running a compiled function for the front end: what can go wrong there, told in the user's terms.

With `settings(check="nan")` the reference interpreter runs the function op by op and names the first op that makes a NaN of
numbers, and the line that asked for it. Where memory runs out, the error names the largest buffer and the peak of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import Executable
from planish.errors import Location, NanError, OutOfMemoryError
from planish.ptir.function import Inst
from planish.ptir.types import TensorType

Array = NDArray[Any]
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def interpret(function: ptir.Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results, by the reference interpreter."""
    with np.errstate(all="ignore"):
        return ptir.interpret(function, arrays)


def interpret_without_nan(function: ptir.Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results, op by op; a `NanError` where one makes a NaN."""
    with np.errstate(all="ignore"):
        return ptir.interpret(function, arrays, observer=_no_nan)


def _no_nan(inst: Inst, given: Sequence[Array], made: Sequence[Array]) -> None:
    # What is written as NaN is meant; what regions give was looked at inside of them.
    if inst.regions or not inst.operands:
        return
    for number, array in enumerate(made):
        found = _nan(array)
        if not found.any() or any(_nan(x).any() for x in given):
            continue
        where = tuple(int(i) for i in np.argwhere(found)[0])
        inputs = ", ".join(str(operand.type) for operand in inst.operands)
        values = ", ".join(_shown(x[where]) for x in given if x.shape == array.shape)
        count = int(found.sum())
        raise NanError(
            f"{inst.op.name} made {'a NaN' if count == 1 else f'{count} NaNs'} of ({inputs}):"
            f" element {list(where)}" + (f" of result {number}" if len(made) > 1 else "")
            + (f", from {values}" if values else ""),
            op=inst.op.name,
            location=inst.loc,
            remedy="keep its operands where it is defined, for example with planish.where or planish.clip",
        )  # fmt: skip


def _nan(array: Array) -> NDArray[np.bool_]:
    if array.dtype.kind in "biuSUO":
        return np.zeros((), np.bool_)
    found: NDArray[np.bool_] = np.isnan(array)
    return found


def _shown(value: Any) -> str:
    return str(value.item() if isinstance(value, np.generic | np.ndarray) else value)


def out_of_memory(exe: Executable, error: MemoryError) -> OutOfMemoryError:
    """There was no memory for a call; a device says more of what it has."""
    memory, function = exe.memory, exe.lowered.function
    candidates = [
        (nbytes(type), f"result {number}, {type}", value.def_inst.loc if value.def_inst else None)
        for number, (value, type) in enumerate(zip(function.results, function.result_types, strict=True))
    ]
    for place in memory.places:
        names = " and ".join(f"b{buffer}" for buffer in place.buffers) or "the scratch memory of a kernel"
        candidates.append((place.nbytes, f"{names} between the kernels", None))
    most, name, location = max(candidates, key=lambda found: found[0])
    peak = memory.peak + memory.results
    return OutOfMemoryError(
        f"out of memory: the largest buffer is {name}, of {size_text(most)}; the call needs {size_text(peak)}"
        f" at its peak, beside {size_text(memory.parameters)} of arguments"
        + (f"; {error.message}" if isinstance(error, OutOfMemoryError) else ""),
        nbytes=most,
        peak=peak,
        location=location or Location.caller(),
        remedy="work on smaller pieces (planish.map, a smaller batch), a narrower dtype, or donate arguments",
    )


def no_room(type: TensorType) -> OutOfMemoryError:
    """There was no memory for a tensor."""
    most = nbytes(type)
    return OutOfMemoryError(
        f"out of memory: a tensor {type} takes {size_text(most)}",
        nbytes=most,
        peak=most,
        location=Location.caller(),
        remedy="work on smaller pieces, or with a narrower dtype",
    )


def nbytes(type: TensorType) -> int:
    """The bytes of a tensor, at its largest sizes."""
    total = type.dtype.itemsize
    for size in type.max_shape:
        total *= size
    return total


def size_text(count: int) -> str:
    """Bytes in a unit that is read easily."""
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"
