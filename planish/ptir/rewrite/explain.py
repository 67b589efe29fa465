"""Why a pattern does or does not fire at an instruction.

`explain` tries the pattern on a copy and reports the first obstacle: the root op, an operand that another op
defines, the guard, or the reason the pattern itself gave with `rw.fail`. Values are called as the printed text calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from planish.errors import GraphError, RewriteError, did_you_mean
from planish.ptir.function import Function, Inst, Program, Value
from planish.ptir.ops.definition import ConstantKind, OpKey
from planish.ptir.printer import FunctionPrinter
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.pattern import (
    BasePattern,
    DefKey,
    FrozenPatternSet,
    InstView,
    OperandFilter,
    Pattern,
    accepts,
)
from planish.ptir.rewrite.rewriter import ProgramRewriter


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would happen if a pattern met an instruction."""

    pattern: str
    inst: str
    fires: bool
    reasons: tuple[str, ...]
    """Why not, or what it would do; the decisive one first."""

    def __str__(self) -> str:
        verdict = "fires" if self.fires else "does not fire"
        return f"{self.pattern} {verdict} at {self.inst}: {'; '.join(self.reasons)}"


class _ValueNames:
    """What values are called: by their ids, which a copy shares; what has no name yet is new."""

    def __init__(self, known: Mapping[int, str]) -> None:
        self.known = dict(known)
        self.new = 0

    def __call__(self, value: Value) -> str:
        if value.id not in self.known:
            self.new += 1
            self.known[value.id] = f"%new{self.new}"
        return self.known[value.id]

    def shown(self, inst: Inst) -> str:
        """An instruction in short."""
        operands = ", ".join(map(self, inst.operands))
        results = ", ".join(map(self, inst.results))
        return f"{results} = {inst.op.name}({operands})" if results else f"{inst.op.name}({operands})"


class _Reasons(Listener):
    __slots__ = ("names", "new", "reasons")

    def __init__(self, names: _ValueNames) -> None:
        self.names = names
        self.reasons: list[str] = []
        self.new: list[str] = []

    def reason(self, pattern: str | None, inst: Inst, text: str) -> None:
        self.reasons.append(text)

    def inserted(self, inst: Inst) -> None:
        self.new.append(self.names.shown(inst))


def printed_names(function: Function) -> dict[int, str]:
    """What the printed text calls the values of a function, by their ids."""
    printer = FunctionPrinter(function)
    printer.print()
    return {value.id: name for value, name in printer.names.items()}


def explain(
    program: Program | Function,
    op: Inst | Value | int,
    pattern: BasePattern | type[BasePattern] | str,
    patterns: FrozenPatternSet | None = None,
    names: Mapping[int, str] | None = None,
) -> Explanation:
    """Why `pattern` fires or not at `op` (an instruction, its value, or its id), without changing anything.

    A pattern given by name is looked up in `patterns`. Values are called by `names`, by their ids; None: as they are printed.
    """
    function, inst = _locate(program, op)
    chosen = _find(pattern, patterns) if isinstance(pattern, str) else pattern
    base = chosen() if isinstance(chosen, type) else chosen
    subject = cast("Pattern[Inst | InstView]", base)
    called = _ValueNames(printed_names(function) if names is None else names)
    text = called.shown(inst)
    obstacle = _obstacle(subject, inst)
    if obstacle is not None:
        return Explanation(subject.label, text, False, (obstacle,))
    copy = function.clone()
    target = copy.inst(inst.id)
    listener = _Reasons(called)
    rw = ProgramRewriter(copy, listener, pattern=subject.label)
    rw.root = target
    view = subject.view_for(target.op)
    shown = target if view is None else view(target)
    if not subject.may_match(shown, rw):
        return Explanation(subject.label, text, False, (*listener.reasons, "its may_match says no"))
    if subject.match_and_rewrite(shown, rw):
        effect = f"it makes {'; '.join(listener.new)}" if listener.new else "it makes nothing new"
        return Explanation(subject.label, text, True, (effect,))
    reasons = tuple(reversed(listener.reasons)) or ("it returned False without a reason",)
    return Explanation(subject.label, text, False, reasons)


def _locate(program: Program | Function, op: Inst | Value | int) -> tuple[Function, Inst]:
    if isinstance(op, Value):
        if op.def_inst is None:
            raise GraphError(f"{op!r} is a parameter; patterns look at instructions")
        op = op.def_inst
    if isinstance(op, Inst):
        return op.function, op
    for function in [program] if isinstance(program, Function) else program:
        for inst in function.walk():
            if inst.id == op:
                return function, inst
    raise GraphError(f"there is no instruction {op}")


def _find(name: str, patterns: FrozenPatternSet | None) -> BasePattern:
    known = () if patterns is None else patterns.patterns
    for pattern in known:
        if pattern.label == name:
            return pattern
    close = did_you_mean(name, [pattern.label for pattern in known])
    raise RewriteError(f"there is no pattern {name!r}", remedy=f"did you mean {close}?" if close else None)


def _obstacle(pattern: BasePattern, inst: Inst) -> str | None:
    """The declared condition that rules the pattern out before it is called."""
    if inst.parent is None:
        return "the instruction is erased"
    if inst.op not in pattern.roots and inst.op.key not in pattern.roots:
        return f"its root is {_names(pattern.roots)}, not {inst.op.name}"
    for index, wanted in enumerate(pattern.operands):
        if index >= len(inst.operands):
            return f"it wants {len(pattern.operands)} operands, there are {len(inst.operands)}"
        if wanted is not None and not accepts(wanted, _key(inst.operands[index])):
            return f"operand {index} must come from {_names(wanted)}, it comes from {_source(inst.operands[index])}"
    anywhere = pattern.any_operand
    if anywhere is not None and not any(accepts(anywhere, _key(value)) for value in inst.operands):
        return f"no operand comes from {_names(anywhere)}"
    if pattern.same_operands and (len(inst.operands) < 2 or inst.operands[0] is not inst.operands[1]):
        return "its first two operands must be the same value"
    return None


def _key(value: Value) -> DefKey:
    return None if value.def_inst is None else value.def_inst.key


def _source(value: Value) -> str:
    return "a parameter" if value.def_inst is None else value.def_inst.op.name


def _names(wanted: OperandFilter) -> str:
    if isinstance(wanted, tuple):
        return " or ".join(_names(part) for part in wanted)
    if isinstance(wanted, OpKey):
        return f"the {wanted.name.lower()} family"
    if isinstance(wanted, ConstantKind):
        return f"the constant {wanted.name}"
    return "anything" if wanted is None else wanted.name
