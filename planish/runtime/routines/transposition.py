"""Transposition of a matrix in memory, in blocks of eight rows and columns that are exchanged in registers."""

from __future__ import annotations

from typing import Final

from planish.runtime.routines.writer import Emitter, RoutineModule, Term, vector

_BLOCK: Final = 8


def exchanged(f: Emitter, rows: list[Term]) -> list[Term]:
    """Rows of lanes, as many as lanes, become columns."""
    count, step = len(rows), 1
    while step < count:
        columns: list[Term] = [rows[0]] * count
        for i in range(count):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [n if not n & step else count + n - step for n in range(count)]
            high = [n + step if not n & step else count + n for n in range(count)]
            columns[i], columns[i + step] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        rows, step = columns, step * 2
    return rows


def transposing(module: RoutineModule, nbytes: int, *, square: bool = True) -> str:
    """Writes `transpose`. Square: (to, from, n, below): of blocks below the diagonal of `from`, or above. Otherwise (to, from, rows, columns)."""
    third, fourth = ("n", "below") if square else ("rows", "columns")
    given = [("to", "ptr"), ("from", "ptr"), (third, "i64"), (fourth, "i64")]
    f = module.function("transpose", given, internal=True)
    to, source, rows, last = (f.parameter(n) for n in range(4))
    columns, lanes = (rows if square else last), _BLOCK if nbytes <= 8 else 0
    kind = f"i{8 * min(nbytes, 8)}"
    one = vector(kind, 2) if nbytes == 16 else kind

    def single(i: Term, j: Term) -> None:
        f.store(f.load(one, f.at(source, (i * columns + j) * nbytes)), f.at(to, (j * rows + i) * nbytes))

    with f.range(0, rows, _BLOCK) as i, f.range(0, columns, _BLOCK) as j:
        wanted = f.select(last.ne(0), (i >= j), (i <= j)) if square else Term(f, "i1", "true")
        with f.if_(wanted):
            whole = ((i + _BLOCK) <= rows) & ((j + _BLOCK) <= columns)
            with f.choice(whole if lanes else Term(f, "i1", "false")) as inside:
                block = [f.load(vector(kind, _BLOCK), source, (i + n) * columns + j) for n in range(_BLOCK)]
                for n, line in enumerate(exchanged(f, block)):
                    f.store(line, to, (j + n) * rows + i)
                inside.otherwise()
                with (
                    f.range(i, f.least(i + _BLOCK, rows)) as row,
                    f.range(j, f.least(j + _BLOCK, columns)) as column,
                ):
                    single(row, column)
    return "transpose"
