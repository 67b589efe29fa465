"""What back ends ask of a kernel before they render it."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish.codegen.questions import Kinds, maybe_empty, waiting_roots
from planish.llir.program import Compute, Load, Program, Store
from planish.uop.ops import Ops


def program_of(value: str) -> Program:
    """The one kernel of a function of rows."""
    x = pn.asarray(np.ones((64, 256), np.float32))

    def function(x: pn.Tensor) -> pn.Tensor:
        e = pn.exp(x - pn.max(x, axis=1, keepdims=True))
        share = e / pn.sum(e, axis=1, keepdims=True)
        busy = pn.exp(pn.sqrt(share)) if value == "busy" else pn.sqrt(share)
        return pn.sqrt(x) if value == "alone" else busy

    with pn.settings(target="x86-64-v4"):
        (kernel,) = pn.jit(function).lower(x).compile().kernels
    return kernel.program


@pytest.mark.parametrize(
    ("value", "waits"), [("alone", True), ("behind exponentials", True), ("busy", False)]
)
def test_a_root_waits_where_its_own_loop_has_little_else_to_do(value: str, waits: bool) -> None:
    """What other loops of the kernel do is no help while the unit is busy."""
    program = program_of(value)
    roots = {
        i.result
        for i in program.body
        if isinstance(i, Compute) and i.op is Ops.SQRT and i.result.dtype.lanes > 1
    }
    assert roots
    assert waiting_roots(program, Kinds(program.body)) == (roots if waits else frozenset())


def turned(*shape: int) -> tuple[Program, str]:
    """The kernel that turns an array's axes around, and its LLVM IR."""
    x = pn.asarray(np.ones(shape, np.float32))
    with pn.settings(target="x86-64-v4"):
        lowered = pn.jit(lambda x: pn.permute_dims(x, (2, 1, 0)) + 1).lower(x)
        (kernel,) = lowered.compile().kernels
        return kernel.program, lowered.as_text("llvm")


def test_an_access_of_which_every_lane_may_be_off_is_sent_to_where_there_is_memory() -> None:
    """Rows and columns of a square beyond both ends: a processor takes hundreds of cycles for an access of a page that is not there."""
    program, text = turned(20, 70, 50)
    empty = {
        i.address
        for i in program.body
        if isinstance(i, Load | Store) and i.gate is not None and i.gate in maybe_empty(Kinds(program.body))
    }
    assert len(empty) > 10
    sent = [
        line.split(" = ")[0].strip()
        for line in text.splitlines()
        if "= select i1" in line and "ptr %" in line
    ]
    assert len(sent) >= len(empty)
    masked = [line for line in text.splitlines() if "call" in line and "@llvm.masked" in line]
    assert sum(any(f"ptr {place}," in line for place in sent) for line in masked) >= len(empty)


def test_masks_with_a_lane_that_is_always_on_are_left_alone() -> None:
    program, text = turned(32, 7, 50)
    assert not maybe_empty(Kinds(program.body))
    assert ", ptr %" not in "".join(line for line in text.splitlines() if "= select i1" in line)
