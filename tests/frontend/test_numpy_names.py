"""Names that NumPy has beyond the standard: the same calls on both, with the same results."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn

NAN = float("nan")
DATA: dict[str, Any] = {
    "a": np.array([[3.0, -1.5, 2.0, 8.0], [0.5, 7.0, -4.0, 1.0], [2.5, 2.0, 9.0, -6.0]]),
    "b": np.array([[1.0, NAN, 2.0, 4.0], [NAN, 3.0, -1.0, 0.5]]),
    "h": np.array([[NAN, 1.0], [NAN, 2.0]]),
    "v": np.array([1.0, 4.0, 2.0, 8.0, 5.0, 7.0]),
    "w": np.array([0.5, 1.0, -2.0]),
    "i": np.array([[4, 6, -9], [12, 0, 7]]),
    "j": np.array([[6, 4, 3], [18, 5, 21]]),
    "n": np.array([3, 1, 2, 3, 1, 0]),
    "c": np.array([1 + 2j, 3 - 1j, 0.5j, 1 + 1j]),
    "m": np.array([True, False, True, True, False, True]),
    "t": np.arange(24.0).reshape(2, 3, 4),
    "s": np.array([np.inf, -np.inf, NAN, 0.0, -0.0, 1e-310, 5.5, -2.5]),
    "u": np.array([3, 200, 77], dtype=np.uint8),
    "z": np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0]),
}
CALLS = """
absolute(a); amax(a, 0); amin(a, 1); arccos(w / 4); arcsin(w / 4); arctan(a); arctan2(a, a + 1); arccosh(v); arcsinh(a)
arctanh(w / 4); around(a, 1); bitwise_not(i); concatenate([a, a], 1); conjugate(c); degrees(w); radians(w); invert(i)
left_shift(abs(i), 2); right_shift(abs(i), 1); mod(i, j); power(v, 2.0); true_divide(i, j); fabs(i)
sum(a, 0); prod(a, 1); mean(a, 0); max(a, 0); min(a, 1); var(a, 0); std(a, 1); argmax(a, 0); argmin(a, 1); all(a > 0, 0)
any(a > 5, 1); sort(a, 0); argsort(v); flip(a, 0); stack([a, a], 1); concat([a, a], 0); take(a, n[:3], 1); repeat(a, 2, 1)
roll(a, 1, 0); tile(v, 2); diff(a, axis=0); tril(a, 1); triu(a, -1); diag(v, 1); tensordot(a, a.T, 1); split(t, 3, 1)
zeros((2, 3), 'float32'); ones(3, 'int16'); full((2, 2), 7, 'float32'); zeros_like(i, 'float32'); eye(3); identity(3)
divmod(i, j); fmax(b[0], b[1]); fmin(b[0], b[1]); float_power(v, 0.5); gcd(i, j); lcm(i, j); heaviside(s, 0.5)
ldexp(v, n); frexp(v); frexp(s); modf(s); modf(a); logaddexp2(a, a + 1); rint(a); spacing(v); isneginf(s); isposinf(s)
iscomplex(c); isreal(c); isreal(a); iscomplexobj(c); isrealobj(c); isscalar(3.0); packbits(m); packbits(m, bitorder='little')
packbits(i != 0, axis=0); unpackbits(u); unpackbits(u, count=11); unpackbits(u, count=30); unpackbits(u, count=-5); unpackbits(u, bitorder='little')
cumsum(a); cumsum(a, 1); cumprod(a, 0); cumsum(i, 0); ptp(a); ptp(a, 0); nansum(b); nansum(b, 0); nanprod(b, 1)
nancumsum(b, 1); nancumprod(b); nanmean(b); nanmean(b, 0); nanmean(b, 1, keepdims=True); nanvar(b, 1); nanvar(b, 1, ddof=1)
nanstd(b); nanmax(b, 0); nanmin(b, 1); nanmax(i); nanmax(h, 0); nanargmax(b, 1); nanargmin(b, 1); nanmedian(b); nanmedian(b, 1); median(-s[:2] * [1, -1])
nanquantile(b, 0.3, 1); nanpercentile(b, [10, 90]); percentile(a, 30); percentile(a, [25, 50, 99], axis=1)
percentile(a, 40, axis=0, method='lower'); percentile(a, 40, axis=0, method='higher'); percentile(a, 45, method='midpoint')
percentile(a, 45, axis=1, method='nearest', keepdims=True); percentile(t, [20, 80], axis=(0, 2)); percentile(b, 50, axis=1); quantile(a, [0.1, 0.5], axis=1); quantile(t, 0.3, axis=(0, 2)); median(t, (0, 1)); quantile(a, 0.4, method='lower')
cov(a); cov(a, rowvar=False); cov(v, v * v); cov(a, ddof=0); cov(a, fweights=n[:4] + 1); cov(a, aweights=v[:4]); corrcoef(a)
corrcoef(v, v * v); histogram(v); histogram(v, 3); histogram(v, 4, (0.0, 8.0)); histogram(v, w.copy()[[2, 0, 1]])
histogram(v, 3, weights=v); histogram(v, 3, density=True); histogram_bin_edges(v, 5); histogram2d(v, v[::-1], 3)
histogramdd(t.reshape(8, 3), (2, 3, 4)); bincount(n); bincount(u, minlength=300); digitize(v, array([2.0, 5.0])); digitize(b, array([5.0, 2.0, -1.0])); digitize(v, array([5.0, 2.0]), right=True); interp(w, v[[0, 2, 1]], v[:3])
array([[1, 2], [3, 4]]); array([1.5, 2], ndmin=2); copy(a); transpose(t); transpose(t, (1, 0, 2)); rollaxis(t, 2); rollaxis(t, 0, 2)
fliplr(a); flipud(a); atleast_3d(a); atleast_3d(v); diagflat(a); diagonal(t); diagonal(t, 1, 0, 2); trace(a); trace(t, 0, 1, 2)
resize(a, (2, 3)); resize(v, (3, 5)); append(a, a); append(a, a, 0); dstack([a, a]); dstack([v, v]); column_stack([v, v])
column_stack([a, a]); block([[a, a], [a, a]]); block([v, v]); block([[1.0, v], [v, 2.0]]); insert(v, 2, 9.0); insert(v, [0, 3], [7.0, 8.0])
insert(a, 1, 5.0, axis=1); insert(a, 1, v[:4], axis=0); insert(v, -1, 3.0); insert(v, [1, 1], [7.0, 8.0]); delete(v, 2)
delete(a, [0, 2], axis=1); delete(a, 1); delete(v, slice(1, 4)); trim_zeros(z); trim_zeros(z, 'f'); trim_zeros(z, 'b')
array_split(v, 4); array_split(v, [2, 3]); hsplit(a, 2); vsplit(t, 2); dsplit(t, 2); hsplit(v, 2); sort_complex(c)
vdot(c, c); vdot(a, a); matvec(t, v[:4]); vecmat(v[:3], t); cross(w, v[:3]); append(i, 7)
indices((2, 3)); indices((2, 3), sparse=True); diag_indices(3); diag_indices_from(a[:, :3]); tril_indices(3); tril_indices(3, 1, 4)
triu_indices(3, -1); tril_indices_from(a); triu_indices_from(a, 1); flatnonzero(z); unravel_index(n, (2, 3)); unravel_index(5, (2, 3))
ravel_multi_index((n % 2, n % 3), (2, 3)); ravel_multi_index((n, n), (2, 3), mode='clip'); ravel_multi_index((n, n), (2, 3), mode='wrap')
ix_(n[:2], n[2:]); a[ix_([0, 2], [1, 3])]; mgrid[0:3]; mgrid[0:2, 0:3]; ogrid[0:2, 0:3]; mgrid[0:1:5j]; r_[0:3, 7, v]; c_[v, v]
c_[a, a]; s_[1:3, ...]; index_exp[1:2]; select([v > 5, v > 3], [v, -v], 0.5); choose(n % 3, [v, -v, v * 2])
choose(n, [v, -v], mode='wrap'); compress([True, False, True], a, 0); compress(m, v); extract(v > 3, v); where(v > 3)
where(a > 1, a, -a); piecewise(v, [v < 3, v > 6], [lambda x: -x, 7.0, lambda x: x * 2]); piecewise(v, [v < 3], [1.0])
convolve(v, w); convolve(v, w, 'same'); convolve(w, v, 'valid'); convolve(n, n); correlate(v, w); correlate(v, w, 'full')
correlate(v, w, 'same'); correlate(w, v, 'full'); correlate(c, c[:2], 'full'); gradient(v); gradient(a); gradient(a, axis=1)
gradient(v, 2.0); gradient(v, cumsum(v)); gradient(v, edge_order=2); gradient(v, cumsum(v), edge_order=2); gradient(a, 2.0, 3.0)
trapezoid(v); trapezoid(a, axis=0); trapezoid(v, cumsum(v)); trapezoid(a, dx=0.5); ediff1d(v); ediff1d(a, 9.0, [1.0, 2.0])
unwrap(v * 3); unwrap(v * 3, axis=0); unwrap(a * 3, axis=0); unwrap(v, period=4.0); bartlett(7); blackman(7); hamming(6); hanning(5)
kaiser(8, 8.6); hanning(1); hanning(0); i0(a); i0(v * 20); i0(v * 2e307)
poly(v[:3]); polyadd(v, w); polysub(w, v); polymul(v, w); polydiv(v, w); polydiv(w, v); polyder(v); polyder(v, 2); polyint(v)
polyint(v, 2, [1.0, 2.0]); polyfit(v, v * v + 1, 2); polyval(w, v); polyval(w, 2.0)
unique(n); unique(n, return_counts=True); unique(n, True, True, True); unique(i % 3, axis=0); union1d(n, n + 2); intersect1d(n, n + 2)
intersect1d(v, v[2:], return_indices=True); setdiff1d(n, [1, 2]); setxor1d(n, n + 1); array_equiv(v, v); array_equiv(v, w)
apply_along_axis(lambda x: x.sum(), 0, a); apply_along_axis(lambda x: x * 2, 1, a); ndim(a); shape(a); size(a); size(a, 1); iterable(v)
m * m; m + m; m / True; floor(m); signbit(m); mean(m); convolve(m, m[:2]); matmul(m, m)
sum(a, where=a > 1); sum(a, 0, initial=3.0); prod(a, 1, where=a > 0, initial=2.0); max(a, 0, initial=2.5); max(i, 1, initial=9)
min(a, where=a > 0, initial=5.0); mean(a, where=a > 1); mean(a, 0, where=a > -7, keepdims=True); std(a, ddof=1); var(a, 0, ddof=1)
var(a, where=a > 0); std(a, 1, where=a > -2, ddof=1); all(a > 0, 1, where=a < 3); any(a > 5, 0, where=a < 8); a.std(ddof=1)
a.sum(0, dtype='float32'); a.mean(dtype='float32'); average(a, 0, weights=w); average(a, 1, a + 7, True); average(a, keepdims=True)
diff(a, 2); diff(a, 1, 0); allclose(v, v + 1e-4, 1e-3); isclose(v, v + 1e-4, 0.0, 1e-3); array_equal(b, b, True); array_equal(b, b)
angle(c, True); bincount(n, v); bincount(n, minlength=7); searchsorted(array([1.0, 4.0]), v, 'right'); digitize(v, array([2.0, 5.0]), True)
interp(w * 9, v[[0, 2, 1]], v[:3], -1.0, 99.0); interp(w * 3, v[[0, 2, 1]], v[:3], period=7.0); linspace(0.0, 1.0); linspace(0.0, 1.0, 4, False)
logspace(0.0, 2.0, 3, False); geomspace(1.0, 8.0, 4, True); vander(v, 3, True); vander(u, 3); unravel_index(u, (20, 15)); ravel_multi_index((u % 20, u % 30), (20, 30)); choose(u % 3, [v[:3], -v[:3], v[3:]]); lexsort(i); log10(c); nan_to_num(c * inf); pad(i - 5, 3, mode='linear_ramp'); pad(c, 2, mode='linear_ramp'); vdot(m, m); gradient(t, 2.0, 3.0, axis=(-1, 0)); union1d(b, s); setdiff1d(s, n); setxor1d(b, h); zeros_like(a, shape=(2, 2)); full_like(i, 7, shape=3)
roll(a, (1, 2)); meshgrid(2.0, v); meshgrid(a, w); outer(a, v); trim_zeros(array([[0.0, 0.0], [0.0, 3.0]])); cov(v, v * v, True, True)
cross(t[:, :, 0], t[:, :, 1].T[:3].T, 1, 1); cross(a, a[::-1], axis=0); unique(b); unique(b, False, True, True); unique(b, equal_nan=False)
histogram(v, 3, None, True); nanvar(b, correction=1); nanvar(s); nanstd(array([2.0, inf])); a[(0, 2), (1, 3)]; a[((0, 1), (1, 0)), 2]; divmod(i, 5); v.compress(m); n.choose([v, -v, v * 2, v + 1])
u.byteswap(); i.byteswap(); isin(n, [1, 2], False, True); frexp(a.astype('float16')); bitwise_count(i)
linalg.norm(a, 1); linalg.norm(a, 'fro', (0, 1)); linalg.cond(a[:, :3], 1); linalg.cond(a[:, :3], -2); linalg.svd(a, compute_uv=False)
linalg.eigvalsh(a[:, :3], 'U'); linalg.matrix_rank(a, 1e3); linalg.pinv(a, 1e-9); fft.fft(v, 8); fft.fft2(t); fft.ifft2(t, (2, 2)); fft.rfft2(a)
fft.irfft2(a); fft.rfft(v, 4, 0, 'ortho'); fft.fftfreq(5, 0.1); fft.fftshift(a, 0)
geomspace(1.0, 1000.0, 4); geomspace(-2.0, -32.0, 5); array_str(v); fromfunction(lambda x, y: x * 10 + y, (2, 3))
"""  # fmt: skip


def calls() -> list[str]:
    return [call.strip() for line in CALLS.strip().splitlines() for call in line.split("; ") if call.strip()]


def outcome(xp: Any, call: str, data: dict[str, Any]) -> Any:
    names = {name: getattr(xp, name) for name in dir(xp) if not name.startswith("_")}
    return eval(call, {**names, **data, "slice": slice})


def same(call: str, ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple | list) and not isinstance(ours, pn.Tensor):
        assert len(ours) == len(theirs), call
        for one, other in zip(ours, theirs, strict=True):
            same(call, one, other)
        return
    if not isinstance(ours, pn.Tensor):
        assert ours == theirs, call
        return
    wanted = np.asarray(theirs)
    found = np.asarray(ours)
    assert found.shape == wanted.shape, (call, found.shape, wanted.shape)
    kinds = {found.dtype.kind, wanted.dtype.kind}
    assert len(kinds) == 1 or kinds <= set("iu"), (call, found.dtype, wanted.dtype)
    tolerance = 1e-5 if found.dtype.itemsize <= 4 * (1 + (found.dtype.kind == "c")) else 1e-10
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=call)


@pytest.mark.parametrize("call", calls())
def test_a_call_gives_what_numpy_gives(call: str) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy remarks on slices of NaN alone
        theirs = outcome(np, call, DATA)
    ours = outcome(pn, call, {name: pn.asarray(x) for name, x in DATA.items()})
    same(call, ours, theirs)


def test_spacing_below_the_largest_number_of_a_format_without_infinities() -> None:
    x = pn.asarray([1.0, 240.0, 448.0, 0.0, -2.0], dtype=pn.float8_e4m3fn)
    np.testing.assert_array_equal(
        pn.spacing(x).astype(pn.float32).numpy(), np.array([0.125, 16, NAN, 2**-9, -0.25], np.float32)
    )


def test_positions_of_a_narrow_dtype_reach_into_long_axes() -> None:
    x, at = np.arange(300.0), np.array([3, 250], np.uint8)
    np.testing.assert_array_equal(pn.take(pn.asarray(x), pn.asarray(at), mode="wrap").numpy(), x[at])
    np.testing.assert_array_equal(
        pn.repeat(pn.asarray(at), pn.asarray(at, dtype=pn.uint64)).numpy(), np.repeat(at, at)
    )
    ours = pn.interp(1.5, pn.asarray([1.0, 2.0]), pn.asarray([1.0 + 1j, 2.0]))
    assert complex(ours) == 1.5 + 0.5j


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]
)
def test_what_does_not_count_has_no_gradient(name: str) -> None:
    x = pn.asarray([1.0, NAN, 4.0, 2.5])
    found = pn.grad(getattr(pn, name))(x).numpy()
    assert found[1] == 0
    np.testing.assert_allclose(
        found[[0, 2, 3]], pn.grad(getattr(pn, name[3:]))(x[[0, 2, 3]]).numpy(), rtol=1e-6
    )


def test_every_name_that_numpy_and_jax_share_is_there() -> None:
    shared = (Path(__file__).parent / "shared_numpy_names.txt").read_text(encoding="utf-8").split()
    assert [name for name in shared if not hasattr(pn, name)] == ["ufunc"]


def test_the_list_of_shared_names_is_that_of_today() -> None:
    jnp = pytest.importorskip("jax.numpy")
    listed = (Path(__file__).parent / "shared_numpy_names.txt").read_text(encoding="utf-8").split()
    public = [{name for name in dir(module) if not name.startswith("_")} for module in (np, jnp)]
    assert listed == sorted(public[0] & public[1])


def test_an_unknown_name_gets_those_that_look_like_it() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'concatentae'; did you mean concatenate"):
        _ = pn.concatentae  # type: ignore[attr-defined]


def test_numpys_functions_on_tensors_are_planishs() -> None:
    x = pn.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for call in (
        "np.sin(x)", "np.mean(x)", "np.sum(x, axis=1, keepdims=True)", "np.add.reduce(x)", "np.maximum.accumulate(x)", "np.sum(x, initial=2.0, where=x > 2)", "np.ones(3, 'f4') + x",
        "np.float64(2) * x", "np.concatenate([x, x])", "np.linalg.norm(x)", "np.where(x > 2, x, 0)", "np.fft.fft(x)",
        "np.cumsum(x, axis=0)", "np.percentile(x, 30)",
    ):  # fmt: skip
        ours = eval(call, {"np": np, "x": x})
        assert isinstance(ours, pn.Tensor), call
        np.testing.assert_allclose(np.asarray(ours), eval(call, {"np": np, "x": np.asarray(x)}), rtol=1e-6)


def test_numpys_functions_that_planish_lacks_get_the_elements() -> None:
    x = pn.asarray([3.0, 1.0, 2.0])
    assert isinstance(np.hypot.accumulate(x), np.ndarray)
    assert isinstance(np.unique(x, sorted=False), np.ndarray)


def test_a_mistake_in_numpys_function_is_told_once() -> None:
    with pytest.raises(pn.PlanishError, match="do not broadcast"):
        np.add(pn.ones(3), pn.ones(4))


def test_operands_may_be_lists_and_other_libraries_arrays() -> None:
    torch = pytest.importorskip("torch")
    x = pn.asarray([1.0, 2.0, 3.0])
    numbers: Any = [1, 2, 3]
    rows: Any = [numbers, numbers]
    assert (x + numbers).tolist() == [2.0, 4.0, 6.0]
    assert pn.sum(rows, 0).tolist() == [2, 4, 6]
    assert (x * torch.ones(3)).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(pn.PlanishError, match="not dict"):
        pn.add(x, {})  # type: ignore[arg-type]


def test_methods_are_numpys() -> None:
    a = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    for call in (
        "x.argsort(0)", "x.conj()", "x.copy()", "x.cumsum()", "x.cumsum(1)", "x.cumprod(0)", "x.diagonal()", "x.dot(x.T)",
        "x.itemsize", "x.nonzero()", "x.ravel()", "x.repeat(2, 1)", "x.round(1)", "x.swapaxes(0, 1)", "x.take([0, 1], 1)",
        "x.tobytes()", "x.trace()", "x[1].searchsorted(4.5)", "x.transpose((1, 0))", "x.T", "x.flatten()",
    ):  # fmt: skip
        same(call, eval(call, {"x": pn.asarray(a)}), eval(call, {"x": a}))


def test_methods_that_assign_change_what_the_name_stands_for() -> None:
    x = pn.asarray([3.0, 1.0, 2.0])
    before = x + 0
    x.sort()
    assert x.tolist() == [1.0, 2.0, 3.0]
    x.fill(7)
    assert x.tolist() == [7.0, 7.0, 7.0]
    assert before.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("call", ["put(x, [0, 4], 9.0)", "put(x, [7], 1.0, mode='wrap')", "place(x, x > 2, [7.0, 8.0])",
                                  "put_along_axis(x, n, 5.0, axis=1)", "fill_diagonal(x, 4.0)"])  # fmt: skip
def test_assignment_by_position_is_numpys(call: str) -> None:
    a, n = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]), np.array([[0], [2]])
    ours = pn.asarray(a)
    outcome(pn, call, {"x": ours, "n": pn.asarray(n)})
    outcome(np, call, {"x": a, "n": n})
    assert ours.tolist() == a.tolist()


def test_elementwise_python_functions_are_mapped() -> None:
    distance = pn.vectorize(lambda a, b: pn.sqrt(pn.sum((a - b) ** 2)), signature="(n),(n)->()")
    x, y = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        np.asarray(distance(pn.asarray(x), pn.asarray(y))), np.linalg.norm(x - y, axis=1)
    )
    scaled = pn.vectorize(lambda a, b: a * b + 1)
    assert scaled(pn.asarray([[1.0], [2.0]]), pn.asarray([3.0, 4.0])).tolist() == [[4.0, 5.0], [7.0, 9.0]]


def test_dtypes_are_known_by_name_and_to_numpy() -> None:
    assert pn.float32 == "float32"
    assert pn.float32 != "float64"
    assert pn.float32 == np.float32
    assert np.dtype(pn.float32) == np.float32
    assert np.zeros(2, dtype=pn.int16).dtype == np.int16
    assert pn.issubdtype(pn.bfloat16, pn.floating)
    assert not pn.issubdtype(pn.int8, pn.inexact)


def test_files_are_numpys(tmp_path: Any) -> None:
    x = pn.asarray([[1.0, 2.0], [3.0, 4.0]])
    pn.save(tmp_path / "one.npy", x)
    pn.savez(tmp_path / "two.npz", x, again=x)
    assert np.load(tmp_path / "one.npy").tolist() == x.tolist()
    loaded = pn.load(tmp_path / "two.npz")
    assert isinstance(loaded, dict)
    assert sorted(loaded) == ["again", "arr_0"]
    with pytest.raises(pn.PlanishError, match=r"save: NumPy's files have no bfloat16.*safetensors"):
        pn.save(tmp_path / "narrow.npy", pn.ones(2, pn.bfloat16))
    assert not (tmp_path / "narrow.npy").exists()
    with pytest.raises(pn.PlanishError, match="load"):
        pn.load(__file__)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ldexp_with_any_exponent(dtype: Any) -> None:
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, 1.5, -np.inf, np.nan, least, np.finfo(dtype).max], dtype)[:, None]
    exponents = np.array([-(2**31), -5000, -1000, -140, -20, 0, 17, 270, 1000, 2097, 5000, 2**31 - 1])
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.ldexp(x, exponents.astype(np.int32))
    np.testing.assert_array_equal(pn.ldexp(pn.asarray(x), pn.asarray(exponents)).numpy(), wanted)


@pytest.mark.parametrize("bound", [np.nan, np.float32(np.nan), np.array([np.nan, 1.5, 7.0])], ids=repr)
def test_a_bound_that_is_no_number_makes_none(bound: Any) -> None:
    x = np.array([1.0, 2.0, 5.0])
    for bounds in ((bound, None), (None, bound), (bound, 9.0)):
        np.testing.assert_array_equal(pn.clip(pn.asarray(x), *bounds).numpy(), np.clip(x, *bounds))
