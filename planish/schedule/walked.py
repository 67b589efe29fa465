"""Products of matrices that a GPU makes block by block on the way to another one, with a softmax between them: they never are in memory.

What the action `online` needs, asked of tensors: tensor cores that read LOCAL memory, factors of 16 bits that are no longer than what a block
keeps of them, and enough queries for a tile. Elsewhere on a GPU two products are better off as kernels of their own.

Several kernels that walk over the same products each make them anew (`made_again`): a product of so few terms takes less time than its matrix
takes to be written and read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.schedule.elements import COMPUTED
from planish.schedule.graph import TensorGraph, depends
from planish.schedule.surroundings import Around
from planish.schedule.tensors import most
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, AxisType, Ops, ReduceAxes
from planish.uop.rewrite import substitute
from planish.uop.shape import Dim, shape

MOST_COLUMNS: Final = 256
"""Of a query, of a key and of a result: what the registers of a block hold, and an instruction of its core has at most."""
_LEAST_ROWS: Final = 17
"""Queries and keys: with fewer, most of a tile is padding."""
_TIMES, _SMALL = 8, 1 << 20
"""How often a tensor is computed that is worth memory beside a walk, and how many elements it may have."""
_NEAR: Final = 512
"""Tensors among which the product is looked for that another one is made of."""
_NO_AXIS: Final = 1 << 20
"""The number of an axis that no kernel has."""
_VIEWS: Final = frozenset({Ops.CAST, Ops.RESHAPE, Ops.PERMUTE})


def walks(target: Target) -> bool:
    """Whether a target has tensor cores that read LOCAL memory."""
    return any(core.reads_memory for core in target.tensor_cores)


def may_walk(target: Target, product: UOp) -> bool:
    """Whether a product can be made so on a target."""
    if not walks(target) or product.op is not Ops.REDUCE_AXIS:
        return False
    value, axes = product.src[0], cast("ReduceAxes", product.arg).axes
    depth = [shape(value)[axis] for axis in axes]
    if (
        value.op is not Ops.MUL
        or most(depth) > MOST_COLUMNS
        or not all(isinstance(dim, int) for dim in depth)
    ):
        return False
    return all(_is_narrow(factor) and _is_long(_repeated(factor)) for factor in value.src)


def ends_a_walk(target: Target, node: UOp) -> bool:
    """Whether a tensor is, in another order, a product of what is made of another one: its axes are those of a walk."""
    while node.op in _VIEWS:
        (node,) = node.src
    if node.op is not Ops.REDUCE_AXIS or node.src[0].op is not Ops.MUL or not _is_weighted(node):
        return False
    stack, seen = list(node.src[0].src), set(node.src[0].src)
    while stack and len(seen) < _NEAR:
        each = stack.pop()
        if each.op is Ops.REDUCE_AXIS and may_walk(target, each):
            return True
        new = [source for source in each.src if source not in seen]
        stack += new
        seen.update(new)
    return False


def _is_long(dims: list[Dim]) -> bool:
    """Whether there are known numbers of rows, enough for a tile."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return len(known) == len(dims) and max(known) >= _LEAST_ROWS


def _is_narrow(factor: UOp) -> bool:
    return factor.op is Ops.CAST and factor.src[0].dtype.is_float and factor.src[0].dtype.itemsize == 2


def _repeated(factor: UOp) -> list[Dim]:
    """The dims along which a factor is the same."""
    while factor.op in _VIEWS:
        (factor,) = factor.src
    if factor.op is not Ops.EXPAND:
        return [1]
    return [new for old, new in zip(shape(factor.src[0]), shape(factor), strict=True) if old != new]


# -- what several kernels walk over ----------------------------------------------------------------------------------


class _Uses(NamedTuple):
    """What becomes of a product, element by element."""

    between: list[UOp]
    outer: list[UOp]
    """The products that it ends in."""
    rows: list[UOp]
    """What is reduced of it besides, row by row."""


def made_again(target: Target, graph: TensorGraph, results: Collection[UOp]) -> frozenset[UOp]:
    """Products on the way to others, and what is made of them in between, that every kernel which needs them makes for itself."""
    if not walks(target):
        return frozenset()
    uses: dict[UOp, _Uses] = {}
    for node in graph.level:
        if node.op is Ops.REDUCE_AXIS and may_walk(target, node) and graph.is_product(node):
            use = _uses(graph, node, results)
            if use is not None:
                uses[node] = use
    attention = {product for product, use in uses.items() if use.rows}
    for product, use in list(uses.items()):
        # neither what it reads nor what it makes is made on the way of another walk
        if not attention.isdisjoint(use.outer) or any(product in uses[each].outer for each in attention):
            del uses[product]
    while uses:  # what is made of two products is made again if both are
        others = {
            node
            for product in graph.level
            if product.op is Ops.REDUCE_AXIS and graph.is_product(product) and product not in uses
            for node in _above(graph, product)
        }
        # (but for the products with what else is multiplied: that is in memory)
        ends = {outer.src[0] for use in uses.values() for outer in use.outer}
        lost = [product for product, use in uses.items() if not (others - ends).isdisjoint(use.between)]
        if not lost:
            break
        for product in lost:
            del uses[product]
    again = {node for product, use in uses.items() for node in (product, *use.between)}
    # factors are read as they are, not as wide as their sums
    wide = (part for product in uses for factor in product.src[0].src for part in _widened(factor))
    return frozenset(again.union(wide))


def _widened(factor: UOp) -> Iterator[UOp]:
    """Conversions of a factor."""
    while factor.op in _VIEWS or factor.op is Ops.EXPAND:
        if factor.op is Ops.CAST:
            yield factor
        (factor,) = factor.src


def may_join(sink: UOp) -> bool:
    """Whether a kernel keeps rows of sums, as all do that walk: others are not compared with every kernel before them."""
    return any(n.op is Ops.BUFFERIZE for n in sink.toposort()) and bool(_kept_sums(sink))


def walked_together(one: UOp, other: UOp) -> UOp | None:
    """Two kernels as one walk over products, if it has registers for the results of both, and one makes no other products than the other; None if not."""
    ends = [sink.src[0] for sink in (one, other) if len(sink.src) == 1]
    if len(ends) != 2 or any(end.op is not Ops.END for end in ends) or ends[0].src[1:] != ends[1].src[1:]:
        return None
    stores = [n for end in ends for n in end.toposort() if n.op is Ops.STORE]
    if len(stores) * (ends[0].src[-1].vmax + 1) > MOST_COLUMNS:
        return None
    (base, known), (more, others) = sorted(
        ((end, _kept_sums(end)) for end in ends), key=lambda each: -len(each[1])
    )
    if not others or not others.keys() <= known.keys():
        return None
    more = substitute(more, {node: known[same] for same, node in others.items()})
    ranges = {n.arg: n for n in base.toposort() if n.op is Ops.RANGE}
    if any(n.op is Ops.RANGE and ranges.get(n.arg, n) is not n for n in more.toposort()):
        return None  # loops that are numbered alike and are others
    effect = one.table.make(Ops.GROUP, dtypes.void, (base.src[0], more.src[0]))
    return one.table.sink(effect.end(*base.src[1:]))


def _kept_sums(end: UOp) -> dict[UOp, UOp]:
    """The sums that rows which a kernel keeps are made of, by what is the same for equal ones whatever their axes are called.

    None where one of them is made of others, or where sums are stored that rows are not behind.
    """
    nodes = end.toposort()
    kept = [n for n in nodes if n.op is Ops.BUFFERIZE]
    inner = {n: None for row in kept for n in row.toposort() if n.op is Ops.REDUCE}
    outer = [n for n in nodes if n.op is Ops.REDUCE and n not in inner]
    alone = all(len(n.src) == 2 and not any(m in inner for m in n.src[0].toposort(_is_no_row)) for n in inner)
    plain = all(any(row in n.src[0].toposort() for row in kept) for n in outer)
    if not alone or not plain or len(outer) != len(kept):
        return {}
    return {_under_one_name(n): n for n in inner}


def _under_one_name(total: UOp) -> UOp:
    """A sum over an axis with the first number that none has."""
    axis = total.src[1]
    same = axis.table.range(axis.src[0], _NO_AXIS, AxisType.REDUCE)
    return substitute(total, {axis: same})


def _is_no_row(node: UOp) -> bool:
    return node.op is not Ops.BUFFERIZE


def is_beside_a_walk(around: Around, result: UOp, node: UOp) -> bool:
    """Whether a kernel walks over products that a tensor is not made of: it makes nothing else."""
    return bool(around.again) and not _walked_below(around, result) <= _walked_below(around, node)


def is_repeated_in_a_walk(
    around: Around, result: UOp, node: UOp, times: float, counts: Callable[[UOp], bool]
) -> bool:
    """Whether a walk would compute, for each head or image, what has nothing to do with its products (a mask of windows) and is small.

    `counts` tells positions from memory. A walk has no loops of its own for the places that it is made of, and registers for little else than scores.
    """
    if not around.again or times < _TIMES or most(shape(node)) > _SMALL or node in around.again:
        return False
    return (
        bool(_walked_below(around, result))
        and not _walked_below(around, node)
        and _reads(around, node, counts)
    )


def _reads(around: Around, node: UOp, counts: Callable[[UOp], bool]) -> bool:
    """Whether a tensor is made of several in memory, or of one in several places: not of positions, nor by steps from one alone."""
    reads: dict[UOp, int] = {}
    for each in node.toposort(lambda n: n not in around.realised):
        below = [reads[source] for source in each.src if source in reads]
        if each in around.realised or (each.op is Ops.INDEX and len(each.src) == 1):
            reads[each] = not counts(each)
        else:
            reads[each] = sum(below) if each.op in COMPUTED else max(below, default=0)
    return reads[node] > 1


def _walked_below(around: Around, node: UOp) -> set[UOp]:
    """The products on the way to others that a tensor is made of, with nothing in memory in between, now or later, and no product but its own."""
    products: set[UOp] = set()
    own = around.graph.products_of(node, around.realised)
    stack, seen = [node], {node}
    while stack:
        each = stack.pop()
        if each.op is Ops.REDUCE_AXIS and each in around.again:
            products.add(each)
            continue
        for source in each.src:
            other = source.op is Ops.REDUCE_AXIS and source not in around.again and source not in own
            is_end = source in around.realised or source in around.joining
            is_end = is_end or (other and around.graph.is_product(source))
            if source not in seen and not is_end:
                seen.add(source)
                stack.append(source)
    return products


def _uses(graph: TensorGraph, product: UOp, results: Collection[UOp]) -> _Uses | None:
    """What becomes of a product, if all of it ends in others that can be walked to."""
    uses, size = _Uses([], [], []), most(shape(product))
    stack, seen = [product], {product}
    while stack:
        each = stack.pop()
        if each in results:
            return None
        for user in graph.users.get(each, ()):
            if user in seen:
                continue
            seen.add(user)
            if user.op is Ops.REDUCE_AXIS:
                is_outer = graph.is_product(user) and _is_weighted(user)
                if not is_outer and (graph.is_product(user) or most(shape(user)) >= size):
                    return None
                (uses.outer if is_outer else uses.rows).append(user)
            elif user.op in COMPUTED or user.op in MOVEMENT:
                uses.between.append(user)
                stack.append(user)
            else:
                return None
    comes_back = all(any(depends(outer, row) for outer in uses.outer) for row in uses.rows)
    return uses if uses.outer and comes_back else None


def _above(graph: TensorGraph, product: UOp) -> list[UOp]:
    """What is made of a product, element by element."""
    stack, seen = [product], {product: None}
    while stack:
        for user in graph.users.get(stack.pop(), ()):
            if user not in seen and (user.op in COMPUTED or user.op in MOVEMENT):
                seen[user] = None
                stack.append(user)
    return list(seen)


def _is_weighted(product: UOp) -> bool:
    """Whether a product has factors of 16 bits, one of them for no more columns than the registers of a block hold."""
    factors = product.src[0].src if product.src[0].op is Ops.MUL else ()
    return (
        len(factors) == 2
        and all(map(_is_narrow, factors))
        and min(most(_repeated(factor)) for factor in factors) <= MOST_COLUMNS
    )
