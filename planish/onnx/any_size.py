"""One program for all sizes: what a model does about dims that its inputs do not fix.

The first two sizes that are met have programs of their own, the fastest there are. When others come, one program is compiled for
all sizes up to a bound, more than what has been seen, and serves them; it is compiled anew, with wider bounds, when something
larger comes. A size of 1 is that number in all programs: one row, one token, one picture are what most calls have, and kernels for
them are others. Where names as the model has them do not do, sizes that always were the same, or the sum of two others (a mask as
long as what was said and what is said now), are taken for that. Where no program is for all sizes, one is tried for those that are not small, and one for multiples of a power of two. Sizes that come again and again get programs of their own after all, on another thread: they take over when they
are ready. A model with an op that has to know a size as a number has a program for each size, and `reason` says which op it was.
"""

from __future__ import annotations

import contextvars
import itertools
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.onnx.symbols import TooWide
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
_RELATED, _NOT_SMALL, _MULTIPLES = 1, 2, 3
"""What is tried one after the other where names alone do not do: sizes that follow from others, not the smallest ones, and multiples."""
_SEEN: Final = 64
"""So many sizes are remembered to find out which follow from others."""
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
        """Whether programs are for all sizes by their names, by what they always were of one another, not for the smallest (a window
        has to fit), or for multiples alone (what was halved and doubled is to be what it was)."""
        self._seen: list[dict[str, int]] = []
        """The sizes that names had."""
        self._most: dict[str, int] = {}
        """Bounds that no program goes beyond: a table of the model has so many rows."""
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
                    self._tapes[key] = self.model.kept("bounds", key) or self._tape_of(given, dims, key)
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
        places: dict[str, list[int | str]] = {}
        """What each axis is: a number, or something with a name."""
        named: dict[str, int] = {}
        met: dict[str, set[int]] = {}
        for info in self.model.inputs:
            value = given.get(info.name)
            if not isinstance(value, np.ndarray) or not on_device(value.dtype) or info.dims is None:
                return None
            parts: list[int | str] = []
            for axis, (dim, size) in enumerate(zip(info.dims, value.shape, strict=True)):
                if isinstance(dim, int) or isinstance(self.model.dims.get(dim or ""), int):
                    parts.append(size)
                elif self.told:
                    parts.append(str(dim) if dim in self.told else size)
                else:
                    # one name may stand for several sizes where an exporter had none to give
                    own = f"{letters_of(info.name)}_{axis}"
                    name = _label(letters_of(dim or "").strip("_") or own)
                    name = name if named.get(name, size) == size else _label(own)
                    met.setdefault(name, set()).update(self._met[info.name, axis])
                    parts.append(name)
                if isinstance(parts[-1], str):
                    named[parts[-1]] = size
            places[info.name] = parts
        if named not in self._seen and len(self._seen) < _SEEN:
            self._seen.append(named)
        by_name: dict[str, DimLike] = {}
        of = self._related(named) if self._caution >= _RELATED else {}
        for name, size in named.items():
            if self.told:
                by_name[name] = Dim.named(letters_of(name), *self.told[name])
            elif 1 < size <= _LARGEST // 2 and len(met[name]) > 1:
                by_name[name] = self._dim(name, size, met[name])
            else:
                by_name[name] = size
        for name, parts_of in of.items():
            if isinstance(by_name[name], int):
                continue
            by_name[name] = sum((by_name[part] for part in parts_of[1:]), by_name[parts_of[0]])
        return {
            name: tuple(part if isinstance(part, int) else by_name[part] for part in parts)
            for name, parts in places.items()
        }

    def _related(self, names: dict[str, int]) -> dict[str, tuple[str, ...]]:
        """The names whose sizes always were those of another, or the sum of those of two others."""
        seen = [names, *(sizes for sizes in self._seen if sizes.keys() >= names.keys())]
        sums: dict[str, tuple[str, ...]] = {}
        used: set[str] = set()
        for name in names:
            if name in used:
                continue
            others = [other for other in names if other != name and other not in sums]
            for parts in (*((other,) for other in others), *itertools.combinations(others, 2)):
                if all(sizes[name] == sum(sizes[part] for part in parts) for sizes in seen):
                    sums[name] = parts
                    used.update(parts)
                    break
        return sums

    def _bound(self, name: str, size: int) -> int:
        """The largest size that a program is for: it grows by doubling."""
        bound = self._bounds.get(name, 0)
        if size > bound:
            bound = self._bounds[name] = max(_LEAST, 2 << (size - 1).bit_length())
        return min(bound, self._most.get(name, bound))

    def _narrow(self, error: TooWide, given: Dims) -> bool:
        """Bounds within which a size fits into what the model has; whether there are any for these sizes."""
        if self.told:
            return False
        sizes = {
            s.name: s for dims in given.values() for d in dims if isinstance(d, Dim) for s in d.symbols()
        }
        excess = error.size.hi - error.limit
        for symbol in sorted(error.size.symbols(), key=lambda symbol: -symbol.hi):
            least = max(seen.get(symbol.name, 0) for seen in self._seen)
            most = max(symbol.hi - excess, least)
            if symbol.name in sizes and most < symbol.hi:
                self._most[symbol.name] = most
                excess -= symbol.hi - most
            if excess <= 0:
                return True
        return False

    def _dim(self, name: str, size: int, met: set[int]) -> DimLike:
        """What stands for a size: a name with bounds, or a multiple of one; where multiples are asked for and it is none, itself."""
        step = 1
        if size > self._most.get(name, size):
            return size
        if self._caution >= _MULTIPLES:
            step = self._steps.setdefault(name, math.gcd(_MULTIPLE, *met))
            if size % step:
                return size
        if self._caution >= _NOT_SMALL and size < self._least.get(name, size + 1):
            self._least[name] = max(step, size // 2 // step * step)
        low = self._least.get(name, 2)
        return Dim.named(name, -(-low // step), self._bound(name, size) // step) * step

    def _tape_of(self, given: Mapping[str, Any], dims: Dims, key: object) -> Tape | None:
        from planish.onnx import importing

        if not all(isinstance(v, np.ndarray) and on_device(v.dtype) for v in given.values()):
            return None
        try:
            program = importing.whole(self.model, given, dims)
            call = self.model.compiled(program.function)
        except PlanishError as error:
            if isinstance(error, TooWide) and self._narrow(error, dims):
                return None  # to be tried
            while self._caution < (_RELATED if self.told else _MULTIPLES):
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


def _label(name: str) -> str:
    """A name that a size can have."""
    return name if name[0].isalpha() else f"d{name}"
