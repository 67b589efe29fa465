"""Lanes found where they were built are those that the rules find, and strides read off sums those that counting on gives."""

from __future__ import annotations

import random

import pytest

from planish import dtypes
from planish.errors import PlanishError
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.rewrite import rewrite, substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.symbolic.lanes import lanes as lane_rules
from planish.uop.symbolic.lanes import selected


def value(t: Table, rng: random.Random, depth: int) -> UOp:
    """A vector built in a random way."""
    kind = rng.randrange(5 if depth else 3)
    width = rng.choice((1, 2, 4))
    if kind == 0:
        return t.vconst([rng.randrange(4) for _ in range(width * 2)], dtypes.int32)
    if kind == 1:
        scalars = tuple(t.variable(f"i{rng.randrange(3)}", 0, 9) for _ in range(width * 2))
        return t.make(Ops.VECTORIZE, dtypes.index.vec(len(scalars)), scalars).cast(dtypes.int32)
    if kind == 2:
        scalars = tuple(t.variable(f"v{rng.randrange(3)}", 0, 9, dtypes.int32) for _ in range(width * 2))
        return t.make(Ops.VECTORIZE, dtypes.int32.vec(len(scalars)), scalars)
    if kind == 3:
        parts = tuple(value(t, rng, depth - 1) for _ in range(rng.randrange(1, 4)))
        return t.make(Ops.CAT, dtypes.int32.vec(sum(part.dtype.lanes for part in parts)), parts)
    inner = value(t, rng, depth - 1)
    return inner.gep(*(rng.randrange(inner.dtype.lanes) for _ in range(width * 2)))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_selected_is_what_the_rules_select(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        with Table() as t:
            whole = rewrite(value(t, rng, 3), lane_rules)  # as a rule finds it
            count = rng.choice((1, 2, whole.dtype.lanes))
            start = rng.randrange(whole.dtype.lanes)
            chosen = tuple(
                (start + n) % whole.dtype.lanes if rng.random() < 0.7 else rng.randrange(whole.dtype.lanes)
                for n in range(count)
            )
            assert rewrite(selected(whole, chosen), lane_rules) is rewrite(whole.gep(*chosen), lane_rules)


def test_a_part_is_found_without_a_selection() -> None:
    with Table() as t:
        parts = [value(t, random.Random(seed), 0) for seed in range(4)]
        whole = t.make(Ops.CAT, dtypes.int32.vec(sum(p.dtype.lanes for p in parts)), tuple(parts))
        start = parts[0].dtype.lanes
        lanes = tuple(range(start, start + parts[1].dtype.lanes))
        nodes = len(t)
        assert selected(whole, lanes) is parts[1]
        assert len(t) == nodes


def test_lanes_of_integers_are_told_apart_and_checked_as_numbers_are() -> None:
    with Table() as t:
        assert t.lanes([3, 3, 3]).op is Ops.CONST
        assert t.lanes([3, 4, 3]) is t.vconst((3, 4, 3))
        assert t.lanes([0.0, -0.0], dtypes.float32).op is Ops.VCONST
        assert t.lanes([True, True], dtypes.int32).arg == 1
        assert type(t.lanes([True, True], dtypes.int32).arg) is int
        with pytest.raises(PlanishError, match="range"):
            t.vconst([1, 300], dtypes.uint8)


def test_a_stride_is_what_the_next_value_adds() -> None:
    with Table() as t:
        i, j = t.range(8, 0), t.range(4, 1, AxisType.REDUCE)
        for index, wanted in (
            (i * 5 + j, 5),
            (j * 3, 0),
            (i * 2 + (i + j) * 3, 5),
            (i // 2 + j, None),
            (i * j, None),
        ):
            after = simplify(substitute(index, {i: i + 1}) + index * -1)
            assert stride(index, i) == (after.arg if after.op is Ops.CONST else None) == wanted
