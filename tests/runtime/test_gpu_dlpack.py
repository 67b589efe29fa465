"""DLPack for arrays on GPUs, on an emulated driver: memory is shared, streams wait for each other, everything is given back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import dlpack
from planish.errors import PlanishError
from planish.runtime.cuda import dlpack as gpu_dlpack
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.device import gpu as device
from tests.runtime.emulated_cuda import EmulatedDriver, emulated

GPU = "cuda:0"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    with emulated(monkeypatch) as found:
        yield found


class Foreign:
    """An array of another library: it has a tensor's memory, and a stream of its own."""

    def __init__(self, x: pn.Tensor, *, versions: bool = True) -> None:
        self.x, self.versions, self.shape = x, versions, x.shape
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **given: Any) -> object:
        if not self.versions and "max_version" in given:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(given)
        return self.x.__dlpack__(**given)


@pytest.fixture(autouse=True)
def _nothing_out() -> None:
    """What other tests lent to others has come back."""
    gc.collect()
    dlpack._sweep()


def _address(x: pn.Tensor) -> int:
    storage = x._value.storage
    assert isinstance(storage, GpuArray)
    return storage.address


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize(
    "dtype", [pn.float32, pn.bfloat16, pn.int8, pn.bool, pn.complex64, pn.float8_e5m2], ids=str
)
def test_memory_is_shared_and_given_back(gpu: EmulatedDriver, versions: bool, dtype: Any) -> None:
    x = pn.asarray(np.arange(12).reshape(3, 4) % 2, device=GPU).astype(dtype)
    pn.realize(x)
    assert x.__dlpack_device__() == (2, 0)
    y = pn.from_dlpack(Foreign(x, versions=versions))
    assert (y.device, y.dtype, y.shape) == (GPU, dtype, (3, 4))
    assert _address(y) == _address(x)
    assert np.array_equal(np.asarray(y), np.asarray(x))
    assert len(dlpack._OUT) == 1
    del y
    gc.collect()
    assert dlpack._OUT == {}


def test_a_capsule_that_nobody_takes_is_given_back(gpu: EmulatedDriver) -> None:
    x = pn.asarray(np.ones(3, np.float32), device=GPU)
    capsule = x.__dlpack__()
    assert len(dlpack._OUT) == 1
    del capsule
    assert dlpack._OUT == {}


def test_functions_take_arrays_of_others_in_place(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x, y: x * 2 + y)
    x = pn.asarray(np.arange(6, dtype=np.float32), device=GPU)
    copies = gpu.calls["cuMemcpyHtoD"]
    f(Foreign(x), x)
    f(Foreign(x), x)
    got = f(Foreign(x), x)
    assert got.device == GPU
    assert np.array_equal(np.asarray(got), np.arange(6) * 3)
    assert gpu.calls["cuMemcpyHtoD"] == copies
    assert f.cache_info().hits == 2


def test_streams_wait_for_each_other(gpu: EmulatedDriver) -> None:
    x = pn.asarray(np.ones(3, np.float32), device=GPU)
    waits = gpu.waits
    assert x.__dlpack__(stream=1) is not None
    assert x.__dlpack__(stream=-1) is not None
    assert waits == []
    capsule = x.__dlpack__(stream=0x99)
    assert waits == [(0, 0x99)]
    del capsule  # it may have been used there
    assert waits == [(0, 0x99), (0x99, 0)]
    given = Foreign(x)
    with pn.stream(0x55):
        assert waits[2:] == [(0, 0x55)]
        pn.from_dlpack(given)
        assert given.asked[0]["stream"] == 0x55
        assert device(0).stream == 0x55
        assert np.array_equal(np.asarray(x + 1), [2, 2, 2])
    assert waits[-1] == (0x55, 0)
    assert device(0).stream == 0


def test_arrays_that_are_not_in_order_are_copied(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pn.asarray(np.arange(24, dtype=np.float32), device=GPU)
    whole = x._value.storage
    for shape, strides in [((4, 6), (1, 4)), ((2, 3), (12, 2)), ((3, 2, 2), (8, 1, 3)), ((5,), (0,))]:
        given = Foreign(x)
        given.shape = shape
        monkeypatch.setattr(gpu_dlpack, "borrowed", lambda _, s=strides: (whole, s))
        want = np.lib.stride_tricks.as_strided(
            np.arange(24, dtype=np.float32), shape, [4 * s for s in strides]
        )
        assert np.array_equal(np.asarray(pn.from_dlpack(given)), want)
        with pytest.raises(BufferError, match="row-major"):
            pn.from_dlpack(given, copy=False)


def test_what_cannot_be_is_told(gpu: EmulatedDriver) -> None:
    x = pn.asarray(np.ones(3, np.float32), device=GPU)
    with pytest.raises(BufferError, match=r"cannot be exported to device \(2, 1\)"):
        x.__dlpack__(dl_device=(2, 1))
    on_host: Any = _OnHost(x)
    assert np.from_dlpack(on_host).tolist() == [1, 1, 1]
    with pytest.raises(PlanishError, match="is no stream of CUDA"), pn.stream("mine"):
        pass
    with pytest.raises(PlanishError, match="cpu has no streams"), pn.stream(0, device="cpu"):
        pass


class _OnHost(Foreign):
    def __dlpack__(self, **given: Any) -> object:
        given.pop("stream", None)
        return self.x.__dlpack__(**{**given, "dl_device": (1, 0)})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_the_older_interface(gpu: EmulatedDriver) -> None:
    x = pn.asarray(np.ones((2, 3), np.float32), device=GPU)
    told = x.__cuda_array_interface__
    assert told["data"] == (_address(x), False)
    assert (told["shape"], told["typestr"], told["stream"]) == ((2, 3), "<f4", 1)
    assert not hasattr(pn.ones(3), "__cuda_array_interface__")


def test_what_was_never_moved_goes_there_first(gpu: EmulatedDriver) -> None:
    x = pn.from_dlpack(Foreign(pn.ones(3, device=GPU)))
    assert x.device == GPU
    assert np.asarray(x).tolist() == [1, 1, 1]
