"""Products of matrices of any size: a kernel that was compiled before anybody asked for it.

    routine(out, a, b, …)      out[m, n] = Σ a[m, k] · b[k, n], for matrices side by side

It is called as kernels are: addresses, then the numbers that `NUMBERS` names, then the piece of the work. Rows of `out` lie without
gaps; those of `a` and `b` lie as they like, but for `b` either along its rows or along its columns.

As many columns as four vectors have are copied next to each other (`PANEL` of the sum at a time), where a tile of rows meets them with all
its sums in registers. Every sum starts with what the panel before left and adds one product after the other, so that how work is cut
changes no bit of a result.
"""

from __future__ import annotations

from typing import Final

from planish.runtime.routines.transposition import exchanged
from planish.runtime.routines.writer import Emitter, RoutineModule, RoutineVariable, Term, vector

NUMBERS: Final = (
    "rows", "columns", "inner",
    "out_row", "a_row", "a_inner", "b_other",
    "gathered", "row_piece", "column_piece", "row_pieces", "column_pieces",
    "inner_batches", "out_outer", "a_outer", "b_outer", "out_batch", "a_batch", "b_batch",
    "out_start", "a_start", "b_start",
)  # fmt: skip
"""Sizes; steps in elements (`b_other`: from one row or column of b to the next); how the work is cut; the steps of two axes of batches, and
where each operand begins."""
PARAMETERS: Final = 3
"""out, a and b."""
PANEL: Final = 512
"""How much of a sum meets at a time: the panel of the right operand stays in a second cache."""
ROWS: Final = 96
"""How many rows a piece has at most whose left operand lies across memory: they are copied side by side first."""
_TILES: Final[dict[int, dict[int, tuple[int, ...]]]] = {512: {4: (6, 4, 2, 1), 3: (8, 4, 2, 1), 2: (12, 8, 4, 2, 1), 1: (16, 8, 4, 2, 1)},
                 256: {2: (6, 4, 2, 1), 1: (8, 4, 2, 1)}}  # fmt: skip
"""By the bits of a register and the vectors of a panel: how many rows a tile has, and what is taken for the rows that are left."""
_SIZES: Final = {"float": 4, "double": 8}
_KINDS: Final = {"float32": "float", "float64": "double"}


def vectors(bits: str) -> int:
    """How many vectors a panel has."""
    return max(_TILES[int(bits)])


def product(module: RoutineModule, dtype: str, bits: str, layout: str) -> None:
    """Of a dtype, for registers of so many bits, whose right operand lies along its rows or columns."""
    kind, tiles = _KINDS[dtype], _TILES[int(bits)]
    lanes = int(bits) // 8 // _SIZES[kind]
    most = max(tiles)
    panels = {count: _panel(module, kind, lanes, count, tiles[count], layout) for count in tiles}
    given = [(n, "ptr") for n in ("out", "a", "b")] + [(n, "i64") for n in (*NUMBERS, "piece")]
    f = module.function("routine", given)
    out, a, b = (f.parameter(n) for n in range(3))
    of = {name: f.parameter(3 + n) for n, name in enumerate(NUMBERS)}
    panel, block = f.stack(vector(kind, lanes), PANEL * most), f.stack(kind, PANEL * ROWS)
    piece = f.parameter(len(given) - 1)
    column, rest = piece % of["column_pieces"], piece // of["column_pieces"]
    row, batch = rest % of["row_pieces"], rest // of["row_pieces"]
    inner, outer = batch % of["inner_batches"], batch // of["inner_batches"]
    first, left = row * of["row_piece"], column * of["column_piece"]
    rows = f.least(of["rows"] - first, of["row_piece"])
    end = f.least(left + of["column_piece"], of["columns"])

    def start(name: str) -> Term:
        return of[f"{name}_start"] + outer * of[f"{name}_outer"] + inner * of[f"{name}_batch"]

    out = f.at(out, start("out") + first * of["out_row"], kind)
    a = f.at(a, start("a") + first * of["a_row"], kind)
    b = f.at(b, start("b"), kind)
    with f.range(0, of["inner"], PANEL) as k:
        depth = f.least(of["inner"] - k, PANEL)
        here = f.variable("ptr", f.at(a, k * of["a_inner"], kind))
        steps = [f.variable("i64", of[name]) for name in ("a_row", "a_inner")]
        with f.if_(of["gathered"].ne(0)):
            _gathered(f, kind, lanes, block, here.now, of["a_inner"], rows, depth)
            here.set(block)
            steps[0].set(1)
            steps[1].set(ROWS)
        with f.range(left, end, most * lanes) as j:
            width = f.least(end - j, most * lanes)
            begin = k * of["b_other"] + j if layout == "rows" else j * of["b_other"] + k
            words = (
                f.at(out, j, kind), here.now, f.at(b, begin, kind), panel, rows, width, depth, of["out_row"],
                steps[0].now, steps[1].now, of["b_other"], k,
            )  # fmt: skip
            for count, name in panels.items():
                with f.if_((width > (count - 1) * lanes) & (width <= count * lanes)):
                    f.call(name, "void", *words)


def _panel(
    module: RoutineModule, kind: str, lanes: int, count: int, heights: tuple[int, ...], layout: str
) -> str:
    """All rows of some columns, which fill so many vectors or nearly."""
    tiles = {height: _tile(module, kind, lanes, height, count) for height in heights}
    name = f"panel{count}"
    numbers = ("rows", "width", "depth", "out_row", "a_row", "a_inner", "b_other", "before")
    given = [(n, "ptr") for n in ("out", "a", "b", "panel")] + [(n, "i64") for n in numbers]
    f = module.function(name, given, internal=True)
    out, a, b, panel, rows, width, depth, out_row, a_row, a_inner, b_other, before = (
        f.parameter(n) for n in range(len(given))
    )
    last = width - (count - 1) * lanes
    copy = _copied_rows if layout == "rows" else _copied_columns
    copy(f, kind, lanes, count, panel, b, b_other, depth, width, last)
    done: Term = f.value(0, "i64")
    for height in heights:
        until = done + (rows - done) // height * height
        with f.range(done, until, height) as i:
            f.call(
                tiles[height], "void", f.at(out, i * out_row, kind), f.at(a, i * a_row, kind),
                panel, out_row, a_row, a_inner, depth, last, before,
            )  # fmt: skip
        done = until
    return name


def _gathered(
    f: Emitter, kind: str, lanes: int, to: Term, a: Term, step: Term, rows: Term, depth: Term
) -> None:
    """Rows of the left operand that lie across memory, side by side: at their own places they fall into few sets of a cache."""
    wide = vector(kind, lanes)
    whole = rows // lanes * lanes
    mask = f.lanes_below(rows - whole, lanes)
    with f.range(0, depth) as k:
        begin, line = f.at(a, k * step, kind), f.at(to, k * ROWS, kind)
        with f.range(0, whole, lanes) as i:
            f.store(f.load(wide, begin, i), line, i)
        with f.if_(whole < rows):
            f.store_masked(f.load_masked(wide, f.at(begin, whole, kind), mask), f.at(line, whole, kind), mask)


def _copied_rows(
    f: Emitter, kind: str, lanes: int, count: int, panel: Term, b: Term, step: Term, depth: Term, width: Term, last: Term
) -> None:  # fmt: skip
    """Rows that lie side by side."""
    wide = vector(kind, lanes)
    mask = f.lanes_below(last, lanes)
    with f.range(0, depth) as k:
        begin, to = f.at(b, k * step, kind), f.at(panel, k * (count * lanes), kind)
        for n in range(count - 1):
            f.store(f.load(wide, begin, n * lanes), to, n * lanes)
        f.store(f.load_masked(wide, f.at(begin, (count - 1) * lanes, kind), mask), to, (count - 1) * lanes)


def _copied_columns(
    f: Emitter, kind: str, lanes: int, count: int, panel: Term, b: Term, step: Term, depth: Term, width: Term, last: Term
) -> None:  # fmt: skip
    """Columns that lie side by side, transposed in registers; behind the last one it stands once more."""
    wide = vector(kind, lanes)
    whole = depth // lanes * lanes
    for n in range(count):
        begins = [f.at(b, f.least(width - 1, n * lanes + c) * step, kind) for c in range(lanes)]
        with f.range(0, whole, lanes) as k:
            block = [f.load(wide, begin, k) for begin in begins]
            for m, row in enumerate(exchanged(f, block)):
                f.store(row, panel, (k + m) * (count * lanes) + n * lanes)
        with f.if_(whole < depth):
            mask = f.lanes_below(depth - whole, lanes)
            block = [f.load_masked(wide, f.at(begin, whole, kind), mask) for begin in begins]
            for m, row in enumerate(exchanged(f, block)):
                f.store(row, panel, (whole + m) * (count * lanes) + n * lanes)


def _tile(module: RoutineModule, kind: str, lanes: int, height: int, count: int) -> str:
    """Some rows and the columns of a panel: every product is added to a sum in a register."""
    name = f"tile{height}x{count}"
    numbers = ("out_row", "a_row", "a_inner", "depth", "last", "before")
    given = [(n, "ptr") for n in ("out", "a", "panel")] + [(n, "i64") for n in numbers]
    f = module.function(name, given, internal=True, contract=True)
    out, a, panel, out_row, a_row, a_inner, depth, last, before = (f.parameter(n) for n in range(len(given)))
    wide = vector(kind, lanes)
    mask = f.lanes_below(last, lanes)
    sums: list[list[RoutineVariable]] = [[f.variable(wide, 0.0) for _ in range(count)] for _ in range(height)]
    lines = [f.at(out, out_row * row, kind) for row in range(height)]
    with f.if_(before.ne(0)):
        for row, line in zip(sums, lines, strict=True):
            for n, each in enumerate(row[:-1]):
                each.set(f.load(wide, line, n * lanes))
            row[-1].set(f.load_masked(wide, f.at(line, (count - 1) * lanes, kind), mask))
    heads = [f.at(a, a_row * row, kind) for row in range(height)]
    with f.range(0, depth) as k:
        from_b = f.at(panel, k * (count * lanes), kind)
        right = [f.load(wide, from_b, n * lanes) for n in range(count)]
        at = k * a_inner
        for row, head in zip(sums, heads, strict=True):
            left = f.splat(f.load(kind, head, at), lanes)
            for each, factor in zip(row, right, strict=True):
                each.add(left * factor)
    with f.choice(last.eq(lanes)) as filled:
        for row, line in zip(sums, lines, strict=True):
            for n, each in enumerate(row):
                f.store(each.now, line, n * lanes)
        filled.otherwise()
        for row, line in zip(sums, lines, strict=True):
            for n, each in enumerate(row[:-1]):
                f.store(each.now, line, n * lanes)
            f.store_masked(row[-1].now, f.at(line, (count - 1) * lanes, kind), mask)
    return name
