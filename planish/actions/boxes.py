"""What a read needs of memory, as a box: loops that it depends on through one sum only are one axis of it.

A window of a convolution is read at `2*i + r`: for 8 values of i and 3 of r these are 24 reads, of 17 elements. A tile with an
axis for i and one for r would hold all 24 (im2col); a box has an axis for the sum, and holds the 17, rows and columns of
padding among them as zeros. Nothing is assumed about where the sum comes from: with r := s - 2*i the read has to become
one that does not depend on i any more, its gate included.

Before → after::

    x[c*N + i*2 + r]         x[c*N + s]   at   s = i*2 + r      i < 8, r < 3, s < 17

Besides, on machines that copy several elements at once:

* the axis along which memory is contiguous runs on to whole vectors, where the machine can leave out the lanes too many;
* where the lanes of the kernel are not contiguous in memory (the output channels of a kernel's weights), neighbouring axes are
  joined as far as they are one in memory, so that squares of lanes can be copied and transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from planish.actions.padding import gated
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import LANES, plain_index
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute
from planish.uop.strides import stride
from planish.uop.symbolic import LOADED, simplify, sym
from planish.uop.symbolic.affine import affine

_QUARTER: Final = 4
"""A row that this many elements divide is copied as it is, if it is shorter than a vector."""

Fresh = Callable[[UOp], UOp]
"""A new range of a size, which may be known only at launch."""


def lanes_of(facts: Nest, read: UOp) -> UOp | None:
    """The axis whose neighbours are neighbours in what is computed of a read: the last of those in lanes (copies have their own)."""
    around: frozenset[UOp] = frozenset()
    for node in facts.nodes:
        if node.op in {Ops.REDUCE, Ops.BUFFERIZE, Ops.STORE}:
            value = node.src[1] if node.op is Ops.STORE else node.src[0]
            if read in value.toposort(lambda n: n.op not in {Ops.REDUCE, Ops.BUFFERIZE}):
                around |= value.ranges
    upcast = [
        r
        for r in around
        if kind_of(r) is AxisType.UPCAST
        and any(closing.op is not Ops.BUFFERIZE for closing in facts.closers.get(r, ()))
    ]
    return max(upcast, key=_path, default=None)


def _path(axis: UOp) -> tuple[int, ...]:
    place = axis.arg
    return place.path if isinstance(place, Axis) else ()


def extent(axis: UOp) -> int:
    """How many elements an axis of a box has, at the largest sizes: of a loop, or of lanes."""
    return axis.vmax + 1


class Stride(NamedTuple):
    """How far a read moves from one value of a loop to the next: a number of elements, or of rows whose length has only a name."""

    elements: int
    unit: UOp | None = None


def stride_of(index: UOp, axis: UOp) -> Stride | None:
    """The step of an index along a loop; None if it is not one and the same everywhere."""
    count = stride(index, axis)
    if count is not None:
        return Stride(count)
    sum_ = affine(index)
    moving = [] if sum_ is None else [term for term in sum_.terms if axis in term.ranges]
    if sum_ is None or len(moving) != 1 or moving[0].op is not Ops.MUL:
        return None
    (rows,) = moving
    (still, moved), times = sorted(rows.src, key=lambda part: axis in part.ranges), sum_.terms[rows]
    inner = None if axis in still.ranges else stride(moved, axis)
    return None if inner is None else Stride(inner * times, still)


@dataclass(slots=True)
class Boxed:
    """A read in terms of the axes of its box, and what these are in terms of the loops."""

    read: UOp
    at: dict[UOp, UOp] = field(default_factory=dict)
    """For each axis of the box, the sum that it stands for."""
    turned: UOp | None = None
    """The axis in lanes, if it is another than the contiguous one."""


@dataclass(slots=True)
class _Group:
    """One axis of a box in the making."""

    axis: UOp
    step: Stride
    at: UOp

    @property
    def bound(self) -> UOp:
        """How many elements it has."""
        return self.axis.src[0]

    @property
    def size(self) -> int:
        """The same, at most."""
        return extent(self.axis)


def boxed(read: UOp, inner: Sequence[UOp], lanes: UOp | None, fresh: Fresh, target: Target) -> Boxed:
    """A read of memory that depends on some loops, in as few axes as it takes."""
    index = plain_index(read)
    if index is None:
        return Boxed(read, {axis: axis for axis in inner})
    steps = {axis: stride_of(index, axis) for axis in inner if axis.op is Ops.RANGE}
    turned = lanes if lanes in steps and steps[lanes] not in {Stride(0), Stride(1), Stride(-1)} else None
    box = Boxed(read, turned=turned)
    groups: list[_Group] = []
    moving: list[_Group] = []
    for axis in inner:
        step = steps.get(axis)
        if axis is turned or step is None or not step.elements:
            box.at[axis] = axis
        elif step.elements > 0:
            moving.append(_Group(axis, step, axis))
        else:
            moving.append(_backwards(box, axis, step, fresh))
    for one in sorted(moving, key=lambda group: (group.step.elements, group.size)):
        if not any(_joined(box, group, one, fresh, turned is not None) for group in groups):
            groups.append(one)
    for group in groups:
        if group.step == Stride(1):
            _in_vectors(box, group, fresh, target)
        box.at[group.axis] = group.at
    return box


def _backwards(box: Boxed, axis: UOp, step: Stride, fresh: Fresh) -> _Group:
    """A loop along which the read moves down, as an axis along which it moves up."""
    bound = axis.src[0]
    up, last = fresh(bound), simplify(bound + -1)
    box.read = _simplified(substitute(box.read, {axis: up * -1 + last}))
    return _Group(up, Stride(-step.elements, step.unit), axis * -1 + last)


def _joined(box: Boxed, group: _Group, one: _Group, fresh: Fresh, neighbours: bool) -> bool:
    """Whether a loop becomes part of an axis of the box: it moves by a multiple, and less far than what is there."""
    times, rest = divmod(one.step.elements, group.step.elements)
    if (
        one.step.unit is not group.step.unit
        or rest
        or times > group.size
        or (times == group.size and not neighbours)
    ):
        return False
    longer = fresh(simplify((one.bound + -1) * times + group.bound))
    read = _simplified(substitute(box.read, {group.axis: longer - one.axis * times}))
    if one.axis in read.ranges:
        return False
    box.read = read
    group.axis, group.at = longer, group.at + one.at * times
    return True


def _simplified(read: UOp) -> UOp:
    """In normal form, at whatever cost: what a sum contains is the question, and equal terms have to meet for that."""
    memo = read.table.memos.setdefault(sym, {})
    return read.replace(
        src=(read.src[0], *(rewrite(index, sym, memo=memo, leaves=LOADED) for index in read.src[1:]))
    )


def _in_vectors(box: Boxed, group: _Group, fresh: Fresh, target: Target) -> None:
    """Let the contiguous axis run on to whole vectors; beyond its end nothing is read."""
    width, bound = target.lanes(box.read.dtype), group.bound
    whole = simplify((bound + (width - 1)) // width * width)
    if target.block or not target.masked or whole is bound:
        return
    if group.size < width and (group.size % _QUARTER == 0 or group.size < _QUARTER):
        return
    if kind_of(group.axis) in LANES and group.size < width:
        return
    longer = fresh(whole)
    box.read = _simplified(gated(substitute(box.read, {group.axis: longer}), longer < bound))
    group.axis = longer
