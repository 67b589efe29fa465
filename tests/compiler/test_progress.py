"""The line on the terminal while something is compiled: when it is drawn, what it says, and that it goes."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
import time

import pytest

import planish as pn
from planish import ptir
from planish.compiler.progress import ProgressLine, is_drawn, is_watched, report

# Compiling takes as long as it takes to say that a kernel is done.
SLOW = """
import time
import planish as pn
from planish.compiler import lowering, progress, scheduling
progress._DELAY = 0.2
lower = scheduling.lower_to_llir
def slow(*args):
    time.sleep(0.3)
    return lower(*args)
scheduling.lower_to_llir = slow
lowering.is_worth_sharing = lambda *args: 1
@pn.jit
def layers(x):
    for _ in range(3):
        x = pn.sum(pn.exp(x @ x), axis=1, keepdims=True) * x
    return x
layers(pn.ones((8, 8))).realize()
print("done")
"""


def on_terminal(code: str, *, colours: bool = False) -> tuple[str, str]:
    """What a program writes to standard output, and to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    variables = {key: value for key, value in os.environ.items() if key != "PLANISH_PROGRESS"}
    variables |= {"TERM": "xterm"} if colours else {"NO_COLOR": "1"}
    variables |= {"PLANISH_CACHE": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=variables
    )
    os.close(theirs)
    seen = b""
    try:
        while True:
            select.select([ours], [], [], 1.0)
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is gone
                break
            if not part:
                break
            seen += part
    finally:
        os.close(ours)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, seen.decode()
    return output.decode(), seen.decode()


def test_a_line_while_jit_compiles_and_nothing_afterwards():
    output, seen = on_terminal(SLOW)
    assert output == "done\n"
    assert "compiling layers [" in seen
    assert " of " in seen
    assert "kernels" in seen
    # every line is written over the one before, and the last one is erased
    assert "\n" not in seen
    assert seen.endswith("\r\x1b[K")
    steps = [part.split(" of ")[0].rsplit(" ", 1)[1] for part in seen.split("\r") if " of " in part]
    assert steps == sorted(steps, key=int)


def test_the_bar_is_richs_where_that_is_installed():
    pytest.importorskip("rich")
    output, seen = on_terminal(SLOW, colours=True)
    assert output == "done\n"
    assert "\x1b[1mcompiling layers\x1b[0m" in seen
    assert "━" in seen
    assert "\n" not in seen
    assert seen.endswith("\r\x1b[K")


def test_a_setting_turns_it_off(monkeypatch):
    assert not is_watched()
    monkeypatch.setattr(os, "isatty", lambda file: True)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert not is_watched()
    with pn.settings(progress=True):
        assert is_watched()
        with pn.settings(debug="ir"):  # which writes there itself
            assert not is_watched()
        monkeypatch.setattr(sys, "stderr", None)
        assert not is_watched()


def test_nothing_is_written_and_nothing_started_without_a_terminal(capfd):
    before = threading.active_count()
    with ProgressLine("compiling f") as outer:
        assert threading.active_count() == before
        assert not is_drawn()
        report(1, 2)
        assert (outer.done, outer.total) == (1, 2)
    assert capfd.readouterr() == ("", "")
    report(3, 4)  # to nobody
    assert (outer.done, outer.total) == (1, 2)


def test_what_takes_a_moment_draws_nothing(capfd):
    with ProgressLine("compiling f", shown=True):
        assert is_drawn()
        report(1, 2)
    assert "compiling" not in capfd.readouterr().err
    assert not is_drawn()


def test_what_is_counted_has_its_name_and_its_own_time(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with ProgressLine("writing out.html", shown=False, counted="documents") as line:
        now = 10.0  # what came before the first document tells nothing of how long one takes
        report(0, 8)
        now = 12.0
        report(2, 8, "index.json")
        assert line.told() == "2 of 8 documents, index.json, 12.0 s, about 6 s left"


def test_what_is_said_meanwhile_has_a_line_of_its_own():
    code = """
import time
from planish.cli.console import Console
from planish.compiler import progress
progress._DELAY = 0.05
with progress.ProgressLine("timing"):
    time.sleep(0.4)
    Console().say("found")
    time.sleep(0.4)
"""
    _, seen = on_terminal(code)
    assert "\r\x1b[Kfound\r\n\rtiming [" in seen.replace("\r\x1b[K\r\x1b[K", "\r\x1b[K")


def test_an_interpreter_that_ends_draws_nothing(monkeypatch):
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with ProgressLine("writing", shown=True):
        report(1, 2)
    assert not is_drawn()


def test_the_line(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 2.5)
    with ProgressLine("running model.onnx", shown=False) as outer:
        assert outer.line(0) == "running model.onnx [####                    ] 0.0 s"
        assert outer.line(10).index("####") == outer.line(0).index("####") + 10
        with ProgressLine("compiling main") as inner:
            report(3, 12)
            assert outer.line(0) == "running model.onnx [######                  ] 3 of 12 kernels, 0.0 s"
            report(doing="kernel k3, launch 2")
            assert inner.line(0).endswith("] kernel k3, launch 2, 0.0 s")


def test_the_rest_of_the_time_is_told_once_it_is_known(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressLine("compiling f", shown=False) as line:
        report(0, 8)
        now[0] = 20.0
        assert line.remaining is None
        assert line.line(0).endswith("] 0 of 8 kernels, 20.0 s")
        report(2, 8)
        assert line.line(0).endswith("2 of 8 kernels, 20.0 s, about 1 min 0 s left")
        report(8, 8)
        assert line.line(0).endswith("8 of 8 kernels, 20.0 s")
        # a part counts its own time
        with ProgressLine("part", shown=False):
            now[0] = 22.0
            report(1, 3)
            assert line.line(0).endswith("1 of 3 kernels, 22.0 s, about 4 s left")


def test_errors_end_it():
    with pytest.raises(ValueError, match="stop"), ProgressLine("compiling f", shown=True):
        raise ValueError("stop")
    assert not is_drawn()


@pytest.mark.parametrize("command", ["bisect", "opt"])
def test_a_line_while_something_is_bisected(tmp_path, command: str):
    file = tmp_path / "program.ptir"
    function = ptir.Graph("f")
    file.write_text(ptir.print(function.build(function.input("x", ptir.tensor("f32", (8,))).exp())))
    code = """
import sys, time
from planish.cli import main
from planish.compiler import bisect, progress
progress._DELAY = 0.2
first_wrong = bisect.first_wrong
def slow(*args, **options):
    time.sleep(0.5)
    return first_wrong(*args, **options)
bisect.first_wrong = slow
"""
    if command == "bisect":
        output, seen = on_terminal(f"{code}main(['bisect', {str(file)!r}])")
        assert "every stage gives the result" in output
        assert "bisecting @f [" in seen
        assert "kernel " in seen
    else:
        arguments = ["opt", str(file), "-p", "canonicalize", "--bisect", "sh -c 'sleep 0.4'"]
        _, seen = on_terminal(f"{code}main({arguments!r})")
        assert "bisecting [" in seen
        assert "asked 1 times" in seen
    assert "\x1b[K" in seen


def test_threads_that_end_in_another_order_leave_nothing():
    begun, ended = threading.Event(), threading.Event()

    def work():
        with ProgressLine("compiling g", shown=True) as own:
            report(1, 2)
            begun.set()
            ended.wait()
            assert (own.done, own.total) == (1, 2)
            assert own._thread is None  # the other one draws

    with ProgressLine("compiling f", shown=True) as first:
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        assert first.line(0).startswith("compiling f [####")
    assert not is_drawn()
    ended.set()
    thread.join()
    with ProgressLine("compiling h", shown=True):
        assert is_drawn()
    assert not is_drawn()
