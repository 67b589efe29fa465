"""Functions of Python's and models in place of programs: what --args says, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planish.cli.console import UsageError
from planish.cli.sources import is_function, read_arguments
from planish.dtypes import float32, int32
from planish.ptir.dims import Dim
from tests.cli.conftest import Cli

SOURCE = """\
import planish as pn

print("imported")

def forward(x, w, axis=0):
    return pn.sum(pn.tanh(x @ w), axis=axis)

@pn.jit
def compiled(x):
    return x * 2

def broken(x):
    raise KeyError("no")

def peer(x, w):
    import numpy as np
    return np.tanh(x @ w).sum(0)

number = 3
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mlp_of_tests.py").write_text(SOURCE)


def test_arguments_are_tensors_and_values():
    positional, named = read_arguments("f32[64, n=1..8], 3, i32[], (1, 2), axis=0, other=f32[4]")
    assert positional[0].dtype == float32
    assert positional[0].shape[0] == 64
    assert isinstance(positional[0].shape[1], Dim)
    assert positional[1] == 3
    assert (positional[2].dtype, positional[2].shape) == (int32, ())
    assert positional[3] == (1, 2)
    assert named["axis"] == 0
    assert named["other"].shape == (4,)
    assert read_arguments("") == ([], {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f3[4]", "unknown dtype 'f3'"),
        ("f32[a]", "'a' is no size"),
        ("hello", "'hello' is neither a tensor nor a value"),
        ("axis=0, f32[4]", "stands behind a named one"),
    ],
)
def test_wrong_arguments_are_told(text: str, message: str):
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        read_arguments(text)


def test_words_that_name_functions():
    assert is_function("mlp.py:forward")
    assert is_function("package.module:Class.method")
    assert not is_function("prog.ptir")
    assert not is_function("-")


def test_a_function_is_lowered_to_any_level(cli: Cli):
    given = ("mlp_of_tests.py:forward", "--args", "f32[8, 4], f32[4, n=1..64], axis=1")
    ran = cli("lower", *given, "--to", "ptir")
    assert ran.out.startswith("ptir 1\n")
    assert "dot_general" in ran.out
    assert ran.err == "imported\n"
    assert "launch reduce_8" in cli("lower", *given, "--to", "plan").out
    record = json.loads(cli("lower", *given, "--to", "plan", "--json").out)
    assert (record["entry"], record["level"]) == ("forward", "plan")
    assert "mul" in cli("lower", "mlp_of_tests:compiled", "--args", "f32[8]", "--to", "ptir").out


def test_a_function_is_bisected(cli: Cli):
    ran = cli("bisect", "mlp_of_tests.py:compiled", "--args", "f32[8]", "--json")
    assert (ran.status, json.loads(ran.out)) == (0, {"function": "compiled", "culprit": None})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("mlp_of_tests.py:forwrd", "did you mean 'forward'?"),
        ("mlp_of_tests.py:number", "it is a int"),
        ("nowhere.py:forward", "there is no such file"),
        ("nowhere_of_tests:forward", "there is no module 'nowhere_of_tests'"),
        ("mlp_of_tests.py:forward", "missing 1 required positional argument: 'w'"),
        ("mlp_of_tests.py:broken", "KeyError: 'no'"),
    ],
)
def test_what_is_no_function_is_told(cli: Cli, word: str, message: str):
    ran = cli("lower", word, "--args", "f32[8, 4]", "--to", "ptir")
    assert ran.status in (1, 2)
    assert ran.out == ""
    assert message in ran.err
    assert "bug in planish" not in ran.err


@pytest.mark.parametrize("command", [("lower", "--to", "ptir"), ("bench",), ("bisect",), ("profile",)])
def test_a_python_file_alone_is_told_which_functions_it_has(cli: Cli, command: tuple[str, ...]):
    ran = cli(*command, "mlp_of_tests.py")
    assert ran.status == 2
    assert "name a function of it, as mlp_of_tests.py:forward" in ran.err
    assert "help: it has forward, compiled, broken, peer\n" in ran.err


def test_args_need_a_function(cli: Cli):
    ran = cli("lower", "-", "--args", "f32[8]", "--to", "ptir")
    assert ran.status == 2
    assert "--args are those of a function" in ran.err


def test_a_model_is_lowered(cli: Cli, tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    x = onnx.helper.make_tensor_value_info("x", 1, ["batch", 8])
    y = onnx.helper.make_tensor_value_info("y", 1, ["batch", 8])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    assert "tanh" in cli("lower", "m.onnx", "--dim", "batch=4", "--to", "ptir").out


def test_a_function_is_profiled_and_its_traces_are_written(cli: Cli, tmp_path: Path):
    given = ("mlp_of_tests.py:forward", "--args", "f32[8, 4], f32[4, 16]", "--repeat", "2")
    ran = cli("profile", *given, "--trace", "trace.json", "--speedscope", "scope.json")
    assert ran.status == 0, ran.err
    assert "mlp_of_tests.py:6 in forward" in ran.out
    events = [e for e in json.loads(Path("trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert events
    assert all(e["args"]["lines"][0].endswith("mlp_of_tests.py:6 in forward") for e in events)
    scope = json.loads(Path("scope.json").read_text())
    assert scope["shared"]["frames"][0]["line"] == 6
    record = json.loads(cli("profile", *given, "--json").out)
    assert len(record["launches"]) == len(events)
    assert cli("profile", *given, "--trace", "no/where.json").status == 1


def test_peers_are_timed_beside_it_and_drawn(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    from tests.cli.test_bench import FakeMeter

    monkeypatch.setattr("planish.cli.bench.Meter", FakeMeter)
    given = ("bench", "mlp_of_tests.py:forward", "--args", "f32[8, 4], f32[4, 16]")
    ran = cli(*given, "--peer", "numpy=mlp_of_tests.py:peer", "--plot", "bars.txt")
    assert ran.status == 0, ran.err
    assert "numpy: " in ran.out
    assert "x as fast" in ran.out
    assert "a call [ms]\n  planish" in Path("bars.txt").read_text()
    record = json.loads(cli(*given, "--peer", "numpy=mlp_of_tests.py:peer", "--json").out)
    assert set(record["whole_seconds"]) == {"planish", "numpy"}
    assert record["kernels"][0]["share"] == 0.5
    assert "names no peer" in cli(*given, "--peer", "fortran=x.py:f").err
    assert "is no picture" in cli(*given, "--plot", "bars.xyz").err


def test_a_plot_is_a_picture_where_matplotlib_is(tmp_path: Path):
    pytest.importorskip("matplotlib")
    from planish.cli.plots import Bars, write_plot

    panels = [Bars("a call", "ms", [("planish", 1.0), ("torch", 2.0)]), Bars("kernels", "ms", [])]
    assert write_plot(str(tmp_path / "b.svg"), panels).endswith("b.svg")
    assert "<svg" in (tmp_path / "b.svg").read_text()
