"""What a well-formed node is: arity, dtype law and argument of every op, checked once, when a node is made.

The op table (`ops.py`) states the common laws; `_OWN` holds those that need more than a line, `argument_laws.py`
what each argument has to be. A violation is a `GraphError` naming the op, the argument and what was expected; the node is
then never entered in a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, cast

from planish.dtypes import DType, PtrDType, bool_
from planish.errors import GraphError
from planish.uop.argument_laws import ARGUMENTS, NO_ARGUMENT
from planish.uop.ops import REDUCIBLE, DTypeLaw, Exchange, Ops, UnrolledLanes, Variable

if TYPE_CHECKING:
    from planish.uop.node import UOp

OwnLaw = Callable[[Ops, DType, "tuple[UOp, ...]", object], None]


def fail(op: Ops, what: str, remedy: str | None = None) -> NoReturn:
    """Reject a node."""
    raise GraphError(f"{op.name}({op.sources}): {what}", op=op.name, remedy=remedy)


def _typed(sources: tuple[UOp, ...]) -> str:
    return ", ".join(str(s.dtype) for s in sources) or "none"


def _same(op: Ops, dtype: DType, sources: tuple[UOp, ...]) -> None:
    for source in sources:
        if source.dtype is not dtype:
            fail(
                op,
                f"sources of dtype {_typed(sources)} do not make {dtype}: {DTypeLaw.SAME.value}",
                remedy="cast the sources to one dtype",
            )


def _law_same(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    _same(op, dtype, sources)


def _law_float(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    _same(op, dtype, sources)
    if not (dtype.is_float or dtype.is_complex):
        fail(op, f"works on float types, not on {dtype}")


def _law_integral(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    _same(op, dtype, sources)
    if not dtype.is_integral:
        fail(op, f"works on integer and index types, not on {dtype}")


def _law_bits(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    _same(op, dtype, sources)
    if not (dtype.is_integral or dtype.is_bool):
        fail(op, f"works on integers, index and bool, not on {dtype}")


def _law_compare(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    x, y = sources
    if x.dtype is not y.dtype:
        fail(op, f"compares values of one dtype, not {x.dtype} with {y.dtype}")
    if dtype is not bool_.vec(x.dtype.lanes):
        fail(op, f"gives {bool_.vec(x.dtype.lanes)}, not {dtype}")


def _law_void(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if dtype.name != "void":
        fail(op, f"has no value, its dtype is void, not {dtype}")


def _where(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    condition, x, y = sources
    expected = bool_.vec(dtype.lanes) if not dtype.is_pointer else bool_
    if condition.dtype is not expected:
        fail(op, f"the condition must be {expected}, not {condition.dtype}")
    if not (x.dtype is dtype and y.dtype is dtype):
        fail(op, f"both branches must be {dtype}, not {_typed(sources[1:])}")


def _constant(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not (dtype.name != "void" and not dtype.is_pointer):
        fail(op, f"a constant has a number type, it cannot be {dtype}")


def _vconst(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not (isinstance(arg, tuple) and len(arg) == dtype.lanes > 1):
        fail(op, f"arg must hold a number per lane of {dtype}")


def _invalid(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not dtype.is_integral:
        fail(op, f"stands for an index, it cannot be {dtype}")


def _pointer(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not dtype.is_pointer:
        fail(op, f"is memory: its dtype must be a pointer, not {dtype}")


def _variable(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not (dtype.is_integral and dtype.lanes == 1):
        fail(op, f"is one integer or index, not {dtype}")
    if isinstance(arg, Variable):
        if arg.low > arg.high:
            fail(op, f"bounds {arg.low}..{arg.high} are empty")
        if dtype.is_int:
            fits = dtype.wrap(arg.low) == arg.low and dtype.wrap(arg.high) == arg.high
            if not fits:
                fail(op, f"bounds {arg.low}..{arg.high} do not fit {dtype}")


def _counter(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    """RANGE and SPECIAL: an integer of the dtype of its bound."""
    if not (dtype.is_integral and dtype.lanes == 1):
        fail(op, f"counts in an integer or index type, not {dtype}")
    if sources[0].dtype is not dtype:
        fail(op, f"counts in the dtype of its bound, {sources[0].dtype}, not {dtype}")


def _closes(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    """REDUCE, SCAN, END, AFTER: the value passes through; the rest are ranges, lanes standing for them, or effects."""
    if dtype is not sources[0].dtype:
        fail(op, f"has the dtype of its first source, {sources[0].dtype}, not {dtype}")


def _reduce(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not (isinstance(arg, Ops) and arg in REDUCIBLE):
        fail(op, f"arg must be one of {_names(REDUCIBLE)}, not {arg}")
    x = sources[0].dtype
    if not (dtype.scalar is x.scalar and x.lanes % max(dtype.lanes, 1) == 0):
        fail(op, f"cannot reduce {x} to {dtype}")


def _scan(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if not (isinstance(arg, Ops) and arg in REDUCIBLE):
        fail(op, f"arg must be one of {_names(REDUCIBLE)}, not {arg}")
    _closes(op, dtype, sources, arg)
    if len(sources) > 2 and sources[2].op is Ops.CONST and dtype.lanes % cast("int", sources[2].arg):
        fail(op, f"{sources[2].arg} positions do not divide the lanes of {dtype}")


def _index(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    buffer = sources[0].dtype
    last = len(sources) - 1
    for position in range(1, len(sources)):
        index = sources[position].dtype
        if not index.is_integral:
            if not index.is_bool:
                fail(op, f"indices are integers (a last bool is the gate), not {index}")
            if position < last:
                fail(op, "only the last source may be a bool, the gate")
    if isinstance(buffer, PtrDType):
        element = dtype.base if isinstance(dtype, PtrDType) else dtype
        if element.scalar is not buffer.base.scalar:
            fail(op, f"a place in {buffer} holds {buffer.base}, not {element}")


def _load(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    place = sources[0].dtype
    if not isinstance(place, PtrDType):
        fail(op, f"loads from a place, not from {place}")
    for alt in sources[1:2]:
        if alt.dtype is not dtype:
            fail(op, f"the alternative must be {dtype}, not {alt.dtype}")
    for gate in sources[2:]:
        if not gate.dtype.is_bool:
            fail(op, f"the gate must be bool, not {gate.dtype}")


def _lanes_total(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    """CAT, VECTORIZE: the lanes of the sources, one after another."""
    scalar, total, values = dtype.scalar, 0, False
    for source in sources:
        given = source.dtype
        total += given.lanes
        if not given.is_pointer:
            values = True
            if given.scalar is not scalar:
                fail(op, f"joins values of one dtype into {dtype}, not {_typed(sources)}")
        if given.lanes != 1 and op is Ops.VECTORIZE:
            fail(op, "takes scalars; CAT joins vectors")
    if values and total != dtype.lanes:
        fail(op, f"{total} lanes of {_typed(sources)} do not make {dtype}")


def _gep(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    x = sources[0].dtype
    lanes = cast("tuple[int, ...]", arg)  # of integers from 0, by the law of the argument
    if not lanes:
        fail(op, "arg is the tuple of selected lanes")
    if not x.is_pointer:
        if max(lanes) >= x.lanes:
            fail(op, f"lanes {arg} of {x} are out of range")
        if dtype is not x.scalar.vec(len(lanes)):
            fail(op, f"{len(lanes)} lanes of {x} do not make {dtype}")


def _lookup(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    table, index = (source.dtype for source in sources)
    if table.lanes & (table.lanes - 1):
        fail(op, f"a table has a power of two of lanes, not {table}")
    if not index.is_integral:
        fail(op, f"is indexed by integers, not by {index}")
    if dtype is not table.scalar.vec(index.lanes):
        fail(op, f"gives {table.scalar.vec(index.lanes)}, not {dtype}")


def _any(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if dtype is not bool_ or not sources[0].dtype.is_bool:
        fail(op, f"makes one bool of bools, not {dtype} of {sources[0].dtype}")


def _combine(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if sources[0].dtype is not dtype:
        fail(op, f"gives what it combines, {sources[0].dtype}, not {dtype}")


def _exchange(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    x, matrices = sources[0].dtype, cast("Exchange", arg).matrices
    if x.scalar is not dtype.scalar or x.lanes * matrices != dtype.lanes * 4:
        fail(op, f"{matrices} matrices of rows {x} do not make {dtype}")


def _unroll(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    if isinstance(arg, UnrolledLanes):
        x = sources[0].dtype
        wide, narrow = (x, dtype) if op is Ops.UNROLL else (dtype, x)
        if x.name == "void":  # an effect at every position has no lanes to count
            _law_void(op, dtype, sources, arg)
            return
        if not (wide.scalar is narrow.scalar and wide.lanes == narrow.lanes * arg.total):
            fail(op, f"{arg.total} positions do not relate {x} and {dtype}")


def _cast(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    x = sources[0].dtype
    if x.lanes != dtype.lanes:
        fail(op, f"keeps the number of lanes: {x} to {dtype}")
    if not (x.name != "void" and dtype.name != "void"):
        fail(op, f"there is no value to convert: {x} to {dtype}")


def _bitcast(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    x = sources[0].dtype
    if not (x.bits * x.lanes == dtype.bits * dtype.lanes != 0):
        fail(op, f"{x} and {dtype} differ in size")


def _free(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    """No law beyond arity and argument."""


_LAWS: Final[dict[DTypeLaw, OwnLaw]] = {
    DTypeLaw.SAME: _law_same,
    DTypeLaw.FLOAT: _law_float,
    DTypeLaw.INTEGRAL: _law_integral,
    DTypeLaw.BITS: _law_bits,
    DTypeLaw.COMPARE: _law_compare,
    DTypeLaw.VOID: _law_void,
}
_OWN: Final[dict[Ops, OwnLaw]] = {
    Ops.NOOP: _free,
    Ops.CONST: _constant,
    Ops.VCONST: _vconst,
    Ops.INVALID: _invalid,
    Ops.DEFINE_GLOBAL: _pointer,
    Ops.DEFINE_LOCAL: _pointer,
    Ops.DEFINE_REG: _pointer,
    Ops.BUFFER: _free,
    Ops.DEFINE_VAR: _variable,
    Ops.SPECIAL: _counter,
    Ops.RANGE: _counter,
    Ops.END: _closes,
    Ops.AFTER: _closes,
    Ops.REDUCE: _reduce,
    Ops.SCAN: _scan,
    Ops.BUFFERIZE: _free,
    Ops.INDEX: _index,
    Ops.LOAD: _load,
    Ops.UNROLL: _unroll,
    Ops.CONTRACT: _unroll,
    Ops.GEP: _gep,
    Ops.VECTORIZE: _lanes_total,
    Ops.CAT: _lanes_total,
    Ops.LOOKUP: _lookup,
    Ops.ANY: _any,
    Ops.WMMA: _free,
    Ops.FETCH: _free,
    Ops.COMBINE: _combine,
    Ops.EXCHANGE: _exchange,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.WHERE: _where,
    Ops.RARE: _where,
}
BY_VALUE: Final = frozenset({Ops.SCAN})
"""Ops whose law looks at more of a source than its dtype."""
_ALL_LAWS: Final = tuple(
    (
        op.min_sources,
        op.max_sources,
        *ARGUMENTS.get(op, NO_ARGUMENT),
        _OWN[op] if op.law is DTypeLaw.OWN else _LAWS[op.law],
    )
    for op in Ops
)
"""Everything about an op in one look-up, since every new node is checked."""


def _names(ops: frozenset[Ops]) -> str:
    return ", ".join(op.name for op in sorted(ops))


def check(op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object) -> None:
    """Raise `GraphError` unless these make a well-formed node."""
    least, most, kinds, says, holds, law = _ALL_LAWS[op]
    count = len(sources)
    if count < least or (most is not None and count > most):
        fail(op, f"given {count} sources ({_typed(sources)})", remedy="pass the sources named in parentheses")
    if type(arg) not in kinds:
        expected = " or ".join("nothing" if k is type(None) else k.__name__ for k in kinds)
        fail(op, f"arg must be {expected}, not {type(arg).__name__} {arg!r}")
    if holds is not None and not holds(arg):
        fail(op, f"arg must be {says}, not {arg!r}")
    law(op, dtype, sources, arg)
