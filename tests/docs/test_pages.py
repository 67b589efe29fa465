"""The pages that are made of the code: every stage, rule and public name has its place, and every document is in the nav."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from planish import ptir
from planish.llir.instruction import FORMS
from planish.uop.ops import Ops
from planish.uop.symbolic import all_rules
from tools.docs import figures, generated

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", name="pages")
def _pages() -> dict[str, str]:
    return dict(generated.pages())


def test_every_stage_has_a_page_with_what_its_module_says(pages: dict[str, str]) -> None:
    stages = sorted(place for place in pages if re.match(r"stages/s\d\d_", place))
    assert [int(place[8:10]) for place in stages] == list(range(1, 23))
    for place in stages:
        assert "\nWhy: " in pages[place], place
        assert "\nHolds afterwards: " in pages[place], place
        assert place.removeprefix("stages/") in pages["stages/index.md"]
    assert "```text\nuop 1" in pages["stages/s04_initial_symbolic.md"]
    assert "## Rules of `pm_load_collapse`" in pages["stages/s02_load_collapse.md"]


def test_every_rule_is_in_its_table(pages: dict[str, str]) -> None:
    shown = pages["rules/uop.md"]
    for rule in all_rules():
        assert " ".join(rule.name.split()).replace("|", "\\|") in shown
    for pattern in ptir.canonicalization_patterns().patterns:
        assert f"| `{pattern.label}` |" in pages["rules/ptir.md"]


def test_every_public_function_has_its_signature(pages: dict[str, str]) -> None:
    assert "\nabs(x: Tensor, /) -> Tensor\n" in pages["api/planish.md"]
    listed = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
    of_nn = [line for line in listed if re.match(r"planish\.nn\.\w+\(", line)]
    assert pages["api/planish.nn.md"].count("\n### ") >= len(of_nn)


def test_front_ends_have_a_page_too(pages: dict[str, str]) -> None:
    assert "compile(function: " in pages["api/planish.compiler.md"]
    assert "\nInferenceSession(path_or_bytes: " in pages["api/planish.onnx.md"]
    assert "[planish.viz](planish.viz.md)" in pages["api/index.md"]


def test_every_op_and_instruction_has_its_row(pages: dict[str, str]) -> None:
    assert all(f"| `{op.name.lower()}` |" in pages["irs/uop_ops.md"] for op in Ops)
    assert all(f"{form.mnemonic}" in pages["irs/llir_instructions.md"] for form in FORMS)
    assert "| `dot_general` | 2 |" in pages["irs/ptir_ops.md"]


def test_what_the_nav_names_is_there(pages: dict[str, str]) -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    for place in re.findall(r"[\w/]+\.md", nav):
        assert (ROOT / "docs" / place).exists() or place in pages


def test_a_column_of_a_table_is_drawn() -> None:
    table = "| program | depth | ours / peer |\n|---|---|---|\n| add | 2 | 0.46 |\n| | 8 | torch 1.5 |\n| none | 1 | |\n"
    drawn = figures.read_table(table, "ours / peer")
    assert drawn.rows == (("add 2", 0.46), ("add 8", 1.5))
    pytest.importorskip("matplotlib")
    assert "<svg" in figures.svg(drawn)
    placed = figures.placed(f"<!-- plot: ours / peer -->\n{table}", "a/b.md")
    assert "![ours / peer](../figures/a_b_0.svg)" in placed


@pytest.mark.slow
def test_the_site_is_built_strictly_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("matplotlib")
    import subprocess

    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        check=True,
    )
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=\"(https?:)?//", text), page
