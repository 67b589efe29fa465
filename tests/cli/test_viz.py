"""`planish viz`: scripts, models, programs, files; what is wrong is said once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Cli

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """\
import sys
import numpy as np
import planish as pn

@pn.jit
def f(x):
    return pn.exp(x) + 1

f(np.ones((8, 8), np.float32))
print("words", sys.argv[1:], __name__)
if "fail" in sys.argv:
    raise ValueError("not today")
if "exit" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_run_with_its_own_words(cli: Cli, script: Path, tmp_path: Path):
    kept = tmp_path / "a.planish"
    ran = cli("viz", str(script), "7", "--no-serve", "--own", "--save", str(kept), "--", "--export", "x.html")
    assert ran.status == 0, ran.err
    assert "words ['7', '--own', '--export', 'x.html'] __main__" in ran.out
    assert kept.is_file()
    again = cli("viz", str(kept), "--export", str(tmp_path / "a.html"))
    assert again.status == 0, again.err
    assert "<script" in (tmp_path / "a.html").read_text()


def test_a_script_that_raises_is_recorded_until_there(cli: Cli, script: Path, tmp_path: Path):
    page = tmp_path / "a.html"
    ran = cli("viz", str(script), f"--export={page}", "fail")
    assert ran.status == 1
    assert "ValueError: not today" in ran.err
    assert "runpy" not in ran.err
    assert "recorded until there" in ran.err
    assert page.is_file()
    assert cli("viz", "--no-serve", str(script), "exit").status == 7


def test_a_program_and_two_of_them(cli: Cli, tmp_path: Path):
    (tmp_path / "prog.ptir").write_text(SMALL)
    page = tmp_path / "a.html"
    ran = cli("viz", str(tmp_path / "prog.ptir"), str(tmp_path / "prog.ptir"), "--export", str(page))
    assert ran.status == 0, ran.err
    assert 'data-path="b/p0/pass/0.json"' in page.read_text()


def test_json_is_the_index(cli: Cli, tmp_path: Path):
    (tmp_path / "prog.ptir").write_text(SMALL)
    ran = cli("viz", str(tmp_path / "prog.ptir"), "--json")
    assert ran.status == 0, ran.err
    index = json.loads(ran.out)
    assert index["title"] == "prog.ptir"
    assert index["programs"][0]["kernels"]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["nothing.py"], 1, "there is no such file"),
        ([], 2, "WHAT"),
        (["x.ptir", "--port", "99999"], 2, "no port"),
        (["x.ptir", "--exprot", "a"], 2, "--export"),
    ],
)
def test_what_is_wrong_is_said_once(cli: Cli, words: list[str], status: int, told: str):
    ran = cli("viz", *words)
    assert ran.status == status
    assert told in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_an_empty_folder_and_a_broken_file(cli: Cli, tmp_path: Path):
    assert "holds no dump" in cli("viz", str(tmp_path)).err
    (tmp_path / "broken.ptir").write_text("func nonsense")
    ran = cli("viz", str(tmp_path / "broken.ptir"))
    assert ran.status == 1
    assert "broken.ptir:1" in ran.err


def test_a_whole_process_is_recorded(script: Path, tmp_path: Path):
    kept = tmp_path / "b.planish"
    environment = {**os.environ, "PLANISH_VIZ": str(kept), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert kept.is_file()
    assert f"planish viz {kept}" in ran.stderr


def test_it_serves_until_it_is_told_to_end(script: Path, tmp_path: Path):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("a shell has started the tests in the background: Ctrl-C is ignored, here and below")
    process = subprocess.Popen(
        [sys.executable, "-m", "planish", "viz", "--no-open", str(script)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and not line.startswith("open "):
            line = process.stderr.readline()
        url = line.removeprefix("open ").strip()
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"<html" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
