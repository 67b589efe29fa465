"""What a kernel graph may look like at each phase, as tables of laws.

A phase is a set of legal ops and a list of laws; a law is a pattern and what must hold wherever it matches, so the
rows below use the language of the rewrite rules, and its dispatch by form. `check` finds every broken law of a graph and
raises one `VerifyError` that shows each offending node in its surroundings.

The invariants
* **One RANGE, one END.** A range is closed by at most one END, never by an END and a REDUCE, and the SINK leaves none
  open. One axis belongs to one RANGE, one name to one variable, whatever their dtypes.
* END and REDUCE close RANGEs (a REDUCE may take lanes together instead). GPU and lane axes disappear on the way:
  UPCAST and UNROLL with the expander, GLOBAL, THREAD, LOCAL, WARP and GROUP_REDUCE before the devectorizer ends.
* AFTER is the only ordering: what it waits for are effects or ranges. A kernel's own memory (LOCAL, registers) is read
  only AFTER something; where threads of a block share LOCAL memory, a BARRIER stands between store and read.
* INVALID never leaves index arithmetic: it ends at an INDEX. Gates and conditions are bool.
* A STORE goes to a place and stores the place's element type; a LOAD gives it.
* After lowering nothing has dtype `index`: no node of that dtype, no cast to it left hanging, no INDEX whose indices
  differ in width. (Operands of different widths in one ALU op or VECTORIZE cannot be built at all.)
* A linear program defines before it uses, nests its loops and IFs, and uses nothing of a loop behind its END.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from planish.errors import GraphError, VerifyError, did_you_mean
from planish.uop import laws
from planish.uop.access_hints import hints_of
from planish.uop.hardware_index import index_of
from planish.uop.laws import Scope, memory_of
from planish.uop.matcher import Matcher
from planish.uop.node import UOp
from planish.uop.ops import ALU, DEFINES, MOVEMENT, AxisType, Ops
from planish.uop.text import in_order, name_nodes, node_line

_SHOWN: Final = 20
"""Problems printed in full; of more only the number is told."""
_AROUND: Final = 2
"""Lines of the text form shown before and after an offending one."""


class BrokenLaw(NamedTuple):
    """A node that breaks a law."""

    node: UOp
    law: str


class Phase(NamedTuple):
    """The legal ops and the laws between two points of the pipeline."""

    name: str
    meaning: str
    ops: frozenset[Ops]
    laws: Matcher


_PURE: Final = ALU | {Ops.CAST, Ops.BITCAST, Ops.CONST, Ops.VCONST, Ops.DEFINE_VAR, Ops.NOOP}
_COMMON: Final = _PURE | {
    Ops.RARE,
    Ops.SINK,
    Ops.GROUP,
    Ops.RANGE,
    Ops.END,
    Ops.AFTER,
    Ops.INDEX,
    Ops.STORE,
    Ops.WMMA,
    Ops.EXCHANGE,
    Ops.FETCH,
}
_LANES: Final = frozenset(
    {Ops.GEP, Ops.VECTORIZE, Ops.CAT, Ops.COMBINE, Ops.BARRIER, Ops.DEFINE_LOCAL, Ops.DEFINE_GLOBAL}
)
_GPU: Final = frozenset({Ops.SPECIAL, Ops.COMMIT, Ops.WAIT, Ops.FETCHED, Ops.FINISH})
_SCALAR: Final = _COMMON | _LANES | _GPU | {Ops.DEFINE_REG, Ops.LOAD, Ops.PREFETCH}
_MACHINE: Final = _SCALAR | {Ops.LOOKUP, Ops.ANY}

_TENSOR_LAWS: Final = laws.VALUES + laws.TENSORS
_KERNEL_LAWS: Final = laws.VALUES + laws.RANGES + laws.ORDER + laws.MEMORY + laws.MOVED
_EXPANDED_LAWS: Final = (
    laws.VALUES + laws.RANGES + laws.ORDER + laws.MEMORY + laws.UNMOVED + laws.NO_LANE_AXES
)
_UNROLLED_LAWS: Final = laws.VALUES + laws.RANGES + laws.ORDER + laws.MEMORY + laws.MOVED
_REDUCED_LAWS: Final = _EXPANDED_LAWS + laws.ONE_END
_DEVECTORIZED_LAWS: Final = (
    laws.VALUES + laws.RANGES + laws.ONE_END + laws.ORDER + laws.MEMORY + laws.UNMOVED + laws.LOADS
)
_LOWERED_LAWS: Final = _DEVECTORIZED_LAWS + laws.WIDTHS

PHASES: Final[dict[str, Phase]] = {
    phase.name: phase
    for phase in (
        Phase(
            "tensor",
            "before ranges: whole tensors and movement ops",
            _PURE
            | MOVEMENT
            | {Ops.BUFFER, Ops.CONTIGUOUS, Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.INDEX}
            | {Ops.AFTER, Ops.STORE, Ops.SINK, Ops.GROUP},
            _TENSOR_LAWS,
        ),
        Phase(
            "kernel",
            "one kernel, as it leaves the scheduler and up to the expander: ranges, INDEX over movement ops",
            _COMMON
            | MOVEMENT
            | {Ops.DEFINE_GLOBAL, Ops.INVALID, Ops.CONTIGUOUS, Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE}
            | {
                Ops.DEFINE_LOCAL,
                Ops.DEFINE_REG,
                Ops.UNROLL,
                Ops.CONTRACT,
                Ops.GEP,
                Ops.VECTORIZE,
                Ops.COMBINE,
            },
            _KERNEL_LAWS,
        ),
        Phase(
            "unrolled",
            "after the expander: lanes instead of UPCAST and UNROLL axes, staged values still BUFFERIZE",
            _COMMON
            | _LANES
            | {Ops.INVALID, Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE, Ops.CONTIGUOUS, Ops.DEFINE_REG},
            _UNROLLED_LAWS + laws.NO_LANES,
        ),
        Phase(
            "expanded",
            "after the expander and its LOCAL buffers: lanes instead of UPCAST and UNROLL axes",
            _COMMON | _LANES | {Ops.INVALID, Ops.REDUCE, Ops.SCAN, Ops.DEFINE_REG},
            _EXPANDED_LAWS,
        ),
        Phase(
            "reduced",
            "after reductions have become accumulators, and parallel axes hardware indices",
            _COMMON | _LANES | _GPU | {Ops.INVALID, Ops.DEFINE_REG},
            _REDUCED_LAWS,
        ),
        Phase(
            "devectorized",
            "after the devectorizer: accumulators, hardware indices, explicit loads, vectors of the target's width",
            _SCALAR | {Ops.INVALID},
            _DEVECTORIZED_LAWS,
        ),
        Phase("lowered", "after index lowering: machine integers only", _MACHINE, _LOWERED_LAWS),
        Phase(
            "program",
            "the linear program",
            (_MACHINE | {Ops.IF, Ops.ENDIF}) - {Ops.NOOP, Ops.RARE},
            _LOWERED_LAWS + laws.CONTROL,
        ),
    )
}


# -- linear programs -------------------------------------------------------------------------------------------

LINEAR_LAWS: Final[dict[str, str]] = {
    "twice": "a line stands in a program once",
    "order": "sources stand before their users",
    "scope": "what is computed in a loop or under an IF is not used behind its end",
    "nesting": "loops and IFs close innermost first",
    "open": "every RANGE and IF of a program is closed",
    "barrier": "a BARRIER is not under an IF: all threads must reach it",
    "loop": "a loop that reads shared LOCAL memory and fills it again has a BARRIER in between",
}
"""The laws of lists, which no pattern of nodes can state."""

_ANYWHERE: Final = DEFINES | {Ops.CONST, Ops.VCONST, Ops.DEFINE_VAR}
_OPENS: Final = {Ops.END: Ops.RANGE, Ops.ENDIF: Ops.IF}


def _linear_problems(lines: Sequence[UOp], scope: Scope) -> Iterator[BrokenLaw]:
    seen: dict[UOp, tuple[UOp, ...]] = {}  # line -> the loops and IFs it stands in
    open_now: list[UOp] = []
    for line in lines:
        if line in seen:
            yield BrokenLaw(line, LINEAR_LAWS["twice"])
            continue
        opens = _OPENS.get(line.op)
        if opens is not None:
            header = line.src[-1]
            if header in open_now:
                if open_now[-1] is not header:
                    yield BrokenLaw(line, LINEAR_LAWS["nesting"])
                open_now.remove(header)
            elif header in seen:
                yield BrokenLaw(line, LINEAR_LAWS["nesting"])
        for source in line.src:
            if source not in seen:
                yield BrokenLaw(line, LINEAR_LAWS["order"])
            elif (
                opens is None and source.op not in _ANYWHERE and not _visible(source, seen[source], open_now)
            ):
                yield BrokenLaw(line, LINEAR_LAWS["scope"])
        if line.op is Ops.BARRIER and any(each.op is Ops.IF for each in open_now):
            yield BrokenLaw(line, LINEAR_LAWS["barrier"])
        seen[line] = tuple(open_now)
        if line.op in {Ops.RANGE, Ops.IF}:
            open_now.append(line)
    for each in open_now:
        yield BrokenLaw(each, LINEAR_LAWS["open"])
    if scope.has_threads:
        yield from _refill_problems(lines)


def _visible(source: UOp, around: tuple[UOp, ...], open_now: list[UOp]) -> bool:
    """Whether everything the source stands in is still open; an END or STORE is an effect and may be waited for."""
    if source.dtype.name == "void" and source.op not in {Ops.RANGE, Ops.IF}:
        return True
    inside = (*around, source) if source.op in {Ops.RANGE, Ops.IF} else around
    return all(each in open_now for each in inside)


def _refill_problems(lines: Sequence[UOp]) -> Iterator[BrokenLaw]:
    """Loops in which one iteration may overwrite LOCAL memory that another thread still reads."""
    position = {line: number for number, line in enumerate(lines)}
    buffers = [line for line in lines if line.op is Ops.DEFINE_LOCAL]
    threads = {line for line in lines if line.op is Ops.SPECIAL and index_of(line).is_thread}
    for number, line in enumerate(lines):
        if line.op is not Ops.END or line.src[-1] not in position:
            continue
        body = lines[position[line.src[-1]] : number]
        for buffer in buffers:
            events = [e for e in map(_event, body) if e is not None and (e[0] == "B" or e[1] is buffer)]
            kinds = "".join(kind for kind, _ in events)
            # Twice round the loop: no store may follow a load directly, the next iteration's included.
            if "LS" in kinds * 2 and not _is_private(buffer, body, threads):
                yield BrokenLaw(line, LINEAR_LAWS["loop"])


def _is_private(buffer: UOp, body: Sequence[UOp], threads: set[UOp]) -> bool:
    """Whether each thread reads and replaces elements of its own: as stage 12 says, or the same places, by its own number."""
    stores = [line for line in body if line.op is Ops.STORE and memory_of(line.src[0]) is buffer]
    if all(hints_of(store).own for store in stores):
        return True
    places: dict[Ops, set[UOp]] = {Ops.LOAD: set(), Ops.STORE: set()}
    for line in body:
        if line.op in places and memory_of(line.src[0]) is buffer and line.src[0].op is Ops.INDEX:
            places[line.op].add(line.src[0].src[1])
    return places[Ops.LOAD] == places[Ops.STORE] and all(
        threads <= set(place.toposort()) for place in places[Ops.LOAD]
    )


def _event(line: UOp) -> tuple[str, UOp] | None:
    if line.op is Ops.BARRIER:
        return "B", line
    if line.op in {Ops.LOAD, Ops.STORE}:
        return line.op.name[0], memory_of(line.src[0])
    return None


# -- checking --------------------------------------------------------------------------------------------------


def phase_named(name: str) -> Phase:
    """The phase of this name."""
    phase = PHASES.get(name)
    if phase is None:
        close = did_you_mean(name, PHASES)
        hint = "" if close is None else f"did you mean {close!r}? "
        raise GraphError(f"unknown phase {name!r}", remedy=f"{hint}valid: {', '.join(PHASES)}")
    return phase


def problems(what: UOp | Sequence[UOp], phase: str) -> list[BrokenLaw]:
    """Every broken law of a graph (given by its root) or of a linear program (given as a list of lines)."""
    spec = phase_named(phase)
    if isinstance(what, UOp) is (spec.name == "program"):
        expected = "the lines of a linear program" if spec.name == "program" else "the root of a graph"
        raise GraphError(f"phase {phase} is checked on {expected}, not on {type(what).__name__}")
    nodes = in_order(what) if isinstance(what, UOp) else list(what)
    scope = Scope(nodes)
    broken_laws: list[BrokenLaw] = []
    for each in nodes:
        if each.op not in spec.ops:
            broken_laws.append(BrokenLaw(each, f"{each.op.name} has no place in phase {phase}"))
        for function in spec.laws.decisions[each.form]:
            broken = function(each, scope)
            if broken is not None:
                broken_laws.append(BrokenLaw(each, cast("str", broken)))
    if not isinstance(what, UOp):
        broken_laws += _linear_problems(what, scope)
    return broken_laws


def check(what: UOp | Sequence[UOp], phase: str) -> None:
    """Raise `VerifyError`, showing every broken law, unless the graph (or linear program) is legal at this phase."""
    broken_laws = problems(what, phase)
    if not broken_laws:
        return
    if isinstance(what, UOp):
        names = name_nodes(in_order(what), what, frozenset(p.node for p in broken_laws))
    else:
        names = {line: f"%{number}" for number, line in enumerate(what)}
    shown = [_window(problem, names) for problem in broken_laws[:_SHOWN]]
    if len(broken_laws) > _SHOWN:
        shown.append(f"and {len(broken_laws) - _SHOWN} more")
    times = "once" if len(broken_laws) == 1 else f"{len(broken_laws)} times"
    raise VerifyError(f"the {phase} spec is broken {times}", shown)


def _window(problem: BrokenLaw, names: dict[UOp, str]) -> str:
    """The offending line with its neighbours and sources, and a marker under it."""
    lines = list(names)
    place = {line: number for number, line in enumerate(lines)}
    here = place[problem.node]
    wanted = {place[source] for source in problem.node.src if source in place}
    wanted.update(range(max(0, here - _AROUND), min(len(lines), here + _AROUND + 1)))
    text = [problem.law]
    previous = -1
    for number in sorted(wanted):
        if number > previous + 1:
            text.append("    …")
        previous = number
        text.append(f"{'  > ' if number == here else '    '}{node_line(lines[number], names)}")
        if number == here:
            start = len(names[problem.node]) + len(" = ")
            text.append(f"    {' ' * start}{'^' * len(problem.node.op.name)}")
    if previous + 1 < len(lines):
        text.append("    …")
    return "\n".join(text)


# -- for the documentation -------------------------------------------------------------------------------------


def ops_markdown() -> str:
    """The op set as a table."""
    rows = ["| op | sources | dtype | meaning |", "|---|---|---|---|"]
    for op in Ops:
        meaning = op.meaning.replace("|", "\\|")
        rows.append(f"| {op.name} | {op.sources or '–'} | {op.law.name.lower()} | {meaning} |")
    return "\n".join(rows)


def axes_markdown() -> str:
    """The axis types as a table, outermost first."""
    rows = ["| axis type | letter | order |", "|---|---|---|"]
    rows += [
        f"| {k.name} | `{k.letter}` | {k.order} |" for k in sorted(AxisType, key=lambda kind: kind.order)
    ]
    return "\n".join(rows)


def phases_markdown() -> str:
    """The laws as a table, with the phases in which they hold."""
    known: dict[str, list[str]] = {}
    for phase in PHASES.values():
        for row in phase.laws:
            if row.left.ops is not None and not row.left.ops & phase.ops:
                continue  # none of its ops is legal there to begin with
            known.setdefault(row.name, []).append(phase.name)
    known |= {text: ["program"] for text in LINEAR_LAWS.values()}
    rows = ["| law | phases |", "|---|---|"]
    rows += [f"| {text} | {', '.join(phases)} |" for text, phases in known.items()]
    return "\n".join(rows)


def phase_ops_markdown() -> str:
    """The phases with the ops (besides arithmetic) that are legal in each."""
    rows = ["| phase | when | ops besides arithmetic |", "|---|---|---|"]
    for phase in PHASES.values():
        names = " ".join(op.name for op in Ops if op in phase.ops - ALU)
        rows.append(f"| {phase.name} | {phase.meaning} | {names} |")
    return "\n".join(rows)
