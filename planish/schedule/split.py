"""Large reductions to few elements, and long scans of few rows, become several: parts first, then the parts together.

One loop that accumulates is one core's work. As a tensor of partial results it is as many loops as there are parts. For CPUs their
number is a function of the shapes alone, so that the same sum is the same number on every machine. A GPU wants some thousands of
loops at once: it gets parts of sums across what lies next to each other, and of scans, also where a CPU has rows enough.

    sum(x[16777216])         sum(parts[256]),  parts[p] = sum over 65536 elements from p·65536 on

Elements that do not fill the last part are padded with the identity of the op.

A scan that is a result adds up parts, scans their sums, and then every part from where it begins:

    y = scan(x[16777216])    y[p] = before[p] + scan(x[p]),  before = scan of the sums of the parts before p

It reads x twice; both times all cores do. Only parts of equal length are made. A GPU gets scans in parts that are no results, too, parts of parts, and
where there are no equal parts a last one that is longer than it need be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish import dtypes
from planish.dtypes import DType
from planish.schedule import products
from planish.schedule.limits import FEW_ROWS
from planish.schedule.neighbours import largest_read
from planish.schedule.tensors import (
    Tensors,
    divided,
    expand,
    full,
    largest,
    minus,
    most,
    pad,
    permute,
    plus,
    reshape,
    shrink,
    times,
)
from planish.target import Target
from planish.uop.node import Number, UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import Dim, shape
from planish.uop.symbolic.reduce import identity

PART: Final = 1 << 14
"""Elements of a part, about: enough to be worth a start, few enough to be shared out evenly. (No machine's, as the next: the same sum is
the same number on all of them.)"""
_MOST_PARTS: Final = 256


def split_reductions(tensors: Tensors, roots: Sequence[UOp]) -> Mapping[UOp, UOp]:
    """For each tensor that is not in memory: itself, with the large reductions below it split."""
    rewritten: dict[UOp, UOp] = {}
    wanted = frozenset(roots)
    order = tensors.table.sink(*roots).toposort(lambda n: n not in tensors.realised) if roots else []
    matrices = products.joined_operands(tensors, list(order))
    for node in order:
        if node in tensors.realised:
            rewritten[node] = node
            continue
        sources = tuple(rewritten[source] for source in node.src)
        same = node if sources == node.src else node.replace(src=sources)
        if node.op is Ops.REDUCE_AXIS:
            prepared = products.prepared(tensors, same)
            parts = products.in_parts(tensors, prepared)
            rewritten[node] = _split(tensors, prepared) if parts is None else parts
        elif node.op is Ops.SCAN_AXIS and (node in wanted or tensors.target.is_gpu):
            rewritten[node] = _split_scan(tensors, same)
        elif node in wanted and _is_scan_of_gpu(tensors, node):
            rewritten[node] = _split_scan(
                tensors, node.src[0].replace(src=(rewritten[node.src[0].src[0]],)), node.dtype
            )
        elif node in matrices:
            rewritten[node] = tensors.table.make(Ops.CONTIGUOUS, node.dtype, (same,))
        else:
            rewritten[node] = same
    return rewritten


def _is_scan_of_gpu(tensors: Tensors, node: UOp) -> bool:
    """Whether a result is a scan that was made in a wider type: then its parts are narrowed before they are stored."""
    below = node.src[0] if node.op is Ops.CAST else node
    return tensors.target.is_gpu and below.op is Ops.SCAN_AXIS and below not in tensors.realised


def _split_scan(tensors: Tensors, node: UOp, stored: DType | None = None) -> UOp:
    """A scan in parts; `stored`: the dtype that it is wanted in."""
    op, (axis,) = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims = shape(source)
    size = dims[axis]
    nothing = identity(op, node)
    as_wanted = node if stored is None else node.cast(stored)
    if not isinstance(size, int) or nothing is None:
        return as_wanted
    if tensors.target.is_gpu:
        parts = _scan_parts_of_gpu(tensors, source, axis, size)
    else:
        parts = 0 if size < _long(tensors.target) or most(dims) >= FEW_ROWS * size else _parts(size, size)
    if parts < 2 or (size % parts and not tensors.target.is_gpu):
        return as_wanted
    table, length = tensors.table, -(-size // parts)
    if size % parts:
        line = tensors.target.line_bytes  # parts that are not equal begin at multiples of so many elements
        length = -(-length // line) * line
        parts = -(-size // length)

    def along_axis(kind: Ops, x: UOp, along: int) -> UOp:
        return table.make(kind, x.dtype, (x,), ReduceAxes(op, (along,)))

    short = (*dims[:axis], parts, *dims[axis + 1 :])
    split = (*dims[:axis], parts, length, *dims[axis + 1 :])
    x = reshape(_filled(tensors, source, axis, parts * length - size, nothing), split)
    sums = table.make(Ops.CONTIGUOUS, x.dtype, (reshape(along_axis(Ops.REDUCE_AXIS, x, axis + 1), short),))
    in_front = [(1 if each == axis else 0, 0) for each in range(len(dims))]
    longer = tuple(parts + 1 if each == axis else dim for each, dim in enumerate(dims))
    scanned = along_axis(Ops.SCAN_AXIS, sums, axis)
    running = _split_scan(tensors, scanned) if tensors.target.is_gpu else scanned
    if running is scanned:
        running = table.make(Ops.CONTIGUOUS, x.dtype, (scanned,))
    before = shrink(pad(running, in_front), longer, [(0, dim) for dim in short])
    if nothing != 0:
        first = tensors.position(short, axis).eq(0)
        before = first.where(full(table.const(nothing, x.dtype), short), before)
    start = expand(reshape(before, (*dims[:axis], parts, 1, *dims[axis + 1 :])), split)
    whole = start.alu(op, along_axis(Ops.SCAN_AXIS, x, axis + 1))
    whole = whole if stored is None else whole.cast(stored)
    whole = table.make(Ops.CONTIGUOUS, whole.dtype, (whole,))
    longer = (*dims[:axis], parts * length, *dims[axis + 1 :])
    return shrink(reshape(whole, longer), longer, [(0, dim) for dim in dims])


def _long(target: Target) -> float:
    return target.part_worth * target.small_elements


def _parts(total: int, size: int) -> int:
    """How many parts an axis is cut into: preferably parts of equal length."""
    return _even(min(_MOST_PARTS, total // PART, size), size)


def _even(wanted: int, size: int) -> int:
    """About as many parts as are wanted, of equal length if there is such a number."""
    even = (parts for parts in range(wanted, wanted // 4, -1) if size % parts == 0)
    return next(even, wanted)


def _scan_parts_of_gpu(tensors: Tensors, source: UOp, axis: int, size: int) -> int:
    """Parts of a scan for which there are threads, if there are few without them."""
    dims, target = shape(source), tensors.target
    workers, parts, shares = target.workers, target.parts, target.shares
    rows = max(most(dims) // size, 1)
    if axis == len(dims) - 1:
        if rows >= workers * parts.scanned_rows or size < parts.short_scan:
            return 0
        return _even(size // min(1 << size.bit_length() // 2, parts.row_scan), size)
    itemsize = _bytes_read(tensors, source)
    straight = largest(dims[-1]) * itemsize % target.thread_bytes == 0
    some, of_all = shares.nearly_all
    if straight and rows * itemsize * of_all >= workers * target.line_bytes * some:
        return 0  # of so many columns there is one pass, read far ahead (`optimize/gpu/scans.py`), instead of two
    if most(dims) < _long(target):
        return 0
    return _even(min(-(-workers * shares.busy_columns // rows), size // parts.column_scan), size)


def _column_parts_of_gpu(
    tensors: Tensors, node: UOp, axes: Sequence[int], dims: Sequence[Dim]
) -> tuple[int, int]:
    """Parts of sums across what lies next to each other, and of which axis: a long one that has equal parts."""
    target = tensors.target
    if not target.is_gpu or len(dims) - 1 in axes or most(dims) < _long(tensors.target):
        return 0, 0
    by_bytes = dict(target.parts.columns)
    columns = target.workers * by_bytes.get(_bytes_read(tensors, node.src[0]), target.parts.wide_columns)
    total = most([dims[axis] for axis in axes])
    wanted = min(columns // max(most(shape(node)), 1), total // target.parts.column_terms)
    candidates: list[tuple[bool, int, int, int]] = []
    for axis in axes:
        size = dims[axis]
        if isinstance(size, int) and wanted > 1 and size > 1:
            parts = _even(min(wanted, size), size)
            candidates.append((size % parts == 0, min(parts, size // 2), size, axis))
    _, _, size, axis = max(candidates, default=(False, 0, 0, 0))
    return (_even(min(wanted, size), size), axis) if size else (0, 0)


def _bytes_read(tensors: Tensors, node: UOp) -> int:
    """Bytes of the narrowest elements that something is computed from, of those that it has as many of."""
    computed = node.toposort(lambda n: n not in tensors.realised and n.op is not Ops.REDUCE_AXIS)
    count = most(shape(node))
    read = [n.dtype.itemsize for n in computed if n.op is Ops.CAST and most(shape(n)) == count]
    read += [n.src[0].dtype.itemsize for n in computed if n.op is Ops.CAST and most(shape(n)) == count]
    return min(read, default=node.dtype.itemsize)


def _neighbours_last(tensors: Tensors, node: UOp) -> UOp:
    """A large reduction across what lies together, though not along the last axis (channels of an image), as one with that axis last."""
    op, axes = cast("ReduceAxes", node.arg)
    (source,) = node.src
    rank = len(shape(source))
    if rank - 1 not in axes or len(axes) == rank or most(shape(source)) < _long(tensors.target):
        return node
    elements, together = largest_read(source, tensors.realised.__contains__)
    if together is None or together in axes or elements < most(shape(source)):
        return node  # what is read again and again is a product's operand
    order = [*(axis for axis in range(rank) if axis != together), together]
    turned = ReduceAxes(op, tuple(order.index(axis) for axis in axes))
    reduced = _split(
        tensors, tensors.table.make(Ops.REDUCE_AXIS, node.dtype, (permute(source, order),), turned)
    )
    return permute(reduced, [order.index(axis) for axis in range(rank)])


def _joined(tensors: Tensors, node: UOp) -> UOp:
    """A reduction across what lies next to each other, over several neighbouring axes, as one over a single axis."""
    op, axes = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims, first, last = shape(source), min(axes), max(axes)
    sizes = [dims[axis] for axis in range(first, last + 1)]
    if len(axes) < 2 or len(sizes) != len(axes) or last == len(dims) - 1:
        return node
    if not all(isinstance(size, int) for size in sizes):
        return node
    flat = reshape(source, (*dims[:first], most(sizes), *dims[last + 1 :]))
    return tensors.table.make(Ops.REDUCE_AXIS, node.dtype, (flat,), ReduceAxes(op, (first,)))


def _every_so_manieth(tensors: Tensors, node: UOp) -> UOp:
    """A sum over neighbours, how many is told when the code runs, to few elements: of every so manieth of them first, then of those sums.

    Parts that are one after another would begin anywhere, rows of a constant length do not.
    """
    op, (axis,) = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims, start = shape(source), identity(op, node)
    columns = tensors.target.parts.wide_columns
    parts = tensors.target.workers * columns // max(most(dims[:axis]), 1) // columns * columns
    if (
        start is None
        or parts < columns
        or most(dims) < _long(tensors.target)
        or most(dims[:axis]) >= FEW_ROWS
    ):
        return node
    rows = divided(plus(dims[axis], parts - 1), parts)
    x = _filled(tensors, source, axis, minus(times(rows, parts), dims[axis]), start)
    x = reshape(x, (*dims[:axis], rows, parts))
    table, along = tensors.table, ReduceAxes(op, (axis,))
    sums = reshape(table.make(Ops.REDUCE_AXIS, x.dtype, (x,), along), (*dims[:axis], parts))
    kept = table.make(Ops.CONTIGUOUS, x.dtype, (sums,))
    return table.make(Ops.REDUCE_AXIS, x.dtype, (kept,), along)


def _filled(tensors: Tensors, source: UOp, axis: int, missing: Dim, start: Number) -> UOp:
    """So many elements more behind the last ones of an axis, which change no reduction."""
    if isinstance(missing, int) and not missing:
        return source
    dims = shape(source)
    edge: list[tuple[Dim, Dim]] = [(0, missing if each == axis else 0) for each in range(len(dims))]
    x = pad(source, edge)
    if start == 0:
        return x
    here = pad(tensors.filled(True, dtypes.bool_, dims), edge)
    return here.alu(Ops.WHERE, x, full(tensors.table.const(start, source.dtype), shape(x)))


def _split(tensors: Tensors, node: UOp) -> UOp:
    turned = _neighbours_last(tensors, node) if tensors.target.is_gpu else node
    if turned is not node:
        return turned
    joined = _joined(tensors, node) if tensors.target.is_gpu else node
    if joined is not node:
        reduced = _split(tensors, joined)
        return node if reduced is joined else reshape(reduced, shape(node))
    op, axes = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims = shape(source)
    sizes = [dims[axis] for axis in axes]
    if tensors.target.is_gpu and axes == (len(dims) - 1,) and not isinstance(sizes[0], int):
        return _every_so_manieth(tensors, node)
    columns, longest = _column_parts_of_gpu(tensors, node, axes, dims)
    rows, gpu = most(shape(node)), tensors.target.is_gpu
    few = tensors.target.workers if gpu else FEW_ROWS
    if not all(isinstance(size, int) for size in sizes) or (rows >= few and columns < 2):
        return node
    total = most(sizes)
    # the first axis that is long enough: its parts are the longest stretches of memory
    for axis in (longest,) if columns > 1 else sorted(axes):
        size = cast("int", dims[axis])
        parts = columns if columns > 1 else _parts(total, size)
        if gpu and columns < 2 and rows >= FEW_ROWS:
            parts = _even(min(parts, tensors.target.parts.sums * few // rows), size)
        if parts < 2 or (total < tensors.target.small_elements and columns < 2):
            continue
        length = -(-size // parts)
        start = identity(op, node)
        if start is None:
            return node
        x = _filled(tensors, source, axis, parts * length - size, start)
        table = tensors.table
        split = (*dims[:axis], parts, length, *dims[axis + 1 :])
        x = table.make(Ops.RESHAPE, x.dtype, (x,), split)
        inner = tuple(each + (each >= axis) for each in axes)
        partial = table.make(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceAxes(op, tuple(sorted(inner))))
        flat = tuple(parts if each == axis else dim for each, dim in enumerate(shape(node)))
        partial = table.make(Ops.RESHAPE, x.dtype, (partial,), flat)
        kept = table.make(Ops.CONTIGUOUS, x.dtype, (partial,))
        return table.make(Ops.REDUCE_AXIS, x.dtype, (kept,), ReduceAxes(op, (axis,)))
    return node
