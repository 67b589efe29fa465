"""The proof, for one plan, that nobody reads memory that another value was written to.

The steps are followed forwards, in every order in which loops and branches can run them, and it is noted which buffers no longer hold
their value. This knows nothing of how the sharing was found: a write spoils every buffer of the same block, and every buffer of a
block that may lie at the same place, which is one whose time of use has no moment in common. A step that reads a spoilt buffer is
an error, as is one that writes over what it reads elsewhere. It holds for all sizes at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import InternalError
from planish.schedule.liveness import Timed, Timeline
from planish.schedule.memory import Sharing
from planish.schedule.overwriting import Pairs, in_place, is_copy, written
from planish.schedule.plan import Branch, Copy, For, Host, Launch, Plan, Role, SwapPointers, View, While
from planish.schedule.sharing import blocks_of


def verify(plan: Plan, sharing: Sharing) -> None:
    """Raise an `InternalError` unless the plan, as it was before it was settled, reads what it means to on shared memory."""
    _Verifier(plan, sharing).run()


class _Verifier:
    def __init__(self, plan: Plan, sharing: Sharing) -> None:
        self.plan = plan
        self.sharing = sharing
        self.timeline = Timeline(plan, [written(kernel.sink) for kernel in plan.kernels])
        self.pairs: list[Pairs] = [in_place(kernel.sink) for kernel in plan.kernels]
        self.block = blocks_of(sharing)
        self.span = {block.buffers[0]: (block.begin, block.end) for block in sharing.blocks}
        self.leaf = {timed.time: number for number, timed in enumerate(self.timeline.leaves)}
        self.members: dict[int, set[int]] = {}
        for buffer in range(len(plan.buffers)):
            self.members.setdefault(self.home(buffer), set()).add(buffer)
        self.partners = self._partners()

    def home(self, buffer: int) -> int:
        """What stands for the memory that a buffer, or what it is part of, lies in."""
        base = self.timeline.base(buffer)
        return self.block.get(base, base)

    def _partners(self) -> dict[int, set[int]]:
        """The blocks that a loop may have put in the place of a block, itself among them."""
        partners: dict[int, set[int]] = {}
        for leaf in self.timeline.leaves:
            if isinstance(leaf.step, SwapPointers):
                pair = {self.home(leaf.step.first), self.home(leaf.step.second)}
                both = set().union(*(partners.get(each, {each}) for each in pair))
                partners.update(dict.fromkeys(both, both))
        return partners

    def run(self) -> None:
        for buffer, told in enumerate(self.plan.buffers):
            if told.role in (Role.PARAMETER, Role.CONSTANT) and not told.donated:
                self.expect(
                    len(self.members[buffer] - self.timeline.bases.keys()) == 1, f"b{buffer} is shared"
                )
        spoilt = self.steps(self.timeline.steps, set())
        for result in self.plan.results:
            self.expect(result not in spoilt, f"the result b{result} is overwritten")

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise InternalError(f"the memory of a plan is wrong: {message}\n{self.plan}")

    # -- steps -----------------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Timed], spoilt: set[int]) -> set[int]:
        for timed in steps:
            spoilt = self.step(timed, spoilt)
        return spoilt

    def step(self, timed: Timed, spoilt: set[int]) -> set[int]:
        match timed.step:
            case Branch(predicate):
                self.read(predicate, spoilt, timed)
                return set().union(*(self.steps(block, set(spoilt)) for block in timed.blocks))
            case For():
                (body,) = timed.blocks
                begun = spoilt - timed.fills
                while not (more := self.steps(body, set(begun))) <= begun:
                    begun |= more
                return begun
            case While(_, flag):
                condition, body = timed.blocks
                while True:
                    asked = self.steps(condition, set(spoilt))
                    self.read(flag, asked, timed)
                    more = self.steps(body, set(asked))
                    if more <= spoilt:
                        return asked
                    spoilt = spoilt | more
            case SwapPointers(first, second):
                return self.swap(first, second, spoilt)
            case View(buffer, base):
                return spoilt | {buffer} if base in spoilt else spoilt - {buffer}
        self.plain(timed, spoilt)
        return spoilt

    def swap(self, first: int, second: int, spoilt: set[int]) -> set[int]:
        """Values change places; in one memory only the first gets what the second had."""
        apart = self.home(first) != self.home(second)
        after = spoilt - {first, second}
        after |= {first} if second in spoilt else set()
        return after | {second} if first in spoilt or not apart else after

    def plain(self, timed: Timed, spoilt: set[int]) -> None:
        step = timed.step
        moved: tuple[int, ...] = ()
        match step:
            case Copy(source, target):
                reads, writes = [source], [target]
                moved = (source, target)
            case Host():
                reads, writes = [*step.inputs, *step.constants], [*step.outputs, *step.scratch]
                self.apart(timed, reads, writes)
            case Launch(kernel, buffers):
                slots = self.timeline.written[kernel]
                reads = [buffer for slot, buffer in enumerate(buffers) if slot not in slots]
                writes = [buffer for slot, buffer in enumerate(buffers) if slot in slots]
                self.launch(timed, step)
                for home, (begin, end) in self.span.items():
                    if not begin <= timed.time <= end:  # the kernel's own memory may be there
                        spoilt |= self.members[home]
                if len(reads) == len(writes) == 1 and is_copy(self.plan.kernels[kernel].sink, 1 - min(slots)):
                    moved = (reads[0], writes[0])
            case _:
                reads, writes = list(timed.reads), []
        for buffer in reads:
            self.read(buffer, spoilt, timed)
        if self.leaf[timed.time] in self.sharing.needless:
            self.expect(len(moved) == 2, f"{step} is left out")
            self.expect(len({self.home(buffer) for buffer in moved}) == 1, f"{step} is left out")
            spoilt.discard(moved[1])
            return
        if isinstance(step, Copy):
            self.apart(timed, reads, writes)
        for buffer in writes:
            base = self.timeline.base(buffer)
            if base not in timed.makes and base == buffer:
                self.read(buffer, spoilt, timed)  # a part of it is written, the rest stays
            self.spoil(buffer, spoilt)
        for buffer in writes:
            self.expect(buffer not in spoilt, f"{step} writes two values to one memory")

    def read(self, buffer: int, spoilt: set[int], timed: Timed) -> None:
        self.expect(buffer not in spoilt, f"{timed.step} reads b{buffer}, which is overwritten")

    def spoil(self, buffer: int, spoilt: set[int]) -> None:
        """What a write to a buffer leaves of the others."""
        base, home = self.timeline.base(buffer), self.home(buffer)
        places = self.partners.get(home, {home})
        others = self.members[home] - {base, buffer}
        for place in places & self.span.keys():
            begin, end = self.span[place]
            for other, (start, stop) in self.span.items():
                if other not in places and not (begin <= stop and start <= end):
                    others |= self.members[other]
        spoilt |= others
        spoilt.discard(buffer)
        spoilt.discard(self.timeline.wholes.get(buffer, buffer))

    def launch(self, timed: Timed, launch: Launch) -> None:
        """What a kernel writes is what it reads only where it works in place, and its code was told so."""
        slots = self.timeline.written[launch.kernel]
        for out in slots:
            for slot, buffer in enumerate(launch.buffers):
                if slot == out or not self.overlap(buffer, launch.buffers[out]):
                    continue
                told = {slot, out} <= self.sharing.aliased[launch.kernel]
                whole = not {buffer, launch.buffers[out]} & self.timeline.bases.keys()
                fits = whole and told and (out, slot) in self.pairs[launch.kernel]
                self.expect(fits, f"{launch} at {timed.time} writes over slot {slot}")

    def apart(self, timed: Timed, reads: Sequence[int], writes: Sequence[int]) -> None:
        for target in writes:
            clear = all(not self.overlap(target, source) for source in reads)
            self.expect(clear, f"{timed.step} writes over what it reads")

    def overlap(self, one: int, two: int) -> bool:
        """Whether two buffers may have a byte in common."""
        first, second = self.home(one), self.home(two)
        if first == second:
            return True
        if first not in self.span or second not in self.span or second in self.partners.get(first, ()):
            return False
        (begin, end), (start, stop) = self.span[first], self.span[second]
        return not (begin <= stop and start <= end)
