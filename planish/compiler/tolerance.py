"""The parameters of a kernel by itself, and what is demanded of a schedule's results: every bit, unless floats were summed.

Where floats were summed another order may round otherwise, by so much per term. On whole numbers that are small enough no sum rounds
at all, in no order: whether that holds for a kernel is worked out here, and then every bit counts again.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import Final, cast

import numpy as np

from planish.dtypes import DType, PtrDType
from planish.runtime.sandbox import Check, TrialBuffer
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, Ops

_MANTISSA: Final = {64: 53, 32: 24, 16: 8, 8: 2}
"""Bits in which whole numbers are exact, by the bits of a float; of two kinds of 16 the narrower one."""
_EXACT: Final = COMPARISONS | {
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.NEG, Ops.ABS, Ops.MAX, Ops.MIN, Ops.WHERE, Ops.CAST, Ops.INDEX, Ops.CONST, Ops.NOT,
    Ops.AND, Ops.OR, Ops.XOR,
}  # fmt: skip


def places_of(sink: UOp) -> tuple[TrialBuffer, ...]:
    """The parameters of a kernel, and what is demanded of those it writes."""
    nodes = sink.toposort()
    checks: dict[UOp, Check] = {}
    for node in nodes:
        if node.op is Ops.STORE and node.src[0].op is Ops.INDEX:
            memory = node.src[0].src[0]
            while memory.op in {Ops.AFTER, Ops.NOOP}:
                memory = memory.src[0]
            checks[memory] = _stricter(checks.get(memory), _check(node.src[1]))
    places = []
    for node in sorted((n for n in nodes if n.op is Ops.DEFINE_GLOBAL), key=lambda n: cast("int", n.arg)):
        pointer = cast("PtrDType", node.dtype)
        places.append(
            TrialBuffer(
                f"arg{node.arg}",
                pointer.base.numpy.name,
                max(pointer.size, 1),
                node in checks,
                checks.get(node),
            )
        )
    return tuple(places)


def _stricter(one: Check | None, other: Check) -> Check:
    if one is None:
        return other
    return Check(max(one.terms, other.terms), max(one.eps, other.eps), one.whole and other.whole)


def _check(value: UOp) -> Check:
    """What is demanded of a value that is stored: every bit, unless floats were summed."""
    sums = [
        n
        for n in value.toposort()
        if n.op in {Ops.REDUCE, Ops.SCAN} and n.dtype.is_float and n.arg in {Ops.ADD, Ops.MUL}
    ]
    if not sums:
        return Check()
    terms = sum(prod(r.vmax + 1 for s in node.src[1:] for r in s.ranges) for node in sums)
    narrowest = max([_eps(node.dtype) for node in (*sums, value)])
    return Check(terms, narrowest, _is_whole(value))


def _eps(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    kind = dtype.scalar.numpy if dtype.is_float else np.dtype(np.float32)
    one = np.ones(1, kind)
    return float(np.nextafter(one, kind.type(2)).astype(np.float64)[0] - 1.0)


def _is_whole(value: UOp) -> bool:
    """Whether every sum of floats is exact if all inputs are whole numbers up to 2."""
    size: dict[UOp, float] = {}
    for node in value.toposort(lambda n: n.op is not Ops.INDEX and not n.dtype.is_index):
        if node.dtype.is_index or node.op in {Ops.RANGE, Ops.DEFINE_GLOBAL, Ops.INVALID}:
            size[node] = 0.0
            continue
        inputs = [size.get(s, 0.0) for s in node.src]
        match node.op:
            case Ops.INDEX:
                size[node] = 64.0 if node.dtype.is_int else 2.0
            case Ops.CONST:
                number = float(cast("float", node.arg))
                if not isfinite(number) or number != int(number):
                    return False
                size[node] = abs(number)
            case Ops.MUL:
                size[node] = inputs[0] * inputs[1]
            case Ops.MULACC:
                size[node] = inputs[0] * inputs[1] + inputs[2]
            case Ops.ADD | Ops.SUB:
                size[node] = inputs[0] + inputs[1]
            case Ops.REDUCE | Ops.SCAN if node.arg in {Ops.ADD, Ops.MAX, Ops.MIN}:
                terms = prod(r.vmax + 1 for s in node.src[1:] for r in s.ranges)
                size[node] = inputs[0] * (terms if node.arg is Ops.ADD else 1)
            case op if op in _EXACT:
                size[node] = max(inputs, default=0.0)
            case _:
                return False
        if node.dtype.is_float and size[node] >= 2.0 ** _MANTISSA.get(node.dtype.scalar.itemsize * 8, 0):
            return False
    return True
