"""What planish ran and what it handed back to torch, counted and named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """Counts over all graphs that were compiled since the last reset."""

    graphs: int = 0
    segments: int = 0
    """Compiled functions: one per graph if nothing was handed back."""
    lowered: Counter[str] = field(default_factory=Counter)
    """Nodes that planish runs, by op."""
    handed_back: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Nodes that torch runs, by op and reason."""
    checks: Counter[str] = field(default_factory=Counter)
    """Assertions about data, which compute nothing: torch raises its own errors."""
    draws: Counter[str] = field(default_factory=Counter)
    """Random numbers, which torch draws from its own generators so that they are those of a run without a compiler."""

    @property
    def nodes(self) -> int:
        """How many nodes planish runs."""
        return self.lowered.total()

    @property
    def fallbacks(self) -> dict[str, int]:
        """How many nodes torch runs, by op."""
        by_op: Counter[str] = Counter()
        for (op, _), count in self.handed_back.items():
            by_op[op] += count
        return dict(by_op)

    def __str__(self) -> str:
        drawn = f", {self.draws.total()} draws of random numbers" if self.draws else ""
        lines = [
            f"{self.graphs} graphs, {self.segments} compiled functions: {self.nodes} nodes run by planish, {self.handed_back.total()} by torch{drawn}"
        ]
        lines += [f"  {count} × {op}: {why}" for (op, why), count in self.handed_back.most_common()]
        return "\n".join(lines)


_TOTAL = Report()


def report(*, reset: bool = False) -> Report:
    """What was compiled so far; with `reset`, counting starts anew afterwards."""
    global _TOTAL  # noqa: PLW0603
    totals = _TOTAL
    if reset:
        _TOTAL = Report()
    return totals


def total() -> Report:
    """Where to count."""
    return _TOTAL
