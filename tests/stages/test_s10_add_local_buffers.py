"""Stage 10: what is kept gets LOCAL memory, one fill and an AFTER."""

from __future__ import annotations

import pytest

from tests.stages.memory_kernels import CASES, check


@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_they_mean(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", ["softmax", "softmax, one range", "layernorm"])
def test_a_row_kernel_reads_and_writes_once_and_needs_one_row(name: str) -> None:
    counters = check(CASES[name])
    assert counters.bytes_read == counters.bytes_written == 24 * 4
    assert counters.scratch_bytes == 8 * 4
