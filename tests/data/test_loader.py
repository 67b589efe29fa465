"""The loader: every example once an epoch, the same order for the same seed, and on from where it stopped."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.data import Loader, collate
from planish.errors import PlanishError, ShapeError

NUMBERS = np.arange(10)


def seen(loader: Loader) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_arrays_in_order_and_shuffled(prefetch: int):
    assert seen(Loader(NUMBERS, 4, prefetch=prefetch)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert seen(Loader(NUMBERS, 4, drop_last=True, prefetch=prefetch)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader = Loader(NUMBERS, 4, shuffle=True, seed=3, prefetch=prefetch)
    first, second = seen(loader), seen(loader)
    assert first != second
    for epoch in (first, second):
        assert sorted(number for batch in epoch for number in batch) == list(range(10))
    again = Loader(pn.asarray(NUMBERS), 4, shuffle=True, seed=3)
    assert [seen(again), seen(again)] == [first, second]
    assert seen(Loader(NUMBERS, 4, shuffle=True, seed=4)) != first
    # the order of a seed is a promise: checkpoints hold the seed alone
    assert first == [[0, 1, 2, 7], [5, 6, 9, 8], [4, 3]]


def test_trees_of_arrays_and_of_examples_make_the_same_batches():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    columns = Loader({"x": x, "y": (y, y + 1)}, 4)
    rows = Loader([{"x": x[n], "y": (int(y[n]), int(y[n]) + 1)} for n in range(6)], 4)
    stream = Loader(({"x": x[n], "y": (int(y[n]), int(y[n]) + 1)} for n in range(6)), 4)
    for one, two, three in zip(columns, rows, stream, strict=True):
        for a, b, c in zip(*map(pn.tree.leaves, (one, two, three)), strict=True):
            assert a.dtype is b.dtype is c.dtype
            assert a.tolist() == b.tolist() == c.tolist()


def test_a_dict_of_lists_is_a_table():
    table = {"text": ["a", "b", "c"], "label": [1, 0, 1], "weight": [0.5, 1.0, 2.0], "x": np.eye(3)}
    first, second = Loader(table, 2)
    assert first["text"] == ["a", "b"]
    assert first["label"].tolist() == [1, 0]
    assert second["weight"].dtype is pn.float32
    assert second["x"].shape == (1, 3)


def test_collate_keeps_texts_and_takes_a_function():
    assert collate([("a", 1.5), ("b", 2.5)])[0] == ["a", "b"]
    assert collate([1.5, 2.5]).dtype is pn.float32
    loader = Loader(["ab", "c", "def"], 2, collate=lambda texts: max(map(len, texts)))
    assert list(loader) == [2, 3]
    doubled = Loader(NUMBERS, 5, collate=lambda batch: batch * 2)
    assert seen(doubled) == [[0, 2, 4, 6, 8], [10, 12, 14, 16, 18]]


@pytest.mark.parametrize("kind", ["arrays", "sequence", "iterable"])
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("stop", range(6))
def test_it_goes_on_where_it_stopped(kind: str, prefetch: int, stop: int):
    def loader() -> Loader:
        data: Any = {"arrays": NUMBERS, "sequence": list(range(10)), "iterable": range(10)}[kind]
        data = Again(data) if kind == "iterable" else data
        return Loader(data, 4, shuffle=True, seed=1, prefetch=prefetch, shuffle_buffer=3)

    whole = loader()
    wanted = seen(whole) + seen(whole)
    stopped = loader()
    found: list[list[int]] = []
    while len(found) < stop:
        for batch in stopped:
            found.append(batch.tolist())
            if len(found) == stop:
                break
    resumed = loader().load_state_dict(stopped.state_dict())
    while len(found) < len(wanted):
        found += seen(resumed)
    assert found == wanted


class Again:
    """An iterable that is no sequence."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)


def test_the_state_counts_what_was_handed_out_and_goes_into_a_checkpoint(tmp_path: Any):
    loader = Loader(NUMBERS, 2, prefetch=4)
    for number, _ in enumerate(loader):
        if number == 2:
            break
    assert loader.state_dict() == {"seed": 0, "epoch": 0, "batch": 3}
    pn.io.save_checkpoint(tmp_path, {"loader": loader.state_dict()})
    found: Any = pn.io.load_checkpoint(tmp_path)
    assert seen(Loader(NUMBERS, 2).load_state_dict(found["loader"])) == [[6, 7], [8, 9]]
    assert loader.epoch == 0
    assert len(loader) == 5


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_of_the_data_says_where_it_happened(prefetch: int):
    class Broken:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, at: int) -> int:
            if at == 4:
                raise LookupError("no example 4")
            return at

    found: list[Any] = []
    running = map(pn.Tensor.tolist, Loader(Broken(), 2, prefetch=prefetch))
    with pytest.raises(LookupError, match="no example 4") as caught:
        found.extend(running)
    assert found == [[0, 1], [2, 3]]
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "__getitem__"


def test_a_loop_that_ends_early_ends_the_thread():
    def workers() -> int:
        return sum(thread.name == "planish-loader" for thread in threading.enumerate())

    before = workers()
    for _ in Loader(NUMBERS, 1):
        break
    running = iter(Loader(NUMBERS, 1))
    next(running)
    running.close()  # type: ignore[attr-defined] # a generator
    assert workers() == before


def test_no_more_is_collected_than_asked_for():
    asked: list[int] = []

    class Counted:
        def __len__(self) -> int:
            return 100

        def __getitem__(self, at: int) -> int:
            asked.append(at)
            return at

    running = iter(Loader(Counted(), 1, prefetch=3))
    next(running)
    running.close()  # type: ignore[attr-defined] # a generator
    assert len(asked) <= 5


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: Loader(NUMBERS, 0), "batch_size=0"),
        (lambda: Loader((np.ones(3), np.ones(4))), r"\(3,\), \(4,\) do not have one number of examples"),
        (lambda: Loader(np.ones(())), "do not have one number"),
        (lambda: Loader({"a": [1, 2], "b": 3}), "entries are not all columns"),
        (lambda: Loader({"a": [1, 2], "b": [3]}), "do not have one number of examples"),
        (lambda: Loader(3), "a int holds no examples"),
        (lambda: Loader(Again(NUMBERS), shuffle=True), r"has no length to shuffle; .*shuffle_buffer"),
        (lambda: Loader(NUMBERS).load_state_dict({"epoch": 1}), "seed, epoch and batch, not epoch"),
        (lambda: list(Loader([np.ones(2), np.ones(3)], 2)), r"shapes \(2,\), \(3,\) do not make a batch"),
        (lambda: list(Loader([(1, 2), 3], 2)), "example 1 of a batch"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()
    with pytest.raises(TypeError, match="no length"):
        len(Loader(Again(NUMBERS)))
    assert issubclass(ShapeError, PlanishError)
