"""Rules into code: every way to match a pattern becomes one function of straight-line tests.

A pattern with commutative operands or alternatives is first expanded into *variants*, each with all choices made.
A variant knows which forms (`node.form_of`) it can match, which is all a matcher needs to dispatch, and becomes a
Python function when the first node of such a form turns up. What the form already proves is not tested again. Compiling a text takes
longer than matching with it for a while, so those of all rules of the package are in a file that Python compiles once
(`match_functions`); others are compiled here.

Templates on the right-hand side become constructor calls; what they compute from integer constants alone is folded
as they fire, so `x * c1 * c2 -> x * (c1 * c2)` multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import product
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, NoReturn, cast

from planish import dtypes
from planish.algebra.law import parameters_of
from planish.dtypes import Kind
from planish.errors import RewriteError
from planish.uop.match_functions import FUNCTIONS
from planish.uop.node import KIND_CODE, Number, UOp
from planish.uop.ops import ALU, COMPARISONS, Ops
from planish.uop.pattern import NodePattern

if TYPE_CHECKING:
    from planish.uop.matcher import Rule

MatchFunction = Callable[[UOp, object], "UOp | None"]

_FORM_SOURCES: Final = 3  # the sources whose ops are part of a form
_FOLDS: Final = {
    Ops.ADD: "({} + {})", Ops.SUB: "({} - {})", Ops.MUL: "({} * {})", Ops.AND: "({} & {})", Ops.OR: "({} | {})",
    Ops.XOR: "({} ^ {})", Ops.MAX: "max({}, {})", Ops.MIN: "min({}, {})", Ops.NEG: "(-{})",
}  # fmt: skip
"""What templates compute on integer constants when they fire. Everything else (floats round at every step, division
has a zero, shifts a width) is built as nodes and left to the folding rules."""


def variants_of(pattern: NodePattern) -> Iterator[NodePattern]:
    """Every way to read a pattern: all orders of commutative operands, every alternative."""
    if pattern.alternatives:
        for alternative in pattern.alternatives:
            for choice in variants_of(alternative):
                yield _inherit(choice, pattern)
        return
    if pattern.sources is None:
        yield pattern
        return
    orders = [pattern.sources] if pattern.ordered else [pattern.sources, pattern.sources[::-1]]
    for order in orders:
        for sources in product(*(tuple(variants_of(s)) for s in order)):
            yield NodePattern(
                pattern.ops,
                sources,
                name=pattern.name,
                arg=pattern.arg,
                kinds=pattern.kinds,
                rest=pattern.rest,
            )


def _inherit(choice: NodePattern, whole: NodePattern) -> NodePattern:
    """An alternative with the name and dtype kinds of the any_of it stands for."""
    if whole.kinds is not None:
        choice = choice.of(whole.kinds if choice.kinds is None else choice.kinds & whole.kinds)
    return choice if whole.name is None else choice.named(whole.name)


class Variant:
    """One way to match a rule: which forms it fits, and the function that tests and rewrites."""

    __slots__ = ("_function", "_tests", "pattern", "rule")

    def __init__(self, rule: Rule, pattern: NodePattern) -> None:
        self.rule = rule
        self.pattern = pattern
        self._function: MatchFunction | None = None
        self._tests: tuple[tuple[int, int, int], ...] | None = None

    def fits(self, form: int) -> bool:
        """Whether a node of this form could match."""
        ops = self.pattern.ops
        return (ops is None or form & 127 in ops) and bool(fitting((self,), form))

    @property
    def function(self) -> MatchFunction:
        """The compiled test, made on first use."""
        if self._function is None:
            self._function = _Compiler(self.rule, self.pattern).compile()
        return self._function


def fitting(variants: Iterable[Variant], form: int) -> list[Variant]:
    """Of those for its op, the ones that could match a node of a form, in their order. (One loop: thousands of forms turn up in the first kernels.)"""
    candidates: list[Variant] = []
    for variant in variants:
        tests = variant._tests
        if tests is None:
            tests = variant._tests = tuple(_form_tests(variant.pattern))
        for place, width, allowed in tests:
            if not allowed >> (form >> place & width) & 1:
                break
        else:
            candidates.append(variant)
    return candidates


def _form_tests(pattern: NodePattern) -> Iterator[tuple[int, int, int]]:
    """What a form has to satisfy besides its op: for fields of it, place and width, a bit for each value that is allowed."""
    if pattern.kinds is not None:
        yield 7, 7, _kind_bits(pattern.kinds)
    if pattern.sources is None:
        return
    place = 10  # of op + 1 of the first source, 0 where there is none
    for wanted in pattern.sources[:_FORM_SOURCES]:
        yield place, 127, ~1 if wanted.ops is None else _source_bits(wanted.ops)
        place += 7
    if not pattern.rest and len(pattern.sources) < _FORM_SOURCES:
        yield place, 127, 1


@cache
def _kind_bits(kinds: frozenset[Kind]) -> int:
    return sum(1 << KIND_CODE[kind] for kind in kinds)


@cache
def _source_bits(ops: frozenset[Ops]) -> int:
    """A bit for each op + 1."""
    return sum(2 << op for op in ops)


class _Compiler:
    """Writes one match function as an expression, then has Python compile it, unless it is among those of `match_functions`."""

    def __init__(self, rule: Rule, pattern: NodePattern) -> None:
        self.rule = rule
        self.pattern = pattern
        self.tests: list[str] = []
        self.names: dict[str, str] = {}  # bound name -> local variable
        self.constants: dict[str, object] = {"UOp": UOp, "build": build}
        self.sources: dict[
            str, tuple[str, int]
        ] = {}  # local variable that has no value yet -> whose source it is, and which
        self.locals = 0

    def source(self) -> str:
        self._match(self.pattern, "n", depth=0)
        result = self._result()
        condition = f"(r := {result}) is not None"
        if isinstance(self.rule.right, NodePattern):
            self.constants |= {"dtype_changed": dtype_changed, "RULE": self.rule}
            condition = f"((r := {result}).dtype is n.dtype or dtype_changed(RULE, n, r))"
        tests = " and ".join([*self.tests, condition, "r is not n"])
        return f"lambda n, ctx: r if {tests} else None"

    def compile(self) -> MatchFunction:
        code = _code_of(self.source()).replace(co_filename=f"<rule {self.rule.name}>", co_name="match")
        return cast("MatchFunction", FunctionType(code, self.constants, "match"))

    # -- the left side -----------------------------------------------------------------------------------------

    def _assigned(self, local: str) -> str:
        """A local variable in a condition, in the order in which they are tested: it gets its value where it is first named."""
        known = self.sources.pop(local, None)
        return local if known is None else f"({local} := {self._assigned(known[0])}.src[{known[1]}])"

    def _written_out(self, local: str) -> str:
        """The same on the right side: what a local variable is that no condition needed."""
        known = self.sources.get(local)
        return local if known is None else f"{self._written_out(known[0])}.src[{known[1]}]"

    def _constant(self, value: object, hint: str) -> str:
        for name, known in self.constants.items():
            if known is value:
                return name
        name = f"{hint}{len(self.constants)}"
        self.constants[name] = value
        return name

    def _match(self, pattern: NodePattern, where: str, depth: int, position: int = 0) -> None:
        proved = depth == 0 or (depth == 1 and position < _FORM_SOURCES)
        if not proved and pattern.ops is not None:
            if len(pattern.ops) == 1:
                (op,) = pattern.ops
                self.tests.append(f"{self._assigned(where)}.op is {self._constant(op, 'OP')}")
            else:
                self.tests.append(f"{self._assigned(where)}.op in {self._constant(pattern.ops, 'OPS')}")
        if depth and pattern.kinds is not None:
            compared = pattern.ops is not None and pattern.ops <= COMPARISONS
            dtype = f"{self._assigned(where)}{'.src[0]' if compared else ''}.dtype"
            self.tests.append(f"{dtype}.kind in {self._constant(pattern.kinds, 'KINDS')}")
        if pattern.arg is not ...:
            if isinstance(pattern.arg, float):
                self.constants["same_float"] = same_float
                self.tests.append(
                    f"same_float({self._assigned(where)}.arg, {self._constant(pattern.arg, 'ARG')})"
                )
            else:
                self.tests.append(f"{self._assigned(where)}.arg == {self._constant(pattern.arg, 'ARG')}")
        if pattern.name is not None:
            bound = self.names.get(pattern.name)
            if bound is not None:
                self.tests.append(f"{self._assigned(where)} is {self._assigned(bound)}")
            else:
                self.names[pattern.name] = where
        if pattern.sources is not None:
            self._match_sources(pattern, pattern.sources, where, depth)

    def _match_sources(
        self, pattern: NodePattern, sources: tuple[NodePattern, ...], where: str, depth: int
    ) -> None:
        count = len(sources)
        if pattern.rest:
            if count and not (depth == 0 and count <= _FORM_SOURCES):
                self.tests.append(f"len({self._assigned(where)}.src) >= {count}")
        elif count >= _FORM_SOURCES if depth == 0 else not _fixed_arity(pattern, count):
            self.tests.append(f"len({self._assigned(where)}.src) == {count}")
        first = self.locals
        self.locals += count
        variables = [f"v{first + number}" for number in range(count)]
        self.sources |= {name: (where, number) for number, name in enumerate(variables)}
        # Cheap tests first: ops of all sources before anything below them.
        for position in sorted(range(count), key=lambda i: (not sources[i].is_leaf, i)):
            self._match(sources[position], variables[position], depth + 1, position)

    # -- the right side ----------------------------------------------------------------------------------------

    def _arguments(self, function: Callable[..., object], what: str, said: Callable[[str], str]) -> str:
        given = []
        for name in parameters_of(function):
            if name == "ctx":
                given.append("ctx")
            elif name == "root":
                given.append("n")
            elif name in self.names:
                given.append(said(self.names[name]))
            else:
                raise RewriteError(
                    f"rule {self.rule.name}: its {what} asks for {name!r}, which the pattern does not bind",
                    remedy=f"bound are {', '.join(self.names)}, and root, ctx",
                )
        return ", ".join(given)

    def _result(self) -> str:
        guard, right = self.rule.when, self.rule.right
        if guard is not None:
            asked = self._arguments(guard, "guard", self._assigned)
            self.tests.append(f"{self._constant(guard, 'when')}({asked})")
        if isinstance(right, NodePattern):
            return self._build(right, like="n")
        given = self._arguments(right, "function", self._written_out)
        return f"{self._constant(right, 'rewrite')}({given})"

    def _build(self, template: NodePattern, like: str) -> str:
        """An expression that makes the template; `like` is a node of the dtype that constants take."""
        if template.name is not None and template.name in self.names:
            return self._written_out(self.names[template.name])
        if template.is_constant and template.arg is not ...:
            return f"{self._written_out(like)}.const_like({self._number(cast('Number', template.arg))})"
        if template.ops is None or template.sources is None or len(template.ops) != 1:
            raise RewriteError(f"rule {self.rule.name}: {template} on the right is not bound on the left")
        (op,) = template.ops
        if op is Ops.CAST and like == "n" and template is self.rule.right:
            return f"{self._build(template.sources[0], like)}.cast(n.dtype)"
        if op not in ALU or template.arg is not ...:
            raise RewriteError(
                f"rule {self.rule.name}: the dtype of {op.name} does not follow from its sources",
                remedy="write the right side as a function",
            )
        folded = self._fold(template)
        if folded is not None:
            built = f"build({self._constant(op, 'OP')}, {', '.join(self._build(s, like) for s in template.sources)})"
            said = self._written_out(like)
            return f"({said}.const_like({folded}) if {said}.dtype.is_integral else {built})"
        named = self._bound_in(template)
        if op in COMPARISONS or op is Ops.WHERE or named is None:
            like = named or like
        parts = []
        for position, source in enumerate(template.sources):
            inner = like
            if op is Ops.WHERE and position > 0:
                inner = self._bound_in(*template.sources[1:]) or "n"
            parts.append(self._build(source, inner))
        return f"build({self._constant(op, 'OP')}, {', '.join(parts)})"

    def _bound_in(self, *templates: NodePattern) -> str | None:
        """A bound node inside the templates that has the dtype of their operands."""
        for template in templates:
            if template.name in self.names and template.name is not None:
                return self.names[template.name]
        for template in templates:
            if template.ops is None or template.sources is None or template.ops & COMPARISONS:
                continue
            sources = template.sources[1:] if template.ops == {Ops.WHERE} else template.sources
            bound = self._bound_in(*sources)
            if bound is not None:
                return bound
        for template in templates:
            if template.ops is not None and template.ops & COMPARISONS and template.sources is not None:
                return self._bound_in(*template.sources)
        return None

    def _number(self, value: Number) -> str:
        return self._constant(value, "NUMBER")

    def _fold(self, template: NodePattern) -> str | None:
        """The template as arithmetic on constants, if it is nothing else."""
        if template.name is not None and template.name in self.names:
            bound = _find(self.pattern, template.name)
            said = self._written_out(self.names[template.name])
            return f"{said}.arg" if bound is not None and bound.is_constant else None
        if template.is_constant and template.arg is not ...:
            return self._number(cast("Number", template.arg))
        if template.ops is None or template.sources is None or len(template.ops) != 1:
            return None
        (op,) = template.ops
        parts = [self._fold(source) for source in template.sources]
        if op not in _FOLDS or None in parts:
            return None
        return _FOLDS[op].format(*parts)


@cache
def _code_of(source: str) -> CodeType:
    """The code of a match function. Rules that differ in ops, numbers and functions alone, which are globals of it, share theirs."""
    known = FUNCTIONS.get(digest_of(source))
    if known is not None:
        return known.__code__
    # The source is written by `_Compiler` alone, from the rule tables.
    module = compile(source, "<rule>", "eval")
    return next(each for each in module.co_consts if isinstance(each, CodeType))


def digest_of(source: str) -> str:
    """Under which a match function is found among those that are written already."""
    return blake2b(source.encode(), digest_size=8).hexdigest()


def sources_of(rules: Iterable[Rule]) -> dict[str, str]:
    """The match functions of rules, as text, by digest."""
    texts = {_Compiler(rule, variant.pattern).source() for rule in rules for variant in rule.variants}
    return {digest_of(text): text for text in sorted(texts)}


def _fixed_arity(pattern: NodePattern, count: int) -> bool:
    return pattern.ops is not None and all(op.min_sources == op.max_sources == count for op in pattern.ops)


def _find(pattern: NodePattern, name: str) -> NodePattern | None:
    """The sub-pattern that binds a name. (Patterns are a few levels deep: recursion is safe.)"""
    if pattern.name == name:
        return pattern
    for source in pattern.sources or ():
        subpattern = _find(source, name)
        if subpattern is not None:
            return subpattern
    return None


def dtype_changed(rule: Rule, before: UOp, after: UOp) -> NoReturn:
    """Raise the error of a template that gives a value of another dtype than it matched."""
    raise RewriteError(
        f"rule {rule.name} puts {after.dtype} in place of {before.dtype}",
        op=before.op.name,
        remedy="limit it with `on`",
    )


def same_float(value: object, wanted: float) -> bool:
    """Equal with sign, NaN like NaN."""
    if type(value) is not float:
        return value == wanted
    if math.isnan(wanted):
        return math.isnan(value)
    return value == wanted and math.copysign(1, value) == math.copysign(1, wanted)


def build(op: Ops, *sources: UOp) -> UOp:
    """An ALU node whose dtype follows from its sources."""
    first = sources[0]
    if op in COMPARISONS:
        dtype = dtypes.bool_.vec(first.dtype.lanes)
    elif op is Ops.WHERE:
        dtype = sources[1].dtype
    else:
        dtype = first.dtype
    return first.table.make(op, dtype, sources)
