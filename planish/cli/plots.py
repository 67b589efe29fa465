"""Bars: as a picture where matplotlib is installed, as text anywhere.

One series of lengths with labels is all that the commands have to show.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planish.cli.console import CommandError, UsageError

_KINDS: Final = (".png", ".svg", ".pdf", ".txt")
_WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class Bars:
    """A title, and a length for every label."""

    title: str
    unit: str
    rows: Sequence[tuple[str, float]]


def check_plot(path: str | None) -> None:
    """Whether a picture can be written there: asked before anything is measured."""
    if path is None:
        return
    if Path(path).suffix not in _KINDS:
        raise UsageError(f"{path} is no picture", remedy=f"its name ends in {', '.join(_KINDS)}")
    if not Path(path).absolute().parent.is_dir():
        raise CommandError(f"cannot write {path}: there is no such folder")


def write_plot(path: str, panels: Sequence[Bars]) -> str:
    """Draw panels below each other into a file; its name, which ends in .txt where there is no matplotlib."""
    panels = [panel for panel in panels if panel.rows]
    if Path(path).suffix == ".txt" or importlib.util.find_spec("matplotlib") is None:
        place = Path(path).with_suffix(".txt")
        place.write_text("\n".join(text_bars(panel) for panel in panels), encoding="utf-8")
        return str(place)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [1 + 0.35 * len(panel.rows) for panel in panels]
    figure = Figure(figsize=(9, sum(heights) + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        labels = [label for label, _ in panel.rows]
        values = [value for _, value in panel.rows]
        drawn = axis.barh(range(len(values)), values, color=_colours(labels))
        axis.set_yticks(range(len(values)), labels)
        axis.bar_label(drawn, fmt="%.4g", padding=3)
        axis.margins(x=0.15)
        axis.invert_yaxis()
        axis.set_xlabel(panel.unit)
        axis.set_title(panel.title, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return path


def _colours(labels: Sequence[str]) -> list[str]:
    """Ours in the one colour, others in the other; kernels all alike."""
    return ["#8c959f" if label in _PEERS else "#0969da" for label in labels]


_PEERS: Final = frozenset(
    {"onnxruntime", "openvino", "numpy", "torch", "jax", "tinygrad", "iree", "numba", "numexpr"}
)


def text_bars(panel: Bars) -> str:
    """The same as text."""
    width = max((len(label) for label, _ in panel.rows), default=0)
    most = max((value for _, value in panel.rows), default=0.0) or 1.0
    lines = [f"{panel.title} [{panel.unit}]"]
    for label, value in panel.rows:
        eighths = round(_WIDTH * 8 * value / most)
        bar = _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(f"  {label:<{width}}  {bar:<{_WIDTH}}  {value:.4g}")
    return "\n".join(lines) + "\n"
