"""docs/array_api.md: its examples run, and the functions it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import planish as pn

PAGE = (Path(__file__).parents[2] / "docs" / "array_api.md").read_text(encoding="utf-8")


def test_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "array_api.md", "exec"), names)


def test_functions_beyond_the_standard_exist() -> None:
    section = PAGE.split("## Beyond the standard")[1].split("\n## ")[0]
    found = 0
    for line in section.splitlines():
        title = re.match(r"- \*\*(.*?)\*\*", line)
        if title is None:
            continue
        home = pn.linalg if title[1] == "linalg" else pn
        for quoted in re.findall(r"`([^`]*)`", re.sub(r"\(.*?\)", "", line)):
            for name in re.findall(r"(?<![.\w])[a-z_0-9]+(?![.\w\[])", quoted):
                assert hasattr(home, name), name
                found += 1
    assert found > 40
