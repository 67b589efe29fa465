"""The reader of LLIR's text form: a line at a time, every failure a `ParseError` with its place and what was expected.

What it reads has the right shape; whether it makes sense (dtypes, dominance, nesting) is for `verify` to say. A register has
the dtype of the line above that assigned it last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import DTypeError, did_you_mean
from planish.llir.program import (
    COMPARISONS,
    Address,
    AnyLane,
    Barrier,
    Bitcast,
    Buffer,
    Build,
    Combine,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    If,
    Immediate,
    Instruction,
    Lanes,
    Load,
    Lookup,
    Loop,
    Operand,
    Ops,
    Prefetch,
    Program,
    Register,
    Reload,
    Special,
    Spill,
    Store,
    Tile,
    Variable,
)
from planish.llir.tiles import TileOp
from planish.uop.node import Number
from planish.uop.ops import ALU
from planish.uop.reader import NAME_FORM, Reader

VERSION: Final = 1

_REGISTER: Final = re.compile(r"%([svp]?)([0-9]+)(?![0-9A-Za-z_])")
_BUFFER: Final = re.compile(r"@([A-Za-z_][A-Za-z0-9_]*)")
_SIZE: Final = re.compile(r"\[([0-9]+)\]")
_SIZES: Final = re.compile(r"([0-9]+)x([0-9]+)x([0-9]+)(?![0-9A-Za-z_])")
_BIT: Final = re.compile(r"[lr][0-9]+")
_ELEMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPS: Final = {op.name.lower(): op for op in ALU}
_SPACES: Final = {space.value: space for space in AddrSpace}


class _Literal(NamedTuple):
    """A constant as written: its dtype may follow from its place."""

    value: Number | tuple[Number, ...]
    dtype: DType | None
    offset: int


_Value = Register | _Literal


class Parser(Reader):
    """Reads programs from a text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._following = 0  # where the next line starts
        self._start()

    def _start(self) -> None:
        self.buffers: dict[str, Buffer] = {}
        self.tiles: dict[str, TileOp] = {}
        self.registers: dict[str, Register] = {}
        self.variables: list[Variable] = []
        self.body: list[Instruction] = []
        self.loops: list[tuple[Register, Operand] | None] = []

    # -- programs --------------------------------------------------------------------------------------------------

    def one_program(self) -> Program:
        found = self.programs()
        if len(found) > 1:
            self.fail(f"the text holds {len(found)} programs", "one program", offset=0)
        return found[0]

    def programs(self) -> tuple[Program, ...]:
        found: list[Program] = []
        more = self._next_line()
        if not more:
            self.fail("the text is empty", f"llir {VERSION}", offset=0)
        while more:
            self._header()
            name = self._kernel_name()
            self._start()
            while (more := self._next_line()) and not self._at_word("llir"):
                self._line()
            params = tuple(b for b in self.buffers.values() if b.space is AddrSpace.GLOBAL)
            own = tuple(b for b in self.buffers.values() if b.space is not AddrSpace.GLOBAL)
            found.append(Program(name, params, own, tuple(self.body), tuple(self.variables)))
        return tuple(found)

    def _next_line(self) -> bool:
        """Go to the next line that says something."""
        while self._following <= len(self.text):
            self.position = self._following
            end = self.text.find("\n", self.position)
            self.end = len(self.text) if end < 0 else end
            self._following = self.end + 1
            if not self.at_end():
                return True
        self.position = self.end = len(self.text)
        return False

    def _at_word(self, word: str) -> bool:
        self.skip()
        found = NAME_FORM.match(self.text, self.position, self.end)
        return found is not None and found.group() == word

    def _header(self) -> None:
        if not self._take_word("llir"):
            self.fail(self.found(), f"llir {VERSION}")
        offset = self.position
        version = self.integer()
        if version != VERSION:
            self.fail(f"version {version} is not known", f"llir {VERSION}", offset=offset)
        self._line_ends()

    def _kernel_name(self) -> str:
        if not self._next_line() or not self._take_word("kernel"):
            self.fail("the text ends" if self.position >= len(self.text) else self.found(), "kernel <name>")
        name = self._name("a kernel name")
        self._line_ends()
        return name

    # -- words -----------------------------------------------------------------------------------------------------

    def _take_word(self, word: str) -> bool:
        if not self._at_word(word):
            return False
        self.position += len(word)
        return True

    def _name(self, expected: str) -> str:
        found = self.match(NAME_FORM)
        if found is None:
            self.fail(self.found(), expected)
        return found.group()

    def _line_ends(self) -> None:
        if not self.at_end():
            self.fail(self.found(), "the end of the line")

    def _key(self, key: str) -> int:
        """key=<integer>, which must stand here."""
        if not self._take_word(key):
            self.fail(self.found(), f"{key}=<number>")
        self.expect("=")
        return self.integer()

    def _optional_key(self, key: str, otherwise: int) -> int:
        return self._key(key) if self._at_word(key) else otherwise

    def _register_name(self) -> re.Match[str]:
        found = self.match(_REGISTER)
        if found is None:
            self.fail(self.found(), "a register such as %3")
        return found

    def _register(self) -> Register:
        found = self._register_name()
        register = self.registers.get(found.group())
        if register is None:
            self.fail(
                f"{found.group()} is not defined above",
                offset=found.start(),
                remedy="a register is assigned before it is used",
            )
        return register

    def _assign(self, name: re.Match[str], dtype: DType) -> Register:
        register = Register(self.to_int(name.group(2), name.start()), dtype, name.group(1))
        self.registers[name.group()] = register
        return register

    def _dtype_after_colon(self) -> DType:
        self.expect(":")
        return self.dtype()

    def _buffer(self) -> Buffer:
        found = self.match(_BUFFER)
        if found is None:
            self.fail(self.found(), "a buffer such as @arg0")
        buffer = self.buffers.get(found.group(1))
        if buffer is None:
            close = did_you_mean(found.group(1), self.buffers)
            hint = f"declared: {', '.join(map(str, self.buffers.values())) or 'none'}"
            self.fail(
                f"unknown buffer {found.group()}",
                offset=found.start(),
                remedy=hint if close is None else f"did you mean @{close}?",
            )
        return buffer

    # -- operands --------------------------------------------------------------------------------------------------

    def _value(self) -> _Value:
        self.skip()
        start = self.position
        if self.text.startswith("%", start):
            return self._register()
        value: Number | tuple[Number, ...]
        if self.take("["):
            lanes: list[Number] = []
            while not self.take("]"):
                if lanes:
                    self.expect(",")
                lanes.append(self._number())
            value = tuple(lanes)
        else:
            value = self._number()
        dtype = None
        if self.text.startswith(":", self.position) and self.position < self.end:
            self.position += 1
            dtype = self._element_dtype()
        return _Literal(value, dtype, start)

    def _number(self) -> Number:
        self.skip()
        offset = self.position
        value = self.constant()
        if value is None:
            self.fail("invalid is not a number", "a number", offset=offset)
        return value

    def _values(self) -> list[_Value]:
        found = [self._value()]
        while self.take(","):
            found.append(self._value())
        return found

    def _resolve(self, value: _Value, implied: DType | None = None) -> Operand:
        """The operand; a constant takes the dtype that its place implies."""
        if isinstance(value, Register):
            return value
        dtype = implied if value.dtype is None else value.dtype
        if dtype is None:
            self.fail(
                "the dtype of this constant does not follow", "a dtype, as in 1.0:f32", offset=value.offset
            )
        try:
            if isinstance(value.value, tuple):
                return Immediate(tuple(dtype.scalar.const(v) for v in value.value), dtype)
            return Immediate(dtype.const(value.value), dtype)
        except DTypeError as error:
            self.fail(error.message, offset=value.offset, remedy=error.remedy)

    # -- lines -----------------------------------------------------------------------------------------------------

    def _line(self) -> None:
        self.skip()
        if self.text.startswith("@", self.position):
            self._declare_buffer()
        elif self.text.startswith("%", self.position):
            self._assignment()
        else:
            offset = self.position
            word = self._name("an instruction, a register or a buffer")
            if word == "tile":
                self._declare_tile()
            else:
                handler = _EFFECTS.get(word)
                if handler is None:
                    self._unknown(word, offset, assigns=False)
                handler(self)
        self._line_ends()

    def _unknown(self, word: str, offset: int, *, assigns: bool) -> NoReturn:
        if word in _EFFECTS or word in _RESULTS or word in _OPS:
            what = "assigns no register" if assigns else f"assigns a register: %n = {word} …"
            self.fail(f"{word} {what}", offset=offset)
        close = did_you_mean(word, [*_EFFECTS, *_RESULTS, *_OPS])
        hint = "planish.llir.program lists the instructions" if close is None else f"did you mean {close!r}?"
        self.fail(f"unknown instruction {word!r}", offset=offset, remedy=hint)

    def _declare_buffer(self) -> None:
        name = self.match(_BUFFER)
        if name is None:
            self.fail(self.found(), "a buffer such as @arg0")
        if name.group(1) in self.buffers:
            self.fail(f"buffer {name.group()} is declared twice", offset=name.start())
        self.expect(":")
        self.skip()
        offset = self.position
        space = self._name("global, local or reg")
        if space not in _SPACES:
            close = did_you_mean(space, _SPACES)
            remedy = None if close is None else f"did you mean {close!r}?"
            self.fail(f"unknown space {space!r}", "global", "local", "reg", offset=offset, remedy=remedy)
        dtype = self._element_dtype()
        size = self.match(_SIZE)
        if size is None:
            self.fail(self.found(), "a size such as [16]")
        buffer = Buffer(name.group(1), dtype, self.to_int(size.group(1), size.start()), _SPACES[space])
        self.skip()
        offset = self.position
        stated = self._key("bytes")
        if stated != buffer.nbytes:
            self.fail(
                f"{buffer.size} elements of {dtype} take {buffer.nbytes} bytes, not {stated}", offset=offset
            )
        align = self._key("align")
        start = self._key("offset") if self._at_word("offset") else None
        self.buffers[buffer.name] = Buffer(buffer.name, dtype, buffer.size, buffer.space, align, start)

    def _element_dtype(self) -> DType:
        found = self.match(_ELEMENT)
        if found is None:
            self.fail(self.found(), "a dtype")
        try:
            return dtypes.parse(found.group())
        except DTypeError as error:
            self.fail(error.message, offset=found.start(), remedy=error.remedy)

    def _declare_tile(self) -> None:
        name = self._name("the name of a tile operation")
        self.expect(":")
        sizes = self.match(_SIZES)
        if sizes is None:
            self.fail(self.found(), "sizes such as 16x8x16")
        m, n, k = (self.to_int(part, sizes.start()) for part in sizes.groups())
        threads = self._key("threads")
        layouts: dict[str, tuple[str, ...]] = {}
        for matrix in "abc":
            if self._take_word(matrix):
                self.expect("=")
                self.expect("(")
                bits: list[str] = []
                while not self.take(")"):
                    bit = self.match(_BIT)
                    if bit is None:
                        self.fail(self.found(), "a bit such as l0 or r1")
                    bits.append(bit.group())
                layouts[matrix] = tuple(bits)
        self.tiles[name] = TileOp(name, m, n, k, threads, **layouts)

    def _assignment(self) -> None:
        name = self._register_name()
        self.expect("=")
        self.skip()
        offset = self.position
        word = self._name("an instruction")
        if word == "variable":
            self._variable(name)
        elif word in _OPS:
            self._compute(name, _OPS[word])
        else:
            handler = _RESULTS.get(word)
            if handler is None:
                self._unknown(word, offset, assigns=True)
            handler(self, name)

    def _variable(self, result: re.Match[str]) -> None:
        name = self._name("the name of a variable")
        if not self._take_word("in"):
            self.fail(self.found(), "in <low>..<high>")
        low, high = self.bounds()
        self.variables.append(Variable(self._assign(result, self._dtype_after_colon()), name, low, high))

    def _address(self, result: re.Match[str]) -> None:
        self.skip()
        base = self._register() if self.text.startswith("%", self.position) else self._buffer()
        self.expect("[")
        index = self._value()
        self.expect("]")
        dtype = self._dtype_after_colon()
        self.body.append(Address(self._assign(result, dtype), base, self._resolve(index, dtypes.int32)))

    def _access(self) -> tuple[Operand | None, _Value | None, int, bool]:
        """Gate, alternative and hints."""
        gate = self._resolve(self._value(), dtypes.bool_) if self._take_word("if") else None
        otherwise = self._value() if self._take_word("else") else None
        return gate, otherwise, self._optional_key("align", 0), self._take_word("nontemporal")

    def _load(self, result: re.Match[str]) -> None:
        address = self._register()
        gate, otherwise, align, nontemporal = self._access()
        dtype = self._dtype_after_colon()
        alternative = None if otherwise is None else self._resolve(otherwise, dtype)
        register = self._assign(result, dtype)
        self.body.append(Load(register, address, gate, alternative, align, nontemporal))

    def _store(self) -> None:
        address = self._register()
        self.expect(",")
        value = self._value()
        gate, otherwise, align, nontemporal = self._access()
        if otherwise is not None:
            self.fail("a store has no alternative", "the end of the line")
        dtype = self._dtype_after_colon()
        self.body.append(Store(address, self._resolve(value, dtype), gate, align, nontemporal))

    def _prefetch(self) -> None:
        address = self._register()
        write = self._take_word("write")
        self.body.append(Prefetch(address, write, self._key("locality")))

    def _compute(self, result: re.Match[str], op: Ops) -> None:
        values = self._values()
        dtype = operands = self._dtype_after_colon()
        if op in COMPARISONS:
            self._arrow()
            dtype = self.dtype()
        kinds = [operands] * len(values)
        if op is Ops.WHERE:
            kinds[0] = dtypes.bool_.vec(dtype.lanes)
        inputs = tuple(map(self._resolve, values, kinds))
        self.body.append(Compute(self._assign(result, dtype), op, inputs))

    def _arrow(self) -> None:
        self.expect("-")
        self.expect(">")

    def _conversion(self, result: re.Match[str], form: type[Convert | Bitcast]) -> None:
        value = self._value()
        source = self._dtype_after_colon()
        self._arrow()
        dtype = self.dtype()
        self.body.append(form(self._assign(result, dtype), self._resolve(value, source)))

    def _lanes(self, result: re.Match[str]) -> None:
        operand = self._resolve(self._value())
        self.expect("[")
        lanes = [self.integer()]
        while self.take(","):
            lanes.append(self.integer())
        self.expect("]")
        self.body.append(Lanes(self._assign(result, self._dtype_after_colon()), operand, tuple(lanes)))

    def _build(self, result: re.Match[str]) -> None:
        values = self._values()
        dtype = self._dtype_after_colon()
        inputs = tuple(self._resolve(value, dtype.scalar) for value in values)
        self.body.append(Build(self._assign(result, dtype), inputs))

    def _concat(self, result: re.Match[str]) -> None:
        inputs = tuple(self._resolve(value) for value in self._values())
        self.body.append(Concat(self._assign(result, self._dtype_after_colon()), inputs))

    def _lookup(self, result: re.Match[str]) -> None:
        table = self._resolve(self._value())
        self.expect("[")
        index = self._resolve(self._value())
        self.expect("]")
        self.body.append(Lookup(self._assign(result, self._dtype_after_colon()), table, index))

    def _any(self, result: re.Match[str]) -> None:
        operand = self._resolve(self._value())
        self.body.append(AnyLane(self._assign(result, self._dtype_after_colon()), operand))

    def _combine(self, result: re.Match[str]) -> None:
        self.skip()
        offset = self.position
        op = _OPS.get(name := self._name("the name of an op"))
        if op is None:
            self.fail(f"unknown op {name!r}", offset=offset)
        operand = self._value()
        if self._name("over") != "over":
            self.fail("how many threads: 'over 32'")
        width, dtype = self.integer(), self._dtype_after_colon()
        self.body.append(Combine(self._assign(result, dtype), op, self._resolve(operand, dtype), width))

    def _tile(self, result: re.Match[str]) -> None:
        self.skip()
        offset = self.position
        name = self._name("the name of a tile operation")
        tile = self.tiles.get(name)
        if tile is None:
            close = did_you_mean(name, self.tiles)
            remedy = "declare it in the header" if close is None else f"did you mean {close!r}?"
            self.fail(f"unknown tile operation {name!r}", offset=offset, remedy=remedy)
        a = self._resolve(self._value())
        self.expect(",")
        b = self._resolve(self._value())
        self.expect(",")
        c = self._value()
        dtype = self._dtype_after_colon()
        self.body.append(Tile(self._assign(result, dtype), a, b, self._resolve(c, dtype), tile))

    def _special(self, result: re.Match[str]) -> None:
        name = self._name("the name of an index")
        self.expect("<")
        bound = self._value()
        dtype = self._dtype_after_colon()
        self.body.append(Special(self._assign(result, dtype), name, self._resolve(bound, dtype)))

    def _reload(self, result: re.Match[str]) -> None:
        slot = self.integer()
        self.body.append(Reload(self._assign(result, self._dtype_after_colon()), slot))

    def _spill(self) -> None:
        slot = self.integer()
        self.expect(",")
        self.body.append(Spill(slot, self._register()))

    def _loop(self) -> None:
        name = self._register_name()
        self.expect("<")
        value = self._value()
        unroll = self._optional_key("unroll", 0)
        dtype = self._dtype_after_colon()
        bound = self._resolve(value, dtype)
        counter = self._assign(name, dtype)
        self.loops.append((counter, bound))
        self.body.append(Loop(counter, bound, unroll))

    def _end(self) -> None:
        offset = self.position - len("end")
        opened = self.loops.pop() if self.loops else None
        if not self.at_end():
            counter = self._register()
            self.expect("<")
            self.body.append(EndLoop(counter, self._resolve(self._value(), counter.dtype)))
        elif opened is None:
            self.fail("no loop is open here", offset=offset, remedy="an if closes with endif")
        else:
            self.body.append(EndLoop(*opened))

    def _if(self) -> None:
        self.loops.append(None)
        self.body.append(If(self._resolve(self._value(), dtypes.bool_)))

    def _endif(self) -> None:
        if self.loops:
            self.loops.pop()
        self.body.append(EndIf())

    def _barrier(self) -> None:
        self.body.append(Barrier())


_EFFECTS: Final[dict[str, Callable[[Parser], None]]] = {
    "store": Parser._store,
    "prefetch": Parser._prefetch,
    "loop": Parser._loop,
    "end": Parser._end,
    "if": Parser._if,
    "endif": Parser._endif,
    "barrier": Parser._barrier,
    "spill": Parser._spill,
}
_RESULTS: Final[dict[str, Callable[[Parser, re.Match[str]], None]]] = {
    "address": Parser._address,
    "load": Parser._load,
    "cast": lambda parser, result: parser._conversion(result, Convert),
    "bitcast": lambda parser, result: parser._conversion(result, Bitcast),
    "lanes": Parser._lanes,
    "build": Parser._build,
    "concat": Parser._concat,
    "lookup": Parser._lookup,
    "any": Parser._any,
    "combine": Parser._combine,
    "tile": Parser._tile,
    "special": Parser._special,
    "reload": Parser._reload,
}
