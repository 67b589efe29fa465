"""Write the machine code of all routines as an archive of the package, `planish/runtime/routines/ready.bin` (part of `make native`).

What the archive has already is compiled again only if its IR or LLVM is another one now.
"""

from __future__ import annotations

import sys
from pathlib import Path

import llvmlite.binding as llvm

sys.path.insert(0, str(Path(__file__).parent.parent))
from planish.runtime import cpu, routines
from planish.runtime.ready_routines import (
    ARCHIVE,
    MADE_FOR,
    WIDE,
    ReadyRoutine,
    RoutineArchive,
    digest,
    packed,
)

LLVM = ".".join(map(str, llvm.llvm_version_info))


def compiled(name: str, level: str) -> ReadyRoutine:
    """A routine for a level of x86-64."""
    ir, unrolled = routines.source(name), routines.ROUTINES[routines.family_of(name)].unrolled
    made_for = cpu.Processor("x86_64-unknown-linux-gnu", level)
    return ReadyRoutine(digest(ir), cpu.emit_routine(ir, made_for, unrolled=unrolled))


def main() -> None:
    before = RoutineArchive(ARCHIVE.read_bytes()) if ARCHIVE.exists() else None
    blocks: dict[tuple[str, str], dict[str, ReadyRoutine]] = {}
    for family in sorted(routines.ROUTINES.keys() - routines.BY_LIBRARY):
        for level in MADE_FOR:
            kept = {} if before is None or before.llvm != LLVM else before.block(family, level)
            block = blocks[family, level] = {}
            for name in routines.names(family):
                if routines.is_wide(name) and level not in WIDE:
                    continue
                known = kept.get(name)
                same = known is not None and known.ir == digest(routines.source(name))
                block[name] = known if known is not None and same else compiled(name, level)
    ARCHIVE.write_bytes(packed(blocks, LLVM))
    print(f"{sum(map(len, blocks.values()))} routines, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
