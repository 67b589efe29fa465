"""Stage 1: views become index arithmetic, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.stages.rangeify import s01_early_movement_ops as s01
from planish.stages.rangeify.s01_early_movement_ops import early_movement_ops
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import simplify
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.execution import execute
from tests.stages.kernels import buffers_of, f32, memory, move, random_view, store

Array = NDArray[Any]


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def view_at(view: UOp, *indices: UOp) -> UOp:
    return view.table.make(Ops.INDEX, view.dtype, (view, *indices))


def reads(sink: UOp) -> list[UOp]:
    return [n for n in sink.toposort() if n.op is Ops.INDEX and n.src[0].arg != 0]


def test_a_permuted_view_is_read_at_permuted_indices(t: Table, golden: Golden) -> None:
    i, j = t.range(5, 0), t.range(3, 1)
    view = move(memory(t, 1, f32, (3, 5)), Ops.PERMUTE, (1, 0))
    kernel = store(t.param(0, f32, 15), view_at(view, i, j), i, j)
    after = early_movement_ops(kernel)
    (read,) = reads(after)
    assert simplify(read.src[1]) is simplify(j * 5 + i)
    spec.check(after, "kernel")
    golden.check(
        "stages/s01_early_movement_ops/permute.txt",
        f"=== before\n{print_graph(kernel)}=== after\n{print_graph(after)}",
    )


def test_nested_indices_are_joined_only_where_the_inner_has_none(t: Table) -> None:
    i = t.range(4, 0)
    buffer = t.param(1, f32, 16)
    whole = t.make(Ops.INDEX, f32, (buffer,))
    assert s01.pm_syntactic_sugar(view_at(whole, i)) is buffer.index(i)
    # x[i][i] of an element that is complete is no index at all; x[i, i] of a matrix is its diagonal
    assert s01.pm_syntactic_sugar(view_at(buffer.index(i), i)) is None
    diagonal = view_at(move(whole, Ops.RESHAPE, (4, 4)), i, i)
    kernel = store(t.param(0, f32, 4), diagonal, i)
    buffers = buffers_of(kernel.table.sink(store(t.param(0, f32, 4), buffer.index(i), i).src[0]))
    found = execute(early_movement_ops(kernel), buffers)[0]
    np.testing.assert_array_equal(found, buffers[1].reshape(4, 4).diagonal())


def test_all_that_a_view_waits_for_is_still_waited_for(t: Table) -> None:
    i, j, k = t.range(6, 0), t.range(3, 1), t.range(2, 2)
    first = t.param(1, f32, 6).index(i).store(t.const(1.0, f32)).end(i)
    second = t.param(2, f32, 6).index(i).store(t.const(2.0, f32)).end(i)
    ordered = t.param(1, f32, 6).after(first, second)
    view = move(t.make(Ops.INDEX, f32, (ordered,)), Ops.RESHAPE, (3, 2))
    after = early_movement_ops(store(t.param(0, f32, 6), view_at(view, j, k), j, k))
    (read,) = [n for n in after.toposort() if n.op is Ops.INDEX and n.src[0].op is Ops.AFTER]
    assert read.src[0].src == (t.param(1, f32, 6), first, second)


def test_an_end_holds_an_effect_so_there_is_no_movement_to_unwrap(t: Table) -> None:
    i = t.range(4, 0)
    view = move(memory(t, 1, f32, (4,)), Ops.FLIP, (True,))
    sink = t.sink(view.end(i))
    laws = {problem.law for problem in spec.problems(sink, "kernel")}
    assert "the body of an END is an effect" in laws


def test_it_works_from_the_sink_down(t: Table) -> None:
    """An INDEX over two views is resolved as a whole: looked at after its sources, it would see nothing to do."""
    i = t.range(8, 0)
    view = move(move(memory(t, 1, f32, (2, 4)), Ops.PERMUTE, (1, 0)), Ops.RESHAPE, (8,))
    steps: list[str] = []
    kernel = store(t.param(0, f32, 8), view_at(view, i), i)
    rewrite(
        kernel, s01._RULES, order="sink_first", listener=lambda rule, before, after: steps.append(rule.name)
    )
    assert steps[0].startswith("INDEX(movement")
    assert early_movement_ops(early_movement_ops(kernel)) is early_movement_ops(kernel)


def test_a_kernel_without_views_stays(t: Table) -> None:
    i = t.range(4, 0)
    kernel = store(t.param(0, f32, 4), t.param(1, f32, 4).index(i), i)
    assert early_movement_ops(kernel) is kernel


def numpy_of(view: UOp, data: Array) -> Array:
    """A chain of movement ops, done by NumPy."""
    chain = []
    while view.op in MOVEMENT:
        chain.append(view)
        view = view.src[0]
    for each in reversed(chain):
        arg: Any = each.arg
        if each.op is Ops.RESHAPE:
            data = data.reshape(arg)
        elif each.op is Ops.PERMUTE:
            data = data.transpose(arg)
        elif each.op is Ops.PAD:
            data = np.pad(data, arg)
        elif each.op is Ops.FLIP:
            data = np.flip(data, tuple(axis for axis, flip in enumerate(arg) if flip))
        elif each.op is Ops.SHRINK:
            data = data[tuple(slice(*pair) for pair in arg)]
        else:
            data = np.broadcast_to(data, arg)
    return data


def test_random_views_are_what_numpy_sees() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        with Table() as t:
            dims = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randint(1, 3)))
            ranges = [t.range(d, number) for number, d in enumerate(dims)]
            view = random_view(rng, t, 1, dtypes.int32, dims)
            kernel = store(t.param(0, dtypes.int32, prod(dims)), view_at(view, *ranges), *ranges)
            after = early_movement_ops(kernel)
            assert not any(n.op in MOVEMENT for n in after.toposort())
            spec.check(after, "kernel")
            buffers = buffers_of(after, seed)
            base = view
            while base.op in MOVEMENT:
                base = base.src[0]
            size = base.src[0].dtype.size  # type: ignore[attr-defined]
            data = buffers.setdefault(1, np.zeros(size, np.int32))
            np.testing.assert_array_equal(execute(after, buffers)[0], numpy_of(view, data).reshape(-1))
