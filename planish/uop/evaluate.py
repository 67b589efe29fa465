"""The value of a node, by definition: slow, obvious, vectorised over NumPy arrays. Tests and proofs lean on it.

    evaluate((n * 4 + i) % 8, {n: 3, i: np.arange(10)})

`env` gives values to nodes: variables, ranges, special indices, loads, or a buffer (a flat array, for INDEX and LOAD in
it). Values are numbers or arrays that broadcast together. The result is an array of the dtype's NumPy type; of an
`index` int64, or Python integers where those do not fit. A vector node has one more axis, the last, for its lanes.

Two more kinds of axes may lead. A RANGE that is not in `env` runs over all its values (REDUCE then combines over
it), and so do the axes that an UNROLL spreads its lanes over (CONTRACT gathers them). Open ones stay in the result.

INVALID, and all that is computed from it, has no value: a result that may be invalid is a NumPy masked array. An INDEX
or LOAD at an invalid place gives 0 (or the alternative).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from math import prod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from planish.dtypes import DType
from planish.errors import GraphError
from planish.records import dataclass
from planish.uop import arithmetic
from planish.uop.arithmetic import Array
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, COMPARISONS, Ops, UnrolledLanes

Value = ArrayLike
Rule = Callable[["Run", UOp], Array]

_EXACT_BEYOND: Final = 1 << 62
_PASS: Final = frozenset({Ops.NOOP, Ops.AFTER, Ops.CONTIGUOUS, Ops.END})


def evaluate(root: UOp, env: Mapping[UOp, Value]) -> Array:
    """The value of `root` where the nodes in `env` have the values given there."""
    run = Run(env)
    nodes = run.order(root)
    with np.errstate(all="ignore"):
        for node in nodes:
            run.visit(node)
        result = arithmetic.store(run.values[root], root.dtype)
    if root in run.invalid:
        mask = np.broadcast_to(run.invalid[root], result.shape)
        return cast("Array", np.ma.array(result, mask=mask))
    return result


def constant_value(root: UOp) -> Number | tuple[Number, ...]:
    """The value of a node made of constants alone, as Python numbers, exact in its dtype; lanes as a tuple."""
    result = evaluate(root, {})
    scalar = root.dtype.scalar
    numbers = [scalar.const(value) for value in result.ravel().tolist()]
    return tuple(numbers) if root.dtype.lanes > 1 else numbers[0]


class Values(dict[UOp, Array]):
    """Values of nodes; to ask for one that is not there is a mistake of the graph."""

    __slots__ = ()

    def __missing__(self, node: UOp) -> Array:
        raise GraphError(f"{node!r} has no value where it is used", remedy="it has to be open there")


@dataclass(slots=True)
class Run:
    """One evaluation: values so far, and which leading axis stands for which range or unrolled axis.

    `planish.uop.interpret` runs kernels on the same terms.
    """

    env: Mapping[UOp, Value]
    values: Values = field(default_factory=Values)
    invalid: dict[UOp, Array] = field(default_factory=dict)
    """Where a value is invalid, for nodes that can be."""
    axes: dict[object, int] = field(default_factory=dict)
    """RANGE node or path of an unrolled axis -> its place among the leading axes."""
    rank: int = 0
    """Axes that the arrays of `env` have."""

    def order(self, root: UOp) -> list[UOp]:
        """What is needed for `root`, sources first; gives every implicit axis its place."""
        seen = {root}
        nodes = [root]
        for node in nodes:
            for source in self._needed(node):
                if source not in seen:
                    seen.add(source)
                    nodes.append(source)
        nodes.sort(key=lambda node: node.serial)
        for node, value in self.env.items():
            if not node.dtype.is_pointer:
                self.rank = max(self.rank, np.ndim(value))
        for node in nodes:
            if node in self.env:
                continue
            if node.op is Ops.RANGE:
                self.axes.setdefault(node, len(self.axes))
            elif node.op in (Ops.UNROLL, Ops.CONTRACT):
                for path, _ in cast("UnrolledLanes", node.arg).axes:
                    self.axes.setdefault(path, len(self.axes))
        return nodes

    def _needed(self, node: UOp) -> tuple[UOp, ...]:
        if node in self.env:
            return ()
        return node.src[:1] if node.op in _PASS or node.op is Ops.RANGE else node.src

    def visit(self, node: UOp) -> None:
        if node in self.env:
            if not node.dtype.is_pointer:
                self.values[node] = arithmetic.load(self.env[node], node.dtype)
            return
        if node.dtype.is_pointer:
            return  # a place: INDEX and LOAD look at it
        rule = _alu if node.op in ALU else RULES.get(node.op)
        if rule is None:
            raise GraphError(
                f"{node.op.name} has no value by itself", op=node.op.name, remedy="give it one in `env`"
            )
        for source in self._needed(node):
            if source in self.invalid:
                self._poison(node)
                break
        self.values[node] = rule(self, node)

    def _poison(self, node: UOp) -> None:
        """Where the sources make this node invalid."""
        if node.op in (Ops.INDEX, Ops.LOAD):
            return
        masks = [self.invalid.get(s, _valid(s.dtype)) for s in self._needed(node)]
        if node.op is Ops.WHERE:
            condition, x, y = masks
            self.invalid[node] = np.asarray(condition | np.where(self.values[node.src[0]], x, y))
        elif node.op in ALU or node.op in _PASS or node.op is Ops.CAST:
            total = masks[0]
            for mask in masks[1:]:
                total = np.asarray(total | mask)
            self.invalid[node] = total
        elif node.op in (Ops.VECTORIZE, Ops.CAT):
            self.invalid[node] = _joined(node, masks)
        elif node.op is Ops.GEP:
            self.invalid[node] = _selected(node, masks[0])
        elif node.op is Ops.BITCAST and node.dtype.lanes == node.src[0].dtype.lanes:
            self.invalid[node] = masks[0]
        else:
            raise GraphError(f"{node.op.name} of an invalid index is not defined", op=node.op.name)

    # -- axes ----------------------------------------------------------------------------------------------------

    def full(self, value: Array, dtype: DType) -> Array:
        """The array with all leading axes and those of `env` present (as size 1 where it does not vary)."""
        rank = len(self.axes) + self.rank + (dtype.lanes > 1)
        return value.reshape((1,) * (rank - value.ndim) + value.shape)


def _valid(dtype: DType) -> Array:
    """The mask of a value that is nowhere invalid."""
    return np.zeros((dtype.lanes,) if dtype.lanes > 1 else (), np.bool_)


def _alu(run: Run, node: UOp) -> Array:
    sources = [run.values[s] for s in node.src]
    dtype = node.src[0].dtype if node.op in COMPARISONS else node.dtype
    exact = dtype.is_index and any(_large(n) for n in (*node.src, node))
    try:
        return arithmetic.apply(node.op, dtype, *sources, exact=exact)
    except KeyError as error:
        raise GraphError(f"{node.op.name} has no meaning on {dtype}", op=node.op.name) from error


def _large(node: UOp) -> bool:
    """Whether int64 might not hold the values."""
    if not node.dtype.is_index:
        return False
    return node.vmin < -_EXACT_BEYOND or node.vmax > _EXACT_BEYOND


def _const(run: Run, node: UOp) -> Array:
    value = arithmetic.load(np.asarray(node.arg, object if node.dtype.is_integral else None), node.dtype)
    return np.broadcast_to(value, (node.dtype.lanes,)) if node.dtype.lanes > 1 else value


def _vconst(run: Run, node: UOp) -> Array:
    return arithmetic.load(np.asarray(node.arg, object if node.dtype.is_integral else None), node.dtype)


def _invalid(run: Run, node: UOp) -> Array:
    lanes = (node.dtype.lanes,) if node.dtype.lanes > 1 else ()
    run.invalid[node] = np.ones(lanes, np.bool_)
    return np.zeros(lanes, arithmetic.carrier(node.dtype))


def _range(run: Run, node: UOp) -> Array:
    size = max(node.src[0].vmax, 0)
    shape = [1] * (len(run.axes) + run.rank)
    shape[run.axes[node]] = size
    return np.arange(size, dtype=arithmetic.carrier(node.dtype)).reshape(shape)


def _first(run: Run, node: UOp) -> Array:
    if not node.src:
        raise GraphError(f"{node.op.name} without a source has no value", op=node.op.name)
    return run.values[node.src[0]]


def _cast(run: Run, node: UOp) -> Array:
    (x,) = node.src
    return arithmetic.convert(run.values[x], x.dtype, node.dtype)


def _bitcast(run: Run, node: UOp) -> Array:
    (x,) = node.src
    values = arithmetic.store(run.values[x], x.dtype)
    lanes = values if x.dtype.lanes > 1 else values[..., None]
    if 4 not in (x.dtype.bits, node.dtype.bits):
        result = np.ascontiguousarray(lanes).view(node.dtype.numpy)
    else:
        result = _regroup_nibbles(lanes, x.dtype, node.dtype)
    return arithmetic.load(result if node.dtype.lanes > 1 else result[..., 0], node.dtype)


def _regroup_nibbles(lanes: Array, source: DType, target: DType) -> Array:
    """BITCAST through single nibbles, lane 0 the least significant."""
    if source.bits == 4:
        nibbles = lanes.astype(np.int8).view(np.uint8) & np.uint8(15)
    else:
        octets = np.ascontiguousarray(lanes).view(np.uint8)
        nibbles = np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1).reshape(
            *octets.shape[:-1], -1
        )
    if target.bits == 4:
        signed = nibbles.astype(np.int8) - ((nibbles.astype(np.int8) & 8) << 1)
        return signed if target.is_signed else nibbles
    pairs = nibbles.reshape(*nibbles.shape[:-1], -1, 2)
    return np.ascontiguousarray(pairs[..., 0] | pairs[..., 1] << np.uint8(4)).view(target.numpy)


# -- lanes -----------------------------------------------------------------------------------------------------


def _gep(run: Run, node: UOp) -> Array:
    return _selected(node, run.values[node.src[0]])


def _selected(node: UOp, values: Array) -> Array:
    selected = list(cast("tuple[int, ...]", node.arg))
    if node.src[0].dtype.lanes == 1:
        values = values[..., None]
    return values[..., selected] if node.dtype.lanes > 1 else values[..., selected[0]]


def _join(run: Run, node: UOp) -> Array:
    """VECTORIZE and CAT: lanes one after another."""
    return _joined(node, [run.values[s] for s in node.src])


def _joined(node: UOp, values: list[Array]) -> Array:
    parts = [v if s.dtype.lanes > 1 else v[..., None] for s, v in zip(node.src, values, strict=True)]
    shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    whole = np.concatenate([np.broadcast_to(p, (*shape, p.shape[-1])) for p in parts], axis=-1)
    return whole if node.dtype.lanes > 1 else whole[..., 0]


def _lookup(run: Run, node: UOp) -> Array:
    table, index = node.src
    entries, places = run.values[table], run.values[index] & (table.dtype.lanes - 1)
    if table.dtype.lanes == 1:
        return np.broadcast_arrays(entries[..., None] if node.dtype.lanes > 1 else entries, places)[0]
    places = places if node.dtype.lanes > 1 else places[..., None]
    shape = np.broadcast_shapes(entries.shape[:-1], places.shape[:-1])
    wide, chosen = (np.broadcast_to(x, (*shape, x.shape[-1])) for x in (entries, places))
    elements = np.take_along_axis(wide, chosen, axis=-1)
    return elements if node.dtype.lanes > 1 else elements[..., 0]


def _rare(run: Run, node: UOp) -> Array:
    return arithmetic.apply(Ops.WHERE, node.dtype, *(run.values[source] for source in node.src))


def _any(run: Run, node: UOp) -> Array:
    (x,) = node.src
    return np.asarray(run.values[x].any(axis=-1)) if x.dtype.lanes > 1 else run.values[x]


def _unroll(run: Run, node: UOp) -> Array:
    """Lanes become positions on the unrolled axes, the last of them fastest; what is left, slower, stays a lane."""
    (x,) = node.src
    axes = cast("UnrolledLanes", node.arg).axes
    values = run.full(run.values[x] if x.dtype.lanes > 1 else run.values[x][..., None], x.dtype.scalar.vec(2))
    shape = values.shape[:-1]
    if any(shape[run.axes[path]] != 1 for path, _ in axes):
        raise GraphError("UNROLL over an axis that its source varies over already", op="UNROLL")
    split = values.reshape(*shape, node.dtype.lanes, *(size for _, size in axes))
    split = np.moveaxis(split, len(shape), -1)
    for number, (path, _) in enumerate(axes):
        # The first remaining split axis swaps with the size-1 axis that is its place.
        split = np.swapaxes(split, len(shape) + number, run.axes[path])
    result = split.reshape(*split.shape[: len(shape)], node.dtype.lanes)
    return result if node.dtype.lanes > 1 else result[..., 0]


def _contract(run: Run, node: UOp) -> Array:
    """Positions on the unrolled axes become lanes, faster than those there are."""
    (x,) = node.src
    axes = cast("UnrolledLanes", node.arg).axes
    values = run.full(run.values[x] if x.dtype.lanes > 1 else run.values[x][..., None], x.dtype.scalar.vec(2))
    shape = list(values.shape[:-1])
    for path, size in axes:
        shape[run.axes[path]] = size
    whole = np.broadcast_to(values, (*shape, values.shape[-1]))
    for path, _ in axes:
        place = run.axes[path]
        moved = np.moveaxis(whole, place, -2)  # behind the axes gathered before it
        whole = np.expand_dims(moved, place)
    outer = whole.shape[: len(shape)]
    result = np.ascontiguousarray(np.moveaxis(whole, -1, len(shape))).reshape(*outer, node.dtype.lanes)
    return result if node.dtype.lanes > 1 else result[..., 0]


# -- reductions and memory -------------------------------------------------------------------------------------


def _identity(op: Ops, dtype: DType) -> Number:
    """What a reduction of nothing gives."""
    if op in (Ops.ADD, Ops.OR, Ops.XOR):
        return 0
    if op is Ops.MUL:
        return 1
    if op is Ops.AND:
        return True if dtype.is_bool else -1 if not dtype.is_unsigned else int(dtype.max or 0)
    end = dtype.min if op is Ops.MAX else dtype.max
    if end is None:
        end = -(1 << 63) if op is Ops.MAX else (1 << 63) - 1
    return end


def _reduce(run: Run, node: UOp) -> Array:
    """Combined in order of the values, one after another."""
    x, *ranges = node.src
    op, dtype = cast("Ops", node.arg), node.dtype
    values = run.full(run.values[x], x.dtype)
    if x.dtype.lanes != dtype.lanes:  # a horizontal step: whole vectors of the result's width are folded
        groups = values.reshape(*values.shape[:-1], -1, dtype.lanes)
        values = fold(op, dtype, groups, groups.ndim - 2)
        values = values if dtype.lanes > 1 else values[..., 0]
    for each in ranges:
        if each.op is Ops.CONST:
            continue  # a range of one value, folded
        if each not in run.axes:
            raise GraphError("REDUCE over what is not a free RANGE has no value", op="REDUCE")
        axis = run.axes[each]
        counted, bound = run.full(run.values[each], each.dtype), run.full(run.values[each.src[0]], each.dtype)
        shape = list(values.shape)
        shape[axis] = counted.shape[axis]
        values = np.broadcast_to(values, shape)
        runs = counted < bound
        runs = runs[..., None] if dtype.lanes > 1 else runs
        nothing = arithmetic.load(np.asarray(_identity(op, dtype), object if dtype.is_index else None), dtype)
        folded = fold(op, dtype, np.where(runs, values, nothing), axis)
        values = np.asarray(np.expand_dims(folded, axis))
    return values


def _scan(run: Run, node: UOp) -> Array:
    """What is combined up to each value of the range, itself included; of two ranges the second is the faster."""
    x, *ranges = node.src
    lanes = cast("int", ranges.pop().arg) if len(ranges) > 1 and ranges[1].op is Ops.CONST else 0
    values = run.full(run.values[x], x.dtype)
    shape = list(values.shape)
    axes: list[int] = []
    for along in ranges:
        if along.op is Ops.CONST:
            continue  # a range of one value
        if along not in run.axes:
            raise GraphError("SCAN along what is not a free RANGE has no value", op="SCAN")
        axes.append(run.axes[along])
        shape[axes[-1]] = run.full(run.values[along], along.dtype).shape[axes[-1]]
    values = np.broadcast_to(values, shape)
    if lanes:  # positions in lanes, those of one position next to each other
        values = values if x.dtype.lanes > 1 else values[..., None]
        values = values.reshape(*shape[: len(values.shape) - 1], lanes, -1)
        axes.append(values.ndim - 2)
    front = np.moveaxis(values, axes, range(len(axes)))
    flat = front.reshape(prod(front.shape[: len(axes)]), *front.shape[len(axes) :])
    parts: list[Array] = []
    op, exact = cast("Ops", node.arg), node.dtype.is_index
    for here in flat:
        sofar = arithmetic.apply(op, node.dtype, parts[-1], here, exact=exact) if parts else here
        parts.append(np.asarray(sofar))
    whole = np.stack(parts).reshape(front.shape) if parts else front
    whole = np.moveaxis(whole, range(len(axes)), axes)
    return whole.reshape(shape) if lanes else whole


def fold(op: Ops, dtype: DType, values: Array, axis: int) -> Array:
    """The values along an axis combined, the first with the second, that with the third …"""
    if values.shape[axis] == 0:
        shape = values.shape[:axis] + values.shape[axis + 1 :]
        return np.full(shape, _identity(op, dtype), values.dtype)
    total = np.asarray(values.take(0, axis))
    for position in range(1, values.shape[axis]):
        total = arithmetic.apply(op, dtype, total, values.take(position, axis), exact=dtype.is_index)
    return total


def _index(run: Run, node: UOp) -> Array:
    return _fetch(run, node, node, None, None)


def _load(run: Run, node: UOp) -> Array:
    place = node.src[0]
    if place.op is not Ops.INDEX:
        raise GraphError(
            f"LOAD from a {place.op.name} has no value", op="LOAD", remedy="give it one in `env`"
        )
    alternative = run.values[node.src[1]] if len(node.src) > 1 else None
    gate = run.values[node.src[2]] if len(node.src) > 2 else None
    return _fetch(run, node, place, alternative, gate)


def _fetch(run: Run, node: UOp, place: UOp, alternative: Array | None, gate: Array | None) -> Array:
    buffer, *indices = place.src
    given = run.env.get(buffer)
    if given is None:
        raise GraphError("the buffer has no contents", op=node.op.name, remedy="give it an array in `env`")
    open_at: Any = np.True_ if gate is None else gate
    if indices and indices[-1].dtype.is_bool:
        open_at = open_at & run.values[indices.pop()]
    if len(indices) != 1:
        raise GraphError("INDEX with several indices has no value", op="INDEX", remedy="linearise it first")
    index = run.values[indices[0]]
    if indices[0] in run.invalid:
        open_at = open_at & ~run.invalid[indices[0]]
    contents = arithmetic.load(np.ravel(given), node.dtype)
    safe = np.where(open_at, index, 0).astype(np.int64)
    if safe.size and (safe.min() < 0 or safe.max() >= len(contents)):
        raise GraphError(f"INDEX outside its buffer of {len(contents)} elements", op="INDEX")
    otherwise = np.zeros((), contents.dtype) if alternative is None else alternative
    return np.asarray(np.where(open_at, contents[safe], otherwise))


RULES: Final[dict[Ops, Rule]] = {
    Ops.CONST: _const, Ops.VCONST: _vconst, Ops.INVALID: _invalid, Ops.RANGE: _range, Ops.CAST: _cast,
    Ops.BITCAST: _bitcast, Ops.GEP: _gep, Ops.VECTORIZE: _join, Ops.CAT: _join, Ops.UNROLL: _unroll,
    Ops.LOOKUP: _lookup, Ops.ANY: _any, Ops.RARE: _rare,
    Ops.CONTRACT: _contract, Ops.REDUCE: _reduce, Ops.SCAN: _scan, Ops.INDEX: _index, Ops.LOAD: _load,
    **dict.fromkeys(_PASS, _first),
}  # fmt: skip
