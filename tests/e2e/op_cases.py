"""Cases for every op that is lowered directly, and every dtype it takes: small programs, their inputs, and how exact they are.

`CASES` maps an op to functions that build programs for a dtype with a `Maker`. Elementwise ops are generated from the registry; the rest are
written by hand, several attributes each. Sizes 0, 1 and odd ones, dynamic dims, and values at the corners of docs/semantics.md occur.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import WAYS, Way
from planish.schedule.lowering import can_lower
from tests.ptir.generate import ROUNDING
from tests.ptir.ops_testing import accepts, make, samples

Array = NDArray[Any]
DTYPES = tuple(d for d in dtypes.ALL if d not in (dtypes.void, dtypes.index) and not d.is_complex)
FLOATS = tuple(d for d in DTYPES if d.is_float)
INTS = tuple(d for d in DTYPES if d.is_int)
NUMBERS = (*INTS, *FLOATS)
LEFT_OUT = frozenset(name for name, way in WAYS.items() if way is not Way.DIRECT) | ROUNDING
"""Not in random programs: what is no lowering, or rounds by its order of evaluation."""
DIRECT = tuple(name for name, way in WAYS.items() if way is Way.DIRECT)


# -- how exact -------------------------------------------------------------------------------------------------------


def _table_of_bounds() -> dict[str, float]:
    """The bounds that docs/math.md states, in ULP, the worse of float32 and float64."""
    text = (Path(__file__).parents[2] / "docs" / "math.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", text, re.M)
    return {name: max(float(single), float(double)) for name, single, double in rows}


ULPS = _table_of_bounds() | {"hypot": 2.0, "erfinv": 16.0, "lgamma": 16.0, "digamma": 16.0}
NEAR_ZERO = frozenset({"erfinv", "lgamma", "digamma"})
"""Functions that may be 16 eps off, absolutely, near a zero (semantics 1.5)."""


@dataclass
class Maker:
    """Builds one program: inputs come with data, outputs with the tolerance they are held to."""

    dtype: DType
    seed: int = 0
    graph: ptir.Graph = field(default_factory=lambda: ptir.Graph("f"))
    arrays: list[Array] = field(default_factory=list)
    outputs: list[GraphValue] = field(default_factory=list)
    slack: list[float] = field(default_factory=list)
    """Per output: the number of terms of its sums of floats; 0: the result is exact."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def thorough(self) -> bool:
        """Whether this dtype stands for all that differ in the element alone: it gets every variant."""
        return self.dtype in (dtypes.float32, dtypes.int32)

    def given(
        self, array: Array, dims: Sequence[object] | None = None, **bounds: tuple[int, int]
    ) -> GraphValue:
        """An input with these contents; `dims` names some of its sizes."""
        dtype = dtypes.from_numpy(array.dtype)
        self.arrays.append(array)
        type_ = ptir.tensor(dtype, array.shape if dims is None else dims, **bounds)  # type: ignore[arg-type]
        return self.graph.input(f"x{len(self.arrays) - 1}", type_)

    def data(self, shape: tuple[int, ...], dtype: DType | None = None, *, special: bool = True) -> Array:
        """Numbers that any wrong element would betray."""
        dtype = dtype or self.dtype
        pool = samples(dtype, special=special)
        picked = self.rng.integers(0, len(pool), shape)
        return np.asarray(pool[picked])

    def small(self, shape: tuple[int, ...], dtype: DType | None = None) -> Array:
        """Small numbers, whose sums and products stay in range."""
        dtype = dtype or self.dtype
        numbers = self.rng.integers(0 if dtype.is_unsigned or dtype.is_bool else -2, 3, int(np.prod(shape)))
        if dtype.is_float:
            return np.asarray(make(dtype, [float(n) / 2 for n in numbers], shape))
        return np.asarray(make(dtype, [int(n) for n in numbers], shape))

    def x(self, *shape: int, dtype: DType | None = None) -> GraphValue:
        return self.given(self.data(shape, dtype))

    def y(self, *shape: int, dtype: DType | None = None) -> GraphValue:
        return self.given(self.small(shape, dtype))

    def out(self, *values: GraphValue, terms: float = 0) -> None:
        """Results of the program; floats that are sums of `terms` are held to n·eps·Σ|x|."""
        for value in values:
            self.outputs.append(value)
            self.slack.append(terms if value.type.dtype.is_float else 0)

    def emit(
        self, op: ptir.ops.OpDef, operands: Sequence[GraphValue], attrs: ops.Attrs = ops.NO_ATTRS
    ) -> None:
        self.out(self.graph.emit(op, operands, attrs))

    def build(self) -> ptir.Function:
        return self.graph.build(*self.outputs)


def is_plain(function: ptir.Function) -> bool:
    """Whether a function can be lowered as it stands."""
    return all(map(can_lower, function)) and not any(p.type.dtype.is_complex for p in function.params)


Program = Callable[[Maker], None]
CASES: dict[str, tuple[tuple[DType, ...], list[Program]]] = {}


def case(name: str, accepted: Sequence[DType] = DTYPES) -> Callable[[Program], Program]:
    """Register a program for an op."""

    def register(program: Program) -> Program:
        known = CASES.setdefault(name, (tuple(accepted), []))
        known[1].append(program)
        return program

    return register


# -- elementwise -----------------------------------------------------------------------------------------------------

_DOMAIN = {"asin": 1.2, "acos": 1.2, "atanh": 1.2, "erfinv": 1.1}


def _arguments(name: str, dtype: DType, arity: int) -> list[Array]:
    """Corner values in all combinations, as far as that is affordable, then others at random."""
    rng = np.random.default_rng(len(name))
    pool = samples(dtype)
    if arity == 1:
        if dtype.is_float:
            reach = _DOMAIN.get(name, 8.0)
            more = make(dtype, [float(v) for v in np.linspace(-reach, reach, 41)])
            pool = np.concatenate([pool, more])
        return [pool]
    if name in ("shl", "shr_logical", "shr_arithmetic"):
        amounts = make(dtype, [0, 1, 2, dtype.bits - 1, dtype.bits, dtype.bits + 1, -1, 127])
        grid = np.meshgrid(np.arange(len(pool)), np.arange(len(amounts)))
        return [pool[grid[0].ravel()], amounts[grid[1].ravel()]]
    index = np.arange(len(pool))
    left, right = (axis.ravel() for axis in np.meshgrid(index, index))
    if len(left) > 180:
        keep = rng.permutation(len(left))[:180]
        left, right = left[keep], right[keep]
    return [pool[left], pool[right]]


def _elementwise(name: str, arity: int) -> Program:
    def program(m: Maker) -> None:
        op = ops.REGISTRY[name]
        inputs = [m.given(array) for array in _arguments(name, m.dtype, arity)]
        m.emit(op, inputs)
        if m.dtype is dtypes.float32 or (m.dtype is dtypes.int32 and not accepts(op, dtypes.float32, arity)):
            for shape in ((), (1,), (0, 3), (3, 5)):
                m.emit(op, [m.y(*shape) for _ in inputs])

    return program


for _name in DIRECT:
    _op = ops.REGISTRY[_name]
    if _op.elementwise and _op.attrs_type is ops.NoAttrs and _name != "select":
        _arity = int(_op.min_operands)
        _taken = tuple(d for d in DTYPES if accepts(_op, d, _arity))
        case(_name, _taken)(_elementwise(_name, _arity))


@case("select")
def _select(m: Maker) -> None:
    for shape in ((), (1,), (7, 5)):
        m.emit(ops.select, [m.x(*shape, dtype=dtypes.bool_), m.x(*shape), m.x(*shape)])
    m.out(m.x(5, dtype=dtypes.bool_).select(m.x(5), m.graph.full((5,), 1, m.dtype)))


@case("constant")
def _constant(m: Maker) -> None:
    m.out(m.graph.constant(samples(m.dtype)))
    m.out(m.graph.full((3, 2), 1, m.dtype), m.graph.full((0, 2), 0, m.dtype), m.graph.full((), 1, m.dtype))
    m.out(m.graph.constant(m.data((3, 5))))


@case("iota", NUMBERS)
def _iota(m: Maker) -> None:
    m.out(m.graph.iota((20,), 0, m.dtype), m.graph.iota((3, 5), 1, m.dtype), m.graph.iota((3, 0), 0, m.dtype))
    m.out(m.graph.iota((300, 2), 0, m.dtype))


@case("cast")
def _cast(m: Maker) -> None:
    x = m.given(samples(m.dtype))
    for target in DTYPES:
        if target is not m.dtype:
            m.out(x.cast(target))


@case("cast", ())
def _cast_ties(m: Maker) -> None:
    """Values half-way between neighbours of every narrow format, and just beside them."""
    if not m.dtype.is_float or m.dtype.bits < 32:
        m.out(m.y(3).cast(dtypes.float32))
        return
    values: list[float] = []
    for target in FLOATS:
        if target.bits < m.dtype.bits:
            form = dtypes.float_format(target)
            step = 2.0 ** (1 - form.precision)
            for base in (1.0, 1.0 + step, form.largest, 2.0 ** (form.least + 3), 2.0**form.least):
                unit = (
                    math.ldexp(step, math.frexp(base)[1] - 1)
                    if base > 2.0 ** (form.least + 2)
                    else 2.0**form.least
                )
                for off in (0.5, 0.5 + 1e-6, 0.5 - 1e-6, 0.25):
                    values += [base + unit * off, -(base + unit * off)]
    x = m.given(np.array(values, m.dtype.numpy))
    for target in DTYPES:
        if target is not m.dtype:
            m.out(x.cast(target))


@case("bitcast", NUMBERS)
def _bitcast(m: Maker) -> None:
    x = m.given(m.data((3, 5)))
    for target in NUMBERS:
        if target.bits <= m.dtype.bits:
            m.out(x.bitcast(target))
        else:
            m.out(m.given(m.data((3, target.bits // m.dtype.bits))).bitcast(target))


# -- movement --------------------------------------------------------------------------------------------------------


@case("reshape")
def _reshape(m: Maker) -> None:
    m.out(m.x(3, 4).reshape((2, 6)), m.x(1).reshape(()), m.x().reshape((1, 1)), m.x(0, 3).reshape((3, 0, 2)))
    m.out(m.x(2, 3, 5).reshape((6, 5)).reshape((5, 6)))


@case("transpose")
def _transpose(m: Maker) -> None:
    m.out(m.x(3, 5).transpose((1, 0)), m.x(2, 1, 3).transpose((2, 0, 1)), m.x().transpose(()))


@case("broadcast_to")
def _broadcast(m: Maker) -> None:
    m.out(m.x(1, 3).broadcast_to((2, 5, 3)), m.x().broadcast_to((3,)), m.x(3, 1).broadcast_to((3, 0)))


@case("slice")
def _slice(m: Maker) -> None:
    x = m.x(7, 5)
    m.out(
        x.slice((1, 0), (6, 5), (2, 3)),
        x.slice((0, 2), (7, 4)),
        x.slice((3, 3), (3, 5)),
        x.slice((6, 0), (7, 5), (5, 5)),
    )


@case("reverse")
def _reverse(m: Maker) -> None:
    m.out(m.x(3, 5).reverse([0]), m.x(3, 1, 2).reverse([0, 1, 2]), m.x(0).reverse([0]))


@case("concat")
def _concat(m: Maker) -> None:
    m.out(m.graph.concat([m.x(2, 3), m.x(2, 1), m.x(2, 0)], 1), m.graph.concat([m.x(1), m.x(5)], 0))
    m.out(m.graph.concat([m.x(2), m.graph.full((3,), 1, m.dtype)], 0))


@case("pad")
def _pad(m: Maker) -> None:
    x, value = m.x(3, 5), m.x()
    for low, high, interior in (
        ((1, 0), (0, 2), (0, 0)),
        ((-1, 2), (1, -3), (0, 2)),
        ((0, -4), (-3, 9), (1, 0)),
    ):
        m.emit(ops.pad, [x, value], ops.PadAttrs(low, high, interior))
    m.emit(ops.pad, [m.x(0), value], ops.PadAttrs((2,), (1,), (0,)))
    m.emit(ops.pad, [m.x(), value], ops.PadAttrs((), (), ()))


# -- reductions ------------------------------------------------------------------------------------------------------


def _reduction(name: str, exact: bool) -> Program:
    def program(m: Maker) -> None:
        op = ops.REGISTRY[name]
        make_input = m.x if exact else m.y
        for shape, axes in (
            ((3, 7), (1,)),
            ((3, 7), (0,)),
            ((2, 3, 5), (0, 2)),
            ((5,), ()),
            ((0, 3), (0,)),
            ((3, 0), (0,)),
            ((1,), (0,)),
        ):
            for keep in (False, True) if shape == (3, 7) else (False,):
                result = m.graph.emit(op, [make_input(*shape)], ops.ReduceAttrs(axes, keep))
                m.out(result, terms=0 if exact else 64)

    return program


_REDUCIBLE = {
    "sum": NUMBERS,
    "prod": NUMBERS,
    "max": DTYPES,
    "min": DTYPES,
    "and": (dtypes.bool_, *INTS),
    "or": (dtypes.bool_, *INTS),
}
for _kind, _taken in _REDUCIBLE.items():
    case(f"reduce_{_kind}", _taken)(_reduction(f"reduce_{_kind}", _kind not in ("sum", "prod")))


def _arg(name: str) -> Program:
    def program(m: Maker) -> None:
        op = ops.REGISTRY[name]
        x = m.given(np.concatenate([m.data((4, 9)), m.small((4, 9))]))
        for axis, keep, dtype in (
            (1, False, dtypes.int64),
            (0, True, dtypes.int32),
            (1, False, dtypes.uint8),
        ):
            m.emit(op, [x], ops.ArgReduceAttrs(axis, keep, dtype))
        m.emit(op, [m.x(1)], ops.ArgReduceAttrs(0))
        m.emit(op, [m.x(0, 2)], ops.ArgReduceAttrs(1))

    return program


for _name in ("argmax", "argmin"):
    case(_name)(_arg(_name))


def _running(name: str, exact: bool) -> Program:
    def program(m: Maker) -> None:
        op = ops.REGISTRY[name]
        x = m.x(3, 7) if exact else m.y(3, 7)
        for axis, reverse, exclusive in (
            (1, False, False),
            (0, True, False),
            (1, False, True),
            (1, True, True),
        ):
            m.out(
                m.graph.emit(op, [x], ops.CumulativeAttrs(axis, reverse, exclusive)), terms=0 if exact else 32
            )
        m.emit(op, [m.x(0, 3)], ops.CumulativeAttrs(0))
        m.out(m.graph.emit(op, [m.y(1)], ops.CumulativeAttrs(0, False, True)))

    return program


for _kind, _taken in (("sum", NUMBERS), ("prod", NUMBERS), ("max", DTYPES), ("min", DTYPES)):
    case(f"cum{_kind}", _taken)(_running(f"cum{_kind}", _kind in ("max", "min")))


_WINDOWS = (
    ((2, 3), (1, 2), (0, 0), (0, 0), (1, 1), (1, 1)),
    ((3, 2), (2, 3), (2, -1), (1, 2), (2, 1), (2, 1)),
    ((1, 3), (1, 1), (0, 1), (0, 1), (1, 1), (1, 2)),
    ((2, 2), (1, 1), (3, 3), (-1, 3), (1, 3), (1, 2)),
)
"""Window, strides, low, high, dilation of the base and of the window."""


@case("reduce_window", NUMBERS)
def _window(m: Maker) -> None:
    for kind in ("sum", "prod", "max", "min"):
        exact = kind in ("max", "min")
        x = m.x(5, 9) if exact else m.y(5, 9)
        for window in _WINDOWS if m.thorough else _WINDOWS[1:2]:
            attrs = ops.ReduceWindowAttrs(kind, *window)
            m.out(m.graph.emit(ops.reduce_window, [x], attrs), terms=0 if exact else 32)
    empty = ops.ReduceWindowAttrs("max", (2,), (1,), (2,), (1,), (1,), (1,))
    m.emit(ops.reduce_window, [m.x(0)], empty)


# -- contractions ----------------------------------------------------------------------------------------------------


def _dtype_pairs(dtype: DType) -> Iterator[tuple[DType, DType]]:
    from planish.ptir.ops.contract import resolve_dtypes

    yield resolve_dtypes(dtype, dtype, None, None)
    yield dtype, dtype
    if dtype.is_float:
        yield dtypes.float32, dtypes.float64


@case("dot_general")
def _dot(m: Maker) -> None:
    for number, (accum, out) in enumerate(_dtype_pairs(m.dtype)):
        attrs = ops.DotGeneralAttrs((), (), (1,), (0,), accum, out)
        m.out(m.graph.emit(ops.dot_general, [m.y(3, 5), m.y(5, 4)], attrs), terms=32)
        if number == 0:
            batched = ops.DotGeneralAttrs((1,), (0,), (0, 2), (2, 1), accum, out)
            m.out(m.graph.emit(ops.dot_general, [m.y(3, 2, 5), m.y(2, 5, 3, 4)], batched), terms=32)
            for left, right in (((0, 5), (5, 2)), ((2, 0), (0, 3)), ((1, 1), (1, 1))):
                m.out(m.graph.emit(ops.dot_general, [m.y(*left), m.y(*right)], attrs), terms=4)
            m.out(
                m.graph.emit(
                    ops.dot_general, [m.y(3), m.y(3)], ops.DotGeneralAttrs((), (), (0,), (0,), accum, out)
                ),
                terms=8,
            )


@dataclass(frozen=True)
class Conv:
    """A convolution: shapes, layouts, and what is not as usual per spatial axis."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    layouts: tuple[str, str, str]
    strides: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    lhs_dilation: tuple[int, ...] = ()
    rhs_dilation: tuple[int, ...] = ()
    groups: int = 1

    def attrs(self, accum: DType, out: DType) -> ops.ConvolutionAttrs:
        ones, zeros = (1,) * (len(self.lhs) - 2), (0,) * (len(self.lhs) - 2)
        return ops.ConvolutionAttrs(
            self.strides or ones,
            self.low or zeros,
            self.high or zeros,
            self.lhs_dilation or ones,
            self.rhs_dilation or ones,
            self.groups,
            *self.layouts,
            accum,
            out,
        )


_LINE = ("NCW", "OIW", "NCW")
CONVOLUTIONS = (
    Conv((2, 3, 6, 5), (4, 3, 3, 2), ("NCHW", "OIHW", "NCHW"), (1, 2), (1, 0), (1, 1)),
    Conv((1, 5, 4, 4), (3, 2, 2, 6), ("NHWC", "HWIO", "NHWC"), (2, 1), (0, 2), (1, -1), (1, 2), groups=2),
    Conv((1, 4, 7), (8, 1, 3), ("NCW", "OIW", "NWC"), (2,), (2,), (2,), (1,), (2,), groups=4),
    Conv((5, 3, 2), (2, 3, 4), ("WCN", "WIO", "CNW"), low=(-1,), high=(3,), lhs_dilation=(3,)),
    Conv((2, 3), (4, 3), ("NC", "OI", "CN")),
    Conv((2, 0, 4), (3, 0, 2), _LINE),
    Conv((1, 2, 2), (1, 2, 3), _LINE),
    Conv((2, 1, 3, 4, 3), (2, 1, 2, 2, 1), ("NCDHW", "OIDHW", "NDHWC"), (1, 2, 1), (0, 1, 0), (1, 0, 0)),
)


@case("convolution", NUMBERS)
def _convolution(m: Maker) -> None:
    for number, (accum, out) in enumerate(_dtype_pairs(m.dtype)):
        for conv in CONVOLUTIONS if m.thorough and number == 0 else CONVOLUTIONS[number : number + 2]:
            inputs = [m.y(*conv.lhs), m.y(*conv.rhs)]
            m.out(m.graph.emit(ops.convolution, inputs, conv.attrs(accum, out)), terms=64)


# -- addresses that are data -----------------------------------------------------------------------------------------


def _index_array(m: Maker, shape: tuple[int, ...], dtype: DType, size: int) -> GraphValue:
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    pool = [0, 1, size - 1, size, size + 3, -1, low, high, 2]
    numbers = [dtype.wrap(pool[i]) for i in m.rng.integers(0, len(pool), int(np.prod(shape)))]
    return m.given(make(dtype, numbers, shape))


@case("gather")
def _gather(m: Maker) -> None:
    x = m.x(5, 3, 4)
    for dtype in (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.uint64, dtypes.int8, dtypes.int4):
        m.emit(ops.gather, [x, _index_array(m, (7,), dtype, 5)], ops.GatherAttrs((0,)))
    m.emit(
        ops.gather,
        [x, _index_array(m, (2, 3), dtypes.int64, 3), _index_array(m, (2, 3), dtypes.int64, 4)],
        ops.GatherAttrs((1, 2)),
    )
    m.emit(ops.gather, [x, _index_array(m, (), dtypes.int32, 4)], ops.GatherAttrs((2,)))
    m.emit(ops.gather, [x, _index_array(m, (0,), dtypes.int32, 4)], ops.GatherAttrs((2,)))
    m.emit(ops.gather, [m.x(1), _index_array(m, (3,), dtypes.int64, 1)], ops.GatherAttrs((0,)))


def _scatter(m: Maker, kind: str) -> None:
    exact = kind in ("replace", "min", "max")
    make_input = m.x if exact else m.y
    x = make_input(4, 3)
    for dtype in (dtypes.int64, dtypes.uint8, dtypes.uint64, dtypes.int4)[: 4 if m.thorough else 1]:
        operands = [x, make_input(9, 3), _index_array(m, (9,), dtype, 4)]
        m.out(m.graph.emit(ops.scatter, operands, ops.ScatterAttrs((0,), kind)), terms=0 if exact else 32)
    both = [
        x,
        make_input(2, 5),
        _index_array(m, (2, 5), dtypes.int32, 3),
        _index_array(m, (2, 5), dtypes.int32, 4),
    ]
    m.out(m.graph.emit(ops.scatter, both, ops.ScatterAttrs((1, 0), kind)), terms=0 if exact else 32)
    m.emit(ops.scatter, [x, m.x(0, 3), _index_array(m, (0,), dtypes.int64, 4)], ops.ScatterAttrs((0,), kind))
    m.emit(
        ops.scatter,
        [m.x(0, 3), m.x(2, 3), _index_array(m, (2,), dtypes.int64, 4)],
        ops.ScatterAttrs((0,), kind),
    )
    m.emit(ops.scatter, [m.x(5), m.x(), _index_array(m, (), dtypes.int64, 3)], ops.ScatterAttrs((0,), kind))


_SCATTERED = {"replace": DTYPES, "add": NUMBERS, "mul": NUMBERS, "min": DTYPES, "max": DTYPES}


@case("scatter")
def _scatters(m: Maker) -> None:
    for kind, taken in _SCATTERED.items():
        if m.dtype in taken:
            _scatter(m, kind)


@case("dynamic_slice")
def _dynamic_slice(m: Maker) -> None:
    x = m.x(5, 4)
    for dtype in (dtypes.int64, dtypes.int32, dtypes.uint64, dtypes.int8)[: 4 if m.thorough else 1]:
        starts = [_index_array(m, (), dtype, size) for size in (5, 4)]
        for sizes in ((2, 3), (5, 1), (0, 4), (5, 4)):
            m.emit(ops.dynamic_slice, [x, *starts], ops.DynamicSliceAttrs(sizes))
    known = [m.graph.constant(np.int64(-3)), m.graph.constant(np.int64(9))]
    m.emit(ops.dynamic_slice, [x, *known], ops.DynamicSliceAttrs((2, 2)))
    m.emit(ops.dynamic_slice, [m.x()], ops.DynamicSliceAttrs(()))


@case("dynamic_update_slice")
def _dynamic_update(m: Maker) -> None:
    x = m.x(5, 4)
    for dtype in (dtypes.int64, dtypes.int32, dtypes.uint64)[: 3 if m.thorough else 1]:
        starts = [_index_array(m, (), dtype, size) for size in (5, 4)]
        for sizes in ((2, 3), (5, 1), (0, 4), (5, 4)):
            m.emit(ops.dynamic_update_slice, [x, m.x(*sizes), *starts])
    known = [m.graph.constant(np.int32(1)), m.graph.constant(np.int32(9))]
    m.emit(ops.dynamic_update_slice, [x, m.x(2, 2), *known])
    m.emit(ops.dynamic_update_slice, [m.x(), m.x()])


@case("dimension_size", (dtypes.float32,))
def _dimension_size(m: Maker) -> None:
    x = m.given(m.data((3, 5)), ("B", 5), B=(1, 8))
    for axis in (0, 1):
        m.emit(ops.dimension_size, [x], ops.DimensionSizeAttrs(axis))


# -- dynamic dims ----------------------------------------------------------------------------------------------------

DYNAMIC: dict[str, Program] = {}


def dynamic(program: Program) -> Program:
    """Register a program with named sizes."""
    DYNAMIC[program.__name__.strip("_").replace("_", " ")] = program
    return program


def _rows(m: Maker, columns: int = 5) -> GraphValue:
    return m.given(m.small((3, columns)), ("B", columns), B=(1, 8))


@dynamic
def _elementwise_over_a_batch(m: Maker) -> None:
    x = _rows(m)
    m.out(x.add(x.mul(x)), x.neg())
    if m.dtype.is_float:
        m.out(
            x.exp(), terms=ULPS["exp"] + 1
        )  # as many units in the last place, the reference being rounded too


@dynamic
def _row_sums(m: Maker) -> None:
    m.out(_rows(m).reduce_sum([1]), _rows(m).reduce_sum([0]), _rows(m).reduce_max([0, 1]), terms=32)


@dynamic
def _flattened(m: Maker) -> None:
    x = _rows(m, 6)
    size = x.type.size
    m.out(
        x.reshape((size,)),
        x.reshape((x.type.dims[0], 2, 3)).transpose((2, 0, 1)),
        x.reshape((size,)).reverse([0]),
    )


@dynamic
def _cut_and_padded(m: Maker) -> None:
    x = m.given(m.small((5, 4)), ("B", 4), B=(3, 8))
    b = x.type.dims[0]
    m.out(x.slice((1, 0), (b, 4)), x.slice((0, 1), (b, 3), (2, 1)), x.slice((0, 0), (b - 2, 4)))
    m.out(
        x.pad((1, 0), (2, 1), value=3),
        x.pad((-1, 0), (0, 0)),
        x.pad((0, 0), (1, 0), (2, 0), value=1),
        x.reverse([0]),
    )


@dynamic
def _joined(m: Maker) -> None:
    x, y = _rows(m, 4), m.given(m.small((2, 4)), ("C", 4), C=(0, 4))
    m.out(m.graph.concat([x, y, x], 0), m.graph.concat([x, y.slice((0, 0), (0, 4))], 0))


@dynamic
def _batched_product(m: Maker) -> None:
    x, w = _rows(m), m.y(5, 3)
    m.out(
        m.graph.emit(ops.dot_general, [x, w], ops.DotGeneralAttrs((), (), (1,), (0,), m.dtype, m.dtype)),
        terms=32,
    )
    inner = m.given(m.small((4, 3)), (4, "B"), B=(1, 8))
    m.out(
        m.graph.emit(ops.dot_general, [inner, x], ops.DotGeneralAttrs((), (), (1,), (0,), m.dtype, m.dtype)),
        terms=32,
    )


@dynamic
def _batched_convolution(m: Maker) -> None:
    x = m.given(m.small((3, 2, 6)), ("B", 2, "L"), B=(1, 4), L=(4, 9))
    attrs = ops.ConvolutionAttrs((2,), (1,), (1,), (1,), (1,), 1, "NCW", "OIW", "NCW", m.dtype, m.dtype)
    m.out(m.graph.emit(ops.convolution, [x, m.y(3, 2, 3)], attrs), terms=32)
    window = ops.ReduceWindowAttrs("max", (1, 1, 2), (1, 1, 2), (0, 0, 1), (0, 0, 0), (1, 1, 1), (1, 1, 1))
    m.emit(ops.reduce_window, [x], window)


@dynamic
def _addressed(m: Maker) -> None:
    x = _rows(m)
    m.emit(ops.gather, [x, _index_array(m, (4,), dtypes.int64, 3)], ops.GatherAttrs((0,)))
    starts = [_index_array(m, (), dtypes.int64, 3), _index_array(m, (), dtypes.int64, 5)]
    m.emit(ops.dynamic_slice, [x, *starts], ops.DynamicSliceAttrs((1, 2)))
    m.emit(ops.dynamic_update_slice, [x, m.y(1, 2), *starts])
    m.emit(ops.scatter, [x, m.y(4, 5), _index_array(m, (4,), dtypes.int64, 3)], ops.ScatterAttrs((0,), "max"))


@dynamic
def _counted(m: Maker) -> None:
    x = _rows(m)
    dims = x.type.dims
    m.out(
        m.graph.iota(dims, 0, m.dtype).add(x),
        x.broadcast_to((2, *dims)),
        m.graph.full(dims, 2, m.dtype).mul(x),
    )
    m.out(m.graph.emit(ops.dimension_size, [x], ops.DimensionSizeAttrs(0)))


@dynamic
def _searched(m: Maker) -> None:
    x = _rows(m)
    m.emit(ops.argmax, [x], ops.ArgReduceAttrs(0))
    m.emit(ops.argmin, [x], ops.ArgReduceAttrs(1))
    m.out(m.graph.emit(ops.cumsum, [x], ops.CumulativeAttrs(0, True, True)), terms=32)
