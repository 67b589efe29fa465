"""Where a function goes wrong: the passes, the schedule, a stage, LLIR or the machine code.

`run_plan` executes the plan of a function with every kernel given to a callable, as it was scheduled: whatever wants to look at
kernels at work (bisection, tests of the stages) hangs on that. `bisect` takes each kernel through the stages at its first
launches and stops at the first form that does something else than the kernel before it; the results in the end are held
to the PTIR interpreter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.compiler.arguments import Arguments
from planish.compiler.device_kinds import kind_for
from planish.compiler.executable import Executable
from planish.compiler.progress import ProgressLine, report
from planish.compiler.scheduling import choose
from planish.dtypes import PtrDType
from planish.llir.interpret import interpret as interpret_llir
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Buffer, LaunchVariable, Program, Register
from planish.ptir.passes.bisect import PassCulprit, bisect_passes
from planish.runtime.plan import KernelCall
from planish.schedule.plan import Kernel
from planish.schedule.planner import plan as make_plan
from planish.schedule.sharing import share
from planish.stages import pipeline
from planish.stages.bisection import Finding, close, difference, first_wrong, written_by
from planish.stages.symptoms import CODE, LLIR, SCHEDULE, row_for, row_text
from planish.target import Target, host
from planish.uop.node import Table
from planish.uop.ops import Ops, Variable

if TYPE_CHECKING:
    from planish.ptir.passes import Passes

Array = NDArray[Any]
Memory = dict[int, Array]
Runner = Callable[[Kernel, Memory, Mapping[str, int]], Mapping[int, Array]]
"""Runs a kernel on memory by slot and values of its variables; gives the memory afterwards."""

_LAUNCHES: Final = 4
"""So many launches of one kernel are looked at; in a loop, all the others are only run."""
PASSES: Final = -1
"""Where a finding is when the passes over PTIR already changed the results."""


def _signature(kernel: Kernel) -> Program:
    """A program without instructions, that takes what a kernel takes."""
    nodes = kernel.sink.toposort()
    buffers = sorted((n for n in nodes if n.op is Ops.DEFINE_GLOBAL), key=lambda n: cast("int", n.arg))
    params = []
    for node in buffers:
        dtype = cast("PtrDType", node.dtype)
        params.append(Buffer.parameter(cast("int", node.arg), dtype.base, dtype.size))
    by_name = {cast("Variable", n.arg).name: n for n in nodes if n.op is Ops.DEFINE_VAR}
    variables = []
    for number, name in enumerate(kernel.variables):
        _, low, high = cast("Variable", by_name[name].arg) if name in by_name else (name, 0, 0)
        variables.append(LaunchVariable(Register(number, ptir.tensor("i64", ()).dtype), name, low, high))
    return Program(kernel.name, tuple(params), (), (), tuple(variables))


def run_plan(
    function: ptir.Function | ptir.Program,
    arrays: Sequence[Array],
    target: Target,
    run: Runner,
    passes: Passes | None = compiler.PIPELINE,
) -> tuple[Array, ...]:
    """The results of a function whose kernels, as they are scheduled, are run by `run`.

    Nothing shares memory, so that a kernel changes what it writes and nothing else.
    """
    prepared = compiler.prepare(function, passes)
    with Table() as table:
        plan = make_plan(prepared, table, target=target)
        programs = tuple(map(_signature, plan.kernels))
        arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
        lowered = compiler.Lowered(prepared, arguments, plan, share(plan, reuse=False), programs, target)

        planned = Counter(launch.kernel for launch in plan.launches)
        total, looked = sum(min(count, _LAUNCHES) for count in planned.values()), Counter[str]()

        def tell(name: str) -> None:
            done = sum(min(count, _LAUNCHES) for count in looked.values())
            looked[name] += 1
            report(min(done, total), total, f"kernel {name}")

        def call(kernel: Kernel, program: Program) -> KernelCall:
            slots = [buffer.number for buffer in program.params]
            written = written_by(kernel.sink)

            def launch(memory: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
                tell(kernel.name)
                given = dict(zip(slots, memory, strict=True))
                after = run(kernel, given, dict(zip(kernel.variables, values, strict=True)))
                for slot in written:
                    given[slot][...] = after[slot]

            return launch

        calls = [call(kernel, program) for kernel, program in zip(plan.kernels, programs, strict=True)]
        return Executable(lowered, calls)(*arrays)


class KernelCulprit(NamedTuple):
    """What was found: where (see `Finding`), and in which kernel, if in one."""

    finding: Finding
    kernel: str | None = None
    wrong_pass: PassCulprit | None = None
    """Of passes that change the result: the first that does."""


class _Difference(Exception):
    """Carries a culprit out of a plan that is being run."""

    def __init__(self, culprit: KernelCulprit) -> None:
        self.culprit = culprit


def bisect(
    function: ptir.Function | ptir.Program,
    arrays: Sequence[Array],
    target: Target | None = None,
    *,
    rules: bool = False,
    passes: Passes | None = compiler.PIPELINE,
) -> KernelCulprit | None:
    """The first thing that makes the results of a function differ from what it means; None if nothing does."""
    target = host() if target is None else target
    machine = pipeline.Machine(target, lambda sink: choose(sink, target).actions)
    meant = [np.asarray(each) for each in ptir.interpret(function, list(arrays))]
    try:
        prepared = compiler.prepare(function, passes)
    except Exception as error:  # noqa: BLE001 - whatever a bug raises
        # the notes name the pass, and the pattern that was tried
        said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        return KernelCulprit(Finding(PASSES, "passes", "crash", "\n".join(said)))
    what = _differs(meant, _after_passes(prepared, arrays, meant))
    if what is not None:
        wrong = _wrong_pass(function, passes, arrays, meant)
        return KernelCulprit(Finding(PASSES, "passes", "values", what), wrong_pass=wrong)
    launches: dict[str, int] = {}

    def run(kernel: Kernel, memory: Memory, variables: Mapping[str, int]) -> Mapping[int, Array]:
        launches[kernel.name] = launches.get(kernel.name, 0) + 1
        expected, finding = first_wrong(
            kernel.sink, machine, memory, variables, rules=rules, stages=launches[kernel.name] <= _LAUNCHES
        )
        if finding is None and expected is not None and launches[kernel.name] <= _LAUNCHES:
            finding = _as_llir(kernel, machine, memory, variables, expected)
        if finding is not None:
            raise _Difference(KernelCulprit(finding, kernel.name))
        return cast("Mapping[int, Array]", expected)

    try:
        results = run_plan(function, arrays, target, run, passes)
    except _Difference as difference:
        return difference.culprit
    except Exception as error:  # noqa: BLE001 - whatever a bug raises
        return KernelCulprit(Finding(SCHEDULE, "scheduling", "crash", f"{type(error).__name__}: {error}"))
    what = _differs(meant, results)
    if what is not None:
        return KernelCulprit(Finding(SCHEDULE, "scheduling", "values", what))
    return _as_code(function, arrays, target, passes, meant)


def _after_passes(
    prepared: ptir.Function | ptir.Program, arrays: Sequence[Array], meant: Sequence[Array]
) -> list[Array]:
    """What the function means after the passes, to which complex numbers are pairs of reals."""
    given = []
    entry = prepared.entry if isinstance(prepared, ptir.Program) else prepared
    for param, array in zip(entry.params, arrays, strict=True):
        dtype = param.type.dtype.numpy
        pairs = (
            np.ascontiguousarray(array).view(dtype).reshape(*array.shape, 2)
            if array.dtype.kind == "c"
            else array
        )
        given.append(pairs if dtype != array.dtype else array)
    results = []
    for computed, want in zip(ptir.interpret(prepared, given), meant, strict=True):
        result = np.asarray(computed)
        if result.dtype != want.dtype and want.dtype.kind == "c":
            result = np.ascontiguousarray(result).view(want.dtype).reshape(result.shape[:-1])
        results.append(result)
    return results


def _wrong_pass(
    function: ptir.Function | ptir.Program,
    passes: Passes | None,
    arrays: Sequence[Array],
    meant: Sequence[Array],
) -> PassCulprit | None:
    """The first pass after which the interpreter gives something else."""

    def good(program: ptir.Program) -> bool:
        return _differs(meant, _after_passes(program, arrays, meant)) is None

    if passes is None:
        return None
    program = function.clone() if isinstance(function, ptir.Program) else ptir.Program([function.clone()])
    return bisect_passes(program, ptir.PassManager.of(passes).passes, good)


def row_of(finding: Finding) -> str:
    """The row of the table of symptoms that belongs to a finding."""
    return row_text(row_for(finding.stage, finding.kind))


def _as_llir(
    kernel: Kernel, machine: pipeline.Machine, memory: Memory, variables: Mapping[str, int], expected: Memory
) -> Finding | None:
    copies = {slot: array.copy() for slot, array in memory.items()}
    try:
        program = lower_to_llir(kernel.name, pipeline.run(kernel.sink, machine))
        given = [copies[buffer.number] for buffer in program.params]
        interpret_llir(program, given, {v.name: variables[v.name] for v in program.variables})
    except Exception as error:  # noqa: BLE001 - whatever a bug raises
        return Finding(LLIR, "LLIR", "crash", f"{type(error).__name__}: {error}")
    what = difference(expected, copies)
    return None if what is None else Finding(LLIR, "LLIR", "values", what)


def _as_code(
    function: ptir.Function | ptir.Program,
    arrays: Sequence[Array],
    target: Target,
    passes: Passes | None,
    meant: Sequence[Array],
) -> KernelCulprit | None:
    """Machine code, if it is for the machine we are on: of a GPU, if there is one."""
    if target.name not in {host().name, "scalar"} and not (target.is_gpu and kind_for(target).count()):
        return None
    try:
        with ProgressLine("compiling"):
            executable = compiler.lower(function, target, passes=passes).compile()
        results = [np.asarray(array) for array in executable(*arrays)]
    except Exception as error:  # noqa: BLE001 - whatever a bug raises
        return KernelCulprit(Finding(CODE, "code generation", "crash", f"{type(error).__name__}: {error}"))
    what = _differs(meant, results)
    return None if what is None else KernelCulprit(Finding(CODE, "code generation", "values", what))


def _differs(meant: Sequence[Array], results: Sequence[Array]) -> str | None:
    for number, (want, have) in enumerate(zip(meant, results, strict=True)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return (
                f"result {number} is {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}"
            )
        wrong = ~close(want, have)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"result {number}: {int(wrong.sum())} of {want.size} elements differ, "
                f"the first at {list(at)}: {have[at]}, expected {want[at]}"
            )
    return None
