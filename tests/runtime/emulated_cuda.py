"""A CUDA driver in Python, for machines without a GPU: memory is the host's, kernels are run by the LLIR interpreter.

It stands in for the bindings and for the functions that native code calls, graphs and conditional nodes included; so all of the runtime
above the driver is what runs here. `refuse` makes a function of the driver fail.
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planish.compiler import lowering
from planish.compiler.cuda import call as gpu_call
from planish.compiler.cuda import executable as compiler_gpu
from planish.frontend import devices
from planish.frontend.plans import Plans
from planish.frontend.session import SESSION
from planish.llir.program import Program
from planish.runtime.cuda import build, device, driver, graphs, launch, native
from planish.runtime.kernels import interpreted

_OK = 0
_NO_MEMORY = 2
_UNKNOWN = 999
_ATTRIBUTES = {"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 4}
_WORD = ctypes.c_int64
_U32, _ADDRESS = ctypes.c_uint32, ctypes.c_void_p
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, *[_U32] * 7, _ADDRESS, _ADDRESS, _ADDRESS)
_PAIR = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _ADDRESS)
_ONE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)
_THREE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _ADDRESS, _ADDRESS)


def copied(to: int, source: int, nbytes: int, *_: Any) -> tuple[()]:
    """Copy bytes; nothing is told."""
    ctypes.memmove(to, source, nbytes)
    return ()


class EmulatedDriver:
    """The driver of one GPU, as `cuda.bindings.driver` is asked."""

    def __init__(self, real: Any, memory: int = 1 << 30) -> None:
        self.real, self.total = real, memory
        self.programs: dict[str, Program] = {}
        self.cubins: dict[str, bytes] = {}
        self.functions: dict[int, tuple[str, int, Callable[[list[int]], object]]] = {}
        self.blocks: dict[int, Any] = {}
        self.graphs: dict[int, list[Any]] = {}
        self.handles: dict[int, int] = {}
        self.refused: dict[str, int] = {}
        self.calls: Counter[str] = Counter()
        self.version = 12080
        self.pinned: list[Any] = []
        self.errors: list[BaseException] = []
        self.ran: list[str] = []
        """The kernels that were run, in their order."""
        self.waits: list[tuple[int, int]] = []
        """Which stream was to be waited for, and by which."""
        self._next = 0x1000
        self._context = 0

        events: dict[int, int] = {}

        def recorded(event: int, stream: int) -> tuple[()]:
            events[event] = stream
            return ()

        def waits(stream: int, event: int, flags: int) -> tuple[()]:
            self.waits.append((events[event], stream))
            return ()

        def nothing(*_: Any) -> tuple[()]:
            return ()

        def walked(graph: int, stream: int) -> tuple[()]:
            self._walk(graph)
            return ()

        self.answers: dict[str, Callable[..., Any]] = {
            "cuInit": nothing, "cuStreamSynchronize": nothing, "cuFuncSetAttribute": nothing, "cuGraphDestroy": nothing,
            "cuGraphExecDestroy": nothing, "cuEventDestroy": nothing,
            "cuMemcpyHtoD": copied, "cuMemcpyDtoH": copied, "cuMemcpyDtoDAsync": copied, "cuMemcpyHtoDAsync": copied,
            "cuMemcpyDtoHAsync": copied,
            "cuMemsetD8Async": lambda to, value, count, _: (ctypes.memset(int(to), value, count), ())[1],
            "cuMemcpyPeerAsync": lambda to, _, source, __, nbytes, ___: copied(to, source, nbytes),
            "cuGetErrorName": lambda status: status.name.encode(),
            "cuGetErrorString": lambda _: b"as the emulated driver was told to say",
            "cuDriverGetVersion": lambda: self.version,
            "cuDeviceGetCount": lambda: 1,
            "cuDeviceGet": lambda number: number,
            "cuDevicePrimaryCtxRetain": lambda _: 0x77,
            "cuCtxSetCurrent": lambda context: (self._set_context(int(context)), ())[1],
            "cuCtxGetCurrent": lambda: self._context,
            "cuDeviceGetName": lambda *_: b"emulated\0",
            "cuDeviceTotalMem": lambda _: self.total,
            "cuMemGetInfo": lambda: (self.total - self.used, self.total),
            "cuDeviceGetAttribute": lambda which, _: _ATTRIBUTES[which.name.removeprefix("CU_DEVICE_ATTRIBUTE_")],
            "cuMemAlloc": self._allocate,
            "cuMemFree": lambda address: self.blocks.pop(int(address)) and (),
            "cuModuleLoadData": lambda image: image,
            "cuModuleGetFunction": self._function,
            "cuEventCreate": lambda _: self.handle(),
            "cuEventElapsedTime": lambda *_: 0.001,
            "cuEventRecord": recorded,
            "cuStreamWaitEvent": waits,
            "cuGraphCreate": lambda _: self._graph(),
            "cuGraphInstantiate": lambda graph, _: graph,
            "cuGraphAddKernelNode": self._add_launch,
            "cuGraphConditionalHandleCreate": self._conditional,
            "cuGraphAddNode": self._add_conditional,
            "cuGraphLaunch": walked, "cuMemHostAlloc": self._pinned, "cuEventSynchronize": nothing,
        }  # fmt: skip
        self.native = {
            "cuLaunchKernel": _LAUNCH(self._launch),
            "cuGraphLaunch": _PAIR(self._graph_launch),
            "cuCtxGetCurrent": _ONE(self._get_context),
            "cuCtxSetCurrent": _ONE(self._set_context),
            "cuGraphExecKernelNodeSetParams_v2": _THREE(self._set_node),
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            return getattr(self.real, name)
        answer = self.answers[name]

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            status, found = self.refused.get(name, _OK), None
            if not status:
                try:
                    found = answer(*arguments)
                except MemoryError:
                    status = _NO_MEMORY
            return (self.real.CUresult(status), *(found if isinstance(found, tuple) else (found,)))

        return call

    def CUgraphNodeParams(self) -> Any:  # noqa: N802 - as the driver calls it
        return SimpleNamespace(conditional=SimpleNamespace())

    def handle(self) -> int:
        self._next += 8
        return self._next

    # -- what is asked of it in Python -----------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        return sum(len(block) for block in self.blocks.values())

    def _allocate(self, nbytes: int) -> int:
        if nbytes + self.used > self.total:
            raise MemoryError
        block = (ctypes.c_uint8 * nbytes)()
        ctypes.memset(block, 0xA5, nbytes)
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def _pinned(self, nbytes: int, flags: int) -> int:
        block = (ctypes.c_uint8 * nbytes)()
        self.pinned.append(block)
        return ctypes.addressof(block)

    def _function(self, module: bytes, name: bytes) -> Any:
        number, text = self.handle(), name.decode()
        if text == "planish_copy":
            self.functions[number] = text, 3, lambda words: copied(*words)
        elif text == "planish_decide":
            self.functions[number] = text, 4, self._decide
        else:
            program = self.programs[module.decode()]
            count = len(program.params) + len(program.variables)
            self.functions[number] = text, count, self._kernel(program)
        return self.real.CUfunction(number)

    def _graph(self) -> int:
        number = self.handle()
        self.graphs[number] = []
        return number

    def _add_launch(self, graph: int, before: list[Any], count: int, params: Any) -> Any:
        assert before == self.graphs[graph][-1:], "a chain"
        number = int(params.func)
        words = self._words(number, int(params.kernelParams))
        node = _Node((number, words))
        self.graphs[graph].append(node)
        return node

    def _conditional(self, graph: int, context: Any, default: int, flags: int) -> int:
        number = self.handle()
        self.handles[number] = default
        return number

    def _add_conditional(self, graph: int, before: list[Any], data: None, count: int, params: Any) -> Any:
        assert before == self.graphs[graph][-1:], "a chain"
        body = self._graph()
        params.conditional.phGraph_out = [body]
        node = _Node((params.conditional.type.name.rpartition("_")[2], int(params.conditional.handle), body))
        self.graphs[graph].append(node)
        return node

    # -- what native code asks of it -------------------------------------------------------------------------------------

    def _words(self, function: int, places: int) -> list[int]:
        count = self.functions[function][1]
        return [_WORD.from_address(p).value for p in (_WORD * count).from_address(places)] if count else []

    def _run(self, function: int, words: list[int]) -> None:
        name, _, call = self.functions[function]
        self.ran.append(name)
        call(words)

    def _launch(self, function: int, *rest: int) -> int:
        self.calls["cuLaunchKernel"] += 1
        return self._guarded("cuLaunchKernel", lambda: self._run(function, self._words(function, rest[-2])))

    def _graph_launch(self, graph: int, stream: int) -> int:
        self.calls["cuGraphLaunch"] += 1
        return self._guarded("cuGraphLaunch", lambda: self._walk(graph))

    def _walk(self, graph: int) -> None:
        for node in self.graphs[graph]:
            if len(node.what) == 2:
                self._run(*node.what)
                continue
            kind, handle, body = node.what
            while self.handles[handle]:
                if kind == "IF":
                    self._walk(body)
                    break
                self._walk(body)

    def _set_node(self, graph: int, node: int, params: int) -> int:
        self.calls["set_node"] += 1
        function, places = _WORD.from_address(params).value, _WORD.from_address(params + 40).value
        (found,) = [n for n in self.graphs[graph] if int(n) == node]
        found.what = function, self._words(function, places)
        return self.refused.get("cuGraphExecKernelNodeSetParams_v2", _OK)

    def _get_context(self, into: int) -> int:
        _WORD.from_address(into).value = self._context
        return _OK

    def _set_context(self, context: int | None) -> int:
        self._context = context or 0
        return _OK

    def _guarded(self, name: str, work: Callable[[], None]) -> int:
        if self.refused.get(name):
            return self.refused[name]
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it cannot pass through native code
            self.errors.append(error)
            return _UNKNOWN
        return _OK

    def _decide(self, words: list[int]) -> None:
        flag = ctypes.c_uint8.from_address(words[0]).value != 0
        for handle, value in zip(words[1:], (flag, not flag, flag), strict=True):
            if handle:
                self.handles[handle] = int(value)

    def _kernel(self, program: Program) -> Callable[[list[int]], None]:
        call = interpreted(program)

        def run(words: list[int]) -> None:
            arrays = []
            for buffer, address in zip(program.params, words, strict=False):
                room = next(
                    (a + len(b) - address for a, b in self.blocks.items() if a <= address < a + len(b)), None
                )
                assert room is not None, f"{program.name} is given memory that is not the device's"
                raw = (ctypes.c_uint8 * min(buffer.nbytes, room)).from_address(address)
                arrays.append(np.ctypeslib.as_array(raw).view(np.dtype(buffer.dtype.numpy)))
            call(arrays, words[len(program.params) :], None)

        return run


class _Node:
    """A node of a graph: a launch, or a conditional one."""

    def __init__(self, what: tuple[Any, ...]) -> None:
        self.what = what

    def __int__(self) -> int:
        return id(self)


@contextmanager
def emulated(monkeypatch: pytest.MonkeyPatch, memory: int = 1 << 30) -> Iterator[EmulatedDriver]:
    """A machine with one GPU, for as long as this is open."""
    real = pytest.importorskip("cuda.bindings.driver")
    found = EmulatedDriver(real, memory)
    original = compiler_gpu.source_of

    def source_of(program: Program, aliased: Any) -> str:
        text = original(program, aliased)
        found.programs[text] = program
        return text

    def addresses(names: Any) -> dict[str, int]:
        return {n: ctypes.cast(found.native[n], ctypes.c_void_p).value or 0 for n in names}

    monkeypatch.setattr(driver, "bindings", lambda: found)
    for module in (device, graphs, launch):
        monkeypatch.setattr(module, "bindings", lambda: found)
    monkeypatch.setattr(native, "addresses", addresses)
    monkeypatch.setattr(compiler_gpu, "source_of", source_of)
    # what a helper renders, only the helper would know
    monkeypatch.setattr(lowering, "is_worth_sharing", lambda *_: 1)

    def cubin_of(source: str, *_: object) -> bytes:
        return found.cubins.setdefault(build.cubin_key(source, "emulated", ()), source.encode())

    monkeypatch.setattr(compiler_gpu, "cubin_key", lambda source, *_: build.cubin_key(source, "emulated", ()))
    monkeypatch.setattr(compiler_gpu, "kept_cubin", found.cubins.get)
    for module in (compiler_gpu, launch):
        monkeypatch.setattr(module, "cubin_of", cubin_of)
    monkeypatch.setattr(SESSION, "plans", Plans())  # what was compiled for another machine
    monkeypatch.setattr(device, "_OPEN", {})
    monkeypatch.setattr(graphs, "_DECIDERS", {})
    monkeypatch.setattr(launch, "_COPIERS", {})
    caches = (driver._asked, gpu_call.launcher, devices._accelerated)
    for cache in caches:
        cache.cache_clear()
    # (all that a long run of tests keeps would take seconds to look through)
    alone = not gc.get_freeze_count()
    if alone:
        gc.freeze()
    try:
        yield found
        assert not found.errors, found.errors
    finally:
        gc.collect()  # what is still there lets go of it while it is there
        if alone:
            gc.unfreeze()
        for cache in caches:
            cache.cache_clear()
