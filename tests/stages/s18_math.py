"""Machinery for the tests of stage 18: kernels of one op through the real pipeline, references, errors in ULP.

Bounds are read from the table in docs/math.md, so what is written there is what is tested.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from planish import dtypes
from planish.codegen import llvm, symbols
from planish.dtypes import DType
from planish.llir.lower import lower
from planish.runtime.cpu import CompiledModule, host
from planish.stages import pipeline
from planish.stages.linearizer.decompositions.support import CPU, Support
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.target import AVX512_OPS
from planish.target import TARGETS as MACHINES
from planish.uop.evaluate import evaluate
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops

Array = NDArray[Any]
NO_FMA: Final = Support(CPU.ops - {Ops.MULACC})
SPARE: Final = Support(
    NO_FMA.ops - {Ops.RECIP, Ops.MAX, Ops.MIN, Ops.ABS, Ops.NEG, Ops.POPCOUNT, Ops.CLZ, Ops.CMPLE}
)
"""A machine without what every CPU has."""
TARGETS: Final = {"fma": CPU, "no_fma": NO_FMA, "avx512": Support(AVX512_OPS)}
UNARY: Final = tuple(Ops[name] for name in ["EXP", "EXP2", "EXPM1", "LOG", "LOG2", "LOG1P", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH", "ASINH", "ACOSH", "ATANH", "ERF", "ERFC", "CBRT", "RSQRT"])  # fmt: skip
DTYPES: Final = {"f32": dtypes.float32, "f64": dtypes.float64}


def bounds() -> Mapping[tuple[str, str], float]:
    """(function, dtype) → the bound that docs/math.md states, in ULP."""
    text = (Path(__file__).parents[2] / "docs" / "math.md").read_text(encoding="utf-8")
    text = text.split("\n## Bounds\n")[1].split("\n## ")[0]
    found: dict[tuple[str, str], float] = {}
    for name, single, double in re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE):
        found[name, "f32"], found[name, "f64"] = float(single), float(double)
    return found


@cache
def has_tables(op: Ops, dtype: DType) -> bool:
    """Whether a function is computed with tables where there are some."""
    applied = Applied(op, dtype, TARGETS["avx512"])
    return any(node.op in {Ops.LOOKUP, Ops.SCALE} for node in applied.nodes())


def cases(ops: Sequence[Ops], dtype: DType) -> list[tuple[Ops, str]]:
    """Each function on each kind of target that has a form of its own for it."""
    return [(op, name) for op in ops for name in TARGETS if name != "avx512" or has_tables(op, dtype)]


# -- running one op -------------------------------------------------------------------------------------------------


class Applied:
    """An op on fresh operands, decomposed for a target; evaluated on arrays."""

    def __init__(self, op: Ops, dtype: DType, support: Support) -> None:
        self.table = Table()
        self.operands = [
            self.table.param(slot, dtype, 1).index(self.table.const(0)) for slot in range(op.min_sources)
        ]
        self.value = decompositions(self.operands[0].alu(op, *self.operands[1:]), support)

    def nodes(self) -> list[UOp]:
        """What it is made of, less what the operands are."""
        return self.value.toposort(lambda node: node not in self.operands)

    def __call__(self, *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return evaluate(self.value, dict(zip(self.operands, arrays, strict=True)))


def compiled(build: Callable[..., UOp], dtype_in: DType, arity: int, size: int, support: Support) -> Callable[..., Array]:  # fmt: skip
    """A native kernel over `size` elements, through all stages, LLIR and LLVM."""
    with Table() as table:
        r = table.range(size, 0)
        operands = [table.param(slot + 1, dtype_in, size).index(r) for slot in range(arity)]
        value = build(*operands)
        out = table.param(0, value.dtype, size)
        machine = pipeline.Machine(replace(MACHINES["scalar"], supported_ops=support.ops), lambda sink: ())
        program = lower("kernel", pipeline.run(table.sink(out.index(r).store(value).end(r)), machine))
        result_type = value.dtype.numpy
    module = CompiledModule(llvm.render(program, avx512=host().avx512))
    call = module.kernel(symbols.kernel(program.name), len(program.params))

    def run(*arrays: Array) -> Array:
        assert module is not None  # keeps the code alive
        result = np.empty(size, result_type)
        call([result, *map(np.ascontiguousarray, arrays)])
        return result

    return run


@cache
def native(op: Ops, dtype: DType, size: int, support: Support = CPU) -> Callable[..., Array]:
    """The kernel of one op."""
    return compiled(lambda x, *y: x.alu(op, *y), dtype, op.min_sources, size, support)


def same_bits(x: Array, y: Array) -> bool:
    """Bit for bit, any NaN being like any other."""
    word = f"u{x.dtype.itemsize}"
    return bool(np.all((x.view(word) == y.view(word)) | (np.isnan(x) & np.isnan(y))))


# -- inputs ---------------------------------------------------------------------------------------------------------


def specials(dtype: DType) -> Array:
    """Zeros, subnormals, infinities, NaN, powers of two, multiples of π, ends of the range: both signs, with neighbours."""
    kind: Any = dtype.numpy.type
    info = np.finfo(kind)
    values = [
        0.0, info.smallest_subnormal, info.tiny, info.max, math.inf, math.nan, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 1e10, info.eps,
        math.sqrt(0.5), math.sqrt(2), math.log(2) / 2, math.log(2), 0.55, 0.75, math.tan(math.pi / 8), 1 / math.tan(math.pi / 8),
        *(k * math.pi / 4 for k in range(1, 12)), 88.72283, 89.41598, 103.97208, 87.33655, 709.782712893384, 710.475860073944,
        745.133219101941, 708.3964185322641, 10.054, 26.543, 9.194, 3.92, 5.92, 127.0, 128.0, 149.0, 150.0, 1023.0, 1024.0, 1074.0,
        1075.0, 2.0**14, 2.0**30, 2.0**23, 2.0**24, 2.0**52, 2.0**53, 6381956970095103 * 2.0**797 if dtype.bits == 64 else 1.6e38,
    ]  # fmt: skip
    base = np.array(values, np.float64).astype(kind)
    with np.errstate(all="ignore"):
        around = [base]
        for direction in (math.inf, -math.inf):
            step = base
            for _ in range(3):
                step = np.nextafter(step, kind(direction))
                around.append(step)
    found = np.concatenate(around)
    return np.concatenate([found, -found])


_INTEREST: Final = {
    Ops.EXP: (-104.0, 89.0), Ops.EXP2: (-150.0, 128.0), Ops.EXPM1: (-20.0, 89.0), Ops.LOG: (0.4, 3.0), Ops.LOG2: (0.4, 3.0),
    Ops.LOG1P: (-1.0, 3.0), Ops.ASIN: (-1.0, 1.0), Ops.ACOS: (-1.0, 1.0), Ops.ATAN: (-4.0, 4.0), Ops.SINH: (-90.0, 90.0),
    Ops.COSH: (-90.0, 90.0), Ops.TANH: (-10.0, 10.0), Ops.ACOSH: (1.0, 3.0), Ops.ATANH: (-1.0, 1.0), Ops.ERF: (-4.0, 4.0),
    Ops.ERFC: (-4.0, 10.1),
}  # fmt: skip


def inputs(op: Ops, dtype: DType, size: int, seed: int = 0) -> Array:
    """Special values, random patterns, every order of magnitude, and where the function does its work."""
    rng = np.random.default_rng([seed, int(op)])
    kind: Any = dtype.numpy.type
    given = specials(dtype)
    part = (size - len(given)) // 4
    patterns = rng.integers(0, 1 << 64, part, np.uint64).astype(f"u{dtype.itemsize}").view(kind)
    sizes = np.exp(rng.uniform(-60, 7, part)) * rng.choice([-1.0, 1.0], part)
    near = rng.uniform(-3, 3, part)
    rest = size - len(given) - 3 * part
    low, high = _INTEREST.get(op, (-100.0, 100.0))
    factor = 8.0 if dtype.bits == 64 and high > 50 and op is not Ops.EXPM1 else 1.0
    work = rng.uniform(low * factor, high * factor, rest)
    return np.concatenate([given, patterns, sizes.astype(kind), near.astype(kind), work.astype(kind)])


def pairs(dtype: DType, size: int, seed: int = 0) -> tuple[Array, Array]:
    """Every pair of special values, random patterns, moderate values, integers, and powers that stay in range."""
    rng = np.random.default_rng(seed)
    kind: Any = dtype.numpy.type
    info = np.finfo(kind)
    ends = [
        0.0,
        math.inf,
        math.nan,
        info.smallest_subnormal,
        info.tiny,
        info.max,
        1.0,
        1 + info.eps,
        1 - info.epsneg,
    ]
    ends += [
        0.5,
        1.5,
        2.0,
        3.0,
        1e10,
        2.0**info.nmant,
        2.0**info.nmant + 1,
        2.0 ** (info.nmant + 1),
        0.1,
        127.5,
    ]
    ends += [-x for x in ends]
    grid = np.array(list(itertools.product(ends, ends)), kind)
    part = (size - len(grid)) // 5
    limit = math.log(float(info.max))
    columns = [(grid[:, 0], grid[:, 1])]
    word = f"u{dtype.itemsize}"
    patterns = [rng.integers(0, 1 << 64, part, np.uint64).astype(word).view(kind) for _ in range(2)]
    sizes = [np.exp(rng.uniform(-30, 30, part)) * rng.choice([-1.0, 1.0], part) for _ in range(2)]
    bases = np.exp(rng.uniform(-5, 5, part)).astype(kind)
    ones = (1 + rng.uniform(1e-6, 1e-3, part) * rng.choice([-1.0, 1.0], part)).astype(kind)
    rest = size - len(grid) - 4 * part
    columns += [
        (patterns[0], patterns[1]),
        (sizes[0], sizes[1]),
        (bases, rng.uniform(-limit, limit, part) / np.log(bases.astype(np.float64))),
        (ones, rng.uniform(-limit, limit, part) / np.log(ones.astype(np.float64))),
        (rng.uniform(-20, 20, rest), rng.integers(-30, 30, rest).astype(np.float64)),
    ]
    with np.errstate(over="ignore"):
        x, y = (np.concatenate([np.asarray(c[k]).astype(kind) for c in columns]) for k in (0, 1))
    return x, y


# -- references -----------------------------------------------------------------------------------------------------


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(np.frompyfunc(function, 1, 1)(x)).astype(np.float64)


DOUBLE: Final[dict[Ops, Callable[..., Array]]] = {
    Ops.EXP: np.exp, Ops.EXP2: np.exp2, Ops.EXPM1: np.expm1, Ops.LOG: np.log, Ops.LOG2: np.log2, Ops.LOG1P: np.log1p,
    Ops.SIN: np.sin, Ops.COS: np.cos, Ops.TAN: np.tan, Ops.ASIN: np.arcsin, Ops.ACOS: np.arccos, Ops.ATAN: np.arctan,
    Ops.SINH: np.sinh, Ops.COSH: np.cosh, Ops.TANH: np.tanh, Ops.ASINH: np.arcsinh, Ops.ACOSH: np.arccosh,
    Ops.ATANH: np.arctanh, Ops.ERF: _each(math.erf), Ops.ERFC: _each(math.erfc), Ops.CBRT: np.cbrt,
    Ops.RSQRT: lambda x: 1 / np.sqrt(x), Ops.POW: np.power, Ops.ATAN2: np.arctan2,
}  # fmt: skip
"""In float64: for float32 exact enough (a few units of 2**-53), and for the special values of both."""

EXACT: Final[dict[Ops, Callable[..., mpf]]] = {
    Ops.EXP: mpmath.exp, Ops.EXP2: lambda x: mpf(2) ** x, Ops.EXPM1: mpmath.expm1, Ops.LOG: mpmath.log,
    Ops.LOG2: lambda x: mpmath.log(x) / mpmath.log(2), Ops.LOG1P: mpmath.log1p, Ops.SIN: mpmath.sin, Ops.COS: mpmath.cos,
    Ops.TAN: mpmath.tan, Ops.ASIN: mpmath.asin, Ops.ACOS: mpmath.acos, Ops.ATAN: mpmath.atan, Ops.SINH: mpmath.sinh,
    Ops.COSH: mpmath.cosh, Ops.TANH: mpmath.tanh, Ops.ASINH: mpmath.asinh, Ops.ACOSH: mpmath.acosh,
    Ops.ATANH: mpmath.atanh, Ops.ERF: mpmath.erf, Ops.ERFC: mpmath.erfc,
    Ops.CBRT: lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), Ops.RSQRT: lambda x: 1 / mpmath.sqrt(x),
    Ops.ATAN2: mpmath.atan2,
}  # fmt: skip
_CANCELS: Final = frozenset(
    {Ops.EXPM1, Ops.LOG1P, Ops.SINH, Ops.TANH, Ops.ASINH, Ops.ATANH, Ops.ERF, Ops.ACOSH}
)


def reference(op: Ops, *arrays: Array) -> Array:
    """The op in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(DOUBLE[op](*(x.astype(np.float64) for x in arrays)))


def _ulp_single(found: Array, wanted: Array) -> Array:
    """|found - wanted| in units of the last place that wanted has in float32; inf where a special value differs."""
    rounded = wanted.astype(np.float32)
    exponent = np.frexp(np.abs(wanted))[1]
    error = np.abs(found.astype(np.float64) - wanted) / np.ldexp(1.0, np.maximum(exponent - 24, -149))
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    special = ~np.isfinite(found) | ~np.isfinite(rounded)
    wrong_sign = (found == 0) & (rounded == 0) & (np.signbit(found) != np.signbit(rounded))
    error = np.where(special, np.where(same, 0.0, np.inf), error)
    return np.where(wrong_sign, np.inf, error)


def worst_single(op: Ops, found: Array, *arrays: Array) -> tuple[float, int]:
    """The largest error in ULP of float32, and where."""
    with np.errstate(all="ignore"):
        wanted = reference(op, *arrays)
        rounded = wanted.astype(np.float32)
        # Correctly rounded results need no closer look.
        candidates = np.flatnonzero(found.view(np.uint32) != rounded.view(np.uint32))
        if not len(candidates):
            return 0.5, 0
        errors = _ulp_single(found[candidates], wanted[candidates])
    place = int(np.argmax(errors))
    return max(float(errors[place]), 0.5), int(candidates[place])


def exact(op: Ops, *given: float) -> mpf | float:
    """The value to far more than float64, or a float where it is special."""
    # Of a lone exponent 0.5 NumPy would make a square root, so it gets two.
    plain = float(reference(op, *(np.array([x, x]) for x in given))[0])
    if not all(map(math.isfinite, given)) or math.isnan(plain) or plain == 0 or any(x == 0 for x in given):
        return plain
    size = max(abs(math.frexp(x)[1]) for x in given)
    if op is Ops.POW:
        if math.isinf(plain) and abs(given[0]) == 1:
            return plain
        with mp.workprec(200):
            power = mpmath.power(abs(mpf(given[0])), mpf(given[1]))
            return -power if plain < 0 else power
    far = (
        op in {Ops.EXP, Ops.EXP2, Ops.EXPM1, Ops.SINH, Ops.COSH, Ops.TANH, Ops.ERF, Ops.ERFC}
        and abs(given[0]) > 1100
    )
    if far or (op in {Ops.ATANH, Ops.LOG1P} and math.isinf(plain)):
        return plain
    extra = size if op in {Ops.SIN, Ops.COS, Ops.TAN} else 2 * size if op in _CANCELS else 0
    with mp.workprec(200 + min(extra, 2400)):
        return +EXACT[op](*map(mpf, given))


def ulp_double(found: float, wanted: mpf | float) -> float:
    """The error in ULP of float64."""
    if isinstance(wanted, float) and (math.isnan(wanted) or math.isinf(wanted) or wanted == 0):
        same = (
            math.isnan(found)
            if math.isnan(wanted)
            else found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
        )
        return 0.0 if same else math.inf
    if math.isnan(found):
        return math.inf
    with mp.workprec(2300):
        exact_value = mpf(wanted)
        if math.isinf(found):
            overflow = abs(exact_value) >= mpf(2) ** 1024 - mpf(2) ** 970
            return 0.0 if overflow and (found > 0) == (exact_value > 0) else math.inf
        if exact_value == 0:
            return 0.0 if found == 0 else math.inf
        unit = mpf(2) ** max(int(mpmath.frexp(abs(exact_value))[1]) - 53, -1074)
        return float(abs(mpf(found) - exact_value) / unit)


def worst_double(op: Ops, found: Array, *arrays: Array) -> tuple[float, int]:
    """The largest error in ULP of float64, and where."""
    errors = [
        ulp_double(y, exact(op, *given))
        for y, *given in zip(found.tolist(), *(x.tolist() for x in arrays), strict=True)
    ]
    place = int(np.argmax(errors))
    return errors[place], place


def describe(op: Ops, place: int, found: Array, arrays: Sequence[Array]) -> str:
    """For a failure: what was wrong."""
    given = ", ".join(repr(x[place]) for x in arrays)
    return (
        f"{op.name}({given}) gave {found[place]!r}, exactly {exact(op, *(float(x[place]) for x in arrays))!r}"
    )
