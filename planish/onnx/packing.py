"""Packing of constant weights: products read them in the layout that suits their number of rows.

    x (M, K) · w (K, N)  ->  reshape(x · panels (N / 32, K, 32), (M, N))

Few rows are sums along the rows of a turned matrix, at the speed of memory; more are tiles of registers as wide as a panel. Matrices
that the nearest cache holds stay as they are. Kernels of convolutions have the channels
of a register tile side by side, tap after tap, and are interpolated where that saves time (`winograd.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from numpy.typing import NDArray

from planish import dtypes, ptir, target
from planish.onnx.weight_layouts import AS_IT_IS, TURNED, WeightLayouts, channels, interpolated_along, panels
from planish.onnx.winograd import best_axis
from planish.ptir import ops
from planish.ptir.builder import Graph
from planish.ptir.dims import bounds, product
from planish.ptir.function import Inst, Value, clone_region_body
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.interpolated_convolution import convolved, interpolation
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs
from planish.ptir.ops.movement import ReshapeAttrs, SliceAttrs
from planish.ptir.rewrite.rewriter import ProgramRewriter

Array = NDArray[Any]
_VECTORS: Final = 2
"""Vector registers across a panel: what tiles of registers are wide, on any machine that has them."""


def packed(
    function: ptir.Function, arrays: Sequence[Array], fixed: Sequence[bool], layouts: WeightLayouts
) -> list[Array]:
    """The arguments of the function, which is changed in place: products read `fixed` matrices as `layouts` has them."""
    machine = target.host()
    width = _VECTORS * machine.register_bytes // dtypes.float32.itemsize
    held = {
        value: array
        for value, array, is_fixed in zip(function.params, arrays, fixed, strict=True)
        if is_fixed
    }
    _add_parts(function, held, layouts)
    every, added = list(arrays), dict[tuple[int, str], Value]()
    rewriter = ProgramRewriter(function, pattern="pack weights")

    def parameter(value: Value, layout: str) -> Value:
        """A weight in a layout."""
        source = held[value]
        if (id(source), layout) not in added:
            array = layouts.of(source, layout)
            every.append(array)
            kind = replace(value.type, dims=array.shape)
            added[id(source), layout] = function.body.add_arg(kind, f"x{len(every) - 1}")
        return added[id(source), layout]

    for inst in list(function.walk()):
        if len(inst.operands) < 2 or inst.operands[1] not in held:
            continue
        if inst.op is ops.convolution:
            _convolve(rewriter, inst, machine, partial(parameter, inst.operands[1]))
        elif inst.op is ops.dot_general and (layout := _layout(inst, width, machine)) is not None:
            _reading(rewriter, inst, parameter(inst.operands[1], layout))
    return every


def _add_parts(function: ptir.Function, held: dict[Value, Array], layouts: WeightLayouts) -> None:
    """Parts of weights that lie in one piece, and weights of another shape, are weights too."""
    for inst in function.body:
        if inst.op not in (ops.reshape, ops.slice_) or inst.operands[0] not in held:
            continue
        whole, attrs, named = held[inst.operands[0]], inst.attrs, inst.results[0].type.dims
        dims = [dim for dim in named if isinstance(dim, int)]
        if len(dims) < len(named) or not whole.flags.c_contiguous:
            continue
        if isinstance(attrs, SliceAttrs):
            parts = zip(attrs.starts, attrs.limits, attrs.strides, strict=True)
            view = whole[tuple(slice(*part) for part in parts)]
        else:
            view = whole.reshape(dims)
        if view.flags.c_contiguous:
            held[inst.results[0]] = layouts.part(view)


def _layout(inst: Inst, width: int, machine: target.Target) -> str | None:
    """The layout in which a product should read its right side; None if that is the one it has."""
    left, right = (value.type for value in inst.operands)
    attrs = inst.attrs
    if not isinstance(attrs, DotGeneralAttrs) or attrs.rhs_batch or len(right.dims) != 2:
        return None
    if left.dtype is not dtypes.float32 or right.dtype is not dtypes.float32 or len(attrs.rhs_contract) != 1:
        return None
    size = math.prod(bounds(dim)[1] for dim in right.dims) * right.dtype.itemsize
    if size <= machine.caches[0]:
        return None
    over = attrs.rhs_contract[0]
    rows = product(dim for axis, dim in enumerate(left.dims) if axis not in attrs.lhs_contract)
    if isinstance(rows, int) and rows <= machine.turned_rows:
        return TURNED if over == 0 else None
    columns = right.dims[1 - over]
    fits = isinstance(columns, int) and columns % width == 0 and _is_in_order(inst.operands[0])
    return panels(width, turned=over == 1) if fits else None


def _convolve(
    rewriter: ProgramRewriter, inst: Inst, machine: target.Target, weight: Callable[[str], Value]
) -> None:
    """A convolution whose kernel has the channels of a register tile side by side, and fewer products where that is worth it."""
    attrs, image, kernel = inst.attrs, inst.operands[0].type, inst.operands[1].type
    if not isinstance(attrs, ConvolutionAttrs) or not attrs.rhs_layout.startswith("OI"):
        return
    if kernel.dtype is not dtypes.float32 or not kernel.is_static or set(attrs.lhs_dilation) != {1}:
        return
    lanes, each = machine.lanes(dtypes.float32), kernel.shape[0] // attrs.groups
    width = next((n * lanes for n in (_VECTORS, 1) if each % (n * lanes) == 0), 0) if lanes > 1 else 0
    terms = math.prod(kernel.shape[1:])
    if max(attrs.strides, default=1) > machine.far_stride:
        width = 0
    if terms < machine.crosswise_terms * (machine.crosswise_added if _is_added(inst.results[0]) else 1):
        width = 0
    layout = channels(width) if width else AS_IT_IS
    axis = best_axis(inst, machine)
    matrices = None if axis is None else interpolation(kernel.shape[axis])
    if axis is not None and matrices is not None:
        layout = interpolated_along(axis, layout)
    if not layout:
        return
    value = weight(layout)
    graph = Graph("convolution")
    x, w = graph.input("x", image), graph.input("w", value.type)
    w = _unpacked(w) if width else w
    if axis is not None and matrices is not None:
        output = convolved(x, w, attrs, axis, matrices)
    else:
        output = graph.emit(ops.convolution, (x, w), attrs)
    body = graph.build(output).body
    for step in body:
        step.loc = inst.loc
    mapping = dict(zip(body.args, (inst.operands[0], value), strict=True))
    rewriter.replace_op(inst, *clone_region_body(body, inst, mapping))


def _is_added(value: Value) -> bool:
    """Whether another tensor is added to it, maybe after numbers per channel."""
    for user in value.users:
        if user.op is not ops.add:
            continue
        (other,) = (
            (each for each in user.operands if each is not value)
            if user.operands.count(value) == 1
            else (value,)
        )
        definition = other.def_inst
        if definition is None or definition.op not in (ops.broadcast_to, ops.constant):
            return True
        if _is_added(user.results[0]):
            return True
    return False


def _unpacked(kernel: GraphValue) -> GraphValue:
    """(O / width, I, …, width) as (O, I, …): where it is read, not in memory."""
    blocks, *others, width = kernel.dims
    turned = kernel.transpose((0, kernel.rank - 1, *range(1, kernel.rank - 1)))
    return turned.reshape((blocks * width, *others))


def _is_in_order(value: Value) -> bool:
    """Whether rows are read as they lie in memory.

    Heads that are put side by side while they are read are sums over two axes; a third on the other side leaves no tile of registers
    that suits.
    """
    inst = value.def_inst
    while inst is not None and inst.op is ops.reshape:
        inst = inst.operands[0].def_inst
    return inst is None or inst.op is not ops.transpose


def _reading(rewriter: ProgramRewriter, inst: Inst, weight: Value) -> None:
    """The product, of a weight in another layout. A panel's middle axis is summed, a turned matrix's last."""
    attrs = inst.attrs
    if not isinstance(attrs, DotGeneralAttrs):
        return
    own = replace(attrs, rhs_contract=(1,))
    dot = rewriter.insert_before(inst, ops.dot_general, (inst.operands[0], weight), own).results[0]
    dims = inst.results[0].type.dims
    if dot.type.dims != dims:
        dot = rewriter.insert_before(inst, ops.reshape, (dot,), ReshapeAttrs(dims)).results[0]
    rewriter.replace_op(inst, dot)
