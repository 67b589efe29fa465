"""Whether this machine runs Intel AMX for this process: what it says, what Linux allows, and a trial.

Three things have to hold. The processor has the instructions (its flags as Linux lists them; the CPUID leaves that describe
tiles are hidden by some hypervisors, and not needed). Linux lets this process use the state of tiles, for which it has to be asked
once; the permission holds for all threads. And a trial works: a child process loads a configuration and clears a tile, since a
machine that only pretends ends a process with SIGILL. The child is machine code from its first instruction to its last: it
runs nothing of Python and touches nothing that threads may hold.

Nothing is asked and nothing tried where the flags are missing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from planish.records import dataclass

AMX_FLAGS: Final = {"amx_tile": "amx-tile", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8"}
"""The flags of Linux, and what LLVM calls them."""
_DOT_PRODUCTS: Final = {"avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16"}
_ARCH_PRCTL: Final = 158
_REQUEST: Final = 0x1023  # ARCH_REQ_XCOMP_PERM
_TILE_DATA: Final = 18
_ANY_CHILD: Final = 0x40000000  # __WALL: also one that sends no signal at its end
_SURVIVED: Final = 7
_TRIAL: Final = bytes.fromhex(
    "57 b838000000 31ff 31f6 31d2 4531d2 4531c0 0f05 4159"  # child = clone(nothing shared, no signal), the argument kept
    "85c0 7401 c3"  # the parent returns its number
    "b89d000000 bf04000000 31f6 0f05"  # prctl(PR_SET_DUMPABLE, 0): no core file if it fails
    "6a00 6a00 6a00 6a00 b80d000000 bf04000000 4889e6 31d2 41ba08000000 0f05"  # no handler of SIGILL: Python's may print
    "c4c2784901 c4e27b49c0 c4e27849c0"  # ldtilecfg [argument]; tilezero tmm0; tilerelease
    "b83c000000 bf07000000 0f05"  # exit(7)
)
_CONFIGURATION: Final = struct.pack("<8Q", 1, 0, *[0x0040004000400040] * 2, 0, 0, 0x1010101010101010, 0)


@dataclass(frozen=True, slots=True)
class Amx:
    """What of AMX this process may use."""

    features: frozenset[str] = frozenset()
    """In LLVM's words; empty if nothing."""
    why_not: str = ""
    """What is missing, if nothing may be used."""

    def __str__(self) -> str:
        return " ".join(sorted(self.features)) or f"no: {self.why_not}"


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The flags of the first processor, as Linux lists them; none where there is no such list."""
    return frozenset(_listed("flags", cpuinfo).split())


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor by name, as Linux has it."""
    return _listed("model name", cpuinfo) or platform.processor() or platform.machine()


def _listed(wanted: str, cpuinfo: Path) -> str:
    """What Linux says of the first processor; nothing where there is no such list."""
    try:
        with cpuinfo.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == wanted:
                    return value.strip()
    except OSError:
        pass
    return ""


def dot_products(flags: Iterable[str]) -> frozenset[str]:
    """What of dot products a processor has, in LLVM's words, given its flags."""
    return frozenset(name for flag, name in _DOT_PRODUCTS.items() if flag in frozenset(flags))


def ask_permission() -> bool:
    """Ask Linux for the state of tiles, for this process and what it forks."""
    try:
        return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)
    except (OSError, AttributeError):
        return False


def try_in_a_child() -> bool:
    """Whether a child process survives the use of a tile."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(_TRIAL)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        child = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(start)(_CONFIGURATION)
        if child < 0:
            return False
        _, status = os.waitpid(child, _ANY_CHILD)
    except OSError:
        return False
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SURVIVED


def detect(
    flags: Iterable[str],
    permitted: Callable[[], bool] = ask_permission,
    trial: Callable[[], bool] = try_in_a_child,
) -> Amx:
    """What of AMX may be used, given the flags of the processor."""
    given = frozenset(flags)
    has = frozenset(llvm for flag, llvm in AMX_FLAGS.items() if flag in given)
    if platform.machine() != "x86_64" or sys.platform != "linux" or "amx-tile" not in has:
        return Amx(why_not="this machine has none")
    if len(has) == 1:
        return Amx(why_not="this machine has tiles, and nothing that multiplies them")
    if not permitted():
        return Amx(why_not="Linux does not permit it to this process")
    if not trial():
        return Amx(why_not="a trial of it failed")
    return Amx(has)


@cache
def amx() -> Amx:
    """What of AMX this process may use; asked for once."""
    return detect(cpu_flags())
