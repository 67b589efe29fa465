"""What the threads of a warp get when they combine their values: of all, and of those before."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.uop.combining import combined
from planish.uop.ops import Combine, Ops

VALUES = np.random.default_rng(0).integers(-9, 9, (32, 3)).astype(np.int32)
RUNNING = {
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
}  # fmt: skip
NOTHING = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: -(2**31), Ops.MIN: 2**31 - 1, Ops.AND: -1, Ops.OR: 0, Ops.XOR: 0}


@pytest.mark.parametrize("op", RUNNING, ids=lambda op: op.name)
@pytest.mark.parametrize("width", [1, 2, 8, 32])
def test_all_and_before(op: Ops, width: int) -> None:
    values, function = VALUES[:width], RUNNING[op]
    everything = function.reduce(values, axis=0)
    found = combined(Combine(op, width), dtypes.int32, values)
    np.testing.assert_array_equal(found, np.broadcast_to(everything, values.shape))
    before = combined(Combine(op, width, before=True), dtypes.int32, values)
    np.testing.assert_array_equal(before[0], np.full(3, NOTHING[op]))
    np.testing.assert_array_equal(before[1:], function.accumulate(values, axis=0)[:-1])


def test_floats_are_combined_as_a_machine_does_it() -> None:
    """With the one before, then two, four … before: not from the first to the last."""
    values = np.random.default_rng(1).standard_normal((8, 1)).astype(np.float32)
    before = combined(Combine(Ops.ADD, 8, before=True), dtypes.float32, values)
    a, b, c, d = values[:4, 0]
    assert before[4, 0] == (a + b) + (c + d)
    assert before.dtype == np.float32
