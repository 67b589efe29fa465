"""torch.compile(backend="planish"): modules beside eager torch, forward and backward, and what is handed back."""

from __future__ import annotations

import operator
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

import planish.torch  # noqa: E402
from planish.torch.running import SegmentRunner  # noqa: E402
from tests.torch import models  # noqa: E402

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
    @torch.library.custom_op("planish_tests::turned", mutates_args=())
    def turned(x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]  # torch is looked for above
        return x.flip(0)

    turned.register_fake(torch.empty_like)

    def function(x):
        return turned((x @ x.T).tanh()).abs().sort().values.exp()

    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-3, atol=1e-3)
    report = planish.torch.report()
    assert report.segments == 2
    assert list(report.fallbacks) == ["planish_tests.turned.default"]
    assert "planish_tests.turned.default" in str(report)


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
    from planish.torch.options import BackendOptions

    with pytest.raises(planish.PlanishError, match="there is no option 'thread'; did you mean 'threads'"):
        BackendOptions.of({"thread": 2})
    for name, value in (("threads", 0), ("threads", "two"), ("beam", -1), ("device", "tpu"), ("check", "x")):
        with pytest.raises(planish.PlanishError, match=f"option {name} cannot be {value!r}"):
            BackendOptions.of({name: value})
    with pytest.raises(Exception, match="a tensor is on cpu, the option device is 'cuda'"):
        compiled(torch.sin, device="cuda")(torch.ones(2))


def test_check_compares_every_node_and_names_the_first_that_differs(monkeypatch):
    from planish.torch import registry

    def function(x):
        return (x.sin() * 2).exp().sum(0)

    x = torch.randn(4, 5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, check=True)(x), function(x))
    right = registry._TABLE["aten.exp"]
    monkeypatch.setitem(registry._TABLE, "aten.exp", lambda at, x: right(at, x).mul(1.01))
    with pytest.raises(planish.PlanishError, match=r"exp \(aten\.exp\.default\) differs from eager torch"):
        compiled(function, check=True)(x)


def test_an_exported_program_has_named_parameters_and_a_state(tmp_path):
    model, x = perceptron().eval(), torch.randn(8, 16)
    exported = torch.export.export(model, (x,))
    torch.export.save(exported, tmp_path / "model.pt2")
    for source in (exported, tmp_path / "model.pt2"):
        program = planish.torch.load(source)
        torch.testing.assert_close(program(x), model(x))
        assert "0.weight" in program.parameters
    program = planish.torch.load(exported)
    program.load_state_dict({name: torch.zeros_like(t) for name, t in program.state_dict().items()})
    assert program(x).abs().max() == 0
    with pytest.raises(planish.PlanishError, match="missing"):
        program.load_state_dict({})
    with pytest.raises(planish.PlanishError, match=r"not a program of torch\.export"):
        planish.torch.load(tmp_path / "nothing.pt2")


def test_an_exported_program_keeps_what_it_writes_to_its_buffers():
    model = torch.nn.BatchNorm1d(3)
    x = torch.randn(8, 3)
    program = planish.torch.load(torch.export.export(model, (x,)))
    torch.testing.assert_close(program(x), model(x))
    torch.testing.assert_close(program.state_dict()["running_mean"], model.running_mean)


def runners(monkeypatch):
    """The segments that are made from here on."""
    made = []
    begin = SegmentRunner.__init__

    def remembered(self, *given):
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(SegmentRunner, "__init__", remembered)
    return made


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x * x.shape[0], -1),
        lambda x: x.mean(0) + x.var(0),
        lambda x: (x.reshape(-1), torch.cat([x, x]), x[1:], x.unsqueeze(1) + x, torch.arange(x.shape[0]) + 1),
    ],
)
def test_sizes_with_names_are_compiled_once(function, monkeypatch):
    torch._dynamo.reset()
    made = runners(monkeypatch)
    fast = planish.torch.compile(function, dynamic=True)
    for size in (3, 5, 3, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(fast(x), function(x))
    assert [(len(runner.open), runner.by_size) for runner in made] == [(1, None)]
    x = torch.randn(2000, 4)
    torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-5)
    assert [len(runner.open) for runner in made] == [2], "beyond the bounds there are others"


def test_sizes_that_decide_what_is_computed_are_compiled_each(monkeypatch):
    torch._dynamo.reset()
    made = runners(monkeypatch)
    fast = planish.torch.compile(lambda x: torch.fft.fft(x, dim=0).real, dynamic=True)
    for size in (3, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(fast(x), torch.fft.fft(x, dim=0).real)
    for runner in made:
        assert runner.open or runner.by_size


def test_a_model_is_trained_at_any_length_by_one_program(monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = runners(monkeypatch)
    model = models.GPT(width=16, heads=2, depth=1)
    fast = planish.torch.compile(model, dynamic=True)
    for batch, length in ((2, 16), (3, 9)):
        tokens = models.tokens(batch, length)
        found, wanted = fast(tokens), model(tokens)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        ours, theirs = (torch.autograd.grad(y.sum(), model.norm.weight) for y in (found, wanted))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert [(len(runner.open), runner.by_size) for runner in made] == [(1, None)] * 2


def test_training_with_an_optimiser():
    ours, theirs = perceptron(), perceptron()
    step, other = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (ours, theirs))
    fast = compiled(ours)
    x, y = torch.randn(8, 16), torch.randn(8, 4)
    for _ in range(3):
        for model, optimiser in ((fast, step), (theirs, other)):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimiser.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_random_numbers_are_those_that_eager_torch_draws():
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Dropout(0.1)
    )
    x = torch.randn(8, 16)
    fast = compiled(model, device="interpreter")
    for seed in (3, 4):
        torch.manual_seed(seed)
        found = fast(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(found, model(x))
    report = planish.torch.report()
    assert (report.fallbacks, dict(report.draws)) == ({}, {"aten.bernoulli.p": 2})
    assert "2 draws of random numbers" in str(report)


BY_GROUPS = {
    "sums of segments, one of them empty": lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 0, 4])),
    "means of segments": lambda x: torch.segment_reduce(x, "mean", lengths=torch.tensor([1, 0, 5])),
    "maxima of segments": lambda x: torch.segment_reduce(x, "max", offsets=torch.tensor([0, 3, 6])),
    "segments of rows": lambda x: torch.segment_reduce(x, "min", lengths=torch.tensor([[2, 2]] * 6), axis=1),
    "a histogram of two columns": lambda x: torch.histogramdd(x[:, :2], bins=[3, 2])[0],
    "a histogram about one place": lambda x: torch.histogram(x, 3, range=(0.25, 0.25))[0],
    "columns about one place each": lambda x: torch.histogramdd(x[:, :2], bins=[3, 2], range=[0.25, 0.25, -0.5, -0.5])[0],
    "its density in a range": lambda x: torch.histogramdd(x[:, :2], bins=[3, 2], range=[-1.0, 1.0, -2.0, 0.5], density=True)[0],
    "a hash of rows": lambda x: torch.hash_tensor(x, 1),
    "reflections": lambda x: torch.ormqr(*torch.geqrf(x), x, True, True),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_GROUPS)
def test_what_data_group(name):
    torch.manual_seed(1)
    x = torch.randn(6, 4)
    found = compiled(BY_GROUPS[name], device="interpreter")(x)
    torch.testing.assert_close(found, BY_GROUPS[name](x), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert planish.torch.report().fallbacks == {}


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (2, 4, 6, 5, 7)])
def test_fractional_pooling_takes_its_windows_from_the_samples(shape):
    torch.manual_seed(1)
    x = torch.randn(shape, requires_grad=True)
    samples = torch.rand(*shape[:2], len(shape) - 2)
    pool = (
        torch.nn.functional.fractional_max_pool2d
        if len(shape) == 4
        else torch.nn.functional.fractional_max_pool3d
    )

    def function(x):
        return pool(x, 2, output_size=[size // 2 for size in shape[2:]], _random_samples=samples).square()

    ours, theirs = compiled(function, device="interpreter")(x), function(x)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(side.sum(), x)[0] for side in (ours, theirs)))
    assert planish.torch.report().fallbacks == {}


@pytest.mark.parametrize("shape", [(2, 12, 9, 8), (3, 8, 100)])
def test_groups_of_channels_are_normalised(shape):
    torch.manual_seed(0)
    model, x = torch.nn.GroupNorm(4, shape[1]), torch.randn(shape) + 3
    torch.nn.init.normal_(model.weight)
    with torch.no_grad():
        found = compiled(model, device="interpreter")(x)
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=1e-5)


def test_a_step_of_an_optimiser_is_compiled():
    ours = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(2)]
    theirs = [torch.nn.Parameter(parameter.detach().clone()) for parameter in ours]
    steps = []
    for parameters in (ours, theirs):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 0.1)
        steps.append(torch.optim.AdamW(parameters, lr=1e-2).step)
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    fast = torch.compile(steps[0], backend=planish.torch.planish_backend, options={"device": "interpreter"})
    for _ in range(2):
        fast()
        steps[1]()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert planish.torch.report().fallbacks == {}


def test_torch_finds_the_backend_by_its_entry_point():
    import tomllib
    from importlib.metadata import EntryPoint
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (name, value) = next(iter(project["entry-points"]["torch_dynamo_backends"].items()))
    assert name == "planish"
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is planish.torch.planish_backend


def _sampled(mode, padding, corners):
    return lambda x, grid: torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners=corners)


def _bags(mode, **options):
    return lambda table, line: torch.nn.functional.embedding_bag(
        line, table, torch.tensor([0, 2, 2]), mode=mode, **options
    )


GRID = (torch.rand(2, 4, 4, 2, generator=torch.Generator().manual_seed(1)) * 2.4 - 1.2).requires_grad_()
PICTURE = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(2)).requires_grad_()
TABLE = torch.randn(10, 4, generator=torch.Generator().manual_seed(3)).requires_grad_()
LINE = torch.tensor([1, 2, 4, 5, 4, 3])
DERIVATIVES = {
    # as machine code: places that floats decide were once taken for integers there
    "border": (_sampled("bilinear", "border", True), (PICTURE, GRID), {}),
    "zeros": (_sampled("bilinear", "zeros", False), (PICTURE, GRID), {"device": "interpreter"}),
    "reflected": (_sampled("bilinear", "reflection", False), (PICTURE, GRID), {"device": "interpreter"}),
    "nearest": (_sampled("nearest", "zeros", False), (PICTURE, GRID), {"device": "interpreter"}),
    "bags": (_bags("sum", padding_idx=4), (TABLE, LINE), {"device": "interpreter"}),
    "means of bags": (_bags("mean"), (TABLE, LINE), {"device": "interpreter"}),
    "antialiased": (
        lambda x: torch.nn.functional.interpolate(x, size=(3, 4), mode="bicubic", antialias=True),
        (PICTURE,),
        {"device": "interpreter"},
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_sampling_and_bags(name):
    function, given, options = DERIVATIVES[name]
    moving = [x for x in given if x.requires_grad]
    ours, theirs = (
        torch.autograd.grad((y * y).sum(), moving)
        for y in (compiled(function, **options)(*given), function(*given))
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert not planish.torch.report().fallbacks


@pytest.mark.parametrize("name", ["flash", "cudnn", "efficient"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_gpus_have_it(name: str, causal: bool) -> None:
    """The ops that torch's GPU kernels are, by a graph of one: their other results are what a derivative needs."""
    from torch import fx

    from planish.torch.options import BackendOptions
    from planish.torch.partition import unlowered
    from planish.torch.running import Runner

    tensors = [torch.randn(2, 3, size, 8) for size in (5, 7, 7)]
    more = () if name == "flash" else (None, False)
    op = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default

    def graph(wanted: int) -> fx.GraphModule:
        made = fx.Graph()
        nodes = [made.placeholder(each) for each in "qkv"]
        for node, tensor in zip(nodes, tensors, strict=True):
            node.meta["val"] = tensor
        called = made.call_function(op, (*nodes, *more, 0.0, causal))
        count = 4 if name == "efficient" else 9
        called.meta["val"] = (tensors[0], torch.zeros(2, 3, 5), *[None] * (count - 2))
        result = made.call_function(operator.getitem, (called, wanted))
        result.meta["val"] = called.meta["val"][wanted]
        made.output((result,))
        return fx.GraphModule(torch.nn.Module(), made)

    (found,) = Runner(graph(0), BackendOptions.of(None))(list(tensors))
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
    torch.testing.assert_close(found, expected)
    assert "derivative is torch's" in next(iter(unlowered(graph(1).graph).values()))


def test_numbers_on_the_cpu_that_only_a_gpu_sees_are_not_handed_back() -> None:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from planish.torch.partition import unlowered

    def function(x, c):
        least = torch.ops.aten.lift_fresh_copy(c)
        return torch.minimum(x, least) + c * 2 + torch.rand(()), least + 1

    with FakeTensorMode():
        x, c = torch.empty(4, 4, device="cuda"), torch.empty(())
        graph = make_fx(function, tracing_mode="fake")(x, c).graph
    # least + 1 is a result, on the CPU, and so is what it is made of; random numbers come from the CPU's generator
    assert {node.name for node in unlowered(graph)} == {"lift_fresh_copy", "rand", "add_2"}


def test_constants_without_axes_are_numbers(monkeypatch):
    """What a program assigns to a slice is a tensor of the CPU to torch: no call brings it anywhere."""
    from planish.torch import running

    seen = []
    whole = running.Runner.__init__

    def watched(self, *given):
        whole(self, *given)
        seen.append(self)

    monkeypatch.setattr(running.Runner, "__init__", watched)

    def function(x):
        y = x.new_zeros(4, 4)
        for number in range(2):
            y[number * 2 :, :3] = number + 1
        return x * y

    x = torch.randn(4, 4)
    torch.testing.assert_close(planish.torch.compile(function)(x), function(x))
    assert not seen[0].constants
    assert seen[0].direct is not None


def test_results_that_are_others_in_another_shape_are_views():
    def function(x):
        y = torch.sin(x)
        return y, y.view(-1), y.view(-1).unsqueeze(0), torch.cos(x)

    x = torch.randn(4, 6)
    found = compiled(function)(x)
    for one, other in zip(found, function(x), strict=True):
        torch.testing.assert_close(one, other)
    assert len({each.data_ptr() for each in found}) == 2


def test_so_many_threads_are_there():
    """In a process in which nothing else has started them."""
    program = """
import threading
import torch
import planish.torch
f = planish.torch.compile(lambda a, b: a @ b, threads=3)
f(torch.ones(512, 512), torch.ones(512, 512))
print(sum(t.name.startswith("planish-") for t in threading.enumerate()))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "2", ran.stderr
