"""Infix text reads like Python, evaluates back to the same node, and never grows beyond its limit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from planish import dtypes
from planish.uop.infix import infix, leaf_names, number_text
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.uop.reading import read, standard_leaves


@pytest.fixture
def table() -> Iterator[Table]:
    with Table() as made:
        yield made


@pytest.fixture
def leaves(table: Table) -> dict[str, UOp]:
    return standard_leaves(table)


# Text that must come back exactly: canonical spacing, no needless parentheses, no missing ones.
EXACT = """
a
5
True
-3
a + b * 4
(a + b) * 4
a - (b - c)
a - b - c
a // 4 * 4 + a % 4
a % (b + 1)
-a * b
-(a * b)
(-f) ** g
-f ** g
f ** -g
(f ** g) ** float32(h)
f ** g ** float32(h)
3 - a
7 // d
int32(2) ** i
int32(1) << i
i << 2 & 7 | j ^ k
i & (j | k)
~p & q
~(p & q)
a < b
a + 1 <= b * 2
(a < b) & (c < d)
3 < a
eq(a, 3)
ne(f, g)
max(a, min(b, 3))
where(a < 3, f, 0.0)
where(True, f, g)
where(p, float32(1.0), float32(0.0))
float32(i) + f
int32(index(5)) + i
-int32(5)
int32(3) + int32(4)
f / 3.0 + -0.0
f * inf
h + 0.1
sqrt(f)
truncdiv(i, 3)
mulacc(f, g, 1.0)
z * complex(1.0, -0.0)
F4 + float32x4(1.0, 2.0, 3.0, 4.0)
F4 * 2.0
float32x4(1.5)
where(P4, F4, G4)
gep(F4, 0, 2)
vectorize(f, 1.0, g)
cat(F4, G4)
bitcast(f, int32)
bitcast(I4, uint8x16)
where(a < 3, a, INVALID)
invalid(int32)
get(data0, a * 4 + 1)
get(data0, a, p)
load(at(data0, 3))
load(at(data0, a), float32(0.0), p)
store(at(data0, a), f)
store(at(data0, a), float32(1.0), p)
reduce_add(get(data0, R0), R0)
reduce_max(F4, lanes=2)
after(acc0, store(at(acc0, 0), f), L0)
end(store(at(data0, L0), f), L0)
sink(group(store(at(data0, a), f)), noop())
gidx0 * 8 + lidx0
"""


@pytest.mark.parametrize("text", EXACT.split("\n")[1:-1])
def test_text_comes_back(text: str, table: Table, leaves: dict[str, UOp]) -> None:
    node = read(text, table, leaves)
    assert infix(node, {n: name for name, n in leaves.items()}) == text


def test_leaves_are_named_uniquely(table: Table) -> None:
    first, second = table.range(4, 0), table.range(8, 0)
    x = table.variable("L0", 0, 9)
    buffer = table.param(3, dtypes.float32, 8)
    node = (first + second) * x
    names = leaf_names(buffer.index(node))
    assert sorted(names.values()) == ["L0", "L0_2", "L0_3", "data3"]
    assert len(set(names)) == 4
    text = infix(node)
    assert read(text, table, {name: leaf for leaf, name in leaf_names(node).items()}) is node


def test_ranges_print_by_axis(table: Table) -> None:
    node = table.range(4, (1, 0), AxisType.REDUCE) + table.range(4, 2, AxisType.GLOBAL)
    assert infix(node) == "R1_0 + g2"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, dtypes.float64, "0.1"),
        (0.10000000149011612, dtypes.float32, "0.1"),
        (0.0999755859375, dtypes.float16, "0.1"),
        (-0.0, dtypes.float32, "-0.0"),
        (float("-inf"), dtypes.float16, "-inf"),
        (3.4028234663852886e38, dtypes.float32, "3.4028235e+38"),
        (1e-45, dtypes.float32, "1e-45"),
    ],
)
def test_floats_are_as_short_as_their_dtype_allows(value: float, dtype: dtypes.DType, text: str) -> None:
    exact = dtype.const(value)
    assert number_text(exact, dtype) == text
    assert dtype.const(float(text)) == exact


def test_depth_and_sharing_end_at_the_limit(table: Table) -> None:
    x = table.variable("x", 0, 1)
    for _ in range(10_000):
        x = x + 1
    assert infix(x, limit=100).endswith("…")
    assert len(infix(x, limit=100)) == 101
    shared = table.variable("y", 0, 1)
    for _ in range(200):  # 2**200 leaves, written out
        shared = shared + shared
    assert len(infix(shared, limit=1000)) == 1001


def test_random_expressions_read_back(table: Table, leaves: dict[str, UOp]) -> None:
    rng = random.Random(7)
    binary = [
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.FLOORDIV,
        Ops.FLOORMOD,
        Ops.MAX,
        Ops.AND,
        Ops.XOR,
        Ops.SHL,
        Ops.POW,
    ]
    names = {node: name for name, node in leaves.items()}
    for _ in range(300):
        pool = [leaves["i"], leaves["j"], *(table.const(v, dtypes.int32) for v in (-2, 0, 3))]
        for _ in range(12):
            x, y = rng.choice(pool), rng.choice(pool)
            kind = rng.random()
            if kind < 0.7:
                made = x.alu(rng.choice(binary), y)
            elif kind < 0.85:
                made = x.alu(rng.choice([Ops.NEG, Ops.NOT, Ops.ABS]))
            else:
                made = x.alu(rng.choice([Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ]), y).where(x, y)
            pool.append(made)
        assert read(infix(pool[-1], names), table, leaves) is pool[-1]
