"""Random kernels and random legal sequences of actions: whatever the sequence, the result is that of the kernel as it was.

    mistake = fuzz(seed)        # None, or what went wrong

A kernel is run through all stages twice by the LLIR interpreter: without actions on the scalar target, and with a random
sequence on a random target. On targets with blocks the threads also take turns in reverse order, which shows a missing
barrier. Values are small whole numbers, so that sums are exact in every order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planish import dtypes
from planish.actions.base import Action, Refusal, apply_action
from planish.actions.key_walk import KeyWalk
from planish.actions.no_locals import NoLocals
from planish.actions.tensor_core import TensorCore
from planish.actions.text import kinds, print_schedule
from planish.codegen import llvm
from planish.dtypes import PtrDType
from planish.errors import PlanishError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Immediate
from planish.runtime.cpu import CompiledModule
from planish.stages import pipeline
from planish.target import TARGETS, Target
from planish.uop.nest.memory import local_bytes
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.stages.kernels import Array, memory, move, random_kernel, random_view, store
from tests.stages.memory_kernels import (
    crossed,
    cumsum_columns,
    cumsum_repeated,
    cumsum_rows,
    keep,
    layernorm,
    masked_attention,
    ragged,
    read,
    scan_and_sum,
    softmax,
    softmax_one_range,
    sum_and_max,
    transposed_tile,
    triangle,
)

f32, i32 = dtypes.float32, dtypes.int32
REDUCE = AxisType.REDUCE

SMALL_GPU = replace(
    TARGETS["cuda"], name="small gpu", grid=(16, 8, 5), block=(8, 4, 3), block_threads=32, local_bytes=4096
)
"""Limits that small kernels reach."""
CPUS = (TARGETS["x86-64-v4"], TARGETS["x86-64"], TARGETS["x86-64-v3"], TARGETS["scalar"])
GPUS = (TARGETS["cuda"], SMALL_GPU)
EVERY = (*TARGETS.values(), SMALL_GPU)
"""All targets, those too that no machine code is made for here."""

Build = Callable[[random.Random, Table], UOp]


# -- kernels ---------------------------------------------------------------------------------------------------------


def matmul(rng: random.Random, t: Table) -> UOp:
    """A product of matrices over views, some padded, with an epilogue."""
    dtype = rng.choice((f32, i32))
    m, n, k = rng.choice((3, 4, 8)), rng.choice((4, 6, 8)), rng.choice((5, 6, 8, 12))
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, REDUCE)
    a = memory(t, 1, dtype, (k, m)) if rng.random() < 0.4 else memory(t, 1, dtype, (m, k))
    a_at = (r, i) if a.arg == (k, m) else (i, r)
    left = t.make(Ops.INDEX, dtype, (a, *a_at))
    b = memory(t, 2, dtype, (k, n))
    if rng.random() < 0.3:
        b = move(memory(t, 2, dtype, (k - 1, n)), Ops.PAD, ((0, 1), (0, 0)))
    total = (left * t.make(Ops.INDEX, dtype, (b, r, j))).reduce(Ops.ADD, r)
    if rng.random() < 0.5:
        total = (total + t.param(3, dtype, n).index(j)).max(0)
    return store(t.param(0, dtype, m * n), total, i, j)


def vector_product(rng: random.Random, t: Table) -> UOp:
    """A matrix times a vector, which all results read."""
    dtype = rng.choice((f32, i32))
    n, k = rng.choice((4, 6, 8)), rng.choice((5, 8, 12))
    i, r = t.range(n, 0), t.range(k, 1, REDUCE)
    matrix = t.make(Ops.INDEX, dtype, (random_view(rng, t, 2, dtype, (n, k)), i, r))
    total = (t.param(1, dtype, k).index(r) * matrix).reduce(Ops.ADD, r)
    return store(t.param(0, dtype, n), total + rng.choice((0, 3)), i)


def reduction(rng: random.Random, t: Table) -> UOp:
    """A few long reductions of one row, over the same range or different ones."""
    dtype = rng.choice((f32, i32))
    rows, n = rng.choice((1, 2, 4)), rng.choice((7, 12, 16, 30))
    i = t.range(rows, 0)
    ranges = [t.range(n, 1 + k, REDUCE) for k in range(rng.choice((1, 1, 2)))]
    results: list[UOp] = []
    for _ in range(rng.choice((1, 2, 3))):
        r = rng.choice(ranges)
        x = t.make(Ops.INDEX, dtype, (random_view(rng, t, len(results) + 1, dtype, (rows, n)), i, r))
        x = x + rng.choice((-20, 0, 20))  # so that 0 is no extremum by chance
        results.append(x.reduce(rng.choice((Ops.ADD, Ops.MAX, Ops.MIN)), r))
    total = results[0]
    for other in results[1:]:
        total = total.alu(rng.choice((Ops.ADD, Ops.MAX)), other)
    return store(t.param(0, dtype, rows), total, i)


def kept_rows(rng: random.Random, t: Table) -> UOp:
    """A chain of rows kept in LOCAL memory, each made of the one before and of sums over it."""
    rows, n = rng.choice((2, 3, 4)), rng.choice((4, 6, 8))
    i, r = t.range(rows, 0), t.range(n, 1, REDUCE)
    x = t.param(1, i32, rows * n).index(i * n + r)
    for number in range(rng.choice((1, 2, 3))):
        row, total = keep(x, r), x.reduce(rng.choice((Ops.ADD, Ops.MAX)), r)
        r = t.range(n, number + 2, REDUCE)
        at = rng.choice((r, r, r, r * -1 + (n - 1)))  # backwards: not in place
        x = read(row, at) * 2 - total
    if rng.random() < 0.3:
        return store(t.param(0, i32, rows), x.reduce(Ops.ADD, r), i)
    u = t.range(n, 9)
    last, total = keep(x, r), x.reduce(Ops.MIN, r)
    return store(t.param(0, i32, rows * n), read(last, u) + total, i, u)


def multiplied_rows(rng: random.Random, t: Table) -> UOp:
    """Rows kept in LOCAL memory, made again in a loop of their own or not, and multiplied by a matrix: attention."""
    rows, n, columns = rng.choice((2, 4)), rng.choice((4, 6, 8)), rng.choice((2, 4, 6))
    i, r, s = t.range(rows, 0), t.range(n, 5, REDUCE), t.range(n, 4)
    j, c = t.range(n, 3, REDUCE), t.range(columns, 2)
    x = t.param(1, i32, rows * n).index(i * n + r)
    row, total = keep(x, r), x.reduce(rng.choice((Ops.ADD, Ops.MAX)), r)
    if rng.random() < 0.7:
        row = keep(read(row, s) * 2 - total, s)
    sums = (read(row, j) * t.param(2, i32, n * columns).index(j * columns + c)).reduce(Ops.ADD, j)
    value = sums + total if rng.random() < 0.5 else sums
    return store(t.param(0, i32, rows * columns), value, i, c)


def scatter(rng: random.Random, t: Table) -> UOp:
    """Rows added in order to places that data decides."""
    rows, n = rng.choice((3, 5)), rng.choice((4, 8))
    i, j = t.range(rows, 0), t.range(n, 1)
    where = t.param(1, i32, rows).index(i).cast(dtypes.index) % 4
    place = t.param(0, i32, 4 * n).index(where * n + j)
    x = t.param(2, i32, rows * n).index(i * n + j)
    value = place * 3 + x if rng.random() < 0.7 else x
    return t.sink(place.store(value).end(i, j))


def two_stores(rng: random.Random, t: Table) -> UOp:
    """Sums of rows and the rows themselves, shifted, to two buffers."""
    rows, n = rng.choice((2, 4)), rng.choice((4, 6))
    i, r, j = t.range(rows, 0), t.range(n, 1, REDUCE), t.range(n, 2)
    a = t.param(2, i32, rows * n)
    total = a.index(i * n + r).reduce(Ops.ADD, r)
    return t.sink(
        t.param(0, i32, rows * n).index(i * n + j).store(a.index(i * n + j) - total).end(i, j),
        t.param(1, i32, rows).index(i).store(total).end(i),
    )


def half_matmul(rng: random.Random, t: Table) -> UOp:
    """A product that tensor cores take: 16-bit floats in, 32-bit sums."""
    m, n, k = 16, rng.choice((8, 8, 16)), rng.choice((16, 16, 32))
    f16 = dtypes.float16
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, REDUCE)
    a, b = t.param(1, f16, m * k).index(i * k + r), t.param(2, f16, k * n).index(r * n + j)
    return store(t.param(0, f32, m * n), (a.cast(f32) * b.cast(f32)).reduce(Ops.ADD, r), i, j)


def tiled_matmul(rng: random.Random, t: Table) -> UOp:
    """A product that tensor cores take from LOCAL memory: either operand by rows or by columns, sums kept or made shorter."""
    m, n, k = 64, rng.choice((8, 8, 16)), rng.choice((64, 128))
    f16 = dtypes.float16
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, REDUCE)
    a = t.param(1, f16, m * k).index(rng.choice((i * k + r, r * m + i)))
    b = t.param(2, f16, k * n).index(rng.choice((r * n + j, j * k + r)))
    total = (a.cast(f32) * b.cast(f32)).reduce(Ops.ADD, r)
    if rng.random() < 0.5:
        return store(t.param(0, f32, m * n), total + 1.0, i, j)
    return store(t.param(0, f16, m * n), total.cast(f16), i, j)


def fixed(build: Callable[[Table], UOp]) -> Build:
    return lambda rng, t: build(t)


KERNELS: dict[str, Build] = {
    "random": random_kernel,
    "matmul": matmul,
    "vector product": vector_product,
    "reduction": reduction,
    "kept rows": kept_rows,
    "multiplied rows": multiplied_rows,
    "scatter": scatter,
    "two stores": two_stores,
    "softmax": fixed(softmax),
    "masked attention": fixed(masked_attention),
    "triangle": fixed(triangle),
    "ragged rows": fixed(ragged),
    "softmax, one range": fixed(softmax_one_range),
    "layernorm": fixed(layernorm),
    "cumsum rows": fixed(cumsum_rows),
    "cumsum columns": fixed(cumsum_columns),
    "cumsum repeated": fixed(cumsum_repeated),
    "scan and sum": fixed(scan_and_sum),
    "sum and max": fixed(sum_and_max),
    "crossed": fixed(crossed),
    "transposed tile": fixed(transposed_tile),
}
"""Those that every target takes; the next is slow, for it needs a whole warp."""
KERNELS_FOR_CORES: dict[str, Build] = {"half matmul": half_matmul, "tiled matmul": tiled_matmul}


# -- actions ---------------------------------------------------------------------------------------------------------

Kind = type[Action]
KINDS: tuple[Kind, ...] = tuple(
    kind for kind in kinds().values() if kind is not TensorCore and not issubclass(kind, KeyWalk)
)


def legal_actions(
    rng: random.Random, sink: UOp, target: Target, tries: int, chosen: Sequence[Kind] = KINDS
) -> list[Action]:
    """A random sequence that is not refused."""
    taken: list[Action] = []
    for _ in range(tries):
        action = rng.choice(chosen).drawn(rng, sink, target)
        try:
            after = apply_action(sink, action, target, taken)
        except Refusal:
            continue
        if target.block and local_bytes(after, final=True) > target.local_bytes:
            continue  # the end of the sequence may be here, and would be refused
        sink = after
        taken.append(action)
    return taken


# -- running ---------------------------------------------------------------------------------------------------------


def contents(sink: UOp, seed: int) -> dict[int, Array]:
    """Small whole numbers in every parameter, written ones too: what is not written must stay."""
    rng = np.random.default_rng(seed)
    return {
        node.arg: rng.integers(-4, 5, node.dtype.size).astype(node.dtype.base.numpy)
        for node in sink.toposort()
        if node.op is Ops.DEFINE_GLOBAL and isinstance(node.dtype, PtrDType) and isinstance(node.arg, int)
    }


def results(
    sink: UOp, before: dict[int, Array], machine: pipeline.Machine, *, reverse: bool = False
) -> dict[int, Array]:
    """The parameters after the kernel has run on copies of them."""
    memory_ = {slot: array.copy() for slot, array in before.items()}
    program = lower("kernel", pipeline.run(sink, machine))
    actions = machine.choose(sink) if machine.target.block and reverse else ()
    if any(isinstance(action, NoLocals) for action in actions):
        assert not any(special.is_thread for special in program.specials), "threads after NOLOCALS"
    interpret(program, [memory_[int(p.name.removeprefix("arg"))] for p in program.params], reverse=reverse)
    return memory_


def native_results(
    sink: UOp, before: dict[int, Array], machine: pipeline.Machine, *, reverse: bool = False
) -> dict[int, Array]:
    """The same by machine code, piece of work by piece of work."""
    memory_ = {slot: array.copy() for slot, array in before.items()}
    program = lower("kernel", pipeline.run(sink, machine))
    pieces = {special.name: special.bound for special in program.specials}
    module = CompiledModule(llvm.render(program))
    call = module.function("kernel", len(program.params), len(pieces))
    addresses = [memory_[int(p.name.removeprefix("arg"))].ctypes.data for p in program.params]
    counts = [bound.value for bound in pieces.values() if isinstance(bound, Immediate)]
    for numbers in np.ndindex(*(int(count) for count in counts if isinstance(count, int))):
        call(*addresses, *numbers)
    return memory_


@dataclass(slots=True)
class Mistake:
    """A sequence of actions that changed a result, or that the stages could not take."""

    kernel: str
    target: str
    actions: list[Action]
    what: str

    def __str__(self) -> str:
        return f"{self.kernel} on {self.target}: {print_schedule(self.actions)}: {self.what}"


def fuzz(
    seed: int,
    *,
    kernels: Sequence[str] = tuple(KERNELS),
    targets: Sequence[Target] = CPUS + GPUS,
    chosen: Sequence[Kind] = KINDS,
    tries: int = 12,
    counts: Counter[Kind] | None = None,
    run: Callable[..., dict[int, Array]] = results,
) -> Mistake | None:
    """One random kernel, one random sequence; None if the result is what it was. `counts` learns what was applied."""
    rng = random.Random(seed)
    name, target = rng.choice(list(kernels)), rng.choice(list(targets))
    taken: list[Action] = []

    def choose(sink: UOp) -> list[Action]:
        taken[:] = legal_actions(random.Random(seed), sink, target, rng.choice((2, 5, tries)), chosen)
        if counts is not None:
            counts.update(type(action) for action in taken)
        return taken

    with Table() as table:
        sink = (KERNELS | KERNELS_FOR_CORES)[name](rng, table)
        before = contents(sink, seed)
        expected = results(sink, before, pipeline.PLAIN)
        try:
            found = [run(sink, before, pipeline.Machine(target, choose))]
            if target.block:
                found.append(
                    run(sink, before, pipeline.Machine(target, lambda _: tuple(taken)), reverse=True)
                )
        except (PlanishError, AssertionError) as error:
            return Mistake(name, target.name, taken, f"{type(error).__name__}: {error}")
    for given in found:
        for slot, array in expected.items():
            if not np.allclose(given[slot], array, rtol=1e-5, atol=1e-6, equal_nan=True):
                return Mistake(name, target.name, taken, f"slot {slot}: {given[slot]} instead of {array}")
    return None
