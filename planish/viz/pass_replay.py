"""Passes taken up to a step: the text of a program after its k-th rewrite, from the text before the pass and what changed since.

Lines are put in, taken out and written anew as the rewriter told it. Where that does not lead to the text after the pass (a change
inside of a region that was itself put in), there is no whole text, and what a step changed is shown alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from planish.ptir.function import Inst, Value
from planish.ptir.printer import symbol_text
from planish.records import dataclass
from planish.viz.passes import InstState, RewriteStep, TracedPass
from planish.viz.schema import SingleStep


@dataclass(frozen=True, slots=True)
class KeyedLine:
    """A line of a program; its key is that of the instruction that begins on it, -1 for none."""

    key: int
    text: str


@dataclass(frozen=True, slots=True)
class LineChange:
    """What a step did to the line of an instruction: `+` put it before another one, `-` took it out, `=` wrote it anew."""

    kind: str
    key: int
    text: str
    before: int = -1
    regions: bool = False


@dataclass(frozen=True, slots=True)
class PassStep:
    """One step of a pass, by itself and by what it did to the lines."""

    rule: str
    before: str
    after: str
    at: list[int]
    new: list[int]
    us: float
    changes: list[LineChange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PassReplay:
    """A pass, to be taken up to any step; without a start steps are shown alone."""

    start: list[KeyedLine] | None
    steps: list[PassStep]

    def step(self, number: int) -> SingleStep | None:
        """The program before and after a step."""
        if not 0 <= number < len(self.steps):
            return None
        taken = self.steps[number]
        before, after = taken.before, taken.after
        if self.start is not None:
            before, after = (replayed(self.start, self.steps[:last]) or "" for last in (number, number + 1))
        return SingleStep(
            number, len(self.steps), taken.rule, before, after, taken.at, taken.new, self.start is not None, taken.us
        )  # fmt: skip


def replay_of(start: TracedPass | None, trace: TracedPass, rules: Sequence[str]) -> PassReplay:
    """A recorded pass after another one; `rules` are the ids of the rules of its steps."""
    keys: dict[Inst, int] = {}

    def key(inst: Inst | None) -> int:
        return -1 if inst is None else keys.setdefault(inst, len(keys))

    names = {} if start is None else start.names
    steps = [_step(step, rule, key, names) for step, rule in zip(trace.steps, rules, strict=True)]
    if start is None:
        return PassReplay(None, steps)
    lines = [KeyedLine(key(inst), text) for inst, text in start.lines]
    return PassReplay(lines if replayed(lines, steps) == trace.text else None, steps)


def _step(
    step: RewriteStep, rule: str, key: Callable[[Inst | None], int], names: Mapping[Value, str]
) -> PassStep:
    gone = {state.id: state for state in (step.before, *step.erased)}
    return PassStep(
        rule,
        "".join(f"{gone[id].text()}\n" for id in sorted(gone)),
        "".join(f"{state.text()}\n" for state in step.after),
        sorted(gone),
        [state.id for state in step.after],
        round((step.end - step.start) / 1e3, 2),
        [
            LineChange(
                change.kind,
                key(change.inst),
                "" if change.kind == "-" else line_of(change.state, names),
                key(change.before),
                bool(change.inst.regions),
            )
            for change in step.changes
        ],
    )


def line_of(state: InstState, names: Mapping[Value, str]) -> str:
    """An instruction as the printer has it: values by the names they had, new ones by their own, or by their ids."""
    values = (*state.operands, *state.results)
    own = {value: f"%{symbol_text(value.name)}" for value in values if value.name is not None}
    return state.text({**own, **{value: names[value] for value in values if value in names}})


def replayed(lines: Sequence[KeyedLine], steps: Iterable[PassStep]) -> str | None:
    """The text after some steps; None if it is not known."""
    now = list(lines)
    for step in steps:
        for change in step.changes:
            if not _apply(now, change):
                return None
    return "\n".join(line.text for line in now) + "\n"


def _apply(lines: list[KeyedLine], change: LineChange) -> bool:
    anchor = change.before if change.kind == "+" else change.key
    place = next((number for number, line in enumerate(lines) if line.key == anchor), None)
    if place is None:
        # what was put in and taken out again is no matter, nor what is changed inside of something that is gone
        return change.kind != "+"
    text = lines[place].text
    indent = text[: len(text) - len(text.lstrip())]
    if change.kind == "-":
        del lines[place : _end(lines, place, indent)]
    elif change.kind == "=":
        head = _region_head(text) if text.endswith("{") else ""
        lines[place] = KeyedLine(change.key, f"{indent}{change.text}{head}")
    elif change.regions:
        return False
    else:
        lines.insert(place, KeyedLine(change.key, f"{indent}{change.text}"))
    return True


def _region_head(text: str) -> str:
    """What stands behind an instruction where its first region begins: ` (%i: …) {`."""
    start = text.rfind(" (%")
    return text[start:] if start > 0 else " {"


def _end(lines: Sequence[KeyedLine], place: int, indent: str) -> int:
    """The first line behind an instruction and its regions."""
    if lines[place].text.endswith("{"):
        for number in range(place + 1, len(lines)):
            if lines[number].text == f"{indent}}}":
                return number + 1
    return place + 1
