"""The greedy driver: patterns, folding and dead-code removal until nothing is left to do.

Every instruction except constants is visited once, last instruction first; after that, only what a change may
have affected is visited again. A generation of the worklist is an iteration; the fixpoint is proved by a
generation that is empty, never by another walk over the function.

An instruction in the worklist carries the level of the nearest change since its last visit (see `rewriter`).
A pattern whose radius is below that level failed before on what it would see again, and is not tried.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from time import perf_counter
from typing import Final

import numpy as np

from planish.config import current
from planish.errors import RewriteError
from planish.ptir.function import CLEAN, Function, Inst, Value
from planish.ptir.ops.definition import RETURN, constant
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.bound_sizes import BINDERS, erase_unmentioned
from planish.ptir.rewrite.checks import PatternChecker
from planish.ptir.rewrite.config import GreedyConfig, GreedyStats, PatternStats
from planish.ptir.rewrite.folding import Folder
from planish.ptir.rewrite.listener import combine
from planish.ptir.rewrite.pattern import FrozenPatternSet, InstView, PatternSet, RootPattern
from planish.ptir.rewrite.rewriter import ProgramRewriter

__all__ = ["GreedyConfig", "GreedyStats", "PatternStats", "apply_patterns_and_fold_greedily"]

_DEFAULT: Final = GreedyConfig()
_SHOWN_STEPS: Final = 20
# Steps recorded once the budget is spent: enough for the longest cycle worth telling apart.
_RECORDED_STEPS: Final = 200


def apply_patterns_and_fold_greedily(
    function: Function, patterns: FrozenPatternSet | PatternSet, config: GreedyConfig = _DEFAULT
) -> GreedyStats:
    """Rewrite `function` in place, nested regions included, until no pattern applies."""
    frozen = patterns.freeze() if isinstance(patterns, PatternSet) else patterns
    with np.errstate(all="ignore"):
        return _Driver(function, frozen.select(config.enable, config.disable), config).run()


class _Driver:
    """One run over one function."""

    __slots__ = (
        "_aside", "_limit", "_recorded", "_settled", "checker", "config", "erased", "folder", "folds",
        "function", "hits", "patterns", "rewrites", "rw", "seconds", "skipped", "tries", "visits",
    )  # fmt: skip

    def __init__(self, function: Function, patterns: FrozenPatternSet, config: GreedyConfig) -> None:
        self.function = function
        self.patterns = patterns
        self.config = config
        self.checker = PatternChecker(function, patterns.max_radius) if config.checks else None
        self.rw = ProgramRewriter(function, combine(self.checker, config.listener))
        self.folder = Folder(config.max_folded_elements)
        self.rewrites = self.folds = self.erased = self.visits = 0
        count = len(patterns.patterns)
        self.tries = [0] * count
        self.hits = [0] * count
        self.seconds = [0.0] * count
        self._recorded: deque[tuple[str, str]] | None = None
        self._limit = 0
        self._aside: dict[Inst, None] = {}
        """Unused instructions that bind sizes: gone only once nobody mentions those."""
        self._settled = -1
        """`rw.changes` when they were last looked at."""

    def run(self) -> GreedyStats:
        config, rw = self.config, self.rw
        work = self._seed()
        self._limit = self._budget(len(work))
        rw._rules = self.patterns
        rw._farther = self.patterns.max_radius > 2
        rw._watches_uses = self.patterns.watches_uses
        iterations = 0
        finished = True
        try:
            while work or (work := self._drop_unmentioned_sizes()):
                if config.max_iterations is not None and iterations >= config.max_iterations:
                    finished = False
                    break
                iterations += 1
                queue: list[Inst] = []
                rw._queue = queue
                if not self._generation(work):
                    finished = False
                    break
                work = queue
                work.sort(key=_by_order)
        finally:
            for inst in (*work, *(rw._queue or ())):
                inst.dirty = CLEAN
            rw._queue = None
        if rw.changes:
            self.function.version += 1
        if self.checker is not None:
            self.checker.at_end()
            if finished and config.max_iterations is None:
                self._check_fixpoint()
        return self._stats(iterations, finished)

    def _seed(self) -> list[Inst]:
        """Every instruction but constants, in order; regions right after the instruction that owns them."""
        work: list[Inst] = []
        pending = [self.function.body.end.next]
        while pending:
            inst = pending.pop()
            while inst.op is not RETURN:
                if inst.op is not constant:
                    inst.dirty = 0
                    work.append(inst)
                if inst.regions:
                    self.rw._has_regions = True
                    pending.append(inst.next)
                    pending += [region.end.next for region in reversed(inst.regions)]
                    break
                inst = inst.next
        return work

    def _generation(self, work: list[Inst]) -> bool:
        """Visit everything in `work`, last first; False if the number of rewrites allowed is used up."""
        rw = self.rw
        tables = self.patterns.tables
        table_of = self.patterns.table
        maybe_dead = rw._maybe_dead
        enable_dce = self.config.enable_dce
        enable_fold = self.config.enable_constant_fold
        max_rewrites = self.config.max_rewrites
        attempt = self._attempt
        pop = work.pop
        self.visits += len(work)
        while work:
            inst = pop()
            if inst.parent is None:
                self.visits -= 1
                continue
            level = inst.dirty
            inst.dirty = CLEAN
            op = inst.op
            if enable_dce and op.pure:
                for value in inst.results:
                    if value.users:
                        break
                else:
                    maybe_dead.append(inst)
                    self._eliminate_dead()
                    if inst not in self._aside:
                        continue
            # Which patterns can match is looked up by the ops that define the first two operands.
            try:
                table = tables[op]
            except KeyError:
                table = table_of(op)
            operands = inst.operands
            count = len(operands)
            if count == 2:
                left, right = operands
                first = left.def_inst
                second = right.def_inst
                rows = table.apart if left is not right else table.same
                try:
                    decision = rows[None if first is None else first.key][
                        None if second is None else second.key
                    ]
                except KeyError:
                    decision = table.decide(inst)
            elif count == 1:
                first = operands[0].def_inst
                try:
                    decision = table.apart[None if first is None else first.key][None]
                except KeyError:
                    decision = table.decide(inst)
            else:
                decision = table.decide_general(inst)
            if decision.idle:
                continue
            if max_rewrites is not None and self.rewrites + self.folds >= max_rewrites:
                return False
            # Folding looks one definition deep; farther changes cannot help it.
            fold = enable_fold and decision.fold and level <= 1
            if fold and decision.fold_first and self._fold(inst):
                continue
            if decision.reach >= level and attempt(inst, decision.candidates, level):
                continue
            if fold and not decision.fold_first:
                self._fold(inst)
        return True

    def _attempt(self, inst: Inst, candidates: tuple[RootPattern, ...], level: int) -> bool:
        """Try the candidates in order; True after the first that succeeds."""
        rw = self.rw
        if self.config.cost_model is not None:
            candidates = self._by_cost(inst, candidates)
        watched = rw.listener is not None
        tries = self.tries
        changes = rw.changes
        rw.root = inst
        view: type[InstView] | None = None
        target: Inst | InstView = inst
        clock = perf_counter()
        for candidate in candidates:
            if candidate.radius < level:
                continue
            number = candidate.number
            tries[number] += 1
            rw.pattern = candidate.label
            if candidate.view is not view:
                view = candidate.view
                target = inst if view is None else view(inst)
            if watched:
                self._before_attempt(candidate, inst)
            try:
                success = candidate.match(target, rw)
            except Exception as error:
                error.add_note(f"while pattern {candidate.label} was tried on {inst!r}")
                raise
            now = perf_counter()
            self.seconds[number] += now - clock
            clock = now
            if watched and isinstance(success, bool):
                self._after_attempt(candidate, inst, success)
            # Both halves of a pattern's word are cheap to check, and a run might never end without it.
            if success is not (rw.changes != changes):
                raise _broken_word(candidate, inst, success, rw.changes != changes)
            if success:
                self.hits[number] += 1
                self.rewrites += 1
                if inst.parent is not None:
                    # Candidates after this one were not tried, and those before it may match now.
                    rw._wake(inst, 0)
                if self.rewrites + self.folds >= self._limit:
                    self._over_budget(candidate.label, inst)
                rw.root = None
                rw.pattern = None
                if rw._maybe_dead:
                    self._finish_step()
                return True
        rw.root = None
        rw.pattern = None
        return False

    def _before_attempt(self, candidate: RootPattern, inst: Inst) -> None:
        if self.rw.listener is not None:
            self.rw.listener.attempt(candidate.label, inst)
        if self.checker is not None:
            self.checker.before(inst)

    def _after_attempt(self, candidate: RootPattern, inst: Inst, success: bool) -> None:
        checker, listener = self.checker, self.rw.listener
        if checker is not None:
            if success:
                checker.after_success(candidate.label, inst)
            else:
                checker.after_failure(candidate.label, inst)
        if listener is not None:
            if success:
                listener.succeeded(candidate.label, inst)
            else:
                listener.failed(candidate.label, inst)

    def _fold(self, inst: Inst) -> bool:
        rw = self.rw
        values: tuple[Value, ...]
        literal = self.folder.fold_integers(inst)
        if literal is not None:
            rw.root = inst
            rw.pattern = "fold"
            values = (rw.materialize_constant(inst, literal, type=inst.results[0].type),)
        else:
            parts = self.folder.try_fold(inst).parts
            if not parts:
                return False
            rw.root = inst
            rw.pattern = "fold"
            values = self._values(inst, parts)
        rw.replace_op(inst, *values)
        self.folds += 1
        if rw.listener is not None:
            rw.listener.folded(inst, values)
        if self.rewrites + self.folds >= self._limit:
            self._over_budget("fold", inst)
        rw.root = None
        rw.pattern = None
        if rw._maybe_dead:
            self._finish_step()
        return True

    def _values(self, inst: Inst, parts: Sequence[Value | Literal]) -> tuple[Value, ...]:
        """What folding found, as values: literals are materialised."""
        values: list[Value] = []
        for part, old in zip(parts, inst.results, strict=True):
            if isinstance(part, Literal):
                values.append(self.rw.materialize_constant(inst, part, old.type.quant, type=old.type))
            else:
                values.append(part)
        return tuple(values)

    def _finish_step(self) -> None:
        if self.config.enable_dce:
            self._eliminate_dead()
        else:
            self.rw._maybe_dead.clear()

    def _eliminate_dead(self) -> None:
        """Erase what lost its last use, and whatever that leaves unused."""
        rw = self.rw
        pending = rw._maybe_dead
        while pending:
            inst = pending.pop()
            if inst.parent is None or not inst.op.pure:
                continue
            for value in inst.results:
                if value.users:
                    break
            else:
                if inst.op in BINDERS:
                    self._aside[inst] = None
                    continue
                rw.erase_inst(inst)
                self._eliminated(inst)

    def _eliminated(self, inst: Inst) -> None:
        self.erased += 1
        if self.rw.listener is not None:
            self.rw.listener.eliminated(inst)

    def _drop_unmentioned_sizes(self) -> list[Inst]:
        """The worklist is empty: erase what binds sizes that nothing mentions; gives what that woke."""
        rw = self.rw
        if not self._aside or rw.changes == self._settled:
            return []
        woken: list[Inst] = []
        rw._queue = woken
        self._aside = dict.fromkeys(erase_unmentioned(rw, self._aside, self._eliminated))
        self._settled = rw.changes
        woken.sort(key=_by_order)
        return woken

    def _by_cost(self, inst: Inst, candidates: tuple[RootPattern, ...]) -> tuple[RootPattern, ...]:
        model = self.config.cost_model
        if model is None or len(candidates) < 2:
            return candidates
        rw = self.rw
        return tuple(sorted(candidates, key=lambda c: -model(inst, c.pattern, rw)))

    # Safeguards.

    def _budget(self, size: int) -> int:
        if self.config.rewrite_budget is not None:
            return self.config.rewrite_budget
        # A small program that needs 64 rewrites per instruction does not end; a large one may need more than
        # the setting allows for, but not sixteen per instruction.
        return min(10_000 + 64 * size, max(current().rewrite_budget, 16 * size))

    def _over_budget(self, name: str, inst: Inst) -> None:
        if self._recorded is None:
            self._recorded = deque(maxlen=_RECORDED_STEPS)
            self._limit += 1
        self._recorded.append((name, repr(inst)))
        if len(self._recorded) < _RECORDED_STEPS:
            return
        counts = Counter(step[0] for step in self._recorded)
        repeating = ", ".join(f"{name} ({count}×)" for name, count in counts.most_common() if count > 1)
        budget = self.rewrites + self.folds - _RECORDED_STEPS + 1
        error = RewriteError(
            f"rewriting function {self.function.name} does not end: {budget} rewrites done, and these repeat: "
            f"{repeating}",
            op=inst.op.name,
            location=inst.loc,
            remedy="one of them undoes another; disable one to see which, or raise rewrite_budget",
        )
        error.add_note(f"the last {_SHOWN_STEPS} steps:")
        for step, text in list(self._recorded)[-_SHOWN_STEPS:]:
            error.add_note(f"  {step}: {text}")
        raise error

    def _check_fixpoint(self) -> None:
        """Whether the worklist ran empty too early: a pattern still matches, so its radius is too small."""
        copy = self.function.clone()
        config = GreedyConfig(
            max_iterations=1,
            max_rewrites=1,
            enable_constant_fold=self.config.enable_constant_fold,
            enable_dce=self.config.enable_dce,
            cost_model=self.config.cost_model,
            expensive_checks=False,
        )
        again = _Driver(copy, self.patterns, config).run()
        late = [name for name, stats in again.patterns.items() if stats.hits]
        if late:
            raise RewriteError(
                f"pattern {late[0]} still applies after the worklist ran empty",
                remedy="it looks farther than its radius, or at uses without watch_uses",
            )

    def _stats(self, iterations: int, finished: bool) -> GreedyStats:
        patterns = {
            pattern.label: PatternStats(tries, hits, seconds)
            for pattern, tries, hits, seconds in zip(
                self.patterns.patterns, self.tries, self.hits, self.seconds, strict=True
            )
            if tries
        }
        return GreedyStats(
            rewrites=self.rewrites,
            folds=self.folds,
            erased=self.erased,
            visits=self.visits,
            iterations=iterations,
            converged=finished,
            patterns=patterns,
        )


def _broken_word(candidate: RootPattern, inst: Inst, success: object, changed: bool) -> RewriteError:
    """A pattern says what it did by returning True or False, and it is not so."""
    joined = "but" if isinstance(success, bool) else "and"
    return RewriteError(
        f"pattern {candidate.label} returned {success!r} {joined} changed {'the function' if changed else 'nothing'}",
        op=inst.op.name,
        location=inst.loc,
        remedy="return True after a rewrite, and False (or rw.fail) after leaving the function alone",
    )


def _by_order(inst: Inst) -> int:
    return inst.order
