"""Machine code, from the cache or compiled: kernels, the way through a plan, and what all functions share.

The key of an entry is the source and the processor with every feature it has: code that uses what a machine lacks has another key
there. At a fork nothing is in the middle of being compiled: the child can compile too.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from planish.config import current
from planish.forking import hold
from planish.records import dataclass
from planish.runtime import libraries, memory, native, processors
from planish.runtime.cache import disk_cache, key_of
from planish.runtime.elf import Loaded, undefined_symbols
from planish.runtime.pool import WorkerPool
from planish.runtime.processors import Processor

if TYPE_CHECKING:
    from planish.runtime import cc


@dataclass(slots=True)
class ObjectCounters:
    """What this process compiled, and what it found ready."""

    compiled: int = 0
    loaded: int = 0


counters: Final = ObjectCounters()
_lock: Final = threading.Lock()
hold(_lock)


def object_of(source: str, processor: Processor | None = None, key: str = "") -> bytes:
    """The object code of LLVM IR, by default for this machine; its key, where that is known."""
    made_for = processor or processors.host()

    def make() -> bytes:
        from planish.runtime import cpu

        return cpu.emit_object(source, made_for)

    return _kept(key or object_key(source, made_for), make)


def object_key(source: str, processor: Processor) -> str:
    """Under which the object code of LLVM IR is kept."""
    return key_of("object", str(processor), source)


def object_under(key: str) -> bytes | None:
    """What is kept under the key of an object."""
    image = disk_cache().get(key)
    counters.loaded += image is not None
    return image


def glue_of(source: str, processor: Processor | None = None) -> bytes:
    """The same for code that runs once per call."""
    made_for = processor or processors.host()

    def make() -> bytes:
        from planish.runtime import cpu

        return cpu.emit_glue(source, made_for)

    return _kept(key_of("glue", str(made_for), source), make)


def routine_image(name: str, processor: Processor) -> bytes | None:
    """The object code of a routine; None if there is none of that name."""
    from planish.runtime import ready_routines, routines

    routine = routines.routine_named(name)
    if routine is None:
        return None
    if (image := ready_routines.ready(name, processor)) is not None:
        counters.loaded += 1
        return image

    def make() -> bytes:
        from planish.runtime import cpu

        return cpu.emit_routine(routines.source(name), processor, unrolled=routine.unrolled)

    return _kept(key_of("routine", str(processor), name, str(libraries.wide_integers())), make)


@functools.cache
def routine_of(name: str, processor: Processor) -> int | None:
    """Where a routine is in memory; None if there is none of that name, or this machine lacks a library that it calls."""
    if name.startswith("collective"):
        from planish.compiler.collectives import address_of

        return address_of(name)
    image = routine_image(name, processor)
    if image is None:
        return None
    symbols = libraries.addresses(undefined_symbols(image))
    if symbols is None:
        return None
    loaded = Loaded(image, {**symbols, **_library_session()})
    _routines.append(loaded)
    return loaded.address("routine")


@functools.cache
def _library_session() -> Mapping[str, int]:
    """What tells a library how many threads to take, if that can be told."""
    known = libraries.addresses([libraries.PREFIX + f"{verb}_num_threads" for verb in ("get", "set")])
    if known is not None:
        native.function(support(), "library_threads", ctypes.c_void_p, ctypes.c_void_p)(*known.values())
    return {name: support().address(name) for name in ("library_enter", "library_leave")}


def call_routine(
    name: str, buffers: Sequence[NDArray[Any]], integers: Sequence[int], scratch: int = 0
) -> bool:
    """Run a routine in one chunk on arrays, which are in order, with bytes to work in; False if this machine does not have it."""
    function = _function(name)
    if function is None:
        return False
    given = [*buffers, blocks().empty(scratch)] if scratch else buffers
    words = list(map(blocks().data_address, given))
    words += integers
    function((ctypes.c_int64 * len(words))(*words), 0)
    return True


@functools.cache
def _function(name: str) -> Callable[..., None] | None:
    address = routine_of(name, processors.host())
    return None if address is None else _ROUTINE(address)


_ROUTINE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_routines: Final[list[Loaded]] = []
"""They live as long as the process: plans know their addresses."""


def _kept(key: str, make: Callable[[], bytes]) -> bytes:
    cache = disk_cache()
    cached = cache.get(key)
    if cached is not None:
        counters.loaded += 1
        return cached
    code = _undisturbed(make)
    counters.compiled += 1
    cache.put(key, code)
    return code


def _undisturbed(make: Callable[[], bytes]) -> bytes:
    """What a compiler makes. Ctrl-C ends the waiting, not the compiler in the middle of its work: it would not survive that."""
    outcomes: list[bytes | BaseException] = []

    def work() -> None:
        with _lock:
            try:
                outcomes.append(make())
            except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for it
                outcomes.append(error)

    if threading.current_thread() is not threading.main_thread():
        work()  # signals do not come here
    else:
        worker = threading.Thread(target=work, name="planish-compile")
        worker.start()
        worker.join()
    (result,) = outcomes
    if isinstance(result, BaseException):
        raise result
    return result


def library_of(sources: Sequence[str], flags: Sequence[str]) -> cc.CModule:
    """C files as a library of the system's compiler."""
    from planish.runtime import cc

    key = key_of("library", cc.version(), str(processors.host()), *flags, *sources)
    return cc.CModule.from_image(_kept(key, lambda: cc.build(sources, flags=flags)[0]))


@functools.cache
def support() -> Loaded:
    """The thread pool, the way in from Python, and helpers."""
    return Loaded(native.image() or object_of(native.source()))


@functools.cache
def helpers() -> Mapping[str, int]:
    """What code for processors without 16-bit floats calls."""
    return {name: support().address(name) for name in native.HALF_CONVERSIONS}


@functools.cache
def linked() -> Mapping[str, int]:
    """What the way through a plan calls."""
    return {name: support().address(name) for name in native.LINKED}


@functools.cache
def pool() -> WorkerPool:
    """The threads of this process."""
    return WorkerPool(support())


@functools.cache
def blocks() -> memory.Blocks:
    """The memory of this process for results and arenas."""
    return memory.Blocks(support())


def threads() -> int:
    """How many threads a call of this moment may use; so many are there."""
    return pool().threads(current())
