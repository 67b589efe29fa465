"""What tests of memory share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def only_what_is_new() -> Iterator[None]:
    """Collections look at what these tests make, not at all that a long run of tests keeps: that would take seconds each time."""
    gc.freeze()
    yield
    gc.unfreeze()
