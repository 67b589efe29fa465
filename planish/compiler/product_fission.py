"""Product fission: a kernel that multiplies matrices and goes on element by element becomes two, where ready-made code does the first.

    out[i, j] = tanh(Σ a[i, k] · b[k, j])   ->   t[i, j] = Σ a[i, k] · b[k, j];  out[i, j] = tanh(t[i, j])

The product is stored and read once more, which has to cost little beside it; mostly the result's own memory holds it meanwhile. What
is compiled for the sizes at hand is the second kernel alone, which is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from planish import dtypes
from planish.compiler.ready_kernels import cycles_of, has_counted_loops, is_fast, is_slight, product_of
from planish.dtypes import PtrDType
from planish.schedule.parameters import with_parameters
from planish.schedule.plan import Kernel, Launch, Plan, PlanBuffer, Role, Step, mapped, walk
from planish.schedule.reason import Reason
from planish.schedule.tensors import SharedBuffer, view
from planish.uop.nest import constant_size, stores_in
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute

if TYPE_CHECKING:
    from planish.target import Target

_WORTH: Final = 0.08
"""Of the time of a product: what it may cost to write it and read it once more; or so little that nobody notices. (A share of a time that is
reckoned from the target: no machine's.)"""
_HEAVY: Final = frozenset({Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE, Ops.AFTER, Ops.WMMA})
_PRODUCT: Final = Reason(
    "ready product",
    "code that is there already computes it; what follows it, element by element, is a kernel of its own",
)


class _Halves(NamedTuple):
    """The graph of a product, that of what follows it, and the parameter between them if that is a new one."""

    product: UOp
    rest: UOp
    between: UOp | None


def apart(plan: Plan, target: Target) -> tuple[Plan, tuple[int, ...]]:
    """The plan with products apart from what follows them, and by launch of it the launch of the plan before that it is part of."""
    count = len(plan.launches)
    if has_counted_loops(plan):
        return plan, tuple(range(count))
    split = _Splitting(plan, target)
    steps: list[Step] = []
    origins: list[int] = []
    before = 0
    for step in plan.steps:
        parts = split.parts(step) if isinstance(step, Launch) else None
        inside = sum(isinstance(each, Launch) for each in walk((step,)))
        if parts is None:
            steps.append(step)
            origins += range(before, before + inside)
        else:
            steps += parts
            origins += [before] * len(parts)
        before += inside
    if len(split.kernels) == len(plan.kernels):
        return plan, tuple(range(count))
    left = sorted({step.kernel for step in walk(steps) if isinstance(step, Launch)})
    numbers = {number: place for place, number in enumerate(left)}
    renumbered = mapped(
        steps, lambda step: replace(step, kernel=numbers[step.kernel]) if isinstance(step, Launch) else step
    )
    kernels = tuple(split.kernels[number] for number in left)
    return replace(plan, steps=renumbered, kernels=kernels, buffers=tuple(split.buffers)), tuple(origins)


class _Splitting:
    """Kernels and buffers of a plan, and those that come to them."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.target = plan, target
        self.kernels, self.buffers = list(plan.kernels), list(plan.buffers)
        self.known = {kernel.sink: number for number, kernel in enumerate(plan.kernels)}
        self.halves: dict[int, _Halves | None] = {}

    def parts(self, launch: Launch) -> list[Step] | None:
        """A product and what follows it as two launches."""
        if launch.kernel not in self.halves:
            self.halves[launch.kernel] = _halves(self.plan.kernels[launch.kernel], self.target)
        halves = self.halves[launch.kernel]
        if halves is None:
            return None
        numbers = dict(enumerate(launch.buffers))
        if halves.between is not None:
            memory = cast("PtrDType", halves.between.dtype)
            numbers[len(launch.buffers)] = len(self.buffers)
            self.buffers.append(PlanBuffer(memory.base, memory.size, Role.ARENA))
        return [self._launch(half, numbers) for half in (halves.product, halves.rest)]

    def _launch(self, half: UOp, numbers: Mapping[int, int]) -> Launch:
        """A kernel on the buffers that its parameters stand for, which are numbered anew."""
        params = [n for n in half.toposort() if n.op is Ops.DEFINE_GLOBAL]
        places = {n: half.table.make(Ops.BUFFER, n.dtype, (), place) for place, n in enumerate(params)}
        memories = [cast("PtrDType", n.dtype) for n in params]
        shared = [SharedBuffer(each.base, each.size) for each in memories]
        sizes = "x".join(str(constant_size(r)) for r in _outputs(half))
        draft = with_parameters(
            substitute(half, places), shared, sizes, dict.fromkeys(range(len(params)), _PRODUCT)
        )
        own = [numbers[cast("int", n.arg)] for n in params]
        buffers, written = (tuple(own[place] for place in each) for each in (draft.buffers, draft.written))
        kernel = replace(draft, buffers=buffers, written=written)
        number = self.known.setdefault(kernel.sink, len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(kernel)
        return Launch(number, buffers)


def _halves(kernel: Kernel, target: Target) -> _Halves | None:
    sink, table = kernel.sink, kernel.sink.table
    heavy = [n for n in sink.toposort() if n.op in _HEAVY]
    stores = list(stores_in(sink))
    if len(heavy) != 1 or heavy[0].op is not Ops.REDUCE:
        return None
    (total,), outputs = heavy, _outputs(sink)
    kept = next((s for s in stores if s.src[1] is total), None)
    if kept is not None and len(stores) == 1:
        return None  # nothing follows
    dims = tuple(size for r in outputs if (size := constant_size(r)) is not None)
    if frozenset(outputs) != frozenset(total.ranges) or len(dims) != len(outputs):
        return None
    between: UOp | None = None
    if kept is None:
        between = table.param(len(kernel.buffers), total.dtype, prod(dims))
        place = table.make(Ops.INDEX, total.dtype, (view(between, total.dtype, dims), *outputs))
    else:
        place = kept.src[0]
    product = table.sink(place.store(total).end(*outputs))
    if not _is_worth(product, prod(dims) * total.dtype.itemsize, target):
        return None
    return _Halves(product, _without(substitute(sink, {total: place}), place), between)


def _is_worth(product: UOp, nbytes: int, target: Target) -> bool:
    """Whether ready-made code computes it, and writing and reading its result costs little beside that."""
    strided = product_of(product, target)
    if strided is None or not is_fast(strided, target):
        return False
    level = next((n for n, size in enumerate(target.caches) if nbytes <= size), len(target.caches))
    rate = target.bytes_per_cycle[max(level - 1, 0)]
    again = 2 * nbytes / rate
    return again <= _WORTH * cycles_of(strided, target) or is_slight(again, target)


def _outputs(sink: UOp) -> list[UOp]:
    """The ranges around everything, outermost first, if there is one nest of them; else none."""
    effect = sink.src[0]
    return list(effect.src[1:]) if len(sink.src) == 1 and effect.op is Ops.END else []


def _without(sink: UOp, place: UOp) -> UOp:
    """A kernel without the store of what a product has stored already."""
    (end,) = sink.src
    group = end.src[0]
    if group.op is not Ops.GROUP:
        return sink
    left = [each for each in group.src if each.op is not Ops.STORE or each.src[1] is not place]
    effect = left[0] if len(left) == 1 else sink.table.make(Ops.GROUP, dtypes.void, tuple(left))
    return sink.table.sink(effect.end(*end.src[1:]))
