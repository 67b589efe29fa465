"""Contractions: dot_general and convolution, as products summed over axes (docs/semantics.md 7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, TypeVar, cast

from planish.dtypes import DType
from planish.ptir.function import Inst
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs, convolution_axes
from planish.records import dataclass
from planish.schedule.lowering import channels_last
from planish.schedule.lowering.positions import WindowAxis, elements
from planish.schedule.lowering.reduce import combined
from planish.schedule.lowering.rules import Lowering, accumulator, convert
from planish.schedule.tensors import (
    Dims,
    Tensors,
    divided,
    expand,
    full,
    is_empty,
    minus,
    permute,
    plus,
    reshape,
    shrink,
    times,
)
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import Dim, shape


def _sum_of_products(x: UOp, y: UOp, axes: tuple[int, ...], accum: DType, out: DType, parts: int = 1) -> UOp:
    """Both converted, multiplied and added in the accumulation dtype. Over bools: any of ands.

    In parts of the last axis, each is summed by itself, by blocks of their own, and then all of them.
    """
    wide = accumulator(accum)
    x, y = (convert(convert(value, accum), wide) for value in (x, y))
    if wide.is_bool:
        return combined(x & y, Ops.OR, axes)
    if parts > 1:
        *dims, size = shape(x)
        rank = len(dims)
        cut = [
            permute(reshape(value, (*dims, parts, divided(size, parts))), (rank, *range(rank), rank + 1))
            for value in (x, y)
        ]
        sums = combined(cut[0] * cut[1], Ops.ADD, tuple(axis + 1 for axis in axes))
        total = combined(x.table.make(Ops.CONTIGUOUS, wide, (sums,)), Ops.ADD, (0,))
        total = reshape(total, tuple(1 if axis in axes else dim for axis, dim in enumerate(shape(x))))
    else:
        total = combined(x * y, Ops.ADD, axes)
    return convert(convert(total, accum), out)


def _dot(tensors: Tensors, inst: Inst) -> UOp:
    """Both sides brought to (batch, lhs free, rhs free, contracted), multiplied and summed over the last."""
    attrs = cast("DotGeneralAttrs", inst.attrs)
    dims = (
        *tensors.dims_of(inst.results[0]),
        *(tensors.dims_of(inst.operands[0])[axis] for axis in attrs.lhs_contract),
    )
    products = channels_last.products_of(dims)
    sides = []
    for operand, batch, contract in (
        (inst.operands[0], attrs.lhs_batch, attrs.lhs_contract),
        (inst.operands[1], attrs.rhs_batch, attrs.rhs_contract),
    ):
        dims = tensors.dims_of(operand)
        free = tuple(axis for axis in range(len(dims)) if axis not in (*batch, *contract))
        value = (
            tensors.values[operand]
            if batch
            else channels_last.of_factor(tensors, operand, free, contract, products)
        )
        sides.append((value, dims, batch, free, contract))
    (_, ldims, lbatch, lfree, lcontract), (_, rdims, _, rfree, _) = sides
    b, m, n, k = (
        tuple(ldims[axis] for axis in lbatch),
        tuple(ldims[axis] for axis in lfree),
        tuple(rdims[axis] for axis in rfree),
        tuple(ldims[axis] for axis in lcontract),
    )
    factors = []
    for position, (value, dims, batch, free, contract) in enumerate(sides):
        kept = (*m, *(1,) * len(n)) if position == 0 else (*(1,) * len(m), *n)
        x = reshape(permute(full(value, dims), (*batch, *free, *contract)), (*b, *kept, *k))
        factors.append(expand(x, (*b, *m, *n, *k)))
    rank = len(b) + len(m) + len(n)
    axes = tuple(range(rank, rank + len(k)))
    total = _sum_of_products(factors[0], factors[1], axes, attrs.accum_dtype, attrs.out_dtype)
    return reshape(total, (*b, *m, *n))


def _convolution(tensors: Tensors, inst: Inst) -> UOp:
    """Axes (N, groups, outputs per group, space …, inputs per group, kernel …), summed over the inputs and the kernel.

    The operand is read by position, at·stride + tap·dilation - low; the kernel is only reshaped. Holes in the operand
    (a transposed convolution) are not multiplied with: `_Phases`.
    """
    attrs = cast("ConvolutionAttrs", inst.attrs)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, inst.operands[0].type.rank)
    last = channels_last.of_convolution(tensors, inst)
    x, kernel = (
        permute(full(tensors.values[operand], tensors.dims_of(operand)), axes)
        if last is None
        else last.operand(operand, axes)
        for operand, axes in zip(inst.operands, (lhs_axes, rhs_axes), strict=True)
    )
    batch, _, *extent = shape(x)
    outputs, features, *window = shape(kernel)
    result = tensors.dims_of(inst.results[0])
    space = [result[axis] for axis in out_axes[2:]]
    groups = attrs.groups
    if is_empty(result) or is_empty(shape(x)) or is_empty(shape(kernel)):
        return tensors.filled(0, attrs.out_dtype, result)
    per_group = divided(outputs, groups)
    phases = [_Phases.of(attrs, i, space[i], window[i], together=last is None) for i in range(len(space))]
    # an axis with holes is two output axes: which hole, and where
    places = [
        dim
        for phase, size in zip(phases, space, strict=True)
        for dim in ((size,) if phase is None else phase.dims)
    ]
    taps = [many if phase is None else phase.taps for phase, many in zip(phases, window, strict=True)]
    # the operand is the same for all outputs of a group
    read: Dims = (batch, groups, 1, *places, features, *taps)
    whole: Dims = (batch, groups, per_group, *places, features, *taps)
    rank = 3 + len(places)
    feature = tensors.position(read, rank)
    if groups > 1:
        feature = tensors.position(read, 1) * features + feature
    axes = [WindowAxis(tensors.position(read, 0), batch), WindowAxis(feature, times(features, groups))]
    at = 3
    for i, (size, count, many) in enumerate(zip(extent, space, taps, strict=True)):
        tap = tensors.position(read, rank + 1 + i) if cast("int", many) > 1 else None
        phase = phases[i]
        if phase is not None:
            axes.append(phase.operand(tensors.position(read, at), tensors.position(read, at + 1), tap, size))
            at += 2
            continue
        axes.append(
            WindowAxis(
                tensors.position(read, at),
                size,
                attrs.strides[i],
                tap,
                attrs.rhs_dilation[i],
                attrs.low[i],
                attrs.lhs_dilation[i],
                plus(
                    times(minus(count, 1), attrs.strides[i]), (cast("int", many) - 1) * attrs.rhs_dilation[i]
                ),
            )
        )
        at += 1
    found_elements, _ = elements(x, axes) if last is None else channels_last.elements(x, axes)
    line: Dims = (1, groups, per_group, *(1,) * len(places), features, *taps)
    if any(phase is not None for phase in phases):
        channels = groups, per_group, features
        weights = _kernel_of_phases(tensors, kernel, phases, channels, places, taps, last=last is not None)
        if last is not None:  # stored once as they are multiplied, channels of a tap side by side
            order = (*range(rank), *range(rank + 1, len(whole)), rank)
            stored = weights.table.make(Ops.CONTIGUOUS, weights.dtype, (permute(weights, order),))
            weights = permute(stored, channels_last.inverse(order))
    else:
        weights = reshape(kernel, line)
    sides = expand(found_elements, whole), expand(weights, whole)
    summed = tuple(range(rank, len(whole)))
    sizes = [
        size if phase is None else times(phase.steps, phase.dilation)
        for phase, size in zip(phases, space, strict=True)
    ]
    parts = (
        channels_last.image_parts(tensors, inst)
        if last is None
        else last.parts(whole[:rank], whole[rank:], x.dtype.itemsize)
    )
    if not parts:
        total = _sum_of_products(*sides, summed, attrs.accum_dtype, attrs.out_dtype)
        dims, lies = (batch, outputs, *sizes), tuple(range(len(out_axes)))
    else:  # outputs of a pixel, and channels of a tap, side by side
        order = (0, *range(3, rank), 1, 2, *range(rank + 1, len(whole)), rank)
        left, right = (permute(side, order) for side in sides)
        total = _sum_of_products(left, right, summed, attrs.accum_dtype, attrs.out_dtype, parts)
        dims, lies = (batch, *sizes, outputs), (0, len(out_axes) - 1, *range(1, len(out_axes) - 1))
    if last is None and any(phase is not None for phase in phases):
        # phases are loops of their own, not remainders of places
        total = tensors.table.make(Ops.CONTIGUOUS, total.dtype, (total,))
    fronts = [0, 0, *(0 if phase is None else phase.front for phase in phases)]
    inside = [
        (fronts[axis], plus(result[out_axes[axis]], fronts[axis])) for axis in channels_last.inverse(lies)
    ]
    placed = permute(shrink(reshape(total, dims), dims, inside), lies)
    return permute(placed, channels_last.inverse(out_axes))


T = TypeVar("T", UOp, int)


@dataclass(frozen=True, slots=True)
class _Phases:
    """An axis of an operand with holes (a transposed convolution), without them.

    Position p = d·q + phase of the result meets elements of the operand only at the taps t with (p + e·t - low) % d == 0, which are
    t = first(phase) + d·u if holes (d) and gaps of the kernel (e) have no common factor (`SpreadResultOfConvolution` takes it out); the
    element is q + e·u + from(phase). So every phase is a convolution without holes, with some of the taps.
    """

    dilation: int
    gap: int
    low: int
    count: Dim
    window: int
    front: int = 0
    """Positions put before the result, so that all phases begin at the same element."""

    @staticmethod
    def of(attrs: ConvolutionAttrs, axis: int, count: Dim, window: Dim, *, together: bool) -> _Phases | None:
        """None: there are no holes, or they do not come apart so simply. `together`: phases should read the same elements."""
        d, e, low = attrs.lhs_dilation[axis], attrs.rhs_dilation[axis], attrs.low[axis]
        if d == 1 or attrs.strides[axis] != 1 or gcd(d, e) != 1:
            return None
        least = count if isinstance(count, int) else count.vmin
        if not (isinstance(window, int) and isinstance(low, int)) or least < d:
            return None
        plain = _Phases(d, e, low, count, window)
        shifted = (
            _Phases(d, e, low + front, plus(count, front), window, front)
            for front in range(d if together else 0)
        )
        return next((each for each in shifted if len(set(map(each.start, range(d)))) == 1), plain)

    @property
    def steps(self) -> Dim:
        """How many positions of the result a phase has."""
        return divided(plus(self.count, self.dilation - 1), self.dilation)

    @property
    def dims(self) -> tuple[Dim, int]:
        return self.steps, self.dilation

    @property
    def taps(self) -> int:
        """How many taps a phase has at most."""
        return -(-self.window // self.dilation)

    @property
    def ahead(self) -> int:
        """Elements put before the operand, so that no position is negative."""
        return -(-self.low // self.dilation)

    def first(self, phase: T) -> T:
        """The first tap of a phase."""
        return (phase * -1 + self.low) * pow(self.gap, -1, self.dilation) % self.dilation

    def start(self, phase: T) -> T:
        """The element at the first tap of the first position of a phase, counted with those put before."""
        return (
            phase + self.first(phase) * self.gap + (self.ahead * self.dilation - self.low)
        ) // self.dilation

    def operand(self, at: UOp, phase: UOp, tap: UOp | None, size: Dim) -> WindowAxis:
        """Where the operand is read."""
        last = max(map(self.start, range(self.dilation)))
        reach = plus(self.steps, last + (self.taps - 1) * self.gap - 1)
        first = at + (last if last == min(map(self.start, range(self.dilation))) else self.start(phase))
        return WindowAxis(first, size, 1, tap, self.gap, self.ahead, 1, reach)

    def kernel(self, phase: UOp, tap: UOp | None) -> WindowAxis:
        """Which tap that is."""
        last = max(map(self.first, range(self.dilation)))
        reach = last + (self.taps - 1) * self.dilation
        return WindowAxis(self.first(phase), self.window, 1, tap, self.dilation, 0, 1, reach)


def _kernel_of_phases(
    tensors: Tensors,
    kernel: UOp,
    phases: Sequence[_Phases | None],
    channels: tuple[Dim, Dim, Dim],
    places: Sequence[Dim],
    taps: Sequence[Dim],
    *,
    last: bool,
) -> UOp:
    """The taps of a kernel that each phase has, over the axes of the convolution; the other output axes are 1."""
    groups, per_group, features = channels
    kept: list[Dim] = []
    for phase in phases:
        kept.extend((1,) if phase is None else (1, phase.dilation))
    dims: Dims = (1, groups, per_group, *kept, features, *taps)
    rank = 3 + len(kept)
    output = tensors.position(dims, 1) * per_group + tensors.position(dims, 2)
    axes = [WindowAxis(output, times(groups, per_group)), WindowAxis(tensors.position(dims, rank), features)]
    at = 3
    for i, phase in enumerate(phases):
        tap = tensors.position(dims, rank + 1 + i)
        if phase is None:
            axes.append(WindowAxis(tap, taps[i]))
            at += 1
        else:
            axes.append(phase.kernel(tensors.position(dims, at + 1), tap if phase.taps > 1 else None))
            at += 2
    chosen, _ = channels_last.elements(kernel, axes) if last else elements(kernel, axes)
    return chosen


CONTRACT: Final[dict[str, Lowering]] = {"dot_general": _dot, "convolution": _convolution}
