"""Random well-typed programs over all ops, and inputs to run them on.

`programs()` is a hypothesis strategy; `random_program(seed)` gives the same kind of program from a plain seed. They
hold regions that see outer values, calls, named sizes, constants of every dtype with odd values, duplicated
subexpressions, identities such as x + 0, and dead code. `random_inputs(program, seed)` are arrays for the entry. Names
of values and locations are sprinkled in.

`exclude` leaves ops out by name (`LOOPS`, `HOST` and `ROUNDING` are useful sets); nothing else about a program is
promised beyond that it verifies and that every run of it ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from planish.ptir.function import Function, Program
from planish.ptir.ops.definition import REGISTRY, OpKey
from tests.ptir.generate_core import Drawn, Generator, Maker, Seeded
from tests.ptir.generate_ops import MAKERS
from tests.ptir.ops_testing import samples

LOOPS = frozenset({"while", "scan"})
HOST = frozenset(op.name for op in REGISTRY.values() if op.host)
COLLECTIVES = frozenset(op.name for op in REGISTRY.values() if op.key is OpKey.COLLECTIVE)
"""Ops between ranks: programs have them only if asked to, over a mesh of one rank."""
ROUNDING = frozenset(
    {"dot_general", "convolution", "reduce_sum", "reduce_prod", "cumsum", "cumprod", "reduce_window"}
)
"""Ops whose float result depends on the order of evaluation."""


def makers(exclude: Iterable[str], ranked: bool = False) -> list[Maker]:
    """What makes the ops that are not left out."""
    left_out = set(exclude) if ranked else {*exclude, *COLLECTIVES}
    return [make for name, make in MAKERS.items() if name not in left_out]


def random_program(
    seed: int, size: int = 20, exclude: Iterable[str] = (), *, ranked: bool = False
) -> Program:
    """A program that depends on the seed alone; `ranked`: with collectives."""
    return Generator(Seeded(random.Random(seed)), size, makers(exclude, ranked)).program()


@st.composite
def programs(draw, size: int = 12, exclude: Iterable[str] = ()) -> Program:
    """Random programs that shrink."""
    return Generator(Drawn(draw), draw(st.integers(1, size)), makers(exclude)).program()


def random_inputs(program: Program | Function, seed: int = 0, *, odd: bool = True) -> list[np.ndarray]:
    """Arrays for the entry: small numbers, with odd ones (infinities, NaN, extremes) among them unless told."""
    function = program if isinstance(program, Function) else program.entry
    rng = np.random.default_rng(seed)
    sizes = {
        symbol.name: int(rng.integers(symbol.lo, symbol.hi + 1))
        for param in function.params
        for symbol in param.type.symbols()
    }
    arrays = []
    for param in function.params:
        type = param.type.substitute(sizes)
        values = samples(type.dtype, special=odd)
        values = values if odd or not type.dtype.is_int else values[:5]
        arrays.append(values[rng.integers(0, len(values), type.shape)].reshape(type.shape))
    return arrays


def same_results(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    """Equal shapes, dtypes and bits."""
    return len(left) == len(right) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(left, right, strict=True)
    )
