"""Stage 13: what is read is a LOAD, what is written is a place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import print_graph
from tests.conftest import Golden

f32 = dtypes.float32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def loads(sink: UOp) -> list[UOp]:
    return [n for n in sink.toposort() if n.op is Ops.LOAD]


def test_reads_are_loads_and_writes_are_places(t: Table, golden: Golden) -> None:
    i = t.range(8, 0)
    x = t.param(1, f32, 8).index(i)
    kernel = t.sink(t.param(0, f32, 8).index(i).store(x * x + 1.0).end(i))
    after = add_loads(kernel)
    spec.check(after, "devectorized")
    (load,) = loads(after)
    assert load.src[0].src[0].arg == 1
    assert load.src[0].dtype is f32.ptr(8)
    assert add_loads(after) is after
    golden.check(
        "stages/s13_add_loads/add.txt", f"=== before\n{print_graph(kernel)}=== after\n{print_graph(after)}"
    )


def test_a_place_that_is_also_read_is_loaded_for_that(t: Table) -> None:
    i = t.range(8, 0)
    place = t.param(0, f32, 8).index(i)
    after = add_loads(t.sink(place.store(place + 1.0).end(i)))
    (store,) = [n for n in after.toposort() if n.op is Ops.STORE]
    (load,) = loads(after)
    assert load.src[0] is store.src[0]


def test_pointers_are_addresses_already(t: Table) -> None:
    buffer = t.param(0, f32, 8)
    place = t.make(Ops.INDEX, buffer.dtype, (buffer, t.const(3)))
    sink = t.sink(place.store(t.const(1.0, f32)))
    assert add_loads(sink) is sink


def test_gates_vectors_and_registers(t: Table) -> None:
    i = t.range(8, 0)
    lanes = t.vconst((0, 1, 2, 3))
    buffer = t.param(1, f32, 8)
    wide = t.make(Ops.INDEX, f32.vec(4), (buffer, lanes))
    gated = t.make(Ops.INDEX, f32, (buffer, i, i < 4))
    register = t.make(Ops.DEFINE_REG, f32.ptr(1, AddrSpace.REG), (), 0).after(i)
    acc = t.make(Ops.INDEX, f32, (register, t.const(0)))
    value = wide.gep(0) + gated + acc
    after = add_loads(t.sink(t.param(0, f32, 8).index(i).store(value).end(i)))
    assert sorted((load.dtype.lanes, len(load.src[0].src)) for load in loads(after)) == [
        (1, 2),
        (1, 3),
        (4, 2),
    ]
    assert all(load.src[0].dtype.is_pointer for load in loads(after))


def test_a_place_observed_after_effects_stays_a_place(t: Table) -> None:
    i, j = t.range(8, 0), t.range(8, 1)
    first = t.param(0, f32, 8).index(i).store(t.const(0.0, f32)).end(i)
    place = t.param(0, f32, 8).index(j).after(first)
    after = add_loads(t.sink(place.store(t.const(1.0, f32)).end(j)))
    assert loads(after) == []
    spec.check(after, "devectorized")


def test_an_index_inside_an_index_is_read(t: Table) -> None:
    i = t.range(8, 0)
    chosen = t.param(2, dtypes.int32, 8).index(i).cast(dtypes.index)
    after = add_loads(t.sink(t.param(0, f32, 8).index(i).store(t.param(1, f32, 8).index(chosen)).end(i)))
    assert [load.src[0].src[0].arg for load in loads(after)] == [2, 1]
