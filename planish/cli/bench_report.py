"""What `planish bench` has measured: as a table, as data, as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from planish.cli.bench_subjects import OURS
from planish.cli.plots import Bars
from planish.compiler import Executable
from planish.compiler.launch_parameters import touched_bytes
from planish.compiler.profile import Profile

UNKNOWN: Final = "–"
TUNED: Final = "planish, tuned"
Times = Mapping[tuple[int, int], float]
"""Seconds by the number of the executable and of its kernel."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel: its seconds, now and before a search, and how near they are to the limit."""

    kernel: str
    launches: int
    seconds: float
    before: float | None
    """None without a search."""
    is_heuristic: bool
    gflops: float
    gbytes: float
    share: float | None
    """Of what the machine can do; None if that is not known."""
    bound_by: str


def kernel_rows(
    executables: Sequence[Executable],
    before: Times,
    after: Times | None,
    shares: Mapping[tuple[int, int], float | None],
) -> list[KernelRow]:
    """A row for every kernel."""
    rows = []
    for number, executable in enumerate(executables):
        for place, info in enumerate(executable.kernels):
            at = (number, place)
            seconds = (before if after is None else after)[at]
            rows.append(
                KernelRow(
                    info.name,
                    info.launches,
                    seconds,
                    None if after is None else before[at],
                    executable.lowered.choice(place).origin.startswith("heuristic"),
                    info.flops / seconds / 1e9,
                    touched_bytes(info.program) / seconds / 1e9,
                    shares[at],
                    str(info.cost.bound_by),
                )
            )
    return rows


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All figures of a run."""

    name: str
    kernels: Sequence[KernelRow] = ()
    whole: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a call of each side."""
    profiles: Sequence[tuple[str, Profile]] = ()
    """On a GPU: every launch, before a search and after it."""
    why: str = ""

    def text(self) -> str:
        """A table of kernels, then the whole."""
        parts = [profile.table() for _, profile in self.profiles]
        if self.whole:
            parts += [self._table(), self._sides()]
        return "".join([*parts, self.why])

    def _table(self) -> str:
        tuned = any(row.before is not None for row in self.kernels)
        width = max([len(row.kernel) for row in self.kernels], default=6)
        was = f"  {'before ms':>9}" if tuned else ""
        gain = "    gain" if tuned else ""
        lines = [f"{'kernel':<{width}}  calls{was}  {'ms':>9}{gain}   GFLOP/s     GB/s   limit  bound by"]
        for row in self.kernels:
            was = "" if row.before is None else f"  {row.before * 1e3:9.4f}"
            faster = "" if row.before is None else f"  {row.before / row.seconds:5.2f}x"
            gain = "    same" if faster and row.is_heuristic else faster
            limit = UNKNOWN if row.share is None else f"{row.share:.0%}"
            lines.append(
                f"{row.kernel:<{width}}  {row.launches:5d}{was}  {row.seconds * 1e3:9.4f}{gain}  {row.gflops:8.1f}"
                f"  {row.gbytes:7.1f}  {limit:>6}  {row.bound_by}"
            )
        return "\n".join(lines) + "\n"

    def _sides(self) -> str:
        ours, best = self.whole[OURS], self.whole.get(TUNED, self.whole[OURS])
        line = f"whole program: {ours * 1e3:.3f} ms"
        if TUNED in self.whole:
            line += f" before, {best * 1e3:.3f} ms after, {ours / best:.2f}x"
        lines = [line]
        for name, seconds in self.whole.items():
            if name not in (OURS, TUNED):
                lines.append(f"{name}: {seconds * 1e3:.3f} ms, planish is {seconds / best:.2f}x as fast")
        return "\n".join(lines) + "\n"

    def record(self) -> dict[str, Any]:
        """The same as data."""
        profiles = [{"when": when, **profile.to_dict()} for when, profile in self.profiles]
        return {
            "program": self.name, "whole_seconds": dict(self.whole), "kernels": [asdict(row) for row in self.kernels],
            "profiles": profiles, "why": self.why,
        }  # fmt: skip

    def panels(self) -> list[Bars]:
        """What a picture shows: the sides, and the kernels that take the time."""
        launches = [r for _, profile in self.profiles[-1:] for r in profile]
        timed = [(row.kernel, row.seconds * row.launches * 1e3) for row in self.kernels]
        timed += [(r.kernel, r.seconds * 1e3) for r in launches]
        slowest = sorted(timed, key=lambda row: -row[1])[:20]
        return [
            Bars(f"{self.name}: a call", "ms", [(name, s * 1e3) for name, s in self.whole.items()]),
            Bars("kernels, all launches of a call", "ms", slowest),
        ]
