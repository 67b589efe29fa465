"""From options to a pipeline: which passes, with which patterns and limits; and what there is to choose from."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import typing
from collections import abc
from collections.abc import Sequence
from pathlib import Path

from planish.cli.console import CommandError, UsageError
from planish.errors import PassError, RewriteError
from planish.ptir import OpKey, Pass, PassManager, canonicalization_patterns
from planish.ptir.ops.definition import OpDef
from planish.ptir.passes import PASSES, PATTERNS, CanonicalizePass
from planish.ptir.passes.canonicalize import listed
from planish.ptir.passes.fixpoint import flat, mapped
from planish.ptir.passes.text import option_types
from planish.ptir.rewrite import BasePattern, FrozenPatternSet, PatternSet


def read_passes(text: str) -> list[Pass]:
    """The passes of a pipeline's text; the names of patterns in it are checked too."""
    try:
        passes = PassManager.parse(text).passes
        _check(passes)
    except (PassError, RewriteError) as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    return passes


def adjust(
    passes: Sequence[Pass],
    *,
    extra: Sequence[str] = (),
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
    max_rewrites: int | None = None,
    expensive_checks: bool = False,
) -> list[Pass]:
    """The passes with what the command line adds to their options; `extra` are patterns that it has loaded.

    It becomes part of their text, so that a reproducer repeats it.
    """
    wanted = bool(enable or disable or max_rewrites is not None or expensive_checks)
    if wanted and not any(isinstance(step, CanonicalizePass) for step in flat(passes)):
        raise UsageError("no pass of this pipeline uses patterns", remedy="add canonicalize to it")

    def adjusted(step: Pass) -> Pass:
        if not isinstance(step, CanonicalizePass):
            return step
        named = {pattern.label for pattern in step.pattern_set().patterns}
        return dataclasses.replace(
            step,
            extra_patterns=(*listed(step.extra_patterns), *(name for name in extra if name not in named)),
            enable=(*(step.enable or ()), *enable) if enable else step.enable,
            disable=(*step.disable, *disable),
            max_rewrites=step.max_rewrites if max_rewrites is None else max_rewrites,
            expensive_checks=True if expensive_checks else step.expensive_checks,
        )

    try:
        changed = mapped(passes, adjusted)
        _check(changed)
    except RewriteError as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    return changed


def _check(passes: Sequence[Pass]) -> None:
    """Whether every pattern and cost model that passes name is there."""
    for step in flat(passes):
        if isinstance(step, CanonicalizePass):
            step.pattern_set().select(step.enable, step.disable)
            step.config()


def known_patterns() -> FrozenPatternSet:
    """The patterns that ship, and those that were loaded."""
    shipped = canonicalization_patterns()
    return PatternSet([*shipped.patterns, *PATTERNS.values()]).freeze() if PATTERNS else shipped


def reproducer_directory(chosen: str | None) -> Path | None:
    """Where a failing pass leaves its reproducer: as chosen, else among temporary files; None if it cannot."""
    directory = Path(tempfile.gettempdir() if chosen is None else chosen)
    # Made and tried now: a directory that cannot be written must not hide the error that is to be reproduced.
    directory.mkdir(parents=True, exist_ok=True)
    if os.access(directory, os.W_OK):
        return directory
    if chosen is None:
        return None
    raise CommandError(f"cannot write to {directory}")


def passes_text() -> str:
    """Every pass with its options, their types and defaults."""
    lines: list[str] = []
    for name, cls in sorted(PASSES.items()):
        lines.append(f"{name:<16} {_first_line(cls)}")
        hints = option_types(cls)
        for item in dataclasses.fields(cls):  # type: ignore[arg-type]
            if item.name == "passes":
                lines.append("    in parentheses: the passes that it repeats")
                continue
            kind = hints[item.name]
            option = item.name.replace("_", "-")
            default = "nothing" if item.default == () else str(item.default).lower()
            lines.append(f"    {option}={_kind_text(kind)}, default {default}")
    return "\n".join(lines) + "\n"


def patterns_text() -> str:
    """Every pattern with its roots and what it does, by name."""
    lines: list[str] = []
    for pattern in sorted(known_patterns().patterns, key=lambda pattern: pattern.label):
        lines.append(f"{pattern.label}: {', '.join(_root_text(root) for root in pattern.roots)}")
        summary = _first_line(type(pattern))
        if summary:
            lines.append(f"    {summary}")
    return "\n".join(lines) + "\n"


def passes_record() -> dict[str, object]:
    """Every pass with what it does and its options, as data."""
    return {
        name: {
            "does": _first_line(cls),
            "options": {f.name.replace("_", "-"): _kind_text(option_types(cls)[f.name]) for f in dataclasses.fields(cls) if f.name != "passes"},  # type: ignore[arg-type]
        }
        for name, cls in sorted(PASSES.items())
    }  # fmt: skip


def patterns_record() -> dict[str, object]:
    """Every pattern with its roots and what it does, as data."""
    return {
        pattern.label: {
            "roots": [_root_text(root) for root in pattern.roots],
            "does": _first_line(type(pattern)),
        }
        for pattern in sorted(known_patterns().patterns, key=lambda pattern: pattern.label)
    }


def _first_line(cls: type[Pass | BasePattern]) -> str:
    # Not inspect.getdoc: a class without a docstring would show its base's.
    return (cls.__dict__.get("__doc__") or "").strip().partition("\n")[0]


def _root_text(root: OpDef | OpKey) -> str:
    return root.name if isinstance(root, OpDef) else f"the {root.name.lower()} family"


def _kind_text(kind: object) -> str:
    names = {bool: "true|false", int: "INTEGER", float: "NUMBER", type(None): "none", str: "NAME"}
    members = () if typing.get_origin(kind) in (tuple, abc.Sequence) else typing.get_args(kind)
    if not members or typing.get_origin(kind) is abc.Callable:
        # What is no plain value is written by its name, several with commas between them.
        several = typing.get_origin(kind) in (tuple, abc.Sequence) or kind in (PatternSet, FrozenPatternSet)
        return names.get(typing.cast("type", kind), "NAME,..." if several else "NAME")
    return "|".join(dict.fromkeys(_kind_text(member) for member in members))
