"""Tokens, types and attributes of MLIR's text."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from planish import dtypes
from planish.dtypes import DType
from planish.errors import Location, ParseError
from planish.stablehlo.elements import elements, from_bits
from planish.stablehlo.syntax import (
    Attribute,
    Dense,
    HloTensorType,
    OtherType,
    QuantizedElement,
    SymbolRef,
    TupleType,
    Type,
)

ELEMENTS: Final[dict[str, DType]] = {
    "i1": dtypes.bool_,
    **{f"i{n}": getattr(dtypes, f"int{n}") for n in (4, 8, 16, 32, 64)},
    **{f"ui{n}": getattr(dtypes, f"uint{n}") for n in (4, 8, 16, 32, 64)},
    **{f"si{n}": getattr(dtypes, f"int{n}") for n in (4, 8, 16, 32, 64)},
    "index": dtypes.int64,
    "f16": dtypes.float16,
    "bf16": dtypes.bfloat16,
    "f32": dtypes.float32,
    "f64": dtypes.float64,
    "f8E4M3FN": dtypes.float8_e4m3fn,
    "f8E5M2": dtypes.float8_e5m2,
    "complex<f32>": dtypes.complex64,
    "complex<f64>": dtypes.complex128,
}
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
    |(?P<value>%[\w$.-]+(?:\#\d+)?)
    |(?P<symbol>@(?:[\w$.-]+|"(?:[^"\\]|\\.)*"))
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?0x[0-9a-fA-F]+|-?\d+\.\d*(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+|-?\d+)
    |(?P<name>[!#^]?[A-Za-z_][\w$.]*)
    |(?P<mark>->|::|\{-\#|\#-\}|[][(){}<>,:=?*!\#/+-])
    """,
    re.VERBOSE,
)
_TENSOR_HEAD: Final = re.compile(r"\s*((?:(?:\d+|\?)\s*x\s*)*)")
_ELEMENT: Final = re.compile(r"\s*(complex<\s*\w+\s*>|[A-Za-z]\w*)")
_ESCAPE: Final = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}


class HloReader:
    """A place in a text, and what can be read there."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.kind = ""
        self.word = ""
        self.start = 0
        self.line = 1
        self._counted = 0
        self.aliases: dict[str, Attribute] = {}
        self.places: dict[str, str] = {}
        """Names of locations: what they are, as text."""
        self.next()

    # --- tokens ---

    def next(self) -> str:
        """Go on by one token; what it was."""
        before = self.word
        text, at = self.text, self.at
        while True:
            if at >= len(text):
                self.kind, self.word, self.start, self.at = "end", "", at, at
                return before
            match = _TOKEN.match(text, at)
            if match is None:
                self.start = at
                self.fail(f"{text[at]!r} is nothing that MLIR's text has")
            start, at = at, match.end()
            if match.lastgroup != "skip":
                break
        self.kind, self.word, self.start, self.at = str(match.lastgroup), match.group(), start, at
        return before

    def peek(self) -> str:
        """The token after this one."""
        state = self.kind, self.word, self.start, self.at
        self.next()
        word = self.word
        self.kind, self.word, self.start, self.at = state
        return word

    def back_to(self, place: int) -> None:
        """Read on from another place."""
        self.at = place
        self.next()

    def accept(self, token: str) -> bool:
        """Go on if this is the token."""
        if self.word == token and self.kind != "string":
            self.next()
            return True
        return False

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                self.fail(f"{self.word or 'the end'!r} where {token!r} was expected")

    def take(self, kind: str) -> str:
        """The token, which must be of a kind."""
        if self.kind != kind:
            self.fail(f"{self.word or 'the end'!r} where a {kind} was expected")
        return self.next()

    def location(self) -> Location:
        """Where this token stands."""
        if self.start < self._counted:
            self.line, self._counted = 1, 0
        self.line += self.text.count("\n", self._counted, self.start)
        self._counted = self.start
        return Location(self.file, self.line)

    def fail(self, message: str, remedy: str | None = None) -> NoReturn:
        """Say what is wrong here."""
        raise self.mistake(message, remedy)

    def mistake(self, message: str, remedy: str | None = None) -> ParseError:
        """What is wrong here, to be raised."""
        return ParseError(f"StableHLO: {message}", location=self.location(), remedy=remedy)

    # --- lists ---

    def many(self, opening: str, closing: str, one: Any) -> list[Any]:
        """Things between brackets, separated by commas."""
        self.expect(opening)
        entries: list[Any] = []
        while not self.accept(closing):
            if entries:
                self.expect(",")
            entries.append(one())
        return entries

    def integers(self) -> tuple[int, ...]:
        """`[1, 2]`, or nested: all of them."""
        return tuple(self.many("[", "]", self.integer))

    def integer(self) -> Any:
        if self.word == "[":
            return self.integers()
        if self.word in ("true", "false"):
            return self.next() == "true"
        return int(self.take("number"), 0)

    def balanced(self) -> str:
        """The text from an opening bracket to the one that closes it."""
        begin, end = self.start, self.at
        opened = [_CLOSING[self.next()]]
        while opened:
            if self.kind == "end":
                self.fail(f"{opened[-1]!r} is missing")
            token, kind = self.word, self.kind
            end = self.at
            self.next()
            if kind == "mark" and token in _CLOSING:
                opened.append(_CLOSING[token])
            elif kind == "mark" and token == opened[-1]:
                opened.pop()
        return self.text[begin:end]

    # --- types ---

    def types(self) -> list[Type]:
        """`(t, t)`, or one type alone."""
        return list(self.many("(", ")", self.type)) if self.word == "(" else [self.type()]

    def signature(self) -> tuple[list[Type], list[Type]]:
        """`(t, t) -> t`, `t -> t`: operands and results; `t, t`: both at once."""
        first = self.types()
        while self.accept(","):
            first.append(self.type())
        return (first, self.types()) if self.accept("->") else (first, first)

    def type(self) -> Type:
        word = self.word
        if word == "(":
            begin = self.start
            self.signature()
            return OtherType(self.text[begin : self.start].strip())
        if word == "tuple":
            self.next()
            return TupleType(tuple(self.many("<", ">", self.type)))
        if word == "tensor":
            return self._tensor()
        if word in ELEMENTS or word in ("none", "complex"):
            name = self.next()
            return OtherType(name + self.balanced() if self.word == "<" else name)
        if word.startswith("!"):
            name = self.next()
            return OtherType(name + self.balanced() if self.word == "<" else name)
        raise self.mistake(f"{word!r} is no type")

    def _tensor(self) -> HloTensorType:
        self.next()
        if self.word != "<":
            self.fail("'<' is missing after tensor")
        head = _TENSOR_HEAD.match(self.text, self.at)
        if head is None:
            self.fail("a tensor has no type")
        sizes = [s.strip() for s in head.group(1).split("x")[:-1]]
        dims = tuple(None if s == "?" else int(s) for s in sizes)
        element = self._element(head.end())
        bounds: tuple[int | None, ...] = ()
        if self.accept(","):
            if self.word not in ("#stablehlo.bounds", "#chlo.bounds", "#mhlo.type_extensions"):
                self.fail(f"a tensor with {self.word}: there are dense tensors only")
            self.next()
            self.accept("<")
            if self.accept("bounds"):
                self.expect("=")
                bounds = tuple(self.many("[", "]", self._bound))
            else:
                limits = [self._bound()]
                while self.accept(","):
                    limits.append(self._bound())
                bounds = tuple(limits)
            self.expect(">")
        self.expect(">")
        return HloTensorType(dims, element, bounds)

    def _bound(self) -> int | None:
        return None if self.accept("?") else int(self.take("number"))

    def _element(self, place: int) -> DType | QuantizedElement:
        if self.text.startswith("!quant.uniform", place):
            self.back_to(place)
            self.next()
            return self._quantized()
        match = _ELEMENT.match(self.text, place)
        name = "" if match is None else match.group(1).replace(" ", "")
        if match is None or name not in ELEMENTS:
            self.start = place
            self.fail(
                f"there are no tensors of {name or self.text[place : place + 20]!r}",
                "planish has " + ", ".join(ELEMENTS),
            )
        self.back_to(match.end())
        return ELEMENTS[name]

    def _quantized(self) -> QuantizedElement:
        self.expect("<")
        storage, low, high = ELEMENTS.get(self.take("name")), None, None
        if self.accept("<"):
            low = int(self.take("number"))
            self.expect(":")
            high = int(self.take("number"))
            self.expect(">")
        self.expect(":")
        expressed = ELEMENTS.get(self.take("name"))
        if storage is None or expressed is None:
            self.fail("planish has no such quantised elements")
        axis = None
        if self.accept(":"):
            axis = int(self.take("number"))
        self.expect(",")
        pairs = self.many("{", "}", self._scale) if self.word == "{" else [self._scale()]
        self.expect(">")
        scales, zeros = zip(*pairs, strict=True)
        return QuantizedElement(storage, expressed, scales, zeros, axis, low, high)

    def _scale(self) -> tuple[float, int]:
        scale = float(self.take("number"))
        return scale, int(self.take("number")) if self.accept(":") else 0

    # --- attributes ---

    def dictionary(self) -> dict[str, Attribute]:
        """`{name = attribute, …}`."""
        return dict(self.many("{", "}", self._entry))

    def _entry(self) -> tuple[str, Attribute]:
        name = self.string() if self.kind == "string" else self.take("name")
        return name, self.attribute() if self.accept("=") else None

    def string(self) -> str:
        """A string, its escapes read."""
        text = self.take("string")[1:-1]
        return _ESCAPE.sub(
            lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else {"n": "\n", "t": "\t"}.get(m[1], m[1]), text
        )

    def attribute(self) -> Attribute:
        """An attribute; the type of a number is dropped."""
        word, kind = self.word, self.kind
        if kind == "string":
            return self.string()
        if kind == "symbol":
            return self.symbol()
        if kind == "number":
            return self._number()
        if word == "[":
            return tuple(self.many("[", "]", self.attribute))
        if word == "{":
            return self.dictionary()
        if word in ("true", "false"):
            return self.next() == "true"
        if word == "unit":
            self.next()
            return None
        if word == "array":
            return self._array()
        if word in ("dense", "dense_resource"):
            return self.dense()
        if word == "loc":
            self.next()
            return self.balanced()
        if word.startswith("#"):
            return self._dialect()
        if word == "-":
            self.next()
            return -self.attribute()
        return self.type()

    def _number(self) -> int | float:
        text = self.take("number")
        type: Type | None = None
        if self.word == ":" and self.peek() in ELEMENTS:
            self.next()
            type = self.type()
        if isinstance(type, OtherType) and ELEMENTS[type.text].is_float:
            kind = ELEMENTS[type.text]
            return from_bits(text, kind) if text.startswith("0x") else float(text)
        return float(text) if re.search(r"[.eE]", text) and not text.startswith("0x") else int(text, 0)

    def symbol(self) -> SymbolRef:
        name = self.take("symbol")[1:]
        return SymbolRef(name[1:-1] if name.startswith('"') else name)

    def _array(self) -> tuple[Any, ...]:
        """`array<i64: 1, 2>`."""
        self.next()
        self.expect("<")
        self.take("name")
        self.accept(":")
        values: list[Any] = []
        while not self.accept(">"):
            if values:
                self.expect(",")
            word = self.next()
            values.append(
                word == "true" if word in ("true", "false") else float(word) if "." in word else int(word, 0)
            )
        return tuple(values)

    def _dialect(self) -> Attribute:
        """`#stablehlo<word LT>`, `#stablehlo.gather<field = …>`, or an alias."""
        name = self.next()
        if self.word != "<":
            if name in self.aliases:
                return self.aliases[name]
            return name
        dialect, _, kind = name[1:].partition(".")
        if kind == "conv":
            self.expect("<")
            axes = self.convolution_axes()
            self.expect(">")
            return axes
        if dialect not in ("stablehlo", "chlo", "mhlo", "vhlo"):
            return name + self.balanced()
        self.expect("<")
        if not kind:
            kind = self.next()
        return self.fields(kind)

    def fields(self, kind: str) -> Attribute:
        """What is between `<` and `>` of an attribute of a dialect: a word, or fields with names."""
        if self.accept("<"):
            inner = self.fields(kind)
            self.expect(">")
            return inner
        if self.kind == "name" and self.peek() == ">":
            word = self.next()
            self.expect(">")
            return word
        fields: dict[str, Attribute] = {}
        while not self.accept(">"):
            if fields:
                self.expect(",")
            name = self.take("name")
            self.expect("=")
            if self.accept("<"):
                fields[name] = self.fields(name)
            elif (
                self.kind == "name"
                and not self.word.startswith("#")
                and self.word not in ("true", "false", "array")
            ):
                fields[name] = self.next()
            else:
                fields[name] = self.attribute()
        return fields

    def convolution_axes(self) -> dict[str, tuple[str, ...]]:
        """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: the letters of each axis."""
        lhs = self._letters()
        if not self.word.startswith("x"):
            self.fail("'x' is missing")
        self.next()
        rhs = self._letters()
        self.expect("->")
        return {"lhs": lhs, "rhs": rhs, "out": self._letters()}

    def _letters(self) -> tuple[str, ...]:
        return tuple(self.many("[", "]", self.next))

    # --- elements ---

    def dense(self) -> Dense:
        """`dense<…> : tensor<…>`."""
        if self.word == "dense_resource":
            self.fail(
                "elements kept in a resource section", "print the module with its constants written out"
            )
        self.next()
        if self.word != "<":
            self.fail("'<' is missing after dense")
        begin = self.at
        end = self._end_of_dense(begin)
        literal = self.text[begin:end].strip()
        self.back_to(end)
        self.expect(">", ":")
        place = self.start
        type = self.type()
        if not isinstance(type, HloTensorType):
            self.start = place
            self.fail("the elements are not those of a tensor")
        array = elements(literal, type)
        if array.ndim and array.shape != tuple(0 if d is None else d for d in type.dims):
            self.fail(f"{len(array)} elements for {type}")
        return Dense(type, array)

    def _end_of_dense(self, begin: int) -> int:
        if self.text[begin] == '"':
            return self.text.index('"', begin + 1) + 1
        return self.text.index(">", begin)
