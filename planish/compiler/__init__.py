"""The compiler: strings the phases together. Read it as the table of contents of the journey.

lowered = lower(function)          PTIR → passes → plan of kernels → stages → LLIR
lowered.as_text("llir")            any level, as text
run = lowered.compile()            → LLVM → machine code
run(array, …)                      → results

What lowers is in `lowering`, what is read in `inspection`; both are imported when there is something to lower or to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Literal, get_args

from planish import ptir
from planish.collector import collector_off
from planish.compiler import compilation_cache
from planish.compiler.arguments import Arguments
from planish.compiler.device_kinds import KINDS, accelerator, kind_for, kind_of
from planish.compiler.executable import Cost, Executable, KernelInfo
from planish.compiler.native import Backend
from planish.compiler.observer import observer
from planish.compiler.progress import ProgressLine
from planish.compiler.reproducers import reproducible
from planish.config import current
from planish.errors import PassError, PlanishError
from planish.records import dataclass
from planish.schedule.memory import Memory, Sharing, layout
from planish.schedule.plan import Plan, ReadyKernel, Role, Rolled
from planish.target import Target
from planish.target import find as find_target

if TYPE_CHECKING:
    from planish.compiler.scheduling import ScheduleChoice
    from planish.llir.program import Program
    from planish.optimize.why import Why
    from planish.ptir.passes import Passes
    from planish.runtime.entry import NativeKernel
    from planish.runtime.grid import GridKernel
    from planish.runtime.kernels import Observer

__all__ = [
    "PIPELINE", "Cost", "Executable", "KernelInfo", "Level", "Lowered", "Memory", "Program", "compile",
    "lower",
]  # fmt: skip

Level = Literal["ptir", "plan", "uop", "schedule", "llir", "llvm", "c", "asm", "cuda", "ptx", "sass"]
PIPELINE: Final = "inline,expand,expand-complex,fixpoint(canonicalize,cse),dce"
"""What runs before a function is cut into kernels: composite ops become others, then what repeats goes."""


@dataclass(frozen=True)
class Lowered:
    """A function cut into kernels, each lowered to LLIR; every level can be read."""

    function: ptir.Function
    """After the passes."""
    arguments: Arguments
    """What it takes, before the passes."""
    plan: Plan
    sharing: Sharing
    programs: tuple[Program, ...]
    """One per kernel of the plan."""
    target: Target
    choices: tuple[ScheduleChoice, ...] = field(default_factory=tuple)
    """The schedule of each kernel that the function was cut into, and who chose it."""
    images: tuple[Callable[[], bytes], ...] | None = field(default=None, repr=False, compare=False)
    """The object code of each kernel, if it was compiled on the way."""
    keys: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Under which the cache has it, if that is known."""
    origins: tuple[int, ...] = field(default=(), repr=False)
    """By kernel of the plan, its number among all that the function was cut into; kernels of loops come behind those."""
    rolled: tuple[Rolled, ...] = ()
    """The loops that are kernels."""
    kept: tuple[str, ...] = ()
    """Of the counted loops that are not, why."""
    if TYPE_CHECKING:
        chosen: ClassVar[tuple[ScheduleChoice, ...]]
        """The same as it is kept: nothing is chosen yet for ready kernels."""
    ready: tuple[ReadyKernel | None, ...] = ()
    """By kernel, how ready-made code runs it; empty: all are compiled."""
    source: ptir.Function | None = field(default=None, repr=False, compare=False)
    """The function before the passes, with the user's lines, if it was compiled here."""

    def __repr__(self) -> str:
        # Without what was kept but not read yet.
        return f"<lowered for {self.target.name}: {len(self.plan.kernels)} kernels>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """What was kept but not read yet (`compilation_cache.load`): asked for, it is read."""
            rest = self.__dict__.get("_rest")
            if rest is None and name == "chosen":
                return self.choices
            if rest is None or name not in compilation_cache.LATER:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            rest(name)
            return self.__dict__[name]

    @property
    def schedule(self) -> Plan:
        """The plan."""
        return self.plan

    # What a call needs to know of the kernels; it comes with what was kept, and need not be asked of programs then.

    @cached_property
    def scratch(self) -> tuple[int, ...]:
        """The bytes that each kernel takes from the arena for itself; on a GPU, LOCAL memory is a block's own."""
        if self.target.is_gpu:
            return (0,) * len(self.programs)
        from planish.compiler.launch_parameters import scratch_of

        return tuple(map(scratch_of, self.programs))

    @cached_property
    def variables(self) -> tuple[tuple[str, ...], ...]:
        """The sizes that each kernel is told."""
        return tuple(tuple(variable.name for variable in program.variables) for program in self.programs)

    @cached_property
    def calls(self) -> tuple[NativeKernel, ...]:
        """How each kernel is called as machine code."""
        from planish.compiler.launch_parameters import native_kernel

        pairs = enumerate(zip(self.programs, self.scratch, strict=True))
        return tuple(native_kernel(f"k{number}", *pair) for number, pair in pairs)

    @cached_property
    def launches(self) -> tuple[GridKernel, ...]:
        """How each kernel is launched on a GPU."""
        if not self.target.is_gpu:
            return ()
        return accelerator(self.target.device).launches(self)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the function takes and gives just what its caller knows, nothing in another guise."""
        return self.arguments.matches(self.function)

    def layout(self, sizes: Mapping[str, int]) -> Memory:
        """The memory of a call at given sizes."""
        return layout(self.plan, self.sharing, sizes, self.scratch)

    @cached_property
    def memory(self) -> Memory:
        """The memory of a call at the largest sizes."""
        return self.layout({})

    def choice(self, number: int) -> ScheduleChoice:
        """Who scheduled a kernel, and how; of a loop, that it is one."""
        origin = self.origins[number]
        if origin < len(self.choices):
            return self.choices[origin]
        from planish.compiler.scheduling import ScheduleChoice

        return ScheduleChoice(origin=self.rolled[origin - len(self.choices)].because)

    @cached_property
    def stages(self) -> list[list[tuple[str, str]]]:
        """Per kernel that the function was cut into: (stage, text of the graph after it). Lowered once more to be looked at; compiling prints nothing."""
        from planish.compiler import inspection

        return inspection.stages_of(self)

    @cached_property
    def explained(self) -> tuple[Why, ...]:
        """Per kernel: its actions with their reasons, and what the cost model expects. Worked out when asked for."""
        from planish.compiler import inspection

        return inspection.explained(self)

    def as_text(self, level: str) -> str:
        """The program at a level: ptir, plan, uop, uop:NN (after that stage), schedule, llir; llvm, c or asm; of a GPU cuda, ptx or sass."""
        if level == "ptir":
            return ptir.print(self.function)
        if any(self.ready):
            return self.in_full.as_text(level)
        if level == "plan":
            return self.plan.as_text(self.sharing.homes)
        if level == "schedule":
            from planish.compiler import inspection

            return inspection.schedules_of(self)
        if level == "uop":
            return "\n".join(kernel[0][1] for kernel in self.stages)
        if level.startswith("uop:"):
            return "\n".join(self._after(kernel, level[4:]) for kernel in self.stages)
        if level == "llir" or any(level in row.levels for row in KINDS.values()):
            from planish.compiler import inspection

            return inspection.text_of_kernels(self, level)
        raise PlanishError(
            f"unknown level {level!r}", remedy=f"one of {', '.join(get_args(Level))}, or uop:NN"
        )

    @staticmethod
    def _after(kernel: Sequence[tuple[str, str]], number: str) -> str:
        for stage, text in kernel:
            if stage == number:
                return text
        raise PlanishError(
            f"no stage {number}", remedy="one of " + ", ".join(stage for stage, _ in kernel[1:])
        )

    def symbol(self, number: int) -> str:
        """What the code of a kernel calls it."""
        return "kernel" if not self.ready or self.ready[number] is None else "routine"

    @cached_property
    def in_full(self) -> Lowered:
        """The same function with every kernel lowered, none of them ready-made: what `lower` gives."""
        if not any(self.ready):
            return self
        from planish.compiler.lowering import lower_for

        donated = [b.position for b in self.plan.buffers if b.role is Role.PARAMETER and b.donated]
        return lower_for(self.function, self.target, None, donated, True, None)

    def compile(self, backend: Backend = "llvm", *, device: str | None = None) -> Executable:
        """Machine code: by LLVM, or by the system's C compiler ("c"); for a GPU by NVRTC, to run on a device such as `cuda:0`."""
        kind, number = kind_of(self.target.device if device is None else device)
        return kind.load(self if backend == "llvm" else self.in_full, number, backend)

    def interpreted(self, observer: Observer | None = None) -> Executable:
        """The same plan, its kernels executed by the LLIR interpreter; the observer hears what each run of one did."""
        from planish.runtime import kernels

        calls = [kernels.interpreted(program, observer) for program in self.in_full.programs]
        return Executable(self.in_full, calls)


def prepare(
    function: ptir.Function | ptir.Program, passes: Passes | None, *, routines: bool = False
) -> ptir.Function:
    """The entry of a copy of a program, after the passes; `routines`: for a machine that has some."""
    program = function.clone() if isinstance(function, ptir.Program) else ptir.Program([function.clone()])
    if passes is None:
        return program.entry
    manager = observer().passes(ptir.PassManager.of(passes))
    manager.run(program, routines=routines)
    if not manager.ships:
        # A mistake in a pass of the user's own is told as such, not as whatever it leads to later on.
        ptir.verify(program)
        _check_entry(function.entry if isinstance(function, ptir.Program) else function, program.entry)
    return program.entry


def _check_entry(before: ptir.Function, after: ptir.Function) -> None:
    was, now = ((len(each.params), len(each.results)) for each in (before, after))
    if was != now:
        raise PassError(
            f"the passes have changed what @{before.name} takes and gives: {was[0]} parameters and {was[1]} results "
            f"have become {now[0]} and {now[1]}",
            remedy="a pass may rewrite a function, not its signature",
        )


def lower(
    function: ptir.Function | ptir.Program,
    target: str | Target | None = None,
    *,
    passes: Passes | None = PIPELINE,
    donate: Iterable[int] = (),
    reuse: bool = True,
    loops: bool = True,
) -> Lowered:
    """Cut a function into kernels and lower each to LLIR, for a target (by default the one in the settings).

    The function is not changed: `passes` run on a copy (None: as it is). They are a pipeline's text, passes, or several of both:
    `[PIPELINE, MyPass()]`. `donate` are the parameters whose memory a call may overwrite and give back as a result. Without `reuse`,
    every buffer has memory of its own; without `loops`, counted loops stay loops of launches.
    """
    if not isinstance(target, Target):
        target = find_target(current().target if target is None else target)
    with collector_off(), reproducible(function, target, "" if passes is None else _text(passes)):
        from planish.compiler.lowering import lower_for

        return lower_for(function, target, passes, donate, reuse, None, loops=loops)


def compile(
    function: ptir.Function | ptir.Program,
    target: str | Target | None = None,
    *,
    passes: Passes | None = PIPELINE,
    donate: Iterable[int] = (),
    layout: str = "row_major",
    vector_width: int | str = "native",
    device: str = "cpu",
) -> Executable:
    """Machine code for a function: from the compilation cache, or lowered, compiled and kept there.

    `passes` are those of `lower`. What passes of your own have done is not kept: nothing says when they have changed.
    `layout` is `row_major` or `column_major`: whether the last or the first index of parameters and results runs fastest.
    `vector_width` is how many lanes of the widest dtype a register has; by default what the target has.
    `device` is where it runs: `cpu`, or a GPU such as `cuda:0`, which then is the target.
    """
    if device != "cpu":
        kind, number = kind_of(device)
        target = kind.target(number)
    if not isinstance(target, Target):
        target = find_target(current().target if target is None else target)
    donated = frozenset(donate)
    if (layout, vector_width) != ("row_major", "native"):
        return _compile_in_layout(function, target, passes, donated, layout, vector_width)
    entry = function.entry if isinstance(function, ptir.Program) else function
    with (
        collector_off(),
        ProgressLine(f"compiling {entry.name}"),
        reproducible(function, target, "" if passes is None else _text(passes)),
    ):
        text = _text(passes)
        written = "" if text is None else ptir.print(function)
        lowered = kept(function, target, passes, donated, written)
        if lowered is None:
            from planish.compiler.lowering import lower_for

            lowered = lower_for(function, target, passes, donated, True, kind_for(target).code_maker(target))
            if text is not None:
                # asked for now: searches may have added to what the key follows from
                compilation_cache.save(compilation_cache.key(written, target, text, donated), lowered)
        object.__setattr__(lowered, "source", entry)
        executable = lowered.compile(device=device if target.is_gpu else None)
        if current().debug == "kernels":
            executable.tell(prepare(function, passes, routines=target.routines))
        observer().compiled(executable)
        return executable


def kept(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: Passes | None,
    donate: Iterable[int],
    written: str = "",
) -> Lowered | None:
    """What the compilation cache has of a function; `written` is its text, where that is at hand."""
    text = _text(passes)
    if text is None:
        return None
    where = compilation_cache.key(written or function, target, text, donate)
    return compilation_cache.load(where, function, target)


def _text(passes: Passes | None) -> str | None:
    """The passes as text, if that says all there is to know of them: not if some are the user's own."""
    if passes is None or passes == PIPELINE:
        return str(passes)
    manager = ptir.PassManager.of(passes)
    return str(manager) if manager.ships else None


def _compile_in_layout(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: Passes | None,
    donate: Iterable[int],
    layout: str,
    vector_width: int | str,
) -> Executable:
    from planish.compiler.layouts import ColumnMajor, in_layout, layout_of, with_lanes

    entry = prepare(function, "inline")
    chosen = layout_of(layout)
    executable = compile(
        in_layout(entry, chosen), with_lanes(target, vector_width, entry), passes=passes, donate=donate
    )
    return executable if chosen.value == "row_major" else ColumnMajor(executable.lowered)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name != "Program":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from planish.llir.program import Program

        return Program
