"""Arrays of torch, jax and cupy on a GPU: in place, in the right order on their streams; and what a fault leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import planish as pn

GPU = "cuda:0"


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch has no GPU here")
    return found


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "int64", "bool", "complex64", "float8_e5m2"]
)
def test_memory_is_shared_both_ways(torch: Any, dtype: str) -> None:
    given = (torch.arange(12, device="cuda").reshape(3, 4) % 2).to(getattr(torch, dtype))
    taken = pn.from_dlpack(given)
    assert (taken.device, taken.shape) == (GPU, (3, 4))
    back = torch.from_dlpack(taken)
    assert back.data_ptr() == given.data_ptr()
    assert torch.equal(back.view(torch.uint8), given.view(torch.uint8))


def test_results_go_out_without_a_copy(torch: Any) -> None:
    y = pn.asarray(np.arange(10, dtype=np.float32), device=GPU) * 2
    taken = torch.from_dlpack(y)
    assert taken.data_ptr() == torch.as_tensor(y, device="cuda").data_ptr()
    assert taken.sum().item() == 90


def test_functions_take_torch_tensors_in_place(torch: Any) -> None:
    f = pn.jit(lambda x, w: pn.tanh(x @ w))
    x, w = torch.randn(64, 32, device="cuda"), torch.randn(32, 16, device="cuda")
    for _ in range(3):
        assert torch.allclose(torch.from_dlpack(f(x, w)), torch.tanh(x @ w), atol=1e-3)
    assert f.cache_info().hits == 2


def test_arrays_that_are_not_in_order(torch: Any) -> None:
    t = torch.randn(6, 8, device="cuda")
    for view in (
        t.t(),
        t[::2],
        t[:, 1:5],
        t[1:, ::3],
        t.reshape(2, 3, 8).permute(2, 0, 1),
        t[:1].expand(5, 8),
    ):
        assert np.array_equal(np.asarray(pn.from_dlpack(view)), view.cpu().numpy())


def test_what_another_stream_does_is_waited_for(torch: Any) -> None:
    f = pn.jit(lambda x: x + 1.0)
    big = torch.zeros(1 << 26, device="cuda")
    f(big)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            big.add_(1.0)
        assert torch.from_dlpack(f(big))[-1].item() == 21
        with pn.stream(stream):
            assert torch.from_dlpack(f(big))[0].item() == 21
    assert float(f(big)[0]) == 21


def test_jax_and_cupy() -> None:
    jax = pytest.importorskip("jax")
    if jax.devices()[0].platform == "gpu":
        taken = pn.from_dlpack(jax.numpy.arange(10.0))
        assert np.array_equal(np.asarray(taken), np.arange(10.0))
        assert float(jax.dlpack.from_dlpack(taken * 2).sum()) == 90
    cupy = pytest.importorskip("cupy")
    assert float(cupy.from_dlpack(pn.ones(3, device="cuda")).sum()) == 3
    part = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)[:, 1:3]
    assert np.asarray(pn.from_dlpack(part)).tolist() == [[1, 2], [5, 6], [9, 10]]


_FAULT = """
import numpy as np, planish as pn
f = pn.jit(lambda x: x * 2.0 + 1.0)
x = pn.asarray(np.ones(1024, np.float32), device="cuda")
f(x), f(x)
x._value.storage.address = 0x10
for given in (x, None):
    try:
        np.asarray(f(given if given is not None else pn.asarray(np.ones(1024, np.float32), device="cuda")))
    except pn.PlanishError as error:
        print("told:", error)
print("cpu:", np.asarray(pn.jit(lambda x: x + 1)(pn.ones(3))).tolist())
"""


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_a_fault_names_its_kernel_and_the_cpu_goes_on(blocking: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FAULT],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "CUDA_LAUNCH_BLOCKING": blocking},
    )  # fmt: skip
    first, second, last = done.stdout.strip().splitlines()
    assert "ILLEGAL_ADDRESS" in first
    assert "map_1024_" in first
    assert "the GPU stopped" in second
    assert last == "cpu: [2.0, 2.0, 2.0]"
