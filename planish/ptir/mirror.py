"""The same function on tensors whose axes are in reverse order.

A tensor stored column by column is, in memory, its mirror image stored row by row: `mirrored(f)` on row-major buffers is `f`
on column-major ones, bit for bit. Where an op has a mirror image (elementwise ops, reductions, slices, matmuls,
convolutions …) the values in between are mirrored as well; where it has none (reshape, gather, ops with regions …) its
operands are turned back before it and its results after it. Parameters and results always are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

import numpy as np

from planish.ptir import ops
from planish.ptir.function import Function, Inst, Region, Value, clone_region_body
from planish.ptir.ops.definition import Attrs, ConstantAttrs, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.types import TensorType

T = TypeVar("T")


def mirrored(function: Function) -> Function:
    """The function on mirror images of its parameters and results."""
    image = Function(function.name, loc=function.loc)
    mirror = _Mirror(image.body)
    for param in function.params:
        mirror.turned[param] = image.body.add_arg(turned_type(param.type), param.name)
    for inst in function:
        mirror.visit(inst)
    image.body.set_results([mirror.turn(value) for value in function.results])
    return image


def turned_type(type_: TensorType) -> TensorType:
    """The type with its axes in reverse order."""
    return replace(type_, dims=type_.dims[::-1])


def _axis(axis: int, rank: int) -> int:
    return rank - 1 - axis % rank


def _back(values: Sequence[T]) -> tuple[T, ...]:
    return tuple(reversed(values))


class _Mirror:
    """The function in the making: of each old value the mirror image, the value itself, or both."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.turned: dict[Value, Value] = {}
        self.plain: dict[Value, Value] = {}

    def turn(self, value: Value) -> Value:
        """The mirror image of an old value."""
        image = self.turned.get(value)
        if image is None:
            image = self.turned[value] = self._reverse(self.plain[value])
        return image

    def straight(self, value: Value) -> Value:
        """An old value as it was."""
        plain = self.plain.get(value)
        if plain is None:
            plain = self.plain[value] = self._reverse(self.turned[value])
        return plain

    def _reverse(self, value: Value) -> Value:
        rank = len(value.type.dims)
        if rank < 2:
            return value
        return self.region.append(ops.transpose, (value,), ops.TransposeAttrs(_back(range(rank)))).result

    def visit(self, inst: Inst) -> None:
        """Copy an instruction, mirrored if it can be."""
        has_quant = any(value.type.quant is not None for value in (*inst.operands, *inst.results))
        if inst.op.elementwise and not has_quant and not inst.regions:
            self._append(inst, inst.attrs, [self.turn(operand) for operand in inst.operands])
            return
        rule = None if has_quant else _RULES.get(inst.op.key)
        if rule is None or not rule(self, inst):
            self._copy(inst)

    def _append(self, inst: Inst, attrs: Attrs, operands: Sequence[Value]) -> None:
        """The instruction on mirror images."""
        image = self.region.append(inst.op, operands, attrs, loc=inst.loc)
        for old, new in zip(inst.results, image.results, strict=True):
            new.name = old.name
            self.turned[old] = new

    def _copy(self, inst: Inst) -> None:
        """The instruction as it is."""
        regions: list[Region] = []
        for region in inst.regions:
            inner = Region(self.region.function, region.arg_types, [value.name for value in region.args])
            mapping = dict(zip(region.args, inner.args, strict=True))
            for value in _captured(region):
                mapping[value] = self.straight(value)
            inner.set_results(clone_region_body(region, inner.end, mapping))
            regions.append(inner)
        operands = [self.straight(operand) for operand in inst.operands]
        types = tuple(value.type for value in inst.results)
        copy = self.region.append(inst.op, operands, inst.attrs, regions, types=types, loc=inst.loc)
        for old, new in zip(inst.results, copy.results, strict=True):
            new.name = old.name
            self.plain[old] = new


def _captured(region: Region) -> list[Value]:
    """The values of enclosing regions that a region uses."""
    own: set[Value] = set(region.args)
    used: dict[Value, None] = {}
    stack: list[Region] = [region]
    while stack:
        here = stack.pop()
        own.update(here.args)
        for inst in here:
            own.update(inst.results)
            stack += inst.regions
    for each in _regions_in(region):
        for inst in each:
            used.update(dict.fromkeys(v for v in inst.operands if v not in own))
        used.update(dict.fromkeys(v for v in each.results if v not in own))
    return list(used)


def _regions_in(region: Region) -> list[Region]:
    regions = [region]
    for each in regions:
        for inst in each:
            regions += inst.regions
    return regions


# -- ops that have a mirror image: each says whether this instruction has one --------------------------------------------


def _rank(inst: Inst) -> int:
    return len(inst.operands[0].type.dims)


def _turned_operands(mirror: _Mirror, inst: Inst) -> list[Value]:
    return [mirror.turn(operand) for operand in inst.operands]


def _with(change: Callable[[Attrs, int], Attrs]) -> Callable[[_Mirror, Inst], bool]:
    """An op whose mirror image differs in its attributes alone."""

    def rule(mirror: _Mirror, inst: Inst) -> bool:
        mirror._append(inst, change(inst.attrs, _rank(inst)), _turned_operands(mirror, inst))
        return True

    return rule


def _transpose(attrs: Attrs, rank: int) -> Attrs:
    perm = cast("ops.TransposeAttrs", attrs).perm
    return ops.TransposeAttrs(tuple(_axis(axis, rank) for axis in reversed(perm)))


def _reduce(attrs: Attrs, rank: int) -> Attrs:
    given = cast("ops.ReduceAttrs", attrs)
    return replace(given, axes=tuple(sorted(_axis(axis, rank) for axis in given.axes)))


def _one_axis(attrs: Attrs, rank: int) -> Attrs:
    given = cast("ops.ArgReduceAttrs | ops.CumulativeAttrs | ops.ConcatAttrs", attrs)
    return replace(given, axis=_axis(given.axis, rank))


def _reverse(attrs: Attrs, rank: int) -> Attrs:
    return ops.ReverseAttrs(tuple(sorted(_axis(axis, rank) for axis in cast("ops.ReverseAttrs", attrs).axes)))


def _slice(attrs: Attrs, rank: int) -> Attrs:
    given = cast("ops.SliceAttrs", attrs)
    return ops.SliceAttrs(_back(given.starts), _back(given.limits), _back(given.strides))


def _pad(attrs: Attrs, rank: int) -> Attrs:
    given = cast("ops.PadAttrs", attrs)
    return ops.PadAttrs(_back(given.low), _back(given.high), _back(given.interior))


def _window(attrs: Attrs, rank: int) -> Attrs:
    given = cast("ops.ReduceWindowAttrs", attrs)
    return ops.ReduceWindowAttrs(
        given.kind, _back(given.window), _back(given.strides), _back(given.low), _back(given.high),
        _back(given.base_dilation), _back(given.window_dilation),
    )  # fmt: skip


def _convolution(attrs: Attrs, rank: int) -> Attrs:
    """Layouts read backwards, and with them the order of spatial axes."""
    given = cast("ops.ConvolutionAttrs", attrs)
    return replace(
        given, strides=_back(given.strides), low=_back(given.low), high=_back(given.high),
        lhs_dilation=_back(given.lhs_dilation), rhs_dilation=_back(given.rhs_dilation),
        lhs_layout=given.lhs_layout[::-1], rhs_layout=given.rhs_layout[::-1], out_layout=given.out_layout[::-1],
    )  # fmt: skip


def _broadcast(mirror: _Mirror, inst: Inst) -> bool:
    """New axes come in front; of the mirror image they come last, as axes of size 1 that are repeated."""
    dims = cast("ops.BroadcastToAttrs", inst.attrs).dims
    x = mirror.turn(inst.operands[0])
    more = len(dims) - len(x.type.dims)
    if more:
        x = mirror.region.append(ops.reshape, (x,), ops.ReshapeAttrs((*x.type.dims, *(1,) * more))).result
    mirror._append(inst, ops.BroadcastToAttrs(_back(dims)), [x])
    return True


def _iota(mirror: _Mirror, inst: Inst) -> bool:
    given = cast("ops.IotaAttrs", inst.attrs)
    mirror._append(inst, replace(given, dims=_back(given.dims), axis=_axis(given.axis, len(given.dims))), [])
    return True


def _constant(mirror: _Mirror, inst: Inst) -> bool:
    literal = cast("ConstantAttrs", inst.attrs).literal
    if literal.splat:
        turned = literal.with_shape(_back(literal.shape))
    else:
        turned = Literal(np.ascontiguousarray(literal.array().T), dtype=literal.dtype)
    mirror._append(inst, replace(cast("ConstantAttrs", inst.attrs), literal=turned), [])
    return True


def _dot(mirror: _Mirror, inst: Inst) -> bool:
    """(A B)ᵀ = Bᵀ Aᵀ. Batch axes come first in every result, so with them it has no mirror image."""
    given = cast("ops.DotGeneralAttrs", inst.attrs)
    if given.lhs_batch:
        return False
    lhs, rhs = (len(operand.type.dims) for operand in inst.operands)
    attrs = replace(
        given,
        lhs_contract=tuple(_axis(axis, rhs) for axis in given.rhs_contract),
        rhs_contract=tuple(_axis(axis, lhs) for axis in given.lhs_contract),
    )
    mirror._append(inst, attrs, [mirror.turn(inst.operands[1]), mirror.turn(inst.operands[0])])
    return True


_RULES: Final[dict[OpKey, Callable[[_Mirror, Inst], bool]]] = {
    OpKey.CONSTANT: _constant,
    OpKey.IOTA: _iota,
    OpKey.BROADCAST_TO: _broadcast,
    OpKey.DOT_GENERAL: _dot,
    OpKey.TRANSPOSE: _with(_transpose),
    OpKey.REDUCE: _with(_reduce),
    OpKey.ARG_REDUCE: _with(_one_axis),
    OpKey.CUMULATIVE: _with(_one_axis),
    OpKey.CONCAT: _with(_one_axis),
    OpKey.REVERSE: _with(_reverse),
    OpKey.SLICE: _with(_slice),
    OpKey.PAD: _with(_pad),
    OpKey.REDUCE_WINDOW: _with(_window),
    OpKey.CONVOLUTION: _with(_convolution),
}
