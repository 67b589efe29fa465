"""Pictures of tables: `<!-- plot: COLUMN -->` above a table draws that column as bars below it.

The numbers stand in the document once; the picture follows from them when the site is built.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PLOT = re.compile(r"<!-- plot: (?P<column>[^>]+?) -->\n+(?P<table>(?:\|.*\n)+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A column of a table."""

    title: str
    rows: tuple[tuple[str, float], ...]


def read_table(table: str, column: str) -> Drawn:
    """A column's numbers by the words of the first; cells that are empty repeat the one above."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.strip().splitlines()
    ]
    head, rows = lines[0], lines[2:]
    at = head.index(column)
    points, above = [], ""
    for row in rows:
        above = row[0] or above
        number = _NUMBER.search(row[at]) if at < len(row) else None
        if number is not None:
            more = [cell for cell in row[1:at] if cell.isdigit()][:1]
            points.append((" ".join([re.sub(r"[`*]", "", above), *more]), float(number[0])))
    return Drawn(column, tuple(points))


def pictures(docs: Path) -> Iterator[tuple[str, str]]:
    """An SVG for every table that asks for one."""
    for page in sorted(docs.rglob("*.md")):
        uri = page.relative_to(docs).as_posix()
        for number, match in enumerate(_PLOT.finditer(page.read_text(encoding="utf-8"))):
            yield _place(uri, number), svg(read_table(match["table"], match["column"]))


def placed(markdown: str, uri: str) -> str:
    """The pictures below their tables."""
    numbers = iter(range(1000))

    def with_picture(match: re.Match[str]) -> str:
        path = _place(uri, next(numbers))
        back = "../" * uri.count("/")
        return f"{match['table']}\n![{match['column']}]({back}{path})\n"

    return _PLOT.sub(with_picture, markdown)


def _place(uri: str, number: int) -> str:
    return f"figures/{uri.removesuffix('.md').replace('/', '_')}_{number}.svg"


def svg(drawn: Drawn) -> str:
    """Horizontal bars; a ratio has a line at 1."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    labels, values = [label for label, _ in drawn.rows], [value for _, value in drawn.rows]
    figure = Figure(figsize=(9, 0.8 + 0.28 * len(values)), layout="constrained")
    figure.patch.set_facecolor("white")
    canvas: Any = FigureCanvasSVG(figure)
    axis = figure.subplots()
    ratio = "/" in drawn.title or drawn.title == "ratio"
    colours = ["#0969da" if not ratio or value <= 1 else "#bf8700" for value in values]
    axis.bar_label(axis.barh(range(len(values)), values, color=colours), fmt="%.3g", padding=3)
    axis.set_yticks(range(len(values)), labels)
    axis.invert_yaxis()
    axis.margins(x=0.1)
    title = "our time by that of the best peer" if drawn.title == "ratio" else drawn.title
    axis.set_xlabel(title + (": below 1 planish is faster" if ratio else ""))
    if ratio:
        axis.axvline(1.0, color="#57606a", linewidth=1, linestyle="--")
    axis.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    canvas.print_svg(out, metadata={"Date": None})
    return out.getvalue()
