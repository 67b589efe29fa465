"""Linker: x86-64 objects made one shared library, as the system's dynamic linker and C compilers take it.

Models that are to run without Python are libraries. The objects that LLVM makes are laid out, relocated against each other, and written with what
a loader has to know; no compiler or linker has to be installed where a model is compiled. Addresses in a library are offsets in its file:

    headers, names, relocations   read
    code, and a jump for every function of another library   read, executed
    constants                     read
    data, addresses of symbols    read, written
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from planish.errors import PlanishError
from planish.records import dataclass
from planish.runtime.elf import ALLOC, WRITE, ElfObject, ElfSymbol, Section, rounded_up

_EXECUTED, _THREAD_LOCAL, _NO_BYTES = 4, 0x400, 8
_ABSOLUTE, _RELATIVE, _GLOB_DAT = 1, 8, 6
_NEAR: Final = frozenset({2, 4})
"""Relocations by distance, of 32 bits: R_X86_64_PC32 and PLT32."""
_FAR: Final = 24
"""By distance, of 64 bits."""
_BY_TABLE: Final = frozenset({9, 41, 42})
"""By the distance of the word that has the address."""
_STUB: Final = 8
_NEEDED, _HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _RELAENT, _STRSZ, _SYMENT, _SONAME, _FLAGS = 1, 4, 5, 6, 7, 8, 9, 10, 11, 14, 30  # fmt: skip
_FLAGS_1: Final = 0x6FFFFFFB
_BIND_NOW, _NO_DELETE = 8, 8


@dataclass(frozen=True, slots=True)
class Unit:
    """An object, and what its functions are called in the library."""

    image: bytes
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Linked:
    """An object in the making: where its sections are."""

    object: ElfObject
    names: Mapping[str, str]
    places: dict[int, int] = field(default_factory=dict)

    def name(self, symbol: ElfSymbol) -> str:
        name = self.object.name(symbol)
        return self.names.get(name, name)

    def group(self, number: int, section: Section) -> int:
        """Code, constants, or what is written; what the loader has to relocate is written too."""
        if section.flags & _EXECUTED:
            return 0
        return 2 if section.flags & WRITE or number in self._relocated else 1

    @property
    def _relocated(self) -> set[int]:
        elf = self.object
        return {
            s.info
            for s in elf.sections
            if s.kind == 4 and any(kind == _ABSOLUTE for _, kind, _, _ in elf.relocations(s))
        }


class _Library:
    """The file in the making."""

    def __init__(
        self, units: Sequence[Unit], exports: Sequence[str], needed: Sequence[str], name: str | None
    ) -> None:
        self.units = [_Linked(ElfObject(unit.image), unit.names) for unit in units]
        self.needed, self.soname = needed, name
        self.defined: dict[str, tuple[_Linked, ElfSymbol]] = {}
        for unit in self.units:
            for symbol in unit.object.symbols[1:]:
                if symbol.section and symbol.info >> 4 and symbol.name:
                    self.defined.setdefault(unit.name(symbol), (unit, symbol))
        missing = [export for export in exports if export not in self.defined]
        if missing:
            raise PlanishError(f"nothing defines {', '.join(missing)}")
        self.exports = list(exports)
        wanted = (
            unit.name(s) for unit in self.units for s in unit.object.symbols[1:] if not s.section and s.name
        )
        self.imports = [name for name in dict.fromkeys(wanted) if name not in self.defined]
        self.table: dict[tuple[int, int] | str, int] = {name: n for n, name in enumerate(self.imports)}
        """The words with addresses of symbols: of imports by name, of others by unit and number."""
        self.absolutes = 0
        for number, unit in enumerate(self.units):
            self._survey(number, unit)

    def _survey(self, number: int, unit: _Linked) -> None:
        """What tables have to hold."""
        for section in unit.object.sections:
            if section.flags & _THREAD_LOCAL:
                raise PlanishError("an object has data of its own for each thread", remedy="please report it")
            if section.kind != 4 or not unit.object.sections[section.info].flags & ALLOC:
                continue
            for _, kind, symbol, _ in unit.object.relocations(section):
                self.absolutes += kind == _ABSOLUTE
                if kind in _BY_TABLE:
                    self.table.setdefault(self._key(number, unit, symbol), len(self.table))

    def _key(self, number: int, unit: _Linked, symbol: int) -> tuple[int, int] | str:
        entry = unit.object.symbols[symbol]
        name = unit.name(entry)
        return name if not entry.section and name not in self.defined else (number, symbol)

    def write(self) -> bytes:
        """The library."""
        strings = _Strings()
        symbols = [*self.imports, *self.exports]
        offsets = [strings.add(name) for name in symbols]
        libraries = [strings.add(name) for name in self.needed]
        named = [] if self.soname is None else [(_SONAME, strings.add(self.soname)), (_FLAGS_1, _NO_DELETE)]
        relocations = len(self.table) + self.absolutes
        heads = _Chunks(64 + 56 * 6)
        hashes = heads.take(4 * (3 + 2 * (len(symbols) + 1)))
        dynsym = heads.take(24 * (len(symbols) + 1))
        dynstr = heads.take(len(strings.data))
        rela = heads.take(24 * relocations)
        ends = [heads.end]
        starts = [0]
        stubs = dynamic = table = 0
        for group in range(3):
            start = rounded_up(ends[-1], mmap.PAGESIZE)
            chunks = _Chunks(start)
            if group == 0:
                stubs = chunks.take(_STUB * len(self.imports))
            if group == 2:
                dynamic = chunks.take(16 * (len(libraries) + 12))
                table = chunks.take(8 * len(self.table))
            for unit in self.units:
                for number, section in enumerate(unit.object.sections):
                    if section.flags & ALLOC and section.size and unit.group(number, section) == group:
                        unit.places[number] = chunks.take(section.size, max(section.align, 1))
            starts.append(start)
            ends.append(max(chunks.end, start + 1))
        data = bytearray(ends[-1])
        for unit in self.units:
            for number, place in unit.places.items():
                section = unit.object.sections[number]
                if section.kind != _NO_BYTES:
                    data[place : place + section.size] = unit.object.image[
                        section.offset : section.offset + section.size
                    ]
        for n in range(len(self.imports)):
            at = stubs + _STUB * n
            data[at : at + 6] = b"\xff\x25" + struct.pack("<i", table + 8 * n - (at + 6))
        entries = self._relocate(data, stubs, table)
        for key, n in self.table.items():
            kind, addend = (_RELATIVE, 0) if isinstance(key, tuple) else (_GLOB_DAT | (n + 1) << 32, 0)
            if isinstance(key, tuple):
                unit = self.units[key[0]]
                addend = self._address(unit, unit.object.symbols[key[1]])
            entries.append((table + 8 * n, kind, addend))
        data[rela : rela + 24 * len(entries)] = b"".join(struct.pack("<QQq", *entry) for entry in entries)
        data[dynstr : dynstr + len(strings.data)] = strings.data
        for n, (name, offset) in enumerate(zip(symbols, offsets, strict=True), 1):
            home, value, size = 0, 0, 0
            if name in self.defined:
                unit, symbol = self.defined[name]  # the fifth section has code
                home, value, size = 5, self._address(unit, symbol), symbol.size
            struct.pack_into("<IBBHQQ", data, dynsym + 24 * n, offset, 0x12, 0, home, value, size)
        # one chain through all names: there are few
        last = len(symbols)
        struct.pack_into("<III", data, hashes, 1, last + 1, 1 if symbols else 0)
        for n in range(1, last):
            struct.pack_into("<I", data, hashes + 12 + 4 * n, n + 1)
        words = [*((_NEEDED, at) for at in libraries), *named, (_HASH, hashes), (_STRTAB, dynstr)]
        words += [(_SYMTAB, dynsym), (_STRSZ, len(strings.data)), (_SYMENT, 24), (_RELA, rela)]
        words += [(_RELASZ, 24 * len(entries)), (_RELAENT, 24), (_FLAGS, _BIND_NOW), (0, 0)]
        data[dynamic : dynamic + 16 * len(words)] = b"".join(struct.pack("<QQ", *word) for word in words)
        sections = [
            (".hash", 5, ALLOC, hashes, dynsym - hashes, 2, 0, 4),
            (".dynsym", 11, ALLOC, dynsym, 24 * (last + 1), 3, 1, 24),
            (".dynstr", 3, ALLOC, dynstr, len(strings.data), 0, 0, 0),
            (".rela.dyn", 4, ALLOC, rela, 24 * len(entries), 2, 0, 24),
            (".text", 1, ALLOC | _EXECUTED, starts[1], ends[1] - starts[1], 0, 0, 0),
            (".rodata", 1, ALLOC, starts[2], ends[2] - starts[2], 0, 0, 0),
            (".dynamic", 6, ALLOC | WRITE, dynamic, 16 * len(words), 3, 0, 16),
            (".data", 1, ALLOC | WRITE, table, ends[3] - table, 0, 0, 0),
        ]
        segments = [
            (1, flags, start, end - start, mmap.PAGESIZE)
            for flags, start, end in zip((4, 5, 4, 6), starts, ends, strict=True)
        ]
        segments += [(2, 6, dynamic, 16 * len(words), 8), (0x6474E551, 6, 0, 0, 16)]
        return _file(data, sections, segments)

    def _relocate(self, data: bytearray, stubs: int, table: int) -> list[tuple[int, int, int]]:
        """Settle what is known; what the loader has to settle: place, kind and addend."""
        left: list[tuple[int, int, int]] = []
        for number, unit in enumerate(self.units):
            for section in unit.object.sections:
                if section.kind != 4 or section.info not in unit.places:
                    continue
                for offset, kind, symbol, addend in unit.object.relocations(section):
                    at = unit.places[section.info] + offset
                    key = self._key(number, unit, symbol)
                    if kind in _BY_TABLE:
                        struct.pack_into("<i", data, at, table + 8 * self.table[key] + addend - at)
                        continue
                    if isinstance(key, str):
                        place = stubs + _STUB * self.table[key]
                    else:
                        place = self._address(unit, unit.object.symbols[symbol])
                    if kind in _NEAR:
                        struct.pack_into("<i", data, at, place + addend - at)
                    elif kind == _FAR:
                        struct.pack_into("<q", data, at, place + addend - at)
                    elif kind == _ABSOLUTE:
                        left.append((at, _RELATIVE, place + addend))
                    else:
                        raise PlanishError(f"relocation {kind} in generated code", remedy="please report it")
        return left

    def _address(self, unit: _Linked, symbol: ElfSymbol) -> int:
        if not symbol.section:
            unit, symbol = self.defined[unit.name(symbol)]
        return unit.places[symbol.section] + symbol.value


class _Strings:
    """Names one after another, each ended by a zero."""

    def __init__(self) -> None:
        self.data = bytearray(1)

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


class _Chunks:
    """Room that is given out."""

    def __init__(self, start: int) -> None:
        self.end = start

    def take(self, size: int, align: int = 16) -> int:
        at = rounded_up(self.end, align)
        self.end = at + size
        return at


def _file(
    data: bytearray,
    sections: Sequence[tuple[str, int, int, int, int, int, int, int]],
    segments: Sequence[tuple[int, int, int, int, int]],
) -> bytes:
    """The headers written into the file, and the tables of sections behind it: linkers of C programs read those."""
    names = _Strings()
    titles = [names.add(section[0]) for section in sections]
    own = names.add(".shstrtab")
    text = rounded_up(len(data), 16)
    data += bytes(text - len(data)) + names.data
    start = rounded_up(len(data), 16)
    data += bytes(start - len(data))
    rows = [struct.pack("<IIQQQQIIQQ", *(0,) * 10)]
    for title, (_, kind, flags, at, size, link, info, each) in zip(titles, sections, strict=True):
        rows.append(struct.pack("<IIQQQQIIQQ", title, kind, flags, at, at, size, link, info, 8, each))
    rows.append(struct.pack("<IIQQQQIIQQ", own, 3, 0, 0, text, len(names.data), 0, 0, 1, 0))
    data += b"".join(rows)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    counts = (64, 56, len(segments), 64, len(rows), len(rows) - 1)
    struct.pack_into("<16sHHIQQQIHHHHHH", data, 0, ident, 3, 62, 1, 0, 64, start, 0, *counts)
    for number, (kind, flags, at, size, align) in enumerate(segments):
        struct.pack_into("<IIQQQQQQ", data, 64 + 56 * number, kind, flags, at, at, at, size, size, align)
    return bytes(data)


def link(
    units: Sequence[Unit], exports: Sequence[str], needed: Sequence[str] = (), name: str | None = None
) -> bytes:
    """The shared library of some objects: the functions it offers, and the libraries in which the loader looks for what they lack.

    One with a name is for programs to be linked with, and stays in memory once it is loaded: it may have threads.
    """
    return _Library(units, exports, needed, name).write()
