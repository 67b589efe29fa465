"""Waking: which instructions a change may have made rewritable.

How far a change reaches is measured in steps from a definition to its users: the instruction whose operands
changed is at level 1, its users at level 2, and so on. A pattern of radius r, which looks r definitions
deep, has to be tried again where the level is at most r. `RewakeRules` says which ops have patterns that
look that far, and which have patterns that watch uses.
"""

from __future__ import annotations

from typing import Protocol

from planish.ptir.function import CLEAN, Inst, Region, Value
from planish.ptir.ops.definition import OpDef, OpKey, constant


class RewakeRules(Protocol):
    """What a pattern set tells the rewriter about how far its patterns look."""

    @property
    def max_radius(self) -> int: ...

    @property
    def watches_uses(self) -> bool: ...

    @property
    def watchers(self) -> frozenset[OpDef | OpKey]:
        """The roots of patterns that depend on how often something is used."""
        ...

    @property
    def deep(self) -> dict[OpDef, frozenset[OpDef]]:
        """What `deep_roots` has answered so far."""
        ...

    def deep_roots(self, through: OpDef) -> frozenset[OpDef]:
        """The roots of patterns of radius 2 or more that accept an operand defined by `through`."""
        ...

    @property
    def reach(self) -> dict[OpDef, dict[OpDef, int]]:
        """What `radius_through` has answered so far."""
        ...

    def radius_through(self, root: OpDef, through: OpDef) -> int:
        """The largest radius among patterns at `root` that accept an operand defined by `through`."""
        ...


class Waking:
    """The worklist as the rewriter sees it: nothing happens while no driver has put a queue here."""

    __slots__ = ("_farther", "_has_regions", "_maybe_dead", "_queue", "_rules", "_watches_uses")

    def __init__(self) -> None:
        self._maybe_dead: list[Inst] = []
        """What lost a use; a driver looks whether it lost its last."""
        self._queue: list[Inst] | None = None
        self._rules: RewakeRules | None = None
        self._farther = False
        """Whether some pattern looks more than two definitions deep."""
        self._watches_uses = False
        self._has_regions = False

    def _wake(self, inst: Inst, level: int) -> None:
        if inst.dirty > level:
            if inst.dirty == CLEAN:
                if self._queue is None or inst.op is constant:
                    return
                self._queue.append(inst)
            inst.dirty = level

    def _wake_beyond(self, changed: Inst) -> None:
        """The operands of `changed` (woken already) changed: wake what looks through it."""
        if self._has_regions and changed.parent is not None:
            self._wake_owners(changed.parent)
        rules = self._rules
        if rules is None:
            return
        reach = rules.reach
        frontier = [changed]
        for level in range(2, rules.max_radius + 1):
            beyond: list[Inst] = []
            for inst in frontier:
                through = inst.op
                for value in inst.results:
                    for user in value.users:
                        if user.dirty > level:
                            try:
                                radius = reach[user.op][through]
                            except KeyError:
                                radius = rules.radius_through(user.op, through)
                            if radius >= level:
                                self._wake(user, level)
                        beyond.append(user)
            frontier = beyond

    def _lost_all_uses(self, value: Value) -> None:
        """Its definition may be dead; one that lives on by another result is offered to patterns that watch uses."""
        inst = value.def_inst
        if inst is not None:
            self._maybe_dead.append(inst)
            if self._watches_uses and len(inst.results) > 1:
                self._wake_watcher(inst)

    def _wake_last_use(self, value: Value) -> None:
        """One use of `value` is left: patterns that ask for that may match at its definition and its user."""
        for user in value.users:
            self._wake_watcher(user)
        if value.def_inst is not None:
            self._wake_watcher(value.def_inst)

    def _wake_watcher(self, inst: Inst) -> None:
        """Wake `inst` if a pattern that watches uses has it as its root."""
        rules = self._rules
        if rules is not None and (inst.op in rules.watchers or inst.op.key in rules.watchers):
            self._wake(inst, 0)

    def _wake_owners(self, region: Region) -> None:
        """Something inside `region` changed: patterns at the instructions around it may look inside."""
        owner = region.owner
        while owner is not None:
            owner.version += 1
            self._wake(owner, 0)
            owner = None if owner.parent is None else owner.parent.owner

    def _settle_regions(self, inst: Inst) -> None:
        """After an insertion in a function with regions: new inner instructions and outer owners wake."""
        if self._queue is None:
            return
        for region in inst.regions:
            for inner in region.walk():
                self._wake(inner, 0)
        if inst.parent is not None:
            self._wake_owners(inst.parent)
