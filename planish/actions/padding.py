"""What `pad_to` and `overrun` have in common: an axis runs on to a multiple of some number, and nothing happens beyond its end.

Lanes and threads come in fixed numbers; 30 elements have none of 4. With 32 they have, if two of them do nothing:

* an INDEX that depends on the axis is nowhere beyond the end: nothing is loaded or stored there (a read for something that is
  stored stays as it is, if it has a gate that keeps it inside of its buffer: `bounded_reads.py`);
* a REDUCE over the axis combines the identity of its op beyond the end, *before* lanes are combined with each other (what is
  computed from a load of nothing need not be neutral, and a chunk of lanes may be half valid; a sum of products of such loads
  is, and stays as it is);
* a BUFFERIZE keeps what is computed there where nobody reads it: behind the others; at the end of each row, where rows of the axis follow
  each other; or all in one place more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from planish.actions.base import OneAxis, Refusal, fitting
from planish.target import Target
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest import LANES, OUTPUT, THREADS, closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.nest.order import is_row_major
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.symbolic.reduce import identity

_DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD})
MOST_PADDING: Final = 4
"""How many times longer padding may make an axis."""


def gated(place: UOp, condition: UOp) -> UOp:
    """A place that is nowhere unless the condition holds."""
    buffer, *indices = place.src
    if not indices:
        return place
    if indices[-1].dtype.is_bool:
        return place.replace(src=(*place.src[:-1], indices[-1] & condition))
    first = condition.where(indices[0], place.table.invalid(indices[0].dtype))
    return place.replace(src=(buffer, first, *indices[1:]))


def _neutral(root: UOp, value: UOp, condition: UOp) -> UOp:
    nothing = identity(cast("Ops", root.arg), root)
    if nothing is None:
        raise Refusal(
            f"pad_to: {cast('Ops', root.arg).name} of {root.dtype} has no neutral value to pad with"
        )
    return condition.where(value, value.const_like(nothing))


def _kept_aside(node: UOp, padded: UOp, r: UOp, condition: UOp) -> UOp:
    """What is kept, where beyond the end it overwrites nothing."""
    first = next(k for k, place in enumerate(node.src) if k and r in place.ranges)
    others = (place for k, place in enumerate(node.src) if k and k != first)
    if is_row_major(padded.src[first]) and not any(r in place.ranges for place in others):
        return padded  # there is room behind
    aside = condition.where(padded.src[first], node.src[first].vmax + 1)
    return padded.replace(src=(*padded.src[:first], aside, *padded.src[first + 1 :]))


class _Pitch(NamedTuple):
    """How far apart rows of what is kept are, and will be."""

    now: int
    then: int

    def of(self, place: UOp) -> UOp:
        """A place in rows that are so far apart."""
        return simplify(place // self.now * self.then + place % self.now)


def _longer_rows(sink: UOp, r: UOp, new: UOp) -> dict[UOp, _Pitch]:
    """What is kept in rows along an axis, row after row, and read row by row: rows can have room at their ends."""
    size, nodes = r.src[0], sink.toposort()
    if size.op is not Ops.CONST:
        return {}
    pitch, pitches = _Pitch(cast("int", size.arg), new.vmax + 1), dict[UOp, _Pitch]()
    for node in nodes:
        if node.op is not Ops.BUFFERIZE or len(node.src) != 2 or r not in closed_by(node):
            continue
        place = node.src[1]
        if place is r or stride(place, r) != 1 or not is_row_major(place):
            continue
        readers = [user for user in nodes if node in user.src]
        if any(user.op is not Ops.INDEX or user.src[0] is not node or len(user.src) != 2 for user in readers):
            continue
        if not any(each.op in _DIVISIONS for user in readers for each in pitch.of(user.src[1]).toposort()):
            pitches[node] = pitch
    return pitches


def longer(r: UOp, multiple: int) -> UOp:
    """A range that runs on to a multiple."""
    return r.replace(src=(simplify((r.src[0] + (multiple - 1)) // multiple * multiple), *r.src[1:]))


class Padding(OneAxis):
    """An axis that runs on to a multiple."""

    takes = OUTPUT | {AxisType.REDUCE}
    sized = "multiple"
    multiple: int

    def check(self, facts: Nest, r: UOp) -> None:
        """Refuse what else does not fit."""

    def read(self, sink: UOp, r: UOp) -> Callable[[UOp, UOp], UOp]:
        """What becomes of a place that depends on the axis, of which the second argument is the form with the longer one."""
        raise NotImplementedError

    def is_neutral(self, reduction: UOp, r: UOp) -> bool:
        """Whether a reduction does not change by what is beyond the end."""
        return False

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.axis_of(sink, self.axis)
        if kind_of(r) in LANES | THREADS:
            raise self.no(f"axis {self.axis} is {kind_of(r).name}, and of the right length already")
        size, multiple = r.src[0], self.multiple
        if size.ranges:
            raise self.no(f"the length of axis {self.axis} depends on other loops")
        if multiple < 2:
            raise self.no(f"{multiple} is no number to be a multiple of")
        if size.op is Ops.CONST:
            whole = cast("int", size.arg)
            if whole % multiple == 0:
                raise self.no(f"the {whole} of axis {self.axis} are a multiple of {multiple}")
            # tensor cores of a GPU have columns to spare, two of eight are worth it; and all threads of a warp run, idle or not
            most = max(MOST_PADDING * whole, target.warp) + int(target.is_gpu)
            if -(-whole // multiple) * multiple >= most:
                raise self.no(f"{multiple} makes axis {self.axis} of {whole} too long")
        facts = Nest.of(sink)
        self.check(facts, r)
        self.check_bounds(facts, r)
        kernel = self.padded(sink, r)
        # threads share rows of which one loop is longer already and another is not yet: the schedule as a whole is asked
        return kernel if target.block else fitting(sink, kernel, self, target)

    def padded(self, sink: UOp, r: UOp) -> UOp:
        """The kernel with the longer range."""
        new = longer(r, self.multiple)
        condition, read = new < r.src[0], self.read(sink, r)
        rows = _longer_rows(sink, r, new)
        final: dict[UOp, UOp] = {r: new}
        for node in sink.toposort():
            if node in final:
                continue
            src = tuple([final[source] for source in node.src])
            padded = node if src == node.src else node.replace(src=src)
            place = node
            if node.op is Ops.INDEX and (pitch := rows.get(node.src[0])) is not None:
                place, padded = (
                    each.replace(src=(each.src[0], pitch.of(each.src[1]))) for each in (node, padded)
                )
            if node.op is Ops.BUFFERIZE and (pitch := rows.get(node)) is not None:
                behind = simplify(node.src[1] - r)
                padded = padded.replace(src=(padded.src[0], pitch.of(behind) + new))
            elif node.op is Ops.INDEX and any(r in index.ranges for index in node.src[1:]):
                padded = read(place, padded)
            elif node.op is Ops.BUFFERIZE and r in closed_by(node):
                padded = _kept_aside(node, padded, r, condition)
            elif node.op is Ops.REDUCE and r in closed_by(node) and not self.is_neutral(node, r):
                padded = padded.replace(src=(_neutral(padded, padded.src[0], condition), *padded.src[1:]))
            elif node.op is Ops.STORE and r in node.ranges and r not in node.src[0].ranges:
                padded = padded.replace(src=(gated(padded.src[0], condition), *padded.src[1:]))
            final[node] = padded
        return rewrite(final[sink], pm_flatten_range)
