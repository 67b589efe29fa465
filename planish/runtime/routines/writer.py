"""A writer of LLVM IR with values, loops and branches, for routines that no tensor program describes well.

    with function.range(0, count) as i:
        x = function.load("float", data, i)
        with function.if_(x > 0.0):
            function.store(x * 2.0, data, i)

A kind is an LLVM type as text. Python numbers become constants of the kind of the other operand. Integers compare and shift
to the right with a sign unless `unsigned` or `lshr` is asked for. Variables are stack slots; LLVM makes registers of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Final, TypeAlias

from planish.records import dataclass

_SIZES: Final = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}
_FLOATS: Final = frozenset({"float", "double"})
_COMPARE: Final = {"<": ("slt", "olt"), "<=": ("sle", "ole"), ">": ("sgt", "ogt"), ">=": ("sge", "oge"),
                   "==": ("eq", "oeq"), "!=": ("ne", "une")}  # fmt: skip


def element(kind: str) -> str:
    """What the lanes of a vector are; a scalar is its own."""
    return kind.split(" x ")[1][:-1] if kind.startswith("<") else kind


def lanes(kind: str) -> int:
    """How many there are; 0 for a scalar."""
    return int(kind[1:].partition(" ")[0]) if kind.startswith("<") else 0


def vector(kind: str, count: int) -> str:
    """Lanes of a kind; without any, the kind itself."""
    return f"<{count} x {kind}>" if count else kind


def size_of(kind: str) -> int:
    """Bytes of a kind in memory."""
    return _SIZES[element(kind)] * max(lanes(kind), 1)


def _suffix(kind: str) -> str:
    """What the names of intrinsics call vectors of a kind."""
    return f"v{lanes(kind)}f{8 * _SIZES[element(kind)]}"


def literal(kind: str, value: float) -> str:
    """A constant, the same in all lanes."""
    one = element(kind)
    if one == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if one in _FLOATS:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    else:
        text = str(int(value))
    count = lanes(kind)
    return f"<{', '.join([f'{one} {text}'] * count)}>" if count else text


def _operator(word: str, float_word: str = "", *, swapped: bool = False) -> Callable[[Term, Operand], Term]:
    def method(self: Term, other: Operand) -> Term:
        left, right = self, self.of.value(other, self.kind)
        if swapped:
            left, right = right, left
        is_float = element(self.kind) in _FLOATS
        name = f"{float_word}{' contract' if self.of.contract else ''}" if is_float else word
        return self.of.let(self.kind, f"{name} {self.kind} {left.text}, {right.text}")

    return method


def _comparison(op: str) -> Callable[[Term, Operand], Term]:
    return lambda self, other: self.compare(op, other)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Something a function has computed."""

    of: Emitter
    kind: str
    text: str

    __add__ = __radd__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __rsub__ = _operator("sub", "fsub", swapped=True)
    __mul__ = __rmul__ = _operator("mul", "fmul")
    __truediv__ = _operator("sdiv", "fdiv")
    __floordiv__ = _operator("udiv", "fdiv")
    """Of integers that are not negative."""
    __mod__ = _operator("urem", "frem")
    """Of integers that are not negative."""
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("ashr")
    lshr = _operator("lshr")
    """Shifted to the right, zeros moving in."""

    def __neg__(self) -> Term:
        if element(self.kind) in _FLOATS:
            return self.of.let(self.kind, f"fneg {self.kind} {self.text}")
        return 0 - self

    def compare(self, op: str, other: Operand, *, unsigned: bool = False) -> Term:
        """Whether it holds, per lane."""
        right = self.of.value(other, self.kind)
        is_float = element(self.kind) in _FLOATS
        name = _COMPARE[op][is_float]
        if unsigned:
            name = name.replace("s", "u", 1)
        word = "fcmp" if is_float else "icmp"
        return self.of.let(
            vector("i1", lanes(self.kind)), f"{word} {name} {self.kind} {self.text}, {right.text}"
        )

    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    eq, ne = _comparison("=="), _comparison("!=")


Operand: TypeAlias = Term | int | float


@dataclass(frozen=True, slots=True)
class RoutineVariable:
    """A stack slot."""

    of: Emitter
    kind: str
    place: Term

    @property
    def now(self) -> Term:
        """What is in it."""
        return self.of.load(self.kind, self.place)

    def set(self, value: Operand) -> None:
        """Put something else in."""
        self.of.store(self.of.value(value, self.kind), self.place)

    def add(self, value: Operand) -> None:
        """Put in the sum."""
        self.set(self.now + value)


@dataclass(slots=True)
class RoutineModule:
    """Functions, and what they call elsewhere."""

    functions: list[Emitter] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        result: str = "void",
        *,
        internal: bool = False,
        contract: bool = False,
    ) -> Emitter:
        """A new function; `parameters` are (name, kind). `contract` lets products and sums be fused."""
        emitter = Emitter(self, name, tuple(parameters), result, internal, contract)
        self.functions.append(emitter)
        return emitter

    @property
    def source(self) -> str:
        """As LLVM IR."""
        own = {function.name for function in self.functions}
        declared = [text for name, text in sorted(self.declared.items()) if name not in own]
        return "\n".join([*declared, *(function.source for function in self.functions)]) + "\n"


@dataclass(slots=True, eq=False)
class Emitter:
    """A function in the making."""

    module: RoutineModule
    name: str
    parameters: tuple[tuple[str, str], ...]
    result: str
    internal: bool
    contract: bool
    slots: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    count: int = 0
    ended: bool = False

    def parameter(self, number: int) -> Term:
        """One that it was given."""
        name, kind = self.parameters[number]
        return Term(self, kind, f"%{name}")

    @property
    def source(self) -> str:
        """As LLVM IR."""
        given = ", ".join(f"{kind} %{name}" for name, kind in self.parameters)
        linkage = "internal " if self.internal else ""
        body = "\n".join(["entry:", *self.slots, *self.lines])
        end = "" if self.ended else "\n  ret void"
        return f"define {linkage}{self.result} @{self.name}({given}) {{\n{body}{end}\n}}\n"

    # -- values --------------------------------------------------------------------------------------------------------

    def let(self, kind: str, text: str) -> Term:
        """The result of an instruction."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return Term(self, kind, f"%v{self.count}")

    def value(self, given: Operand, kind: str) -> Term:
        """A number as a constant of a kind; a value as it is, or the same in all lanes."""
        if not isinstance(given, Term):
            return Term(self, kind, literal(kind, given))
        if given.kind != kind and not lanes(given.kind):
            return self.splat(given, lanes(kind))
        return given

    def splat(self, value: Term, count: int) -> Term:
        """The same in all lanes."""
        kind = vector(value.kind, count)
        first = self.let(kind, f"insertelement {kind} poison, {value.kind} {value.text}, i64 0")
        return self.shuffle(first, first, [0] * count)

    def shuffle(self, a: Term, b: Term, places: Sequence[int]) -> Term:
        """Lanes of two vectors, by number."""
        mask = ", ".join(f"i32 {place}" for place in places)
        kind = vector(element(a.kind), len(places))
        return self.let(
            kind,
            f"shufflevector {a.kind} {a.text}, {b.kind} {b.text}, <{len(places)} x i32> <{mask}>",
        )

    def lane(self, value: Term, number: Operand) -> Term:
        """One lane of a vector."""
        at = self.value(number, "i64")
        return self.let(element(value.kind), f"extractelement {value.kind} {value.text}, i64 {at.text}")

    def convert(self, value: Term, kind: str, op: str | None = None) -> Term:
        """The number as another kind; integers keep their sign unless `op` is zext."""
        if value.kind == kind:
            return value
        if op is None or size_of(element(value.kind)) == size_of(element(kind)):
            a, b = element(value.kind), element(kind)
            if a in _FLOATS or b in _FLOATS:
                op = ("fpext" if _SIZES[a] < _SIZES[b] else "fptrunc") if {a, b} <= _FLOATS else (
                    "fptosi" if a in _FLOATS else "sitofp")  # fmt: skip
            else:
                op = "trunc" if _SIZES[a] > _SIZES[b] else "sext"
        return self.let(kind, f"{op} {value.kind} {value.text} to {kind}")

    def bits(self, value: Term, kind: str) -> Term:
        """The same bits as another kind."""
        return value if value.kind == kind else self.let(kind, f"bitcast {value.kind} {value.text} to {kind}")

    def select(self, condition: Term, then: Operand, otherwise: Operand) -> Term:
        """One of two, per lane."""
        kind = then.kind if isinstance(then, Term) else otherwise.kind if isinstance(otherwise, Term) else ""
        a, b = self.value(then, kind), self.value(otherwise, kind)
        return self.let(kind, f"select {condition.kind} {condition.text}, {kind} {a.text}, {kind} {b.text}")

    def least(self, a: Term, b: Operand) -> Term:
        """The smaller of two integers."""
        return self.select(a < b, a, b)

    def call(self, name: str, result: str, *given: Term) -> Term:
        """What a function elsewhere, or an intrinsic, gives."""
        kinds = ", ".join(value.kind for value in given)
        self.module.declared[name] = f"declare {result} @{name}({kinds})"
        text = f"call {result} @{name}({', '.join(f'{v.kind} {v.text}' for v in given)})"
        if result == "void":
            self.lines.append("  " + text)
            return Term(self, "void", "")
        return self.let(result, text)

    # -- memory --------------------------------------------------------------------------------------------------------

    def at(self, base: Term, index: Operand, kind: str = "i8") -> Term:
        """The address of an element."""
        number = self.value(index, "i64")
        return self.let("ptr", f"getelementptr {kind}, ptr {base.text}, i64 {number.text}")

    def load(self, kind: str, base: Term, index: Operand = 0) -> Term:
        """An element, or lanes that begin at one: the index counts elements."""
        one = element(kind)
        place = base if not isinstance(index, Term) and index == 0 else self.at(base, index, one)
        return self.let(kind, f"load {kind}, ptr {place.text}, align {_SIZES[one]}")

    def store(self, value: Term, base: Term, index: Operand = 0) -> None:
        """Write an element, or lanes that begin at one."""
        one = element(value.kind)
        place = base if not isinstance(index, Term) and index == 0 else self.at(base, index, one)
        self.lines.append(f"  store {value.kind} {value.text}, ptr {place.text}, align {_SIZES[one]}")

    def lanes_below(self, count: Term, lanes: int) -> Term:
        """A mask of the first lanes, so many."""
        numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
        return Term(self, vector("i64", lanes), f"<{numbers}>") < self.splat(count, lanes)

    def load_masked(self, kind: str, place: Term, mask: Term) -> Term:
        """Lanes that begin at a place, as far as they are wanted; the others are 0."""
        start = self.value(0, kind)
        return self.call(
            f"llvm.masked.load.{_suffix(kind)}.p0", kind, place, self.alignment(kind), mask, start
        )

    def store_masked(self, value: Term, place: Term, mask: Term) -> None:
        """Write those lanes that are wanted."""
        kind = value.kind
        self.call(f"llvm.masked.store.{_suffix(kind)}.p0", "void", value, place, self.alignment(kind), mask)

    def alignment(self, kind: str) -> Term:
        """An element's."""
        return Term(self, "i32", str(_SIZES[element(kind)]))

    def stack(self, kind: str, count: int = 1) -> Term:
        """Memory for as long as the function runs."""
        self.count += 1
        self.slots.append(f"  %v{self.count} = alloca [{count} x {kind}], align 64")
        return Term(self, "ptr", f"%v{self.count}")

    def variable(self, kind: str, start: Operand) -> RoutineVariable:
        """A value that changes."""
        self.count += 1
        self.slots.append(f"  %v{self.count} = alloca {kind}")
        variable = RoutineVariable(self, kind, Term(self, "ptr", f"%v{self.count}"))
        variable.set(start)
        return variable

    def copy(self, target: Term, source: Term, nbytes: Term) -> None:
        """Bytes to memory that does not overlap."""
        no = Term(self, "i1", "false")
        self.call("llvm.memcpy.p0.p0.i64", "void", target, source, nbytes, no)

    def clear(self, target: Term, nbytes: Operand) -> None:
        """Zeros."""
        count, no = self.value(nbytes, "i64"), Term(self, "i1", "false")
        self.call("llvm.memset.p0.i64", "void", target, Term(self, "i8", "0"), count, no)

    # -- control -------------------------------------------------------------------------------------------------------

    def label(self) -> str:
        """A name for a block."""
        self.count += 1
        return f"b{self.count}"

    def begin(self, label: str) -> None:
        """From here on in another block."""
        self.lines.append(f"{label}:")

    def go(self, label: str) -> None:
        """On to a block."""
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: Term, then: str, otherwise: str) -> None:
        """On to one of two blocks."""
        self.lines.append(f"  br i1 {condition.text}, label %{then}, label %{otherwise}")

    def ret(self, value: Term | None = None) -> None:
        """The end, in the last block."""
        self.lines.append("  ret void" if value is None else f"  ret {value.kind} {value.text}")
        self.ended = True

    @contextmanager
    def range(self, start: Operand, end: Operand, step: int = 1) -> Iterator[Term]:
        """A loop over start, start + step … below end; downwards, not below end, if the step is negative."""
        counter = self.variable("i64", start)
        limit = self.value(end, "i64")
        head, body, after = self.label(), self.label(), self.label()
        self.go(head)
        self.begin(head)
        now = counter.now
        self.branch(now < limit if step > 0 else now >= limit, body, after)
        self.begin(body)
        yield now
        counter.set(now + step)
        self.go(head)
        self.begin(after)

    @contextmanager
    def loop(self) -> Iterator[RoutineLoop]:
        """A loop that is left by `leave`."""
        head, after = self.label(), self.label()
        self.go(head)
        self.begin(head)
        yield RoutineLoop(self, after)
        self.go(head)
        self.begin(after)

    @contextmanager
    def if_(self, condition: Term) -> Iterator[None]:
        """What runs if it holds."""
        then, after = self.label(), self.label()
        self.branch(condition, then, after)
        self.begin(then)
        yield
        self.go(after)
        self.begin(after)

    @contextmanager
    def choice(self, condition: Term) -> Iterator[RoutineChoice]:
        """What runs if it holds, up to `otherwise()`, and what if not."""
        then, other, after = self.label(), self.label(), self.label()
        self.branch(condition, then, other)
        self.begin(then)
        choice = RoutineChoice(self, other, after)
        yield choice
        if not choice.turned:
            choice.otherwise()
        self.go(after)
        self.begin(after)


@dataclass(slots=True)
class RoutineLoop:
    """A loop that is open."""

    of: Emitter
    after: str

    def leave(self, condition: Term) -> None:
        """Out of it, if it holds."""
        on = self.of.label()
        self.of.branch(condition, self.after, on)
        self.of.begin(on)


@dataclass(slots=True)
class RoutineChoice:
    """A branch that is open."""

    of: Emitter
    other: str
    after: str
    turned: bool = False

    def otherwise(self) -> None:
        """What follows is the other side."""
        self.turned = True
        self.of.go(self.after)
        self.of.begin(self.other)
