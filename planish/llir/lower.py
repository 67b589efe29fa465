"""From the linear list of UOps that the stages end in, to LLIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.errors import LoweringError
from planish.llir.program import (
    Address,
    Buffer,
    Compute,
    Convert,
    EndLoop,
    Immediate,
    Instruction,
    Load,
    Loop,
    Operand,
    Program,
    Register,
    Store,
)
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, Ops

_PREFIX: Final = {AddrSpace.GLOBAL: "arg", AddrSpace.LOCAL: "local", AddrSpace.REG: "acc"}


class _Lowering:
    """The state of one lowering: which register or buffer each node is."""

    def __init__(self) -> None:
        self.body: list[Instruction] = []
        self.buffers: dict[UOp, Buffer] = {}
        self.operands: dict[UOp, Operand] = {}

    def fresh(self, node: UOp) -> Register:
        dtype = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype
        register = Register(len(self.operands), dtype)
        self.operands[node] = register
        return register

    def register(self, node: UOp) -> Register:
        return cast("Register", self.operands[node])

    def define(self, node: UOp) -> None:
        dtype = cast("PtrDType", node.dtype)
        self.buffers[node] = Buffer(f"{_PREFIX[dtype.space]}{node.arg}", dtype.base, dtype.size, dtype.space)

    def constant(self, node: UOp) -> None:
        self.operands[node] = Immediate(cast("Number", node.arg), node.dtype)

    def after(self, node: UOp) -> None:
        value = node.src[0]
        if value in self.buffers:
            self.buffers[node] = self.buffers[value]
        else:
            self.operands[node] = self.operands[value]

    def index(self, node: UOp) -> None:
        if len(node.src) != 2:
            raise LoweringError(
                f"INDEX with {len(node.src) - 1} indices reached LLIR; one is expected", op="INDEX"
            )
        index = self.operands[node.src[1]]
        self.body.append(Address(self.fresh(node), self.buffers[node.src[0]], index))

    def load(self, node: UOp) -> None:
        self.body.append(Load(self.fresh(node), self.register(node.src[0])))

    def store(self, node: UOp) -> None:
        self.body.append(Store(self.register(node.src[0]), self.operands[node.src[1]]))

    def cast(self, node: UOp) -> None:
        operand = self.operands[node.src[0]]
        self.body.append(Convert(self.fresh(node), operand))

    def compute(self, node: UOp) -> None:
        operands = tuple(self.operands[source] for source in node.src)
        self.body.append(Compute(self.fresh(node), node.op, operands))

    def range(self, node: UOp) -> None:
        bound = self.operands[node.src[0]]
        self.body.append(Loop(self.fresh(node), bound))

    def end(self, node: UOp) -> None:
        self.body.append(EndLoop(self.register(node.src[1])))

    def nothing(self, node: UOp) -> None:
        """SINK and GROUP order effects; the list is in order."""


_LOWER: Final[dict[Ops, Callable[[_Lowering, UOp], None]]] = {
    Ops.DEFINE_GLOBAL: _Lowering.define,
    Ops.DEFINE_LOCAL: _Lowering.define,
    Ops.DEFINE_REG: _Lowering.define,
    Ops.CONST: _Lowering.constant,
    Ops.AFTER: _Lowering.after,
    Ops.INDEX: _Lowering.index,
    Ops.LOAD: _Lowering.load,
    Ops.STORE: _Lowering.store,
    Ops.CAST: _Lowering.cast,
    Ops.RANGE: _Lowering.range,
    Ops.END: _Lowering.end,
    Ops.SINK: _Lowering.nothing,
    Ops.GROUP: _Lowering.nothing,
    **dict.fromkeys(ALU, _Lowering.compute),
}


def lower(name: str, lines: Sequence[UOp]) -> Program:
    """The LLIR of a linear list of UOps."""
    state = _Lowering()
    for node in lines:
        handler = _LOWER.get(node.op)
        if handler is None:
            raise LoweringError(f"{node.op.name} has no LLIR form yet", op=node.op.name)
        handler(state, node)
    found = dict.fromkeys(state.buffers.values())
    params = sorted((b for b in found if b.space is AddrSpace.GLOBAL), key=lambda b: int(b.name[3:]))
    own = tuple(b for b in found if b.space is not AddrSpace.GLOBAL)
    return Program(name, tuple(params), own, tuple(state.body))
