"""Kernels with names: memory becomes parameters, in the order in which the graph has it, so that equal kernels are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from planish.schedule.plan import Kernel
from planish.schedule.reason import Reason
from planish.schedule.reasons import WRITTEN
from planish.schedule.tensors import SharedBuffer
from planish.uop.node import UOp
from planish.uop.ops import Ops, Variable
from planish.uop.rewrite import substitute
from planish.uop.text import in_order


def buffer_of(memory: UOp) -> int:
    """The number of the buffer that a value in memory is a view of."""
    while memory.op is not Ops.BUFFER:
        memory = memory.src[0]
    return cast("int", memory.arg)


def with_parameters(
    sink: UOp, buffers: Sequence[SharedBuffer], size: str, reasons: Mapping[int, Reason]
) -> Kernel:
    """A kernel whose memory is parameters; `size` is part of its name, and `reasons` tell why buffers are written."""
    places = [node for node in in_order(sink) if node.op is Ops.BUFFER]
    numbers = tuple(cast("int", place.arg) for place in places)
    slots = {
        place: sink.table.param(slot, buffers[number].dtype, buffers[number].size)
        for slot, (place, number) in enumerate(zip(places, numbers, strict=True))
    }
    named = substitute(sink, slots)
    stored = {buffer_of(n.src[0]) for n in sink.toposort() if n.op is Ops.STORE}
    written = tuple(n for n in numbers if n in stored)
    because = tuple(str(reasons.get(number, WRITTEN)) for number in written)
    variables = sorted({cast("Variable", n.arg).name for n in in_order(named) if n.op is Ops.DEFINE_VAR})
    work = f"{_kind(named)}_{size}"
    return Kernel(kernel_name(work, named), named, numbers, tuple(variables), written, because, work)


def kernel_name(work: str, sink: UOp) -> str:
    """What kernels are called: by what they do, and by a digest of their graph."""
    return f"{work}_{sink.key[:3].hex()}"


def _kind(sink: UOp) -> str:
    """What a kernel does, in a word."""
    nodes = sink.toposort()
    ops = {node.op for node in nodes}
    stores = [node for node in nodes if node.op is Ops.STORE]
    if any(n.op is Ops.INDEX for store in stores for s in store.src[0].src[1:] for n in s.toposort()):
        return "scatter"
    if Ops.SCAN in ops:
        return "scan"
    if Ops.REDUCE in ops:
        stored = frozenset(r for store in stores for r in store.ranges)
        rows = Ops.BUFFERIZE in ops or any(n.op is Ops.REDUCE and n.ranges < stored for n in nodes)
        return "rows" if rows else "reduce"
    return "copy" if all(store.src[1].op in {Ops.INDEX, Ops.CONST} for store in stores) else "map"


def size_text(indices: Sequence[UOp]) -> str:
    sizes = [index.src[0] for index in indices if index.op is Ops.RANGE]
    return "x".join(str(s.arg) if s.op is Ops.CONST else f"n{s.vmax}" for s in sizes) or "1"
