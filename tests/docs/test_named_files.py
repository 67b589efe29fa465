"""What documents name is there: files of the package by the end of their path, and modules, functions and classes by their dotted name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
PACKAGE, BESIDE = ("planish",), ("tests", "bench", "tools", "examples")

INLINE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./*-]+\.py")
FOLDER = re.compile(r"(?:planish|tests|bench)/[\w/]*/")
DOTTED = re.compile(r"(?<![\w./-])planish(?:\.[A-Za-z_]\w*)+")
NO_MODULES = {"planish.h"}
"""A header of C."""


def files_below(*folders: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]


def inline_code(page: Path) -> Iterator[tuple[int, str]]:
    """What stands between backticks outside of blocks, which run as they are, with the line."""
    in_block = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            yield from ((number, code) for code in INLINE.findall(line))


def found(name: str, near: set[str]) -> list[str]:
    """The files that a name is the end of: of the package, or else beside it; of several those in folders that the page names."""
    for folders in (PACKAGE, BESIDE):
        ends = [path for path in files_below(*folders) if fnmatch(f"/{path}", f"*/{name}")]
        if len(ends) > 1 and "*" not in name:
            ends = [path for path in ends if path.removesuffix(name) in near]
        if ends:
            return ends
    return []


def named_files(page: Path) -> list[str]:
    """What is wrong with the files that a page names."""
    codes = list(inline_code(page))
    near = {code for _, code in codes if FOLDER.fullmatch(code)}
    return [
        f"{page.name}:{number}: {code} is {' or '.join(ends) or 'no file, or one of several'}"
        for number, code in codes
        if FILE.fullmatch(code) and ((ends := found(code, near)) == [] or (len(ends) > 1 and "*" not in code))
    ]


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something in one; a module that wants a package which is not here may hold anything."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            value = import_module(module)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or name):
                return True
            continue
        except ImportError:  # a package that is not here, told in words of our own
            return True
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert named_files(page) == []


def test_dotted_names_are_those_of_the_package() -> None:
    named = {
        name: f"{page.name}:{number}"
        for page in PAGES
        for number, code in inline_code(page)
        for name in DOTTED.findall(code)
    }
    assert len(named) > 100
    assert {
        name: place for name, place in named.items() if name not in NO_MODULES and not resolves(name)
    } == {}


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`nothing.py` `schedule/order.py`\n`order.py` `llir/*_forms.py` `llir/*_shapes.py`\n")
    assert named_files(page) == [
        "page.md:1: nothing.py is no file, or one of several",
        "page.md:2: order.py is no file, or one of several",
        "page.md:2: llir/*_shapes.py is no file, or one of several",
    ]
    page.write_text("`planish/schedule/`: `order.py`\n```\n`nothing.py`\n```\n")
    assert named_files(page) == []
    assert resolves("planish.uop.node.UOp.vmin")
    assert not resolves("planish.uop.node.UOp.nothing")
    assert not resolves("planish.frontend.realize.counters")
