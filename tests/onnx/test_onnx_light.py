"""The classifiers of the onnx package, with random weights in place of constant ones, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import ModelProto, numpy_helper

from planish.onnx import Model

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
NAMES = sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx"))


def with_random_weights(path: Path, seed: int) -> ModelProto:
    """Weights as the models have them before training: what each filter sums up keeps its size."""
    proto = onnx.load(path)
    rng = np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    kept = []
    for node in proto.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            shape = tuple(int(d) for d in shapes[node.input[0]])
            if len(shape) > 1:
                weights = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
            else:
                weights = rng.uniform(0.5, 1.5, shape)  # scales and variances are among them
            proto.graph.initializer.append(
                numpy_helper.from_array(weights.astype(np.float32), node.output[0])
            )
        else:
            kept.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    return proto


def test_there_are_nine():
    assert len(NAMES) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_random_weights_give_what_onnxruntime_gives(name: str):
    runtime = pytest.importorskip("onnxruntime")
    proto = with_random_weights(FOLDER / f"light_{name}.onnx", 5)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    model = Model(proto, interpret=True)
    rng = np.random.default_rng(3)
    feeds = {
        info.name: rng.standard_normal([d if isinstance(d, int) else 1 for d in info.dims or ()]).astype(
            np.float32
        )
        for info in model.inputs
    }
    for ours, theirs in zip(model.run(None, feeds), session.run(None, feeds), strict=True):
        assert theirs.std() > 0
        assert np.max(np.abs(ours - theirs)) <= 1e-3 * np.max(np.abs(theirs))
