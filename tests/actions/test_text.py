"""Schedules as text: whatever the actions, they are read back as they were; what is no schedule is told where it is none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.actions.base import Action, fields_of
from planish.actions.stage import Stage
from planish.actions.text import kinds, parse_schedule, print_schedule, sections
from planish.errors import ParseError
from planish.uop.ops import axis_name

NAMES = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(lambda path: axis_name(tuple(path)))
VALUES: dict[str, st.SearchStrategy[object]] = {
    "AxisName": NAMES,
    "AxisName | None": st.none() | NAMES,
    "Param": st.integers(0, 99),
    "CoreName": st.sampled_from(["amx_tdpbf16ps", "mma_m16n8k16_f16_f32", "pairs_i16_n16"]),
    "int": st.integers(0, 1 << 40),
    "bool": st.booleans(),
}


@st.composite
def actions(draw: st.DrawFn) -> Action:
    """Any action, of any kind."""
    kind = draw(st.sampled_from(list(kinds().values())))
    return kind(**{field.name: draw(VALUES[field.kind]) for field in fields_of(kind)})


@given(st.lists(actions(), max_size=6).map(tuple))
def test_a_schedule_is_read_back_as_it_was(schedule: tuple[Action, ...]) -> None:
    assert parse_schedule(print_schedule(schedule)) == schedule
    assert parse_schedule("\n".join(map(str, schedule))) == schedule


def test_the_text_is_what_people_write() -> None:
    text = "split(i, 6); lanes(j, 16); stage(arg2, at=k.outer, pad=4); thread(i.outer); group(k, 32, contiguous=true)"
    schedule = parse_schedule(text)
    assert print_schedule(schedule) == text
    assert schedule[2] == Stage(2, "k.outer", pad=4)
    assert parse_schedule(" split( i ,6 ) ;\n\n lanes(axis=j, width=16) # sixteen\n;") == schedule[:2]
    assert parse_schedule("") == parse_schedule("# nothing\n") == ()


@pytest.mark.parametrize(
    ("text", "complaint", "line", "column"),
    [
        ("upcst(j, 4)", "found 'upcst', expected an action.*did you mean 'upcast'", 1, 1),
        ("upcast j", r"found 'j', expected '\('", 1, 8),
        ("upcast(j, 4", "found the end, expected ',' or '\\)'", 1, 12),
        ("split(i)", "expected by of split", 1, 8),
        ("split(i, x)", "found 'x', expected a number", 1, 10),
        ("upcast(4)", "found '4', expected an axis", 1, 8),
        ("upcast(j, 4)\nswap(i, j) lanes(j)", "found 'lanes', expected ';' or the end", 2, 12),
        ("upcast(j, 4, 5)", r"found '5', expected '\)'", 1, 14),
        ("stage(4)", "found '4', expected a parameter, such as arg1", 1, 7),
        ("stage(arg1, where=i)", "expected at, buffers, pad, turned, swizzle or own", 1, 13),
        ("group(k, contiguous=1)", "found '1', expected true or false", 1, 21),
        ("upcast(j, 99999999999999999999)", "expected a number", 1, 11),
    ],
)
def test_what_is_no_schedule_is_told_where(text: str, complaint: str, line: int, column: int) -> None:
    with pytest.raises(ParseError, match=complaint) as caught:
        parse_schedule(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_damaged_texts_are_schedules_or_errors() -> None:
    whole = "split(i, 6); stage(arg2, at=k.outer, buffers=2); tensor_core(amx, i, j, k)\n[x]\nswap(i, j)"
    for seed in range(2000):
        rng = random.Random(seed)
        place = rng.randrange(len(whole))
        text = (
            whole[:place]
            + rng.choice(["", ";", "(", ")", "=", "\n", "#", "9", "i", "\0", "é"])
            + whole[place + 1 :]
        )
        for part in sections(text).values():
            try:
                schedule = parse_schedule(part)
            except ParseError:
                continue
            assert parse_schedule(print_schedule(schedule)) == schedule


def test_a_file_has_a_part_for_each_kernel() -> None:
    text = "# all\n[reduce_*]\nupcast(j, 4)\n\n[copy]  # turned\nswap(i, j)\n"
    parts = sections(text)
    assert list(parts) == ["reduce_*", "copy"]
    assert [print_schedule(parse_schedule(part)) for part in parts.values()] == ["upcast(j, 4)", "swap(i, j)"]
    assert sections("upcast(j, 4)") == {"": "upcast(j, 4)"}
    with pytest.raises(ParseError) as caught:
        parse_schedule(sections("[a]\nupcast(j, 4)\n[b]\nnothing(j)")["b"])
    assert caught.value.line == 4


def test_every_kind_says_what_it_is() -> None:
    for word, kind in kinds().items():
        assert kind.word == word
        assert kind.does
        assert kind.__module__ == f"planish.actions.{word}"  # one file each
        assert all(field.kind in VALUES for field in fields_of(kind))
        assert kind.sized in {"", *(field.name for field in fields_of(kind))}


def test_actions_are_records_that_do_not_change() -> None:
    step = Stage(2, "k.outer", pad=4)
    assert step == Stage(param=2, at="k.outer", pad=4) != Stage(2, "k.outer")
    assert hash(step) == hash(Stage(2, "k.outer", pad=4))
    assert step.replaced(pad=0) == Stage(2, "k.outer")
    assert kinds()["upcast"]("i", 4) != kinds()["unroll"]("i", 4)
    assert str(step.renamed("k.outer", "k")) == "stage(arg2, at=k, pad=4)"
    with pytest.raises(AttributeError, match="does not change"):
        step.pad = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match="takes param, at, buffers, pad"):
        Stage()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes param"):
        Stage(1, slot=2)  # type: ignore[call-arg]
