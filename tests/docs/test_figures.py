"""Numbers that README and documents tell about the project are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import planish
from planish import ptir
from planish.optimize.space import AXES, actions
from planish.ptir import ops
from planish.ptir.ops.definition import OpDef
from planish.target import TARGETS
from planish.uop.ops import axis_name
from planish.uop.symbolic import FAMILIES

ROOT = Path(__file__).parents[2]


def told(page: str, pattern: str) -> int:
    """The number in a page where a pattern matches."""
    found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"))
    assert found is not None, f"{page} does not say {pattern!r} any more"
    return int(found[1])


def test_ops_of_the_graph_ir() -> None:
    assert told("README.md", r"the graph IR: (\d+) ops") == len(
        {id(op) for op in vars(ops).values() if isinstance(op, OpDef)}
    )


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r"over (\d+) proved rules", sum(map(len, FAMILIES.values()))),
        (r"over (\d+) patterns", len(ptir.canonicalization_patterns().patterns)),
    ],
)
def test_counts_that_grow_are_told_from_below(pattern: str, count: int) -> None:
    assert 0 < count - told("README.md", pattern) < 50


def test_names_of_numpy() -> None:
    assert len([name for name in dir(planish) if name in np.__all__]) > told(
        "docs/coming_from.md", r"over (\d+) of its functions"
    )


def test_pythons_that_are_supported() -> None:
    classifiers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first, last = (told("README.md", pattern) for pattern in (r"Python 3[.](\d+) to", r"to\s3[.](\d+) and"))
    named = re.findall(r"Python :: 3[.](\d+)", classifiers)
    assert [int(minor) for minor in named] == list(range(first, last + 1))


def test_the_space_of_a_search() -> None:
    names = [axis_name((number,)) for number in range(AXES)]
    for target, pattern in {
        "x86-64-v4": r"\((\d+) and the tensor cores for\s+AVX-512",
        "cuda": r"AVX-512, (\d+) and its own",
    }.items():
        assert told("docs/tuning.md", pattern) == len(list(actions(TARGETS[target], names)))


def test_lessons_and_examples() -> None:
    pages = [path for path in (ROOT / "docs" / "tutorial").glob("*.md") if path.stem != "index"]
    assert len(pages) == 9
    assert "Nine short lessons" in (ROOT / "docs" / "tutorial" / "index.md").read_text(encoding="utf-8")
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "examples").glob("*.py"):
        assert f"]({path.name})" in listed or path.name == "pictures.py"


def test_targets_that_the_documents_name_are_there() -> None:
    text = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    for name in re.findall(r"target=\"([\w-]+)\"", text):
        assert name in TARGETS
