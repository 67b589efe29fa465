"""What an op is: one `OpDef` per op holds everything the engines need to know about it.

Engines never ask which op they look at. They read the traits and call the functions stored here, so adding
an op means calling `define` in a family module and touching nothing else. Traits are plain attributes,
resolved once; ops are compared by identity.

The functions of an op:

- `infer(operand_types, attrs, regions)` gives the result types or raises `ShapeError`/`DTypeError`.
- `verify(inst)` yields the problems that inference cannot see.
- `fold(inst, constants)` simplifies one instruction given the literals of its constant operands (None where
  an operand is not constant). Without it, an op whose operands are all constant is evaluated.
- `evaluate(arrays, attrs, types)` computes on NumPy arrays; `types` are the result types with every size
  known. Of an op with regions it takes `call` too: `call(i, arguments)` runs region `i`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
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
EvaluateFn: TypeAlias = (
    Callable[[Arrays, A, Types], Results] | Callable[[Arrays, A, Types, RegionCall], Results]
)


@dataclass(slots=True, eq=False)
class OpDef:
    """One op: its name, shape, traits and functions. Made by `define`, compared by identity."""

    name: str
    key: OpKey
    attrs_type: type[Attrs]
    arity: int | tuple[int, int | None]
    infer: InferFn[Attrs]
    evaluate: Callable[..., Results] | None = None
    fold: FoldFn | None = None
    fold_when: FoldWhen = FoldWhen.ALL_CONSTANT
    verify: VerifyFn | None = None
    python_int: Callable[..., int] | None = None
    """The exact integer result, before wrapping, on Python ints: spares folding of scalars the way over NumPy."""
    num_results: int | None = 1
    """None where it depends on the attributes or regions."""
    num_regions: int | None = 0
    pure: bool = True
    """May be removed when unused and shared when equal."""
    foldable: bool = True
    """May be evaluated at compile time."""
    deterministic: bool = True
    """Equal operands give equal results."""
    elementwise: bool = False
    """Result element i depends on operand elements i alone, and all shapes are equal."""
    commutative: bool = False
    idempotent: bool = False
    """op(x, x) is x, or op(op(x)) is op(x)."""
    involution: bool = False
    """op(op(x)) is x."""
    way: Way = Way.DIRECT
    doc: str = ""
    number: int = field(init=False)
    """Dense and stable within a process: tables by op may be lists."""
    min_operands: int = field(init=False)
    max_operands: int | None = field(init=False)
    has_regions: bool = field(init=False)
    host: bool = field(init=False)
    """Runs outside generated code: its way is that."""

    def __post_init__(self) -> None:
        self.number = len(REGISTRY)
        self.min_operands, self.max_operands = (
            (self.arity, self.arity) if isinstance(self.arity, int) else self.arity
        )
        self.has_regions = self.num_regions != 0
        self.host = self.way is Way.HOST

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
            raise GraphError(f"{self.name} takes {arity_text(self)}, not {count}", op=self.name)
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
    **traits: Any,
) -> OpDef:
    """Register an op and return it; a family module binds it to a module attribute of the same name. `traits` are fields of `OpDef`."""
    if name in REGISTRY:
        raise GraphError(f"op {name} is defined twice", op=name)
    op = REGISTRY[name] = OpDef(name, key, attrs, arity, cast("InferFn[Attrs]", infer), evaluate, **traits)
    return op


def op(
    key: OpKey,
    *,
    arity: int | tuple[int, int | None] = 1,
    evaluate: EvaluateFn[Any] | None = None,
    **traits: Any,
) -> Callable[[InferFn[A]], OpDef]:
    """Make a rule of inference the op of its name; its docstring says what the op is, its annotation which attributes it has."""

    def defined(infer: InferFn[A]) -> OpDef:
        name, (attrs,) = infer.__name__.rstrip("_"), annotated_types(infer, "attrs")
        return define(
            name, key, attrs, arity=arity, infer=infer, evaluate=evaluate, doc=infer.__doc__, **traits
        )

    return defined


def annotated_types(function: Callable[..., object], parameter: str) -> tuple[Any, ...]:
    """The classes that a parameter is annotated with; written out, since evaluating annotations takes long."""
    classes = []
    for part in function.__annotations__[parameter].split(" | "):
        head, *rest = part.partition("[")[0].split(".")
        cls = function.__globals__[head]
        for attribute in rest:
            cls = getattr(cls, attribute)
        classes.append(cls)
    return tuple(classes)


def find(name: str) -> OpDef:
    """The op of that name."""
    op = REGISTRY.get(name)
    if op is None:
        raise GraphError(f"there is no op {name!r}", remedy="ptir.ops.REGISTRY lists them")
    return op


def arity_text(op: OpDef) -> str:
    """How many operands an op takes, in words."""
    if op.max_operands == op.min_operands:
        return f"{op.min_operands} operand{'' if op.min_operands == 1 else 's'}"
    return (
        f"{op.min_operands} to {op.max_operands} operands"
        if op.max_operands is not None
        else f"at least {op.min_operands} operands"
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
    evaluate=lambda arrays, attrs, types: (attrs.literal.array(),),
    foldable=False,
    doc="Tensor data known at compile time.",
)
