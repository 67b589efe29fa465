"""The runtime of GPUs on an emulated driver: plain calls, graphs, control flow, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from planish.cli import main
from planish.compiler import lowering
from planish.compiler.bisect import bisect
from planish.compiler.cuda import KIND
from planish.compiler.cuda import executable as compiler_gpu
from planish.compiler.cuda.executable import GpuExecutable
from planish.errors import PlanishError
from planish.runtime.cuda.driver import CudaError, CudaFault
from planish.runtime.grid import Grid, size_of
from planish.target import TARGETS
from tests.runtime import emulated_cuda
from tests.runtime.emulated_cuda import EmulatedDriver, emulated

GPU = "cuda:0"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    with emulated(monkeypatch) as found:
        yield found


def _data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_there_and_back(gpu: EmulatedDriver) -> None:
    given = _data(7, 5)
    there = pn.asarray(given, device="cuda")
    assert there.device == GPU
    assert np.array_equal(np.asarray(there), given)


def test_results_of_functions_and_parts_of_arrays_go_there(gpu: EmulatedDriver) -> None:
    """They are data that no op has numbered."""
    x = pn.asarray(np.arange(6, dtype=np.float32))
    for data in (pn.jit(lambda a: a + 1)(x), x[1:4], x[2]):
        there = data.to_device("cuda")
        assert there.device == "cuda:0"
        np.testing.assert_array_equal(np.asarray(there), np.asarray(data))


def test_a_function_becomes_a_graph_whose_words_are_set_anew(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x: pn.sum(pn.exp(x), axis=1))
    arrays = [_data(8, 16, seed=n) for n in range(12)]
    given = [pn.asarray(a, device=GPU) for a in arrays]
    kept = [f(x) for x in given]
    for a, y in zip(arrays, kept, strict=True):
        np.testing.assert_allclose(np.asarray(y), np.exp(a).sum(1), rtol=1e-5)
    assert gpu.calls["cuLaunchKernel"] == 1
    assert gpu.calls["cuGraphLaunch"] == 11
    assert gpu.calls["cuGraphInstantiate"] == 4
    assert gpu.calls["set_node"] == 7


@pytest.mark.parametrize("decides", [True, False], ids=["conditional nodes", "an older driver"])
@pytest.mark.parametrize("limit", [0.0, 3.0, 10.0, 100.0, 1000.0])
def test_loops_that_data_decides(gpu: EmulatedDriver, decides: bool, limit: float) -> None:
    gpu.version = 12080 if decides else 12000

    @pn.jit
    def doubled(x: Any) -> Any:
        y, n = pn.while_loop(
            lambda c: pn.sum(c[0]) < limit, lambda c: (c[0] * 2, c[1] + 1), (x, pn.asarray(0))
        )
        return y + 1, n

    x = np.abs(_data(10)) + 0.1
    want, turns = doubled(pn.asarray(x))
    for _ in range(3):
        got, count = doubled(pn.asarray(x, device=GPU))
        assert np.array_equal(np.asarray(got), np.asarray(want))
        assert int(count) == int(turns)
    downloads = gpu.calls["cuMemcpyDtoH"]
    doubled(pn.asarray(x, device=GPU))
    assert gpu.calls["cuMemcpyDtoH"] - downloads == (0 if decides else int(turns) + 1)


@pytest.mark.parametrize("decides", [True, False])
def test_branches_and_loops_in_them(gpu: EmulatedDriver, decides: bool) -> None:
    gpu.version = 12080 if decides else 12000

    @pn.jit
    def either(x: Any) -> Any:
        def grown(x: Any) -> Any:
            return pn.while_loop(lambda c: pn.max(c) < 50, lambda c: c * 2 + 1, x)

        y = pn.cond(pn.sum(x) > 0, grown, lambda x: pn.cond(x[0] > 0, lambda x: x * 3, lambda x: x - 1, x), x)
        return y + x

    for given in ([1.0, 2.0], [1.0, -3.0], [-1.0, -2.0]):
        x = np.asarray(given, np.float32)
        want = np.asarray(either(pn.asarray(x)))
        for _ in range(2):
            assert np.array_equal(np.asarray(either(pn.asarray(x, device=GPU))), want)


def test_counted_loops_are_launches_of_one_graph(gpu: EmulatedDriver) -> None:
    @pn.jit
    def scanned(x: Any, w: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            new = pn.tanh(c @ w + row)
            return new, pn.sum(new)

        return pn.scan(body, pn.zeros(4), x)

    x, w = _data(7, 4), _data(4, 4, seed=1)
    want = scanned(pn.asarray(x), pn.asarray(w))
    for _ in range(3):
        got = scanned(pn.asarray(x, device=GPU), pn.asarray(w, device=GPU))
        for g, e in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=1e-5, atol=1e-6)
    assert gpu.calls["cuGraphLaunch"] == 2
    launches = gpu.calls["cuLaunchKernel"]
    assert launches >= 7
    assert len(gpu.ran) == 3 * launches


def test_donated_memory_is_used_again(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x: x + 1, donate_argnums=0)
    x = pn.asarray(_data(64), device=GPU)
    asked = gpu.calls["cuMemAlloc"]
    for _ in range(5):
        x = f(x)
    assert gpu.calls["cuMemAlloc"] == asked
    np.testing.assert_allclose(np.asarray(x), _data(64) + 5, rtol=1e-5, atol=1e-6)


def test_named_sizes(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x: pn.sum(x * 2, axis=1), dims={"x": (pn.Dim("batch", 1, 64), None)})
    for rows in (1, 7, 64, 7, 7, 1):
        x = _data(rows, 12)
        np.testing.assert_allclose(
            np.asarray(f(pn.asarray(x, device=GPU))), (x * 2).sum(1), rtol=1e-5, atol=1e-6
        )
    assert f.cache_info().misses == 1
    (entry,) = f._entries.values()
    assert set(entry.exe._sized) == {((1, 12),), ((7, 12),), ((64, 12),)}  # type: ignore[union-attr]
    assert gpu.calls["cuGraphLaunch"] == 1  # the third time of seven rows, by the builtin
    with pytest.raises(PlanishError, match=r"size 65, outside of batch"):
        f(pn.asarray(_data(65, 12), device=GPU))


def test_host_ops_work_on_copies(gpu: EmulatedDriver) -> None:
    a = _data(4, 4)
    spd = a @ a.T + 12 * np.eye(4, dtype=np.float32)
    got = pn.linalg.cholesky(pn.asarray(spd, device=GPU)) + 1
    np.testing.assert_allclose(np.asarray(got), np.linalg.cholesky(spd) + 1, rtol=1e-4, atol=1e-5)


def test_a_second_process_lowers_nothing(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return pn.sum(pn.exp(x) * 3.25, axis=1)

    x = _data(4, 8)
    first = pn.jit(f)
    want = np.asarray(first(pn.asarray(x, device=GPU)))
    monkeypatch.setattr(lowering, "lower_for", None)  # whoever asks for it fails
    monkeypatch.setattr(compiler_gpu, "source_of", None)
    second = pn.jit(f)
    assert np.array_equal(np.asarray(second(pn.asarray(x, device=GPU))), want)
    (entry,) = second._entries.values()
    assert "programs" not in entry.exe.lowered.__dict__  # type: ignore[union-attr]
    assert entry.exe.kernels[0].program.params  # type: ignore[union-attr]  # asked for, they are read


@pytest.mark.parametrize("text", ["", "1 2", "add", "v0 7 sub pow"])
def test_a_text_that_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        size_of(text)


def test_sizes_follow_from_variables() -> None:
    grid = Grid(("v0 63 add 64 truncdiv", "7", "v1 v0 max"), (64, 1, 1))
    assert not grid.is_static
    assert grid.at((130, 3)) == (3, 7, 130)


def test_a_profile_names_every_launch(gpu: EmulatedDriver) -> None:
    @pn.jit
    def f(x: Any) -> Any:
        return pn.scan(lambda c, row: (pn.tanh(c @ pn.eye(4) + row), pn.sum(c)), pn.zeros(4), x)

    x = pn.asarray(_data(5, 4), device=GPU)
    compiled = f.lower(x).compile()
    np.testing.assert_allclose(np.asarray(compiled(x)[1]), np.asarray(f(x)[1]), rtol=1e-6)
    assert compiled(x)[0].device == GPU
    profile = compiled.profile(x, repeat=2)
    assert {record.calls for record in profile} >= {5}
    assert all(record.seconds > 0 for record in profile if record.calls)
    assert "on the GPU (median of 2)" in str(profile)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_too_little_memory_is_told_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated(monkeypatch, memory=1 << 20):
        x = pn.asarray(_data(64), device=GPU)
        f = pn.jit(lambda x: pn.broadcast_to(x, (1 << 14, 64)) + 1.0)
        with pytest.raises(
            MemoryError, match=r"out of memory: the largest buffer is result 0.*4\.0 MiB.*cuda:0 has no"
        ):
            f(x)
        with pytest.raises(
            MemoryError, match=r"cuda:0 has no 4,194,304 bytes left: of its 1,048,576 this process uses"
        ):
            pn.asarray(np.zeros(1 << 20, np.float32), device=GPU)
        assert np.array_equal(np.asarray(x + 1), _data(64) + 1)


def test_memory_that_is_kept_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated(monkeypatch, memory=1 << 20) as gpu:
        x = pn.asarray(np.zeros(100_000, np.float32), device=GPU)
        del x
        y = pn.asarray(np.ones(200_000, np.float32), device=GPU)
        assert gpu.calls["cuMemFree"] == 1
        assert np.asarray(y)[-1] == 1


@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuGraphLaunch", "cuMemcpyDtoH"])
def test_a_fault_names_the_kernels_and_what_goes_on(gpu: EmulatedDriver, name: str) -> None:
    f = pn.jit(lambda x: pn.exp(x) * 2.0)
    x = pn.asarray(_data(16), device=GPU)
    if name != "cuLaunchKernel":
        f(x), f(x)
    gpu.refused[name] = 700
    with pytest.raises(
        CudaFault,
        match=r"the GPU stopped .*ILLEGAL_ADDRESS.*launched last: map_16_\w+.*CPU and its tensors go on",
    ) as caught:
        np.asarray(f(x))
    assert "CUDA_LAUNCH_BLOCKING=1" in str(caught.value)
    assert np.array_equal(np.asarray(pn.ones(3) + 1), [2, 2, 2])


def test_a_launch_that_is_refused_names_its_kernel(gpu: EmulatedDriver) -> None:
    gpu.refused["cuLaunchKernel"] = 701  # too many resources
    with pytest.raises(CudaError, match=r"a launch failed when map_16_\w+ was launched.*RESOURCES"):
        pn.jit(lambda x: pn.exp(x) * 3.0)(pn.asarray(_data(16), device=GPU))


def test_a_graph_that_is_refused_says_so(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x: pn.exp(x) * 4.0)
    x = pn.asarray(_data(16), device=GPU)
    f(x)
    gpu.refused["cuGraphInstantiate"] = 801
    with pytest.raises(CudaError, match=r"cuGraphInstantiate failed.*NOT_SUPPORTED"):
        f(x)
    gpu.refused.clear()
    assert np.allclose(np.asarray(f(x)), np.exp(_data(16)) * 4, rtol=1e-5)


def test_words_that_cannot_be_set_leave_a_graph_of_nothing(gpu: EmulatedDriver) -> None:
    f = pn.jit(lambda x: x * 5.0)
    given = [pn.asarray(_data(16, seed=n), device=GPU) for n in range(7)]
    kept = [f(x) for x in given[:6]]
    gpu.refused["cuGraphExecKernelNodeSetParams_v2"] = 1
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        f(given[6])
    gpu.refused.clear()
    assert np.array_equal(np.asarray(f(given[6])), _data(16, seed=6) * 5)
    assert np.array_equal(np.asarray(f(given[1])), np.asarray(kept[1]))


@pytest.mark.parametrize(
    ("status", "told"),
    [(100, "finds no GPU"), (803, "driver is too old"), (999, "UNKNOWN")],
)
def test_no_gpu_says_why(gpu: EmulatedDriver, status: int, told: str) -> None:
    gpu.refused["cuInit"] = status
    with pytest.raises(
        PlanishError, match=rf"there is no device 'cuda:0' \(.*{told}.*devices: cpu, interpreter$"
    ):
        pn.ones(3, device="cuda")
    assert pn.devices() == ("cpu", "interpreter")


def test_an_old_gpu_is_told(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(emulated_cuda._ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR", 7)
    with pytest.raises(PlanishError, match=r"compute capability 7, planish needs 8\.0 \(Ampere\)"):
        pn.realize(pn.ones(3, device="cuda") + 1)


@pytest.mark.parametrize(("major", "reads"), [(8, False), (9, True), (10, False)])
def test_cores_that_read_shared_memory_are_those_of_one_generation(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, major: int, reads: bool
) -> None:
    monkeypatch.setitem(emulated_cuda._ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR", major)
    assert any(core.reads_memory for core in KIND.target(0).tensor_cores) is reads


def test_a_device_that_is_not_there_and_two_devices(gpu: EmulatedDriver) -> None:
    with pytest.raises(PlanishError, match=r"there is no device 'cuda:3' \(CUDA finds 1 GPUs\)"):
        pn.ones(3).to_device("cuda:3")
    with pytest.raises(PlanishError, match=r"different devices, cpu and cuda:0.*to_device"):
        pn.asarray(_data(3), device=GPU) + pn.asarray(_data(3), device="cpu")


# -- the rest of the product --------------------------------------------------------------------------------------------


def test_memory_is_told_and_given_back(gpu: EmulatedDriver) -> None:
    x = pn.asarray(_data(1000), device=GPU)
    assert pn.memory.statistics("cuda").used == 4096
    del x
    assert pn.memory.statistics(GPU)[:2] == (0, 4096)
    assert pn.memory.release(GPU) == 4096
    assert gpu.blocks == {}


def test_a_program_is_measured(
    gpu: EmulatedDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.ptir"
    path.write_text(pn.jit(lambda x: pn.sum(pn.exp(x), axis=1)).lower(pn.TensorSpec((4, 8))).as_text("ptir"))
    assert main(["bench", str(path), "--device", "cuda"]) == 0
    assert "1 launches" in capsys.readouterr().out
    assert main(["bench", str(path), "--device", "cuda", "--tune"]) == 0  # too little to be worth a search
    assert capsys.readouterr().out.count("1 launches") == 2


def test_random_numbers_and_a_step_of_training(gpu: EmulatedDriver) -> None:
    want = np.asarray(pn.random.normal(pn.random.key(7), (20,)))
    with pn.settings(device=GPU):
        np.testing.assert_allclose(
            np.asarray(pn.random.normal(pn.random.key(7), (20,))), want, rtol=2e-6, atol=1e-7
        )

    def trained(device: str) -> Any:
        with pn.settings(device=device):
            model = nn.Linear(3, 2, key=pn.random.key(0))
            optimizer = optim.Adam(0.1)
            state = optimizer.init(model)
            x, y = pn.asarray(_data(5, 3), device=device), pn.asarray(_data(5, 2, seed=1), device=device)

            @pn.jit
            def step(model: Any, state: Any) -> Any:
                loss, grads = pn.value_and_grad(lambda m: pn.mean((m(x) - y) ** 2))(model)
                model, state = optimizer.update(model, grads, state)
                return model, state, loss

            model, state, _ = step(model, state)
            model, state, loss = step(model, state)
            return np.asarray(loss)

    np.testing.assert_allclose(trained(GPU), trained("cpu"), rtol=1e-5)


def test_bisect_runs_the_code_of_a_gpu(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    function = pn.jit(lambda x: pn.sum(pn.exp(x), axis=1)).lower(pn.TensorSpec((4, 8))).function
    assert bisect(function, [_data(4, 8)], TARGETS["sm_90"]) is None
    assert gpu.ran
    run = GpuExecutable.general
    monkeypatch.setattr(GpuExecutable, "_fast", None, raising=False)
    monkeypatch.setattr(GpuExecutable, "__call__", lambda exe, *a: [np.asarray(y) + 1 for y in run(exe, *a)])
    culprit = bisect(function, [_data(4, 8)], TARGETS["sm_90"])
    assert culprit is not None
    assert "code generation" in str(culprit)


# -- several GPUs -------------------------------------------------------------------------------------------------------


def test_two_gpus_are_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated(monkeypatch) as driver:
        driver.answers["cuDeviceGetCount"] = lambda: 2
        driver.answers["cuDevicePrimaryCtxRetain"] = lambda number: 0x70 + int(number)
        assert pn.devices()[-2:] == ("cuda:0", "cuda:1")
        x = pn.asarray(_data(8), device="cuda:0")
        y = x.to_device("cuda:1")
        assert (x.device, y.device) == ("cuda:0", "cuda:1")
        with pytest.raises(PlanishError, match=r"cuda:0 and cuda:1"):
            x + y
        doubled = y * 2.0
        assert doubled.device == "cuda:1"
        np.testing.assert_array_equal(np.asarray(doubled), np.asarray(x) * 2)
        f = pn.jit(lambda a: a + 1.0, device="cuda:1")
        for given in (x, y, x):  # an argument that is elsewhere is moved, as one of the host is
            found = f(given)
            assert found.device == "cuda:1"
            np.testing.assert_array_equal(np.asarray(found), np.asarray(x) + 1)
        back = f(y).to_device("cuda:0")
        np.testing.assert_array_equal(np.asarray(back), np.asarray(x) + 1)


def test_results_that_are_arguments_again_take_the_short_way(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for donated in ((), (0,)):
        x = pn.asarray(_data(16), device="cu" + "da")
        f = pn.jit(lambda p: p * 0.5 + 1.0, donate_argnums=donated)
        for _ in range(3):
            x = f(x)
        assert x.device is pn.asarray(_data(2), device="cuda:" + "0").device
        with monkeypatch.context() as patched:
            patched.setattr(type(f), "_long_way", lambda *_: pytest.fail("the long way"))
            for _ in range(3):
                x = f(x)
