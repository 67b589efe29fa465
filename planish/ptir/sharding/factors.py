"""The table of how each op may be cut: its axes as factors that operands and results share.

A factor is a size that occurs in operands and results: cut alike in all of them, each rank computes its part by itself. Some
factors are summed (or otherwise combined) over, so that what ranks have are parts of a sum; others must stay whole. An axis that a
reshape merges is several factors, the slowest first, of which only that one can be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.ops.contract import convolution_axes, free_axes
from planish.ptir.sharding.counted_axes import counted_axis
from planish.ptir.types import DimLike, TensorType

Axes = list[tuple[int, ...]]
"""The factors of each axis of a tensor."""


class Factors:
    """The factors of an instruction."""

    __slots__ = ("blocked", "inner", "operands", "reduced", "results", "shifted", "sizes")

    def __init__(self) -> None:
        self.sizes: list[DimLike] = []
        self.operands: list[Axes] = []
        self.results: list[Axes] = []
        self.inner: list[tuple[Value, Axes]] = []
        """Parameters and results of its regions."""
        self.blocked: set[int] = set()
        """Factors that must stay whole."""
        self.reduced: dict[int, str] = {}
        """Factors that are combined over, and how."""
        self.shifted: set[int] = set()
        """Factors along which neighbours exchange their edges."""

    def new(self, size: DimLike, *, blocked: bool = False) -> tuple[int, ...]:
        """An axis of its own factor; of size 1 it has none."""
        if size == 1:
            return ()
        self.sizes.append(size)
        number = len(self.sizes) - 1
        if blocked or not isinstance(size, int):
            self.blocked.add(number)
        return (number,)

    def of(self, dims: Sequence[DimLike], *, blocked: bool = False) -> Axes:
        return [self.new(dim, blocked=blocked) for dim in dims]

    def block(self, axis: tuple[int, ...]) -> None:
        self.blocked.update(axis)

    def tensors(self, inst: Inst) -> list[tuple[Value, Axes]]:
        """Every value that takes part, with its factors."""
        return [
            *zip(inst.operands, self.operands, strict=True),
            *zip(inst.results, self.results, strict=True),
            *self.inner,
        ]


Rule = Callable[[Factors, Inst, Any], None]


def factors_of(inst: Inst) -> Factors:
    """The factors of an instruction."""
    factors = Factors()
    rule = RULES.get(inst.op.name, _elementwise if inst.op.elementwise else _opaque)
    rule(factors, inst, inst.attrs)
    for value, axes in factors.tensors(inst):
        quant = value.type.quant
        if quant is not None and quant.axis is not None:
            factors.block(axes[quant.axis])  # a scale per index: parts would differ in type
        for axis in axes:
            factors.blocked.update(axis[1:])
    return factors


def _types(inst: Inst) -> list[TensorType]:
    return [value.type for value in inst.operands]


def _elementwise(f: Factors, inst: Inst, attrs: Any) -> None:
    axes = f.of(inst.results[0].type.dims)
    f.operands = [axes for _ in inst.operands]
    f.results = [axes for _ in inst.results]


def _to_device(f: Factors, inst: Inst, attrs: Any) -> None:
    """Of a second operand only where it lies matters."""
    _elementwise(f, inst, attrs)
    f.operands[1:] = [f.of(value.type.dims) for value in inst.operands[1:]]


def _opaque(f: Factors, inst: Inst, attrs: Any) -> None:
    """Every rank computes all of it."""
    f.operands = [f.of(value.type.dims, blocked=True) for value in inst.operands]
    f.results = [f.of(value.type.dims, blocked=True) for value in inst.results]


def _source(f: Factors, inst: Inst, attrs: Any) -> None:
    f.results = [f.of(inst.result.type.dims)]


def _along(f: Factors, inst: Inst, attrs: Any) -> None:
    """Ops along axes that their attributes name; all other axes go along."""
    named = attrs.axes if hasattr(attrs, "axes") else (attrs.axis,)
    axes = f.of(inst.operands[0].type.dims)
    f.operands = [axes for _ in inst.operands]
    f.results = []
    for axis in named:
        f.block(axes[axis])
    for value in inst.results:
        dims = value.type.dims
        f.results.append([f.new(dims[k], blocked=True) if k in named else own for k, own in enumerate(axes)])


def _reduce(f: Factors, inst: Inst, attrs: Any) -> None:
    axes = f.of(inst.operands[0].type.dims)
    kind = inst.op.name.removeprefix("reduce_")
    for axis in attrs.axes:
        f.reduced.update(dict.fromkeys(axes[axis], kind))
    f.operands = [axes]
    f.results = [_left(axes, attrs)]


def _left(axes: Axes, attrs: Any) -> Axes:
    named = attrs.axes if hasattr(attrs, "axes") else (attrs.axis,)
    if attrs.keepdims:
        return [() if k in named else own for k, own in enumerate(axes)]
    return [own for k, own in enumerate(axes) if k not in named]


def _arg_reduce(f: Factors, inst: Inst, attrs: Any) -> None:
    axes = f.of(inst.operands[0].type.dims)
    f.block(axes[attrs.axis])
    f.operands, f.results = [axes], [_left(axes, attrs)]


def _kept(f: Factors, inst: Inst, same: Sequence[bool]) -> None:
    """Axes of the first operand and the result go together where they are the same; other operands are scalars."""
    source, result = inst.operands[0].type.dims, inst.result.type.dims
    axes = f.of(source)
    for axis, stays in zip(axes, same, strict=True):
        if not stays:
            f.block(axis)
    f.operands = [axes, *[f.of(value.type.dims, blocked=True) for value in inst.operands[1:]]]
    f.results = [
        [
            own if stays else f.new(result[k], blocked=True)
            for k, (own, stays) in enumerate(zip(axes, same, strict=True))
        ]
    ]


def _slice(f: Factors, inst: Inst, attrs: Any) -> None:
    dims = inst.operands[0].type.dims
    rows = zip(attrs.starts, attrs.limits, attrs.strides, dims, strict=True)
    _kept(f, inst, [start == 0 and step == 1 and limit == dim for start, limit, step, dim in rows])


def _pad(f: Factors, inst: Inst, attrs: Any) -> None:
    rows = list(zip(attrs.low, attrs.high, attrs.interior, strict=True))
    shifts = [gap == 0 and isinstance(low, int) and low != 0 and low == -high for low, high, gap in rows]
    _kept(f, inst, [row == (0, 0, 0) or shift for row, shift in zip(rows, shifts, strict=True)])
    for axis, shift in zip(f.operands[0], shifts, strict=True):
        if shift:
            f.shifted.update(axis)


def _reverse(f: Factors, inst: Inst, attrs: Any) -> None:
    _elementwise(f, inst, attrs)
    for axis in attrs.axes:
        f.block(f.results[0][axis])


def _concat(f: Factors, inst: Inst, attrs: Any) -> None:
    axes = f.of(inst.result.type.dims)
    f.block(axes[attrs.axis])
    f.results = [axes]
    for value in inst.operands:
        own = f.new(value.type.dims[attrs.axis], blocked=True)
        f.operands.append([own if k == attrs.axis else axis for k, axis in enumerate(axes)])


def _transpose(f: Factors, inst: Inst, attrs: Any) -> None:
    axes = f.of(inst.operands[0].type.dims)
    f.operands, f.results = [axes], [[axes[axis] for axis in attrs.perm]]


def _broadcast(f: Factors, inst: Inst, attrs: Any) -> None:
    axes, dims = f.of(inst.result.type.dims), inst.operands[0].type.dims
    last = axes[len(axes) - len(dims) :]
    f.results = [axes]
    f.operands = [[() if dim == 1 else axis for dim, axis in zip(dims, last, strict=True)]]


def _reshape(f: Factors, inst: Inst, attrs: Any) -> None:
    """Common parts of both shapes, from the slowest on; what does not divide stays whole."""
    shapes = [inst.operands[0].type.dims, inst.result.type.dims]
    numbers: list[list[list[int]]] = [[[] for _ in dims] for dims in shapes]
    places, left = [0, 0], [_skip(dims, 0) for dims in shapes]

    def advance(side: int) -> None:
        places[side] = left[side][0] + 1
        left[side] = _skip(shapes[side], places[side])

    while left[0][0] < len(shapes[0]) and left[1][0] < len(shapes[1]):
        (i, a), (j, b) = left
        if a == b:
            (number,) = f.new(a)
            numbers[0][i].append(number)
            numbers[1][j].append(number)
            advance(0)
            advance(1)
            continue
        if not isinstance(a, int) or not isinstance(b, int) or not a or not b or (a % b and b % a):
            break
        small = min(a, b)
        (number,) = f.new(small)
        numbers[0][i].append(number)
        numbers[1][j].append(number)
        side = 0 if a == small else 1
        other = 1 - side
        left[other] = (left[other][0], max(a, b) // small)
        advance(side)
    for side, (start, rest) in enumerate(left):
        for axis in range(start, len(shapes[side])):
            size = rest if axis == start else shapes[side][axis]
            numbers[side][axis] += f.new(size, blocked=True)
    f.operands, f.results = [[tuple(axis) for axis in numbers[0]]], [[tuple(axis) for axis in numbers[1]]]


def _skip(dims: Sequence[DimLike], start: int) -> tuple[int, DimLike]:
    """The next axis that is not of size 1, and its size."""
    while start < len(dims) and dims[start] == 1:
        start += 1
    return start, dims[start] if start < len(dims) else 1


def _bitcast(f: Factors, inst: Inst, attrs: Any) -> None:
    source, result = inst.operands[0].type.dims, inst.result.type.dims
    common = min(len(source), len(result))
    axes = f.of(source[:common])
    f.operands = [[*axes, *f.of(source[common:], blocked=True)]]
    f.results = [[*axes, *f.of(result[common:], blocked=True)]]


def _indexed(
    f: Factors, x: TensorType, axes: Axes, named: Sequence[int], indices: Sequence[Value]
) -> tuple[Axes, list[int]]:
    """The factors of index axes, and the axes that are looked up: an axis whose index only counts goes along with it."""
    lead = f.of(indices[0].type.dims)
    looked: list[int] = []
    taken: set[int] = set()
    for axis, index in zip(named, indices, strict=True):
        place = counted_axis(index)
        if place is not None and place not in taken and x.dims[axis] == index.type.dims[place]:
            axes[axis] = lead[place]
            taken.add(place)
        else:
            looked.append(axis)
    return lead, looked


def _gather(f: Factors, inst: Inst, attrs: Any) -> None:
    """Along one axis that is looked up, each rank finds what it has, and the rest is 0 of a sum."""
    x = inst.operands[0].type
    axes = f.of(x.dims)
    lead, looked = _indexed(f, x, axes, attrs.axes, inst.operands[1:])
    single = len(looked) == 1 and x.quant is None and not x.dtype.is_complex and x.dtype.bits >= 8
    for axis in looked:
        if single:
            f.reduced.update(dict.fromkeys(axes[axis], "sum"))
        else:
            f.block(axes[axis])
    f.operands = [axes, *[lead for _ in attrs.axes]]
    f.results = [[*lead, *[axis for k, axis in enumerate(axes) if k not in attrs.axes]]]


def _scatter(f: Factors, inst: Inst, attrs: Any) -> None:
    """Along one axis that is looked up, each rank takes what is its; sums of updates may be of parts of them."""
    x = inst.operands[0].type
    axes = f.of(x.dims)
    lead, looked = _indexed(f, x, axes, attrs.axes, inst.operands[2:])
    if len(looked) > 1:
        for axis in looked:
            f.block(axes[axis])
    along = {number for axis in attrs.axes if axis not in looked for number in axes[axis]}
    for number in (number for axis in lead for number in axis if number not in along):
        if attrs.kind == "add" and not _is_narrow(x):
            f.reduced[number] = "sum"
        else:
            f.blocked.add(number)
    rest = [axis for k, axis in enumerate(axes) if k not in attrs.axes]
    f.operands = [axes, [*lead, *rest], *[lead for _ in attrs.axes]]
    f.results = [axes]


def _is_narrow(type: TensorType) -> bool:
    return type.dtype.is_float and type.dtype.bits < 32


def _dynamic_slice(f: Factors, inst: Inst, attrs: Any) -> None:
    dims = inst.operands[0].type.dims
    _kept(f, inst, [size == dim for size, dim in zip(inst.result.type.dims, dims, strict=True)])


def _dynamic_update(f: Factors, inst: Inst, attrs: Any) -> None:
    dims, update = inst.operands[0].type.dims, inst.operands[1].type.dims
    _kept(f, inst, [size == dim for size, dim in zip(update, dims, strict=True)])
    axes = f.operands[0]
    f.results = [axes]
    f.operands[1] = [
        own if size == dim else f.new(size, blocked=True)
        for own, size, dim in zip(axes, update, dims, strict=True)
    ]


def _dimension_size(f: Factors, inst: Inst, attrs: Any) -> None:
    f.operands, f.results = [f.of(inst.operands[0].type.dims)], [[]]


def _reduce_window(f: Factors, inst: Inst, attrs: Any) -> None:
    fields = (attrs.window, attrs.strides, attrs.low, attrs.high, attrs.base_dilation, attrs.window_dilation)
    _kept(f, inst, [row[:5] == (1, 1, 0, 0, 1) for row in zip(*fields, strict=True)])


def _bind_dim(f: Factors, inst: Inst, attrs: Any) -> None:
    _kept(f, inst, [axis != attrs.axis for axis in range(inst.operands[0].type.rank)])


def _dot(f: Factors, inst: Inst, attrs: Any) -> None:
    lhs, rhs = _types(inst)
    left, right = f.of(lhs.dims), f.of(rhs.dims)
    for a, b in zip(
        (*attrs.lhs_batch, *attrs.lhs_contract), (*attrs.rhs_batch, *attrs.rhs_contract), strict=True
    ):
        right[b] = left[a]
    exact = attrs.out_dtype is attrs.accum_dtype or attrs.accum_dtype.is_float or attrs.accum_dtype.is_complex
    for axis in attrs.lhs_contract:
        if exact and not attrs.accum_dtype.is_bool:
            f.reduced.update(dict.fromkeys(left[axis], "sum"))
        else:
            f.block(left[axis])
    batch = [left[axis] for axis in attrs.lhs_batch]
    left_free = [left[axis] for axis in free_axes(lhs.rank, attrs.lhs_batch, attrs.lhs_contract)]
    right_free = [right[axis] for axis in free_axes(rhs.rank, attrs.rhs_batch, attrs.rhs_contract)]
    f.operands, f.results = [left, right], [[*batch, *left_free, *right_free]]


def _convolution(f: Factors, inst: Inst, attrs: Any) -> None:
    """Examples, features of the result, and features that are summed over; of space what neighbours can lend each other the edges of."""
    lhs, rhs = _types(inst)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, lhs.rank)
    left, right, out = (f.of(dims, blocked=True) for dims in (lhs.dims, rhs.dims, inst.result.type.dims))
    for axis, halo in zip(lhs_axes[2:], halos(inst), strict=True):
        if halo is not None:
            place = out_axes[lhs_axes.index(axis)]
            left[axis] = out[place] = f.new(inst.result.type.dims[place])
            f.shifted.update(left[axis])
    left[lhs_axes[0]] = out[out_axes[0]] = f.new(lhs.dims[lhs_axes[0]])
    if attrs.groups == 1:
        right[rhs_axes[0]] = out[out_axes[1]] = f.new(rhs.dims[rhs_axes[0]])
        left[lhs_axes[1]] = right[rhs_axes[1]] = summed = f.new(lhs.dims[lhs_axes[1]])
        if attrs.out_dtype is attrs.accum_dtype or attrs.accum_dtype.is_float:
            f.reduced.update(dict.fromkeys(summed, "sum"))
        else:
            f.block(summed)
    f.operands, f.results = [left, right], [out]


def halos(inst: Inst) -> list[tuple[int, int] | None]:
    """Of each axis of space of a convolution: how many elements before and behind its part a rank needs; None if it needs other parts than neighbours'."""
    attrs = cast("ops.ConvolutionAttrs", inst.attrs)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, inst.operands[0].type.rank)
    margins: list[tuple[int, int] | None] = []
    for number, (a, b, c) in enumerate(zip(lhs_axes[2:], rhs_axes[2:], out_axes[2:], strict=True)):
        size, window, out = (
            inst.operands[0].type.dims[a],
            inst.operands[1].type.dims[b],
            inst.result.type.dims[c],
        )
        step, low = attrs.strides[number], attrs.low[number]
        if not (isinstance(size, int) and isinstance(window, int) and isinstance(out, int)):
            margins.append(None)
            continue
        behind = (window - 1) * attrs.rhs_dilation[number] + 1 - step - low
        fits = attrs.lhs_dilation[number] == 1 and out * step == size and low >= 0
        margins.append((low, behind) if fits else None)
    return margins


def _matrices(f: Factors, inst: Inst, attrs: Any) -> None:
    """Many matrices side by side, of which each stays whole."""
    count = inst.operands[0].type.rank - 2
    batch = f.of(inst.operands[0].type.dims[:count])
    f.operands = [[*batch, *f.of(value.type.dims[count:], blocked=True)] for value in inst.operands]
    f.results = [[*batch, *f.of(value.type.dims[count:], blocked=True)] for value in inst.results]


def _cond(f: Factors, inst: Inst, attrs: Any) -> None:
    f.operands = [[]]
    f.results = [f.of(value.type.dims) for value in inst.results]
    for region in inst.regions:
        f.inner += zip(region.results, f.results, strict=True)


def _while(f: Factors, inst: Inst, attrs: Any) -> None:
    f.results = f.operands = [f.of(value.type.dims) for value in inst.results]
    condition, body = inst.regions
    for values in (condition.args, body.args, body.results):
        f.inner += zip(values, f.results, strict=True)


def _scan(f: Factors, inst: Inst, attrs: Any) -> None:
    """Carried values keep their spec; sequences and stacks stay whole along the first axis."""
    count, body = attrs.num_carries, inst.regions[0]
    carried = [f.of(value.type.dims) for value in inst.operands[:count]]
    slices = [f.of(value.type.dims[1:]) for value in inst.operands[count:]]
    outputs = [f.of(value.type.dims[1:]) for value in inst.results[count:]]
    f.operands = [*carried, *[[f.new(attrs.length, blocked=True), *axes] for axes in slices]]
    f.results = [*carried, *[[f.new(attrs.length, blocked=True), *axes] for axes in outputs]]
    f.inner = [
        *zip(body.args, [*carried, *slices], strict=True),
        *zip(body.results, [*carried, *outputs], strict=True),
    ]


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("constant", "iota"), _source),
    **dict.fromkeys([op.name for op in ops.REGISTRY.values() if op.key is ops.OpKey.REDUCE], _reduce),
    **dict.fromkeys(("argmax", "argmin"), _arg_reduce),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "top_k"), _along),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), _along),
    **dict.fromkeys(("cholesky", "qr", "svd", "eigh", "lu", "triangular_solve"), _matrices),
    **dict.fromkeys(
        ("quantize", "dequantize", "complex", "real", "imag", "cast", "select", "sharding"), _elementwise
    ),
    "to_device": _to_device,
    "reduce_window": _reduce_window,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "slice": _slice,
    "reverse": _reverse,
    "concat": _concat,
    "pad": _pad,
    "bitcast": _bitcast,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "dimension_size": _dimension_size,
    "bind_dim": _bind_dim,
    "dot_general": _dot,
    "convolution": _convolution,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    **dict.fromkeys(("rng_bits", "nonzero", "unique", "non_max_suppression", "custom_call", "call"), _opaque),
}
"""How each op may be cut; those that work element by element need no entry."""
