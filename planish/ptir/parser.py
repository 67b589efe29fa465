"""Parsing: from text to programs.

The grammar is in `docs/ptir_text.md`. Regions nest on a stack of this module's own, so neither the length of a
text nor its nesting meets Python's recursion limit; nesting beyond `MAX_NESTING` is an error. Every instruction
is checked as it is read: an op's own complaint about its operands becomes a `ParseError` at its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NoReturn, cast

from planish.errors import Location, ParseError, PlanishError, did_you_mean
from planish.ptir.fields import Record, record_of
from planish.ptir.function import Function, Program, Region, Value
from planish.ptir.ops.control import CallAttrs
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, RETURN, Attrs, ConstantAttrs, NoAttrs, OpDef
from planish.ptir.printer import HEADER, RESULTS_FIELD, VERSION
from planish.ptir.reader import SYMBOL, Reader
from planish.ptir.types import Dim, TensorType

MAX_NESTING: Final = 100
"""How deep regions may nest: far more than programs do, and few enough for every tool that recurses."""

# Possessive: spaces and comments are never given back, so that text that fits nowhere fails at once.
_GAP: Final = r"(?:\s|//[^\n]*+)*+"
_VALUE: Final = r'%(?:[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|"(?:[^"\\\n]|\\.)*")(?:#[0-9]+)?'
_NAME: Final = re.compile(_VALUE)
_RESULTS: Final = re.compile(rf"({_VALUE}(?:{_GAP},{_GAP}{_VALUE})*){_GAP}=")
# Operands begin on the line of their op: what an op without any has below it is the next instruction.
_OPERANDS: Final = re.compile(rf"[ \t]*({_VALUE}(?:{_GAP},{_GAP}{_VALUE})*)")
_OP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IS_ATTRS: Final = re.compile(rf"\{{{_GAP}(?:\}}|[A-Za-z_][A-Za-z0-9_]*{_GAP}=)")
_FLAT_ATTRS: Final = re.compile(r'\{[^{}"/]*\}')
_FLAT_DATA: Final = re.compile(
    r'(?:base64|hex)"[^"]*"|\((?:[^()]|\([^()]*\))*\)|[-+]?[A-Za-z0-9_.]+(?:[-+][0-9]+)?(?:\(0x[0-9a-fA-F]*\))?'
)
_BRACKET: Final = re.compile(r"[\[\]]")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


# The common line, as printed: results, op, operands, attributes, one type, and below it something that begins anew.
_SIMPLE: Final = r"%(?:[A-Za-z_][A-Za-z0-9_.]*(?:#[0-9]+)?|[0-9]+)"
_LINE: Final = re.compile(
    rf"[ \t]*({_SIMPLE}(?:, {_SIMPLE})*) = ([a-z0-9_]+)(?: ({_SIMPLE}(?:, {_SIMPLE})*))?"
    r'(?: (\{[^{}"/\n]+\}))? : (tensor<[^<>\n]*>)\n(?=[ \t]*[%}r])'
)


class _Head:
    """An instruction up to its regions."""

    __slots__ = (
        "attrs",
        "loc",
        "made_by",
        "names",
        "offset",
        "op",
        "operands",
        "regions",
        "types",
        "types_at",
    )

    def __init__(self, op: OpDef, offset: int) -> None:
        self.op = op
        self.offset = offset
        self.names: list[str] = []
        self.operands: tuple[Value, ...] = ()
        self.attrs: Attrs = NO_ATTRS
        self.types: tuple[TensorType, ...] | None = None
        self.types_at = offset
        self.loc: Location | None = None
        self.made_by: str | None = None
        self.regions: list[Region] = []


class _Frame:
    """A region being read: the instruction it will belong to, and the names that end with it."""

    __slots__ = ("defined", "head", "region")

    def __init__(self, region: Region, head: _Head | None) -> None:
        self.region = region
        self.head = head
        self.defined: list[str] = []


class Parser:
    """Reads one text; `reader` keeps the place in it."""

    def __init__(self, text: str, *, file: str | None = None, dims: Mapping[str, Dim] | None = None) -> None:
        self.reader = Reader(text, file=file, dims=dims or {})
        self.values: dict[str, Value] = {}
        """Names in force."""
        self.ended: set[str] = set()
        """Names that were in force inside regions that have ended."""
        self.loc: Location | None = None
        """What instructions without a location of their own get."""
        self._attrs: dict[tuple[OpDef, str], Attrs] = {}
        self._line = 1
        self._line_at = 0

    # --- programs and functions ---

    def program(self) -> Program:
        self.header()
        reader = self.reader
        program = Program()
        entry: str | None = None
        while reader.peek():
            start = reader.position
            marked = reader.take_word("entry")
            if not reader.take_word("func"):
                reader.unexpected("func" if marked else "func or the end")
            function = self.function()
            if function.name in program.functions:
                reader.fail(f"there are two functions @{function.name}", offset=start)
            program.add(function)
            if marked:
                if entry is not None:
                    reader.fail(f"@{entry} is the entry already", offset=start)
                entry = function.name
        if entry is not None:
            program.entry_name = entry
        return program

    def header(self) -> None:
        reader = self.reader
        reader.skip()
        start = reader.position
        if not reader.take_word("ptir"):
            reader.unexpected(f"the header {HEADER!r}")
        version = reader.integer()
        if version != VERSION:
            reader.fail(
                f"this text is of version {version}",
                offset=start,
                remedy=f"this planish reads version {VERSION}",
            )

    def function(self) -> Function:
        """A function, from behind the word `func`."""
        reader = self.reader
        reader.expect("@")
        name = self.symbol("the name of a function")
        reader.declare(reader.declarations())
        self.values = {}
        self.ended = set()
        self._attrs = {}
        function = Function(name)
        frame = _Frame(function.body, None)
        reader.expect("(")
        self.params(frame)
        reader.expect("->")
        reader.skip()
        types_at = reader.position
        if reader.take("("):
            types: tuple[TensorType, ...] = ()
            if not reader.take(")"):
                types = self.types()
                reader.expect(")")
        else:
            types = (reader.tensor_type(),)
        self.place(function)
        reader.expect("{")
        self.body(frame)
        given = function.result_types
        if given != types:
            shown = [", ".join(str(t) for t in each) or "nothing" for each in (given, types)]
            reader.fail(f"@{name} returns {shown[0]}, not {shown[1]}", offset=types_at)
        return function

    def snippet(self, params: Mapping[str, TensorType]) -> Function:
        """A bare body, from its first instruction to the end of the text behind its `return`."""
        function = Function("snippet", tuple(params.values()), tuple(params))
        frame = _Frame(function.body, None)
        for name, value in zip(params, function.params, strict=True):
            self.define(frame, f"%{name}", value, 0)
        self.body(frame, closed=False)
        return function

    def place(self, function: Function) -> None:
        reader = self.reader
        function.loc = reader.location() or self.here(reader.position)

    def symbol(self, expected: str) -> str:
        found = self.reader.match(SYMBOL)
        return self.reader.string(expected) if found is None else found.group()

    def params(self, frame: _Frame) -> None:
        """`%x: type, …)` behind the parenthesis."""
        reader = self.reader
        first = True
        while not reader.take(")"):
            if not first:
                reader.expect(",")
            first = False
            reader.skip()
            offset = reader.position
            found = reader.match(_NAME)
            if found is None:
                reader.unexpected("a value such as %x", "')'")
            reader.expect(":")
            type = reader.tensor_type()
            name = found.group()
            self.define(frame, name, frame.region.add_arg(type, self.hint(name, offset)), offset)

    def types(self) -> tuple[TensorType, ...]:
        reader = self.reader
        types = [reader.tensor_type()]
        while reader.take(","):
            types.append(reader.tensor_type())
        return tuple(types)

    # --- names ---

    def hint(self, name: str, offset: int) -> str | None:
        """What the user calls the value: the name without its number, if it is not a number itself."""
        if _PLAIN.match(name, 1):
            return name[1:]
        if name[1].isdigit():
            if "#" in name:
                self.reader.fail(f"{name} is not a name", "a value such as %x", offset=offset)
            return None
        if name[1] != '"':
            return name[1 : name.index("#")]
        try:
            return cast("str", json.loads(name[1 : name.rindex('"') + 1], strict=False))
        except ValueError:
            self.reader.fail("this name has a bad escape", offset=offset)

    def key(self, name: str, offset: int) -> str:
        """One spelling for names that may be written with and without quotes."""
        if name[1] != '"':
            return name
        number = name[name.rindex('"') + 1 :]
        hint = self.hint(name, offset) or ""
        return f"%{hint}{number}" if SYMBOL.fullmatch(hint) else name

    def define(self, frame: _Frame, name: str, value: Value, offset: int) -> None:
        """Put a name in force; `offset` is where the instruction or parameter begins."""
        key = self.key(name, offset)
        if key in self.values:
            offset = self.offset_of(name, offset)
            self.reader.fail(f"{name} is defined already", offset=offset, remedy="a value is defined once")
        name = key
        self.values[name] = value
        frame.defined.append(name)

    def names(self, found: re.Match[str]) -> list[str]:
        text = found.group(1)
        if '"' in text or "/" in text:
            return [
                match.group()
                for match in _NAME.finditer(re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', r"\1", text))
            ]
        return [name.strip() for name in text.split(",")]

    def operands(self) -> tuple[Value, ...]:
        """The values named behind an op."""
        reader = self.reader
        found = _OPERANDS.match(reader.text, reader.position)
        if found is None:
            return ()
        reader.position = found.end()
        values: list[Value] = []
        for name in self.names(found):
            value = self.values.get(name)
            if value is None:
                value = self._find(name, found)
            values.append(value)
        if reader.peek() == ",":
            reader.position += 1
            reader.unexpected("a value such as %x")
        return tuple(values)

    def _find(self, name: str, found: re.Match[str]) -> Value:
        """A value whose name may be spelled otherwise than where it was defined."""
        key = self.key(name, found.start(1))
        value = self.values.get(key)
        return self._undefined(name, key, found.start()) if value is None else value

    def offset_of(self, name: str, start: int) -> int:
        """Where a name stands first, for messages."""
        return next(m.start() for m in _NAME.finditer(self.reader.text, start) if m.group() == name)

    def _undefined(self, name: str, key: str, start: int) -> NoReturn:
        reader = self.reader
        offset = self.offset_of(name, start)
        if key in self.ended:
            reader.fail(
                f"{name} is defined inside a region that has ended",
                offset=offset,
                remedy="make it a result of the region",
            )
        close = did_you_mean(key, self.values)
        reader.fail(
            f"{name} is not defined here",
            offset=offset,
            remedy="a value is defined before it is used" if close is None else f"did you mean {close}?",
        )

    # --- bodies ---

    def body(self, frame: _Frame, *, closed: bool = True) -> None:
        """Instructions up to the `}` that ends the region of `frame`, or up to the end of the text."""
        reader = self.reader
        stack = [frame]
        while stack:
            top = stack[-1]
            head = self.quick_head() or self.head()
            if head is None:
                self.finish(top)
                stack.pop()
                if stack or closed:
                    reader.expect("}")
                elif reader.peek():
                    reader.unexpected("the end")
                self.leave(top)
                if top.head is None:
                    continue
                top.head.regions.append(top.region)
                if reader.peek() in ("{", "("):
                    stack.append(self.enter(top.head, stack[-1].region))
                else:
                    self.append(top.head, stack[-1])
            elif reader.peek() == "{" or (head.op.has_regions and reader.peek() == "("):
                if len(stack) > MAX_NESTING:
                    reader.fail(f"regions nest more than {MAX_NESTING} deep")
                if not head.op.has_regions:
                    reader.fail(f"{head.op.name} has no regions", "the next instruction")
                stack.append(self.enter(head, top.region))
            else:
                self.append(head, top)

    def enter(self, head: _Head, outer: Region) -> _Frame:
        frame = _Frame(Region(outer.function), head)
        if self.reader.take("("):
            self.params(frame)
        self.reader.expect("{")
        return frame

    def leave(self, frame: _Frame) -> None:
        for name in frame.defined:
            del self.values[name]
        if frame.head is not None:
            self.ended.update(frame.defined)

    def finish(self, frame: _Frame) -> None:
        """The operands of `return`."""
        frame.region.set_results(self.operands())
        frame.region.end.loc = self.reader.location()

    def quick_head(self) -> _Head | None:
        """A whole line in one step, if it looks as printed and every part of it was met before; else None.

        It knows no grammar of its own beyond the shape of the line: parts that are new, unknown or special are left
        to `head`.
        """
        reader = self.reader
        start = reader.position
        if reader.text.startswith("\n", start):
            start += 1
        found = _LINE.match(reader.text, start)
        if found is None:
            return None
        names, name, operands, attrs, type = found.groups()
        op = REGISTRY.get(name)
        stated = reader.types.get(type)
        if op is None or stated is None or op is RETURN or op.has_regions:
            return None
        head = _Head(op, found.start(1))
        if attrs is not None:
            known = self._attrs.get((op, attrs))
            if known is None:
                return None
            head.attrs = known
        elif op.attrs_type is not NoAttrs:
            return None
        if operands is not None:
            values = [self.values.get(operand) for operand in operands.split(", ")]
            if None in values:
                return None
            head.operands = tuple(cast("list[Value]", values))
        head.names = names.split(", ")
        head.types = (stated,)
        head.types_at = found.start(5)
        head.loc = self.here(head.offset)
        # Before the line break: whoever reads on skips it, and the next quick line begins behind it.
        reader.position = found.end() - 1
        return head

    def head(self) -> _Head | None:
        """An instruction up to its regions; None behind the word `return`."""
        reader = self.reader
        reader.skip()
        start = reader.position
        names: list[str] = []
        if reader.text.startswith("%", start):
            found = _RESULTS.match(reader.text, start)
            if found is None:
                self._explain_results()
            reader.position = found.end()
            names = self.names(found)
        reader.skip()
        op_at = reader.position
        word = _OP.match(reader.text, op_at)
        if word is None:
            reader.unexpected(*(("an op",) if names else ("an instruction", "return")))
        reader.position = word.end()
        op = REGISTRY.get(word.group())
        if op is None:
            self._unknown_op(word.group(), op_at)
        if op is RETURN:
            if names:
                reader.fail("return has no results", offset=start)
            return None
        head = _Head(op, start)
        head.names = names
        self.arguments(head)
        head.loc = reader.location() or self.here(start)
        if reader.take_word("by"):
            head.made_by = reader.string()
        return head

    def _explain_results(self) -> NoReturn:
        reader = self.reader
        while True:
            if reader.match(_NAME) is None:
                reader.unexpected("a value such as %x")
            if not reader.take(","):
                reader.unexpected("'='", "','")

    def _unknown_op(self, name: str, offset: int) -> NoReturn:
        close = did_you_mean(name, REGISTRY)
        hint = "ptir.ops.REGISTRY lists the ops" if close is None else f"did you mean {close!r}?"
        self.reader.fail(f"there is no op {name!r}", offset=offset, remedy=hint)

    def arguments(self, head: _Head) -> None:
        """Data or callee, operands, attributes, result types."""
        reader = self.reader
        attrs_type = head.op.attrs_type
        data_at = data_end = -1
        callee: str | None = None
        if attrs_type is ConstantAttrs:
            data_at, data_end = self.data()
        elif attrs_type is CallAttrs and reader.take("@"):
            callee = self.symbol("the name of a function")
        head.operands = self.operands()
        reader.skip()
        attrs_at = reader.position
        record = record_of(attrs_type)
        special = callee is not None or data_at >= 0 or RESULTS_FIELD in record.fields
        given: dict[str, object] | None = None
        if not special:
            self._plain_attrs(head, record)
        elif _IS_ATTRS.match(reader.text, attrs_at):
            reader.position += 1
            given = record.read_fields(reader)
        if reader.take(":"):
            reader.skip()
            head.types_at = reader.position
            if reader.take("("):
                reader.expect(")")
                head.types = ()
            else:
                head.types = self.types()
        if special:
            fields = given or {}
            if callee is not None:
                fields["callee"] = callee
            if data_at >= 0:
                self._read_data(head, fields, data_at, data_end)
            if RESULTS_FIELD in record.fields and RESULTS_FIELD not in fields and head.types is not None:
                fields[RESULTS_FIELD] = head.types
            head.attrs = cast("Attrs", record.make(reader, fields, attrs_at))

    def _plain_attrs(self, head: _Head, record: Record) -> None:
        reader = self.reader
        start = reader.position
        op = head.op
        if not _IS_ATTRS.match(reader.text, start):
            if op.attrs_type is not NoAttrs:
                head.attrs = cast("Attrs", record.make(reader, {}, head.offset))
            return
        flat = _FLAT_ATTRS.match(reader.text, start)
        if flat is not None:
            known = self._attrs.get((op, flat.group()))
            if known is not None:
                reader.position = flat.end()
                head.attrs = known
                return
        reader.position += 1
        given = record.read_fields(reader)
        # Ops without attributes share one record.
        head.attrs = (
            NO_ATTRS if op.attrs_type is NoAttrs else cast("Attrs", record.make(reader, given, start))
        )
        if flat is not None:
            self._attrs[op, flat.group()] = head.attrs

    # --- constants ---

    def data(self) -> tuple[int, int]:
        """Where the data of a constant stands; it cannot be read before its type is known. (-1, -1) if nowhere."""
        reader = self.reader
        character = reader.peek()
        start = reader.position
        if character in ("{", ":", ""):
            return -1, -1
        if character == "[":
            depth = 0
            for bracket in _BRACKET.finditer(reader.text, start):
                depth += 1 if bracket.group() == "[" else -1
                if depth == 0:
                    reader.position = bracket.end()
                    return start, bracket.end()
            reader.fail("this list is not closed", "']'")
        if reader.match(_FLAT_DATA) is None:
            reader.unexpected("a number", "a list", 'base64"…"')
        return start, reader.position

    def _read_data(self, head: _Head, fields: dict[str, object], start: int, end: int) -> None:
        reader = self.reader
        behind = reader.position
        if head.types is None or len(head.types) != 1:
            reader.fail("constant needs the type of its data", "': tensor<…>'")
        type = head.types[0]
        if not type.is_static:
            reader.fail(f"a constant cannot be a {type}: its sizes must be numbers", offset=head.types_at)
        reader.position = start
        fields["literal"] = reader.literal(type.dtype, type.shape)
        if reader.position != end:
            reader.unexpected("the end of the data")
        reader.position = behind
        if type.quant is not None:
            fields.setdefault("quant", type.quant)

    # --- the end of an instruction ---

    def append(self, head: _Head, frame: _Frame) -> None:
        """Check an instruction and put it at the end of its region."""
        op = head.op
        reader = self.reader
        regions = tuple(head.regions)
        try:
            types = op.result_types([value.type for value in head.operands], head.attrs, regions)
        except PlanishError as error:
            raise reader.error(
                error.message, offset=head.offset, remedy=error.remedy, op=error.op or op.name
            ) from error
        if head.types is not None and head.types != types:
            shown = [", ".join(str(t) for t in each) or "nothing" for each in (types, head.types)]
            reader.fail(f"{op.name} gives {shown[0]}, not {shown[1]}", offset=head.types_at)
        if len(head.names) != len(types):
            count = "1 result" if len(types) == 1 else f"{len(types)} results"
            reader.fail(f"{op.name} has {count}, not {len(head.names)}", offset=head.offset)
        inst = frame.region.append(op, head.operands, head.attrs, regions, types=types, loc=head.loc)
        inst.made_by = head.made_by
        for name, value in zip(head.names, inst.results, strict=True):
            value.name = self.hint(name, head.offset)
            self.define(frame, name, value, head.offset)

    def here(self, offset: int) -> Location | None:
        """The place in the file for an instruction that has no location of its own."""
        if self.reader.file is None:
            return self.loc
        self._line += self.reader.text.count("\n", self._line_at, offset)
        self._line_at = offset
        return Location(self.reader.file, self._line)


def parse_program(text: str, *, file: str | None = None) -> Program:
    """A program from its text form."""
    return Parser(text, file=file).program()


__all__ = ["MAX_NESTING", "ParseError", "Parser", "parse_program"]
