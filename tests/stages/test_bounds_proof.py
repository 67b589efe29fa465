"""Every LOAD and STORE of many kernels is proved inside its buffer: by intervals, or else by z3 under its gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import z3

from planish import dtypes, ptir
from planish.actions.base import Refusal
from planish.ptir.graph_value import GraphValue
from planish.schedule.kernels import schedule
from planish.stages import pipeline
from planish.stages.access_bounds import BoundedAccess, accesses, outside, undecided
from planish.stages.pipeline import Machine
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, AxisType, Ops
from tests.placed import Action, ActionKind
from tests.schedule.programs import Program, attention, causal, data, program, softmax
from tests.stages.every_stage import machine_for
from tests.stages.kernels import store
from tests.uop.proof import z3expr

f32 = dtypes.float32
_SECONDS = 20


# -- proofs --------------------------------------------------------------------------------------------------------


def lane(value: UOp, number: int) -> UOp:
    """One lane of a vector, as a scalar."""
    scalar = value.dtype.scalar
    if value.dtype.lanes == 1:
        return value
    if value.op is Ops.CONST:
        return value.replace(dtype=scalar)
    if value.op is Ops.VCONST:
        assert isinstance(value.arg, tuple)
        return value.table.const(value.arg[number], scalar)
    if value.op is Ops.VECTORIZE:
        return value.src[number]
    if value.op is Ops.GEP:
        assert isinstance(value.arg, tuple)
        return lane(value.src[0], value.arg[number])
    if value.op in ALU or value.op is Ops.CAST:
        return value.table.make(value.op, scalar, tuple(lane(s, number) for s in value.src), value.arg)
    return value.gep(number)


def cases(access: BoundedAccess) -> Iterator[tuple[UOp, int, list[UOp]]]:
    """(first index, elements, gates), with scalars only: lane by lane where gate or index has lanes."""
    wide = max(access.at.dtype.lanes, *(gate.dtype.lanes for gate in access.gates), 1)
    if wide == 1:
        yield access.at, access.lanes, list(access.gates)
        return
    for number in range(wide):
        gates = [lane(gate, number) for gate in access.gates]
        if access.at.dtype.lanes > 1:
            yield lane(access.at, number), 1, gates
        else:  # a gate per element, from the first on
            yield access.at + number, 1, gates


def proved(access: BoundedAccess) -> bool:
    """Whether z3 finds no way to leave the buffer."""
    for first, count, gates in cases(access):
        # what is free is named first: what it is made of (the order of a loop, a place in memory) is no number
        leaves = {node: z3expr._term(node, []) for node in _free(first, *gates)}
        index = z3expr.translate(first, leaves)
        solver = z3.Solver()
        solver.set("timeout", _SECONDS * 1000)
        for gate in gates:
            solver.add(z3expr.translate(gate, leaves))
        for node in _free(first, *gates):
            solver.add(z3expr.within_bounds(node, leaves[node]))
            if node.op in {Ops.RANGE, Ops.SPECIAL}:
                leaves |= {n: z3expr._term(n, []) for n in _free(node.src[0]) if n not in leaves}
                solver.add(*(z3expr.within_bounds(n, leaves[n]) for n in _free(node.src[0])))
                solver.add(leaves[node] < z3expr.translate(node.src[0], leaves))
        if first.dtype.is_index:
            solver.add(z3.Or(index < 0, index + count > access.size))
        else:
            wide = z3.SignExt(8, index)
            solver.add(z3.Or(wide < 0, wide + count > access.size))
        if solver.check() != z3.unsat:
            return False
    return True


def _free(*roots: UOp) -> list[UOp]:
    stop = {Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, Ops.INDEX, Ops.LOAD}
    found = dict.fromkeys(
        n for root in roots for n in root.toposort(lambda n: n.op not in stop) if n.op in stop
    )
    return [
        node for node in found if not node.dtype.is_pointer and (node.dtype.is_integral or node.dtype.is_bool)
    ]


# -- the kernels ---------------------------------------------------------------------------------------------------


def convolved(stride: int, padding: int) -> Program:
    """A sum of shifted slices of a padded input: what a convolution reads."""

    def build(g: ptir.Graph, x: GraphValue) -> GraphValue:
        padded = x.pad((0, padding, padding), (0, padding, padding))
        size = 9 + 2 * padding
        rows = (size - 3) // stride + 1
        total = None
        for i in range(3):
            for j in range(3):
                part = padded.slice((0, i, j), (2, i + stride * (rows - 1) + 1, j + stride * (rows - 1) + 1), (1, stride, stride))  # fmt: skip
                total = part if total is None else total.add(part)
        assert total is not None
        return total

    return program(build, data(2, 9, 9))


def gathered(g: ptir.Graph, x: GraphValue, at: GraphValue) -> GraphValue:
    return x.take(at, 0)


PROGRAMS = {
    "elementwise": program(lambda g, a, b: a.mul(b).tanh(), data(7, 12), data(7, 12)),
    "padded": program(lambda g, x: x.pad((2, 1), (3, 0)).exp(), data(6, 10)),
    "strided": program(lambda g, x: x.slice((1, 0), (10, 12), (3, 2)).neg(), data(11, 12)),
    "reversed": program(lambda g, x: x.reverse([0, 1]).transpose((1, 0)), data(5, 8)),
    "reshaped": program(lambda g, x: x.transpose((1, 0)).reshape((4, 15)).add(1.0), data(12, 5)),
    "joined": program(lambda g, x, y: g.concat([x, y, x], 1), data(3, 5), data(3, 4)),
    "conv": convolved(1, 1),
    "strided conv": convolved(2, 1),
    "matmul": program(lambda g, a, b: a @ b, data(12, 10), data(10, 16)),
    "rows": program(lambda g, x: softmax(x), data(5, 24)),
    "attention": program(lambda g, q, k, v: attention(q, k, v), data(2, 8, 4), data(2, 8, 4), data(2, 8, 4)),
    "causal": program(causal, data(1, 8, 4), data(1, 8, 4), data(1, 8, 4)),
    "gather": program(gathered, data(9, 4), data(6, dtype="int32")),
    "cumsum": program(lambda g, x: x.cumsum(1), data(3, 9)),
}
ACTIONS = {
    "upcast": (Action(ActionKind.UPCAST, 0, 2),),
    "upcast last": (Action(ActionKind.UPCAST, 1, 4),),
    "unroll": (Action(ActionKind.UNROLL, 2, 2),),
    "tile": (
        Action(ActionKind.UNROLL, 2, 2),
        Action(ActionKind.UPCAST, 1, 4),
        Action(ActionKind.UPCAST, 0, 2),
    ),
    "pad": (Action(ActionKind.PADTO, 0, 8), Action(ActionKind.UPCAST, 0, 8)),
}


class Count(NamedTuple):
    """How many accesses there were, and how many of them needed z3."""

    total: int
    by_z3: int


def check_kernel(sink: UOp, machine: Machine, last: int = 14) -> Count:
    """Prove every access of a kernel after stage 14, and after stage 20, where indices are machine integers."""
    total = by_z3 = 0
    for step in pipeline.steps(sink, machine):
        if step.stage.number not in {last, 20} or not isinstance(step.form, UOp):
            continue
        assert outside(step.form) == []
        total += len(list(accesses(step.form)))
        for access in undecided(step.form):
            by_z3 += 1
            assert proved(access), f"{access.at} in {access.size}, after stage {step.stage.number}"
    return Count(total, by_z3)


@pytest.mark.parametrize("target", ["plain", "x86-64-v3", "x86-64-v4", "cuda"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_accesses_are_inside(name: str, target: str):
    counts = []
    with Table() as table:
        for kernel in schedule(PROGRAMS[name].function, table).kernels:
            counts.append(check_kernel(kernel.sink, machine_for(None if target == "plain" else target)))
    assert all(count.total >= 2 for count in counts)


@pytest.mark.parametrize("actions", ACTIONS)
def test_accesses_of_a_tiled_product_are_inside(actions: str):
    with Table() as table:
        (kernel,) = schedule(PROGRAMS["matmul"].function, table).kernels
        machine = Machine(TARGETS["x86-64-v3"], lambda sink: ACTIONS[actions])
        try:
            count = check_kernel(kernel.sink, machine)
        except Refusal as refusal:
            pytest.fail(f"the kernel does not take these actions: {refusal}")
    assert count.total >= 6


def test_what_leaves_its_buffer_is_not_proved():
    """An index that is wrong in one case of many: intervals do not see it, z3 does."""
    with Table() as t:
        i, j = t.range(4, 0), t.range(4, 1)
        inside = (i + j < 6).where(i * 2 + j, t.invalid())
        for size, right in ((9, True), (8, False)):
            sink = store(t.param(0, f32, 16), t.param(1, f32, size).index(inside), i, j)
            (access,) = undecided(sink)
            assert proved(access) is right


def test_verdicts_of_intervals():
    with Table() as t:
        i = t.range(4, 0)
        a = t.param(1, f32, 8)
        n = t.variable("n", 0, 9)

        def verdict(index: UOp) -> str:
            (found,) = (x for x in accesses(t.sink(t.param(0, f32, 4).index(i).store(a.index(index)).end(i))) if x.size == 8)  # fmt: skip
            return found.verdict

        assert verdict(i + 4) == "inside"
        assert verdict(i + 5) == "unknown"
        assert verdict(i + 8) == "outside"
        assert verdict(i - 4) == "outside"
        assert verdict(n) == "unknown"
        assert verdict((n < 8).where(n, t.invalid())) == "inside"
        assert verdict((t.const(True, dtypes.bool_) & (n < 3)).where(n, t.invalid())) == "inside"
        wide = t.make(Ops.INDEX, f32.vec(4), (a, i))
        assert [x.verdict for x in accesses(wide)] == ["inside"]
        assert [x.verdict for x in accesses(t.make(Ops.INDEX, f32.vec(4), (a, i + 2)))] == ["unknown"]


def test_no_bounds_are_asked_of_data():
    """A gather with an index as it comes is not inside: whoever builds it clamps."""
    with Table() as t:
        i = t.range(4, 0, AxisType.LOOP)
        at = t.param(2, dtypes.int32, 4).index(i).cast(dtypes.index)
        raw = store(t.param(0, f32, 4), t.param(1, f32, 9).index(at), i)
        assert [proved(access) for access in undecided(raw)] == [False]
        clamped = store(t.param(0, f32, 4), t.param(1, f32, 9).index(at.max(0).min(8)), i)
        assert undecided(clamped) == []
        assert np.iinfo(np.int32).max > 9
