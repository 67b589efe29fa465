"""Non-maximum suppression as a composition: take the best box left, drop what overlaps it, until none is left.

All batches and classes advance together; work is the number of boxes times the most taken of any class. Boxes are compared in
float64, exactly as semantics 10.4 and the interpreter do, comparisons with NaN included.
"""

from __future__ import annotations

from planish import dtypes
from planish.ptir.dims import bounds, product
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along, gather, may_be_empty, order_key
from planish.ptir.library.compaction import compact, unravel

_Corners = tuple[GraphValue, GraphValue, GraphValue, GraphValue]


def non_max_suppression(
    boxes: GraphValue,
    scores: GraphValue,
    limit: GraphValue,
    overlap: GraphValue,
    threshold: GraphValue,
    max_boxes: int,
    center_point_box: bool = False,
) -> tuple[GraphValue, GraphValue]:
    """The op `non_max_suppression`: rows (batch, class, box), batches first, and their count."""
    graph = boxes.graph
    batches, classes, count = scores.dims
    rows = product((batches, classes, max_boxes))
    steps = min(max_boxes, bounds(count)[1])
    if steps == 0:
        return graph.full((rows, 3), 0, dtypes.int64), graph.full((), 0, dtypes.int64)
    if may_be_empty(count):
        # A box that no threshold admits stands in where there is none.
        boxes = boxes.pad([0, 0, 0], [0, 1, 0])
        scores = scores.pad([0, 0, 0], [0, 0, 1], value=float("nan"))
    corners = _corners(boxes.cast(dtypes.float64), center_point_box)
    key = order_key(scores)
    # Below the key of every number, so that what is gone never wins.
    gone = int(key.dtype.min or 0)
    allowed = overlap.cast(dtypes.float64).broadcast_to(scores.dims)
    position = graph.iota(scores.dims, 2, dtypes.int32)
    left = scores.cast(dtypes.float64).gt(threshold.cast(dtypes.float64).broadcast_to(scores.dims))
    most = limit.max(0).min(steps)
    lines = scores.dims[:2]

    def more(step: GraphValue, left: GraphValue, taken: GraphValue, counts: GraphValue) -> GraphValue:
        return step.lt(most).and_(left.reduce_or())

    def body(
        step: GraphValue, left: GraphValue, taken: GraphValue, counts: GraphValue
    ) -> tuple[GraphValue, ...]:
        alive = left.reduce_or([2])
        best = left.select(key, gone).argmax(2, dtype=dtypes.int32)
        chosen = tuple(_box_of(part, best) for part in corners)
        candidates = tuple(part.expand_dims(1).broadcast_to(scores.dims) for part in corners)
        others = tuple(part.expand_dims(2).broadcast_to(scores.dims) for part in chosen)
        apart = _overlap(_four(candidates), _four(others)).le(allowed)
        other = position.ne(best.expand_dims(2).broadcast_to(scores.dims))
        taken = taken.dynamic_update_slice(best.expand_dims(2), [0, 0, step])
        return (step.add(1), left.and_(apart).and_(other), taken, counts.add(alive.cast(dtypes.int32)))

    start = (
        graph.full((), 0, dtypes.int64),
        left,
        graph.full((*lines, steps), 0, dtypes.int32),
        graph.full(lines, 0, dtypes.int32),
    )
    _, _, taken, counts = graph.while_loop(more, body, *start)
    filled = graph.iota(taken.dims, 2, dtypes.int32).lt(counts.expand_dims(2).broadcast_to(taken.dims))
    places, total = compact(filled.reshape((taken.type.size,)), rows)
    batch, label, _ = unravel(places, taken)
    box = gather(taken.reshape((taken.type.size,)), [places], [0]).cast(dtypes.int64)
    table = graph.concat([column.expand_dims(1) for column in (batch, label, box)], 1)
    inside = graph.iota((rows,), 0, dtypes.int64).lt(total.broadcast_to((rows,)))
    return along(inside, table.dims, 0).select(table, 0), total


def _four(parts: tuple[GraphValue, ...]) -> _Corners:
    a, b, c, d = parts
    return a, b, c, d


def _corners(boxes: GraphValue, center: bool) -> _Corners:
    """Low and high corner of every box: four values of shape (batch, box)."""
    batches, count, _ = boxes.dims
    a, b, c, d = (boxes.slice([0, 0, i], [batches, count, i + 1]).reshape((batches, count)) for i in range(4))
    if center:
        return b.sub(d.div(2.0)), a.sub(c.div(2.0)), b.add(d.div(2.0)), a.add(c.div(2.0))
    return _least(a, c), _least(b, d), _most(a, c), _most(b, d)


def _least(first: GraphValue, second: GraphValue) -> GraphValue:
    """The second only if it is smaller: NaN in either leaves the first."""
    return second.lt(first).select(second, first)


def _most(first: GraphValue, second: GraphValue) -> GraphValue:
    return second.gt(first).select(second, first)


def _box_of(part: GraphValue, best: GraphValue) -> GraphValue:
    """One number of each (batch, box) at the box chosen per (batch, class)."""
    batch = part.graph.iota(best.dims, 0, best.dtype)
    return gather(part, [batch, best], [0, 1])


def _overlap(left: _Corners, right: _Corners) -> GraphValue:
    """Intersection over union, 0 where the union is empty."""
    height = _least(left[2], right[2]).sub(_most(left[0], right[0]))
    width = _least(left[3], right[3]).sub(_most(left[1], right[1]))
    height, width = (side.gt(0.0).select(side, 0.0) for side in (height, width))
    shared = height.mul(width)
    areas = [box[2].sub(box[0]).mul(box[3].sub(box[1])) for box in (left, right)]
    union = areas[0].add(areas[1]).sub(shared)
    some = union.gt(0.0)
    return some.select(shared.div(some.select(union, 1.0)), 0.0)
