"""jit: one trace per signature, trees, static arguments, donation, named sizes, ahead-of-time lowering, composition."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import planish as pn
from planish.compiler import object_code
from planish.config import settings
from planish.errors import DTypeError, GraphError, NanError, OutOfMemoryError, PlanishError, ShapeError
from planish.frontend.jit import Jitted, RetraceWarning
from planish.frontend.storage import Array


def data(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def tensor(*shape, dtype=np.float32, seed=0):
    return pn.asarray(data(*shape, dtype=dtype, seed=seed))


def counted(function: Callable[..., Any], **options: Any) -> tuple[Jitted[Any, Any], list[int]]:
    """A compiled function, and a list that grows each time it is traced."""
    traces: list[int] = []

    def traced(*args: Any, **kwargs: Any) -> Any:
        traces.append(len(traces))
        return function(*args, **kwargs)

    traced.__signature__ = __import__("inspect").signature(function)  # type: ignore[attr-defined]
    traced.__name__ = function.__name__
    return pn.jit(traced, **options), traces


def reasons(function: Jitted[Any, Any]) -> list[str]:
    return [miss.reason for miss in function.cache_info().reasons]


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Layer:
    weight: Any
    bias: Any


# --- calls --------------------------------------------------------------------------------------------------


def test_a_function_is_traced_once_and_computes_the_same():
    function, traces = counted(lambda x, w: pn.tanh(x @ w) + 1)
    for seed in range(4):
        x, w = data(4, 3, seed=seed), data(3, 5, seed=seed + 9)
        np.testing.assert_allclose(
            function(pn.asarray(x), pn.asarray(w)).numpy(), np.tanh(x @ w) + 1, rtol=1e-5
        )
    assert len(traces) == 1
    info = function.cache_info()
    assert (info.hits, info.misses, info.entries) == (3, 1, 1)
    assert reasons(function) == ["the first call"]


def test_a_replayed_call_compiles_nothing():
    function = pn.jit(lambda x: pn.sum(x * x, axis=0))
    function(tensor(3, 4))
    before = (object_code.counters.compiled, object_code.counters.loaded)
    for seed in range(3):
        function(tensor(3, 4, seed=seed))
    assert (object_code.counters.compiled, object_code.counters.loaded) == before


def test_trees_go_in_and_out():
    @pn.jit
    def function(params, pair, extra=None):
        layers = [Layer(layer.weight * 2, layer.bias) for layer in params["layers"]]
        return {"layers": layers, "pair": Pair(pair.second, pair.first), "none": None, "n": (3, True)}, [
            extra
        ]

    weights = [tensor(2, 2, seed=n) for n in range(4)]
    params = {"layers": [Layer(weights[0], weights[1]), Layer(weights[2], weights[3])]}
    for extra in (None, weights[0]):
        made, rest = function(params, Pair(weights[0], weights[1]), extra=extra)
        assert isinstance(made["layers"][0], Layer)
        np.testing.assert_array_equal(made["layers"][1].weight.numpy(), weights[2].numpy() * 2)
        assert isinstance(made["pair"], Pair)
        np.testing.assert_array_equal(made["pair"].first.numpy(), weights[1].numpy())
        assert made["none"] is None
        assert [x.item() for x in made["n"]] == [3, True]
        assert (rest[0] is None) == (extra is None)
    assert reasons(function)[1] == "structure of the arguments: extra is new"


def test_results_may_repeat_and_pass_arguments_through():
    x = tensor(3)

    @pn.jit
    def function(x):
        y = x + 1
        return x, y, y

    a, b, c = function(x)
    np.testing.assert_array_equal(a.numpy(), x.numpy())
    np.testing.assert_array_equal(b.numpy(), x.numpy() + 1)
    np.testing.assert_array_equal(c.numpy(), x.numpy() + 1)


def test_arguments_that_wait_are_computed_first():
    function, traces = counted(lambda x, y: x - y)
    x = tensor(4)
    np.testing.assert_array_equal(function(x * 2, x + x).numpy(), np.zeros(4))
    np.testing.assert_array_equal(function(x * 2, x).numpy(), x.numpy())
    assert len(traces) == 1


def test_numpy_arrays_are_taken_as_they_are():
    function, traces = counted(lambda x, n: x * n)
    x = data(3, 4)
    for array in (x, x * 2, np.asfortranarray(x), x[::1]):
        np.testing.assert_array_equal(function(array, np.float32(2)).numpy(), array * 2)
    assert len(traces) == 1


def test_changing_the_source_afterwards_changes_nothing():
    source = data(3)
    y = pn.jit(lambda x: x)(source)
    wanted = source.copy()
    source[:] = 0
    np.testing.assert_array_equal(y.numpy(), wanted)


def test_assigning_to_an_argument_stays_inside():
    @pn.jit
    def function(x):
        x[0] = 7
        return x

    x = tensor(3)
    before = x.numpy()
    np.testing.assert_array_equal(function(x).numpy(), [7, *before[1:]])
    np.testing.assert_array_equal(x.numpy(), before)


def test_tensors_from_outside_keep_the_value_they_had():
    scale = tensor(3, seed=5) * 2  # waits
    function, traces = counted(lambda x: x * scale)
    x = data(3)
    first = function(pn.asarray(x)).numpy()
    np.testing.assert_allclose(first, x * scale.numpy(), rtol=1e-6)
    scale[0] = 100
    np.testing.assert_array_equal(function(pn.asarray(x)).numpy(), first)
    assert len(traces) == 1


def test_methods_can_be_compiled():
    class Model:
        def __init__(self, rate):
            self.rate = rate

        @pn.jit(static_argnums=0)
        def step(self, x):
            return x * self.rate

    x = tensor(3)
    np.testing.assert_array_equal(Model(2).step(x).numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(Model(3).step(x).numpy(), x.numpy() * 3)
    assert "static argument self" in reasons(Model.step)[1]


def test_a_module_is_an_argument_of_itself():
    @dataclass
    class Scale:
        by: Any

        def __call__(self, x):
            return x * self.by

    scale = Scale(tensor(3, seed=1))
    function = pn.jit(scale)
    x = tensor(3)
    np.testing.assert_array_equal(function(x).numpy(), x.numpy() * scale.by.numpy())
    scale.by = tensor(3, seed=2)
    np.testing.assert_array_equal(function(x).numpy(), x.numpy() * scale.by.numpy())
    assert function.cache_info().misses == 1
    assert "mul" in function.lower(x).as_text("ptir")


def test_a_compiled_function_is_like_the_one_it_was_made_of():
    def original(x, *, n=1):
        """About it."""
        return x + n

    function = pn.jit(original)
    assert (function.__name__, function.__doc__) == ("original", "About it.")
    assert function.__wrapped__ is original
    assert repr(function) == "<jit of original>"
    with pytest.raises(PlanishError, match=r"jit takes a function, not 3; .*options by name"):
        pn.jit(3)  # type: ignore[call-overload]


def test_threads_share_one_trace():
    function, traces = counted(lambda x: pn.exp(x) + 2)
    x = tensor(50)
    wanted = np.exp(x.numpy()) + 2
    problems: list[BaseException] = []

    def work():
        try:
            for _ in range(5):
                np.testing.assert_allclose(function(x).numpy(), wanted, rtol=1e-5)
        except BaseException as error:  # noqa: BLE001 - reported below
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(traces) == 1


def test_results_take_the_short_way_back_in(monkeypatch):
    function = pn.jit(lambda s, g: {"w": s["w"] - g, "n": s["n"] + 1})
    state = {"w": pn.asarray(data(3)), "n": pn.asarray(np.int64(0))}
    g = tensor(3)
    for _ in range(2):
        state = function(state, g)
    monkeypatch.setattr(Jitted, "_long_way", lambda *_: pytest.fail("the long way"))
    for _ in range(3):
        state = function(state, g)
    assert state["n"].item() == 5


def test_the_cache_keeps_no_arguments_alive():
    function = pn.jit(lambda x: x + 1)
    x = tensor(3).realize()
    kept = weakref.ref(x)
    function(x)
    function(x)
    del x
    gc.collect()
    assert kept() is None


# --- when it is traced again --------------------------------------------------------------------------------


def test_every_miss_has_a_reason():
    function, traces = counted(lambda x, mode="a": x * 2, static_argnames="mode")
    x = tensor(2, 3)
    function(x)
    function(tensor(2, 4))
    function(tensor(2, 4, dtype=np.float64))
    function(x, "a")
    function(x, "b")
    function(x, mode="b")
    with settings(contract=True):
        function(x)
    assert reasons(function) == [
        "the first call",
        "argument x: float32[2, 4], was float32[2, 3]",
        "argument x: float64[2, 4], was float32[2, 4]",
        "static argument mode: given, was not",
        "static argument mode: 'b', was 'a'",
        "static argument mode: given, was not",
        "settings: changed",
    ]
    assert len(traces) == 7
    where = function.cache_info().reasons[0].location
    assert where is not None
    assert where.file == __file__
    assert str(function.cache_info()).splitlines()[0] == "0 hits, 7 misses, 7 entries"


def test_equal_static_values_of_other_types_are_others():
    function, traces = counted(lambda x, n: x * n, static_argnums=1)
    x = tensor(2)
    assert [function(x, n).dtype.name for n in (1, True, 1.0, 1)] == ["float32"] * 4
    assert len(traces) == 3


def test_python_numbers_are_weak_and_their_value_is_no_reason():
    function, traces = counted(lambda x, rate: (x * rate, x + (rate * 2 + 1), pn.exp(rate)))
    x = tensor(3, dtype=np.float16)
    for rate in (0.5, 0.25, 3.0):
        product, total, alone = function(x, rate)
        assert (product.dtype, total.dtype, alone.dtype) == (pn.float16, pn.float16, pn.float32)
        np.testing.assert_allclose(product.numpy(), x.numpy() * np.float16(rate))
        np.testing.assert_allclose(total.numpy(), x.numpy() + np.float16(rate * 2 + 1))
        np.testing.assert_allclose(alone.numpy(), np.exp(np.float32(rate)), rtol=1e-6)
    assert len(traces) == 1
    function(x, 2)
    assert reasons(function)[-1] == "argument rate: a Python int, was a Python float"


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}], ids=["kept", "donated"])
def test_a_number_that_does_not_fit_is_refused_as_it_is_outside(options):
    add = pn.jit(lambda x, n: x + n, **options)
    small = np.array([1, 200], np.uint8)
    assert add(pn.asarray(small), 3).tolist() == [4, 203]
    for number in (-3, 300, 2**70):
        with pytest.raises(DTypeError, match=f"argument n: {number} is not a constant"):
            add(pn.asarray(small), number)
    compiled = add.lower(pn.asarray(small), 3).compile()
    assert compiled(pn.asarray(small), 55).tolist() == [56, 255]
    with pytest.raises(DTypeError, match="argument n: 256 is not a constant of dtype u8"):
        compiled(pn.asarray(small), 256)
    assert add(pn.asarray(small.astype(np.int16)), -300).tolist() == [-299, -100]


def test_a_number_with_a_dtype_is_weak_no_more():
    small, half = pn.asarray(np.array([100], np.int8)), pn.asarray(np.array([1.0], np.float16))

    def used(small, half, n, rate):
        wide, exact = pn.asarray(n, dtype=pn.int64), pn.asarray(rate, dtype=pn.float64)
        cast = rate.astype(pn.float64) if isinstance(rate, pn.Tensor) else exact
        return small + wide, half + exact, cast, half + pn.asarray(rate), pn.asarray(n)

    inside, outside = pn.jit(used)(small, half, 100, 0.1), used(small, half, 100, 0.1)
    for got, wanted in zip(inside, outside, strict=True):
        assert got.dtype is wanted.dtype
        assert got.numpy().tolist() == wanted.numpy().tolist()


def test_what_python_does_to_numbers_leaves_them_weak():
    x = tensor(3, dtype=np.float16)
    made = pn.jit(lambda x, n: (x * -n, x * abs(n), x + n // 2, x + n**2, pn.full((2,), n), n < 3))(x, 3)
    assert [y.dtype.name for y in made] == ["float16"] * 4 + ["int64", "bool"]
    for got, wanted in zip(made, (x * -3, x * 3, x + 1, x + 9), strict=False):
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_a_number_is_as_exact_as_it_is_outside():
    x = pn.asarray(np.array([1.0]))
    rate = 0.1
    assert pn.jit(lambda x, rate: x * rate)(x, rate).item() == (x * rate).item() == 0.1
    assert pn.jit(lambda x, n: x + n)(pn.asarray(np.int64(0)), 2**62).item() == 2**62


def test_a_cache_can_be_cleared():
    function, traces = counted(lambda x: x + 1)
    function(tensor(2))
    function.clear_cache()
    assert function.cache_info().entries == 0
    function(tensor(2))
    assert len(traces) == 2


def test_repeated_traces_are_warned_about():
    function = pn.jit(lambda x: x + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(1, 12):
            function(tensor(size))
    (warning,) = [w for w in caught if issubclass(w.category, RetraceWarning)]
    assert warning.filename == __file__
    assert "traced 8 times in 8 calls, 7 times because of argument x" in str(warning.message)
    assert "planish.Dim" in str(warning.message)


def test_an_error_in_the_function_leaves_no_entry():
    calls = []

    @pn.jit
    def function(x):
        calls.append(x)
        if len(calls) == 1:
            raise ValueError("not yet")
        return x + 1

    x = tensor(2)
    with pytest.raises(ValueError, match="not yet"):
        function(x)
    np.testing.assert_array_equal(function(x).numpy(), x.numpy() + 1)
    assert function.cache_info().misses == 1


# --- static arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"static_argnums": 1}, {"static_argnums": [-1]}, {"static_argnames": ["n"]}]
)
def test_static_arguments_are_python_values(options):
    def function(x, n):
        for _ in range(n):
            x = x * 2
        return x

    compiled = pn.jit(function, **options)
    x = tensor(3)
    np.testing.assert_array_equal(compiled(x, 3).numpy(), x.numpy() * 8)
    np.testing.assert_array_equal(compiled(x, n=2).numpy(), x.numpy() * 4)


def test_static_arguments_have_to_be_hashable():
    with pytest.raises(DTypeError, match=r"f: static argument n cannot be hashed: \[1\].*tuple"):
        pn.jit(named_f, static_argnames="n")(tensor(2), [1])


def named_f(x, n):
    return x


def test_names_and_positions_are_checked():
    def function(x, mode):
        return x

    with pytest.raises(PlanishError, match=r"function has no argument 'mod'; .*did you mean 'mode'"):
        pn.jit(function, static_argnames="mod")
    with pytest.raises(PlanishError, match="function has no positional argument 2"):
        pn.jit(function, static_argnums=2)
    with pytest.raises(PlanishError, match="mode is both static and donated"):
        pn.jit(function, static_argnums=1, donate_argnames="mode")


def test_other_values_have_to_be_static():
    with pytest.raises(
        DTypeError, match=r"argument n\['k'\]\[0\] is neither a tensor nor a number: 'a'.*static_argnames='n'"
    ):
        pn.jit(named_f)(tensor(2), {"k": ["a"]})
    with pytest.raises(DTypeError, match=r"returned 'text' as result\[1\], which is neither"):
        pn.jit(lambda x: (x, "text"))(tensor(2))


# --- values are not known while it is traced ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "op"),
    [
        (bool, "bool"),
        (int, "int"),
        (float, "float"),
        (complex, "complex"),
        (lambda x: x.item(), "item"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: np.asarray(x), "numpy"),
        (lambda x: "a" if x > 0 else "b", "bool"),
    ],
)
def test_asking_for_a_value_explains_itself(ask, op):
    @pn.jit
    def function(params, k):
        ask(params["w"][0] * 2 + k)
        return k

    with pytest.raises(GraphError, match=r"while jit traces the function: it depends on argument") as caught:
        function({"w": [pn.asarray(np.float32(1))]}, pn.asarray(np.float32(2)))
    error = caught.value
    assert error.op == op
    assert error.location is not None
    assert error.location.file == __file__
    assert "planish.where or planish.cond" in str(error)


def test_index_of_a_traced_tensor_explains_itself():
    with pytest.raises(GraphError, match="argument n"):
        pn.jit(lambda x, n: [1, 2, 3][n])(tensor(2), 1)


def test_what_is_known_may_be_asked_for():
    outside = tensor(3)

    @pn.jit
    def function(x):
        return x * 2 if bool(pn.all(outside < 5)) else x

    np.testing.assert_array_equal(function(outside).numpy(), outside.numpy() * 2)


def test_data_dependent_shapes_explain_themselves():
    x = tensor(4)
    with pytest.raises(PlanishError):
        pn.jit(lambda x: pn.nonzero(x > 0)[0])(x)
    np.testing.assert_array_equal(pn.nonzero(x > 0)[0].numpy(), np.nonzero(x.numpy() > 0)[0])


# --- donation -----------------------------------------------------------------------------------------------


def address(x: pn.Tensor) -> int:
    return int(x._elements(None).ctypes.data)


def test_a_donated_argument_gives_its_memory():
    step = pn.jit(lambda state, g: state - 0.5 * g, donate_argnums=0)
    state, g = tensor(8), tensor(8, seed=1)
    wanted, place = state.numpy(), address(state)
    for _ in range(4):
        state = step(state, g)
        wanted = wanted - np.float32(0.5) * g.numpy()
        assert address(state) == place
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "use", [lambda x: x.numpy(), lambda x: x + 1, lambda x: pn.jit(lambda y: y)(x), lambda x: x[0], repr]
)
def test_a_donated_argument_cannot_be_used_again(use):
    state = tensor(8)
    pn.jit(lambda s: s + 1, donate_argnames="s")(state)
    assert state.shape == (8,)
    with pytest.raises(GraphError, match=r"a tensor float32\[8\] was donated: its memory holds a result now"):
        use(state)


def test_donation_spares_what_somebody_else_sees():
    step = pn.jit(lambda tree: {"a": tree["a"] * 2, "b": tree["b"] + 1}, donate_argnums=0)
    a, b = tensor(6).realize(), tensor(6, seed=1).realize()
    seen, copy, waiting = np.asarray(a), b.snapshot(), b * 3
    before = a.numpy(), b.numpy()
    made = step({"a": a, "b": b})
    np.testing.assert_array_equal(seen, before[0])
    np.testing.assert_array_equal(copy.numpy(), before[1])
    np.testing.assert_array_equal(waiting.numpy(), before[1] * 3)
    np.testing.assert_array_equal(made["a"].numpy(), before[0] * 2)
    np.testing.assert_array_equal(made["b"].numpy(), before[1] + 1)
    twice = pn.jit(lambda x, y: x + y, donate_argnums=0)
    c = tensor(6, seed=2)
    wanted = c.numpy() * 2
    np.testing.assert_array_equal(twice(c, c).numpy(), wanted)


def seen_elsewhere() -> Iterator[tuple[str, pn.Tensor, Callable[[], Array]]]:
    """A tensor to donate, and something that looks at the same memory, which nobody holds a reference to on purpose."""
    x = tensor(6)
    yield "a view of data", x.reshape(2, 3), x.numpy
    x = tensor(6)
    part = x[2:]
    yield "what a view was made of", x, part.numpy
    array = np.arange(6, dtype=np.float32)
    yield "memory of the caller", pn.asarray(array, copy=False), array.copy
    foreign = np.arange(6, dtype=np.float32)
    yield "memory of another library", pn.from_dlpack(foreign), foreign.copy
    x = tensor(6).realize()
    looked = np.asarray(x)
    yield "an array that got out", x, looked.copy
    constant = pn.full(6, 2.0)
    yield "a constant", constant.realize(), lambda: pn.full(6, 2.0).numpy()
    x = tensor(6)
    y = pn.zeros(6)
    y[:] = x
    yield "what was assigned", y, x.numpy
    x = tensor(6)
    moved = x.to_device("interpreter")
    yield "the same on another device", x, moved.numpy
    with pn.settings(device="interpreter"):
        x = tensor(6)
        same = pn.jit(lambda x: x)(x)
        yield "what an interpreter handed through", same, x.numpy


def test_donation_writes_to_no_memory_that_is_seen_elsewhere():
    step = pn.jit(lambda x: x + 1, donate_argnums=0)
    for what, given, other in seen_elsewhere():
        before, wanted = other(), given.numpy() + 1
        made = step(given)
        np.testing.assert_array_equal(made.numpy(), wanted, err_msg=what)
        np.testing.assert_array_equal(other(), before, err_msg=what)


def test_what_was_computed_lazily_gives_its_memory_too():
    step = pn.jit(lambda x: x + 1, donate_argnums=0)
    lazy = (tensor(6) * 2).realize()
    place = address(lazy)
    assert address(step(lazy)) == place


def test_an_argument_survives_a_call_that_failed():
    step = pn.jit(
        lambda x, y: x * 2 + y, donate_argnums=0, dims={"x": (pn.Dim("n", 1, 8),), "y": (pn.Dim("n", 1, 8),)}
    )
    step(tensor(4), tensor(4))
    x = tensor(5)
    before = x.numpy()
    with pytest.raises(ShapeError):
        step(x, tensor(6))
    np.testing.assert_array_equal(x.numpy(), before)


# --- named sizes --------------------------------------------------------------------------------------------


def test_a_named_size_is_compiled_once():
    batch = pn.Dim("batch", 1, 16)
    function, traces = counted(lambda x, w: pn.sum(pn.tanh(x @ w), axis=1), dims={"x": (batch, None)})
    w = tensor(3, 4)
    for size in (1, 5, 16, 5, 2):
        x = data(size, 3, seed=size)
        np.testing.assert_allclose(
            function(pn.asarray(x), w).numpy(), np.tanh(x @ w.numpy()).sum(1), rtol=1e-4, atol=1e-6
        )
    assert len(traces) == 1


def test_named_sizes_reach_into_trees_and_keep_their_bounds():
    n = pn.Dim("n", 2, 6)
    function, traces = counted(
        lambda batch, k: batch["x"] * pn.sum(batch["y"]) + k,
        dims={"batch": {"x": (n, ...), "y": (n,)}},
    )
    for size in (2, 6):
        x, y = data(size, 2), data(size, seed=1)
        got = function({"x": pn.asarray(x), "y": pn.asarray(y)}, 1.0)
        np.testing.assert_allclose(got.numpy(), x * y.sum() + 1, rtol=1e-5)
    assert len(traces) == 1
    with pytest.raises(ShapeError, match=r"axis 0 of argument batch\['x'\] has size 7, outside of n in 2..6"):
        function({"x": tensor(7, 2), "y": tensor(7)}, 1.0)
    with pytest.raises(ShapeError, match=r"argument 1 \(batch_y\).* has size 4, not 3 .*n = 3.*test_jit.py"):
        function({"x": tensor(3, 2), "y": tensor(4)}, 1.0)
    with pytest.raises(ShapeError, match=r"argument x has 1 axes .*, dims names 2"):
        pn.jit(lambda x: x, dims={"x": (n, None)})(tensor(3))


# --- ahead of time ------------------------------------------------------------------------------------------


def test_every_level_can_be_read():
    lowered = pn.jit(lambda x, w: pn.tanh(x @ w)).lower(
        pn.TensorSpec((4, 3)), pn.TensorSpec((3, 2), pn.float32)
    )
    assert "dot_general" in lowered.as_text("ptir")
    for level in ("uop", "uop:14", "llir", "llvm", "c", "asm"):
        assert len(lowered.as_text(level)) > 100
    with pytest.raises(PlanishError, match="unknown level 'hlo'"):
        lowered.as_text("hlo")


def test_a_compiled_function_tells_what_it_costs():
    x, w = tensor(4, 3), tensor(3, 2)
    with pn.settings(ready_kernels=False):  # which would be a product by itself, and a kernel behind it
        exe = pn.jit(lambda t: {"y": pn.tanh(t[0] @ t[1])}).lower((x, w)).compile()
    np.testing.assert_allclose(exe((x, w))["y"].numpy(), np.tanh(x.numpy() @ w.numpy()), rtol=1e-5)
    assert len(exe.kernels) == 1
    assert exe.memory.parameters == 4 * (12 + 6)
    assert exe.cost.launches == 1
    assert exe.cost.flops >= 2 * 4 * 3 * 2
    with pytest.raises(
        PlanishError,
        match=r"compiled for other arguments: argument t\[0\]: float32\[5, 3\], was float32\[4, 3\]",
    ):
        exe((tensor(5, 3), w))


def test_lowering_with_named_sizes_serves_them_all():
    n = pn.Dim("n", 1, 8)
    exe = pn.jit(lambda x: x * 2).lower(pn.TensorSpec((n, 2))).compile()
    for size in (1, 8):
        x = tensor(size, 2)
        np.testing.assert_array_equal(exe(x).numpy(), x.numpy() * 2)


# --- settings, devices, memory ------------------------------------------------------------------------------


def test_the_interpreter_runs_compiled_functions_too():
    x = tensor(3).to_device("interpreter")
    y = pn.jit(lambda x: pn.exp(x))(x)
    assert y.device == "interpreter"
    np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()), rtol=1e-6)


def test_nan_tracing_works_under_jit():
    function = pn.jit(lambda x: pn.sum(pn.log(x)))
    x = pn.asarray(np.array([1.0, -1.0], np.float32))
    assert np.isnan(function(x).item())
    with settings(check="nan"), pytest.raises(NanError, match="log made a NaN") as caught:
        function(x)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert np.isnan(function(x).item())


def test_running_out_of_memory_is_told():
    a, b = (pn.asarray(np.zeros(shape, np.float32)) for shape in ((1 << 21, 1), (1, 1 << 22)))
    with pytest.raises(
        OutOfMemoryError, match=r"result 0, tensor<f32, 2097152x4194304>, of 32\.0 TiB"
    ) as caught:
        pn.jit(lambda a, b: a + b)(a, b)
    assert caught.value.peak == 1 << 45
    np.testing.assert_array_equal(pn.sum(a).numpy(), 0)


# --- composition --------------------------------------------------------------------------------------------


def test_jit_of_grad_of_vmap_of_scan():
    def loss(w, batch):
        def one(xs):
            last, _ = pn.scan(lambda c, x: (pn.tanh(c * w + x), None), pn.asarray(np.float64(0)), xs)
            return last

        return pn.sum(pn.vmap(one)(batch) ** 2)

    def by_numpy(w):
        c = np.zeros(len(batch))
        for x in batch.T:
            c = np.tanh(c * w + x)
        return (c**2).sum()

    batch = data(4, 5, dtype=np.float64)
    w = np.array(0.7)
    function, traces = counted(pn.value_and_grad(loss))
    for value in (w, w * 0.5):
        got, gradient = function(pn.asarray(value), pn.asarray(batch))
        np.testing.assert_allclose(got.item(), by_numpy(value), rtol=1e-10)
        wanted = (by_numpy(value + 1e-6) - by_numpy(value - 1e-6)) / 2e-6
        np.testing.assert_allclose(gradient.item(), wanted, rtol=1e-6)
    assert len(traces) == 1


def test_transforms_of_compiled_functions():
    inner, traces = counted(lambda x: pn.sum(x**3))
    x = data(4, dtype=np.float64)
    np.testing.assert_allclose(pn.grad(inner)(pn.asarray(x)).numpy(), 3 * x**2, rtol=1e-12)
    outer = pn.jit(lambda x: inner(x) + pn.grad(lambda y: inner(y) * 2)(x))
    np.testing.assert_allclose(outer(pn.asarray(x)).numpy(), (x**3).sum() + 6 * x**2, rtol=1e-12)
    rows = data(3, 4, dtype=np.float64)
    np.testing.assert_allclose(pn.vmap(inner)(pn.asarray(rows)).numpy(), (rows**3).sum(1), rtol=1e-12)
    assert inner.cache_info().misses == 0
    assert len(traces) == 4


def test_a_training_step_with_donated_state():
    def loss(params, x, y):
        hidden = pn.tanh(x @ params["w1"] + params["b1"])
        return pn.mean((hidden @ params["w2"] - y) ** 2)

    @pn.jit(donate_argnums=0)
    def step(params, x, y, rate):
        value, gradient = pn.value_and_grad(loss)(params, x, y)
        return {name: params[name] - rate * gradient[name] for name in params}, value

    params = {"w1": tensor(3, 8), "b1": pn.zeros((8,)), "w2": tensor(8, 1, seed=1)}
    x = tensor(32, 3, seed=2)
    y = pn.sum(x, axis=1, keepdims=True)
    values = []
    for number in range(30):
        params, value = step(params, x, y, 0.1 / (1 + number / 100))
        values.append(value.item())
    assert values[-1] < values[0] / 5
    assert step.cache_info().misses == 1
