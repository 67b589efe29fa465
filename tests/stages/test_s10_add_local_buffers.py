"""Stage 10: what is kept gets LOCAL memory, one fill and an AFTER."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.errors import LoweringError
from planish.llir.interpret import interpret
from planish.stages.expander.s09_expander import expand
from planish.stages.expander.s10_add_local_buffers import add_local_buffers
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.memory_kernels import CASES, check, compiled, keep, read, scan

f32, i32 = dtypes.float32, dtypes.int32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_they_mean(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", ["softmax", "softmax, one range", "layernorm"])
def test_a_row_kernel_reads_and_writes_once_and_needs_one_row(name: str) -> None:
    counters = check(CASES[name])
    assert counters.bytes_read == counters.bytes_written == 24 * 4
    assert counters.scratch_bytes == 8 * 4


# -- forms -----------------------------------------------------------------------------------------------------------


def rows(t: Table, kind: AxisType) -> UOp:
    """Rows kept and read backwards, for four of them at once."""
    i, r, s = t.range(4, 0, kind), t.range(8, 1), t.range(8, 2)
    row = keep(t.param(1, f32, 32).index(i * 8 + r), r)
    return t.sink(t.param(0, f32, 32).index(i * 8 + s).store(read(row, s * -1 + 7)).end(i, s))


def threads_and_lanes(t: Table) -> UOp:
    """Rows for two threads of two lanes each."""
    h, u, r, s = t.range(2, 0, AxisType.LOCAL), t.range(2, 3, AxisType.UPCAST), t.range(8, 1), t.range(8, 2)
    i = h * 2 + u
    row = keep(t.param(1, f32, 32).index(i * 8 + r), r)
    return t.sink(t.param(0, f32, 32).index(i * 8 + s).store(read(row, s * -1 + 7)).end(h, u, s))


def lanes_alone(t: Table) -> UOp:
    """Kept lanes that are read where they were stored are not read at all; the others are."""
    u, v = t.range(4, 0, AxisType.UPCAST), t.range(4, 1, AxisType.UPCAST)
    kept = keep(t.param(1, f32, 4).index(u) * 2, u)
    again = keep(read(kept, v) + 1, v)
    w = t.range(4, 2)
    return t.sink(t.param(0, f32, 4).index(w).store(read(again, w * -1 + 3)).end(w))


FORMS: dict[str, Callable[[Table], UOp]] = {
    "loops": lambda t: rows(t, AxisType.LOOP),
    "threads": lambda t: rows(t, AxisType.LOCAL),
    "lanes": lambda t: rows(t, AxisType.UPCAST),
    "threads and lanes": threads_and_lanes,
    "lanes alone": lanes_alone,
    "softmax": CASES["softmax"].build,
    "one range": CASES["softmax, one range"].build,
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_kept_gets_memory(name: str, t: Table, golden: Golden) -> None:
    sink = expand(FORMS[name](t))
    spec.check(sink, "unrolled")
    after = add_local_buffers(sink)
    spec.check(after, "expanded")
    assert add_local_buffers(after) is after
    golden.check(
        f"stages/s10_add_local_buffers/{name.replace(' ', '_')}.txt",
        f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}",
    )


def sizes(sink: UOp) -> list[int]:
    return [n.dtype.size for n in sink.toposort() if n.op is Ops.DEFINE_LOCAL]  # type: ignore[attr-defined]


def test_every_thread_and_lane_has_its_own_elements(t: Table) -> None:
    assert sizes(add_local_buffers(rows(t, AxisType.LOOP))) == [8]
    assert sizes(add_local_buffers(rows(t, AxisType.GLOBAL))) == [
        8
    ]  # every block has LOCAL memory of its own
    assert sizes(add_local_buffers(rows(t, AxisType.LOCAL))) == [32]
    assert sizes(add_local_buffers(expand(rows(t, AxisType.UPCAST)))) == [32]
    assert sizes(add_local_buffers(expand(threads_and_lanes(t)))) == [32]


def test_what_was_just_stored_in_lanes_is_not_read_back(t: Table) -> None:
    assert sizes(add_local_buffers(expand(lanes_alone(t)))) == [4]


def test_global_memory_inside_of_a_kernel_is_refused(t: Table) -> None:
    r = t.range(4, 0)
    kept = t.make(Ops.BUFFERIZE, f32, (t.param(1, f32, 4).index(r), r), Bufferize("global"))
    s = t.range(4, 1)
    with pytest.raises(LoweringError, match="global memory inside"):
        add_local_buffers(t.sink(t.param(0, f32, 4).index(s).store(read(kept, s)).end(s)))


def test_indices_are_kept_reduced_and_scanned_as_integers(t: Table) -> None:
    """Which position holds the maximum so far: index arithmetic all the way, in memory as int64."""
    r, s = t.range(6, 0, AxisType.REDUCE), t.range(6, 1)
    place = t.param(1, i32, 6).index(r).cast(dtypes.index)
    sums = keep(scan(place, r), r)
    value = read(sums, s) + place.reduce(Ops.MAX, r)
    sink = t.sink(t.param(0, dtypes.int64, 6).index(s).store(value.cast(dtypes.int64)).end(s))
    result, data = np.zeros(6, np.int64), np.array([3, 1, 4, 1, 5, 9], np.int32)
    interpret(compiled(sink), [result, data])
    np.testing.assert_array_equal(result, data.cumsum() + 9)
