"""Reading one instruction of PTIR's text form, up to its regions: results, op, operands, attributes, types, location.

Names that are in force are known here; `Parser` puts them in force, nests regions and checks what was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, NoReturn, cast

from planish.errors import Location, did_you_mean
from planish.ptir.fields import RecordCodec, record_of
from planish.ptir.function import Region, Value
from planish.ptir.ops.control import CallAttrs
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, RETURN, Attrs, ConstantAttrs, NoAttrs, OpDef
from planish.ptir.printer import RESULTS_FIELD
from planish.ptir.reader import SYMBOL, PtirReader
from planish.ptir.types import Dim, TensorType
from planish.records import dataclass

# Possessive: spaces and comments are never given back, so that text that fits nowhere fails at once.
_GAP: Final = r"(?:\s|//[^\n]*+)*+"
_VALUE: Final = r'%(?:[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|"(?:[^"\\\n]|\\.)*")(?:#[0-9]+)?'
NAME: Final = re.compile(_VALUE)
_RESULTS: Final = re.compile(rf"({_VALUE}(?:{_GAP},{_GAP}{_VALUE})*){_GAP}=")
# Operands begin on the line of their op: what an op without any has below it is the next instruction.
_OPERANDS: Final = re.compile(rf"[ \t]*({_VALUE}(?:{_GAP},{_GAP}{_VALUE})*)")
_IS_ATTRS: Final = re.compile(rf"\{{{_GAP}(?:\}}|[A-Za-z_][A-Za-z0-9_]*{_GAP}=)")
_FLAT_ATTRS: Final = re.compile(r'\{[^{}"/]*\}')
_FLAT_DATA: Final = re.compile(
    r'(?:base64|hex)"[^"]*"|\((?:[^()]|\([^()]*\))*\)|[-+]?[A-Za-z0-9_.]+(?:[-+][0-9]+)?(?:\(0x[0-9a-fA-F]*\))?'
)
_BRACKET: Final = re.compile(r"[\[\]]")
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


# The common line, as printed: results, op, operands, attributes, one type, and below it something that begins anew.
_SIMPLE: Final = r"%(?:[A-Za-z_][A-Za-z0-9_.]*(?:#[0-9]+)?|[0-9]+)"
_LINE: Final = re.compile(
    rf"[ \t]*({_SIMPLE}(?:, {_SIMPLE})*) = ([a-z0-9_]+)(?: ({_SIMPLE}(?:, {_SIMPLE})*))?"
    r'(?: (\{[^{}"/\n]+\}))? : (tensor<[^<>\n]*>)\n(?=[ \t]*[%}r])'
)


@dataclass(slots=True)
class Head:
    """An instruction up to its regions."""

    op: OpDef
    offset: int
    types_at: int
    names: list[str] = field(default_factory=list)
    operands: tuple[Value, ...] = ()
    attrs: Attrs = NO_ATTRS
    types: tuple[TensorType, ...] | None = None
    loc: Location | None = None
    made_by: str | None = None
    regions: list[Region] = field(default_factory=list)


class InstructionReader:
    """Reads instructions; `reader` keeps the place in the text."""

    def __init__(self, text: str, *, file: str | None = None, dims: Mapping[str, Dim] | None = None) -> None:
        self.reader = PtirReader(text, file=file, dims=dims or {})
        self.values: dict[str, Value] = {}
        """Names in force."""
        self.ended: set[str] = set()
        """Names that were in force inside regions that have ended."""
        self.loc: Location | None = None
        """What instructions without a location of their own get."""
        self._attrs: dict[tuple[OpDef, str], Attrs] = {}
        self._line = 1
        self._line_at = 0

    def symbol(self, expected: str) -> str:
        match = self.reader.match(SYMBOL)
        return self.reader.string(expected) if match is None else match.group()

    def types(self) -> tuple[TensorType, ...]:
        reader = self.reader
        types = [reader.tensor_type()]
        while reader.take(","):
            types.append(reader.tensor_type())
        return tuple(types)

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
        return self.reader.unquote(name[1 : name.rindex('"') + 1], offset, "name")

    def key(self, name: str, offset: int) -> str:
        """One spelling for names that may be written with and without quotes."""
        if name[1] != '"':
            return name
        number = name[name.rindex('"') + 1 :]
        hint = self.hint(name, offset) or ""
        return f"%{hint}{number}" if SYMBOL.fullmatch(hint) else name

    def names(self, listed: re.Match[str]) -> list[str]:
        text = listed.group(1)
        if '"' in text or "/" in text:
            return [
                match.group()
                for match in NAME.finditer(re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', r"\1", text))
            ]
        return [name.strip() for name in text.split(",")]

    def operands(self) -> tuple[Value, ...]:
        """The values named behind an op."""
        reader = self.reader
        match = _OPERANDS.match(reader.text, reader.position)
        if match is None:
            return ()
        reader.position = match.end()
        values: list[Value] = []
        for name in self.names(match):
            value = self.values.get(name)
            if value is None:
                value = self._find(name, match)
            values.append(value)
        if reader.peek() == ",":
            reader.position += 1
            reader.unexpected("a value such as %x")
        return tuple(values)

    def _find(self, name: str, match: re.Match[str]) -> Value:
        """A value whose name may be spelled otherwise than where it was defined."""
        key = self.key(name, match.start(1))
        value = self.values.get(key)
        return self._undefined(name, key, match.start()) if value is None else value

    def offset_of(self, name: str, start: int) -> int:
        """Where a name stands first, for messages."""
        return next(m.start() for m in NAME.finditer(self.reader.text, start) if m.group() == name)

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

    def quick_head(self) -> Head | None:
        """A whole line in one step, if it looks as printed and every part of it was met before; else None.

        It knows no grammar of its own beyond the shape of the line: parts that are new, unknown or special are left
        to `head`.
        """
        reader = self.reader
        start = reader.position
        if reader.text.startswith("\n", start):
            start += 1
        line = _LINE.match(reader.text, start)
        if line is None:
            return None
        names, name, operands, attrs, type = line.groups()
        op = REGISTRY.get(name)
        stated = reader.types.get(type)
        if op is None or stated is None or op is RETURN or op.has_regions:
            return None
        head = Head(op, line.start(1), line.start(5))
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
        head.loc = self.here(head.offset)
        # Before the line break: whoever reads on skips it, and the next quick line begins behind it.
        reader.position = line.end() - 1
        return head

    def head(self) -> Head | None:
        """An instruction up to its regions; None behind the word `return`."""
        reader = self.reader
        reader.skip()
        start = reader.position
        names: list[str] = []
        if reader.text.startswith("%", start):
            match = _RESULTS.match(reader.text, start)
            if match is None:
                self._explain_results()
            reader.position = match.end()
            names = self.names(match)
        op_at = reader.here()
        word = reader.word(*(("an op",) if names else ("an instruction", "return")))
        op = REGISTRY.get(word)
        if op is None:
            reader.unknown("there is no op", word, REGISTRY, "ptir.ops.REGISTRY lists the ops", op_at)
        if op is RETURN:
            if names:
                reader.fail("return has no results", offset=start)
            return None
        head = Head(op, start, start)
        head.names = names
        self.arguments(head)
        head.loc = reader.location() or self.here(start)
        if reader.take_word("by"):
            head.made_by = reader.string()
        return head

    def _explain_results(self) -> NoReturn:
        reader = self.reader
        while True:
            reader.need(NAME, "a value such as %x")
            if not reader.take(","):
                reader.unexpected("'='", "','")

    def arguments(self, head: Head) -> None:
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
        end = reader.position
        reader.skip()
        attrs_at = reader.position
        if data_at < 0 and not head.op.has_regions and "\n" not in reader.text[end:attrs_at]:
            self._explain_arguments(head)
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

    def _explain_arguments(self, head: Head) -> None:
        """What stands where operands or attributes are expected, if it is how other languages write them."""
        reader = self.reader
        at = reader.position
        if reader.text.startswith("{", at) and not _IS_ATTRS.match(reader.text, at):
            reader.fail(
                "these are no attributes", offset=at, remedy=f"write {head.op.name} %x {{name=value, …}}"
            )
        if head.operands:
            return
        if reader.text.startswith("(", at):
            reader.fail(
                "operands stand without parentheses", offset=at, remedy=f"write {head.op.name} %x, %y"
            )
        word = _WORD.match(reader.text, at)
        if word is not None and f"%{word.group()}" in self.values:
            reader.fail(
                f"found {word.group()!r}", "a value such as %x", remedy=f"write %{word.group()}", offset=at
            )

    def _plain_attrs(self, head: Head, record: RecordCodec) -> None:
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
        reader.need(_FLAT_DATA, "a number", "a list", 'base64"…"')
        return start, reader.position

    def _read_data(self, head: Head, fields: dict[str, object], start: int, end: int) -> None:
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

    def here(self, offset: int) -> Location | None:
        """The place in the file for an instruction that has no location of its own."""
        if self.reader.file is None:
            return self.loc
        self._line += self.reader.text.count("\n", self._line_at, offset)
        self._line_at = offset
        return Location(self.reader.file, self._line)
