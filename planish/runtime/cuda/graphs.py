"""Graphs of the driver: launches as nodes, one behind the other; what a flag decides as conditional nodes, on drivers that have them.

Collectives are one behind the other too, each behind the launches before it; a launch waits for one only where the plan says so. So they run beside each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from planish.errors import PlanishError
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import bindings, call
from planish.runtime.cuda.launch import LoadedKernel
from planish.runtime.cuda.nccl import NcclCollective
from planish.runtime.cuda.trace import Choice, Exchanged, Item, Joined, KernelLaunch, LaunchLoop, Word
from planish.runtime.cuda.watchdog import watchdog

_DECIDE: Final = r"""
.version 8.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry planish_decide (.param .u64 flag, .param .u64 yes, .param .u64 no, .param .u64 more)
{
    .reg .pred %p<5>;
    .reg .b16 %h<2>;
    .reg .b32 %r<3>;
    .reg .b64 %d<5>;
    ld.param.u64 %d0, [flag];
    ld.param.u64 %d1, [yes];
    ld.param.u64 %d2, [no];
    ld.param.u64 %d3, [more];
    cvta.to.global.u64 %d0, %d0;
    ld.global.u8 %h0, [%d0];
    setp.ne.s16 %p0, %h0, 0;
    selp.u32 %r0, 1, 0, %p0;
    selp.u32 %r1, 0, 1, %p0;
    setp.eq.u64 %p1, %d1, 0;
    @%p1 bra without_yes;
    {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %d1;
    st.param.b32 [b], %r0;
    call.uni cudaGraphSetConditional, (a, b);
    }
without_yes:
    setp.eq.u64 %p2, %d2, 0;
    @%p2 bra without_no;
    {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %d2;
    st.param.b32 [b], %r1;
    call.uni cudaGraphSetConditional, (a, b);
    }
without_no:
    setp.eq.u64 %p3, %d3, 0;
    @%p3 bra without_more;
    {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %d3;
    st.param.b32 [b], %r0;
    call.uni cudaGraphSetConditional, (a, b);
    }
without_more:
    ret;
}
"""
"""Tells conditional nodes what a flag says. The driver knows the function it calls, and links it when it translates this."""
_CONDITIONALS_SINCE: Final = 12040


class Built(NamedTuple):
    """A graph that can be launched."""

    executable: Any
    graph: Any
    nodes: list[int]
    words: list[int]
    """Of all launches, one after another."""


def decides(gpu: Gpu) -> bool:
    """Whether the driver has conditional nodes."""
    return _decider(gpu) is not None


_DECIDERS: Final[dict[int, Any]] = {}


def _decider(gpu: Gpu) -> Any | None:
    if gpu.number not in _DECIDERS:
        gpu.enter()
        try:
            new = int(call("cuDriverGetVersion")) >= _CONDITIONALS_SINCE
            module = call("cuModuleLoadData", _DECIDE.encode() + b"\0") if new else None
            decider = (
                None if module is None else (call("cuModuleGetFunction", module, b"planish_decide"), module)
            )
        except PlanishError:  # a driver that does not know what it is asked for: the host reads flags
            decider = None
        _DECIDERS[gpu.number] = decider
    return _DECIDERS[gpu.number]


def _once(nodes: Sequence[Any]) -> list[Any]:
    """Each node once: the driver refuses to wait for one twice."""
    return list({int(node): node for node in nodes}.values())


_SIDE: Final[dict[int, Any]] = {}


def _side_stream(gpu: Gpu) -> Any:
    """A stream that nothing runs on, to record what would: the default stream cannot be recorded."""
    if gpu.number not in _SIDE:
        _SIDE[gpu.number] = call("cuStreamCreate", bindings().CUstream_flags.CU_STREAM_NON_BLOCKING)
    return _SIDE[gpu.number]


class GraphBuilder:
    """Makes the graph of some items for addresses."""

    def __init__(
        self,
        gpu: Gpu,
        kernels: Sequence[LoadedKernel],
        frame: Sequence[int],
        exchanges: Mapping[int, NcclCollective] | None = None,
    ) -> None:
        self.gpu, self.kernels, self.frame = gpu, kernels, frame
        self.exchanges = exchanges or {}
        self.under_way: dict[int, Any] = {}
        """Collectives that are not waited for yet, by ticket."""
        self.last: list[Any] = []
        """The collective before: all ranks have them in one order."""
        self.nodes: list[int] = []
        self.words: list[int] = []
        self._params = bindings().CUDA_KERNEL_NODE_PARAMS()

    def build(self, items: Sequence[Item]) -> Built:
        self.gpu.enter()
        self.context = call("cuCtxGetCurrent")
        graph = call("cuGraphCreate", 0)
        self.chain(graph, items, [])
        return Built(call("cuGraphInstantiate", graph, 0), graph, self.nodes, self.words)

    def chain(self, graph: Any, items: Sequence[Item], before: list[Any]) -> list[Any]:
        """Each item behind the one before; the last one."""
        for item in items:
            match item:
                case KernelLaunch():
                    kernel = self.kernels[item.kernel]
                    words = [self.at(word) for word in item.words]
                    blocks = kernel.grid.at(item.variables)
                    before = [
                        self.launch(
                            graph, before, kernel.function, words, blocks, kernel.grid.threads, kernel.shared
                        )
                    ]
                    self.nodes.append(int(before[0]))
                    self.words += words
                case Choice(flag, then, otherwise):
                    yes, no = (self.handle(graph) if block else 0 for block in (then, otherwise))
                    before = self.decide(graph, before, flag, yes, no, 0)
                    for handle, block in ((yes, then), (no, otherwise)):
                        if block:
                            before, body = self.conditional(graph, before, handle, "IF")
                            self.chain(body, block, [])
                case LaunchLoop():
                    before = self.loop(graph, before, item)
                case Exchanged():
                    self.last = [self.watched(graph, _once([*before, *self.last]), item)]
                    if item.ticket:
                        self.under_way[item.ticket] = self.last[0]
                    else:
                        before = self.last
                case Joined(ticket):
                    node = self.under_way.pop(ticket, None)
                    before = before if node is None else _once([*before, node])
        return before

    def watched(self, graph: Any, before: list[Any], item: Exchanged) -> Any:
        """A collective, and around it what tells the watchdog where the device is."""
        of = self.exchanges[item.key]
        if not of.watched:
            return self.exchange(graph, before, item)
        guard = watchdog(self.gpu)
        for which in (guard.dog.number(of.what), 0):
            mark = guard.kernel.function
            before = [self.launch(graph, before, mark, (guard.address, which), (1, 1, 1), (1, 1, 1), 0)]
            if which:
                before = [self.exchange(graph, before, item)]
        return before[0]

    def exchange(self, graph: Any, before: list[Any], item: Exchanged) -> Any:
        """A collective as a node: what it puts on a stream becomes a graph of its own."""
        stream, relaxed = (
            _side_stream(self.gpu),
            bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
        )
        call("cuStreamBeginCapture", stream, relaxed)
        try:
            self.exchanges[item.key].put_on(
                int(stream), self.at(item.given), self.at(item.made), item.elements
            )
        finally:
            inner = call("cuStreamEndCapture", stream)
        node = call("cuGraphAddChildGraphNode", graph, before, len(before), inner)
        call("cuGraphDestroy", inner)  # the node has a copy
        return node

    def loop(self, graph: Any, before: list[Any], item: LaunchLoop) -> list[Any]:
        more = self.handle(graph)
        before = self.decide(graph, before, item.flag, 0, 0, more)
        node, body = self.conditional(graph, before, more, "WHILE")
        inner = self.chain(body, item.turns[0], [])
        if len(item.turns) == 1:
            self.decide(body, inner, item.flags[0], 0, 0, more)
            return node
        again, done = self.handle(body), self.handle(body)
        inner = self.decide(body, inner, item.flags[0], again, done, more)
        inner, second = self.conditional(body, inner, again, "IF")
        self.decide(second, self.chain(second, item.turns[1], []), item.flags[1], 0, 0, more)
        inner, last = self.conditional(body, inner, done, "IF")
        self.chain(last, item.back, [])
        return node

    def at(self, word: Word) -> int:
        return word.offset if word.root < 0 else self.frame[word.root] + word.offset

    def launch(
        self,
        graph: Any,
        before: list[Any],
        function: Any,
        words: Sequence[int],
        blocks: Sequence[int],
        threads: Sequence[int],
        shared: int,
    ) -> Any:
        count = max(len(words), 1)
        own = (ctypes.c_int64 * count)(*words)
        places = (ctypes.c_void_p * count)(*(ctypes.addressof(own) + 8 * k for k in range(count)))
        params = self._params
        params.func = function
        params.gridDimX, params.gridDimY, params.gridDimZ = blocks
        params.blockDimX, params.blockDimY, params.blockDimZ = threads
        params.sharedMemBytes = shared
        params.kernelParams = ctypes.addressof(places)
        return call("cuGraphAddKernelNode", graph, before, len(before), params)

    def handle(self, graph: Any) -> Any:
        """What a conditional node of a graph looks at."""
        return call("cuGraphConditionalHandleCreate", graph, self.context, 0, 0)

    def decide(self, graph: Any, before: list[Any], flag: Word, yes: Any, no: Any, more: Any) -> list[Any]:
        """Tell up to three nodes what a flag says; the second is told the opposite."""
        function, _ = _decider(self.gpu)  # type: ignore[misc]  # who has no decider traces no conditions
        words = [self.at(flag), int(yes), int(no), int(more)]
        return [self.launch(graph, before, function, words, (1, 1, 1), (1, 1, 1), 0)]

    def conditional(self, graph: Any, before: list[Any], handle: Any, kind: str) -> tuple[list[Any], Any]:
        """A node that runs a graph as its handle says: the node, and the graph, which is empty."""
        driver = bindings()
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = handle
        params.conditional.type = getattr(driver.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}")
        params.conditional.size = 1
        params.conditional.ctx = self.context
        node = call("cuGraphAddNode", graph, before, None, len(before), params)
        return [node], params.conditional.phGraph_out[0]
