"""Golden cases of the canonicalisation rules (format: golden_cases.py).

Each case is rewritten under expensive checks and compared with its expectation; it is also interpreted before
and after, printed and parsed, verified, and canonicalised a second time. Every pattern that ships has a case
that needs it and one that it must leave alone.
"""

from __future__ import annotations

import difflib
from functools import cache

import pytest

from planish.ptir.passes.canonicalize import canonicalization_patterns
from tests.ptir import golden_cases as golden
from tests.ptir.golden_cases import Case

CASES = list(golden.all_cases())
PATTERNS = [pattern.label for pattern in canonicalization_patterns().patterns]


@cache
def cases_of(pattern: str) -> list[Case]:
    return [case for case in CASES if case.pattern == pattern]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, request: pytest.FixtureRequest):
    before = golden.parse(case.source)
    assert not golden.problems(before)
    printed = golden.show(before)
    assert golden.show(golden.parse(printed)) == printed

    after = golden.parse(case.source)
    stats = golden.canonicalize(after, settings=case.settings)
    actual = golden.show(after)
    if request.config.getoption("--update-golden"):
        golden.bless(case, actual)
    elif actual != case.expected:
        diff = difflib.unified_diff(
            case.expected.splitlines(keepends=True), actual.splitlines(keepends=True), case.id, "actual"
        )
        pytest.fail(f"{''.join(diff)}\nif the change is meant: pytest --update-golden", pytrace=False)

    assert not golden.problems(after)
    assert golden.show(golden.parse(actual)) == actual
    check_same_results(case, before, after)

    again = golden.canonicalize(after, settings=case.settings)
    assert not again.changed, f"a second run still finds something to do:\n{again}"

    assert case.pattern in PATTERNS, f"there is no pattern {case.pattern}"
    hits = stats.patterns[case.pattern].hits if case.pattern in stats.patterns else 0
    if case.must_not_fire:
        assert hits == 0, f"{case.pattern} fired"
        assert actual == printed, f"another pattern rewrote the program:\n{stats}"
    else:
        assert hits, f"{case.pattern} did not fire:\n{stats}"
        without = golden.parse(case.source)
        golden.canonicalize(without, disable=(case.pattern,), settings=case.settings, checks=False)
        assert golden.show(without) != actual, f"the result is the same without {case.pattern}"


def check_same_results(case: Case, before, after):
    for inputs in golden.interpretations(
        before, case.id, tame=case.inputs == "tame" or case.compare == "close"
    ):
        copies = [array.copy() for array in inputs]
        wanted = golden.run(before, inputs, golden.ranks_of(before))
        given = golden.run(after, copies, golden.ranks_of(before))
        for number, (left, right) in enumerate(zip(wanted, given, strict=True)):
            found = golden.difference(left, right, close=case.compare == "close")
            assert found is None, f"result {number} for inputs {inputs}:\n{found}"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_has_a_case_that_fires_and_one_that_must_not(pattern: str):
    assert any(not case.must_not_fire for case in cases_of(pattern)), f"no case needs {pattern}"
    assert any(case.must_not_fire for case in cases_of(pattern)), f"no case `not-…` of {pattern}"
