"""How the operands of convolutions lie in memory on a GPU: channels last.

A tensor core copies sixteen neighbouring bytes at once, and of a window only channels are neighbours for every pixel and tap. So what
is convolved is kept with its channels last, whatever the order of its axes in the program: for everybody who reads it from then on, so
that a tensor between two convolutions is stored once, by the kernel that computes it. Where the program hands it over in another
order, it is copied first, which costs little by what it saves. Few channels are filled up to those sixteen bytes with zeros.

The sums themselves are laid out the same way, so that results which are kept have their channels last as well; and what is made of
such a tensor element by element, by windows, slices and sums is computed in the order in which it lies (`lying`, `as_it_lies`).

Before → after, of x in the order N C H W::

    CONVOLUTION(x)        CONVOLUTION(PERMUTE(y)),  y = CONTIGUOUS(PERMUTE(x)) in the order N H W C,  and x is PERMUTE(y) from here on
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.ptir.function import Inst, Value
from planish.ptir.ops.contract import ConvolutionAttrs, convolution_axes
from planish.records import dataclass
from planish.schedule.lowering import positions
from planish.schedule.lowering.positions import WindowAxis
from planish.schedule.lowering.rules import Lowering
from planish.schedule.tensors import Tensors, full, pad, permute, reshape
from planish.target.rounds import WARPGROUP_TILES, WARPGROUPS, ProductSizes, cycles
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops, ReduceAxes
from planish.uop.reached import reached
from planish.uop.shape import Dim, shape

_TILED: Final = (2, 4)
"""Bytes of the floats whose products are done in tiles, by tensor cores or by threads."""
_IMAGE: Final = 2
"""Axes besides channels from which on a factor of a product is taken for an image."""
_GAIN: Final = 0.85
"""By how much parts have to be faster, as far as that can be told."""


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """A convolution on tensor cores: which of its axes are channels in memory, and how its sum is cut."""

    tensors: Tensors
    may_fill: bool
    by_batch: bool
    """Whether what it calls its batch are channels: of the gradient of weights, which sums over images and pixels."""

    def operand(self, value: Value, axes: Sequence[int]) -> UOp:
        """An operand in the order of these axes (N, C, … or O, I, …), in memory with its channels last, or with the other axis that has no windows.

        Few channels are filled up with zeros. Of weights that see few channels each (depthwise, small groups), those that they make are last:
        each thread has all of the others.
        """
        first, second, *space = axes
        channel, other = (first, second) if self.by_batch else (second, first)
        size = self.tensors.dims_of(value)[channel]
        is_few = (
            isinstance(size, int)
            and size <= self.tensors.target.shares.group_channels
            and not self.may_fill
            and not self.by_batch
        )
        if is_few:
            channel, other = other, channel
        order = (*space, other, channel) if is_few else (other, *space, channel)
        missing = self.whole(value, size)
        if not missing:
            return permute(kept(self.tensors, value, order, () if is_few else (other,)), axes)
        x = full(self.tensors.values[value], self.tensors.dims_of(value))
        wider = pad(x, [(0, missing if axis == channel else 0) for axis in range(len(axes))])
        stored = x.table.make(Ops.CONTIGUOUS, x.dtype, (permute(wider, order),))
        return permute(permute(stored, inverse(order)), axes)

    def whole(self, value: Value, channels: Dim) -> int:
        """How many channels of zeros are put behind few of them."""
        least = self.tensors.target.thread_bytes // value.type.dtype.itemsize
        return least - channels if self.may_fill and isinstance(channels, int) and channels < least else 0

    def parts(self, outputs: Sequence[Dim], summed: Sequence[Dim], itemsize: int) -> int:
        """Parts of equal length of the sum over channels, where results alone do not keep a GPU busy."""
        batch, groups, columns, *pixels = outputs
        features, *window = summed
        taps = products_of(window)
        sizes = ProductSizes(
            products_of((batch, *pixels)), products_of((columns,)), taps * products_of((features,)), products_of((groups,)), itemsize
        )  # fmt: skip
        if not (sizes.m and sizes.n and sizes.k and sizes.batch):  # some are not known
            return 1
        terms, target = sizes.k // taps, self.tensors.target
        ways = [
            n
            for n in range(1, target.workers + 1)
            if terms % n == 0 and (n == 1 or sizes.k // n >= target.parts.product_terms)
        ]
        times = {n: min(cycles(target, sizes, tile, WARPGROUPS, n) for tile in WARPGROUP_TILES) for n in ways}
        best = min(ways, key=lambda n: (times[n], n))
        return best if times[best] < _GAIN * times[1] else 1


def of_convolution(tensors: Tensors, inst: Inst) -> ChannelsLast | None:
    """How a convolution is laid out for tensor cores; None if they are not to do it."""
    attrs = cast("ConvolutionAttrs", inst.attrs)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, inst.operands[0].type.rank)
    kernel, result = tensors.dims_of(inst.operands[1]), tensors.dims_of(inst.results[0])
    window, space = [kernel[axis] for axis in rhs_axes[2:]], [result[axis] for axis in out_axes[2:]]
    products = products_of((*result, kernel[rhs_axes[1]], *window))
    if products < tensors.target.parts.channels_last or not is_tiled(tensors, inst.operands):
        return None
    if attrs.groups > 1 and kernel[rhs_axes[1]] == 1:  # nothing is shared by channels: no reason to copy them
        x = full(tensors.values[inst.operands[0]], tensors.dims_of(inst.operands[0]))
        if _is_memory(x) and innermost(x) != lhs_axes[1]:
            return None
    if image_parts(tensors, inst):
        return None
    return ChannelsLast(tensors, attrs.groups == 1, products_of(window) > products_of(space))


def image_parts(tensors: Tensors, inst: Inst) -> int:
    """Parts of the images that the gradient of weights for each channel by itself (depthwise) is summed up in; 0 if it is no such convolution.

    One sum for each tap and channel has nothing for a tensor core, and taps and channels alone are too few for all threads.
    """
    attrs = cast("ConvolutionAttrs", inst.attrs)
    _, rhs_axes, out_axes = convolution_axes(attrs, inst.operands[0].type.rank)
    kernel, result = tensors.dims_of(inst.operands[1]), tensors.dims_of(inst.results[0])
    window, space = [kernel[axis] for axis in rhs_axes[2:]], [result[axis] for axis in out_axes[2:]]
    images, plain = kernel[rhs_axes[1]], all(each == 1 for each in attrs.lhs_dilation)
    is_one = 1 < attrs.groups == kernel[rhs_axes[0]] and result[out_axes[0]] == 1
    if not is_one or not plain or not is_tiled(tensors, inst.operands) or not isinstance(images, int):
        return 0
    if products_of(window) < products_of(space) or images == 1:
        return 0
    return max(n for n in range(1, min(images, tensors.target.parts.images) + 1) if images % n == 0)


def of_factor(
    tensors: Tensors, value: Value, free: Sequence[int], contract: Sequence[int], products: int
) -> UOp:
    """The left or right side of a product of matrices, as a convolution of one tap sees it: terms are channels.

    It is laid out anew only if that costs nothing, because it is not in memory yet, or if its neighbours in memory do not come in sixteen bytes.
    """
    x = full(tensors.values[value], tensors.dims_of(value))
    if not is_tiled(tensors, (value,)) or products < tensors.target.parts.channels_last or len(contract) != 1:
        return x
    (channel,) = contract
    if x.dtype is dtypes.tfloat32 and not _is_memory(x):
        return kept(
            tensors, value, (*free, channel)
        )  # rounded once, and only along the sum a core reads four bytes
    if len(free) < _IMAGE:
        return x
    size = tensors.dims_of(value)[-1]
    if channel in (min(contract[0], *free), len(free)):
        return x
    whole = isinstance(size, int) and size * value.type.dtype.itemsize % tensors.target.thread_bytes == 0
    return x if _is_memory(x) and whole else kept(tensors, value, (*free, channel))


def is_tiled(tensors: Tensors, values: Sequence[Value]) -> bool:
    """Whether products of values are done in tiles of a GPU."""
    kinds = [value.type.dtype for value in values]
    return tensors.target.is_gpu and all(dtype.is_float and dtype.itemsize in _TILED for dtype in kinds)


def innermost(x: UOp) -> int:
    """Which axis of a tensor lies together in memory."""
    axes = unpermuted(x)[1]
    return axes.index(len(axes) - 1)


def _is_memory(x: UOp) -> bool:
    """Whether a tensor is a view of memory, or will be stored as it is."""
    while x.op in MOVEMENT:
        x = x.src[0]
    return x.op is Ops.CONTIGUOUS or (x.op is Ops.INDEX and len(x.src) == 1)


def products_of(dims: Sequence[Dim]) -> int:
    """How many products there are over axes of these sizes; 0 if some are not known."""
    return prod(dim if isinstance(dim, int) else 0 for dim in dims)


def unpermuted(x: UOp) -> tuple[UOp, tuple[int, ...]]:
    """A tensor without its permutations, and which of its axes each axis is."""
    axes = tuple(range(len(shape(x))))
    while x.op is Ops.PERMUTE:
        axes = tuple(cast("tuple[int, ...]", x.arg)[axis] for axis in axes)
        x = x.src[0]
    return x, axes


def lying(tensors: Tensors, x: UOp) -> tuple[UOp, tuple[int, ...]]:
    """A tensor in the order of its axes in memory, and where each of its axes is there: if channels are last there, else as it is.

    Channels may be several axes: groups, and those of each group.
    """
    rank = len(shape(x))
    if tensors.target.is_gpu and rank > _IMAGE:
        base, of = unpermuted(x)
        if of[0] == 0 and of[1] > 1 and of == _channels_behind(rank, rank - of[1]):
            return base, of
    return x, tuple(range(rank))


def _channels_behind(rank: int, channels: int) -> tuple[int, ...]:
    """Where the axes of (N, C …, H …) are in memory, if so many are channels and these are last there."""
    return (0, *range(rank - channels, rank), *range(1, rank - channels))


def reshaped(tensors: Tensors, x: UOp, dims: Sequence[Dim]) -> UOp:
    """A tensor in another shape; channels that are last in memory stay so, if channels and images are only divided anew among themselves."""
    base, of = lying(tensors, x)
    was = shape(x)
    space = max(of[1:2], default=1) - 1
    channels = products_of(was[1 : len(was) - space])
    count = next((n for n in range(1, len(dims)) if products_of(dims[1 : n + 1]) == channels), 0)
    new = dims[count + 1 :]
    if not space or not count or dims[0] != was[0] or all(size == 1 for size in new):
        return reshape(x, tuple(dims))
    return permute(reshape(base, (dims[0], *new, *dims[1 : count + 1])), _channels_behind(len(dims), count))


def in_rows(tensors: Tensors, x: UOp) -> UOp:
    """A result that is made of sums for each pixel (a softmax of its channels, a pool), in memory with its channels last first.

    Threads that share the channels of a pixel would else each write somewhere else, or read so. Products are written in any order, but
    for those whose neighbouring pixels are other phases.
    """
    base, of = lying(tensors, x)
    if of[1:2] in ((), (1,)):
        return x
    sums = (n for n in reached([base], _up_to_sums) if n.op is Ops.REDUCE_AXIS)
    if any(_gives_pixels(each, shape(x)) for each in sums):
        return permute(x.table.make(Ops.CONTIGUOUS, x.dtype, (base,)), of)
    return x


def _up_to_sums(node: UOp) -> tuple[UOp, ...]:
    return () if node.op in {Ops.REDUCE_AXIS, Ops.CONTIGUOUS} else node.src


def _gives_pixels(node: UOp, dims: Sequence[Dim]) -> bool:
    """Whether a sum is one for each pixel of such dims, or a product whose neighbouring pixels are other phases."""
    axes = cast("ReduceAxes", node.arg).axes
    if node.src[0].op is Ops.MUL:
        return len(shape(node)) - len(axes) > len(dims) + 1
    of_all = products_of(shape(node.src[0])) >= products_of(dims)
    whole = products_of(shape(node)) >= products_of(dims)
    return of_all and (whole or len(shape(node)) - 1 in axes)


def as_it_lies(handler: Lowering) -> Lowering:
    """A lowering of what is computed element by element, in the order in which an operand with its channels last lies in memory."""

    def lower(tensors: Tensors, inst: Inst) -> UOp:
        if not tensors.target.is_gpu:
            return handler(tensors, inst)
        given = {operand: tensors.values[operand] for operand in inst.operands}
        of = next((of for x in given.values() if (of := lying(tensors, x)[1])[1:2] not in ((), (1,))), None)
        if of is None:
            return handler(tensors, inst)
        back = inverse(of)
        for operand, x in given.items():
            if shape(x):
                base, its = lying(tensors, x)
                tensors.values[operand] = base if its == of else permute(x, back)
        try:
            lowered = handler(tensors, inst)
        finally:
            tensors.values.update(given)
        return permute(lowered, of) if shape(lowered) else lowered

    return lower


def elements(x: UOp, axes: Sequence[WindowAxis]) -> tuple[UOp, UOp | None]:
    """`positions.elements` of a tensor as it lies in memory: asked for in another order of its axes, it would be copied to that."""
    base, of = unpermuted(x)
    return positions.elements(base, [axes[axis] for axis in inverse(of)])


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Where each axis of an order comes from."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def kept(tensors: Tensors, value: Value, order: Sequence[int], others: Sequence[int] = ()) -> UOp:
    """A value in memory, in an order of its axes, or in its own if its last axis there is the last of these, or one of others."""
    x = full(tensors.values[value], tensors.dims_of(value))
    base, of = unpermuted(x)
    lies = innermost(x) in (order[-1], *others) and base.op is not Ops.EXPAND
    if lies and _is_memory(base):
        return x
    wanted = inverse(of) if lies else tuple(order)
    stored = permute(x.table.make(Ops.CONTIGUOUS, x.dtype, (permute(x, wanted),)), inverse(wanted))
    tensors.values[value] = stored
    return stored
