"""Why a rule does not apply to a node: the first test of its pattern that fails, and at which node.

    why_not(rule, node).reason      "c in x * c must be CONST, it is RANGE"

A pattern that can be read in several ways (operands in either order, alternatives) fails in each of them; the way that got
furthest is told. Reasons name ops, dtypes and parts of the pattern and no node, so that equal ones can be counted.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

from planish.algebra.law import parameters_of
from planish.uop.compile import same_float
from planish.uop.matcher import Rule
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS
from planish.uop.pattern import NodePattern, arg_text

NOT_OFFERED: Final = "it would apply, and was not offered this node"
_BARE: Final = frozenset({"", "return None", "return", "pass"})
_SHOWN: Final = 4
"""Ops of a pattern that are named."""


class WhyNot(NamedTuple):
    """The obstacle of a rule at a node."""

    reason: str
    at: UOp
    """The node that failed the test: the root, or one below it."""
    passed: int
    """Tests that went before it."""
    matches: bool = False
    """Whether the whole pattern matches: its condition or its function declines, or another rule was faster."""


class _Failed(Exception):
    def __init__(self, reason: str, at: UOp) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class _Reading:
    """One way to read a pattern, tested part by part."""

    def __init__(self) -> None:
        self.bound: dict[str, UOp] = {}
        self.passed = 0

    def match(self, pattern: NodePattern, node: UOp, place: str) -> None:
        """Hold a node and what is below it to a pattern. (Patterns are a few levels deep: recursion is safe.)"""
        if pattern.ops is not None:
            self._hold(node.op in pattern.ops, node, f"{place} must be {_ops(pattern)}, it is {node.op.name}")
        if pattern.kinds is not None:
            operand = node.src[0] if node.op in COMPARISONS and node.src else node
            kinds = " or ".join(sorted(kind.name.lower() for kind in pattern.kinds))
            self._hold(
                operand.dtype.kind in pattern.kinds,
                node,
                f"the dtype of {place} must be {kinds}, it is {operand.dtype}",
            )
        if pattern.arg is not ...:
            wanted = pattern.arg
            same = same_float(node.arg, wanted) if isinstance(wanted, float) else node.arg == wanted
            what = "the constant" if pattern.is_constant else f"the argument of {place}"
            inside = f" in {place.partition(' in ')[2]}" if pattern.is_constant and " in " in place else ""
            self._hold(same, node, f"{what}{inside} must be {arg_text(wanted)}")
        if pattern.name is not None:
            known = self.bound.setdefault(pattern.name, node)
            self._hold(known is node, node, f"{pattern.name} must be the same node at both places")
        if pattern.sources is not None:
            self._sources(pattern, pattern.sources, node, place)

    def _sources(self, pattern: NodePattern, sources: tuple[NodePattern, ...], node: UOp, place: str) -> None:
        count = len(sources)
        fits = len(node.src) >= count if pattern.rest else len(node.src) == count
        least = "at least " if pattern.rest else ""
        self._hold(fits, node, f"{place} must have {least}{count} sources, it has {len(node.src)}")
        for position in sorted(range(count), key=lambda i: (not sources[i].is_leaf, i)):
            part = sources[position]
            shown = str(part)
            inside = shown if shown != "_" else f"source {position}"
            self.match(part, node.src[position], f"{inside} in {pattern}")

    def _hold(self, condition: bool, node: UOp, reason: str) -> None:
        if not condition:
            raise _Failed(reason, node)
        self.passed += 1


def why_not(rule: Rule, node: UOp) -> WhyNot:
    """What keeps a rule from applying to a node, as far as node and pattern tell; `matches` if it is neither."""
    furthest: WhyNot | None = None
    for variant in rule.variants:
        reading = _Reading()
        try:
            reading.match(variant.pattern, node, f"{variant.pattern}")
        except _Failed as failed:
            why = WhyNot(failed.reason, failed.at, reading.passed)
        else:
            why = WhyNot(_declined(rule, node, reading.bound), node, reading.passed, True)
        if furthest is None or (why.matches, why.passed) > (furthest.matches, furthest.passed):
            furthest = why
    if furthest is None:
        return WhyNot("its pattern can be read in no way", node, 0)
    return furthest


def _declined(rule: Rule, node: UOp, bound: dict[str, UOp]) -> str:
    """Why a rule whose pattern matches does not apply."""
    guard, right, given = rule.when, rule.right, {**bound, "root": node}
    if guard is not None:
        told = (
            f"its condition does not hold: {_name(guard)}" if _name(guard) else "its condition does not hold"
        )
        names = parameters_of(guard)
        if not set(names) <= given.keys():  # it asks for what the rewrite was given
            return f"{told}, or it finds nothing to do"
        if not guard(*(given[name] for name in names)):
            return told
    if isinstance(right, NodePattern):
        return "it would give what is there already"
    names = parameters_of(right)
    if not set(names) <= given.keys():
        return f"the pattern matches, and it finds nothing to do: {_name(right) or rule.name}"
    result, line = _last_line(right, [given[name] for name in names])
    if result is None:
        return f"the pattern matches, and it ends at `{line}`"
    return "it would give what is there already" if result is node else NOT_OFFERED


def _last_line(function: Callable[..., object], given: list[UOp]) -> tuple[object, str]:
    """What a function answers, and the line that decided: the last one it came to that is more than a bare return."""
    code, texts = getattr(function, "__code__", None), list[str]()

    def trace(frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        here, caller = frame.f_code, frame.f_back
        if here is code and here.co_name != "<lambda>":
            pass
        elif caller is None or caller.f_code is not code or code.co_name != "<lambda>":
            return trace if here is code else None  # of a lambda, what it calls tells more
        if event == "line":
            texts.append(linecache.getline(here.co_filename, frame.f_lineno).strip())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function(*given)
    finally:
        sys.settrace(before)
    told = [text for text in texts if text not in _BARE]
    return result, told[-1] if told else _name(function)


def _name(function: object) -> str:
    """What a function is called, as words."""
    name = getattr(function, "__name__", "")
    return "" if name == "<lambda>" else name.strip("_").replace("_", " ")


def _ops(pattern: NodePattern) -> str:
    names = [op.name for op in sorted(pattern.ops or ())]
    return " or ".join(names[:_SHOWN]) + (f" or {len(names) - _SHOWN} others" if len(names) > _SHOWN else "")


__all__ = ["NOT_OFFERED", "WhyNot", "why_not"]
