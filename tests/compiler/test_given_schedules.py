"""Schedules that are given: followed step by step, refused with the reason and the step, kept apart in every cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.actions.text import parse_schedule, sections
from planish.errors import LoweringError, ParseError, PlanishError

STEPS = "upcast(j, 16); upcast(i, 4); swap(i.outer, j.outer); stage(arg2, at=j.outer)"
RNG = np.random.default_rng(1)
A: Any = RNG.random((32, 24), np.float32)
B: Any = RNG.random((24, 64), np.float32)


def product(a: pn.Tensor, b: pn.Tensor) -> pn.Tensor:
    return a @ b


def softmax_and_product(a: pn.Tensor, b: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
    return pn.nn.softmax(a, axis=1), a @ b


def test_a_schedule_is_followed() -> None:
    given = pn.jit(product, schedule=STEPS)
    np.testing.assert_allclose(np.asarray(given(A, B)), A @ B, rtol=1e-5)
    lowered = given.lower(A, B)
    why = lowered.compile().why()
    assert ": given" in why
    assert all(str(action) in why for action in parse_schedule(STEPS))
    assert "given" not in pn.jit(product).lower(A, B).compile().why()


def test_what_is_chosen_is_printed_and_read_back() -> None:
    chosen = pn.jit(product).lower(A, B)
    text = chosen.as_text("schedule")
    again = pn.jit(product, schedule=text).lower(A, B)
    assert again.as_text("llir") == chosen.as_text("llir")
    assert [parse_schedule(part) for part in sections(again.as_text("schedule")).values()] == [
        parse_schedule(part) for part in sections(text).values()
    ]


def test_each_kernel_has_its_part(tmp_path: Path) -> None:
    plain = pn.jit(softmax_and_product).lower(A, B)
    names = list(sections(plain.as_text("schedule")))
    assert len(names) == 2
    chosen = next(name for name in names if "32x64" in name)
    for given in ({chosen: STEPS}, {"*32x64*": STEPS}, f"[{chosen}]\n{STEPS}"):
        made = pn.jit(softmax_and_product, schedule=given)
        np.testing.assert_allclose(np.asarray(made(A, B)[1]), A @ B, rtol=1e-5)
        text = made.lower(A, B).as_text("schedule")
        assert parse_schedule(sections(text)[chosen]) == parse_schedule(STEPS)
        assert "# heuristic" in text
    file = tmp_path / "steps.txt"
    file.write_text(f"[{chosen}]\n{STEPS}\n")
    for path in (file, str(file)):
        lowered = pn.jit(softmax_and_product, schedule=path).lower(A, B)
        assert "# given" in lowered.as_text("schedule")


@pytest.mark.parametrize(
    ("schedule", "error", "complaint"),
    [
        (
            "upcast(q, 4)",
            LoweringError,
            r"step 1 of the schedule of \w+, upcast\(q, 4\).*the axes are i, j, k",
        ),
        (
            "swap(i, j); upcast(j, 7)",
            LoweringError,
            r"step 2 .*7 does not divide the 64 of axis j.*pad_to\(j, 7\) first",
        ),
        ("split(i, 4); upcast(i, 2)", LoweringError, "no axis i; the axes are i.outer, i.inner, j, k"),
        ("stage(arg2, buffers=2)", LoweringError, "2 buffers.*buffers=1"),
        ("local(i, 4)", LoweringError, "has no threads in blocks"),
        ("[other]\nupcast(j, 16)", LoweringError, "no kernel other; kernels are reduce_"),
        ("upcast(j", ParseError, "expected ',' or '\\)'"),
        ("no/such/file", PlanishError, "cannot read the schedule"),
    ],
)
def test_what_cannot_be_followed_is_refused(schedule: str, error: type[PlanishError], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        pn.jit(product, schedule=schedule)(A, B)


def test_steps_for_one_kernel_are_not_those_of_two() -> None:
    with pytest.raises(LoweringError, match="the function has 2; put a line"):
        pn.jit(softmax_and_product, schedule=STEPS)(A, B)


def test_code_of_another_schedule_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    function = pn.jit(product).lower(A, B).function
    with pn.settings(cache_dir=str(tmp_path)):
        compiler.compile(function)
        with pn.settings(schedule=STEPS):
            (choice,) = compiler.compile(function).lowered.choices
            assert choice.actions == parse_schedule(STEPS)
            (kept,) = compiler.compile(function).lowered.choices
            assert kept.actions == parse_schedule(STEPS)
        (choice,) = compiler.compile(function).lowered.choices
        assert choice.origin == "heuristic"


def test_parameters_are_called_as_in_the_function() -> None:
    by_name = pn.jit(product, schedule=STEPS.replace("arg2", "b")).lower(A, B)
    by_number = pn.jit(product, schedule=STEPS).lower(A, B)
    assert by_name.as_text("llir") == by_number.as_text("llir")
    assert "# given; a is arg1; b is arg2" in by_name.as_text("schedule")


def test_names_are_those_of_the_function_at_hand(tmp_path: Path) -> None:
    steps = "upcast(j, 16); upcast(i, 4); stage({}, at=i.outer)"
    with pn.settings(cache_dir=str(tmp_path)):
        for formula, staged in ((lambda a, b: a @ b, "arg1"), (lambda b, a: b @ a, "arg2")):
            function = pn.jit(formula).lower(A, B).function
            with pn.settings(schedule=steps.format("a")):
                (choice,) = compiler.compile(function).lowered.choices
            assert choice.actions == parse_schedule(steps.format(staged))


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        (lambda a, c: a @ c, r"b is none of the kernel's parameters; it reads a \(arg1\), c \(arg2\)"),
        (lambda a, b: (a @ b, b @ a), "b stands for several of the kernel's parameters"),
    ],
)
def test_a_name_that_says_no_one_parameter_is_refused(formula: Any, complaint: str) -> None:
    with pytest.raises(ParseError, match=complaint):
        pn.jit(formula, schedule="stage(b, at=i)")(A[:24], A[:24])
