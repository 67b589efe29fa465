"""Mirror images: the same function on tensors with their axes in reverse order."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes, ptir
from planish.ptir.function import Function, Program
from planish.ptir.mirror import mirrored
from planish.ptir.verify import verify
from tests.ptir.generate import HOST, ROUNDING, random_inputs, random_program, same_results

f32 = dtypes.float32


def results(program: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return list(ptir.interpret(program, inputs))


def turned(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [np.array(array.T, order="C") for array in arrays]


def image(program: Program) -> Program:
    entry = program.entry
    functions = [mirrored(function) if function is entry else function.clone() for function in program]
    return Program(functions, entry=entry.name)


def wrong_images(seeds: range) -> list[int]:
    found = []
    for seed in seeds:
        program = random_program(seed, exclude=HOST | ROUNDING)
        if any(param.type.quant is not None for param in program.entry.params):
            continue
        inputs = random_inputs(program, seed)
        turned_program = image(program)
        verify(turned_program)
        if not same_results(turned(results(program, inputs)), results(turned_program, turned(inputs))):
            found.append(seed)
    return found


def test_random_programs_have_mirror_images() -> None:
    assert wrong_images(range(60)) == []


@pytest.mark.fuzz
def test_many_random_programs_have_mirror_images() -> None:
    assert wrong_images(range(1000, 2000)) == []


def ops_of(function: Function) -> list[str]:
    return [inst.op.name for inst in function]


def matmul() -> Function:
    g = ptir.Graph("f")
    a, b, c = (g.input(n, ptir.tensor("f32", d)) for n, d in (("a", (3, 4)), ("b", (4, 5)), ("c", (5,))))
    return g.build(a.matmul(b).add(c.broadcast_to((3, 5))).exp().reduce_sum([1]))


def test_what_has_an_image_needs_no_transposes() -> None:
    f = mirrored(matmul())
    assert "transpose" not in ops_of(f)
    assert [p.type.dims for p in f.params] == [(4, 3), (5, 4), (5,)]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.type.shape).astype(np.float32) for p in matmul().params]
    (found,) = results(Program([f]), turned(arrays))
    a, b, c = arrays
    np.testing.assert_allclose(found, np.exp(a @ b + c).sum(1), rtol=1e-5)


def convolution(layouts: tuple[str, str, str]) -> Function:
    g = ptir.Graph("conv")
    x = g.input("x", ptir.tensor("f32", (2, 6, 7, 4)))
    w = g.input("w", ptir.tensor("f32", (3, 2, 2, 6)))
    return g.build(
        x.convolution(w, strides=(1, 2), padding=((1, 0), (0, 2)), rhs_dilation=(2, 1), groups=2,
                      lhs_layout=layouts[0], rhs_layout=layouts[1], out_layout=layouts[2])
    )  # fmt: skip


def test_convolutions_are_read_backwards() -> None:
    function = convolution(("NHWC", "HWIO", "NHWC"))
    f = mirrored(function)
    assert ops_of(f) == ["convolution"]
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-4, 5, p.type.shape).astype(np.float32) for p in function.params]
    (found,), (wanted,) = results(Program([f]), turned(arrays)), results(Program([function]), arrays)
    np.testing.assert_array_equal(found, wanted.T)


def test_what_has_none_is_turned_back_and_forth() -> None:
    g = ptir.Graph("r")
    x = g.input("x", ptir.tensor("f32", (2, 6)))
    f = mirrored(g.build(x.reshape((3, 4))))
    assert ops_of(f) == ["transpose", "reshape", "transpose"]
    array = np.arange(12, dtype=np.float32).reshape(2, 6)
    (found,) = results(Program([f]), turned([array]))
    np.testing.assert_array_equal(found, array.reshape(3, 4).T)


def test_the_function_itself_stays() -> None:
    f = matmul()
    before = ptir.print(f)
    mirrored(f)
    assert ptir.print(f) == before
