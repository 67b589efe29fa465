"""Rules, and the matchers made of them.

    rule(x + 0, x)                                                    # a template on the right
    rule(x // c, fold_division, says="x // c -> ... when ...")        # or a function of the bound names

A function may also ask for `root` (the whole match) and `ctx` (what `rewrite` was given); it returns None to
decline. A `Matcher` is an ordered list of rules; `+` joins two and keeps precedence: the first rule that gives
another node wins.

Dispatch: a node carries its *form* (op, dtype kind and ops of its sources in one integer). The first node of a form
makes the matcher decide which rules could match it at all; only those are tried on every later node of that form, and
a node whose form no rule mentions costs one dictionary look-up. Watching (statistics, the listener) wraps the
functions of a separate decision table, so it costs nothing while nobody watches.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from time import perf_counter
from typing import Final
from weakref import ReferenceType, ref

from planish.algebra.law import parameters_of
from planish.dtypes import Kind
from planish.errors import RewriteError
from planish.records import dataclass
from planish.uop.compile import MatchFunction, Variant, fitting, variants_of
from planish.uop.node import Number, UOp
from planish.uop.ops import Ops
from planish.uop.pattern import NodePattern, literal

Rewriter = Callable[..., "UOp | None"]
Guard = Callable[..., bool]
Listener = Callable[["Rule", UOp, UOp], None]
"""Called at every match with the rule, the node before and the node after."""


RULES: Final[list[ReferenceType[Rule]]] = []
"""Every rule that was made, for who has its name and wants to know why it did not apply."""


class Rule:
    """One equation: what to look for, what to put in its place, and under which condition."""

    __slots__ = ("__weakref__", "file", "left", "line", "name", "right", "variants", "when")

    def __init__(
        self,
        name: str,
        left: NodePattern,
        right: NodePattern | Rewriter,
        when: Guard | None,
        file: str = "",
        line: int = 0,
    ) -> None:
        self.name: Final = name
        self.file: Final = file
        self.line: Final = line
        self.left: Final = left
        self.right: Final = right
        self.when: Final = when
        self.variants: Final = tuple(Variant(self, choice) for choice in variants_of(left))
        RULES.append(ref(self))

    def apply(self, root: UOp, ctx: object = None) -> UOp | None:
        """What this rule alone makes of a node; None if it does not match."""
        for variant in self.variants:
            if variant.fits(root.form):
                result = variant.function(root, ctx)
                if result is not None:
                    return result
        return None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


def rule(
    left: NodePattern,
    right: NodePattern | Number | Rewriter,
    *,
    when: Guard | None = None,
    says: str | None = None,
    on: frozenset[Kind] | None = None,
) -> Rule:
    """A rule. One with a function or a guard must say its equation with `says`.

    `on` limits the dtype kind of the root (of the operands, if the root is a comparison).
    """
    if on is not None:
        left = left.of(on)
    target = right if isinstance(right, NodePattern) or callable(right) else literal(right)
    if says is None:
        if not isinstance(target, NodePattern) or when is not None:
            raise RewriteError(f"the rule for {left} computes its result: say its equation with `says`")
        says = f"{left} -> {target}"
    written = sys._getframe(1)
    rule_ = Rule(says, left, target, when, written.f_code.co_filename, written.f_lineno)
    if not isinstance(target, NodePattern) or when is not None:
        check_names(rule_)
    return rule_


def check_names(rule_: Rule) -> None:
    """A function may only ask for names that every way to match binds; found here, not when it first fires."""
    asked = {
        name
        for function in (rule_.right, rule_.when)
        if function is not None and not isinstance(function, NodePattern)
        for name in parameters_of(function)
    } - {"root", "ctx"}
    for variant in rule_.variants:
        missing = asked - set(variant.pattern.names())
        if missing:
            raise RewriteError(
                f"rule {rule_.name}: asks for {', '.join(sorted(missing))}, which {variant.pattern} does not bind"
            )


@dataclass(slots=True)
class RuleStats:
    """What one rule did in a watched run."""

    tries: int = 0
    hits: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Watch:
    """An observer of matches: counts per rule, and a listener that sees each one."""

    listener: Listener | None = None
    rules: dict[Rule, RuleStats] = field(default_factory=dict)

    def also(self, listener: Listener) -> Watch:
        """The same counts, seen by one more listener."""
        first = self.listener
        if first is None:
            return Watch(listener, self.rules)

        def both(rule: Rule, before: UOp, after: UOp) -> None:
            first(rule, before, after)
            listener(rule, before, after)

        return Watch(both, self.rules)

    def wrap(self, variant: Variant) -> MatchFunction:
        """The function of a variant, observed."""
        rule, function = variant.rule, variant.function
        stats = self.rules.setdefault(rule, RuleStats())
        listener = self.listener

        def watched(node: UOp, ctx: object) -> UOp | None:
            stats.tries += 1
            start = perf_counter()
            result = function(node, ctx)
            stats.seconds += perf_counter() - start
            if result is not None:
                stats.hits += 1
                if listener is not None:
                    listener(rule, node, result)
            return result

        return watched

    def report(self) -> str:
        """The rules that were tried, most time first."""
        rows = sorted(self.rules.items(), key=lambda item: -item[1].seconds)
        lines = [f"{'tries':>9} {'hits':>9} {'ms':>9}  rule"]
        lines += [f"{s.tries:9} {s.hits:9} {s.seconds * 1e3:9.2f}  {r.name}" for r, s in rows if s.tries]
        return "\n".join(lines)


_OPS: Final = tuple(Ops)


class Decisions(dict[int, tuple[MatchFunction, ...]]):
    """Form → the compiled rules that can match it, in order of precedence; filled as forms turn up."""

    __slots__ = ("_matcher", "_watch")

    def __init__(self, matcher: Matcher, watch: Watch | None = None) -> None:
        super().__init__()
        self._matcher = matcher
        self._watch = watch

    def __missing__(self, form: int) -> tuple[MatchFunction, ...]:
        variants, watch = self._matcher.by_op.get(form & 127), self._watch
        if variants is None:  # most ops are those of no rule
            self[form] = ()
            return ()
        candidates = fitting(variants, form)
        functions = tuple([v.function if watch is None else watch.wrap(v) for v in candidates])
        self[form] = functions
        return functions


class Matcher:
    """An ordered list of rules."""

    __slots__ = ("_by_op", "decisions", "name", "rules")

    def __init__(self, name: str, rules: Iterable[Rule]) -> None:
        self.name: Final = name
        self.rules: Final = tuple(rules)
        self.decisions: Final = Decisions(self)
        self._by_op: Mapping[int, Sequence[Variant]] | None = None

    @property
    def by_op(self) -> Mapping[int, Sequence[Variant]]:
        """Every way to match a node of an op, in order of precedence."""
        if self._by_op is None:
            by_op: defaultdict[int, list[Variant]] = defaultdict(list)
            for rule_ in self.rules:
                for variant in rule_.variants:
                    ops = variant.pattern.ops
                    for each in _OPS if ops is None else ops:
                        by_op[each].append(variant)
            self._by_op = by_op
        return self._by_op

    def __call__(self, node: UOp, ctx: object = None) -> UOp | None:
        """What the first matching rule makes of a node; None if none matches."""
        for function in self.decisions[node.form]:
            result = function(node, ctx)
            if result is not None:
                return result
        return None

    def first(self, node: UOp, ctx: object = None) -> tuple[Rule, UOp] | None:
        """The first rule that matches, and its result."""
        for candidate in self.rules:
            result = candidate.apply(node, ctx)
            if result is not None:
                return candidate, result
        return None

    def watched(self, watch: Watch) -> Decisions:
        """A decision table whose every try is observed."""
        return Decisions(self, watch)

    def without(self, *rules: Rule) -> Matcher:
        """The same matcher less some rules."""
        return Matcher(f"{self.name} without {len(rules)}", (r for r in self.rules if r not in rules))

    def __add__(self, other: Matcher) -> Matcher:
        known = set(self.rules)
        return Matcher(
            f"{self.name} + {other.name}", (*self.rules, *(r for r in other.rules if r not in known))
        )

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __repr__(self) -> str:
        return f"<matcher {self.name}: {len(self.rules)} rules>"
