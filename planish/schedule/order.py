"""The order of kernels: each after what it reads, and before what writes over it.

Memory has states. A kernel reads tensors, each of which is one state of one buffer, and makes others; one that writes into
memory that already held something *replaces* that state. So there are three reasons to wait:

* read after write: for the kernel that makes what is read;
* write after read: for every kernel that reads the state that is replaced;
* write after write: for the kernel that made it.

Among kernels that wait for nothing, the one whose tensor was described first runs first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Generic, TypeVar

from planish.errors import LoweringError
from planish.records import dataclass
from planish.uop.node import UOp

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelEffects(Generic[T]):
    """A kernel, the tensors it reads and makes, and those whose memory it writes over."""

    kernel: T
    reads: tuple[UOp, ...]
    makes: tuple[UOp, ...]
    replaces: tuple[UOp, ...] = ()


def in_order(effects: Sequence[KernelEffects[T]]) -> list[T]:
    """The kernels in an order in which they can run."""
    maker = {state: number for number, each in enumerate(effects) for state in each.makes}
    readers: dict[UOp, list[int]] = {}
    for number, each in enumerate(effects):
        for state in each.reads:
            readers.setdefault(state, []).append(number)
    after: list[set[int]] = [set() for _ in effects]
    for number, each in enumerate(effects):
        for state in (*each.reads, *each.replaces):
            if state in maker:
                after[number].add(maker[state])
        for state in each.replaces:
            after[number].update(readers.get(state, ()))
        after[number].discard(number)
    waiting = [len(before) for before in after]
    users: list[list[int]] = [[] for _ in effects]
    for number, before in enumerate(after):
        for each_before in before:
            users[each_before].append(number)
    ready = [(effects[number].makes[0].serial, number) for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    ordered: list[T] = []
    while ready:
        _, number = heapq.heappop(ready)
        ordered.append(effects[number].kernel)
        for user in users[number]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (effects[user].makes[0].serial, user))
    if len(ordered) != len(effects):
        raise LoweringError("kernels wait for each other in a circle")
    return ordered
