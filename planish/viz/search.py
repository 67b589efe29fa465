"""Search over a recording: names, lines of the user's, rules, the text of passes and kernels, and where rules applied."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final

from planish.viz.schema import Index, SearchResults

if TYPE_CHECKING:
    from planish.viz.recording import Documents

_MOST: Final = 300
"""Results of one search."""
_MOST_ENTRIES: Final = 50_000
"""Entries that an export carries."""
_SECONDS: Final = 2.0
"""A live search is given up after that, with what it has."""
_PER_RULE: Final = 5
"""Steps that are shown for one rule in one stage."""

Entry = list[str]


def entries(index: Index) -> Iterator[Entry]:
    """What the index alone tells."""
    for program in index.programs:
        where = "" if program.user is None else f" {program.user.file}:{program.user.line}"
        yield ["program", program.id, f"{program.name}{where} {program.target}"]
        for each in program.passes:
            yield ["pass", each.id, f"{each.name} @{each.function}"]
        for kernel in program.kernels:
            yield ["kernel", kernel.id, f"{kernel.name} {kernel.origin}".strip()]
            if kernel.schedule:
                yield ["why", f"{kernel.id}/why", kernel.schedule]
    for id, rule in index.rules.items():
        yield ["rule", f"rule/{id}", f"{rule.name}: {rule.equation} ({rule.file}:{rule.line})"]


def index_of(recording: Documents, *, deep: bool) -> SearchResults:
    """Everything that can be found, for an export: `deep` with the lines of passes and kernels."""
    results: list[Entry] = list(entries(recording.index))
    left_out = 0
    if deep:
        for entry in _lines(recording):
            if len(results) < _MOST_ENTRIES:
                results.append(entry)
            else:
                left_out += 1
    return SearchResults(results, left_out)


def search(recording: Documents, query: str) -> SearchResults:
    """What contains all words of a query, whatever their case; names come first."""
    words = query.lower().split()
    results: list[Entry] = []
    if not words:
        return SearchResults(results)
    until = monotonic() + _SECONDS
    for source in (entries(recording.index), _lines(recording), _steps(recording, words)):
        for entry in source:
            text = entry[2].lower()
            if all(word in text for word in words):
                results.append(entry)
            if len(results) >= _MOST or monotonic() > until:
                return SearchResults(results, 1)
    return SearchResults(results)


def _lines(recording: Documents) -> Iterator[Entry]:
    """The text of programs and kernels, line by line."""
    for program in recording.index.programs:
        for each in program.passes:
            if each.changed:
                level = recording.document(f"{each.id}.json")
                text = level["after"] if isinstance(level, dict) else getattr(level, "after", "")
                yield from (
                    ["pass", each.id, line.strip()] for line in str(text).splitlines() if line.strip()
                )
        for kernel in program.kernels:
            view = recording.kernel(program.id[1:], kernel.id.rpartition("/")[2])
            if view is not None:
                lines = view.llir.splitlines()
                yield from (
                    ["level", f"{kernel.id}/level/llir", line.strip()] for line in lines if line.strip()
                )


def _steps(recording: Documents, words: list[str]) -> Iterator[Entry]:
    """Where rules applied that match."""
    rules = {
        id: f"{rule.name}: {rule.equation}"
        for id, rule in recording.index.rules.items()
        if all(word in f"{rule.name} {rule.equation}".lower() for word in words)
    }
    if not rules:
        return
    for program in recording.index.programs:
        for kernel in program.kernels:
            view = recording.kernel(program.id[1:], kernel.id.rpartition("/")[2])
            for stage in view.journey.stages if view is not None and view.journey is not None else ():
                shown: dict[str, int] = {}
                for number, step in enumerate(stage.steps):
                    if step.rule in rules and shown.setdefault(step.rule, 0) < _PER_RULE:
                        shown[step.rule] += 1
                        yield ["step", f"{kernel.id}/stage/{stage.number}?step={number}", rules[step.rule]]
