"""`debug="kernels"`: every run of a compiled function logs its launches, one line each, on standard error.

What a kernel is called, how long it took, what that is in bytes and arithmetic per second, and the line or node that asked for it. Launches are timed
one by one, as in a profile, but each call once, as it comes: the first ones are cold.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planish.compiler.profile import LaunchProfile, named

if TYPE_CHECKING:
    from planish import ptir
    from planish.compiler.executable import Executable

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class LoggedRuns:
    """Runs a compiled function, and logs its launches."""

    def __init__(self, exe: Executable, function: ptir.Function | None) -> None:
        self.exe = exe
        self.function = function

    @cached_property
    def origins(self) -> Sequence[Sequence[ptir.Inst]]:
        """What each launch computes, with the lines of it."""
        from planish.compiler.inspection import origins_of

        return origins_of(self.exe.lowered, self.function)

    def __call__(self, arrays: Sequence[object]) -> tuple[Any, ...]:
        """The results of a call."""
        way = self.exe.timed_walk(arrays)
        spent = way.run()
        lines = []
        for site, (name, flops, nbytes) in enumerate(way.described()):
            calls = way.counts[site]
            if not calls:
                continue
            insts = self.origins[site] if site < len(self.origins) else ()
            is_kernel = site < len(self.exe.code.sites)
            ops, places = named(insts) if is_kernel else ((f"{name} on the host",), ())
            seconds = spent[site]
            lines.append(
                line(LaunchProfile(name, calls, seconds, seconds, flops * calls, nbytes * calls, ops, places))
            )
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
        return way.results


def line(run: LaunchProfile) -> str:
    """A launch as text."""
    often = f" ({run.calls} times)" if run.calls > 1 else ""
    rates = f"{run.gbytes:7.1f} GB/s {run.gflops:8.1f} GFLOP/s" if run.nbytes else " " * 29
    return f"{run.kernel:<24} {shown(run.seconds):>9} {rates}  {run.origin}{often}\n"


def shown(seconds: float) -> str:
    """A time in a unit that is read easily."""
    unit, name = next((pair for pair in _TIMES if seconds >= pair[0]), _TIMES[-1])
    return f"{seconds / unit:.1f} {name}"


__all__ = ["LoggedRuns", "line", "shown"]
