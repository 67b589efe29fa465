"""`InferenceSession`: onnxruntime's common calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import planish.onnx as runtime
from planish.errors import PlanishError

TEXT = """
<ir_version: 10, opset_import: ["" : 21], producer_name: "tests">
small (float[batch, 3] x, int64 k) => (float[batch, 3] y, seq(float) parts)
{ f = Cast<to = 1>(k) y = Mul(x, f) parts = SplitToSequence<axis = 1>(y) }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "small.onnx"
    place.write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    return place


def test_inputs_and_outputs_are_told_as_onnxruntime_tells_them(path: Path):
    asked = ["NopeExecutionProvider", "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="NopeExecutionProvider is not available"):
        session = runtime.InferenceSession(str(path), providers=asked)
    x, k = session.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["batch", 3])
    assert (k.name, k.type, k.shape) == ("k", "tensor(int64)", [])
    y, parts = session.get_outputs()
    assert (y.name, y.type, y.shape) == ("y", "tensor(float)", ["batch", 3])
    assert parts.type == "seq(tensor(float))"
    assert session.get_providers() == ["CPUExecutionProvider"]
    meta = session.get_modelmeta()
    assert (meta.producer_name, meta.graph_name) == ("tests", "small")


def test_run(path: Path):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path.read_bytes(), sess_options=options)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, parts = session.run(None, {"x": x, "k": np.array(3)})
    assert np.array_equal(y, 3 * x)
    assert [part.tolist() for part in parts] == (3 * x.T.reshape(3, 2, 1)).tolist()
    assert [name.shape for name in session.run(["y"], {"x": x, "k": np.array(3)})] == [(2, 3)]


def test_sizes_of_dims_are_options(path: Path):
    options = runtime.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 4)
    session = runtime.InferenceSession(path, options)
    with pytest.raises(PlanishError, match="batch is 4"):
        session.run(None, {"x": np.zeros((2, 3), np.float32), "k": np.array(3)})
