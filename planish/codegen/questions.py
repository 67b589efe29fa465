"""What every back end asks of a kernel before it renders it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from planish.codegen.spans import Span
from planish.errors import LoweringError
from planish.llir.program import (
    ACCESSES,
    Address,
    Barrier,
    Buffer,
    Build,
    Combine,
    Compute,
    Deal,
    EndLoop,
    Immediate,
    Instruction,
    Loop,
    Ops,
    Prefetch,
    Program,
    Register,
    Store,
    Tile,
)


def maybe_outside(program: Program) -> frozenset[Register]:
    """Addresses that need not lie in their buffer: of gated accesses, prefetches, and what others are computed from."""
    addresses: set[Register] = set()
    for i in program.body:
        if isinstance(i, Prefetch) or (isinstance(i, ACCESSES) and i.gate is not None):
            addresses.add(i.address)
        elif isinstance(i, Address) and isinstance(i.base, Register):
            addresses |= {i.base, i.result}
    return frozenset(addresses)


def maybe_empty(program: Program) -> dict[Register, tuple[Register, ...]]:
    """Masks of which every lane may be off, each with gates of which one is on where a lane is.

    (Of masks that are vectors and nothing else, only those at the ends of a row are ever empty, and a row is where there is memory.) Where a
    row or a column that is padded has no element left, an access of it may lie in a page that is not there. It does nothing, but
    processors take hundreds of cycles to find that out: such an access is sent to where there is memory.
    """
    found: dict[Register, tuple[Register, ...]] = {}
    for i in program.body:
        if isinstance(i, Build) and i.result.dtype.is_bool:
            gates = tuple(dict.fromkeys(each for each in i.inputs if isinstance(each, Register)))
            if gates and not any(isinstance(each, Immediate) and each.value for each in i.inputs):
                found[i.result] = gates
        elif isinstance(i, Compute) and i.op is Ops.AND and i.result.dtype.is_bool:
            known = [found[each] for each in i.inputs if isinstance(each, Register) and each in found]
            if known:
                found[i.result] = min(known, key=len)
    return found


def strays(program: Program, spans: Mapping[Register, Span]) -> dict[Register, Buffer]:
    """Addresses that may lie more than a page outside of their buffer, as rows beyond an array do; borders of an image do not."""
    found: dict[Register, Buffer] = {}
    for i in program.body:
        if isinstance(i, Address) and isinstance(i.base, Buffer) and isinstance(i.index, Register):
            span, page = spans.get(i.index), _PAGE // max(i.base.dtype.itemsize, 1)
            if span is None or span[0] < -page or span[1] > i.base.size + page:
                found[i.result] = i.base
    return found


_PAGE: Final = 4096
"""Bytes around a buffer that count as near it: what lies there shares a page with it, or with memory that was touched as well."""


def may_stream(i: Store) -> bool:
    """Whether a store can go past the caches at all: a vector of a size that machines have such stores for."""
    dtype = i.value.dtype
    size = dtype.lanes * dtype.itemsize
    return i.nontemporal and i.address.dtype.lanes == 1 and dtype.bits >= 8 and size in _STREAMED


_STREAMED: Final = frozenset({16, 32, 64, 128, 256})
"""Bytes of vectors that are stored past the caches: of one register, or of a few."""


def waiting_roots(program: Program) -> frozenset[Register]:
    """Roots of vectors in whose loop there is too little else to do while the one unit that takes them is busy."""
    bodies: dict[tuple[int, ...], list[Compute]] = {}
    loops: list[int] = []
    for position, i in enumerate(program.body):
        if isinstance(i, Loop):
            loops.append(position)
        elif isinstance(i, EndLoop):
            loops.pop()
        elif isinstance(i, Compute) and i.result.dtype.lanes > 1:
            bodies.setdefault(tuple(loops), []).append(i)
    found: set[Register] = set()
    for body in bodies.values():
        roots = [i.result for i in body if i.op is Ops.SQRT]
        if len(body) < _BESIDE_A_ROOT * len(roots):
            found.update(roots)
    return frozenset(found)


_BESIDE_A_ROOT: Final = 13
"""Operations on vectors that take as long as a root by instruction, less those that refining one takes."""


def stored_together(program: Program) -> dict[int, tuple[Store, ...]]:
    """By position: stores past the caches that follow each other, to be asked once whether all are aligned; () for all but the first."""
    together: dict[int, tuple[Store, ...]] = {}
    first = -1
    for position, i in enumerate(program.body):
        if not isinstance(i, Store) or not may_stream(i) or i.gate is not None or i.align >= _bytes(i):
            first = -1
        elif first < 0 or _bytes(together[first][0]) != _bytes(i):
            first, together[position] = position, (i,)
        else:
            together[first] += (i,)
            together[position] = ()
    return {position: run for position, run in together.items() if len(run) != 1}


def _bytes(i: Store) -> int:
    return i.value.dtype.lanes * i.value.dtype.itemsize


def streams(program: Program) -> bool:
    """Whether a kernel stores past the caches: then it ends with a fence."""
    return any(isinstance(i, Store) and may_stream(i) for i in program.body)


class OneThread:
    """What renderers for a CPU core, which is one thread, refuse: methods called like the instructions."""

    program: Program

    def barrier(self, i: Barrier) -> None:
        """Nothing, unless there are threads for it to hold."""
        if any(special.is_thread for special in self.program.specials):
            raise LoweringError(
                f"{self.program.name} has threads that wait for each other; a block on a CPU core is one thread",
                op="BARRIER",
            )

    def combine(self, i: Combine) -> NoReturn:
        """What neighbouring threads of a block do together."""
        raise LoweringError(f"{i.by} is combined over {i.width} threads; a CPU core is one", op="COMBINE")

    def deal(self, i: Deal) -> NoReturn:
        """The same of rows."""
        raise LoweringError(
            "rows are dealt out among the threads of a warp; a CPU core is one", op="EXCHANGE"
        )

    def copy_async(self, i: Instruction) -> NoReturn:
        """Copies that happen while a thread goes on."""
        raise LoweringError(f"{i.mnemonic}: a CPU core does nothing in the background", op="STORE")

    commit_copies = wait_copies = finish = copy_async
    fetcher = end_fetcher = acquire = copy_box = await_boxes = release = copy_async


def one_thread(i: Tile) -> None:
    """Refuse a tile operation that several threads do together."""
    if i.tile.threads > 1:
        raise LoweringError(
            f"tile operation {i.tile.name} needs {i.tile.threads} threads together; a CPU core is one",
            op="WMMA",
        )
