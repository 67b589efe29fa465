"""Values and instructions: what the regions of a function are made of.

Plain slotted records. Operands and users are two views of one relation and are changed together, by the builders in
`function` and by `ProgramRewriter` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from planish.errors import GraphError, Location
from planish.ptir.ops.definition import (
    RETURN,
    Attrs,
    ConstantAttrs,
    ConstantKind,
    OpDef,
    OpKey,
    constant,
    constant_kind,
)
from planish.ptir.ops.literal import Literal
from planish.ptir.types import TensorType

if TYPE_CHECKING:
    from planish.ptir.function import Function, Region

InstId: TypeAlias = int
"""What `Inst.id` holds: unique within a function, never reused."""
ValueId: TypeAlias = int
"""What `Value.id` holds: unique within a function, never reused."""

CLEAN: Final = 1 << 30
"""`Inst.dirty` of an instruction that no driver has queued."""


class Value:
    """A tensor computed once: a result of an instruction or a parameter of a region."""

    __slots__ = ("def_inst", "id", "index", "name", "owner", "type", "users")

    id: ValueId
    type: TensorType
    name: str | None
    """What the user calls it; a hint for printing, not unique."""
    def_inst: Inst | None
    """The instruction that computes it; None for a parameter."""
    index: int
    """Which result or parameter it is."""
    owner: Region | None
    """The region it is a parameter of; None for a result."""
    users: dict[Inst, int]
    """Each instruction that uses it (ends of regions included), with the number of times."""

    def __init__(
        self,
        id: ValueId,
        type: TensorType,
        def_inst: Inst | None,
        index: int,
        owner: Region | None = None,
        name: str | None = None,
    ) -> None:
        self.id = id
        self.type = type
        self.name = name
        self.def_inst = def_inst
        self.index = index
        self.owner = owner
        self.users = {}

    @property
    def has_uses(self) -> bool:
        return bool(self.users)

    @property
    def num_uses(self) -> int:
        return sum(self.users.values())

    @property
    def has_one_use(self) -> bool:
        """Whether exactly one operand of one instruction is this value."""
        users = self.users
        return len(users) == 1 and next(iter(users.values())) == 1

    @property
    def literal(self) -> Literal | None:
        """The data, if a `constant` defines this value."""
        inst = self.def_inst
        if inst is not None and type(inst.attrs) is ConstantAttrs:
            return inst.attrs.literal
        return None

    @property
    def region(self) -> Region | None:
        """The region that the value is defined in; None once its instruction is erased."""
        return self.owner if self.def_inst is None else self.def_inst.parent

    def __repr__(self) -> str:
        return f"%{self.id}: {self.type}"


class Inst:
    """One instruction. Operands are changed by the rewriter alone, which keeps the users right."""

    __slots__ = (
        "attrs", "dirty", "id", "key", "loc", "made_by", "next", "op", "operands", "order", "parent", "prev",
        "regions", "results", "version",
    )  # fmt: skip

    id: InstId
    op: OpDef
    key: OpDef | ConstantKind
    """What decision tables look an operand's definition up by: the op, or the kind of a constant."""
    operands: tuple[Value, ...]
    attrs: Attrs
    results: tuple[Value, ...]
    regions: tuple[Region, ...]
    loc: Location | None
    """The user's line this instruction comes from."""
    made_by: str | None
    """The pattern or pass that created it; None for what the user wrote."""
    version: int
    """Grows whenever operands, attributes or regions change."""
    parent: Region | None
    """The region it stands in; None once erased."""
    prev: Inst
    next: Inst
    order: int
    """Grows along a region; means nothing between regions."""
    dirty: int
    """Scratch of the driver: how near the nearest change since the last visit was; `CLEAN` if not queued."""

    def __init__(
        self,
        id: InstId,
        op: OpDef,
        operands: tuple[Value, ...],
        attrs: Attrs,
        regions: tuple[Region, ...],
        loc: Location | None,
    ) -> None:
        self.id = id
        self.op = op
        self.key = constant_kind(attrs) if op is constant else op
        self.operands = operands
        self.attrs = attrs
        self.regions = regions
        self.results = ()
        self.loc = loc
        self.made_by = None
        self.version = 0
        self.parent = None
        self.prev = self
        self.next = self
        self.order = 0
        self.dirty = CLEAN

    @property
    def reads(self) -> list[Value]:
        """What it uses, and what its regions use and give."""
        values = list(self.operands)
        for region in self.regions:
            values += region.results
            for inst in region.walk():
                values += inst.operands
                values += [value for inner in inst.regions for value in inner.results]
        return values

    @property
    def result(self) -> Value:
        """The result of an instruction that has exactly one."""
        if len(self.results) != 1:
            raise GraphError(
                f"{self.op.name} has {len(self.results)} results", op=self.op.name, location=self.loc
            )
        return self.results[0]

    @property
    def is_constant(self) -> bool:
        return self.op.key is OpKey.CONSTANT

    @property
    def is_end(self) -> bool:
        """Whether this is the hidden end of a region, whose operands are the region's results."""
        return self.op is RETURN

    @property
    def is_dead(self) -> bool:
        """Whether it is pure and nothing uses any result.

        One that binds a named size may be needed all the same: see `rewrite.bound_sizes`.
        """
        if not self.op.pure:
            return False
        return not any(value.users for value in self.results)

    @property
    def function(self) -> Function:
        if self.parent is None:
            raise GraphError(f"{self!r} is erased and belongs to no function", op=self.op.name)
        return self.parent.function

    def comes_before(self, other: Inst) -> bool:
        """Whether this stands earlier in the same region."""
        return self.parent is other.parent and self.order < other.order

    def __repr__(self) -> str:
        results = ", ".join(f"%{v.id}" for v in self.results)
        operands = ", ".join(f"%{v.id}" for v in self.operands)
        return f"{results} = {self.op.name}({operands})" if results else f"{self.op.name}({operands})"


def set_operands(inst: Inst, operands: tuple[Value, ...]) -> None:
    """Replace all operands and keep users right; no one is told. For the rewriter and the builders."""
    for value in inst.operands:
        users = value.users
        left = users[inst] - 1
        if left:
            users[inst] = left
        else:
            del users[inst]
    for value in operands:
        users = value.users
        users[inst] = users.get(inst, 0) + 1
    inst.operands = operands
    inst.version += 1
