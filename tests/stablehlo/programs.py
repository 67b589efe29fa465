"""Programs that jax lowers, by name: functions and the arguments to try them with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: Final[dict[str, Case]] = {}


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positives(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.1, 0.9, size=shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 1)).astype(np.complex64)


def add(name: str, function: Callable[..., Any], *args: Any) -> None:
    assert name not in PROGRAMS
    PROGRAMS[name] = function, args


X, Y, P = floats(4, 6), floats(4, 6, seed=3), positives(4, 6)
N, J = ints(4, 6), ints(4, 6, seed=5)
C = complexes(3, 4)

# --- element by element -----------------------------------------------------------------------------------
for _name in [
    "abs",
    "ceil",
    "floor",
    "sign",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "arcsinh",
    "arctan",
    "exp",
    "expm1",
    "exp2",
    "square",
    "negative",
    "isfinite",
    "isnan",
    "isinf",
    "signbit",
    "rint",
    "round",
    "trunc",
    "cbrt",
    "deg2rad",
    "sinc",
    "logical_not",
    "i0",
]:
    add(f"jnp.{_name}", getattr(jnp, _name), X)
for _name in ["log", "log1p", "log2", "log10", "sqrt", "arcsin", "arccos", "arctanh", "reciprocal"]:
    add(f"jnp.{_name}", getattr(jnp, _name), P)
add("jnp.arccosh", jnp.arccosh, P + 1)
for _name in [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "arctan2",
    "hypot",
    "copysign",
    "nextafter",
    "fmod",
    "mod",
    "floor_divide",
    "logaddexp",
    "fmax",
    "fmin",
    "heaviside",
    "greater",
    "less_equal",
    "equal",
    "not_equal",
    "ldexp",
    "float_power",
]:
    _second = N if _name == "ldexp" else Y
    add(f"jnp.{_name}", getattr(jnp, _name), P if _name == "float_power" else X, _second)
for _name in [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "floor_divide",
    "remainder",
    "gcd",
    "lcm",
    "maximum",
    "power",
    "left_shift",
    "right_shift",
]:
    _right = np.abs(J) if _name in ("power", "left_shift", "right_shift") else J
    add(f"int.{_name}", getattr(jnp, _name), N, _right)
add("int.divide_by_zero", lambda x, y: (lax.div(x, y), lax.rem(x, y)), N, J * (J > 3))
add(
    "int.bits",
    lambda x: (lax.population_count(x), lax.clz(x), ~x, lax.shift_right_logical(x, jnp.int32(3))),
    N,
)
add(
    "int.unsigned",
    lambda x: (-x, x // jnp.uint8(3), x >> jnp.uint8(1), x.astype(jnp.int8)),
    N.astype(np.uint8),
)
add("bool.arithmetic", lambda x, y: (x & y, x | y, x ^ y, ~x, x < y, jnp.where(x, 1, 2)), N > 0, J > 0)
for _name in ["erf", "erfc", "lgamma", "digamma", "bessel_i1e", "erf_inv"]:
    add(f"lax.{_name}", getattr(lax, _name), P)
add("special.polygamma", lambda x: jax.scipy.special.polygamma(2, x), P)
add("special.zeta", lambda x: jax.scipy.special.zeta(x + 1, jnp.float32(1.5)), P)
add("special.gammainc", jax.scipy.special.gammainc, P, P + 1)
add("special.betaln", jax.scipy.special.betaln, P, P + 1)
add("special.ndtri", jax.scipy.special.ndtri, P)
add("lax.round", lambda x: lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO), X)
add("lax.clamp", lambda x: lax.clamp(-0.5, x, 0.5), X)
add("lax.reduce_precision", lambda x: (lax.reduce_precision(x, 5, 3), lax.reduce_precision(x, 8, 7)), X * 1e3)
add("lax.bitcast", lambda x: lax.bitcast_convert_type(x, jnp.uint32), X)
add("lax.bitcast_narrow", lambda x: lax.bitcast_convert_type(x, jnp.uint8), X)
add(
    "lax.bitcast_wide", lambda x: lax.bitcast_convert_type(x.reshape(4, 3, 2).astype(jnp.int16), jnp.int32), N
)
add(
    "convert",
    lambda x: [x.astype(t) for t in ("int32", "uint8", "bool", "float16", "bfloat16", "complex64")],
    X * 100,
)
add("nan_to_num", jnp.nan_to_num, np.array([np.nan, np.inf, -np.inf, -0.0, 1], np.float32))
add(
    "activations",
    lambda x: [f(x) for f in (jax.nn.gelu, jax.nn.silu, jax.nn.selu, jax.nn.softplus, jax.nn.sigmoid)],
    X,
)

# --- complex ----------------------------------------------------------------------------------------------
for _name in [
    "abs",
    "exp",
    "log",
    "sqrt",
    "sin",
    "tanh",
    "conj",
    "real",
    "imag",
    "angle",
    "square",
    "negative",
    "arctan",
    "arcsinh",
]:
    add(f"complex.{_name}", getattr(jnp, _name), C)
add(
    "complex.arithmetic",
    lambda z, w: (z + w, z * w, z / w, z**2, z == w, lax.complex(z.real, w.imag)),
    C,
    C[::-1].copy(),
)
add("complex.matmul", lambda z, w: z @ w.T, C, C)

# --- movement ---------------------------------------------------------------------------------------------
add("reshape", lambda x: x.reshape(3, 8).T.ravel(), X)
add("transpose", lambda x: jnp.transpose(x.reshape(2, 2, 6), (2, 0, 1)), X)
add("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), X, Y)
add("stack", lambda x, y: jnp.stack([x, y], -1), X, Y)
add("slice", lambda x: (x[1:3, ::2], x[-1], x[..., None], x[::-1]), X)
add("pad", lambda x: lax.pad(x, jnp.float32(7), ((1, -1, 2), (-2, 3, 1))), X)
add("pad_modes", lambda x: [jnp.pad(x, 2, mode=m) for m in ("edge", "reflect", "wrap")], X)
add("roll", lambda x: jnp.roll(x, 2, 1), X)
add("tile", lambda x: jnp.tile(x, (2, 3)), X)
add("flip", jnp.flip, X)
add("rot90", jnp.rot90, X)
add("repeat", lambda x: jnp.repeat(x, 3, 1), X)
add("tril", lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[0])), X)
add(
    "arange",
    lambda: (jnp.arange(7), jnp.linspace(0, 1, 5), jnp.eye(3), lax.broadcasted_iota(jnp.float32, (2, 3), 1)),
)
add("broadcast", lambda x: jnp.broadcast_to(x[:, None, 0], (3, 4, 5)), X)
add("where", lambda x, y: jnp.where(x > y, x, y * 2), X, Y)
add("kron", jnp.kron, floats(2, 3), floats(3, 2))
add("meshgrid", lambda x: jnp.meshgrid(x[0], x[1]), X)
add("split", lambda x: jnp.split(x, 3, 1), X)
add("bools", lambda x: (jnp.pad(x > 0, 1), (x > 0)[jnp.array([2, 0])], jnp.concatenate([x > 0, x < 0])), X)

# --- reductions -------------------------------------------------------------------------------------------
for _name in [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "all",
    "any",
    "argmax",
    "argmin",
    "nanmax",
    "ptp",
    "median",
    "count_nonzero",
]:
    add(f"reduce.{_name}", getattr(jnp, _name), X)
    if _name not in ("argmax", "argmin"):
        add(f"reduce.{_name}.axis", partial(getattr(jnp, _name), axis=1), X)
add("reduce.argmax.axis", lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1), jnp.nanargmax(x, 1)), X.round())
add("reduce.argmax.nan", lambda x: jnp.argmax(x, 1), np.array([[1, np.nan, 3, np.nan]], np.float32))
add("reduce.logsumexp", jax.scipy.special.logsumexp, X)
add("reduce.body", lambda x: lax.reduce(x, jnp.float32(1), lambda a, b: a * b + a + b, (0,)), P)
add(
    "reduce.variadic",
    lambda x, y: lax.reduce((x, y), (jnp.float32(0), jnp.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)),
    X, P,
)  # fmt: skip
add("reduce.start", lambda x: (lax.reduce(x, 5, lax.add, (0,)), lax.reduce(x, 2, lax.max, (1,))), N)
add(
    "reduce.bits",
    lambda x: (lax.reduce(x, -1, lax.bitwise_and, (0,)), lax.reduce(x, 0, lax.bitwise_xor, (1,))),
    N,
)
add(
    "cumsum",
    lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cummin(x, 0, reverse=True)),
    X,
)
add("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), X)
add("associative_scan", lambda x: lax.associative_scan(lambda a, b: a * b + b, x), P)
add("segment_sum", lambda x: jax.ops.segment_sum(x, jnp.array([0, 2, 2, 1]), 3), X)
add("histogram", lambda x: jnp.histogram(x, 5, (-2, 2)), X)
add("bincount", lambda x: jnp.bincount(x, length=12), np.abs(N).ravel())

# --- products ---------------------------------------------------------------------------------------------
add("matmul", jnp.matmul, floats(2, 3, 4), floats(2, 4, 5))
add("dot.vectors", jnp.dot, X[0], Y[0])
add("einsum", lambda x, y: jnp.einsum("bij,bkj->bik", x, y), floats(2, 3, 4), floats(2, 5, 4))
add("einsum.batch_last", lambda x, y: jnp.einsum("ijb,jkb->bik", x, y), floats(3, 4, 2), floats(4, 5, 2))
add("tensordot", lambda x, y: jnp.tensordot(x, y, 2), floats(2, 3, 4), floats(3, 4, 5))
add("outer", jnp.outer, X[0], Y[0])
add(
    "dot.preferred",
    lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
    N.astype(np.int8),
    J.T.astype(np.int8).copy(),
)
add(
    "dot.bfloat16",
    lambda x, y: lax.dot(x.astype("bfloat16"), y.astype("bfloat16"), preferred_element_type=jnp.float32),
    X,
    Y.T.copy(),
)
add("dot.ints", lambda x, y: x @ y.T, N, J)
IMAGE, KERNEL = floats(2, 3, 8, 8), floats(4, 3, 3, 3, seed=1)
add("conv", lambda x, w: lax.conv(x, w, (2, 2), "SAME"), IMAGE, KERNEL)
add(
    "conv.transpose",
    lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
    IMAGE,
    KERNEL,
)
add(
    "conv.general",
    lambda x, w: lax.conv_general_dilated(x, w, (1, 2), ((1, 2), (0, -1)), (2, 1), (1, 2), ("NHWC", "HWIO", "NHWC"), 2),
    floats(2, 7, 9, 4), floats(3, 2, 2, 6),
)  # fmt: skip
add(
    "conv.batch_groups",
    lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", batch_group_count=2),
    floats(4, 3, 6, 6),
    KERNEL,
)
add("conv.1d", lambda x, y: jnp.convolve(x, y), X.ravel(), Y[0])
add("conv.3d", lambda x, w: lax.conv(x, w, (1, 1, 1), "SAME"), floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2))

# --- windows ----------------------------------------------------------------------------------------------
add("pool.max", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), IMAGE)
add("pool.sum", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"), IMAGE)
add("pool.start", lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 3), (1, 2), "SAME"), X)
add(
    "pool.dilated",
    lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (1, 2), ((1, 0), (2, 1)), (2, 1), (1, 2)),
    X,
)  # fmt: skip
add(
    "pool.body",
    lambda x: lax.reduce_window(x, 0.0, lambda a, b: jnp.sqrt(a * a + b * b), (2, 2), (1, 1), "VALID"),
    P,
)
add(
    "pool.gradient",
    jax.grad(
        lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME") ** 2).sum()
    ),
    IMAGE,
)

# --- indexing ---------------------------------------------------------------------------------------------
INDEX = np.array([2, 0, 3, -1, 1], np.int32)
add(
    "take",
    lambda x, i: (x[i], x[:, i], jnp.take(x, i, 1, mode="clip"), jnp.take(x, i + 2, 0, mode="fill")),
    X,
    INDEX,
)
add("take_along_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), X)
add("gather.pairs", lambda x, i: x[i[:3], i[1:4]], X, INDEX)
add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i + 3), (2, 4)), X, np.int32(1))
add("dynamic_update", lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i)), X, np.int32(9))
add("scatter.set", lambda x, i: x.at[i].set(9.0), X, INDEX)
add("scatter.add", lambda x, i: x.at[:, i].add(jnp.arange(5.0)), X, INDEX)
add("scatter.mul_min_max", lambda x, i: (x.at[i].mul(2.0), x.at[i].min(0.1), x.at[i, i].max(0.2)), X, INDEX)
add("scatter.drop", lambda x, i: x.at[i * 5].set(1.0, mode="drop"), X, INDEX)
add("scatter.window", lambda x: x.at[1:3, 2:4].add(5.0), X)
add("scatter.apply", lambda x, i: x.at[i].apply(jnp.sin), X, np.array([0, 2], np.int32))
add("vmap.gather", jax.vmap(lambda x, i: x[i]), X, np.array([1, 0, 5, 2], np.int32))
add("vmap.scatter", jax.vmap(lambda x, i: x.at[i].add(2.0)), X, np.array([1, 0, 5, 2], np.int32))
add(
    "vmap.dynamic_slice",
    jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))),
    X,
    np.array([1, 0, 5, 2], np.int32),
)
add("one_hot", lambda i: jax.nn.one_hot(i, 5), INDEX)

# --- order ------------------------------------------------------------------------------------------------
SPECIAL = np.array([[3, np.nan, -0.0, 0.0, -np.inf, 1, np.nan, -2]], np.float32)
add("sort", lambda x: (jnp.sort(x, 0), jnp.sort(x, 1, descending=True), jnp.argsort(x, 1)), X)
add("sort.special", lambda x: (jnp.sort(x, 1), jnp.argsort(x, 1)), SPECIAL)
add("sort.ints", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), jnp.argsort(x, 1, descending=True)), N)
add("sort.keys", lambda x, y, z: lax.sort((x, y, z), dimension=1, num_keys=2), N // 4, J // 4, X)
add("sort.lexsort", lambda x, y: jnp.lexsort((x.ravel(), y.ravel())), N // 3, J // 3)
add("sort.complex", lambda z: jnp.sort(z.ravel()), np.round(C))
add("top_k", lambda x: lax.top_k(x, 3), X)
add("unique", lambda x: jnp.unique(x, size=20, return_counts=True), N)
add("searchsorted", lambda x, v: jnp.searchsorted(jnp.sort(x[0]), v), X, Y[1])
add("nonzero", lambda x: jnp.nonzero(x > 0, size=20, fill_value=-1), N)
add("percentile", lambda x: jnp.percentile(x, 30, axis=1), X)

# --- control flow -----------------------------------------------------------------------------------------
add("cond", lambda x, p: lax.cond(p, jnp.sin, jnp.cos, x), X, np.bool_(True))
add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh, lambda v: v * 2], x), np.int32(2), X)
add("switch.outside", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), np.int32(7), X)
add("while", lambda x: lax.while_loop(lambda v: jnp.sum(v * v) > 1e-2, lambda v: v * 0.5, x), X)
add("fori", lambda x: lax.fori_loop(0, 5, lambda i, v: v + i * x, x), X)
add("fori.dynamic", lambda x, n: lax.fori_loop(0, n, lambda i, v: v + x[i, 0], 0.0), X, np.int32(3))
add("scan", lambda x: lax.scan(lambda c, v: (c * 0.5 + v, jnp.tanh(c)), jnp.zeros(6), x), X)
add("scan.reverse", lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(6), x, reverse=True), X)
add("map", lambda x: lax.map(lambda v: jnp.sum(v) * v, x), X)
add("scan.nested", lambda x: lax.scan(lambda c, v: lax.scan(lambda d, w: (d + w, d), c, v), 0.0, x), X)
add("vmap.while", jax.vmap(lambda v: lax.while_loop(lambda a: a < 3.0, lambda a: a + 1.0, v)), X[0])

# --- random numbers ---------------------------------------------------------------------------------------
KEY = np.array([1, 2], np.uint32)
add("random.uniform", lambda k: jax.random.uniform(k, (3, 4)), KEY)
add("random.normal", lambda k: jax.random.normal(k, (5,)), KEY)
add("random.randint", lambda k: jax.random.randint(k, (5,), 0, 10), KEY)
add("random.split", lambda k: jax.random.split(k, 3), KEY)
add("random.bernoulli", lambda k: jax.random.bernoulli(k, 0.3, (5,)), KEY)
add("random.permutation", lambda k: jax.random.permutation(k, 10), KEY)
add("random.categorical", lambda k, x: jax.random.categorical(k, x), KEY, X)
add("random.gamma", lambda k: jax.random.gamma(k, 2.0, (3,)), KEY)
WORDS = np.array([1, 2, 3, 4], np.uint32)
GENERATORS = lax.RandomAlgorithm
for _algorithm, _shape, _kind in (
    *((GENERATORS.RNG_THREE_FRY, s, np.uint32) for s in ((8,), (5,), (3, 4), (3, 5), (2, 3, 4), ())),
    *((GENERATORS.RNG_PHILOX, s, np.uint32) for s in ((8,), (3, 5), ())),
    (GENERATORS.RNG_DEFAULT, (3, 5), np.uint32),
    (GENERATORS.RNG_THREE_FRY, (5,), np.uint8),
    (GENERATORS.RNG_PHILOX, (3, 4), np.uint16),
):
    add(
        f"random.bits.{_algorithm.name}.{_shape}.{_kind.__name__}",
        partial(lax.rng_bit_generator, shape=_shape, dtype=_kind, algorithm=_algorithm),
        WORDS,
    )

# --- linear algebra ---------------------------------------------------------------------------------------
M = floats(5, 5) + 5 * np.eye(5, dtype=np.float32)
S = (M @ M.T).astype(np.float32)


def _eigh_back(a: Any) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return vectors @ jnp.diag(values) @ vectors.T


def _svd_back(a: Any) -> Any:
    left, values, right = jnp.linalg.svd(a, full_matrices=False)
    return (left * values) @ right


def _qr_back(a: Any) -> Any:
    q, r = jnp.linalg.qr(a)
    return q @ r, q.conj().T @ q


add("linalg.cholesky", jnp.linalg.cholesky, S)
add("linalg.solve", jnp.linalg.solve, M, floats(5, 2))
add("linalg.inv", jnp.linalg.inv, M)
add("linalg.det", lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)), M)
add("linalg.eigvalsh", jnp.linalg.eigvalsh, S)
add("linalg.eigh", _eigh_back, S)
add("linalg.svdvals", lambda a: jnp.linalg.svd(a, compute_uv=False), floats(5, 3))
add(
    "linalg.svd",
    _svd_back,
    floats(5, 3),
)
add("linalg.qr", _qr_back, floats(5, 3))
add("linalg.lu", lambda a: jax.scipy.linalg.lu(a), M)
add(
    "linalg.solve_triangular",
    lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1, lower=True),
    M,
    floats(5, 2),
)
add("linalg.lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], floats(5, 3), floats(5))
add("linalg.pinv", jnp.linalg.pinv, floats(5, 3))
add("linalg.expm", jax.scipy.linalg.expm, floats(4, 4) * 0.3)
add("linalg.tridiagonal", lambda d, b: lax.linalg.tridiagonal_solve(d, d + 3, d, b), floats(5), floats(5, 2))
add("linalg.complex", jnp.linalg.inv, complexes(4, 4))
add("linalg.qr.complex", _qr_back, complexes(5, 3))
add("linalg.qr.raw", lambda a: jnp.linalg.qr(a, mode="raw"), floats(3, 5))
add("linalg.batched", jnp.linalg.inv, np.stack([M, M + 1]))
add("fft", lambda x: (jnp.fft.fft(x), jnp.fft.rfft2(x), jnp.fft.ifft(x)), X)
add("fft.inverse", lambda z: jnp.fft.irfft(z, 7), C)

# --- gradients and models ---------------------------------------------------------------------------------


def _mlp(w: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ w["a"] + w["b"]) @ w["c"]) ** 2)


WEIGHTS = {"a": floats(6, 8), "b": floats(8), "c": floats(8, 3)}
add("grad.mlp", jax.value_and_grad(_mlp), WEIGHTS, X)
add(
    "grad.softmax_xent",
    jax.grad(lambda x: -jax.nn.log_softmax(x)[jnp.arange(4), jnp.array([0, 2, 1, 3])].mean()),
    X,
)
add("grad.conv", jax.grad(lambda w, x: jnp.sum(lax.conv(x, w, (2, 2), "SAME") ** 2)), KERNEL, IMAGE)
add(
    "grad.scan",
    jax.grad(lambda x: lax.scan(lambda c, v: (jnp.tanh(c + v), None), jnp.zeros(6), x)[0].sum()),
    X,
)
add("grad.sort", jax.grad(lambda x: (jnp.sort(x, 1) * jnp.arange(6)).sum()), X)
add("grad.gather", jax.grad(lambda x: (x[jnp.array([0, 0, 2])] ** 2).sum()), X)
add("grad.cumsum", jax.grad(lambda x: (jnp.cumsum(x, 1) ** 2).sum()), X)
add("grad.cholesky", jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), S)
add("hessian", jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 2)), X[0])
add("jacfwd", jax.jacfwd(lambda x: jnp.cumsum(x**2)), X[0])


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


HEADS = [floats(2, 5, 2, 4, seed=n) for n in range(3)]
add("attention", _attention, *HEADS)
add("grad.attention", jax.grad(lambda *a: _attention(*a).sum()), *HEADS)
add("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), X)
add("resize", lambda x: jax.image.resize(x, (2, 3, 12, 12), "linear"), IMAGE)
add(
    "map_coordinates", lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c, c + 0.5], 1), X, positives(5) * 3
)
add("checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), X)
add("custom_jvp", jax.grad(lambda x: jax.nn.relu(x).sum()), X)
add("polyval", lambda c, x: jnp.polyval(c, x), X[0], Y[0])
add("interp", lambda x: jnp.interp(x, jnp.arange(4.0), jnp.array([1.0, 3.0, 2.0, 5.0])), P * 3)
