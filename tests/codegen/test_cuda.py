"""CUDA C++: every kind of kernel is compiled by NVRTC for two architectures, and what matters for speed is in the PTX. No GPU is needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, dtypes
from planish.codegen import cuda
from planish.compiler.grids import grid_of
from planish.errors import LoweringError, PlanishError
from planish.runtime.cuda.build import translate
from tests.e2e.op_cases import CASES, DYNAMIC, Maker

ARCHITECTURES = ("sm_80", "sm_90a")


def lowered(f: Any, *shapes: tuple[int, ...], dtype: Any = pn.float32, **options: Any) -> compiler.Lowered:
    args = [pn.TensorSpec(shape, dtype) for shape in shapes]
    return compiler.lower(pn.jit(f, **options).lower(*args).function, "sm_90")


def ptx(f: Any, *shapes: tuple[int, ...], dtype: Any = pn.float32) -> str:
    return lowered(f, *shapes, dtype=dtype).as_text("ptx")


def _chosen() -> list[Any]:
    """Each op with one of its dtypes, which varies from op to op."""
    rows = []
    for position, (name, (accepted, _)) in enumerate(CASES.items()):
        dtype = accepted[position % len(accepted)]
        rows.append(pytest.param(name, dtype, id=f"{name}-{dtype.short}"))
    return rows[::2]


@pytest.mark.parametrize(("name", "dtype"), _chosen())
def test_every_other_op_is_compiled(name: str, dtype: dtypes.DType) -> None:
    m = Maker(dtype)
    CASES[name][1][0](m)
    for number, program in enumerate(compiler.lower(m.build(), "sm_90", passes=None).programs):
        assert translate(cuda.render(program), ARCHITECTURES[number % 2], cuda.FLAGS, "cubin").startswith(
            b"\x7fELF"
        )


def test_the_text_of_a_kernel(golden: Any) -> None:
    golden.check("cuda/row_sums.cu", lowered(lambda x: pn.sum(x * 2.0, axis=1), (64, 512)).as_text("cuda"))


def test_neighbours_are_moved_by_one_access() -> None:
    found = ptx(lambda x: x * 2.0 + 1.0, (1024, 1024))
    assert "ld.global.nc.v4.f32" in found or "ld.global.nc.v4.b32" in found
    assert "st.global.v4" in found


def test_sixteen_bytes_of_narrow_elements() -> None:
    found = ptx(lambda x: x * 2.0, (1024, 1024), dtype=pn.bfloat16)
    assert "ld.global.nc.v4" in found or "ld.global.nc.v2.b64" in found or "ld.global.nc.v2.u64" in found


def test_words_of_an_odd_number_of_halves() -> None:
    found = lowered(
        lambda x: pn.sum(x, axis=0),
        (256, 224),
        dtype=pn.bfloat16,
        schedule="upcast(i, 7); local(i.outer, 32)",
    )
    assert found.as_text("ptx")


def test_warps_combine_without_memory() -> None:
    found = ptx(lambda x: pn.sum(x, axis=1), (64, 512))
    assert "shfl.sync.bfly" in found
    assert found.count("bar.sync") <= 1
    assert ".local" not in found  # nothing is spilled


def test_a_row_is_read_from_memory_once() -> None:
    found = ptx(pn.nn.softmax, (64, 1024))
    assert found.count("ld.global") == 2  # eight of the 1024 elements for each of 128 threads, four by four
    assert ".local" not in found  # nothing is spilled


def test_a_product_goes_through_tiles() -> None:
    found = lowered(lambda a, b: a @ b, (2048, 64), (64, 2048))
    (choice,) = found.choices
    assert "stage(arg1" in str(choice)
    assert "stage(arg2" in str(choice)
    assert "fma.rn.f32" in found.as_text("ptx")
    assert ".local" not in found.as_text("ptx")


def test_a_tensor_core_is_used() -> None:
    found = ptx(lambda a, b: a @ b, (256, 256), (256, 256), dtype=pn.bfloat16)
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in found
    found = ptx(lambda a, b: a @ b, (16, 256), (256, 16), dtype=pn.bfloat16)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in found


@pytest.mark.parametrize("dtype", [pn.float16, pn.bfloat16, pn.float32, pn.float64, pn.int8, pn.int32])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (128, 256, 128), (100, 33, 77)])
def test_products_of_every_dtype_are_compiled(dtype: Any, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    assert "entry" in ptx(lambda a, b: a @ b, (m, k), (k, n), dtype=dtype)


def test_a_multiply_add_is_one_only_where_the_program_says_so() -> None:
    m = Maker(dtypes.float32)
    CASES["mul"][1][0](m)
    found = compiler.lower(m.build(), "sm_90", passes=None).as_text("ptx")
    assert "fma" not in found


@pytest.mark.parametrize("name", DYNAMIC)
def test_grids_follow_from_named_sizes(name: str) -> None:
    m = Maker(dtypes.float32)
    DYNAMIC[name](m)
    for program in compiler.lower(m.build(), "sm_90", passes=None).programs:
        grid = grid_of(program)
        for values in ([v.low for v in program.variables], [v.high for v in program.variables]):
            assert all(size >= 0 for size in grid.at(values))
        assert np.prod(grid.threads) <= 1024


@pytest.mark.parametrize(
    "function", [pn.argmax, pn.max, pn.min, pn.sum, pn.cumulative_max, pn.cumulative_sum]
)
@pytest.mark.parametrize("dtype", [pn.float32, pn.int32])
def test_all_threads_ask_before_any_chooses(function: Any, dtype: Any) -> None:
    """A value of another thread is asked for by itself: in one branch of a choice, only some threads would."""
    (program,) = lowered(lambda x: function(x, axis=1), (4, 128), dtype=dtype).programs
    lines = [line for line in cuda.render(program).splitlines() if "from_" in line and "inline" not in line]
    assert lines
    asks = re.compile(r"\s*(\w+ )?\w+ = from_(thread|before)\([\w, ]+\);")
    assert [line for line in lines if not asks.fullmatch(line)] == []


def test_a_grid_grows_with_a_named_size() -> None:
    dims = {"x": (pn.Dim("batch", 1, 1000), None)}
    (program,) = lowered(lambda x: pn.sum(x * 2.0, axis=1), (8, 12), dims=dims).programs
    grid = grid_of(program)
    assert np.prod(grid.threads) == 256
    assert [np.prod(grid.at([n])) for n in (1, 256, 1000)] == [1, 1, 4]


def test_what_no_gpu_has_is_refused() -> None:
    with pytest.raises(PlanishError, match=r"x86-64 is no GPU; lower for sm_80 or sm_90"):
        compiler.lower(pn.jit(lambda x: x + 1).lower(pn.ones(3)).function, "x86-64").as_text("cuda")


def test_source_that_is_none_is_told() -> None:
    with pytest.raises(LoweringError, match=r"(?s)NVRTC refused a kernel for sm_90a.*error"):
        translate("this is no kernel", "sm_90a", cuda.FLAGS, "cubin")


def test_a_function_that_is_used_dozens_of_times_is_called() -> None:
    """Written out each time, NVRTC takes minutes for them."""

    def sums(x: Any, count: int) -> Any:
        return sum(pn.sum(pn.exp(x * k), axis=1) * pn.max(pn.sin(x + k), axis=1) for k in range(1, count + 1))

    lengths = []
    for count in (4, 8, 16):
        lowered = compiler.lower(
            pn.jit(lambda x, n=count: sums(x, n)).lower(pn.TensorSpec((8, 16))).function, "sm_90"
        )
        assert len(lowered.programs) == 1
        source = lowered.as_text("cuda")
        assert source.count("__noinline__") == 1
        lengths.append(len(source))
    assert lengths[2] - lengths[1] < 2.2 * (lengths[1] - lengths[0])
    assert lengths[2] < 150_000
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    k = np.arange(1, 5)[:, None, None]
    want = (np.exp(x * k).sum(2) * np.sin(x + k).max(2)).sum(0)
    few = compiler.lower(pn.jit(lambda x: sums(x, 4)).lower(pn.TensorSpec((8, 16))).function, "sm_90")
    np.testing.assert_allclose(few.interpreted()(x)[0], want, rtol=1e-5)
