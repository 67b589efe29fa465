"""What is made while the collector is held off is not walked over when it is let on again."""

from __future__ import annotations

import gc
import subprocess
import sys
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


def test_it_does_not_run_while_the_tensor_api_is_imported() -> None:
    """Everything that is imported stays: to go over it again and again was a fifth of the time."""
    script = (
        "import gc, numpy, planish; before = [each['collections'] for each in gc.get_stats()]; planish.asarray; "
        "print([each['collections'] for each in gc.get_stats()] == before, gc.isenabled())"
    )
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert told == "True True\n"
