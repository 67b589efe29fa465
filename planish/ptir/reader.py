"""The reader of the text form's smaller parts: names, numbers, sizes, types, literals, locations.

It keeps a place in the text. Whatever does not follow the grammar is a `ParseError` with line, column, caret
and what was expected there. Line breaks are spaces, `//` starts a comment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from planish.cursor import Cursor, T
from planish.dtypes import DType
from planish.errors import Location, ParseError, PlanishError, ShapeError
from planish.ptir.literal_text import (
    INTEGER_FORM,
    NUMBER_FORM,
    BadLiteral,
    data_from_words,
    decode_bytes,
    literal_from_data,
    parse_int,
    python_float,
)
from planish.ptir.ops.checking import ALL as ELEMENT_TYPES
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, DimLike, Quant, TensorType

SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TENSOR: Final = re.compile(r"tensor\s*<[^<>]*(?:<[^<>]*>[^<>]*)?>")
_SIZES_FIRST: Final = re.compile(r"\s*((?:\d+x)+)([a-z]\w*)")
"""As in MLIR."""
_DIM: Final = re.compile(r"[A-Za-z0-9_ \t+*/%()-]+")
_STATIC_DIMS: Final = re.compile(r"([0-9]{1,18}(?:x[0-9]{1,18})*)\s*,")
_DECLARATION: Final = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)\s+in\s+([0-9]{1,19})\s*\.\.\s*([0-9]{1,19})(?![0-9])"
)
NO_DIMS: Final[Mapping[str, Dim]] = {}


class PtirReader(Cursor):
    """A place in a text, and the sizes that are declared there."""

    __slots__ = ("dims", "types")

    def __init__(
        self, text: str, *, file: str | None = None, dims: Mapping[str, Dim] = NO_DIMS, position: int = 0
    ) -> None:
        super().__init__(text, file=file, position=position)
        self.dims = dims
        self.types: dict[str, TensorType] = {}
        """Types read so far by their text, for the dims in force."""

    def declare(self, dims: Mapping[str, Dim]) -> None:
        """Read what follows under other declarations."""
        self.dims = dims
        self.types = {}

    # --- numbers ---

    def integer(self) -> int:
        start = self.here()
        match = self.match(NUMBER_FORM)
        if match is None or not INTEGER_FORM.match(match.group()):
            self.position = start
            self.unexpected("an integer")
        return self._convert(parse_int, match)

    def floating(self) -> float:
        return self._convert(python_float, self.need(NUMBER_FORM, "a number"))

    def number(self) -> int | float:
        """An integer or a float, told apart by how it is written."""
        match = self.need(NUMBER_FORM, "a number")
        convert: Callable[[str], float] = parse_int if INTEGER_FORM.match(match.group()) else python_float
        return self._convert(convert, match)

    def _convert(self, convert: Callable[[str], T], match: re.Match[str]) -> T:
        try:
            return convert(match.group())
        except BadLiteral as error:
            self.fail(str(error), offset=match.start())

    # --- sizes and types ---

    def dim(self) -> DimLike:
        """A size outside a type: an expression over integers and declared names."""
        start = self.here()
        text = self.need(_DIM, "an integer", "a dimension").group()
        # A closing parenthesis that the expression did not open belongs to what stands around it.
        depth = 0
        for index, character in enumerate(text):
            depth += (character == "(") - (character == ")")
            if depth < 0:
                text = text[:index]
                break
        size = self._dim(text, start)
        self.position = start + len(text.rstrip())
        return size

    def _dim(self, text: str, offset: int) -> DimLike:
        digits = text.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= 18:
            return int(digits)
        if " in " in text:
            self.fail("sizes are declared at the function", offset=offset, remedy="func @f<B in 1..64>(…)")
        try:
            return Dim.parse(text, self.dims)
        except ParseError as error:
            self.fail(
                "this is not a size" if error.expected else error.message,
                *error.expected,
                offset=offset + (error.column or 1) - 1,
                remedy=None
                if self.dims or not error.expected
                else "declare names at the function: func @f<B in 1..64>(…)",
            )
        except RecursionError:
            self.fail("this size nests too deep", offset=offset)
        except (
            ArithmeticError,
            ValueError,
        ) as error:  # a division by 0 or by a size that may be, or endless digits
            self.fail(
                error.message if isinstance(error, PlanishError) else "this is not a size", offset=offset
            )

    def declarations(self) -> dict[str, Dim]:
        """`<B in 1..64, H in 0..8>`, or nothing."""
        dims: dict[str, Dim] = {}
        if not self.take("<"):
            return dims
        while True:
            start = self.here()
            name, lo, hi = self.need(_DECLARATION, "a declaration such as B in 1..64").groups()
            if name in dims:
                self.fail(f"dimension {name} is declared twice", offset=start)
            if max(int(lo), int(hi)) >= 1 << 63:
                self.fail(f"dimension {name} has a bound that 64 bits do not hold", offset=start)
            try:
                dims[name] = Dim.named(name, parse_int(lo), parse_int(hi))
            except ShapeError as error:
                self.fail(error.message, offset=start, remedy=error.remedy)
            except BadLiteral as error:
                self.fail(str(error), offset=start)
            if not self.take(","):
                break
        self.expect(">")
        return dims

    def dtype(self) -> DType:
        return self.dtype_of()

    def tensor_type(self) -> TensorType:
        self.skip()
        match = _TENSOR.match(self.text, self.position)
        if match is None:
            self._explain_bad_type()
        text = match.group()
        type = self.types.get(text)
        if type is None:
            type = self.types[text] = self._tensor_type(match)
        self.position = match.end()
        return type

    def _explain_bad_type(self) -> NoReturn:
        if self.take_word("tensor"):
            self.expect("<")
            self.fail("this type is not closed", "'>'")
        self.unexpected("a type such as tensor<f32, 4x8>")

    def _tensor_type(self, match: re.Match[str]) -> TensorType:
        """Inside the brackets: dtype, sizes with x between, quantisation; the last two may be missing."""
        close = match.end() - 1
        self.position = self.text.index("<", match.start()) + 1
        start = self.position
        other_order = _SIZES_FIRST.match(self.text, start, close)
        if other_order is not None:
            sizes, element = other_order.groups()
            self.fail(
                f"found {sizes!r}", "a dtype", offset=start, remedy=f"write tensor<{element}, {sizes[:-1]}>"
            )
        dtype = self.dtype()
        if dtype not in ELEMENT_TYPES:
            self.fail(f"a tensor cannot hold {dtype.short}", offset=start)
        dims: tuple[DimLike, ...] = ()
        quant: Quant | None = None
        if self.take(","):
            self.skip()
            if not self.text.startswith("quant", self.position):
                dims = self._dims_until(close)
                if self.take(","):
                    quant = self.quant()
            else:
                quant = self.quant()
        self.skip()
        if self.position != close:
            self.unexpected("','" if quant is None else "'>'", "'>'")
        try:
            return TensorType(dtype, dims, quant)
        except ShapeError as error:
            self.fail(error.message, offset=start, remedy=error.remedy)

    def _dims_until(self, close: int) -> tuple[DimLike, ...]:
        """Sizes separated by x, which counts only outside parentheses."""
        dims: list[DimLike] = []
        start = position = self.position
        depth = 0
        while True:
            character = self.text[position] if position < close else ","
            depth = depth + (character == "(") - (character == ")") if position < close else 0
            if depth <= 0 and character in "x,":
                part = self.text[start:position]
                if part.strip() or dims or character == "x":
                    if not part.strip():
                        self.fail("a size is missing", "an integer", "a dimension", offset=position)
                    dims.append(self._dim(part, start))
                start = position + 1
                if character == ",":
                    break
            position += 1
        self.position = position
        return tuple(dims)

    def static_dims(self) -> tuple[int, ...]:
        """`4x8,`: sizes that are numbers, with the comma behind them; nothing for a scalar."""
        match = self.match(_STATIC_DIMS)
        try:
            return tuple(map(parse_int, match.group(1).split("x"))) if match is not None else ()
        except BadLiteral as error:
            self.fail(str(error))

    def quant(self) -> Quant:
        """`quant<f32, scale=[0.5], zero_point=[0], axis=1>`."""
        if not self.take_word("quant"):
            self.unexpected("quant<…>")
        self.expect("<")
        expressed = self.dtype()
        self.expect(",")
        self._key("scale")
        self.expect("[")
        scale = self.until("]", self.floating)
        self.expect(",")
        self._key("zero_point")
        self.expect("[")
        zeros = self.until("]", self.integer)
        axis: int | None = None
        if self.take(","):
            self._key("axis")
            axis = self.integer()
        self.expect(">")
        return Quant(expressed, tuple(scale), tuple(zeros), axis)

    def _key(self, name: str) -> None:
        if not self.take_word(name):
            self.unexpected(f"{name}=")
        self.expect("=")

    # --- literals ---

    def literal(self, dtype: DType, shape: tuple[int, ...]) -> Literal:
        """Data of a known type: one element for all, nested lists, or bytes."""
        start, count = self.here(), math.prod(shape)
        try:
            for prefix in ("base64", "hex"):
                if self.text.startswith(f'{prefix}"', start):
                    self.position += len(prefix)
                    digits = self.string()
                    data = decode_bytes(digits, dtype, count, hexadecimal=prefix == "hex")
                    return literal_from_data(data, dtype, shape, splat=False)
            if self.peek() != "[":
                words: list[str] = []
                self._element(dtype, words)
                if count == 0:
                    self.fail("a tensor without elements is written []", offset=start)
                return literal_from_data(data_from_words(words, dtype), dtype, shape, splat=True)
            words = self._list(dtype, shape)
            return literal_from_data(data_from_words(words, dtype), dtype, shape, splat=False)
        except BadLiteral as error:
            self.fail(str(error), offset=start)

    def _element(self, dtype: DType, words: list[str]) -> None:
        if dtype.is_complex:
            self.expect("(")
            words.append(self._number_word())
            self.expect(",")
            words.append(self._number_word())
            self.expect(")")
        elif dtype.is_bool:
            words.append(self.word("true", "false"))
        else:
            words.append(self._number_word())

    def _number_word(self) -> str:
        return self.need(NUMBER_FORM, "a number").group()

    def _list(self, dtype: DType, shape: tuple[int, ...]) -> list[str]:
        """The words of nested lists that must have exactly this shape."""
        words: list[str] = []
        rank = len(shape)
        if 0 in shape:
            self.expect("[")
            self.expect("]")
            return words
        if rank == 0:
            self.fail("a scalar is not a list")
        counts: list[int] = []
        while True:
            if len(counts) < rank:
                self.expect("[")
                counts.append(0)
                continue
            self._element(dtype, words)
            counts[-1] += 1
            # Close what is complete, then go on behind a comma.
            while counts[-1] == shape[len(counts) - 1]:
                if self.peek() != "]":
                    self.fail(f"a list has more than {counts[-1]} items", "']'")
                self.expect("]")
                counts.pop()
                if not counts:
                    return words
                counts[-1] += 1
            if self.peek() == "]":
                level = len(counts)
                self.fail(f"a list has {counts[-1]} items, not {shape[level - 1]}", "','")
            self.expect(",")

    # --- locations ---

    def location(self) -> Location | None:
        """`loc("file.py":12:3 in "function")`, or nothing."""
        if not self.take_word("loc"):
            return None
        self.expect("(")
        file = self.string()
        self.expect(":")
        line = self.integer()
        column = self.integer() if self.take(":") else None
        function = self.string() if self.take_word("in") else None
        self.expect(")")
        return Location(file, line, column, function)
