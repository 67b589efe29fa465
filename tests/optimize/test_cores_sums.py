"""Cutting an axis for the cores makes no sum again in every piece, unless that is next to nothing."""

from __future__ import annotations

import pytest

import planish as pn
from planish import compiler, nn
from planish.actions.thread import Thread
from planish.compiler.launch_parameters import float_work

TARGET = "x86-64-v4"


def lowered(function, *shapes):
    low = pn.jit(function).lower(*(pn.TensorSpec(shape) for shape in shapes))
    return compiler.lower(low.function, TARGET)


@pytest.mark.parametrize("rows", [16, 64, 100, 256])
@pytest.mark.parametrize(
    "function",
    [lambda x, w: nn.softmax(x @ w, axis=-1), lambda x, w: nn.layer_norm(x @ w, (256,)), lambda x, w: nn.log_softmax(x @ w, axis=-1)],
    ids=["softmax", "layer norm", "log softmax"],
)  # fmt: skip
def test_a_product_inside_a_row_is_computed_once(function, rows: int):
    found = lowered(function, (rows, 256), (256, 256))
    flops = sum((float_work(program) or {}).get(32, 0) for program in found.programs)
    # rows come in whole vectors and tiles; the rest is for what is done with the product
    whole = -(-rows // 64) * 64
    assert flops <= 1.35 * 2 * whole * 256 * 256


def test_a_small_sum_does_not_keep_the_cores_from_their_work():
    found = lowered(lambda x, b: x - pn.mean(b), (1000, 1000), (64,))
    assert any(isinstance(action, Thread) for choice in found.choices for action in choice.actions)
