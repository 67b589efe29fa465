"""Recordings as files: a zip archive of JSON and text. Nothing in it is executed, whoever it comes from.

index.json                 as the page reads it
p0/pass/3.json, …          documents of programs; p0/pass/3/replay.json: what each step of a pass did to its lines
p0/k/12/kernel.json        what is known of a kernel, and its stages and steps by the numbers of nodes
p0/k/12/nodes.uop          all nodes it ever had, as text: documents of kernels are made from these when asked for
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from planish.collector import collector_off
from planish.compiler.progress import report
from planish.errors import PlanishError
from planish.uop.text import print_lines
from planish.viz import schema
from planish.viz.documents import plain, problems, read_as
from planish.viz.journey import Journey, StageData, load, numbered, stored
from planish.viz.kernel_view import KernelFacts, KernelView
from planish.viz.machine import cycle_us
from planish.viz.pass_replay import PassReplay
from planish.viz.process import SUFFIX
from planish.viz.recording import Document, Documents, Recording
from planish.viz.rules import rule_of

_INDEX: Final = "index.json"
_REPLAY: Final = "replay.json"
_STEP: Final = re.compile(r"(p\d+/pass/\d+)/step/(\d+)\.json")
_KEPT: Final = 64
"""Kernels of a file that stay in memory."""


def save(recording: Recording, path: Path) -> None:
    """Write a recording beside its place and move it there, so that it is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with collector_off(), zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:

        def put(name: str, document: Document) -> None:
            archive.writestr(name, json.dumps(plain(document), separators=(",", ":")))

        for name in recording.program_paths():
            put(name, recording.document(name))
        for view in recording.programs:
            for position, each in enumerate(view.program.passes):
                if each.steps:
                    put(f"{view.id}/pass/{position}/{_REPLAY}", view.passes.replay(position))
            for done, (number, kernel) in enumerate(view.kernels.items()):
                report(done, len(view.kernels))
                place, stages = f"{view.id}/k/{number}", list[StageData]()
                recorded = view.program.kernels.get(int(number))
                if recorded is not None:
                    nodes, stages = numbered(recorded, recording.rules.uop, view.epoch)
                    archive.writestr(f"{place}/nodes.uop", print_lines(nodes))
                known = {"facts": plain(replace(kernel.facts, llir=kernel.llir)), "stages": stored(stages)}
                archive.writestr(f"{place}/kernel.json", json.dumps(known, separators=(",", ":")))
        put(_INDEX, recording.index)
    part.replace(path)


def is_recording(path: Path) -> bool:
    """Whether a file is one of these."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _INDEX in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


class StoredRecording(Documents):
    """A recording out of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self._names = frozenset(self._archive.namelist())
            raw = self._json(_INDEX)
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise PlanishError(
                f"{path} is no recording: {error}", remedy="`planish viz script.py --save FILE` writes one"
            ) from None
        version = raw.get("version") if isinstance(raw, dict) else None
        if version != schema.VERSION:
            raise PlanishError(
                f"{path} is a recording of version {version}, and this planish reads {schema.VERSION}",
                remedy="record it again",
            )
        problem = next(problems(raw, schema.Index), None)
        if problem is not None:
            raise PlanishError(f"{path} is no recording: {problem}", remedy="record it again")
        self._index = read_as(raw, schema.Index)
        self._kernel = lru_cache(_KEPT)(self._read_kernel)
        self._replay = lru_cache(_KEPT)(self._read_replay)

    def __repr__(self) -> str:
        return f"<recording {self.path}: {len(self._index.programs)} programs>"

    def _json(self, name: str) -> Any:
        return json.loads(self._archive.read(name))

    @property
    def index(self) -> schema.Index:
        return self._index

    def other(self, path: str) -> Document | None:
        step = _STEP.fullmatch(path)
        if step is None:
            return self._json(path) if path in self._names else None
        member = f"{step[1]}/{_REPLAY}"
        replay = self._replay(member) if member in self._names else None
        return None if replay is None else replay.step(int(step[2]))

    def _read_replay(self, member: str) -> PassReplay:
        return read_as(self._json(member), PassReplay)

    def kernel(self, program: str, number: str) -> KernelView | None:
        return self._kernel(f"p{program}/k/{number}")

    def _read_kernel(self, place: str) -> KernelView | None:
        if f"{place}/kernel.json" not in self._names:
            return None
        raw = cast("Mapping[str, Any]", self._json(f"{place}/kernel.json"))
        facts = read_as(raw["facts"], KernelFacts)

        def journey() -> Journey | None:
            if f"{place}/nodes.uop" not in self._names:
                return None
            return load(self._archive.read(f"{place}/nodes.uop").decode(), raw["stages"])

        rules = self._index.rules
        return KernelView(
            facts, journey, cycle_us(self._index.machine, facts.target), lambda rule: rule_of(rules.get(rule))
        )

    def close(self) -> None:
        self._archive.close()


__all__ = ["SUFFIX", "StoredRecording", "is_recording", "save"]
