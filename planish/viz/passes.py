"""The trace of the passes over a function: its text after each pass that changed something, and every rewrite on the way.

The graph IR is changed in place, so its text is taken when a pass ends. Of a rewrite what is kept are references to what cannot
change (ops, operands, attributes, types); it is printed when somebody looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from time import perf_counter_ns
from types import MappingProxyType
from typing import Final, NamedTuple

from planish.errors import Location
from planish.ptir import Function, PassManager, Program
from planish.ptir.function import Inst, Region, Value
from planish.ptir.ops.definition import RETURN, Attrs, OpDef
from planish.ptir.passes import CanonicalizePass, Instrument, Pass, PassResult, pass_text
from planish.ptir.printer import HEADER, FunctionPrinter, print_inst
from planish.ptir.rewrite.listener import Listener, combine
from planish.ptir.types import TensorType
from planish.records import dataclass

_EXAMPLES: Final = 3
"""Nodes that are shown for one reason why a pattern did not apply."""


class InstNode(NamedTuple):
    """An instruction as a node of the graph after a pass."""

    id: int
    op: str
    results: tuple[int, ...]
    operands: tuple[int, ...]
    type: str
    loc: Location | None
    region: int
    """The instruction that it is inside of; -1 for none."""


class InstState(NamedTuple):
    """An instruction as it was at a moment."""

    op: OpDef
    operands: tuple[Value, ...]
    attrs: Attrs
    results: tuple[Value, ...]
    id: int

    @classmethod
    def of(cls, inst: Inst) -> InstState:
        return cls(inst.op, inst.operands, inst.attrs, inst.results, inst.id)

    def text(self, names: Mapping[Value, str] = MappingProxyType({})) -> str:
        """As a line, values by their ids, or by the names they are given."""
        if self.op is RETURN:
            operands = ", ".join(names.get(value) or f"%{value.id}" for value in self.operands)
            return f"return {operands}".rstrip()
        copy = Inst(self.id, self.op, self.operands, self.attrs, (), None)
        copy.results = self.results
        region = next((v.owner for v in self.operands if v.owner is not None), None)
        copy.parent = region or _NOWHERE.body
        return print_inst(copy, names, brief=True)


_NOWHERE: Final = Function("nowhere")


class Change(NamedTuple):
    """What a rewrite did to one instruction: `+` put it before another one, `-` took it out, `=` changed it."""

    kind: str
    inst: Inst
    """Who it is; what it was like then is its state."""
    state: InstState
    before: Inst | None = None


class RewriteStep(NamedTuple):
    """One rewrite: a pattern applied, an op folded (no pattern), or one that nothing uses erased."""

    kind: str
    pattern: str
    before: InstState
    after: tuple[InstState, ...]
    """What was put in its place; itself, if it was changed."""
    erased: tuple[InstState, ...]
    loc: Location | None
    start: int
    end: int
    changes: tuple[Change, ...] = ()


@dataclass(slots=True)
class TracedPass:
    """One pass that ran; number 0 is the function as it was given."""

    number: int
    name: str
    function: str
    seconds: float = 0.0
    changed: bool = False
    text: str = ""
    """After it; empty if nothing changed."""
    lines: list[tuple[Inst | None, str]] = field(default_factory=list)
    """The same line by line, with the instruction that begins on each."""
    names: dict[Value, str] = field(default_factory=dict)
    """What values are called in it."""
    nodes: list[InstNode] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    steps: list[RewriteStep] = field(default_factory=list)
    statistics: dict[str, int | float] = field(default_factory=dict)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a pattern did not apply, by reason."""
    examples: dict[tuple[str, str], list[InstState]] = field(default_factory=dict)
    error: str = ""


class PassTrace(Instrument, Listener):
    """Watches one pipeline; `passes` is what it saw."""

    __slots__ = (
        "_before", "_changes", "_current", "_erased", "_inserted", "_is_greedy", "_reason", "_start", "passes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.passes: list[TracedPass] = []
        self._current = TracedPass(0, "input", "")
        self._before: InstState | None = None
        self._start = 0
        self._inserted: list[Inst] = []
        self._erased: list[InstState] = []
        self._changes: list[Change] = []
        self._is_greedy = False
        """Whether the pass tells its patterns; of others what they erase is heard."""
        self._reason = ""

    def watched(self, manager: PassManager) -> PassManager:
        """A pipeline like another one, which tells this trace too."""
        return PassManager(
            manager.passes,
            instruments=[*manager.instruments, self],
            listener=combine(manager.listener, self),
            reproducer_dir=manager.reproducer_dir,
        )

    # -- passes --------------------------------------------------------------------------------------------------

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if not self.passes:
            first = TracedPass(0, "input", program.entry.name, changed=True)
            look(program, first)
            self.passes.append(first)
        self._current = TracedPass(number, pass_text(step), program.entry.name)
        self._is_greedy = isinstance(step, CanonicalizePass)
        self._start = perf_counter_ns()
        self._clear()

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        trace = self._current
        if self._changes:
            first = self._changes[0]
            self._add("changed", trace.name, first.state, first.inst)
        trace.seconds, trace.changed, trace.statistics = seconds, result.changed, dict(result.statistics)
        if result.changed:
            look(program, trace)
        self.passes.append(trace)

    def failed_pass(self, number: int, step: Pass, program: Program, error: Exception) -> None:
        self._current.error = f"{type(error).__name__}: {error}"
        self.passes.append(self._current)

    # -- rewrites ------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._inserted.clear()
        self._erased.clear()
        self._changes.clear()

    def attempt(self, pattern: str, root: Inst) -> None:
        self._before = InstState.of(root)
        self._reason = ""
        if not self._changes:
            self._clear()
        self._start = perf_counter_ns()

    def inserted(self, inst: Inst) -> None:
        self._inserted.append(inst)
        self._changes.append(Change("+", inst, InstState.of(inst), inst.next))

    def modified(self, inst: Inst) -> None:
        self._changes.append(Change("=", inst, InstState.of(inst)))

    def erased(self, inst: Inst, region: Region) -> None:
        state = InstState.of(inst)
        self._erased.append(state)
        self._changes.append(Change("-", inst, state))
        if not self._is_greedy:
            self._add("erased", self._current.name, state, inst)
            self._start = perf_counter_ns()

    def succeeded(self, pattern: str, root: Inst) -> None:
        self._add("changed", pattern, self._before or InstState.of(root), root)

    def reason(self, pattern: str | None, inst: Inst, text: str) -> None:
        self._reason = text

    def failed(self, pattern: str, root: Inst) -> None:
        key = pattern, self._reason or "what it looks for is not there"
        failures = self._current.failures
        failures[key] += 1
        if failures[key] <= _EXAMPLES:
            self._current.examples.setdefault(key, []).append(InstState.of(root))

    def folded(self, root: Inst, values: Sequence[Value]) -> None:
        self._add("folded", "fold", InstState.of(root), root)
        self._start = perf_counter_ns()

    def eliminated(self, inst: Inst) -> None:
        self._add("erased", "unused", InstState.of(inst), inst)
        self._start = perf_counter_ns()

    def _add(self, kind: str, pattern: str, before: InstState, root: Inst) -> None:
        after = [InstState.of(inst) for inst in self._inserted]
        if kind == "changed" and root.parent is not None:
            after.append(InstState.of(root))
        self._current.steps.append(
            RewriteStep(
                kind,
                pattern,
                before,
                tuple(after),
                tuple(self._erased),
                root.loc,
                self._start,
                perf_counter_ns(),
                tuple(self._changes),
            )
        )
        self._clear()


def look(program: Program, trace: TracedPass) -> None:
    """The text and the graph of a program at this moment."""
    printed = [FunctionPrinter(function, ids=True, brief=True) for function in program]
    trace.lines = [(None, HEADER)]
    for position, printer in enumerate(printed):
        lines = printer.print()
        if position and program.entry_name == printer.function.name:
            lines[0] = f"entry {lines[0]}"
        insts: dict[int, Inst] = {line: inst for inst, line in printer.line_of.items()}
        trace.lines += [(insts.get(number), line) for number, line in enumerate(lines)]
        trace.names |= printer.names
    trace.text = trace.text or "\n".join(line for _, line in trace.lines) + "\n"
    for function in program:
        makers: dict[Value, int] = {}
        for value in function.params:
            trace.nodes.append(_parameter(value))
            makers[value] = -1 - value.id
        stack: list[tuple[Region, int]] = [(function.body, -1)]
        while stack:
            region, owner = stack.pop()
            for inst in region:
                types: tuple[TensorType, ...] = tuple(value.type for value in inst.results)
                results, operands = (tuple(v.id for v in each) for each in (inst.results, inst.operands))
                trace.nodes.append(
                    InstNode(
                        inst.id, inst.op.name, results, operands, ", ".join(map(str, types)), inst.loc, owner
                    )
                )
                makers.update((value, inst.id) for value in inst.results)
                for inner in inst.regions:
                    for value in inner.args:
                        trace.nodes.append(_parameter(value, inst.id))
                        makers[value] = -1 - value.id
                    stack.append((inner, inst.id))
        for inst in function.walk():
            trace.edges += [
                (makers[value], inst.id, slot) for slot, value in enumerate(inst.operands) if value in makers
            ]


def _parameter(value: Value, region: int = -1) -> InstNode:
    return InstNode(-1 - value.id, "parameter", (value.id,), (), str(value.type), None, region)
