"""For every op of PTIR, small functions around it and points where it is smooth: what derivatives and vmap are tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from planish import dtypes, ptir
from planish.ptir import Graph, ops
from planish.ptir.function import Function
from planish.ptir.types import TensorType

Array = np.ndarray


@dataclass
class Case:
    """A function built around an op, and where to evaluate it."""

    op: str
    build: Callable[..., object]
    inputs: tuple[Array, ...]
    label: str = ""
    second: bool = True
    """Whether second derivatives are checked as well."""
    dims: tuple[tuple[int | str, ...], ...] = ()
    """Shapes with named sizes, where the function is to have them."""

    @property
    def name(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    def function(self) -> Function:
        g = Graph("f")
        values = []
        for n, array in enumerate(self.inputs):
            shape = self.dims[n] if self.dims else array.shape
            values.append(g.input(f"a{n}", ptir.tensor(dtypes.from_numpy(array.dtype), shape, B=(1, 8))))
        built = self.build(g, *values)
        return g.build(*(built if isinstance(built, list | tuple) else [built]))


CASES: list[Case] = []


@dataclass
class Points:
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def real(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Array:
        """Numbers that keep away from integers and each other."""
        count = int(np.prod(shape))
        places = (self.rng.permutation(count) + 0.37 + 0.2 * self.rng.random(count)) / max(count, 1)
        return (low + (high - low) * places).reshape(shape)

    def complex(self, *shape: int) -> Array:
        return self.real(*shape) + 1j * self.real(*shape)

    def ints(self, *shape: int, low: int = 0, high: int = 4, dtype=np.int64) -> Array:
        return self.rng.integers(low, high, shape).astype(dtype)

    def bools(self, *shape: int) -> Array:
        return self.rng.random(shape) < 0.5


P = Points()


def case(op, build, *inputs, label="", second=True, dims=()):
    CASES.append(Case(op, build, inputs, label, second, dims))


# --- elementwise ---

_DOMAIN = {
    "sqrt": (0.3, 3), "rsqrt": (0.3, 3), "log": (0.3, 3), "log2": (0.3, 3), "log1p": (-0.6, 3), "asin": (-0.8, 0.8),
    "acos": (-0.8, 0.8), "atanh": (-0.8, 0.8), "acosh": (1.3, 3), "erfinv": (-0.8, 0.8), "lgamma": (0.3, 4),
    "tan": (-1.2, 1.2), "reciprocal": (0.4, 3), "cbrt": (0.4, 3),
}  # fmt: skip
_UNARY = [
    op for op in ops.REGISTRY.values() if op.elementwise and op.arity == 1 and op.attrs_type is ops.NoAttrs
]
_COMPLEX_UNARY = {
    "neg", "abs", "sign", "reciprocal", "sqrt", "rsqrt", "exp", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "conj", "real", "imag", "is_nan", "is_inf", "is_finite",
}  # fmt: skip


def _unary(op):
    return lambda g, x: g.emit(op, [x])


for _op in _UNARY:
    if _op.name in ("not", "popcount", "clz"):
        case(_op.name, _unary(_op), P.ints(3, 4, low=-9, high=9))
        continue
    if _op.name not in ("conj", "real", "imag"):
        low, high = _DOMAIN.get(_op.name, (-2.0, 2.0))
        case(_op.name, _unary(_op), P.real(3, 4, low=low, high=high))
    if _op.name in _COMPLEX_UNARY:
        case(_op.name, _unary(_op), P.complex(3, 2), label="complex")
case("digamma", lambda g, x: x.digamma(), P.real(5, low=-3.7, high=-0.2), label="negative")
case("lgamma", lambda g, x: x.lgamma(), P.real(5, low=-3.7, high=-0.2), label="negative")

_BINARY = [
    op for op in ops.REGISTRY.values() if op.elementwise and op.arity == 2 and op.attrs_type is ops.NoAttrs
]


def _binary(op):
    return lambda g, x, y: g.emit(op, [x, y])


for _op in _BINARY:
    if _op.name in ("and", "or", "xor", "shl", "shr_logical", "shr_arithmetic", "trunc_div"):
        case(_op.name, _binary(_op), P.ints(3, 4), P.ints(3, 4, low=1))
    elif _op.name == "pow":
        case("pow", _binary(_op), P.real(3, 4, low=0.3, high=2), P.real(3, 4))
    elif _op.name in ("floor_mod", "trunc_mod", "floor_div", "div"):
        case(_op.name, _binary(_op), P.real(3, 4, low=-4.1, high=4.3), P.real(3, 4, low=0.7, high=2))
    else:
        case(_op.name, _binary(_op), P.real(3, 4), P.real(3, 4))
    if _op.name in ("add", "sub", "mul", "div", "pow", "eq", "ne"):
        case(_op.name, _binary(_op), P.complex(2, 3), P.complex(2, 3), label="complex")
case("pow", lambda g, x: x.pow(3.0), P.real(6), label="cube")
case("select", lambda g, p, x, y: p.select(x, y), P.bools(3, 4), P.real(3, 4), P.real(3, 4))
case("cast", lambda g, x: x.cast("c128").mul(x.cast("c128").exp()), P.real(3), label="to-complex")
case("bitcast", lambda g, x: x.bitcast("f64").mul(2.0), P.complex(3), label="parts")
case("bitcast", lambda g, x: x.bitcast("c128").exp(), P.real(3, 2), label="joined")
case("bitcast", lambda g, x: x.bitcast("i32"), P.real(3), label="words")
case(
    "quantize",
    lambda g, x: x.cast("f32").quantize("i8", [0.5, 0.25, 0.125], axis=0).bitcast("i8"),
    P.real(3, 4),
)
case(
    "dequantize",
    lambda g, x: x.cast("f32").quantize("i8", [0.5, 0.25], axis=1).transpose([1, 0]).dequantize(),
    P.real(3, 2),
    second=False,
)
case("constant", lambda g, x: x.mul(g.constant(np.arange(3.0))), P.real(3))
case("iota", lambda g, x: x.mul(g.iota((3, 2), 0, "f64")), P.real(3, 2))

# --- movement ---

case("reshape", lambda g, x: x.reshape([4, 3]), P.real(3, 4))
case(
    "reshape", lambda g, x: x.reshape([x.dims[0] * 4]).sin(), P.real(3, 4), label="dynamic", dims=(("B", 4),)
)
case("transpose", lambda g, x: x.transpose([2, 0, 1]), P.real(2, 3, 4))
case("broadcast_to", lambda g, x: x.broadcast_to([2, 3, 4]).mul(2.0), P.real(3, 1))
case("broadcast_to", lambda g, x: x.broadcast_to([3, 2]), P.real(), label="scalar")
case("slice", lambda g, x: x.slice([1, 0], [6, 5], [2, 3]), P.real(7, 5))
case("slice", lambda g, x: x.slice([0, 1], [x.dims[0], 3]), P.real(3, 4), label="dynamic", dims=(("B", 4),))
case("slice", lambda g, x: x.slice([1, 2], [1, 4]), P.real(3, 4), label="empty")
case("reverse", lambda g, x: x.reverse([1]), P.real(3, 4))
case("concat", lambda g, x, y: x.concat([y, x], 1), P.real(3, 2), P.real(3, 4))
case("pad", lambda g, x, y: x.pad([1, -1], [2, 3], [1, 0], y), P.real(3, 4), P.real())
case("pad", lambda g, x: x.pad([0, 2], [1, -1], [0, 2]), P.real(3, 4), label="interior")
case(
    "bind_dim",
    lambda g, x, n: x.bind_dim(n, 1, "K", 0, 4).sin().reduce_sum([1]),
    P.real(3, 4), np.array(2),
)  # fmt: skip
case(
    "bind_dim",
    lambda g, x, n: x.mul(x).bind_dim(n, 0, "K", 1, 3).cumprod(0).reduce_sum([0]),
    P.real(4), np.array(3), label="cut",
)  # fmt: skip

# --- reductions ---

for _name in ("sum", "prod", "max", "min"):
    _method = f"reduce_{_name}"
    case(_method, lambda g, x, m=_method: getattr(x, m)([0, 2]), P.real(2, 3, 2))
    case(_method, lambda g, x, m=_method: getattr(x, m)([1], keepdims=True), P.real(3, 4), label="kept")
    case(_method, lambda g, x, m=_method: getattr(x, m)([0]), P.real(3, 2), label="dynamic", dims=(("B", 2),))
case("reduce_sum", lambda g, x: x.reduce_sum([1]), P.complex(2, 3), label="complex")
case("reduce_prod", lambda g, x: x.reduce_prod([1]), P.complex(2, 3), label="complex")
case("reduce_prod", lambda g, x: x.reduce_prod(), np.array([1.5, 0.0, -2.0]), label="zero")
case("reduce_prod", lambda g, x: x.reduce_prod(), np.array([1.5, 0.0, 0.0]), label="zeros")
case("reduce_and", lambda g, x: x.reduce_and([1]), P.bools(3, 4))
case("reduce_or", lambda g, x: x.reduce_or([0], True), P.ints(3, 4))
case("argmax", lambda g, x: x.argmax(1), P.real(3, 4))
case("argmin", lambda g, x: x.argmin(0, True, "i32"), P.real(3, 4))
for _name in ("cumsum", "cumprod", "cummax", "cummin"):
    for _reverse in (False, True):
        for _exclusive in (False, True):
            _only = _name in ("cummax", "cummin") and _exclusive  # its first element is an infinity
            case(
                _name,
                lambda g, x, m=_name, r=_reverse, e=_exclusive, o=_only: (
                    getattr(x, m)(1, r, e).slice([0, 0 if r else 1], [3, 4 if r else 5]) if o else getattr(x, m)(1, r, e)
                ),
                P.real(3, 5), label=f"{'reverse' if _reverse else ''}{'exclusive' if _exclusive else ''}",
            )  # fmt: skip
case("cumprod", lambda g, x: x.cumprod(0), P.complex(3, 2), label="complex")
case("cumprod", lambda g, x: x.cumprod(0), np.array([1.5, 0.0, -2.0, 0.5]), label="zero")
case("cummax", lambda g, x: x.cummax(0), P.real(3, 2), label="dynamic", dims=(("B", 2),))
for _kind in ("sum", "prod", "max", "min"):
    case(
        "reduce_window",
        lambda g, x, k=_kind: x.reduce_window(k, [1, 2, 3], [1, 2, 1], [(0, 0), (1, 0), (0, 1)], None, [1, 1, 2]),
        P.real(2, 5, 6), label=_kind,
    )  # fmt: skip
    case(
        "reduce_window",
        lambda g, x, k=_kind: x.reduce_window(k, [2, 2], [2, 1], [(-1, 2), (1, 1)], [2, 1]).clamp(-50.0, 50.0),
        P.real(3, 4), label=f"{_kind}-spread", second=False,
    )  # fmt: skip
    case(
        "reduce_window",
        lambda g, x, k=_kind: x.reduce_window(k, [70], [3], [(2, 3)]),
        P.real(80, low=0.9, high=1.1), label=f"{_kind}-large", second=False,
    )  # fmt: skip
case("reduce_window", lambda g, x: x.reduce_window("prod", [2]), P.complex(4), label="prod-complex")
case(
    "reduce_window",
    lambda g, x: x.reduce_window("max", [1, 2]),
    P.real(3, 4), label="dynamic", dims=(("B", 4),),
)  # fmt: skip

# --- contractions ---

case(
    "dot_general",
    lambda g, x, y: x.dot_general(y, ops.DotDims((0,), (2, 3), (2, 1))),
    P.real(2, 5, 3, 4), P.real(2, 4, 3, 6),
)  # fmt: skip
case(
    "dot_general",
    lambda g, x, y: x.dot_general(y, ops.DotDims((2, 0), (1,), (2,), rhs_batch=(0, 1))),
    P.real(2, 3, 4), P.real(4, 2, 3, 2), label="mixed",
)  # fmt: skip
case("dot_general", lambda g, x, y: x.matmul(y), P.complex(2, 3), P.complex(3, 2), label="complex")
case(
    "dot_general", lambda g, x, y: x.matmul(y), P.real(3, 4), P.real(4, 2), label="dynamic", dims=(("B", 4), (4, 2)),
)  # fmt: skip
case("dot_general", lambda g, x, y: x.dot_general(y, ops.DotDims()), P.real(3), P.real(2), label="outer")
case(
    "convolution",
    lambda g, x, y: x.convolution(y, strides=[2, 1], padding=[(1, 2), (0, 1)], lhs_dilation=[1, 2], rhs_dilation=[2, 1], groups=2),
    P.real(2, 4, 7, 6), P.real(6, 2, 3, 2), second=False,
)  # fmt: skip
case(
    "convolution",
    lambda g, x, y: x.convolution(y, padding=[(1, 2), (0, 1)], lhs_dilation=[3, 2], rhs_dilation=[2, 1], groups=2),
    P.real(2, 4, 3, 4), P.real(6, 2, 3, 2), label="transposed",
)  # fmt: skip
case(
    "convolution",
    lambda g, x, y: x.convolution(y, "NHWC", "HWIO", "NCHW", strides=[1, 2], padding=[(0, 1), (-1, 0)]),
    P.real(2, 5, 6, 3), P.real(2, 3, 3, 4), label="layout",
)  # fmt: skip
case(
    "convolution",
    lambda g, x, y: x.convolution(y, "NCW", "OIW"),
    P.complex(1, 2, 4),
    P.complex(2, 2, 2),
    label="complex",
)
case(
    "convolution",
    lambda g, x, y: x.convolution(y, "NCW", "OIW", padding=[(1, 1)]),
    P.real(3, 2, 5), P.real(4, 2, 3), label="dynamic", dims=(("B", 2, 5), (4, 2, 3)),
)  # fmt: skip

# --- indexing and order ---

_IDX = np.array([2, 0, 2, 9, -1])
case("gather", lambda g, x, i: x.gather([i], [1]), P.real(3, 4), _IDX)
case(
    "gather",
    lambda g, x, i, j: x.gather([i, j], [2, 0]),
    P.real(3, 2, 4),
    P.ints(2, 2),
    P.ints(2, 2),
    label="two",
)
case(
    "gather",
    lambda g, x, i: x.gather([i], [0]),
    P.real(3, 2),
    P.ints(4, dtype=np.uint8),
    label="dynamic",
    dims=(("B", 2), (4,)),
)
for _kind in ("replace", "add", "mul", "max", "min"):
    case(
        "scatter",
        lambda g, x, u, i, k=_kind: x.scatter(u, [i], [0], k),
        P.real(4, 3), P.real(5, 3), np.array([2, 0, 2, 9, 1]), label=_kind,
    )  # fmt: skip
case(
    "scatter",
    lambda g, x, u, i: x.scatter(u, [i], [0], "mul"),
    np.array([0.0, 1.5, 2.0, 0.5]), np.array([3.0, 0.0, 0.0, 0.0, 2.0]), np.array([0, 1, 2, 2, 3]), label="mul-zeros", second=False,
)  # fmt: skip
case(
    "scatter",
    lambda g, x, u, i, j: x.scatter(u, [i, j], [1, 0], "replace", True),
    P.real(3, 4, 2), P.real(3, 2), np.array([0, 2, 3]), np.array([1, 1, 5]), label="unique",
)  # fmt: skip
case(
    "scatter",
    lambda g, x, u, i: x.scatter(u, [i], [0], "mul"),
    P.complex(3),
    P.complex(4),
    P.ints(4),
    label="complex",
)
case(
    "dynamic_slice",
    lambda g, x, i, j: x.dynamic_slice([i, j], [2, 3]),
    P.real(4, 5),
    np.array(1),
    np.array(9),
)
case(
    "dynamic_update_slice",
    lambda g, x, u, i, j: x.dynamic_update_slice(u, [i, j]),
    P.real(4, 5), P.real(2, 2), np.array(-3), np.array(9),
)  # fmt: skip
case("dimension_size", lambda g, x: x.mul(x.dimension_size(1).cast("f64").broadcast_to(x.dims)), P.real(3, 4))
case("sort", lambda g, x: x.sort(0, True), P.real(4, 5))
case(
    "sort",
    lambda g, x, y, z: g.sort([x, y, z], 0, False, 2),
    P.real(4, 2), P.real(4, 2), P.ints(4, 2), label="together",
)  # fmt: skip
case("sort", lambda g, x: x.sort(0), P.real(3, 2), label="dynamic", dims=(("B", 2),))
case("argsort", lambda g, x: x.argsort(0), P.real(4, 5))
case("top_k", lambda g, x: list(x.top_k(2, 1)), P.real(4, 5))
case("top_k", lambda g, x: x.top_k(2, 0, False, "i32")[0], P.real(4, 2), label="smallest")
case("rng_bits", lambda g, k: k.rng_bits([3, 2], "u64"), P.ints(2, dtype=np.uint32, high=99))
case("rng_bits", lambda g, k: k.rng_bits([3, 2], "u16"), P.ints(2, dtype=np.uint32, high=99), label="narrow")
case("nonzero", lambda g, x: list(x.nonzero(5)), P.ints(3, 3, high=2))
case("unique", lambda g, x: list(x.unique(5)), P.ints(3, 3, high=3))
case(
    "non_max_suppression",
    lambda g, b, s: list(b.non_max_suppression(s, 2, 0.5, 0.1)),
    P.real(1, 4, 4, low=0, high=1), P.real(1, 2, 4, low=0, high=1),
)  # fmt: skip

# --- linear algebra and transforms ---


def _hermitian(x):
    t = x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return x.add(t.conj() if x.dtype.is_complex else t)


def _definite(g, x):
    """x·xᴴ and something on the diagonal."""
    t = x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])
    square = x.matmul(t.conj() if x.dtype.is_complex else t)
    return square.add(g.constant(np.eye(3).astype(x.dtype.numpy)).broadcast_to(square.dims))


for _label, _x, _b in (
    ("real", P.real(2, 3, 3), P.real(2, 3, 2)),
    ("complex", P.complex(3, 3), P.complex(3, 2)),
):
    for _lower in (True, False):
        _side = f"{_label}-{'lower' if _lower else 'upper'}"
        case("cholesky", lambda g, x, low=_lower: _definite(g, x).cholesky(low), _x, label=_side)
        for _transform in ("none", "transpose", "adjoint"):
            case(
                "triangular_solve",
                lambda g, a, b, low=_lower, t=_transform: a.triangular_solve(b, True, low, t),
                _x + 3 * np.eye(3), _b, label=f"{_side}-{_transform}", second=_transform == "adjoint",
            )  # fmt: skip
    case(
        "triangular_solve",
        lambda g, a, b: a.triangular_solve(b, False, False, "adjoint", True),
        _x, np.swapaxes(_b, -1, -2), label=f"{_label}-right-unit",
    )  # fmt: skip
    case("eigh", lambda g, x: _hermitian(x).eigh()[0], _x, label=f"{_label}-values")
    case("svd", lambda g, x: x.svd(compute_uv=False)[0], _x, label=f"{_label}-values")
    case(
        "svd",
        lambda g, x: x.svd(full_matrices=True)[1],
        np.ascontiguousarray(_x[..., :2, :]),
        label=f"{_label}-full-values",
        second=False,
    )


def _gauge_free(*parts):
    """Products in which the free phases of factors cancel: |entries|² and entries of projections."""
    found = []
    for part in parts:
        square = part.mul(part.conj()).real() if part.dtype.is_complex else part.mul(part)
        found.append(square)
    return found


case("eigh", lambda g, x: _gauge_free(_hermitian(x).eigh()[1]), P.real(3, 3), label="vectors")
case("eigh", lambda g, x: _gauge_free(_hermitian(x).eigh(False)[1]), P.complex(3, 3), label="complex-vectors")
for _shape in ((4, 3), (3, 3), (3, 4)):
    _which = f"{_shape[0]}x{_shape[1]}"
    _high = _shape == (4, 3)
    case("lu", lambda g, x: x.lu()[0], P.real(*_shape), label=_which)
    case("lu", lambda g, x: x.lu()[0], P.complex(*_shape), label=f"{_which}-complex", second=False)
    case("qr", lambda g, x: list(x.qr()), P.real(*_shape), label=_which, second=_high)
    case("qr", lambda g, x: list(x.qr()), P.complex(*_shape), label=f"{_which}-complex", second=_high)
    for _kind, _x in (("real", P.real(*_shape)), ("complex", P.complex(*_shape))):

        def _svd(g, x):
            u, s, vh = x.svd()
            again = u.mul(s.cast(x.dtype).reshape([1, s.dims[0]]).broadcast_to(u.dims)).matmul(vh.mul(vh))
            return (
                [*_gauge_free(u, vh), s] if x.dtype.is_complex else [*_gauge_free(u, vh), s, again.mul(again)]
            )

        case("svd", _svd, _x, label=f"{_which}-{_kind}", second=_high)
case("qr", lambda g, x: list(x.qr(True)), P.real(3, 4), label="full", second=False)
case("lu", lambda g, x: x.lu()[0], P.real(2, 3, 3), label="batch", second=False)
for _name in ("fft", "ifft"):
    case(_name, lambda g, x, m=_name: getattr(x, m)([1]).mul(x), P.complex(2, 3))
    case(_name, lambda g, x, m=_name: getattr(x, m)([0, 1]), P.complex(2, 3), label="two")
for _length in (4, 5):
    case("rfft", lambda g, x: x.rfft([1]), P.real(2, _length), label=str(_length))
    case("rfft", lambda g, x: x.rfft([1, 0]), P.real(_length, 2), label=f"{_length}-two")
    case("irfft", lambda g, x, n=_length: x.irfft(n, [1]), P.complex(2, 3), label=str(_length))
    case("irfft", lambda g, x, n=_length: x.irfft(n, [1, 0]), P.complex(3, 2), label=f"{_length}-two")
case("fft", lambda g, x: x.fft([0]), P.complex(3, 2), label="dynamic", dims=(("B", 2),))
case("rfft", lambda g, x: x.rfft([0]), P.real(5, 2), label="dynamic", dims=(("B", 2),))

# --- control flow ---

case(
    "cond",
    lambda g, p, x, y: g.cond(p, lambda: [x.mul(y), x], lambda: [x.sin(), y]),
    np.array(True), P.real(3), P.real(3),
)  # fmt: skip
case(
    "cond",
    lambda g, x, y: g.cond(x.reduce_sum().gt(0.0), lambda: [x.mul(y)], lambda: [x.sin()]),
    P.real(3), P.real(3), label="data",
)  # fmt: skip


def _while_loop(g, x, w, n):
    i = g.constant(0)
    return g.while_loop(
        lambda i, a: i.lt(7).and_(i.lt(n)), lambda i, a: [i.add(1), a.mul(w).sin().add(x)], i, x.mul(2.0)
    )[1]


case("while", _while_loop, P.real(3), P.real(3), np.array(4))
case(
    "while",
    lambda g, x: g.while_loop(
        lambda i, a: i.ge(-4), lambda i, a: [i.sub(2), g.cond(a.reduce_sum().lt(1.0), lambda: [a.add(a)], lambda: [a.cos()])[0]],
        g.constant(3), x,
    )[1],
    P.real(3), label="down",
)  # fmt: skip
case(
    "while",
    lambda g, x: g.while_loop(lambda i, a: i.lt(9).and_(a.reduce_sum().lt(2.0)), lambda i, a: [i.add(1), a.mul(1.3)], g.constant(0), x),
    P.real(3, low=0.1, high=0.4), label="data",
)  # fmt: skip
case(
    "scan",
    lambda g, a, b, w: g.scan(lambda c, n, x: [c.mul(w).add(x.sin()), n.add(1), c.mul(x)], [a, g.constant(0)], [b]),
    P.real(3), P.real(4, 3), P.real(3),
)  # fmt: skip
case(
    "scan",
    lambda g, a, b: g.scan(lambda x, y: [x.mul(y), x], [], [a, b], reverse=True),
    P.real(3, 2), P.real(3, 2), label="map",
)  # fmt: skip
case(
    "scan",
    lambda g, a: g.scan(
        lambda c: [g.scan(lambda d: [d.mul(a).tanh()], [c], length=2)[0].add(c)], [a.sin()], length=3, reverse=True
    ),
    P.real(3), label="nested",
)  # fmt: skip
case(
    "scan",
    lambda g, a, b: g.scan(lambda c, x: [c.add(x.mul(c)), c], [a], [b]),
    P.real(2), P.real(3, 2), label="dynamic", dims=((2,), ("B", 2)),
)  # fmt: skip


def _halves(arrays, attrs):
    return (arrays[0] / 2,)


ops.register_custom_call("tests.derivatives.half", _halves)
case(
    "custom_call",
    lambda g, x: g.custom_call("tests.derivatives.half", [x], [TensorType(dtypes.float64, (3,))]),
    P.real(3),
)  # fmt: skip

# -- between ranks: there is one, so that these are about shapes; `tests/distributed` has many ---------------------

MESH = (("m", 1), ("n", 1))
for _kind in ("sum", "prod", "max"):
    case("all_reduce", lambda g, x, k=_kind: x.sin().all_reduce(MESH, ["m"], k), P.real(3, 4), label=_kind)
    case(
        "reduce_scatter",
        lambda g, x, k=_kind: x.reduce_scatter(MESH, ["m"], 1, k).sin(),
        P.real(3, 4),
        label=_kind,
    )
case("all_gather", lambda g, x: x.sin().all_gather(MESH, ["n", "m"], 1), P.real(3, 4))
case("all_to_all", lambda g, x: x.sin().all_to_all(MESH, ["m"], 0, 1), P.real(3, 4))
case("permute", lambda g, x: x.sin().permute(MESH, ["m"], [(0, 0)]), P.real(3, 4))
case("broadcast", lambda g, x: x.sin().broadcast(MESH, ["m"]), P.real(3, 4))
case(
    "mesh_index", lambda g, x: x.mul(g.mesh_index(MESH, ["m"]).cast("f64").broadcast_to(x.dims)), P.real(3, 4)
)
case("sharding", lambda g, x: x.sin().sharding(MESH, (("m",), ())), P.real(3, 4))
case("to_device", lambda g, x: x.sin().to_device("cpu").sin(), P.real(3, 4))
