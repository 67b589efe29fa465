"""Plans: the compiled functions of expressions, kept under their structure.

Everything below the values that are asked for becomes one PTIR function, which their device runs. Its executable is kept
under the *structure* of the expression: its signatures and how they are connected. The same expression on other data, in the
next iteration of a loop, is found there without being captured, lowered or compiled again.

Numbers in an expression are not part of its structure. Those that no rewrite can make anything of (a learning rate, an
epsilon) are parameters of the compiled function; others (0, 1, 2, 0.5, integers) are compiled in, where they fold, and
become parameters once they turn out to change. Either way an expression is compiled a bounded number of times, not once per
number.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, cast

from planish.compiler import PIPELINE, Executable
from planish.config import Settings
from planish.errors import LoweringError
from planish.frontend import execute
from planish.frontend.capture import capture
from planish.frontend.devices import CPU, Device, Runnable
from planish.frontend.direct import DirectRuns
from planish.frontend.expression import LazyValue, Node, Settled, TracedBody
from planish.frontend.leaks import refuse_named_sizes, unknown
from planish.frontend.storage import Storage
from planish.ptir import ops
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.records import dataclass

KEPT: Final = 4096
"""Structures that are kept: more than an interactive session has different expressions."""
_HELD: Final = 1 << 30
"""Bytes of arenas that kept executables may hold on to."""
_RESULTS: Final = 16
"""Bits for the number of a result."""
_depth: Final = attrgetter("depth")


@dataclass(slots=True)
class PlanCounters:
    """What realisation did in this process."""

    runs: int = 0
    hits: int = 0
    """Runs of something that was there already."""
    captured: int = 0
    """Expressions that became a function, and were compiled (or found in the cache on disk)."""


class ExpressionPlan:
    """A compiled function for a structure, for certain values of some of its constants."""

    __slots__ = ("baked", "exe", "lifted", "literals")

    def __init__(self, exe: Runnable, literals: Sequence[Literal], lifted: tuple[int, ...]) -> None:
        self.exe = exe
        self.literals = literals
        """The constants it was compiled for."""
        self.lifted = lifted
        """Those that are parameters."""
        self.baked = [(n, literal) for n, literal in enumerate(literals) if n not in lifted]
        """Those that have to be the same."""

    def fits(self, literals: Sequence[Literal]) -> bool:
        """Whether it computes the structure with these constants."""
        for number, literal in self.baked:
            other = literals[number]
            if other is not literal and other != literal:
                return False
        return True


class _Family:
    """The plans of one structure, the last one used first."""

    __slots__ = ("held", "plans", "varying")

    def __init__(self) -> None:
        self.plans: list[ExpressionPlan] = []
        self.varying: set[int] = set()
        """Constants that had several values."""
        self.held = 0


class Plans:
    """The plans of a session."""

    def __init__(self) -> None:
        self.families: OrderedDict[tuple[int, ...], _Family] = OrderedDict()
        self.counters = PlanCounters()
        self.direct = DirectRuns()
        self._numbers: dict[Settings, int] = {}
        self._last: tuple[Settings | None, int] = (None, 0)

    def settings_number(self, settings: Settings) -> int:
        """A number for settings, the same for equal ones."""
        known, number = self._last  # mostly it is the same object
        if known is not settings:
            number = self._numbers.setdefault(settings, len(self._numbers))
            self._last = (settings, number)
        return number

    def run(
        self, roots: Sequence[LazyValue], device: Device, settings: Settings, what: str | None
    ) -> Sequence[Storage]:
        """The elements of values, computed together on a device. `what` asks for them, for messages."""
        self.counters.runs += 1
        reading = _StructureReading(self.settings_number(settings), device, what)
        key = reading.read(roots)
        literals = [cast("ConstantAttrs", node.signature.attrs).literal for node in reading.constants]
        family = self.families.get(key)
        if family is None:
            family = self.families[key] = _Family()
        for plan in family.plans:
            if plan.fits(literals):
                self.counters.hits += 1
                break
        else:
            plan = self._planned(family, device, roots, reading, literals)
        try:
            self.families.move_to_end(key)
        except KeyError:  # another thread made room meanwhile
            self.families[key] = family
        given = [cast("Storage", leaf.storage) for leaf in reading.leaves]
        for number in plan.lifted:
            given.append(literals[number].data)
        if len(roots) == 1 and device.name == CPU:
            constants = [(reading.constants[n], literals[n]) for n in plan.lifted]
            baked = [(reading.constants[n], literal) for n, literal in plan.baked]
            self.direct.note(roots[0], settings, plan.exe, reading.leaves, constants, baked)
        try:
            return plan.exe(*map(device.moved, given))
        except MemoryError as error:
            if not isinstance(plan.exe, Executable):
                raise
            raise execute.out_of_memory(plan.exe, error) from error

    def _planned(
        self,
        family: _Family,
        device: Device,
        roots: Sequence[LazyValue],
        reading: _StructureReading,
        literals: Sequence[Literal],
    ) -> ExpressionPlan:
        for plan in family.plans:
            pairs = enumerate(zip(plan.literals, literals, strict=True))
            family.varying.update(number for number, (old, new) in pairs if old != new)
        lifted = tuple(
            number
            for number, literal in enumerate(literals)
            if number in family.varying or _is_arbitrary(literal)
        )

        def compiled(lifted: tuple[int, ...]) -> ExpressionPlan:
            self.counters.captured += 1
            nodes = [reading.constants[number] for number in lifted]
            function, _ = capture(roots, params=reading.leaves, lifted=nodes)
            refuse_named_sizes(function, reading.what)
            return ExpressionPlan(device.compile(function, PIPELINE, ()), literals, lifted)

        try:
            plan = compiled(lifted)
        except LoweringError:
            if not lifted:
                raise
            # some op has to know its operand when it is compiled
            plan = compiled(())
        family.plans.insert(0, plan)
        del family.plans[8:]
        if isinstance(plan.exe, Executable):
            self._make_room(family, plan.exe.memory.peak)
        return plan

    def _make_room(self, newest: _Family, more: int) -> None:
        newest.held += more
        families = self.families
        held = sum([family.held for family in list(families.values())])
        while len(families) > KEPT or (held > _HELD and len(families) > 1):
            key = next(iter(families))
            if families[key] is newest:
                families.move_to_end(key)
                continue
            held -= families.pop(key).held


def _is_arbitrary(literal: Literal) -> bool:
    """Whether no rewrite could make anything of a number: a float that is neither whole nor a half, nor infinite."""
    if not literal.dtype.is_float or not literal.splat:
        return False
    value = literal.item
    if not isinstance(value, float) or not math.isfinite(value):
        return False
    return abs(value) > 1024 or not (2 * value).is_integer()


# --- structure ----------------------------------------------------------------------------------------------


class _StructureReading:
    """An expression read once: its structure as numbers, and the data and constants in the order of the structure.

    A node is its signature and where its inputs come from. Data is -1, -2 …; the result `r` of the `n`-th node is
    `n << 16 | r`. Nodes stand in the order of their depth, which is one in which each comes after what it needs.
    """

    __slots__ = ("constants", "count", "leaves", "names", "parts", "places", "roots", "what")

    def __init__(self, settings: int, device: Device, what: str | None) -> None:
        self.parts: list[int] = [settings, hash(device.name)]
        self.places: dict[Node, int] = {}
        self.count = 0
        """The place of the next node."""
        self.names: dict[LazyValue, int] = {}
        """Of data and parameters."""
        self.leaves: list[LazyValue] = []
        self.constants: list[Node] = []
        self.roots: Sequence[LazyValue] = ()
        self.what = what

    def read(self, roots: Sequence[LazyValue]) -> tuple[int, ...]:
        self.roots = roots
        self._visit([root.node for root in roots])
        self._end(roots)
        return tuple(self.parts)

    def _visit(self, pending: list[Node | None]) -> None:
        places = self.places
        nodes: list[Node] = []
        while pending:
            node = pending.pop()
            if node is None or node in places:
                continue
            places[node] = -1  # seen
            nodes.append(node)
            for x in node.inputs:
                source = x.node
                if source is not None and source not in places:
                    pending.append(source)
            if node.bodies:
                for body in node.bodies:
                    pending.extend([x.node for x in body.free])
        if len(nodes) > 1:
            nodes.sort(key=_depth)
        parts, names = self.parts, self.names
        for node in nodes:
            signature = node.signature
            parts.append(signature.number)
            for x in node.inputs:
                source = x.node
                if source is not None:
                    parts.append(places[source] + x.index)
                else:
                    name = names.get(x)
                    parts.append(self._leaf(x) if name is None else name)
            if signature.op is ops.constant:
                self.constants.append(node)
            elif node.bodies:
                for body in node.bodies:
                    self._body(body)
            places[node] = self.count
            self.count += 1 << _RESULTS

    def _leaf(self, x: LazyValue) -> int:
        if x.storage is None:
            raise unknown(x, self.what, self.roots)
        self.leaves.append(x)
        name = self.names[x] = -1 - len(self.names)
        return name

    def _body(self, body: TracedBody) -> None:
        for param in body.params:
            self.names[param] = -1 - len(self.names)
        self.parts.append(len(body.params))
        for x in body.free:
            if x.node is None and x not in self.names:
                self._leaf(x)
        self.parts.append(len(self.names))
        self._visit([result.node for result in body.results])
        self._end(body.results)

    def _end(self, results: Sequence[LazyValue]) -> None:
        for x in results:
            node = x.node
            place = self.names.get(x) if node is None else self.places[node] + x.index
            if place is None:
                raise Settled
            self.parts.append(place)
        self.parts.append(len(results))
