"""From the linear list of UOps that the stages end in, to LLIR: one table, one handler per op.

What an access looks like. `LOAD(INDEX(b, i))` of a vector dtype reads as many scalars, one after another from `i`; with a
vector of indices it reads one from each. A gate stands on the INDEX or on the LOAD or STORE (both: both must hold);
a gated LOAD without an alternative gives 0. What an access says besides (`AccessHints`) becomes fields of
its instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, PtrDType
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.fetching import fetched
from planish.llir.hints import with_unroll_hints
from planish.llir.resident import resident
from planish.llir.reuse import reused
from planish.llir.rounds import in_rounds
from planish.llir.tiles import PLACES_ALIGNED, TileOp
from planish.llir.under_way import under_way
from planish.uop.access_hints import hints_of
from planish.uop.hardware_index import index_of
from planish.uop.laws import memory_of
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, CLUSTER, Axis, Box, Combine, Exchange, Ops, TensorCoreOp, Variable
from planish.uop.tensor_cores import CORES

_PREFIX: Final = {AddrSpace.LOCAL: "local", AddrSpace.REG: "acc"}
_TILES: Final[Mapping[str, TileOp]] = {
    core.name: TileOp(core.name, core.m, core.n, core.k, core.threads, core.a, core.b, core.c)
    for core in CORES.values()
}
_NO_UNROLL: Final[Mapping[Axis, int]] = {}


class _Lowering:
    """The state of one lowering: which register or buffer each node is."""

    def __init__(self, tiles: Mapping[str, TileOp], unroll: Mapping[Axis, int]) -> None:
        self.tiles = tiles
        self.unroll = unroll
        self.body: list[ir.Instruction] = []
        self.variables: list[ir.LaunchVariable] = []
        self.buffers: dict[UOp, ir.Buffer] = {}
        self.operands: dict[UOp, ir.Operand] = {}
        self.gates: dict[UOp, ir.Operand] = {}
        """The gates of gated places."""
        self.bounds: dict[UOp, ir.Operand] = {}
        self.opened: list[ir.Register] = []
        """The counters of the loops around."""
        self.aligned: frozenset[UOp] = frozenset()
        """Memory that tensor cores read by themselves."""
        self.copied: frozenset[UOp] = frozenset()
        """Loads that are no instructions: asynchronous copies do them."""
        self.count = 0

    def new(self, dtype: dtypes.DType) -> ir.Register:
        self.count += 1
        return ir.Register(self.count - 1, dtype)

    def fresh(self, node: UOp) -> ir.Register:
        register = self.new(node.dtype)
        self.operands[node] = register
        return register

    def register(self, node: UOp) -> ir.Register:
        operand = self.operands[node]
        if not isinstance(operand, ir.Register):
            raise LoweringError(f"{node.op.name} is a constant where a register is needed", op=node.op.name)
        return operand

    def sources(self, node: UOp) -> tuple[ir.Operand, ...]:
        return tuple(self.operands[source] for source in node.src)

    # -- leaves ----------------------------------------------------------------------------------------------------

    def define(self, node: UOp) -> None:
        dtype = cast("PtrDType", node.dtype)
        if dtype.size < 0:
            raise LoweringError(
                f"{node.op.name} {node.arg} has no known size",
                op=node.op.name,
                remedy="give it the largest size that its dims can take",
            )
        align = PLACES_ALIGNED if node in self.aligned else None
        slot = cast("int", node.arg)
        self.buffers[node] = (
            ir.Buffer.parameter(slot, dtype.base, dtype.size, align)
            if dtype.space is AddrSpace.GLOBAL
            else ir.Buffer(f"{_PREFIX[dtype.space]}{slot}", dtype.base, dtype.size, dtype.space, align)
        )

    def constant(self, node: UOp) -> None:
        self.operands[node] = ir.Immediate(cast("Number | tuple[Number, ...]", node.arg), node.dtype)

    def variable(self, node: UOp) -> None:
        name, low, high = cast("Variable", node.arg)
        self.variables.append(ir.LaunchVariable(self.fresh(node), name, low, high))

    def special(self, node: UOp) -> None:
        bound = self.operands[node.src[0]]
        self.body.append(ir.Special(self.fresh(node), index_of(node), bound))

    # -- order -----------------------------------------------------------------------------------------------------

    def same(self, node: UOp) -> None:
        """AFTER, NOOP, and a CAST between pointers: the first source, under another name."""
        if not node.src:
            return
        value = node.src[0]
        if value in self.buffers:
            self.buffers[node] = self.buffers[value]
        elif value in self.operands:
            self.operands[node] = self.operands[value]
            if value in self.gates:
                self.gates[node] = self.gates[value]

    def nothing(self, node: UOp) -> None:
        """SINK and GROUP order effects; the list is in order."""

    def barrier(self, node: UOp) -> None:
        last = self.body[-1] if self.body else None
        mine = ir.Barrier(node.arg == CLUSTER)
        if isinstance(last, ir.Barrier):  # who has just waited need not wait again
            self.body[-1] = ir.Barrier(last.cluster or mine.cluster)
        else:
            self.body.append(mine)

    # -- memory ----------------------------------------------------------------------------------------------------

    def index(self, node: UOp) -> None:
        buffer, *indices = node.src
        if indices and indices[-1].dtype.is_bool:
            self.gates[node] = self.operands[indices.pop()]
        if len(indices) != 1:
            raise LoweringError(
                f"INDEX with {len(indices)} indices reached LLIR; one is expected", op="INDEX"
            )
        (index,) = indices
        if buffer not in self.buffers:
            raise LoweringError(f"INDEX into a {buffer.op.name}, which is not memory", op="INDEX")
        base = self.buffers[buffer]
        result = self.new(base.pointer.vec(index.dtype.lanes))
        self.operands[node] = result
        self.body.append(ir.Address(result, base, self.operands[index], _peer(node)))

    def gate(self, place: UOp, own: UOp | None) -> ir.Operand | None:
        """The gate of an access: that of the place, its own, or both together."""
        first = self.gates.get(place)
        second = None if own is None else self.operands[own]
        if first is None or second is None or first == second:
            return second if first is None else first
        if first.dtype.lanes != second.dtype.lanes:
            wide = max(first.dtype.lanes, second.dtype.lanes)
            first, second = (self.splat(g, wide) for g in (first, second))
        result = self.new(first.dtype)
        self.body.append(ir.Compute(result, Ops.AND, (first, second)))
        return result

    def splat(self, operand: ir.Operand, lanes: int) -> ir.Operand:
        if operand.dtype.lanes == lanes:
            return operand
        result = self.new(operand.dtype.vec(lanes))
        self.body.append(ir.Build(result, (operand,) * lanes))
        return result

    def load(self, node: UOp) -> None:
        if node in self.copied:
            return
        place = node.src[0]
        gate = self.gate(place, node.src[2] if len(node.src) > 2 else None)
        alternative: ir.Operand | None = None
        if gate is not None:
            zero = ir.Immediate(node.dtype.const(0), node.dtype)
            alternative = self.operands[node.src[1]] if len(node.src) > 1 else zero
        said = hints_of(node)
        self.body.append(
            ir.Load(self.fresh(node), self.register(place), gate, alternative, said.align, said.nontemporal)
        )

    def store(self, node: UOp) -> None:
        place, value = node.src[:2]
        if value in self.copied:
            source = value.src[0]
            zero_where = self.gate(source, value.src[2] if len(value.src) > 2 else None)
            self.body.append(
                ir.CopyAsync(self.register(place), self.register(source), zero_where, value.dtype.lanes)
            )
            return
        gate = self.gate(place, node.src[2] if len(node.src) > 2 else None)
        said = hints_of(node)  # what was to be copied in the background, and cannot, is stored at once
        self.body.append(
            ir.Store(self.register(place), self.operands[value], gate, said.align, said.nontemporal)
        )

    def commit(self, node: UOp) -> None:
        self.body.append(ir.CommitCopies())

    def wait(self, node: UOp) -> None:
        self.body.append(ir.WaitCopies(cast("int", node.arg)))

    def fetched(self, node: UOp) -> None:
        """A box that is there by now: who brings it is decided when all is known (`fetching.py`)."""
        memory, offset, *coordinates = node.src
        box, base = cast("Box", node.arg), self.buffers[memory]
        param = next(b for b in self.buffers.values() if b.slot == box.slot)
        address = self.new(base.pointer)
        self.body.append(ir.Address(address, base, self.operands[offset]))
        at = tuple([self.operands[each] for each in coordinates])
        at, aside = at[: len(box.dims)], at[len(box.dims) :]
        step = ir.Immediate(0, dtypes.int32) if not self.opened else self.opened[-1]
        several = box.panels if box.panels > 1 else 0
        self.body.append(
            ir.CopyBox(
                address,
                step,
                param,
                at,
                box.dims,
                box.strides,
                box.sizes,
                0,
                box.buffers,
                several,
                box.rounded,
                aside,
                box.lower,
                box.upper,
                box.steps,
                box.stay,
            )
        )

    def prefetch(self, node: UOp) -> None:
        self.body.append(ir.Prefetch(self.register(node.src[0]), locality=cast("int", node.arg)))

    # -- values ----------------------------------------------------------------------------------------------------

    def cast(self, node: UOp) -> None:
        if node.dtype.is_pointer:
            self.same(node)
            return
        operand = self.operands[node.src[0]]
        self.body.append(ir.Convert(self.fresh(node), operand))

    def compute(self, node: UOp) -> None:
        operands = self.sources(node)
        self.body.append(ir.Compute(self.fresh(node), node.op, operands))

    def build(self, node: UOp) -> None:
        operands = self.sources(node)
        form = ir.Build if all(operand.dtype.lanes == 1 for operand in operands) else ir.Concat
        self.body.append(form(self.fresh(node), operands))

    def tile(self, node: UOp) -> None:
        a, b, c = self.sources(node)
        core = cast("TensorCoreOp", node.arg)
        tile = self.tiles.get(core.name, TileOp(core.name, *core.dims))
        if (tile.m, tile.n, tile.k) != core.dims:
            raise LoweringError(
                f"WMMA {core.name} computes {core.dims}, the target describes it as {(tile.m, tile.n, tile.k)}",
                op="WMMA",
            )
        for matrix, operand in zip("abc", (a, b, c), strict=True):
            if operand.dtype.lanes != tile.lanes(matrix):
                raise LoweringError(
                    f"WMMA {core.name}: a thread holds {tile.lanes(matrix)} elements of {matrix}, "
                    f"not the {operand.dtype.lanes} lanes of {operand.dtype}",
                    op="WMMA",
                    remedy="describe the tensor core's layout in the target"
                    if core.name not in self.tiles
                    else None,
                )
        self.body.append(ir.Tile(self.fresh(node), a, b, c, tile, core.pending))

    def combine(self, node: UOp) -> None:
        op, width, before = cast("Combine", node.arg)
        given = self.operands[node.src[0]]
        self.body.append(ir.CombineThreads(self.fresh(node), op.name.lower(), given, width, before))

    def exchange(self, node: UOp) -> None:
        matrices, transposed = cast("Exchange", node.arg)
        rows = self.register(node.src[0])
        self.body.append(ir.Deal(self.fresh(node), rows, matrices, transposed))

    # -- control ---------------------------------------------------------------------------------------------------

    def range(self, node: UOp) -> None:
        bound = self.bounds[node] = self.operands[node.src[0]]
        counter = self.fresh(node)
        self.opened.append(counter)
        self.body.append(ir.Loop(counter, bound, self.unroll.get(cast("Axis", node.arg), 0)))

    def end(self, node: UOp) -> None:
        if len(node.src) != 2:
            raise LoweringError(f"END of {len(node.src) - 1} ranges reached LLIR; one is expected", op="END")
        header = node.src[1]
        self.opened.pop()
        self.body.append(ir.EndLoop(self.register(header), self.bounds[header]))

    def begin_if(self, node: UOp) -> None:
        self.body.append(ir.If(self.operands[node.src[0]]))

    def end_if(self, node: UOp) -> None:
        self.body.append(ir.EndIf())


def _peer(place: UOp) -> int:
    """Which block of the cluster has the memory of a place, counted from 1; 0: every block its own."""
    return 0 if place.arg is None else cast("int", place.arg) + 1


_WMMA: Final = Ops.WMMA  # a member of an enum costs more to look up than a name


def _operand_memory(lines: Sequence[UOp], tiles: Mapping[str, TileOp]) -> frozenset[UOp]:
    """The LOCAL memory that operands of tensor cores are in."""
    memories: set[UOp] = set()
    for node in lines:
        if node.op is not _WMMA:
            continue
        tile = tiles.get(cast("TensorCoreOp", node.arg).name)
        for matrix, source in zip("ab", node.src, strict=False):
            if tile is not None and tile.in_memory(matrix):
                memories.add(memory_of(source))
    return frozenset(memories)


def _copied(lines: Sequence[UOp]) -> frozenset[UOp]:
    """The loads that do nothing but feed asynchronous stores, of as many bytes as are copied at once."""
    stores = [n for n in lines if n.op is Ops.STORE and hints_of(n).asynchronous]
    loads = {store.src[1] for store in stores if _is_copy(store)}
    if not loads:
        return frozenset()
    direct = {store for store in stores if store.src[1] in loads and _is_copy(store)}
    return frozenset(
        loads
        - {source for n in lines if n not in direct for source in n.src}
        - {store.src[1] for store in stores if store not in direct}
    )


def _is_copy(store: UOp) -> bool:
    """Whether an asynchronous store is a copy of neighbours, both ends aligned."""
    place, value = store.src[:2]
    if value.op is not Ops.LOAD or len(store.src) > 2 or len(place.src) > 2:
        return False
    nbytes = value.dtype.itemsize * value.dtype.lanes
    if nbytes not in ir.COPIED or (
        value.dtype.lanes > 1 and min(hints_of(store).align, hints_of(value).align) < nbytes
    ):
        return False
    zero = len(value.src) < 2 or (value.src[1].op is Ops.CONST and not value.src[1].arg)
    return zero and value.src[0].src[1].dtype.lanes == 1 and all(s.dtype.lanes == 1 for s in value.src[2:])


def _as_it_is(form: Callable[..., ir.Instruction]) -> Callable[[_Lowering, UOp], None]:
    """An instruction whose fields are the sources of a node, and its argument."""

    def lower(state: _Lowering, node: UOp) -> None:
        operands = state.sources(node)
        state.body.append(form(state.fresh(node), *operands, *(() if node.arg is None else (node.arg,))))

    return lower


_LOWER: Final[dict[Ops, Callable[[_Lowering, UOp], None]]] = {
    Ops.DEFINE_GLOBAL: _Lowering.define,
    Ops.DEFINE_LOCAL: _Lowering.define,
    Ops.DEFINE_REG: _Lowering.define,
    Ops.DEFINE_VAR: _Lowering.variable,
    Ops.SPECIAL: _Lowering.special,
    Ops.CONST: _Lowering.constant,
    Ops.VCONST: _Lowering.constant,
    Ops.AFTER: _Lowering.same,
    Ops.NOOP: _Lowering.same,
    Ops.INDEX: _Lowering.index,
    Ops.LOAD: _Lowering.load,
    Ops.STORE: _Lowering.store,
    Ops.PREFETCH: _Lowering.prefetch,
    Ops.CAST: _Lowering.cast,
    Ops.VECTORIZE: _Lowering.build,
    Ops.CAT: _Lowering.build,
    Ops.WMMA: _Lowering.tile,
    Ops.COMBINE: _Lowering.combine,
    Ops.EXCHANGE: _Lowering.exchange,
    Ops.RANGE: _Lowering.range,
    Ops.END: _Lowering.end,
    Ops.IF: _Lowering.begin_if,
    Ops.ENDIF: _Lowering.end_if,
    Ops.BARRIER: _Lowering.barrier,
    Ops.COMMIT: _Lowering.commit,
    Ops.WAIT: _Lowering.wait,
    Ops.FETCHED: _Lowering.fetched,
    Ops.SINK: _Lowering.nothing,
    Ops.GROUP: _Lowering.nothing,
    **dict.fromkeys(ALU, _Lowering.compute),
    **{op: _as_it_is(form) for form in ir.FORMS for op in form.lowers},
}


def lower(
    name: str,
    lines: Sequence[UOp],
    *,
    tiles: Mapping[str, TileOp] = _TILES,
    unroll: Mapping[Axis, int] | None = None,
) -> ir.Program:
    """The LLIR of a linear list of UOps.

    `tiles` describes tensor cores by name (one that is not listed is row-major in the registers of one thread); `unroll`
    gives the unroll hints of ranges, by default those of `planish.llir.hints`.
    """
    state = _Lowering(tiles, _NO_UNROLL if unroll is None else unroll)
    state.aligned = _operand_memory(lines, tiles)
    state.copied = _copied(lines)
    for node in lines:
        handler = _LOWER.get(node.op)
        if handler is None:
            raise LoweringError(
                f"{node.op.name} has no LLIR form", op=node.op.name, remedy="an earlier stage must remove it"
            )
        handler(state, node)
    buffers = dict.fromkeys(state.buffers.values())
    params = sorted((b for b in buffers if b.space is AddrSpace.GLOBAL), key=lambda b: b.number)
    own = tuple(b for b in buffers if b.space is not AddrSpace.GLOBAL)
    body = state.body if unroll is not None else with_unroll_hints(state.body)
    program = resident(fetched(ir.Program(name, tuple(params), own, tuple(body), tuple(state.variables))))
    return in_rounds(reused(under_way(program))) if state.aligned else program
