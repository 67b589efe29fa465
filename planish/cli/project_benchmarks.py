"""`planish bench --project NAME`: a benchmark of the project's own, from its source tree, beside the peers that are installed.

The scripts of `bench/` print their tables and leave rows as JSON; here they are run, and their ratios drawn.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planish.cli.console import CommandError, Console, UsageError
from planish.cli.plots import Bars, write_plot
from planish.errors import did_you_mean


def folder() -> Path:
    """The benchmarks of the source tree; an installed package has none."""
    for place in (Path.cwd() / "bench", Path(__file__).parents[2] / "bench"):
        if (place / "report.py").is_file():
            return place
    raise CommandError(
        "the project's benchmarks are part of its source tree, and not installed",
        remedy="run it in a checkout",
    )


def known() -> dict[str, str]:
    """Every benchmark with what it measures."""
    shared = ("report", "onnx_packages")
    return {
        script.stem: (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").partition("\n")[
            0
        ]
        for script in sorted(folder().glob("[a-z]*.py"))
        if script.stem not in shared and not script.stem.endswith("_programs")
    }


def run_project(name: str, words: Sequence[str], plot: str | None, console: Console) -> list[dict[str, Any]]:
    """Run one with its own options; its rows. Its table goes where ours would go."""
    scripts = known()
    if name not in scripts:
        close = did_you_mean(name, scripts)
        hint = f"did you mean {close!r}? " if close else ""
        raise UsageError(f"there is no benchmark {name!r}", remedy=f"{hint}valid: {', '.join(scripts)}")
    with tempfile.TemporaryDirectory(prefix="planish-bench-") as temporary:
        rows_file = Path(temporary) / "rows.json"
        command = [sys.executable, str(folder() / f"{name}.py"), "--json", str(rows_file), *words]
        # under --json standard output is for the rows alone
        ran = subprocess.run(command, check=False, stdout=sys.stderr if console.json else None)  # noqa: S603 - our own script
        if ran.returncode:
            raise CommandError(f"the benchmark {name} ended with status {ran.returncode}")
        rows = json.loads(rows_file.read_text(encoding="utf-8")) if rows_file.exists() else []
    valid = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if plot is not None:
        bars = [
            (f"{row.get('name', '')} / {row['peer_name']}", row["ratio"]) for row in valid if row.get("ratio")
        ]
        if not bars:
            console.say_labelled("note", f"{name} leaves no ratios to draw")
        else:
            console.say(f"wrote {write_plot(plot, [Bars(f'{name}: times as fast as the peer', 'x', bars)])}")
    return valid
