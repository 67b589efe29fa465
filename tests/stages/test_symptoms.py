"""docs/debugging.md shows the table that `planish bisect` reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planish.stages.pipeline import LINE_STAGES, STAGES
from planish.stages.symptoms import CODE, LLIR, SCHEDULE, SYMPTOMS, row_for, row_text, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "debugging.md"
BETWEEN = re.compile(r"(<!-- symptoms: generated -->\n).*?(<!-- symptoms: end -->)", re.S)


def test_the_document_shows_the_table(request: pytest.FixtureRequest):
    text = DOCUMENT.read_text(encoding="utf-8")
    wanted = BETWEEN.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", text)
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(wanted, encoding="utf-8")
        return
    assert text == wanted, "docs/debugging.md is not up to date: pytest --update-golden"


def test_every_stage_has_a_row_for_wrong_values():
    for stage in (SCHEDULE, *(stage.number for stage in (*STAGES, *LINE_STAGES)), LLIR, CODE):
        assert row_for(stage, "values").kind == "values"
        assert row_for(stage, "crash").symptom == "a stage raises"


def test_a_stage_has_one_row_per_symptom():
    rows = [(row.kind, stage) for row in SYMPTOMS for stage in row.stages]
    assert len(rows) == len(set(rows))


def test_what_has_no_row_of_its_own_gets_that_for_wrong_values():
    assert row_for(11, "unwritten").symptom == "something is read before it is written"
    assert row_for(2, "unwritten") is row_for(2, "values")


def test_rows_are_written_like_the_table():
    row = row_for(3, "values")
    assert row_text(row) == f"wrong values | 3, 5 | {row.check}"
    assert f"| {row_text(row)} |" in table()
    assert "| scheduling, 1–22, LLIR, code generation |" in table()
    assert "| scheduling, 10–12, 14, 19–22, LLIR |" in table()


@pytest.mark.parametrize(
    ("symptom", "stages"),
    [
        ("wrong values", {4, 9, 11, 18}),
        ("slow code", {7, 9, 14, 21}),
        ("a stage raises", {11, 12}),
        ("a loop runs too often or not often enough", {3, 5, 12}),
        ("no vectors where they are expected", {9, 14}),
    ],
)
def test_the_quick_reference_of_seed_001_is_covered(symptom: str, stages: set[int]):
    covered = {stage for row in SYMPTOMS if row.symptom == symptom for stage in row.stages}
    assert stages <= covered
