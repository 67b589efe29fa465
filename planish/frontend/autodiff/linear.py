"""Ops that are linear in operands: the tangent of the result is the op on tangents; cotangents go back by the transposed op.

`Linear.joint` ops are linear in several operands together (concat), the others in each by itself (dot_general).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planish.dtypes import DType
from planish.frontend.autodiff.contraction import transposed_convolution, transposed_dot
from planish.frontend.autodiff.instruction import RuleSite, added, is_differentiable, where, zeros
from planish.frontend.replay import clamped, dim_value
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.ops.numerics import part_dtype

Back = Callable[[RuleSite, V, int], V]
"""The cotangent of operand n, from that of the result."""


@dataclass(frozen=True, slots=True)
class Linearity:
    """How an op is linear."""

    transposed: Back
    positions: tuple[int, ...] | None = (0,)
    """The operands it is linear in; None: all."""
    joint: bool = False
    pushed: Callable[[RuleSite, V], V] | None = None
    """The op on the tangent of its first operand, where that is not the op itself."""

    def push(self, at: RuleSite, given: Sequence[V | None]) -> V | None:
        """The tangent of the result."""
        places = range(len(at.x)) if self.positions is None else self.positions
        moving = {n: t for n in places if (t := given[n]) is not None}
        if not moving or not is_differentiable(at.inst.results[0].type):
            return None
        if self.pushed is not None:
            return self.pushed(at, moving[0])
        if self.joint:
            operands = [
                moving[n] if n in moving else zeros(at.graph, x.type) if n in places else x
                for n, x in enumerate(at.x)
            ]
            return at.graph.emit(at.inst.op, operands, at.inst.attrs)
        total: V | None = None
        for n, t in moving.items():
            operands = [t if k == n else x for k, x in enumerate(at.x)]
            total = added(total, at.graph.emit(at.inst.op, operands, at.inst.attrs))
        return total

    def pull(self, at: RuleSite, cotangent: V, needs: Sequence[bool]) -> list[tuple[int, V]]:
        """The cotangents of the operands that need one."""
        places = range(len(at.x)) if self.positions is None else self.positions
        return [(n, self.transposed(at, cotangent, n)) for n in places if needs[n]]


# -- movement --------------------------------------------------------------------------------------------------


def _transpose(at: RuleSite, c: V, n: int) -> V:
    perm = at.attrs.perm
    return c.transpose([perm.index(axis) for axis in range(len(perm))])


def _broadcast(at: RuleSite, c: V, n: int) -> V:
    dims = at.x[0].dims
    lead = c.rank - len(dims)
    axes = [*range(lead), *(lead + k for k, dim in enumerate(dims) if dim != c.dims[lead + k])]
    return c.reduce_sum(axes).reshape(dims) if axes else c


def _slice(at: RuleSite, c: V, n: int) -> V:
    attrs, x = at.attrs, at.x[0]
    if 0 in c.dims:
        return zeros(at.graph, x.type)
    if any(step > 1 and not isinstance(size, int) for size, step in zip(c.dims, attrs.strides, strict=True)):
        return _put_slice(at, c)
    # the last element read stands (size - 1) · step after the first
    spread = [(size - 1) * step + 1 for size, step in zip(c.dims, attrs.strides, strict=True)]
    high = [dim - start - reach for dim, start, reach in zip(x.dims, attrs.starts, spread, strict=True)]
    return c.pad(attrs.starts, high, [step - 1 for step in attrs.strides])


def _put_slice(at: RuleSite, c: V) -> V:
    """By index: a size that may be 0 cannot be spread, and where its last element is cannot be said in sizes."""
    indices = []
    for axis, (start, step) in enumerate(zip(at.attrs.starts, at.attrs.strides, strict=True)):
        first = dim_value(at.graph, start).broadcast_to(c.dims)
        indices.append(at.graph.iota(c.dims, axis).mul(step).add(first))
    return zeros(at.graph, at.x[0].type).scatter(c, indices, range(c.rank), "add", unique_indices=True)


def _concat(at: RuleSite, c: V, n: int) -> V:
    axis = at.attrs.axis
    start: DimLike = 0
    for x in at.x[:n]:
        start = start + x.dims[axis]
    starts: list[DimLike] = [0] * c.rank
    limits = list(c.dims)
    starts[axis], limits[axis] = start, start + at.x[n].dims[axis]
    return c.slice(starts, limits)


def _pad(at: RuleSite, c: V, n: int) -> V:
    attrs = at.attrs
    inner = c.pad([-low for low in attrs.low], [-high for high in attrs.high])
    if any(attrs.interior):
        inner = inner.slice([0] * c.rank, inner.dims, [gap + 1 for gap in attrs.interior])
    if n == 0:
        return inner
    # what came from the operand is not the padding's: summed up apart, as a difference of sums would cancel
    ones = at.graph.full(at.x[0].dims, True, "bool")
    own = at.graph.emit(ops.pad, (ones, at.graph.full((), False, "bool")), attrs)
    return where(own.not_(), c).reduce_sum()


def kept(at: RuleSite, value: V) -> V:
    """A reduced value with its axes of size 1."""
    axes = at.attrs.axes
    return value.reshape([1 if axis in axes else dim for axis, dim in enumerate(at.x[0].dims)])


def _bound_size(at: RuleSite, t: V) -> V:
    """What the op keeps of an axis, by the name that it has given to the size."""
    return t.slice([0] * t.rank, at.y[0].dims)


def _bind_dim(at: RuleSite, c: V, n: int) -> V:
    high = [dim - bound for dim, bound in zip(at.x[0].dims, c.dims, strict=True)]
    return c.pad([0] * c.rank, high)


# -- numbers ---------------------------------------------------------------------------------------------------


def _cast(at: RuleSite, c: V, n: int) -> V:
    target = at.x[0].dtype
    if c.dtype.is_complex and not target.is_complex:
        c = c.real()
    return c if c.dtype is target else c.cast(target)


def is_linear_bitcast(source: DType, target: DType) -> bool:
    """Whether a bitcast only parts complex numbers, joins them, or does nothing. All others end a derivative."""
    wide, narrow = (source, target) if source.is_complex else (target, source)
    return source is target or (wide.is_complex and part_dtype(wide) is narrow)


# -- indexing --------------------------------------------------------------------------------------------------


def _gather(at: RuleSite, c: V, n: int) -> V:
    x, *indices = at.x
    axes = at.attrs.axes
    return zeros(at.graph, x.type).scatter(c, clamped(x, indices, axes), axes, "add")


def _dynamic_update(at: RuleSite, c: V, n: int) -> V:
    update, starts = at.x[1], at.x[2:]
    if n == 0:
        return c.dynamic_update_slice(zeros(at.graph, update.type), starts)
    return c.dynamic_slice(starts, update.dims)


# -- Fourier transforms ----------------------------------------------------------------------------------------


def _count(value: V, axes: Sequence[int]) -> V:
    """The number of elements along the transformed axes, in the shape of a value."""
    total: DimLike = 1
    for axis in axes:
        total = total * value.dims[axis]
    if isinstance(total, int):
        return value.graph.full(value.dims, float(total), value.dtype)
    sizes = value.graph.full((), 1, "int64")
    for axis in axes:
        sizes = sizes.mul(value.dimension_size(axis))
    return sizes.cast(value.dtype).broadcast_to(value.dims)


def _rfft(at: RuleSite, c: V, n: int) -> V:
    """As if the other half of the spectrum, which is not there, had no cotangent."""
    axis, x = at.attrs.axes[-1], at.x[0]
    high: list[DimLike] = [0] * c.rank
    high[axis] = x.dims[axis] - c.dims[axis]
    back = c.pad([0] * c.rank, high).ifft(at.attrs.axes).real()
    return back.mul(_count(back, at.attrs.axes))


def _irfft(at: RuleSite, c: V, n: int) -> V:
    """The spectrum of the cotangent; what stands for two frequencies counts twice."""
    axes: tuple[int, ...] = at.attrs.axes
    axis = axes[-1]
    spectrum = c.div(_count(c, axes)).rfft(axes)
    place = at.graph.iota(spectrum.dims, axis)
    length = c.dimension_size(axis).broadcast_to(spectrum.dims)
    single = place.eq(0).or_(place.mul(2).eq(length))
    return single.select(spectrum, spectrum.mul(2.0))


LINEAR: Final[Mapping[str, Linearity]] = {
    "reshape": Linearity(lambda at, c, n: c.reshape(at.x[0].dims)),
    "transpose": Linearity(_transpose),
    "broadcast_to": Linearity(_broadcast),
    "slice": Linearity(_slice),
    "reverse": Linearity(lambda at, c, n: c.reverse(at.attrs.axes)),
    "concat": Linearity(_concat, None, joint=True),
    "pad": Linearity(_pad, (0, 1), joint=True),
    "bind_dim": Linearity(_bind_dim, pushed=_bound_size),
    "reduce_sum": Linearity(lambda at, c, n: kept(at, c).broadcast_to(at.x[0].dims)),
    "cumsum": Linearity(lambda at, c, n: c.cumsum(at.attrs.axis, not at.attrs.reverse, at.attrs.exclusive)),
    "select": Linearity(lambda at, c, n: where(at.x[0] if n == 1 else at.x[0].not_(), c), (1, 2), joint=True),
    "cast": Linearity(_cast),
    "bitcast": Linearity(lambda at, c, n: c.bitcast(at.x[0].dtype)),
    "conj": Linearity(lambda at, c, n: c.conj()),
    "real": Linearity(lambda at, c, n: c.complex(zeros(at.graph, c.type))),
    "imag": Linearity(lambda at, c, n: zeros(at.graph, c.type).complex(c)),
    "complex": Linearity(lambda at, c, n: c.real() if n == 0 else c.imag(), (0, 1), joint=True),
    "dot_general": Linearity(transposed_dot, (0, 1)),
    "convolution": Linearity(transposed_convolution, (0, 1)),
    "gather": Linearity(_gather),
    "dynamic_slice": Linearity(
        lambda at, c, n: zeros(at.graph, at.x[0].type).dynamic_update_slice(c, at.x[1:])
    ),
    "dynamic_update_slice": Linearity(_dynamic_update, (0, 1), joint=True),
    "fft": Linearity(lambda at, c, n: c.ifft(at.attrs.axes).mul(_count(c, at.attrs.axes))),
    "ifft": Linearity(lambda at, c, n: c.fft(at.attrs.axes).div(_count(c, at.attrs.axes))),
    "rfft": Linearity(_rfft),
    "irfft": Linearity(_irfft),
}
