"""Factorisations of many small real matrices: as many at once as a vector has lanes, every operation on one number of all of them.

Matrices are lines of memory, whose numbers become vectors (`lines`); matrices of up to `LARGEST` numbers, sizes known when a
routine runs. Lanes without a matrix hold anything. What cannot be factorised becomes NaN, lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from planish.records import dataclass
from planish.runtime.routines.lines import line_functions
from planish.runtime.routines.sorting import address, word
from planish.runtime.routines.writer import Emitter, RoutineModule, RoutineVariable, Term, vector

LARGEST: Final = 256
_KINDS: Final = {"float32": ("float", 16), "float64": ("double", 8)}
Index: TypeAlias = Term | int


@dataclass(slots=True)
class Matrices:
    """A matrix of each lane."""

    f: Emitter
    kind: str
    lanes: int
    memory: Term
    across: Index
    """From a row to the next, in numbers."""
    down: Index = 1
    """From a column to the next."""

    def place(self, row: Index, column: Index) -> Term:
        f = self.f
        number = f.value(row, "i64") * self.across + f.value(column, "i64") * self.down
        return f.at(self.memory, number * self.lanes, self.kind)

    def __getitem__(self, at: tuple[Index, Index]) -> Term:
        return self.f.load(vector(self.kind, self.lanes), self.place(*at))

    def __setitem__(self, at: tuple[Index, Index], value: Term) -> None:
        self.f.store(value, self.place(*at))

    def transposed(self) -> Matrices:
        return Matrices(self.f, self.kind, self.lanes, self.memory, self.down, self.across)


class MatrixGroup:
    """The routine over groups of matrices: memory for them, and the way there and back."""

    def __init__(self, module: RoutineModule, dtype: str) -> None:
        self.kind, self.lanes = _KINDS[dtype]
        line_functions(module, self.kind, self.lanes)
        self.f = module.function("routine", [("args", "ptr"), ("chunk", "i64")], contract=True)
        self.wide = vector(self.kind, self.lanes)
        self.begin = self.lines = self.f.value(0, "i64")

    def matrices(self, columns: Index) -> Matrices:
        """Room for one per lane."""
        return Matrices(self.f, self.kind, self.lanes, self.f.stack(self.wide, LARGEST), columns)

    @contextmanager
    def each(self, batch: Term, chunks: Term) -> Iterator[None]:
        """The groups of the chunk at hand."""
        f, chunk = self.f, self.f.parameter(1)
        groups = (batch + (self.lanes - 1)) // self.lanes
        with f.range(chunk * groups // chunks, (chunk + 1) * groups // chunks) as group:
            self.begin = group * self.lanes
            self.lines = f.least(batch - self.begin, self.lanes)
            yield

    def load(self, into: Matrices, x: Term, size: Term) -> None:
        """Matrices of so many numbers."""
        f, zero, one = self.f, self.f.value(0, "i64"), self.f.value(1, "i64")
        given = (f.at(x, self.begin * size, self.kind), size, size, self.lines, one, zero, zero)
        f.call("load_rows", "void", into.memory, *given)

    def store(self, out: Term, source: Matrices, size: Term) -> None:
        f, zero, one = self.f, self.f.value(0, "i64"), self.f.value(1, "i64")
        given = (size, size, self.lines, one, zero, zero, f.value(1.0, self.kind))
        f.call("store_rows", "void", f.at(out, self.begin * size, self.kind), source.memory, *given)

    def number(self, value: float) -> Term:
        return self.f.value(value, self.wide)

    def less(
        self, start: Term, a: Matrices, row: Index, b: Matrices, column: Index, ends: tuple[Index, Index]
    ) -> Term:
        """`start` less the product of a row of one and a column of the other, from and to a number."""
        rest = self.f.variable(self.wide, start)
        with self.f.range(*ends) as k:
            rest.set(rest.now - a[row, k] * b[k, column])
        return rest.now

    def flags(self) -> RoutineVariable:
        """A bool of each lane."""
        return self.f.variable(vector("i1", self.lanes), -1)


def cholesky(module: RoutineModule, dtype: str, triangle: str) -> None:
    """Of (x, out; batch, n, chunks)."""
    g = MatrixGroup(module, dtype)
    f = g.f
    x, out = address(f, 0), address(f, 1)
    batch, n, chunks = (word(f, k) for k in range(2, 5))
    given = g.matrices(n)
    a = given if triangle == "lower" else given.transposed()
    with g.each(batch, chunks):
        g.load(given, x, n * n)
        sound = g.flags()
        with f.range(0, n) as i, f.range(0, i + 1) as j:
            sound.set(sound.now & (a[i, j] * 0.0).eq(0.0))
        columns = a.transposed()
        with f.range(0, n) as j:
            rest = g.less(a[j, j], a, j, columns, j, (0, j))
            sound.set(sound.now & (rest > 0.0))
            root = f.call(f"llvm.sqrt.v{g.lanes}f{32 if g.kind == 'float' else 64}", g.wide, rest)
            a[j, j] = root
            with f.range(j + 1, n) as i:
                a[i, j] = g.less(a[i, j], a, i, columns, j, (0, j)) / root
                a[j, i] = g.number(0.0)
        with f.range(0, n) as i, f.range(0, i + 1) as j:
            a[i, j] = f.select(sound.now, a[i, j], g.number(float("nan")))
        g.store(out, given, n * n)


def triangular_solve(
    module: RoutineModule, dtype: str, side: str, triangle: str, transform: str, diagonal: str
) -> None:
    """Of (a, b, out; batch, n, rows, columns, chunks)."""
    g = MatrixGroup(module, dtype)
    f = g.f
    given, right, out = (address(f, k) for k in range(3))
    batch, n, rows, columns, chunks = (word(f, k) for k in range(3, 8))
    first, second = g.matrices(n), g.matrices(columns)
    # x · a = b is aᵀ · xᵀ = bᵀ
    turned = (transform != "none") != (side == "right")
    lower = (triangle == "lower") != turned
    a = first.transposed() if turned else first
    x, count = (second, columns) if side == "left" else (second.transposed(), rows)
    with g.each(batch, chunks):
        g.load(first, given, n * n)
        g.load(second, right, rows * columns)
        with f.range(0, n) as step:
            row = step if lower else n - 1 - step
            ends: tuple[Index, Index] = (0, row) if lower else (row + 1, n)
            with f.range(0, count) as column:
                rest = g.less(x[row, column], a, row, x, column, ends)
                x[row, column] = rest if diagonal == "unit" else rest / a[row, row]
        g.store(out, second, rows * columns)


def qr(module: RoutineModule, dtype: str) -> None:
    """Of (x, q, r; batch, m, n, k, chunks): by Householder's reflections, k columns of q."""
    g = MatrixGroup(module, dtype)
    f = g.f
    x, to_q, to_r = (address(f, i) for i in range(3))
    batch, m, n, k, chunks = (word(f, i) for i in range(3, 8))
    a, q = g.matrices(n), g.matrices(k)
    factors = Matrices(f, g.kind, g.lanes, f.stack(g.wide, 2 * LARGEST), 1)
    least = f.least(m, n)
    with g.each(batch, chunks):
        g.load(a, x, m * n)
        sound = g.flags()
        with f.range(0, m) as i, f.range(0, n) as j:
            sound.set(sound.now & (a[i, j] * 0.0).eq(0.0))
        with f.range(0, least) as j:
            factors[j, 0] = _reflect(g, a, j, m)
            with f.range(j + 1, n) as column:
                _apply(g, a, j, m, factors[j, 0], a, column)
        with f.range(0, m) as i, f.range(0, k) as j:
            q[i, j] = f.splat(f.convert(i.eq(j), g.kind, "uitofp"), g.lanes)
        with f.range(least - 1, 0, -1) as j, f.range(j, k) as column:
            _apply(g, a, j, m, factors[j, 0], q, column)
        nan = g.number(float("nan"))
        with f.range(0, m) as i, f.range(0, k) as j:
            q[i, j] = f.select(sound.now, q[i, j], nan)
        g.store(to_q, q, m * k)
        with f.range(0, k) as i, f.range(0, n) as j:
            a[i, j] = f.select(sound.now, f.select(f.splat(j < i, g.lanes), g.number(0.0), a[i, j]), nan)
        g.store(to_r, a, k * n)


def _reflect(g: MatrixGroup, a: Matrices, j: Term, m: Term) -> Term:
    """Column j becomes what is left of it and, below, the reflection that leaves it; the factor of that.

    Numbers are divided by the largest first: no square is too large or too small.
    """
    f = g.f
    largest = f.variable(g.wide, 0.0)
    absolute = f"llvm.fabs.v{g.lanes}f{32 if g.kind == 'float' else 64}"
    with f.range(j + 1, m) as i:
        size = f.call(absolute, g.wide, a[i, j])
        largest.set(f.select(size > largest.now, size, largest.now))
    alpha = a[j, j]
    some = largest.now > 0.0
    size = f.call(absolute, g.wide, alpha)
    top = f.select(size > largest.now, size, largest.now)
    scale = f.select(top > 0.0, top, g.number(1.0))
    total = f.variable(g.wide, 0.0)
    with f.range(j, m) as i:
        part = a[i, j] / scale
        total.set(total.now + part * part)
    root = f.call(f"llvm.sqrt.v{g.lanes}f{32 if g.kind == 'float' else 64}", g.wide, total.now) * scale
    beta = f.select(alpha < 0.0, root, -root)
    apart = f.select(some, alpha - beta, g.number(1.0))
    with f.range(j + 1, m) as i:
        a[i, j] = f.select(some, a[i, j] / apart, g.number(0.0))
    a[j, j] = f.select(some, beta, alpha)
    return f.select(some, (beta - alpha) / f.select(some, beta, g.number(1.0)), g.number(0.0))


def _apply(g: MatrixGroup, a: Matrices, j: Term, m: Term, factor: Term, to: Matrices, column: Term) -> None:
    """A reflection of column j of one, to a column of the other."""
    f = g.f
    product = f.variable(g.wide, to[j, column])
    with f.range(j + 1, m) as i:
        product.set(product.now + a[i, j] * to[i, column])
    scaled = product.now * factor
    to[j, column] = to[j, column] - scaled
    with f.range(j + 1, m) as i:
        to[i, column] = to[i, column] - a[i, j] * scaled
