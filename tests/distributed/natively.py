"""One rank of a test, in machine code: random collectives held against the interpreter, random triples of program, mesh and specs against the program without specs, and a pipeline in training.

    mpirun -n 4 python -m tests.distributed.natively 50 [SEED]

Every rank makes the same programs and the inputs of all ranks from the seed, and runs its own part natively.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator

import numpy as np

import planish as pn
from planish import compiler, distributed, ptir
from planish.ptir.function import Program
from planish.ptir.ops.collective import MeshAxes, group_size
from planish.ptir.passes import DEFAULT_PIPELINE, PassManager
from planish.ptir.passes.partition import partitioned
from planish.ptir.sharding.propagate import mesh_of
from tests.distributed import test_pipeline
from tests.distributed.sharded_programs import Triple, cut, random_triple
from tests.distributed.test_random_shardings import judged, near
from tests.ptir.generate import random_inputs

_DTYPES = ("float32", "float64", "int8", "int32", "int64", "uint16", "bool", "float16", "complex64")
_MESHES: dict[int, list[MeshAxes]] = {
    1: [(("a", 1),)],
    2: [(("a", 2),), (("a", 2), ("b", 1)), (("a", 1), ("b", 2))],
    4: [(("a", 4),), (("a", 2), ("b", 2)), (("a", 1), ("b", 4)), (("a", 2), ("b", 1), ("c", 2))],
}


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 50, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if dtype.startswith("float") and rng.random() < 0.3 and values.size:
        values.flat[rng.integers(values.size)] = np.nan
    if dtype == "complex64":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _program(rng: np.random.Generator, ranks: int) -> tuple[ptir.Function, str, tuple[int, ...]]:
    """A few collectives, some one after another and some beside each other, with arithmetic between them; all values are results."""
    mesh = _MESHES[ranks][rng.integers(len(_MESHES[ranks]))]
    names = [name for name, _ in mesh]
    dtype = str(rng.choice(_DTYPES))
    numeric = dtype != "bool"
    rank = int(rng.integers(1, 4))
    shape = tuple(int(4 * rng.integers(1, 4)) for _ in range(rank))
    graph = ptir.Graph("program")
    x = graph.input("x", ptir.tensor(dtype, shape))
    values = [x]
    for _ in range(int(rng.integers(1, 6))):
        x = values[rng.integers(len(values))]
        rank = x.type.rank
        over = tuple(rng.permutation(names)[: rng.integers(1, len(names) + 1)].tolist())
        count = group_size(mesh, over)
        axis, other = (int(n) for n in rng.integers(0, rank, 2))
        match rng.integers(7):
            case 0:
                kinds = ["sum", "prod"] if numeric else ["and", "or"]
                kinds += ["max", "min"] if dtype != "complex64" else []
                x = x.all_reduce(mesh, over, str(rng.choice(kinds)))
            case 1:
                x = x.all_gather(mesh, over, axis)
            case 2:
                if x.type.shape[axis] % count == 0 and numeric:
                    x = x.reduce_scatter(mesh, over, axis, "sum")
            case 3:
                if x.type.shape[axis] % count == 0:
                    x = x.all_to_all(mesh, over, axis, other)
            case 4:
                places = rng.permutation(count)[: rng.integers(1, count + 1)]
                x = x.permute(
                    mesh, over, tuple(zip(rng.permutation(count).tolist(), places.tolist(), strict=False))
                )
            case 5:
                x = x.broadcast(mesh, over, int(rng.integers(count)))
            case _:
                if dtype in ("float32", "float64", "int32", "int64"):
                    x = x + graph.mesh_index(mesh, over).cast(dtype).broadcast_to(x.type.shape)
        if dtype in ("float32", "int32"):
            x = x + x
        if dtype in ("float32", "int32") and rng.random() < 0.3 and x.type.size <= 4096:
            x = x + x.reduce_max([x.type.rank - 1], keepdims=True).broadcast_to(x.type.shape)
        values.append(x)
    return graph.build(*values), dtype, shape


def _triples(ranks: int) -> Iterator[tuple[int, Triple]]:
    """Random triples whose mesh has so many ranks, and their seeds."""
    for seed in itertools.count(1):
        triple = random_triple(seed)
        if math.prod([size for _, size in triple.mesh]) == ranks and mesh_of(triple.program) is not None:
            yield seed, triple


def _check_triple(seed: int, triple: Triple, rank: int) -> None:
    """The part of this rank is that of what the program gives by itself, both in machine code."""
    inputs = random_inputs(triple.plain, seed)
    program = Program([partitioned(triple.program)])
    PassManager.parse(f"{DEFAULT_PIPELINE},combine").run(program)
    layout = program.entry.layout
    assert layout is not None
    given = [np.array(cut(x, layout.mesh, spec, rank)) for x, spec in zip(inputs, layout.params, strict=True)]
    with pn.settings(threads=1):
        wanted = compiler.compile(triple.plain)(*inputs)
        got = compiler.compile(program.entry)(*given)
    for kind, whole, mine, spec in zip(judged(triple.plain), wanted, got, layout.results, strict=True):
        part, own = np.array(cut(np.asarray(whole), layout.mesh, spec, rank)), np.asarray(mine)
        assert (part.shape, part.dtype) == (own.shape, own.dtype), f"seed {seed}"
        if kind == "bits":
            same = part.tobytes() == own.tobytes()
            assert same or np.array_equal(part, own, equal_nan=True), f"seed {seed}\n{part!r}\n{own!r}"
        elif kind == "near":
            assert near(part, own), f"seed {seed}\n{part!r}\n{own!r}"


def main(count: int, seed: int) -> int:
    """How many programs were run; a difference is an exception, which ends all ranks."""
    here = distributed.init(timeout=60)
    for number, triple in itertools.islice(_triples(here.size), count):
        _check_triple(number, triple, here.rank)
    rng = np.random.default_rng(seed)
    for number in range(count // 2):
        function, dtype, shape = _program(rng, here.size)
        inputs = [[_values(rng, dtype, shape)] for _ in range(here.size)]
        wanted = ptir.interpret_ranks(function, inputs)[here.rank]
        with pn.settings(threads=1):
            got = compiler.compile(function)(*inputs[here.rank])
        text = ptir.print(function)
        exact = np.dtype(dtype).kind in "iub" or "reduce" not in text
        for mine, theirs in zip(got, wanted, strict=True):
            if exact:
                np.testing.assert_array_equal(
                    mine, theirs, err_msg=f"program {number} of seed {seed}\n{text}"
                )
            else:
                kind = np.dtype("complex64" if dtype == "complex64" else dtype)
                bound = 64 * np.finfo(kind).eps
                np.testing.assert_allclose(
                    mine,
                    theirs,
                    rtol=bound,
                    atol=bound * 8,
                    err_msg=f"program {number} of seed {seed}\n{text}",
                )
    if here.size == test_pipeline.MESH.size:  # and a pipeline is trained, by machine code
        test_pipeline.test_stages_in_turn()
        test_pipeline.test_training()
    here.barrier()
    if here.rank == 0:
        print(f"{count} triples and {count // 2} programs of collectives on {here.size} ranks agree")
    return count


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
