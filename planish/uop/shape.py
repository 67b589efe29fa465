"""The shape of a tensor-level node: which dims it has, as numbers or symbolic sizes.

Memory is flat: a buffer has one axis, its size. Movement ops state or derive their shape, elementwise ops take the one
shape of their sources, where a scalar (no axes) goes with any. An INDEX has the shape of its indices: elements of a
tensor at the positions that other tensors hold. What is computed per element of a kernel (an INDEX at ranges, a LOAD, a
range, a constant) is therefore a scalar. Computed iteratively, kept per table. A node whose argument does
not fit the shape of its source is a `GraphError` that names both.
"""

from __future__ import annotations

from typing import Any, Final, cast

from planish.dtypes import PtrDType
from planish.errors import GraphError
from planish.uop.node import UOp
from planish.uop.ops import ALU, DEFINES, MOVEMENT, Ops, ReduceAxes
from planish.uop.symbolic import simplify
from planish.uop.symbolic.polynomial import Polynomial, number, polynomial, times

Dim = int | UOp
Shape = tuple[Dim, ...]

_MEMORY: Final = DEFINES | {Ops.BUFFER}
_PASS: Final = frozenset({Ops.CONTIGUOUS, Ops.SCAN_AXIS, Ops.CAST, Ops.BITCAST, Ops.AFTER, Ops.NOOP})
_SHAPED: Final = MOVEMENT | _PASS | ALU | {Ops.REDUCE_AXIS, Ops.INDEX, Ops.STORE}


def same_dim(x: Dim, y: Dim) -> bool:
    """Whether two sizes are equal."""
    return x is y or (isinstance(x, int) and isinstance(y, int) and x == y)


def shape(node: UOp) -> Shape:
    """The dims of a node."""
    known = node.table.memos.get(shape)
    memo: dict[UOp, Any] = (
        {} if known is None else known
    )  # (asked for so often that a default or a cast would be felt)
    dims: Shape | None = memo.get(node)
    if dims is not None:
        return dims
    if known is None:
        node.table.memos[shape] = memo
    for each in node.toposort(lambda n: n in _descend(n, memo)):
        if each not in memo:
            memo[each] = _shape(each, memo)
    result: Shape = memo[node]
    return result


def _descend(node: UOp, memo: dict[UOp, Shape]) -> tuple[UOp, ...]:
    return (node,) if node not in memo and node.op in _SHAPED else ()


def _shape(node: UOp, memo: dict[UOp, Shape]) -> Shape:
    op = node.op
    if op in _MEMORY:
        return (node.dtype.size,) if isinstance(node.dtype, PtrDType) else ()
    if op in MOVEMENT:
        return moved(op, node.arg, memo[node.src[0]])
    if op in _PASS or (op is Ops.INDEX and len(node.src) == 1):
        return memo[node.src[0]] if node.src else ()
    if op is Ops.REDUCE_AXIS:
        axes = cast("ReduceAxes", node.arg).axes
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(memo[node.src[0]]))
    if op in ALU or op is Ops.INDEX or op is Ops.STORE:
        # elements at positions are as many as there are positions, whatever they are taken from
        joined = node.src[1:] if op is Ops.INDEX else node.src
        shapes = {memo[source] for source in joined if memo[source]}
        if len(shapes) > 1:
            raise GraphError(f"{op.name}: sources of shapes {', '.join(map(text, shapes))}", op=op.name,
                             remedy="EXPAND them to one shape first")  # fmt: skip
        return shapes.pop() if shapes else ()
    return ()


def moved(op: Ops, arg: object, source: Shape) -> Shape:
    """The shape that a movement op makes of its source's."""
    if op is Ops.RESHAPE or op is Ops.EXPAND:
        target = cast("Shape", arg)
        fits = same_size(source, target) if op is Ops.RESHAPE else _expands(source, target)
        return target if fits else _reject(op, arg, source)
    if op is Ops.PERMUTE:
        order = cast("tuple[int, ...]", arg)
        if sorted(order) != list(range(len(source))):
            _reject(op, arg, source)
        return tuple(source[axis] for axis in order)
    per_axis = cast("tuple[object, ...]", arg)
    if len(per_axis) != len(source):
        _reject(op, arg, source)
    if op is Ops.FLIP:
        return source
    pairs = cast("tuple[tuple[Dim, Dim], ...]", arg)
    if op is Ops.PAD:
        return tuple(
            _sum(_sum(before, dim), after) for dim, (before, after) in zip(source, pairs, strict=True)
        )
    for dim, (begin, end) in zip(source, pairs, strict=True):
        if (
            isinstance(dim, int)
            and isinstance(begin, int)
            and isinstance(end, int)
            and not 0 <= begin <= end <= dim
        ):
            _reject(op, arg, source)
    return tuple(_difference(end, begin) for begin, end in pairs)


def _reject(op: Ops, arg: object, source: Shape) -> Shape:
    told = text(arg) if isinstance(arg, tuple) else repr(arg)
    raise GraphError(f"{op.name}: {told} does not fit a source of shape {text(source)}", op=op.name)


def _expands(source: Shape, target: Shape) -> bool:
    return len(source) == len(target) and all(
        have is want or have == want or (isinstance(have, int) and have == 1)
        for have, want in zip(source, target, strict=True)
    )


def _product(dims: Shape) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim if isinstance(total, int) and isinstance(dim, int) else _canonical(dim * total)
    return total


def _sum(x: Dim, y: Dim) -> Dim:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return _canonical(x + y)


def _difference(x: Dim, y: Dim) -> Dim:
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    return _canonical(x - y)


def _canonical(size: Dim) -> Dim:
    """Equal sizes are one node; a constant is a number."""
    if isinstance(size, int):
        return size
    simple = simplify(size)
    return cast("int", simple.arg) if simple.op is Ops.CONST else simple


def size(dims: Shape) -> Polynomial | None:
    """The number of elements; None if it is too large an expression."""
    total: Polynomial | None = {(): 1}
    for dim in dims:
        factor = polynomial(dim) if isinstance(dim, UOp) else number(dim)
        total = None if factor is None or total is None else times(total, factor)
    return total


def same_size(x: Shape, y: Shape) -> bool:
    """Whether two shapes certainly hold as many elements."""
    a, b = size(x), size(y)
    if a is not None and a == b:
        return True
    named = any(isinstance(dim, UOp) for dim in (*x, *y))
    return named and _difference(_product(x), _product(y)) == 0  # rounded up to a multiple, say


def text(dims: tuple[object, ...]) -> str:
    """A shape as people write it: (4, n, 2)."""
    return f"({', '.join(str(d.arg) if isinstance(d, UOp) and d.op is Ops.CONST else _dim_text(d) for d in dims)})"


def _dim_text(dim: object) -> str:
    if isinstance(dim, UOp):
        return str(getattr(dim.arg, "name", None) or dim.op.name.lower())
    return text(dim) if isinstance(dim, tuple) else str(dim)
