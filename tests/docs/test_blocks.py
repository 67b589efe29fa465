"""Every block of Python in the documents runs, page by page, as a reader would run it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planish.ptir.passes import COST_MODELS, PASSES, PATTERNS
from tools.docs.blocks import blocks_of, run_block

ROOT = Path(__file__).parents[2]

PREAMBLE = "import numpy as np\nimport planish as pn\nimport planish\nfrom planish import nn, optim, ptir\n"
"""What pages that are no tutorial take for granted."""
HEAVY = {"torch"}
"""Packages that take long to start: pages that need them are run with the slow tests."""
PAGES = [
    pytest.param(
        page,
        id=page.relative_to(ROOT).as_posix(),
        marks=[pytest.mark.slow] if any(HEAVY & set(block.needs) for block in blocks) else [],
    )
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md")
    if (blocks := list(blocks_of(page)))
]


@pytest.fixture(autouse=True)
def _own_registrations() -> Iterator[None]:
    """What a page registers is gone afterwards."""
    tables: list[Any] = [PASSES, PATTERNS, COST_MODELS]
    before = [dict(table) for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "page_of_the_documents"
    names: dict[str, object] = {"__name__": name}
    # dataclasses look up the module that they are of
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, None))  # type: ignore[arg-type]
    module.__dict__.update(names)
    monkeypatch.setitem(sys.modules, name, module)
    if "tutorial" not in page.parts:
        exec(PREAMBLE, module.__dict__)
    missing: set[str] = set()
    for block in blocks_of(page):
        if block.not_run is not None:
            assert block.not_run.strip(), f"{page}:{block.line}: say why it is not run"
            compile(block.source, str(page), "exec")
            continue
        missing |= {need for need in block.needs if importlib.util.find_spec(need) is None}
        if not missing & set(block.needs):
            run_block(block, module.__dict__)
    if missing:
        pytest.skip(f"needs {', '.join(sorted(missing))}")


def test_a_block_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- setup: x = 1 -->\n```python\ny = x\nassert y == 2\n```\n")
    (block,) = blocks_of(page)
    assert (block.line, block.setup) == (5, "x = 1")
    with pytest.raises(AssertionError) as caught:
        run_block(block, {})
    assert caught.traceback[-1].lineno == 5  # counted from 0
