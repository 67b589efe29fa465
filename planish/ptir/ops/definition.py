"""What an op is: one `OpDef` per op holds everything the engines need to know about it.

Engines never ask which op they look at. They read the traits and call the functions stored here, so adding
an op means calling `define` in a family module and touching nothing else. Traits are plain attributes,
resolved once; ops are compared by identity.

The functions of an op:

- `infer(operand_types, attrs, regions)` gives the result types or raises `ShapeError`/`DTypeError`.
- `verify(inst)` yields the problems that inference cannot see.
- `fold(inst, constants)` simplifies one instruction given the literals of its constant operands (None where
  an operand is not constant). Without it, an op whose operands are all constant is evaluated.
- `evaluate(arrays, attrs, types, call)` computes on NumPy arrays; `types` are the result types with every
  size known, `call(i, arguments)` runs region `i`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from planish.errors import GraphError
from planish.ptir.ops.literal import Array, Literal
from planish.ptir.types import Quant, TensorType
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.ptir.function import Inst, Region, Value


class OpKey(enum.IntEnum):
    """The families of ops: what a pattern may name as its root when it means all of a family."""

    RETURN = 0
    CONSTANT = enum.auto()
    IOTA = enum.auto()
    ELEMENTWISE_UNARY = enum.auto()
    ELEMENTWISE_BINARY = enum.auto()
    ELEMENTWISE_TERNARY = enum.auto()
    COMPARE = enum.auto()
    SELECT = enum.auto()
    CAST = enum.auto()
    BITCAST = enum.auto()
    COMPLEX = enum.auto()
    DOT_GENERAL = enum.auto()
    CONVOLUTION = enum.auto()
    REDUCE = enum.auto()
    ARG_REDUCE = enum.auto()
    REDUCE_WINDOW = enum.auto()
    CUMULATIVE = enum.auto()
    RESHAPE = enum.auto()
    TRANSPOSE = enum.auto()
    BROADCAST_TO = enum.auto()
    SLICE = enum.auto()
    REVERSE = enum.auto()
    CONCAT = enum.auto()
    PAD = enum.auto()
    GATHER = enum.auto()
    SCATTER = enum.auto()
    DYNAMIC_SLICE = enum.auto()
    DYNAMIC_UPDATE_SLICE = enum.auto()
    DIMENSION_SIZE = enum.auto()
    SORT = enum.auto()
    TOP_K = enum.auto()
    RNG = enum.auto()
    QUANTIZE = enum.auto()
    DEQUANTIZE = enum.auto()
    COND = enum.auto()
    WHILE = enum.auto()
    SCAN = enum.auto()
    CALL = enum.auto()
    CUSTOM_CALL = enum.auto()
    LINALG = enum.auto()
    FFT = enum.auto()
    NONZERO = enum.auto()
    UNIQUE = enum.auto()
    NON_MAX_SUPPRESSION = enum.auto()
    COLLECTIVE = enum.auto()
    OTHER = enum.auto()


class Attrs:
    """Base of all attribute records: frozen slotted dataclasses whose fields print as the attributes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NoAttrs(Attrs):
    """The attributes of an op that has none."""


NO_ATTRS: Final = NoAttrs()


@dataclass(frozen=True, slots=True)
class ConstantAttrs(Attrs):
    """The attributes of `constant`."""

    literal: Literal
    quant: Quant | None = None
    """What the integers stand for, if the data is quantised."""


class ConstantKind:
    """What patterns may ask of a constant before they are called: the number that all its elements are."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<constant {self.name}>"


ZERO: Final = ConstantKind("zero")
"""All elements are 0, +0.0 or -0.0."""
ONE: Final = ConstantKind("one")
MINUS_ONE: Final = ConstantKind("minus one")
OTHER_CONSTANT: Final = ConstantKind("other")
constant_kinds: Final[dict[bool | int | float | complex | None, ConstantKind]] = {
    0: ZERO,
    1: ONE,
    -1: MINUS_ONE,
}


def constant_kind(attrs: Attrs) -> ConstantKind:
    """Which of the kinds a constant with these attributes is."""
    return (
        constant_kinds.get(attrs.literal.item, OTHER_CONSTANT)
        if isinstance(attrs, ConstantAttrs)
        else OTHER_CONSTANT
    )


class FoldResult:
    """What folding found: nothing, or for each result the value or literal that replaces it."""

    __slots__ = ("parts",)

    NOTHING: FoldResult

    parts: tuple[Value | Literal, ...]

    def __init__(self, *parts: Value | Literal) -> None:
        self.parts = parts

    @staticmethod
    def replaced_by(*values: Value) -> FoldResult:
        """Each result is a value that exists already."""
        return FoldResult(*values)

    @staticmethod
    def materialize(*literals: Literal) -> FoldResult:
        """Each result is a constant."""
        return FoldResult(*literals)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __repr__(self) -> str:
        return f"FoldResult{self.parts!r}"


FoldResult.NOTHING = FoldResult()


class FoldWhen(enum.IntEnum):
    """When an op's own `fold` is worth calling; the engine does not call it otherwise."""

    ALL_CONSTANT = 0
    """Only once every operand is constant."""
    ANY_CONSTANT = 1
    """Once at least one operand is constant (units and zeros)."""
    ALWAYS = 2
    """Whatever the operands are (the answer lies in types and attributes)."""


class Way(enum.Enum):
    """How an op reaches the machine."""

    DIRECT = "direct"
    """Lowered to kernels as it is, for every dtype but the complex ones."""
    COMPOSITE = "composite"
    """Rewritten into simpler PTIR ops by `expand`, or by `expand-complex` where it makes or takes complex parts."""
    CONTROL = "control"
    """A step of the plan: it decides what runs, or how large things are."""
    HOST = "host"
    """Runs outside generated code: the closed list of LAPACK and FFT calls, argsort and custom calls."""


A = TypeVar("A", bound=Attrs)
Types: TypeAlias = Sequence[TensorType]
Regions: TypeAlias = "Sequence[Region]"
ResultTypes: TypeAlias = tuple[TensorType, ...]
Arrays: TypeAlias = Sequence[Array]
Results: TypeAlias = tuple[Array, ...]
RegionCall: TypeAlias = Callable[[int, Arrays], Results]
InferFn: TypeAlias = Callable[[Types, A, Regions], ResultTypes]
VerifyFn: TypeAlias = Callable[["Inst"], Iterable[str]]
FoldFn: TypeAlias = Callable[["Inst", Sequence[Literal | None]], FoldResult]
EvaluateFn: TypeAlias = Callable[[Arrays, A, Types, RegionCall], Results]


class OpDef:
    """One op: its name, shape, traits and functions. Made by `define`, compared by identity."""

    __slots__ = (
        "arity",
        "attrs_type",
        "commutative",
        "deterministic",
        "doc",
        "elementwise",
        "evaluate",
        "fold",
        "fold_when",
        "foldable",
        "has_regions",
        "host",
        "idempotent",
        "infer",
        "involution",
        "key",
        "max_operands",
        "min_operands",
        "name",
        "num_regions",
        "num_results",
        "number",
        "pure",
        "python_int",
        "verify",
        "way",
    )

    name: str
    key: OpKey
    number: int
    """Dense and stable within a process: tables by op may be lists."""
    attrs_type: type[Attrs]
    arity: int | tuple[int, int | None]
    min_operands: int
    max_operands: int | None
    num_results: int | None
    """None where it depends on the attributes or regions."""
    num_regions: int | None
    has_regions: bool
    infer: InferFn[Attrs]
    verify: VerifyFn | None
    fold: FoldFn | None
    fold_when: FoldWhen
    evaluate: EvaluateFn[Attrs] | None
    python_int: Callable[..., int] | None
    """The exact integer result, before wrapping, on Python ints: spares folding of scalars the way over NumPy."""
    pure: bool
    """May be removed when unused and shared when equal."""
    foldable: bool
    """May be evaluated at compile time."""
    deterministic: bool
    """Equal operands give equal results."""
    elementwise: bool
    """Result element i depends on operand elements i alone, and all shapes are equal."""
    commutative: bool
    idempotent: bool
    """op(x, x) is x, or op(op(x)) is op(x)."""
    involution: bool
    """op(op(x)) is x."""
    host: bool
    """Runs outside generated code: its way is that."""
    way: Way
    doc: str

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> str | tuple[Callable[[str], OpDef], tuple[str]]:
        return find, (self.name,)

    def __copy__(self) -> OpDef:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> OpDef:
        return self

    def result_types(
        self, operand_types: Sequence[TensorType], attrs: Attrs, regions: Sequence[Region] = ()
    ) -> tuple[TensorType, ...]:
        """Check arity and attributes, then infer."""
        count = len(operand_types)
        if count < self.min_operands or (self.max_operands is not None and count > self.max_operands):
            raise GraphError(f"{self.name} takes {arity_text(self)} operands, not {count}", op=self.name)
        if type(attrs) is not self.attrs_type:
            raise GraphError(
                f"{self.name} takes {self.attrs_type.__name__}, not {type(attrs).__name__}", op=self.name
            )
        if self.num_regions is not None and len(regions) != self.num_regions:
            raise GraphError(
                f"{self.name} takes {self.num_regions} regions, not {len(regions)}", op=self.name
            )
        return self.infer(operand_types, attrs, regions)


REGISTRY: Final[dict[str, OpDef]] = {}


def define(
    name: str,
    key: OpKey,
    attrs: type[A],
    *,
    arity: int | tuple[int, int | None],
    infer: InferFn[A],
    evaluate: EvaluateFn[A] | None = None,
    fold: FoldFn | None = None,
    fold_when: FoldWhen = FoldWhen.ALL_CONSTANT,
    verify: VerifyFn | None = None,
    python_int: Callable[..., int] | None = None,
    num_results: int | None = 1,
    num_regions: int | None = 0,
    pure: bool = True,
    foldable: bool = True,
    deterministic: bool = True,
    elementwise: bool = False,
    commutative: bool = False,
    idempotent: bool = False,
    involution: bool = False,
    way: Way = Way.DIRECT,
    doc: str = "",
) -> OpDef:
    """Register an op and return it; a family module binds it to a module attribute of the same name."""
    if name in REGISTRY:
        raise GraphError(f"op {name} is defined twice", op=name)
    op = OpDef()
    op.name = name
    op.key = key
    op.number = len(REGISTRY)
    op.attrs_type = attrs
    op.arity = arity
    op.min_operands, op.max_operands = (arity, arity) if isinstance(arity, int) else arity
    op.num_results = num_results
    op.num_regions = num_regions
    op.has_regions = num_regions != 0
    op.infer = cast("InferFn[Attrs]", infer)
    op.verify = verify
    op.fold = fold
    op.fold_when = fold_when
    op.evaluate = cast("EvaluateFn[Attrs] | None", evaluate)
    op.python_int = python_int
    op.pure = pure
    op.foldable = foldable
    op.deterministic = deterministic
    op.elementwise = elementwise
    op.commutative = commutative
    op.idempotent = idempotent
    op.involution = involution
    op.way = way
    op.host = way is Way.HOST
    op.doc = doc
    REGISTRY[name] = op
    return op


def op(
    key: OpKey,
    attrs: type[A],
    *,
    arity: int | tuple[int, int | None] = 1,
    evaluate: EvaluateFn[A] | None = None,
    **traits: Any,
) -> Callable[[InferFn[A]], OpDef]:
    """Make a rule of inference the op of its name; `traits` are those of `define`."""

    def defined(infer: InferFn[A]) -> OpDef:
        name = infer.__name__.rstrip("_")
        return define(name, key, attrs, arity=arity, infer=infer, evaluate=evaluate, **traits)

    return defined


def find(name: str) -> OpDef:
    """The op of that name."""
    op = REGISTRY.get(name)
    if op is None:
        raise GraphError(f"there is no op {name!r}", remedy="ptir.ops.REGISTRY lists them")
    return op


def arity_text(op: OpDef) -> str:
    """How many operands an op takes, in words."""
    if op.max_operands == op.min_operands:
        return str(op.min_operands)
    return (
        f"{op.min_operands} to {op.max_operands}"
        if op.max_operands is not None
        else f"at least {op.min_operands}"
    )


def _infer_constant(types: Types, attrs: ConstantAttrs, regions: Regions) -> ResultTypes:
    literal = attrs.literal
    return (TensorType(literal.dtype, literal.shape, attrs.quant),)


# The two ops the data structure itself knows: the end of a region, and tensor data.
RETURN: Final = define(
    "return",
    OpKey.RETURN,
    NoAttrs,
    arity=(0, None),
    infer=lambda types, attrs, regions: (),
    num_results=0,
    pure=False,
    foldable=False,
    way=Way.CONTROL,
    doc="The end of a function or region: its operands are the results.",
)
constant: Final = define(
    "constant",
    OpKey.CONSTANT,
    ConstantAttrs,
    arity=0,
    infer=_infer_constant,
    evaluate=lambda arrays, attrs, types, call: (attrs.literal.array(),),
    foldable=False,
    doc="Tensor data known at compile time.",
)
