"""The text form of a kernel graph: one line per node, sources first, the root last.

    uop 1
    %0 = define_global slot=0 : *f32[40]
    %1 = range 10 axis=i:g : index
    %2 = mul %1, 4 : index
    %3 = index %0, %2 : f32

* `parse(print_graph(root), root.table) is root`: every argument is printed exactly, whatever the op.
* The text follows from the structure alone: it does not show in which order nodes were built, or what else the
  table holds. Constants (and `invalid`) stand where they are used; one whose dtype does not follow from its place
  carries it, as in `1.0:f32`. A line without `: dtype` is void. `#` starts a comment.
* A text that does not parse raises `ParseError` and leaves the table as it was.

`print_lines` and `parse_lines` are the same for a linear program, where the order of the lines is part of the meaning.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.cursor import IDENTIFIER
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import (
    COMPARISONS,
    CONSTANTS,
    Axis,
    Bufferize,
    Combine,
    Lanes,
    Law,
    Ops,
    ReduceAxes,
    TensorCore,
    Variable,
)
from planish.uop.reader import KEY_FORM, REF_FORM, Reader

VERSION: Final = 1

Names = Mapping[UOp, str]

_INLINE: Final = frozenset({Ops.CONST, Ops.INVALID})
_SAME_LAWS: Final = frozenset({Law.SAME, Law.FLOAT, Law.INTEGRAL, Law.BITS})


# -- numbers ---------------------------------------------------------------------------------------------------


def number_text(value: object, dtype: DType) -> str:
    """A constant of a dtype, exact and as short as that allows (0.1, not 0.10000000149011612, on f32)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, dtype)
    if isinstance(value, complex):
        part = dtypes.float32 if dtype.scalar is dtypes.complex64 else dtypes.float64
        return f"complex({_float_text(value.real, part)}, {_float_text(value.imag, part)})"
    return str(value)


def _float_text(value: float, dtype: DType) -> str:
    shortest = repr(value)
    if len(shortest) <= 5 or dtype.scalar is dtypes.float64:
        return shortest
    wanted = struct.pack("<d", value)
    for digits in range(2, 17):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<d", cast("float", dtype.scalar.const(short))) == wanted:
            return repr(short)
    return shortest


# -- arguments -------------------------------------------------------------------------------------------------


class _Codec(NamedTuple):
    """How one attribute is written and read."""

    write: Callable[[object, Names], str]
    read: Callable[[Reader], object]


class _Form(NamedTuple):
    """The attributes of an op's argument. `split` and `join` take the argument apart and put it together."""

    keys: tuple[tuple[str, _Codec], ...]
    split: Callable[[object], tuple[object, ...]]
    join: Callable[[tuple[object, ...]], object]
    optional: bool = False


def _write_name(value: object, names: Names) -> str:
    text = cast("str", value)
    return text if IDENTIFIER.fullmatch(text) else json.dumps(text)


def _write_value(value: object, names: Names) -> str:
    if isinstance(value, UOp):
        return names[value]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is tuple:
        inner = ", ".join(_write_value(item, names) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) in (int, float):
        return repr(value)
    if type(value) is str:
        return json.dumps(value)
    raise GraphError(
        f"{value!r} in an argument has no text form", remedy="use numbers, text, nodes and tuples"
    )


def _write_lanes(value: object, names: Names) -> str:
    parts = [f"{'_'.join(map(str, path))}:{size}" for path, size in cast("Lanes", value).axes]
    return f"({', '.join(parts)})"


def _write_bounds(value: object, names: Names) -> str:
    low, high = cast("tuple[int, int]", value)
    return f"{low}..{high}"


_INT_CODEC: Final = _Codec(lambda value, _: str(value), lambda reader: reader.integer())
_NAME_CODEC: Final = _Codec(_write_name, lambda reader: reader.name())
_BOOL_CODEC: Final = _Codec(lambda value, _: "true" if value else "false", lambda reader: reader.truth())
_OP_CODEC: Final = _Codec(lambda value, _: cast("Ops", value).name.lower(), lambda reader: reader.op())
_AXIS_CODEC: Final = _Codec(lambda value, _: cast("Axis", value).text, lambda reader: reader.axis())
_LANES_CODEC: Final = _Codec(_write_lanes, lambda reader: reader.lanes())
_BOUNDS_CODEC: Final = _Codec(_write_bounds, lambda reader: reader.bounds())
_TUPLE_CODEC: Final = _Codec(_write_value, lambda reader: reader.values())


def _one(key: str, codec: _Codec, optional: bool = False) -> _Form:
    """An argument that is one attribute."""
    return _Form(((key, codec),), lambda arg: (arg,), lambda parts: parts[0], optional)


_REDUCE_AXES: Final = _Form(
    (("op", _OP_CODEC), ("axes", _TUPLE_CODEC)),
    lambda arg: tuple(cast("ReduceAxes", arg)),
    lambda parts: ReduceAxes(cast("Ops", parts[0]), cast("tuple[int, ...]", parts[1])),
)
_FORMS: Final[dict[Ops, _Form]] = {
    Ops.DEFINE_GLOBAL: _one("slot", _INT_CODEC),
    Ops.DEFINE_LOCAL: _one("slot", _INT_CODEC),
    Ops.DEFINE_REG: _one("slot", _INT_CODEC),
    Ops.BUFFER: _one("slot", _INT_CODEC),
    Ops.DEFINE_VAR: _Form(
        (("name", _NAME_CODEC), ("bounds", _BOUNDS_CODEC)),
        lambda arg: (cast("Variable", arg).name, cast("Variable", arg)[1:]),
        lambda parts: Variable(cast("str", parts[0]), *cast("tuple[int, int]", parts[1])),
    ),
    Ops.SPECIAL: _one("name", _NAME_CODEC),
    Ops.RESHAPE: _one("shape", _TUPLE_CODEC),
    Ops.PERMUTE: _one("order", _TUPLE_CODEC),
    Ops.EXPAND: _one("shape", _TUPLE_CODEC),
    Ops.PAD: _one("by", _TUPLE_CODEC),
    Ops.SHRINK: _one("box", _TUPLE_CODEC),
    Ops.FLIP: _one("axes", _TUPLE_CODEC),
    Ops.CONTIGUOUS: _one("hints", _TUPLE_CODEC, optional=True),
    Ops.REDUCE_AXIS: _REDUCE_AXES,
    Ops.SCAN_AXIS: _REDUCE_AXES,
    Ops.RANGE: _one("axis", _AXIS_CODEC),
    Ops.REDUCE: _one("op", _OP_CODEC),
    Ops.SCAN: _one("op", _OP_CODEC),
    Ops.BUFFERIZE: _Form(
        (("space", _NAME_CODEC), ("removable", _BOOL_CODEC)),
        lambda arg: tuple(cast("Bufferize", arg)),
        lambda parts: Bufferize(cast("str", parts[0]), cast("bool", parts[1])),
    ),
    Ops.LOAD: _one("hint", _NAME_CODEC, optional=True),
    Ops.STORE: _one("hint", _NAME_CODEC, optional=True),
    Ops.PREFETCH: _one("locality", _INT_CODEC),
    Ops.UNROLL: _one("axes", _LANES_CODEC),
    Ops.CONTRACT: _one("axes", _LANES_CODEC),
    Ops.GEP: _one("lanes", _TUPLE_CODEC),
    Ops.COMBINE: _Form(
        (("op", _OP_CODEC), ("width", _INT_CODEC)),
        lambda arg: tuple(cast("Combine", arg)),
        lambda parts: Combine(cast("Ops", parts[0]), cast("int", parts[1])),
    ),
    Ops.WMMA: _Form(
        (("core", _NAME_CODEC), ("tile", _TUPLE_CODEC)),
        lambda arg: tuple(cast("TensorCore", arg)),
        lambda parts: TensorCore(cast("str", parts[0]), cast("tuple[int, int, int]", parts[1])),
    ),
}
"""How arguments read. CONST and VCONST, whose argument is a number, are written without a key."""


def _implied(op: Ops, dtype: DType, position: int, operands: DType | None) -> DType | None:
    """The dtype that a constant in this place has unless it says otherwise; `operands`: of the first typed one."""
    if op.law in _SAME_LAWS:
        return dtype
    if op in COMPARISONS:
        return operands
    match op:
        case Ops.WHERE | Ops.RARE:
            lanes = 1 if dtype.is_pointer else dtype.lanes
            return dtype if position else dtypes.bool_.vec(lanes)
        case Ops.RANGE | Ops.SPECIAL | Ops.REDUCE | Ops.SCAN | Ops.END | Ops.AFTER:
            return dtype
        case Ops.INDEX:
            return dtypes.index
        case Ops.VECTORIZE:
            return dtype.scalar
        case Ops.LOAD:
            return dtype if position == 1 else dtypes.bool_
        case Ops.IF:
            return dtypes.bool_
        case _:
            return None


# -- printing --------------------------------------------------------------------------------------------------


def arg_nodes(arg: object) -> list[UOp]:
    """The nodes inside an argument: sizes of symbolic shapes."""
    if type(arg) is not tuple:
        return []
    found: list[UOp] = []
    for item in arg:
        if isinstance(item, UOp):
            found.append(item)
        elif type(item) is tuple:
            found += arg_nodes(item)
    return found


def in_order(root: UOp) -> list[UOp]:
    """The nodes of a graph, sources (and nodes in arguments) first, in an order that the structure alone decides."""
    done: set[UOp] = set()
    order: list[UOp] = []
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        needed = node.src if type(node.arg) is not tuple else (*node.src, *arg_nodes(node.arg))
        waiting = [source for source in needed if source not in done]
        if waiting:
            waiting.reverse()
            stack += waiting
        else:
            done.add(node)
            order.append(node)
            stack.pop()
    return order


def name_nodes(nodes: Iterable[UOp], root: UOp, own_line: frozenset[UOp] = frozenset()) -> dict[UOp, str]:
    """The nodes that get a line, named in order: constants only where an inline one would not do."""
    order = list(nodes)
    needed = {root, *own_line}
    for node in order:
        if type(node.arg) is tuple:
            needed.update(arg_nodes(node.arg))
    lines = [node for node in order if node.op not in _INLINE or node in needed]
    return {node: f"%{number}" for number, node in enumerate(lines)}


def node_line(node: UOp, names: Names) -> str:
    """One node as a line, given the names of its sources. A source without a name is a constant or shown as `%?`."""
    op, dtype = node.op, node.dtype
    words = [f"{names[node]} = {op.name.lower()}"]
    typed = next((s.dtype for s in node.src if s in names), None)
    operands = [_operand(source, op, dtype, i, typed, names) for i, source in enumerate(node.src)]
    if op is Ops.CONST:
        operands = [number_text(node.arg, dtype)]
    elif op is Ops.VCONST:
        lanes = cast("tuple[object, ...]", node.arg)
        operands = [f"[{', '.join(number_text(value, dtype) for value in lanes)}]"]
    if operands:
        words.append(", ".join(operands))
    form = _FORMS.get(op)
    if form is not None and node.arg is not None:
        parts = form.split(node.arg)
        words += [
            f"{key}={codec.write(part, names)}" for (key, codec), part in zip(form.keys, parts, strict=True)
        ]
    if dtype is not dtypes.void:
        words.append(f": {dtype}")
    return " ".join(words)


def _operand(source: UOp, op: Ops, dtype: DType, position: int, typed: DType | None, names: Names) -> str:
    name = names.get(source)
    if name is not None:
        return name
    if source.op not in _INLINE:
        return "%?"
    text = "invalid" if source.op is Ops.INVALID else number_text(source.arg, source.dtype)
    return text if _implied(op, dtype, position, typed) is source.dtype else f"{text}:{source.dtype}"


def print_graph(root: UOp) -> str:
    """The graph under `root` as text that `parse` reads back."""
    names = name_nodes(in_order(root), root)
    return "\n".join([f"uop {VERSION}", *(node_line(node, names) for node in names), ""])


def print_lines(lines: Sequence[UOp]) -> str:
    """A linear program as text that `parse_lines` reads back: a line per node, in this order."""
    names = {node: f"%{number}" for number, node in enumerate(lines)}
    before: set[UOp] = set()
    for node in lines:
        for source in node.src:
            if source not in before and (source in names or source.op not in _INLINE):
                raise GraphError(
                    f"{node.op.name}: its source {source.op.name} does not come before it",
                    op=node.op.name,
                    remedy="put the lines in order; planish.uop.spec.check says what else is wrong",
                )
        before.add(node)
    return "\n".join([f"uop {VERSION}", *(node_line(node, names) for node in lines), ""])


# -- parsing ---------------------------------------------------------------------------------------------------

_HEADER: Final = re.compile(r"uop[ \t]+([0-9]+)[ \t\r]*(?:#.*)?")


class _Literal(NamedTuple):
    """A constant written where it is used. `value` None is `invalid`."""

    value: Number | None
    dtype: DType | None
    offset: int


class _Lines(Reader):
    """The grammar of lines."""

    def operand(self) -> UOp | _Literal:
        self.skip()
        start = self.position
        if start < self.end and self.text[start] == "%":
            return self.reference()
        value = self.constant()
        dtype = None
        if self.position < self.end and self.text[self.position] == ":":
            self.position += 1
            dtype = self.dtype()
        return _Literal(value, dtype, start)

    def line(self) -> UOp:
        self.skip()
        start = self.position
        name = self.match(REF_FORM)
        if name is None:
            self.unexpected("a line such as %3 = add %1, %2 : index")
        if name.group() in self.nodes:
            self.fail(
                f"{name.group()} is defined twice", offset=start, remedy="give each line its own number"
            )
        self.expect("=")
        self.skip()
        op_offset = self.position
        op = self.op()
        literal: Number | tuple[Number, ...] | None = None
        operands: list[UOp | _Literal] = []
        if op is Ops.VCONST:
            literal = self.lane_constants()
        elif op is Ops.CONST:
            literal = self.plain_number()
        else:
            operands = self.operands()
        arg = literal if op in CONSTANTS else self.attributes(op)
        dtype = self.dtype() if self.take(":") else dtypes.void
        self.line_ends(*["','"] if operands and arg is None and dtype is dtypes.void else [])
        node = self.make(op, dtype, operands, arg, op_offset)
        self.nodes[name.group()] = node
        self.defined[name.group()] = start
        return node

    def lane_constants(self) -> tuple[Number, ...]:
        self.expect("[")
        return tuple(self.until("]", self.plain_number))

    def operands(self) -> list[UOp | _Literal]:
        found: list[UOp | _Literal] = []
        if (
            self.at_end()
            or self.text[self.position] == ":"
            or KEY_FORM.match(self.text, self.position, self.end)
        ):
            return found
        found.append(self.operand())
        while self.take(","):
            found.append(self.operand())
        return found

    def attributes(self, op: Ops) -> object:
        form = _FORMS.get(op)
        given: dict[str, object] = {}
        while not self.at_end():
            start = self.position
            key = self.match(KEY_FORM)
            if key is None:
                break
            codec = dict(form.keys).get(key.group(1)) if form is not None else None
            if codec is None:
                known = [] if form is None else [k for k, _ in form.keys]
                takes = f"it takes {', '.join(f'{k}=' for k in known)}" if known else "it takes none"
                self.fail(f"{op.name.lower()} has no attribute {key.group(1)!r}", offset=start, remedy=takes)
            if key.group(1) in given:
                self.fail(f"{key.group(1)}= is given twice", offset=start)
            given[key.group(1)] = codec.read(self)
        if form is None or (form.optional and not given):
            return None
        for key_name, _ in form.keys:
            if key_name not in given:
                self.fail(f"{op.name.lower()} lacks an attribute: {self.found()}", f"{key_name}=")
        return form.join(tuple(given[key_name] for key_name, _ in form.keys))

    def make(
        self, op: Ops, dtype: DType, operands: Sequence[UOp | _Literal], arg: object, offset: int
    ) -> UOp:
        typed = next((o.dtype for o in operands if isinstance(o, UOp)), None)
        sources: list[UOp] = []
        for position, operand in enumerate(operands):
            if isinstance(operand, UOp):
                sources.append(operand)
                continue
            implied = operand.dtype or _implied(op, dtype, position, typed)
            if implied is None:
                self.fail(
                    "the dtype of this constant does not follow from its place",
                    offset=operand.offset,
                    remedy="write it behind the number, as in 1.0:f32",
                )
            kind = Ops.INVALID if operand.value is None else Ops.CONST
            sources.append(self.well_formed(kind, implied, (), operand.value, operand.offset))
        return self.well_formed(op, dtype, tuple(sources), arg, offset)

    def well_formed(self, op: Ops, dtype: DType, sources: tuple[UOp, ...], arg: object, offset: int) -> UOp:
        try:
            return self.table.make(op, dtype, sources, arg)
        except (GraphError, DTypeError) as error:
            self.fail(error.message, offset=offset, remedy=error.remedy)

    def header(self) -> None:
        found = _HEADER.match(self.text, self.position, self.end)
        if found is None or found.end() != self.end:
            self.fail("this is not a uop text", f"the header 'uop {VERSION}'")
        version = self.to_int(found.group(1), found.start(1))
        if version != VERSION:
            self.fail(f"this text has version {version}", f"version {VERSION}", offset=found.start(1))

    def read(self) -> list[UOp]:
        """All lines."""
        if not self.next_line():
            self.fail("the text is empty", f"the header 'uop {VERSION}'")
        self.header()
        lines: list[UOp] = []
        while self.next_line():
            lines.append(self.line())
        if not lines:
            self.fail("the text ends", "a line such as %3 = add %1, %2 : index")
        return lines


def _moved(arg: object, into: Mapping[UOp, UOp]) -> object:
    if isinstance(arg, UOp):
        return into[arg]
    return tuple(_moved(item, into) for item in arg) if type(arg) is tuple else arg


def copy_nodes(nodes: Iterable[UOp], table: Table) -> dict[UOp, UOp]:
    """The same nodes in another table; `nodes` come sources first."""
    into: dict[UOp, UOp] = {}
    for node in nodes:
        into[node] = table.make(
            node.op, node.dtype, tuple([into[source] for source in node.src]), _moved(node.arg, into)
        )
    return into


def parse(text: str, table: Table) -> UOp:
    """The root (the last line) of a graph, made in `table`."""
    reader = _Lines(text)
    with reader.table:
        root = reader.read()[-1]
        order = in_order(root)
        used = set(order)
        for name, node in reader.nodes.items():
            if node not in used:
                reader.fail(
                    f"{name} is not part of the last line, the root",
                    offset=reader.defined[name],
                    remedy="delete the line, or use it",
                )
        return copy_nodes(order, table)[root]


def parse_lines(text: str, table: Table) -> list[UOp]:
    """The lines of a linear program, made in `table`."""
    reader = _Lines(text)
    with reader.table:
        lines = reader.read()
        into = copy_nodes(reader.table, table)
        return [into[line] for line in lines]
