"""What a read needs of memory, as a box: sums of loops are one axis, and gates are those of the sum."""

from __future__ import annotations

from planish import dtypes
from planish.actions.boxes import Boxed, boxed
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType
from planish.uop.symbolic import simplify

CPU = TARGETS["x86-64-v4"]
PLAIN = TARGETS["x86-64"]
f32 = dtypes.float32


def box_of(t: Table, read: UOp, inner: list[UOp], lanes: UOp | None = None) -> Boxed:
    count = iter(range(1000, 2000))
    return boxed(read, inner, lanes, lambda size: t.range(size, next(count)), PLAIN if lanes is None else CPU)


def sizes(box: Boxed) -> list[int]:
    return sorted(axis.vmax + 1 for axis in box.at)


def test_windows_that_overlap_are_one_axis() -> None:
    with Table() as t:
        i, r = t.range(8, 0), t.range(3, 1, AxisType.REDUCE)
        read = t.param(0, f32, 64).index(i * 2 + r)
        box = box_of(t, read, [i, r])
        assert sizes(box) == [17]
        assert box.read.ranges.isdisjoint({i, r})


def test_gates_belong_to_the_sum() -> None:
    with Table() as t:
        i, r = t.range(8, 0), t.range(3, 1, AxisType.REDUCE)
        at = i + r - 1
        read = t.param(0, f32, 8).index(((at >= 0) & (at < 8)).where(at, t.invalid(at.dtype)))
        box = box_of(t, read, [i, r])
        assert sizes(box) == [10]
        assert box.read.ranges.isdisjoint({i, r})


def test_a_gate_of_one_loop_keeps_it_apart() -> None:
    with Table() as t:
        i, r = t.range(8, 0), t.range(3, 1, AxisType.REDUCE)
        read = t.param(0, f32, 16).index((i < 7).where(i + r, t.invalid(i.dtype)))
        assert sizes(box_of(t, read, [i, r])) == [3, 8]


def test_rows_that_lie_side_by_side_stay_rows() -> None:
    with Table() as t:
        i, k = t.range(4, 0), t.range(6, 1, AxisType.REDUCE)
        assert sizes(box_of(t, t.param(0, f32, 24).index(i * 6 + k), [i, k])) == [4, 6]


def test_what_runs_backwards_is_turned_round() -> None:
    with Table() as t:
        i, r = t.range(8, 0), t.range(3, 1, AxisType.REDUCE)
        box = box_of(t, t.param(0, f32, 16).index(i - r + 2), [i, r])
        assert sizes(box) == [10]


def test_lanes_that_are_not_contiguous_are_turned_and_the_rest_is_joined() -> None:
    with Table() as t:
        o, c, r = (
            t.range(16, 0, AxisType.UPCAST),
            t.range(8, 1, AxisType.REDUCE),
            t.range(4, 2, AxisType.REDUCE),
        )
        box = box_of(t, t.param(0, f32, 512).index(o * 32 + c * 4 + r), [o, c, r], o)
        assert box.turned is o
        assert sizes(box) == [16, 32]


def test_rows_whose_length_has_only_a_name_overlap_too() -> None:
    with Table() as t:
        wide = t.variable("wide", 4, 64)
        i, r, k = t.range(8, 0), t.range(3, 1, AxisType.REDUCE), t.range(5, 2)
        box = box_of(t, t.param(0, f32, 64 * 64).index((i * 2 + r) * wide + k), [i, r, k])
        assert sizes(box) == [5, 17]
        assert box.read.ranges.isdisjoint({i, r})


def test_a_box_of_a_named_length_ends_where_it_does() -> None:
    with Table() as t:
        wide = t.variable("wide", 4, 64)
        i, r = t.range(wide, 0), t.range(3, 1, AxisType.REDUCE)
        box = box_of(t, t.param(0, f32, 128).index(i * 2 + r), [i, r])
        (axis,) = box.at
        assert sizes(box) == [129]
        assert simplify(axis.src[0] - (wide * 2 + 1)).arg == 0
