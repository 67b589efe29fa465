"""Schedules in the words of Halide, TVM and MLIR, and steps that lack something: what is told is a schedule, or how the step is written."""

from __future__ import annotations

import re

import pytest

from planish.actions.text import _ELSEWHERE, kinds, parse_schedule
from planish.errors import ParseError


def test_each_word_of_others_is_answered_by_words_that_there_are() -> None:
    for word, answer in _ELSEWHERE.items():
        assert word not in kinds()
        with pytest.raises(ParseError, match=re.escape(f"write {answer}")):
            parse_schedule(f"{word}(i, 4)")
        assert set(re.findall(r"(\w+)\(", answer)) <= kinds().keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UPCAST(j, 4)", "did you mean 'upcast'"),
        ("split(i)", r"expected by of split; .* it is written split\(axis, by\)"),
        ("stage(arg1, at=k, buffer=2)", r"stage\(param, at=None, buffers=1, pad=0, turned=false"),
        ("upcast(j, 16), upcast(i, 4)", "write steps such as"),
        ("split(i, 6)\nlanes(j 4)", r"at steps\.txt:2:9"),
    ],
)
def test_a_step_that_is_not_one_is_told_how_it_is_written(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_schedule(text, "steps.txt")
