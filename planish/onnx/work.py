"""Work that a node asks for, judged before any of it is done: a number in a file may be anything.

What a node computes follows from what it reads and makes: a product of matrices does as many operations with an element as the
other matrix is wide, a convolution as its kernel is large. A window of 10⁸ elements over two, or 10⁸ samples of a
region, follow from an attribute alone. So operations are counted per element, and more than the setting `work_limit`
of them are refused, unless they are few altogether.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

import numpy as np

from planish import ptir
from planish.config import current
from planish.ptir.dims import bounds
from planish.ptir.function import Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops import contract, reduce

FEW: Final = 1 << 24
"""Operations that nobody is asked about: a fraction of a second."""
_FOLDED: Final = 1 << 22
"""What has more elements than this, and many more than what it is made of, is not computed while importing."""
_WORK: Final = 1 << 26
"""Operations that the interpreter does for one node, at most."""
_LARGE: Final = 1000
"""Numbers from which on an attribute may be to blame."""


def size_of(dims: Iterable[object]) -> int:
    """How many elements a shape has, as far as its sizes are numbers."""
    return math.prod(dim for dim in dims if isinstance(dim, int))


def elements_of(value: Any) -> int:
    """Those of whatever a name stands for: an array, a value, a list of both."""
    if isinstance(value, GraphValue):
        return size_of(value.dims)
    if isinstance(value, list | tuple):
        return sum(map(elements_of, value))
    return value.size if isinstance(value, np.ndarray) else 0


def _of(values: Iterable[Value]) -> int:
    return sum(size_of(value.type.dims) for value in values)


def _contracted(inst: Inst) -> int:
    dims, attrs = inst.operands[0].type.dims, cast("contract.DotGeneralAttrs", inst.attrs)
    return _of(inst.results) * size_of(dims[axis] for axis in attrs.lhs_contract)


def _convolved(inst: Inst) -> int:
    dims, attrs = inst.operands[1].type.dims, cast("contract.ConvolutionAttrs", inst.attrs)
    return _of(inst.results) * size_of(
        d for d, name in zip(dims, attrs.rhs_layout, strict=True) if name != "O"
    )


def _windowed(inst: Inst) -> int:
    return _of(inst.results) * math.prod(cast("reduce.ReduceWindowAttrs", inst.attrs).window)


_OPERATIONS: Final[dict[str, Callable[[Inst], int]]] = {
    "dot_general": _contracted,
    "convolution": _convolved,
    "reduce_window": _windowed,
}
"""Ops that look at elements several times."""


def work_of(inst: Inst) -> int:
    """Operations of one instruction, regions not counted: how often they run is decided by data."""
    counted = _OPERATIONS.get(inst.op.name)
    return max(_of(inst.operands), _of(inst.results)) if counted is None else counted(inst)


def too_much(function: ptir.Function, held: int) -> bool:
    """Whether the interpreter should not compute this while importing: it takes long, or blows up what is small."""
    total = most = 0
    for inst in function.body.walk():
        total += work_of(inst)
        most = max([most, *(math.prod(bounds(dim)[1] for dim in value.type.dims) for value in inst.results)])
    return total > max(_WORK, 8 * held) or most > max(_FOLDED, 4 * held)


def largest() -> int:
    """How many bytes one value may have: what the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def since(region: Region, last: Inst | None) -> Iterator[Inst]:
    """What was written after an instruction (None: all), the latest first."""
    inst = region.end.prev
    while inst is not region.end and inst is not last:
        yield inst
        inst = inst.prev


def excess(operations: int, elements: int) -> str | None:
    """Why work is not done; None if it is."""
    limit = current().work_limit
    if limit is None or operations <= max(FEW, limit * elements):
        return None
    return f"{operations} operations on {elements} elements are more than the {limit} for each that `work_limit` allows"


def blamed(attributes: dict[str, Any]) -> str:
    """The attributes that may have caused it."""
    large = {name: value for name, value in attributes.items() if _largest(value) >= _LARGE}
    return ", ".join(f"{name} = {value}" for name, value in large.items())


def _largest(value: Any) -> float:
    values = value if isinstance(value, list | tuple) else [value]
    return max((abs(v) for v in values if isinstance(v, int | float)), default=0)
