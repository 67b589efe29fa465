"""Products whose rows, columns or terms are several axes, joined to one each before a core takes them.

The rows of a convolution are the pixels of all images, its columns are output channels, its terms the taps of a window and the channels
of the input. As one axis each they fill tiles as well as those of any matrix, and the loop over terms is long enough for tiles to be
fetched far ahead. What is joined is what one factor alone depends on, and what is added up; which axis runs fastest is seen in
memory: neighbours stay neighbours, so that sixteen bytes are still copied at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from planish.actions.join import Join
from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.optimize.draft import Draft
from planish.uop.nest import OUTPUT, count, name_of, plain_index, size_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.products import Product, nearly
from planish.uop.ranges import kind_of
from planish.uop.strides import stride
from planish.uop.tensor_cores import Core


class JoinedAxes(NamedTuple):
    """The axes of a sum of products by which factor depends on them, each slowest first."""

    rows: tuple[UOp, ...]
    columns: tuple[UOp, ...]
    terms: tuple[UOp, ...]

    @property
    def are_single(self) -> bool:
        return all(len(axes) < 2 for axes in self)


def groups_of(product: Product) -> JoinedAxes:
    """The axes of a product, in the order in which they lie in memory."""
    a, b, reduce = product.a, product.b, product.reduce
    outputs = [r for r in reduce.ranges if kind_of(r) in OUTPUT]
    return JoinedAxes(
        _as_they_lie((r for r in outputs if r in a.ranges and r not in b.ranges), a),
        _as_they_lie((r for r in outputs if r in b.ranges and r not in a.ranges), b),
        _as_they_lie(
            (r for r in reduce.src[1:] if kind_of(r) is AxisType.REDUCE and r in a.ranges and r in b.ranges),
            max(a, b, key=lambda value: count(value.ranges)),  # most of what is copied
        ),
    )


def _as_they_lie(axes: Iterable[UOp], value: UOp) -> tuple[UOp, ...]:
    """Axes by how far apart their neighbours are in what a value is read from, the farthest first."""
    index = next(
        (plain_index(n) for n in value.toposort() if n.op is Ops.INDEX and n.src[0].op is Ops.DEFINE_GLOBAL),
        None,
    )

    def apart(r: UOp) -> tuple[bool, int, tuple[int, ...]]:
        step = None if index is None else stride(index, r)
        return step is not None, -abs(step or 0), r.order

    return tuple(sorted(axes, key=apart))


def joined(given: Draft, core: Core) -> Iterator[Draft]:
    """The kernel with the axes of a product joined, for every pair of factors that has some to join, or shares one in groups."""
    draft = given.copy()
    groups_apart(draft)
    is_cut = len(draft.actions) > len(given.actions)
    seen: set[tuple[UOp, UOp]] = set()
    for product in nearly(draft.sink, core):
        if (product.a, product.b) in seen:
            continue
        seen.add((product.a, product.b))
        groups = groups_of(product)
        if (groups.are_single and not is_cut) or not all(map(size_of, (r for axes in groups for r in axes))):
            continue
        trial = draft.copy()
        if all(_join(trial, axes) for axes in groups):
            yield trial


def groups_apart(draft: Draft) -> None:
    """Cut an axis of which a factor depends on a quotient only.

    The outputs of a group of channels read the same ones; a place of a transposed convolution is some steps and a phase.
    """
    seen: set[UOp] = set()
    for node in draft.sink.toposort():
        if node.op is not Ops.FLOORDIV or node.src[0].op is not Ops.RANGE or node.src[1].op is not Ops.CONST:
            continue
        axis, size = node.src[0], cast("int", node.src[1].arg)
        if kind_of(axis) not in OUTPUT or axis in seen or not size_of(axis):
            continue
        seen.add(axis)
        if size_of(axis) % size == 0 or draft.take(PadTo, axis, size, "phases of equal length"):
            draft.take(Split, axis, size, "the outputs of a group of channels, or phases")


def _join(draft: Draft, axes: tuple[UOp, ...]) -> bool:
    first, *others = map(name_of, axes)
    return all(draft.do(Join(first, each), "one axis of a matrix") for each in others)
