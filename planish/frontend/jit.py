"""jit: a Python function captured once per signature, compiled, and replayed.

A call runs code that was made for arguments of the same structure, shapes, dtypes and static values; otherwise the function is
traced again. `cache_info()` tells why each time. A call on tensors that have their data costs a few microseconds beside the work
itself. Inside another trace (of `jit`, `grad`, `vmap`, a loop) a compiled function is the Python function it was made of.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import types
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.compiler import Cost, Executable, KernelInfo, Memory
from planish.config import Settings, current
from planish.dtypes import result_type
from planish.errors import DTypeError, GraphError, Location, PlanishError
from planish.frontend import execute, tree
from planish.frontend.arguments import (
    Call,
    DimSpec,
    Leaf,
    Signature,
    TensorSpec,
    array_of,
    difference,
    known,
    paths,
)
from planish.frontend.expression import GIVEN_AWAY, Body, current_scope, tensor_type, tracing
from planish.frontend.matching import Match, builder, matcher
from planish.frontend.realize import evaluate, settings_number
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import cast_to, constant
from planish.frontend.tensor.placement import CPU, common_device, default_device
from planish.frontend.tensor.weak import WeakTensor
from planish.frontend.trace import capture_body
from planish.frontend.tree import Structure
from planish.ptir.dims import Dim as NamedDim
from planish.ptir.types import TensorType

Array = NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")
_RECENT: Final = 4
"""Entries that a call is compared with before its arguments are taken apart."""
_WARN_AFTER: Final = 8
"""Traces after which a function is suspected to be called with something new each time."""
_KEPT: Final = 1024
_GONE: Final = Tensor(tensor_type(result_type(0.0), ()), scope=GIVEN_AWAY)
"""What the name of a donated tensor stands for."""


class RetraceWarning(UserWarning):
    """A function is traced again and again."""


def Dim(name: str, low: int, high: int) -> NamedDim:  # noqa: N802 - it names a kind of thing
    """A size that is not known when a function is compiled: at least `low` and at most `high`, both included."""
    return NamedDim.named(name, low, high)


@dataclass(frozen=True, slots=True)
class Miss:
    """One time that a function was traced."""

    reason: str
    location: Location | None

    def __str__(self) -> str:
        return self.reason if self.location is None else f"{self.reason}; at {self.location}"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What became of the calls of a function."""

    hits: int
    misses: int
    entries: int
    reasons: tuple[Miss, ...]
    """Why the function was traced, each time."""

    def __str__(self) -> str:
        lines = [f"{self.hits} hits, {self.misses} misses, {self.entries} entries"]
        return "\n".join([*lines, *(f"  {number}. {miss}" for number, miss in enumerate(self.reasons, 1))])


# --- tracing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traced:
    """A function captured for one key."""

    call: Call
    function: ptir.Function
    captured: tuple[Tensor, ...]
    """Tensors from outside that it uses, its last parameters."""
    structure: Structure
    """Of what it returns."""
    order: tuple[int, ...]
    """Which result each leaf of that is."""
    donated: tuple[int, ...]


def _trace(signature: Signature, function: Callable[..., Any], call: Call) -> Traced:
    order: list[int] = []
    with tracing("jit") as scope:
        params: list[Tensor] = []
        for leaf, name in zip(call.key.leaves, call.names, strict=True):
            param = Tensor.parameter(leaf.type, scope)
            if leaf.python is not None:
                param = WeakTensor.of(param, leaf.python)
            scope.names[id(param)] = f"argument {name}"
            params.append(param)
        args, kwargs = signature.together(call.key.structure, params, call.static)
        returned = function(*args, **kwargs)
        leaves, structure = tree.flatten(returned)
        results: dict[int, int] = {}
        tensors: list[Tensor] = []
        for leaf, name in zip(leaves, paths(structure, "result"), strict=True):
            tensor = _returned(leaf, name, signature.name)
            number = results.setdefault(id(tensor), len(results))
            if number == len(tensors):
                tensors.append(tensor)
            order.append(number)
    body = Body(scope, params, tensors)
    evaluate([tensor for tensor in body.free if tensor._array is None])
    captured, free = capture_body(body, _identifier(signature.name), names=_identifiers(call.names))
    return Traced(call, captured, free, structure, tuple(order), tuple(signature.donates(call)))


def _returned(leaf: Any, name: str, function: str) -> Tensor:
    if isinstance(leaf, WeakTensor):
        return cast_to(leaf, result_type(leaf._weak))
    if isinstance(leaf, Tensor):
        return leaf.latest
    if isinstance(leaf, bool | int | float | complex):
        return constant(leaf, result_type(leaf))
    if isinstance(leaf, np.ndarray | np.generic):
        array = np.array(leaf)
        array.flags.writeable = False
        return Tensor(ptir.ops.literal.Literal(array).type, array=array)
    raise DTypeError(
        f"jit: {function} returned {leaf!r} as {name}, which is neither a tensor nor a number",
        op="jit",
        location=Location.caller(),
        remedy="return tensors in tuples, lists, dicts and dataclasses; keep the rest outside",
    )


def _identifier(name: str) -> str:
    """A name as PTIR takes it: `params['w'][0]` is params_w_0."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return found if found[:1].isalpha() else f"f{found}"


def _identifiers(names: Sequence[str]) -> list[str]:
    """Such names, all of them different."""
    found: dict[str, None] = {}
    for name in map(_identifier, names):
        # x0, x1 … are what comes from outside
        taken = name in found or re.fullmatch(r"x\d+", name)
        found[f"{name}_{len(found)}" if taken else name] = None
    return list(found)


# --- entries ------------------------------------------------------------------------------------------------


class _Entry:
    """The code for one key."""

    def __init__(
        self, traced: Traced, settings: Settings, run: Callable[..., Any], exe: Executable | None
    ) -> None:
        self.traced = traced
        self.settings = settings
        self.exe = exe
        self.call = run
        self.captured = [cast("Array", tensor._array) for tensor in traced.captured]
        self.donated = traced.donated
        self.count = len(traced.call.key.leaves)
        described = traced.call.key.leaves
        placed = {leaf.device for leaf in described if leaf.device is not None}
        self.device = next(iter(placed), None)
        self.types: list[TensorType | None] = [
            tensor_type(type.dtype, type.dims) if type.is_static else None
            for type in traced.function.result_types
        ]
        self.dtypes = [type.dtype for type in traced.function.result_types]
        self.single = traced.structure.kind is None
        self.build = builder(traced.structure, traced.order)
        self.match: Match | None = None
        self.expect(traced.call)

    def expect(self, call: Call) -> None:
        """Take the short way for calls like this one. Types are compared by identity there."""
        kinds = [type(leaf) for leaf in call.leaves]
        if not any(issubclass(kind, TensorSpec) for kind in kinds):
            self.match = matcher(call.key.structure, call.key.leaves, kinds, call.static, self.donated)
        self.expected = [(leaf.type, kind) for leaf, kind in zip(call.key.leaves, kinds, strict=True)]

    def expects(self, call: Call) -> bool:
        """Whether the short way would have taken it, but for tensors that wait."""
        return all(
            leaf.type is type and kind is given.__class__
            for leaf, given, (type, kind) in zip(call.key.leaves, call.leaves, self.expected, strict=True)
        )

    def run(self, arrays: list[Any]) -> Any:
        """A call with what `match` gave."""
        if self.donated:
            return self._donating(arrays)
        if self.captured:
            arrays += self.captured
        try:
            made = self.call(*arrays)
        except (MemoryError, PlanishError) as error:
            raise self._explained(error) from error.__cause__
        return self._results(made)

    def _explained(self, error: MemoryError | PlanishError) -> BaseException:
        """An error of a call, at the user's line."""
        if isinstance(error, PlanishError):
            error.location = error.location or Location.caller()
            return error
        return error if self.exe is None else execute.out_of_memory(self.exe)

    def _results(self, made: Sequence[Array]) -> Any:
        results: list[Tensor] = []
        for number, array in enumerate(made):
            result = _new(Tensor)
            type = self.types[number]
            result._type = tensor_type(self.dtypes[number], array.shape) if type is None else type
            result._array = array
            result._latest = result._scope = result._node = None
            result._index = 0
            result._device = self.device
            result._used = False
            if self.single:
                return result
            results.append(result)
        return self.build(results)

    def _donating(self, given: list[Any]) -> Any:
        arrays, tensors = given[: self.count], given[self.count :]
        del given
        for number, tensor in zip(self.donated, tensors, strict=True):
            arrays[number] = _lent(arrays, number, tensor)
        try:
            made = self.call(*arrays, *self.captured)
        except (MemoryError, PlanishError) as error:
            raise self._explained(error) from error.__cause__
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                tensor._latest = _GONE
                if not tensor._used:
                    tensor._array = None
        return self._results(made)


_new: Final = object.__new__
# What holds the array of a tensor during a call when nobody else does: the tensor, two lists of arrays, a name, the question.
_HOLDERS: Final = 5


def _lent(arrays: list[Any], number: int, tensor: Any) -> Array:
    """Memory that may be overwritten: the donated array itself if nobody else can see it, else a copy."""
    array: Array = arrays[number]
    if not isinstance(tensor, Tensor) or tensor._used or sys.getrefcount(array) > _HOLDERS:
        return array.copy()
    base: object = array.base
    if base is not None:
        # results are views of the memory they were computed in, which nobody else has
        if not isinstance(base, np.ndarray) or base.base is not None or sys.getrefcount(base) > 3:
            return array.copy()
        base.flags.writeable = True
    try:
        array.flags.writeable = True
    except ValueError:
        return array.copy()
    return array


def _prepared(traced: Traced, settings: Settings, device: str) -> _Entry:
    function = traced.function
    if device != CPU or settings.check == "nan":
        run = execute.interpret_without_nan if settings.check == "nan" else execute.interpret
        return _Entry(traced, settings, lambda *arrays: run(function, arrays), None)
    try:
        exe = compiler.compile(function, donate=traced.donated)
    except MemoryError as error:
        raise GraphError("out of memory while compiling", location=Location.caller()) from error
    return _Entry(traced, settings, exe, exe)


# --- the face -----------------------------------------------------------------------------------------------


class Jitted(Generic[P, R]):
    """A function that is compiled for the arguments it is called with. `jit` makes them."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], signature: Signature) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._signature = signature
        self._entries: dict[object, _Entry] = {}
        self._recent: list[_Entry] = []
        self._hits = 0
        self._misses: list[Miss] = []
        self._blamed: Counter[str] = Counter()
        self._lock = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current_scope() is None:
            settings = current()
            for entry in self._recent:
                if entry.settings is settings:
                    arrays = entry.match(args, kwargs)  # type: ignore[misc] # the recent ones have one
                    if arrays is not None:
                        self._hits += 1
                        return entry.run(arrays)  # type: ignore[no-any-return] # what the function returns
        return self._long_way(args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._signature.name}>"

    # -- the long way ----------------------------------------------------------------------------------------

    def _long_way(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """A call that is not like the last ones."""
        if current_scope() is not None:
            return self._function(*args, **kwargs)
        settings = current()
        call = self._signature.apart(args, kwargs, settings_number(settings))
        if not all(map(known, call.leaves)):
            # a parameter of a trace that somebody keeps, or a spec: only the function itself can say
            return self._function(*args, **kwargs)
        tensors = [leaf for leaf in call.leaves if isinstance(leaf, Tensor)]
        evaluate([tensor.latest for tensor in tensors])
        with self._lock:
            entry = self._entries.get(call.key)
            if entry is None:
                entry = self._miss(call, settings)
            else:
                self._hits += 1
            entry.settings = settings
            if not entry.expects(call):
                entry.expect(call)
            if entry in self._recent:
                self._recent.remove(entry)
            if entry.match is not None:
                self._recent = [entry, *self._recent[: _RECENT - 1]]
        arrays: list[Any] = [
            leaf.latest._array if isinstance(leaf, Tensor) else array_of(leaf, described)
            for leaf, described in zip(call.leaves, call.key.leaves, strict=True)
        ]
        arrays += [call.leaves[number] for number in entry.donated]
        return entry.run(arrays)  # type: ignore[no-any-return] # what the function returns

    def _miss(self, call: Call, settings: Settings) -> _Entry:
        entry = _prepared(_trace(self._signature, self._function, call), settings, _device(call.key.leaves))
        self._note(call)
        if len(self._entries) >= _KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[call.key] = entry
        return entry

    def _note(self, call: Call) -> None:
        """Write down why the function was traced; warn where that happens too often."""
        nearest: list[str] | None = None
        for entry in reversed(self._entries.values()):
            found = difference(entry.traced.call, call, self._signature.label)
            if nearest is None or len(found) < len(nearest):
                nearest = found
        reason = "the first call" if nearest is None else "; ".join(nearest)
        location = Location.caller()
        self._misses.append(Miss(reason, location))
        self._blamed.update(part.partition(":")[0] for part in nearest or ())
        count = len(self._misses)
        if count >= _WARN_AFTER and count & (count - 1) == 0:
            who, times = self._blamed.most_common(1)[0]
            warnings.warn(
                f"{self._signature.name} was traced {count} times in {count + self._hits} calls, {times} times because of"
                f" {who} (last: {reason}); {_advice(who)}, or see cache_info()",
                RetraceWarning,
                stacklevel=_frames_to_user(),
            )

    # -- inspection ------------------------------------------------------------------------------------------

    def cache_info(self) -> CacheInfo:
        """How often a call found its code, and why it did not."""
        return CacheInfo(self._hits, len(self._misses), len(self._entries), tuple(self._misses))

    def clear_cache(self) -> None:
        """Forget everything that was traced."""
        with self._lock:
            self._entries.clear()
            self._recent = []
            self._misses.clear()
            self._blamed.clear()
            self._hits = 0

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function captured and lowered for such arguments, which may be specs; nothing is run."""
        call = self._signature.apart(args, kwargs, settings_number(current()))
        return Lowered(self._signature, _trace(self._signature, self._function, call))


class _JittedObject(Jitted[P, R]):
    """A callable container of tensors (a module): it is itself the first argument, so that its tensors may change."""

    def __init__(self, function: Callable[P, R], signature: Signature) -> None:
        super().__init__(cast("Callable[P, R]", type(function).__call__), signature)
        self._object = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return super().__call__(self._object, *args, **kwargs)  # type: ignore[arg-type] # as `__call__` of its class

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        return super().lower(self._object, *args, **kwargs)


def _device(leaves: Sequence[Leaf]) -> str:
    placed = {leaf.device for leaf in leaves if leaf.device is not None}
    return common_device("jit", placed) or default_device()


def _advice(who: str) -> str:
    if who.startswith("static"):
        return "pass it as a tensor or number that is not static if only its value matters"
    if who.startswith("argument"):
        return "give an axis that changes a named size with dims= and planish.Dim, or pad it"
    return "call it with the same arguments each time"


def _frames_to_user() -> int:
    level, frame = 2, sys._getframe(1)
    own = frame.f_globals["__name__"].partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == own:
        frame, level = frame.f_back, level + 1
    return level - 1


class Lowered:
    """A function captured and cut into kernels for one kind of arguments."""

    def __init__(self, signature: Signature, traced: Traced) -> None:
        self._signature = signature
        self._traced = traced
        self._lowered = compiler.lower(traced.function, donate=traced.donated)

    @property
    def function(self) -> ptir.Function:
        """What was captured, before any pass."""
        return self._traced.function

    def as_text(self, level: str = "ptir") -> str:
        """The program at a level: ptir, plan, uop, uop:NN (after that stage), llir, llvm, c or asm."""
        return self._lowered.as_text(level)

    def compile(self) -> Compiled:
        """Machine code."""
        return Compiled(self._signature, self._traced, self._lowered.compile())


class Compiled:
    """A function compiled ahead of time: called with arguments like those it was lowered for."""

    def __init__(self, signature: Signature, traced: Traced, exe: Executable) -> None:
        self._signature = signature
        self._traced = traced
        self._exe = exe
        self._entry = _Entry(traced, current(), exe, exe)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Its kernels, each once."""
        return self._exe.kernels

    @property
    def memory(self) -> Memory:
        """The memory of a call, at the largest sizes."""
        return self._exe.memory

    @property
    def cost(self) -> Cost:
        """What a call does."""
        return self._exe.cost

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results; other arguments than those it was lowered for are an error that says what differs."""
        entry = self._entry
        if entry.match is not None and current_scope() is None:
            arrays = entry.match(args, kwargs)
            if arrays is not None:
                return entry.run(arrays)
        wanted = self._traced.call
        call = self._signature.apart(args, kwargs, wanted.key.settings)
        if call.key != wanted.key:
            reasons = [
                reason
                for reason in difference(wanted, call, self._signature.label)
                if not reason.startswith("settings")
            ]
            fits = [_fits(a.type, b.type) for a, b in zip(call.key.leaves, wanted.key.leaves, strict=False)]
            if (
                call.key.structure != wanted.key.structure
                or call.key.static != wanted.key.static
                or not all(fits)
            ):
                raise PlanishError(
                    f"{self._signature.name} was compiled for other arguments: {'; '.join(reasons)}",
                    location=Location.caller(),
                    remedy="lower it again for these",
                )
        tensors = [leaf.latest for leaf in call.leaves if isinstance(leaf, Tensor)]
        evaluate(tensors)
        arrays = [
            leaf.latest._array if isinstance(leaf, Tensor) else array_of(leaf, described)
            for leaf, described in zip(call.leaves, wanted.key.leaves, strict=True)
        ]
        return entry.run([*arrays, *(call.leaves[number] for number in entry.donated)])


def _fits(given: TensorType, wanted: TensorType) -> bool:
    """Whether data of a type can be passed for another with named sizes; whether they agree is seen when it runs."""
    if given.dtype is not wanted.dtype or len(given.dims) != len(wanted.dims):
        return False
    return all(
        isinstance(size, NamedDim) or size == other
        for other, size in zip(given.dims, wanted.dims, strict=True)
    )


@overload
def jit(
    function: None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    dims: Mapping[str | int, DimSpec] | None = None,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    dims: Mapping[str | int, DimSpec] | None = None,
) -> Jitted[P, R]: ...
def jit(
    function: Callable[P, R] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    dims: Mapping[str | int, DimSpec] | None = None,
) -> Jitted[P, R] | Callable[[Callable[P, R]], Jitted[P, R]]:
    """Compile a function of tensors: captured once per signature, then replayed as machine code.

    Arguments and results are tensors, numbers, and containers of them. *Static* arguments are part of the program: each value has
    code of its own. *Donated* arguments give their memory to the results, and cannot be used afterwards. `dims` names sizes that
    may change without compiling again: `dims={"x": (planish.Dim("batch", 1, 64), None)}`.
    """

    def made(function: Callable[P, R]) -> Jitted[P, R]:
        if not callable(function):
            raise PlanishError(
                f"jit takes a function, not {function!r}",
                location=Location.caller(),
                remedy="use it as @planish.jit, and options by name: @planish.jit(static_argnums=0)",
            )
        options = (static_argnums, static_argnames, donate_argnums, donate_argnames, dims)
        if tree.apart(function) is None:
            return Jitted(function, Signature(function, *options))
        named = Signature(type(function).__call__, *options)
        named.name = type(function).__name__
        return _JittedObject(function, named)

    return made if function is None else made(function)
