"""Patterns and sets of patterns: what to rewrite, and which pattern to try where.

A pattern declares what the engine can test without calling it: the root ops (from the signature of
`match_and_rewrite`), the ops that must define its operands, and how deep it looks. Freezing a set turns those
declarations into one decision table per root op, indexed by the ops that define the first two operands; on
most instructions the answer is that no pattern can match, and none is called.

    class FoldTransposeOfTranspose(OpRewritePattern[TransposeView]):
        \"\"\"transpose(transpose(x, p), q) -> transpose(x, p[q]).\"\"\"

        operands = (ops.transpose,)

        def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool: ...
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Generic, TypeAlias, TypeVar, Union, cast

from planish.errors import RewriteError, did_you_mean
from planish.ptir.function import Inst
from planish.ptir.ops.definition import REGISTRY, ConstantKind, FoldWhen, OpDef, OpKey, constant
from planish.ptir.rewrite.rewriter import ProgramRewriter

Root: TypeAlias = OpDef | OpKey
OperandFilter: TypeAlias = OpDef | OpKey | ConstantKind | tuple[OpDef | OpKey | ConstantKind, ...] | None
DefKey: TypeAlias = OpDef | ConstantKind | None


class InstView:
    """An instruction seen as a particular op: what a typed pattern is handed."""

    __slots__ = ("inst",)

    roots: ClassVar[tuple[Root, ...]] = ()
    """The ops or families it shows: an attribute, or `roots=…` in the head of the class."""

    def __init_subclass__(cls, *, roots: tuple[Root, ...] = (), **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.roots = roots or cls.roots

    def __init__(self, inst: Inst) -> None:
        self.inst = inst

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inst!r})"


T = TypeVar("T")
V = TypeVar("V", bound=InstView)


class BasePattern:
    """What the engine reads off a pattern, whatever it matches."""

    name: ClassVar[str] = ""
    """How logs, statistics, `enable` and `disable` call it: the class name unless given."""
    benefit: ClassVar[int] = 1
    """Larger is tried first."""
    radius: ClassVar[int] = 2
    """How many definitions deep the match depends on: 0 the root's types and attributes alone, 1 what defines
    its operands, 2 what defines theirs. A change farther away does not make the driver try again."""
    watch_uses: ClassVar[bool] = False
    """Whether the match depends on how often the root or its operands are used."""
    roots: ClassVar[tuple[Root, ...]] = ()
    """The ops or families it is tried on. Typed patterns get it from the signature and may narrow it."""
    operands: ClassVar[tuple[OperandFilter, ...]] = ()
    """By position: the op, family or kind of constant (`ZERO`, `ONE`) that must define the operand; None for any."""
    any_operand: ClassVar[OperandFilter] = None
    """An op that must define at least one of the operands."""
    same_operands: ClassVar[bool] = False
    """Whether the first two operands must be one value."""

    @property
    def label(self) -> str:
        return self.name or type(self).__name__

    def view_for(self, op: OpDef) -> type[InstView] | None:
        """The view class handed to the pattern at that root; None for the bare instruction."""
        return None

    def __repr__(self) -> str:
        return f"<pattern {self.label}>"


class Pattern(BasePattern, Generic[T]):
    """One rewrite. Subclass `OpRewritePattern` for typed roots, or `Pattern[Inst]` with `roots` for any op."""

    def match_and_rewrite(self, op: T, rw: ProgramRewriter) -> bool:
        """Rewrite and return True, or leave the function alone and return False (`rw.fail` gives a reason)."""
        raise RewriteError(f"pattern {self.label} does not say how to match")

    def may_match(self, op: T, rw: ProgramRewriter) -> bool:
        """A cheap test without side effects, asked before `match_and_rewrite`."""
        return True


class OpRewritePattern(Pattern[V]):
    """A pattern whose root is read from the view type that `match_and_rewrite` is annotated with."""

    views: ClassVar[tuple[type[InstView], ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "match_and_rewrite" not in cls.__dict__:
            return
        cls.views = _views_of(cls)
        declared = cls.__dict__.get("roots")
        family = tuple(root for view in cls.views for root in view.roots)
        if declared is None:
            cls.roots = family
            return
        for root in declared:
            if not any(_covers(part, root) for part in family):
                raise RewriteError(
                    f"pattern {cls.__name__} narrows its root to {root!r}, which its view excludes"
                )

    def view_for(self, op: OpDef) -> type[InstView] | None:
        for view in self.views:
            if any(root is op or root is op.key for root in view.roots):
                return view
        raise RewriteError(f"pattern {self.label} has no view of {op.name}")


def _covers(part: Root, root: Root) -> bool:
    return part is root or (isinstance(part, OpKey) and isinstance(root, OpDef) and root.key is part)


def _views_of(cls: type[OpRewritePattern[V]]) -> tuple[type[InstView], ...]:
    method = cls.__dict__["match_and_rewrite"]
    names = list(getattr(method, "__annotations__", {}))
    hint: object = None
    if names and names[0] not in ("rw", "return"):
        try:
            hint = typing.get_type_hints(method)[names[0]]
        except NameError:
            # A name that only type checkers import: the base class holds the same type, evaluated.
            for base in getattr(cls, "__orig_bases__", ()):
                if typing.get_origin(base) is OpRewritePattern:
                    hint = typing.get_args(base)[0]
    union = typing.get_origin(hint) in (types.UnionType, Union)
    members = typing.get_args(hint) if union else (hint,)
    for member in members:
        if not (isinstance(member, type) and issubclass(member, InstView) and member.roots):
            raise RewriteError(
                f"pattern {cls.__name__} does not say its root: annotate the first parameter of "
                f"match_and_rewrite with a view type"
            )
    return cast("tuple[type[InstView], ...]", members)


class RootPattern:
    """A pattern as one root op sees it, everything looked up."""

    __slots__ = ("benefit", "label", "match", "number", "pattern", "radius", "view")

    pattern: BasePattern
    match: Callable[[Inst | InstView, ProgramRewriter], bool]

    def __init__(self, number: int, pattern: BasePattern, root: OpDef) -> None:
        self.number = number
        self.pattern = pattern
        self.label = pattern.label
        self.benefit = pattern.benefit
        self.radius = pattern.radius
        self.view = pattern.view_for(root)
        self.match = self._first_match

    def _first_match(self, op: Inst | InstView, rw: ProgramRewriter) -> bool:
        """The first attempt: only now the test is asked for, which may have to be compiled; from then on it is called directly."""
        # The view was chosen for the pattern, so it is handed the type it asks for.
        shown = cast("Pattern[Inst | InstView]", self.pattern)
        self.match = shown.match_and_rewrite
        if type(shown).may_match is not Pattern.may_match:
            self.match = _guarded(shown)
        return self.match(op, rw)


def _guarded(pattern: Pattern[Inst | InstView]) -> Callable[[Inst | InstView, ProgramRewriter], bool]:
    """The pattern with its guard in front."""
    may_match, match = pattern.may_match, pattern.match_and_rewrite

    def guarded(op: Inst | InstView, rw: ProgramRewriter) -> bool:
        return bool(may_match(op, rw)) and match(op, rw)

    return guarded


class Decision:
    """What to do with an instruction, given the ops that define its first two operands."""

    __slots__ = ("candidates", "fold", "fold_first", "idle", "reach")

    candidates: tuple[RootPattern, ...]
    fold: bool
    """Whether folding could succeed."""
    fold_first: bool
    """Whether every operand seen is constant: then folding makes the patterns moot."""
    reach: int
    """The largest radius among the candidates."""
    idle: bool
    """Nothing can be done at all."""

    def __init__(self, candidates: tuple[RootPattern, ...], fold: bool, fold_first: bool) -> None:
        self.candidates = candidates
        self.fold = fold
        self.fold_first = fold_first
        self.reach = max((c.radius for c in candidates), default=-1)
        self.idle = not candidates and not fold


class RootTable:
    """The decisions for one root op, filled in as combinations of operands turn up."""

    __slots__ = ("apart", "candidates", "root", "same")

    root: OpDef
    candidates: tuple[RootPattern, ...]
    apart: dict[DefKey, dict[DefKey, Decision]]
    same: dict[DefKey, dict[DefKey, Decision]]
    """As `apart`, where the first two operands are one value."""

    def __init__(self, root: OpDef, candidates: tuple[RootPattern, ...]) -> None:
        self.root = root
        self.candidates = candidates
        self.apart = {}
        self.same = {}

    def decide_general(self, inst: Inst) -> Decision:
        """The decision for an instruction with any number of operands."""
        operands = inst.operands
        defs = [None if v.def_inst is None else v.def_inst.key for v in operands[:2]]
        same = len(defs) > 1 and operands[0] is operands[1]
        row = (self.same if same else self.apart).get(defs[0] if defs else None)
        decision = None if row is None else row.get(defs[1] if len(defs) > 1 else None)
        return self.decide(inst) if decision is None else decision

    def decide(self, inst: Inst) -> Decision:
        """The decision for an instruction whose combination of operands is new; remembered from then on."""
        root = self.root
        defs = [None if v.def_inst is None else v.def_inst.key for v in inst.operands]
        same = len(defs) > 1 and inst.operands[0] is inst.operands[1]
        # The key holds two operands. Of further ones, or of a number of operands that varies, nothing is known:
        # the entry must serve every instruction that shares the key, so it then leaves in what may apply.
        varies = root.min_operands != root.max_operands
        more = varies or len(defs) > 2
        known = defs[:1] if varies else defs[:2]
        chosen = tuple([c for c in self.candidates if _admits(c.pattern, known, more, same)])
        constants = sum(1 for key in known if isinstance(key, ConstantKind))
        all_constant = bool(known) and constants == len(known)
        if all_constant and root.foldable and (root.evaluate is not None or root.fold is not None):
            can_fold = True
        elif root.fold is None:
            can_fold = False
        elif root.fold_when is FoldWhen.ALWAYS:
            can_fold = True
        else:
            can_fold = root.fold_when is FoldWhen.ANY_CONSTANT and (constants > 0 or more)
        decision = Decision(chosen, can_fold, can_fold and all_constant)
        table = self.same if same else self.apart
        first = defs[0] if defs else None
        table.setdefault(first, {})[defs[1] if len(defs) > 1 else None] = decision
        return decision


def _admits(pattern: BasePattern, defs: Sequence[DefKey], more: bool, same: bool) -> bool:
    if pattern.same_operands and not same:
        return False
    for wanted, op in zip(pattern.operands, defs, strict=False):
        if wanted is not None and not accepts(wanted, op):
            return False
    if len(pattern.operands) > len(defs) and not more:
        return False
    anywhere = pattern.any_operand
    return anywhere is None or more or any(accepts(anywhere, op) for op in defs)


def accepts(wanted: OperandFilter, key: DefKey) -> bool:
    """Whether an operand whose definition has that key passes the filter."""
    if key is None or wanted is None:
        return wanted is None
    if isinstance(wanted, tuple):
        return any(accepts(part, key) for part in wanted)
    if isinstance(key, ConstantKind):
        return wanted is key or wanted is constant or wanted is OpKey.CONSTANT
    return wanted is key or wanted is key.key


def _looks_through(pattern: BasePattern, op: OpDef) -> bool:
    """Whether a pattern may look at the operands of an operand that `op` defines.

    An operand without a filter may be anything, so it counts as looked through.
    """
    filters = (*pattern.operands, *((pattern.any_operand,) if pattern.any_operand is not None else ()))
    return not filters or any(wanted is None or accepts(wanted, op) for wanted in filters)


class PatternSet:
    """Patterns being collected; `freeze` makes them usable."""

    __slots__ = ("_patterns",)

    def __init__(self, patterns: Iterable[BasePattern | type[BasePattern]] = ()) -> None:
        self._patterns: dict[str, BasePattern] = {}
        for pattern in patterns:
            self.add(pattern)

    def add(self, *patterns: BasePattern | type[BasePattern]) -> PatternSet:
        """Add patterns, as instances or as classes without arguments."""
        for given in patterns:
            pattern = given() if isinstance(given, type) else given
            if not pattern.roots:
                raise RewriteError(f"pattern {pattern.label} has no root ops")
            if pattern.label in self._patterns:
                raise RewriteError(f"two patterns are called {pattern.label}")
            self._patterns[pattern.label] = pattern
        return self

    def __len__(self) -> int:
        return len(self._patterns)

    def __repr__(self) -> str:
        return f"<{len(self)} patterns>"

    @property
    def patterns(self) -> tuple[BasePattern, ...]:
        return tuple(self._patterns.values())

    def freeze(self) -> FrozenPatternSet:
        return FrozenPatternSet(self.patterns)


class FrozenPatternSet:
    """An unchangeable set of patterns, indexed by root and sorted by benefit; shared freely between runs."""

    __slots__ = (
        "_filtered", "_tables", "deep", "max_radius", "patterns", "reach", "watchers", "watches_uses",
    )  # fmt: skip

    patterns: tuple[BasePattern, ...]
    max_radius: int
    watches_uses: bool
    watchers: frozenset[Root]
    """The roots of the patterns that watch uses."""

    def __init__(self, patterns: Iterable[BasePattern]) -> None:
        self.patterns = tuple(patterns)
        self.max_radius = max((p.radius for p in self.patterns), default=0)
        self.watchers = frozenset(root for p in self.patterns if p.watch_uses for root in p.roots)
        self.watches_uses = bool(self.watchers)
        self._tables: dict[OpDef, RootTable] = {}
        self.deep: dict[OpDef, frozenset[OpDef]] = {}
        self.reach: dict[OpDef, dict[OpDef, int]] = {}
        self._filtered: dict[tuple[frozenset[str] | None, frozenset[str]], FrozenPatternSet] = {}

    def table(self, root: OpDef) -> RootTable:
        """The decision table of a root op, made when first asked for."""
        table = self._tables.get(root)
        if table is None:
            candidates = [
                RootPattern(number, pattern, root)
                for number, pattern in enumerate(self.patterns)
                if root in pattern.roots or root.key in pattern.roots
            ]
            candidates.sort(key=lambda c: -c.benefit)
            table = self._tables[root] = RootTable(root, tuple(candidates))
        return table

    @property
    def tables(self) -> dict[OpDef, RootTable]:
        """The tables made so far; a driver reads it directly and calls `table` for what is missing."""
        return self._tables

    @property
    def by_root(self) -> dict[OpDef, tuple[BasePattern, ...]]:
        """The patterns of every op that has any, in the order they are tried."""
        by_op = {op: tuple(c.pattern for c in self.table(op).candidates) for op in REGISTRY.values()}
        return {op: patterns for op, patterns in by_op.items() if patterns}

    def radius_through(self, root: OpDef, through: OpDef) -> int:
        """The largest radius among patterns at `root` that accept an operand defined by `through`."""
        row = self.reach.get(root)
        if row is None:
            row = self.reach[root] = {}
        radius = row.get(through)
        if radius is None:
            radius = -1
            for candidate in self.table(root).candidates:
                if _looks_through(candidate.pattern, through):
                    radius = max(radius, candidate.radius)
            row[through] = radius
        return radius

    def deep_roots(self, through: OpDef) -> frozenset[OpDef]:
        """The roots of patterns of radius 2 or more that accept an operand defined by `through`."""
        roots = self.deep.get(through)
        if roots is None:
            wanted = [p.roots for p in self.patterns if p.radius >= 2 and _looks_through(p, through)]
            named = {root for part in wanted for root in part}
            roots = frozenset(op for op in REGISTRY.values() if op in named or op.key in named)
            self.deep[through] = roots
        return roots

    def select(self, enable: Iterable[str] | None, disable: Iterable[str]) -> FrozenPatternSet:
        """The set without what is disabled and, if given, with nothing but what is enabled, by name."""
        chosen = None if enable is None else frozenset(enable)
        dropped = frozenset(disable)
        if chosen is None and not dropped:
            return self
        key = (chosen, dropped)
        subset = self._filtered.get(key)
        if subset is None:
            names = [pattern.label for pattern in self.patterns]
            for name in sorted((chosen or frozenset()) | dropped):
                if name not in names:
                    close = did_you_mean(name, names)
                    raise RewriteError(
                        f"there is no pattern {name!r}", remedy=f"did you mean {close}?" if close else None
                    )
            subset = self._filtered[key] = FrozenPatternSet(
                p for p in self.patterns if (chosen is None or p.label in chosen) and p.label not in dropped
            )
        return subset

    def __len__(self) -> int:
        return len(self.patterns)

    def __repr__(self) -> str:
        return f"<{len(self)} patterns, frozen>"
