"""How operations are spelled in pretty text, and attributes in their normal form.

Most operations read `name operands, clause = value, … {attributes} : types`; the table says which attribute a clause is. A few have
a spelling of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from planish.stablehlo.syntax import Attribute, Dense, HloBlock, HloTensorType, HloValue, Operation, Type

if TYPE_CHECKING:
    from planish.stablehlo.parsing import _Parser

CLAUSES: Final[dict[str, dict[str, str]]] = {
    "stablehlo.all_gather": {"dim": "all_gather_dim"},
    "stablehlo.broadcast": {"sizes": "broadcast_sizes"},
    "stablehlo.broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "stablehlo.concatenate": {"dim": "dimension"},
    "stablehlo.dot": {"precision": "precision_config"},
    "stablehlo.dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "stablehlo.dynamic_iota": {"dim": "iota_dimension"},
    "stablehlo.dynamic_slice": {"sizes": "slice_sizes"},
    "stablehlo.einsum": {"config": "einsum_config"},
    "stablehlo.fft": {"type": "fft_type", "length": "fft_length"},
    "stablehlo.get_dimension_size": {"dim": "dimension"},
    "stablehlo.iota": {"dim": "iota_dimension"},
    "stablehlo.pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "stablehlo.reverse": {"dims": "dimensions"},
    "stablehlo.rng": {"distribution": "rng_distribution"},
    "stablehlo.rng_bit_generator": {"algorithm": "rng_algorithm"},
    "stablehlo.set_dimension_size": {"dim": "dimension"},
    "stablehlo.transpose": {"dims": "permutation"},
    "stablehlo.unary_einsum": {"config": "einsum_config"},
}
_WINDOW: Final = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}
Form = Callable[["_Parser", Operation], "list[Type] | None"]
FORMS: Final[dict[str, Form]] = {}


def _form(*names: str) -> Callable[[Form], Form]:
    def register(function: Form) -> Form:
        for name in names:
            FORMS[name] = function
        return function

    return register


def read(at: _Parser, op: Operation) -> list[Type]:
    """Everything after the name of an operation; the types of its results."""
    form = FORMS.get(op.name)
    if form is not None:
        types = form(at, op)
        if types is not None:
            return types
    elif "." not in op.name:
        at.fail(f"{op.name!r} where an operation was expected")
    return _rest(at, op)


def _rest(at: _Parser, op: Operation) -> list[Type]:
    """Operands, clauses, attributes and types, in any order that text has them in."""
    clauses = CLAUSES.get(op.name, {})
    while True:
        if at.kind == "value":
            op.operands.append(at.value())
        elif at.word in (",", "(", ")"):
            at.next()
        elif at.word == "{":
            op.attributes |= at.dictionary()
        elif at.word == "<" and op.name.startswith("sdy."):
            at.balanced()  # where it lies on a mesh of devices
        elif at.kind == "symbol":
            op.attributes["callee" if op.name == "func.call" else "call_target_name"] = at.symbol()
        elif at.kind == "string":
            op.attributes["name"] = at.string()
        elif at.kind == "name" and at.peek() == "=":
            word = at.next()
            at.next()
            op.attributes[clauses.get(word, word)] = _clause(at)
        else:
            break
    if not at.accept(":"):
        return []
    first, results = at.signature()
    if op.name.endswith(".return"):
        return []
    if first is results and op.name not in ("stablehlo.optimization_barrier", "stablehlo.while"):
        return first[-1:]  # operands and result of one type, or the predicate before it
    return results


def _clause(at: _Parser) -> Attribute:
    if at.kind == "name" and at.word not in ("true", "false", "array", "dense"):
        return at.next()  # a word of an enumeration
    if at.word == "[":
        return tuple(at.many("[", "]", lambda: _clause(at)))
    return at.attribute()


# --- spellings of their own -------------------------------------------------------------------------------


@_form("stablehlo.constant", "chlo.constant")
def _constant(at: _Parser, op: Operation) -> list[Type]:
    if at.accept("("):
        at.expect(")")
    if at.word in ("{", "<"):
        op.attributes |= at._properties()
    if "value" not in op.attributes:
        op.attributes["value"] = at.dense()
        return [op.attributes["value"].type]
    at.expect(":")
    return at.signature()[1]


@_form("stablehlo.compare", "chlo.broadcast_compare")
def _compare(at: _Parser, op: Operation) -> None:
    if at.kind == "name":
        op.attributes["comparison_direction"] = at.next()
    at.accept(",")
    op.operands.append(at.value())
    at.expect(",")
    op.operands.append(at.value())
    if at.accept(","):
        op.attributes["compare_type"] = at.next()


@_form("stablehlo.slice")
def _slice(at: _Parser, op: Operation) -> None:
    op.operands.append(at.value())

    def bounds() -> list[int]:
        numbers = [int(at.take("number"))]
        while at.accept(":"):
            numbers.append(int(at.take("number")))
        return numbers

    parts = at.many("[", "]", bounds)
    op.attributes["start_indices"] = tuple(p[0] for p in parts)
    op.attributes["limit_indices"] = tuple(p[1] for p in parts)
    op.attributes["strides"] = tuple(p[2] if len(p) > 2 else 1 for p in parts)


@_form("stablehlo.get_tuple_element")
def _tuple_element(at: _Parser, op: Operation) -> None:
    op.operands.append(at.value())
    (op.attributes["index"],) = at.integers()


@_form("stablehlo.reduce_precision")
def _reduce_precision(at: _Parser, op: Operation) -> None:
    op.operands.append(at.value())
    at.expect(",", "format", "=")
    exponent, mantissa = at.take("name")[1:].split("m")
    op.attributes |= {"exponent_bits": int(exponent), "mantissa_bits": int(mantissa)}


@_form("stablehlo.dot_general")
def _dot_general(at: _Parser, op: Operation) -> None:
    op.operands += [at.value()]
    at.expect(",")
    op.operands += [at.value()]
    axes: dict[str, Attribute] = {}
    while at.accept(","):
        word = at.take("name")
        at.expect("=")
        if word == "precision":
            op.attributes["precision_config"] = _clause(at)
        elif word == "algorithm":
            at.expect("<")
            op.attributes["algorithm"] = at.fields(word)
        else:
            kind = word.removesuffix("_dims")
            axes[f"lhs_{kind}_dimensions"] = at.integers()
            at.expect("x")
            axes[f"rhs_{kind}_dimensions"] = at.integers()
    op.attributes["dot_dimension_numbers"] = axes


@_form("stablehlo.convolution", "stablehlo.dynamic_conv")
def _convolution(at: _Parser, op: Operation) -> None:
    op.operands += at.many("(", ")", at.value)
    at.expect("dim_numbers", "=")
    op.attributes["dimension_numbers"] = at.convolution_axes()
    at.expect(",", "window", "=")

    def entry() -> None:
        name = at.take("name")
        at.expect("=")
        op.attributes[_WINDOW.get(name, name)] = at.integers()

    at.many("{", "}", entry)


@_form("stablehlo.custom_call")
def _custom_call(at: _Parser, op: Operation) -> None:
    op.attributes["call_target_name"] = at.symbol().name


@_form("stablehlo.composite")
def _composite(at: _Parser, op: Operation) -> None:
    op.attributes["name"] = at.string()


@_form("chlo.top_k")
def _top_k(at: _Parser, op: Operation) -> None:
    at.expect("(")


@_form("stablehlo.reduce")
def _reduce(at: _Parser, op: Operation) -> list[Type]:
    inputs: list[HloValue] = []
    starts: list[HloValue] = []
    while at.accept("("):
        inputs.append(at.value())
        at.expect("init", ":")
        starts.append(at.value())
        at.expect(")")
        at.accept(",")
    op.operands = inputs + starts
    applied = None
    if at.accept("applies"):
        applied = at.take("name")
    at.expect("across", "dimensions", "=")
    op.attributes["dimensions"] = at.integers()
    if at.word == "{":
        op.attributes |= at.dictionary()
    at.expect(":")
    _, results = at.signature()
    if applied is not None:
        kind = inputs[0].type
        if not isinstance(kind, HloTensorType):
            at.fail("a reduction of what is no tensor")
        op.regions = [_one_op(op, applied, kind)]
        return results
    at.expect("reducer")
    pairs = []
    at.scopes.append({})
    while at.word == "(":
        pairs.append(at.many("(", ")", lambda: _reducer_argument(at)))
    args = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    op.regions = [at.block(args)]
    at.scopes.pop()
    return results


def _reducer_argument(at: _Parser) -> HloValue:
    argument = at._argument()
    at._skip_location()
    return argument


def _one_op(op: Operation, name: str, like: HloTensorType) -> HloBlock:
    """The region `(x, y) -> name x, y`."""
    scalar = HloTensorType((), like.element)
    args = [HloValue("%lhs", scalar), HloValue("%rhs", scalar)]
    inner = Operation(name, list(args), {}, [], location=op.location)
    inner.results = [HloValue("%result", scalar, inner)]
    return HloBlock(
        args, [inner, Operation("stablehlo.return", list(inner.results), {}, [], location=op.location)]
    )


@_form("stablehlo.while")
def _while(at: _Parser, op: Operation) -> list[Type]:
    names: list[str] = []

    def pair() -> None:
        names.append(at.take("value"))
        at.expect("=")
        op.operands.append(at.value())

    at.many("(", ")", pair)
    types: list[Type] = []
    if at.accept(":"):
        types.append(at.type())
        while at.accept(","):
            types.append(at.type())
    if at.accept("attributes"):
        op.attributes |= at.dictionary()
    for word in ("cond", "do"):
        at.expect(word)
        args = [HloValue(name, type) for name, type in zip(names, types, strict=True)]
        op.regions.append(at.block(args))
    return types


@_form("check.expect_eq_const", "check.expect_almost_eq_const")
def _check_const(at: _Parser, op: Operation) -> list[Type]:
    op.operands.append(at.value())
    at.expect(",")
    op.attributes["value"] = at.attribute()
    if at.word == "{":
        op.attributes |= at.dictionary()
    return []


@_form("check.expect_eq", "check.expect_almost_eq", "check.expect_close")
def _check(at: _Parser, op: Operation) -> list[Type]:
    _rest(at, op)
    return []


# --- the normal form of attributes ------------------------------------------------------------------------

_ALWAYS: Final = {"mhlo.frontend_attributes", "mhlo.sharding", "sdy.sharding", "xla_shape"}
"""Notes for other compilers: they change no result."""
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "precision_config": ((), ("DEFAULT", "DEFAULT")),
    "api_version": (1,),
    "result_accuracy": ({}, {"mode": "DEFAULT"}, "DEFAULT"),
    "called_computations": ((),),
    "has_side_effect": (False,),
    "output_operand_aliases": ((),),
}


def normal(op: Operation) -> dict[str, Attribute]:
    """Attributes as both spellings have them: integers as tuples, symbols by name, defaults left out."""
    attributes = {
        name: _normal(op, name, value)
        for name, value in op.attributes.items()
        if name != "operandSegmentSizes" and name not in _ALWAYS
    }
    return {
        name: value
        for name, value in attributes.items()
        if isinstance(value, Dense) or value not in _DEFAULTS.get(name, ())
    }


def _normal(op: Operation, name: str, value: Attribute) -> Attribute:
    if isinstance(value, Dense) and name != "value" and not op.name.endswith("custom_call"):
        rows = value.full().tolist()
        value = tuple(tuple(row) if isinstance(row, list) else row for row in rows)
    if name == "padding" and isinstance(value, tuple) and value and not isinstance(value[0], tuple):
        return tuple(zip(value[::2], value[1::2], strict=True))
    if name in ("callee", "call_target_name", "decomposition"):
        return getattr(value, "name", value)
    if isinstance(value, dict) and name.endswith("dimension_numbers"):
        return {k: v for k, v in value.items() if v != ()}
    return value
