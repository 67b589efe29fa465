"""Work on weights alone, done once: what a program would compute of them in every run becomes a weight itself.

Handlers write what an op means, and much of that concerns weights only: a zero point subtracted, the factor of a
normalisation, the sum of two biases, numbers unpacked from bytes. Such values are computed by the interpreter when a program
is made; kernels of transposed convolutions are turned around then, too. Moving elements about, and making them wider, is free where
they are used, and stays there: so weights stay as small as they are in the file. Products read matrices in layouts of their own
(`packing.py`); weights that nothing is done to stay in the file. Halves are float32 between inputs and outputs (`halves.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.onnx.halves import widened
from planish.onnx.packing import packed
from planish.onnx.prepared_weights import Prepared
from planish.ptir import ops
from planish.ptir.function import Inst, Value, set_operands

Array = NDArray[Any]


_FREE: Final = frozenset({"reshape", "transpose", "slice", "broadcast_to", "cast", "bitcast"})
_WORTH: Final = frozenset({"concat", "pad", "reverse", "reduce_sum", "reduce_max", "reduce_min", "gather"})
_LARGE: Final = 1 << 14
"""Bytes of weights that are worth staying packed."""
_GROWTH: Final = 4
"""How much larger than its weights something may be."""


def prepared(
    function: ptir.Function, arrays: Sequence[Array], fixed: Sequence[bool], kept: Prepared
) -> tuple[ptir.Function, list[Array]]:
    """The function (changed in place) and its arguments, with work on `fixed` ones done. Other arguments keep their places."""
    if not kept.packed:
        widened(function)
    function, arrays, fixed = _computed(function, arrays, fixed, kept)
    if kept.packed:
        return function, arrays
    every = packed(function, arrays, fixed, kept.layouts)
    return function, _trim(function, every, [*fixed, *[True] * (len(every) - len(arrays))])


def _computed(
    function: ptir.Function, arrays: Sequence[Array], fixed: Sequence[bool], kept: Prepared
) -> tuple[ptir.Function, list[Array], list[bool]]:
    """The function and its arguments with values of weights alone computed, and which arguments are such."""
    body = function.body
    arrays = [
        _laid(array, kept) if is_fixed else array for array, is_fixed in zip(arrays, fixed, strict=True)
    ]
    chosen = _chosen(function, fixed, packed=kept.packed)
    if not chosen:
        return function, arrays, list(fixed)
    work = function.clone("prepare")
    values = {value.id: value for value in work.values()}
    work.body.set_results(values[value.id] for value in chosen)
    given = _trim(work, arrays, [True] * len(arrays))
    key = (ptir.print(work), tuple(map(id, given)))
    prepared_arrays = kept.get(key)
    if prepared_arrays is None:
        computed = [_laid(array, Prepared()) for array in ptir.interpret(work, given)]
        prepared_arrays = kept[key] = (computed, given)
    every = [*arrays]
    for value, array in zip(chosen, prepared_arrays[0], strict=True):
        name = f"x{len(body.args)}"
        new = body.add_arg(value.type, name)
        for user in list(value.users):
            set_operands(user, tuple(new if operand is value else operand for operand in user.operands))
        every.append(array)
    may_go = [*fixed, *[True] * len(chosen)]
    known = dict(zip(map(id, every), may_go, strict=True))
    left = _trim(function, every, may_go)
    return function, left, [known[id(array)] for array in left]


def _laid(array: Array, kept: Prepared) -> Array:
    """A weight as machine code reads it, so that no call has to copy it: in order, aligned, in the machine's own dtype."""
    own = np.dtype(array.dtype.type)
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype is own and type(array) is np.ndarray:
        return array
    key = ("laid", id(array))
    if key not in kept:
        kept[key] = ([np.array(array, own, order="C")], [array])
    return kept[key][0][0]


def _trim(function: ptir.Function, arrays: Sequence[Array], may_go: Sequence[bool]) -> list[Array]:
    """Drop what has no use, arguments too; the arrays of the others."""
    ptir.PassManager.parse("dce").run(ptir.Program([function]))
    args = function.body.args
    kept = [n for n, value in enumerate(args) if value.users or not may_go[n]]
    function.body.args = tuple(args[n] for n in kept)
    for position, value in enumerate(function.body.args):
        value.index = position
        value.name = f"x{position}"
    return [arrays[n] for n in kept]


def _chosen(function: ptir.Function, fixed: Sequence[bool], *, packed: bool) -> list[Value]:
    """Values worth computing once: of weights alone, by more than moving, and asked for by something else."""
    held: dict[Value, int] = {}
    """Values of weights and constants alone; how many elements of weights they are made of."""
    roots: dict[Value, frozenset[Value]] = {}
    """The weights that such a value is made of."""
    for value, is_fixed in zip(function.params, fixed, strict=True):
        if is_fixed:
            held[value] = _size(value)
            roots[value] = frozenset({value})
    chosen: list[Value] = []
    for inst in function.body:
        if not _is_simple(inst) or any(value not in held for value in inst.operands):
            continue
        total = sum(held[value] for value in dict.fromkeys(inst.operands))
        too_large = any(_size(value) > _GROWTH * total for value in inst.results)
        made_of = frozenset[Value]().union(*(roots.get(value, frozenset()) for value in inst.operands))
        roots.update((value, made_of) for value in inst.results)
        too_large |= packed and _is_wider(inst, made_of)
        if total and too_large and inst.op.name not in _FREE:
            continue
        held.update((value, total) for value in inst.results)
        if total and (inst.op.name not in _FREE or (not packed and _is_kernel(inst))):
            chosen += inst.results
    wanted: set[Value] = set()
    needed = {value for value in function.results if value in held}
    for inst in reversed(list(function.walk())):
        inside = all(value in held for value in inst.results) and bool(inst.results)
        for value in inst.operands:
            # asked for by what stays in the program: other work, or free steps that such work asks for
            if value in held and (
                not inside or (inst.op.name in _FREE and any(v in needed for v in inst.results))
            ):
                needed.add(value)
        for region in inst.regions:
            needed.update(value for value in region.results if value in held)
    wanted |= needed
    return [value for value in chosen if value in wanted]


def _is_kernel(inst: Inst) -> bool:
    """Whether something is made wider as the kernel of a convolution, which reads it many times."""
    return inst.op is ops.cast and any(
        user.op is ops.convolution and user.operands[1] in inst.results for user in inst.results[0].users
    )


def _is_wider(inst: Inst, made_of: frozenset[Value]) -> bool:
    """Whether something large takes more bytes than the weights that it is made of; parts of bytes are as large as the bytes."""
    weights = sum(map(_nbytes, made_of))
    packed = any(value.type.dtype.itemsize == 1 and _nbytes(value) >= _LARGE for value in made_of)
    return packed or (weights >= _LARGE and any(_nbytes(value) > weights for value in inst.results))


def _nbytes(value: Value) -> int:
    return _size(value) * value.type.dtype.itemsize


def _is_simple(inst: Inst) -> bool:
    op = inst.op
    return op.elementwise or op.name in _FREE or op.name in _WORTH or op.name in ("constant", "iota")


def _size(value: Value) -> int:
    return math.prod(dim if isinstance(dim, int) else 1 << 62 for dim in value.type.dims)
