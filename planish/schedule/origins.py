"""Where kernels come from: the instructions of a function that each launch of its plan computes.

Planning forgets them: kernels of equal graphs are one, whoever asked for them. Who wants to know watches while a function is
planned, or plans it once more. Nothing of it costs anything otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from planish.ptir.function import Inst, Value
from planish.records import dataclass
from planish.schedule.plan import Kernel, Launch, Plan, blocks, walk
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops


def _below_views(node: UOp) -> UOp:
    """What a tensor is a view of."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


@dataclass(slots=True)
class Origins:
    """Watches a plan in the making; `launches` has the instructions of every launch, in their order."""

    launches: list[tuple[Inst, ...]] = field(default_factory=list)
    _makers: dict[UOp, Inst] = field(default_factory=dict)
    """The instruction that a tensor-level node is the value of."""
    _kernels: dict[int, tuple[Kernel, tuple[Inst, ...]]] = field(default_factory=dict)
    """By the identity of a kernel, which is kept: equal ones come from different places."""

    def lowered(self, inst: Inst, values: dict[Value, UOp]) -> None:
        """An instruction has become nodes."""
        for value in inst.results:
            if value in values:
                self._makers.setdefault(values[value], inst)
                below = _below_views(values[value])
                if below.src and below.op is not Ops.INDEX:  # what is computed, not a parameter
                    self._makers.setdefault(below, inst)

    def computed(self, kernel: Kernel, makes: Sequence[UOp], reads: Collection[UOp]) -> None:
        """A kernel computes nodes from others that are in memory."""
        insts: dict[Inst, None] = {}
        stack, seen = list(makes), set(makes)
        while stack:
            node = stack.pop()
            maker = self._makers.get(node)
            if maker is not None and _below_views(node) not in reads:
                insts[maker] = None
            for source in node.src:
                if source not in seen and source not in reads:
                    seen.add(source)
                    stack.append(source)
        self._kernels[id(kernel)] = kernel, tuple(sorted(insts, key=lambda inst: inst.id))

    def launched(self, kernel: Kernel) -> None:
        """A kernel is part of the plan."""
        self.launches.append(self._kernels[id(kernel)][1])

    def by_kernel(self, plan: Plan, needless: Collection[int]) -> dict[str, list[tuple[Inst, ...]]]:
        """By the name of a kernel, the instructions of each of its launches; those that are `needless` do not count."""
        plain = [step for step in walk(plan.steps) if not blocks(step)]
        needed = [number not in needless for number, step in enumerate(plain) if isinstance(step, Launch)]
        by_name: dict[str, list[tuple[Inst, ...]]] = {}
        for launch, insts, is_needed in zip(plan.launches, self.launches, needed, strict=True):
            if is_needed:
                by_name.setdefault(plan.kernels[launch.kernel].name, []).append(insts)
        return by_name
