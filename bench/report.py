"""Rows of a benchmark: printed as a table, written as JSON with `--json FILE`.

A row compares us with one peer in the same run: `ratio` is how many times better than the peer we are (above 1 is
ahead), `spread` the largest relative distance of a repeat from the median, of either side. Where there is no peer,
`peer_name`, `peer` and `ratio` are None: null in JSON, a dash in the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    name: str
    size: int
    ours: float
    unit: str
    peer_name: str | None
    peer: float | None
    ratio: float | None
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
    for peer in peers:
        theirs = median(figures[peer])
        spread = max(_spread(figures[""]), _spread(figures[peer]))
        rows.append(Row(name, size, mine, unit, peer, theirs, theirs / mine if mine else None, spread))
    return rows or [Row(name, size, mine, unit, None, None, None, _spread(figures[""]))]


def microseconds(call: Callable[[], object], seconds: float = 0.03) -> float:
    """Microseconds of a call: the least of a turn that lasts so long."""
    call()
    best, end = float("inf"), perf_counter() + seconds
    while True:
        begin = perf_counter()
        call()
        now = perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best * 1e6


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return max(abs(v - middle) for v in values) / middle if middle else 0.0


def show(rows: Sequence[Row], *, heading: bool = True) -> None:
    """Print a table."""
    if heading:
        print(f"{'what':34} {'size':>8} {'ours':>10} {'peer':>10} {'ratio':>7} {'spread':>7}  unit, peer")
    for r in rows:
        peer = "-" if r.peer is None else f"{r.peer:.3f}"
        ratio = "-" if r.ratio is None else f"{r.ratio:.1f}x"
        print(
            f"{r.name:34} {r.size:8} {r.ours:10.3f} {peer:>10} {ratio:>7} {r.spread:6.0%}"
            f"  {r.unit}, {r.peer_name or '-'}",
            flush=True,
        )


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    options.add_argument("--repeats", type=int, default=5)
    return options


def finish(rows: Sequence[Row], path: Path | None, *, shown: bool = False) -> None:
    """Show the rows, unless they were shown as they came, and write them if a file was asked for."""
    if not shown:
        show(rows)
    if path is not None:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
