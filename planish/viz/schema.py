"""The documents that the page reads, as types: what the server sends, an export holds, and tests hold both to.

A recording is a set of documents, each addressed by a path (`index.json`, `p0/k/12/stage/4.json`, …). All of them are plain
JSON; a dataclass here is an object there (`documents.py`).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from planish.records import dataclass

VERSION: Final = 2
"""Of the documents: a page refuses those of another version."""


# -- the index ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roofline:
    """What the machine can do at most: float operations by dtype, and bytes by where they come from, in 1e9 per second."""

    gflops: dict[str, float]
    gbs: dict[str, float]
    ghz: float
    """By which the cycles of the cost model are told as time."""
    source: str
    """Where the figures are from: measured here, or known of such machines."""


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """Where a recording was made."""

    name: str
    target: str
    threads: int
    rooflines: dict[str, Roofline]
    """By target."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class PhaseEntry:
    """A part of a compilation, and its time."""

    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass, in the index."""

    id: str
    name: str
    function: str
    ms: float
    changed: bool
    steps: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel, in the index."""

    id: str
    name: str
    origin: str
    """The user's line and the ops that it computes."""
    repeats: int
    """Launches of it in a call."""
    like: str | None
    """The first kernel of the same ops at other sizes."""
    flops: int | None
    """None, as the traffic and the times: not known of a dump."""
    bytes: int | None
    dtype: str
    """Of most bytes that it touches: which peak of the machine it is held to."""
    estimate_us: float | None
    measured_us: float | None
    compile_ms: float | None
    schedule: str
    stages: list[list[float]]
    """[number, ms, steps, 1 if it changed anything]"""
    levels: list[str]
    parts: list[str] = field(default_factory=list)
    """Of a loop that became a kernel: the kernels of a turn."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Has:
    """Which documents a program has besides those of its passes and kernels."""

    memory: bool = False
    fusion: bool = False
    timeline: bool = False
    beam: bool = False
    patterns: bool = False


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """A compiled function, in the index."""

    id: str
    name: str
    user: SourceLine | None
    target: str
    compile_ms: float | None
    phases: list[PhaseEntry]
    passes: list[PassEntry]
    kernels: list[KernelEntry]
    edges: list[list[Any]]
    """[from kernel or input, to kernel or result, tensor, bytes]"""
    has: Has
    error: str = ""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """The watched calls of a program."""

    id: str
    program: str
    total_us: float
    calls: int = 1


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule of kernels, or a pattern of the graph IR."""

    name: str
    equation: str
    file: str
    line: int
    engine: str


@dataclass(frozen=True, slots=True)
class Index:
    """What the page opens with."""

    version: int
    live: bool
    title: str
    command: str
    created: str
    planish: str
    machine: MachineEntry
    programs: list[ProgramEntry]
    runs: list[RunEntry]
    stages: dict[str, str]
    """The names of stages, by number."""
    rules: dict[str, RuleEntry]
    steps_total: int
    error: str = ""
    """The traceback of a script that raised: what came before it is recorded."""
    compare: Index | None = None


# -- passes and stages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node that is drawn."""

    id: int
    op: str
    label: str
    type: str
    loc: str
    region: int = -1
    """The node that it is inside of; -1 for none."""


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """Nodes and what leads from one to another."""

    nodes: list[GraphNode]
    edges: list[list[int]]
    """[from, to, slot]"""
    left_out: int = 0
    """Nodes beyond the most that a graph is drawn with."""


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What a rule did."""

    rule: str
    tried: int
    applied: int
    ms: float


@dataclass(frozen=True, slots=True)
class RuleStatistics(RuleCounts):
    """What a rule did in a pass or stage."""

    failed: dict[str, int] = field(default_factory=dict)
    """How often for each reason."""


@dataclass(frozen=True, slots=True)
class Level:
    """A program or a kernel after a pass or a stage."""

    title: str
    note: str
    """What holds after it."""
    language: str
    before: str | None
    """None: as after the one before, which has not changed."""
    after: str
    graph: DrawnGraph
    steps: int
    steps_pages: int
    statistics: list[RuleStatistics]


@dataclass(frozen=True, slots=True)
class Folded:
    """Steps in a row, shown as one."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StepPage:
    """Steps as rows: [rule, node, at µs, before, after, source line or null, nodes to highlight, µs taken, depth, nodes made]."""

    first: int
    steps: list[list[Any]]
    folded: list[Folded]
    """Steps in a row of one rule."""


@dataclass(frozen=True, slots=True)
class SingleStep:
    """The whole before and after one step."""

    number: int
    total: int
    rule: str
    before: str
    after: str
    at: list[int]
    """The node that was replaced."""
    made: list[int]
    whole: bool
    """Whether the texts are the whole kernel; else what the rewrite was about."""
    us: float
    graph: DrawnGraph | None = None
    """After it, if it is the whole."""


# -- a kernel ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceText:
    """A kernel's code."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class ActionWhy:
    """An action of a schedule, or one that could be."""

    action: str
    taken: bool
    reason: str
    estimate_us: float | None
    effect: str = ""
    legal: bool = True
    """Whether it fits; one that does not is refused."""


@dataclass(frozen=True, slots=True)
class AccessWhy:
    """A place that a kernel reads or writes."""

    buffer: str
    index: str
    store: bool
    lanes: int
    """Elements that one access of the code moves at most."""
    wide: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LoopEntry:
    """A loop and those inside of it."""

    axis: str
    extent: int
    kind: str
    depth: int
    children: list[LoopEntry]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loops of a scheduled kernel, and what may be done next."""

    loops: list[LoopEntry]
    legal_actions: list[str]


@dataclass(frozen=True, slots=True)
class CandidateWhy:
    """Another schedule."""

    name: str
    schedule: str
    estimate_us: float | None
    measured_us: float | None
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleWhy:
    """Why a kernel has the schedule it has."""

    origin: str
    because: list[str]
    """Why what it makes is in memory."""
    bound_by: str
    schedule: list[ActionWhy]
    loads: list[AccessWhy]
    nest: LoopNest
    candidates: list[CandidateWhy]
    note: str = ""


@dataclass(frozen=True, slots=True)
class BeamNode:
    """A schedule that a search tried."""

    id: int
    parent: int | None
    action: str
    schedule: str
    estimate_us: float | None
    measured_us: float | None
    kept: bool
    outcome: str


@dataclass(frozen=True, slots=True)
class ScheduleSearch:
    """A schedule search."""

    nodes: list[BeamNode]
    considered: int
    rounds: int
    seconds: float
    ended: str
    refusals: dict[str, int]


# -- a program ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FusionPair:
    """Two kernels, the second of which reads what the first one makes; siblings read the same."""

    producer: str
    consumer: str
    fused: bool
    reason: str
    tensor: str
    sibling: bool = False


@dataclass(frozen=True, slots=True)
class FusionView:
    """Why kernels are not one."""

    pairs: list[FusionPair]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class BufferSpan:
    """A buffer: where it lies, and from when to when."""

    name: str
    bytes: int
    offset: int | None
    """Within the arena; None for memory of the caller's."""
    first: int
    last: int
    role: str


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of a call over its steps."""

    buffers: list[BufferSpan]
    steps: int
    labels: list[str]
    """What each step is."""
    peak: int
    lower_bound: int
    unshared: int


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """One launch."""

    name: str
    kernel: str | None
    start_us: float
    us: float
    thread: int
    gflops: float
    gbs: float
    bytes: int
    flops: int


@dataclass(frozen=True, slots=True)
class LaunchTimeline:
    """Launches in time."""

    events: list[LaunchEntry]
    threads: int
    note: str


@dataclass(frozen=True, slots=True)
class SearchResults:
    """[kind, id, text]: a kind is one of kernel, pass, stage, rule, step, level, program, why; an id is what links have behind `#/`."""

    results: list[list[str]]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """Which step of a schedule does not fit, and why."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class EditedSchedule:
    """What a schedule of the user's would give."""

    legal: bool
    refused: RefusedAction | None
    schedule: str
    levels: dict[str, str]
    estimate_us: float | None
    measured_us: float | None
    note: str = ""
