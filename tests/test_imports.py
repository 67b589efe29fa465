"""The import rule: a phase imports the IRs it reads and writes and the common modules, and no other phase.

Every module under planish/ is parsed, never imported, so imports inside functions and under TYPE_CHECKING
count as well. A top-level module or package that the table does not name fails the test: its place in the
journey has to be decided first.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "planish"

# What everybody may lean on. `target` is one of the common modules, but the IRs are meant to be independent
# of any machine, and a target's matchers are written in uop, so it stands one step higher.
BASE = frozenset(
    {
        "collector",
        "config",
        "cursor",
        "dlpack",
        "dtypes",
        "elsewhere",
        "errors",
        "filenames",
        "forking",
        "records",
        "scalars",
        "tracebacks",
    }
)
PHASE = BASE | {"target"}
IRS = frozenset({"ptir", "uop", "llir"})
PHASES = frozenset({"schedule", "actions", "stages", "optimize", "codegen", "runtime"})
# Written in terms of the Tensor API alone.
TENSOR_LIBRARIES = frozenset(
    {"nn", "optim", "random", "linalg", "fft", "io", "numpy_names", "tree", "data", "debug"}
)

ALLOWED: dict[str, frozenset[str]] = {
    # The common modules, bottom up.
    "_version": frozenset(),
    "errors": frozenset(),
    "dtypes": frozenset({"errors", "records"}),
    "cursor": frozenset({"errors", "dtypes"}),
    "config": frozenset({"errors", "records"}),
    "collector": frozenset(),
    "filenames": frozenset(),
    "tracebacks": frozenset({"config", "errors"}),
    "elsewhere": frozenset({"errors"}),  # what to write for names that people bring along
    "records": frozenset(),
    "dlpack": frozenset({"dtypes", "errors", "records"}),  # capsules, whichever memory they are about
    "forking": frozenset(),
    "target": BASE | {"uop"},  # a machine as data, with its matchers for stages 17 and 19
    "algebra": BASE,  # scalar laws, which two IRs share
    "scalars": frozenset({"dtypes"}),  # scalar functions as records: what they are, whoever computes them
    # The three IRs. LLIR is lowered from UOp by llir/lower.py; the other two know nobody.
    "ptir": BASE | {"algebra"},
    "uop": BASE | {"algebra"},
    "llir": PHASE | {"uop"},
    # The phases, each with the IRs it reads and writes.
    "schedule": PHASE | {"ptir", "uop"},
    "actions": PHASE | {"uop"},  # the steps of schedules: stage 7 applies them, `optimize` chooses them
    "stages": PHASE | {"uop", "actions"},
    "optimize": PHASE | {"uop", "actions"},  # is handed `compile` and `measure` as callables
    "codegen": PHASE | {"llir"},
    "runtime": PHASE | {"llir"},  # runs what the compiler hands it, whoever rendered it
    # The table of contents: alone knows all phases.
    "compiler": PHASE | IRS | PHASES,
    # Front ends call the compiler, never the other way round.
    "frontend": PHASE | {"ptir", "compiler"},
    "memory": BASE | {"runtime", "compiler"},  # what compiled functions keep, for their users
    "random": BASE | {"frontend", "linalg"},
    "linalg": BASE | {"frontend"},
    "fft": BASE | {"frontend"},
    "data": BASE | {"frontend"},
    "io": BASE | {"frontend"},
    "tree": BASE | {"frontend"},
    "debug": BASE | {"frontend"},
    "numpy_names": BASE | {"frontend", "linalg"},
    "nn": BASE | {"frontend", "random", "linalg"},
    "optim": BASE | {"frontend", "nn"},
    "onnx": PHASE | {"ptir", "compiler", "frontend"},
    "torch": PHASE | {"ptir", "compiler", "frontend"},
    "stablehlo": PHASE | {"ptir", "compiler", "frontend"},
    "jax": PHASE | {"frontend", "stablehlo"},
    "distributed": PHASE | {"ptir", "runtime", "compiler", "frontend", "io"},
    "ray": PHASE | {"runtime", "compiler", "onnx"},
    # Tools on top.
    "viz": PHASE | IRS | PHASES | {"_version", "compiler"},  # shows what every phase did
    "cli": PHASE
    | IRS
    | TENSOR_LIBRARIES
    | {"_version", "runtime", "compiler", "frontend", "onnx", "torch", "viz", "distributed"},
    # The public face gathers names from everywhere but the command line.
    "__init__": PHASE
    | IRS
    | TENSOR_LIBRARIES
    | {"_version", "runtime", "compiler", "memory", "frontend", "onnx", "torch", "distributed"},
    "__main__": frozenset({"_version", "cli"}),
}

# The only imports that go up: what a package offers to its users needs what stands above it. Looked up when it is called.
FACES = {
    ("llir/front.py", "planish.compiler.layouts.lower"),
    ("llir/front.py", "planish.ptir.Function"),
    ("compiler/observer.py", "planish.viz.process.record_process"),  # the setting `viz`
    *(
        ("frontend/tensor/face.py", f"planish{room}") for room in ("", ".fft", ".linalg", ".nn")
    ),  # NumPy's protocols, hints
}

# Imports of modules whose names are computed: the file, and the name as it is written there. Each is one of the user's or a peer's,
# or of a table that stands in the same part of the package.
COMPUTED = {
    ("__init__.py", "name"): "the face: modules and names of its own tables, `f'planish.{name}'`",
    ("actions/text.py", "f'{planish.actions.__name__}.{each.name}'"): "the files of this folder",
    ("cli/__init__.py", "f'planish.cli.{_MODULES.get(name, name)}'"): "the module of a command",
    ("cli/bench_subjects.py", "name"): "a peer, if it is installed",
    ("cli/sources.py", "name"): "the user's MODULE:FUNCTION",
    ("compiler/device_kinds.py", "KINDS[name].module"): "the module of a kind of device, all under compiler",
    ("onnx/drop_in.py", "full"): "parts of planish.onnx, for who asks for parts of onnxruntime",
    ("onnx/ops/__init__.py", "f'{__name__}.{_family}'"): "the files of this folder",
    ("ptir/__init__.py", "_HOME[name]"): "modules of ptir",
    ("runtime/routines/__init__.py", "f'{__name__}.{known.file}'"): "the files of this folder",
    ("stablehlo/ops/__init__.py", "f'{__name__}.{_family}'"): "the files of this folder",
    ("torch/ops/__init__.py", "f'{__name__}.{_family}'"): "the files of this folder",
}


def unit_of(path: Path, package: Path) -> str:
    """The top-level module or package a file belongs to."""
    first = path.relative_to(package).parts[0]
    return first.removesuffix(".py")


def imported_names(tree: ast.AST, module: tuple[str, ...]) -> list[tuple[int, str]]:
    """Line and absolute dotted name of everything imported; `module` is the importing package's path."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = module[: len(module) - node.level + 1] if node.level else ()
            prefix = ".".join([*start, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{prefix}.{alias.name}") for alias in node.names]
        elif (named := named_module(node)) is not None and isinstance(named, ast.Constant):
            found.append((named.lineno, str(named.value)))
    return found


def named_module(node: ast.AST) -> ast.expr | None:
    """What `importlib.import_module(x)`, an import in disguise, is given."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in {"import_module", "__import__"}:
        return None
    return next(iter((*node.args, *(keyword.value for keyword in node.keywords))), None)


def computed_imports(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and source of every name of a module that is not written out."""
    names = filter(None, map(named_module, ast.walk(tree)))
    return [(name.lineno, ast.unparse(name)) for name in names if not isinstance(name, ast.Constant)]


def violations(path: Path, package: Path) -> list[str]:
    """The imports in one file that go where the table does not let them."""
    unit = unit_of(path, package)
    if unit not in ALLOWED:
        return [f"{path.relative_to(package.parent)}: {unit} has no place in the table of layers"]
    module = ("planish", *path.relative_to(package).parts[:-1])
    bad: list[str] = []
    tree, here = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(package).as_posix()
    for line, name in computed_imports(tree):
        if (here, name) not in COMPUTED:
            bad.append(
                f"{path.relative_to(package.parent)}:{line}: {unit} must write out what it imports, not {name}"
            )
    for line, name in imported_names(tree, module):
        parts = name.split(".")
        if parts[0] != "planish":
            continue
        # A name that is no module comes from planish/__init__.py, which lies above everything.
        target = parts[1] if len(parts) > 1 and parts[1] in ALLOWED else "__init__"
        if target != unit and target not in ALLOWED[unit] and (here, name) not in FACES:
            bad.append(f"{path.relative_to(package.parent)}:{line}: {unit} must not import {name}")
    return bad


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_import_goes_the_way_of_the_journey():
    assert [problem for path in MODULES for problem in violations(path, PACKAGE)] == []


def test_what_is_excused_is_there():
    seen = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in MODULES
        for _, name in computed_imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert seen == COMPUTED.keys()


def test_the_walk_saw_the_package():
    assert {"errors", "dtypes", "config", "__init__"} <= {unit_of(path, PACKAGE) for path in MODULES}


def test_the_table_itself_has_no_cycles_and_no_strangers():
    for unit, allowed in ALLOWED.items():
        assert allowed <= ALLOWED.keys(), unit
    order = list(TopologicalSorter(ALLOWED).static_order())  # raises CycleError on a cycle
    assert order.index("ptir") < order.index("schedule") < order.index("compiler") < order.index("frontend")


def plant(tmp_path: Path, file: str, source: str) -> list[str]:
    package = tmp_path / "planish"
    path = package / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return violations(path, package)


@pytest.mark.parametrize(
    ("file", "source", "blamed"),
    [
        ("uop/node.py", "import planish.ptir.types", "planish.ptir.types"),
        ("uop/node.py", "from planish import ptir", "planish.ptir"),
        ("uop/node.py", "from planish.ptir import types", "planish.ptir.types"),
        ("uop/node.py", "from .. import ptir", "planish.ptir"),
        ("uop/symbolic/rules.py", "from ...ptir.types import Tensor", "planish.ptir.types.Tensor"),
        ("uop/node.py", "def f():\n    import planish.stages", "planish.stages"),
        ("uop/node.py", "if TYPE_CHECKING:\n    from planish.schedule import x", "planish.schedule.x"),
        ("uop/node.py", "import importlib\nimportlib.import_module('planish.compiler')", "planish.compiler"),
        ("uop/node.py", "import planish", "planish"),
        ("uop/node.py", "from planish import float32", "planish.float32"),
        ("errors.py", "from planish.dtypes import DType", "planish.dtypes.DType"),
        ("compiler.py", "from planish.frontend import jit", "planish.frontend.jit"),
        ("stages/pipeline.py", "from planish.optimize import beam", "planish.optimize.beam"),
        ("runtime/plan.py", "from planish.codegen import llvm", "planish.codegen.llvm"),
    ],
)
def test_planted_bad_imports_are_caught(tmp_path: Path, file: str, source: str, blamed: str):
    (problem,) = plant(tmp_path, file, source)
    assert problem.endswith(f"must not import {blamed}")
    assert problem.startswith(f"planish/{file}:{source.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("uop/node.py", "from planish.dtypes import DType\nfrom planish import errors\nimport numpy.linalg"),
        (
            "uop/symbolic/rules.py",
            "from ..node import UOp\nfrom . import tables\nfrom planish.uop import ops",
        ),
        ("uop/__init__.py", "from .node import UOp\nfrom . import ops"),
        ("schedule/fusion.py", "from planish import ptir, uop, target"),
        ("compiler.py", "from planish import ptir, schedule, stages, optimize, llir, codegen, runtime"),
    ],
)
def test_good_imports_pass(tmp_path: Path, file: str, source: str):
    assert plant(tmp_path, file, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import_module(__name__.split('.')[0])",
        "importlib.import_module(name=f'planish.{x}')",
        "__import__(x)",
    ],
)
def test_imports_of_computed_names_are_caught(tmp_path: Path, source: str):
    (problem,) = plant(tmp_path, "uop/node.py", source)
    assert problem.startswith("planish/uop/node.py:1: uop must write out what it imports, not ")


def test_an_unknown_package_is_caught(tmp_path: Path):
    (problem,) = plant(tmp_path, "helpers/misc.py", "x = 1")
    assert problem == "planish/helpers/misc.py: helpers has no place in the table of layers"


def test_every_name_that_is_found_late_may_be_the_first_one():
    """A fork per module: one that needs another of a circle first would fail only in programs that begin with it."""
    script = """
import os, sys, numpy, planish, planish.ptir, planish.compiler
assert not [name for name in sys.modules if name.startswith("planish.frontend")]
failed = []
for module in sorted(set(planish._HOME.values())):
    name = next(name for name, home in planish._HOME.items() if home == module)
    child = os.fork()
    if not child:
        try:
            getattr(planish, name)
        except BaseException as error:
            print(name, error)
            os._exit(1)
        os._exit(0)
    failed += [name] * (os.waitpid(child, 0)[1] != 0)
sys.exit(bool(failed))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
