"""Machines as data: what stages and the optimizer need to know of a target, and nothing of how code is made for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from planish.dtypes import DType
from planish.errors import SettingsError

_POWERS: Final = (64, 32, 16, 8, 4, 2)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine."""

    name: str
    register_bytes: int
    """The size of a vector register."""
    registers: int
    """How many vector registers there are."""
    folds: tuple[int, ...] = _POWERS
    """How many neighbouring elements one access may move, widest first (and never more than a register holds)."""

    def lanes(self, dtype: DType) -> int:
        """How many elements of a dtype a register holds."""
        return max(1, self.register_bytes // max(dtype.itemsize, 1))


TARGETS: Final = {
    target.name: target
    for target in (
        Target("x86-64", 16, 16),
        Target("x86-64-v3", 32, 16),
        Target("x86-64-v4", 64, 32),
        Target("aarch64", 16, 32),
        Target("scalar", 1, 16, ()),
    )
}
"""The machines that can be named; `scalar` has no vectors at all."""


@cache
def host() -> Target:
    """The machine we run on."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return TARGETS["x86-64-v4"]
    if features.get("avx2"):
        return TARGETS["x86-64-v3"]
    return TARGETS["aarch64"] if llvm.get_process_triple().startswith("aarch64") else TARGETS["x86-64"]


def find(name: str) -> Target:
    """A machine by name; `host` is the one we run on."""
    if name == "host":
        return host()
    if name not in TARGETS:
        raise SettingsError(f"unknown target {name!r}", remedy=f"one of host, {', '.join(TARGETS)}")
    return TARGETS[name]
