"""The reader of LLIR's text form: a line at a time, every failure a `ParseError` with its place and what was expected.

What it reads has the right shape; whether it makes sense (dtypes, dominance, nesting) is for `verify` to say. A register has
the dtype of the line above that assigned it last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, NoReturn

from planish import dtypes
from planish.cursor import T
from planish.dtypes import AddrSpace, DType
from planish.errors import DTypeError, did_you_mean
from planish.llir import program as ir
from planish.llir.syntax import read
from planish.llir.tiles import TileOp
from planish.llir.values import PARAMETER
from planish.uop.hardware_index import index_named
from planish.uop.node import Number
from planish.uop.ops import ALU
from planish.uop.reader import Reader

VERSION: Final = 1

_REGISTER: Final = re.compile(r"%([svp]?)([0-9]+)(?![0-9A-Za-z_])")
_BUFFER: Final = re.compile(r"@([A-Za-z_][A-Za-z0-9_]*)")
_NUMBERED: Final = re.compile(f"{PARAMETER}(0|[1-9][0-9]*)")
"""Parameters that have their names from their numbers."""
_SIZE: Final = re.compile(r"\[([0-9]+)\]")
_SIZES: Final = re.compile(r"([0-9]+)x([0-9]+)x([0-9]+)(?![0-9A-Za-z_])")
_BIT: Final = re.compile(r"[lr][0-9]+|@[a-z]+")
_ELEMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPS: Final = {op.name.lower(): op for op in ALU}
_SPACES: Final = {space.value: space for space in AddrSpace}


class _WrittenConstant(NamedTuple):
    """A constant as written: its dtype may follow from its place."""

    value: Number | tuple[Number, ...]
    dtype: DType | None
    offset: int


_Value = ir.Register | _WrittenConstant


class LlirParser(Reader):
    """Reads programs from a text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._start()

    def _start(self) -> None:
        self.buffers: dict[str, ir.Buffer] = {}
        self.tiles: dict[str, TileOp] = {}
        self.registers: dict[str, ir.Register] = {}
        self.variables: list[ir.LaunchVariable] = []
        self.body: list[ir.Instruction] = []
        self.loops: list[tuple[ir.Register, ir.Operand] | None] = []

    # -- programs --------------------------------------------------------------------------------------------------

    def one_program(self) -> ir.Program:
        programs = self.programs()
        if len(programs) > 1:
            self.fail(f"the text holds {len(programs)} programs", "one program", offset=0)
        return programs[0]

    def programs(self) -> tuple[ir.Program, ...]:
        programs: list[ir.Program] = []
        more = self.next_line()
        if not more:
            self.fail("the text is empty", f"llir {VERSION}", offset=0)
        while more:
            self._header()
            name = self._kernel_name()
            self._start()
            while (more := self.next_line()) and not self.at_word("llir"):
                self._line()
            params = tuple(b for b in self.buffers.values() if b.space is AddrSpace.GLOBAL)
            own = tuple(b for b in self.buffers.values() if b.space is not AddrSpace.GLOBAL)
            programs.append(ir.Program(name, params, own, tuple(self.body), tuple(self.variables)))
        return tuple(programs)

    def _header(self) -> None:
        if not self.take_word("llir"):
            self.unexpected(f"llir {VERSION}")
        offset = self.position
        version = self.integer()
        if version != VERSION:
            self.fail(f"version {version} is not known", f"llir {VERSION}", offset=offset)
        self.line_ends()

    def _kernel_name(self) -> str:
        if not self.next_line() or not self.take_word("kernel"):
            self.fail(
                "the text ends" if self.position >= len(self.text) else self.what_is_here(), "kernel <name>"
            )
        name = self.word("a kernel name")
        self.line_ends()
        return name

    # -- words -----------------------------------------------------------------------------------------------------

    def key(self, key: str) -> int:
        """key=<integer>, which must stand here."""
        if not self.take_word(key):
            self.unexpected(f"{key}=<number>")
        self.expect("=")
        return self.integer()

    def need_word(self, word: str) -> None:
        """A word that must stand here."""
        if not self.take_word(word):
            self.unexpected(repr(word))

    def expect_all(self, text: str) -> None:
        """Punctuation of several characters."""
        for each in text:
            self.expect(each)

    def _register_name(self) -> re.Match[str]:
        return self.need(_REGISTER, "a register such as %3")

    def _register(self) -> ir.Register:
        name = self._register_name()
        register = self.registers.get(name.group())
        if register is None:
            self.fail(
                f"{name.group()} is not defined above",
                offset=name.start(),
                remedy="a register is assigned before it is used",
            )
        return register

    def assign(self, name: re.Match[str], dtype: DType) -> ir.Register:
        register = ir.Register(self.to_int(name.group(2), name.start()), dtype, name.group(1))
        self.registers[name.group()] = register
        return register

    def _dtype_after_colon(self) -> DType:
        self.expect(":")
        return self.dtype()

    def _buffer(self) -> ir.Buffer:
        name = self.need(_BUFFER, "a buffer such as @arg0")
        buffer = self.buffers.get(name.group(1))
        if buffer is None:
            close = did_you_mean(name.group(1), self.buffers)
            hint = f"declared: {', '.join(map(str, self.buffers.values())) or 'none'}"
            self.fail(
                f"unknown buffer {name.group()}",
                offset=name.start(),
                remedy=hint if close is None else f"did you mean @{close}?",
            )
        return buffer

    # -- operands --------------------------------------------------------------------------------------------------

    def _value(self) -> _Value:
        start = self.here()
        if self.text.startswith("%", start):
            return self._register()
        value: Number | tuple[Number, ...]
        value = tuple(self.until("]", self.plain_number)) if self.take("[") else self.plain_number()
        dtype = None
        if self.text.startswith(":", self.position) and self.position < self.end:
            self.position += 1
            dtype = self._element_dtype()
        return _WrittenConstant(value, dtype, start)

    def resolved(self, value: Any, implied: DType | None = None) -> Any:
        """The operand, or operands; a constant takes the dtype that its place implies."""
        if isinstance(value, list):
            return tuple(self._operand(each, implied) for each in value)
        return self._operand(value, implied)

    def _operand(self, value: _Value, implied: DType | None) -> ir.Operand:
        if isinstance(value, ir.Register):
            return value
        dtype = implied if value.dtype is None else value.dtype
        if dtype is None:
            self.fail(
                "the dtype of this constant does not follow", "a dtype, as in 1.0:f32", offset=value.offset
            )
        try:
            if isinstance(value.value, tuple):
                return ir.Immediate(tuple(dtype.scalar.const(v) for v in value.value), dtype)
            return ir.Immediate(dtype.const(value.value), dtype)
        except DTypeError as error:
            self.fail(error.message, offset=value.offset, remedy=error.remedy)

    def field(self, kind: str, *, assigns: bool = False) -> Any:
        """What a field of this type holds: operands as they are written, a register to be assigned as its name."""
        if kind == "Register":
            return self._register_name() if assigns else self._register()
        if kind == "Buffer | Register":
            return self._register() if self.peek() == "%" else self._buffer()
        if kind == "Buffer":
            return self._buffer()
        if kind == "TileOp":
            return self._tile()
        if kind == "HardwareIndex":
            return index_named(self.word("a name"))
        if kind == "str":
            return self.word("a name")
        if kind == "int":
            return self.integer()
        if kind == "tuple[int, ...]":
            return tuple(self._list(self.integer))
        return self._list(self._value) if kind.startswith("tuple") else self._value()

    def _list(self, item: Callable[[], T]) -> list[T]:
        items = [item()]
        while self.take(","):
            items.append(item())
        return items

    def _tile(self) -> TileOp:
        offset = self.here()
        name = self.word("the name of a tile operation")
        tile = self.tiles.get(name)
        if tile is None:
            self.unknown("unknown tile operation", name, self.tiles, "declare it in the header", offset)
        return tile

    # -- lines -----------------------------------------------------------------------------------------------------

    def _line(self) -> None:
        if self.peek() == "@":
            self._declare_buffer()
        elif self.peek() == "%":
            self._assignment()
        else:
            offset = self.position
            word = self.word("an instruction, a register or a buffer")
            if word == "tile":
                self._declare_tile()
            elif word == "end" and self.at_end():
                self._end(offset)
            else:
                form = _FORMS.get(word)
                if form is None or form.writes == "result":
                    self._unknown(word, offset, assigns=False)
                self._effect(read(self, form, None))
        self.line_ends()

    def _unknown(self, word: str, offset: int, *, assigns: bool) -> NoReturn:
        if word in _FORMS or word in _OPS:
            what = "assigns no register" if assigns else f"assigns a register: %n = {word} …"
            self.fail(f"{word} {what}", offset=offset)
        lists = "planish.llir.program lists the instructions"
        self.unknown("unknown instruction", word, {**_FORMS, **_OPS}, lists, offset)

    def _effect(self, i: ir.Instruction) -> None:
        if isinstance(i, ir.Loop):
            self.loops.append((i.counter, i.bound))
        elif isinstance(i, ir.If):
            self.loops.append(None)
        elif isinstance(i, ir.EndLoop | ir.EndIf) and self.loops:
            self.loops.pop()
        self.body.append(i)

    def _end(self, offset: int) -> None:
        """An end that does not say of which loop."""
        opened = self.loops.pop() if self.loops else None
        if opened is None:
            self.fail("no loop is open here", offset=offset, remedy="an if closes with endif")
        self.body.append(ir.EndLoop(*opened))

    def _declare_buffer(self) -> None:
        name = self.need(_BUFFER, "a buffer such as @arg0")
        if name.group(1) in self.buffers:
            self.fail(f"buffer {name.group()} is declared twice", offset=name.start())
        self.expect(":")
        offset = self.here()
        space = self.word("global, local or reg")
        if space not in _SPACES:
            close = did_you_mean(space, _SPACES)
            remedy = None if close is None else f"did you mean {close!r}?"
            self.fail(f"unknown space {space!r}", "global", "local", "reg", offset=offset, remedy=remedy)
        dtype = self._element_dtype()
        size = self.need(_SIZE, "a size such as [16]")
        buffer = ir.Buffer(name.group(1), dtype, self.to_int(size.group(1), size.start()), _SPACES[space])
        offset = self.here()
        stated = self.key("bytes")
        if stated != buffer.nbytes:
            self.fail(
                f"{buffer.size} elements of {dtype} take {buffer.nbytes} bytes, not {stated}", offset=offset
            )
        align = self.key("align")
        start = self.key("offset") if self.at_word("offset") else None
        number = _NUMBERED.fullmatch(buffer.name) if buffer.space is AddrSpace.GLOBAL else None
        slot = None if number is None else self.to_int(number.group(1), name.start())
        self.buffers[buffer.name] = replace(buffer, align=align, offset=start, slot=slot)

    def _element_dtype(self) -> DType:
        return self.dtype_of(_ELEMENT)

    def _declare_tile(self) -> None:
        name = self.word("the name of a tile operation")
        self.expect(":")
        sizes = self.need(_SIZES, "sizes such as 16x8x16")
        m, n, k = (self.to_int(part, sizes.start()) for part in sizes.groups())
        threads = self.key("threads")
        layouts: dict[str, tuple[str, ...]] = {}
        for matrix in "abc":
            if self.take_word(matrix):
                self.expect("=")
                self.expect("(")
                bits = self.until(")", lambda: self.need(_BIT, "a bit such as l0 or r1, or @k"), "")
                layouts[matrix] = tuple(bit.group() for bit in bits)
        self.tiles[name] = TileOp(name, m, n, k, threads, **layouts)

    def _assignment(self) -> None:
        name = self._register_name()
        self.expect("=")
        offset = self.here()
        word = self.word("an instruction")
        if word == "variable":
            self._variable(name)
        elif word in _OPS:
            self._compute(name, _OPS[word])
        else:
            form = _FORMS.get(word)
            if form is None or form.writes != "result":
                self._unknown(word, offset, assigns=True)
            self.body.append(read(self, form, name))

    def _variable(self, result: re.Match[str]) -> None:
        name = self.word("the name of a variable")
        if not self.take_word("in"):
            self.unexpected("in <low>..<high>")
        low, high = self.bounds()
        self.variables.append(
            ir.LaunchVariable(self.assign(result, self._dtype_after_colon()), name, low, high)
        )

    def _compute(self, result: re.Match[str], op: ir.Ops) -> None:
        values = self._list(self._value)
        dtype = operands = self._dtype_after_colon()
        if op in ir.COMPARISONS:
            self.expect_all("->")
            dtype = self.dtype()
        kinds = [operands] * len(values)
        if op is ir.Ops.WHERE:
            kinds[0] = dtypes.bool_.vec(dtype.lanes)
        inputs = tuple(map(self._operand, values, kinds))
        self.body.append(ir.Compute(self.assign(result, dtype), op, inputs))


_FORMS: Final = {form.mnemonic: form for form in ir.FORMS if form.mnemonic}
