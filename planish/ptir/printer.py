"""Printing: programs, functions and instructions as text that parses back.

Values print under their name, numbered behind `#` where a name is taken in that place (`%x#1`), and values
without one are counted in order of appearance. The text follows from the structure alone: it shows neither ids
nor what happened to the program before. Nothing here recurses, and malformed IR prints too (a value that is
not defined where it is used as `%?7`, with its id), so that the verifier can show it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final

from planish.errors import Location
from planish.ptir.fields import record_of
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.literal_text import MAX_LISTED, literal_text
from planish.ptir.ops.collective import MeshLayout
from planish.ptir.ops.control import CallAttrs
from planish.ptir.ops.definition import Attrs, ConstantAttrs, NoAttrs
from planish.ptir.reader import SYMBOL
from planish.ptir.types import Dim, Symbol, TensorType

VERSION: Final = 1
HEADER: Final = f"ptir {VERSION}"
RESULTS_FIELD: Final = "results"
"""An attribute of this name that repeats the result types is left out."""


def symbol_text(name: str) -> str:
    """The name of a function or value, quoted if it has to be."""
    return name if SYMBOL.fullmatch(name) else json.dumps(name)


def location_text(loc: Location) -> str:
    column = "" if loc.column is None else f":{loc.column}"
    function = "" if loc.function is None else f" in {json.dumps(loc.function)}"
    return f"loc({json.dumps(loc.file)}:{loc.line}{column}{function})"


def symbols_in(value: object) -> Iterator[Symbol]:
    """Every named size in an attribute or type, with repetition."""
    if isinstance(value, Dim | TensorType):
        yield from value.symbols()
    elif isinstance(value, tuple):
        for part in value:
            yield from symbols_in(part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from symbols_in(getattr(value, field.name))


class FunctionPrinter:
    """The lines of one function, and on which of them each instruction stands."""

    def __init__(
        self,
        function: Function,
        *,
        locations: bool = False,
        ids: bool = False,
        lenient: bool = False,
        brief: bool = False,
    ) -> None:
        self.function = function
        self.locations = locations
        self.ids = ids
        self.lenient = lenient
        """Show attributes that are not what they should be, instead of failing."""
        self.brief = brief
        """Leave out data that would be printed as bytes: to be looked at, not to be read back."""
        self.lines: list[str] = []
        self.line_of: dict[Inst, int] = {}
        """The index of the line an instruction (or the end of a region) begins on."""
        self.names: dict[Value, str] = {}
        """What each value is called."""
        self._taken: set[str] = set()
        self._count = 0
        self._types: dict[TensorType, str] = {}
        self._attrs: dict[int, tuple[Attrs, str]] = {}
        self._dims: dict[Symbol, None] = {}

    def print(self) -> list[str]:
        """All lines, the header with its declarations first."""
        function = self.function
        self.lines.append("")
        params = self._params(function.params)
        self._body(function.body)
        self.lines.append("}")
        types = [self._type(value.type) for value in function.results]
        results = types[0] if len(types) == 1 else f"({', '.join(types)})"
        # Last, because only now all named sizes are known.
        dims = ", ".join(repr(symbol) for symbol in self._dims)
        place = self._place(function.loc, None)
        name = symbol_text(function.name)
        layout = "" if function.layout is None else f" layout {record_of(MeshLayout).write(function.layout)}"
        self.lines[0] = f"func @{name}{f'<{dims}>' if dims else ''}({params}) -> {results}{layout}{place} {{"
        return self.lines

    # --- values and types ---

    def _define(self, value: Value) -> str:
        if value.name is None:
            name = f"%{value.id if self.ids else self._count}"
            self._count += 1
        else:
            base = name = f"%{symbol_text(value.name)}"
            number = 0
            while name in self._taken:
                number += 1
                name = f"{base}#{number}"
        self.names[value] = name
        self._taken.add(name)
        return name

    def _use(self, value: Value) -> str:
        return self.names.get(value) or f"%?{value.id}"

    def _type(self, type: TensorType) -> str:
        if type.quant is not None:
            # Equal quantisations may differ in the sign of a zero, so these are not shared.
            self._note(type.symbols())
            return str(type)
        text = self._types.get(type)
        if text is None:
            self._note(type.symbols())
            text = self._types[type] = str(type)
        return text

    def _note(self, symbols: Iterable[Symbol]) -> None:
        for symbol in symbols:
            self._dims.setdefault(symbol)

    def _params(self, values: Sequence[Value]) -> str:
        return ", ".join([f"{self._define(value)}: {self._type(value.type)}" for value in values])

    # --- instructions ---

    def _body(self, body: Region) -> None:
        """The instructions of a region and of those nested in it, down to each `return`."""
        stack = [_Open(body, iter(body))]
        while stack:
            top = stack[-1]
            inst = next(top.insts, None)
            indent = "  " * len(stack)
            if inst is not None:
                self.line_of[inst] = len(self.lines)
                self.lines.append(indent + self._inst(inst))
                if inst.regions:
                    stack.append(self._open(inst, 0, ""))
                continue
            end = top.region.end
            self.line_of[end] = len(self.lines)
            operands = ", ".join([self._use(value) for value in end.operands])
            returned = f"return {operands}" if operands else "return"
            self.lines.append(f"{indent}{returned}{self._place(end.loc, None)}")
            stack.pop()
            if top.inst is not None:
                self._taken -= {name for value in top.defined() if (name := self.names.get(value))}
                outer = "  " * len(stack)
                if top.index + 1 < len(top.inst.regions):
                    stack.append(self._open(top.inst, top.index + 1, outer + "}"))
                else:
                    self.lines.append(outer + "}")

    def _open(self, inst: Inst, index: int, before: str) -> _Open:
        """Begin a region on the line of its instruction, or behind the region before it."""
        region = inst.regions[index]
        head = f" ({self._params(region.args)}) {{" if region.args else " {"
        if before:
            self.lines.append(before + head)
        else:
            self.lines[-1] += head
        return _Open(region, iter(region), inst, index)

    def _inst(self, inst: Inst) -> str:
        operands = ", ".join([self._use(value) for value in inst.operands])
        lead, attrs = self._attributes(inst)
        types = ", ".join([self._type(value.type) for value in inst.results]) or "()"
        text = inst.op.name
        if inst.results:
            text = f"{', '.join([self._define(value) for value in inst.results])} = {text}"
        if lead:
            text = f"{text} {lead}"
        if operands:
            text = f"{text} {operands}"
        if attrs:
            text = f"{text} {{{attrs}}}"
        return f"{text} : {types}{self._place(inst.loc, inst.made_by)}"

    def _attributes(self, inst: Inst) -> tuple[str, str]:
        """What stands before the operands (data, callee) and what stands in braces."""
        attrs = inst.attrs
        kind = type(attrs)
        if kind is NoAttrs:
            return "", ""
        if self.lenient and (
            not hasattr(kind, "__dataclass_fields__") or record_of(kind).wrong_fields(attrs)
        ):
            return "", repr(attrs)
        if isinstance(attrs, ConstantAttrs):
            stated = inst.results[0].type if len(inst.results) == 1 else None
            literal = attrs.literal
            if stated is not None and stated.dtype is literal.dtype and stated.dims == literal.shape:
                hidden = ["literal", "quant"] if attrs.quant == stated.quant else ["literal"]
                if self.brief and not literal.splat and prod(literal.shape) > MAX_LISTED:
                    return f"<{prod(literal.shape)} elements>", ""
                return literal_text(literal), ", ".join(record_of(kind).written(attrs, hidden))
        known = self._attrs.get(id(attrs))
        if known is not None:
            return "", known[1]
        self._note(symbols_in(attrs))
        hidden = []
        lead = ""
        if isinstance(attrs, CallAttrs):
            lead = f"@{symbol_text(attrs.callee)}"
            hidden.append("callee")
        stated_types = tuple([value.type for value in inst.results])
        if getattr(attrs, RESULTS_FIELD, None) == stated_types:
            hidden.append(RESULTS_FIELD)
        text = ", ".join(record_of(kind).written(attrs, hidden))
        if not hidden:
            # By identity: equal records may differ in the sign of a zero. The record is kept alive with it.
            self._attrs[id(attrs)] = attrs, text
        return lead, text

    def _place(self, loc: Location | None, made_by: str | None) -> str:
        if not self.locations:
            return ""
        place = "" if loc is None else f" {location_text(loc)}"
        return place if made_by is None else f"{place} by {json.dumps(made_by)}"


class _Open:
    """A region whose instructions are being printed."""

    __slots__ = ("index", "inst", "insts", "region")

    def __init__(
        self, region: Region, insts: Iterator[Inst], inst: Inst | None = None, index: int = 0
    ) -> None:
        self.region = region
        self.insts = insts
        self.inst = inst
        self.index = index

    def defined(self) -> Iterator[Value]:
        yield from self.region.args
        for inst in self.region:
            yield from inst.results


def print_program(item: Program | Function, *, locations: bool = False, ids: bool = False) -> str:
    """The text form, ending in a newline."""
    lines = [HEADER]
    functions = [item] if isinstance(item, Function) else list(item)
    for position, function in enumerate(functions):
        printed = FunctionPrinter(function, locations=locations, ids=ids).print()
        if position and isinstance(item, Program) and item.entry_name == function.name:
            printed[0] = f"entry {printed[0]}"
        lines += printed
    return "\n".join(lines) + "\n"


def print_inst(inst: Inst, names: Mapping[Value, str] = MappingProxyType({}), *, brief: bool = False) -> str:
    """One instruction on one line, values by id, or by the names they are given: for logs and messages. Regions are left out."""
    lead, attrs = FunctionPrinter(inst.function, brief=brief)._attributes(inst) if inst.parent else ("", "")
    results = ", ".join(names.get(value) or f"%{value.id}" for value in inst.results)
    operands = ", ".join(names.get(value) or f"%{value.id}" for value in inst.operands)
    types = ", ".join(str(value.type) for value in inst.results)
    parts = [f"{results} =" if results else "", inst.op.name, lead, operands, f"{{{attrs}}}" if attrs else ""]
    return f"{' '.join(part for part in parts if part)} : {types or '()'}"
