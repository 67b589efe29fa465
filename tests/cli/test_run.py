"""`planish run` and `planish compile`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from planish.cli import main
from planish.ptir import trace

onnx = pytest.importorskip("onnx")

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
small (float[batch, 3] x) => (float[batch, 30] y, float[batch] s)
{ y = MatMul(x, w) s = ReduceSum<keepdims = 0>(y, axis) }
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    proto = onnx.parser.parse_model(TEXT)
    for name, value in (("axis", np.array([1])), ("w", W)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    (tmp_path / "small.onnx").write_bytes(proto.SerializeToString())
    return str(tmp_path / "small.onnx")


X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.arange(90, dtype=np.float32).reshape(3, 30)
Y = X @ W


def test_inputs_from_files_and_outputs_to_files(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.save(tmp_path / "x.npy", X)
    out = str(tmp_path / "out.npz")
    assert main(["run", model, "--input", f"x={tmp_path / 'x.npy'}", "-o", out, "--repeat", "2"]) == 0
    told = capsys.readouterr()
    assert "input   x: float32[batch, 3]" in told.err
    assert "1 compilation" in told.err
    assert "y: float32[2, 30]" in told.out
    found = np.load(out)
    assert np.array_equal(found["y"], Y)
    assert np.array_equal(found["s"], Y.sum(1))


def test_random_inputs_need_sizes(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", model]) == 2
    assert "--input NAME=FILE.npy, or --random" in capsys.readouterr().err
    assert main(["run", model, "--random"]) == 2
    assert "--dim batch=N" in capsys.readouterr().err
    assert main(["run", model, "--random", "--dim", "batch=4"]) == 0
    first = capsys.readouterr().out
    assert "s: float32[4]" in first
    assert main(["run", model, "--random", "--dim", "batch=4"]) == 0
    assert capsys.readouterr().out == first


def test_the_slowest_kernels_are_shown_with_their_nodes(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", model, "--random", "--dim", "batch=4", "--profile", "--repeat", "5"]) == 0
    table = capsys.readouterr().out
    assert "share" in table
    assert "small:1 in MatMul 'y'  dot_general" in table
    assert "small:2 in ReduceSum 's'  reduce_sum" in table
    assert table.rstrip().endswith("(median of 5)")


def test_a_compiled_model_has_a_profile_too(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(tmp_path / "compiled")
    assert main(["compile", model, "--dim", "batch=4", "-o", folder]) == 0
    assert main(["run", folder, "--random", "--profile"]) == 0
    assert "dot_general" in capsys.readouterr().out


def test_a_dump_directory_gets_the_traces_of_the_first_run(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "dump"
    arguments = ["run", model, "--random", "--dim", "batch=4", "--repeat", "3", "--dump-dir", str(folder)]
    assert main(arguments) == 0
    (run,) = (folder / "executions.jsonl").read_text().splitlines()
    assert json.loads(run)["backend"] == "llvm"
    (execution,) = folder.glob("*_run")
    assert "dot_general" in (execution / "program.ptir").read_text()
    assert {"stats.json", "meta.json", "program.json"} <= {path.name for path in execution.iterdir()}
    assert trace.current_sink() is None


def test_repeating_takes_a_number(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", model, "--random", "--dim", "batch=4", "--repeat", "0"]) == 2
    assert "--repeat is at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "z=a.npy"], "no input 'z'"),
        (["--input", "a.npy"], "names no input"),
        (["--input", "x=none.npy"], "cannot read none.npy: No such file"),
        (["--random", "--dim", "batch"], "is no size"),
        (["--random", "--dim", "other=4"], "no input of the model has a dim 'other'"),
        (["--random", "--dim", "batch=2", "-o", "out.txt"], "neither .npy nor .npz"),
        (["--random", "--dim", "batch=2", "-o", "out.npy"], "do not fit into one .npy"),
    ],
)
def test_mistakes(model: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", model, *arguments]) in (1, 2)
    assert message in capsys.readouterr().err


def test_a_compiled_model_runs_without_the_onnx_package(model: str, tmp_path: Path):
    out = tmp_path / "out"
    assert main(["compile", model, "-o", str(out), "--dim", "batch=1..8"]) == 0
    assert {"code", "model.json", "program.ptir", "weights.bin"} <= {path.name for path in out.iterdir()}
    np.save(tmp_path / "x.npy", X)
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "from planish.cli import main\n"
        "from planish.compiler.object_code import counters\n"
        "status = main(sys.argv[1:])\n"
        "assert not counters.compiled, counters\n"
        "raise SystemExit(status)\n"
    )
    words = ["run", str(out), "--input", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "o.npz")]
    subprocess.run([sys.executable, "-c", script, *words], check=True)
    assert np.array_equal(np.load(tmp_path / "o.npz")["y"], Y)


def test_what_is_no_compiled_model_is_refused(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "other").mkdir()
    assert main(["run", str(tmp_path / "other")]) == 1
    assert "holds no compiled model" in capsys.readouterr().err
    (tmp_path / "other" / "file").touch()
    assert main(["compile", model, "-o", str(tmp_path / "other"), "--dim", "batch=4"]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert main(["compile", model, "-o", str(tmp_path / "out")]) == 1
    assert "the size of batch" in capsys.readouterr().err
    assert main(["compile", model, "-o", str(tmp_path / "out"), "--dim", "batch=4"]) == 0
    (tmp_path / "out" / "weights.bin").write_bytes(b"")
    assert main(["run", str(tmp_path / "out"), "--random"]) == 1
    assert "is no compiled model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-o", "out.txt"], 2, "out.txt is neither .npy nor .npz"),
        (["-o", "out.npy"], 2, "2 outputs do not fit into one .npy"),
        (["-o", "no/where.npz"], 1, "cannot write no/where.npz: there is no such folder"),
        (["--dim", "batch=999999999999"], 1, "there is no memory for x: float32[batch, 3] of 999999999999x3"),
        (["-i", "x=empty.npy"], 1, "empty.npy holds no arrays that can be read"),
        (["-i", "x=text.npy"], 1, "text.npy holds no arrays that can be read"),
        (["-i", "x=no.npy"], 1, "cannot read no.npy: No such file or directory"),
        (
            ["-i", "x=two.npz"],
            1,
            "two.npz holds several arrays\nhelp: write NAME=FILE.npz:KEY; it holds a, b",
        ),
        (["-i", "x=two.npz:c"], 1, "two.npz has no array 'c'"),
    ],
)
def test_mistakes_are_found_before_anything_is_computed(
    model: str, arguments: list[str], status: int, message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("empty.npy").write_bytes(b"")
    Path("text.npy").write_text("no array")
    np.savez("two.npz", a=X, b=X)
    given = [] if "--dim" in arguments else ["--dim", "batch=2"]
    monkeypatch.setattr("planish.onnx.Model.run", lambda *_: pytest.fail("it ran"))
    assert main(["run", model, "--random", *given, *arguments]) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err


def test_an_archive_of_one_array_is_that_array(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.savez(tmp_path / "one.npz", anything=X)
    assert main(["run", model, "-i", f"x={tmp_path / 'one.npz'}"]) == 0
    assert "y: float32[2, 30]" in capsys.readouterr().out


def test_programs_and_models_are_told_apart(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = tmp_path / "prog.ptir"
    program.write_text("ptir 1\n")
    assert main(["run", str(program)]) == 1
    assert "is a program, not an ONNX model\nhelp: `planish bench` runs programs" in capsys.readouterr().err
    assert main(["opt", model]) == 1
    assert "`planish compile` writes that of a model into its folder" in capsys.readouterr().err
    assert main(["compile", model, "-o", str(tmp_path / "c"), "--shape", "q=3x3"]) == 2
    assert "the model has no input 'q'\nhelp: it has x" in capsys.readouterr().err


@pytest.mark.parametrize("dims", [[2**40], [2**32, 2**32], [1] * 65])
def test_inputs_that_no_machine_holds(dims: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [value("x", 1, dims)], [value("y", 1, None)]
    )
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert main(["run", str(tmp_path / "m.onnx"), "--random"]) == 1
    told = capsys.readouterr().err
    assert "there is no memory for x" in told
    assert told.count("error:") == 1


def test_what_came_out_is_data_too(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnxruntime")
    given = ["--random", "--dim", "batch=2", "--json"]
    assert main(["run", model, *given, "--profile", "--repeat", "2", "--check-with", "onnxruntime"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["outputs"]["y"].keys() == {"dtype", "shape", "min", "max", "mean"}
    assert len(record["outputs"]["s"]["values"]) == 2
    assert record["compilations"] == 1
    assert record["best_seconds"] > 0
    assert record["profiles"][0]["launches"]
    assert record["apart_from_onnxruntime"]["y"] < 1e-3
    out = str(tmp_path / "out")
    assert main(["compile", model, "-o", out, "--dim", "batch=1..4", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["folder"] == out
    assert written["inputs"] == [{"name": "x", "dtype": "float32", "dims": ["batch", 3]}]
    assert main(["run", out, *given]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["y"]["shape"] == [2, 30]


def test_the_node_that_makes_a_nan_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = """<ir_version: 10, opset_import: ["" : 21]>
    small (float[3] x) => (float[3] y)
    { n = Neg(x) z = Sqrt(n) y = Add(z, x) }"""
    (tmp_path / "roots.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    np.save(tmp_path / "x.npy", np.array([-1, 2, 3], np.float32))
    given = ["run", str(tmp_path / "roots.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]
    assert main(given) == 0
    capsys.readouterr()
    assert main([*given, "--set", "check=nan"]) == 1
    told = capsys.readouterr().err
    assert "sqrt made 2 NaNs" in told
    assert "element [1], from -2.0" in told
    assert "note: in Sqrt 'z'" in told
    assert main([*given, "--set", "check=nan", "--profile"]) == 2
