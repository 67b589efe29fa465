"""Completion: the scripts say what the parsers parse, and bash really completes by its one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

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


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(cli: Cli, tmp_path: Path):
    (tmp_path / "_planish").write_text(cli("completion", "zsh").out)
    subprocess.run(["zsh", "-n", "_planish"], cwd=tmp_path, check=True)


def test_another_shell_is_named_as_such(cli: Cli):
    assert "did you mean 'bash'?" in cli("completion", "bsh").err
