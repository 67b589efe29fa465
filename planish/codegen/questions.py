"""What every back end asks of a kernel before it renders it.

A question walks over what it is about, not over the whole body: `Kinds` has the instructions of each form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn, TypeVar, cast

from planish.codegen.spans import Span
from planish.errors import LoweringError
from planish.llir import program as ir

Form = TypeVar("Form", bound=ir.Instruction)


class Kinds:
    """The instructions of a body by what they are, each kind in order."""

    def __init__(self, body: Iterable[ir.Instruction]) -> None:
        self._by_kind: defaultdict[type[ir.Instruction], list[ir.Instruction]] = defaultdict(list)
        for instruction in body:
            self._by_kind[type(instruction)].append(instruction)

    def __getitem__(self, kind: type[Form]) -> Sequence[Form]:
        return cast("Sequence[Form]", self._by_kind.get(kind, ()))


def maybe_outside(kinds: Kinds) -> frozenset[ir.Register]:
    """Addresses that need not lie in their buffer: of gated accesses, prefetches, and what others are computed from."""
    addresses = {i.address for i in kinds[ir.Prefetch]}
    addresses.update(i.address for i in kinds[ir.Load] if i.gate is not None)
    addresses.update(i.address for i in kinds[ir.Store] if i.gate is not None)
    for i in kinds[ir.Address]:
        if isinstance(i.base, ir.Register):
            addresses |= {i.base, i.result}
    return frozenset(addresses)


def maybe_empty(kinds: Kinds) -> dict[ir.Register, tuple[ir.Register, ...]]:
    """Masks of which every lane may be off, each with gates of which one is on where a lane is.

    (Of masks that are vectors and nothing else, only those at the ends of a row are ever empty, and a row is where there is memory.) Where a
    row or a column that is padded has no element left, an access of it may lie in a page that is not there. It does nothing, but
    processors take hundreds of cycles to find that out: such an access is sent to where there is memory.
    """
    masks: dict[ir.Register, tuple[ir.Register, ...]] = {}
    for built in kinds[ir.Build]:
        if built.result.dtype.is_bool:
            gates = tuple(dict.fromkeys(each for each in built.inputs if isinstance(each, ir.Register)))
            if gates and not any(isinstance(each, ir.Immediate) and each.value for each in built.inputs):
                masks[built.result] = gates
    for i in kinds[ir.Compute] if masks else ():
        if i.op is ir.Ops.AND and i.result.dtype.is_bool:
            known = [masks[each] for each in i.inputs if isinstance(each, ir.Register) and each in masks]
            if known:
                masks[i.result] = min(known, key=len)
    return masks


def strays(kinds: Kinds, spans: Mapping[ir.Register, Span]) -> dict[ir.Register, ir.Buffer]:
    """Addresses that may lie more than a page outside of their buffer, as rows beyond an array do; borders of an image do not."""
    buffers: dict[ir.Register, ir.Buffer] = {}
    for i in kinds[ir.Address]:
        if isinstance(i.index, ir.Register) and isinstance(i.base, ir.Buffer):
            span, page = spans.get(i.index), _PAGE // max(i.base.dtype.itemsize, 1)
            if span is None or span[0] < -page or span[1] > i.base.size + page:
                buffers[i.result] = i.base
    return buffers


_PAGE: Final = 4096
"""Bytes around a buffer that count as near it: what lies there shares a page with it, or with memory that was touched as well."""


def may_stream(i: ir.Store) -> bool:
    """Whether a store can go past the caches at all: a vector of a size that machines have such stores for."""
    dtype = i.value.dtype
    size = dtype.lanes * dtype.itemsize
    return i.nontemporal and i.address.dtype.lanes == 1 and dtype.bits >= 8 and size in _STREAMED


_STREAMED: Final = frozenset({16, 32, 64, 128, 256})
"""Bytes of vectors that are stored past the caches: of one register, or of a few."""


def waiting_roots(program: ir.Program, kinds: Kinds) -> frozenset[ir.Register]:
    """Roots of vectors in whose loop there is too little else to do while the one unit that takes them is busy."""
    if not any(i.op is ir.Ops.SQRT for i in kinds[ir.Compute]):
        return frozenset()
    bodies: dict[tuple[int, ...], list[ir.Compute]] = {}
    loops: list[int] = []
    for position, i in enumerate(program.body):
        if isinstance(i, ir.Loop):
            loops.append(position)
        elif isinstance(i, ir.EndLoop):
            loops.pop()
        elif isinstance(i, ir.Compute) and i.result.dtype.lanes > 1:
            bodies.setdefault(tuple(loops), []).append(i)
    waiting: set[ir.Register] = set()
    for body in bodies.values():
        roots = [i.result for i in body if i.op is ir.Ops.SQRT]
        if len(body) < _BESIDE_A_ROOT * len(roots):
            waiting.update(roots)
    return frozenset(waiting)


_BESIDE_A_ROOT: Final = 13
"""Operations on vectors that take as long as a root by instruction, less those that refining one takes."""


def stored_together(program: ir.Program, kinds: Kinds) -> dict[int, tuple[ir.Store, ...]]:
    """By position: stores past the caches that follow each other, to be asked once whether all are aligned; () for all but the first."""
    if not streams(kinds):
        return {}
    together: dict[int, tuple[ir.Store, ...]] = {}
    first = -1
    for position, i in enumerate(program.body):
        if not isinstance(i, ir.Store) or not may_stream(i) or i.gate is not None or i.align >= _bytes(i):
            first = -1
        elif first < 0 or _bytes(together[first][0]) != _bytes(i):
            first, together[position] = position, (i,)
        else:
            together[first] += (i,)
            together[position] = ()
    return {position: run for position, run in together.items() if len(run) != 1}


def _bytes(i: ir.Store) -> int:
    return i.value.dtype.lanes * i.value.dtype.itemsize


def streams(kinds: Kinds) -> bool:
    """Whether a kernel stores past the caches: then it ends with a fence."""
    return any(i.nontemporal and may_stream(i) for i in kinds[ir.Store])


class OneThread:
    """What renderers for a CPU core, which is one thread, refuse: methods called like the instructions."""

    program: ir.Program

    def barrier(self, i: ir.Barrier) -> None:
        """Nothing, unless there are threads for it to hold."""
        if any(special.is_thread for special in self.program.specials):
            raise LoweringError(
                f"{self.program.name} has threads that wait for each other; a block on a CPU core is one thread",
                op="BARRIER",
            )

    def combine(self, i: ir.CombineThreads) -> NoReturn:
        """What neighbouring threads of a block do together."""
        raise LoweringError(f"{i.by} is combined over {i.width} threads; a CPU core is one", op="COMBINE")

    def deal(self, i: ir.Deal) -> NoReturn:
        """The same of rows."""
        raise LoweringError(
            "rows are dealt out among the threads of a warp; a CPU core is one", op="EXCHANGE"
        )

    def copy_async(self, i: ir.Instruction) -> NoReturn:
        """Copies that happen while a thread goes on."""
        raise LoweringError(f"{i.mnemonic}: a CPU core does nothing in the background", op="STORE")

    commit_copies = wait_copies = finish = copy_async
    fetcher = end_fetcher = acquire = copy_box = await_boxes = release = copy_async


def one_thread(i: ir.Tile) -> None:
    """Refuse a tile operation that several threads do together."""
    if i.tile.threads > 1:
        raise LoweringError(
            f"tile operation {i.tile.name} needs {i.tile.threads} threads together; a CPU core is one",
            op="WMMA",
        )
