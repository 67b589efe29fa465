"""LLIR, executed instruction by instruction on NumPy buffers: slow, obvious, the oracle for generated code.

Blocks run one after another, those of a cluster at the same time. The threads of a block take turns: each runs until it waits (at a barrier, or at a tile
operation for the rest of its group) or ends. LOCAL memory belongs to a block, REG memory to a thread; both start with
garbage, so that a missing initialisation shows. An access outside its buffer is an error that names the access. What ran and
what moved is counted and returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.errors import DTypeError, ShapeError, VerifyError
from planish.llir import layout
from planish.llir import program as ir
from planish.llir.counters import Counters
from planish.llir.fetching import memories
from planish.llir.steps import Decoder
from planish.llir.text import instruction_line
from planish.llir.thread_state import GARBAGE, WAIT, BlockState, MemoryImage, Pointer, ThreadState, garbage
from planish.llir.tiles import PLACES_ALIGNED, TileOp
from planish.llir.verify import verify
from planish.uop import arithmetic, ops
from planish.uop.combining import combined
from planish.uop.hardware_index import HardwareIndex
from planish.uop.tensor_cores import CORES, ORDERS, WARP, exchanged

Array = NDArray[Any]

_NO_VARIABLES: Final[Mapping[str, int]] = {}


def multiply(tile: TileOp, a: Array, b: Array, c: Array, narrow: tuple[DType, DType], wide: DType) -> Array:
    """a @ b + c on whole matrices: both converted to the dtype of c, multiplied and added there, k ascending, fused.

    A core that adds in another order does it here too.
    """
    left, right = (
        arithmetic.convert(x, dtype.scalar, wide.scalar) for x, dtype in zip((a, b), narrow, strict=True)
    )
    core = CORES.get(tile.name)
    if core is not None and core.order in ORDERS:
        return ORDERS[core.order](left, right, c)
    for k in range(tile.k):
        c = arithmetic.apply(ir.Ops.MULACC, wide.scalar, left[:, k, None], right[None, k, :], c)
    return c


# -- launches --------------------------------------------------------------------------------------------------


class _Turns(NamedTuple):
    """The threads of a block, in the order in which they take turns."""

    block: BlockState
    runs: dict[ThreadState, Generator[None, None, None]]


class _BlockRun:
    """One kernel, its memory and its grid."""

    def __init__(self, program: ir.Program, arguments: Sequence[Array], variables: Mapping[str, int]) -> None:
        self.program = program
        self.decoder = Decoder(program)
        self.globals = {
            buffer: MemoryImage(buffer, _flat(program, buffer, array))
            for buffer, array in zip(program.params, _as_many(program, arguments), strict=True)
        }
        self.arena = layout.pack([b for b in program.locals if b.space is AddrSpace.LOCAL])
        self.counts = [0] * len(program.body)
        self.initial = list(self.decoder.initial)
        for variable in program.variables:
            if variable.name not in variables:
                raise ShapeError(f"{program.name}: variable {variable.name} has no value")
            given = variables[variable.name]
            if not variable.low <= given <= variable.high:
                raise ShapeError(
                    f"{program.name}: {variable.name} = {given} is outside {variable.low}..{variable.high}"
                )
            number = self.decoder.numbers.get(variable.result.name)
            if number is not None:
                self.initial[number] = np.asarray(given, variable.result.dtype.numpy)
        self.bounds = self._bounds()

    def _bounds(self) -> dict[HardwareIndex, int]:
        """The size of the grid along each special index: a constant, or computed from variables at the start."""
        bounds: dict[HardwareIndex, int] = {}
        if not self.program.specials:
            return bounds
        slot = self.decoder.slot
        registers = list(self.initial)
        probe = ThreadState(0, registers, {}, {})
        for instruction, step in zip(self.program.body, self.decoder.steps, strict=True):
            known = all(registers[slot(operand)] is not None for operand in instruction.operands)
            if isinstance(instruction, ir.Special):
                if not known:
                    raise VerifyError(
                        f"{self.program.name}: the bound of {instruction.name} is not known at launch"
                    )
                bounds[instruction.index] = int(registers[slot(instruction.bound)])
            if isinstance(instruction, ir.Reload):
                known = instruction.slot in probe.slots
            if known and isinstance(instruction, ir.Compute | ir.Convert | ir.Spill | ir.Reload):
                step(probe)
            elif instruction.target is not None:
                registers[slot(instruction.target)] = None
        return bounds

    def run(self, reverse: bool) -> None:
        blocks = [index for index in self.bounds if not index.is_thread and not index.is_rank]
        ranks = [index for index in self.bounds if index.is_rank]
        # lidx0 runs fastest: neighbouring threads form a group
        inner = sorted((i for i in self.bounds if i.is_thread), key=lambda i: i.axis, reverse=True)
        for place in product(*(range(self.bounds[index]) for index in blocks)):
            cluster: list[BlockState] = []
            for rank in product(*(range(self.bounds[index]) for index in ranks)):
                where = dict(zip((*blocks, *ranks), (*place, *rank), strict=True))
                local = self._local_memory()
                threads = [
                    self._thread(number, where | dict(zip(inner, thread, strict=True)), local)
                    for number, thread in enumerate(product(*(range(self.bounds[index]) for index in inner)))
                ]
                cluster.append(self._block(threads, where, local))
            self._run_cluster(cluster, reverse)

    def _local_memory(self) -> dict[ir.Buffer, MemoryImage]:
        raw = np.full(self.arena.nbytes, GARBAGE, np.uint8)
        own = [b for b in self.program.locals if b.space is AddrSpace.LOCAL]
        memories: dict[ir.Buffer, MemoryImage] = {}
        for buffer, placed in zip(own, self.arena.buffers, strict=True):
            start = placed.offset or 0
            data = raw[start : start + buffer.nbytes].view(buffer.dtype.numpy)
            if buffer.dtype.is_bool or buffer.dtype.bits < 8:
                data[:] = garbage(buffer.dtype, data.size)
            memories[buffer] = MemoryImage(buffer, data)
        return memories

    def _thread(
        self, number: int, specials: dict[HardwareIndex, int], local: dict[ir.Buffer, MemoryImage]
    ) -> ThreadState:
        memory = self.globals | local
        for buffer in self.program.locals:
            if buffer.space is AddrSpace.REG:
                memory[buffer] = MemoryImage(buffer, garbage(buffer.dtype, buffer.elements))
        return ThreadState(number, list(self.initial), memory, specials)

    def _step_through(self, thread: ThreadState) -> Generator[None, None, None]:
        """Run a thread; it pauses where it has to wait."""
        steps, counts = self.decoder.steps, self.counts
        position, end = 0, len(steps)
        while position < end:
            counts[position] += 1
            following = steps[position](thread)
            if following is None:
                position += 1
            elif following == WAIT:
                yield
                position += 1
            else:
                position = following

    def _block(
        self, threads: list[ThreadState], where: dict[HardwareIndex, int], local: dict[ir.Buffer, MemoryImage]
    ) -> BlockState:
        """A block, with who fetches for it."""
        block = BlockState(local, threads)
        if any(isinstance(i, ir.Fetcher) for i in self.program.body):
            fetcher = self._thread(len(threads), where, local)
            fetcher.fetches = True
            block.everybody.append(fetcher)
            held = memories(self.program)
            for memory in {local[held[box.address]] for box in self.program.boxes}:
                memory.in_flight = np.ones(memory.data.size, np.bool_)  # whoever reads it waits first
            for thread in block.everybody:
                thread.rings = fetcher.rings
        return block

    def _run_cluster(self, cluster: list[BlockState], reverse: bool) -> None:
        """Blocks that run at the same time: each as far as it comes without the others, so that who does not wait for them is found."""
        for block in cluster:
            for thread in block.everybody:
                thread.peers = cluster
        runs = [
            _Turns(block, {t: self._step_through(t) for t in (block.everybody[:: -1 if reverse else 1])})
            for block in (reversed(cluster) if reverse else cluster)
        ]
        waiting: set[ThreadState] = set()
        ready: set[ThreadState] = {thread for block in cluster for thread in block.everybody}
        while ready:
            for block, its in runs:
                mine = [thread for thread in its if thread in ready]
                while mine:
                    for thread in mine:
                        try:
                            next(its[thread])
                            waiting.add(thread)
                        except StopIteration:
                            block.ended += 1
                    released = self._release(block.threads, waiting.intersection(block.everybody))
                    waiting -= released
                    mine = [thread for thread in its if thread in released]
            ready = self._of_cluster(cluster, waiting)
            waiting -= ready
        if waiting:
            first = min(waiting, key=lambda thread: thread.number)
            raise VerifyError(
                f"{self.program.name}: {len(waiting)} of {sum(len(b.threads) for b in cluster)} threads wait forever, "
                f"thread {first.number} at: {instruction_line(self.program.body[first.waiting])}",
                remedy="every thread of a block must come to the same barriers, of a group to the same tile operations",
            )

    def _of_cluster(self, cluster: list[BlockState], waiting: set[ThreadState]) -> set[ThreadState]:
        """All threads of a cluster, if they are at one barrier of it."""
        everybody = {thread for block in cluster for thread in block.threads}
        places = {thread.waiting for thread in everybody & waiting}
        if not everybody <= waiting or len(places) != 1:
            return set()
        barrier = self.program.body[places.pop()]
        return everybody if isinstance(barrier, ir.Barrier) and barrier.cluster else set()

    def _release(self, threads: list[ThreadState], waiting: set[ThreadState]) -> set[ThreadState]:
        """Those that may go on: all of a block at one barrier, all of a group at one tile operation."""
        others = {thread for thread in waiting if not thread.fetches}
        places = {thread.waiting for thread in others}
        if len(others) == len(threads) and len(places) == 1:
            (place,) = places
            barrier = self.program.body[place]
            if isinstance(barrier, ir.Barrier) and not barrier.cluster:
                return others
        released: set[ThreadState] = set()
        for thread in waiting:
            instruction = self.program.body[thread.waiting]
            if isinstance(instruction, ir.Acquire | ir.AwaitBoxes) and self._is_served(instruction, thread):
                released.add(thread)
            elif isinstance(instruction, ir.Tile | ir.CombineThreads | ir.Deal) and thread not in released:
                count = _group_of(instruction)
                first = thread.number // count * count
                group = threads[first : first + count]
                if len(group) == count and all(t in waiting and t.waiting == thread.waiting for t in group):
                    self._together(instruction, group)
                    released.update(group)
        return released

    def _is_served(self, i: ir.Acquire | ir.AwaitBoxes, thread: ThreadState) -> bool:
        """Whether a step is free to be fetched, which it is from then on; or there, for a thread to see."""
        step, ring = int(thread.registers[self.decoder.slot(i.step)]), thread.rings[i.ring]
        if isinstance(i, ir.Acquire):
            if ring.is_free(step, self.decoder.groups):
                ring.expected[step] = ring.expected.get(step, 0) + i.nbytes
                return True
            return False
        if ring.is_there(step):
            ring.land(step)
            return True
        return False

    def _together(self, i: ir.Tile | ir.CombineThreads | ir.Deal, group: list[ThreadState]) -> None:
        if isinstance(i, ir.Tile):
            self._multiply(i, group)
        elif isinstance(i, ir.CombineThreads):
            self._combine(i, group)
        else:
            self._deal(i, group)

    def _deal(self, i: ir.Deal, group: list[ThreadState]) -> None:
        rows = np.stack([t.registers[self.decoder.slot(i.operand)] for t in group])
        threads, lanes = exchanged(ops.Exchange(i.matrices, i.transposed), i.operand.dtype.itemsize)
        dealt, out = rows[threads, lanes], self.decoder.slot(i.result)
        for thread, value in zip(group, dealt, strict=True):
            thread.registers[out] = value if i.result.dtype.lanes > 1 else value.reshape(())

    def _multiply(self, i: ir.Tile, group: list[ThreadState]) -> None:
        given = {
            name: [t.registers[self.decoder.slot(x)] for t in group]
            for name, x in zip("abc", (i.a, i.b, i.c), strict=True)
        }
        a, b, c = (
            self._in_memory(i, name, cast("list[Pointer]", held))
            if i.tile.in_memory(name)
            else i.tile.gather(name, np.stack([np.atleast_1d(each) for each in held]))
            for name, held in given.items()
        )
        narrow = _element(i.a.dtype), _element(i.b.dtype)
        result = i.tile.scatter("c", multiply(i.tile, a, b, c, narrow, i.c.dtype))
        read = [pointers[0] for name in "ab" if i.tile.in_memory(name) for pointers in (given[name],)]
        for thread in group if i.pending or group[0].products else ():
            thread.products = [*thread.products, read][len(thread.products) + 1 - i.pending :]
        out = self.decoder.slot(i.result)
        for thread, lanes in zip(group, result, strict=True):
            thread.registers[out] = lanes if i.result.dtype.lanes > 1 else lanes.reshape(())

    def _in_memory(self, i: ir.Tile, matrix: str, held: list[Pointer]) -> Array:
        """A matrix in LOCAL memory."""
        memory, start = held[0]
        places = start + i.tile.memory_places(matrix)
        name = f"{self.program.name}: {instruction_line(i)}: matrix {matrix}"
        if any(pointer.memory is not memory or pointer.place != start for pointer in held):
            raise VerifyError(f"{name} starts elsewhere for some threads", op="tile")
        if start * memory.data.itemsize % PLACES_ALIGNED:
            raise VerifyError(f"{name} does not start at a multiple of {PLACES_ALIGNED} bytes", op="tile")
        if places.min() < 0 or places.max() >= memory.data.size:
            raise VerifyError(f"{name} is not inside of {memory.buffer}", op="tile")
        if memory.in_flight is not None and np.any(memory.in_flight[places]):
            raise VerifyError(
                f"{name} is read while its copy is under way", op="tile", remedy="await it first"
            )
        memory.read += places.size
        memory.read_places[places] = True
        rows, columns, _ = i.tile.fragments[matrix]
        elements = arithmetic.load(memory.data[places], memory.buffer.dtype).reshape(rows, columns)
        core = CORES.get(i.tile.name)
        return elements if core is None else core.seen(elements)

    def _combine(self, i: ir.CombineThreads, group: list[ThreadState]) -> None:
        given = np.stack([np.atleast_1d(t.registers[self.decoder.slot(i.operand)]) for t in group])
        values = combined(ops.Combine(i.op, i.width, i.before), i.result.dtype.scalar, given)
        out = self.decoder.slot(i.result)
        for thread, value in zip(group, values, strict=True):
            thread.registers[out] = value if i.result.dtype.lanes > 1 else value.reshape(())

    def counters(self) -> Counters:
        ran: Counter[str] = Counter()
        for instruction, count in zip(self.program.body, self.counts, strict=True):
            ran[
                instruction.op.name.lower() if isinstance(instruction, ir.Compute) else instruction.mnemonic
            ] += count
        sizes = [size for index, size in self.bounds.items() if index.is_thread]
        others = [size for index, size in self.bounds.items() if not index.is_thread]
        return Counters(
            dict(ran),
            {buffer.name: memory.traffic() for buffer, memory in self.globals.items()},
            int(np.prod(others, dtype=np.int64)),
            int(np.prod(sizes, dtype=np.int64)),
            self.arena.nbytes,
            sum(b.nbytes for b in self.program.locals if b.space is AddrSpace.REG),
        )


def _element(dtype: DType) -> DType:
    """Of an operand: what it holds, or what its address leads to."""
    scalar = dtype.scalar
    return scalar.base if isinstance(scalar, PtrDType) else dtype


def _group_of(i: ir.Tile | ir.CombineThreads | ir.Deal) -> int:
    """How many threads do it together."""
    if isinstance(i, ir.Tile):
        return i.tile.threads
    return i.width if isinstance(i, ir.CombineThreads) else WARP


def _as_many(program: ir.Program, arguments: Sequence[Array]) -> Sequence[Array]:
    if len(arguments) != len(program.params):
        raise ShapeError(f"{program.name} takes {len(program.params)} arrays, not {len(arguments)}")
    return arguments


def _flat(program: ir.Program, buffer: ir.Buffer, array: Array) -> Array:
    if array.dtype != buffer.dtype.numpy:
        raise DTypeError(f"{program.name}: {buffer} holds {buffer.dtype.scalar}, not {array.dtype}")
    # A buffer whose dims vary is declared at its largest, also in a kernel that looks at one place of it and needs no size.
    if array.size > buffer.elements or not array.flags.c_contiguous:
        raise ShapeError(
            f"{program.name}: {buffer} has {buffer.elements} elements, the array {array.size}",
            remedy="pass contiguous arrays of the size declared",
        )
    return array.reshape(-1)


def interpret(
    program: ir.Program,
    arguments: Sequence[Array],
    variables: Mapping[str, int] = _NO_VARIABLES,
    *,
    reverse: bool = False,
) -> Counters:
    """Run a kernel on flat arrays, one per parameter, writing results into them; what it did is returned.

    `reverse` lets the threads of a block take turns in reverse order: a result that depends on it is a missing barrier.
    """
    verify(program, allocated=program.is_allocated)
    launch = _BlockRun(program, arguments, variables)
    with np.errstate(all="ignore"):
        launch.run(reverse)
    return launch.counters()
