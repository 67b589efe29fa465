"""Rows of a benchmark: printed as a table, written as JSON with `--json FILE`.

A row compares us with one peer in the same run: `ratio` is how many times better than the peer we are (above 1 is
ahead), `spread` the largest relative distance of a repeat from the median, of either side.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    name: str
    size: int
    ours: float
    unit: str
    peer_name: str
    peer: float
    ratio: float
    spread: float


def compare(
    name: str,
    size: int,
    unit: str,
    ours: Callable[[], float],
    peers: dict[str, Callable[[], float]],
    repeats: int,
) -> list[Row]:
    """Run both sides in turn, `repeats` times; each callable returns one figure (lower is better)."""
    figures: dict[str, list[float]] = {"": [], **{peer: [] for peer in peers}}
    for _ in range(repeats):
        figures[""].append(ours())
        for peer, run in peers.items():
            figures[peer].append(run())
    mine = median(figures[""])
    rows = []
    for peer in peers or {"-": None}:
        theirs = median(figures[peer]) if peer in figures else float("nan")
        spread = max(_spread(figures[""]), _spread(figures.get(peer, [mine])))
        rows.append(Row(name, size, mine, unit, peer, theirs, theirs / mine, spread))
    return rows


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return max(abs(v - middle) for v in values) / middle if middle else 0.0


def show(rows: Sequence[Row]) -> None:
    """Print a table."""
    print(f"{'what':34} {'size':>8} {'ours':>10} {'peer':>10} {'ratio':>7} {'spread':>7}  unit, peer")
    for r in rows:
        print(
            f"{r.name:34} {r.size:8} {r.ours:10.3f} {r.peer:10.3f} {r.ratio:6.1f}x {r.spread:6.0%}"
            f"  {r.unit}, {r.peer_name}"
        )


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options every benchmark has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    made.add_argument("--repeats", type=int, default=5)
    return made


def finish(rows: Sequence[Row], path: Path | None) -> None:
    """Show the rows, and write them if a file was asked for."""
    show(rows)
    if path is not None:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
