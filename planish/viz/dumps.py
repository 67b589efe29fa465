"""Folders of texts as recordings: what `dump_dir` and `--dump-dir` wrote, without steps, since nobody has heard any.

NNN_pass.ptir                  the program after a pass                    `planish opt --dump-dir`
KERNEL/NN_stage.uop            a kernel after a stage                      the setting `dump_dir`
NNN_llir.txt                   all kernels in LLIR                         `planish lower --dump-dir`
NNNNN_run/program.ptir         a program that ran, with `stats.json`       `planish run --dump-dir`
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from planish._version import __version__
from planish.errors import PlanishError
from planish.filenames import file_name
from planish.ptir import parse as parse_ptir
from planish.uop.node import Table, UOp
from planish.uop.text import parse, parse_lines
from planish.viz import schema
from planish.viz.journey import Journey, StageData
from planish.viz.kernel_view import KernelFacts, KernelView
from planish.viz.machine import this_machine
from planish.viz.pass_view import pass_graph
from planish.viz.passes import TracedPass, look
from planish.viz.recording import STAGE_NAMES, Document, Documents

_PASS: Final = re.compile(r"(\d+)_(.+)\.ptir")
_STAGE: Final = re.compile(r"(\d+)_(.+)\.uop")
_RUN: Final = re.compile(r"(\d+)_(.+)")
_SAME: Final = re.compile(r"# as in (.+)")
_NAME: Final = re.compile(r"^kernel (\S+)", re.MULTILINE)
_FIRST_LINES: Final = 21
"""From this stage on a kernel is a list of lines."""


class DumpedRecording(Documents):
    """A folder, to be looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = sorted(path for path in folder.iterdir() if path.is_file() and _PASS.fullmatch(path.name))
        folders = sorted(path for path in folder.iterdir() if path.is_dir())
        runs = [path for path in folders if (path / "program.ptir").is_file()]
        kernels = [path for path in folders if any(_STAGE.fullmatch(file.name) for file in path.iterdir())]
        self._programs: list[tuple[str, list[Path], list[Path], Path | None]] = []
        if files or kernels:
            self._programs.append((folder.name, files, kernels, None))
        self._programs += [(run.name, [run / "program.ptir"], [], run) for run in runs]
        if not self._programs:
            raise PlanishError(
                f"{folder} holds no dump",
                remedy="PLANISH_DUMP_DIR=DIR and `planish run --dump-dir DIR` write one",
            )
        self._kernels: dict[tuple[str, str], KernelView] = {}

    def __repr__(self) -> str:
        return f"<dump {self.folder}: {len(self._programs)} programs>"

    @cached_property
    def index(self) -> schema.Index:
        """The first document."""
        created = datetime.fromtimestamp(self.folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
        return schema.Index(
            schema.VERSION, False, self.folder.name, f"planish viz {self.folder}", created, __version__,
            this_machine(), [self._entry(number) for number in range(len(self._programs))], [], STAGE_NAMES, {}, 0,
        )  # fmt: skip

    def _entry(self, number: int) -> schema.ProgramEntry:
        name, files, kernels, run = self._programs[number]
        stats = {} if run is None else _stats(run)
        return schema.ProgramEntry(
            f"p{number}",
            name,
            None,
            "",
            None,
            [],
            [
                schema.PassEntry(
                    f"p{number}/pass/{position}", file.stem.partition("_")[2] or file.stem, name, 0.0, True, 0
                )
                for position, file in enumerate(files)
            ],
            [self._kernel_entry(number, position, folder) for position, folder in enumerate(kernels)],
            [],
            schema.Has(),
            str(stats.get("error") or ""),
        )

    def _kernel_entry(self, program: int, number: int, folder: Path) -> schema.KernelEntry:
        view = self.kernel(str(program), str(number))
        stages = view.journey.stages if view is not None and view.journey is not None else []
        return schema.KernelEntry(
            f"p{program}/k/{number}", folder.name, "", 1, None, None, None, "", None, None, None, "",
            [[stage.number, 0.0, 0, int(stage.changed)] for stage in stages],
            [] if view is None else [level for level in view.levels if level != "schedule"],
        )  # fmt: skip

    def kernel(self, program: str, number: str) -> KernelView | None:
        if int(program) >= len(self._programs):
            return None
        folders = self._programs[int(program)][2]
        if int(number) >= len(folders):
            return None
        key = program, number
        if key not in self._kernels:
            folder = folders[int(number)]
            facts = KernelFacts(
                f"p{program}/k/{number}",
                folder.name,
                this_machine().target,
                llir=self._llir.get(folder.name, ""),
            )
            self._kernels[key] = KernelView(facts, lambda: journey_in(folder))
        return self._kernels[key]

    @cached_property
    def _llir(self) -> dict[str, str]:
        """Kernels in LLIR, by the names of their folders: one file has them all, each behind the line of its version."""
        kernels: dict[str, str] = {}
        for path in sorted(self.folder.glob("*_llir.txt")):
            for part in re.split(r"^(?=llir \d)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
                name = _NAME.search(part)
                if name is not None:
                    kernels[file_name(name[1])] = part
        return kernels

    def other(self, path: str) -> Document | None:
        match = re.fullmatch(r"p(\d{1,6})/pass/(\d{1,6})\.json", path)
        if match is None or int(match[1]) >= len(self._programs):
            return None
        files, number = self._programs[int(match[1])][1], int(match[2])
        if number >= len(files):
            return None
        text = files[number].read_text(encoding="utf-8")
        trace = TracedPass(number, files[number].stem, "", changed=True, text=text)
        look(parse_ptir(text, file=files[number].name), trace)
        before = files[number - 1].read_text(encoding="utf-8") if number else None
        return schema.Level(
            files[number].stem.partition("_")[2] or files[number].stem,
            "",
            "ptir",
            before,
            text,
            pass_graph(trace),
            0,
            0,
            [],
        )


def _stats(run: Path) -> dict[str, Any]:
    try:
        stats = json.loads((run / "stats.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stats if isinstance(stats, dict) else {}


def journey_in(folder: Path) -> Journey:
    """The stages of a kernel that a folder holds."""
    table = Table()
    stages: list[StageData] = []
    nodes: dict[UOp, int] = {}
    known: dict[str, tuple[tuple[int, ...], bool]] = {}

    def number(node: UOp) -> int:
        return nodes.setdefault(node, len(nodes))

    for path in sorted(folder.iterdir()):
        match = _STAGE.fullmatch(path.name)
        if match is None:
            continue
        text = path.read_text(encoding="utf-8")
        same = _SAME.match(text)
        stage, name = int(match[1]), match[2].replace("_", " ")
        if same is not None and same[1].strip() in known:
            form, is_lines = known[same[1].strip()]
        elif stage >= _FIRST_LINES:
            form, is_lines = tuple(number(node) for node in parse_lines(text, table)), True
        else:
            form, is_lines = (number(parse(text, table)),), False
        known[path.name] = form, is_lines
        stages.append(StageData(stage, name, 0.0, same is None, form, is_lines))
    return Journey(list(nodes), stages, table)
