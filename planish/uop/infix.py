"""An expression as Python-like infix text: `(a * 4 + L0) // 8`, `where(a < 3, f, 0.0)`, `int32(a)`.

Promises
* The text follows Python's own precedence and names leaves uniquely, so it evaluates back to the same node in a
  namespace that maps these names to nodes and the function names to constructors.
* Variables print by name, ranges by axis (`L0`, `R1_0`), buffers as `data0`, `local0`, `acc0`. Constants are bare
  where the other operand gives the dtype, else typed: `int32(5)`, `float32x4(0.0)`.
* Nothing recurses, and the text ends with `…` after `limit` characters: shared subexpressions are written out at
  every use, which no limit on depth could bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, cast

from planish.dtypes import DType, index
from planish.uop.node import UOp
from planish.uop.ops import ALU, COMPARISONS, CONSTANTS, Ops, Variable

_LIMIT: Final = 20_000
_ATOM: Final = 20
_POWER: Final = 14
_UNARY: Final = 13
_BINARY_SYMBOLS: Final = {
    Ops.MUL: ("*", 12), Ops.FDIV: ("/", 12), Ops.FLOORDIV: ("//", 12), Ops.FLOORMOD: ("%", 12),
    Ops.ADD: ("+", 11), Ops.SUB: ("-", 11), Ops.SHL: ("<<", 10), Ops.SHR: (">>", 10),
    Ops.AND: ("&", 9), Ops.XOR: ("^", 8), Ops.OR: ("|", 7), Ops.CMPLT: ("<", 6), Ops.CMPLE: ("<=", 6),
}  # fmt: skip
_UNARY_SYMBOLS: Final = {Ops.NEG: "-", Ops.NOT: "~"}
_FUNCTIONS: Final = {Ops.CMPEQ: "eq", Ops.CMPNE: "ne"}
# Python numbers have no reflected form of these on nodes: a constant on their left is printed with its type.
_TYPED_LEFT: Final = frozenset({Ops.SHL, Ops.SHR, Ops.AND, Ops.OR, Ops.XOR, Ops.POW})
_LEAF_PREFIX: Final = {
    Ops.DEFINE_GLOBAL: "data",
    Ops.DEFINE_LOCAL: "local",
    Ops.DEFINE_REG: "acc",
    Ops.BUFFER: "buffer",
}
_LEAVES: Final = frozenset({Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, *_LEAF_PREFIX})


class _Operand(NamedTuple):
    """A node still to be printed: how tightly its surroundings bind, and whether they give a constant its dtype."""

    node: UOp
    binding: int = 0
    bare: bool = False


_Piece = str | _Operand


def infix(root: UOp, names: Mapping[UOp, str] | None = None, limit: int = _LIMIT) -> str:
    """The expression as text. `names` gives leaves (or any node) other names than `leaf_names` would."""
    known = leaf_names(root) if names is None else names
    text: list[str] = []
    length = 0
    stack: list[_Piece] = [_Operand(root, bare=root.dtype.is_bool or root.dtype is index)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            text.append(piece)
            length += len(piece)
            if length > limit:
                return "".join(text)[:limit] + "…"
            continue
        name = known.get(piece.node)
        if name is not None:
            stack.append(name)
            continue
        binding, pieces = _pieces(piece.node, piece.bare)
        if binding < piece.binding:
            pieces = ["(", *pieces, ")"]
        stack.extend(reversed(pieces))
    return "".join(text)


def leaf_names(root: UOp) -> dict[UOp, str]:
    """A name for every variable, range, hardware index and buffer below a node; a name taken twice is numbered."""
    names: dict[UOp, str] = {}
    taken: set[str] = set()
    for node in root.toposort():
        if node.op not in _LEAVES:
            continue
        name = wanted = _leaf_name(node)
        count = 1
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        names[node] = name
    return names


def _leaf_name(node: UOp) -> str:
    prefix = _LEAF_PREFIX.get(node.op)
    if prefix is not None:
        return f"{prefix}{node.arg}"
    return node.arg.name if isinstance(node.arg, Variable) else str(node.arg)


def number_text(value: object, dtype: DType) -> str:
    """A number such that reading it as a constant of this dtype gives it back: the shortest such for floats."""
    if isinstance(value, float):
        if math.isfinite(value) and dtype.is_float:
            short = str(float(str(dtype.scalar.numpy.type(value))))
            if dtype.scalar.const(float(short)) == value:
                return short
        return repr(value)
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


def _pieces(node: UOp, bare: bool) -> tuple[int, list[_Piece]]:
    """The text of one node around its operands, and how tightly it binds."""
    op, src = node.op, node.src
    if op in CONSTANTS:
        return _constant(node, bare)
    if op in _BINARY_SYMBOLS:
        symbol, binding = _BINARY_SYMBOLS[op]
        left, right = _operands(src)
        if op in _TYPED_LEFT:
            left = left._replace(bare=False)
        loose = binding + 1 if op in COMPARISONS else binding
        return binding, [left._replace(binding=loose), f" {symbol} ", right._replace(binding=binding + 1)]
    if op is Ops.POW:
        left, right = _operands(src)
        return _POWER, [_Operand(left.node, _POWER + 1), " ** ", right._replace(binding=_UNARY)]
    if op in _UNARY_SYMBOLS:
        return _UNARY, [_UNARY_SYMBOLS[op], _Operand(src[0], _UNARY)]
    if op is Ops.CAST:
        return _call(node.dtype.scalar.name, [_Operand(src[0])])
    if op is Ops.BITCAST:
        return _call("bitcast", [_Operand(src[0]), node.dtype.name])
    if op is Ops.WHERE:
        return _call("where", [_Operand(src[0], bare=True), *_operands(src[1:])])
    if op is Ops.GEP:
        return _call("gep", [_Operand(src[0]), *map(str, cast("tuple[int, ...]", node.arg))])
    if op is Ops.INVALID:
        return (_ATOM, ["INVALID"]) if node.dtype is index else _call("invalid", [node.dtype.name])
    if op is Ops.INDEX:
        # The indices are index values, so a bare number among them is one too.
        indices = [_Operand(s, bare=s.dtype is index) for s in src[1:]]
        return _call("at" if node.dtype.is_pointer else "get", [_Operand(src[0]), *indices])
    if op is Ops.REDUCE:
        lanes = [] if node.dtype is src[0].dtype else [f"lanes={node.dtype.lanes}"]
        name = f"reduce_{cast('Ops', node.arg).name.lower()}"
        return _call(name, [*map(_Operand, src), *lanes])
    name = _FUNCTIONS.get(op, op.name.lower())
    if op in ALU or op is Ops.VECTORIZE:
        return _call(name, _operands(src))
    arg = [] if node.arg is None else [str(node.arg)]
    return _call(name, [*map(_Operand, src), *arg])


def _call(name: str, arguments: Iterable[_Piece]) -> tuple[int, list[_Piece]]:
    pieces: list[_Piece] = [f"{name}("]
    for position, argument in enumerate(arguments):
        if position:
            pieces.append(", ")
        pieces.append(argument)
    return _ATOM, [*pieces, ")"]


def _operands(sources: tuple[UOp, ...]) -> list[_Operand]:
    """Operands of one dtype: a constant is bare if another operand says what that is."""
    plain = any(source.op not in CONSTANTS for source in sources)
    return [_Operand(source, bare=plain) for source in sources]


def _constant(node: UOp, bare: bool) -> tuple[int, list[_Piece]]:
    dtype = node.dtype
    if isinstance(node.arg, tuple):
        return _call(dtype.name, [number_text(value, dtype) for value in node.arg])
    text = number_text(node.arg, dtype)
    return (_ATOM, [text]) if bare else _call(dtype.name, [text])
