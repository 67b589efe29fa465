"""docs/ptir.md: its tables are current, its examples run, and it names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planish import ptir
from planish.ptir import tables
from planish.ptir.rewrite.pattern import BasePattern

PAGE = Path(__file__).parents[2] / "docs" / "ptir.md"
GENERATED = {
    "ops": tables.ops_markdown,
    "passes": tables.passes_markdown,
    "invariants": tables.invariants_markdown,
}


def test_the_tables_are_current(request: pytest.FixtureRequest):
    text = PAGE.read_text(encoding="utf-8")
    current = text
    for name, table in GENERATED.items():
        begin, end = f"<!-- {name}: generated -->\n", f"\n<!-- {name}: end -->"
        before, rest = current.split(begin)
        current = before + begin + table() + end + rest.split(end.lstrip("\n"))[1]
    if request.config.getoption("--update-golden"):
        PAGE.write_text(current, encoding="utf-8")
        return
    assert text == current, "docs/ptir.md is out of date; rewrite its tables with: pytest --update-golden"


def test_the_examples_run():
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 8
    # One after the other in one module, as a reader would.
    namespace: dict[str, object] = {"__name__": __name__}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/ptir.md, example {number}", "exec"), namespace)


def test_the_page_names_every_public_name_of_rewriting():
    text = PAGE.read_text(encoding="utf-8")
    for owner in (ptir.ProgramRewriter, BasePattern):
        public = [name for name in vars(owner) if not name.startswith("_")]
        shown = {*re.findall(r"\w+", text)}
        missing = [name for name in public if name not in shown]
        assert missing == [], f"{owner.__name__}: {missing}"
    for name in ptir.GreedyConfig.__dataclass_fields__:
        assert name in text
