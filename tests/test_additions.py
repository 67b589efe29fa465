"""Adding to planish is short: a function, an op, an action, an instruction and a machine, each written into a copy of the package.

What is added is data: files of the package, and what is inserted behind which line. The number of files is the promise; that
the addition works, from the public face down to machine code, is what makes it one. The program runs in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "planish"


class Insertion(NamedTuple):
    """Text that goes into a file of the package, behind its first occurrence of a line (or of what ends one); behind nothing: a new file."""

    file: str
    behind: str
    text: str


class Addition(NamedTuple):
    """What is added, in how many files at most, and a program that uses it."""

    most_files: int
    insertions: tuple[Insertion, ...]
    program: str


SMOOTH_PROGRAM = """
import numpy as np
import planish as pn
from planish import ptir

x = np.linspace(0.1, 4.0, 37, dtype=np.float32)
f = getattr(pn, NAME)
np.testing.assert_allclose(pn.jit(lambda v: f(v) * 2.0)(x).numpy(), 2 * REFERENCE(x), rtol=3e-7)
np.testing.assert_allclose(f(pn.asarray(x)).numpy(), REFERENCE(x), rtol=3e-7)
np.testing.assert_allclose(pn.vmap(pn.grad(f))(pn.asarray(x)).numpy(), SLOPE(x), rtol=2e-6)
tangent = pn.jvp(f, (pn.asarray(x),), (pn.asarray(np.ones_like(x)),))[1]
np.testing.assert_allclose(tangent.numpy(), SLOPE(x), rtol=2e-6)
half = f(pn.asarray(x.astype(np.float16)))
np.testing.assert_allclose(half.numpy(), REFERENCE(x), rtol=2e-3)
assert f(pn.asarray([4])).dtype == pn.float32, "integers become floats"
assert f(pn.asarray([True])).dtype == pn.float32, "bools too"
try:
    f("1")
except (pn.PlanishError, TypeError) as error:
    assert NAME in str(error)
else:
    raise AssertionError("text is no number")
graph = ptir.Graph("g")
value = graph.input("x", ptir.tensor("f64", (3,)))
built = graph.build(getattr(value, NAME)())
assert NAME in ptir.print(built) and ptir.print(ptir.parse(ptir.print(built))) == ptir.print(built)
assert NAME in dir(pn)
"""

ROOT = Addition(
    3,
    (
        Insertion(
            "scalars/functions.py",
            "# --- rounding ---------------------------------------------------------------------------------------------\n",
            """root4: Final = Scalar(
    "root4", FLOATS, lambda x: np.sqrt(np.sqrt(x)), "Fourth root.", (lambda t, x, y: t * 0.25 * y / x,), weight=22.0
)
""",
        ),
        Insertion("scalars/functions.py", "\n__all__ = [\n", '    "root4",\n'),
        Insertion(
            "uop/ops.py",
            """    CBRT          = "x",              DTypeLaw.FLOAT,    "cube root"\n""",
            """    ROOT4         = "x",              DTypeLaw.FLOAT,    "fourth root"\n""",
        ),
        Insertion(
            "stages/linearizer/decompositions/roots.py",
            "    return m.const(1.0) / x.alu(Ops.SQRT)\n",
            '''

@decomposes(Ops.ROOT4, "root4(x) -> sqrt(sqrt(x))")
def root4(m: Reals, x: UOp) -> UOp:
    """Of a root: two roundings."""
    return x.alu(Ops.SQRT).alu(Ops.SQRT)
''',
        ),
    ),
    "NAME, REFERENCE, SLOPE = 'root4', lambda x: x ** 0.25, lambda x: 0.25 * x ** -0.75\n" + SMOOTH_PROGRAM,
)
"""A function with an op of the kernel IR, for targets that have it or not."""

FORMULA = Addition(
    1,
    (
        Insertion(
            "scalars/functions.py",
            "# --- rounding ---------------------------------------------------------------------------------------------\n",
            """softclip: Final = Scalar(
    "softclip", FLOATS, lambda x: x / np.sqrt(x * x + 1.0), "x over its distance from i.",
    (lambda t, x, y: t * rsqrt(x * x + 1.0) / (x * x + 1.0),), parity="odd", formula=lambda x: x * rsqrt(x * x + 1.0),
)
""",
        ),
        Insertion("scalars/functions.py", "\n__all__ = [\n", '    "softclip",\n'),
    ),
    "NAME, REFERENCE, SLOPE = 'softclip', lambda x: x / (x * x + 1) ** 0.5, lambda x: (x * x + 1) ** -1.5\n"
    + SMOOTH_PROGRAM,
)
"""A function in terms of others."""

OP = Addition(
    4,
    (
        Insertion(
            "ptir/ops/movement.py",
            '    return (checking.keep_quant("reverse", operand, operand.dims, kept),)\n',
            '''

@dataclass(frozen=True, slots=True)
class CycleAttrs(d.Attrs):
    """The attributes of `cycle`."""

    axis: int
    by: int


@d.op(
    d.OpKey.OTHER,
    evaluate=lambda arrays, attrs, types: (np.roll(arrays[0], attrs.by, attrs.axis),),
    way=d.Way.COMPOSITE,
)
def cycle(types: d.Types, attrs: CycleAttrs, regions: d.Regions) -> d.ResultTypes:
    """Elements moved along an axis; what leaves at the end returns at the start."""
    checking.need_axis("cycle", attrs.axis, types[0].rank)
    return (types[0],)
''',
        ),
        Insertion(
            "ptir/library/expansions.py",
            "EXPANSIONS: Final[dict[str, Expansion]] = {\n",
            '    "cycle": lambda x, of: (_cycle(x[0], of.by, of.axis),),\n',
        ),
        Insertion(
            "ptir/library/expansions.py",
            "Expansion: TypeAlias = Callable[[Sequence[GraphValue], Any], tuple[GraphValue, ...]]\n",
            """

def _cycle(x: GraphValue, by: int, axis: int) -> GraphValue:
    keep = (slice(None),) * axis
    at = x.dims[axis] - by % x.dims[axis]
    return x[(*keep, slice(at, None))].concat([x[(*keep, slice(None, at))]], axis)
""",
        ),
        Insertion(
            "ptir/graph_value.py",
            "        return self._emit(ops.reverse, attrs=ops.ReverseAttrs(tuple(sorted(self._axes(ops.reverse, axes)))))\n",
            """
    def cycle(self, by: int, axis: int = 0) -> GraphValue:
        return self._emit(ops.cycle, attrs=ops.CycleAttrs(self._axis(ops.cycle, axis), by))
""",
        ),
        Insertion("frontend/tensor/manipulation.py", "\n__all__ = [\n", '    "cycle",\n'),
        Insertion(
            "frontend/tensor/manipulation.py",
            "\n    return x.snapshot() if x is given else x\n",
            '''

def cycle(x: Tensor, by: int, axis: int = 0) -> Tensor:
    """Elements moved along an axis, round and round."""
    return Tensor.apply(ops.cycle, tensor("cycle", x), attrs=ops.CycleAttrs(axis, by))


''',
        ),
    ),
    """
import numpy as np
import planish as pn
from planish import ptir

x = np.arange(15.0, dtype=np.float32).reshape(3, 5)
np.testing.assert_array_equal(pn.cycle(pn.asarray(x), 2, 1).numpy(), np.roll(x, 2, 1))
np.testing.assert_array_equal(pn.jit(lambda v: pn.cycle(v * 2, 1))(x).numpy(), np.roll(x * 2, 1, 0))
weight = pn.asarray(x[::-1].copy())
slope = pn.grad(lambda v: pn.sum(pn.cycle(v, 1, 1) * weight))(pn.asarray(x))
np.testing.assert_array_equal(slope.numpy(), np.roll(x[::-1], -1, 1))
tangent = pn.jvp(lambda v: pn.cycle(v, 1, 1), (pn.asarray(x),), (weight,))[1]
np.testing.assert_array_equal(tangent.numpy(), np.roll(x[::-1], 1, 1))
each = pn.vmap(lambda row: pn.cycle(row, 2))(pn.asarray(x))
np.testing.assert_array_equal(each.numpy(), np.roll(x, 2, 1))
graph = ptir.Graph("g")
built = graph.build(graph.input("x", ptir.tensor("f32", (3, 5))).cycle(2, -1))
text = ptir.print(built)
assert "cycle" in text and ptir.print(ptir.parse(text)) == text
np.testing.assert_array_equal(ptir.interpret(ptir.parse(text), [x])[0], np.roll(x, 2, 1))
""",
)
"""An op of the graph IR, for the Tensor API and the DSL."""

INSTRUCTION = Addition(
    4,
    (
        Insertion(
            "llir/value_forms.py",
            "        return np.asarray(np.any(operands[0]))\n",
            '''

@form
class Swap(Instruction):
    """result = the lanes of the operand, the last one first."""

    mnemonic, reads, writes, syntax = "swap", ("operand",), "result", "operand:result : result"
    result: Register
    operand: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.operand.dtype is not self.result.dtype:
            yield "types", f"a swap keeps the dtype: {self.operand.dtype} to {self.result.dtype}"

    def evaluate(self, *operands: Array) -> Array:
        return operands[0][::-1]
''',
        ),
        Insertion("llir/value_forms.py", "\n__all__ = [\n", '    "Swap",\n'),
        Insertion(
            "codegen/llvm_lanes.py",
            "        self.select(self.value(i.operand), i.operand.dtype, i.lanes, self.value(i.result))\n",
            """
    def swap(self, i: ir.Swap) -> None:
        order = range(i.result.dtype.lanes - 1, -1, -1)
        self.select(self.value(i.operand), i.operand.dtype, order, self.value(i.result))
""",
        ),
        Insertion(
            "codegen/c.py",
            "class _CWriter(OneThread, CValues):\n",
            '''    def swap(self, i: ir.Swap) -> None:
        """The lanes, the last one first."""
        self.each_lane(i.result, self.lane(i.operand, f"{i.result.dtype.lanes - 1} - l"))

''',
        ),
        Insertion(
            "codegen/cuda_values.py",
            "        self.same(i.result, [text for x in i.inputs for text in self.lanes_of(x)])\n",
            """
    def swap(self, i: ir.Swap) -> None:
        self.same(i.result, self.lanes_of(i.operand)[::-1])
""",
        ),
    ),
    '''
import ctypes
import numpy as np
from planish import llir
from planish.codegen import c, cuda, llvm, symbols
from planish.errors import VerifyError
from planish.runtime.cpu import CompiledModule

TEXT = """llir 1
kernel k
  @x: global f32[8] bytes=32 align=4
  @y: global f32[8] bytes=32 align=4
  loop %0 < 2 : i32
    %1 = mul %0, 4 : i32
    %2 = address @x[%1] : *f32[8]
    %3 = load %2 : f32x4
    %4 = swap %3 : f32x4
    %5 = address @y[%1] : *f32[8]
    store %5, %4 : f32x4
  end
"""
program = llir.parse(TEXT)
assert llir.print(program) == TEXT
llir.verify(program)
x = np.arange(8, dtype=np.float32)
expected = x.reshape(2, 4)[:, ::-1].ravel()
for run in ("interpreter", "machine code"):
    y = np.zeros_like(x)
    if run == "interpreter":
        llir.interpret(program, [x, y])
    else:
        module = CompiledModule(llvm.render(program))
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(module.address(symbols.kernel("k")))
        kernel(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, expected, run)
assert "3 - l" in c.render(program) and "k" in cuda.render(program)
try:
    llir.verify(llir.parse(TEXT.replace("%4 = swap %3 : f32x4", "%4 = swap %3 : f32x2")))
except VerifyError as error:
    assert "a swap keeps the dtype" in str(error)
else:
    raise AssertionError("not verified")
''',
)
"""An instruction of LLIR, in every renderer."""

MACHINE = Addition(
    1,
    (
        Insertion(
            "target/__init__.py",
            "        _X86_VNNI,\n",
            '        Target("tiny", 8, 8, (2,), parallel=Parallel.NONE, cores=1),\n',
        ),
    ),
    """
import numpy as np
from planish import llir, ptir, target

machine = target.find("tiny")
graph = ptir.Graph("g")
x = graph.input("x", ptir.tensor("f32", (6, 4)))
function = graph.build(x.mul(x).reduce_sum([1]).exp())
lowered = llir.lower(function, target="tiny")
data = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
np.testing.assert_allclose(lowered.interpret(data)[0], np.exp((data * data).sum(1)), rtol=1e-6)
lanes = max(i.target.dtype.lanes for p in lowered.programs for i in p.body if i.target is not None)
assert 1 <= lanes <= 4, lanes
""",
)
"""A machine, by name."""

ACTION = Addition(
    2,
    (
        Insertion(
            "actions/cut.py",
            "",
            '''"""`cut(i, 4)`: two loops instead of one, the outer of which has so many values."""

from __future__ import annotations

from planish.actions.splitting import Splitting
from planish.uop.nest import OUTPUT


class Cut(Splitting):
    """An axis in pieces."""

    word = "cut"
    does = "make so many pieces of an axis, one after the other"
    takes = OUTPUT
    sized = "pieces"
    pieces: int

    @property
    def takes_outer(self) -> bool:
        return True
''',
        ),
        Insertion(
            "optimize/space.py",
            "from planish.actions.claim import Claim\n",
            "from planish.actions.cut import Cut\n",
        ),
        Insertion(
            "optimize/space.py",
            "        SpaceRow(Block, _BLOCKS),\n",
            "        SpaceRow(Cut, _PIECES, 4),\n",
        ),
    ),
    """
import numpy as np
import planish as pn
from planish import dtypes
from planish.actions.base import Refusal, apply_action
from planish.actions.text import kinds, parse_schedule, print_schedule
from planish.optimize.moves import other_amounts
from planish.optimize.space import actions
from planish.target import TARGETS
from planish.uop.nest import axes_of, name_of, size_of
from planish.uop.node import Table

machine = TARGETS["x86-64-v4"]
(step,) = parse_schedule("cut(i, 4)")
assert type(step) is kinds()["cut"] and print_schedule([step]) == "cut(i, 4)"
assert step in set(actions(machine, ["i", "j"])) and 8 in other_amounts(machine, step, 24)
with Table() as table:
    i, j = table.range(24, 0), table.range(16, 1)
    memory, read = (table.param(slot, dtypes.float32, 24 * 16) for slot in (0, 1))
    kernel = table.sink(memory.index(i * 16 + j).store(read.index(j * 24 + i)).end(i, j))
    after = apply_action(kernel, step, machine)
    assert [(name_of(r), size_of(r)) for r in axes_of(after)] == [("i.outer", 4), ("i.inner", 6), ("j", 16)]
    try:
        apply_action(kernel, step.resized(5), machine)
    except Refusal as refusal:
        assert "cut: 5 does not divide the 24 of axis i" in str(refusal)
    else:
        raise AssertionError("not refused")

x, y = np.arange(48 * 32, dtype=np.float32).reshape(2, 24, 32) % 7
product = pn.jit(lambda x, y: x @ y.T, schedule="cut(i, 4); upcast(j, 8)")
np.testing.assert_array_equal(product(x, y).numpy(), x @ y.T)
why = product.lower(x, y).compile().why()
assert "cut(i, 4): as given" in why, why
""",
)
"""A kind of action: its file, which is all that schedules need, and a row for searches."""

ADDITIONS = {
    "scalar function": ROOT,
    "formula": FORMULA,
    "graph op": OP,
    "action": ACTION,
    "instruction": INSTRUCTION,
    "target": MACHINE,
}


def insert(package: Path, insertion: Insertion) -> None:
    path = package / insertion.file
    assert path.exists() is bool(insertion.behind), f"{insertion.file} is there, or is not: say what is new"
    if not insertion.behind:
        path.write_text(insertion.text, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    before, found, after = text.partition(insertion.behind)
    assert found, f"{insertion.file} has no {insertion.behind!r}: say where the addition goes now"
    path.write_text(before + found + insertion.text + after, encoding="utf-8")


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_are_short_and_work(name: str, tmp_path: Path) -> None:
    addition = ADDITIONS[name]
    assert len({insertion.file for insertion in addition.insertions}) <= addition.most_files
    # with what Python has compiled of it, which stays good for every file that is not touched
    package = Path(shutil.copytree(PACKAGE, tmp_path / "planish"))
    for insertion in addition.insertions:
        insert(package, insertion)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    check = "import planish, pathlib\nassert pathlib.Path(planish.__file__).parent == pathlib.Path.cwd() / 'planish'\n"
    ran = subprocess.run(
        [sys.executable, "-c", check + addition.program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
