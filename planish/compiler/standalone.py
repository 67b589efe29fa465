"""A compiled function as files that run without Python: a shared library, and a plan that C reads (`runtime/standalone`).

    model.so        kernels, routines and the way through them
    plan.bin        what the inputs and outputs are, the frame of a call, the processor that is needed, digests
    libplanish.so   planish_load, planish_run, planish_free and what else planish.h has

Everything a call needs is known when the files are written: sizes with names are read from the shapes of the inputs, memory is laid
out for the largest ones. What cannot be had that way (a step that Python does) is an error that says which.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.compiler.assemble import Assembled, assemble
from planish.compiler.native import computed_slots, kernel_image
from planish.compiler.object_code import glue_of, object_of, routine_image
from planish.errors import PlanishError
from planish.ptir.dims import DimLike
from planish.records import dataclass
from planish.runtime import entry, libraries, native
from planish.runtime.elf import undefined_symbols
from planish.runtime.linker import Unit, link
from planish.runtime.plan import Calculate, CallHost
from planish.runtime.processors import LEVELS, Processor, processor
from planish.schedule.plan import Role
from planish.target import cpuid

if TYPE_CHECKING:
    from planish.compiler import Lowered

Array = NDArray[Any]
FORMAT: Final = 3
"""Of the folder and the plan; libplanish.so reads those of its own (`PLANISH_FORMAT`)."""
LIBRARY: Final = "libplanish.so"
HEADER: Final = "planish.h"
CODE: Final = "model.so"
PLAN: Final = "plan.bin"
_SHARED: Final = {name: f"planish_{name.strip('_')}" for name in (*native.LINKED, *native.HALF_CONVERSIONS)}
"""What kernels and plans find in libplanish.so, by a name that no program has."""
_EXPORTS: Final = (
    "planish_load", "planish_run", "planish_free", "planish_verify", "planish_inputs", "planish_outputs", "planish_compiled_by",
    "planish_target", "planish_threads", "planish_release", *_SHARED.values(),
)  # fmt: skip
_SYSTEM: Final = ("libdl.so.2", "libpthread.so.0", "libc.so.6")
_DTYPES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
    "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip
"""As ONNX numbers them."""


class CannotStand(PlanishError):
    """A function that does not run without Python."""


def library() -> bytes:
    """libplanish.so, for any x86-64."""
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()  # it asks the processor what it is
    image = object_of(native.source("standalone"), Processor(llvm.get_process_triple(), "x86-64"))
    return link([Unit(image, _SHARED)], _EXPORTS, _SYSTEM, LIBRARY)


def header() -> str:
    """planish.h."""
    return Path(native.__file__).parents[1].joinpath("standalone", HEADER).read_text()


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the weights of a function lie in their file, and the constants of its plan behind them."""

    offsets: Sequence[int]
    constants: Sequence[int]
    bytes: int
    digest: str


def constants(lowered: Lowered) -> list[Array]:
    """What a plan has besides its weights, in the order of its buffers."""
    return [buffer.constant for buffer in lowered.plan.buffers if buffer.constant is not None]


def target(lowered: Lowered) -> str:
    """The processor that a function was compiled for, in a word or two."""
    return processor(lowered.target).name


def _required(made_for: Processor) -> list[str]:
    """The features that code for a processor may use, in LLVM's words."""
    told = [word[1:] for word in made_for.features.split(",") if word.startswith("+")]
    return [*told, *(name for name in LEVELS.get(made_for.name, ()) if name not in told)]


def code(lowered: Lowered) -> bytes:
    """model.so: it offers `run`, and `sizes`, which computes the sizes that follow from those of the inputs."""
    made_for = processor(lowered.target)
    assembled = _assembled(lowered)
    names: dict[str, str] = {}
    units = [
        Unit(kernel_image(lowered, number, made_for), {**_SHARED, lowered.symbol(number): kernel.name})
        for number, kernel in enumerate(lowered.calls)
    ]
    for host in (i for i in assembled.code.instructions if isinstance(i, CallHost)):
        image = None if host.native is None else routine_image(host.native.routine, made_for)
        if host.native is None or image is None:
            raise CannotStand("a step of the model is done by Python")
        foreign = [name for name in undefined_symbols(image) if name.startswith(libraries.PREFIX)]
        if foreign:
            raise CannotStand(
                f"{host.native.routine} is done by NumPy's {foreign[0].removeprefix(libraries.PREFIX)}"
            )
        if host.native.routine not in names:
            name = names[host.native.routine] = f"routine{len(names)}"
            units.append(Unit(image, {**_SHARED, "routine": name}))
    itemsizes = [buffer.dtype.itemsize for buffer in lowered.plan.buffers]
    results = _results(lowered, assembled)
    early = tuple(takewhile(lambda i: isinstance(i, Calculate), assembled.code.instructions))
    for symbol, part in (("run", assembled.code), ("sizes", replace(assembled.code, instructions=early))):
        source = entry.render(part, lowered.calls, itemsizes, lowered.memory.homes, results, names)
        units.append(Unit(glue_of(source, made_for), {**_SHARED, "run": symbol}))
    return link(units, ("run", "sizes"), (LIBRARY, "libm.so.6", "libc.so.6"))


def _assembled(lowered: Lowered) -> Assembled:
    return assemble(lowered.plan, lowered.variables, lowered.arguments.names, lowered.ready)


def _results(lowered: Lowered, assembled: Assembled) -> list[entry.Result]:
    pairs = zip(lowered.plan.results, assembled.results, strict=True)
    return [entry.Result(buffer, dims) for buffer, dims in pairs]


class _Words:
    """Words of 64 bits, texts among them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, *numbers: int) -> None:
        self.data += struct.pack(f"<{len(numbers)}q", *numbers)

    def counted(self, numbers: Sequence[int]) -> None:
        self.add(len(numbers), *numbers)

    def text(self, text: str) -> None:
        raw = text.encode()
        self.add(len(raw))
        self.data += raw + bytes(8 - len(raw) % 8)

    def digest(self, size: int, hexadecimal: str) -> None:
        self.add(size)
        self.data += bytes.fromhex(hexadecimal)


class _PlanFile:
    """plan.bin in the making."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.assembled = _assembled(lowered)
        self.layout = entry.layout_of(
            self.assembled.code, len(lowered.plan.buffers), len(lowered.plan.results)
        )
        self.template = [0] * (self.layout.size + 1)
        self.template[entry.HEAD : entry.HEAD + len(self.assembled.code.slots)] = self.assembled.code.slots
        self.sizes = dict(self.assembled.sizes)
        self.places = {
            buffer.position: self.layout.buffer(number)
            for number, buffer in enumerate(lowered.plan.buffers)
            if buffer.role is Role.PARAMETER
        }
        self.words = _Words()

    def place(self, position: int) -> int:
        """The word for the address of a parameter; one that nobody reads for a parameter that nobody reads."""
        return self.places.get(position, self.layout.size)

    def processor(self) -> None:
        made_for = processor(self.lowered.target)
        required = _required(made_for)
        rows = cpuid.rows(required)
        self.words.add(len(rows))
        for name, row in rows:
            self.words.text(name)
            self.words.add(*row)
        self.words.add(int("amx-tile" in required))

    def frame(self, placed: Placed, inputs: int) -> None:
        plan, memory = self.lowered.plan, self.lowered.memory
        inside: list[int] = []
        offsets = memory.offsets
        fixed = [(self.place(inputs + n), at) for n, at in enumerate(placed.offsets)]
        behind = iter(placed.constants)
        for number, buffer in enumerate(plan.buffers):
            word = self.layout.buffer(number)
            if buffer.constant is not None:
                fixed.append((word, next(behind)))
            elif buffer.role is not Role.PARAMETER and number in offsets:
                self.template[word] = offsets[number]
                inside.append(word)
        own = iter([place for place in memory.places if not place.buffers])
        for site, kernel in enumerate(self.assembled.code.sites):
            if self.lowered.scratch[kernel]:
                self.template[self.layout.scratch(site)] = next(own).offset
                inside.append(self.layout.scratch(site))
        for slot in self.sizes.values():
            self.template[self.layout.slot(slot)] = -1
        self.words.counted(self.template)
        self.words.add(memory.peak)
        self.words.counted(inside)
        self.words.add(len(fixed))
        for pair in fixed:
            self.words.add(*pair)

    def named_sizes(self) -> None:
        types = self.lowered.arguments.types
        bounds = {symbol.name: symbol for type in types for symbol in type.symbols()}
        self.words.add(len(self.sizes))
        for name, slot in self.sizes.items():
            self.words.text(name)
            self.words.add(self.layout.slot(slot), bounds[name].lo, bounds[name].hi)

    def axis(self, dim: DimLike) -> None:
        """What a program is told of an axis."""
        if isinstance(dim, int):
            self.words.text("")
            self.words.add(dim, dim)
            return
        known = all(symbol.name in self.sizes for symbol in dim.symbols())
        self.words.text(str(dim) if known else "")
        self.words.add(dim.lo if known else 0, dim.hi)

    def port(self, name: str, dtype: np.dtype[Any], place: int, copied: bool, dims: Sequence[int]) -> None:
        if dtype.name not in _DTYPES:
            raise CannotStand(f"{name} is {dtype.name}, for which C has no name here")
        self.words.text(name)
        self.words.add(_DTYPES[dtype.name], dtype.itemsize, place, int(copied), len(dims), *dims)

    def inputs(self, names: Sequence[str]) -> None:
        self.words.add(len(names))
        for position, name in enumerate(names):
            type = self.lowered.arguments.types[position]
            dims: list[int] = []
            for dim in type.dims:
                if isinstance(dim, int):
                    dims.append(dim)
                elif dim.name in self.sizes:
                    dims.append(~self.layout.slot(self.sizes[dim.name]))
                else:
                    raise CannotStand(f"a size of {name} is computed from others ({dim})")
            self.port(name, np.dtype(type.dtype.numpy), self.place(position), False, dims)
            for dim in type.dims:
                self.axis(dim)

    def outputs(self, names: Sequence[str]) -> None:
        plan, code = self.lowered.plan, self.assembled.code
        homes, written = self.lowered.memory.homes, {slot for _, slot in self.assembled.sizes}
        written |= computed_slots(code) | {
            slot for i in code.instructions if isinstance(i, CallHost) for slot in i.decides
        }
        seen: set[int] = set()
        self.words.add(len(names))
        rows = zip(
            names,
            plan.results,
            self.assembled.results,
            plan.result_dims,
            self.lowered.arguments.results,
            strict=True,
        )
        for name, number, slots, told, dtype in rows:
            buffer = plan.buffers[number]
            copied = buffer.role is not Role.RESULT or number in seen or homes.get(number, number) != number
            seen.add(number)
            pair = dtype.kind == "c" and buffer.dtype.numpy != dtype  # computed as two reals
            dims = [~self.layout.slot(slot) if slot in written else code.slots[slot] for slot in slots]
            sizes = list(told)
            if pair:
                dims, sizes = dims[:-1], sizes[:-1]
            self.port(name, np.dtype(dtype), self.layout.buffer(number), copied, dims)
            for dim in sizes:
                self.axis(dim)


def plan(
    lowered: Lowered,
    inputs: Sequence[str],
    outputs: Sequence[str],
    placed: Placed,
    library: bytes,
    version: str,
) -> bytes:
    """plan.bin, of a function whose first parameters are the inputs and whose others are weights."""
    if any(type.quant is not None for type in lowered.arguments.types):
        raise CannotStand("an input is quantised")
    file = _PlanFile(lowered)
    words = file.words
    words.text(version)
    words.text(target(lowered))
    file.processor()
    words.digest(len(library), hashlib.sha256(library).hexdigest())
    words.digest(placed.bytes, placed.digest)
    file.frame(placed, len(inputs))
    file.named_sizes()
    file.inputs(inputs)
    file.outputs(outputs)
    body = bytes(words.data)
    return struct.pack("<8sq32s", b"planish\n", FORMAT, hashlib.sha256(body).digest()) + body
