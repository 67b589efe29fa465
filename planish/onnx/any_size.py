"""One program for all sizes: what a model does about dims that its inputs do not fix.

The first two sizes that are met have programs of their own, the fastest there are. When others come, one program is compiled for
all sizes up to a bound, more than what has been seen, and serves them; it is compiled anew, with wider bounds, when something
larger comes. Where no program is for all sizes, one is tried for those that are not small, and one for multiples of a power of two. Sizes that come again and again get programs of their own after all, on another thread: they take over when they
are ready. A model with an op that has to know a size as a number has a program for each size, and `reason` says which op it was.
"""

from __future__ import annotations

import contextvars
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.onnx.tape import End, Tape, TapeStep
from planish.onnx.tensors import letters_of, on_device
from planish.ptir.types import Dim, DimLike

if TYPE_CHECKING:
    from planish.onnx.model import Model, Signature

Array = NDArray[Any]
Dims = dict[str, tuple[DimLike, ...]]
_HOT: Final = 16
"""So many runs of one size make it worth a program of its own."""
_ALONE: Final = 2
"""So many sizes have programs of their own from the start: who runs one size, or a last smaller batch too, is served best so."""
_SPECIAL: Final = 8
"""Sizes that may have one."""
_LEAST: Final = 16
"""The smallest bound."""
_MULTIPLE: Final = 64
"""Of which sizes are multiples at most, where they have to be multiples: networks halve pictures five or six times."""
_MOST_CAUTION: Final = 2
_LARGEST: Final = 1 << 16
"""Bounds are not widened beyond this."""


class AnySize:
    """The programs of one model for sizes within bounds."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.reason: str | None = None
        """Why each size has a program of its own."""
        self.told = {name: size for name, size in model.dims.items() if not isinstance(size, int)}
        """Bounds that somebody has asked for."""
        self._free = any(
            not isinstance(d, int) and d not in model.dims for info in model.inputs for d in info.dims or ()
        )
        self._tapes: dict[object, Tape | None] = {}
        self._bounds: dict[str, int] = {}
        self._caution = 0
        """Whether programs are for all sizes, not for the smallest (a window has to fit), or for multiples alone (what was halved and
        doubled is to be what it was)."""
        self._least: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._sizes: set[Signature] = set()
        self._met: dict[tuple[str, int], set[int]] = {}
        """The sizes that each axis of the inputs had; one that had but one is that."""
        self._runs: dict[Signature, int] = {}
        self._special = 0

    def program(self, given: Mapping[str, Any], signature: Signature) -> Tape | None:
        """The program for such inputs, if sizes within bounds have one and these are not better served by their own."""
        if self.reason is not None or not (self.told or self._are_many(given, signature)):
            return None
        dims = self._dims(given)
        if dims is None or not any(isinstance(d, Dim) for sizes in dims.values() for d in sizes):
            return None
        key = tuple((name, tuple(map(repr, sizes))) for name, sizes in dims.items())
        if key not in self._tapes:
            with self.model.lock:
                if key not in self._tapes:
                    self._tapes[key] = self.model.kept("bounds", key) or self._made(given, dims, key)
        tape = self._tapes[key]
        if tape is None and self._dims(given) != dims:
            return self.program(given, signature)
        if tape is not None:
            self._count(given, signature)
        return tape

    def _are_many(self, given: Mapping[str, Any], signature: Signature) -> bool:
        """Whether enough other sizes were met before."""
        if not self._free:
            return False
        if signature not in self._sizes:
            self._sizes.add(signature)
            for name, value in given.items():
                for axis, size in enumerate(value.shape if isinstance(value, np.ndarray) else ()):
                    self._met.setdefault((name, axis), set()).add(size)
        return len(self._sizes) > _ALONE

    def _dims(self, given: Mapping[str, Any]) -> Dims | None:
        """The dims of the inputs, with names and bounds for those that vary."""
        dims: Dims = {}
        agreed: dict[str, int] = {}
        for info in self.model.inputs:
            value = given.get(info.name)
            if not isinstance(value, np.ndarray) or not on_device(value.dtype) or info.dims is None:
                return None
            sizes: list[DimLike] = []
            for axis, (dim, size) in enumerate(zip(info.dims, value.shape, strict=True)):
                if isinstance(dim, int) or isinstance(self.model.dims.get(dim or ""), int):
                    sizes.append(size)
                elif dim in self.told:
                    sizes.append(Dim.named(letters_of(str(dim)), *self.told[str(dim)]))
                elif self.told or not 0 < size <= _LARGEST // 2 or len(self._met[info.name, axis]) < 2:
                    sizes.append(size)
                else:
                    # one name may stand for several sizes where an exporter had none to give
                    name = letters_of(dim or "").strip("_") or f"{letters_of(info.name)}_{axis}"
                    name = (
                        name if agreed.setdefault(name, size) == size else f"{letters_of(info.name)}_{axis}"
                    )
                    sizes.append(self._dim(name, size, self._met[info.name, axis]))
            dims[info.name] = tuple(sizes)
        return dims

    def _bound(self, name: str, size: int) -> int:
        """The largest size that a program is for: it grows by doubling."""
        bound = self._bounds.get(name, 0)
        if size > bound:
            bound = self._bounds[name] = max(_LEAST, 2 << (size - 1).bit_length())
        return bound

    def _dim(self, name: str, size: int, met: set[int]) -> DimLike:
        """What stands for a size: a name with bounds, or a multiple of one; where multiples are asked for and it is none, itself."""
        step = 1
        if self._caution > 1:
            step = self._steps.setdefault(name, math.gcd(_MULTIPLE, *met))
            if size % step:
                return size
        if self._caution and size < self._least.get(name, size + 1):
            self._least[name] = max(step, size // 2 // step * step)
        low, label = self._least.get(name, 1), name if name[0].isalpha() else f"d{name}"
        return Dim.named(label, -(-low // step), self._bound(name, size) // step) * step

    def _made(self, given: Mapping[str, Any], dims: Dims, key: object) -> Tape | None:
        from planish.onnx import importing

        if not all(isinstance(v, np.ndarray) and on_device(v.dtype) for v in given.values()):
            return None
        try:
            program = importing.whole(self.model, given, dims)
            call = self.model.compiled(program.function)
        except PlanishError as error:
            while self._caution < _MOST_CAUTION and not self.told:
                self._caution += 1
                self._least.clear()
                if self._dims(given) != dims:
                    return None  # to be tried
            self.reason = error.message
            if self.told:
                warnings.warn(
                    f"there is no one program for all sizes of {', '.join(self.told)}: {error.message}. "
                    "Each size is compiled when it is met",
                    stacklevel=6,
                )
            return None
        outputs = End(tuple(range(len(given), len(given) + len(program.function.result_types))))
        constant = getattr(call, "constant", None)
        weights = program.weights if constant is None else map(constant, program.weights)
        step = TapeStep(call, (*range(len(given)), *weights), True, {(): outputs})
        tape = Tape({(): step}, 1)
        self.model.keep("bounds", key, tape=tape)
        return tape

    def _count(self, given: Mapping[str, Array], signature: Signature) -> None:
        """A size that comes again and again is given to another thread to compile."""
        runs = self._runs[signature] = self._runs.get(signature, 0) + 1
        if runs == _HOT and self._special < _SPECIAL and not self.told:
            self._special += 1
            held = {name: value.copy() for name, value in given.items()}
            context = contextvars.copy_context()
            threading.Thread(
                target=context.run,
                args=(self._specialise, held, signature),
                name="planish-sizes",
                daemon=True,
            ).start()

    def _specialise(self, given: Mapping[str, Array], signature: Signature) -> None:
        flat: Sequence[Array] = list(given.values())
        try:
            self.model.record(given, Tape(), flat, signature)
        except Exception as error:  # noqa: BLE001 - the program for all sizes goes on serving
            warnings.warn(f"no program of its own for a size that is met often: {error}", stacklevel=1)
