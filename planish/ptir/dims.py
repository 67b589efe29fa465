"""Sizes that are not known until a program runs.

A `Dim` is a name with bounds (`B in 1..64`), or an integer polynomial over such names kept in one normal
form, so that equal sizes compare equal. Arithmetic that comes out constant returns a plain `int`; a `Dim` is
therefore never a number in disguise, and `int | Dim` (`DimLike`) is all a shape ever holds. Printing gives
text that parses back.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from planish.errors import ParseError, ShapeError
from planish.ptir.dim_numbers import SizeArithmetic, among_sizes

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOKEN: Final = re.compile(r"\s*(\d+|[A-Za-z_][A-Za-z0-9_]*|//|\.\.|[-+*%()])")

UNBOUNDED: Final = 2**63 - 1
"""The upper bound of a size that has none. No tensor is that long: its bytes, at least one each, are counted in 63 bits."""
DEFAULT_BOUNDS: Final = (1, UNBOUNDED)
# Parentheses and signs in front of a size; each costs the reader a few stack frames, and no real size has more.
MAX_NESTING: Final = 64
_MAX_DIGITS: Final = 100


class Symbol:
    """One named size with inclusive bounds: the indivisible part of a `Dim`."""

    __slots__ = ("hi", "lo", "name", "text")

    def __init__(self, name: str, lo: int, hi: int) -> None:
        self.name = name
        self.lo = lo
        self.hi = hi
        self.text = name

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Symbol)
            and self.name == other.name
            and self.lo == other.lo
            and self.hi == other.hi
        )

    def __hash__(self) -> int:
        return hash((self.name, self.lo, self.hi))

    def __repr__(self) -> str:
        return f"{self.name} in {self.lo}..{self.hi}"

    def __reduce__(self) -> tuple[type[Symbol], tuple[str, int, int]]:
        return Symbol, (self.name, self.lo, self.hi)


class Quotient:
    """A floor division that does not come out even, kept whole inside a `Dim`."""

    __slots__ = ("denominator", "hi", "lo", "numerator", "text")

    def __init__(self, numerator: DimLike, denominator: DimLike) -> None:
        self.numerator = numerator
        self.denominator = denominator
        corners = [n // d for n in bounds(numerator) for d in bounds(denominator)]
        self.lo = min(corners)
        self.hi = max(corners)
        self.text = f"{_operand_text(numerator)}//{_operand_text(denominator)}"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Quotient)
            and self.numerator == other.numerator
            and self.denominator == other.denominator
        )

    def __hash__(self) -> int:
        return hash((self.numerator, "//", self.denominator))

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Quotient], tuple[DimLike, DimLike]]:
        return Quotient, (self.numerator, self.denominator)


Atom = Symbol | Quotient
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]


class Dim(SizeArithmetic):
    """A dynamic size in normal form: a sum of products of atoms with integer coefficients.

    Bounds come from interval arithmetic and may be wider than the truth, never narrower.
    """

    __slots__ = ("_hash", "_text", "hi", "lo", "terms")

    terms: Terms
    lo: int
    hi: int

    def __init__(self, terms: Terms) -> None:
        """Callers outside this module use `Dim.named` and arithmetic; `terms` must be in normal form."""
        lo = hi = 0
        for monomial, coefficient in terms:
            low = high = coefficient
            for atom in monomial:
                corners = (low * atom.lo, low * atom.hi, high * atom.lo, high * atom.hi)
                low, high = min(corners), max(corners)
            lo += low
            hi += high
        if len(terms) > 1:
            lo, hi = _within_quotient(terms, lo, hi)
        self.terms = terms
        self.lo = lo
        self.hi = hi
        self._hash = hash(terms)
        self._text = _terms_text(terms)

    @staticmethod
    def named(name: str, lo: int = DEFAULT_BOUNDS[0], hi: int = DEFAULT_BOUNDS[1]) -> Dim:
        """A fresh size `name`, at least `lo` and at most `hi`, both included."""
        if not _NAME.match(name):
            raise ShapeError(
                f"{name!r} cannot name a dimension", remedy="use a letter followed by letters, digits or _"
            )
        if not 0 <= lo <= hi:
            raise ShapeError(f"dimension {name} has bounds {lo}..{hi}", remedy="bounds need 0 <= lo <= hi")
        return Dim((((Symbol(name, lo, hi),), 1),))

    @staticmethod
    def parse(text: str, scope: Mapping[str, Dim] | None = None) -> DimLike:
        """Read `B`, `4*B+3`, `(B+3)//2`, `17` or a declaration `B in 1..64`; names are looked up in `scope`."""
        return _DimParser(text, scope or {}).parse()

    @property
    def name(self) -> str | None:
        """The name, if this is a plain named size; None for a compound expression."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
                return monomial[0].name
        return None

    @property
    def declaration(self) -> str:
        """The text that declares a plain named size: `B in 1..64`."""
        return f"{self._text} in {self.lo}..{self.hi}"

    def symbols(self) -> Iterator[Symbol]:
        """Every named size below this expression, with repetition."""
        stack: list[DimLike] = [self]
        while stack:
            dim = stack.pop()
            if isinstance(dim, int):
                continue
            for monomial, _ in dim.terms:
                for atom in monomial:
                    if isinstance(atom, Symbol):
                        yield atom
                    else:
                        stack += (atom.numerator, atom.denominator)

    def substitute(self, values: Mapping[str, DimLike]) -> DimLike:
        """Replace named sizes; names that `values` lacks stay."""
        total: DimLike = 0
        for monomial, coefficient in self.terms:
            product: DimLike = coefficient
            for atom in monomial:
                if isinstance(atom, Symbol):
                    factor = values.get(atom.name)
                    product = product * (Dim((((atom,), 1),)) if factor is None else factor)
                else:
                    product = product * (
                        substitute(atom.numerator, values) // substitute(atom.denominator, values)
                    )
            total = total + product
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number this size is once every name has a value."""
        result = self.substitute(values)
        if isinstance(result, Dim):
            missing = sorted({s.name for s in result.symbols()})
            raise ShapeError(f"size {self} depends on {', '.join(missing)}, which have no value here")
        return result

    def __add__(self, other: DimLike) -> DimLike:
        if not isinstance(cast("object", other), int | Dim):
            return self.as_number() + other if isinstance(other, float | complex) else NotImplemented
        total = dict(self.terms)
        for monomial, coefficient in _terms_of(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _normal(total)

    __radd__ = __add__

    def __neg__(self) -> DimLike:
        return _normal({monomial: -coefficient for monomial, coefficient in self.terms})

    def __sub__(self, other: DimLike) -> DimLike:
        return self + -other

    def __rsub__(self, other: int) -> DimLike:
        return -self + other

    def __mul__(self, other: DimLike) -> DimLike:
        if not isinstance(cast("object", other), int | Dim):
            return self.as_number() * other if isinstance(other, float | complex) else NotImplemented
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms_of(other):
                monomial = tuple(sorted(left + right, key=_atom_key))
                total[monomial] = total.get(monomial, 0) + a * b
        return _normal(total)

    __rmul__ = __mul__

    @among_sizes(operator.floordiv)
    def __floordiv__(self, other: DimLike) -> DimLike:
        return _floordiv(self, other)

    @among_sizes(lambda size, number: number // size)
    def __rfloordiv__(self, other: int) -> DimLike:
        return _floordiv(other, self)

    @among_sizes(lambda size, number: number % size)
    def __rmod__(self, other: int) -> DimLike:
        return other - _floordiv(other, self) * self

    @among_sizes(operator.mod)
    def __mod__(self, other: DimLike) -> DimLike:
        return self - _floordiv(self, other) * other

    # Order is told where the bounds decide it; beside a number of the program it is one, too.

    @among_sizes(operator.lt)
    def __lt__(self, other: DimLike) -> bool:
        return _is_negative(self - other, self, "<", other)

    @among_sizes(operator.gt)
    def __gt__(self, other: DimLike) -> bool:
        return _is_negative(other - self, self, ">", other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self is other or (self._hash == other._hash and self.terms == other.terms)
        return False if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        names = ", ".join(sorted({repr(symbol) for symbol in self.symbols()}))
        return f"Dim({self._text!r}; {names})"

    def __reduce__(self) -> tuple[type[Dim], tuple[Terms]]:
        return Dim, (self.terms,)


DimLike = int | Dim


def _is_negative(difference: DimLike, left: Dim, order: str, right: DimLike) -> bool:
    low, high = bounds(difference)
    if low < 0 <= high:
        raise ShapeError(
            f"whether {left} {order} {right} is not known before the program runs: {left!r}",
            remedy="give the size bounds that decide it, or compare tensors: planish.where(x.shape[0] < y, …)",
        )
    return high < 0


def _within_quotient(terms: Terms, lo: int, hi: int) -> tuple[int, int]:
    """Bounds of a sum with a quotient in it, which is no more than the fraction, and less than one below: n - n//2 is at least n/2."""
    for monomial, factor in terms:
        if len(monomial) != 1 or not isinstance(monomial[0], Quotient):
            continue
        numerator, by = monomial[0].numerator, monomial[0].denominator
        if not isinstance(by, int) or by < 1:
            continue
        rest = _normal({other: count for other, count in terms if other is not monomial})
        whole = rest * by + numerator * factor
        spare = abs(factor) * (by - 1)
        least, most = (
            bounds(whole - spare if factor > 0 else whole),
            bounds(whole + (0 if factor > 0 else spare)),
        )
        return max(lo, -(-least[0] // by)), min(hi, most[1] // by)
    return lo, hi


def bounds(dim: DimLike) -> tuple[int, int]:
    """Lowest and highest value a size can take."""
    return (dim, dim) if isinstance(dim, int) else (dim.lo, dim.hi)


def substitute(dim: DimLike, values: Mapping[str, DimLike]) -> DimLike:
    """`dim` with the named sizes in `values` replaced."""
    return dim if isinstance(dim, int) else dim.substitute(values)


def product(dims: Iterable[DimLike]) -> DimLike:
    """The number of elements of a shape."""
    total: DimLike = 1
    for dim in dims:
        total = total * dim
    return total


def _atom_key(atom: Atom) -> str:
    return atom.text


def _term_key(term: tuple[Monomial, int]) -> tuple[int, str]:
    return -len(term[0]), "*".join(atom.text for atom in term[0])


def _terms_of(dim: DimLike) -> Terms:
    return dim.terms if isinstance(dim, Dim) else ((((), dim),) if dim else ())


def _normal(total: Mapping[Monomial, int]) -> DimLike:
    terms = sorted(((m, c) for m, c in total.items() if c), key=_term_key)
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Dim(tuple(terms))


def _floordiv(numerator: DimLike, denominator: DimLike) -> DimLike:
    if bounds(denominator)[0] < 1:
        raise ShapeError(f"size {numerator} is divided by {denominator}, which may be below 1")
    if isinstance(numerator, int) and isinstance(denominator, int):
        return numerator // denominator
    if numerator == denominator:
        return 1
    # Terms that divide exactly leave the quotient; floor((d*q + r) / d) is q + floor(r / d) for integers.
    even: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    divisor = _terms_of(denominator)
    for monomial, coefficient in _terms_of(numerator):
        quotient = _divide_term(monomial, coefficient, divisor)
        if quotient is None:
            rest[monomial] = coefficient
        else:
            even[quotient[0]] = even.get(quotient[0], 0) + quotient[1]
    if isinstance(denominator, int) and () in rest:
        whole, rest[()] = divmod(rest[()], denominator)
        even[()] = even.get((), 0) + whole
    remainder = _normal(rest)
    low, high = bounds(remainder)
    if low >= 0 and high < bounds(denominator)[0]:
        return _normal(even)
    if isinstance(remainder, int) and isinstance(denominator, int):
        return _normal(even) + remainder // denominator
    return _normal(even) + Dim((((Quotient(remainder, denominator),), 1),))


def _divide_term(monomial: Monomial, coefficient: int, divisor: Terms) -> tuple[Monomial, int] | None:
    if len(divisor) != 1 or coefficient % divisor[0][1]:
        return None
    left = list(monomial)
    for atom in divisor[0][0]:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left), coefficient // divisor[0][1]


def _operand_text(dim: DimLike) -> str:
    if isinstance(dim, int):
        return str(dim) if dim >= 0 else f"({dim})"
    return str(dim) if dim.name is not None else f"({dim})"


def _terms_text(terms: Terms) -> str:
    parts: list[str] = []
    for monomial, coefficient in terms:
        factors = [a.text if isinstance(a, Symbol) else f"({a.text})" for a in monomial]
        if len(monomial) == 1 and coefficient == 1:
            factors = [monomial[0].text]
        if abs(coefficient) != 1 or not monomial:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+" if parts else ""
        parts.append(sign + "*".join(factors))
    return "".join(parts)


class _DimParser:
    """Reads one dimension expression; `//` and `*` bind alike, left to right, as they print."""

    def __init__(self, text: str, scope: Mapping[str, Dim]) -> None:
        self.text = text
        self.scope = scope
        self.position = 0
        self.word = ""
        self.start = 0
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        if not self.text[self.position :].strip():
            self.start, self.word = len(self.text), ""
            return
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.start = self.position
            raise self.error("a number, a name, or one of + - * // % ( )")
        self.word = match.group(1)
        self.start = match.start(1)
        self.position = match.end()

    def error(self, expected: str) -> ParseError:
        return ParseError(
            f"cannot read dimension {self.text!r}: expected {expected} at column {self.start + 1}",
            line=1,
            column=self.start + 1,
            source_line=self.text,
            expected=(expected,),
        )

    def refuse(self, message: str) -> ParseError:
        """The error for text that follows the grammar and still is no size."""
        shown = self.text if len(self.text) <= 80 else f"{self.text[:80]}…"
        return ParseError(message, line=1, column=1, source_line=shown)

    def parse(self) -> DimLike:
        declared = re.fullmatch(r"\s*([A-Za-z_]\w*)\s+in\s+(\d+)\s*\.\.\s*(\d+)\s*", self.text)
        if declared is not None:
            if max(map(len, declared.groups()[1:])) > _MAX_DIGITS:
                raise self.refuse("this number is too large for a size")
            return Dim.named(declared.group(1), int(declared.group(2)), int(declared.group(3)))
        dim = self.sum()
        if self.word:
            raise self.error("the end")
        return dim

    def sum(self) -> DimLike:
        total = self.term()
        while self.word in ("+", "-"):
            sign = self.word
            self.advance()
            right = self.term()
            total = total + right if sign == "+" else total - right
        return total

    def term(self) -> DimLike:
        total = self.factor()
        while self.word in ("*", "//", "%"):
            operator = self.word
            self.advance()
            right = self.factor()
            if operator == "*":
                total = total * right
                continue
            try:
                quotient = _floordiv(total, right)
            except ShapeError as error:
                raise self.refuse(f"this is not a size: {error.message}") from error
            total = quotient if operator == "//" else total - quotient * right
        return total

    def factor(self) -> DimLike:
        word = self.word
        if word in ("-", "("):
            self.depth += 1
            if self.depth > MAX_NESTING:
                raise self.refuse("this size nests too deep")
            self.advance()
            inner = -self.factor() if word == "-" else self.sum()
            if word == "(":
                if self.word != ")":
                    raise self.error("')'")
                self.advance()
            self.depth -= 1
            return inner
        if word.isdigit():
            if len(word) > _MAX_DIGITS:
                raise self.refuse("this number is too large for a size")
            self.advance()
            return int(word)
        if _NAME.match(word):
            dim = self.scope.get(word)
            if dim is None:
                known = ", ".join(sorted(self.scope)) or "none is declared"
                raise self.error(f"a declared dimension ({known})")
            self.advance()
            return dim
        raise self.error("a number, a name or '('")
