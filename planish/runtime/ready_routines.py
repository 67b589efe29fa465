"""Routines made beforehand: their machine code for a few levels of x86-64, in an archive of the package.

A routine depends on its name alone, not on the program that calls it, so that nobody has to wait for a compiler. The archive says of
which files it was made (`sources`): where these have changed, nothing of it is taken, and what is wanted is compiled.

An archive is a line of JSON, then compressed blocks, one for all routines of a family and a level: a line of JSON that says where in the
block whose code lies and of which IR it is, then the code.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from planish.runtime.processors import LEVELS, Processor
from planish.runtime.routines import family_of

MADE_FOR: Final = ("x86-64-v4", "x86-64-v3")
"""The levels, the best first. What another processor runs is compiled for it."""
WIDE: Final = frozenset({"x86-64-v4"})
"""Those with registers of 512 bits."""
_FOLDER: Final = Path(__file__).with_name("routines")
ARCHIVE: Final = _FOLDER / "ready.bin"


class ReadyRoutine(NamedTuple):
    """Machine code, and of what it was made."""

    ir: str
    """The digest of the IR."""
    image: bytes


def sources() -> str:
    """The digest of all files that write routines."""
    whole = hashlib.sha256()
    for path in sorted(_FOLDER.glob("*.py")):
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()


def digest(ir: str) -> str:
    """What an archive says of the IR of a routine."""
    return hashlib.sha256(ir.encode()).hexdigest()


def level_of(processor: Processor) -> str | None:
    """The best level that a processor has, of those that routines were made for."""
    if not processor.triple.startswith("x86_64"):
        return None
    return next(
        (level for level in MADE_FOR if processor.name == level or all(map(processor.has, LEVELS[level]))),
        None,
    )


def ready(name: str, processor: Processor) -> bytes | None:
    """The machine code of a routine for a processor; None if it has to be compiled."""
    level = level_of(processor)
    routine = None if level is None else _block(family_of(name), level).get(name)
    return None if routine is None else routine.image


class RoutineArchive:
    """The file, opened."""

    def __init__(self, content: bytes) -> None:
        first, _, self._blocks = content.partition(b"\n")
        header = json.loads(first)
        self.sources: str = header["sources"]
        self.llvm: str = header["llvm"]
        self._places: Mapping[str, tuple[int, int]] = header["blocks"]

    def block(self, family: str, level: str) -> dict[str, ReadyRoutine]:
        """All routines of a family for a level, by name."""
        start, end = self._places.get(f"{family} {level}", (0, 0))
        if start == end:
            return {}
        first, _, code = zlib.decompress(self._blocks[start:end]).partition(b"\n")
        return {name: ReadyRoutine(ir, code[a:b]) for name, (ir, a, b) in json.loads(first).items()}


def packed(routines: Mapping[tuple[str, str], Mapping[str, ReadyRoutine]], llvm: str) -> bytes:
    """An archive of routines by family and level; what two share is there once."""
    places, blocks = {}, b""
    for (family, level), each in routines.items():
        index: dict[str, tuple[str, int, int]] = {}
        known: dict[bytes, int] = {}
        code = b""
        for name, (ir, image) in each.items():
            start = known.setdefault(image, len(code))
            if start == len(code):
                code += image
            index[name] = (ir, start, start + len(image))
        block = zlib.compress(json.dumps(index).encode() + b"\n" + code, 9)
        places[f"{family} {level}"] = (len(blocks), len(blocks) + len(block))
        blocks += block
    header = {"sources": sources(), "llvm": llvm, "blocks": places}
    return json.dumps(header).encode() + b"\n" + blocks


@cache
def _block(family: str, level: str) -> Mapping[str, ReadyRoutine]:
    archive = _archive()
    return {} if archive is None else archive.block(family, level)


@cache
def _archive() -> RoutineArchive | None:
    """The archive of the package; None if it is not of these files."""
    try:
        archive = RoutineArchive(ARCHIVE.read_bytes())
        return archive if archive.sources == sources() else None
    except (OSError, ValueError, KeyError, zlib.error):
        return None
