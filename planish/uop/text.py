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

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError
from planish.uop.argument_text import FORMS, Names, implied_dtype, number_text
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import CONSTANTS, Ops
from planish.uop.reader import KEY_FORM, REF_FORM, Reader

VERSION: Final = 1

_INLINE: Final = frozenset({Ops.CONST, Ops.INVALID})


# -- printing --------------------------------------------------------------------------------------------------


def arg_nodes(arg: object) -> list[UOp]:
    """The nodes inside an argument: sizes of symbolic shapes."""
    if type(arg) is not tuple:
        return []
    nodes: list[UOp] = []
    for item in arg:
        if isinstance(item, UOp):
            nodes.append(item)
        elif type(item) is tuple:
            nodes += arg_nodes(item)
    return nodes


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
    form = FORMS.get(op)
    if form is not None and node.arg is not None:
        parts = form.split(node.arg)
        words += [
            f"{key}={codec.write(part, names)}"
            for (key, codec), part in zip(form.keys, parts, strict=True)
            if (key, part) not in form.usual
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
    return text if implied_dtype(op, dtype, position, typed) is source.dtype else f"{text}:{source.dtype}"


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
        operands: list[UOp | _Literal] = []
        if (
            self.at_end()
            or self.text[self.position] == ":"
            or KEY_FORM.match(self.text, self.position, self.end)
        ):
            return operands
        operands.append(self.operand())
        while self.take(","):
            operands.append(self.operand())
        return operands

    def attributes(self, op: Ops) -> object:
        form = FORMS.get(op)
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
        given = {**dict(form.usual), **given}
        for key_name, _ in form.keys:
            if key_name not in given:
                self.fail(f"{op.name.lower()} lacks an attribute: {self.what_is_here()}", f"{key_name}=")
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
            implied = operand.dtype or implied_dtype(op, dtype, position, typed)
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
        match = _HEADER.match(self.text, self.position, self.end)
        if match is None or match.end() != self.end:
            self.fail("this is not a uop text", f"the header 'uop {VERSION}'")
        version = self.to_int(match.group(1), match.start(1))
        if version != VERSION:
            self.fail(f"this text has version {version}", f"version {VERSION}", offset=match.start(1))

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
