"""`planish opt`: input, output, pipelines, and what it says about a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from planish.ptir import json as ptir_json
from planish.ptir import text
from planish.ptir.passes import PASSES, PassManager
from tests.cli.conftest import SMALL, Cli
from tests.conftest import Golden

# Constants to fold, a transpose of a transpose, something unused, equal computations, two functions.
MIXED = """\
ptir 1
func @f(%x: tensor<f32, 4x8>) -> tensor<f32, 4x8> {
  %0 = slice %x {starts=[0, 0], limits=[4, 8], strides=[1, 1]} : tensor<f32, 4x8>
  %1 = transpose %0 {perm=[1, 0]} : tensor<f32, 8x4>
  %2 = transpose %1 {perm=[1, 0]} : tensor<f32, 4x8>
  %two = constant 2.0 : tensor<f32, 4x8>
  %four = add %two, %two : tensor<f32, 4x8>
  %a = mul %2, %four : tensor<f32, 4x8>
  %b = mul %2, %four : tensor<f32, 4x8>
  %unused = neg %b : tensor<f32, 4x8>
  %sum = add %a, %b : tensor<f32, 4x8> loc("model.py":12 in "forward")
  return %sum
}
func @g(%x: tensor<i32, 4>) -> tensor<i32, 4> {
  %0 = cast %x {dtype=i32} : tensor<i32, 4>
  return %0
}
"""
# Few patterns, so that what is shown does not depend on which others there are.
FEW = (
    *("--enable-pattern", "RemoveWholeSlice", "--enable-pattern", "FoldTransposeOfTranspose"),
    *("--enable-pattern", "RemoveIdentityTranspose", "--enable-pattern", "RemoveNoOpCast"),
)


def masked(shown: str) -> str:
    """Times as marks: figures with three digits behind the point, in columns or not, and shares with one."""
    columns = re.sub(r" +\d+\.\d{3}\b", lambda match: " " * (len(match.group()) - 5) + "#.###", shown)
    return re.sub(r" +\d+\.\d$", "   #.#", re.sub(r"\b\d+\.\d{3}\b", "#.###", columns), flags=re.MULTILINE)


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mixed.ptir").write_text(MIXED, encoding="utf-8")
    return "mixed.ptir"


# In and out.


def test_the_default_pipeline_runs_and_standard_input_is_a_file_like_any_other(cli: Cli, small: str):
    expected = text.parse(SMALL)
    PassManager.parse("canonicalize,cse,dce").run(expected)
    for ran in (cli("opt", small), cli("opt", stdin=SMALL), cli("opt", "-", stdin=SMALL)):
        assert (ran.status, ran.out, ran.err) == (0, text.print(expected), "")
    assert cli("opt", stdin=text.print(expected)).out == text.print(expected)


def test_output_goes_to_a_file_on_request(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "dce", "-o", "out.ptir")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert Path("out.ptir").read_text() == SMALL.replace("  %d = neg %c : tensor<f32, 8x4>\n", "")
    wrong = cli("opt", small, "-o", "missing/out.ptir")
    assert (wrong.status, wrong.out) == (1, "")
    assert wrong.err == "planish opt: error: cannot write missing/out.ptir: No such file or directory\n"


def test_an_empty_pipeline_only_reads_and_writes(cli: Cli):
    assert cli("opt", "-p", "", stdin=MIXED).out == MIXED.replace(' loc("model.py":12 in "forward")', "")


def test_json_goes_in_and_comes_out(cli: Cli):
    as_json = cli("opt", "-p", "", "--json", stdin=MIXED)
    assert (as_json.status, as_json.err) == (0, "")
    assert json.loads(as_json.out)["ptir"] == 1
    assert text.print(ptir_json.loads(as_json.out)) == text.print(text.parse(MIXED))
    assert cli("opt", stdin=as_json.out).out == cli("opt", stdin=MIXED).out


def test_locations_and_ids_are_shown_on_request(cli: Cli):
    located = cli("opt", "-p", "dce", "--locations", stdin=MIXED).out
    assert 'loc("<stdin>":5)' in located
    assert 'loc("model.py":12 in "forward")' in located
    assert "%1 = slice %x" in cli("opt", "-p", "", "--ids", stdin=MIXED).out


def test_line_ends_and_byte_order_marks_do_not_matter(cli: Cli, tmp_path: Path):
    path = tmp_path / "dos.ptir"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert cli("opt", path).out == cli("opt", stdin=SMALL).out


def test_an_option_with_an_optional_value_does_not_take_the_file(cli: Cli, small: str):
    ran = cli("opt", "--print-changed", small)
    assert ran.status == 0
    assert "// after canonicalize\nptir 1\n" in ran.err


# What is wrong with the input.


def test_parse_errors_point_at_their_place(cli: Cli, small: str):
    Path(small).write_text(SMALL.replace("perm=", "permutation="))
    ran = cli("opt", small)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "small.ptir:4:22: error: there is no attribute 'permutation' here\n"
        "  %1 = transpose %0 {permutation=[1, 0]} : tensor<f32, 8x4>\n"
        "                     ^\n"
        "help: the attributes are: perm\n"
    )


def test_expectations_are_part_of_the_message(cli: Cli):
    ran = cli("opt", stdin="ptir 1\nfunc f() -> () {\n")
    assert ran.status == 1
    first, line, caret = ran.err.splitlines()
    assert first.startswith("<stdin>:2:6: error: found 'f', expected ")
    assert (line, caret) == ("func f() -> () {", "     ^")


def test_every_broken_invariant_is_reported_under_its_line(cli: Cli):
    call = "  %{0} = call @nothing %x : tensor<f32, 4>\n"
    source = f"ptir 1\nfunc @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {{\n{call.format(0)}{call.format(1)}  return %1\n}}\n"
    ran = cli("opt", stdin=source)
    assert (ran.status, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith("<stdin>:3:3: error: calls: there is no function @nothing")
    assert lines[1:3] == [call.format(0).rstrip(), "  ^"]
    assert lines[3].startswith("<stdin>:4:3: error: calls: ")
    assert len(lines) == 6
    unchecked = cli("opt", "-p", "", "--no-verify", stdin=source)
    assert (unchecked.status, unchecked.out) == (0, source)


def test_problems_in_other_files_are_shown_in_the_program(cli: Cli):
    source = (
        "ptir 1\nfunc @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {\n"
        '  %0 = call @nothing %x : tensor<f32, 4> loc("model.py":3)\n  return %0\n}\n'
    )
    ran = cli("opt", stdin=source)
    assert ran.err.startswith("model.py:3: error: calls: there is no function @nothing")
    assert "in @f:\n" in ran.err
    assert "^ calls: there is no function @nothing" in ran.err


def test_json_errors_name_file_and_place(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text('{"ptir": 1,\n "functions": [}\n')
    ran = cli("opt", "p.json")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("p.json:2:16: error: this is not JSON: ")
    assert ran.err.endswith('\n "functions": [}\n               ^\n')
    argument = '{"ptir": 1, "functions": [{"name": "f", "args": [{"id": 0, "type": "tensor<q32>"}], "end": {"id": 0}}]}'
    Path("p.json").write_text(argument)
    ran = cli("opt", "p.json")
    assert ran.status == 1
    assert ran.err.startswith("planish opt: error: p.json: functions[0].args[0].type: ")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "cannot read x.ptir: No such file or directory"),
        (b"\xff\xfe", "x.ptir is no text: byte 0 is not UTF-8"),
    ],
)
def test_files_that_cannot_be_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: bytes | None, message: str
):
    monkeypatch.chdir(tmp_path)
    if contents is not None:
        Path("x.ptir").write_bytes(contents)
    ran = cli("opt", "x.ptir")
    assert (ran.status, ran.out, ran.err) == (1, "", f"planish opt: error: {message}\n")


# What is wrong with the command line.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "canonicalise"), "there is no pass 'canonicalise'\nhelp: did you mean canonicalize?"),
        (("-p", "cse,,dce"), "cannot read the pipeline 'cse,,dce' at column 5\n"),
        (("-p", "canonicalize{max=3}"), "pass canonicalize has no option 'max'\n"),
        (("-p", "canonicalize{disable=Fold}"), "there is no pattern 'Fold'\n"),
        (("--disable-pattern", "RemoveHoleSlice"), "'RemoveHoleSlice'\nhelp: did you mean RemoveWholeSlice?"),
        (
            ("-p", "cse", "--max-rewrites", "3"),
            "no pass of this pipeline uses patterns\nhelp: add canonicalize",
        ),
        (("--max-rewrites", "-1"), "'-1' is not a number of rewrites\n"),
        (("--print-changed=all",), "invalid choice: 'all'"),
        (("--run-reproducer", "x", "y"), "--run-reproducer names the input: there cannot be another\n"),
        (("--explain", "%0", "X", "-p", "cse"), "--explain looks at the input and runs nothing\n"),
        (("--explain", "%0", "X", "--stats"), "--explain and --bisect write a report, not a program\n"),
        (("--bisect", "'"), 'cannot read the command "\'": No closing quotation\n'),
        (("--bisect", ""), "--bisect needs a command\n"),
    ],
)
def test_misuse(cli: Cli, arguments: tuple[str, ...], message: str):
    ran = cli("opt", *arguments, stdin=SMALL)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


# Watching.


def test_statistics(cli: Cli, mixed: str, golden: Golden):
    ran = cli("opt", mixed, "--stats", *FEW)
    assert ran.status == 0
    golden.check("cli/stats.txt", masked(ran.err))


def test_timing_has_every_phase(cli: Cli, mixed: str, golden: Golden):
    ran = cli("opt", mixed, "--timing", "-p", "inline,cse,dce,symbol-dce{keep=g}")
    golden.check("cli/timing.txt", masked(ran.err))


def test_steps(cli: Cli, mixed: str, golden: Golden):
    ran = cli("opt", mixed, "--log-steps", *FEW)
    golden.check("cli/log_steps.txt", ran.err)


def test_changed_programs(cli: Cli, mixed: str, golden: Golden):
    golden.check("cli/print_changed.txt", cli("opt", mixed, "--print-changed", *FEW).err)


def test_changed_lines(cli: Cli, mixed: str, golden: Golden):
    golden.check("cli/print_changed_diff.txt", cli("opt", mixed, "--print-changed=diff", *FEW).err)


def test_dumps_are_written_only_on_change(cli: Cli, mixed: str):
    ran = cli("opt", mixed, "--dump-dir", "dump", "-p", "canonicalize,inline,cse,dce")
    assert ran.status == 0
    names = sorted(path.name for path in Path("dump").iterdir())
    assert names == ["000_input.ptir", "001_canonicalize.ptir", "003_cse.ptir"]
    assert text.print(text.parse(Path("dump/000_input.ptir").read_text())) == text.print(text.parse(MIXED))
    assert Path("dump/003_cse.ptir").read_text() == f"// cse\n{ran.out}"


def test_two_runs_say_the_same(cli: Cli, mixed: str):
    arguments = ("opt", mixed, "--log-steps", "--print-changed=diff", "--stats", "--locations")
    first, second = (cli(*arguments) for _ in range(2))
    assert first.out == second.out
    assert masked(first.err) == masked(second.err)


def test_lists(cli: Cli):
    passes = cli("opt", "--list-passes")
    assert (passes.status, passes.err) == (0, "")
    for name in PASSES:
        assert re.search(rf"^{name} +\S", passes.out, re.MULTILINE)
    assert "    max-iterations=INTEGER|none, default none\n" in passes.out
    patterns = cli("opt", "--list-patterns").out
    assert "RemoveNoOpCast: the cast family\n    cast(x: T, T) -> x.\n" in patterns
    names = re.findall(r"^(\w+):", patterns, re.MULTILINE)
    assert names == sorted(names)


# Choosing patterns.


def test_patterns_are_chosen_by_name(cli: Cli):
    only = cli("opt", "-p", "canonicalize", "--enable-pattern", "RemoveWholeSlice", stdin=MIXED).out
    assert "slice" not in only
    assert only.count("transpose") == 2
    without = cli("opt", "-p", "canonicalize", "--disable-pattern", "RemoveWholeSlice", stdin=SMALL).out
    assert "slice" in without
    assert "%d" not in without


def test_rewrites_can_be_limited(cli: Cli):
    ran = cli("opt", "-p", "canonicalize", "--max-rewrites", "1", "--stats", "--log-steps", *FEW, stdin=MIXED)
    logged = [line for line in ran.err.splitlines() if re.match(r" +1 (changed|folded)", line)]
    assert len(logged) == 2  # one per function
    assert "transpose" in ran.out


# Why did it not fire?


def test_explanations(cli: Cli, mixed: str):
    ran = cli(
        *(
            "opt",
            mixed,
            "--explain",
            "%2",
            "FoldTransposeOfTranspose",
            "--explain",
            "@f:#1",
            "RemoveNoOpCast",
        ),
        *("--explain", ":4", "FoldTransposeOfTranspose", "--explain", "@g:%0", "all"),
    )
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    # Values are called as the text calls them, not by ids that only the step log shows.
    assert lines[0] == "FoldTransposeOfTranspose fires at %2 = transpose(%1): it makes nothing new"
    assert (
        lines[1] == "RemoveNoOpCast does not fire at %0 = slice(%x): its root is the cast family, not slice"
    )
    assert lines[2] == (
        "FoldTransposeOfTranspose does not fire at %1 = transpose(%0): "
        "operand 0 must come from transpose, it comes from slice"
    )
    assert "RemoveNoOpCast fires at %0 = cast(%x): it makes nothing new" in lines[3:]
    assert len(lines) > 4


@pytest.mark.parametrize(
    ("where", "pattern", "message"),
    [
        ("%0", "RemoveNoOpCast", "%0 could be several instructions\nhelp: say which: @f:#1, @g:#1\n"),
        ("%summ", "RemoveNoOpCast", "there is no instruction %summ\nhelp: did you mean %sum?\n"),
        ("@h:%0", "RemoveNoOpCast", "there is no function @h\n"),
        ("sum", "RemoveNoOpCast", "'sum' names no instruction\nhelp: write %name, #id or :line"),
        ("%sum", "RemoveNoOpCats", "no pattern 'RemoveNoOpCats'\nhelp: did you mean RemoveNoOpCast?"),
    ],
)
def test_explanations_of_nothing(cli: Cli, where: str, pattern: str, message: str):
    ran = cli("opt", "--explain", where, pattern, stdin=MIXED)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_values_with_a_location_of_their_own_are_found_as_they_print(cli: Cli):
    ran = cli("opt", "--explain", "%sum", "RemoveNoOpCast", stdin=MIXED)
    assert ran.out.startswith("RemoveNoOpCast does not fire at %sum = add(%a, %b)")
    # Locations of an earlier run's input have the same file, and lead nowhere in this one.
    located = cli("opt", "-p", "", "--locations", stdin="// moved\n" * 40 + MIXED).out
    assert cli("opt", "--explain", "%sum", "RemoveNoOpCast", stdin=located).out == ran.out


# Which rewrite broke it?


def test_bisection_finds_the_rewrite(cli: Cli):
    ran = cli("opt", "--bisect", "grep -q slice {}", *FEW, stdin=MIXED)
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("pass 1 of 4 breaks it: canonicalize{")
    assert re.match(r"in @f, rewrite \d of \d: changed by RemoveWholeSlice: #1 %1 = slice\(%0\)", lines[1])
    assert any(line.startswith("-  %1 = slice %x") for line in lines)
    assert re.fullmatch(r"the command was asked \d+ times", lines[-1])


def test_bisection_goes_through_functions_and_passes(cli: Cli):
    ran = cli("opt", "--bisect", "grep -q cast", *FEW, stdin=MIXED)
    assert ran.out.splitlines()[1].startswith("in @g, rewrite 1 of 1: changed by RemoveNoOpCast: ")
    ran = cli("opt", "-p", "cse,dce", "--bisect", "grep -q unused", stdin=MIXED)
    assert ran.out.splitlines()[0] == "pass 2 of 2 breaks it: dce"
    assert any(line.startswith("-  %unused = neg") for line in ran.out.splitlines())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "the command fails on the input already"),
        ("true", "the command succeeds on the result too"),
        ("no-such-command-here", "cannot run no-such-command-here: No such file or directory"),
    ],
)
def test_bisection_needs_a_question_that_has_an_answer(cli: Cli, command: str, message: str):
    ran = cli("opt", "--bisect", command, stdin=SMALL)
    assert (ran.status, ran.out) == (1, "")
    assert message in ran.err


def test_an_explanation_numbers_values_as_the_text_does(cli: Cli):
    # %13 stands on line 4, whatever number its value has inside; and JSON is called as it would print.
    program = "ptir 1\nfunc @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {\n  %7 = neg %x\n  %13 = neg %7\n  return %13\n}\n"
    told = cli("opt", "--explain", "%13", "all", stdin=program).out
    assert "at %13 = neg(%7)" in told
    assert all("at %13 = neg(%7)" in line for line in told.splitlines())
    made = cli("opt", "-p", "", "--json", stdin=program).out
    assert "at %1 = neg(%0)" in cli("opt", "--explain", "%1", "all", stdin=made).out
