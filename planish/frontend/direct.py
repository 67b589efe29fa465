"""The short way to elements: one op, or one function of the API, applied to data that is there.

Most expressions of a program that computes as it goes are that small. Reading their structure would take longer than running them, so
what they run is kept under the number of their signature or recipe: which of the data is which parameter, and machine code that
takes it. Whatever is not as it was when that was noted goes the long way (`planish.frontend.plans`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from planish.compiler import Executable
from planish.config import Settings
from planish.frontend.devices import CPU
from planish.frontend.expression import LazyValue, Node
from planish.frontend.storage import Array, Storage
from planish.ptir import ops, trace
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.records import dataclass

_KEPT: Final = 4096
_SMALL: Final = 1 << 20
"""Bytes that a call may need besides its arrays: what needs more is not kept here too."""
_HERE: Final = (None, CPU)
_executions: Final = trace._state
Key = tuple[int, bool]


@dataclass(slots=True)
class DirectRun:
    """What runs an op or a recipe."""

    settings: Settings
    call: Callable[..., tuple[Array, ...]]
    kept: Executable
    order: tuple[int, ...] | None
    """Which of the operands each parameter is; None for all in order."""
    numbers: tuple[tuple[int, Literal | None], ...]
    """Operands that are constants: what they must be; None for those that are parameters."""
    fixed: tuple[Array, ...]
    """Further parameters: constants of a recipe."""

    def arrays(self, given: Sequence[LazyValue]) -> list[Any] | None:
        """What to run with; None if these operands are other ones."""
        arrays: list[Any] = [x.storage for x in given]
        for place, literal in self.numbers:
            node = given[place].node
            if node is None or node.signature.op is not ops.constant:
                return None
            now = cast("ConstantAttrs", node.signature.attrs).literal
            if literal is None:
                arrays[place] = now.data
            elif now is not literal and now != literal:
                return None
        if self.order is not None:
            arrays = [arrays[place] for place in self.order]
        for array in arrays:
            if array.__class__ is not np.ndarray:
                return None
        return arrays


class DirectRuns:
    """Those of a session."""

    def __init__(self) -> None:
        self.known: dict[Key, DirectRun] = {}

    def run(self, value: LazyValue, settings: Settings) -> Storage | None:
        """The elements of a value; None if it has to go the long way."""
        node = value.node
        if node is None:
            return None
        number, given = node.origin or (node.signature.number, node.inputs)
        runner = self.known.get((number, given[0] is given[-1])) if given else None
        if (
            runner is None
            or runner.settings is not settings
            or _executions.sink is not None
            or value.device not in _HERE
        ):
            return None
        if len(given) > 2 and len(set(given)) != len(given):
            return None
        arrays = runner.arrays(given)
        if arrays is None:
            return None
        try:
            (elements,) = runner.call(1, *arrays, *runner.fixed)
        except MemoryError:
            return None  # the long way knows what to say
        return elements

    def note(
        self,
        value: LazyValue,
        settings: Settings,
        exe: object,
        leaves: Sequence[LazyValue],
        lifted: Sequence[tuple[Node, Literal]],
        baked: Sequence[tuple[Node, Literal]],
    ) -> None:
        """A value is about to be computed by an executable: of these leaves, and then of lifted constants."""
        node = value.node
        if node is None or value.device not in _HERE or len(node.signature.types) != 1 or node.bodies:
            return
        if not isinstance(exe, Executable) or exe.builtin is None or exe.is_parallel:
            return
        number, given = node.origin or (node.signature.number, node.inputs)
        places = {x: place for place, x in reversed(list(enumerate(given)))}
        if not given or exe.memory.peak > _SMALL or not all(leaf in places for leaf in leaves):
            return
        if len(given) > 2 and len(places) != len(given):
            return
        numbers: list[tuple[int, Literal | None]] = []
        order = [places[leaf] for leaf in leaves]
        fixed: list[Array] = []
        where = {x.node: place for x, place in places.items() if x.node is not None}
        for constant, literal in baked:
            if constant in where:
                numbers.append((where[constant], literal))
        for constant, literal in lifted:
            if constant in where and not fixed:
                numbers.append((where[constant], None))
                order.append(where[constant])
            elif constant not in where and node.origin is not None:
                fixed.append(literal.data)
            else:
                return
        # asked of what was read: other threads may have computed an operand since
        if len(leaves) + len({place for place, _ in numbers}) != len(places):
            return
        if len(self.known) >= _KEPT:
            self.known.clear()
        plain = order == list(range(len(given)))
        self.known[number, given[0] is given[-1]] = DirectRun(
            settings, exe.builtin, exe, None if plain else tuple(order), tuple(numbers), tuple(fixed)
        )
