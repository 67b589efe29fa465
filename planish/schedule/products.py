"""Products of matrices on a GPU: what they want of memory before they begin, and sums that are cut into parts.

| why | what |
|---|---|
| a copy engine wants rows that are multiples of 16 bytes apart | an operand whose rows are not is copied to such rows first, if it is used often enough |
| some tensor cores read operands along the sum alone | an operand that lies across it is turned first |
| a row of several axes that do not lie together is no box | a computed operand is stored as the matrix that it is read as |
| few tiles of a long sum leave most multiprocessors without work | parts of the sum first, each a product of its own; then the parts together |

Before → after::

    a[1027, 1029] @ b                    shrink(contiguous(pad(a, 1088)), 1029) @ b
    a[256, 8192] @ b[8192, 256]          sum over p of contiguous(a[:, p·1024:] @ b[p·1024:])

All follow from the sizes alone, so that a result does not depend on anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.config import current
from planish.dtypes import DType
from planish.schedule.tensors import Tensors, most, pad, permute, reshape, shrink
from planish.target import Target
from planish.target.rounds import (
    THREAD_TILES,
    THREADS,
    WARPGROUP_TILES,
    WARPGROUPS,
    ProductSizes,
    cycles,
    least_cycles,
    shared_sum_cycles,
)
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops, ReduceAxes
from planish.uop.shape import shape
from planish.uop.tensor_cores import IN_MEMORY, Core

_ALIGNED: Final = 16
"""Bytes that rows have to be multiples of apart: a copy engine takes no others."""
_GAIN: Final = 0.85
"""By how much parts have to be faster, as far as that can be told."""


def _factor(x: UOp) -> tuple[UOp, UOp] | None:
    """A factor of a product: the tensor that is repeated along axes of the other one, and the same before it was repeated."""
    while x.op is Ops.CAST:
        x = x.src[0]
    return (x, x.src[0]) if x.op is Ops.EXPAND else None


def _sizes(node: UOp) -> ProductSizes | None:
    """The sizes of the product that a sum is; None if it is none."""
    op, axes = cast("ReduceAxes", node.arg)
    source = node.src[0]
    if op is not Ops.ADD or source.op is not Ops.MUL:
        return None
    pairs = [_factor(x) for x in source.src]
    if pairs[0] is None or pairs[1] is None or not all(isinstance(dim, int) for dim in shape(source)):
        return None
    dims = cast("tuple[int, ...]", shape(source))
    (left, right) = (shape(each[1]) for each in pairs if each is not None)
    m = n = batch = 1
    for axis, size in enumerate(dims):
        if axis not in axes:
            mine, other = left[axis] == size, right[axis] == size
            m, n = m * (size if mine and not other else 1), n * (size if other and not mine else 1)
            batch *= size if mine and other else 1
    return ProductSizes(m, n, most([dims[axis] for axis in axes]), batch, pairs[0][0].dtype.itemsize)


def _cores(target: Target, dtype: DType) -> list[Core]:
    """Tensor cores that read LOCAL memory and elements of a dtype."""
    rough = current().fastmath
    alike = [core for core in target.tensor_cores if core.reads_memory and core.inputs is dtype]
    return [core for core in alike if rough or not core.is_rough]


def prepared(tensors: Tensors, node: UOp) -> UOp:
    """A sum of products whose operands lie as its tensor core wants them."""
    sizes = _sizes(node) if tensors.target.is_gpu and node.op is Ops.REDUCE_AXIS else None
    parts, line = tensors.target.parts, tensors.target.line_bytes  # rows are lines apart where we may choose
    if sizes is None or sizes.m * sizes.n * sizes.k * sizes.batch < parts.copied:
        return node
    product = node.src[0]
    used = (sizes.n, sizes.m)
    factors = tuple(
        _laid_out(tensors, factor, line if often >= parts.very_often else _ALIGNED)
        if often >= parts.often
        else factor
        for factor, often in zip(product.src, used, strict=True)
    )
    return node if factors == product.src else node.replace(src=(product.replace(src=factors),))


def joined_operands(tensors: Tensors, nodes: Sequence[UOp]) -> frozenset[UOp]:
    """Computed tensors that large products read with some of their axes joined in another order: stored in that order, they are matrices.

    What takes a box of them then need not look for each row, and every other reader finds them in memory.
    """
    matrices, parts = set[UOp](), tensors.target.parts
    if not tensors.target.is_gpu:
        return frozenset()
    for node in nodes:
        sizes = _sizes(node) if node.op is Ops.REDUCE_AXIS else None
        if sizes is None or sizes.m * sizes.n * sizes.k * sizes.batch < parts.copied:
            continue
        for factor, often in zip(node.src[0].src, (sizes.n, sizes.m), strict=True):
            pair = _factor(factor)
            matrix = None if pair is None or often < parts.often else _joined(tensors, pair[1])
            if matrix is not None and _cores(tensors.target, matrix.dtype):
                matrices.add(matrix)
    return frozenset(matrices)


def _joined(tensors: Tensors, x: UOp) -> UOp | None:
    """The reshape of permuted axes through which a tensor that is computed element by element is seen."""
    matrix: UOp | None = None
    while x.op in MOVEMENT and x not in tensors.realised:
        below = x.src[0]
        if x.op is Ops.RESHAPE and below.op is Ops.PERMUTE and len(shape(x)) < len(shape(below)):
            matrix = x
        x = below
    if matrix is None or x in tensors.realised or x.op in {Ops.INDEX, Ops.BUFFER}:
        return None
    # what a product makes is stored as it comes: a walk over keys, or an epilogue, is looked for in its own order
    nodes = x.toposort(lambda n: n not in tensors.realised)
    return None if any(n.op is Ops.REDUCE_AXIS for n in nodes) else matrix


def _laid_out(tensors: Tensors, factor: UOp, aligned: int) -> UOp:
    """A factor whose rows in memory are such multiples of bytes apart, and which lies along the sum if it has to."""
    pair = _factor(factor)
    if pair is None:
        return factor
    repeated, before = pair
    cores = _cores(tensors.target, repeated.dtype)
    if not cores:
        return factor
    leaf = _leaf(before)
    if leaf is None:
        return factor
    along = all(IN_MEMORY[core.a[0]] and IN_MEMORY[core.b[0]] for core in cores)
    turned = along and leaf is not before and any(x.op is Ops.PERMUTE for x in before.toposort())
    where = before if turned else leaf
    kept = _kept(tensors, where, 0 if turned else aligned)
    if kept is where:
        return factor
    return _replaced(factor, where, kept)


def _leaf(x: UOp) -> UOp | None:
    """The tensor in memory that a view is of, with its dims; None if it is computed, or has one dim."""
    while x.op in MOVEMENT:
        if x.op is Ops.RESHAPE and x.src[0].op is Ops.INDEX and x.src[0].src[0].op is Ops.BUFFER:
            dims = shape(x)
            return x if len(dims) > 1 and all(isinstance(dim, int) for dim in dims) else None
        x = x.src[0]
    return None


def _kept(tensors: Tensors, x: UOp, aligned: int) -> UOp:
    """A tensor in memory of its own, with rows that are as far apart as they should be; itself, if they are multiples of so many bytes."""
    dims = cast("tuple[int, ...]", shape(x))
    row = max((axis for axis, dim in enumerate(dims) if dim > 1), default=0)  # axes of one element are none
    last, itemsize = dims[row], x.dtype.itemsize
    if aligned and last * itemsize % aligned == 0:
        return x
    more = -last % max(tensors.target.line_bytes // itemsize, 1)
    padded = pad(x, [(0, more if axis == row else 0) for axis in range(len(dims))]) if more else x
    kept = tensors.table.make(Ops.CONTIGUOUS, x.dtype, (padded,))
    return shrink(kept, shape(padded), [(0, dim) for dim in dims]) if more else kept


def _replaced(x: UOp, old: UOp, new: UOp) -> UOp:
    if x is old:
        return new
    return x.replace(src=(_replaced(x.src[0], old, new), *x.src[1:])) if x.src else x


def in_parts(tensors: Tensors, node: UOp) -> UOp | None:
    """The sum of products as that of its parts, which lie one behind the other; None if it is not cut."""
    parts = _parts(tensors, node) or _vector_parts(tensors.target, node)
    if not parts:
        return None
    table, x = tensors.table, node.src[0]
    rank = len(shape(x)) - len(cast("ReduceAxes", node.arg).axes)
    dims = cast("tuple[int, ...]", shape(x))
    outer, (k, *inner) = dims[:rank], dims[rank:]
    several = reshape(x, (*outer, parts, k // parts, *inner))
    axes = tuple(range(rank + 1, len(dims) + 1))
    sums = table.make(Ops.REDUCE_AXIS, x.dtype, (several,), ReduceAxes(Ops.ADD, axes))
    behind = permute(reshape(sums, (*outer, parts)), (rank, *range(rank)))
    kept = table.make(Ops.CONTIGUOUS, x.dtype, (behind,))
    total = table.make(Ops.REDUCE_AXIS, x.dtype, (kept,), ReduceAxes(Ops.ADD, (0,)))
    return reshape(total, shape(node))


def _parts(tensors: Tensors, node: UOp) -> int:
    """How many parts the sum of a product is cut into so that all multiprocessors have work; 0: it is not."""
    target, parts = tensors.target, tensors.target.parts
    sizes = _sizes(node) if target.is_gpu and node.op is Ops.REDUCE_AXIS else None
    if sizes is None or sizes.k < 2 * parts.product_terms:
        return 0
    if min(sizes.m, sizes.n) < (parts.least_long_side if sizes.k >= parts.long_terms else parts.least_side):
        return 0
    axes = cast("ReduceAxes", node.arg).axes
    if sorted(axes) != list(range(len(shape(node)) - len(axes), len(shape(node)))):
        return 0
    # parts are those of the first of several axes
    cut = cast("int", shape(node.src[0])[min(axes)])
    factor = _factor(node.src[0].src[0])
    on_core = factor is not None and bool(_cores(target, factor[0].dtype))
    if not on_core and node.src[0].dtype.itemsize != sizes.itemsize:
        return 0  # of other tensor cores nothing is known here
    engine, tiles = (WARPGROUPS, WARPGROUP_TILES) if on_core else (THREADS, THREAD_TILES)
    ways = [1, *(p for p in range(2, parts.most + 1) if cut % p == 0 and sizes.k // p >= parts.product_terms)]
    # what memory takes to bring the operands, no cut makes shorter; parts for a core that reads LOCAL memory are whole rows there, as an
    # engine fetches them
    least = least_cycles(target, sizes)
    times = {
        p: max(least, min(cycles(target, sizes, tile, engine, p) for tile in tiles))
        for p in ways
        if p == 1 or sizes.k // p * sizes.itemsize % (target.line_bytes if on_core else _ALIGNED) == 0
    }
    if on_core:  # blocks of one kernel may share a sum, too, which has to be as much faster
        blocks = range(2, len(target.clusters) + 1)
        shared = min(
            (shared_sum_cycles(target, sizes, tile, p) for tile in tiles for p in blocks), default=times[1]
        )
        times[1] = max(least, min(times[1], shared / _GAIN))
    best = min(times, key=lambda p: (times[p], p))
    return best if best > 1 and times[best] < _GAIN * times[1] else 0


def _vector_parts(target: Target, node: UOp) -> int:
    """The same for a vector and a matrix of few columns, one for each of a batch (what a query makes of the values it looks at)."""
    dims, source = shape(node.src[0]), node.src[0]
    if not target.is_gpu or cast("ReduceAxes", node.arg) != (Ops.ADD, (len(dims) - 1,)):
        return 0
    repeated = [pair for pair in map(_factor, source.src) if pair is not None]
    if source.op is not Ops.MUL or len(repeated) != 1 or not all(isinstance(dim, int) for dim in dims):
        return 0
    k, vectors = cast("int", dims[-1]), most(shape(repeated[0][1]))
    batch = vectors // k
    parts = target.parts
    if not batch or vectors % k:
        return 0
    if most(dims) // vectors > parts.vector_columns or most(dims) < parts.vector_matrix:
        return 0
    wanted = min(-(-parts.vector_blocks * target.workers // batch), parts.most)
    return next((p for p in range(wanted, 1, -1) if k % p == 0 and k // p >= parts.vector_rows), 0)
