"""Loops with as many steps as an input has rows are one program, whatever the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from planish.config import settings
from planish.onnx import load

RNG = np.random.default_rng(3)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'
STATE = """
        row = Gather<axis = 0>(x, i)
        moved = MatMul(h, w)
        sum = Add(moved, row)
        next = Tanh(sum)
        out = Identity(next)
"""
TRIPS = f"""
m (float[n, 8] x) => (float[8] last, float[n, 8] all)
<float[8] zeros = {{0, 0, 0, 0, 0, 0, 0, 0}}, int64[1] first = {{0}}>
{{
    shape = Shape(x)
    size = Gather(shape, first)
    steps = Squeeze(size)
    true = Constant<value = bool {{1}}>()
    last, all = Loop(steps, true, zeros) <body = step (int64 i, bool go, float[8] h) => (bool on, float[8] next, float[8] out)
    {{{STATE}
        on = Identity(go)
    }}>
}}"""
COUNTER = f"""
m (float[n, 8] x) => (float[8] last, float[n, 8] all)
<float[8] zeros = {{0, 0, 0, 0, 0, 0, 0, 0}}, int64[1] first = {{0}}, int64 zero = {{0}}, float start = {{0}}, int64 one = {{1}}>
{{
    shape = Shape(x)
    size = Gather(shape, first)
    steps = Squeeze(size)
    far = Cast<to = 1>(steps)
    begins = Less(start, far)
    time, last, all = Loop("", begins, zero, zeros) <body = step (int64 k, bool go, int64 i, float[8] h) => (bool on, int64 later, float[8] next, float[8] out)
    {{{STATE}
        later = Add(i, one)
        now = Cast<to = 1>(later)
        end = Cast<to = 1>(steps)
        on = Less(now, end)
    }}>
}}"""


def model(text: str) -> Any:
    proto = onnx.parser.parse_model(HEAD + text.replace('Loop("",', "Loop(,"))
    weight = (RNG.standard_normal((8, 8)) / 3).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return proto


@pytest.mark.parametrize("text", [TRIPS, COUNTER], ids=["trip count", "counter of its own"])
def test_one_program_for_all_numbers_of_steps(text: str):
    proto = model(text)
    loaded, reference = load(proto.SerializeToString()), ReferenceEvaluator(proto)
    with settings(cache=False):
        for rows in (3, 5, 9, 12, 4, 30, 17, 6):
            x = RNG.standard_normal((rows, 8)).astype(np.float32)
            answers: Any = reference.run(None, {"x": x})
            for ours, theirs in zip(loaded.run(None, {"x": x}), answers, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=2e-6)
    assert loaded.sizes.reason is None
    assert loaded.compilations == 3  # two sizes of their own, then all


def test_what_ends_by_data_is_not_taken_for_a_size():
    text = TRIPS.replace(
        "on = Identity(go)",
        "top = ReduceMax<keepdims = 0>(next) far = Constant<value = float {0.5}>() on = Less(top, far)",
    )
    proto = model(text)
    loaded, reference = load(proto.SerializeToString()), ReferenceEvaluator(proto)
    for rows in (3, 5, 9, 12):
        x = RNG.standard_normal((rows, 8)).astype(np.float32) / 4
        answers: Any = reference.run(None, {"x": x})
        for ours, theirs in zip(loaded.run(None, {"x": x}), answers, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6)
