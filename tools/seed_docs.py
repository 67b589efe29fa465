"""The seed-coverage ledger: read it, check its shape, write docs/seeds.md from it.

The ledger (tests/seed_coverage.toml) lists what the four seed documents ask for and what became of it. The
page depends on the ledger alone: same ledger, same bytes. `python tools/seed_docs.py` writes the page,
`--check` only says whether it is up to date. What the entries point to is resolved in
tests/test_seed_coverage.py.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LEDGER: Final = ROOT / "tests" / "seed_coverage.toml"
PAGE: Final = ROOT / "docs" / "seeds.md"

KINDS: Final = ("table-row", "pattern", "example", "option", "name", "helper", "criterion")

# The value of `open`: which part of planish will realise the entry.
PARTS: Final = {
    "core": "dtypes, settings, and the kernel IR with its rewriting and symbolic rules (`uop/`)",
    "stages": "the 22 stages",
    "optimize": "actions, heuristic and beam search",
    "ptir": "the graph IR, its patterns and passes",
    "schedule": "kernels and memory planning",
    "llir": "the linear IR",
    "codegen": "LLVM IR and C",
    "runtime": "compilation, launch, profiling and traces",
    "cli": "the command line",
}

_REQUIRED: Final = ("id", "seed", "section", "says", "kind")
_OUTCOMES: Final = ("by", "replaced", "open")
# `replaced` with `by`: corrected, and the corrected form exists. Nothing else may be combined.
_ALLOWED_OUTCOMES: Final = frozenset(
    {frozenset({"by"}), frozenset({"replaced"}), frozenset({"open"}), frozenset({"by", "replaced"})}
)

# In the order in which an entry usually passes through them.
STATES: Final = ("open", "replaced", "replaced and realised", "realised")


class LedgerError(ValueError):
    """The ledger cannot be read; `problems` lists every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed document and those of its sections that have text of their own, in order."""

    number: str
    title: str
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a seed asks for. Exactly one outcome is set, or both `replaced` and `by`."""

    id: str
    seed: str
    section: str
    says: str
    kind: str
    by: str | None = None
    replaced: str | None = None
    open: str | None = None

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.by is not None:
            return "realised" if self.replaced is None else "replaced and realised"
        return "open" if self.replaced is None else "replaced"


@dataclass(frozen=True, slots=True)
class Ledger:
    """All seeds and all entries, in file order."""

    seeds: tuple[Seed, ...]
    entries: tuple[Entry, ...]


def parse(text: str) -> Ledger:
    """The ledger in `text`; raises `LedgerError` with every problem of shape."""
    data = tomllib.loads(text)
    problems = [f"unknown table {key!r}" for key in data if key not in {"seed", "entry"}]
    seeds: list[Seed] = []
    for table in data.get("seed", []):
        if set(table) != {"number", "title", "sections"}:
            problems.append(f"seed {table.get('number')!r}: keys must be number, title, sections")
            continue
        seeds.append(Seed(table["number"], table["title"], tuple(table["sections"])))
    entries: list[Entry] = []
    for position, table in enumerate(data.get("entry", []), start=1):
        faults = _entry_problems(table)
        name = table.get("id", f"entry number {position}")
        problems += [f"{name}: {problem}" for problem in faults]
        if not faults:
            entries.append(Entry(**table))
    problems += _ledger_problems(seeds, entries)
    if problems:
        raise LedgerError(problems)
    return Ledger(tuple(seeds), tuple(entries))


def _entry_problems(table: dict[str, object]) -> list[str]:
    problems = [f"no {key!r}" for key in _REQUIRED if key not in table]
    problems += [f"unknown key {key!r}" for key in table if key not in _REQUIRED + _OUTCOMES]
    problems += [
        f"{key!r} must be a string with text in it"
        for key, value in table.items()
        if not isinstance(value, str) or not value.strip()
    ]
    outcomes = frozenset(table) & frozenset(_OUTCOMES)
    if outcomes not in _ALLOWED_OUTCOMES:
        given = ", ".join(sorted(outcomes)) or "none"
        problems.append(f"wants exactly one of by, replaced, open (or replaced and by), has: {given}")
    if "kind" in table and table["kind"] not in KINDS:
        problems.append(f"kind {table['kind']!r} is not one of {', '.join(KINDS)}")
    if "open" in table and table["open"] not in PARTS:
        problems.append(f"open = {table['open']!r} is not one of {', '.join(PARTS)}")
    if "id" in table and "seed" in table and not str(table["id"]).startswith(f"{table['seed']}."):
        problems.append(f"the id must start with the seed, {table['seed']}.")
    return problems


def _ledger_problems(seeds: list[Seed], entries: list[Entry]) -> list[str]:
    counts = Counter(entry.id for entry in entries)
    problems = [f"{id}: used by {count} entries" for id, count in counts.items() if count > 1]
    sections = {seed.number: set(seed.sections) for seed in seeds}
    for entry in entries:
        if entry.seed not in sections:
            problems.append(f"{entry.id}: there is no seed {entry.seed!r}")
        elif entry.section not in sections[entry.seed]:
            problems.append(f"{entry.id}: seed {entry.seed} has no section {entry.section!r}")
    covered = {(entry.seed, entry.section) for entry in entries}
    problems += [
        f"seed {seed.number}: no entry for section {section!r}"
        for seed in seeds
        for section in seed.sections
        if (seed.number, section) not in covered
    ]
    return problems


def load(path: Path = LEDGER) -> Ledger:
    """The ledger of the repository."""
    return parse(path.read_text(encoding="utf-8"))


def render(ledger: Ledger) -> str:
    """The whole page."""
    lines = [
        "# What the seeds ask for, and what became of it",
        "",
        "<!-- Written by tools/seed_docs.py from tests/seed_coverage.toml. Do not edit. -->",
        "",
        "*Realised* entries point to the code, rule, test or golden file that realises them. *Replaced* ones are",
        "corrected in [seed_corrections.md](seed_corrections.md); without a pointer, the corrected form is not",
        "linked yet. *Open* ones name the part of planish that will realise them.",
        "",
        *_summary(ledger),
        "",
        *_open_parts(ledger),
    ]
    for seed in ledger.seeds:
        lines += ["", f"## Seed {seed.number}: {seed.title}"]
        for section in seed.sections:
            chosen = [e for e in ledger.entries if (e.seed, e.section) == (seed.number, section)]
            lines += ["", f"### {section}", "", "| id | it says | kind | state |", "|---|---|---|---|"]
            lines += [f"| `{e.id}` | {_cell(e.says)} | {e.kind} | {_outcome(e)} |" for e in chosen]
    return "\n".join(lines) + "\n"


def _summary(ledger: Ledger) -> list[str]:
    lines = [
        "| seed | " + " | ".join(STATES) + " | all |",
        "|---|" + "---:|" * (len(STATES) + 1),
    ]
    total: Counter[str] = Counter()
    for seed in ledger.seeds:
        counts = Counter(e.state for e in ledger.entries if e.seed == seed.number)
        total += counts
        lines.append(_counts_row(seed.number, counts))
    lines.append(_counts_row("all", total))
    return lines


def _counts_row(name: str, counts: Counter[str]) -> str:
    return f"| {name} | " + " | ".join(str(counts[s]) for s in STATES) + f" | {counts.total()} |"


def _open_parts(ledger: Ledger) -> list[str]:
    counts = Counter(e.open for e in ledger.entries if e.open is not None)
    lines = ["| open in | what it is | entries |", "|---|---|---:|"]
    lines += [f"| {part} | {what} | {counts[part]} |" for part, what in PARTS.items() if counts[part]]
    return lines


def _outcome(entry: Entry) -> str:
    parts = []
    if entry.replaced is not None:
        parts.append(f"replaced ({_cell(entry.replaced)})")
    if entry.by is not None:
        parts.append(f"`{entry.by}`")
    if entry.open is not None:
        parts.append(f"open: {entry.open}")
    return ", ".join(parts)


def _cell(text: str) -> str:
    """Text that stays inside its table cell and is not read as markup."""
    for character in "\\|*_[]<>":
        text = text.replace(character, "\\" + character)
    return text


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or compare it; the result is the exit status."""
    parser = argparse.ArgumentParser(description="Write docs/seeds.md from tests/seed_coverage.toml.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help="the ledger to read")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write or compare")
    options = parser.parse_args(arguments)
    try:
        page = render(load(options.ledger))
    except LedgerError as error:
        sys.stderr.write(f"{options.ledger}:\n{error}\n")
        return 2
    if options.check:
        if options.page.is_file() and options.page.read_text(encoding="utf-8") == page:
            return 0
        sys.stderr.write(f"{options.page} is out of date: run python tools/seed_docs.py\n")
        return 1
    options.page.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
