"""Reductions along an axis on which tensors are joined: a reduction of each of them, combined.

    sum(stack([x * 3, y, z]))        x * 3 + y + z

Inside of one reduction every term would ask which of the tensors it is in, and a loop that asks has no lanes to itself. Where a joined tensor
is stored, its loop is cut instead (stage 6); here there is nothing to store. What is computed of the joined tensor element by element
is computed of its parts. The order of a reduction is free (docs/semantics.md 1.7), and the parts are combined in the dtype in which it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final, cast

from planish.ptir.function import Value
from planish.ptir.ops.movement import ConcatAttrs
from planish.schedule.elements import COMPUTED
from planish.schedule.lowering.elementwise import ELEMENTWISE
from planish.schedule.tensors import Tensors, expand, full, pad, shrink
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import Dim, shape

_MOST_PARTS: Final = 32
"""Beyond, code for each of them is more than what asking costs."""
_MOST_STEPS: Final = 64
"""Ops between the joined tensor and its reduction that are looked at."""
_MOST_NODES: Final = 1024
"""The same of nodes."""
_DEEPEST: Final = 96
"""Nodes one below the other that are taken apart: below, a part is what is cut out."""


def joined_parts(tensors: Tensors, value: Value, x: UOp, axes: Collection[int]) -> list[UOp]:
    """The parts of a tensor along a reduced axis on which it is joined of others; nothing if it is not, or if somebody else needs it whole."""
    if tensors.target.is_gpu:  # threads share a reduction, and each of them asks once
        return []
    for axis in axes:
        size = shape(x)[axis]
        if isinstance(size, int) and _is_joined(value, axis):
            seams = _seams(x, axis, size)
            if 0 < len(seams) < _MOST_PARTS:
                parts = _Parts(tensors, axis)
                return [parts.of(x, begin, end) for begin, end in itertools.pairwise([0, *seams, size])]
    return []


def _is_joined(value: Value, axis: int) -> bool:
    """Whether it is made, element by element, of tensors joined on an axis, and each step has but one user."""
    near = [value]  # the nearest first
    for each in near:  # which grows meanwhile
        inst = each.def_inst
        if inst is None or len(each.users) != 1 or each.type.dims != value.type.dims:
            continue
        if inst.op.name == "concat":
            if cast("ConcatAttrs", inst.attrs).axis == axis:
                return True
        elif (inst.op.name in ELEMENTWISE or inst.op.name == "cast") and len(near) < _MOST_STEPS:
            near += inst.operands
    return False


def _seams(x: UOp, axis: int, size: int) -> list[int]:
    """Where one of the joined tensors ends and the next begins."""
    seams: set[int] = set()
    near = [x]
    seen = {x}
    for node in near:
        if node.op is Ops.WHERE and (places := _true_between(node.src[0], axis)) is not None:
            seams.update(places)
        sources = node.src if node.op in COMPUTED else node.src[:1] if node.op is Ops.PAD else ()
        for each in sources if len(near) < _MOST_NODES else ():
            if each not in seen and len(shape(each)) == len(shape(x)):
                seen.add(each)
                near.append(each)
    return sorted(place for place in seams if 0 < place < size)


def _true_between(node: UOp, axis: int) -> tuple[int, int] | None:
    """The places along an axis between which a mask is true, if it is a padded one."""
    if node.op is not Ops.PAD or _everywhere(node.src[0]) is not True:
        return None
    pairs = cast("tuple[tuple[Dim, Dim], ...]", node.arg)
    before, dim = pairs[axis][0], shape(node.src[0])[axis]
    if not isinstance(before, int) or not isinstance(dim, int):
        return None
    return before, before + dim


def _everywhere(node: UOp) -> object:
    """The number that a tensor has everywhere; None if it has several."""
    while node.op in MOVEMENT and node.op is not Ops.PAD:
        node = node.src[0]
    return node.arg if node.op is Ops.CONST else None


class _Parts:
    """Parts of tensors along one axis."""

    def __init__(self, tensors: Tensors, axis: int) -> None:
        self.tensors, self.axis = tensors, axis
        self.known: dict[tuple[UOp, int, int], UOp] = {}
        self.depth = 0

    def of(self, x: UOp, begin: int, end: int) -> UOp:
        """The elements from one place to another, made of nothing else."""
        key = x, begin, end
        if key not in self.known:
            self.depth += 1
            self.known[key] = self._taken_apart(x, begin, end) if shape(x) else x
            self.depth -= 1
        return self.known[key]

    def _taken_apart(self, x: UOp, begin: int, end: int) -> UOp:
        dims = shape(x)
        if self.depth > _DEEPEST:
            return self._cut_out(x, begin, end)
        wanted = (*dims[: self.axis], end - begin, *dims[self.axis + 1 :])
        if (
            x.op is Ops.WHERE
            and (chosen := _everywhere(condition := self.of(x.src[0], begin, end))) is not None
        ):
            return full(self.of(x.src[1 if chosen else 2], begin, end), wanted)
        if x.op is Ops.WHERE:
            return x.replace(src=(condition, *(self.of(source, begin, end) for source in x.src[1:])))
        if x.op in COMPUTED:
            return x.replace(src=tuple(self.of(source, begin, end) for source in x.src))
        if x.op is Ops.EXPAND and shape(x.src[0])[self.axis] == 1:
            return expand(x.src[0], wanted)
        if x.op is Ops.PAD:
            pairs = list(cast("tuple[tuple[Dim, Dim], ...]", x.arg))
            before, inner = pairs[self.axis][0], shape(x.src[0])[self.axis]
            if isinstance(before, int) and isinstance(inner, int):
                first, last = begin - before, end - before
                if last <= 0 or first >= inner:
                    return self.tensors.filled(False if x.dtype.is_bool else 0, x.dtype, wanted)
                if first >= 0 and last <= inner:
                    pairs[self.axis] = (0, 0)
                    return pad(self.of(x.src[0], first, last), pairs)
        return self._cut_out(x, begin, end)

    def _cut_out(self, x: UOp, begin: int, end: int) -> UOp:
        dims = shape(x)
        return shrink(
            x, dims, [(begin, end) if axis == self.axis else (0, dim) for axis, dim in enumerate(dims)]
        )
