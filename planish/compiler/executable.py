"""A compiled function: called with arrays, it runs its plan and gives new arrays."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler.arguments import flat
from planish.compiler.assemble import assemble
from planish.compiler.native import Backend, NativeCode, fast_call
from planish.compiler.object_code import blocks, threads
from planish.compiler.reproducers import keep_program
from planish.errors import InternalError, PlanishError
from planish.records import dataclass
from planish.runtime.plan import Code, KernelCall, PlanState, run
from planish.schedule.memory import ALIGNMENT, Memory, elements
from planish.schedule.plan import Role

if TYPE_CHECKING:
    from planish.compiler import Lowered
    from planish.compiler.profile import Profile, TimedWalk
    from planish.llir.program import Program
    from planish.optimize.expected import Estimate
    from planish.optimize.why import Why

Array = NDArray[Any]
_LAYOUTS: Final = 64
"""Layouts of dynamic sizes that are kept: as many sizes as a server sees in turn."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One kernel of an executable."""

    name: str
    launches: int
    """How often the plan has it, loops counted once."""
    program: Program
    lowered: Lowered | None = field(default=None, repr=False, compare=False)
    number: int = field(default=0, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.launches} launches, {self.flops} flops, {self.nbytes} bytes>"

    @property
    def why(self) -> Why:
        """Its schedule: each action with its reason, and what the cost model expects of it."""
        return _why(self.lowered, self.number)

    @property
    def cost(self) -> Estimate:
        """What the cost model expects of one launch: bytes beyond each cache, flops, what bounds it."""
        return self.why.cost

    @property
    def flops(self) -> int:
        """Float arithmetic of one launch, at the largest sizes."""
        return flops_of(self.program)

    @property
    def nbytes(self) -> int:
        """Of the buffers it reads and writes, each counted once."""
        return sum(buffer.nbytes for buffer in self.program.params)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call does, at the largest sizes and with every loop of the plan and every branch run once."""

    launches: int
    flops: int
    """Arithmetic on floats."""
    nbytes: int
    """Of the buffers that kernels read and write, each counted once per launch."""
    lowered: Lowered | None = field(default=None, repr=False, compare=False)

    @property
    def kernels(self) -> dict[str, Estimate]:
        """What the cost model expects of one launch of each kernel: bytes, flops, intensity, what bounds it."""
        explained = () if self.lowered is None else self.lowered.explained
        return {why.kernel: why.cost for why in explained}


def _why(lowered: Lowered | None, number: int) -> Why:
    if lowered is None or number >= len(lowered.explained):
        raise PlanishError("it is not known how this kernel was scheduled", remedy="compile it once more")
    return lowered.explained[number]


class Executable:
    """A compiled function: call it with one array per parameter."""

    def __init__(
        self, lowered: Lowered, calls: Sequence[KernelCall] | None = None, backend: Backend = "llvm"
    ) -> None:
        """`calls` run the kernels one by one; without them the function is machine code as a whole, by a back end."""
        self.lowered = lowered
        self._calls = () if calls is None else tuple(calls)
        assembled = assemble(lowered.plan, lowered.variables, lowered.arguments.names, lowered.ready)
        self._code = assembled.code
        self._sizes = assembled.sizes
        self._results = assembled.results
        self._layouts: dict[tuple[int, ...], _CallLayout] = {}
        blocks().configure()
        self._native = NativeCode(lowered, assembled, backend) if calls is None else None
        self._backend: str = backend if calls is None else "llir-interpreter"
        builtin = None if self._native is None else fast_call(lowered, assembled, self._native, weakly(self))
        self._fast = None if builtin is None else builtin.call
        self._threads = threads if self.is_parallel else alone
        self._kept = builtin
        self._told: Callable[[Sequence[object]], tuple[Array, ...]] | None = None

    def __repr__(self) -> str:
        plan = self.lowered.plan
        taken = f"{len(self.lowered.arguments.types)} arguments, {len(plan.results)} results"
        name = self.lowered.arguments.function
        return f"<executable {name}: {taken}, {len(plan.kernels)} kernels for {self.lowered.target.name}>"

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Its kernels, each once."""
        launches = [launch.kernel for launch in self.lowered.plan.launches]
        return tuple(
            KernelInfo(program.name, launches.count(number), program, self.lowered, number)
            for number, program in enumerate(self.lowered.programs)
        )

    @property
    def memory(self) -> Memory:
        """Its memory, at the largest sizes."""
        return self.lowered.memory

    @property
    def cost(self) -> Cost:
        """What a call takes."""
        plan, programs = self.lowered.plan, self.lowered.programs
        flops = [flops_of(program) for program in programs]
        return Cost(
            len(plan.launches),
            sum(flops[launch.kernel] for launch in plan.launches),
            sum(buffer.nbytes for launch in plan.launches for buffer in programs[launch.kernel].params),
            self.lowered,
        )

    def why(self) -> str:
        """Why each kernel has the schedule it has, and which loops are kernels, as text."""
        return "\n".join([*map(str, self.lowered.explained), *self.lowered.kept])

    @property
    def builtin(self) -> Callable[..., tuple[Array, ...]] | None:
        """What plain arrays may go to straight away, behind the number of threads; the executable has to stay alive."""
        return self._fast

    @property
    def native(self) -> NativeCode | None:
        """Its machine code; None if its kernels are called one by one."""
        return self._native

    @property
    def code(self) -> Code:
        """The way through its kernels."""
        return self._code

    @property
    def is_parallel(self) -> bool:
        """Whether more than one thread could be of use."""
        return self._native is not None and self._native.parallel

    @property
    def is_fast(self) -> bool:
        """Whether a call with plain arrays goes straight to machine code."""
        return self._fast is not None

    def __call__(self, *arrays: object) -> tuple[Array, ...]:
        """The results, in new arrays; in those of donated parameters where they fit."""
        if self._fast is not None and ptir.trace.current_sink() is None:
            return self._fast(self._threads(), *arrays)
        return self.general(*arrays)

    def general(self, *arrays: object) -> tuple[Array, ...]:
        """A call with whatever is given: arrays of any layout, sizes seen for the first time, mistakes."""
        if self._told is not None:
            return self._told(arrays)
        memory, slots, scratch = self.begin(arrays)
        try:
            if ptir.trace.current_sink() is None:
                self._compute(memory, slots, scratch)
            else:
                # who watches wants to see the function; from the cache it is text that takes a while to read
                function = self.lowered.function
                with ptir.trace.execution(
                    ptir.Program([function]),
                    targets=[value.id for value in function.results],
                    backend=self._backend,
                ) as running:
                    running.counters["kernels"] = self._compute(memory, slots, scratch)
        except InternalError as error:
            keep_program(error, self.lowered)
            raise
        return self.collected(memory, slots)

    def tell(self, function: ptir.Function | None) -> None:
        """From now on every run tells its kernels, by the lines of the function it was made of."""
        from planish.compiler.launch_log import LoggedRuns

        self.watch_runs(LoggedRuns(self, function))

    def watch_runs(self, run: Callable[[Sequence[object]], tuple[Array, ...]] | None) -> None:
        """From now on every call is made by somebody who watches it, by way of `timed_walk`; None: by nobody."""
        self._fast, self._told = None, run

    @property
    def is_watched(self) -> bool:
        """Whether somebody makes its calls."""
        return self._told is not None

    def collected(self, memory: Sequence[Array], slots: Sequence[int]) -> tuple[Array, ...]:
        """The results of a call, out of its memory."""
        results = []
        told = self.lowered.arguments.results
        for number, dims, dtype in zip(self.lowered.plan.results, self._results, told, strict=True):
            shape = tuple([slots[slot] for slot in dims])
            array = memory[number][: math.prod(shape)].reshape(shape)
            if array.dtype != dtype:  # a complex number was computed as two reals
                array = array.view(dtype).reshape(shape[:-1] if dtype.kind == "c" else shape)
            results.append(array)
        return tuple(results)

    def _compute(self, memory: list[Array], slots: list[int], scratch: list[Array | None]) -> int:
        """Run the plan; how many kernels were launched."""
        if self._native is not None:
            self._native(memory, slots, scratch)
            return len(self.lowered.plan.launches)
        state = PlanState(memory, slots, self._calls, scratch)
        run(self._code, state)
        return state.calls

    def begin(self, arrays: Sequence[object]) -> tuple[list[Array], list[int], list[Array | None]]:
        """What a call with these arguments starts from: an array per buffer, integers by slot, scratch memory by launch."""
        given, sizes = self.lowered.arguments.check(arrays)
        slots = list(self._code.slots)
        for name, slot in self._sizes:
            slots[slot] = sizes[name]
        memory, scratch = self._layout(sizes).allocate(given)
        return memory, slots, scratch

    def profile(self, *arrays: object, repeat: int = 20, function: ptir.Function | None = None) -> Profile:
        """How long each launch of a call takes: warmed up, so often, the median. Data first, `str()` for a table.

        Without arrays, on made-up ones of the largest sizes. `function` is the one that was compiled, after the passes, with the lines
        that are to be named: code from the cache does not know them.
        """
        from planish.compiler.profile import measure

        return measure(self, arrays, repeat, function)

    def timed_walk(self, given: Sequence[object]) -> TimedWalk:
        """What runs a call launch by launch, each of them timed."""
        if self._native is None:
            raise PlanishError("only machine code has a profile", remedy="compile it")
        from planish.compiler.profile import CpuWalk

        return CpuWalk(self, self._native, given)

    def _layout(self, sizes: Mapping[str, int]) -> _CallLayout:
        key = tuple(sizes.values())
        layout = self._layouts.get(key)
        if layout is None:
            layout = _CallLayout(self.lowered, self._code.sites, sizes)
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = layout
        return layout


class _CallLayout:
    """Where the buffers of a call are, for one set of sizes."""

    def __init__(self, lowered: Lowered, sites: Sequence[int], sizes: Mapping[str, int]) -> None:
        memory = lowered.layout(sizes)
        plan = lowered.plan
        self.peak = memory.peak
        self.buffers = plan.buffers
        self.counts = [elements(buffer.size, sizes) for buffer in plan.buffers]
        self.homes = memory.homes
        offsets = memory.offsets
        self.offsets = [offsets.get(number) for number in range(len(plan.buffers))]
        # blocks of no buffer are the scratch of the calls, in their order
        own = iter([place for place in memory.places if not place.buffers])
        needs = lowered.scratch
        self.scratch = [next(own) if needs[kernel] else None for kernel in sites]

    def allocate(self, given: Sequence[Array]) -> tuple[list[Array], list[Array | None]]:
        """An array per buffer, and the scratch memory of each kernel call."""
        raw = blocks().empty(self.peak + ALIGNMENT)
        start = -raw.ctypes.data % ALIGNMENT
        arena = raw[start : start + self.peak]
        memory: list[Array] = []
        for number, buffer in enumerate(self.buffers):
            dtype, count, offset = buffer.dtype.numpy, self.counts[number], self.offsets[number]
            home = self.homes.get(number, number)
            if buffer.role is Role.PARAMETER:
                memory.append(flat(given[buffer.position], dtype, own=buffer.donated))
            elif buffer.constant is not None:
                memory.append(buffer.constant.reshape(-1))
            elif home != number:
                memory.append(_NOTHING)
            elif offset is not None:
                memory.append(arena[offset : offset + count * dtype.itemsize].view(dtype))
            else:
                wanted = count * dtype.itemsize if buffer.role is Role.RESULT else 0
                memory.append(blocks().empty(wanted).view(dtype))
        for number, home in self.homes.items():
            if number != home:
                memory[number] = memory[home].view(self.buffers[number].dtype.numpy)
        scratch = [
            None if place is None else arena[place.offset : place.offset + place.nbytes]
            for place in self.scratch
        ]
        return memory, scratch


def alone() -> int:
    """How many threads a call takes that takes one."""
    return 1


def weakly(executable: Executable) -> Callable[..., tuple[Array, ...]]:
    """What its builtin falls back to.

    It does not keep the executable alive: memory goes with the last who knows it, not with the next collection.
    """
    known = weakref.ref(executable)

    def general(*arrays: object) -> tuple[Array, ...]:
        executable = known()
        if executable is None:
            raise InternalError("a compiled function is gone while it is called")
        return executable.general(*arrays)

    return general


_NOTHING: Final = np.empty(0, np.uint8)


def flops_of(program: Program) -> int:
    """Float arithmetic of a kernel at the largest sizes."""
    from planish.codegen.blocks import points
    from planish.compiler.launch_parameters import runs
    from planish.llir.program import Compute, Ops

    blocks = {special.name: points(special) for special in program.specials}
    return sum(
        times * i.result.dtype.lanes * (2 if i.op is Ops.MULACC else 1)
        for i, times in runs(program, math.prod(blocks.values()))
        if isinstance(i, Compute) and i.result.dtype.is_float
    )
