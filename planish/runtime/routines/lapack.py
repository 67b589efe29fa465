"""Factorisations by LAPACK, a matrix at a time: cholesky, triangular_solve, qr, lu.

LAPACK counts columns first, so it sees the transpose of every matrix: a lower triangle is an upper one, the product of an
orthogonal and a triangular matrix is that of a triangular and an orthogonal one. Nothing has to be transposed but for a
Cholesky factor, where LAPACK is faster on lower triangles. What a library cannot factorise is NaN (semantics section 14).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from planish.records import dataclass
from planish.runtime.libraries import PREFIX, wide_integers
from planish.runtime.routines.sorting import address, rows_of, word
from planish.runtime.routines.transposition import transposing
from planish.runtime.routines.writer import Emitter, RoutineModule, Term, vector


@dataclass(frozen=True, slots=True)
class LapackScalar:
    """A dtype as LAPACK knows it."""

    letter: str
    part: str
    """What a number is made of: itself, or one of two parts."""
    parts: int = 1

    @property
    def nbytes(self) -> int:
        return self.parts * (4 if self.part == "float" else 8)


SCALARS: Final = {
    "float32": LapackScalar("s", "float"),
    "float64": LapackScalar("d", "double"),
    "complex64": LapackScalar("c", "float", 2),
    "complex128": LapackScalar("z", "double", 2),
}
_LANES: Final = 8
_LARGE: Final = 100_000_000
"""Multiplications that are worth the threads of the library."""


class Library:
    """Calls of LAPACK: everything by address, lengths of texts at the end."""

    def __init__(self, f: Emitter, scalar: LapackScalar) -> None:
        self.f, self.scalar = f, scalar
        self.info = f.stack("i64")

    def integer(self, value: Term | int) -> Term:
        """An integer by its address: a small one reads the same in 32 bits and in 64."""
        at = self.f.stack("i64")
        self.f.store(self.f.value(value, "i64"), at)
        return at

    def text(self, letter: str) -> Term:
        at = self.f.stack("i8")
        self.f.store(self.f.value(ord(letter), "i8"), at)
        return at

    def one(self) -> Term:
        """The number 1 by its address."""
        at = self.f.stack(self.scalar.part, 2)
        self.f.store(self.f.value(1.0, self.scalar.part), at)
        self.f.store(self.f.value(0.0, self.scalar.part), at, 1)
        return at

    def call(self, name: str, *given: Term | int | str) -> None:
        """A function by its name without the letter; texts and integers as they are."""
        f = self.f
        f.store(f.value(0, "i64"), self.info)
        texts = [f.value(1, "i64") for each in given if isinstance(each, str)]
        ready = [
            self.text(each) if isinstance(each, str)
            else each if isinstance(each, Term) and each.kind == "ptr"
            else self.integer(each)
            for each in given
        ]  # fmt: skip
        f.call(PREFIX + self.scalar.letter + name, "void", *ready, *texts)

    @contextmanager
    def session(self, chunks: Term, threads: Term, work: Term) -> Iterator[None]:
        """Calls in here: on several threads if there is one large piece of work, on one if the pool has many."""
        f = self.f
        alone = f.convert(chunks.eq(1) & (work > _LARGE), "i64", "zext")
        f.call("library_enter", "void", f.select(alone.ne(0), threads, f.value(1, "i64")))
        yield
        f.call("library_leave", "void")

    @property
    def failed(self) -> Term:
        """Whether the last call gave up."""
        return self.f.load("i32", self.info).ne(0)


def is_finite(f: Emitter, kind: str, base: Term, count: Term) -> Term:
    """Whether so many numbers are: times zero they are zero."""
    wide, narrow = f.variable(vector(kind, _LANES), 0.0), f.variable(kind, 0.0)
    whole = count // _LANES * _LANES
    with f.range(0, whole, _LANES) as i:
        wide.add(f.load(vector(kind, _LANES), base, i) * 0.0)
    with f.range(whole, count) as i:
        narrow.add(f.load(kind, base, i) * 0.0)
    lanes = f.bits(wide.now.eq(0.0), f"i{_LANES}").eq(-1)
    return lanes & narrow.now.eq(0.0)


def fill_nan(f: Emitter, scalar: LapackScalar, base: Term, count: Term) -> None:
    """So many numbers become NaN."""
    with f.range(0, count) as i:
        f.store(f.value(float("nan"), scalar.part), base, i * scalar.parts)
        if scalar.parts == 2:
            f.store(f.value(0.0, scalar.part), base, i * 2 + 1)


def cholesky(module: RoutineModule, dtype: str, triangle: str) -> None:
    """Of (x, out, scratch; batch, n, chunks, threads): scratch has a matrix per chunk."""
    scalar = SCALARS[dtype]
    transpose = transposing(module, scalar.nbytes)
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    x, out, scratch = (address(f, k) for k in range(3))
    batch, n, chunks, threads = (word(f, k) for k in range(3, 7))
    library, size = Library(f, scalar), n * n * scalar.nbytes
    row, lower = n * scalar.nbytes, triangle == "lower"
    work = f.at(scratch, f.parameter(1) * size)
    begin, end = rows_of(f, batch, chunks)
    with library.session(chunks, threads, n * n * n // 3), f.range(begin, end) as number:
        source, target = f.at(x, number * size), f.at(out, number * size)
        sound = f.variable("i1", 1)
        with f.range(0, n) as i:
            start, length = (f.value(0, "i64"), i + 1) if lower else (i, n - i)
            held = f.at(f.at(source, i * row), start * scalar.nbytes)
            sound.set(sound.now & is_finite(f, scalar.part, held, length * scalar.parts))
        with f.if_(sound.now):
            if lower:
                f.call(transpose, "void", work, source, n, f.value(1, "i64"))
            else:
                f.copy(target, source, size)
            library.call("potrf", "L", n, work if lower else target, n, library.info)
            sound.set(library.failed.eq(0))
            if lower:
                f.call(transpose, "void", target, work, n, f.value(0, "i64"))
        with f.range(0, n) as i:
            here = f.at(target, i * row)
            start, length = (f.value(0, "i64"), i + 1) if lower else (i, n - i)
            with f.if_(sound.now.eq(0)):
                fill_nan(f, scalar, f.at(here, start * scalar.nbytes), length)
            empty = (i + 1, n - i - 1) if lower else (f.value(0, "i64"), i)
            f.clear(f.at(here, empty[0] * scalar.nbytes), empty[1] * scalar.nbytes)


def triangular_solve(
    module: RoutineModule, dtype: str, side: str, triangle: str, transform: str, diagonal: str
) -> None:
    """Of (a, b, out; batch, n, rows, columns, chunks, threads), rows and columns being those of b."""
    scalar = SCALARS[dtype]
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    a, b, out = (address(f, k) for k in range(3))
    batch, n, rows, columns, chunks, threads = (word(f, k) for k in range(3, 9))
    library = Library(f, scalar)
    begin, end = rows_of(f, batch, chunks)
    size = rows * columns * scalar.nbytes
    with library.session(chunks, threads, n * rows * columns), f.range(begin, end) as number:
        target = f.at(out, number * size)
        f.copy(target, f.at(b, number * size), size)
        matrix = f.at(a, number * (n * n * scalar.nbytes))
        library.call(
            "trsm",
            "R" if side == "left" else "L",
            "U" if triangle == "lower" else "L",
            {"none": "N", "transpose": "T", "adjoint": "C"}[transform],
            "U" if diagonal == "unit" else "N",
            columns, rows, library.one(), matrix, n, target, columns,
        )  # fmt: skip


def qr(module: RoutineModule, dtype: str) -> None:
    """Of (x, q, r, scratch; batch, m, n, k, chunks, room, threads): k columns of q, room bytes of scratch per chunk.

    The transpose has the factors L and Q where the matrix has Q and R: what LAPACK leaves in memory is R, and then Q, row by row.
    """
    scalar = SCALARS[dtype]
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    x, q, r, scratch = (address(f, k) for k in range(4))
    batch, m, n, k, chunks, room, threads = (word(f, i) for i in range(4, 11))
    library, item = Library(f, scalar), scalar.nbytes
    least = f.least(m, n)
    longest = f.select(m < n, n, m)
    own = f.at(scratch, f.parameter(1) * room)
    # q is made where the reflections are: the rows of that have room for both
    width = f.select(k < n, n, k)
    tau = f.at(own, m * width * item)
    work = f.at(tau, longest * item)
    space = longest * 64
    orthogonal = "unglq" if scalar.parts == 2 else "orglq"
    begin, end = rows_of(f, batch, chunks)
    with library.session(chunks, threads, m * n * k), f.range(begin, end) as number:
        source = f.at(x, number * (m * n * item))
        to_q, to_r = f.at(q, number * (m * k * item)), f.at(r, number * (k * n * item))
        with f.choice(is_finite(f, scalar.part, source, m * n * scalar.parts)) as sound:
            with f.range(0, m) as i:
                f.copy(f.at(own, i * width * item), f.at(source, i * n * item), n * item)
            library.call("gelqf", n, m, own, width, tau, work, space, library.info)
            with f.range(0, k) as i:
                here, below = f.at(to_r, i * n * item), f.least(i, n)
                f.clear(here, below * item)
                f.copy(f.at(here, below * item), f.at(own, (i * width + below) * item), (n - below) * item)
            library.call(orthogonal, k, m, least, own, width, tau, work, space, library.info)
            with f.range(0, m) as i:
                f.copy(f.at(to_q, i * k * item), f.at(own, i * width * item), k * item)
            sound.otherwise()
            fill_nan(f, scalar, to_q, m * k)
            fill_nan(f, scalar, to_r, k * n)


def lu(module: RoutineModule, dtype: str) -> None:
    """Of (x, out, order, scratch; batch, m, n, chunks, room, threads): packed factors and the rows they are of.

    LAPACK exchanges rows, which here are columns of the transpose: the matrix is transposed for it, and back.
    """
    scalar = SCALARS[dtype]
    transpose = transposing(module, scalar.nbytes, square=False)
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    x, out, order, scratch = (address(f, k) for k in range(4))
    batch, m, n, chunks, room, threads = (word(f, i) for i in range(4, 10))
    library, item = Library(f, scalar), scalar.nbytes
    own = f.at(scratch, f.parameter(1) * room)
    pivots = f.at(own, m * n * item)
    integer = "i64" if wide_integers() else "i32"
    begin, end = rows_of(f, batch, chunks)
    with library.session(chunks, threads, m * n * n // 2), f.range(begin, end) as number:
        source, target = (f.at(base, number * (m * n * item)) for base in (x, out))
        rows = f.at(order, number * (m * 8))
        with f.choice(is_finite(f, scalar.part, source, m * n * scalar.parts)) as sound:
            with f.range(0, m) as i:
                f.store(i, rows, i)
            with f.if_(m * n > 0):  # LAPACK complains about a matrix without rows
                f.call(transpose, "void", own, source, m, n)
                library.call("getrf", m, n, own, m, pivots, library.info)
                f.call(transpose, "void", target, own, n, m)
            with f.range(0, f.least(m, n)) as i:
                other = f.convert(f.load(integer, pivots, i), "i64") - 1
                here, there = f.load("i64", rows, i), f.load("i64", rows, other)
                f.store(there, rows, i)
                f.store(here, rows, other)
            sound.otherwise()
            fill_nan(f, scalar, target, m * n)
            f.clear(rows, m * 8)
