"""The documents about rules and patterns: how often each was tried, and why it did not apply (see `schema.py`)."""

from __future__ import annotations

from planish.records import dataclass
from planish.viz.schema import RuleCounts


@dataclass(frozen=True, slots=True)
class PatternFailure:
    """Why a pattern did not apply, and how often."""

    reason: str
    count: int
    example: str | None
    """A few of the nodes, a line each."""


@dataclass(frozen=True, slots=True)
class RuleFailures:
    """Why a rule of kernels did not apply."""

    rule: str
    looked: int
    """Nodes that it was held to once more, of all that it did not apply to."""
    failed: list[PatternFailure]


@dataclass(frozen=True, slots=True)
class Failed:
    """Of the rules of a stage that were tried in vain, why."""

    rules: list[RuleFailures]
    unknown: int = 0
    """Rules that this version of planish does not have."""


@dataclass(frozen=True, slots=True)
class RuleWhy:
    """What a rule says of a node."""

    rule: str
    applied: bool
    reason: str


@dataclass(frozen=True, slots=True)
class NodeWhy:
    """Why the rules of a stage did not apply to one node, or which did."""

    node: int
    text: str
    rules: list[RuleWhy]


@dataclass(frozen=True, slots=True)
class PatternUse(RuleCounts):
    """A pattern that was tried."""

    failed: list[PatternFailure]


@dataclass(frozen=True, slots=True)
class Patterns:
    """All patterns that were tried."""

    patterns: list[PatternUse]
