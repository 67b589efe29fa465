"""The CUDA runtime without a GPU: memory that is kept by size, errors in one voice, devices that are not there."""

from __future__ import annotations

from typing import Any

import pytest

import planish as pn
from planish.errors import OutOfMemoryError, PlanishError
from planish.runtime.cuda import driver, memory
from planish.runtime.cuda.driver import CudaError, CudaFault


class FakeGpu:
    """So many bytes, given out in order."""

    name, memory_bytes = "cuda:0", 1 << 30

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self.calls: list[str] = []
        self.sizes: dict[int, int] = {}

    def enter(self) -> None:
        pass

    def synchronize(self) -> None:
        self.calls.append("cuStreamSynchronize")

    def free_bytes(self) -> int:
        return self.limit - self.used

    def call(self, name: str, *arguments: Any, doing: str = "") -> Any:
        self.calls.append(name)
        if name == "cuMemAlloc":
            (size,) = arguments
            if self.used + size > self.limit:
                raise OutOfMemoryError("no")
            self.used += size
            address = (1 << 20) + len(self.sizes) * (1 << 24)
            self.sizes[address] = size
            return address
        if name == "cuMemFree":
            self.used -= self.sizes[arguments[0]]
        return None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    found = FakeGpu(16 << 20)
    monkeypatch.setattr(memory, "call", found.call)
    return found


def test_blocks_are_given_out_again(gpu: FakeGpu) -> None:
    pool = memory.Pool(gpu)  # type: ignore[arg-type]
    first = pool.take(1000)
    address = first.address
    del first
    assert pool.take(900).address == address
    assert gpu.calls.count("cuMemAlloc") == 1
    assert pool.statistics.asked == 1


def test_two_that_live_are_two(gpu: FakeGpu) -> None:
    pool = memory.Pool(gpu)  # type: ignore[arg-type]
    blocks = [pool.take(1000) for _ in range(4)]
    assert len({block.address for block in blocks}) == 4
    assert pool.statistics.used == 4 * 1024
    del blocks
    assert pool.statistics.kept == 4 * 1024


def test_what_is_kept_goes_back_before_memory_runs_out(gpu: FakeGpu) -> None:
    pool = memory.Pool(gpu)  # type: ignore[arg-type]
    small = [pool.take(1 << 20) for _ in range(12)]
    del small
    large = pool.take(12 << 20)
    assert large.nbytes == 12 << 20
    assert "cuMemFree" in gpu.calls


def test_too_little_memory_says_what_there_is(gpu: FakeGpu) -> None:
    pool = memory.Pool(gpu)  # type: ignore[arg-type]
    held = pool.take(10 << 20)
    with pytest.raises(OutOfMemoryError, match=r"cuda:0 has no 12,582,912 bytes left.*uses 10,485,760"):
        pool.take(12 << 20)
    assert held.nbytes


@pytest.mark.parametrize("nbytes", [0, 1, 512, 513, (1 << 20) + 1, 3 << 20, (1 << 30) + 1])
def test_sizes_are_rounded_by_little(nbytes: int) -> None:
    size = memory.rounded(nbytes)
    assert size >= nbytes
    assert size <= max(nbytes * 9 // 8 + 1, nbytes + 512)
    assert memory.rounded(size) == size


def test_statuses_are_errors_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_word", lambda status: f"status {status}")
    for status, kind, said in (
        (2, OutOfMemoryError, "too little memory when it ran"),
        (100, CudaError, "no GPU"),
        (700, CudaFault, "the GPU stopped when it ran"),
        (35, CudaError, "too old"),
        (1, CudaError, "cuLaunchKernel failed when it ran"),
    ):
        with pytest.raises(kind, match=said):
            driver.refuse(status, "cuLaunchKernel", "when it ran")


@pytest.mark.skipif(driver.device_count() > 0, reason="there is a GPU here")
def test_a_gpu_that_is_not_there() -> None:
    assert not any(name.startswith("cuda") for name in pn.devices())
    with pytest.raises(PlanishError, match=r"no device 'cuda:0' \(there is no CUDA driver.*devices: cpu"):
        pn.ones(3).to_device("cuda")
    with pytest.raises(PlanishError, match=r"no device 'cuda:0'"):
        pn.jit(lambda x: x, device="cuda")
