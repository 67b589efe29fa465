"""Patterns of models: what Python's matcher says of them, and an end for every pattern."""

from __future__ import annotations

import random
import re

import pytest

from planish.onnx.regular import RegularExpression
from tests.damage.damaging import limited

ATOMS = [
    "a",
    "b",
    "ab",
    ".",
    "[ab]",
    "[^a]",
    "[a-c1]",
    r"\d",
    r"\W",
    r"\s",
    "",
    "^",
    r"\b",
    "(?i:A)",
    r"\.",
    "é",
]


def made(rng: random.Random, depth: int = 3) -> str:
    if not depth or rng.random() < 0.2:
        return rng.choice(ATOMS)
    match rng.randrange(4):
        case 0:
            return made(rng, depth - 1) + made(rng, depth - 1)
        case 1:
            return f"(?:{made(rng, depth - 1)}|{made(rng, depth - 1)})"
        case 2:
            return f"({made(rng, depth - 1)})" + rng.choice(
                ["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"]
            )
        case _:
            return f"[{rng.choice(['a', '^b', 'a-z', '0-9_'])}]" + rng.choice(["", "*"])


@pytest.mark.parametrize("rounds", [2000, pytest.param(100_000, marks=pytest.mark.fuzz)])
def test_as_python_matches_them(rounds: int) -> None:
    rng = random.Random(rounds)
    matched = 0
    for _ in range(rounds):
        text = made(rng)
        pattern, known = RegularExpression(text), re.compile(text, re.ASCII)
        for _ in range(4):
            given = "".join(rng.choices("abcA1. é\n", k=rng.randrange(6)))
            assert pattern.fullmatch(given) is (known.fullmatch(given) is not None), (text, given)
            matched += pattern.fullmatch(given)
    assert matched > rounds // 20


@pytest.mark.parametrize(
    "text", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*a*a*b", "(a|aa)+$b", "(?:a{0,9}){0,9}b"]
)
def test_patterns_that_would_go_back_for_ever(text: str) -> None:
    with limited(20):
        pattern = RegularExpression(text)
        assert not pattern.fullmatch("a" * 2000)


@pytest.mark.parametrize(
    "text", [r"(a)\1", "(?=a)a", "(?<!a)b", "(", "[", "*", "(a{1000}){1000}", "(){0,4000000000}", "(?>a)b", "a" * 30_000]
)  # fmt: skip
def test_patterns_that_are_refused(text: str) -> None:
    with limited(20), pytest.raises(re.error):
        RegularExpression(text)


@pytest.mark.parametrize(
    ("text", "given"), [("(?s)a.b", "a\nb"), ("(?m)a$\n^b", "a\nb"), ("(?i)[a-c]+", "aBC"), (r"\Aab\Z", "ab")]
)
def test_flags(text: str, given: str) -> None:
    assert RegularExpression(text).fullmatch(given)
