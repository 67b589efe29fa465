"""Stage 9: lanes, what is kept for several of them, reductions that threads share, and the order of its matchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import cast

import pytest

from planish import dtypes
from planish.errors import LoweringError, PlanishError
from planish.stages.expander.s09_expander import EXPANDER_ORDER, expand
from planish.target import TARGETS, Target
from planish.uop import spec
from planish.uop.matcher import Matcher
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.placed import Action, ActionKind
from tests.stages.memory_kernels import CASES, Case, check, cumsum_columns, keep, read, scan

K = ActionKind
f32, i32 = dtypes.float32, dtypes.int32
CPU, GPU = TARGETS["x86-64-v4"], TARGETS["cuda"]
UPCAST, UNROLL, GROUP_REDUCE = AxisType.UPCAST, AxisType.UNROLL, AxisType.GROUP_REDUCE


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def tile(t: Table) -> UOp:
    """A sum with two axes in lanes, one of each kind."""
    i, u, r, v = t.range(3, 0), t.range(4, 1, UPCAST), t.range(5, 2, AxisType.REDUCE), t.range(2, 3, UNROLL)
    x = t.param(1, f32, 120).index(((i * 4 + u) * 5 + r) * 2 + v)
    return t.sink(t.param(0, f32, 12).index(i * 4 + u).store(x.reduce(Ops.ADD, r, v)).end(i, u))


def kept(t: Table) -> UOp:
    """A row that is kept for four lanes."""
    u, r, s = t.range(4, 0, UPCAST), t.range(8, 1), t.range(8, 2)
    row = keep(t.param(1, f32, 32).index(u * 8 + r), r)
    return t.sink(t.param(0, f32, 32).index(u * 8 + s).store(read(row, s * -1 + 7)).end(u, s))


def scanned(t: Table) -> UOp:
    """A scan in every lane."""
    u, r = t.range(4, 0, UPCAST), t.range(8, 1)
    value = scan(t.param(1, i32, 32).index(r * 4 + u), r)
    return t.sink(t.param(0, i32, 32).index(r * 4 + u).store(value).end(u, r))


def grouped(t: Table) -> UOp:
    """Sums that four threads share, for two lanes."""
    i, r, g = t.range(3, 0), t.range(2, 1, AxisType.REDUCE), t.range(4, 2, GROUP_REDUCE)
    u = t.range(2, 3, UPCAST)
    x = t.param(1, f32, 48).index(((i * 2 + u) * 2 + r) * 4 + g)
    return t.sink(t.param(0, f32, 6).index(i * 2 + u).store(x.reduce(Ops.ADD, r, g)).end(i, u))


KERNELS: dict[str, Callable[[Table], UOp]] = {
    "tile": tile, "kept": kept, "scanned": scanned, "grouped": grouped,
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_marked_axes_become_lanes(name: str, t: Table, golden: Golden) -> None:
    sink = KERNELS[name](t)
    spec.check(sink, "kernel")
    after = expand(sink)
    spec.check(after, "unrolled")
    assert expand(after) is after or name == "grouped"  # threads stay
    golden.check(
        f"stages/s09_expander/{name}.txt", f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}"
    )


def _what_it_makes(order: Sequence[Matcher]) -> str:
    """The expansion of all kernels under an order of matchers, or how it fails."""
    found = []
    for name, build in KERNELS.items():
        with Table() as t:
            try:
                found.append(f"=== {name}\n{print_graph(expand(build(t), order))}")
            except PlanishError as error:
                found.append(f"=== {name}\n{type(error).__name__}\n")
    return "".join(found)


def test_the_order_of_its_matchers_is_data(golden: Golden) -> None:
    """The seed's precedence. Two entries exchanged make another result: some pairs do not commute."""
    assert [m.name for m in EXPANDER_ORDER] == ["sym", "pm_pre_expander", "pm_group_for_reduce", "expander"]
    right = _what_it_makes(EXPANDER_ORDER)
    golden.check("stages/s09_expander/order.txt", right)
    changed = []
    for a, b in combinations(range(len(EXPANDER_ORDER)), 2):
        order = list(EXPANDER_ORDER)
        order[a], order[b] = order[b], order[a]
        if _what_it_makes(tuple(order)) != right:
            changed.append((EXPANDER_ORDER[a].name, EXPANDER_ORDER[b].name))
    assert ("pm_group_for_reduce", "expander") in changed


def test_a_scan_cannot_be_in_lanes(t: Table) -> None:
    r = t.range(8, 0, UPCAST)
    value = scan(t.param(1, i32, 8).index(r), r)
    sink = t.sink(t.param(0, i32, 8).index(r).store(value).end(r))
    with pytest.raises(LoweringError, match="in order"):
        expand(sink)


def test_one_buffer_for_all_lanes(t: Table) -> None:
    after = expand(kept(t))
    (buffer,) = [n for n in after.toposort() if n.op is Ops.BUFFERIZE]
    assert [place.dtype.lanes for place in buffer.src] == [4, 4, 4]
    assert buffer.src[2].arg == (0, 1, 2, 3)


def test_the_twin_of_a_group_is_a_loop(t: Table) -> None:
    after = expand(grouped(t))
    axes = sorted(str(cast("Axis", n.arg)) for n in after.toposort() if n.op is Ops.RANGE)
    assert axes == ["G2", "L0", "R1", "R102"]


LANES: list[tuple[str, list[Action], Target]] = [
    ("softmax", [Action(K.UPCAST, 0, 3)], CPU),
    ("softmax", [Action(K.UPCAST, 1, 4)], CPU),
    ("softmax", [Action(K.UNROLL, 2, 4), Action(K.ACCUMULATORS, 3, 8)], CPU),
    ("layernorm", [Action(K.UPCAST, 0, 3), Action(K.ACCUMULATORS, 2, 4), Action(K.UNROLL, 4, 2)], CPU),
    ("layernorm", [Action(K.LOCAL, 0, 3)], GPU),
    ("cumsum of rows", [Action(K.UPCAST, 0, 4)], CPU),
    ("cumsum of columns", [Action(K.UPCAST, 1, 3)], CPU),
    ("cumsum for every row", [Action(K.UPCAST, 0, 2)], CPU),
    ("scan and sum", [Action(K.UPCAST, 0, 2)], CPU),
    ("transposed tile", [Action(K.UPCAST, 0, 2), Action(K.UPCAST, 2, 3)], CPU),
]


@pytest.mark.parametrize(("name", "actions", "target"), LANES)
def test_kept_and_scanned_values_in_lanes(name: str, actions: list[Action], target: Target) -> None:
    counters = check(CASES[name], target, actions)
    if name in {"softmax", "layernorm"} and target is CPU:
        assert counters.bytes_read == counters.bytes_written == 24 * 4


def test_a_scan_of_columns_runs_in_lanes() -> None:
    """Six columns side by side: one vector accumulator, each element read and written once."""
    case = CASES["cumsum of columns"]
    counters = check(Case(cumsum_columns, *case[1:]), CPU, [Action(K.UPCAST, 1, 0)])
    assert counters.register_bytes == 6 * 4
    assert counters.bytes_read == counters.bytes_written == 24 * 4
