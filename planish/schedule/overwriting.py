"""What a kernel does to the buffers it is given, read off its graph: what it writes, and what it may write over."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from planish.dtypes import PtrDType
from planish.uop.movement import resolve
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops

Pairs = tuple[tuple[int, int], ...]
"""Slots of a kernel, written and read, that may be the same memory."""


def written(sink: UOp) -> frozenset[int]:
    """The parameter slots that a kernel stores to."""
    slots = (_slot(node.src[0]) for node in sink.toposort() if node.op is Ops.STORE)
    return frozenset(slot for slot in slots if slot is not None)


def _slot(place: UOp) -> int | None:
    """The parameter that a place lies in, if it is one."""
    node = place
    while node.op in MOVEMENT or node.op in {Ops.INDEX, Ops.AFTER, Ops.CONTIGUOUS, Ops.CAST}:
        node = node.src[0]
    return cast("int", node.arg) if node.op is Ops.DEFINE_GLOBAL else None


def in_place(sink: UOp) -> Pairs:
    """Pairs (written, read) of slots that may be the same memory.

    The kernel stores one element at a time, and reads the other buffer nowhere but at that element: whatever order its elements
    are computed in, none is read after it was written. Of several stores at one element each may write over what its own
    value is made of, which is therefore read before.
    """
    nodes = sink.toposort()
    stores = [node for node in nodes if node.op is Ops.STORE]
    if any(node.op in _SEQUENTIAL for node in nodes):
        return ()
    if len(stores) != 1 and any(node.op is Ops.REDUCE for node in nodes):
        return ()
    targets = [_element(store.src[0]) for store in stores]
    ends = sum(node.op is Ops.END for node in nodes)
    if not targets or targets[0] is None or (len(stores) > 1 and ends != 1):
        return ()
    index = targets[0][1]
    if any(target is None or target[1] is not index for target in targets):
        return ()
    places = {store.src[0] for store in stores}
    reads: dict[int, list[UOp | None]] = {}
    for node in nodes:
        if node.op is not Ops.INDEX or node in places or _is_memory(node):
            continue  # what is written, or memory as a whole, whose elements others read
        slot = _slot(node)
        if slot is not None:
            element = _element(node)
            reads.setdefault(slot, []).append(None if element is None else element[1])
    sizes = {
        cast("int", node.arg): cast("PtrDType", node.dtype) for node in nodes if node.op is Ops.DEFINE_GLOBAL
    }
    written_to = {target[0] for target in targets if target is not None}
    return tuple(
        (target[0], slot)
        for store, target in zip(stores, targets, strict=True)
        if target is not None
        for slot in sorted(_read_by(store.src[1]) if len(stores) > 1 else reads)
        if slot not in written_to
        and all(place is index for place in reads[slot])
        and sizes[slot].base.itemsize == sizes[target[0]].base.itemsize
        and sizes[slot].size == sizes[target[0]].size
    )


def element_by_element(sink: UOp, carried: Collection[int]) -> bool:
    """Whether a kernel stores one element at a time, and reads these parameters nowhere but at that element."""
    nodes = sink.toposort()
    stores = [node for node in nodes if node.op is Ops.STORE]
    if any(node.op in _SEQUENTIAL or node.op is Ops.REDUCE for node in nodes) or not stores:
        return False
    targets = {_element(store.src[0]) for store in stores}
    indices = {None if target is None else target[1] for target in targets}
    if len(indices) != 1 or None in indices or sum(node.op is Ops.END for node in nodes) > 1:
        return False
    places = {store.src[0] for store in stores}
    for node in nodes:
        if node.op is Ops.INDEX and node not in places and not _is_memory(node) and _slot(node) in carried:
            element = _element(node)
            if element is None or element[1] not in indices:
                return False
    return True


def _read_by(value: UOp) -> set[int]:
    """The parameters that a value is made of."""
    nodes = (node for node in value.toposort() if node.op is Ops.INDEX and not _is_memory(node))
    return {slot for slot in map(_slot, nodes) if slot is not None}


def is_copy(sink: UOp, slot: int) -> bool:
    """Whether a kernel stores, element by element, what it reads of that parameter, and does nothing else."""
    stores = [node for node in sink.toposort() if node.op is Ops.STORE]
    if len(stores) != 1 or stores[0].src[1].op is not Ops.INDEX:
        return False
    target, value = _element(stores[0].src[0]), _element(stores[0].src[1])
    return target is not None and value == (slot, target[1])


_SEQUENTIAL: Final = frozenset({Ops.AFTER, Ops.SCAN, Ops.BUFFERIZE, Ops.DEFINE_LOCAL, Ops.BARRIER})
"""Where these are, the order of the kernel is part of its meaning. (What a reduction runs over is read at indices of its own.)"""


def _is_memory(node: UOp) -> bool:
    """Whether an INDEX is a buffer as a value, not one of its elements."""
    return len(node.src) == 1 and node.src[0].dtype.is_pointer


def _element(place: UOp) -> tuple[int, UOp] | None:
    """The slot and the flat index of an INDEX that is read or written wherever it is reached; None for others."""
    view, *indices = place.src
    if _slot(view) is None or (indices and indices[-1].dtype.is_bool):
        return None
    resolved = resolve(view, indices)
    base = resolved.base
    if base.op is Ops.INDEX and len(base.src) == 1:
        base = base.src[0]
    if resolved.valid is not None or base.op is not Ops.DEFINE_GLOBAL:
        return None
    return cast("int", base.arg), resolved.index
