"""Every stage says what it does, why, what would break without it and what holds afterwards, with an example."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from planish import stages
from planish.stages import pipeline

FOLDER = Path(stages.__file__).parent
MODULES = {int(path.stem[1:3]): path for path in sorted(FOLDER.glob("*/s[0-9][0-9]_*.py"))}
PHASES = {
    "rangeify": range(1, 8),
    "expander": range(8, 11),
    "devectorizer": range(11, 16),
    "linearizer": range(16, 23),
}
PARTS = ("Why: ", "Would break without it: ", "Holds afterwards: ")


def docstring(number: int) -> str:
    text = ast.get_docstring(ast.parse(MODULES[number].read_text(encoding="utf-8")))
    assert text is not None
    return text


def test_there_are_22_stages_in_four_phases() -> None:
    assert sorted(MODULES) == list(range(1, 23))
    for number, path in MODULES.items():
        assert number in PHASES[path.parent.name]
    listed = {stage.number for stage in (*pipeline.STAGES, *pipeline.LINE_STAGES)}
    assert listed == set(MODULES)


@pytest.mark.parametrize("number", MODULES)
def test_a_stage_says_what_it_does_first(number: int) -> None:
    first = docstring(number).splitlines()[0]
    assert re.match(rf"Stage {number}, [^:]+: \S", first), first


@pytest.mark.parametrize("number", MODULES)
def test_a_stage_says_why_and_what_for(number: int) -> None:
    text = docstring(number)
    places = [text.find(f"\n{part}") for part in PARTS]
    assert -1 not in places, f"one of {PARTS} is missing"
    assert places == sorted(places)
    for part in PARTS:
        said = text.split(f"\n{part}")[1].split("\n\n")[0]
        assert len(said.split()) >= 3, f"{part} says nothing"


@pytest.mark.parametrize("number", [n for n in MODULES if n != 21])
def test_a_stage_shows_an_example(number: int) -> None:
    """Before → after. (Stage 21 makes a list of a graph: its example is its golden file.)"""
    text = docstring(number)
    assert "Before → after" in text
    block = text.split("Before → after")[1].split("::\n", 1)[1]
    rows = [
        line for line in block.split("\n\n")[1 if block.startswith("\n") else 0].splitlines() if line.strip()
    ]
    assert rows, "the example is empty"


@pytest.mark.parametrize("number", MODULES)
def test_a_stage_has_one_public_function(number: int) -> None:
    """One job, one function: the one that the table of contents runs; all else it defines is for its own rules and tests."""
    tree = ast.parse(MODULES[number].read_text(encoding="utf-8"))
    public = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    contents = (FOLDER / "pipeline.py").read_text(encoding="utf-8")
    module = f"planish.stages.{MODULES[number].parent.name}.{MODULES[number].stem}"
    imported = re.search(rf"from {re.escape(module)} import (.+)", contents)
    assert imported is not None, f"pipeline.py does not list {module}"
    names = [name.strip(" (") for name in imported.group(1).split(",")]
    assert len(names) == 1
    assert names[0] in public
