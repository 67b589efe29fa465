"""The face of the command line: help, version, near misses, streams and exit statuses."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import planish
from planish.cli import COMMANDS, main, module_of
from planish.cli.console import Console
from planish.cli.script import divide
from planish.errors import DTypeError, InternalError, Location, SettingsError
from tests.cli.conftest import SMALL, Cli

ROOT = Path(__file__).parent.parent.parent


def python(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m planish` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "planish", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(cli: Cli, flag: str):
    ran = cli(flag)
    assert (ran.status, ran.out, ran.err) == (0, f"planish {planish.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("-v", "-h")])
def test_help_lists_the_commands(cli: Cli, arguments: tuple[str, ...]):
    ran = cli(*arguments)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("usage: planish ")
    for name, summary in COMMANDS.items():
        assert f"  {name}" in ran.out
        assert summary in ran.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str):
    ran = cli(command, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: planish {command} ")


def test_an_unknown_command_names_the_nearest(cli: Cli):
    ran = cli("otp", "x.ptir")
    assert (ran.status, ran.out) == (2, "")
    valid = ", ".join(COMMANDS)
    assert ran.err == f"planish: error: there is no command 'otp'\nhelp: did you mean 'opt'? valid: {valid}\n"
    assert cli("frobnicate").err.endswith(f"help: valid: {valid}\n")


def test_an_unknown_option_names_the_nearest(cli: Cli):
    ran = cli("opt", "--stat")
    assert (ran.status, ran.out) == (2, "")
    assert (
        ran.err
        == "planish opt: error: unrecognized argument: --stat; did you mean --stats?\nhelp: see `planish opt --help`\n"
    )
    assert cli("--stats", "opt").err.startswith("planish: error: there is no option '--stats'\nhelp: ")
    assert "unrecognized argument: b.ptir\n" in cli("opt", "a.ptir", "b.ptir").err


def test_it_is_a_program_that_pipes_without_any_extra():
    # One process for several claims, because starting one is slow.
    ran = python("opt", "-p", "dce", stdin=SMALL)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == SMALL.replace("  %d = neg %c : tensor<f32, 8x4>\n", "")
    script = (
        "import sys; sys.argv = ['planish', 'opt', '--list-passes']\n"
        "from planish.cli import main; assert main() == 0\n"
        "assert not {'rich', 'click', 'llvmlite'} & set(sys.modules)"
    )
    listed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (listed.returncode, listed.stderr) == (0, "")


def test_a_reader_that_leaves_early_is_no_error():
    many = "ptir 1\n" + "".join(SMALL.replace("@f", f"@f{i}").partition("\n")[2] for i in range(400))
    with subprocess.Popen(
        [sys.executable, "-m", "planish", "opt", "-p", ""],
        cwd=ROOT,
        # Unbuffered, Python itself drops what a broken pipe did not take, without an error.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(many)
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_few_characters_are_enough(monkeypatch: pytest.MonkeyPatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["opt", "--list-patterns"]) == 0
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    assert b"RemoveWholeSlice" in written.getvalue()


def test_an_interrupt_is_quiet(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planish.cli.opt.read_source", interrupted)
    ran = cli("opt", "x.ptir")
    assert (ran.status, ran.out, ran.err) == (130, "", "")


def test_output_that_cannot_be_written_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        ran = cli("opt", stdin=SMALL)
    assert ran.status == 1
    assert "planish opt: error: cannot write to standard output: No space left on device\n" in ran.err


# Errors.


def failing(
    error: Exception, capsys: pytest.CaptureFixture[str], *, verbose: bool = False
) -> tuple[int, str]:
    def run() -> int:
        raise error

    console = Console()
    console.verbose = verbose
    console.sources["prog.ptir"] = "ptir 1\n\t%0 = add\n"
    status = console.guard(run)
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


def test_errors_show_place_line_caret_function_and_remedy(capsys: pytest.CaptureFixture[str]):
    place = Location("prog.ptir", 2, 7, "forward")
    error = DTypeError("no such thing", location=place, op="add", remedy="cast it")
    assert failing(error, capsys) == (
        1,
        "prog.ptir:2:7: error: no such thing (in add)\n\t%0 = add\n\t     ^\nnote: in forward\nhelp: cast it\n",
    )
    error = DTypeError("elsewhere", location=Location("model.py", 3))
    error.add_note("while looking")
    assert failing(error, capsys) == (1, "model.py:3: error: elsewhere\nnote: while looking\n")


def test_bugs_say_that_they_are(capsys: pytest.CaptureFixture[str]):
    status, err = failing(ZeroDivisionError("division by zero"), capsys)
    assert status == 1
    assert err == (
        "planish: error: this is a bug in planish: ZeroDivisionError: division by zero\n"
        "note: run again with -v for the traceback\n"
    )
    status, err = failing(InternalError("lost", reproducer="r.ptir"), capsys)
    told = "note: reproducer: r.ptir\nnote: find the stage with: planish bisect r.ptir\n"
    assert (status, err) == (1, f"planish: error: this is a bug in planish: lost\n{told}")


def test_tracebacks_are_shown_on_request_only(capsys: pytest.CaptureFixture[str]):
    assert "Traceback" not in failing(DTypeError("x"), capsys)[1]
    assert "Traceback (most recent call last)" in failing(DTypeError("x"), capsys, verbose=True)[1]
    with planish.settings(debug="ir"):
        assert "Traceback (most recent call last)" in failing(ZeroDivisionError("x"), capsys)[1]


def test_a_wrong_setting_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]):
    assert failing(SettingsError("unknown"), capsys)[0] == 2


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Console().complain("x")
    assert "\033[1;31merror:\033[0m x" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    Console().complain("y")
    assert terminal.getvalue().endswith("planish: error: y\n")


def test_running_out_of_memory_is_no_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 2 PiB")

    monkeypatch.setattr("planish.cli.opt.read_source", full)
    ran = cli("opt")
    assert (ran.status, ran.out) == (1, "")
    assert (
        ran.err
        == "planish opt: error: out of memory: Unable to allocate 2 PiB\nhelp: smaller sizes, or more memory\n"
    )


def test_warnings_are_lines_for_users():
    script = "import sys, warnings; sys.argv = ['planish', 'info']; from planish.cli import main, info; "
    script += "info.versions = lambda: warnings.warn('nothing is cached') or {'a': 'b'}; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "note: nothing is cached\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_examples_that_parse(cli: Cli, command: str):
    shown = cli(command, "--help").out
    _, _, lines = shown.partition("examples:\n")
    told = [line.strip() for line in lines.splitlines() if line.strip()]
    assert len(told) >= 2
    # (a compiled model is also for C)
    assert all(line.startswith(("planish ", "cc ")) for line in told)
    for line in told:
        name, *words = (
            shlex.split(re.split(r"  +| > ", line)[0], comments=True)[1:]
            if line.startswith("planish")
            else ["opt"]
        )
        # options that are only shown by examples must exist, and take as many values as the examples give
        own = divide(words, module_of(name).parser())[0] if name in ("run", "launch") else words
        module_of(name).parser().parse_args(own)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_settings(command: str):
    words = [word for action in module_of(command).parser()._actions for word in action.option_strings]
    assert {"--json", "--set", "--verbose", "--help"} <= set(words)


def test_settings_of_the_command_line_hold_while_it_runs(cli: Cli):
    record = json.loads(cli("info", "--set", "beam=3", "--set", "cache-limit=7", "--json").out)
    assert record["settings"]["beam"] == {"value": 3, "source": "PLANISH_BEAM"}
    assert record["settings"]["cache_limit"]["value"] == 7
    assert "PLANISH_BEAM" not in os.environ
    assert planish.config.current().beam == 0


def test_a_setting_that_is_wrong_is_a_wrong_command_line(cli: Cli):
    ran = cli("info", "--set", "bem=3")
    assert (ran.status, ran.out) == (2, "")
    assert "unknown setting 'bem'\nhelp: did you mean 'beam'?" in ran.err
    assert "PLANISH_BEAM cannot be 'x'" in cli("info", "--set", "beam=x").err
    assert "'beam' sets nothing" in cli("info", "--set", "beam").err


def test_near_misses_of_choices_and_targets_are_named(cli: Cli):
    assert "invalid choice: 'cler'; did you mean 'clear'?" in cli("cache", "cler").err
    ran = cli("lower", "-", "--to", "llir", "--target", "sm90", stdin=SMALL)
    assert (ran.status, ran.out) == (2, "")
    assert "did you mean 'sm_90'?" in ran.err
    assert "did you mean --verbose?" in cli("--verbos", "opt").err


def test_code_has_colours_on_terminals_alone(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    code = 'define void @f() {\n  ret void\n}\n\n@a = global [2 x i8] c"[b]"\n'
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Console().write_code(code, "llvm")
    shown = terminal.getvalue()
    assert "\033[" in shown
    # the same text, with nothing but colours between
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).rstrip("\n") == code.rstrip("\n")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    terminal.seek(0)
    Console().write_code(code, "llvm")
    assert terminal.getvalue() == code
