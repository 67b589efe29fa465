"""The op set of the kernel IR, on one screen: sources, dtype law and one line of meaning each.

The source column names the operands: ``x`` exactly one, ``x?`` optional, ``x*`` any number, ``x+`` at least
one. Arity checks and error messages are read off it. The dtype law says how a node's dtype follows from its
sources (`DTypeLaw`); laws that need more than a line are functions in `check.py`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple, Self


class DTypeLaw(Enum):
    """How the dtype of a node relates to the dtypes of its sources."""

    SAME = "the dtype of the node and of every source is the same"
    FLOAT = "SAME, and it is a float (or complex) type"
    INTEGRAL = "SAME, and it is an integer or index type"
    BITS = "SAME, and it is an integer, index or bool type"
    COMPARE = "all sources have one dtype, the node is bool with as many lanes"
    OWN = "stated per op in check.py"
    VOID = "the node has no value: its dtype is void"


class Ops(IntEnum):
    """Every op of the kernel IR. ``Ops.ADD.sources``, ``.law``, ``.meaning`` read the columns."""

    sources: str
    law: DTypeLaw
    meaning: str
    min_sources: int
    max_sources: int | None

    def __new__(cls, sources: str, law: DTypeLaw, meaning: str) -> Self:
        member = int.__new__(cls, len(cls.__members__))
        member._value_ = len(cls.__members__)
        member.sources, member.law, member.meaning = sources, law, meaning
        names = sources.split()
        member.min_sources = sum(1 for n in names if n[-1] not in "*?")
        member.max_sources = None if any(n[-1] in "*+" for n in names) else len(names)
        return member

    # fmt: off
    # roots and bundles
    SINK          = "effect*",        DTypeLaw.VOID,     "the root: these effects happen"
    GROUP         = "effect*",        DTypeLaw.VOID,     "an unordered bundle of effects"
    NOOP          = "x?",             DTypeLaw.OWN,      "nothing, or its source unchanged; a place holder that rules remove"
    # leaves
    CONST         = "",               DTypeLaw.OWN,      "a constant; on a vector dtype, in every lane (arg: the number)"
    VCONST        = "",               DTypeLaw.OWN,      "a constant per lane (arg: tuple of numbers)"
    INVALID       = "",               DTypeLaw.OWN,      "the index that is nowhere: a load there gives 0, a store does nothing"
    DEFINE_GLOBAL = "",               DTypeLaw.OWN,      "a buffer parameter of the kernel (arg: slot)"
    DEFINE_LOCAL  = "",               DTypeLaw.OWN,      "memory shared by a block, or a core's scratch (arg: slot)"
    DEFINE_REG    = "",               DTypeLaw.OWN,      "an accumulator in registers (arg: slot)"
    DEFINE_VAR    = "",               DTypeLaw.OWN,      "a bounded integer given at launch (arg: Variable)"
    SPECIAL       = "bound",          DTypeLaw.OWN,      "a hardware index below bound (arg: HardwareIndex)"
    BUFFER        = "",               DTypeLaw.OWN,      "a tensor in memory, before kernels are cut (arg: slot)"
    # movement: the same elements, seen through other indices
    RESHAPE       = "x",              DTypeLaw.SAME,     "other dims, same row-major order (arg: shape)"
    PERMUTE       = "x",              DTypeLaw.SAME,     "axes reordered: out axis i is in axis arg[i]"
    EXPAND        = "x",              DTypeLaw.SAME,     "axes of size 1 repeated (arg: shape)"
    PAD           = "x",              DTypeLaw.SAME,     "zeros before and after (arg: pair per axis)"
    SHRINK        = "x",              DTypeLaw.SAME,     "a box cut out (arg: begin, end per axis)"
    FLIP          = "x",              DTypeLaw.SAME,     "axes reversed (arg: bool per axis)"
    CONTIGUOUS    = "x",              DTypeLaw.SAME,     "x, in memory of its own (arg: hints)"
    REDUCE_AXIS   = "x",              DTypeLaw.SAME,     "tensor-level reduction to size 1 (arg: ReduceAxes)"
    SCAN_AXIS     = "x",              DTypeLaw.SAME,     "tensor-level running reduction, same shape (arg: ReduceAxes of one axis)"
    # ranges and order
    RANGE         = "bound after*",   DTypeLaw.OWN,      "0 ≤ i < bound: value and loop header in one (arg: Axis)"
    END           = "body range*",    DTypeLaw.OWN,      "the body, run for all values of the ranges, which close here"
    REDUCE        = "x range*",       DTypeLaw.OWN,      "x combined over the ranges, which close here (arg: the op)"
    SCAN          = "x range along*", DTypeLaw.OWN,      "x combined over the values of the range so far; the range stays open (along: ranges that are faster, of a warp or of lanes, or how many lanes there are)"
    BUFFERIZE     = "x range*",       DTypeLaw.OWN,      "x stored at every value of the ranges (arg: Bufferize)"
    AFTER         = "x effect+",      DTypeLaw.OWN,      "x, observed after the effects; the only ordering there is"
    BARRIER       = "effect*",        DTypeLaw.VOID,     "all threads of a block have done the effects; of all blocks of a cluster (arg: cluster)"
    COMMIT        = "effect*",        DTypeLaw.VOID,     "the asynchronous stores of a thread since its last COMMIT become a group"
    WAIT          = "effect*",        DTypeLaw.VOID,     "a thread's groups but the last few are done: it sees what they stored, others after a BARRIER (arg: how many)"
    FETCH         = "x coordinate*",  DTypeLaw.OWN,      "x, an element of a box of a parameter that starts at these coordinates: a copy engine can fetch it whole (arg: Box)"
    FETCHED       = "memory offset coordinate*", DTypeLaw.VOID, "memory holds the box that starts at these coordinates from an offset on: a copy engine may have brought it (arg: Box)"
    # memory
    INDEX         = "buffer index* gate?", DTypeLaw.OWN, "the place in the buffer; a value until stage 13, then a pointer"
    LOAD          = "place alt? gate?", DTypeLaw.OWN,    "the element there; alt where the gate is false (arg: AccessHints)"
    STORE         = "place x gate?",  DTypeLaw.VOID,     "x is written there, where the gate holds (arg: AccessHints)"
    PREFETCH      = "place",          DTypeLaw.VOID,     "what is there will be read soon; the place may be nowhere (arg: locality, 0 to 3)"
    # lanes
    UNROLL        = "x",              DTypeLaw.OWN,      "lanes of x spread over unrolled axes (arg: UnrolledLanes)"
    CONTRACT      = "x",              DTypeLaw.OWN,      "unrolled axes gathered into lanes (arg: UnrolledLanes)"
    GEP           = "x",              DTypeLaw.OWN,      "lanes of x selected (arg: tuple of lane numbers)"
    VECTORIZE     = "lane+",          DTypeLaw.OWN,      "scalars made the lanes of a vector"
    CAT           = "x+",             DTypeLaw.OWN,      "vectors joined to a longer one"
    LOOKUP        = "table index",    DTypeLaw.OWN,      "lanes of the table, selected by the values of the index modulo their number"
    ANY           = "x",              DTypeLaw.OWN,      "whether x holds in any lane: where it is a gate, what only its store needs is not computed otherwise"
    WMMA          = "a b c thread?",  DTypeLaw.OWN,      "tensor core: a @ b + c on tiles; operands in registers, or places in LOCAL memory, then of the threads of a range (arg: TensorCoreOp)"
    FINISH        = "x",              DTypeLaw.SAME,     "x, once every product that a thread has begun is done"
    COMBINE       = "x thread?",      DTypeLaw.OWN,      "x of neighbouring threads, those of a range or of the block, combined: each of them gets it (arg: Combine)"
    EXCHANGE      = "x",              DTypeLaw.OWN,      "16-byte rows of 8×8 matrices, a row from each thread of a warp, dealt out as tensor cores hold them (arg: Exchange)"
    # control flow of the linear form
    IF            = "condition after*", DTypeLaw.VOID,   "what follows up to ENDIF runs where the condition holds"
    ENDIF         = "if",             DTypeLaw.VOID,     "closes its IF"
    # type changes
    CAST          = "x",              DTypeLaw.OWN,      "the value converted"
    BITCAST       = "x",              DTypeLaw.OWN,      "the bits reinterpreted"
    # unary
    NEG           = "x",              DTypeLaw.SAME,     "-x"
    NOT           = "x",              DTypeLaw.BITS,     "not x, bitwise on integers"
    ABS           = "x",              DTypeLaw.SAME,     "|x|"
    RECIP         = "x",              DTypeLaw.FLOAT,    "1 / x"
    SQRT          = "x",              DTypeLaw.FLOAT,    "square root, correctly rounded"
    RSQRT         = "x",              DTypeLaw.FLOAT,    "1 / sqrt(x)"
    CBRT          = "x",              DTypeLaw.FLOAT,    "cube root"
    EXP           = "x",              DTypeLaw.FLOAT,    "e ** x"
    EXP2          = "x",              DTypeLaw.FLOAT,    "2 ** x"
    EXPM1         = "x",              DTypeLaw.FLOAT,    "e ** x - 1"
    LOG           = "x",              DTypeLaw.FLOAT,    "natural logarithm"
    LOG2          = "x",              DTypeLaw.FLOAT,    "logarithm to base 2"
    LOG1P         = "x",              DTypeLaw.FLOAT,    "log(1 + x)"
    SIN           = "x",              DTypeLaw.FLOAT,    "sine"
    COS           = "x",              DTypeLaw.FLOAT,    "cosine"
    TAN           = "x",              DTypeLaw.FLOAT,    "tangent"
    ASIN          = "x",              DTypeLaw.FLOAT,    "inverse sine"
    ACOS          = "x",              DTypeLaw.FLOAT,    "inverse cosine"
    ATAN          = "x",              DTypeLaw.FLOAT,    "inverse tangent"
    SINH          = "x",              DTypeLaw.FLOAT,    "hyperbolic sine"
    COSH          = "x",              DTypeLaw.FLOAT,    "hyperbolic cosine"
    TANH          = "x",              DTypeLaw.FLOAT,    "hyperbolic tangent"
    ASINH         = "x",              DTypeLaw.FLOAT,    "inverse hyperbolic sine"
    ACOSH         = "x",              DTypeLaw.FLOAT,    "inverse hyperbolic cosine"
    ATANH         = "x",              DTypeLaw.FLOAT,    "inverse hyperbolic tangent"
    ERF           = "x",              DTypeLaw.FLOAT,    "error function"
    ERFC          = "x",              DTypeLaw.FLOAT,    "1 - erf(x)"
    EXP2_ESTIMATE = "x",              DTypeLaw.FLOAT,    "2 ** x, about: what a machine has an instruction for"
    EXP_ESTIMATE  = "x",              DTypeLaw.FLOAT,    "e ** x, to two units in the last place: what a machine has a few instructions for"
    RECIP_ESTIMATE = "x",             DTypeLaw.FLOAT,    "1 / x, about: what a machine has an instruction for"
    TANH_ESTIMATE = "x",              DTypeLaw.FLOAT,    "hyperbolic tangent, about: what a machine has an instruction for"
    FLOOR         = "x",              DTypeLaw.FLOAT,    "rounded down"
    CEIL          = "x",              DTypeLaw.FLOAT,    "rounded up"
    TRUNC         = "x",              DTypeLaw.FLOAT,    "rounded towards zero"
    ROUND         = "x",              DTypeLaw.FLOAT,    "rounded to nearest, ties to even"
    POPCOUNT      = "x",              DTypeLaw.INTEGRAL, "the number of set bits"
    CLZ           = "x",              DTypeLaw.INTEGRAL, "the number of leading zero bits"
    # binary
    ADD           = "x y",            DTypeLaw.SAME,     "x + y; integers wrap, index is exact"
    SUB           = "x y",            DTypeLaw.SAME,     "x - y"
    MUL           = "x y",            DTypeLaw.SAME,     "x * y"
    FDIV          = "x y",            DTypeLaw.FLOAT,    "x / y on floats"
    FLOORDIV      = "x y",            DTypeLaw.INTEGRAL, "x // y towards minus infinity, as in Python"
    FLOORMOD      = "x y",            DTypeLaw.INTEGRAL, "x - y * (x // y): the sign of y, as in Python"
    TRUNCDIV      = "x y",            DTypeLaw.INTEGRAL, "x / y towards zero, as in C"
    TRUNCMOD      = "x y",            DTypeLaw.INTEGRAL, "x - y * truncdiv(x, y): the sign of x, as in C"
    FMOD          = "x y",            DTypeLaw.FLOAT,    "the remainder with the sign of x, as in C"
    POW           = "x y",            DTypeLaw.SAME,     "x ** y"
    ATAN2         = "x y",            DTypeLaw.FLOAT,    "the angle of the point (y, x)"
    MAX           = "x y",            DTypeLaw.SAME,     "the greater; NaN if either is"
    MIN           = "x y",            DTypeLaw.SAME,     "the smaller; NaN if either is"
    AND           = "x y",            DTypeLaw.BITS,     "x & y"
    OR            = "x y",            DTypeLaw.BITS,     "x | y"
    XOR           = "x y",            DTypeLaw.BITS,     "x ^ y"
    SHL           = "x y",            DTypeLaw.INTEGRAL, "x << y; 0 beyond the width"
    SHR           = "x y",            DTypeLaw.INTEGRAL, "x >> y: the sign is copied in, zeros on unsigned"
    THREEFRY      = "x key",          DTypeLaw.INTEGRAL, "Threefry2x32-20 on a counter and a key (uint64)"
    SCALE         = "x y",            DTypeLaw.FLOAT,    "x * 2 ** floor(y), rounded once; an infinite y makes 0 or infinity of NaN too"
    CMPLT         = "x y",            DTypeLaw.COMPARE,  "x < y"
    CMPLE         = "x y",            DTypeLaw.COMPARE,  "x <= y (on floats not the same as not y < x)"
    CMPEQ         = "x y",            DTypeLaw.COMPARE,  "x == y"
    CMPNE         = "x y",            DTypeLaw.COMPARE,  "x != y"
    # ternary
    WHERE         = "condition x y",  DTypeLaw.OWN,      "x where the condition holds, else y"
    RARE          = "condition x y",  DTypeLaw.OWN,      "WHERE whose condition hardly ever holds: code branches around what only x needs"
    MULACC        = "x y z",          DTypeLaw.SAME,     "x * y + z, rounded once on floats"
    # fmt: on


class AxisType(Enum):
    """What runs a range. ``letter`` names it in kernel names, ``order`` is its place in the loop nest."""

    GLOBAL = ("g", 0)  # blocks of a grid
    THREAD = ("t", 0)  # cores of a CPU
    CLUSTER = ("c", 0)  # blocks of a grid that run at the same time and read each other's LOCAL memory
    LOCAL = ("l", 2)  # threads of a block
    WARP = ("w", 1)  # lanes of a warp that a tensor core owns
    LOOP = ("L", -1)  # an ordinary sequential loop over outputs
    UPCAST = ("u", 3)  # an output axis kept in registers or lanes
    GROUP_REDUCE = ("G", 2)  # a reduce axis shared by the threads of a block, finished through LOCAL memory
    REDUCE = ("R", 4)  # a sequential loop that accumulates
    UNROLL = ("r", 5)  # a reduce axis laid out in lanes

    __hash__ = object.__hash__  # members are single; by name, as an enum does it, is slow

    @property
    def letter(self) -> str:
        """The printed letter."""
        return str(self.value[0])

    @property
    def order(self) -> int:
        """Outermost first."""
        return int(self.value[1])


_ROOTS: Final = "ijklmnopqrstuvwxyzabcdefgh"
_PARTS: Final = ("outer", "inner", "first", "last")
NUMBERED: Final = len(_PARTS)
"""Parts of an axis from this number on are called by it."""


def axis_name(path: tuple[int, ...]) -> str:
    """The name of an axis: a letter for a dim of the program, then a word for each split that it is a part of."""
    turn, place = divmod(path[0], len(_ROOTS))
    parts = [_PARTS[n] if n < len(_PARTS) else str(n) for n in path[1:]]
    return ".".join((_ROOTS[place] + (str(turn) if turn else ""), *parts))


def axis_path(name: str) -> tuple[int, ...]:
    """The path whose name that is."""
    root, *parts = name.split(".")
    first = _ROOTS.index(root[0]) + len(_ROOTS) * int(root[1:] or 0)
    return first, *(_PARTS.index(part) if part in _PARTS else int(part) for part in parts)


class Axis(NamedTuple):
    """The identity of a range: a path, which is its place in the nest (splitting appends to it), what runs it, and its name."""

    path: tuple[int, ...]
    kind: AxisType
    origin: tuple[int, ...] = ()
    """The path that it has its name from, where it was moved to another place; () where that is its own."""

    @property
    def name(self) -> str:
        """What schedules call it: `i`, and `i.outer` and `i.inner` when it is split. It stays when the axis is moved."""
        return axis_name(self.origin or self.path)

    def part(self, number: int, kind: AxisType | None = None) -> Axis:
        """One of the axes that this one is cut into: 0 is the outer one, 1 the inner."""
        origin = (*self.origin, number) if self.origin else ()
        return Axis((*self.path, number), kind or self.kind, origin)

    def moved(self, path: tuple[int, ...]) -> Axis:
        """The same axis elsewhere in the nest."""
        name = self.origin or self.path
        return Axis(path, self.kind, () if name == path else name)

    @property
    def text(self) -> str:
        """All there is to know: its name, what runs it and, where it was moved, its place."""
        place = "@" + "_".join(map(str, self.path)) if self.origin else ""
        return f"{self.name}:{self.kind.letter}{place}"

    def __str__(self) -> str:
        return self.kind.letter + "_".join(map(str, self.path))


class Variable(NamedTuple):
    """A named integer known at launch, within bounds (both included)."""

    name: str
    low: int
    high: int


class UnrolledLanes(NamedTuple):
    """Which unrolled axes lanes stand for: (axis path, size) from slowest to fastest.

    Of P positions over the axes, lane l·P + p of the vector is lane l of the value at position p.
    """

    axes: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def total(self) -> int:
        """How many lanes they make together."""
        product = 1
        for _, size in self.axes:
            product *= size
        return product


class ReduceAxes(NamedTuple):
    """A tensor-level reduction: the combining op and the axes it takes to size 1 (SCAN_AXIS: the one it runs along)."""

    op: Ops
    axes: tuple[int, ...]


CLUSTER: Final = "cluster"
"""Of a BARRIER: that all threads of all blocks of a cluster come to."""


class Bufferize(NamedTuple):
    """How a value is given memory: where, and whether the choice may be undone."""

    space: str = "global"
    removable: bool = True
    buffers: int = 1
    """How many there are in a ring: with n, what is needed n - 1 iterations later is fetched in the background."""
    late: bool = False
    """Whether it is filled when all rings are done with, so that it may lie in their memory."""
    own: bool = False
    """Whether each thread fills what it reads itself: nobody has to wait for another."""


class Box(NamedTuple):
    """A box of a parameter as a copy engine sees it, neighbours first: what is outside of the dims is fetched as zeros.

    In LOCAL memory it lies in rows of 128 bytes whose 16-byte pieces are exchanged (`planish.actions.layouts`).
    """

    slot: int
    """Of the parameter."""
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements from one to the next along each dim; 1 along the first."""
    sizes: tuple[int, int]
    """Elements of one panel: along a row, and rows."""
    panels: int = 1
    """How many lie side by side along the first dim; one behind the other in LOCAL memory."""
    buffers: int = 1
    """How many of them there are in a ring."""
    rounded: bool = False
    """Whether elements are rounded to tf32 on the way."""
    lower: tuple[int, ...] = ()
    """Of windows, whose rows are pixels: where these begin along every dim but the first and the last."""
    upper: tuple[int, ...] = ()
    """Where they end, from the end of the dim on; offsets (coordinates behind those of the dims) move all of them aside."""
    steps: tuple[int, ...] = ()
    """How far pixels are apart there."""
    stay: int = 0
    """How many blocks stay and do one tile after the other, so that the next is fetched ahead; 0: each does one."""

    @property
    def elements(self) -> int:
        return self.sizes[0] * self.sizes[1] * self.panels


class TensorCoreOp(NamedTuple):
    """A tensor-core instruction at one WMMA node: its name and the tile it computes."""

    name: str
    dims: tuple[int, int, int]
    pending: int = 0
    """How many products, this one too, may be under way when the thread goes on: until there are more of them, or a FINISH, operands in
    LOCAL memory are still read, and results are for sums of the core alone."""


class Combine(NamedTuple):
    """What neighbouring threads do with their values: the op, and how many of them there are (a power of two)."""

    op: Ops
    width: int
    before: bool = False
    """Each gets what those before it have, combined, and the first the identity; otherwise what all have."""


class Exchange(NamedTuple):
    """How the threads of a warp deal out rows that each of them has: thread T holds row T % 8 of matrix T // 8.

    A row is four words of four bytes. Afterwards thread T has of each matrix word T % 4 of row T // 4. Transposed, which is for elements
    of two bytes, it has elements 2 · (T % 4) and the one after of column T // 4.
    """

    matrices: int
    """Of which a warp has 1, 2 or 4; beyond these, what threads hold does not matter."""
    transposed: bool


UNARY: Final = frozenset(op for op in Ops if Ops.NEG <= op <= Ops.CLZ)
BINARY: Final = frozenset(op for op in Ops if Ops.ADD <= op <= Ops.CMPNE)
TERNARY: Final = frozenset({Ops.WHERE, Ops.MULACC})
ALU: Final = UNARY | BINARY | TERNARY
COMPARISONS: Final = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE})
ESTIMATES: Final = frozenset({Ops.EXP2_ESTIMATE, Ops.EXP_ESTIMATE, Ops.RECIP_ESTIMATE, Ops.TANH_ESTIMATE})
"""Ops that are exact in the interpreters and near in machine code; only functions are made of them, within their bounds."""
COMMUTATIVE: Final = frozenset(
    {Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE}
)
MOVEMENT: Final = frozenset(op for op in Ops if Ops.RESHAPE <= op <= Ops.FLIP)
DEFINES: Final = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_REG})
CONSTANTS: Final = frozenset({Ops.CONST, Ops.VCONST})
REDUCIBLE: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR})
"""Ops a REDUCE may combine with: associative and commutative (floats: by contract of the reduce)."""

FIRST_RANGE: Final[dict[Ops, int]] = {Ops.END: 1, Ops.REDUCE: 1, Ops.BUFFERIZE: 1, Ops.COMBINE: 1}
"""Ops that close ranges, and the first source position that lists them."""
