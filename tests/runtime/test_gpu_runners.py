"""The commands that run tests on a GPU: every test is run once, and the kernels for the sanitizer are one of each kind."""

from __future__ import annotations

from typing import Any

import pytest

import planish as pn
from planish import compiler
from tests.gpu import sanitized, shards


def test_every_test_is_dealt_out_once() -> None:
    names = [f"t{n}" for n in range(23)]
    for count in (1, 4, 40):
        dealt = shards.dealt(names, count)
        assert sorted(name for shard in dealt for name in shard) == sorted(names)
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_what_pytest_says_is_counted() -> None:
    assert shards.counts_of("..F\n1 failed, 12 passed, 3 skipped in 1.20s\n") == {
        "failed": 1,
        "passed": 12,
        "skipped": 3,
    }
    assert shards.counts_of("Segmentation fault") == {}


@pytest.mark.parametrize("name", ["long rows", "one row of bytes", "few rows"])
def test_kernels_for_the_sanitizer_are_rendered(name: str) -> None:
    function, arrays = sanitized.KERNELS[name]
    traced: Any = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    assert "__global__" in compiler.lower(traced, "sm_90").as_text("cuda")
