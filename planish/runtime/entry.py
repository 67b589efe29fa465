"""The code of a function as one native function, in LLVM IR: between two kernels nothing of Python runs.

`run` works on a frame of 64-bit words: a few of its own (`HEAD`), the integers of the code, the addresses of its buffers, and
the scratch memory of its calls. Every instruction of the code is a basic block. A kernel with a grid goes to the thread pool,
one chunk per point of the grid; so does a routine. A host instruction without one returns to Python, which does it and enters
again behind it. Loops and
long plans look at the clock now and then, and ask Python whether Ctrl-C was pressed.

What `run` returns: 0 at the end; `HOST + n` to have instruction n done in Python; `BAD_SIZE + n` if instruction n read a size
out of its bounds; `INTERRUPTED` with Python's exception set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planish.records import dataclass
from planish.runtime import plan

INTERRUPTED: Final = 1
HOST: Final = 1 << 32
BAD_SIZE: Final = 2 << 32

RESUME, DEADLINE, THREADS = range(3)
"""Words of the frame (`struct frame`): where to go on, when to look for signals next, and how many threads the call may use."""
HEAD: Final = 3
_LONG_NS: Final = 1_000_000
"""So much straight code, by estimate, and signals are looked for."""


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """A kernel as its callers see it: pointers, then integers, then the point of the grid, then perhaps scratch memory."""

    name: str
    buffers: int
    variables: int
    grid: tuple[int, ...] = ()
    """How many points there are along each special index."""
    scratch: bool = False
    work: int = 0
    """An estimate of the nanoseconds that one thread would need."""

    @property
    def declaration(self) -> str:
        """For a module that calls it."""
        kinds = ["ptr"] * self.buffers + ["i64"] * (self.variables + len(self.grid)) + ["ptr"] * self.scratch
        return f"declare void @{self.name}({', '.join(kinds)})\n"

    @property
    def points(self) -> int:
        """All points of the grid."""
        total = 1
        for size in self.grid:
            total *= size
        return total


@dataclass(frozen=True, slots=True)
class Result:
    """A result: its buffer and the slots of its sizes."""

    buffer: int
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Where things are in the frame of a code, in words."""

    slots: int
    buffers: int
    sites: int
    results: int = 0
    arguments: int = 0
    """Of the routine that has most."""

    def slot(self, number: int) -> int:
        """An integer of the code."""
        return HEAD + number

    def buffer(self, number: int) -> int:
        """The address of a buffer."""
        return HEAD + self.slots + number

    def scratch(self, site: int) -> int:
        """The scratch memory of a call."""
        return HEAD + self.slots + self.buffers + site

    def result(self, number: int) -> int:
        """Where a result was to be when the call began."""
        return HEAD + self.slots + self.buffers + self.sites + number

    def argument(self, number: int) -> int:
        """An argument of the routine that runs."""
        return HEAD + self.slots + self.buffers + self.sites + self.results + number

    @property
    def size(self) -> int:
        """The words of a frame."""
        return self.argument(self.arguments)


def layout_of(code: plan.Code, buffers: int, results: int) -> FrameLayout:
    """The frame of a code."""
    most = max(
        (i.native.words for i in code.instructions if isinstance(i, plan.CallHost) and i.native), default=0
    )
    return FrameLayout(len(code.slots), buffers, len(code.sites), results, most)


_DECLARATIONS: Final = """
declare void @pool_run(ptr, ptr, i64, i64, i64)
declare i32 @interrupted(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
"""The first two are native support (`planish.runtime.native`)."""


class _PlanWriter:
    """Writes the function."""

    def __init__(
        self,
        code: plan.Code,
        kernels: Sequence[NativeKernel],
        itemsizes: Sequence[int],
        homes: Mapping[int, int],
        results: Sequence[Result],
        routines: Mapping[str, str],
    ) -> None:
        self.code = code
        self.routines = routines
        self.homes = homes
        self.results = results
        self.kernels = kernels
        self.itemsizes = itemsizes
        self.layout = layout_of(code, len(itemsizes), len(results))
        self.lines: list[str] = []
        self.thunks: list[str] = []
        self.count = 0
        self.unasked = 0
        """Nanoseconds of straight code since the last look for signals."""

    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def word(self, number: int) -> str:
        """The place of a word of the frame."""
        return self.let(f"getelementptr i64, ptr %frame, i64 {number}")

    def slot(self, number: int) -> str:
        return self.let(f"load i64, ptr {self.word(self.layout.slot(number))}")

    def set_slot(self, number: int, value: str) -> None:
        self.emit(f"store i64 {value}, ptr {self.word(self.layout.slot(number))}")

    def buffer(self, number: int) -> str:
        return self.let(f"load ptr, ptr {self.word(self.layout.buffer(number))}")

    def go(self, position: int) -> None:
        self.emit(f"br label %i{position}")

    def write(self) -> str:
        instructions = self.code.instructions
        resumes = [
            n + 1 for n, i in enumerate(instructions) if isinstance(i, plan.CallHost) and not self.symbol(i)
        ]
        if resumes:
            start = self.let(f"load i64, ptr {self.word(RESUME)}")
            cases = " ".join(f"i64 {n}, label %i{n}" for n in resumes)
            self.emit(f"switch i64 {start}, label %begin [ {cases} ]")
            self.lines.append("begin:")
        self.begin()
        self.go(0)
        for position, instruction in enumerate(instructions):
            self.lines.append(f"i{position}:")
            self.instruction(position, instruction)
        self.lines.append(f"i{len(instructions)}:")
        self.finish()
        self.emit("ret i64 0")
        self.lines.append("stopped:")
        self.emit(f"ret i64 {INTERRUPTED}")
        body = "\n".join(self.lines)
        used = sorted({i.kernel for i in instructions if isinstance(i, plan.Call)})
        declared = "".join(self.kernels[number].declaration for number in used)
        symbols = sorted({self.symbol(i) for i in instructions if isinstance(i, plan.CallHost)} - {""})
        declared += "".join(f"declare void @{symbol}(ptr, i64)\n" for symbol in symbols)
        sizes = self.sizes()
        return f"{_DECLARATIONS}\n{declared}{''.join(self.thunks)}\ndefine i64 @run(ptr %frame) {{\n{body}\n}}\n{sizes}"

    def sizes(self) -> str:
        """What `run` begins with, by itself: the sizes that follow from those of the arguments."""
        self.lines = []
        for step in first_sizes(self.code):
            self.set_slot(step.target, self.calculated(step.op, self.slot(step.left), self.slot(step.right)))
        body = "\n".join(self.lines)
        return f"define void @sizes(ptr %frame) {{\n{body}\n  ret void\n}}\n" if self.lines else ""

    def begin(self) -> None:
        """Buffers that live in the array of another, and where results are to be."""
        for number, home in self.homes.items():
            if number != home:
                self.emit(f"store ptr {self.buffer(home)}, ptr {self.word(self.layout.buffer(number))}")
        for number, result in enumerate(self.results):
            self.emit(f"store ptr {self.buffer(result.buffer)}, ptr {self.word(self.layout.result(number))}")

    def finish(self) -> None:
        """A result that a loop has left elsewhere is brought to where it was to be."""
        swapped = {
            b for i in self.code.instructions if isinstance(i, plan.SwapBuffers) for b in (i.first, i.second)
        }
        swapped |= {i.buffer for i in self.code.instructions if isinstance(i, plan.Slice)}
        for number, result in enumerate(self.results):
            if self.homes.get(result.buffer, result.buffer) not in swapped and result.buffer not in swapped:
                continue
            place, wanted = (
                self.buffer(result.buffer),
                self.let(f"load ptr, ptr {self.word(self.layout.result(number))}"),
            )
            count = str(self.itemsizes[result.buffer])
            for dim in result.dims:
                count = self.let(f"mul i64 {count}, {self.slot(dim)}")
            self.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {wanted}, ptr {place}, i64 {count}, i1 false)")

    def instruction(self, position: int, i: plan.Instruction) -> None:
        match i:
            case plan.Call():
                self.call(i)
                self.unasked += self.kernels[i.kernel].work
                if self.unasked >= _LONG_NS and position + 1 < len(self.code.instructions):
                    self.unasked = 0
                    self.unless_interrupted(f"i{position + 1}")
                    return
            case plan.CopyBuffer(source, target, size):
                count = self.let(f"mul i64 {self.slot(size)}, {self.itemsizes[target]}")
                a, b = self.buffer(target), self.buffer(source)
                self.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {a}, ptr {b}, i64 {count}, i1 false)")
            case plan.SwapBuffers(first, second):
                a, b = self.buffer(first), self.buffer(second)
                for number, value in ((first, b), (second, a)):
                    self.emit(f"store ptr {value}, ptr {self.word(self.layout.buffer(number))}")
            case plan.Slice(buffer, base, index, size):
                elements = self.let(f"mul i64 {self.slot(index)}, {self.slot(size)}")
                count = self.let(f"mul i64 {elements}, {self.itemsizes[base]}")
                place = self.let(f"getelementptr i8, ptr {self.buffer(base)}, i64 {count}")
                self.emit(f"store ptr {place}, ptr {self.word(self.layout.buffer(buffer))}")
            case plan.Calculate(target, op, left, right):
                self.set_slot(target, self.calculated(op, self.slot(left), self.slot(right)))
            case plan.Read(target, buffer, low, high):
                value = self.let(f"load i64, ptr {self.buffer(buffer)}")
                above = self.let(f"icmp sge i64 {value}, {low}")
                below = self.let(f"icmp sle i64 {value}, {high}")
                fits = self.let(f"and i1 {above}, {below}")
                self.emit(f"br i1 {fits}, label %i{position}.good, label %i{position}.bad")
                self.lines.append(f"i{position}.bad:")
                self.emit(f"ret i64 {BAD_SIZE + position}")
                self.lines.append(f"i{position}.good:")
                self.set_slot(target, value)
            case plan.Jump(to):
                self.jump(position, to)
                return
            case plan.Unless(flag, to):
                raw = self.let(f"load i8, ptr {self.buffer(flag)}")
                holds = self.let(f"icmp ne i8 {raw}, 0")
                self.emit(f"br i1 {holds}, label %i{position + 1}, label %i{to}")
                return
            case plan.Below(left, right, to):
                less = self.let(f"icmp slt i64 {self.slot(left)}, {self.slot(right)}")
                self.emit(f"br i1 {less}, label %i{position + 1}, label %i{to}")
                return
            case plan.CallHost(native=plan.Native() as native) if self.symbol(i):
                self.routine(native)
                self.unasked += native.work
            case plan.CallHost():
                self.emit(f"store i64 {position + 1}, ptr {self.word(RESUME)}")
                self.emit(f"ret i64 {HOST + position}")
                return
        self.go(position + 1)

    def symbol(self, host: plan.CallHost) -> str:
        """What the routine of a host instruction is called here; nothing if there is none."""
        return self.routines.get(host.native.routine, "") if host.native else ""

    def routine(self, native: plan.Native) -> None:
        """Its arguments become words of the frame; its chunks go to the pool."""
        for number, buffer in enumerate(native.buffers):
            self.emit(f"store ptr {self.buffer(buffer)}, ptr {self.word(self.layout.argument(number))}")
        for number, slot in enumerate(native.integers, len(native.buffers)):
            self.emit(f"store i64 {self.slot(slot)}, ptr {self.word(self.layout.argument(number))}")
        given, symbol = self.word(self.layout.argument(0)), self.routines[native.routine]
        threads, chunks = self.let(f"load i64, ptr {self.word(THREADS)}"), self.slot(native.chunks)
        if native.threads:
            last = self.word(self.layout.argument(native.words - 1))
            self.emit(f"store i64 {threads}, ptr {last}")
        words = f"ptr @{symbol}, ptr {given}, i64 {chunks}, i64 {native.work}, i64 {threads}"
        self.emit(f"call void @pool_run({words})")
        if native.fails:
            self.count += 1
            going_on = f"after{self.count}"
            status = self.let(f"load i64, ptr {self.word(self.layout.argument(native.words - 1))}")
            failed = self.let(f"icmp ne i64 {status}, 0")
            self.emit(f"br i1 {failed}, label %stopped, label %{going_on}")
            self.lines.append(f"{going_on}:")

    def jump(self, position: int, to: int) -> None:
        """Backwards it closes a loop, which may be long."""
        if to > position:
            self.go(to)
            return
        self.unless_interrupted(f"i{to}")

    def unless_interrupted(self, label: str) -> None:
        stop = self.let(f"icmp ne i32 {self.let('call i32 @interrupted(ptr %frame)')}, 0")
        self.emit(f"br i1 {stop}, label %stopped, label %{label}")

    def calculated(self, op: str, x: str, y: str) -> str:
        if op == "//":
            # towards minus infinity
            quotient, rest = self.let(f"sdiv i64 {x}, {y}"), self.let(f"srem i64 {x}, {y}")
            some = self.let(f"icmp ne i64 {rest}, 0")
            signs = self.let(f"icmp slt i64 {self.let(f'xor i64 {rest}, {y}')}, 0")
            off = self.let(f"zext i1 {self.let(f'and i1 {some}, {signs}')} to i64")
            return self.let(f"sub i64 {quotient}, {off}")
        if op == "min":
            return self.let(f"select i1 {self.let(f'icmp slt i64 {x}, {y}')}, i64 {x}, i64 {y}")
        return self.let(f"{_WORDS[op]} i64 {x}, {y}")

    def call(self, i: plan.Call) -> None:
        kernel = self.kernels[i.kernel]
        self.thunk(i, kernel)
        if kernel.points == 1:
            self.emit(f"call void @site{i.site}(ptr %frame, i64 0)")
            return
        threads = self.let(f"load i64, ptr {self.word(THREADS)}")
        given = f"ptr @site{i.site}, ptr %frame, i64 {kernel.points}, i64 {kernel.work}, i64 {threads}"
        self.emit(f"call void @pool_run({given})")

    def thunk(self, i: plan.Call, kernel: NativeKernel) -> None:
        """The function of a chunk: everything the kernel takes, read from the frame."""
        lines: list[str] = []

        def load(kind: str, word: int, name: str) -> str:
            lines.append(f"  %{name}p = getelementptr i64, ptr %frame, i64 {word}")
            lines.append(f"  %{name} = load {kind}, ptr %{name}p")
            return f"{kind} %{name}"

        given = [load("ptr", self.layout.buffer(b), f"b{n}") for n, b in enumerate(i.buffers)]
        given += [load("i64", self.layout.slot(s), f"s{n}") for n, s in enumerate(i.variables)]
        rest = "%chunk"
        for n, size in enumerate(kernel.grid):
            lines.append(f"  %g{n} = urem i64 {rest}, {size}")
            lines.append(f"  %q{n} = udiv i64 {rest}, {size}")
            given.append(f"i64 %g{n}")
            rest = f"%q{n}"
        if kernel.scratch:
            given.append(load("ptr", self.layout.scratch(i.site), "scratch"))
        body = "\n".join(lines)
        arguments = ", ".join(given)
        self.thunks.append(
            f"define internal void @site{i.site}(ptr %frame, i64 %chunk) {{\n{body}\n"
            f"  call void @{kernel.name}({arguments})\n  ret void\n}}\n"
        )


def first_sizes(code: plan.Code) -> list[plan.Calculate]:
    """The sizes that are computed before anything else is done."""
    sizes: list[plan.Calculate] = []
    for step in code.instructions:
        if not isinstance(step, plan.Calculate):
            break
        sizes.append(step)
    return sizes


_NO_HOMES: Final[Mapping[int, int]] = {}
_NO_ROUTINES: Final[Mapping[str, str]] = {}
_WORDS: Final = {"+": "add", "-": "sub", "*": "mul"}


def render(
    code: plan.Code,
    kernels: Sequence[NativeKernel],
    itemsizes: Sequence[int],
    homes: Mapping[int, int] = _NO_HOMES,
    results: Sequence[Result] = (),
    routines: Mapping[str, str] = _NO_ROUTINES,
) -> str:
    """The LLVM IR of `run`, which calls kernels and routines of other modules.

    `itemsizes` are those of the buffers, `homes` the buffers that live in the memory of another one, `routines` the symbols of
    those that there are, by name.
    """
    return _PlanWriter(code, kernels, itemsizes, homes, results, routines).write()
