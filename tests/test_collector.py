"""What is made while the collector is held off is not walked over when it is let on again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from planish.collector import collector_off


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The walks of the collector from here on."""
    seen: list[str] = []

    def callback(phase: str, info: dict[str, int]) -> None:
        seen.append(phase)

    gc.collect()
    gc.callbacks.append(callback)
    yield seen
    gc.callbacks.remove(callback)


def test_what_was_made_counts_as_old(collections: list[str]) -> None:
    with collector_off():
        kept = [[number] for number in range(100_000)]
    made: list[list[int]] = [[] for _ in range(10)]
    assert collections == []
    assert gc.get_count()[0] < 1000
    assert gc.isenabled()
    assert len(kept) + len(made) == 100_010


def test_garbage_made_meanwhile_is_found_later() -> None:
    class Node:
        gone = 0

        def __del__(self) -> None:
            Node.gone += 1

    with collector_off():
        node = Node()
        node.itself = node  # type: ignore[attr-defined]
        del node
    assert Node.gone == 0
    gc.collect()
    assert Node.gone == 1


def test_one_that_was_off_stays_off_and_what_was_frozen_stays_frozen() -> None:
    gc.disable()
    try:
        with collector_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_off():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
