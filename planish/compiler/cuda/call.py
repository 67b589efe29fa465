"""The way from Python into a function on a GPU: a builtin made of machine code, for calls that are plain.

Plain is a call with arrays on the GPU of just the dtypes and shapes that are expected, of a function that is a single segment: the
builtin checks, takes memory for the results, and launches (`runtime/native/gpu.c`). Whatever else is given goes to the general way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planish.compiler.assemble import Assembled
from planish.compiler.object_code import object_of
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.code import GpuCode, LaunchSegment, names_of
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import WITNESSES
from planish.runtime.cuda.memory import GpuBlock, rounded
from planish.runtime.cuda.native import Launcher, WordArrays, needed, slots_of
from planish.runtime.cuda.trace import COPY, KernelLaunch, Word, follow
from planish.runtime.elf import Loaded
from planish.runtime.fastcall import Builtin, builtin
from planish.runtime.native import source
from planish.schedule.memory import Memory as Places
from planish.schedule.plan import Role

if TYPE_CHECKING:
    from planish.compiler import Lowered

_ARRAY_SLOTS: Final = ("address", "dtype", "gpu", "owner", "shape")
_BLOCK_SLOTS: Final = ("address", "free", "nbytes", "size")


@cache
def launcher() -> Launcher:
    """The native way to GPUs."""
    native = Launcher(Loaded(object_of(source("gpu")), needed()))
    WITNESSES.append(lambda: names_of(native.recent()))
    return native


@cache
def _slots() -> list[int] | None:
    """Where the slots of arrays and blocks are; None if that cannot be told."""
    block = GpuBlock([], 1 << 40, 1 << 41, 1 << 42)
    array = GpuArray(_Nowhere(), block, 1 << 43, np.dtype(np.float64), (1 << 44,))  # type: ignore[arg-type]  # to be looked at
    slots = slots_of(array, _ARRAY_SLOTS), slots_of(block, _BLOCK_SLOTS)
    return None if slots[0] is None or slots[1] is None else [*slots[0], *slots[1]]


class _Nowhere:
    pass


def _segment(
    lowered: Lowered, code: GpuCode, places: Places, slots: Sequence[int], nbytes: Sequence[int]
) -> LaunchSegment | None:
    """All that a call launches, with every result where it is to be in the end; None if the host has something to do."""
    flat = code.code
    stretch = follow(flat, 0, slots, nbytes, code.itemsizes, decides=code.decides, places=code.carried.places)
    if stretch.end != len(flat.instructions):
        return None
    moved = [(stretch.memory[n], Word(n, 0)) for n in lowered.plan.results if stretch.memory[n] != Word(n, 0)]
    homes = places.homes
    read, written = (
        ({homes.get(word.root, word.root) for word in words} for words in zip(*moved, strict=True))
        if moved
        else (set(), set())
    )
    if read & written:
        return None
    copies = tuple(
        KernelLaunch(COPY, (n,), (to, now, Word(-1, n))) for now, to in moved if (n := nbytes[to.root])
    )
    return code.laid_out(stretch._replace(items=(*stretch.items, *copies)))


def fast_call(
    lowered: Lowered,
    assembled: Assembled,
    code: GpuCode,
    constants: Mapping[int, GpuArray],
    places: Places,
    nbytes: Sequence[int],
    general: Callable[..., object],
    sizes: Mapping[str, int],
) -> Builtin | None:
    """The builtin for plain calls with these sizes; None where a call is never plain."""
    plan, arguments, gpu, at = lowered.plan, lowered.arguments, code.gpu, _slots()
    if at is None or not lowered.is_plain:
        return None
    slots = list(code.code.slots)
    for name, slot in assembled.sizes:
        slots[slot] = sizes[name]
    segment = _segment(lowered, code, places, slots, nbytes)
    if segment is None:
        return None
    homes = {n: home for n, home in places.homes.items() if n != home}
    params: dict[int, tuple[int, np.dtype[Any], tuple[int, ...]]] = {}
    for number, buffer in enumerate(plan.buffers):
        if buffer.role is Role.PARAMETER:
            type = arguments.types[buffer.position]
            shape = tuple(int(dim) for dim in type.substitute(sizes).max_shape)
            params[buffer.position] = number, np.dtype(type.dtype.numpy), shape
    if set(params) != set(range(len(arguments.types))) or len(set(plan.results)) != len(plan.results):
        return None
    memory = WordArrays()
    results: list[int] = []
    for number, dims, dtype in zip(plan.results, assembled.results, arguments.results, strict=True):
        shape = tuple(segment.stretch.slots[slot] or 0 for slot in dims)  # whatever decides a size was seen
        home = homes.get(number, number)
        argument = plan.buffers[home].position if plan.buffers[home].role is Role.PARAMETER else -1
        if plan.buffers[number].role is not Role.RESULT or (argument < 0 and home != number):
            return None
        if argument >= 0 and params[argument][1:] != (dtype, shape):
            return None
        results += _tensor(memory, gpu, np.dtype(dtype), shape, number, argument, nbytes[number])
    given = [
        word
        for _, (number, dtype, shape) in sorted(params.items())
        for word in _tensor(memory, gpu, dtype, shape, number, -1, 0)
    ]
    arena = _tensor(memory, gpu, np.dtype(np.uint8), (), 0, -1, places.peak) if places.peak else []
    template = [0] * len(plan.buffers)
    for number, constant in constants.items():
        template[number] = constant.address
    inside = [pair for pair in places.offsets.items() if pair[0] not in homes]
    words = (ctypes.c_int64 * 29)(
        len(params), len(plan.results), len(plan.buffers),
        memory.words(template), memory.words(given), memory.words(results), memory.words(arena) if arena else 0,
        len(inside), memory.words([n for pair in inside for n in pair]),
        len(homes), memory.words([n for pair in homes.items() for n in pair]),
        segment.address, gpu.place,
        *memory.objects([GpuArray, GpuBlock, gpu, gpu.pool.take, segment.prepare, segment.refused, general]),
        *at,
    )  # fmt: skip
    memory.kept += [words, segment, constants]
    return builtin(arguments.function, code.launcher.call, ctypes.addressof(words), memory)


def _tensor(
    memory: WordArrays,
    gpu: Gpu,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    root: int,
    argument: int,
    nbytes: int,
) -> list[int]:
    """`struct gpu_tensor`."""
    size = rounded(nbytes)
    kind, sizes, asked, whole, free = memory.objects([dtype, shape, nbytes, size, gpu.pool.free_list(size)])
    return [kind, sizes, root, argument, asked, whole, free]
