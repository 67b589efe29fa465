"""Which processor code is made for: this machine with all its features, or a level of x86-64 or aarch64 as such.

What this machine is called and has is asked of LLVM once and kept in the cache, under what Linux says of the processor: a start
from the cache does not wait for LLVM to be loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from planish.errors import PlanishError
from planish.records import dataclass
from planish.runtime.cache import disk_cache, key_of
from planish.target import Target
from planish.target import host_features as features

_V3: Final = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "x86-64": (),
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""The levels of x86-64 that code can be made for, and what a machine has to have to run it."""
_AMX: Final = tuple(sorted(features.AMX_FLAGS.values()))
DOT_PRODUCTS: Final = ("avx512vnni", "avx512bf16")
_BEYOND: Final[dict[str, tuple[str, ...]]] = {
    "x86-64-vnni": ("avx512vnni",),
    "x86-64-bf16": DOT_PRODUCTS,
    "x86-64-amx": (*_AMX, *DOT_PRODUCTS),
}
"""What targets have beyond x86-64-v4."""
_DOT_PRODUCTS: Final = "+fast-dpwssd"
"""Use `vpdpwssd` where it fits: LLVM likes a product and a sum better, which wait less, but our tiles have enough to do meanwhile."""
_ARM: Final = "aarch64-unknown-linux-gnu"
_X86: Final = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True, slots=True)
class Processor:
    """What machine code is made for, in LLVM's words."""

    triple: str
    name: str
    features: str = ""

    @property
    def is_arm(self) -> bool:
        """Whether it is an aarch64."""
        return self.triple.startswith("aarch64")

    def has(self, feature: str) -> bool:
        """Whether a feature is named as one that it has beyond its name."""
        return f"+{feature}" in self.features.split(",")

    @property
    def avx512(self) -> bool:
        """Whether it has vectors of 512 bits, and what x86-64-v4 has for shorter ones."""
        return self.name == "x86-64-v4" or all(map(self.has, ("avx512f", "avx512dq", "avx512vl")))

    def __str__(self) -> str:
        return f"{self.triple} {self.name} {self.features}".rstrip()


class Told(NamedTuple):
    """What LLVM says of the machine we run on."""

    triple: str
    name: str
    features: Mapping[str, bool]


_FICKLE: Final = (
    "processor", "cpu MHz", "bogomips", "physical id", "core id", "apicid", "initial apicid", "cpu cores",
    "siblings",
)  # fmt: skip
"""What Linux says of a processor that another one like it, or the same one later, does not share."""


def described(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """What Linux says of the first processor; None where it says nothing of its features."""
    try:
        with cpuinfo.open() as lines:
            steady = []
            for line in lines:
                if not line.strip():
                    break
                if line.split(":")[0].strip() not in _FICKLE:
                    steady.append(line)
    except OSError:
        return None
    if not any(line.startswith(("flags", "Features")) for line in steady):
        return None
    return "".join((*steady, *os.uname()[2:]))


@cache
def by_llvm() -> Told:
    """What LLVM says of this machine: from the cache, or asked."""
    known = described()
    key = None if known is None else key_of("processor", known)
    raw = None if key is None else disk_cache().get(key)
    if raw is not None:
        return Told(*json.loads(raw))
    import llvmlite.binding as llvm

    told = Told(llvm.get_process_triple(), llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features()))
    if key is not None:
        disk_cache().put(key, json.dumps(told).encode())
    return told


@cache
def host() -> Processor:
    """The machine we run on, with all its features: those that it has and that this process may use."""
    told = by_llvm()
    has, allowed = dict(told.features), features.amx().features
    has.update({name: name in allowed for name in _AMX if name in has or name in allowed})
    text = ",".join(f"{'+' if has[name] else '-'}{name}" for name in sorted(has))
    if has.get("avx512vnni") or has.get("avxvnni"):
        text += f",{_DOT_PRODUCTS}"
    return Processor(told.triple, told.name, text)


def processor(target: Target) -> Processor:
    """Which processor code for a target is made for: a level of x86-64 or aarch64 as such, anything else this machine."""
    if target.native:
        return host()
    here = by_llvm().triple
    if target.name in LEVELS:
        return Processor(here if here.startswith("x86_64") else _X86, target.name)
    if target.name in _BEYOND:
        wanted = ",".join(f"+{name}" for name in _BEYOND[target.name])
        return Processor(here if here.startswith("x86_64") else _X86, "x86-64-v4", wanted)
    return Processor(_ARM, "generic") if target.name == "aarch64" else host()


def why_nothing_runs(triple: str) -> str | None:
    """What keeps a machine from running compiled code at all; None if nothing does."""
    if triple.startswith("x86_64") and "linux" in triple:
        return None
    return f"compiled code runs on x86-64 Linux, and this is {triple}"


def check_runs_here(made_for: Processor) -> None:
    """Refuse code that this machine cannot run."""
    here = host()
    if (reason := why_nothing_runs(here.triple)) is not None:
        raise PlanishError(
            reason, remedy='read it with as_text("asm"), or run the function with ptir.interpret'
        )
    if made_for == here:
        return
    if made_for.triple.split("-")[0] != here.triple.split("-")[0]:
        raise PlanishError(
            f"code for {made_for.triple} does not run on this machine ({here.triple})",
            remedy='read it with as_text("asm"), or compile for "host"',
        )
    has = by_llvm().features
    missing = [name for name in LEVELS.get(made_for.name, ()) if not has.get(name)]
    tiles = [name for name in _AMX if made_for.has(name) and name not in features.amx().features]
    missing += [name for name in DOT_PRODUCTS if made_for.has(name) and not has.get(name)]
    if missing or tiles:
        missing += tiles
        raise PlanishError(
            f"code for {made_for.name}{' with AMX' if tiles else ''} does not run on this machine: it lacks {', '.join(missing)}",
            remedy='read it with as_text("asm"), or compile for "host"',
        )
