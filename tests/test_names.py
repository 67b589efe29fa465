"""One word per idea: no two classes have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "planish"

SHARED = {
    "Device": "public in `distributed`, what a rank computes with; the glossary's in `frontend`, where an expression runs",
    "Join": "public in `optim`, schedules of rates in a row; an action is called as its word in the text of schedules is",
    "Program": "the whole of a thing in either IR, public in both: `ptir.Program` has functions, `llir.Program` is a kernel",
}
"""Names that two classes may have, and why."""


def homes(package: Path) -> dict[str, list[str]]:
    """For each name of a class, where one is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(package).as_posix()}:{node.lineno}")
    return found


def test_every_class_has_a_name_of_its_own():
    twice = {name: places for name, places in homes(PACKAGE).items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in SHARED} == {}
    assert all(len(twice.get(name, ())) == 2 for name in SHARED), "what is excused has to be there"


def test_a_name_that_is_given_twice_is_seen(tmp_path: Path):
    (tmp_path / "a.py").write_text("class Step: ...\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("def f():\n    class Step: ...\n", encoding="utf-8")
    assert homes(tmp_path) == {"Step": ["a.py:1", "b.py:2"]}
