"""jit: a Python function captured once per signature, compiled, and replayed.

A call runs code that was made for arguments of the same structure, shapes, dtypes and static values; otherwise the function is
traced again. `cache_info()` tells why each time. A call on tensors that have their data costs about a microsecond beside the
work itself. Inside another trace (of `jit`, `grad`, `vmap`, a loop) a compiled function is the Python function it was made of.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from planish import compiler, ptir
from planish.compiler.placement import has_copies
from planish.compiler.progress import ProgressLine, report
from planish.config import Settings, current
from planish.config import settings as with_settings
from planish.errors import Location, PlanishError
from planish.frontend import tree
from planish.frontend.ahead_of_time import LoweredCall
from planish.frontend.arguments import CallParts, CallSignature, DimSpec, LeafType, difference, known
from planish.frontend.devices import CPU, checked, common_device, default_device, find
from planish.frontend.entries import CacheEntry, CapturedCall, prepared, trace_call
from planish.frontend.flat import own
from planish.frontend.matching import MISSED
from planish.frontend.session import SESSION, current_scope, evaluate
from planish.frontend.tensor.array import Tensor
from planish.ptir.dims import Dim as NamedDim
from planish.records import dataclass
from planish.tracebacks import short_tracebacks, shorten

if TYPE_CHECKING:
    from planish.frontend.sharding.mesh import Mesh
    from planish.ptir.passes import Passes

P = ParamSpec("P")
R = TypeVar("R")
_RECENT: Final = 4
"""Entries that a call is compared with before its arguments are taken apart."""
_WARN_AFTER: Final = 8
"""Traces after which a function is suspected to be called with something new each time."""
_KEPT: Final = 1024


class RetraceWarning(UserWarning):
    """A function is traced again and again."""


def Dim(name: str, low: int, high: int) -> NamedDim:  # noqa: N802 - it names a kind of thing
    """A size that is not known when a function is compiled: at least `low` and at most `high`, both included."""
    try:
        return NamedDim.named(name, low, high)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise


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


def _named(module: str, name: str) -> object:
    """What a module calls by a name."""
    value: object = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


# --- the face -----------------------------------------------------------------------------------------------


class Jitted(Generic[P, R]):
    """A function that is compiled for the arguments it is called with. `jit` makes them."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        signature: CallSignature,
        passes: Passes = compiler.PIPELINE,
        device: str | None = None,
        schedule: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._signature = signature
        self._passes = passes
        self._place = device
        self._schedule = schedule
        self._entries: dict[object, CacheEntry] = {}
        self._ranked: Callable[..., Any] | None = None
        self._recent: list[CacheEntry] = []
        self._hits = 0
        self._misses: list[Miss] = []
        self._blamed: Counter[str] = Counter()
        self._lock = threading.RLock()

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickled: what it is made of, to be compiled where it arrives; by name, if that is how others find it."""
        if self.__module__ != "__main__" and _named(self.__module__, self.__qualname__) is self:
            return self.__qualname__
        return type(self), (self._made_of(), self._signature, self._passes, self._place, self._schedule)

    def _made_of(self) -> object:
        return self._function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if current_scope() is None:
                settings = current()
                for entry in self._recent:
                    if entry.settings is settings:
                        short = entry.short
                        if short is None:
                            short = entry.attempt
                        try:
                            result = short(args, kwargs, settings)
                        except BaseException:
                            self._hits += 1  # it had its code
                            raise
                        if result is not MISSED:
                            self._hits += 1
                            return result  # type: ignore[no-any-return] # what the function returns
            return self._long_way(args, kwargs)
        except Exception as error:
            shorten(error, error.__class__ is TypeError and not self._signature.takes(args, kwargs))
            raise

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._signature.name}>"

    # -- the long way ----------------------------------------------------------------------------------------

    def _long_way(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """A call that is not like the last ones."""
        if current_scope() is not None:
            return self._called(args, kwargs)
        settings = current()
        if not settings.jit:
            return self._called(args, kwargs)
        sharded = sys.modules.get(
            "planish.frontend.sharding.arrays"
        )  # who has sharded arrays has imported it
        if sharded is not None and any(isinstance(x, sharded.Sharded) for x in tree.leaves((args, kwargs))):
            return self._over_mesh(args, kwargs)
        call = self._signature.apart(args, kwargs, SESSION.plans.settings_number(settings))
        if not all(map(known, call.leaves)):
            # a parameter of a trace that somebody keeps, or a spec: only the function itself can say
            return self._called(args, kwargs)
        tensors = [leaf for leaf in call.leaves if isinstance(leaf, Tensor)]
        evaluate([tensor._value for tensor in tensors])
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
            if entry.has_short_way:
                self._recent = [entry, *self._recent[: _RECENT - 1]]
        arrays = entry.arrays(call)
        arrays += [call.leaves[number] for number in entry.donated]
        return entry.run(arrays)  # type: ignore[no-any-return] # what the function returns

    def _over_mesh(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """A call with sharded arrays: as with `mesh=`, that of the arrays."""
        if self._ranked is None:
            _refuse_placed(self._place, self._schedule, "sharded arrays")
            from planish.frontend.sharding.jitted import ShardedFunction

            self._ranked = ShardedFunction(self._function, self._signature, None, None, None, self._passes)
        result: R = self._ranked(*args, **kwargs)
        return result

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """The function itself. As with compiled code, what it assigns to its arguments stays inside, and its results are its own."""
        static = self._signature.static
        given = [arg if number in static else own(arg) for number, arg in enumerate(args)]
        named = {name: arg if name in static else own(arg) for name, arg in kwargs.items()}
        result: R = own(self._function(*given, **named))
        return result

    def _miss(self, call: CallParts, settings: Settings) -> CacheEntry:
        with ProgressLine(f"compiling {self._signature.name}"), self._steered():
            report(doing="tracing")
            traced = trace_call(self._signature, self._function, call)
            entry = prepared(traced, settings, self._place or _home(traced, call.key.leaves), self._passes)
        self._note(call)
        if len(self._entries) >= _KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[call.key] = entry
        return entry

    def _steered(self) -> AbstractContextManager[object]:
        """The settings with the schedule that the function was given, if it was."""
        return nullcontext() if self._schedule is None else with_settings(schedule=self._schedule)

    def _note(self, call: CallParts) -> None:
        """Write down why the function was traced; warn where that happens too often."""
        nearest: list[str] | None = None
        for entry in reversed(self._entries.values()):
            changes = difference(entry.traced.call, call, self._signature.label)
            if nearest is None or len(changes) < len(nearest):
                nearest = changes
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

    @short_tracebacks
    def lower(self, *args: Any, **kwargs: Any) -> LoweredCall:
        """The function captured and lowered for such arguments, which may be specs; nothing is run."""
        call = self._signature.apart(args, kwargs, SESSION.plans.settings_number(current()))
        traced = trace_call(self._signature, self._function, call)
        with self._steered():
            place = find(self._place or _device(call.key.leaves))
            return LoweredCall(self._signature, traced, self._passes, CPU if place.is_host else place.name)


class _JittedObject(Jitted[P, R]):
    """A callable container of tensors (a module): it is itself the first argument, so that its tensors may change."""

    def __init__(self, function: Callable[P, R], *options: Any) -> None:
        super().__init__(cast("Callable[P, R]", type(function).__call__), *options)
        self._object = function

    def _made_of(self) -> object:
        return self._object

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return super().__call__(self._object, *args, **kwargs)  # type: ignore[arg-type] # as `__call__` of its class

    def lower(self, *args: Any, **kwargs: Any) -> LoweredCall:
        return super().lower(self._object, *args, **kwargs)


def _home(traced: CapturedCall, leaves: Sequence[LeafType]) -> str:
    """Where a call runs, but for what it moves elsewhere itself: then its arguments may lie on several devices."""
    several = len({leaf.device for leaf in leaves if leaf.device is not None}) > 1
    return default_device() if several and has_copies(traced.function) else _device(leaves)


def _refuse_placed(device: str | None, schedule: object, beside: str) -> None:
    if device is not None or schedule is not None:
        raise PlanishError.at_caller(
            f"jit: {'device' if device is not None else 'schedule'} cannot be given beside {beside}",
            "a sharded function runs where its mesh's parts are, by schedules that are chosen: leave it out",
        )


def _device(leaves: Sequence[LeafType]) -> str:
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


def disable_jit() -> AbstractContextManager[object]:
    """While it is entered, functions under `jit`, loops and branches run op by op: `print`, `if` and debuggers see their values."""
    return with_settings(jit=False)


class JitOptions(TypedDict, total=False):
    """What `jit` takes beside a function."""

    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]
    donate_argnums: int | Sequence[int]
    donate_argnames: str | Sequence[str]
    dims: Mapping[str | int, DimSpec] | None
    passes: Passes
    device: str | None
    schedule: str | PathLike[str] | Mapping[str, str] | None
    in_shardings: object
    out_shardings: object
    mesh: Mesh | None


@overload
def jit(function: None = None, **options: Unpack[JitOptions]) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@overload
def jit(function: Callable[P, R], **options: Unpack[JitOptions]) -> Jitted[P, R]: ...
@short_tracebacks
def jit(
    function: Callable[P, R] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    dims: Mapping[str | int, DimSpec] | None = None,
    passes: Passes = compiler.PIPELINE,
    device: str | None = None,
    schedule: str | PathLike[str] | Mapping[str, str] | None = None,
    in_shardings: object = None,
    out_shardings: object = None,
    mesh: Mesh | None = None,
) -> Jitted[P, R] | Callable[[Callable[P, R]], Jitted[P, R]]:
    """Compile a function of tensors: captured once per signature, then replayed as machine code.

    Arguments and results are tensors, numbers, and containers of them. *Static* arguments are part of the program: each value has
    code of its own. *Donated* arguments give their memory to the results, and cannot be used afterwards. `dims` names sizes that
    may change without compiling again: `dims={"x": (planish.Dim("batch", 1, 64), None)}`. `passes` run on the captured program in
    place of the compiler's own: a pipeline's text, passes, or several of both, as `[planish.compiler.PIPELINE, MyPass()]`.
    `device` is where it runs, such as `"cuda:0"`; without it, where its arguments live. Arguments elsewhere are moved there.
    `schedule` says what is done to the loops of its kernels in place of what would be chosen: steps such as
    `"upcast(j, 16); thread(i)"`, a file of them, or a mapping from the names of kernels to steps. `.lower(…).as_text("schedule")`
    shows what is chosen.

    `in_shardings` and `out_shardings` say how arguments and results are cut over a `mesh`: a `planish.P` per argument, one for all
    that a container holds, a function of name and shape, or None. Then, or with a mesh alone, the function becomes the program that each rank
    of the mesh runs, on arrays that `planish.shard` made.
    """
    # read now: a mistake in them belongs to the line that made it
    pipeline = passes if passes is compiler.PIPELINE else ptir.PassManager.of(passes)

    place = None if device is None else checked(device)
    steps: str | None = None
    if schedule is not None:
        from planish.compiler.scheduling import schedule_text  # who says nothing does not wait for it

        steps = schedule_text(schedule)

    @short_tracebacks
    def decorate(function: Callable[P, R]) -> Jitted[P, R]:
        if not callable(function):
            raise PlanishError.at_caller(
                f"jit takes a function, not {function!r}",
                "use it as @planish.jit, and options by name: @planish.jit(static_argnums=0)",
            )
        options = (static_argnums, static_argnames, donate_argnums, donate_argnames, dims)
        is_object = tree.apart(function) is not None
        named = CallSignature(type(function).__call__ if is_object else function, *options)
        if is_object:
            named.name = type(function).__name__
        if in_shardings is not None or out_shardings is not None or mesh is not None:
            _refuse_placed(device, schedule, "shardings")
            from planish.frontend.sharding.jitted import ShardedFunction

            shardings = in_shardings, out_shardings, mesh, pipeline
            if not is_object:
                return cast("Jitted[P, R]", ShardedFunction(function, named, *shardings))
            called = type(function).__call__
            return cast("Jitted[P, R]", ShardedFunction(called, named, *shardings, (function,)))
        kind = _JittedObject if is_object else Jitted
        return kind(function, named, pipeline, place, steps)

    return decorate if function is None else decorate(function)
