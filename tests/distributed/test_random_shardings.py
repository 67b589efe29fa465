"""Any program under any specs gives what it gives without: random (program, mesh, specs) triples on virtual ranks.

Results that no rounded sum went into must be equal to the bit; of the others, those that only smooth ops lie behind must be near.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from planish import dtypes, ptir
from planish.ptir.function import Program, Value
from planish.ptir.ops.definition import REGISTRY, OpKey
from planish.ptir.passes import DEFAULT_PIPELINE, PassManager
from planish.ptir.passes.inline import InlinePass
from planish.ptir.passes.partition import partitioned
from planish.ptir.sharding.propagate import mesh_of
from planish.ptir.verify import verify
from tests.distributed.sharded_programs import random_triple, run_parts
from tests.ptir.generate import COLLECTIVES, ROUNDING, random_inputs

BATCHES, SIZE = 20, 105
ROUNDED = (
    ROUNDING | {op.name for op in REGISTRY.values() if op.key in (OpKey.LINALG, OpKey.FFT)} | {"scatter"}
)
"""Ops whose float results may depend on how their operands are cut."""
SMOOTH = {
    "add",
    "sub",
    "neg",
    "sharding",
    "abs",
    "max",
    "min",
    "reduce_max",
    "reduce_min",
    "sin",
    "cos",
    "tanh",
    "erf",
}
MOVES = {
    "transpose",
    "reshape",
    "broadcast_to",
    "slice",
    "reverse",
    "concat",
    "select",
    "sharding",
    "dynamic_slice",
}


def judged(program: Program) -> list[str]:
    """For each result of a program: `bits`, `near`, or `any` where a small difference may become large."""
    copy = program.clone()
    InlinePass().run(copy)
    if any(inst.op.name == "call" for inst in copy.entry.walk()):
        return ["any"] * len(copy.entry.results)
    found: dict[Value, str] = {}
    worst = {"bits": 0, "near": 1, "any": 2}
    for inst in copy.entry:
        inner = [i for region in inst.regions for i in region.walk()]
        reads = [*inst.operands, *(v for i in inner for v in i.operands)]
        state = max((found.get(value, "bits") for value in reads), key=worst.__getitem__, default="bits")
        names = {inst.op.name, *(i.op.name for i in inner)}
        inexact = any(v.type.dtype.is_float or v.type.dtype.is_complex for v in reads)
        if state != "bits" and not names <= SMOOTH | MOVES:
            state = "any"
        elif state == "bits" and names & ROUNDED and inexact:
            state = "any" if inst.op.key is OpKey.LINALG or inst.regions else "near"
        found.update(dict.fromkeys(inst.results, state))
    return [found.get(value, "bits") for value in copy.entry.results]


def near(wanted: np.ndarray, got: np.ndarray) -> bool:
    dtype = dtypes.from_numpy(wanted.dtype)
    if not (dtype.is_float or dtype.is_complex):
        return True
    wide = np.complex128 if dtype.is_complex else np.float64
    part = dtypes.float_format({"c64": dtypes.float32, "c128": dtypes.float64}.get(dtype.short, dtype))
    step = 2.0 ** (1 - part.precision)
    largest = float(np.finfo(np.float32 if dtype.short in ("c64", "f32") else wide).max)
    with np.errstate(all="ignore"):
        a, b = (np.atleast_1d(array.astype(wide)).view(np.float64) for array in (wanted, got))
        finite = np.isfinite(a) & np.isfinite(b)
        # sums of large numbers may cancel: the error is one of their size
        scale = max(1.0, float(np.abs(a[finite]).max(initial=0)))
        if scale > largest / 1e6 or dtype.itemsize < 4:
            # near the end of the range one order of a sum overflows, and another does not
            return bool(np.all(np.abs(a - b)[finite] <= 64 * step * scale))
        same = finite | (np.isnan(a) & np.isnan(b)) | (a == b)
        return bool(same.all() and np.all(np.abs(a - b)[finite] <= 64 * step * scale))


def test_near_sees_infinities_and_large_numbers():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    assert near(x, x * np.float32(1 + 1e-7))
    assert not near(x, x + np.float32(0.01))
    assert not near(x, np.array([1, 2, np.inf], np.float32))
    assert not near(np.array([1, 2, np.nan], np.float32), x)
    assert not near(np.array([1, 2, np.inf], np.float32), np.array([1, 2, -np.inf], np.float32))
    assert not near(x * np.float32(1e22), x * np.float32(1.1e22))
    assert near(x * np.float32(1e22), x * np.float32(1e22 * (1 + 1e-7)))


def check(seed: int, counts: Counter[str]) -> None:
    triple = random_triple(seed)
    if mesh_of(triple.program) is None:
        return
    inputs = random_inputs(triple.plain, seed)
    wanted = ptir.interpret(triple.plain, inputs)
    function = partitioned(triple.program)
    verify(Program([function]))
    got = run_parts(function, inputs)
    if seed % 4 == 0:  # what canonicalize leaves is the same, to the bit
        folded = Program([function.clone()])
        PassManager.parse(DEFAULT_PIPELINE).run(folded)
        for a, b in zip(got, run_parts(folded.entry, inputs), strict=True):
            assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True), f"seed {seed}, folded"
    counts["triples"] += 1
    for kind, a, b in zip(judged(triple.plain), wanted, got, strict=True):
        counts[kind] += 1
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if kind == "bits":
            assert a.tobytes() == b.tobytes(), f"seed {seed}\n{a!r}\n{b!r}"
        elif kind == "near":
            assert near(a, b), f"seed {seed}\n{a!r}\n{b!r}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_partitioned_programs_give_the_same(batch):
    counts: Counter[str] = Counter()
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        check(seed, counts)
    assert counts["triples"] > 0.9 * SIZE
    assert counts["bits"] > counts["any"]


def test_enough_is_tried():
    """Every op of PTIR, and every collective that cutting can need; of what the batches run, whoever runs them."""
    triples = [
        triple for triple in map(random_triple, range(BATCHES * SIZE)) if mesh_of(triple.program) is not None
    ]
    assert len(triples) >= 2000
    tried = {inst.op.name for triple in triples for function in triple.plain for inst in function.walk()}
    needed = set(COLLECTIVES) - {"broadcast", "sharding", "to_device"}
    for triple in triples:
        if needed <= tried:
            break
        tried |= {inst.op.name for inst in partitioned(triple.program).walk()} & needed
    assert set(REGISTRY) - tried == {"return", "sharding", "to_device", "broadcast"}


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(40))
def test_many_more(batch):
    counts: Counter[str] = Counter()
    for seed in range(100_000 + 250 * batch, 100_000 + 250 * (batch + 1)):
        check(seed, counts)
