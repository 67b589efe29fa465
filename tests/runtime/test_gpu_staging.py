"""Copies through pinned memory, on an emulated driver: pieces of any length, both ways, and what is done without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import planish as pn
from planish.runtime.cuda import staging
from tests.runtime.emulated_cuda import EmulatedDriver, emulated


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    monkeypatch.setattr(staging, "LEAST", 64)
    monkeypatch.setattr(staging, "PIECE", 256)
    with emulated(monkeypatch) as found:
        yield found


@pytest.mark.parametrize("count", [15, 16, 63, 64, 65, 1000, 4097])
def test_every_byte_arrives(gpu: EmulatedDriver, count: int) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    there = pn.asarray(x, device="cuda")
    copies = gpu.calls["cuMemcpyHtoDAsync"]
    assert copies == (-(-x.nbytes // 256) if x.nbytes >= 64 else 0)
    np.testing.assert_array_equal(np.asarray(there), x)
    assert gpu.calls["cuMemcpyDtoHAsync"] == copies
    assert len(gpu.pinned) in (0, 4)


def test_the_source_may_change_at_once(gpu: EmulatedDriver) -> None:
    x = np.arange(2000, dtype=np.float32)
    there = pn.asarray(x, device="cuda", copy=True)
    x[:] = 0
    np.testing.assert_array_equal(np.asarray(there), np.arange(2000))


def test_without_pinned_memory_copies_go_straight(gpu: EmulatedDriver) -> None:
    gpu.refused["cuMemHostAlloc"] = 2
    x = np.arange(2000, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(pn.asarray(x, device="cuda")), x)
    assert gpu.calls["cuMemcpyHtoDAsync"] == 0
    assert gpu.calls["cuMemHostAlloc"] == 1  # not asked for again
