"""The rules that a recording speaks of: a short id for each, its equation, and where it is written."""

from __future__ import annotations

import inspect
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from planish.ptir.passes import PATTERNS, canonicalization_patterns
from planish.uop.matcher import RULES, Rule
from planish.viz.schema import RuleEntry

_PACKAGE: Final = Path(__file__).resolve().parents[1]


class KnownRule(NamedTuple):
    """A rule as it is told: by this process, or by another one that made a kernel."""

    name: str
    equation: str
    file: str
    line: int


def described(rule: Rule | KnownRule) -> KnownRule:
    """What is told of a rule that rewrites kernels."""
    if isinstance(rule, KnownRule):
        return rule
    function = rule.right if callable(rule.right) else rule.when
    file, line = (rule.file, rule.line) if function is None else _place(function)
    name = getattr(function, "__name__", "") if function is not None else ""
    shown = name.strip("_").replace("_", " ") if name and name != "<lambda>" else rule.name
    return KnownRule(shown, rule.name, _relative(file), line)


class _KnownRules:
    """The rules of this process by what is told of them."""

    def __init__(self) -> None:
        self._by_description: dict[KnownRule, Rule] = {}
        self._seen = 0

    def __call__(self, told: KnownRule) -> Rule | None:
        for reference in RULES[self._seen :]:  # those that were made since
            rule = reference()
            if rule is not None:
                self._by_description.setdefault(described(rule), rule)
        self._seen = len(RULES)
        return self._by_description.get(told)


rule_told: Final = _KnownRules()
"""The rule of this process that another one, or a file, tells of; None if this version has no such rule."""


class RuleBook:
    """Gives rules ids as they turn up: `u17` for one of kernels, `g3` for a pattern of the graph IR."""

    def __init__(self) -> None:
        self.entries: dict[str, RuleEntry] = {}
        self._uop: dict[Rule | KnownRule, str] = {}
        self._rules: dict[str, Rule] = {}
        self._patterns: dict[str, str] = {}

    def uop(self, rule: Rule | KnownRule) -> str:
        """The id of a rule that rewrites kernels."""
        key = self._uop.get(rule)
        if key is None:
            told = described(rule)
            key = self._uop.get(told)
            if key is None:
                key = self._uop[told] = f"u{sum(entry.engine == 'uop' for entry in self.entries.values())}"
                self.entries[key] = RuleEntry(*told, "uop")
            self._uop[rule] = key
            if isinstance(rule, Rule):
                self._rules[key] = rule
        return key

    def rule(self, id: str) -> Rule | None:
        """The rule of an id, if it is one of kernels."""
        return self._rules.get(id) or rule_of(self.entries.get(id))

    def pattern(self, name: str) -> str:
        """The id of a pattern of the graph IR, of a fold, or of the removal of what is unused."""
        key = self._patterns.get(name)
        if key is None:
            key = self._patterns[name] = f"g{len(self._patterns)}"
            known = {pattern.label: pattern for pattern in canonicalization_patterns().patterns}
            pattern = known.get(name) or PATTERNS.get(name)
            cls = pattern if isinstance(pattern, type) else type(pattern)
            says = _BUILT_IN.get(name) or inspect.cleandoc((cls.__doc__ if pattern is not None else "") or "")
            file, line = _place(cls) if pattern is not None else ("", 0)
            self.entries[key] = RuleEntry(name, says.partition("\n\n")[0], _relative(file), line, "ptir")
        return key


def rule_of(entry: RuleEntry | None) -> Rule | None:
    """The rule that an entry of an index tells of, if this process has it."""
    if entry is None or entry.engine != "uop":
        return None
    return rule_told(KnownRule(entry.name, entry.equation, entry.file, entry.line))


_BUILT_IN: Final = {
    "fold": "An op of constants is computed, or one that its op folds.",
    "unused": "What nothing uses is removed.",
}


def _place(thing: object) -> tuple[str, int]:
    """Where something is defined."""
    code = getattr(thing, "__code__", None)
    if code is not None:
        return code.co_filename, code.co_firstlineno
    # a pattern may be made of a function or of laws: it is where its module first has its name
    file = getattr(sys.modules.get(getattr(thing, "__module__", "")), "__file__", None) or ""
    name = re.compile(rf"\b{re.escape(getattr(thing, '__name__', ''))}\b")
    for number, line in enumerate(_lines(file), 1):
        if name.search(line):
            return file, number
    return file, 0


@lru_cache(64)
def _lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(encoding="utf-8").splitlines()) if file else ()
    except (OSError, UnicodeDecodeError):
        return ()


def _relative(file: str) -> str:
    """A file of the package as seen from beside it; others as they are."""
    try:
        return f"planish/{Path(file).relative_to(_PACKAGE).as_posix()}" if file else ""
    except ValueError:
        return file
