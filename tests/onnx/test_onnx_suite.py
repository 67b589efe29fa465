"""A part of ONNX's own test cases: every seventh by the interpreter, some of them as machine code."""

from __future__ import annotations

import pytest

from tests.onnx.onnx_suite import PASSED, REFUSED, cases, chosen, is_expected, run

PARTS = 4


def _problems(names: list[str], interpret: bool) -> list[str]:
    """What went wrong; refusals are no wrong answers, but there may be few of them."""
    ends = {name: run(name, interpret) for name in names}
    refused = [name for name, (end, _) in ends.items() if end == REFUSED]
    told = [
        f"{name}: {end} {why}"
        for name, (end, why) in ends.items()
        if end not in (PASSED, REFUSED) and not is_expected(name)
    ]
    return told + (refused if len(refused) > 2 + len(names) // 50 else [])


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_by_the_interpreter(part: int):
    names = chosen(list(cases(True)), 7)
    assert len(names) > 250
    assert _problems(names[part::PARTS], True) == []


def test_cases_as_machine_code():
    assert _problems(chosen(list(cases(False)), 80), False) == []
