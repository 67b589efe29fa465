"""From a PTIR function to its plan.

Straight-line instructions are lowered lazily: they become kernels where a value has to be in memory, which is at the end of
a block, at an op with regions and at a host op. What a loop or branch sees of the values around it is computed before it,
so that no iteration computes it again; what a block computes is forgotten when the block ends, since it may not have run.

A value that a kernel makes gets its memory from `cut`; where it belongs elsewhere (a result, the next value of a carry, a
slice of a stacked output) that memory is renamed, and nothing is copied. A Copy remains where the value already had memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from numpy.typing import NDArray

from planish import dtypes
from planish.errors import LoweringError
from planish.ptir.dims import Dim, DimLike
from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.library.classes import STAYING
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.ops.sizes import BindDimAttrs
from planish.ptir.types import TensorType
from planish.schedule import counted
from planish.schedule.collectives import is_met
from planish.schedule.lowering import lower_inst
from planish.schedule.lowering.channels_last import in_rows
from planish.schedule.numbers import with_tables
from planish.schedule.origins import Origins
from planish.schedule.plan import (
    Bind,
    Branch,
    Copy,
    For,
    Host,
    Plan,
    PlanBuffer,
    Role,
    Steps,
    SwapPointers,
    View,
    While,
    renamed,
)
from planish.schedule.planned_memory import PlannedMemory
from planish.schedule.reasons import RESULT
from planish.schedule.routines import find_routine
from planish.schedule.tensors import largest
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp

Array = NDArray[Any]


class _ComplexPairs(NamedTuple):
    """Complex numbers as pairs of reals in memory."""

    node: UOp
    dims: tuple[DimLike, ...]


class _Planner(PlannedMemory):
    """The plan in the making."""

    def __init__(self, function: Function, table: Table, donate: frozenset[int], target: Target) -> None:
        super().__init__(function, table, donate, target)
        self.pairs: dict[Value, _ComplexPairs] = {}
        """Complex results of host ops, as reals."""

    # -- instructions ----------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """In rounds, if ranks meet in it: what needs a collective of a round waits for the next one."""
        left = list(region)
        while any(map(is_met, left)):
            meetings: list[Inst] = []
            missing: set[Value] = set()
            later: list[Inst] = []
            sizes = False
            for inst in left:
                if sizes or not missing.isdisjoint(inst.reads):
                    later.append(inst)
                    # who needs a size that data decide need not read what decides it
                    sizes |= inst.op.host or isinstance(inst.attrs, BindDimAttrs)
                elif is_met(inst):
                    meetings.append(inst)
                else:
                    self.instructions([inst])
                    continue
                missing.update(inst.results)
            # at once, so that what several of them need is computed once
            self.realise([value for inst in meetings for value in inst.operands])
            self.instructions(meetings)
            left = later
        self.instructions(left)

    def instructions(self, insts: Iterable[Inst]) -> None:
        for inst in insts:
            handler = _CONTROL.get(inst.op.name)
            if handler is not None:
                handler(self, inst)
            elif inst.op.host or inst.op.name in STAYING:
                self.host(inst)
            elif inst.op.name == "bitcast" and any(
                v.type.dtype.is_complex for v in (*inst.operands, *inst.results)
            ):
                self.reinterpret(inst)
            else:
                lower_inst(self.tensors, inst)
                if self.tensors.origins is not None:
                    self.tensors.origins.lowered(inst, self.tensors.values)
                if isinstance(inst.attrs, BindDimAttrs):
                    self.bind(inst.attrs)

    def results(self, region: Region) -> list[UOp]:
        """The instructions of a region, and its results as nodes."""
        self.region(region)
        return [self.node(value) for value in region.results]

    def bind(self, attrs: BindDimAttrs) -> None:
        count = self.tensors.bound[attrs.name]
        self.cut([count])
        self.block.append(Bind(attrs.name, cast("int", self.whole(count)), attrs.lo, attrs.hi))

    def reinterpret(self, inst: Inst) -> None:
        """Complex numbers, which kernels do not know, are pairs of reals beside host ops: the same memory."""
        (result,) = inst.results
        pairs = self.pairs.get(inst.operands[0])
        if pairs is not None and self.tensors.dims(result.type.dims) == self.tensors.dims(pairs.dims):
            self.tensors.values[result] = pairs.node
            return
        (base,) = self.realise(inst.operands)
        number, self.tensors.values[result] = self.memory(result.type, Role.VIEW)
        self.block.append(View(number, base, None))

    def host(self, inst: Inst) -> None:
        inputs = self.realise(inst.operands)
        outputs = [self.output(value) for value in inst.results]
        given, results = ([v.type for v in values] for values in (inst.operands, inst.results))
        routine = find_routine(inst.op.name, inst.attrs, given, results)
        scratch: tuple[int, ...] = ()
        constants: list[int] = []
        if routine is not None:
            constants = [self.constant(table) for table in routine.tables]
            if routine.scratch != 0:
                own = TensorType(dtypes.uint8, (routine.scratch,))
                scratch = (self.memory(own, Role.ARENA)[0],)
                self.own.discard(scratch[0])
        self.block.append(
            Host(
                inst.op, inst.attrs, tuple(inputs), tuple(outputs), tuple(given), tuple(results),
                None if routine is None else routine.call, tuple(constants), scratch,
            )
        )  # fmt: skip

    def output(self, value: Value) -> int:
        """A buffer that a host op writes. Complex numbers are a view of pairs of reals, which may become a result."""
        type = value.type
        if not type.dtype.is_complex:
            number, self.tensors.values[value] = self.memory(type, Role.ARENA)
            return number
        part = dtypes.float32 if type.dtype is dtypes.complex64 else dtypes.float64
        pairs = TensorType(part, (*type.dims, 2))
        memory, node = self.memory(pairs, Role.ARENA)
        self.pairs[value] = _ComplexPairs(node, pairs.dims)
        number, self.tensors.values[value] = self.memory(type, Role.VIEW)
        self.block.append(View(number, memory, None))
        return number

    def constant(self, table: Array) -> int:
        """A buffer of the program."""
        dtype = dtypes.from_numpy(table.dtype)
        number, _ = self.memory(TensorType(dtype, table.shape), Role.CONSTANT)
        self.buffers[number] = PlanBuffer(dtype, table.size, Role.CONSTANT, constant=table.reshape(-1))
        return number

    def capture(self, inst: Inst) -> None:
        """Compute what the regions of an instruction see of the values around it."""
        inside = set(inst.regions[0].args)
        seen: dict[Value, None] = {}
        for region in inst.regions:
            inside.update(region.args)
            for each in region.walk():
                inside.update(each.results)
                for nested in each.regions:
                    inside.update(nested.args)
                    seen.update(dict.fromkeys(nested.results))
                seen.update(dict.fromkeys(each.operands))
            seen.update(dict.fromkeys(region.results))
        nodes = [self.node(value) for value in seen if value not in inside]
        self.cut([node for node in nodes if not self.is_cheap(node)])

    def cond(self, inst: Inst) -> None:
        (predicate,) = self.realise(inst.operands)
        self.capture(inst)
        buffers = [self.memory(value.type, Role.ARENA) for value in inst.results]
        arms: list[Steps] = []
        for region in inst.regions:
            with self.nested() as steps:
                self.realise_into(self.results(region), [number for number, _ in buffers])
            arms.append(tuple(steps))
        self.block.append(Branch(predicate, *arms))
        self.tensors.values.update(zip(inst.results, (node for _, node in buffers), strict=True))

    def carry(self, values: Sequence[Value]) -> list[tuple[int, UOp]]:
        """Buffers that start as the values, for a loop to write again.

        Whether the loop may as well start in the memory of a value is seen when everybody who reads that is known (`sharing.py`).
        """
        sources = self.realise(values)
        buffers = [self.memory(value.type, Role.ARENA) for value in values]
        for source, (number, _) in zip(sources, buffers, strict=True):
            self.own.discard(number)
            self.block.append(Copy(source, number))
        return buffers

    def advance(
        self, nodes: Sequence[UOp], carried: Sequence[tuple[int, UOp]], values: Sequence[Value]
    ) -> list[int]:
        """Buffers for the next carries; that of the carry itself where it does not change."""
        targets = []
        for node, (number, _), value in zip(nodes, carried, values, strict=True):
            if self.whole(node) == number:
                targets.append(number)
            else:
                targets.append(self.memory(value.type, Role.ARENA)[0])
                self.own.discard(targets[-1])
        return targets

    @staticmethod
    def swaps(carried: Sequence[tuple[int, UOp]], following: Sequence[int]) -> list[SwapPointers]:
        return [
            SwapPointers(old, new) for (old, _), new in zip(carried, following, strict=True) if old != new
        ]

    def while_(self, inst: Inst) -> None:
        self.capture(inst)
        loop = counted.turns_of(inst)
        start = inst.operands
        if loop is not None:
            self.counted_while(inst, loop)
            if not loop.wraps:
                return
            start = inst.results  # what it has come to is asked once more
        carried = self.carry(start)
        condition, body = inst.regions
        for region in inst.regions:
            self.tensors.values.update(zip(region.args, (node for _, node in carried), strict=True))
        with self.nested() as deciding:
            (flag,) = self.results(condition)
            self.cut([flag])
            decided = cast("int", self.whole(flag))
        with self.nested() as steps:
            nodes = self.results(body)
            following = self.advance(nodes, carried, inst.results)
            self.realise_into(nodes, following)
            steps.extend(self.swaps(carried, following))
        self.block.append(While(tuple(deciding), decided, tuple(steps)))
        self.tensors.values.update(zip(inst.results, (node for _, node in carried), strict=True))

    def counted_while(self, inst: Inst, loop: counted.Turns) -> None:
        """A loop whose turns are known before the first: a number, or one that is read from memory there."""
        start = inst.operands[loop.number]
        length: DimLike | None = counted.known_turns(start, loop)
        if length is None:
            count = counted.turns(self.tensors, self.node(start), self.node(loop.end), loop)
            self.cut([count])
            name = self.variable("turns")
            self.block.append(Bind(name, cast("int", self.whole(count)), 0, counted.MOST_TURNS))
            length = Dim.named(name, 0, counted.MOST_TURNS)
        self.counted(inst, len(inst.operands), length, reverse=False)

    def scan(self, inst: Inst) -> None:
        attrs = cast("ScanAttrs", inst.attrs)
        self.capture(inst)
        self.counted(inst, attrs.num_carries, attrs.length, attrs.reverse)

    def counted(self, inst: Inst, count: int, length: DimLike, reverse: bool) -> None:
        """A block per turn. What only counts is the counter of the plan; other carried values have memory."""
        body = inst.regions[-1]
        counting = counted.counters(body, count)
        starts = {number: self.node(inst.operands[number]) for number in counting}
        self.cut([node for node in starts.values() if not self.is_cheap(node)])
        numbers = [number for number in range(count) if number not in counting]
        bases = self.realise(inst.operands[count:])
        carried = self.carry([inst.operands[number] for number in numbers])
        results = [inst.results[number] for number in numbers]
        counter = self.variable("counter")
        turn, last = self.turn(counter, length, reverse)
        stacked = [self.memory(value.type, Role.ARENA) for value in inst.results[count:]]
        values = self.tensors.values
        with self.nested() as steps:
            for number, step in counting.items():
                values[body.args[number]] = counted.at_turn(self.tensors, starts[number], step, turn)
            values.update(
                (body.args[number], node) for number, (_, node) in zip(numbers, carried, strict=True)
            )
            for base, argument in zip(bases, body.args[count:], strict=True):
                number, values[argument] = self.memory(argument.type, Role.VIEW)
                steps.append(View(number, base, counter))
            slices = []
            for (base, _), result in zip(stacked, body.results[count:], strict=True):
                number, _ = self.memory(result.type, Role.VIEW)
                slices.append(number)
                steps.append(View(number, base, counter))
            nodes = self.results(body)
            following = [nodes[number] for number in numbers]
            targets = self.advance(following, carried, results)
            self.realise_into([*following, *nodes[count:]], [*targets, *slices])
            steps.extend(self.swaps(carried, targets))
        self.block.append(For(length, counter, reverse, tuple(steps)))
        for number, step in counting.items():
            values[inst.results[number]] = counted.at_turn(self.tensors, starts[number], step, last)
        values.update(zip(results, (node for _, node in carried), strict=True))
        values.update(zip(inst.results[count:], (node for _, node in stacked), strict=True))

    def variable(self, kind: str) -> str:
        """A name for an integer of the plan that no size has."""
        while True:
            name = f"{kind}{self.counters}"
            self.counters += 1
            if name not in self.sizes:
                return name

    def turn(self, counter: str, length: DimLike, reverse: bool) -> tuple[UOp, UOp]:
        """How many turns were before this one, and in the end, as index expressions."""
        table = self.tensors.table
        count = self.tensors.dim(length)
        total = table.const(count) if isinstance(count, int) else count
        most = largest(count) - 1
        here = table.variable(counter, 0, most) if most > 0 else table.const(0)
        return (total - here - 1 if reverse else here), total

    def call(self, inst: Inst) -> None:
        raise LoweringError(
            f"a call of {cast('object', getattr(inst.attrs, 'callee', '?'))} could not be inlined",
            op="call",
            location=inst.loc,
            remedy="compile the program that holds the callee; recursive calls, and results whose sizes the caller "
            "states in other terms than the callee, cannot be compiled",
        )

    # -- the whole -------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        for position, param in enumerate(self.function.params):
            _, self.tensors.values[param] = self.memory(
                param.type, Role.PARAMETER, position, donated=position in self.donate
            )
        nodes = [in_rows(self.tensors, node) for node in self.results(self.function.body)]
        buffers = [
            self.memory(value.type, Role.RESULT, position)[0]
            for position, value in enumerate(self.function.results)
        ]
        self.realise_into(nodes, buffers, RESULT)
        return self.finish(buffers)

    def finish(self, results: Sequence[int]) -> Plan:
        """The plan, its buffers numbered in the order of their appearance."""
        steps, kernels = tuple(self.block), self.distinct
        if not self.tensors.target.is_gpu:
            steps, kernels = with_tables(steps, kernels, self.tensors.table, self.constant)
        steps = renamed(steps, self.resolve)
        order: dict[int, int] = {}
        for number, buffer in list(self.buffers.items()):
            if buffer.role is Role.PARAMETER:
                order[number] = len(order)
        number_of: Callable[[int], int] = lambda number: order.setdefault(number, len(order))  # noqa: E731
        steps = renamed(steps, number_of)
        numbered = tuple(number_of(number) for number in results)
        buffers = tuple(self.describe(number) for number in order)
        dims = tuple(value.type.dims for value in self.function.results)
        return Plan(steps, tuple(kernels), buffers, numbered, dims)


_CONTROL: Final[dict[str, Callable[[_Planner, Inst], None]]] = {
    "cond": _Planner.cond,
    "while": _Planner.while_,
    "scan": _Planner.scan,
    "call": _Planner.call,
}


def plan(
    function: Function,
    table: Table,
    donate: frozenset[int] = frozenset(),
    target: Target | None = None,
    origins: Origins | None = None,
) -> Plan:
    """The plan of a function for a target. `donate` are the parameters whose memory may be overwritten; `origins` watches."""
    planner = _Planner(function, table, donate, target or TARGETS["x86-64-v4"])
    planner.tensors.origins = origins
    return planner.plan()
