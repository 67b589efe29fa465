"""The seed-coverage ledger: every entry points to something that exists, and docs/seeds.md shows it.

The checks are functions from a ledger to a list of problems, so that planted mistakes can show that each of
them fails when it should.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tools import seed_docs

ROOT = seed_docs.ROOT
CORRECTIONS = ROOT / "docs" / "seed_corrections.md"
GLOSSARY = ROOT / "docs" / "glossary.md"


class Unresolved(Exception):
    """An entry points to nothing; the message says what is missing."""


# --- what `by` points to ---------------------------------------------------------------------------------


def resolve(target: str, root: Path = ROOT) -> None:
    scheme, _, rest = target.partition(":")
    if scheme not in RESOLVERS:
        raise Unresolved(f"{target!r}: starts with none of {', '.join(f'{s}:' for s in RESOLVERS)}")
    RESOLVERS[scheme](rest, root)


def resolve_python(rest: str, root: Path) -> None:
    module_name, colon, attributes = rest.partition(":")
    if not colon or not attributes or module_name.split(".")[0] != "planish":
        raise Unresolved(f"py:{rest} is not of the form py:planish.module:attribute")
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as error:
        raise Unresolved(f"module {module_name} cannot be imported: {error}") from error
    for attribute in attributes.split("."):
        if hasattr(found, attribute):
            found = getattr(found, attribute)
        elif attribute in declared_fields(found):
            found = None  # a field without a default exists on instances alone, and holds no attributes here
        else:
            raise Unresolved(f"{module_name} has no {attributes} ({attribute!r} is missing)")


def declared_fields(owner: object) -> set[str]:
    if inspect.isclass(owner) and dataclasses.is_dataclass(owner):
        return {field.name for field in dataclasses.fields(owner)}
    return set()


def resolve_test(rest: str, root: Path) -> None:
    file, *names = rest.split("::")
    path = root / file
    if not names or not re.fullmatch(r"tests/.*test_[^/]*\.py", file):
        raise Unresolved(f"test:{rest} is not of the form test:tests/…/test_file.py::test_name")
    if not path.is_file():
        raise Unresolved(f"there is no file {file}")
    body = statements(path.read_text(encoding="utf-8"))
    for depth, name in enumerate(names):
        last = depth == len(names) - 1
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef) if last else (ast.ClassDef,)
        matching = [node for node in body if isinstance(node, kinds) and node.name == name]
        if not matching or (last and not name.startswith("test")):
            raise Unresolved(f"{file} has no test {'::'.join(names)}")
        body = matching[0].body


@cache
def statements(text: str) -> list[ast.stmt]:
    """Of a module that many entries point into."""
    return ast.parse(text).body


def resolve_golden(rest: str, root: Path) -> None:
    file, hash, case = rest.partition("#")
    path = root / file
    if not re.match(r"tests/golden/.", file) or not path.exists():
        raise Unresolved(f"there is no golden {file}")
    if not hash:
        return
    if not path.is_file():
        raise Unresolved(f"golden {file} is a folder and has no cases")
    # A case is announced by a line that holds its name as a word of its own.
    name = re.compile(rf"(?<![\w-]){re.escape(case)}(?![\w-])")
    if not case or not any(name.search(line) for line in path.read_text(encoding="utf-8").splitlines()):
        raise Unresolved(f"golden {file} has no case {case!r}")


def resolve_rule(rest: str, root: Path) -> None:
    if rest not in rule_names():
        raise Unresolved(f"no symbolic rule is called {rest!r}")


@cache
def rule_names() -> frozenset[str]:
    try:
        module = importlib.import_module("planish.uop.symbolic")
    except ImportError as error:
        raise Unresolved(f"rule: cannot be used, planish.uop.symbolic cannot be imported: {error}") from error
    if not hasattr(module, "all_rules"):
        raise Unresolved("rule: cannot be used, planish.uop.symbolic has no function all_rules")
    return frozenset(rule.name for rule in module.all_rules())


RESOLVERS = {
    "rule": resolve_rule,
    "py": resolve_python,
    "test": resolve_test,
    "golden": resolve_golden,
}


# --- what `replaced` points to ---------------------------------------------------------------------------


def correction_rows(text: str) -> list[tuple[frozenset[str], str]]:
    """(seeds, what it says) of every row of the tables in the text."""
    rows = []
    for line in text.splitlines():
        # An escaped bar is part of a cell.
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) == 5 and re.fullmatch(r"\d{3}(/\d{3})*", cells[1]):
            rows.append((frozenset(cells[1].split("/")), cells[2]))
    return rows


def correction_problem(key: str, rows: list[tuple[frozenset[str], str]]) -> str | None:
    seed, colon, part = key.partition(": ")
    if not colon or not part or not re.fullmatch(r"\d{3}", seed):
        return f"replaced = {key!r} is not of the form 'SEED: KEY'"
    count = sum(seed in seeds and part in says for seeds, says in rows)
    return None if count == 1 else f"replaced = {key!r} matches {count} corrections, not 1"


# --- the checks over a whole ledger ----------------------------------------------------------------------


def link_problems(ledger: seed_docs.Ledger, root: Path = ROOT, corrections: str | None = None) -> list[str]:
    text = CORRECTIONS.read_text(encoding="utf-8") if corrections is None else corrections
    rows = correction_rows(text)
    problems = []
    for entry in ledger.entries:
        if entry.by is not None:
            try:
                resolve(entry.by, root)
            except Unresolved as missing:
                problems.append(f"{entry.id}: {missing}")
        if entry.replaced is not None and (problem := correction_problem(entry.replaced, rows)):
            problems.append(f"{entry.id}: {problem}")
    return problems


def test_every_entry_points_to_something():
    assert link_problems(seed_docs.load()) == []


MOST_ROWS = 9
"""Entries that one test or golden may stand for: a table of that many rows, not a shelf for whatever has no test."""


def crowded(ledger: seed_docs.Ledger) -> list[str]:
    links = Counter(
        entry.by for entry in ledger.entries if entry.by is not None and not entry.by.startswith("py:")
    )
    return [f"{link} stands for {count} entries" for link, count in links.items() if count > MOST_ROWS]


def test_no_test_stands_for_many_entries():
    assert crowded(seed_docs.load()) == []


DEAD = ["planish.ptir.trace:FileTraceSink", "planish.compiler.layouts:lower"]
ALIVE = ["planish.schedule.planner:plan", "planish.uop.symbolic:sym"]
"""Planted: what compiling does not come to, and what it does."""


def test_what_realises_an_entry_is_reached_from_compile_and_what_is_not_is_found():
    # a function that nothing calls realises nothing: link a test that shows what it is for
    links = {entry.by for entry in seed_docs.load().entries if entry.by is not None}
    targets = sorted(link.removeprefix("py:") for link in links if link.startswith("py:"))
    assert unreached([*targets, *ALIVE, *DEAD]) == DEAD


def unreached(targets: list[str]) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.seed_reach"],
        input="\n".join(targets),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_page_is_up_to_date(capsys):
    assert seed_docs.main(["--check"]) == 0, capsys.readouterr().err


def test_every_correction_is_used_by_an_entry():
    # A correction that nothing refers to was written for a passage that the ledger forgot.
    keys = [entry.replaced.partition(": ") for entry in seed_docs.load().entries if entry.replaced]
    unused = [
        says
        for seeds, says in correction_rows(CORRECTIONS.read_text(encoding="utf-8"))
        if not any(seed in seeds and part in says for seed, _, part in keys)
    ]
    assert unused == []


# --- each check can fail ---------------------------------------------------------------------------------

SEEDS = """
[[seed]]
number = "001"
title = "t"
sections = ["S"]
"""

GOOD = {"id": "001.a", "seed": "001", "section": "S", "says": "x → x", "kind": "pattern", "open": "core"}


def ledger_text(*tables: Mapping[str, object], seeds: str = SEEDS) -> str:
    entries = ["".join(f"{key} = {value!r}\n" for key, value in table.items()) for table in tables]
    return "\n[[entry]]\n".join([seeds, *entries])


def without(*keys: str) -> dict[str, object]:
    return {key: value for key, value in GOOD.items() if key not in keys}


def linked(**outcome: str) -> seed_docs.Ledger:
    return seed_docs.parse(ledger_text({**without("open"), **outcome}))


def test_the_good_entry_is_good():
    assert seed_docs.parse(ledger_text(GOOD)).entries[0].state == "open"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ledger_text(GOOD, GOOD), "used by 2 entries"),
        (ledger_text(without("says")), "no 'says'"),
        (ledger_text({**GOOD, "note": "n"}), "unknown key 'note'"),
        (ledger_text({**GOOD, "says": " "}), "must be a string"),
        (ledger_text({**GOOD, "says": 3}), "must be a string"),
        (ledger_text(without("open")), "has: none"),
        (ledger_text({**GOOD, "by": "rule:x"}), "has: by, open"),
        (ledger_text({**GOOD, "replaced": "001: x"}), "has: open, replaced"),
        (ledger_text({**GOOD, "kind": "thing"}), "kind 'thing'"),
        (ledger_text({**GOOD, "open": "somewhere"}), "open = 'somewhere'"),
        (ledger_text({**GOOD, "id": "002.a"}), "must start with the seed"),
        (ledger_text({**GOOD, "section": "T"}), "no section 'T'"),
        (ledger_text({**GOOD, "id": "009.a", "seed": "009"}), "no seed '009'"),
        (ledger_text(), "no entry for section 'S'"),
        (ledger_text(GOOD, seeds=SEEDS + "note = 1\n"), "keys must be number"),
        (ledger_text(GOOD) + "[other]\n", "unknown table 'other'"),
    ],
)
def test_bad_shape_is_found(text, problem):
    with pytest.raises(seed_docs.LedgerError, match=re.escape(problem)):
        seed_docs.parse(text)


@pytest.fixture
def tree(tmp_path):
    """A small repository to point into."""
    golden = tmp_path / "tests" / "golden"
    golden.mkdir(parents=True)
    (golden / "folder").mkdir()
    (golden / "fold.txt").write_text("// case: add-zero\nx\n", encoding="utf-8")
    (tmp_path / "tests" / "test_x.py").write_text(
        "def test_y(): ...\ndef helper(): ...\nclass TestZ:\n    def test_in(self): ...\n", encoding="utf-8"
    )
    return tmp_path


@pytest.mark.parametrize(
    "target",
    [
        "py:planish.errors:PlanishError",
        "py:planish.errors:PlanishError.__init__",
        "test:tests/test_x.py::test_y",
        "test:tests/test_x.py::TestZ::test_in",
        "golden:tests/golden/fold.txt",
        "golden:tests/golden/folder",
        "golden:tests/golden/fold.txt#add-zero",
    ],
)
def test_good_targets_resolve(tree, target):
    assert link_problems(linked(by=target), tree) == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("planish.errors", "starts with none of"),
        ("doc:README.md", "starts with none of"),
        ("py:planish.errors", "not of the form"),
        ("py:os:path", "not of the form"),
        ("py:planish.nowhere:x", "cannot be imported"),
        ("py:planish.errors:Nothing", "'Nothing' is missing"),
        ("py:planish.errors:PlanishError.nothing", "'nothing' is missing"),
        ("test:tests/test_x.py", "not of the form"),
        ("test:planish/x.py::test_y", "not of the form"),
        ("test:tests/test_none.py::test_y", "no file"),
        ("test:tests/test_x.py::test_none", "has no test test_none"),
        ("test:tests/test_x.py::helper", "has no test helper"),
        ("test:tests/test_x.py::test_in", "has no test test_in"),
        ("test:tests/test_x.py::TestZ::test_y", "has no test TestZ::test_y"),
        ("golden:tests/golden/none.txt", "no golden"),
        ("golden:tests/test_x.py", "no golden"),
        ("golden:tests/golden/folder#add-zero", "is a folder"),
        ("golden:tests/golden", "no golden"),
        ("golden:tests/golden/fold.txt#add", "no case 'add'"),
        ("golden:tests/golden/fold.txt#", "no case ''"),
    ],
)
def test_bad_targets_are_found(tree, target, problem):
    found = link_problems(linked(by=target), tree)
    assert len(found) == 1
    assert problem in found[0]


def test_fields_without_default_resolve():
    @dataclasses.dataclass
    class Point:
        x: int

    assert declared_fields(Point) == {"x"}
    assert declared_fields(Point(1)) == set()


def test_crowded_links_are_found():
    tables = [
        {**without("open"), "id": f"001.{n}", "by": "test:tests/test_x.py::test_y"}
        for n in range(MOST_ROWS + 1)
    ]
    assert crowded(seed_docs.parse(ledger_text(*tables[:-1]))) == []
    assert crowded(seed_docs.parse(ledger_text(*tables))) == [
        "test:tests/test_x.py::test_y stands for 10 entries"
    ]


class _Rule:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def symbolic(monkeypatch):
    """Stands in for planish.uop.symbolic."""
    module = type(sys)("planish.uop.symbolic")
    monkeypatch.setitem(sys.modules, "planish.uop.symbolic", module)
    rule_names.cache_clear()
    yield module
    rule_names.cache_clear()


def test_rules_are_looked_up_by_name(symbolic):
    symbolic.all_rules = lambda: [_Rule("x-and-x")]
    assert link_problems(linked(by="rule:x-and-x")) == []
    assert "no symbolic rule is called 'x-or-x'" in link_problems(linked(by="rule:x-or-x"))[0]


def test_rules_need_all_rules(symbolic):
    assert "has no function all_rules" in link_problems(linked(by="rule:x-and-x"))[0]


def test_rules_need_the_symbolic_module(symbolic, monkeypatch):
    monkeypatch.setitem(sys.modules, "planish.uop.symbolic", None)
    assert "planish.uop.symbolic cannot be imported" in link_problems(linked(by="rule:x-and-x"))[0]


TABLE = """
| seed | it says | planish does |
|---|---|---|
| 001 | one thing | another |
| 000/001 | `A=0\\|1` twice | once |
| 002 | one thing | else |
"""


@pytest.mark.parametrize("key", ["001: one thing", "002: one thing", "000: twice", "001: A=0|1"])
def test_good_corrections_resolve(key):
    assert link_problems(linked(replaced=key), corrections=TABLE) == []


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("one thing", "not of the form"),
        ("001: ", "not of the form"),
        ("003: one thing", "matches 0 corrections"),
        ("001: another", "matches 0 corrections"),
        ("001: t", "matches 2 corrections"),
    ],
)
def test_bad_corrections_are_found(key, problem):
    found = link_problems(linked(replaced=key), corrections=TABLE)
    assert len(found) == 1
    assert problem in found[0]


def test_a_stale_page_is_found(tmp_path, capsys):
    ledger, page = tmp_path / "ledger.toml", tmp_path / "page.md"
    arguments = ["--ledger", str(ledger), "--page", str(page)]
    ledger.write_text(ledger_text(GOOD), encoding="utf-8")
    assert seed_docs.main([*arguments, "--check"]) == 1
    assert not page.exists()
    assert seed_docs.main(arguments) == 0
    assert seed_docs.main([*arguments, "--check"]) == 0
    ledger.write_text(ledger_text({**without("open"), "by": "rule:x"}), encoding="utf-8")
    assert seed_docs.main([*arguments, "--check"]) == 1
    assert "is out of date" in capsys.readouterr().err
    ledger.write_text(ledger_text(without("says")), encoding="utf-8")
    assert seed_docs.main(arguments) == 2


def test_the_summary_counts_states():
    states = [
        {"open": "core"},
        {"replaced": "001: x"},
        {"replaced": "001: x", "by": "rule:x"},
        {"by": "rule:x"},
        {"by": "rule:y"},
    ]
    tables = [{**without("open"), "id": f"001.{n}", **state} for n, state in enumerate(states)]
    page = seed_docs.render(seed_docs.parse(ledger_text(*tables)))
    assert "| seed | open | replaced | replaced and realised | realised | all |" in page
    assert "| 001 | 1 | 1 | 1 | 2 | 5 |" in page
    assert "| all | 1 | 1 | 1 | 2 | 5 |" in page


def test_a_says_stays_in_its_cell():
    page = seed_docs.render(seed_docs.parse(ledger_text({**GOOD, "says": "a|b * c_d"})))
    assert r"| a\|b \* c\_d |" in page


def test_the_script_runs_by_path():
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "seed_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT.parent,
    )
    assert run.returncode == 0, run.stderr


# --- the glossary ----------------------------------------------------------------------------------------

# Seed 001's glossary and key concepts, the axis types, and the orders of rewriting.
TERMS = """
Accumulator, Axis, Axis type, Buffer, BUFFERIZE, CONTRACT, Devectorize, Divmod, Fixpoint, GEP, Hash consing,
Index type, LOAD, Pattern, Predicated store, RANGE, Reduction, STORE, Symbolic, Tensor core, Topological sort,
UNROLL, UPCAST action, VECTORIZE, WHERE, UOp, Stage, GLOBAL axis, LOCAL axis, LOOP axis, REDUCE axis,
GROUP_REDUCE axis, THREAD axis, WARP axis, UPCAST axis, UNROLL axis, sources_first, sink_first
"""


def glossary_terms(text: str) -> dict[str, str]:
    """Term → definition, from lines of the form `**term**: definition`, which may run on."""
    found = re.findall(r"^\*\*([^*]+)\*\*: (.+?)(?=\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return {term.strip(): " ".join(definition.split()) for term, definition in found}


def test_glossary_defines_every_term():
    terms = glossary_terms(GLOSSARY.read_text(encoding="utf-8"))
    wanted = [term.strip() for term in TERMS.split(",")]
    assert [term for term in wanted if term not in terms] == []
    assert [term for term, definition in terms.items() if len(definition.split()) < 6] == []
    assert [term for term, definition in terms.items() if "`" not in definition] == []  # a tiny example


def test_glossary_terms_are_read_as_written():
    text = "# T\n\n**UOp**: a node,\n  one op. `ADD`.\n\nfree text\n\n**GEP**: lanes.\n"
    assert glossary_terms(text) == {"UOp": "a node, one op. `ADD`.", "GEP": "lanes."}
