"""Why a reduction gets memory of its own (`reasons.py`): tables for sums whose elements are computed once, or again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, cast

from planish.schedule.elements import ElementPlace
from planish.schedule.graph import depends, slides
from planish.schedule.limits import FEW_ROWS
from planish.schedule.neighbours import innermost
from planish.schedule.reason import Case, Reason
from planish.schedule.reasons import STORED_IN_ORDER
from planish.schedule.tensors import most
from planish.schedule.walked import is_beside_a_walk, may_walk
from planish.uop.nest import count
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import shape

if TYPE_CHECKING:
    from planish.schedule.fusion import Fusion


def is_shared(case: Case) -> bool:
    """Whether other kernels would compute it too."""
    around = case.fusion.around
    if case.node in around.again:
        return False
    return bool(around.others) and around.graph.is_used_by(
        case.node, around.others, around.realised.realised, around.pending
    )


def _is_beside_a_walk(case: Case) -> bool:
    around, node = case.fusion.around, case.node
    return node not in around.again and is_beside_a_walk(around, case.fusion.roots[0], node)


def _is_unknown(case: Case) -> bool:
    unknown = case.fusion.unknown
    return bool(unknown) and any(
        n in unknown for place in case.places for index in place.indices for n in index.toposort()
    )


def _is_beside(case: Case) -> bool:
    """Whether a product of matrices is a part of the result only, beside others: it is laid out better by itself."""
    (place,) = case.places
    return place.valid is not None and most(shape(case.node)) * case.terms > case.small and case.is_product


def _is_inside_out(case: Case) -> bool:
    (place,), nest = case.places, case.fusion.nest
    return nest.closure(place.ranges) != place.ranges or not nest.can_lead(place.ranges)


def _is_part(case: Case) -> bool:
    """Whether other loops than all those of the result are around it."""
    (place,) = case.places
    return place.ranges != case.fusion.nest.outputs


def _is_product_of_rows(case: Case) -> bool:
    (place,) = case.places
    inner = place.ranges - case.fusion.nest.outputs
    if not _is_part(case) or not (case.is_product or _is_sum_of_threads(case, inner)):
        return False
    if not case.target.is_gpu and inner == place.ranges:
        # no rows, but all of it, in loops that nobody lays out
        return count(inner) * case.terms > case.target.row_terms
    few = count(place.ranges) * case.terms <= case.small
    if case.target.is_gpu and count(case.fusion.nest.outputs) > case.small:
        few = False  # whose blocks would each make it
    return not (few or (bool(inner) and _may_nest(case, count(inner))))


def _is_summed_up(case: Case) -> bool:
    """Whether a product of matrices is only reduced again (pooled), and no larger than what stays in a cache.

    Alone it has a schedule of its own; of a sum of sums only the inner one is laid out. What is larger is not worth its memory.
    What fills rows that are kept (attention) is not meant: it is used again where it is.
    """
    (place,) = case.places
    inner = place.ranges - case.fusion.nest.outputs
    if not inner.isdisjoint(case.fusion.filling):
        return False
    small = most(shape(case.node)) * case.node.dtype.itemsize <= case.target.reread_bytes
    return bool(inner) and case.is_product and small and count(place.ranges) * case.terms > case.small


def _has_few_rows(case: Case) -> bool:
    (place,), outputs = case.places, case.fusion.nest.outputs
    leading = place.ranges & outputs
    if leading == outputs or case.is_product or count(leading) >= FEW_ROWS:
        return False
    is_gpu = case.target.is_gpu  # whose threads would each make the sum
    return case.terms > case.small or (
        is_gpu and case.terms >= case.target.shares.shared_terms and count(outputs) > case.small
    )


def _is_across(case: Case) -> bool:
    """Whether a GPU would make long sums, fewer than it has threads, of what does not lie along them, before anything else of a row.

    Threads that share such a sum do not read neighbours; threads that do make several sums, in a kernel laid out for those.
    """
    fusion, (place,) = case.fusion, case.places
    if not fusion.tensors.target.is_gpu or case.is_product or not place.ranges < fusion.nest.outputs:
        return False
    if _is_small_beside(case) and fusion.nest.indices[-1] in place.ranges:
        return True
    if (
        case.terms < case.target.parts.long_sum
        or count(place.ranges) >= case.target.parts.many_sums
        or count(place.ranges) * case.terms <= case.small
    ):
        return False
    if fusion.nest.indices[-1] in place.ranges:
        return True  # results lie along the sums: no block writes what it has of one row
    axis = innermost(case.node.src[0], fusion.around.realised.__contains__)
    return axis is not None and axis not in cast("ReduceAxes", case.node.arg).axes


def holds_up(fusion: Fusion, node: UOp, place: ElementPlace) -> bool:
    """Whether storing a result of fewer axes would give a large kernel its loops, and no sum that has to be outside of some asks for that."""
    if any(True for _ in sums_around(fusion, place)):
        return True
    target = fusion.tensors.target
    small = target.block_elements if target.is_gpu else target.small_elements
    fewer = place.ranges != fusion.nest.outputs and count(fusion.nest.outputs) > small
    return fewer and not fusion.reduces(node)


def sums_around(fusion: Fusion, place: ElementPlace) -> Iterator[UOp]:
    """Of a GPU: the long sums of a kernel, no products, that are made for more of its loops than those of a place. Their blocks have all of these loops."""
    target = fusion.tensors.target
    if not target.is_gpu or place.ranges == fusion.nest.outputs:
        return
    for each, asked in fusion.asked_here(Ops.REDUCE_AXIS):
        outputs = [at.ranges & fusion.nest.outputs for at in asked]
        is_long = most(shape(each.src[0])) > target.small_elements
        if (
            is_long
            and not fusion.around.graph.is_product(each)
            and all(place.ranges < ranges for ranges in outputs)
        ):
            yield each


def _is_made_by_every_part(case: Case) -> bool:
    """Whether blocks of a GPU that each make a part of a long sum would all make this one first: a mean, of which squares are summed in parts."""
    fusion, (place,) = case.fusion, case.places
    return not case.is_product and any(depends(each, case.node) for each in sums_around(fusion, place))


def _is_held_up(case: Case) -> bool:
    """Whether another sum, for a few rows of the result, would leave a GPU their few blocks for this one: a mean of what a mask lets through."""
    fusion, (place,), outputs = case.fusion, case.places, case.fusion.nest.outputs
    target, node = case.target, case.node
    if (
        not target.is_gpu
        or place.ranges != outputs
        or case.is_product
        or most(shape(node.src[0])) <= 4 * case.small
    ):
        return False
    for each, asked in fusion.asked_here(Ops.REDUCE_AXIS):
        rows = [at.ranges & outputs for at in asked]
        few = all(ranges < outputs and count(ranges) < target.workers for ranges in rows)
        terms = most(shape(each.src[0])) // max(1, most(shape(each)))
        if (
            few
            and terms >= case.target.shares.shared_terms
            and not depends(node, each)
            and not depends(each, node)
        ):
            return True
    return False


def _is_small_beside(case: Case) -> bool:
    """Whether a sum has far fewer terms than there are elements that need it (a norm of channels, from parts): made first, it costs nothing."""
    (place,), outputs = case.places, count(case.fusion.nest.outputs)
    return (
        case.terms >= case.target.shares.shared_terms
        and outputs > case.small
        and count(place.ranges) * case.terms * case.target.shares.shared_terms <= outputs
    )


def _is_for_all(case: Case, product: UOp) -> bool:
    """Whether a product of matrices is large, and made for all of a result."""
    terms = most(shape(product.src[0])[axis] for axis in cast("ReduceAxes", product.arg).axes)
    size = most(shape(product))
    return size >= count(case.fusion.nest.outputs) and size * terms > case.small


def _is_beside_a_product(case: Case) -> bool:
    """Whether it is a sum for some axes of a result that a product of matrices is made for all of.

    That product has a schedule for itself only. Sums that are made of it, or that it is made of, are not meant.
    """
    fusion, node = case.fusion, case.node
    (place,) = case.places
    if case.is_product or not place.ranges < fusion.nest.outputs:
        return False
    apart = [each for each in fusion.products if _is_for_all(case, each) and not depends(each, node)]
    return bool(apart) and not any(depends(node, each) for each in apart)


def _is_second_product(case: Case) -> bool:
    """Whether another product of matrices is computed for the same elements: of two sums side by side, neither has the registers."""
    fusion, node = case.fusion, case.node
    (place,) = case.places
    if _is_part(case) or count(place.ranges) * case.terms <= case.small or not case.is_product:
        return False
    if fusion.product is None:
        fusion.product = node
    return fusion.product is not node


def _is_scanned(case: Case) -> bool:
    """Whether a scan of the kernel would make a sum in each of its steps: it runs along no lanes, and step by step."""
    fusion, (place,) = case.fusion, case.places
    target = fusion.tensors.target
    if target.is_gpu or count(place.ranges) * case.terms <= target.launch:
        return False
    for scan, asked in fusion.asked_here(Ops.SCAN_AXIS):
        (axis,) = cast("ReduceAxes", scan.arg).axes
        if any(at.indices[axis] in place.ranges for at in asked) and depends(scan, case.node):
            return True
    return False


def _is_window_of_rows(case: Case) -> bool:
    """Whether a sum over windows (a convolution, a pool) would be computed inside of rows.

    The lanes and the rows of the image in registers that make it fast belong to a kernel of its own. Rows of another kernel cut
    it element by element, each with its own window.
    """
    (place, *_) = case.places
    inside = len(case.places) > 1 or not place.ranges <= case.fusion.nest.outputs
    is_large = most(shape(case.node)) * case.terms > case.small
    return inside and is_large and slides(case.node, case.fusion.around.realised)


def _may_nest(case: Case, row: int) -> bool:
    """Whether a product of matrices may be computed row by row: elements that are cheap, of operands that stay near."""
    if case.target.is_gpu and most(shape(case.node)) * case.terms > case.small:
        return _is_walked(case)  # its threads would share the row, and each do whole sums
    return (
        case.terms <= case.target.narrow_terms
        and row * case.terms * case.node.dtype.itemsize <= case.target.reread_bytes
    )


def _is_walked(case: Case) -> bool:
    """Whether blocks of it are made on the way to another product, by tensor cores: to one, not to one on the way to a third."""
    fusion, node = case.fusion, case.node
    if not case.is_product or not may_walk(fusion.tensors.target, node) or _ends_a_walk(case):
        return False
    asked = [n for n in fusion.loops_asked if n.op is Ops.REDUCE_AXIS and n not in fusion.around.realised]
    return sum(fusion.around.graph.is_product(each) and depends(each, node) for each in asked) == 1


def _ends_a_walk(case: Case) -> bool:
    """Whether it is what another product is made on the way to: values of attention, which are projected afterwards."""
    return case.node.src[0] in case.fusion.around.again


def _is_no_row(case: Case) -> bool:
    closure = case.fusion.nest.closure
    around = any(closure(place.ranges) != place.ranges for place in case.places)
    return around or case.fusion.rows.of(case.node, case.places) is None


def _row_length(case: Case) -> int:
    row = case.fusion.rows.of(case.node, case.places)
    return 0 if row is None else most(shape(case.node)[axis] for axis in row.axes)


def _is_wide_product(case: Case) -> bool:
    inner = frozenset(r for place in case.places for r in place.ranges) - case.fusion.nest.outputs
    return (case.is_product or _is_sum_of_threads(case, inner)) and not _may_nest(case, _row_length(case))


def _is_sum_of_threads(case: Case, inner: Collection[UOp]) -> bool:
    """Whether threads of a GPU that share a row would each make whole sums for it: of products, or of another axis (a mean, then a softmax)."""
    return case.target.is_gpu and bool(inner) and case.terms >= case.target.shares.shared_terms


def _has_few_long_rows(case: Case) -> bool:
    row = case.fusion.rows.of(case.node, case.places)
    few = (
        row is not None
        and count(row.held) < FEW_ROWS
        and _row_length(case) * case.terms > case.target.row_terms
    )
    return few and not _is_walked(case)


# -- the tables ------------------------------------------------------------------------------------------------------

REDUCED_HERE: Final = (
    Reason("shared", "several kernels need this sum", is_shared),
    Reason("by position", "it is taken at positions that are computed", _is_unknown),
    Reason("beside a walk", "a kernel that walks over products makes nothing else", _is_beside_a_walk),
    STORED_IN_ORDER,
)
"""Reductions."""

REDUCED_ONCE: Final = (
    Reason("beside others", "a product of matrices that is a part of the result only", _is_beside),
    Reason("inside out", "its loops would have to be around others that are around them", _is_inside_out),
    Reason(
        "product of rows",
        "a product of matrices that is too large to be computed row by row",
        _is_product_of_rows,
    ),
    Reason("summed up", "a product of matrices that is reduced again, and small", _is_summed_up),
    Reason(
        "window of rows",
        "a sum over windows, whose lanes and registers are those of a kernel of its own",
        _is_window_of_rows,
    ),
    Reason("scanned", "a scan would make such a sum in each of its steps", _is_scanned),
    Reason("few rows", "the rows are too few for all cores, and long", _has_few_rows),
    Reason("held up", "another sum for few rows would leave it few blocks", _is_held_up, with_epilogue=False),
    Reason("across", "long sums across what lies together in memory", _is_across),
    Reason(
        "made by every part",
        "blocks that make parts of another sum would each make it",
        _is_made_by_every_part,
    ),
    Reason("second product", "the kernel has another product of matrices", _is_second_product),
    Reason(
        "beside a product",
        "a sum for some axes of what a product of matrices is made for all of",
        _is_beside_a_product,
    ),
)
"""Reductions of which every element would be computed once."""

REDUCED_AGAIN: Final = (
    Reason("no row", "it is needed again, and cannot be kept as a row of the kernel", _is_no_row),
    Reason(
        "product of rows",
        "a product of matrices that is too large to be computed row by row",
        _is_wide_product,
    ),
    Reason(
        "window of rows",
        "a sum over windows, whose lanes and registers are those of a kernel of its own",
        _is_window_of_rows,
    ),
    Reason("few rows", "the rows are too few for all cores, and long", _has_few_long_rows),
)
"""Reductions that would be computed again and again, unless a row of them is kept."""

NO_ROW: Final = REDUCED_AGAIN[0]
