"""From the Tensor API to native code: what compiles today, held against the interpreters and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, dtypes, ptir
from planish.errors import DTypeError, LoweringError, PlanishError, ShapeError
from planish.frontend.capture import capture
from planish.ptir.interpret import interpret
from tests.conftest import Golden

Array = NDArray[Any]


def data(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if dtype[0] == "u" else -50, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def three_oracles(result: pn.Tensor) -> tuple[Array, Array, Array]:
    """The same program by the PTIR interpreter, the LLIR interpreter and generated code."""
    function, leaves = capture([result._value])
    arrays = [pn.Tensor(leaf).numpy() for leaf in leaves]
    (reference,) = interpret(function, arrays)
    program = ptir.Program()
    program.add(function)
    ptir.PassManager.parse("canonicalize,cse,dce").run(program)
    lowered = compiler.lower(function)
    (interpreted,) = lowered.interpreted()(*arrays)
    (native,) = lowered.compile()(*arrays)
    return reference, interpreted, native


def softmax(x: pn.Tensor) -> pn.Tensor:
    e = pn.exp(x - pn.max(x, axis=-1, keepdims=True))
    return e / pn.sum(e, axis=-1, keepdims=True)


x, y, w, b = data((4, 5)), data((4, 5), seed=1), data((5, 3), seed=2), data((3,), seed=3)
CASES: dict[str, tuple[Callable[[], pn.Tensor], Callable[[], Array]]] = {
    "elementwise": (
        lambda: pn.tanh(pn.asarray(x) * pn.asarray(y) + 1.5),
        lambda: np.tanh(x * y + np.float32(1.5)),
    ),
    "broadcast": (lambda: pn.asarray(x) - pn.asarray(data((5,))), lambda: x - data((5,))),
    "outer": (
        lambda: pn.asarray(data((4, 1))) * pn.asarray(data((1, 7), seed=4)),
        lambda: data((4, 1)) * data((1, 7), seed=4),
    ),
    "transposed": (lambda: pn.asarray(x).mT + pn.asarray(y).mT, lambda: x.T + y.T),
    "reshaped transpose": (
        lambda: pn.reshape(pn.asarray(x).mT, (2, 10)) * 2.0,
        lambda: x.T.reshape(2, 10) * np.float32(2),
    ),
    "matmul": (lambda: pn.asarray(x) @ pn.asarray(w), lambda: x @ w),
    "layer": (
        lambda: pn.maximum(pn.asarray(x) @ pn.asarray(w) + pn.asarray(b), 0.0),
        lambda: np.maximum(x @ w + b, 0),
    ),
    "matmul of size 1": (
        lambda: pn.asarray(data((1, 1))) @ pn.asarray(data((1, 1))),
        lambda: data((1, 1)) ** 2,
    ),
    "odd matmul": (
        lambda: pn.asarray(data((7, 13))) @ pn.asarray(data((13, 11))),
        lambda: data((7, 13)) @ data((13, 11)),
    ),
    "batched matmul": (
        lambda: pn.asarray(data((2, 3, 4))) @ pn.asarray(data((4, 5))),
        lambda: data((2, 3, 4)) @ data((4, 5)),
    ),
    "vectors": (lambda: pn.asarray(data((6,))) @ pn.asarray(data((6, 2))), lambda: data((6,)) @ data((6, 2))),
    "sum": (lambda: pn.sum(pn.asarray(x), axis=0), lambda: x.sum(0)),
    "sum of all": (lambda: pn.sum(pn.asarray(x)), lambda: x.sum()),
    "max": (lambda: pn.max(pn.asarray(x), axis=1, keepdims=True), lambda: x.max(1, keepdims=True)),
    "min of products": (lambda: pn.min(pn.asarray(x) * pn.asarray(y), axis=1), lambda: (x * y).min(1)),
    "softmax": (
        lambda: softmax(pn.asarray(x)),
        lambda: (
            np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        ),
    ),
    "integers wrap": (
        lambda: pn.asarray(data((9,), "int8")) * pn.asarray(data((9,), "int8", 5)),
        lambda: data((9,), "int8") * data((9,), "int8", 5),
    ),
    "integer matmul": (
        lambda: pn.asarray(data((3, 4), "int32")) @ pn.asarray(data((4, 2), "int32")),
        lambda: data((3, 4), "int32") @ data((4, 2), "int32"),
    ),
    "double": (
        lambda: pn.sqrt(pn.abs(pn.asarray(data((3, 3), "float64")))),
        lambda: np.sqrt(np.abs(data((3, 3), "float64"))),
    ),
    "promotion": (
        lambda: pn.asarray(data((3,), "int16")) + pn.asarray(data((3,), "int32")),
        lambda: data((3,), "int16") + data((3,), "int32"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_interpreters_and_native_code_agree(name: str) -> None:
    build, expected = CASES[name]
    reference, interpreted, native = three_oracles(build())
    wanted = np.asarray(expected())
    assert native.dtype == reference.dtype == wanted.dtype
    assert native.shape == reference.shape == wanted.shape
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(native, wanted)
        np.testing.assert_array_equal(interpreted, wanted)
        np.testing.assert_array_equal(reference, wanted)
    else:
        # sums of at most 20 terms of size about 1, and functions within 2 units in the last place
        bound = 32 * np.finfo(wanted.dtype).eps
        for found in (native, interpreted, reference):
            np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("value", [np.nan, -0.0, np.inf])
def test_maximum_propagates_nan_and_keeps_specials(value: float) -> None:
    array = np.array([value, 1.0, -1.0], np.float32)
    _, interpreted, native = three_oracles(pn.maximum(pn.asarray(array), -5.0))
    np.testing.assert_array_equal(native, np.maximum(array, np.float32(-5)))
    np.testing.assert_array_equal(interpreted, native)


def test_chains_and_rows_are_one_kernel() -> None:
    def kernels(result: pn.Tensor) -> int:
        function, _ = capture([result._value])
        return len(compiler.lower(function).schedule.kernels)

    assert kernels(pn.tanh(pn.asarray(x) * pn.asarray(y) + pn.asarray(x))) == 1
    assert kernels(pn.maximum(pn.asarray(x) @ pn.asarray(w) + pn.asarray(b), 0.0)) == 1
    assert kernels(softmax(pn.asarray(x))) == 1


def test_every_level_of_a_sum_reads_as_stored(golden: Golden) -> None:
    function, _ = capture([(pn.asarray(data((2, 3))) + pn.asarray(data((2, 3), seed=1)))._value])
    lowered = compiler.lower(function)
    levels = ["ptir", "uop", *(f"uop:{n}" for n in (1, 4, 11, 13, 15, 18, 19, 20)), "llir", "llvm"]
    golden.check("e2e/add.txt", "\n".join(f"=== {level}\n{lowered.as_text(level)}" for level in levels))


def test_mutating_the_source_does_not_change_a_tensor() -> None:
    source = np.ones(3, np.float32)
    tensor = pn.asarray(source)
    source[:] = 7
    assert tensor.numpy().tolist() == [1, 1, 1]
    tensor.numpy()[:] = 5
    assert (tensor + 0.0).numpy().tolist() == [1, 1, 1]


def test_a_deep_chain_compiles() -> None:
    start = value = pn.asarray(np.ones(2, np.int32))
    for _ in range(2000):
        value = value * 3 - start
    expected = 1
    for _ in range(2000):
        expected = (expected * 3 - 1) % 2**32
    assert value.numpy().astype(np.uint32).tolist() == [expected, expected]


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: pn.asarray(x) + pn.asarray(w), ShapeError, ("add", "(4, 5)", "(5, 3)")),
        (lambda: pn.asarray(x) @ pn.asarray(x), ShapeError, ("matmul", "(4, 5)")),
        (lambda: pn.sum(pn.asarray(x), axis=7), ShapeError, ("sum", "axis 7")),
        (lambda: pn.reshape(pn.asarray(x), (3, 3)), ShapeError, ("reshape", "20 elements")),
        (lambda: ~pn.asarray(x), DTypeError, ("bitwise_invert", "f32")),
        (lambda: pn.asarray(x) + cast("Any", "one"), DTypeError, ("add", "str", "asarray")),
    ],
)
def test_mistakes_name_the_op_the_shapes_and_the_line(
    make: Callable[[], object], kind: type[PlanishError], words: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        make()
    message = str(caught.value)
    assert all(word in message for word in words)
    assert "test_thin_path.py" in message


def test_what_cannot_be_compiled_is_refused_by_name() -> None:
    graph = ptir.Graph("f")
    value = graph.input("x", ptir.tensor("f32", ("B", 4)))
    with pytest.raises(LoweringError, match="dim B"):
        compiler.lower(graph.build(value.neg()))
    with pytest.raises(PlanishError, match="unknown level"):
        compiler.lower(ptir.Graph("g").build()).as_text("nonsense")


UNARY = [
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "reciprocal",
    "floor",
    "ceil",
    "trunc",
    "round",
    "neg",
    "abs",
]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -3.75,
    1e-30,
    1e30,
    7e4,
    np.inf,
    -np.inf,
    np.nan,
    88.0,
    -104.0,
    1e-40,
]


def by_both(function: ptir.Function, *arrays: Array) -> tuple[Array, Array]:
    (reference,) = interpret(function, arrays)
    (native,) = compiler.lower(function).compile()(*arrays)
    assert native.dtype == reference.dtype
    return reference, native


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_compile_to_what_the_interpreter_computes(name: str, dtype: str) -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor(dtype, (48,)))
    function = graph.build(getattr(x, name)())
    values = np.concatenate([SPECIAL, np.linspace(-4, 4, 32)]).astype(
        "float32" if dtype == "f32" else "float64"
    )
    reference, native = by_both(function, values)
    # docs/math.md: at most 2 units in the last place; the interpreter itself is within 1
    eps = float(np.finfo(values.dtype).eps)
    np.testing.assert_allclose(
        native, reference, rtol=3 * eps, atol=float(np.finfo(values.dtype).smallest_subnormal) * 3
    )


@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_functions_of_two_arguments_compile(name: str) -> None:
    graph = ptir.Graph("f")
    x, y = (graph.input(n, ptir.tensor("f32", (256,))) for n in "xy")
    left, right = np.meshgrid(np.array(SPECIAL, np.float32), np.array(SPECIAL, np.float32))
    reference, native = by_both(graph.build(getattr(x, name)(y)), left.ravel(), right.ravel())
    np.testing.assert_allclose(native, reference, rtol=3 * float(np.finfo(np.float32).eps), atol=5e-45)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u64"])
@pytest.mark.parametrize("name", ["floor_div", "floor_mod", "trunc_div", "trunc_mod"])
def test_division_of_integers_never_traps(name: str, dtype: str) -> None:
    kind = dtypes.parse(dtype)
    low, high = cast("int", kind.min), cast("int", kind.max)
    values = np.array([0, 1, 2, 3, 7, high, high - 1, low, low + 1, (low - 1) % (high + 1)], dtype=kind.numpy)
    graph = ptir.Graph("f")
    x, y = (graph.input(n, ptir.tensor(dtype, (100,))) for n in "xy")
    left, right = np.meshgrid(values, values)
    reference, native = by_both(graph.build(getattr(x, name)(y)), left.ravel(), right.ravel())
    np.testing.assert_array_equal(native, reference)


class Sink:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def before_run(self, context: ptir.trace.ExecutionContext) -> None:
        self.told.append(("before", context.backend))

    def after_run(self, context: ptir.trace.ExecutionContext, stats: ptir.trace.ExecutionStats) -> None:
        self.told.append((f"after {stats.counters['kernels']} kernel", context.backend))

    def pass_event(self, event: ptir.trace.PassEvent) -> None: ...


def test_every_execution_is_told_to_the_trace_sink() -> None:
    function, leaves = capture([(pn.asarray(x) * 2.0)._value])
    arrays = [pn.Tensor(leaf).numpy() for leaf in leaves]
    lowered = compiler.lower(function)
    sink = Sink()
    with ptir.trace.install_global_sink(sink):
        lowered.compile()(*arrays)
        lowered.interpreted()(*arrays)
    lowered.interpreted()(*arrays)
    assert sink.told == [
        ("before", "llvm"), ("after 1 kernel", "llvm"),
        ("before", "llir-interpreter"), ("after 1 kernel", "llir-interpreter"),
    ]  # fmt: skip
