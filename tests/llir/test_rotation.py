"""Loop rotation: operands of the next step are read before this one computes, and what is computed stays the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import planish as pn
from planish import compiler, dtypes
from planish.llir.instruction import Instruction
from planish.llir.interpret import interpret
from planish.llir.program import Barrier, Deal, EndLoop, Immediate, Loop, Program, Register, Tile
from planish.llir.rotation import rotated
from planish.llir.verify import verify
from tests.llir import kernels


def product() -> Program:
    spec = pn.TensorSpec((32, 128), pn.float16), pn.TensorSpec((128, 32), pn.float16)
    (program,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(*spec).function, "sm_80").programs
    return program


def test_reads_come_a_step_before_what_is_computed_of_them() -> None:
    program = product()
    verify(program)
    kinds = "".join("D" if isinstance(i, Deal) else "T" for i in program.body if isinstance(i, Deal | Tile))
    steps = 4
    reads, computes = kinds.count("D") // steps, kinds.count("T") // steps
    assert reads
    assert computes
    order = "D" * 2 * reads + ("T" * computes + "D" * reads) * (steps - 2) + "T" * 2 * computes
    assert kinds == order


def looped(extra: tuple[Instruction, ...] = ()) -> Program:
    """Rows dealt out again and again, the last of which is stored."""
    program = kernels.dealt_rows()
    place = next(n for n, i in enumerate(program.body) if isinstance(i, Deal)) - 1
    counter = Register(99, dtypes.int32)
    bound = Immediate(3, counter.dtype)
    body = (*program.body[:place], Loop(counter, bound), *program.body[place : place + 2], *extra)
    return replace(program, body=(*body, EndLoop(counter, bound), *program.body[place + 2 :]))


def test_a_loop_becomes_straight_code() -> None:
    program = looped()
    straight = rotated(program.body)
    assert not any(isinstance(i, Loop) for i in straight)
    assert sum(isinstance(i, Deal) for i in straight) == 3


def test_loops_with_barriers_or_none_of_it_stay() -> None:
    for program in (looped((Barrier(),)), kernels.tiled_matmul(4, 2), kernels.matmul(3, 4, 5)):
        assert rotated(program.body) == list(program.body)


def test_the_result_stays() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((32, 128), (128, 32)))
    out = np.zeros((32, 32), np.float16)
    interpret(product(), [out.reshape(-1), a.reshape(-1), b.reshape(-1)])
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
