"""`planish.llir.lower`: every operation of seed 003, in both layouts, at every vector width, on few registers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes, llir, ptir
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.llir.layout import MemoryLayout
from planish.llir.program import Address, Compute, EndLoop, Immediate, Loop, Ops, Store
from planish.ptir.function import Function
from planish.target import TARGETS, Target

Array = NDArray[Any]
Value = ptir.Value
f32, i32 = dtypes.float32, dtypes.int32
LAYOUTS = ("row_major", "column_major")
WIDTHS: tuple[int | str, ...] = (1, 2, 4, 8, 16, "native")


def built(make: Callable[..., Value | tuple[Value, ...]], *types: ptir.TensorType) -> Function:
    g = ptir.Graph("f")
    made = make(*(g.input(f"x{number}", type_) for number, type_ in enumerate(types)))
    return g.build(*(made if isinstance(made, tuple) else (made,)))


def t(dtype: DType, *dims: int | str) -> ptir.TensorType:
    return ptir.tensor(dtype, dims)


def inputs(function: Function, seed: int = 0, **sizes: int) -> list[Array]:
    """Small whole numbers: sums of them are exact in any order."""
    rng = np.random.default_rng(seed)
    found = []
    for param in function.params:
        shape = param.type.substitute(sizes).shape
        if param.type.dtype.is_bool:
            found.append(rng.integers(0, 2, shape).astype(np.bool_))
        else:
            found.append(rng.integers(-4, 5, shape).astype(param.type.dtype.numpy))
    return found


def broadcast_add(x: Value, y: Value) -> Value:
    return x.add(y.broadcast_to((3, 4, 16))).mul(x)


def convolution(layouts: tuple[str, str, str], groups: int) -> Callable[[Value, Value], Value]:
    def make(x: Value, w: Value) -> Value:
        return x.convolution(
            w, *layouts, strides=(1, 2), padding=((1, 1), (2, 0)), rhs_dilation=(2, 1), groups=groups
        )

    return make


def two_kernels(x: Value, y: Value) -> Value:
    """The product is needed twice, so that it is given memory."""
    product = x.matmul(y)
    return product.matmul(product.transpose((1, 0)))


def slices(x: Value) -> Value:
    return x.slice((1, 0, 3), (3, 4, 16), (1, 2, 3))


def casts(x: Value) -> tuple[Value, ...]:
    return tuple(
        x.cast(d) for d in (dtypes.int8, dtypes.float64, dtypes.bool_, dtypes.uint16, dtypes.bfloat16)
    )


OPS: dict[str, Function] = {
    "BroadcastAdd": built(broadcast_add, t(f32, 3, 4, 16), t(f32, 4, 16)),
    "BroadcastAdd i32": built(lambda x, y: x.add(y.broadcast_to((5, 8))), t(i32, 5, 8), t(i32, 1, 8)),
    "Conv NHWC": built(convolution(("NHWC", "HWIO", "NHWC"), 1), t(f32, 2, 3, 4, 2), t(f32, 2, 2, 2, 8)),
    "Conv groups": built(convolution(("NCHW", "OIHW", "NCHW"), 2), t(f32, 1, 4, 3, 4), t(f32, 8, 2, 2, 2)),
    "AllocTensor": built(two_kernels, t(f32, 4, 6), t(f32, 6, 8)),
    "Slice": built(slices, t(f32, 4, 4, 16)),
    "Cast": built(casts, t(f32, 4, 16)),
    "Cast from bool": built(lambda x: x.cast(f32), t(dtypes.bool_, 3, 16)),
    "Reshape": built(lambda x: x.reshape((8, 6)).add(1.0), t(f32, 4, 12)),
    **{
        f"Reduce {kind}": built(lambda x, kind=kind: getattr(x, f"reduce_{kind}")([1]), t(f32, 3, 16, 2))
        for kind in ("sum", "prod", "max", "min")
    },
    "Reduce keep_dims": built(lambda x: x.reduce_sum([0, 2], keepdims=True), t(f32, 3, 4, 16)),
    "Reduce all": built(lambda x: x.reduce_sum([0, 1]), t(i32, 3, 16)),
    "Reduce and or": built(lambda x: (x.reduce_and([1]), x.reduce_or([0])), t(dtypes.bool_, 4, 8)),
    "Reduce arg": built(lambda x: (x.argmax(1), x.argmin(0)), t(f32, 4, 8)),
}


def same(found: tuple[Array, ...], wanted: tuple[Array, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


def reference(function: Function, arrays: list[Array]) -> tuple[Array, ...]:
    return tuple(ptir.interpret(function, arrays))


def check_widths(name: str, layout: Any, widths: tuple[int | str, ...]) -> None:
    function = OPS[name]
    arrays = inputs(function)
    wanted = reference(function, arrays)
    for width in widths:
        low = llir.lower(function, layout=layout, vector_width=width)  # type: ignore[arg-type]
        for program in low.programs:
            llir.verify(program)
        same(low.interpret(*arrays), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["BroadcastAdd", "Conv NHWC", "Slice", "Cast", "Reshape", "Reduce sum"])
def test_every_kind_of_op_in_every_layout_and_width(name: str, layout: Any) -> None:
    check_widths(name, layout, WIDTHS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_every_op_in_every_layout(name: str, layout: Any) -> None:
    check_widths(name, layout, (1, 8))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_every_op_in_every_layout_and_width(name: str, layout: Any) -> None:
    check_widths(name, layout, WIDTHS)


@pytest.mark.parametrize("name", OPS)
def test_every_op_on_few_registers(name: str) -> None:
    function = OPS[name]
    arrays = inputs(function)
    wanted = reference(function, arrays)
    low = llir.lower(function, vector_width=4)
    for registers in (4, 8, 32):
        same(low.interpret(*arrays, registers=registers), wanted)


def open_loops(program: llir.Program) -> dict[str, set[int]]:
    """How often each buffer is stored to: the product of the bounds of the loops around the stores."""
    bounds: list[int] = []
    places: dict[llir.Register, str] = {}
    found: dict[str, set[int]] = {}
    for i in program.body:
        if isinstance(i, Loop):
            assert isinstance(i.bound, llir.Immediate)
            bounds.append(int(i.bound.value))  # type: ignore[arg-type]
        elif isinstance(i, EndLoop):
            bounds.pop()
        elif isinstance(i, Address):
            places[i.result] = i.base.name
        elif isinstance(i, Store):
            found.setdefault(places[i.address], set()).add(prod(bounds))
    return found


def test_a_convolution_is_a_complete_nest_around_one_accumulator() -> None:
    """Loops over batch, rows, columns and channels; inside, over the kernel and its channels; one store per output."""
    function = OPS["Conv NHWC"]
    (program,) = llir.lower(function, vector_width=1, target="scalar").programs
    outputs = prod(function.results[0].type.shape)
    kernel = 2 * 2 * 2
    stores = open_loops(program)
    assert stores["arg0"] == {outputs}
    (accumulator,) = [buffer.name for buffer in program.locals]
    assert stores[accumulator] == {outputs, outputs * kernel}  # set once, then updated
    arrays = inputs(function)
    counters = llir.interpret(program, [np.zeros(outputs, np.float32), *(a.reshape(-1) for a in arrays)])
    assert counters.traffic["arg0"].written == outputs * 4


def test_loops_of_an_elementwise_op_visit_every_element_once() -> None:
    for dims in ((6,), (3, 5), (2, 3, 4)):
        function = built(lambda x, y: x.add(y), t(f32, *dims), t(f32, *dims))
        (program,) = llir.lower(function, vector_width=1, target="scalar").programs
        assert open_loops(program) == {"arg0": {prod(dims)}}


# -- sizes that are named ----------------------------------------------------------------------------------------------

BATCH = ptir.Dim.named("B", 1, 9)


def dynamic_reshape() -> Function:
    """(B, 2, 8) as (B·2, 8)."""
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor(f32, (BATCH, 2, 8)))
    return g.build(x.reshape((BATCH * 2, 8)).add(1.0).reduce_sum([1]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", WIDTHS)
def test_dynamic_reshape(layout: Any, width: Any) -> None:
    function = dynamic_reshape()
    low = llir.lower(function, layout=layout, vector_width=width)
    for batch in (1, 4, 9):
        arrays = inputs(function, B=batch)
        same(low.interpret(*arrays), reference(function, arrays))


# -- loops -------------------------------------------------------------------------------------------------------------


def counted_loop() -> Function:
    """Eight steps of c = c·2 + x[i]."""
    g = ptir.Graph("f")
    start = g.input("start", ptir.tensor(f32, (4,)))
    xs = g.input("xs", ptir.tensor(f32, (8, 4)))

    def step(carry: Value, x: Value) -> tuple[Value, Value]:
        after = carry.mul(2.0).add(x)
        return after, after.neg()

    return g.build(*g.scan(step, [start], [xs]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counted_loops(layout: Any) -> None:
    function = counted_loop()
    arrays = inputs(function)
    for width in (1, 4, "native"):
        low = llir.lower(function, layout=layout, vector_width=width)
        same(low.interpret(*arrays), reference(function, arrays))
        same(low.compile()(*arrays), reference(function, arrays))


def test_a_counted_loop_is_a_loop_of_the_kernel() -> None:
    (program,) = llir.lower(counted_loop(), target="x86-64-v4").programs
    (loop,) = [i for i in program.body if isinstance(i, Loop)]
    assert loop.bound == Immediate(8, dtypes.int64)
    inside = program.body[program.body.index(loop) + 1 : -1]
    end = next(n for n, i in enumerate(inside) if isinstance(i, EndLoop))
    # the body: what is carried stays in a register, the slice is read where it lies
    assert {i.op for i in inside[:end] if isinstance(i, Compute) and i.result.dtype.is_float} == {
        Ops.MUL,
        Ops.ADD,
        Ops.NEG,
    }


def from_to(start: int, end: int, step: int) -> Function:
    """for (i = start; i < end; i += step) c += i."""
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor(dtypes.int64, (4,)))
    first, last, by = (g.constant(value, dtypes.int64) for value in (start, end, step))

    def turn(i: Value, c: Value) -> tuple[Value, Value]:
        return i.add(by), c.add(i.broadcast_to((4,)))

    return g.build(*g.while_loop(lambda i, c: i.lt(last), turn, first, x))


@pytest.mark.parametrize(("start", "end", "step"), [(0, 6, 1), (2, 9, 1), (-3, 10, 4), (5, 5, 1), (7, 3, 2)])
def test_lower_bound_upper_bound_and_step_are_carried_over(start: int, end: int, step: int) -> None:
    function = from_to(start, end, step)
    arrays = inputs(function)
    low = llir.lower(function)
    same(low.interpret(*arrays), reference(function, arrays))
    bounds = [i.bound for program in low.programs for i in program.body if isinstance(i, Loop)]
    assert bounds in ([Immediate(len(range(start, end, step)), dtypes.int64)], [])


# -- reductions --------------------------------------------------------------------------------------------------------


def test_a_reduction_is_loops_around_an_accumulator_and_one_store() -> None:
    function = built(lambda x: x.reduce_sum([0, 2]), t(f32, 3, 4, 5))
    (program,) = llir.lower(function, vector_width=1, target="scalar").programs
    stores = open_loops(program)
    (accumulator,) = [buffer.name for buffer in program.locals]
    assert stores["arg0"] == {4}
    assert stores[accumulator] == {4, 4 * 3 * 5}  # set once, then updated over both axes


@pytest.mark.parametrize("kind", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
def test_reductions_apply_their_operation(kind: str) -> None:
    function = built(lambda x: getattr(x, kind)([1]), t(f32, 3, 7))
    (program,) = llir.lower(function, vector_width=1, target="scalar").programs
    op = {"reduce_sum": Ops.ADD, "reduce_prod": Ops.MUL, "reduce_max": Ops.MAX, "reduce_min": Ops.MIN}[kind]
    assert op in {i.op for i in program.body if isinstance(i, Compute) and i.result.dtype is f32}
    arrays = inputs(function)
    same(llir.lower(function).interpret(*arrays), reference(function, arrays))


def test_reduced_axes_may_be_kept() -> None:
    for keep, dims in ((True, (3, 1, 5)), (False, (3, 5))):
        function = built(lambda x, keep=keep: x.reduce_max([1], keepdims=keep), t(f32, 3, 4, 5))
        assert function.results[0].type.dims == dims
        arrays = inputs(function)
        same(llir.lower(function).interpret(*arrays), reference(function, arrays))


def test_a_broadcast_addition_reads_both_and_writes_the_result() -> None:
    function = built(lambda x, y: x.add(y.broadcast_to((3, 5))), t(f32, 3, 5), t(f32, 5))
    (program,) = llir.lower(function, vector_width=1, target="scalar").programs
    memory = [np.zeros(15, np.float32), *(a.reshape(-1) for a in inputs(function))]
    counters = llir.interpret(program, memory)
    assert counters.traffic["arg0"].written == 15 * 4
    assert {name: counters.traffic[name].read for name in ("arg1", "arg2")} == {
        "arg1": 15 * 4,
        "arg2": 15 * 4,
    }
    same((memory[0].reshape(3, 5),), reference(function, inputs(function)))


# -- what is told of memory -----------------------------------------------------------------------------------------------


def test_where_elements_lie() -> None:
    function = OPS["BroadcastAdd"]
    for layout, strides in (("row_major", (64, 16, 1)), ("column_major", (1, 3, 12))):
        low = llir.lower(function, layout=layout)  # type: ignore[arg-type]
        first = low.parameters[0]
        assert first.strides == strides
        assert first.layout is MemoryLayout(layout)
        assert first.nbytes == 3 * 4 * 16 * 4
        assert first.alignment == 64
        assert [place.dims for place in low.results] == [(3, 4, 16)]


def test_strides_of_named_sizes_are_expressions() -> None:
    low = llir.lower(dynamic_reshape(), layout="column_major")
    (place,) = low.parameters
    assert place.strides == (1, BATCH, BATCH * 2)
    assert place.nbytes == 9 * 2 * 8 * 4


def test_column_major_results_really_are() -> None:
    function = built(lambda x: x.add(1.0), t(f32, 3, 5))
    arrays = inputs(function)
    low = llir.lower(function, layout="column_major", vector_width=1)
    (found,) = low.interpret(*arrays)
    assert found.flags.f_contiguous
    (program,) = low.programs
    memory = [np.empty(15, np.float32), np.array(arrays[0], order="F").ravel("K")]
    llir.interpret(program, memory)
    np.testing.assert_array_equal(memory[0].reshape(5, 3).T, arrays[0] + 1.0)


def lanes_of(low: llir.LoweredFunction) -> set[int]:
    return {i.target.dtype.lanes for p in low.programs for i in p.body if i.target is not None}


def test_the_vector_width_is_the_width_of_registers() -> None:
    function = OPS["BroadcastAdd"]
    assert lanes_of(llir.lower(function, vector_width=1)) == {1}
    for width in (4, 8, 16):
        assert max(lanes_of(llir.lower(function, vector_width=width))) == width
    native = llir.lower(function, target="x86-64-v4")
    assert max(lanes_of(native)) == 16


def test_a_target_can_be_given_as_a_description() -> None:
    narrow = TARGETS["x86-64"]
    assert isinstance(narrow, Target)
    assert max(lanes_of(llir.lower(OPS["BroadcastAdd"], target=narrow))) == 4


def test_short_loops_are_hinted_to_unroll() -> None:
    low = llir.lower(built(lambda x: x.reduce_sum([1]), t(f32, 100, 6)), vector_width=1)
    hints = [i.unroll for p in low.programs for i in p.body if isinstance(i, Loop)]
    assert 6 in hints
    assert 0 in hints  # a hundred rows stay a loop


# -- errors --------------------------------------------------------------------------------------------------------------


def test_words_and_numbers_that_mean_nothing() -> None:
    function = OPS["Slice"]
    with pytest.raises(LoweringError, match=r"unknown layout 'colum_major'.*did you mean 'column_major'"):
        llir.lower(function, layout="colum_major")  # type: ignore[arg-type]
    for width in (0, -4, 2.0, "wide", True):
        with pytest.raises(LoweringError, match=r'from 1, or "native"'):
            llir.lower(function, vector_width=width)  # type: ignore[arg-type]


def test_a_size_without_bounds_is_refused_by_name() -> None:
    function = built(lambda x: x.exp(), ptir.tensor(f32, ("B", 4)))
    with pytest.raises(
        LoweringError, match=r"dim B .* no upper bound.*; in (exp|parameter).*; declare its bounds"
    ):
        llir.lower(function)


def test_bytes_beyond_64_bits_are_refused() -> None:
    function = built(lambda x: x.exp(), ptir.tensor(f32, (2**31, 2**31)))
    with pytest.raises(LoweringError, match="64 bits"):
        llir.lower(function)
    with pytest.raises(LoweringError, match="64 bits"):
        llir.byte_size((2**31, 2**31), f32)


def test_dtypes_without_a_size_are_refused() -> None:
    for dtype in (dtypes.index, dtypes.void):
        with pytest.raises(LoweringError, match="has no size in memory"):
            llir.byte_size((4,), dtype)


def test_names_of_functions_are_functions() -> None:
    import planish.llir.interpret
    import planish.llir.lower

    assert planish.llir.interpret is llir.interpret
    assert callable(llir.lower)
    assert callable(llir.interpret)
    assert set(llir.__all__) <= set(dir(llir))
