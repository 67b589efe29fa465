"""`--load FILE.py`: passes and patterns of the user's own on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planish.ptir.passes import COST_MODELS, PASSES, PATTERNS
from tests.cli.conftest import Cli

MINE = '''\
from dataclasses import dataclass
from typing import ClassVar

from planish import ptir
from planish.ptir import ops


@ptir.register_pattern
class NegToAbs(ptir.Pattern[ptir.Inst]):
    """neg(x) -> abs(x)."""

    roots = (ops.neg,)

    def match_and_rewrite(self, op, rw):
        rw.replace_with(op, ops.abs, op.operands)
        return True


@ptir.register_pass
@dataclass(frozen=True)
class AbsToSignPass:
    """abs(x) -> sign(x)."""

    name: ClassVar[str] = "abs-to-sign"
    times: int = 1

    def run(self, program, context=None):
        found = [inst for inst in program.entry if inst.op is ops.abs]
        for inst in found:
            inst.op = ops.sign
        return ptir.PassResult(bool(found), {"times": self.times})


@ptir.register_pass
@dataclass(frozen=True)
class NegToExpPass:
    """neg(x) -> exp(x)."""

    name: ClassVar[str] = "neg-to-exp"

    def run(self, program, context=None):
        found = [inst for inst in program.entry if inst.op is ops.neg]
        for inst in found:
            inst.op = ops.exp
        return ptir.PassResult(bool(found))
'''
PROGRAM = "ptir 1\nfunc @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {\n  %0 = neg %x\n  return %0\n}\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("f.ptir").write_text(PROGRAM)
    tables: list[dict[str, Any]] = [PASSES, PATTERNS, COST_MODELS]
    before = [dict(table) for table in tables]
    yield
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)
    for name in ("mine", "user", "bad"):
        sys.modules.pop(name, None)


def test_loaded_patterns_are_part_of_canonicalize(cli: Cli):
    assert " neg " in cli("opt", "f.ptir").out
    ran = cli("opt", "f.ptir", "--load", "mine.py", "--stats")
    assert ran.status == 0
    assert " abs " in ran.out
    assert "canonicalize{extra-patterns=NegToAbs}: changed: rewrites 1" in ran.err
    assert "NegToAbs: neg\n    neg(x) -> abs(x)." in cli("opt", "--load", "mine.py", "--list-patterns").out
    assert " neg " in cli("opt", "f.ptir", "--load", "mine.py", "--disable-pattern", "NegToAbs").out


def test_loaded_passes_are_known_to_pipelines(cli: Cli):
    ran = cli("opt", "f.ptir", "--load", "mine.py", "-p", "canonicalize,abs-to-sign{times=2}")
    assert (ran.status, ran.err) == (0, "")
    assert " sign " in ran.out
    assert "abs-to-sign" in cli("opt", "--load", "mine.py", "--list-passes").out


def test_a_pattern_is_explained_and_bisected_like_any_other(cli: Cli):
    ran = cli("opt", "f.ptir", "--load", "mine.py", "--explain", "%0", "NegToAbs")
    assert ran.out.startswith("NegToAbs fires at %0 = neg(%x): it makes %new1 = abs(%x)")
    Path("check.py").write_text("import sys; sys.exit(' abs ' in open(sys.argv[1]).read())")
    found = cli("opt", "f.ptir", "--load", "mine.py", "--bisect", "python3 check.py {}").out
    assert "in @f, rewrite 1 of 1: changed by NegToAbs" in found


@pytest.mark.parametrize("command", ["lower", "bisect"])
def test_other_commands_with_a_pipeline_load_too(cli: Cli, command: str):
    level = ("--to", "ptir") if command == "lower" else ()
    ran = cli(command, "f.ptir", "--load", "mine.py", *level)
    if command == "lower":
        assert " abs " in ran.out
    else:
        assert "@f: passes: the result is wrong from here on" in ran.out
        assert (
            "breaks it: canonicalize{extra-patterns=NegToAbs}\nin @f, rewrite 1 of 1: changed by NegToAbs"
            in ran.out
        )
        told = json.loads(cli(command, "f.ptir", "--load", "mine.py", "--json").out)["culprit"]["pass"]
        assert told["name"] == "canonicalize{extra-patterns=NegToAbs}"
        assert "NegToAbs" in told["rewrite"]


def test_a_wrong_pass_without_patterns_is_named_with_what_it_changed(cli: Cli):
    ran = cli("bisect", "f.ptir", "--load", "mine.py", "-p", "dce,abs-to-sign,neg-to-exp")
    assert ran.status == 1
    assert "pass 3 of 3 breaks it: neg-to-exp\n" in ran.out
    assert "\n-  %1 = neg %x" in ran.out


def test_a_pattern_that_raises_is_named(cli: Cli):
    Path("mine.py").write_text(MINE.replace("rw.replace_with", "op.nothing"))
    ran = cli("bisect", "f.ptir", "--load", "mine.py")
    assert ran.status == 1
    assert "@f: passes: it fails\n  AttributeError: " in ran.out
    assert "\n  while pattern NegToAbs was tried on %1 = neg(%0)\n  in pass " in ran.out


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (
            "import nowhere_at_all",
            "cannot load bad.py: line 1: ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("x = 1\n\nx.y\n", "cannot load bad.py: line 3: AttributeError"),
        ("def f(:\n", "cannot load bad.py: line 1: invalid syntax"),
        ("x = 1\n", "bad.py registers nothing"),
        ("raise SystemExit(3)\n", "cannot load bad.py: line 1: it ends the program"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_where(cli: Cli, contents: str, message: str):
    Path("bad.py").write_text(contents)
    ran = cli("opt", "f.ptir", "--load", "bad.py")
    assert (ran.status, ran.out) == (1, "")
    assert message in ran.err


def test_a_file_that_is_not_there(cli: Cli):
    assert "cannot load no.py: there is no such file" in cli("opt", "f.ptir", "--load", "no.py").err
    assert "cannot load .: it is a folder" in cli("opt", "f.ptir", "--load", ".").err
    assert "its name has to end in .py" in cli("opt", "f.ptir", "--load", "f.ptir").err


def test_a_file_may_import_what_lies_beside_it(cli: Cli):
    Path("user.py").write_text("import mine\n")
    ran = cli("opt", "f.ptir", "--load", "user.py")
    assert ran.status == 0
    assert " abs " in ran.out
