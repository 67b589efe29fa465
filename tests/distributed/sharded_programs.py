"""Random programs with random specs over random meshes, and what their partitioned form gives put together again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planish.ptir import interpret_ranks, ops
from planish.ptir.function import Function, Program
from planish.ptir.ops.collective import groups_of, place_of
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.sharding.specs import can_cut
from tests.ptir.generate import makers
from tests.ptir.generate_core import Generator, Seeded

MESHES = (
    (("a", 2),), (("a", 2),), (("a", 3),), (("a", 4),), (("a", 2), ("b", 2)), (("a", 2), ("b", 2)), (("a", 1), ("b", 3)),
    (("a", 2), ("b", 3)), (("a", 2), ("b", 1), ("c", 2)),
)  # fmt: skip


@dataclass
class Triple:
    """A program, a mesh and specs that the program holds."""

    plain: Program
    program: Program
    mesh: tuple[tuple[str, int], ...]


class EvenGenerator(Generator):
    """Programs whose sizes can mostly be cut."""

    most_elements = 512

    def a_size(self):
        if self.sizes and self.chance(8):
            return self.pick(self.sizes)
        return self.pick((1, 2, 4, 4, 6, 6, 8, 12, 3))


def random_spec(rng: random.Random, mesh, dims) -> tuple[tuple[str, ...], ...]:
    """A spec that fits a shape; seldom a whole one, if there is another."""
    spec: list[tuple[str, ...]] = [() for _ in dims]
    for name in rng.sample([name for name, _ in mesh], len(mesh)):
        fitting = [axis for axis, dim in enumerate(dims) if can_cut(mesh, dim, (*spec[axis], name))]
        if fitting and rng.random() < 0.8:
            axis = rng.choice(fitting)
            spec[axis] = (*spec[axis], name)
    return tuple(spec)


def random_triple(seed: int, size: int = 8, exclude: Sequence[str] = ()) -> Triple:
    """Specs on most parameters, on some values within, and on some results."""
    rng = random.Random(seed)
    kind = EvenGenerator if rng.random() < 0.8 else Generator
    plain = kind(Seeded(random.Random(seed)), size, makers(exclude)).program()
    program, mesh = plain.clone(), rng.choice(MESHES)
    for function in program:
        rw = ProgramRewriter(function)
        chances = dict.fromkeys(function.values(), 0.15) | dict.fromkeys(function.results, 0.4)
        if function is program.entry:
            chances |= dict.fromkeys(function.params, 0.8)
        for value, chance in chances.items():
            home = value.region
            if value.type.quant is not None and value.type.quant.axis is not None:
                continue
            if rng.random() < chance and value.users and home is not None:
                place = (home.first or home.end) if value.def_inst is None else value.def_inst.next
                attrs = ops.ShardingAttrs(mesh, random_spec(rng, mesh, value.type.dims))
                users = list(value.users)
                made = rw.insert_before(place, ops.sharding, (value,), attrs)
                for user in rng.sample(users, rng.randint(1, len(users))):
                    rw.set_operands(user, [made.result if v is value else v for v in user.operands])
    return Triple(plain, program, mesh)


def cut(array: np.ndarray, mesh, spec, rank: int) -> np.ndarray:
    """What a rank has of an array."""
    for axis, names in enumerate(spec):
        count = len(groups_of(mesh, names)[0]) if names else 1
        array = np.split(array, count, axis)[place_of(mesh, names, rank)]
    return array


def joined(parts: Sequence[np.ndarray], mesh, spec) -> np.ndarray:
    """The array whose parts the ranks have; ranks that have the same part must agree in every bit."""
    dims = [
        size * (len(groups_of(mesh, names)[0]) if names else 1)
        for size, names in zip(parts[0].shape, spec, strict=True)
    ]
    result = np.zeros(dims, parts[0].dtype)
    seen: dict[tuple[int, ...], np.ndarray] = {}
    for rank, part in enumerate(parts):
        where = tuple(place_of(mesh, names, rank) for names in spec)
        if where in seen:
            assert seen[where].tobytes() == part.tobytes(), f"rank {rank} has another copy of part {where}"
        seen[where] = part
        result[tuple(slice(p * n, (p + 1) * n) for p, n in zip(where, part.shape, strict=True))] = part
    return result


def run_parts(function: Function, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a partitioned function on whole inputs, whole again."""
    layout = function.layout
    assert layout is not None
    ranks = int(np.prod([size for _, size in layout.mesh]))
    given = [
        [cut(array, layout.mesh, spec, rank) for array, spec in zip(inputs, layout.params, strict=True)]
        for rank in range(ranks)
    ]
    found = interpret_ranks(function, given)
    return [joined([row[k] for row in found], layout.mesh, spec) for k, spec in enumerate(layout.results)]
