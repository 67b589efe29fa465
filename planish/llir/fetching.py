"""A copy engine instead of threads that copy: one thread more than the block has fetches boxes, the others do nothing but multiply.

Where all tiles of a pipelined loop are boxes (`copy_box` stands in it as what each iteration reads), the copies of threads, their groups
and the barrier go. The fetcher runs the same loop with the boxes alone, as far ahead as there are buffers; an iteration awaits
its step, and releases what the product before it was the last to read. Where it is not so, the boxes are forgotten.

Before → after::

    loop … copy_async, commit …                    fetcher; loop r: acquire r; copy_box …; end; end_fetcher
    loop r: wait_copies; barrier; copy_box …;      loop r: await_boxes r;
      copy_async …; commit; tile …; end              tile …; release r - 1; end
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir import program as ir
from planish.llir.makers import owners_of


def fetched(program: ir.Program) -> ir.Program:
    """The program, its boxes fetched by a copy engine where that can be; without them otherwise."""
    boxes = [i for i in program.body if isinstance(i, ir.CopyBox)]
    if not boxes:
        return program
    loop = _loop_of_boxes(program.body)
    if loop is not None and _is_all(program, boxes):
        return _split(program, boxes, loop)
    return replace(program, body=tuple(_alive(i for i in program.body if not isinstance(i, ir.CopyBox))))


def _loop_of_boxes(body: Sequence[ir.Instruction]) -> tuple[int, int] | None:
    """The first and last instruction of the one loop that boxes stand in, which stands in no other."""
    begun, depth, holds = 0, 0, False
    loops: list[tuple[int, int]] = []
    for position, i in enumerate(body):
        if isinstance(i, ir.Loop):
            begun, holds = (begun, holds) if depth else (position, False)
            depth += 1
        elif isinstance(i, ir.CopyBox):
            if depth != 1:
                return None
            holds = True
        elif isinstance(i, ir.EndLoop):
            depth -= 1
            if not depth and holds:
                loops.append((begun, position))
    return loops[0] if len(loops) == 1 else None


def _is_all(program: ir.Program, boxes: Sequence[ir.CopyBox]) -> bool:
    """Whether boxes are all that is copied, and products all that reads it."""
    held = memories(program)
    rings = {held[box.address] for box in boxes}
    for i in program.body:
        if isinstance(i, ir.CopyAsync) and held.get(i.address) not in rings:
            return False
        if isinstance(i, ir.Load) and held.get(i.address) in rings:
            return False
    return len(rings) == len(boxes) and any(isinstance(i, ir.Tile) for i in program.body)


def memories(program: ir.Program) -> dict[ir.Register, ir.Buffer]:
    """The LOCAL buffer that each address is in."""
    return owners_of(program, AddrSpace.LOCAL)


def _split(program: ir.Program, boxes: Sequence[ir.CopyBox], loop: tuple[int, int]) -> ir.Program:
    body, (begun, ended) = program.body, loop
    header = body[begun]
    if not isinstance(header, ir.Loop):
        return program
    ring, buffers = boxes[0].ring, boxes[0].buffers
    fresh, held = _Fresh(program), memories(program)
    rings = {held[box.address] for box in boxes}
    awaited = ir.AwaitBoxes(header.counter, ring, buffers)
    products = [k for k in range(begun, ended) if isinstance(body[k], ir.Tile)]
    last = body[products[-1]]
    lag = last.pending if isinstance(last, ir.Tile) else 0
    computing: list[ir.Instruction] = []
    for position, i in enumerate(body):
        if isinstance(i, ir.CopyAsync | ir.CommitCopies | ir.CopyBox) or (
            isinstance(i, ir.Store) and held.get(i.address) in rings
        ):
            continue
        if isinstance(i, ir.WaitCopies):
            computing += [awaited] if begun < position < ended else []
            continue
        if (
            isinstance(i, ir.Barrier)
            and begun < position < ended
            and isinstance(body[position - 1], ir.WaitCopies)
        ):
            continue
        computing.append(i)
        if position == products[-1]:
            computing += _released(header, lag, ring, buffers, fresh)
    fetching = _fetching(boxes, body[:begun], body[begun + 1 : ended], header, fresh)
    return replace(program, body=(*fetching, *_alive(computing)))


def _released(header: ir.Loop, lag: int, ring: int, buffers: int, fresh: _Fresh) -> list[ir.Instruction]:
    """What no product under way reads any more."""
    if not lag:
        return [ir.Release(header.counter, ring, buffers)]
    kind = header.counter.dtype
    before, gate = fresh(kind), fresh(dtypes.bool_)
    return [
        ir.Compute(before, ir.Ops.SUB, (header.counter, ir.Immediate(lag, kind))),
        ir.Compute(gate, ir.Ops.CMPLE, (ir.Immediate(lag, kind), header.counter)),
        ir.Release(before, ring, buffers, gate),
    ]


class _Fresh:
    """Registers that nobody has."""

    def __init__(self, program: ir.Program) -> None:
        self.count = 1 + max(i.target.number for i in program.body if i.target is not None)

    def __call__(self, dtype: dtypes.DType) -> ir.Register:
        self.count += 1
        return ir.Register(self.count - 1, dtype)


def _fetching(
    boxes: Sequence[ir.CopyBox],
    before: Sequence[ir.Instruction],
    inside: Sequence[ir.Instruction],
    header: ir.Loop,
    fresh: _Fresh,
) -> list[ir.Instruction]:
    """What the fetcher runs: the loop with its boxes, and all that these need, once more."""
    wanted: set[ir.Register] = {r for box in boxes for r in box.registers} | set(header.registers)
    slices: list[list[ir.Instruction]] = []
    for part in (inside, before):
        kept: list[ir.Instruction] = []
        for i in reversed(part):
            if i.target in wanted and not isinstance(i, ir.Loop):
                kept.append(i)
                wanted.update(i.registers)
        slices.append(kept[::-1])
    twins: dict[ir.Register, ir.Register] = {}

    def twin(register: ir.Register) -> ir.Register:
        if register not in twins:
            twins[register] = fresh(register.dtype)
        return twins[register]

    nbytes = sum(box.box.elements * box.element.itemsize for box in boxes)
    acquired = ir.Acquire(header.counter, boxes[0].ring, boxes[0].buffers, nbytes)
    loop = [replace(header, unroll=1), acquired, *slices[0], *boxes, ir.EndLoop(header.counter, header.bound)]
    body = [i.renamed(twin, twin) for i in (*slices[1], *loop)]
    return [ir.Fetcher(), *body, ir.EndFetcher()]


def _alive(body: Iterable[ir.Instruction]) -> list[ir.Instruction]:
    """Without what computes for nobody, and loops around nothing."""
    kept = list(body)
    while True:
        wanted: set[ir.Register] = set()
        empty: set[int] = set()
        for position in range(len(kept) - 1):
            if isinstance(kept[position], ir.Loop) and isinstance(kept[position + 1], ir.EndLoop):
                empty |= {position, position + 1}
        left: list[ir.Instruction] = []
        for position in range(len(kept) - 1, -1, -1):
            i = kept[position]
            if position in empty or _is_idle(i, wanted):
                continue
            wanted.update(i.registers)
            left.append(i)
        left.reverse()
        if len(left) == len(kept):
            return left
        kept = left


def _is_idle(i: ir.Instruction, wanted: Collection[ir.Register]) -> bool:
    return i.target is not None and i.target not in wanted and not isinstance(i, ir.Loop)
