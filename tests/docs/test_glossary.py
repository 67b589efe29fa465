"""The glossary is the law: every kind of action has an entry there and a row among those of a schedule, and examples are true."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from planish import compiler, ptir
from planish.actions.text import kinds, parse_schedule
from planish.ptir.graph_value import GraphValue

Build = Callable[[GraphValue], GraphValue]

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
TUNING = (DOCS / "tuning.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^\*\*(.+?)\*\*: (.+?)(?=\n\n|\Z)", GLOSSARY, flags=re.MULTILINE | re.DOTALL))
ROWS = TUNING.partition("\n| action | what it does |\n|---|---|\n")[2].partition("\n\n")[0]
WORDS = {
    "Nest", "Template", "Candidate", "Draft", "Cost model", "Packing", "Register tile", "Software prefetch", "Ring", "Walk",
    "Plan", "Launch", "Routine", "Arena",
}  # fmt: skip
"""What the optimizer and what runs kernels are told with."""


def entry_of(word: str) -> str:
    """The heading of an action: as the seed calls it."""
    return f"{'TC' if word == 'tensor_core' else word.replace('_', '').upper()} action"


def examples(word: str, text: str) -> list[str]:
    """How an action is written in a text."""
    return re.findall(rf"`({word}\([^`]*\))`", text)


@pytest.mark.parametrize("word", kinds())
def test_every_action_has_an_entry_and_a_row_with_an_example(word: str) -> None:
    for text in (ENTRIES[entry_of(word)], ROWS):
        written = examples(word, text)
        assert written
        for each in written:
            (action,) = parse_schedule(each)
            assert action.word == word


def test_no_entry_is_of_an_action_that_is_not_there() -> None:
    named = {name for name in ENTRIES if name.endswith(" action")}
    assert named - {entry_of(word) for word in kinds()} == {"GROUPTOP action"}  # a way to share in groups


def test_words_of_the_optimizer_have_entries() -> None:
    assert ENTRIES.keys() >= WORDS


def softmax(x: GraphValue) -> GraphValue:
    e = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x)).exp()
    return e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e))


def powers(x: GraphValue) -> GraphValue:
    """x @ x @ x @ x @ x"""
    return x.matmul(x).matmul(x).matmul(x).matmul(x)


@pytest.mark.parametrize(
    ("of", "dims", "kind", "shown"),
    [
        (lambda x: x.matmul(x), (64, 64), "plan", r"launch \w+\(b1, b0\)\n\Z"),
        (lambda x: x.sort(0), (1000,), "plan", r" by sort_few\.float32\.ascending\n"),
        (softmax, (512, 4096), "llir", r"prefetch %\d+ locality=3"),
    ],
    ids=["plan", "routine", "prefetch"],
)
def test_examples_are_so(of: Build, dims: tuple[int, ...], kind: str, shown: str) -> None:
    graph = ptir.Graph("f")
    lowered = compiler.lower(graph.build(of(graph.input("x", ptir.tensor("f32", dims)))), "x86-64-v4")
    assert re.search(shown, lowered.as_text(kind) + "\n")


def test_what_is_not_in_use_at_the_same_time_lies_at_one_place() -> None:
    graph = ptir.Graph("f")
    product = graph.build(powers(graph.input("x", ptir.tensor("f32", (64, 64)))))
    memory = str(compiler.lower(product, "x86-64-v4").memory)
    first, third, second = re.findall(r"^ +(\d+) +\d+ +\d+ +\d+  b\d+$", memory, flags=re.MULTILINE)
    assert first == third != second
