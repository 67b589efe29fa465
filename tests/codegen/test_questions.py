"""What back ends ask of a kernel before they render it."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish.codegen.questions import waiting_roots
from planish.llir.program import Compute, Program
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
    assert waiting_roots(program) == (roots if waits else frozenset())
