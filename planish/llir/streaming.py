"""Hints for memory that streams by: stores around the caches, and prefetches ahead of long loop bodies.

* **Non-temporal stores.** A result that is larger than the caches and that nobody reads soon is written around them: a plain store
  would first read the line that it overwrites, and push out what is still needed. Who calls says which buffers these are
  (`streamed`); here it is decided which stores: those of whole registers, once each, to memory that the kernel does not read.
* **Prefetches.** A long body fills the processor's window with arithmetic: few loads are in flight, and computing and waiting for
  memory take turns instead of overlapping. In an innermost loop with much arithmetic per vector stored, each input that streams by,
  one register after another, and that does not fit the second cache, is asked for some iterations ahead. Of rows the next one is
  asked for (`next_row.py`), also where data chooses them (`chosen_rows.py`).

Neither changes what is computed. That an address is not aligned, or beyond the end, is the back ends' and the hardware's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir.chosen_rows import ask_for_chosen_rows
from planish.llir.nests import LINE, InstructionNest, Nests
from planish.llir.next_row import ask_for_next_rows
from planish.llir.program import Address, Immediate, Load, Prefetch, Program, Register, Store
from planish.target import Target

_AHEAD: Final = 2048
"""How many bytes ahead of a stream is asked for: enough lines in flight to hide memory, few enough to stay in the first cache."""
_LONG: Final = 10
"""Arithmetic per vector of a stream beyond which memory has to be asked ahead."""
_STREAMS: Final = 8
"""Streams that are asked for in one loop: beyond, they would ask each other's lines away."""


def with_streaming(program: Program, target: Target, streamed: Collection[str] = ()) -> Program:
    """The program with hints; `streamed` names the parameters that are large, written here and not read soon."""
    if target.is_gpu or target.register_bytes == 1 or len(target.caches) < 2:
        return program
    if not streamed and all(b.nbytes <= target.caches[1] for b in program.params):
        return program
    nests = Nests(program, target)
    past = _past_caches(nests, streamed)
    if past:
        nests.store_past_caches(past)
    if nests.large:
        asked = ask_for_next_rows(nests)
        for nest in nests.loops:
            if nest.is_innermost:
                _ask_ahead(nests, nest, asked)
        ask_for_chosen_rows(nests)
    return nests.program


# -- stores --------------------------------------------------------------------------------------------------------


def _past_caches(nests: Nests, names: Collection[str]) -> set[int]:
    """The stores that write whole lines, once, of memory that streams by."""
    if not names:
        return set()
    makers = nests.makers
    stores = [(position, i) for position, i in enumerate(nests.body) if isinstance(i, Store)]
    read = {makers.buffer(i.address) for i in nests.body if isinstance(i, Load)}
    inside = {position: nest for nest in nests.loops for position in nest.stores}
    return {
        position
        for position, i in stores
        if (buffer := makers.buffer(i.address)) is not None
        and buffer.name in names
        and buffer not in read
        and nests.is_whole(i)
        and _is_written_once(nests, i, inside.get(position))
    }


def _is_written_once(nests: Nests, i: Store, nest: InstructionNest | None) -> bool:
    """Whether a store of whole registers writes whole lines, other ones in every iteration."""
    dtype = i.value.dtype
    is_line = dtype.lanes * dtype.itemsize % LINE == 0
    if nest is None:
        return is_line
    step = nests.makers.step(i.address, nest.header.counter, nest.start)
    return step != 0 if is_line else step == dtype.lanes  # the rest of the line follows at once


# -- loads ---------------------------------------------------------------------------------------------------------


def _ask_ahead(nests: Nests, nest: InstructionNest, asked: Collection[int]) -> None:
    """Ask for what streams by, if an innermost loop computes much for every vector that it stores."""
    makers = nests.makers
    stored = [
        i.address for _, i in nests.stores_of(nest) if nests.is_whole(i) and _is_global(nests, i.address)
    ]
    vectors = Counter(makers.buffer(address) for address in stored)
    if not vectors or nest.arithmetic <= _LONG * max(vectors.values()):
        return
    streams = [(p, i) for p, i in nests.loads_of(nest) if p not in asked and _streams_by(nests, i, nest)]
    if len(streams) > _STREAMS:
        return
    for position, load in streams:
        ahead = makers.fresh(load.address.dtype)
        elements = Immediate(_AHEAD // load.result.dtype.itemsize, dtypes.int64)
        nests.add_behind(position, Address(ahead, load.address, elements), Prefetch(ahead))


def _streams_by(nests: Nests, i: Load, nest: InstructionNest) -> bool:
    """Whether a load reads one register after another of a large parameter, iteration by iteration."""
    if (
        i.result.dtype.lanes < 2
        or i.address.dtype.lanes > 1
        or nests.makers.buffer(i.address) not in nests.large
    ):
        return False
    step = nests.makers.step(i.address, nest.header.counter, nest.start)
    return step is not None and step >= i.result.dtype.lanes


def _is_global(nests: Nests, address: Register) -> bool:
    buffer = nests.makers.buffer(address)
    return buffer is not None and buffer.space is AddrSpace.GLOBAL
