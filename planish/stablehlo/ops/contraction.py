"""Sums of products: dot_general, convolution, einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.contraction import einsum as einsum_of
from planish.ptir.ops import DotAttrs, DotDims
from planish.ptir.ops.contract import default_accumulator
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

_LETTERS: Final = "XYZWABDEFGHJKLMPQRSTUV"
"""Names of spatial axes."""


def _dtypes(at: Site, x: V, y: V) -> tuple[V, V, DotAttrs, DType]:
    """Operands of one kind, and the dtypes of sum and result."""
    out = at.dtype
    if x.dtype.is_bool:
        return x, y, DotAttrs(), out
    if (x.dtype.is_float, x.dtype.is_complex) != (out.is_float, out.is_complex) or x.dtype is not y.dtype:
        x, y = cast(x, out), cast(y, out)
    wide = default_accumulator(x.dtype)
    accumulated = out if out.bits > wide.bits or out.is_int else wide
    return x, y, DotAttrs(accum_dtype=accumulated, out_dtype=out), out


def _product(at: Site, x: V, y: V, dims: DotDims) -> V:
    if x.dtype.is_bool and not at.dtype.is_bool:
        x, y = cast(x, at.dtype), cast(y, at.dtype)
    x, y, attrs, out = _dtypes(at, x, y)
    return cast(x.dot_general(y, dims, attrs), out)


@lowering("stablehlo.dot_general")
def dot_general(
    at: Site,
    x: V,
    y: V,
    *,
    dot_dimension_numbers: Mapping[str, Sequence[int]],
    precision_config: Any = (),
    algorithm: Any = None,
) -> V:
    """Products are summed at least in float32 here, whatever precision or algorithm is asked for."""
    axes = dot_dimension_numbers
    return _product(
        at,
        x,
        y,
        DotDims(
            tuple(axes.get("lhs_batching_dimensions", ())),
            tuple(axes.get("lhs_contracting_dimensions", ())),
            tuple(axes.get("rhs_contracting_dimensions", ())),
            tuple(axes.get("rhs_batching_dimensions", ())),
        ),
    )


@lowering("stablehlo.dot")
def dot(at: Site, x: V, y: V, *, precision_config: Any = ()) -> V:
    return _product(at, x, y, DotDims((), (x.rank - 1,), (0,)))


@lowering("stablehlo.einsum")
def einsum(at: Site, x: V, y: V, *, einsum_config: str) -> V:
    return cast(einsum_of(einsum_config, x, y), at.dtype)


@lowering("stablehlo.unary_einsum")
def unary_einsum(at: Site, x: V, *, einsum_config: str) -> V:
    return cast(einsum_of(einsum_config, x), at.dtype)


# --- convolution ------------------------------------------------------------------------------------------


def _layout(axes: Sequence[str], words: Mapping[str, str]) -> str:
    return "".join(words.get(a) or _LETTERS[int(a)] for a in axes)


@lowering("stablehlo.convolution")
def convolution(
    at: Site,
    x: V,
    kernel: V,
    *,
    dimension_numbers: Mapping[str, Sequence[str]],
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    window_strides: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
    precision_config: Any = (),
) -> V:
    axes = dimension_numbers
    space = x.rank - 2
    ones = [1] * space
    turned = [axes["rhs"].index(str(n)) for n, flag in enumerate(window_reversal or ()) if flag]
    if turned:
        kernel = kernel.reverse(turned)
    lhs = _layout(axes["lhs"], {"b": "N", "f": "C"})
    if batch_group_count > 1:
        x = _batch_groups(x, lhs.index("N"), lhs.index("C"), batch_group_count)
        feature_group_count = batch_group_count
    x, kernel, attrs, out = _dtypes(at, x, kernel)
    # lists in StableHLO are in the order of spatial numbers, in PTIR in that of the letters of the operand
    order = [int(a) for a in axes["lhs"] if a not in ("b", "f")]

    def ordered(given: Sequence[Any] | None, default: Sequence[Any]) -> list[Any]:
        values = list(given or default)
        return [values[n] for n in order]

    convolved = x.convolution(
        kernel,
        lhs,
        _layout(axes["rhs"], {"o": "O", "i": "I"}),
        _layout(axes["out"], {"b": "N", "f": "C"}),
        ordered(window_strides, ones),
        ordered(padding, [(0, 0)] * space),
        ordered(lhs_dilation, ones),
        ordered(rhs_dilation, ones),
        feature_group_count,
        attrs,
    )
    return cast(convolved, out)


def _batch_groups(x: V, batch: int, feature: int, groups: int) -> V:
    """Groups of the batch beside each other as groups of features."""
    dims = list(x.dims)
    parts = x.reshape((*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :]))
    order = list(range(parts.rank))
    order.remove(batch)
    order.insert(order.index(feature + (feature > batch)), batch)
    turned = parts.transpose(order)
    dims[batch] = dims[batch] // groups
    dims[feature] = dims[feature] * groups
    return turned.reshape(dims)


@lowering("stablehlo.dynamic_conv")
def dynamic_conv(at: Site, x: V, kernel: V, amounts: V, **attributes: Any) -> V:
    flat = at.sizes(2)
    if not all(isinstance(n, int) for n in flat):
        at.refuse("padding must be known")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    return convolution(at, x, kernel, **{**attributes, "padding": pairs})
