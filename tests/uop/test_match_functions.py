"""The match functions of all rules are in a file that Python compiles once: `pytest --update-golden` writes it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import planish
from planish.uop.matcher import rule
from planish.uop.node import Table
from planish.uop.pattern import anything
from tests.conftest import Golden

PACKAGE = Path(planish.__file__).parent
FIRST_KERNELS = """
import builtins, numpy as np, planish as pn
compiled, real = [], compile
def counting(source, name, *more, **named):
    compiled.extend([source] if name == "<rule>" else [])
    return real(source, name, *more, **named)
builtins.compile = counting
x = pn.ones((64, 64))
np.asarray(pn.jit(lambda x: pn.nn.softmax(pn.tanh(x @ x)))(x))
print(len(compiled))
"""


def output_of(*command: str) -> str:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout


def test_they_are_those_of_the_rules(golden: Golden) -> None:
    written = output_of(str(PACKAGE.parent / "tools" / "match_functions.py"))
    Golden(golden.update, root=PACKAGE / "uop").check("match_functions.py", written)


def test_the_first_kernels_of_a_process_compile_none() -> None:
    assert output_of("-c", FIRST_KERNELS).split() == ["0"]


def test_other_rules_are_compiled() -> None:
    x, y = anything("x"), anything("y")
    made = rule(x * (y * (x * (y * x))), lambda x, y: x, says="x * y * x * y * x -> x")
    with Table() as t:
        i, j = t.variable("i", 0, 7), t.variable("j", 0, 7)
        assert made.apply(i * (j * (i * (j * i)))) is i
        assert made.apply(i * (j * (i * (i * i)))) is None
