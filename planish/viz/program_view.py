"""The documents of one program: its passes, what its kernels give each other, its memory, why kernels are not one.

What is cheap is worked out at once, when somebody first looks; what belongs to a kernel is its view's (`kernel_view.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

from planish.compiler.executable import flops_of
from planish.compiler.launch_parameters import scratch_of
from planish.compiler.profile import LaunchProfile, named
from planish.llir.program import Program as LlirProgram
from planish.optimize.cost import estimate
from planish.ptir.function import Inst
from planish.runtime.pool import available_cores
from planish.schedule.plan import PlanBuffer, Role
from planish.uop.node import Table, UOp
from planish.uop.text import copy_nodes, in_order
from planish.viz import rule_schema, schema
from planish.viz.fusion_view import Flows, bytes_of
from planish.viz.journey import Journey, RuleId, journey_of
from planish.viz.kernel_view import FIRST_SCHEDULED, KernelFacts, KernelView
from planish.viz.pass_view import PassView
from planish.viz.recorder import RecordedKernel, RecordedProgram
from planish.viz.rules import RuleBook
from planish.viz.runs import RecordedCall
from planish.viz.search_tree import tree_of

_ROLES: Final = {Role.PARAMETER: "input", Role.RESULT: "output", Role.CONSTANT: "constant"}
_ESTIMATED: Final = 100
"""Kernels whose cost is told in the index: it takes some milliseconds for each."""


class ProgramView:
    """One recorded program, to be looked at."""

    def __init__(
        self, number: int, program: RecordedProgram, rules: RuleBook, cycle_us: float, epoch: int
    ) -> None:
        self.id = f"p{number}"
        self.program = program
        self.rules = rules
        self.cycle_us = cycle_us
        self.epoch = epoch
        self.passes = PassView(program.passes, rules, epoch)

    # -- kernels ---------------------------------------------------------------------------------------------------

    @cached_property
    def kernels(self) -> dict[str, KernelView]:
        """By number: those that the function was cut into, then the loops that became kernels."""
        views: dict[str, KernelView] = {}
        for number, kernel in sorted(self.program.kernels.items()):
            views[str(number)] = KernelView(
                self._facts(kernel),
                _journey(kernel, self.rules.uop, self.epoch),
                self.cycle_us,
                self.rules.rule,
                kernel.program,
            )
        for number, facts in self._loops():
            views[str(number)] = KernelView(facts, lambda: None, self.cycle_us, program=self._llir(number))
        return views

    def _facts(self, kernel: RecordedKernel) -> KernelFacts:
        choice, planned = kernel.choice, kernel.kernel
        aliased = self.program.sharing.aliased if self.program.sharing is not None else ()
        return KernelFacts(
            f"{self.id}/k/{kernel.number}",
            planned.name,
            self.program.target.name,
            [] if choice is None else [str(action) for action in choice.actions],
            [] if choice is None else list(choice.reasons),
            "" if choice is None else choice.origin,
            list(dict.fromkeys(planned.because)),
            aliased=sorted(aliased[kernel.number]) if kernel.number < len(aliased) else [],
            scratch=0 if kernel.program is None or self.program.target.is_gpu else scratch_of(kernel.program),
            parameters=[self.buffer_name(number) for number in planned.buffers],
            search=None
            if choice is None or choice.search is None
            else tree_of(choice.search, [str(action) for action in choice.actions], self.cycle_us),
            error=kernel.error,
        )

    def _loops(self) -> Iterator[tuple[int, KernelFacts]]:
        """Loops that became kernels: no stage made them, other kernels did."""
        lowered = self.program.lowered
        if lowered is None:
            return
        for place, origin in enumerate(lowered.origins):
            if origin >= len(lowered.choices):
                llir = lowered.programs[place]
                rolled = lowered.rolled[origin - len(lowered.choices)]
                yield (
                    origin,
                    KernelFacts(
                        f"{self.id}/k/{origin}", llir.name, self.program.target.name, origin=rolled.because,
                        because=[rolled.because],
                        aliased=sorted(lowered.sharing.aliased[place]), scratch=lowered.scratch[place],
                    ),
                )  # fmt: skip

    def buffer_name(self, number: int) -> str:
        """What a buffer of the plan is called."""
        plan = self.program.plan
        if plan is None or number >= len(plan.buffers):
            return f"b{number}"
        buffer = plan.buffers[number]
        if buffer.role is Role.PARAMETER:
            entry = (
                self.program.function.entry
                if hasattr(self.program.function, "entry")
                else self.program.function
            )
            params = entry.params
            name = params[buffer.position].name if buffer.position < len(params) else None
            return name or f"argument {buffer.position}"
        return f"result {buffer.position}" if buffer.role is Role.RESULT else f"b{number}"

    @cached_property
    def origins(self) -> dict[str, str]:
        """By kernel, the line and the ops that it comes from."""
        by_kernel = {name: launches[0] for name, launches in self.program.origins.items()}
        lowered, plan = self.program.lowered, self.program.plan
        kernels = () if plan is None else plan.kernels
        for loop in () if lowered is None else lowered.rolled:  # what the kernels of a turn compute
            parts = [kernels[part].name for part in loop.parts if part < len(kernels)]
            by_kernel[loop.name] = tuple(
                dict.fromkeys(
                    inst for name in parts for insts in self.program.origins.get(name, ()) for inst in insts
                )
            )
        return {name: _origin(insts) for name, insts in by_kernel.items()}

    @property
    def calls(self) -> list[RecordedCall]:
        """Of it that were watched."""
        return [] if self.program.runs is None else self.program.runs.calls

    def _measured(self) -> dict[str, float]:
        """By the name of a kernel: the fastest of its launches, in microseconds."""
        fastest: dict[str, float] = {}
        for call in self.calls:
            for event in call.events:
                us = round(event.seconds * 1e6, 3)
                fastest[event.name] = min(us, fastest.get(event.name, us))
        return fastest

    def timeline(self) -> schema.LaunchTimeline | None:
        """The calls of it, launch by launch."""
        if not self.calls:
            return None
        ids = {view.facts.name: view.facts.id for view in self.kernels.values()}
        threads = {
            thread: number for number, thread in enumerate(dict.fromkeys(c.thread for c in self.calls))
        }
        events = []
        for call in self.calls:
            for event in call.events:
                rate = 1e-9 / event.seconds if event.seconds else 0.0
                events.append(
                    schema.LaunchEntry(
                        event.name,
                        ids.get(event.name),
                        round((event.start - self.epoch * 1e-9) * 1e6, 2),
                        round(event.seconds * 1e6, 3),
                        threads[call.thread] + (len(threads) if event.beside else 0),  # a row of their own
                        round(event.flops * rate, 3),
                        round(event.nbytes * rate, 3),
                        event.nbytes,
                        event.flops,
                    )
                )
        which = "the first call" if len(self.calls) == 1 else f"the first {len(self.calls)} calls"
        note = f"{which}, launch by launch; the first one finds caches cold"
        return schema.LaunchTimeline(events, max(call.threads for call in self.calls), note)

    def entry(self) -> schema.ProgramEntry:
        """Its part of the index."""
        program, measured = self.program, self._measured()
        launches = Counter(
            program.plan.kernels[launch.kernel].name for launch in program.plan.launches
        ) if program.plan is not None else Counter[str]()  # fmt: skip
        alike: dict[int, str] = {}
        many = len(program.kernels) > _ESTIMATED
        kernels = []
        for number, view in self.kernels.items():
            recorded = program.kernels.get(int(number))
            llir = self._llir(int(number))
            like = None
            if recorded is not None:
                shape = _structure(recorded)
                like = alike.setdefault(shape, view.facts.id)
                like = None if like == view.facts.id else like
            kernels.append(
                schema.KernelEntry(
                    view.facts.id,
                    view.facts.name,
                    self.origins.get(view.facts.name, ""),
                    launches.get(view.facts.name, 1),
                    like,
                    0 if llir is None else flops_of(llir),
                    0 if llir is None else sum(buffer.nbytes for buffer in llir.params),
                    "" if llir is None else _dtype(llir),
                    None if recorded is None or many else self._estimate_us(recorded),
                    measured.get(view.facts.name),
                    0.0 if recorded is None else round(recorded.seconds * 1e3, 3),
                    "; ".join(view.facts.schedule),
                    [] if recorded is None else [
                        [s.number, round(s.seconds * 1e3, 3), s.steps, int(s.changed)]
                        for s in recorded.summaries
                    ],
                    list(view.levels),
                    self._parts(int(number)),
                    view.facts.error,
                )
            )  # fmt: skip
        return schema.ProgramEntry(
            self.id,
            program.name,
            self._user(),
            program.target.name,
            round(program.seconds * 1e3, 3),
            self._phases(),
            [
                schema.PassEntry(
                    f"{self.id}/pass/{number}", p.name, p.function, round(p.seconds * 1e3, 4), p.changed, len(p.steps), p.error
                )
                for number, p in enumerate(program.passes)
            ],
            kernels,
            [] if self.flows is None else self.flows.edges(),
            schema.Has(
                program.lowered is not None,
                program.plan is not None,
                bool(self.calls),
                any(view.facts.search is not None for view in self.kernels.values()),
                bool(program.passes),
            ),
            program.error,
        )  # fmt: skip

    def _estimate_us(self, kernel: RecordedKernel) -> float | None:
        """What the cost model expects of a kernel, as time."""
        form = next((stage.form for stage in kernel.stages if stage.number == FIRST_SCHEDULED), None)
        if not isinstance(form, UOp):
            return None
        with Table() as table:
            own = copy_nodes(in_order(form), table)[form]
            cycles = estimate(own, self.program.target, threads=available_cores()).cycles
        return round(cycles * self.cycle_us, 3)

    def name_rules(self) -> None:
        """Have every rule that was tried known by its id."""
        for kernel in self.program.kernels.values():
            for stage in kernel.summaries:
                for count in stage.counts:
                    self.rules.uop(count.rule)
        for trace in self.program.passes:
            for step in trace.steps:
                self.rules.pattern(step.pattern)
            self.passes.statistics(trace)

    def _llir(self, number: int) -> LlirProgram | None:
        recorded, lowered = self.program.kernels.get(number), self.program.lowered
        if recorded is not None:
            return recorded.program
        return None if lowered is None else lowered.programs[lowered.origins.index(number)]

    def _parts(self, number: int) -> list[str]:
        lowered = self.program.lowered
        if lowered is None or number < len(lowered.choices):
            return []
        return [f"{self.id}/k/{part}" for part in lowered.rolled[number - len(lowered.choices)].parts]

    def _user(self) -> schema.SourceLine | None:
        function = self.program.function
        entry = function.entry if hasattr(function, "entry") else function
        loc = next((inst.loc for inst in entry.walk() if inst.loc is not None), None)
        return None if loc is None else schema.SourceLine(loc.file, loc.line)

    def _phases(self) -> list[schema.PhaseEntry]:
        program = self.program
        passes = sum(each.seconds for each in program.passes)
        planned = max(0.0, program.planned_at - program.started - passes) if program.planned_at else 0.0
        choosing = sum(kernel.choosing for kernel in program.kernels.values())
        stages = (
            sum(stage.seconds for kernel in program.kernels.values() for stage in kernel.summaries) - choosing
        )
        whole = sum(kernel.seconds for kernel in program.kernels.values())
        rest = max(0.0, program.seconds - passes - planned - whole)
        timed = {
            "passes": passes,
            "planning": planned,
            "choosing schedules": choosing,
            "stages": stages,
            "LLIR": max(0.0, whole - stages - choosing),
            "machine code and the rest": rest,
        }
        return [schema.PhaseEntry(name, round(seconds * 1e3, 3)) for name, seconds in timed.items()]

    # -- what kernels give each other ---------------------------------------------------------------------------------

    @cached_property
    def flows(self) -> Flows | None:
        """What its kernels give each other."""
        plan = self.program.plan
        return None if plan is None else Flows(self.id, plan, self.buffer_name)

    def fusion(self) -> schema.FusionView:
        """Why kernels that give each other something, or read the same, are not one."""
        return schema.FusionView([]) if self.flows is None else self.flows.fusion()

    def patterns(self) -> rule_schema.Patterns:
        """Every pattern and every rule that was tried: how often, and of patterns why they did not apply."""
        totals: dict[str, list[float]] = {}
        for kernel in self.program.kernels.values():
            for stage in kernel.summaries:
                for count in stage.counts:
                    total = totals.setdefault(self.rules.uop(count.rule), [0, 0, 0.0])
                    total[0] += count.tried
                    total[1] += count.applied
                    total[2] += count.seconds * 1e3
        rules = [
            rule_schema.PatternUse(rule, int(tried), int(applied), round(ms, 4), [])
            for rule, (tried, applied, ms) in sorted(totals.items(), key=lambda item: -item[1][2])
        ]
        return rule_schema.Patterns([*self.passes.patterns(), *rules])

    def memory(self) -> schema.MemoryPlan | None:
        """Where every buffer of a call lies, and from when to when."""
        lowered = self.program.lowered
        if lowered is None:
            return None
        spans, plan, memory = [], lowered.plan, lowered.memory
        times = dict(lowered.sharing.launches)
        last = max([*times, *(place.end for place in memory.places), 0])
        for place in memory.places:
            name = " ".join(f"b{number}" for number in place.buffers) or "scratch"
            role = "temporary" if place.buffers else "scratch"
            spans.append(schema.BufferSpan(name, place.nbytes, place.offset, place.begin, place.end, role))
        for number, buffer in enumerate(plan.buffers):
            if buffer.role in _ROLES:
                name = _role_name(buffer, number)
                spans.append(schema.BufferSpan(name, bytes_of(buffer), None, 0, last, _ROLES[buffer.role]))
        labels = [plan.kernels[times[t]].name if t in times else "" for t in range(last + 1)]
        return schema.MemoryPlan(spans, last + 1, labels, memory.peak, memory.lower_bound, memory.unshared)


def _dtype(llir: LlirProgram) -> str:
    """The dtype of most bytes that a kernel touches."""
    totals: Counter[str] = Counter()
    for buffer in llir.params:
        totals[buffer.dtype.scalar.short] += buffer.nbytes
    return max(totals, key=totals.__getitem__, default="")


def _journey(kernel: RecordedKernel, rule_id: RuleId, epoch: int) -> Callable[[], Journey]:
    return lambda: journey_of(kernel, rule_id, epoch)


def _origin(insts: Sequence[Inst]) -> str:
    ops, lines = named(insts)
    return LaunchProfile("", 1, 0.0, 0.0, 0, 0, ops, lines).origin


def _structure(kernel: RecordedKernel) -> int:
    """The same for kernels of the same ops, whatever their sizes."""
    return hash(tuple((node.op, node.dtype.scalar) for node in kernel.kernel.sink.toposort()))


def _role_name(buffer: PlanBuffer, number: int) -> str:
    return f"b{number}" if buffer.role is Role.CONSTANT else f"{buffer.role.name.lower()} {buffer.position}"
