"""Locations of instructions that stand for several lines of the user's.

When equal computations are shared, the one that stays came from all of their lines. Messages show the first and
name the others. The text and JSON forms hold one line per instruction, the first.
"""

from __future__ import annotations

from typing import Final

from planish.errors import Location
from planish.records import dataclass

MAX_LOCATIONS: Final = 4
"""Lines kept per instruction: enough to find one's own, and a bound on what a loop of equal ops collects."""


@dataclass(frozen=True, slots=True)
class FusedLocation(Location):
    """A place, and others that the same instruction comes from."""

    others: tuple[Location, ...] = ()

    def __str__(self) -> str:
        # Not super(): a slotted dataclass is another class than the one this method was compiled in.
        return f"{Location.__str__(self)} (and {', '.join(str(other) for other in self.others)})"


def all_locations(loc: Location | None) -> tuple[Location, ...]:
    """Every place a location stands for, plainly, the first one first."""
    if loc is None:
        return ()
    if isinstance(loc, FusedLocation):
        return (Location(loc.file, loc.line, loc.column, loc.function), *loc.others)
    return (loc,)


def fuse(first: Location | None, second: Location | None) -> Location | None:
    """The location of what comes from both; at most `MAX_LOCATIONS` places are kept, earlier ones first."""
    if first is None or second is None or first == second:
        return second if first is None else first
    known = all_locations(first)
    if len(known) >= MAX_LOCATIONS:
        return first
    merged = tuple(dict.fromkeys((*known, *all_locations(second))))[:MAX_LOCATIONS]
    if len(merged) == len(known):
        return first
    head = merged[0]
    return FusedLocation(head.file, head.line, head.column, head.function, merged[1:])
