"""Passes taken up to a step: the text of a program after its k-th rewrite, from the text before the pass and what changed since.

Lines are put in, taken out and written anew as the rewriter told it. Where a change cannot be placed (inside of a region that
was itself put in), there is no whole text, and what the step changed is shown alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from planish.ptir.function import Inst, Value
from planish.ptir.printer import symbol_text
from planish.viz.passes import Change, InstState, RewriteStep

Line = tuple[Inst | None, str]


def program_after(
    lines: Sequence[Line], names: Mapping[Value, str], steps: Iterable[RewriteStep]
) -> str | None:
    """The text after some steps; None if it is not known."""
    now = list(lines)
    for step in steps:
        for change in step.changes:
            if not _apply(now, change, names):
                return None
    return "\n".join(text for _, text in now) + "\n"


def _apply(lines: list[Line], change: Change, names: Mapping[Value, str]) -> bool:
    anchor = change.before if change.kind == "+" else change.inst
    place = next((number for number, (inst, _) in enumerate(lines) if inst is anchor), None)
    if place is None:
        # what was put in and taken out again is no matter, nor what is changed inside of something that is gone
        return change.kind != "+"
    text = lines[place][1]
    indent = text[: len(text) - len(text.lstrip())]
    if change.kind == "-":
        del lines[place : _end(lines, place, indent)]
        return True
    if change.kind == "+" and change.inst.regions:
        return False
    head = _region_head(text) if change.kind == "=" and _opens(text) else ""
    made = f"{indent}{line_of(change.state, names)}{head}"
    if change.kind == "=":
        lines[place] = change.inst, made
    else:
        lines.insert(place, (change.inst, made))
    return True


def _opens(text: str) -> bool:
    return text.endswith("{")


def _region_head(text: str) -> str:
    """What stands behind an instruction where its first region begins: ` (%i: …) {`."""
    start = text.rfind(" (%")
    return text[start:] if start > 0 else " {"


def _end(lines: Sequence[Line], place: int, indent: str) -> int:
    """The first line behind an instruction and its regions."""
    if not _opens(lines[place][1]):
        return place + 1
    for number in range(place + 1, len(lines)):
        if lines[number][1] == f"{indent}}}":
            return number + 1
    return place + 1


def line_of(state: InstState, names: Mapping[Value, str]) -> str:
    """An instruction as the printer has it: values by the names they had, new ones by their own, or by their ids."""
    own = {
        value: f"%{symbol_text(value.name)}"
        for value in (*state.operands, *state.results)
        if value.name is not None
    }
    return state.text(
        {**own, **{value: names[value] for value in (*state.operands, *state.results) if value in names}}
    )
