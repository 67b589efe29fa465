"""Pipelines as text, both ways: `fixpoint(canonicalize{max-iterations=3},cse),dce`.

Options stand in braces, by the names of a pass's fields; those at their default are left out. The passes of a fixpoint stand in
parentheses.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Final, cast

from planish.errors import PassError, PlanishError, did_you_mean
from planish.ptir.passes.definition import PASSES, Pass
from planish.ptir.passes.fixpoint import FixpointPass

OptionValue = bool | int | float | str | tuple[str, ...] | None
_PASS: Final = re.compile(r"\s*([A-Za-z0-9-]+)\s*(?:\{([^{}]*)\})?\s*(\()?\s*")
_NEXT: Final = re.compile(r"\s*([,)])\s*")


def pass_text(step: Pass) -> str:
    """A pass as pipelines spell it, with the options that differ from their defaults."""
    options: list[str] = []
    for item in dataclasses.fields(step):  # type: ignore[arg-type]
        if isinstance(step, FixpointPass) and item.name == "passes":
            continue
        value = getattr(step, item.name)
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        if value != default:
            options.append(f"{item.name.replace('_', '-')}={_value_text(value)}")
    shown = f"{step.name}{{{' '.join(options)}}}" if options else step.name
    return f"{shown}({pipeline_text(step.passes)})" if isinstance(step, FixpointPass) else shown


def pipeline_text(passes: Iterable[Pass]) -> str:
    """Passes, as pipelines spell them."""
    return ",".join(map(pass_text, passes))


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(name_of, value))
    return "none" if value is None else name_of(value)


def name_of(value: object) -> str:
    """What a value of an option is called: a pattern or a function by its name, anything else as it prints."""
    if isinstance(value, type) or (callable(value) and not hasattr(value, "label")):
        return str(getattr(value, "name", "") or getattr(value, "__name__", value))
    return str(getattr(value, "label", value))


def parse_pipeline(text: str) -> list[Pass]:
    """The passes of a pipeline's text."""
    if not text.strip():
        return []
    passes, position = _passes(text, 0)
    if position < len(text):
        raise _unreadable(text, position)
    return passes


def _passes(text: str, position: int) -> tuple[list[Pass], int]:
    """Passes up to the end or an unmatched parenthesis, and where that is."""
    passes: list[Pass] = []
    while True:
        match = _PASS.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        name, options, group = match.groups()
        position = match.end()
        if group is None:
            passes.append(_make_pass(name, options or ""))
        else:
            if name != FixpointPass.name:
                raise _unreadable(text, match.start(3))
            inner, position = _passes(text, position)
            if text[position : position + 1] != ")":
                raise _unreadable(text, position)
            position += 1
            fixpoint = cast("FixpointPass", _make_pass(name, options or ""))
            passes.append(dataclasses.replace(fixpoint, passes=tuple(inner)))
        following = _NEXT.match(text, position)
        if following is None:
            return passes, len(text) if not text[position:].strip() else _fail(text, position)
        if following.group(1) == ")":
            return passes, following.start(1)
        position = following.end()


def _fail(text: str, position: int) -> typing.NoReturn:
    raise _unreadable(text, position)


def _unreadable(text: str, position: int) -> PassError:
    return PassError(
        f"cannot read the pipeline {text!r} at column {position + 1}",
        remedy="write passes separated by commas, options in braces, what is repeated in parentheses: "
        "fixpoint(canonicalize{max-iterations=3},cse),dce",
    )


def _make_pass(name: str, options: str) -> Pass:
    cls = PASSES.get(name)
    if cls is None:
        close = did_you_mean(name, PASSES)
        hint = f"did you mean {close}? " if close else ""
        raise PassError(f"there is no pass {name!r}", remedy=f"{hint}valid: {', '.join(sorted(PASSES))}")
    # What a fixpoint repeats stands in parentheses behind its options.
    fields = {
        item.name.replace("_", "-"): item.name
        for item in dataclasses.fields(cls)  # type: ignore[arg-type]
        if cls is not FixpointPass or item.name != "passes"
    }
    hints = option_types(cls) if options.strip() else {}
    values: dict[str, OptionValue] = {}
    for option in options.split():
        key, equals, text = option.partition("=")
        if key not in fields:
            close = did_you_mean(key, fields)
            hint = f"did you mean {close}? " if close else ""
            valid = ", ".join(sorted(fields)) or "none"
            raise PassError(f"pass {name} has no option {key!r}", remedy=f"{hint}valid: {valid}")
        values[fields[key]] = _read_option(name, key, hints[fields[key]], text if equals else "true")
    try:
        return cls(**values)
    except PlanishError as error:
        error.add_note(f"in the options of pass {name}")
        raise


def option_types(cls: type[Pass]) -> dict[str, object]:
    """The types of a pass's fields."""
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise PassError(
            f"the types of the options of pass {cls.name} cannot be read: {error}",
            remedy="import what its annotations name where it is defined, not for the type checker alone",
        ) from None


def _read_option(name: str, key: str, hint: object, text: str) -> OptionValue:
    members = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if type(None) in members and text == "none":
        return None
    for member in members:
        if member is bool and text in ("true", "false"):
            return text == "true"
        if member is int and re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        if member is float and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text):
            return float(text)
        if typing.get_origin(member) in (tuple, Sequence):
            return tuple(part for part in text.split(",") if part)
        if member is str:
            return text
    wanted = " or ".join(_type_text(member) for member in members)
    raise PassError(f"option {key} of pass {name} cannot be {text!r}", remedy=f"it takes {wanted}")


def _type_text(member: object) -> str:
    names = {bool: "true or false", int: "an integer", float: "a number", type(None): "none"}
    return names.get(cast("type", member), "a list of names")
