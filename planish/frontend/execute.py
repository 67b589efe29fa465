"""Running a compiled function for the front end: what can go wrong there, told in the user's terms.

Where memory runs out, the error names the largest buffer and the peak of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import Executable
from planish.errors import Location, OutOfMemoryError
from planish.ptir.types import TensorType

Array = NDArray[Any]
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def interpret(function: ptir.Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results, by the reference interpreter."""
    with np.errstate(all="ignore"):
        return ptir.interpret(function, arrays)


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
    most, name, location = max(candidates, key=lambda candidate: candidate[0])
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
