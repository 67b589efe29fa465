"""torch.compile(backend="planish"): numbers that users pass, results that share memory, and strides, where sizes have names and where not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import planish.torch  # noqa: E402
from tests.torch.test_torch_compile import compiled, runners  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)


def by_interpreter(function):
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    return planish.torch.compile(function, device="interpreter")


def test_numbers_that_no_tensor_has_for_its_size_reach_the_program(monkeypatch):
    made = runners(monkeypatch)
    fast = by_interpreter(lambda x, k: x * k + (k + 1))
    x = torch.randn(3)
    for k in (4, 7, 30, -5, 9):
        torch.testing.assert_close(fast(x, k), x * k + (k + 1))
    assert [len(runner.open) for runner in made] == [0, 1]  # the first graph has 4 as a constant


def test_a_number_below_the_bounds_is_compiled_by_itself(monkeypatch):
    """Named sizes go from 2 on; that does not end the program for all others."""
    made = runners(monkeypatch)
    fast = by_interpreter(lambda x, k: x * k)
    x = torch.randn(3)
    for k in (4, -5, -6, 8, 9):
        torch.testing.assert_close(fast(x, k), x * k)
    assert made[-1].by_size is None
    assert len(made[-1].open) == 1


def test_an_offset_into_a_cache():
    def function(cache, x, place):
        cache[:, place : place + x.shape[1]] = x
        return (
            cache[:, : place + x.shape[1]].sum(1),
            torch.arange(place, place + 2),
            cache.narrow(1, place, 1),
        )

    fast = by_interpreter(function)
    for place, count in ((0, 4), (4, 1), (5, 1), (7, 2), (9, 3)):
        ours, x = torch.randn(2, 16, 3), torch.randn(2, count, 3)
        theirs = ours.clone()
        found, wanted = fast(ours, x, place), function(theirs, x, place)
        for one, other in zip((*found, ours), (*wanted, theirs), strict=True):
            torch.testing.assert_close(one, other, check_stride=True)
        found[2].fill_(9.0)  # a view of the cache, as it is without a compiler
        assert bool((ours[:, place] == 9.0).all())


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_look_at_another_result_share_its_memory(dynamic):
    def function(x):
        y = torch.sin(x)
        return y, y[1:], y.T, y.split(2)[1], y.unsqueeze(1).expand(-1, 3, -1), x.view(-1)

    torch._dynamo.reset()
    x = torch.randn(4, 6)
    found = planish.torch.compile(function, dynamic=dynamic, device="interpreter")(x)
    for one, other in zip(found, function(x), strict=True):
        torch.testing.assert_close(one, other, check_stride=True)
    found[0].fill_(5.0)
    assert all(bool((each == 5.0).all()) for each in found[:5])
    assert found[5].data_ptr() == x.data_ptr()


def test_strides_of_results_where_sizes_have_names():
    fast = torch._dynamo.reset() or planish.torch.compile(lambda x: x * 2, dynamic=True, device="interpreter")
    for x in (torch.randn(3, 5).T, torch.randn(7, 9).T, torch.randn(2, 4, 6, 8).permute(0, 2, 3, 1)):
        torch.testing.assert_close(fast(x), x * 2, check_stride=True)


def test_the_imaginary_part_of_a_conjugate():
    """torch marks its sign and leaves the memory as it is."""
    z = torch.randn(4, dtype=torch.complex64)
    fast = compiled(lambda x, z: (x * 2, z.conj().imag + 1), device="interpreter")
    found = fast(z.conj().imag, z)
    torch.testing.assert_close(found, (z.conj().imag * 2, z.conj().imag + 1))
    assert planish.torch.report().fallbacks == {}


def test_a_product_of_two_dtypes_is_the_mistake_that_torch_says_it_is():
    """torch notices when it runs the op, not when it captures a graph."""
    given = torch.ones(3, 3), torch.ones(3, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="same dtype"):
        compiled(torch.mm, device="interpreter")(*given)


def test_ops_on_lists_are_written_out():
    def function(xs, ys):
        norms = torch._foreach_norm(xs)
        sums = torch._foreach_addcdiv(xs, ys, torch._foreach_maximum(xs, 0.5), 0.1)
        scaled = torch._foreach_mul(sums, torch.stack(norms).sum())
        torch._foreach_lerp_(ys, xs, 0.25)
        torch._foreach_add_(ys, 1.0)
        return norms, torch._foreach_pow(scaled, [2.0, 3.0]), torch._foreach_sub(scaled, xs, alpha=2)

    xs, ys = ([torch.rand(3), torch.rand(2, 2)] for _ in range(2))
    others = [y.clone() for y in ys]
    found, wanted = compiled(function, device="interpreter")(xs, ys), function(xs, others)
    torch.testing.assert_close((found, ys), (wanted, others))
    assert planish.torch.report().fallbacks == {}


def test_eigenvalues_of_any_matrix():
    x = torch.randn(2, 4, 4)
    values, vectors = compiled(torch.linalg.eig)(x)
    torch.testing.assert_close(x.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    torch.testing.assert_close(values.sum(-1).real, x.diagonal(dim1=-2, dim2=-1).sum(-1))
    assert planish.torch.report().fallbacks == {}


def test_what_is_no_exported_program_is_told():
    with pytest.raises(planish.PlanishError, match=r"Linear is not a program of torch\.export"):
        planish.torch.load(torch.nn.Linear(2, 2))


def test_an_exported_program_is_written_out_as_far_as_torch_can():
    """torch.export keeps composite ops that its table does not name."""
    module = torch.nn.Sequential(torch.nn.LayerNorm(6), torch.nn.PReLU(), torch.nn.Linear(6, 2)).eval()
    x = torch.randn(3, 6)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("b", min=2, max=9)},))
    planish.torch.report(reset=True)
    program = planish.torch.load(exported)
    for x in (torch.randn(3, 6), torch.randn(7, 6)):
        torch.testing.assert_close(program(x), module(x))
    report = planish.torch.report()
    assert (report.segments, report.fallbacks) == (1, {})
    for wrong, told in (
        (torch.ones(12, 6), r"float32\[12, 6\], torch.float32\[2 to 9, 6\] is expected"),
        (torch.ones(3, 5), r"\[3, 5\]"),
        (torch.ones(3, 6, dtype=torch.float64), r"float64\[3, 6\]"),
        ("x", "is str, a tensor is expected"),
    ):
        with pytest.raises(planish.PlanishError, match=told):
            program(wrong)
    with pytest.raises(
        planish.PlanishError, match="exported for 1 argument by position, and is called with 2"
    ):
        program(x, x)


def test_an_exported_program_takes_its_names_in_any_order_and_its_constants_as_they_were():
    class Scaled(torch.nn.Module):  # type: ignore[name-defined, misc]  # torch is looked for above
        def forward(self, x, *, scale, flag):
            return x * scale if flag else x

    x = torch.ones(2)
    program = planish.torch.load(torch.export.export(Scaled(), (x,), {"scale": 3.0, "flag": True}))
    assert program(x, flag=True, scale=3.0).tolist() == [3, 3]
    with pytest.raises(planish.PlanishError, match=r"scale is 4.0; the program was exported for 3.0"):
        program(x, scale=4.0, flag=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_cross_entropy_of_a_linear_layer_a_few_rows_at_a_time(reduction):
    call = getattr(torch.nn.functional, "linear_cross_entropy", None)
    if call is None:
        pytest.skip("this torch has no linear_cross_entropy")
    torch.manual_seed(0)
    given = [torch.randn(*shape, requires_grad=True) for shape in ((7, 4), (5, 4), (5,))]
    target = torch.tensor([0, 4, -100, 2, 2, 1, 3])
    weight = torch.rand(5)
    from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

    options = LinearCrossEntropyOptions(batch_chunk_size=3, allow_retain_graph=True)

    def function(x, matrix, bias):
        return call(x, matrix, target, linear_bias=bias, weight=weight, reduction=reduction, options=options)

    fast = compiled(function, device="interpreter")
    found, wanted = fast(*given), function(*given)
    torch.testing.assert_close(found, wanted)
    slopes = [torch.autograd.grad(y.square().sum(), given) for y in (found, wanted)]
    torch.testing.assert_close(*slopes)
    assert planish.torch.report().fallbacks == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("hermitian", [False, True])
def test_symmetric_matrices_are_factorised_with_pivots(dtype, hermitian):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 5, dtype=dtype)
    x = x + (x.mH if hermitian else x.mT)
    x[0].diagonal().zero_()  # no pivot of one row there
    b = torch.randn(5, 3, dtype=dtype)

    def function(x, b):
        found = torch.linalg.ldl_factor_ex(x, hermitian=hermitian)
        return *found, torch.linalg.ldl_solve(found.LD, found.pivots, b, hermitian=hermitian)

    ours, theirs = compiled(function, device="interpreter")(x, b), function(x, b)
    assert bool((theirs[1] < 0).any())
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x @ ours[3], b.expand(2, 5, 3), rtol=1e-3, atol=1e-3)
    assert planish.torch.report().fallbacks == {}
