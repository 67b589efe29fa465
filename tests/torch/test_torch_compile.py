"""torch.compile(backend="planish"): modules beside eager torch, forward and backward, and what is handed back."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import planish.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)


def compiled(function, **options):
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    return torch.compile(function, backend=planish.torch.planish_backend, fullgraph=True, options=options)


def perceptron():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )


def test_a_module_is_one_compiled_function():
    model, x = perceptron(), torch.randn(8, 16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))
    report = planish.torch.report()
    assert (report.graphs, report.segments, report.fallbacks) == (1, 1, {})


def test_gradients_are_those_of_eager_torch():
    model, x = perceptron(), torch.randn(8, 16)
    compiled(model)(x).square().mean().backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(x).square().mean().backward()
    for ours, theirs in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.grad)
    assert planish.torch.report().fallbacks == {}


def test_what_has_no_lowering_is_handed_back_and_named():
    def function(x):
        return torch.linalg.eigvals((x @ x.T).tanh()).abs().sort().values.exp()

    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-3, atol=1e-3)
    report = planish.torch.report()
    assert report.segments == 2
    assert list(report.fallbacks) == ["aten.linalg_eig.default"]
    assert "aten.linalg_eig.default" in str(report)


def test_views_of_inputs_stay_views():
    def function(x):
        return x.T, x.mul(2).sum()

    x = torch.randn(3, 5)
    turned, total = compiled(function)(x)
    assert turned.data_ptr() == x.data_ptr()
    assert turned.stride() == (1, 5)
    torch.testing.assert_close(total, x.mul(2).sum())


def test_strides_in_and_out_are_those_of_torch():
    def function(x):
        return x.relu(), x.transpose(0, 1).exp()

    for x in (torch.randn(3, 5).T, torch.randn(3, 1).expand(3, 5), torch.randn(6, 10)[::2, ::2]):
        for ours, theirs in zip(compiled(function)(x), function(x), strict=True):
            torch.testing.assert_close(ours, theirs, check_stride=True)


def test_inputs_are_changed_where_the_program_changes_them():
    def function(x, y):
        x.add_(y)
        return x * 2

    x, y = torch.ones(4), torch.arange(4.0)
    found = compiled(function)(x, y)
    assert x.tolist() == [1, 2, 3, 4]
    assert found.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool, torch.complex64]
)
def test_dtypes(dtype):
    def function(x):
        return torch.where(x != 0, x, torch.ones_like(x)), x.to(
            torch.float32
        ) if not x.is_complex() else x.abs()

    x = torch.tensor([[0, 1, 2], [3, 0, 5]]).to(dtype)
    for ours, theirs in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert planish.torch.report().fallbacks == {}


def test_an_option_that_is_none_is_an_error():
    from planish.torch.options import Options

    with pytest.raises(planish.PlanishError, match="there is no option 'thread'"):
        Options.of({"thread": 2})
