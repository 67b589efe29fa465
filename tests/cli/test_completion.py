"""Completion: the scripts say what the parsers parse, and each shell completes by its own."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from planish.cli import COMMANDS, module_of
from planish.cli.completion import described
from tests.cli.conftest import Cli


def test_every_option_of_every_command_is_known():
    found = described()
    assert list(found) == list(COMMANDS)
    for name, options in found.items():
        words = {word for option in options for word in option.words}
        assert words == set(module_of(name).parser()._option_string_actions)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_commands_options_and_values(cli: Cli, shell: str):
    ran = cli("completion", shell)
    assert (ran.status, ran.err) == (0, "")
    assert all(name in ran.out for name in COMMANDS)
    assert "uop" in ran.out
    assert "sm_90" in ran.out
    assert "vector-width" in ran.out
    assert json.loads(cli("completion", shell, "--json").out) == {"shell": shell, "script": ran.out}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("lo",), {"lower"}),
        (("lower", "--to", "ll"), {"llir", "llvm"}),
        (("lower", "--target", "x86-64-v"), {"x86-64-v3", "x86-64-v4", "x86-64-vnni"}),
        (("info", "--me"), {"--measure"}),
        (("cache", ""), {"info", "clear"}),
        (("info", "--set", "thr"), {"threads="}),
        (("lower", "prog"), {"prog.ptir"}),
    ],
)
def test_bash_completes(cli: Cli, tmp_path: Path, words: tuple[str, ...], expected: set[str]):
    (tmp_path / "script.bash").write_text(cli("completion", "bash").out)
    (tmp_path / "prog.ptir").write_text("")
    quoted = " ".join(f"'{word}'" for word in words)
    code = f"compopt() {{ :; }}; source script.bash; COMP_WORDS=(planish {quoted}); COMP_CWORD={len(words)}; _planish; "
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    ran = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert set(ran.stdout.split()) == expected


CASES = [
    ("planish lo", "lower"),
    ("planish lower --to lli", "lower --to llir"),
    ("planish info --me", "info --measure"),
    ("planish info --set threa", "info --set threads="),
    ("planish cache cl", "cache clear"),
    ("planish lower prog", "lower prog.ptir"),
]
"""What is typed before Tab, and the words that are there after it."""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(cli: Cli, tmp_path: Path):
    (tmp_path / "_planish").write_text(cli("completion", "zsh").out)
    (tmp_path / "prog.ptir").write_text("")
    with ZshTerminal(tmp_path) as shell:
        for typed, words in CASES:
            assert shell.completed(typed) == words


class ZshTerminal:
    """zsh at a terminal, with a function of our name that says its words."""

    def __init__(self, folder: Path) -> None:
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.told = b""

    def __enter__(self) -> Self:
        self.type(
            "unsetopt zle_bracketed_paste; fpath=($PWD $fpath); autoload -Uz compinit && compinit -u -D\n"
        )
        self.type('planish() { print -r -- "said<""$*"">" }; print rea\'\'dy\n')
        self.until(b"ready\r\n")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def until(self, mark: bytes) -> bytes:
        while mark not in self.told:
            assert select.select([self.terminal], [], [], 20)[0], f"zsh does not answer: {self.told[-200:]!r}"
            self.told += os.read(self.terminal, 1 << 16)
        before, _, self.told = self.told.partition(mark)
        return before

    def completed(self, words: str) -> str:
        self.type(f"{words}\t\n")
        self.until(b"said<")
        return self.until(b">").decode().strip()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(cli: Cli, tmp_path: Path):
    (tmp_path / "planish.fish").write_text(cli("completion", "fish").out)
    (tmp_path / "prog.ptir").write_text("")
    code = "source planish.fish; " + "; ".join(f"complete -C '{typed}'" for typed, _ in CASES)
    ran = subprocess.run(
        ["fish", "--no-config", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    offered = [line.partition("\t")[0] for line in ran.stdout.splitlines()]
    assert offered == [words.split()[-1] for _, words in CASES]


def test_another_shell_is_named_as_such(cli: Cli):
    assert "did you mean 'bash'?" in cli("completion", "bsh").err
