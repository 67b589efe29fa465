"""`GraphValue`: the handle a user holds while building a graph, with a method for every op.

Axes may be negative, single or left out where that has one meaning; the attributes of the op always hold the
normal form. Every mistake raises at the call, with the user's line.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

from planish import dtypes
from planish.dtypes import DType
from planish.errors import Location, PlanishError, ShapeError
from planish.ptir import ops
from planish.ptir.basic_index import Index, plan_index
from planish.ptir.collective_methods import CollectiveMethods
from planish.ptir.handle import ElementwiseMethods, Number, Operand
from planish.ptir.ops.contract import resolve_dtypes
from planish.ptir.ops.definition import OpDef
from planish.ptir.types import Dim, DimLike, Quant, bounds, product

DTypeLike: TypeAlias = DType | str
Axes: TypeAlias = int | Sequence[int] | None
Dims: TypeAlias = DimLike | Sequence[DimLike]


def as_dtype(dtype: DTypeLike) -> DType:
    """The dtype of a name; a name that does not exist points to the user's line."""
    if isinstance(dtype, DType):
        return dtype
    try:
        return dtypes.parse(dtype)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise


def as_dims(dims: Dims) -> tuple[DimLike, ...]:
    """Sizes as attributes hold them: NumPy's integers become plain ones."""
    given = tuple(dims) if isinstance(dims, Sequence) else (dims,)
    return tuple(dim if isinstance(dim, Dim) else operator.index(dim) for dim in given)


class GraphValue(CollectiveMethods):
    """A value of a graph under construction. Methods emit ops; operators do too."""

    __slots__ = ()

    # --- axes ---

    def _fail(self, op: OpDef, message: str, remedy: str | None = None) -> PlanishError:
        return self.graph.located(ShapeError(message, op=op.name, remedy=remedy))

    def _axis(self, op: OpDef, axis: int, rank: int | None = None) -> int:
        rank = self.rank if rank is None else rank
        if not -rank <= axis < rank:
            valid = f"valid axes: {-rank} to {rank - 1}" if rank else "a scalar has no axes"
            raise self._fail(op, f"axis {axis} is out of range for {self.type}", valid)
        return operator.index(axis) % rank

    def _axes(self, op: OpDef, axes: Axes) -> tuple[int, ...]:
        """Normal form: all axes for None, counted from the front."""
        if axes is None:
            return tuple(range(self.rank))
        given = axes if isinstance(axes, Sequence) else (axes,)
        normal = tuple(self._axis(op, axis) for axis in given)
        if len(set(normal)) != len(normal):
            raise self._fail(op, f"axes {tuple(given)} name an axis of {self.type} twice")
        return normal

    def _per_axis(
        self, op: OpDef, what: str, given: Sequence[int] | None, default: int, count: int
    ) -> tuple[int, ...]:
        values = (default,) * count if given is None else tuple(operator.index(v) for v in given)
        if len(values) != count:
            raise self._fail(op, f"{what} has {len(values)} entries, not {count}")
        return values

    def _padding(
        self, op: OpDef, given: Sequence[tuple[int, int]] | None, count: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        pairs = ((0, 0),) * count if given is None else tuple(given)
        if len(pairs) != count:
            raise self._fail(op, f"padding has {len(pairs)} entries, not {count}")
        low, high = zip(*pairs, strict=True) if pairs else ((), ())
        return tuple(map(operator.index, low)), tuple(map(operator.index, high))

    # --- conversions ---

    def cast(self, dtype: DTypeLike) -> GraphValue:
        return self._emit(ops.cast, attrs=ops.CastAttrs(as_dtype(dtype)))

    def bitcast(self, dtype: DTypeLike) -> GraphValue:
        return self._emit(ops.bitcast, attrs=ops.BitcastAttrs(as_dtype(dtype)))

    def quantize(
        self,
        dtype: DTypeLike,
        scale: float | Sequence[float],
        zero_point: int | Sequence[int] = 0,
        axis: int | None = None,
    ) -> GraphValue:
        """Integers of `dtype` standing for (q - zero_point) * scale, one pair in all or one per index of `axis`."""
        if axis is not None:
            axis = self._axis(ops.quantize, axis)
        scales = tuple(float(s) for s in scale) if isinstance(scale, Sequence) else (float(scale),)
        zeros = tuple(zero_point) if isinstance(zero_point, Sequence) else (zero_point,) * len(scales)
        quant = Quant(self.dtype, scales, zeros, axis)
        return self._emit(ops.quantize, attrs=ops.QuantizeAttrs(as_dtype(dtype), quant))

    def dequantize(self) -> GraphValue:
        if self.type.quant is None:
            raise self._fail(ops.dequantize, f"{self.type} is not quantised")
        return self._emit(ops.dequantize, attrs=ops.DequantizeAttrs(self.type.quant))

    # --- movement ---

    def reshape(self, *dims: Dims) -> GraphValue:
        """`reshape(2, 3)` or `reshape((2, 3))`; one size may be -1 and is then computed."""
        wanted = list(as_dims(dims[0]) if len(dims) == 1 else [d for item in dims for d in as_dims(item)])
        if wanted.count(-1) > 1:
            raise self._fail(ops.reshape, f"shape {tuple(wanted)} has more than one -1")
        if -1 in wanted:
            rest = product(d for d in wanted if d != -1)
            if bounds(rest)[0] < 1:
                raise self._fail(ops.reshape, f"-1 is not determined in {tuple(wanted)} with an empty axis")
            wanted[wanted.index(-1)] = self.type.size // rest
        return self._emit(ops.reshape, attrs=ops.ReshapeAttrs(tuple(wanted)))

    def expand_dims(self, axis: int) -> GraphValue:
        """A new axis of size 1, at that position of the result."""
        position = self._axis(ops.reshape, axis, self.rank + 1)
        return self.reshape((*self.dims[:position], 1, *self.dims[position:]))

    def squeeze(self, axes: Axes) -> GraphValue:
        """Without some axes of size 1."""
        gone = self._axes(ops.reshape, axes)
        for axis in gone:
            if self.dims[axis] != 1:
                raise self._fail(ops.reshape, f"axis {axis} of {self.type} cannot be squeezed: it is not 1")
        return self.reshape([dim for axis, dim in enumerate(self.dims) if axis not in gone])

    def transpose(self, perm: Sequence[int] | None = None) -> GraphValue:
        """Axes in another order; reversed when none is given."""
        order = range(self.rank)[::-1] if perm is None else perm
        attrs = ops.TransposeAttrs(tuple(self._axis(ops.transpose, axis) for axis in order))
        return self._emit(ops.transpose, attrs=attrs)

    def broadcast_to(self, *dims: Dims) -> GraphValue:
        wanted = as_dims(dims[0]) if len(dims) == 1 else tuple(d for item in dims for d in as_dims(item))
        return self._emit(ops.broadcast_to, attrs=ops.BroadcastToAttrs(wanted))

    def broadcast_like(self, other: ElementwiseMethods) -> GraphValue:
        """Broadcast to the shape of another value."""
        return self.broadcast_to(other.dims)

    def slice(
        self, starts: Sequence[DimLike], limits: Sequence[DimLike], strides: Sequence[int] | None = None
    ) -> GraphValue:
        steps = self._per_axis(ops.slice_, "strides", strides, 1, self.rank)
        return self._emit(ops.slice_, attrs=ops.SliceAttrs(as_dims(starts), as_dims(limits), steps))

    def __getitem__(self, index: Index) -> GraphValue:
        """NumPy's basic indexing: ints, slices, None and `...`."""
        try:
            plan = plan_index(self.type, index)
        except PlanishError as error:
            raise self.graph.located(error) from None
        result = self.slice(plan.starts, plan.limits, plan.strides)
        if plan.reversed_axes:
            result = result.reverse(plan.reversed_axes)
        return result if tuple(plan.dims) == result.dims else result.reshape(plan.dims)

    def reverse(self, axes: Axes = None) -> GraphValue:
        return self._emit(ops.reverse, attrs=ops.ReverseAttrs(tuple(sorted(self._axes(ops.reverse, axes)))))

    def concat(self, others: Sequence[ElementwiseMethods], axis: int = 0) -> GraphValue:
        """This value and others one after the other along an axis."""
        return self._emit(ops.concat, *others, attrs=ops.ConcatAttrs(self._axis(ops.concat, axis)))

    def pad(
        self,
        low: Sequence[DimLike],
        high: Sequence[DimLike],
        interior: Sequence[int] | None = None,
        value: ElementwiseMethods | Number = 0,
    ) -> GraphValue:
        filler = value if isinstance(value, ElementwiseMethods) else self.graph.full((), value, self.dtype)
        between = self._per_axis(ops.pad, "interior", interior, 0, self.rank)
        return self._emit(ops.pad, filler, attrs=ops.PadAttrs(as_dims(low), as_dims(high), between))

    # --- indexing ---

    def gather(self, indices: Sequence[ElementwiseMethods], axes: Axes) -> GraphValue:
        """Elements at index arrays (one per axis of `axes`): index axes first, then the other axes."""
        return self._emit(ops.gather, *indices, attrs=ops.GatherAttrs(self._axes(ops.gather, axes)))

    def take(self, index: ElementwiseMethods, axis: int) -> GraphValue:
        """Slices of one axis picked by an index array, in place of that axis."""
        position = self._axis(ops.gather, axis)
        front = self.gather([index], position)
        lead = list(range(index.rank))
        rest = list(range(index.rank, front.rank))
        perm = rest[:position] + lead + rest[position:]
        return front if perm == sorted(perm) else front.transpose(perm)

    def scatter(
        self,
        updates: ElementwiseMethods,
        indices: Sequence[ElementwiseMethods],
        axes: Axes,
        kind: str = "replace",
        unique_indices: bool = False,
    ) -> GraphValue:
        """With updates written (or added, multiplied, …) at index arrays; the inverse of `gather`."""
        attrs = ops.ScatterAttrs(self._axes(ops.scatter, axes), kind, unique_indices)
        return self._emit(ops.scatter, updates, *indices, attrs=attrs)

    def _starts(self, starts: Sequence[ElementwiseMethods | int]) -> list[ElementwiseMethods]:
        dtype = next((s.dtype for s in starts if isinstance(s, ElementwiseMethods)), dtypes.int64)
        return [s if isinstance(s, ElementwiseMethods) else self.graph.full((), s, dtype) for s in starts]

    def dynamic_slice(
        self, starts: Sequence[ElementwiseMethods | int], sizes: Sequence[DimLike]
    ) -> GraphValue:
        attrs = ops.DynamicSliceAttrs(as_dims(sizes))
        return self._emit(ops.dynamic_slice, *self._starts(starts), attrs=attrs)

    def dynamic_update_slice(
        self, update: ElementwiseMethods, starts: Sequence[ElementwiseMethods | int]
    ) -> GraphValue:
        return self._emit(ops.dynamic_update_slice, update, *self._starts(starts))

    # --- reductions ---

    def _reduce(self, op: OpDef, axes: Axes, keepdims: bool) -> GraphValue:
        return self._emit(op, attrs=ops.ReduceAttrs(tuple(sorted(self._axes(op, axes))), keepdims))

    def reduce_sum(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_sum, axes, keepdims)

    def reduce_prod(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_prod, axes, keepdims)

    def reduce_max(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_max, axes, keepdims)

    def reduce_min(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_min, axes, keepdims)

    def reduce_and(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_and, axes, keepdims)

    def reduce_or(self, axes: Axes = None, keepdims: bool = False) -> GraphValue:
        return self._reduce(ops.reduce_or, axes, keepdims)

    def argmax(self, axis: int, keepdims: bool = False, dtype: DTypeLike = dtypes.int64) -> GraphValue:
        attrs = ops.ArgReduceAttrs(self._axis(ops.argmax, axis), keepdims, as_dtype(dtype))
        return self._emit(ops.argmax, attrs=attrs)

    def argmin(self, axis: int, keepdims: bool = False, dtype: DTypeLike = dtypes.int64) -> GraphValue:
        attrs = ops.ArgReduceAttrs(self._axis(ops.argmin, axis), keepdims, as_dtype(dtype))
        return self._emit(ops.argmin, attrs=attrs)

    def _cumulative(self, op: OpDef, axis: int, reverse: bool, exclusive: bool) -> GraphValue:
        return self._emit(op, attrs=ops.CumulativeAttrs(self._axis(op, axis), reverse, exclusive))

    def cumsum(self, axis: int, reverse: bool = False, exclusive: bool = False) -> GraphValue:
        return self._cumulative(ops.cumsum, axis, reverse, exclusive)

    def cumprod(self, axis: int, reverse: bool = False, exclusive: bool = False) -> GraphValue:
        return self._cumulative(ops.cumprod, axis, reverse, exclusive)

    def cummax(self, axis: int, reverse: bool = False, exclusive: bool = False) -> GraphValue:
        return self._cumulative(ops.cummax, axis, reverse, exclusive)

    def cummin(self, axis: int, reverse: bool = False, exclusive: bool = False) -> GraphValue:
        return self._cumulative(ops.cummin, axis, reverse, exclusive)

    def reduce_window(
        self,
        kind: str,
        window: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
    ) -> GraphValue:
        """Combine each window by "sum", "prod", "max" or "min"; lists have one entry per axis."""
        op = ops.reduce_window
        low, high = self._padding(op, padding, self.rank)
        attrs = ops.ReduceWindowAttrs(
            kind,
            self._per_axis(op, "window", window, 1, self.rank),
            self._per_axis(op, "strides", strides, 1, self.rank),
            low,
            high,
            self._per_axis(op, "base_dilation", base_dilation, 1, self.rank),
            self._per_axis(op, "window_dilation", window_dilation, 1, self.rank),
        )
        return self._emit(op, attrs=attrs)

    # --- contractions ---

    def dot_general(
        self, rhs: GraphValue, dims: ops.DotDims, attrs: ops.DotAttrs | None = None
    ) -> GraphValue:
        """Sum of products over the contracted axes; result axes: batch, left free, right free."""
        op = ops.dot_general
        wanted = ops.DotAttrs() if attrs is None else attrs
        accum, out = resolve_dtypes(self.dtype, rhs.dtype, wanted.accum_dtype, wanted.out_dtype)
        general = ops.DotGeneralAttrs(
            self._axes(op, dims.batch),
            rhs._axes(op, dims.batch if dims.rhs_batch is None else dims.rhs_batch),
            self._axes(op, dims.lhs_contract),
            rhs._axes(op, dims.rhs_contract),
            accum,
            out,
        )
        return self._emit(op, rhs, attrs=general)

    def matmul(self, rhs: GraphValue, attrs: ops.DotAttrs | None = None) -> GraphValue:
        """Matrix product of the last two axes; leading axes are batch and must be equal."""
        if self.rank < 2 or rhs.rank != self.rank:
            raise self._fail(
                ops.dot_general, f"{self.type} and {rhs.type} are not matrices of one batch shape"
            )
        batch = tuple(range(self.rank - 2))
        return self.dot_general(rhs, ops.DotDims(batch, (self.rank - 1,), (self.rank - 2,)), attrs)

    def __matmul__(self, rhs: GraphValue) -> GraphValue:
        return self.matmul(rhs)

    def convolution(
        self,
        kernel: GraphValue,
        lhs_layout: str = "NCHW",
        rhs_layout: str = "OIHW",
        out_layout: str | None = None,
        strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        groups: int = 1,
        attrs: ops.DotAttrs | None = None,
    ) -> GraphValue:
        """Cross-correlation; lists have one entry per spatial axis in the order of `lhs_layout`."""
        op = ops.convolution
        space = max(self.rank - 2, 0)
        low, high = self._padding(op, padding, space)
        wanted = ops.DotAttrs() if attrs is None else attrs
        accum, out = resolve_dtypes(self.dtype, kernel.dtype, wanted.accum_dtype, wanted.out_dtype)
        general = ops.ConvolutionAttrs(
            self._per_axis(op, "strides", strides, 1, space),
            low,
            high,
            self._per_axis(op, "lhs_dilation", lhs_dilation, 1, space),
            self._per_axis(op, "rhs_dilation", rhs_dilation, 1, space),
            groups,
            lhs_layout,
            rhs_layout,
            lhs_layout if out_layout is None else out_layout,
            accum,
            out,
        )
        return self._emit(op, kernel, attrs=general)

    # --- order ---

    def sort(self, axis: int = -1, descending: bool = False) -> GraphValue:
        return self._emit(ops.sort, attrs=ops.SortAttrs(self._axis(ops.sort, axis), descending))

    def argsort(self, axis: int = -1, descending: bool = False) -> GraphValue:
        return self._emit(ops.argsort, attrs=ops.ArgsortAttrs(self._axis(ops.argsort, axis), descending))

    def sort_with(
        self,
        others: Sequence[ElementwiseMethods],
        axis: int = -1,
        descending: bool = False,
        num_keys: int = 1,
    ) -> tuple[GraphValue, ...]:
        """Several values sorted together by the first `num_keys` of them, this one first."""
        attrs = ops.SortAttrs(self._axis(ops.sort, axis), descending, num_keys)
        return self._emit_many(ops.sort, others, attrs)

    def top_k(
        self, k: DimLike, axis: int = -1, largest: bool = True, dtype: DTypeLike = dtypes.int64
    ) -> tuple[GraphValue, GraphValue]:
        """Values and indices."""
        attrs = ops.TopKAttrs(k, self._axis(ops.top_k, axis), largest, as_dtype(dtype))
        values, indices = self._emit_many(ops.top_k, (), attrs)
        return values, indices

    # --- sizes ---

    def dimension_size(self, axis: int) -> GraphValue:
        axis = self._axis(ops.dimension_size, axis)
        return self._emit(ops.dimension_size, attrs=ops.DimensionSizeAttrs(axis))

    def bind_dim(
        self, count: ElementwiseMethods, axis: int, name: str, lo: int = 0, hi: int | None = None
    ) -> GraphValue:
        """The first `count` entries of an axis, whose size becomes the fresh dim `name in lo..hi`."""
        axis = self._axis(ops.bind_dim, axis)
        highest = bounds(self.dims[axis])[1] if hi is None else hi
        return self._emit(ops.bind_dim, count, attrs=ops.BindDimAttrs(axis, name, lo, highest))

    def nonzero(self, size: DimLike | None = None) -> tuple[GraphValue, GraphValue]:
        """Positions (one row per axis) and their count."""
        attrs = ops.NonzeroAttrs(self.type.size if size is None else size)
        positions, count = self._emit_many(ops.nonzero, (), attrs)
        return positions, count

    def unique(self, size: DimLike | None = None, axis: int | None = None) -> tuple[GraphValue, ...]:
        """Values, first occurrences, inverse, counts, and how many there are."""
        if axis is not None:
            axis = self._axis(ops.unique, axis)
        if size is None:
            size = self.type.size if axis is None else self.dims[axis]
        return self._emit_many(ops.unique, (), ops.UniqueAttrs(size, axis))

    def non_max_suppression(
        self,
        scores: ElementwiseMethods,
        max_boxes: int,
        overlap: ElementwiseMethods | float,
        threshold: ElementwiseMethods | float,
        limit: ElementwiseMethods | None = None,
        center_point_box: bool = False,
    ) -> tuple[GraphValue, GraphValue]:
        """Rows (batch, class, box) kept of these boxes, and their count."""
        full = self.graph.full
        overlap, threshold = (
            x if isinstance(x, ElementwiseMethods) else full((), x, self.dtype) for x in (overlap, threshold)
        )
        limit = full((), max_boxes, dtypes.int64) if limit is None else limit
        attrs = ops.NonMaxSuppressionAttrs(max_boxes, center_point_box)
        rows, count = self._emit_many(ops.non_max_suppression, (scores, limit, overlap, threshold), attrs)
        return rows, count

    # --- random bits ---

    def rng_bits(self, dims: Dims, dtype: DTypeLike = dtypes.uint32) -> GraphValue:
        """Random bits for this key."""
        return self._emit(ops.rng_bits, attrs=ops.RngBitsAttrs(as_dtype(dtype), as_dims(dims)))

    # --- linear algebra and transforms ---

    def cholesky(self, lower: bool = True) -> GraphValue:
        return self._emit(ops.cholesky, attrs=ops.CholeskyAttrs(lower))

    def qr(self, full_matrices: bool = False) -> tuple[GraphValue, GraphValue]:
        q, r = self._emit_many(ops.qr, (), ops.QrAttrs(full_matrices))
        return q, r

    def svd(self, full_matrices: bool = False, compute_uv: bool = True) -> tuple[GraphValue, ...]:
        return self._emit_many(ops.svd, (), ops.SvdAttrs(full_matrices, compute_uv))

    def eigh(self, lower: bool = True) -> tuple[GraphValue, GraphValue]:
        values, vectors = self._emit_many(ops.eigh, (), ops.EighAttrs(lower))
        return values, vectors

    def lu(self) -> tuple[GraphValue, GraphValue]:
        packed, permutation = self._emit_many(ops.lu)
        return packed, permutation

    def triangular_solve(
        self,
        rhs: ElementwiseMethods,
        left: bool = True,
        lower: bool = True,
        transform: str = "none",
        unit_diagonal: bool = False,
    ) -> GraphValue:
        """x with op(self)·x = rhs, or x·op(self) = rhs."""
        attrs = ops.TriangularSolveAttrs(left, lower, transform, unit_diagonal)
        return self._emit(ops.triangular_solve, rhs, attrs=attrs)

    def fft(self, axes: Axes = -1) -> GraphValue:
        return self._emit(ops.fft, attrs=ops.FftAttrs(self._axes(ops.fft, axes)))

    def ifft(self, axes: Axes = -1) -> GraphValue:
        return self._emit(ops.ifft, attrs=ops.FftAttrs(self._axes(ops.ifft, axes)))

    def rfft(self, axes: Axes = -1) -> GraphValue:
        return self._emit(ops.rfft, attrs=ops.FftAttrs(self._axes(ops.rfft, axes)))

    def irfft(self, length: DimLike, axes: Axes = -1) -> GraphValue:
        return self._emit(ops.irfft, attrs=ops.IrfftAttrs(self._axes(ops.irfft, axes), length))


__all__ = ["Axes", "DTypeLike", "Dims", "GraphValue", "Number", "Operand", "as_dims", "as_dtype"]
