"""Parsing: from text to programs.

The grammar is in `docs/ptir_text.md`. Regions nest on a stack of this module's own, so neither the length of a
text nor its nesting meets Python's recursion limit; nesting beyond `MAX_NESTING` is an error. Every instruction
is checked as it is read: an op's own complaint about its operands becomes a `ParseError` at its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, cast

from planish.errors import ParseError, PlanishError
from planish.ptir.fields import record_of
from planish.ptir.function import Function, Program, Region, Value
from planish.ptir.instruction_reader import NAME, Head, InstructionReader
from planish.ptir.ops.collective import MeshLayout
from planish.ptir.printer import HEADER, VERSION
from planish.ptir.types import TensorType
from planish.records import dataclass

MAX_NESTING: Final = 100
"""How deep regions may nest: far more than programs do, and few enough for every tool that recurses."""


@dataclass(slots=True)
class _Frame:
    """A region being read: the instruction it will belong to, and the names that end with it."""

    region: Region
    head: Head | None
    defined: list[str] = field(default_factory=list)


class PtirParser(InstructionReader):
    """Reads programs and functions."""

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
        if reader.take_word("layout"):
            function.layout = cast("MeshLayout", record_of(MeshLayout).read(reader))
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

    def params(self, frame: _Frame) -> None:
        """`%x: type, …)` behind the parenthesis."""
        reader = self.reader
        first = True
        while not reader.take(")"):
            if not first:
                reader.expect(",")
            first = False
            offset = reader.here()
            name = reader.need(NAME, "a value such as %x", "')'").group()
            reader.expect(":")
            type = reader.tensor_type()
            self.define(frame, name, frame.region.add_arg(type, self.hint(name, offset)), offset)

    # --- names ---

    def define(self, frame: _Frame, name: str, value: Value, offset: int) -> None:
        """Put a name in force; `offset` is where the instruction or parameter begins."""
        key = self.key(name, offset)
        if key in self.values:
            offset = self.offset_of(name, offset)
            self.reader.fail(f"{name} is defined already", offset=offset, remedy="a value is defined once")
        name = key
        self.values[name] = value
        frame.defined.append(name)

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

    def enter(self, head: Head, outer: Region) -> _Frame:
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

    # --- the end of an instruction ---

    def append(self, head: Head, frame: _Frame) -> None:
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


__all__ = ["MAX_NESTING", "ParseError", "PtirParser"]
