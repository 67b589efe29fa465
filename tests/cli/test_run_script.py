"""`planish run script.py`: settings of the command line, the script's own arguments, its errors and its exit status."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from planish.cli.run import parser
from planish.cli.script import divide
from tests.cli.conftest import Cli

SCRIPT = """\
import sys, threading
import planish as pn
from planish.config import current
from beside_of_tests import word

def told(): print(word, sys.argv, __name__, current().threads, current().device)

thread = threading.Thread(target=told)
thread.start()
thread.join()
if "shapes" in sys.argv:
    pn.ones((3,)) + pn.ones((4,))
if "own" in sys.argv:
    raise ValueError("mine")
if "exit" in sys.argv:
    sys.exit(7)
if "words" in sys.argv:
    sys.exit("that was it")
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    Path("beside_of_tests.py").write_text("word = 'beside'\n")


@pytest.mark.parametrize(
    ("words", "own"),
    [
        ("script.py a --b", "script.py"),
        ("--set threads=1 --device cuda script.py --set x", "--set threads=1 --device cuda script.py"),
        ("--set=threads=1 -v script.py", "--set=threads=1 -v script.py"),
        ("model.onnx --input x=script.py", None),
        ("--input x=script.py model.onnx", None),
    ],
)
def test_what_stands_behind_the_script_is_its_own(words: str, own: str | None):
    given, rest = divide(words.split(), parser())
    if own is None:
        assert (given, rest) == (words.split(), None)
    else:
        assert given == own.split()
        assert [*given, *(rest or [])] == words.split()


def test_settings_hold_in_threads_of_the_script(cli: Cli):
    before = list(sys.path)
    ran = cli("run", "--set", "threads=1", "--device", "interpreter", "script.py", "a", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "beside ['script.py', 'a', '--json'] __main__ 1 interpreter\n"
    assert not {"PLANISH_THREADS", "PLANISH_DEVICE"} & set(os.environ)
    assert sys.path == before


def test_errors_and_exit_statuses_are_the_scripts(cli: Cli):
    ran = cli("run", "script.py", "shapes")
    assert ran.status == 1
    assert "script.py:12: error: add: shapes (3,) and (4,) do not broadcast together" in ran.err
    assert "Traceback" not in ran.err
    ran = cli("run", "script.py", "own")
    assert ran.status == 1
    assert ran.err.startswith("Traceback")
    assert "planish/cli" not in ran.err
    assert "bug in planish" not in ran.err
    assert cli("run", "script.py", "exit").status == 7
    ran = cli("run", "script.py", "words")
    assert (ran.status, ran.err) == (1, "that was it\n")


def test_misuse(cli: Cli):
    assert "there is no such file" in cli("run", "nowhere.py").err
    assert cli("run", "--random", "script.py").status == 2
    assert cli("run", "--json", "script.py").status == 2


def test_a_timeline_of_executions_and_passes(cli: Cli):
    Path("small.py").write_text(
        "import numpy as np\nimport planish as pn\n"
        "with pn.settings(cache=False):\n"
        "    print(pn.jit(lambda x: pn.sum(x * 2))(pn.asarray(np.ones(4, np.float32))).item())\n"
    )
    ran = cli("run", "--trace", "trace.json", "small.py")
    assert (ran.status, ran.out) == (0, "8.0\n")
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert f"wrote trace.json: {len(events)} events" in ran.err
    assert {"pass", "run"} <= {event["cat"] for event in events}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    assert cli("run", "--trace", "no/where.json", "small.py").status == 1
    assert cli("run", "--trace", "a.json", "--dump-dir", "d", "small.py").status == 2
