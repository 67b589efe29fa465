"""Proof that patterns keep their word.

`PatternChecker` holds a pattern to what it returned: it said it succeeded, so something changed, not into an
equal of itself, and what it touched is valid; it said it failed, so nothing changed, not even behind the
rewriter's back. Fingerprints are per instruction, and after an attempt only the neighbourhood a pattern can
see is compared; the whole function is compared and verified once at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from planish.errors import PlanishError, RewriteError
from planish.ptir.exact import exact_key, same_attrs
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.reading import Reading
from planish.ptir.verify import problems

if TYPE_CHECKING:
    from planish.ptir.function import Function, Inst, Region

Fingerprint: TypeAlias = tuple[object, ...]


def problems_of_function(function: Function) -> list[str]:
    """Every broken invariant of a function, as text."""
    return [str(problem) for problem in problems(function)]


def problems_of_inst(inst: Inst) -> list[str]:
    """Broken invariants of one instruction and of the values it touches, without a walk of the function."""
    broken = _problems_of_inst(inst)
    for value in inst.operands:
        if value.users.get(inst, 0) != sum(1 for operand in inst.operands if operand is value):
            broken.append(f"uses: {value!r} counts {inst!r} wrongly")
    for value in inst.results:
        for user in value.users:
            if user.parent is None:
                broken.append(f"uses: {value!r} is used by {user!r}, which is erased")
            elif all(operand is not value for operand in user.operands):
                broken.append(f"uses: {value!r} lists {user!r}, which does not use it")
            else:
                broken += _problems_of_inst(user)
    region = inst.parent
    if region is not None and (inst.prev.next is not inst or inst.next.prev is not inst):
        broken.append(f"links: the neighbours of {inst!r} do not know it")
    return broken


def _problems_of_inst(inst: Inst) -> list[str]:
    broken: list[str] = []
    for index, value in enumerate(inst.results):
        if value.def_inst is not inst or value.index != index:
            broken.append(f"results: result {index} of {inst!r} does not know its place")
    for value in inst.operands:
        if not Reading.dominates(value, inst):
            broken.append(f"dominance: {inst!r} uses {value!r}, which is not defined before it")
    if inst.is_end:
        return broken
    try:
        types = inst.op.result_types([value.type for value in inst.operands], inst.attrs, inst.regions)
    except PlanishError as error:
        return [*broken, f"types: {inst!r} is ill-typed: {error}"]
    if types != tuple([value.type for value in inst.results]):
        stated = ", ".join(str(value.type) for value in inst.results)
        broken.append(f"types: {inst!r} states {stated}, inference says {', '.join(map(str, types))}")
    if inst.op.verify is not None:
        broken += [f"op: {inst!r}: {problem}" for problem in inst.op.verify(inst)]
    return broken


def fingerprint(inst: Inst) -> Fingerprint:
    """All that makes an instruction what it is, except its place: equal before and after means unchanged."""
    return (
        inst.op,
        tuple([value.id for value in inst.operands]),
        exact_key(inst.attrs),
        tuple([(value.id, value.type) for value in inst.results]),
        inst.parent is None,
        tuple([tuple([value.id for value in region.end.operands]) for region in inst.regions]),
    )


class PatternChecker(Listener):
    """Holds patterns to their word while a driver runs; each violation names the pattern."""

    __slots__ = (
        "_erased", "_expected", "_inserted", "_modified", "_snapshot", "_tried", "function", "radius",
    )  # fmt: skip

    def __init__(self, function: Function, radius: int) -> None:
        self.function = function
        self.radius = max(radius, 1)
        self._inserted: list[Inst] = []
        self._erased: list[Inst] = []
        self._modified: dict[Inst, None] = {}
        self._snapshot: dict[Inst, Fingerprint] = {}
        self._expected: dict[Inst, Fingerprint] = {inst: fingerprint(inst) for inst in function.walk()}
        self._tried: dict[str, None] = {}

    def inserted(self, inst: Inst) -> None:
        self._inserted.append(inst)
        self._expected[inst] = fingerprint(inst)

    def erased(self, inst: Inst, region: Region) -> None:
        self._erased.append(inst)
        self._expected.pop(inst, None)
        for inner_region in inst.regions:
            for inner in inner_region.walk():
                self._expected.pop(inner, None)

    def modified(self, inst: Inst) -> None:
        self._modified[inst] = None
        if inst.is_end and inst.parent is not None and inst.parent.owner is not None:
            inst = inst.parent.owner
        if inst.parent is not None and not inst.is_end:
            self._expected[inst] = fingerprint(inst)

    def before(self, root: Inst) -> None:
        """Remember the neighbourhood of `root`."""
        self._inserted.clear()
        self._erased.clear()
        self._modified.clear()
        self._snapshot = {inst: fingerprint(inst) for inst in self._neighbourhood(root)}

    def after_failure(self, pattern: str, root: Inst) -> None:
        """The pattern said nothing changed."""
        self._tried[pattern] = None
        touched = [*self._inserted, *self._erased, *self._modified]
        touched += [inst for inst, old in self._snapshot.items() if fingerprint(inst) != old]
        if touched:
            raise broken_word(pattern, root, f"returned False but changed the function at {touched[0]!r}")

    def after_success(self, pattern: str, root: Inst) -> None:
        """The pattern said something changed."""
        self._tried[pattern] = None
        if not (self._inserted or self._erased or self._modified):
            if any(fingerprint(inst) != old for inst, old in self._snapshot.items()):
                raise broken_word(pattern, root, "changed the function without the rewriter")
            raise broken_word(pattern, root, "returned True but changed nothing")
        if self._is_replaced_by_its_equal(root):
            raise broken_word(pattern, root, "returned True but put an equal instruction in its place")
        alive = {inst: None for inst in (*self._inserted, *self._modified) if inst.parent is not None}
        for inst in alive:
            broken = problems_of_inst(inst)
            if broken:
                raise broken_word(pattern, root, "left the function invalid", broken)

    def at_end(self) -> None:
        """The whole function: valid, and changed by nobody but the rewriter."""
        broken = problems_of_function(self.function)
        changed = [i for i in self.function.walk() if self._expected.get(i) != fingerprint(i)]
        broken += [f"unannounced: {inst!r} changed without the rewriter" for inst in changed]
        if broken:
            error = RewriteError(f"the function is invalid after {', '.join(self._tried) or 'folding'}")
            for problem in broken[:20]:
                error.add_note(problem)
            raise error

    def _is_replaced_by_its_equal(self, root: Inst) -> bool:
        if len(self._inserted) != 1 or self._erased != [root]:
            return False
        new = self._inserted[0]
        return (
            new.op is root.op
            and new.operands == root.operands
            and same_attrs(new.attrs, root.attrs)
            and not new.regions
            and all(user in new.results[0].users for user in self._modified)
        )

    def _neighbourhood(self, root: Inst) -> Iterable[Inst]:
        seen: dict[Inst, None] = {root: None}
        frontier = [root]
        for _ in range(self.radius):
            frontier = [
                definition
                for inst in frontier
                for value in inst.operands
                if (definition := value.def_inst) is not None and definition not in seen
            ]
            seen.update(dict.fromkeys(frontier))
        for value in root.results:
            # A wide fan-out would make every check as long as the function; the end check sees the rest.
            seen.update(dict.fromkeys(list(value.users)[:8]))
        for region in root.regions:
            seen.update(dict.fromkeys(region.walk()))
        return seen


def broken_word(pattern: str, root: Inst, what: str, problems: Iterable[str] = ()) -> RewriteError:
    """The error for a pattern that did not do what it said."""
    error = RewriteError(f"pattern {pattern} {what}", op=root.op.name, location=root.loc)
    for problem in problems:
        error.add_note(problem)
    return error
