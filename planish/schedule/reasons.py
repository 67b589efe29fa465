"""Why a tensor gets memory of its own, instead of being computed where it is used: a table of reasons, asked in this order.

Each has a name, a sentence for whoever asks (`exe.why()`), and a test (`reason.py`). The first that holds is the reason; where none does, the
tensor is computed inside of the kernel that asks for it. Tests look at the kernel in the making (`fusion.py`) and change nothing
but one thing: the first product of matrices among the elements of a result is noted, for a second one to be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from planish.schedule.elements import COMPUTED
from planish.schedule.graph import depends
from planish.schedule.limits import AGAIN, CHEAP, FEW_ROWS, MOST_STEPS
from planish.schedule.reason import Case, Reason
from planish.schedule.tensors import most
from planish.schedule.walked import MOST_COLUMNS, is_repeated_in_a_walk, may_walk
from planish.uop.nest import count
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.reached import reached
from planish.uop.shape import same_dim, shape
from planish.uop.strides import stride

if TYPE_CHECKING:
    from planish.schedule.fusion import Fusion


_RESIZED: Final = 4
"""How many times larger than its source a tensor may be that is taken from it at places, and still be worth memory."""
_PROBE: Final = 1 << 20
"""The first number of ranges that only stand for the axes of a tensor while its places are looked at."""


# -- what is computed element by element -----------------------------------------------------------------------------


def is_costly(node: UOp) -> bool:
    """Whether computing an element costs more than reading it."""
    return node.op not in CHEAP and node.op is not Ops.INDEX


def _is_in_a_large_kernel(case: Case) -> bool:
    fusion = case.fusion
    return len(fusion.recipes) > MOST_STEPS and not fusion.elements.is_pure(case.node)


def _has_many_buffers(case: Case) -> bool:
    """Whether its kernel reads enough without it. (Joined tensors are loops of their own, with one of them each.)"""
    fusion = case.fusion
    if (
        len(fusion.buffers) <= case.target.read_streams
        or _is_joined(case)
        or fusion.elements.is_pure(case.node)
    ):
        return False
    return len(fusion.prices.of(case.node).memory) > 1  # of a single one it may as well be made here


def _is_summed_again(case: Case) -> bool:
    return case.times > AGAIN and case.fusion.reduces(case.node)


def _is_row_of_a_sum(case: Case) -> bool:
    """Whether each of its elements is made of a sum of its own, over a row, and all that is done with it is to sum it up.

    Rows run in lanes, and on all cores, where an output axis numbers them; a reduced one does neither. What is stored is one
    element for each row.
    """
    fusion, node = case.fusion, case.node
    (place, *more) = case.places
    outputs = fusion.nest.outputs
    if (
        more
        or place.ranges <= outputs
        or count(place.ranges & outputs) >= FEW_ROWS
        or not fusion.reduces(node)
    ):
        return False
    rows, row = most(shape(node)), 0
    for each in fusion.around.graph.operands(node, fusion.around.realised):
        if each.op is Ops.REDUCE_AXIS and each not in fusion.around.realised and most(shape(each)) == rows:
            row = max(row, most(shape(each.src[0])) // max(1, rows))
    return row > 1 and rows >= FEW_ROWS and rows * row > case.small and case.times <= AGAIN


def _is_stored_in_order(case: Case) -> bool:
    """Whether it is made of sums, and all that is done with it is to store it at rows that data chooses, in the order of their list.

    That order is kept by going through the list, on one core or in every block. Sums are no part of it: made before, they run on
    all cores. What is only widened, or depends on what is stored already, is not meant.
    """
    fusion, node = case.fusion, case.node
    root = fusion.roots[0]
    if root.op is not Ops.STORE:
        return False
    sums = fusion.around.graph.reductions(node, fusion.around.realised)
    target = case.target  # blocks of a GPU would each make even short ones
    if not any(
        most(shape(each.src[0])) > (FEW_ROWS * most(shape(each)) if target.is_gpu else target.small_elements)
        for each in sums
    ):
        return False
    if node.op is Ops.CAST and node.dtype.itemsize > node.src[0].dtype.itemsize:
        return False
    place = root.src[0]
    is_listed = any(most(shape(each)) > 1 and not fusion.elements.is_pure(each) for each in place.src[1:])
    return is_listed and not depends(node, place)


def is_worth_a_row(case: Case) -> bool:
    """Whether keeping rows saves a matrix that would otherwise be written: computed, and seen by reductions of its rows."""
    fusion, node, places, _ = case
    if len(places) != 1 or not _is_summed_again(case):
        return False
    (place,) = places
    again = count(fusion.nest.closure(place.ranges) - place.ranges)
    row = fusion.rows.of(node, places)
    if row is None:
        return False
    length, target = most(shape(node)[a] for a in row.axes), case.target
    if target.is_gpu:
        if again > MOST_COLUMNS or node.dtype.itemsize != 2:
            return False
    elif again * length * node.dtype.itemsize > target.reread_bytes:
        return False
    elif again * 2 > length:
        return False  # the matrix is no larger than what is made of it
    size, is_computed, is_reduced = most(shape(node)), False, False
    stack, seen = [node], {node}
    while stack:
        for each in fusion.around.graph.operands(stack.pop(), fusion.around.realised):
            if each in seen or each.op is not Ops.REDUCE_AXIS or each in fusion.around.realised:
                continue
            seen.add(each)
            is_computed |= most(shape(each)) >= size and (not target.is_gpu or may_walk(target, each))
            is_reduced |= most(shape(each)) < size == most(shape(each.src[0])) <= most(shape(each)) * length
            if most(shape(each)) < size:
                stack.append(each.src[0])
    return is_computed and (is_reduced or target.is_gpu)


def _is_scattered(fusion: Fusion) -> bool:
    """Whether data says where along the last axis a kernel of a CPU stores: no two elements are neighbours."""
    (root, *_) = fusion.roots
    if root.op is not Ops.STORE or fusion.tensors.target.is_gpu:
        return False
    memory, *places = root.src[0].src
    fast = [place for dim, place in zip(shape(memory), places, strict=False) if not same_dim(dim, 1)]
    return bool(fast) and not fusion.elements.is_pure(fast[-1])


def _is_picked(case: Case) -> bool:
    """Whether data says which elements along its last axis are asked for: in lanes those are no neighbours."""
    if case.target.is_gpu:
        return False
    dims = [axis for axis, dim in enumerate(shape(case.node)) if not same_dim(dim, 1)]
    return bool(dims) and any(
        n.op is Ops.INDEX for place in case.places for n in place.indices[dims[-1]].toposort()
    )


def _steps_to(case: Case) -> Iterator[UOp]:
    """What a tensor is computed from, down to memory."""

    def below(node: UOp) -> Iterator[UOp]:
        sources = node.src if node.op in COMPUTED or node.op in MOVEMENT else ()
        return (source for source in sources if source not in case.fusion.around.realised)

    return reached([case.node], below)


def _is_position(case: Case) -> bool:
    """Whether it says, after some arithmetic with data, where elements are taken from: in lanes those are loaded one by one, and so is it computed."""
    fusion, node = case.fusion, case.node
    if case.target.is_gpu or not node.dtype.is_int or fusion.elements.is_pure(node):
        return False
    users = fusion.around.graph.users

    def above(each: UOp) -> Iterator[UOp]:
        return (user for user in users.get(each, ()) if user.op in MOVEMENT or user.dtype.is_index)

    return any(
        user.op is Ops.INDEX and each in user.src[1:]
        for each in reached([node], above)
        for user in users.get(each, ())
    )


def _is_joined(case: Case) -> bool:
    """Whether it chooses between tensors laid side by side: every element asks which of them it is in."""
    if case.node.op is not Ops.WHERE:
        return False
    for source in case.node.src[1:]:
        inner = source
        while inner.op in MOVEMENT:
            if inner.op is Ops.PAD:
                return True
            inner = inner.src[0]
    return False


def _is_windowed(case: Case) -> bool:
    """Whether elements of it are taken by position, as a convolution does: many times each, with a gate for the padding.

    A conversion stays: it goes with the copy of what the kernel needs.
    """
    if case.node.op in {Ops.CAST, Ops.BITCAST}:
        return False
    users = case.fusion.around.graph.users

    def moved(node: UOp) -> Iterator[UOp]:
        return (user for user in users.get(node, ()) if user.op in MOVEMENT)

    return any(
        user.op is Ops.INDEX and user.src[0] is node
        for node in reached([case.node], moved)
        for user in users.get(node, ())
    )


def _is_gathered(case: Case) -> bool:
    """Whether its elements are taken from places that no fixed step leads through: a mirror image, a resized image, rows by number.

    Every use would find the place anew and load a single element; a copy is read in vectors, and can be staged. What a window
    of its own takes, with its taps as axes, is not meant: that is many times larger than what it is taken from.
    """
    graph, node = case.fusion.around.graph, case.node
    if node.op is not Ops.INDEX or len(node.src) < 2:
        return False
    x, *positions = node.src
    elements = case.fusion.elements
    places = [position for position in positions if not position.dtype.is_bool]
    if not all(elements.is_pure(position) for position in places):
        return any(most(shape(each)) > 1 for place in places for each in graph.operands(place, ()))
    if not _is_windowed(case) and most(shape(node)) > _RESIZED * most(shape(x)):
        return False
    table = case.fusion.table
    at = tuple(table.range(dim, _PROBE + axis) for axis, dim in enumerate(shape(node)))
    indices = [elements.now(place, at) for place in places]
    return any(stride(place, r) is None for place in indices for r in place.ranges)


def _is_repeated(case: Case) -> bool:
    """Whether windows read a tensor each of whose elements stands several times in a row: an image made larger.

    No fixed step leads from one to the next.
    """
    node = case.node
    if case.target.is_gpu:
        return False
    while node.op in MOVEMENT and node not in case.fusion.around.realised:
        (inner, *_) = node.src
        if node.op is Ops.RESHAPE and inner.op is Ops.EXPAND and _is_merged(node, inner):
            return True
        node = inner
    return False


def _is_merged(node: UOp, expanded: UOp) -> bool:
    """Whether an axis of an expanded tensor that repeats its elements is a part of another one after a change of shape."""
    old, new = shape(expanded), shape(node)
    if not all(isinstance(dim, int) for dim in (*old, *new)):
        return False
    edges = {most(new[:axis]) for axis in range(len(new) + 1)}
    return any(
        not same_dim(dim, before) and not {most(old[:axis]), most(old[: axis + 1])} <= edges
        for axis, (dim, before) in enumerate(zip(old, shape(expanded.src[0]), strict=True))
    )


def _hides_costly(case: Case) -> bool:
    """Whether it is made of what gets memory itself, by cheap steps: then this may as well be what is stored."""
    node, realised = case.node, case.fusion.around.realised
    stack, seen = [node], {node}
    while stack:
        for source in stack.pop().src:
            inner = source
            while inner.op in {Ops.RESHAPE, Ops.PERMUTE} and inner not in realised:
                inner = inner.src[0]
            if inner in seen or inner in realised or inner.op not in COMPUTED:
                continue
            if inner.dtype.itemsize < node.dtype.itemsize:
                continue
            if inner.op not in CHEAP:
                return True
            seen.add(inner)
            stack.append(inner)
    return False


def _is_beside_scores(case: Case) -> bool:
    fusion = case.fusion
    return is_repeated_in_a_walk(
        fusion.around, fusion.roots[0], case.node, case.times, fusion.elements.counts
    )


# -- how often an element would be computed --------------------------------------------------------------------------


def _in_tiles(case: Case) -> float:
    """Where a tile of registers uses it for several results."""
    return max(1.0, case.times / (case.target.registers // 4))


def _in_few_rows(case: Case) -> float:
    """Of a few rows on a GPU threads have an element for all of them: what would be stored is read but once."""
    return 1.0 if case.target.is_gpu and case.times <= FEW_ROWS else case.times


def _one_by_one(case: Case) -> float:
    """Compared with computing it in lanes: where data says which elements the kernel needs, or where it stores them."""
    alone = _is_scattered(case.fusion) or _is_picked(case)
    return case.times * case.target.lanes(case.node.dtype) if alone else 1.0


def _by_scalars(case: Case) -> float:
    """A position, of which each lane has its own: in each turn of the loops outside.

    Where floats are rounded to it, that is done for one lane after the other.
    """
    loops = [r for r in case.fusion.nest.indices if r.op is Ops.RANGE]
    inside = [number for number, r in enumerate(loops) if any(r in place.ranges for place in case.places)]
    turns = count(loops[: inside[-1] + 1]) / max(1, most(shape(case.node))) if inside else 1.0
    rounds = any(each.dtype.is_float for each in _steps_to(case))
    return max(case.times, turns) * (case.target.lanes(case.node.dtype) if rounds else 1)


# -- the table -------------------------------------------------------------------------------------------------------

STORED_IN_ORDER: Final = Reason(
    "stored in order",
    "it is made of sums, and stored at rows that data chooses, one after the other",
    _is_stored_in_order,
    with_epilogue=False,
)
"""Tensors that are scattered."""

COMPUTED_HERE: Final = (
    Reason(
        "large kernel",
        f"its kernel has more than {MOST_STEPS} steps without it",
        _is_in_a_large_kernel,
        with_epilogue=False,
    ),
    Reason(
        "row of a sum",
        "its elements are made of sums over rows, which run in lanes and on all cores if it is stored",
        _is_row_of_a_sum,
    ),
    STORED_IN_ORDER,
    Reason(
        "many buffers",
        "without it its kernel reads more tensors than hardware follows",
        _has_many_buffers,
        with_epilogue=False,
    ),
    Reason("sums inside", "it is made of sums, which would be computed again and again", _is_summed_again),
    Reason("beside scores", "a walk over products would compute it for each of them", _is_beside_scores),
    Reason(
        "costly",
        "it costs more than reading it, and is needed again",
        lambda case: is_costly(case.node),
        _in_tiles,
    ),
    Reason(
        "one by one",
        "data says which elements its kernel needs, or where it stores them, so it is computed in lanes before",
        lambda case: is_costly(case.node) or _is_joined(case),
        _one_by_one,
    ),
    Reason(
        "position",
        "elements are taken from where it says, one by one, and it is computed in lanes before",
        _is_position,
        _by_scalars,
    ),
    Reason(
        "joined",
        "which of the joined tensors an element is in would be asked again",
        _is_joined,
        _in_few_rows,
    ),
    Reason("window", "windows read its elements again", _is_windowed, lambda case: case.times),
    Reason(
        "after something costly",
        "it follows from something that would need memory, by steps that cost nothing",
        _hides_costly,
        _in_tiles,
    ),
)
"""Tensors that are computed element by element."""

TAKEN_HERE: Final = (
    Reason(
        "gathered",
        "it is taken from places that no fixed step leads through, and read again",
        _is_gathered,
        lambda case: case.times,
    ),
)
"""Elements of a tensor at positions."""

MOVED_HERE: Final = (
    Reason(
        "repeated",
        "its elements stand several times in a row, and windows read them again",
        _is_repeated,
        lambda case: case.times,
    ),
)
"""Tensors in another order or shape, of which elements are taken at positions."""

SCAN: Final = Reason("scan", "its running sums do not go along a loop of the kernel")
WRITTEN: Final = Reason("written", "something is stored into it, or it was asked for")
RESULT: Final = Reason("result", "it is a result")
TAKEN: Final = Reason("taken", "a loop, a branch, a size or an op on the host takes it from memory")


def needed_again(verdict: object) -> Reason:
    """The reason of a tensor that is cheaper stored than computed wherever it is needed, with both costs."""
    return Reason("needed again", str(verdict))
