"""The expensive checks are on throughout the tests of the graph IR.

Every pattern that runs is held to its word, whatever the test is about. Tests that are about running without them, or
that count over large programs, say so: `GreedyConfig(expensive_checks=False)` or `settings(check="none")`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.config import settings


# Per module: a fixture per test would run anew for each example hypothesis draws, and one per session would leak
# into the tests of other packages.
@pytest.fixture(scope="module", autouse=True)
def expensive_checks() -> Iterator[None]:
    with settings(check="expensive"):
        yield
