"""Tensors with gaps, as they lie in memory: rows that a tensor is a part of, or a copy where these are not all there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from planish import ptir  # noqa: E402
from planish.torch.forms import Form, Gap, form_of  # noqa: E402


def form_at(tensor: Any) -> Form:
    return form_of(tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def read(form: Form, tensor: Any) -> Any:
    """What a program sees of a tensor."""
    graph = ptir.Graph("f")
    function = graph.build(form.read(graph, "x"))
    given = form.ordered(tensor)
    assert given.is_contiguous()
    return ptir.interpret(function, [given.numpy()])[0]


WHOLE = torch.arange(2 * 5 * 3 * 4 * 8, dtype=torch.float32).reshape(2, 5, 3, 4, 8)


@pytest.mark.parametrize("number", range(3))
def test_parts_of_rows_are_read_where_they_are(number: int) -> None:
    part = WHOLE.permute(2, 0, 3, 1, 4).unbind(0)[number]  # (batch, heads, length, width)
    form = form_at(part)
    assert form.gap == Gap(2, 3, number)
    assert form.ordered(part).untyped_storage().data_ptr() == WHOLE.untyped_storage().data_ptr()
    np.testing.assert_array_equal(read(form, part), part.numpy())


def test_rows_that_are_not_all_there_are_copied() -> None:
    part = WHOLE[:, :, 1]
    form = form_at(part)
    cut = torch.empty(part.numel() * 3 - 64).as_strided(part.shape, part.stride())
    cut.copy_(part)
    np.testing.assert_array_equal(read(form, cut), part.numpy())
    moved = torch.cat([torch.zeros(7), WHOLE.flatten(), torch.zeros(500)]).as_strided(
        part.shape, part.stride(), 7 + 32
    )
    np.testing.assert_array_equal(read(form, moved), part.numpy())


@pytest.mark.parametrize(
    "tensor",
    [WHOLE[..., :2], WHOLE[:, ::2, :, 1:], WHOLE[:, :, :, :, ::2], WHOLE[:, 1:2, 0], WHOLE[:, :, 1:, 1]],
    ids=["short runs", "two gaps", "every other", "one row", "from the second"],
)
def test_other_gaps_are_copied(tensor: Any) -> None:
    form = form_at(tensor)
    assert form.gap is None
    assert form_of(tensor.dtype, tensor.shape, tensor.stride()) == form
