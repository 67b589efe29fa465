"""Object files made callable: the sections of an x86-64 ELF object laid out in memory, relocated and made executable.

This is all that loading a cached kernel takes: no compiler is imported. Symbols that an object needs from outside are those in
`EXTERNAL`; any other is an error that names it, before anything runs.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from planish.errors import PlanishError

EXTERNAL: Final = frozenset(
    {"memcpy", "memset", "memmove", "fmod", "fmodf", "fma", "fmaf", "syscall", "sched_yield", "clock_gettime",
     "mmap", "munmap", "madvise", "aligned_alloc", "free",
     "roundeven", "roundevenf", "floor", "floorf", "ceil", "ceilf", "trunc", "truncf",
     "PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyLong_AsVoidPtr", "PyObject_Vectorcall",
     "PyEval_SaveThread", "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem", "Py_IncRef", "Py_DecRef"}
)  # fmt: skip
"""What generated code may call: the C library's memory and remainder functions, rounding on machines without an instruction for
it, what the thread pool and the pool of memory ask of the system, and what a call from Python asks of Python."""

MATHEMATICS: Final = frozenset(
    name + ending
    for name in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "sincos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "ldexp")
    for ending in ("", "f")
)  # fmt: skip
"""What code that was not decomposed by the compiler (LLIR written by hand) calls in the C library."""

ALLOC, WRITE = 2, 1
_PAGE: Final = mmap.PAGESIZE
_PROT_READ_EXEC: Final = 1 | 4
_NO_SYMBOLS: Final[Mapping[str, int]] = {}
_STUB: Final = b"\xff\x25\x00\x00\x00\x00"  # jmp *0(%rip), followed by the address


class Section(NamedTuple):
    """A row of the table of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class ElfSymbol(NamedTuple):
    """A row of the table of symbols."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    try:
        mathematical = ctypes.CDLL("libm.so.6")
    except OSError:
        from ctypes.util import find_library  # brings `subprocess`, and asks a compiler

        mathematical = ctypes.CDLL(find_library("m"))
    return ctypes.CDLL(None), mathematical


@cache
def external(name: str) -> int:
    """The address of a symbol from outside."""
    if name not in EXTERNAL:
        raise PlanishError(
            f"generated code needs the symbol {name!r}, which is not among those it may call",
            remedy="this is a mistake in planish; please report it",
        )
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    raise PlanishError(f"this system has no {name!r}, which generated code needs")


def mathematics(image: bytes) -> dict[str, int]:
    """The addresses of the mathematical functions that an object calls."""
    wanted = [name for name in undefined_symbols(image) if name in MATHEMATICS]
    return {name: ctypes.cast(_libraries()[1][name], ctypes.c_void_p).value or 0 for name in wanted}


def undefined_symbols(image: bytes) -> list[str]:
    """What an object needs from outside."""
    return ElfObject(image).undefined


class ElfObject:
    """The tables of an object file."""

    def __init__(self, image: bytes) -> None:
        if image[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", image, 16) != (1, 62):
            raise PlanishError("not an x86-64 object file")
        self.image = image
        (start,) = struct.unpack_from("<Q", image, 40)
        size, count, self.names = struct.unpack_from("<HHH", image, 58)
        self.sections = [
            Section(*struct.unpack_from("<IIQQQQIIQQ", image, start + n * size)) for n in range(count)
        ]
        table = next(s for s in self.sections if s.kind == 2)
        self.strings = self.sections[table.link].offset
        self.symbols = [
            ElfSymbol(*struct.unpack_from("<IBBHQQ", image, table.offset + n * 24))
            for n in range(table.size // 24)
        ]

    def text(self, start: int) -> str:
        return self.image[start : self.image.index(0, start)].decode()

    def name(self, symbol: ElfSymbol) -> str:
        return self.text(self.strings + symbol.name)

    @property
    def undefined(self) -> list[str]:
        return [self.name(s) for s in self.symbols[1:] if s.section == 0 and s.name]

    def relocations(self, section: Section) -> list[tuple[int, int, int, int]]:
        """Offset, kind, symbol and addend of each."""
        entries = []
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", self.image, at)
            entries.append((offset, info & 0xFFFFFFFF, info >> 32, addend))
        return entries


class Loaded:
    """An object in memory; its functions live as long as this."""

    def __init__(self, image: bytes, symbols: Mapping[str, int] = _NO_SYMBOLS) -> None:
        """`symbols` are the addresses of what the object calls in other objects."""
        obj = ElfObject(image)
        places: dict[int, int] = {}
        end = 0
        # code and constants first, then, on pages of their own, what may be written
        kept = [(n, s) for n, s in enumerate(obj.sections) if s.flags & ALLOC and s.size]
        fixed = [(n, s) for n, s in kept if not s.flags & WRITE]
        written = [(n, s) for n, s in kept if s.flags & WRITE]
        for number, section in fixed:
            end = rounded_up(end, max(section.align, 1))
            places[number] = end
            end += section.size
        calls = {name: n for n, name in enumerate(obj.undefined)}
        stubs = rounded_up(end, 16)
        slots = stubs + 16 * len(calls)  # one pointer per symbol, for code that reads addresses from a table
        end = slots + 8 * len(obj.symbols)
        readonly = end = rounded_up(end, _PAGE)
        for number, section in written:
            end = rounded_up(end, max(section.align, 1))
            places[number] = end
            end += section.size
        self._memory = mmap.mmap(
            -1, max(rounded_up(end, _PAGE), _PAGE), mmap.MAP_PRIVATE
        )  # a child has its own
        view = ctypes.c_char.from_buffer(self._memory)  # as long as it lives, the memory cannot be unmapped
        base = ctypes.addressof(view)
        for number, section in kept:
            if section.kind != 8:  # .bss has no bytes
                data = image[section.offset : section.offset + section.size]
                self._memory[places[number] : places[number] + section.size] = data
        for name, number in calls.items():
            stub = _STUB + struct.pack("<Q", symbols[name] if name in symbols else external(name))
            self._memory[stubs + 16 * number : stubs + 16 * number + len(stub)] = stub
        addresses = [
            base + stubs + 16 * calls[obj.name(s)] if s.section == 0 and s.name
            else s.value if s.section not in places
            else base + places[s.section] + s.value
            for s in obj.symbols
        ]  # fmt: skip
        for number, address in enumerate(addresses):
            struct.pack_into("<Q", self._memory, slots + 8 * number, address)
        for section in obj.sections:
            if section.kind == 4 and section.info in places:
                for offset, kind, symbol, addend in obj.relocations(section):
                    at = places[section.info] + offset
                    self._relocate(at, kind, base, addresses[symbol], base + slots + 8 * symbol, addend)
        self._functions = {
            obj.name(s): address
            for s, address in zip(obj.symbols, addresses, strict=True)
            if s.section in places and s.info >> 4 and s.name
        }
        _protect(base, readonly)
        self._view = view

    def _relocate(self, at: int, kind: int, base: int, address: int, slot: int, addend: int) -> None:
        place = base + at
        if kind == 1:  # R_X86_64_64
            struct.pack_into("<q", self._memory, at, address + addend)
        elif kind in {2, 4}:  # PC32, PLT32
            struct.pack_into("<i", self._memory, at, address + addend - place)
        elif kind == 24:  # PC64
            struct.pack_into("<q", self._memory, at, address + addend - place)
        elif kind in {9, 41, 42}:  # through a table of addresses
            struct.pack_into("<i", self._memory, at, slot + addend - place)
        else:
            raise PlanishError(f"relocation {kind} in generated code", remedy="please report it")

    @property
    def names(self) -> list[str]:
        """The functions it offers."""
        return sorted(self._functions)

    def address(self, name: str) -> int:
        """Where a function is."""
        return self._functions[name]


def rounded_up(value: int, step: int) -> int:
    return -(-value // step) * step


@cache
def _mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    protect: Callable[[int, int, int], int] = function
    return protect


def _protect(address: int, size: int) -> None:
    if _mprotect()(address, size, _PROT_READ_EXEC):
        raise PlanishError(
            f"this system does not let memory be made executable (errno {ctypes.get_errno()})",
            remedy="run without the security policy that forbids it, or use the interpreter",
        )
