"""Products under way: begun before what is made of others, waited for where they are looked at, and a wait that is missing is found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.llir.program import Finish, If, Instruction, Program, Release, Store, Tile
from planish.llir.verify import is_kept, problems


@cache
def gradients(*, is_causal: bool = False) -> Program:
    """The kernel that makes both gradients by keys and by values."""

    def back(q: Any, k: Any, v: Any, g: Any) -> Any:
        def attention(q: Any, k: Any, v: Any) -> Any:
            return pn.nn.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

        return pn.vjp(attention, q, k, v)[1](g)

    given = [pn.TensorSpec((1, 2, 256, 128), pn.bfloat16)] * 4
    lowered = compiler.lower(pn.jit(back).lower(*given).function, "sm_90")
    return max(lowered.programs, key=lambda program: sum(isinstance(i, Tile) for i in program.body))


def steps(program: Program, *kinds: type[Instruction]) -> list[str]:
    return [
        f"{i.mnemonic} {i.pending}" if isinstance(i, Tile | Finish) else i.mnemonic
        for i in program.body
        if isinstance(i, kinds)
    ]


@pytest.mark.parametrize("is_causal", [False, True])
def test_products_of_operands_in_memory_are_begun_first(is_causal: bool) -> None:
    program = gradients(is_causal=is_causal)
    masked = ["if"] if is_causal else []
    assert steps(program, Tile, Finish, If, Release) == [
        "tile 1", "tile 2", "tile 3", "tile 4",  # scores, then the gradient of weights, in two pieces along the width each
        "finish 2", *masked, "tile 3",  # of what the first made, while the second is under way: a sum
        "finish 1", "tile 0", "release",  # and of both, while that sum is
    ]  # fmt: skip
    body = program.body
    last = max(position for position, i in enumerate(body) if isinstance(i, Tile))
    loop = [i for i in body[:last] if isinstance(i, Store) and is_kept(i)]
    assert not any(i.value in {t.result for t in body if isinstance(t, Tile)} for i in loop)


def test_sums_that_start_from_nothing_are_not_filled_with_zeros() -> None:
    text = cuda.render(gradients())
    assert "wgmma_m64n64_bf16_f32_kk_1_anew(" in text
    assert "wgmma_m64n64_bf16_f32_kk_3_anew(" in text


@pytest.mark.parametrize("which", [0, 1])
def test_a_wait_that_is_missing_is_found(which: int) -> None:
    program = gradients()
    assert not problems(program)
    waits = [i for i in program.body if isinstance(i, Finish)]
    gone = waits[which]
    body = [
        i.renamed(lambda r: gone.operand if r == gone.result else r, lambda r: r)  # type: ignore[return-value,arg-type]  # its operand is a register
        for i in program.body
        if i is not gone
    ]
    assert {found.invariant for found in problems(replace(program, body=tuple(body)))} == {"product"}


def test_a_wait_that_is_too_short_is_found() -> None:
    program = gradients()
    body = [replace(i, pending=i.pending + 1) if isinstance(i, Finish) else i for i in program.body]
    assert {found.invariant for found in problems(replace(program, body=tuple(body)))} == {"product"}
