"""`planish opt` when a pass is at fault: what it says, what it leaves behind, and that this repeats the failure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from planish.errors import RewriteError
from planish.ptir import Inst, Pattern, PatternSet, Program, ProgramRewriter, ops, tensor
from planish.ptir.passes import PASSES, PassContext, PassResult
from planish.ptir.passes.manager import DEFAULT_CONTEXT
from tests.cli.conftest import Cli


@dataclass(frozen=True)
class Fail:
    """Erases nothing and fails at the first instruction."""

    name: ClassVar[str] = "fail"
    hard: bool = False

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        inst = next(iter(program.entry))
        if self.hard:
            raise ZeroDivisionError("by nothing")
        raise RewriteError("no way", location=inst.loc, op=inst.op.name)


@dataclass(frozen=True)
class Break:
    """Makes the program invalid and says nothing."""

    name: ClassVar[str] = "break"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        next(iter(program.entry)).result.type = tensor("f64")
        return PassResult(True, {}, (program.entry.name,))


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, "fail", Fail)
    monkeypatch.setitem(PASSES, "break", Break)


def reproducer_in(folder: str) -> Path:
    (path,) = Path(folder).glob("reproducer-*.ptir")
    return path


def test_a_failing_pass_names_the_line_the_pass_and_a_reproducer_that_fails_the_same(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "dce,fail,cse", "--reproducer-dir", "left")
    assert (ran.status, ran.out) == (1, "")
    path = reproducer_in("left")
    assert ran.err == (
        "small.ptir:3:3: error: no way (in slice)\n"
        "  %0 = slice %x {starts=[0, 0], limits=[4, 8], strides=[1, 1]} : tensor<f32, 4x8>\n"
        "  ^\n"
        "note: in pass 2 of the pipeline dce,fail,cse: fail\n"
        f"note: reproducer: {path}\n"
        f"note: run it with: planish opt {path}\n"
    )
    contents = path.read_text()
    assert "// run: fail,cse\n" in contents
    assert "// versions: planish " in contents
    assert "%d" not in contents  # dce came before
    again = cli("opt", path, "--no-reproducer")
    assert (again.status, again.out) == (1, "")
    line = contents.splitlines().index("ptir 1") + 3
    assert again.err.startswith(f"{path}:{line}:3: error: no way (in slice)\n")
    assert again.err.endswith("note: in pass 1 of the pipeline fail,cse: fail\n")
    assert cli("opt", "--run-reproducer", path, "--no-reproducer").err == again.err
    # Another pipeline on request.
    assert cli("opt", path, "-p", "cse").status == 0


def test_bugs_in_passes_leave_reproducers_too(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "fail{hard=true}", "--dump-dir", "dump")
    assert (ran.status, ran.out) == (1, "")
    path = reproducer_in("dump")
    assert ran.err.startswith("planish opt: error: this is a bug in planish: ZeroDivisionError: by nothing\n")
    assert f"note: reproducer: {path}\n" in ran.err
    assert "Traceback" not in ran.err
    again = cli("opt", path, "-v", "--no-reproducer")
    assert again.status == 1
    assert again.err.startswith(
        "planish opt: error: this is a bug in planish: ZeroDivisionError: by nothing\n"
    )
    assert "Traceback (most recent call last)" in again.err


def test_reproducers_go_to_the_temporary_files_unless_told(
    cli: Cli, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert f"note: reproducer: {tmp_path}/reproducer-" in cli("opt", small, "-p", "fail").err
    assert reproducer_in(str(tmp_path)).is_file()
    assert "reproducer" not in cli("opt", small, "-p", "fail", "--no-reproducer").err


def test_a_file_that_is_no_reproducer(cli: Cli, small: str):
    ran = cli("opt", "--run-reproducer", small)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("planish opt: error: small.ptir: this is no reproducer: ")


def test_a_reproducer_of_unknown_passes_is_at_fault_itself(cli: Cli):
    ran = cli("opt", stdin="// run: vanished\nptir 1\n")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("planish opt: error: <stdin>: there is no pass 'vanished'\n")


def test_verification_finds_the_pass(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "cse,break,dce", "--verify-each", "--reproducer-dir", "left")
    assert (ran.status, ran.out) == (1, "")
    assert "error: the output of break is invalid\n  - @f: types: slice gives" in ran.err
    assert "note: in pass 2 of the pipeline cse,break,dce: break\n" in ran.err
    # A reproducer is verified after each pass without being asked, or it would fail otherwise than it did.
    again = cli("opt", reproducer_in("left"), "--no-reproducer")
    assert "error: the output of break is invalid\n  - @f: types: slice gives" in again.err


def test_an_invalid_result_is_never_written(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "break", "-o", "out.ptir")
    assert ran.status == 1
    assert not Path("out.ptir").exists()
    assert ran.err.startswith("planish opt: error: the result of the pipeline is invalid\n  - ")
    assert "help: --verify-each finds the pass at fault\n" in ran.err
    assert cli("opt", small, "-p", "break", "--no-verify").status == 0


class ChangeSecretly(Pattern[Inst]):
    """Changes an attribute behind the rewriter's back and denies it."""

    roots = (ops.transpose,)

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        op.results[0].type = tensor("f64", (8, 4))
        return False


def test_expensive_checks_name_the_pattern_and_are_repeated_by_the_reproducer(
    cli: Cli, small: str, monkeypatch: pytest.MonkeyPatch
):
    lying = PatternSet([ChangeSecretly]).freeze()
    monkeypatch.setattr("planish.ptir.passes.canonicalize.canonicalization_patterns", lambda: lying)
    ran = cli("opt", small, "-p", "canonicalize", "--expensive-checks", "--reproducer-dir", "left")
    assert (ran.status, ran.out) == (1, "")
    assert "pattern ChangeSecretly" in ran.err.splitlines()[0]
    path = reproducer_in("left")
    assert "// run: canonicalize{expensive-checks=true}\n" in path.read_text()
    again = cli("opt", path, "--no-reproducer")
    assert "pattern ChangeSecretly" in again.err.splitlines()[0]


def test_steps_are_logged_up_to_the_failure(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "dce,fail", "--log-steps", "--no-reproducer")
    assert ran.status == 1
    assert ran.err.startswith(
        "// dce @f\n    1 erased by dce: #6 %6 = neg(%5) at small.ptir:8\nsmall.ptir:3:3: error:"
    )


def test_a_directory_that_cannot_be_written_is_said_first(cli: Cli, small: str):
    ran = cli("opt", small, "-p", "fail", "--reproducer-dir", small)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "planish opt: error: small.ptir: File exists\n"
