"""NonMaxSuppression: by its routine, as ONNX says, and refused where shapes do not fit. Inputs are checked, once per signature."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from planish.errors import PlanishError, ShapeError
from planish.onnx import Model

Array = NDArray[Any]
_CHOOSE = "agraph (float[b, n, 4] boxes, float[b, c, m] scores) => (int64[k, 3] y) {{ y = NonMaxSuppression{form}({given}) }}"


def model(form: str, **numbers: Array) -> Model:
    given = ", ".join(["boxes", "scores", *numbers])
    text = '<ir_version: 10, opset_import: ["" : 21]>\n' + _CHOOSE.format(form=form, given=given)
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in numbers.items())
    return Model(proto)


def chosen(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None, centred: bool
) -> list[list[int]]:
    """One box at a time, as the operator is described."""
    found = []
    for batch, label in np.ndindex(*scores.shape[:2]):
        a, b, c, d = boxes[batch].astype(np.float64).T
        low, high = ((b - d / 2, a - c / 2), (b + d / 2, a + c / 2)) if centred else (
            (np.minimum(a, c), np.minimum(b, d)), (np.maximum(a, c), np.maximum(b, d)))  # fmt: skip
        area = (high[0] - low[0]) * (high[1] - low[1])
        taken: list[int] = []
        for box in np.argsort(-scores[batch, label], kind="stable"):
            if len(taken) == most or (least is not None and not scores[batch, label, box] > least):
                break
            sides = [
                np.maximum(
                    0, np.minimum(high[n][box], high[n][taken]) - np.maximum(low[n][box], low[n][taken])
                )
                for n in (0, 1)
            ]
            shared = sides[0] * sides[1]
            if (shared <= overlap * (area[box] + area[taken] - shared)).all():
                taken.append(int(box))
        found += [[batch, label, box] for box in taken]
    return found


@pytest.mark.parametrize("count", [1, 40, 900])
@pytest.mark.parametrize("centred", [False, True])
def test_what_is_chosen(count: int, centred: bool):
    rng = np.random.default_rng(count)
    boxes = rng.random((2, count, 4), np.float32) * 9
    scores = rng.random((2, 3, count), np.float32)
    form = "<center_point_box = 1>" if centred else ""
    for most, overlap, least in ((5, 0.3, 0.2), (count, 0.6, None), (0, 0.5, 0.1)):
        numbers = {"most": np.array([most]), "overlap": np.array([overlap], np.float32)}
        if least is not None:
            numbers["least"] = np.array([least], np.float32)
        (found,) = model(form, **numbers)(boxes=boxes, scores=scores)
        # shares that rounding could put on either side of the threshold do not occur in these
        as_given = [None if x is None else float(np.float32(x)) for x in (overlap, least)]
        assert found.tolist() == chosen(boxes, scores, most, as_given[0] or 0.0, as_given[1], centred)


def test_nothing_is_chosen_without_a_limit():
    (found,) = model("")(boxes=np.ones((1, 3, 4), np.float32), scores=np.ones((1, 1, 3), np.float32))
    assert found.shape == (0, 3)


def test_boxes_that_do_not_go_with_their_scores_are_refused():
    run = model("", most=np.array([3]))
    with pytest.raises(PlanishError, match="do not go with scores"):
        run(boxes=np.ones((1, 3, 4), np.float32), scores=np.ones((1, 1, 5), np.float32))


def test_what_was_right_once_does_not_hide_what_is_wrong():
    run = model("", most=np.array([3]))
    boxes, scores = np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32)
    first, again = run(boxes=boxes, scores=scores)[0], run(scores=scores, boxes=boxes)[0]
    assert first.tolist() == again.tolist() == [[0, 0, box] for box in range(3)]  # of no area: none overlaps
    with pytest.raises(PlanishError, match="float64"):
        run(boxes=boxes.astype(np.float64), scores=scores)
    with pytest.raises(ShapeError):
        run(boxes=boxes[0], scores=scores)
    with pytest.raises(PlanishError, match="missing"):
        run(boxes=boxes)
    with pytest.raises(PlanishError, match="no input"):
        run(boxes=boxes, scores=scores, more=scores)
