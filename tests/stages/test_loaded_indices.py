"""No simplification of an index passes what it has from memory: a loop that fills a buffer is in a kernel once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import planish as pn
from planish import compiler, dtypes
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import LOADED, simplify, sym, symbolic

Maker = Callable[[pn.Tensor], pn.Tensor]
BEFORE: tuple[Maker, ...] = (pn.exp, pn.tanh, lambda x: x * 2, lambda x: x)
ORDERED: tuple[Maker, ...] = (
    lambda x: pn.sort(x, axis=1),
    lambda x: pn.argsort(x, axis=1),
    lambda x: pn.cumulative_sum(x, axis=1),
    lambda x: pn.flip(pn.sort(x, axis=1), axis=1),
)
AFTER: tuple[Maker, ...] = (
    lambda y: y[:, 1],
    lambda y: y[:, 1:2] * 2,
    lambda y: y[:, -1],
    lambda y: y[:, :2],
    lambda y: y[::-1],
)


def lower(seed: int) -> None:
    """A random program whose indices come from memory that its kernel fills goes through all stages on all kinds of target."""
    rng = random.Random(seed)
    shape = (rng.randint(1, 40), rng.choice((rng.randint(2, 9), rng.randint(2, 70))))
    before, ordered, after = (rng.choice(makers) for makers in (BEFORE, ORDERED, AFTER))
    function = pn.jit(lambda x: after(ordered(before(x)))).lower(pn.TensorSpec(shape)).function
    with pn.settings(check="spec", cache=False):
        for target in ("x86-64", "x86-64-v4", "dsp", "cuda"):
            compiler.lower(function, TARGETS[target])


@pytest.mark.parametrize("shape", [(6, 3), (16, 18), (4, 22)])
@pytest.mark.parametrize("target", ["x86-64-v4", "cuda"])
def test_one_of_a_sorted_row_is_lowered(shape: tuple[int, int], target: str) -> None:
    function = pn.jit(lambda x: pn.sort(pn.exp(x), axis=1)[:, 1]).lower(pn.TensorSpec(shape)).function
    with pn.settings(check="spec", cache=False):
        compiler.lower(function, TARGETS[target])


@pytest.mark.parametrize("seed", range(6))
def test_indices_from_memory(seed: int) -> None:
    lower(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 400, 20))
def test_many_indices_from_memory(start: int) -> None:
    for seed in range(start, start + 20):
        lower(seed)


def _expression(rng: random.Random, table: Table, leaves: list[UOp], depth: int) -> UOp:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((*leaves, table.const(rng.randint(-3, 9))))
    x, y = (_expression(rng, table, leaves, depth - 1) for _ in range(2))
    match rng.randrange(5):
        case 0:
            return x + y
        case 1:
            return x * rng.choice((0, 1, 2, -1, 8))
        case 2:
            return x // rng.choice((1, 2, 4))
        case 3:
            return x % rng.choice((1, 2, 4))
    return (x < y).where(x, y)


def _load(place: UOp) -> UOp:
    return place.table.make(Ops.LOAD, place.dtype, (place.replace(dtype=place.src[0].dtype),))


@pytest.mark.parametrize("seed", range(200))
def test_what_is_loaded_stays_as_it_is(seed: int) -> None:
    """Below it there is much to simplify, and `rewrite` without the law does."""
    rng = random.Random(seed)
    with Table() as table:
        i, j = table.range(8, 0), table.range(4, 1)
        filled, source = (table.param(slot, dtypes.int32, 64) for slot in range(2))
        clumsy = (j * 2 + j * -1 + 0) * 1
        done = filled.index(clumsy).store(_load(source.index(clumsy + i * 0))).end(j)
        loads = [_load(filled.after(done).index(i + shift * 0)) for shift in (table.const(1), i)]
        value = _expression(rng, table, [i, *(load.cast(dtypes.index) for load in loads)], 4)
        found = simplify(value, rng.choice((sym, symbolic)))
        kept = {node for node in value.toposort() if node.op in LOADED}
        assert {node for node in found.toposort() if node.op in LOADED} <= kept
        again = rewrite(loads[0], sym)
        assert again is not loads[0]
        assert simplify(loads[0]) is loads[0]
