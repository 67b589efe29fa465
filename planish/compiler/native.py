"""A function as machine code: an object per kernel, one for the way through them, and a Python builtin to call it by.

Objects come from the cache if they are there; compiling one takes milliseconds, loading it a fraction. Everything a call
needs from Python is prepared here once: the frame that the code works on, the checks of the arguments.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from planish.compiler.assemble import Assembled
from planish.compiler.object_code import (
    blocks,
    glue_of,
    helpers,
    library_of,
    linked,
    object_of,
    object_under,
    routine_image,
    routine_of,
    support,
    threads,
)
from planish.errors import InternalError, ShapeError
from planish.runtime import entry, fastcall
from planish.runtime.elf import Loaded
from planish.runtime.plan import Calculate, Call, CallHost, Code, KernelCall, PlanState, Read
from planish.runtime.processors import LEVELS, Processor, check_runs_here, processor
from planish.schedule.collectives import collectives_in
from planish.schedule.plan import Role

if TYPE_CHECKING:
    from planish.compiler import Lowered
    from planish.llir.program import Program

Array = NDArray[Any]


Backend = Literal["llvm", "c"]
_SLOW_CALL: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_MARCH: Final = {name: f"-march={name}" for name in LEVELS}


def source_of(program: Program, aliased: Collection[int], *, scratch: int, avx512: bool) -> str:
    """The LLVM IR of a kernel. Its name is not part of what is cached: equal kernels are one entry, whatever they are called."""
    from planish.codegen import llvm

    memory = [f"arg{slot}" for slot in aliased]
    own = replace(program, name="kernel")
    return llvm.render(own, aliased=memory, scratch=bool(scratch), avx512=avx512)


def kernel_image(lowered: Lowered, number: int, processor: Processor) -> bytes:
    """The object code of a kernel: from the cache by its key, or by its text; ready-made code as it is."""
    if lowered.ready and (ready := lowered.ready[number]) is not None:
        code = routine_image(ready.routine, processor)
        if code is None:
            raise InternalError(f"there is no routine {ready.routine}")
        return code
    image = object_under(lowered.keys[number]) if lowered.keys else None
    if image is None:
        aliased, scratch = lowered.sharing.aliased[number], lowered.scratch[number]
        program = lowered.programs[number]
        image = object_of(source_of(program, aliased, scratch=scratch, avx512=processor.avx512), processor)
    return image


def _by_llvm(lowered: Lowered, processor: Processor) -> tuple[list[int], object]:
    """The addresses of the kernels, and what they live in: an object per kernel."""
    images = lowered.images
    if images is None:
        images = tuple(
            partial(kernel_image, lowered, number, processor) for number in range(len(lowered.scratch))
        )
    ready = lowered.ready or (None,) * len(images)
    loaded: list[Loaded] = []
    addresses: list[int] = []
    for image, kernel in zip(images, ready, strict=True):
        address = None if kernel is None else routine_of(kernel.routine, processor)
        if address is None:
            loaded.append(Loaded(image(), helpers()))
            address = loaded[-1].address("kernel")
        addresses.append(address)
    return addresses, loaded


def _by_c(lowered: Lowered, processor: Processor) -> tuple[list[int], object]:
    """The same by the system's C compiler: one library for the function."""
    from planish.codegen import c

    sources = [
        c.render(replace(program, name=f"k{number}"), scratch=bool(scratch))
        for number, (program, scratch) in enumerate(zip(lowered.programs, lowered.scratch, strict=True))
    ]
    if not sources:
        return [], None
    library = library_of(sources, (_MARCH.get(processor.name, "-march=native"),))
    return [library.address(f"k{number}") for number in range(len(sources))], library


class NativeCode:
    """The machine code of a function, and its frame."""

    def __init__(self, lowered: Lowered, assembled: Assembled, backend: Backend = "llvm") -> None:
        self.code = assembled.code
        self.itemsizes = [buffer.dtype.itemsize for buffer in lowered.plan.buffers]
        results = [
            entry.Result(buffer, dims)
            for buffer, dims in zip(lowered.plan.results, assembled.results, strict=True)
        ]
        self.layout = entry.layout_of(self.code, len(self.itemsizes), len(results))
        made_for = processor(lowered.target)
        check_runs_here(made_for)
        addresses, self._kernels = (_by_c if backend == "c" else _by_llvm)(lowered, made_for)
        kernels = lowered.calls
        symbols = {kernel.name: address for kernel, address in zip(kernels, addresses, strict=True)}
        symbols |= linked()
        homes = lowered.memory.homes
        hosts = [i for i in self.code.instructions if isinstance(i, CallHost)]
        if collectives_in(lowered.plan):
            from planish.compiler.collectives import prepare

            prepare(lowered)
        wanted = dict.fromkeys(host.native.routine for host in hosts if host.native is not None)
        self.routines = {name: place for name in wanted if (place := routine_of(name, made_for)) is not None}
        """Those of its host instructions that machine code does, and where."""
        names = {name: f"routine{number}" for number, name in enumerate(self.routines)}
        symbols |= {names[name]: address for name, address in self.routines.items()}

        def way(code: Code) -> Loaded:
            source = entry.render(code, kernels, self.itemsizes, homes, results, names)
            return Loaded(glue_of(source), symbols)

        self._make_way = way
        self._way = way(self.code)
        self.run = self._way.address("run")
        self.sizes = self._way.address("sizes") if entry.first_sizes(self.code) else 0
        """What computes the sizes that follow from those of the arguments."""
        self.returns = not all(map(self.has_routine, hosts))
        """Whether a call comes back to Python in the middle."""
        self.parallel = any(kernel.points > 1 for kernel in kernels) or bool(self.routines)
        self._call = _SLOW_CALL(support().address("slow_call"))

    def threads(self) -> int:
        """How many threads a call of this moment may use."""
        return threads() if self.parallel else 1

    def template(self) -> list[int]:
        """A frame with what every call has in common."""
        words = [0] * self.layout.size
        words[entry.HEAD : entry.HEAD + len(self.code.slots)] = self.code.slots
        return words

    def frame(
        self, memory: Sequence[Array], slots: Sequence[int], scratch: Sequence[Array | None]
    ) -> NDArray[np.int64]:
        """What the code of a call works on."""
        frame = np.array(self.template(), np.int64)
        frame[entry.THREADS] = self.threads()
        frame[entry.HEAD : entry.HEAD + len(slots)] = slots
        for number, array in enumerate(memory):
            frame[self.layout.buffer(number)] = array.ctypes.data
        for site, own in enumerate(scratch):
            if own is not None:
                frame[self.layout.scratch(site)] = own.ctypes.data
        return frame

    def has_routine(self, step: CallHost) -> bool:
        """Whether machine code does it."""
        return step.native is not None and step.native.routine in self.routines

    def launcher(self, step: Call | CallHost) -> Callable[[NDArray[np.int64]], int]:
        """One launch of a kernel, or one run of a routine, by itself, on the frame of a call, as the function launches it."""
        way = self._make_way(replace(self.code, instructions=(step,)))
        run = way.address("run")

        def launch(frame: NDArray[np.int64], _alive: Loaded = way) -> int:
            return int(self._call(run, frame.ctypes.data))

        return launch

    def __call__(self, memory: list[Array], slots: list[int], scratch: Sequence[Array | None]) -> None:
        """One call, on arrays by buffer; afterwards `slots` and `memory` are as the code left them."""
        count = len(slots)
        frame = self.frame(memory, slots, scratch)
        while status := self._call(self.run, frame.ctypes.data):
            kind, position = status >> 32 << 32, status & 0xFFFFFFFF
            now = self._state(frame, memory, count)
            if kind == entry.HOST and isinstance(step := self.code.instructions[position], CallHost):
                step.step(now)
                frame[entry.HEAD : entry.HEAD + count] = now.slots
            elif kind == entry.BAD_SIZE and isinstance(step := self.code.instructions[position], Read):
                step.step(now)
                raise ShapeError("a size is out of its bounds")
            else:
                raise InternalError(f"the code of a function returned {status}")
        slots[:] = frame[entry.HEAD : entry.HEAD + count].tolist()

    def _state(self, frame: Array, memory: Sequence[Array], count: int) -> PlanState:
        """What a host instruction sees: loops may have exchanged the memory of buffers."""
        arrays = []
        spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in memory if array.size]
        for number, array in enumerate(memory):
            address = int(frame[self.layout.buffer(number)])
            if address == array.ctypes.data:
                arrays.append(array)
                continue
            # a slice, another dtype, or what a loop left here: up to the end of the memory that it is part of
            nbytes = max((end - address for begin, end in spans if begin <= address < end), default=0)
            whole = nbytes - nbytes % array.dtype.itemsize
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * whole).from_address(address))
            arrays.append(raw.view(array.dtype))
        return PlanState(arrays, frame[entry.HEAD : entry.HEAD + count].tolist(), (), ())


def fast_call(
    lowered: Lowered, assembled: Assembled, native: NativeCode, general: Any
) -> fastcall.Builtin | None:
    """The builtin for calls with plain arrays; None where a call is never plain."""
    plan, code, layout = lowered.plan, native.code, native.layout
    memory = lowered.memory
    if native.returns or not blocks().reads_arrays:
        return None
    if not (lowered.is_plain or _only_complex(lowered)):
        return None
    names = dict(assembled.sizes)
    bounds = [(0, 0)] * (layout.slot(len(code.slots)) + 1)
    template = native.template()
    params: dict[int, fastcall.PlainTensor] = {}
    inside: list[int] = []
    offsets = memory.offsets
    for number, buffer in enumerate(plan.buffers):
        word = layout.buffer(number)
        if buffer.role is Role.PARAMETER:
            type = lowered.arguments.types[buffer.position]
            dims: list[int] = []
            for dim in type.dims:
                if isinstance(dim, int):
                    dims.append(dim)
                elif dim.name in names:
                    slot = layout.slot(names[dim.name])
                    symbol = next(iter(dim.symbols()))
                    bounds[slot] = (symbol.lo, symbol.hi)
                    template[slot] = -1
                    dims.append(~slot)
                else:
                    return None
            if buffer.position in params:
                return None
            written = buffer.position if buffer.donated else -1
            params[buffer.position] = fastcall.PlainTensor(
                np.dtype(type.dtype.numpy), word, tuple(dims), written
            )
        elif buffer.constant is not None:
            template[word] = buffer.constant.ctypes.data
        elif number in offsets:
            template[word] = offsets[number]
            inside.append(word)
    if set(params) != set(range(len(lowered.arguments.types))):
        return None
    own = iter([place for place in memory.places if not place.buffers])
    for site, kernel in enumerate(code.sites):
        if lowered.scratch[kernel]:
            template[layout.scratch(site)] = next(own).offset
            inside.append(layout.scratch(site))
    known = {slot for _, slot in assembled.sizes}
    first = {step.target for step in entry.first_sizes(code)}
    later = computed_slots(Code(code.instructions[len(entry.first_sizes(code)) :], (), ()))
    known |= first - later
    results = []
    told = lowered.arguments.results
    for number, dims_of, dtype in zip(plan.results, assembled.results, told, strict=True):
        if plan.buffers[number].role is not Role.RESULT or any(slot in later for slot in dims_of):
            return None
        sizes = tuple(~layout.slot(slot) if slot in known else code.slots[slot] for slot in dims_of)
        if plan.buffers[number].dtype.numpy != dtype:
            sizes = sizes[:-1]  # a complex number was computed as two reals
        result = fastcall.PlainTensor(np.dtype(dtype), layout.buffer(number), sizes)
        home = plan.buffers[memory.homes.get(number, number)]
        if home.role is Role.PARAMETER:
            # the array of a donated argument, if that is the whole of it
            given = params[home.position]
            if (given.dtype, given.dims) != (result.dtype, result.dims):
                return None
            result = replace(result, argument=home.position)
        elif memory.homes.get(number, number) != number:
            return None
        results.append(result)
    if len(set(plan.results)) != len(plan.results):
        return None
    description = fastcall.Description(
        [params[n] for n in range(len(params))],
        results,
        template,
        bounds,
        native.run,
        general,
        memory.peak,
        inside,
        native.sizes,
    )
    kept = description, native
    return fastcall.builtin(
        lowered.arguments.function, support().address("fast_call"), description.address, kept
    )


def _only_complex(lowered: Lowered) -> bool:
    """Whether what is in another guise is complex numbers as pairs of reals: the same bytes."""
    plan, arguments = lowered.plan, lowered.arguments
    given = [
        (buffer.dtype.numpy, arguments.types[buffer.position].dtype.numpy)
        for buffer in plan.buffers
        if buffer.role is Role.PARAMETER
    ]
    results = [
        (plan.buffers[n].dtype.numpy, dtype) for n, dtype in zip(plan.results, arguments.results, strict=True)
    ]
    return all(own == told or told.kind == "c" for own, told in (*given, *results)) and not any(
        type.quant is not None for type in arguments.types
    )


def computed_slots(code: Code) -> set[int]:
    """Slots that instructions write."""
    return {i.target for i in code.instructions if isinstance(i, Calculate | Read)}


def kernel_call(program: Program, *, scratch: bool = False) -> KernelCall:
    """A kernel as machine code, its blocks one after another on this thread."""
    from planish.codegen import llvm, symbols
    from planish.codegen.blocks import points
    from planish.runtime import cpu

    own = llvm.signature(program)
    integers = len(own.variables) + len(own.specials)
    module = cpu.CompiledModule(llvm.render(program, scratch=scratch, avx512=cpu.host().avx512))
    function = module.function(symbols.kernel(program.name), len(own.buffers), integers, scratch=scratch)
    sizes = {special.name: points(special) for special in program.specials}
    grid = list(itertools.product(*(range(size) for size in sizes.values())))

    def call(arrays: Sequence[Array], values: Sequence[int], own: Array | None) -> None:
        pointers = [array.ctypes.data for array in arrays]
        last = () if own is None else (own.ctypes.data,)
        for place in grid:
            function(*pointers, *values, *place, *last)

    return call
