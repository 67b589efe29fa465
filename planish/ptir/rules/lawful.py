"""Scalar laws (`planish.algebra`) as patterns: each is compiled to straight-line tests when its root first turns up.

A letter that recurs is the same value; a constant letter is a constant, seen through a broadcast where it is the root's
operand. Filters, radius and `watch_uses` follow from the equations. An op that folds on its own is left alone.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final

from planish.algebra import kinds as k
from planish.algebra.law import Apply, Expression, Law, Letter, Number, normal, orders, parameters_of, walk
from planish.algebra.scalar import LAWS
from planish.dtypes import Kind
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops import numerics
from planish.ptir.ops.definition import OpDef, constant_kinds
from planish.ptir.rewrite.pattern import OperandFilter, Pattern
from planish.ptir.rewrite.prelude import signed_zero
from planish.ptir.rules import draft as d
from planish.ptir.rules import numbers as n
from planish.ptir.rules.rule import enlist
from planish.ptir.rules.shapes import same_scalar

_OPS: Final = {
    "floordiv": ops.floor_div, "mod": ops.floor_mod, "truncdiv": ops.trunc_div, "truncmod": ops.trunc_mod,
    "and": ops.and_, "or": ops.or_, "not": ops.not_, "where": ops.select, "recip": ops.reciprocal,
}  # fmt: skip
_WORDS: Final = {
    k.INTEGERS: "integers", k.INTEGRAL: "integers", k.UNSIGNED: "unsigned integers", k.FLOAT: "floats",
    k.REAL: "real numbers", k.BOOL: "bools",
}  # fmt: skip
_SCOPE: Final = {
    "constant_of": n.constant_of, "direct_number": n.direct_number, "draft": d.draft,
    "filled": n.filled, "is_constant": n.is_constant, "number_of": n.number_of,
    "replace": d.replace, "same_number": n.same_number, "same_scalar": same_scalar, "signed_zero": signed_zero, "ones": n.all_ones, "top": n.top_bit, "lowest": numerics.lowest, "highest": numerics.highest,
    "will_fold": n.will_fold,
}  # fmt: skip

_ROWS: Final[defaultdict[str | None, list[Law]]] = defaultdict(list)
for _law in LAWS:
    _ROWS[_law.pattern].append(_law)


def by_laws(module: str, **benefits: int) -> None:
    """Patterns of laws, of these names and benefits, in a module and its family: `by_laws(__name__, FoldAddZero=4)`."""
    for name, benefit in benefits.items():
        pattern = pattern_of(name, _ROWS[name], module=module, benefit=benefit)
        setattr(sys.modules[module], name, enlist(module, pattern))


class LawPattern(Pattern[Inst]):
    """A pattern that tries the rows of one name in order."""

    rows: ClassVar[list[Law]]

    @property
    def match_and_rewrite(self) -> Callable[..., bool]:
        """The test, compiled when it is first asked for; from then on it is the class's own."""
        function = _PatternWriter(self.label, self.rows).function()
        cls: Any = type(self)
        cls.match_and_rewrite = staticmethod(function)
        return function


def pattern_of(name: str, rows: list[Law], *, module: str = "", benefit: int = 1) -> type[LawPattern]:
    """The pattern of some laws, what it declares read off their left sides."""
    lefts = [left for law in rows for left in orders(law.left)]
    wanted = [[_filter(part) for part in left.of] for left in lefts]
    places = [_union(column) for column in zip(*wanted, strict=True)]
    anywhere = None
    if not any(places[:2]) and all(any(parts) for parts in wanted):
        anywhere = _union([part for parts in wanted for part in parts if part is not None])
    while places and places[-1] is None:
        places.pop()
    body = {
        "__doc__": _doc(rows),
        "__module__": module,
        "rows": rows,
        "benefit": benefit,
        "radius": max(_radius(law) for law in rows),
        "roots": tuple(dict.fromkeys(_op(left) for left in lefts)),
        "operands": tuple(places),
        "any_operand": anywhere,
        "same_operands": all(left.of[0] in left.of[1:2] for left in lefts),
        "watch_uses": any(law.once for law in rows),
    }
    return type(name, (LawPattern,), body)


def _doc(rows: Iterable[Law]) -> str:
    """The equations, with what they hold for."""
    texts: dict[str, list[str]] = {}
    for law in rows:
        word = _WORDS.get(law.on or frozenset())
        texts.setdefault(f" of {word}" if word else "", []).append(law.says.rpartition(": ")[2])
    once = ", if nothing else needs what is inside" if any(law.once for law in rows) else ""
    return "; ".join(", ".join(says) + word for word, says in texts.items()) + once + "."


def named_ops(names: Iterable[str]) -> tuple[OpDef, ...]:
    """The ops that the algebra calls so."""
    return tuple([_OPS.get(name) or getattr(ops, name) for name in names])


def _op(expression: Apply) -> OpDef:
    return named_ops((expression.op,))[0]


def _filter(part: Expression) -> OperandFilter:
    """What must define an operand."""
    if isinstance(part, Apply):
        return _op(part)
    if not part.is_constant:
        return None
    kind = constant_kinds.get(part.value) if isinstance(part, Number) else None
    return n.CONSTANT if kind is None else (kind, ops.broadcast_to)


def _union(filters: Iterable[OperandFilter]) -> OperandFilter:
    """What passes any of the filters; a plain op where that is all."""
    allowed: dict[Any, None] = {}
    for each in filters:
        if each is None:
            return None
        allowed.update(dict.fromkeys(each if isinstance(each, tuple) else (each,)))
    return next(iter(allowed)) if len(allowed) == 1 else tuple(allowed)


def _radius(law: Law) -> int:
    """1 where only what defines the operands counts, 2 as soon as it matters what their operands are."""
    left, letters = law.left, [part for part in walk(law.left) if isinstance(part, Letter)]
    nested = [part for part in left.of if isinstance(part, Apply)]
    if any(part.is_constant for part in walk(left)) or (nested and len(set(letters)) < len(letters)):
        return 2
    builds = isinstance(law.right, Apply) and law.right not in left.of
    if nested and builds and next(_must_vary(left), None) is not None:
        return 2
    if len(set(letters)) < len(letters):
        return 2 if left.op == "where" else 1
    return 1 if nested else 0


def _must_vary(left: Apply) -> Iterator[Letter]:
    """Letters whose op would fold by itself if they were constants."""
    for part in walk(left):
        if isinstance(part, Apply):
            free = [of for of in part.of if not of.is_constant]
            held = any(isinstance(of, Letter) and of.is_constant and not of.is_named for of in part.of)
            if (
                len(free) == 1
                and isinstance(free[0], Letter)
                and (held or (len(part.of) == 1 and part is not left and len(left.of) > 1))
            ):
                yield free[0]


class _PatternWriter:
    """Writes the source of one pattern, then has Python compile it."""

    def __init__(self, name: str, rows: list[Law]) -> None:
        self.name = name
        self.rows = rows
        self.scope: dict[str, object] = dict(_SCOPE)
        self.lines: list[str] = []
        self.depth = 1
        self.values: dict[Expression, str] = {}
        self.locals = 0
        self.compared: frozenset[Kind] | None = None
        """The kinds of what is compared, where that is not what the root works on."""

    def function(self) -> Callable[..., bool]:
        source = self.source()
        # The source is written by this class alone, from the table of laws.
        exec(compile(source, f"<pattern {self.name}>", "exec"), self.scope)  # noqa: S102
        return self.scope["match"]  # type: ignore[return-value]

    def source(self) -> str:
        lefts = [(law, left) for law in self.rows for left in orders(law.left)]
        count = len(lefts[0][1].of)
        names = [f"v{place}" for place in range(count)]
        several = len({_op(left) for _, left in lefts}) > 1
        if several:
            self._emit("root = inst.op")
        self._emit(f"{', '.join(names)}{',' * (count == 1)} = inst.operands")
        self._emit(f"dtype = {names[-1]}.type.dtype")
        self._emit("kind = dtype.kind")
        for law, left in lefts:
            self.depth, self.locals, self.values = 1, count, {}
            tests = [f"root is {self._named(_op(left))}"] if several else []
            self.compared = law.on if law.of_comparisons else None
            if law.on is not None and self.compared is None:
                tests.append(f"kind in {self._named(law.on)}")
            if tests:
                self._test(" and ".join(tests))
            self._operands(left, names, 1)
            self._answer(law, left)
        reason = f"no law holds here: {_doc(self.rows)}"
        self.depth = 1
        self._emit(f"return rw.fail(inst, {reason!r})")
        return "\n".join(["def match(inst, rw):", *self.lines])

    def _emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def _test(self, condition: str) -> None:
        self._emit(f"if {condition}:")
        self.depth += 1

    def _named(self, value: object) -> str:
        for name, known in self.scope.items():
            if known is value:
                return name
        name = f"{value.name}_" if isinstance(value, OpDef) else f"K{len(self.scope)}"
        self.scope[name] = value
        return name

    def _operands(self, node: Apply, names: list[str], level: int) -> None:
        """The tests of the operands of a node, those below them last."""
        nested = []
        for part, name in zip(node.of, names, strict=True):
            if isinstance(part, Apply):
                nested.append((part, name))
            elif isinstance(part, Number):
                self._number(part, name)
            elif part in self.values:
                known = self.values[part]
                same = f"{'same_number' if level == 1 else 'same_scalar'}({name}, {known})"
                self._test(same if node.op == "where" else f"{name} is {known}")
            elif part.is_named:
                self._test(f"number_of({name}) == {part.name}(dtype)")
            elif part.is_constant:
                self._test(
                    f"constant_of({name}) is not None" if level == 1 else f"{name}.literal is not None"
                )
            self.values.setdefault(normal(part), name)
        for part, name in nested:
            inner = f"i{name}"
            self._emit(f"{inner} = {name}.def_inst")
            self._test(f"{inner} is not None and {inner}.op is {self._named(_op(part))}")
            below = [f"v{self.locals + place}" for place in range(len(part.of))]
            self.locals += len(below)
            self._emit(f"{', '.join(below)}{',' * (len(below) == 1)} = {inner}.operands")
            if self.compared is not None and part.is_comparison:
                self._test(f"{below[0]}.type.dtype.kind in {self._named(self.compared)}")
            self._operands(part, below, level + 1)

    def _number(self, part: Number, name: str) -> None:
        value = part.value
        if isinstance(value, float) and value == 0:
            self._emit(f"number = number_of({name})")
            self._test(
                f"number is not None and signed_zero(number, {'-' if str(value)[0] == '-' else ''}1.0)"
            )
        else:
            self._test(f"number_of({name}) == {value!r}")

    def _answer(self, law: Law, left: Apply) -> None:
        """What is left to ask, and the replacement."""
        if law.when is not None:
            self._condition(law.when, left)
        if law.once:
            for part in walk(left):
                if isinstance(part, Apply) and part is not left:
                    self._test(f"{self.values[normal(part)]}.has_one_use")
        right = law.right
        known = self.values.get(normal(right))
        if isinstance(right, Apply) and known is None:
            for letter in dict.fromkeys(_must_vary(left)):
                self._test(f"not is_constant({self.values[letter]})")
            for part in walk(right):
                if isinstance(part, Apply) and len(part.of) == 1 and part.of[0].is_constant:
                    self._test(f"will_fold(constant_of({self.values[part.of[0]]}))")
        if known is not None and left.op != "where":
            self._emit(f"rw.replace_op(inst, {known})")
            self._emit("return True")
        else:
            self._emit(f"return replace(rw, inst, {self._built(right, 'inst.results[0]')})")

    def _condition(self, when: Callable[..., bool], left: Apply) -> None:
        given = []
        for name in parameters_of(when):
            if name == "dtype":
                given.append("dtype")
                continue
            letter = Letter(name)
            reader = "number_of" if letter in left.of else "direct_number"
            self._emit(f"n_{name} = {reader}({self.values[letter]})")
            self._test(f"n_{name} is not None")
            given.append(f"n_{name}")
        self._test(f"{self._named(when)}({', '.join(given)})")

    def _built(self, right: Expression, like: str = "inst.operands[-1]") -> str:
        """A term; constants in it have the type of `like`."""
        known = self.values.get(normal(right))
        if known is not None:
            return known
        if isinstance(right, Number):
            return f"filled({like}.type, {right.value!r})"
        if isinstance(right, Letter):
            return f"filled({like}.type, {right.name}(dtype))"
        return f"draft({self._named(_op(right))}, ({', '.join(self._built(of) for of in right.of)},))"
