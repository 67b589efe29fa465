"""Constant weights are laid out as products read them: the same answers, once per weight, and not stored a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from planish.config import settings
from planish.onnx import kept_tapes, load
from planish.onnx.weight_layouts import TURNED, WeightLayouts, laid_out, panels

RNG = np.random.default_rng(4)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'
TERMS, COLUMNS = 192, 256
WEIGHT = RNG.standard_normal((TERMS, COLUMNS)).astype(np.float32)


def model(rows: str, turned: bool = False) -> Any:
    product = "Gemm<transB = 1>" if turned else "MatMul"
    text = (
        f"m (float[{rows}, {TERMS}] x) => (float[{rows}, {COLUMNS}] y) {{ p = {product}(x, w) y = Tanh(p) }}"
    )
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHT.T.copy() if turned else WEIGHT, "w"))
    return load(proto.SerializeToString())


def wanted(x: Any) -> Any:
    return np.tanh(x.astype(np.float64) @ WEIGHT)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 6, 40])
def test_products_read_weights_as_they_lie(rows: int, turned: bool):
    x = RNG.standard_normal((rows, TERMS)).astype(np.float32)
    packed = model(str(rows), turned)
    np.testing.assert_allclose(packed.run(None, {"x": x})[0], wanted(x), atol=2e-5)
    shapes = [value.type.dims for value in packed.program().function.params[1:]]
    few = rows <= 5
    assert len(shapes) == 1
    assert shapes[0] == (COLUMNS, TERMS) if few else len(shapes[0]) == 3
    # a weight that lies right is the one of the model
    assert (packed.program().weights[0] is packed.initial["w"]) == (few and turned)


def test_sizes_share_a_layout():
    with settings(cache=False):
        packed = model("n")
        for rows in (7, 9, 11, 30):
            x = RNG.standard_normal((rows, TERMS)).astype(np.float32)
            np.testing.assert_allclose(packed.run(None, {"x": x})[0], wanted(x), atol=2e-5)
    assert len(packed.prepared.layouts._arrays) == 1


def test_small_weights_stay_as_they_are():
    text = HEAD + "m (float[40, 8] x) => (float[40, 64] y) { y = MatMul(x, w) }"
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((8, 64), np.float32), "w"))
    loaded = load(proto.SerializeToString())
    assert loaded.program().weights[0] is loaded.initial["w"]


def test_what_is_kept_names_the_weight_and_its_layout(tmp_path: Path):
    x = RNG.standard_normal((16, TERMS)).astype(np.float32)
    with settings(cache_dir=str(tmp_path)):
        first = model("16")
        answer = first.run(None, {"x": x})[0]
        (tape,) = first._tapes.values()
        data = kept_tapes._TapeWriter(first._signatures, first.initial, first.prepared.layouts).pack(tape)
        assert len(data) < WEIGHT.nbytes // 4
        again = model("16")
        np.testing.assert_array_equal(again.run(None, {"x": x})[0], answer)
        assert not again.is_ready  # it was not imported


def test_layouts():
    matrix = np.arange(6 * 8).reshape(6, 8)
    np.testing.assert_array_equal(laid_out(matrix, TURNED), matrix.T)
    for turned in (False, True):
        made = laid_out(matrix.T.copy() if turned else matrix, panels(4, turned=turned))
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, np.stack([matrix[:, :4], matrix[:, 4:]]))
    with pytest.raises(ValueError, match="no layout"):
        laid_out(matrix, "sideways 4")
    layouts = WeightLayouts()
    made = layouts.of(matrix, TURNED)
    assert layouts.of(matrix, TURNED) is made
    assert layouts.source(made)[0] is matrix
    assert layouts.source(matrix) == (matrix, "")


def test_parts_of_weights_are_packed_too():
    """A recurrent layer has the matrices of both directions in one weight."""
    lines, size, steps = 96, 64, 9
    w = (RNG.standard_normal((2, 4 * size, lines)) / 8).astype(np.float32)
    r = (RNG.standard_normal((2, 4 * size, size)) / 8).astype(np.float32)
    text = f"""m (float[{steps}, 6, {lines}] x) => (float[{steps}, 2, 6, {size}] y)
    {{ y = LSTM<hidden_size = {size}, direction = "bidirectional">(x, w, r) }}"""
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.extend([numpy_helper.from_array(w, "w"), numpy_helper.from_array(r, "r")])
    data = proto.SerializeToString()
    packed = load(data)
    x = RNG.standard_normal((steps, 6, lines)).astype(np.float32)
    from onnx.reference import ReferenceEvaluator

    answers: Any = ReferenceEvaluator(data).run(None, {"x": x})
    expected = answers[0]
    np.testing.assert_allclose(packed.run(None, {"x": x})[0], expected, atol=2e-5)
    made = [source for source, _ in packed.prepared.layouts._sources.values()]
    assert {source.shape for source in made} >= {(4 * size, lines)}
    assert all(
        np.shares_memory(source, packed.initial["w"]) or np.shares_memory(source, packed.initial["r"])
        for source in made
    )
