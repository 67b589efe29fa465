"""Tensor cores that read LOCAL memory: how operands get there, and how results leave the registers.

**Operands.** One tile of each at a time is kept (BUFFERIZE) in the layout that the core wants; all threads copy it together, along what
is contiguous in memory. Whatever an operand is computed of is computed on the way.

**Results.** A thread holds pairs of columns of many rows, which would be written four bytes at a time, and what is made of them would
be written out for each. So the tile of sums goes through LOCAL memory: threads put there what they hold, and take whole vectors of a row,
which they do the rest with in a loop. By then the operands are done with, so it lies where they were.

Rows that start anywhere in memory have their vectors elsewhere in each row. There every row of the tile is put down as far behind a multiple of
sixteen bytes as it will be written, so that whole vectors are read and written at aligned places; what is before the first of them and behind the
last is as much as one more for each row, and is written one by one, in a loop of its own.

Before → after::

    a[m, k]                                     INDEX(BUFFERIZE(a[m(i), k(i)], place(m(i), k(i))), 0)               i: threads, and a loop
    STORE(c[m, n], f(CAST(REDUCE(WMMA))))       STORE(c[m(j), n(j)], f(INDEX(BUFFERIZE(CAST(REDUCE(WMMA)), place), place(m(j), n(j)))))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from planish import dtypes
from planish.actions.base import Refusal
from planish.actions.layouts import Layout
from planish.actions.tensor_maps import fetched
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest import LOOP_VALUES, plain_index
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Box, Bufferize, Ops
from planish.uop.rewrite import rewrite, substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import IN_MEMORY, Core, Matrix, place_in_memory

if TYPE_CHECKING:
    from planish.actions.tensor_core import CoreTiling

_ACCESS: Final = 16
"""Bytes that a thread moves at once."""
_RUNS: Final = (16, 8, 4, 2, 1)
_SHORTEST, _ENDS = 4, 4
"""Elements of a vector, and vectors of a row, from which on rows that start anywhere are written as vectors."""
_FAR: Final = 96
"""Elements of other blocks that a thread reads at once: they are far away."""
_NARROW, _BEFORE_SHORT = 4, 4
"""Sums that are made shorter, by so many operations at most, are kept so."""


def neighbours(value: UOp, *axes: UOp) -> UOp | None:
    """The axis along which what a value is read from lies together; None if there is none."""
    whole = _ACCESS // value.dtype.itemsize
    return next((r for index in _read(value) for r in axes if _is_run(index, r, whole)), None)


def _read(value: UOp) -> Iterator[UOp]:
    """Where the parameters that a value is made of are read."""
    for place in value.toposort():
        if place.op is Ops.INDEX and place.src[0].op is Ops.DEFINE_GLOBAL:
            index = plain_index(place)
            if index is not None:
                yield index


def _at_once(value: UOp, axis: UOp) -> int:
    """How many values of an axis are copied at once: as many as lie together everywhere; where none do, they are gathered."""
    whole = _ACCESS // value.dtype.itemsize
    runs = [run for run in _RUNS if 1 < run <= whole and all(_is_run(i, axis, run) for i in _read(value))]
    return runs[0] if runs else whole


def _is_run(index: UOp, axis: UOp, length: int) -> bool:
    """Whether so many values of an axis lie together, from every multiple on: also where it is several axes that were joined."""
    if length == 1 or stride(index, axis) == 1:
        return True
    if axis not in index.ranges or (axis.vmax + 1) % length:
        return False
    whole, part = (cast("Axis", axis.arg).part(n) for n in (0, 1))
    inner = axis.table.range(length, part)
    outer = axis.table.range((axis.vmax + 1) // length, whole)
    return stride(simplify(substitute(index, {axis: outer * length + inner})), inner) == 1


def rounded(value: UOp, core: Core) -> UOp:
    """A value with the mantissa bits that the core reads, rounded to nearest (ties away from 0)."""
    if core.mantissa is None:
        return value
    dropped = 23 - core.mantissa  # inputs are float32
    bits = value.bitcast(dtypes.uint32)
    kept = (bits + (1 << dropped - 1)) & (0xFFFFFFFF >> dropped << dropped)
    return value.ne(value).where(value, kept.bitcast(dtypes.float32))


def numbers(split: CoreTiling, elements: int, wide: int, at_once: int = 1) -> UOp:
    """The elements of a tile, for each thread every so manieth vector; so many elements of a thread at once, if they are more."""
    threads, number = split.core.threads * split.groups, cast("UOp", split.thread)
    if split.group is not None:
        number = split.group * split.core.threads + number
    wide = next(w for w in _RUNS if w <= max(min(wide, elements // threads), 1))
    rounds = max(-(-elements // (threads * wide)), 1)
    several = next(n for n in range(max(at_once // wide, 1), 0, -1) if rounds % n == 0)
    if rounds > several:
        number = split.fresh(rounds // several, AxisType.LOOP) * (threads * several) + number
    if several > 1:
        number = split.fresh(several, AxisType.UPCAST) * threads + number
    if elements < threads * wide * rounds:  # the first ones once more, which is as right
        number = number % (elements // wide)
    return number * wide + split.fresh(wide, AxisType.UPCAST) if wide > 1 else number


def operand_in_memory(split: CoreTiling, matrix: Matrix, value: UOp, k: UOp, outer_k: UOp) -> UOp:
    """An operand, copied to LOCAL memory by all threads together: where it starts for this group of them."""
    core, table = split.core, value.table
    first, rows = matrix == "a", split.core.m * split.groups
    axis, outer, size = (split.m, split.outer_m, rows) if first else (split.n, split.outer_n, core.n)
    along_k = IN_MEMORY[core.layout(matrix)[0]]
    k_first = neighbours(value, axis, k) is not axis
    wide = _at_once(value, k if k_first else axis) if along_k == k_first else 1
    number = numbers(split, size * core.k, wide)
    fast = core.k if k_first else size
    inner, across = (number % fast, number // fast) if k_first else (number // fast, number % fast)
    copied = substitute(value, {axis: outer + across, k: outer_k + inner})
    if split.engine:
        rows, panels = (size, 1) if along_k else (core.k, size // core.k)
        box = Box(
            0, (), (), (core.k, rows), panels, split.buffers, core.mantissa is not None, stay=split.stay
        )
        axes = (k, axis) if along_k else (axis, k)
        boxed = fetched(value, *axes, {axis: outer, k: outer_k}, rounded(copied, core), box)
        if boxed is None or along_k != k_first or size % (1 if along_k else core.k):
            raise Refusal(f"what is read of operand {matrix} is no box that a copy engine fetches")
        copied = boxed
    place = simplify(place_in_memory(across, inner, core.k, along_k=along_k))
    how = Bufferize("local", buffers=split.buffers)
    kept = table.make(Ops.BUFFERIZE, value.dtype, (copied, place), how)
    start = place_in_memory(core.m, 0, core.k, along_k=along_k)  # of the rows of the next group
    mine = table.const(0) if split.group is None or not first else split.group * start
    return table.make(Ops.INDEX, value.dtype, (kept, mine))


class CoreResults(NamedTuple):
    """Some of the results of a tile: what stands for its sums, and the row and column of each thread."""

    sums: dict[UOp, UOp]
    row: UOp
    column: UOp


def results_in_memory(split: CoreTiling, totals: dict[UOp, UOp], row: UOp, column: UOp) -> list[CoreResults]:
    """What stands for sums that lie in registers by row and column: reads of LOCAL memory, at another row and column of each thread."""
    core, rows = split.core, split.core.m * split.groups
    narrow = {reduce: narrowed(split.nodes, reduce, split.m, split.n) for reduce in totals}
    wide = _ACCESS // min(
        (reduce if short is None else short).dtype.itemsize for reduce, short in narrow.items()
    )
    along, run = _written_along(split)
    start = _row_start(split) if split.rank is None else None
    mine: list[tuple[UOp, UOp]]
    if start is not None:
        mine = _aligned_places(split, rows, start)
    else:
        number = _shared_out(split, rows * core.n, min(wide, run))
        across = along is split.m
        mine = [(number % rows, number // rows) if across else (number // core.n, number % core.n)]
    results: list[CoreResults] = [CoreResults({}, *where) for where in mine]
    for reduce, total in totals.items():
        # (parts of a sum are no sum yet)
        narrower = narrow[reduce] if split.rank is None else None
        value = total
        if narrower is not None:
            here = {split.m: split.outer_m + row, split.n: split.outer_n + column}
            value = substitute(narrower, {reduce: total, **here})
        place = _placing(core.n, rows, value.dtype.itemsize, start, turned=along is split.m)
        kept = value.table.make(
            Ops.BUFFERIZE,
            value.dtype,
            (value, *(() if split.rank is None else (split.rank,)), simplify(place(row, column))),
            Bufferize("local", late=not split.stay),
        )
        for each in results:
            at = simplify(place(each.row, each.column))
            each.sums[reduce if narrower is None else narrower] = _summed(split, kept, at)
    return results


def with_results(sink: UOp, split: CoreTiling, parts: Sequence[CoreResults]) -> UOp:
    """The kernel, its sums and the axes of its results exchanged; parts of results are side by side in what all of them close."""
    sinks = []
    for sums, row, column in parts:
        axes = {split.m: split.outer_m + row, split.n: split.outer_n + column}
        sinks.append(rewrite(substitute(sink, axes | sums), pm_flatten_range))
    first, *others = sinks
    if not others:
        return first
    ends = []
    for same in zip(*(each.src for each in sinks), strict=True):
        shared = [r for r in same[0].src[1:] if all(r in end.src[1:] for end in same)]
        inner = []
        for end in same:
            own = [r for r in end.src[1:] if r not in shared]
            inner.append(end.src[0].end(*own) if own else end.src[0])
        ends.append(first.table.make(Ops.GROUP, dtypes.void, tuple(inner)).end(*shared))
    return first.replace(src=tuple(ends))


def _shared_out(split: CoreTiling, elements: int, wide: int) -> UOp:
    """The elements of a tile, for each block of the cluster, if there is one, a part of them."""
    if split.rank is None:
        return numbers(split, elements, wide)
    share = -(-elements // (split.parts * wide)) * wide
    number = split.rank * share + numbers(split, share, wide, _FAR // split.parts)
    return number if share * split.parts == elements else number % elements  # the first ones once more


def _summed(split: CoreTiling, kept: UOp, at: UOp) -> UOp:
    """What was kept at a place; of parts of a sum those of all blocks of the cluster, in order."""
    table = kept.table
    if split.rank is None:
        return table.make(Ops.INDEX, kept.dtype, (kept, at))
    first, *others = (
        table.make(Ops.INDEX, kept.dtype, (kept, table.const(rank), at)) for rank in range(split.parts)
    )
    for part in others:
        first = first + part
    return first


def _placing(
    columns: int, rows: int, itemsize: int, start: _RowStart | None, *, turned: bool
) -> Callable[[UOp, UOp], UOp]:
    """Where an element of the tile lies."""
    if start is not None:
        padded = Layout(rows, columns, itemsize, pad=start.vector)
        return lambda row, column: padded.place(row, column) + start.behind(row)
    if turned:
        across = Layout.swizzled(columns, rows, itemsize)
        return lambda row, column: across.place(column, row)
    return Layout.swizzled(rows, columns, itemsize).place


class _RowStart(NamedTuple):
    """Rows of results that start anywhere."""

    vector: int
    """Elements that are written at once."""
    behind: Callable[[UOp], UOp]
    """How many elements the first of a row of the tile is behind a multiple of so many."""


def _row_start(split: CoreTiling) -> _RowStart | None:
    """How far rows of the tile start from where vectors could be written; None if they do everywhere, or if it is another place in every tile."""
    if not starts_anywhere(split.nodes, split.m, split.n, split.core.n):
        return None
    place = next(node.src[0] for node in split.nodes if node.op is Ops.STORE)
    index, vector = cast("UOp", plain_index(place)), _ACCESS // place.dtype.itemsize

    def behind(row: UOp) -> UOp:
        first = substitute(index, {split.m: split.outer_m + row, split.n: split.outer_n})
        return simplify(first % vector)

    return _RowStart(vector, behind)


def starts_anywhere(nodes: Iterable[UOp], m: UOp, n: UOp, columns: int) -> bool:
    """Whether rows of results start anywhere, and in every tile of so many columns alike, and are long enough to be written as vectors."""
    place = next((node.src[0] for node in nodes if node.op is Ops.STORE), None)
    index = None if place is None else plain_index(place)
    if place is None or index is None or stride(index, n) != 1:
        return False
    vector = _ACCESS // place.dtype.itemsize
    pitch, others = stride(index, m), [stride(index, r) for r in index.ranges if r is not n and r is not m]
    alike = (
        pitch is not None
        and pitch % vector
        and all(step is not None and step % vector == 0 for step in others)
    )
    return bool(alike) and vector >= _SHORTEST and columns % vector == 0 and columns >= _ENDS * vector


def _aligned_places(split: CoreTiling, rows: int, start: _RowStart) -> list[tuple[UOp, UOp]]:
    """Rows and columns of whole vectors, which are aligned in memory, and of what is around them, one by one."""
    vector, columns = start.vector, split.core.n
    inside = columns - vector
    number = numbers(split, rows * inside, vector)
    row = number // inside
    places = [(row, number % inside + vector - start.behind(simplify(row)))]
    number = numbers(split, rows * vector, 1)
    row = number // vector
    places.append((row, (number % vector + columns - start.behind(simplify(row))) % columns))
    return places


def _written_along(split: CoreTiling) -> tuple[UOp | None, int]:
    """The axis along which results lie together, and how many do so everywhere."""
    return written_along(split.nodes, split.m, split.n)


def written_along(nodes: Iterable[UOp], m: UOp, n: UOp) -> tuple[UOp | None, int]:
    """Which of two axes results of a kernel lie together along, and how many do so everywhere; None where they do along neither."""
    places = (node.src[0] for node in nodes if node.op is Ops.STORE and node.src[0].op is Ops.INDEX)
    place = next(places, None)
    index = None if place is None else plain_index(place)
    if index is None:
        return n, _ACCESS
    if stride(index, n) == 1:
        # rows that start anywhere: neighbouring threads have neighbours, so that each access fills whole sectors
        others = (stride(index, r) or 0 for r in index.ranges if r is not n)
        return n, gcd(_ACCESS, *others)
    begin = [substitute(index, {m: m.table.const(at)}) for at in (0, 1)]
    if simplify(begin[1] - begin[0]) is not m.table.const(1):
        return None, _ACCESS
    return m, next(length for length in _RUNS if _is_run(index, m, length))


def narrowed(nodes: Iterable[UOp], reduce: UOp, m: UOp, n: UOp) -> UOp | None:
    """What a sum is when it is made shorter, before it meets anything but what belongs to its row or column (a bias, a scale); None if it is not."""
    users: dict[UOp, list[UOp]] = {}
    for node in nodes:
        for source in dict.fromkeys(node.src):
            users.setdefault(source, []).append(node)
    value = reduce
    for _ in range(_BEFORE_SHORT):
        uses = users.get(value, [])
        if len(uses) != 1:
            return None
        (use,) = uses
        if use.op is Ops.CAST:
            return use if use.dtype.itemsize < _NARROW else None
        if use.op not in {Ops.ADD, Ops.MUL} or not all(
            _is_of_axis(x, m, n) for x in use.src if x is not value
        ):
            return None
        value = use
    return None


def _is_of_axis(value: UOp, m: UOp, n: UOp) -> bool:
    """Whether a value is read of memory, for a row or for a column."""
    inside = value.toposort()
    return not {m, n} <= value.ranges and not any(x.op in LOOP_VALUES for x in inside)
