"""errors: one readable line, fields kept, carets placed, user frames found, pickling."""

from __future__ import annotations

import inspect
import pickle
import textwrap
from pathlib import Path

import pytest

from planish import errors
from planish.errors import (
    DTypeError,
    InternalError,
    Location,
    ParseError,
    PlanishError,
    SettingsError,
    ShapeError,
    VerifyError,
    did_you_mean,
)

TREE = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, PlanishError)]
HERE = Location("model.py", 12, 5, "forward")


def test_the_tree_is_complete_and_mixes_in_the_builtins_users_catch():
    names = {cls.__name__ for cls in TREE}
    assert names == {
        *("PlanishError", "DTypeError", "ShapeError", "SettingsError", "ParseError", "GraphError"),
        *("VerifyError", "RewriteError", "PassError", "LoweringError", "InternalError"),
        *("NanError", "OutOfMemoryError"),
    }
    assert issubclass(DTypeError, TypeError)
    for cls in (ShapeError, SettingsError, ParseError):
        assert issubclass(cls, ValueError)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "shapes differ"),
        ({"op": "add"}, "shapes differ; in add"),
        ({"location": HERE}, "shapes differ; at model.py:12:5 in forward"),
        ({"remedy": "broadcast first"}, "shapes differ; broadcast first"),
        (
            {"op": "add", "location": HERE, "remedy": "broadcast first"},
            "shapes differ; in add, at model.py:12:5 in forward; broadcast first",
        ),
    ],
)
def test_message_is_one_line_of_what_where_remedy(fields, text: str):
    error = ShapeError("shapes differ", **fields)
    assert str(error) == text
    for name in ("op", "location", "remedy"):
        assert getattr(error, name) == fields.get(name)
    assert error.message == "shapes differ"


def test_an_error_of_a_call_names_it_and_the_users_line():
    error = ShapeError.of("add", "shapes differ", "broadcast first")
    assert (type(error), error.message, error.op, error.remedy) == (
        ShapeError,
        "add: shapes differ",
        "add",
        "broadcast first",
    )
    plain = DTypeError.at_caller("no such dtype")
    assert (plain.message, plain.op, plain.remedy) == ("no such dtype", None, None)
    for each in (error, plain):
        assert each.location is not None
        assert each.location.file == __file__


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling_with_fields_and_notes(cls: type[PlanishError]):
    error = cls("what", location=HERE, op="add", remedy="do this")
    error.add_note("window of IR")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert str(back) == str(error)
    assert (back.location, back.op, back.remedy, back.__notes__) == (HERE, "add", "do this", ["window of IR"])


def test_extra_fields_survive_pickling():
    verify = pickle.loads(pickle.dumps(VerifyError("bad program", ["a", "b"])))
    assert verify.problems == ("a", "b")
    parse = pickle.loads(pickle.dumps(ParseError.at("bad token", "x = ?", 4, expected=["a name"])))
    assert (parse.line, parse.column, parse.source_line, parse.expected) == (1, 5, "x = ?", ("a name",))


def test_parse_error_shows_the_line_with_a_caret():
    text = "func f {\n  %a = add(%b %c)\n}\n"
    error = ParseError.at("unexpected '%c'", text, text.index("%c"), file="p.ptir", expected=["','", "')'"])
    assert str(error) == textwrap.dedent("""\
        unexpected '%c', expected ',' or ')'; at p.ptir:2:15
          2 |   %a = add(%b %c)
            |               ^""")
    assert (error.line, error.column) == (2, 15)
    assert error.location == Location("p.ptir", 2, 15)


@pytest.mark.parametrize(
    ("text", "offset", "line", "column", "shown"),
    [
        ("", 0, 1, 1, ""),
        ("ab", 2, 1, 3, "ab"),  # end of text
        ("ab", 99, 1, 3, "ab"),  # clamped
        ("ab\ncd", 2, 1, 3, "ab"),  # on the newline itself
        ("ab\ncd", 3, 2, 1, "cd"),
        ("ab\n", 3, 2, 1, ""),
        ("ab\r\ncd\r\n", 5, 2, 2, "cd"),
    ],
)
def test_offsets_become_lines_and_columns(text: str, offset: int, line: int, column: int, shown: str):
    error = ParseError.at("bad", text, offset)
    assert (error.line, error.column, error.source_line) == (line, column, shown)
    caret = str(error).splitlines()[-1]
    assert caret.index("^") - caret.index("|") - 2 == column - 1
    assert f"at line {line}, column {column}" in str(error)


def test_caret_keeps_tabs_and_wide_line_numbers_aligned():
    lines = ["x"] * 99 + ["\t\ty = ?"]
    text = "\n".join(lines)
    headline, source, caret = str(ParseError.at("bad", text, text.index("?"))).splitlines()
    assert source == "  100 | \t\ty = ?"
    assert caret == "      | \t\t    ^"
    assert headline == "bad; at line 100, column 7"


def test_parse_error_without_source_is_one_line():
    assert str(ParseError("bad", line=3)) == "bad; at line 3"
    assert (
        str(ParseError("bad", expected=("a", "b", "c"), remedy="fix it")) == "bad, expected a, b or c; fix it"
    )


def test_verify_error_lists_its_problems():
    error = VerifyError("2 problems in f", ["%1: wrong dtype", "%2: unknown op\nsecond line"], op="f")
    assert str(error) == "2 problems in f; in f\n  - %1: wrong dtype\n  - %2: unknown op\n    second line"


def test_internal_error_says_whose_fault_it_is_and_names_the_reproducer():
    assert str(InternalError("stage 9 lost a range")) == "this is a bug in planish: stage 9 lost a range"
    text = str(InternalError("stage 9 lost a range", op="reduce", reproducer="repro.py"))
    assert text.startswith("this is a bug in planish: stage 9 lost a range; in reduce; ")
    assert text.endswith("with the reproducer repro.py")


def test_location_prints_what_it_knows():
    assert str(Location("f.py", 3)) == "f.py:3"
    assert str(Location("f.py", 3, 7)) == "f.py:3:7"
    assert str(Location("f.py", 3, None, "g")) == "f.py:3 in g"
    with pytest.raises(AttributeError):
        Location("f.py", 3).line = 4  # type: ignore[misc]


def as_if_in_package(function_source: str):
    """A function whose code claims a file inside the package, as planish's own frames do."""
    file = str(Path(errors.__file__).parent / "pretended" / "module.py")
    scope: dict[str, object] = {"Location": Location}
    exec(compile(textwrap.dedent(function_source), file, "exec"), scope)
    return scope["inner"]


def test_caller_skips_the_frames_of_the_package():
    inner = as_if_in_package("""
        def innermost(): return Location.caller()
        def inner(): return innermost()
    """)
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    found = inner()
    assert found == Location(__file__, line, None, "test_caller_skips_the_frames_of_the_package")


def test_caller_without_skipping_is_the_direct_caller():
    inner = as_if_in_package("""
        def inner(): return Location.caller(skip_package=False)
    """)
    found = inner()
    assert found.file.endswith("module.py")
    assert (found.line, found.function) == (2, "inner")


def test_caller_finds_columns_on_request_and_qualified_names():
    class Model:
        def forward(self) -> Location | None:
            return Location.caller(column=True)

    found = Model().forward()
    assert found is not None
    assert found.column == len("            return ") + 1
    assert found.function is not None
    assert found.function.endswith("Model.forward")


def test_caller_at_module_level_has_no_function():
    scope: dict[str, object] = {"Location": Location}
    exec(compile("here = Location.caller()", "script.py", "exec"), scope)
    assert scope["here"] == Location("script.py", 1)


def test_did_you_mean():
    assert did_you_mean("beem", ["beam", "threads"]) == "beam"
    assert did_you_mean("zzz", ["beam", "threads"]) is None
