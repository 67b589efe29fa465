"""One word per idea: no two classes have the same name, and no name is a word that says nothing."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "planish"
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")

SHARED = {
    "Device": "public in `distributed`, what a rank computes with; the glossary's in `frontend`, where an expression runs",
    "Join": "public in `optim`, schedules of rates in a row; an action is called as its word in the text of schedules is",
    "Program": "the whole of a thing in either IR, public in both: `ptir.Program` has functions, `llir.Program` is a kernel",
}
"""Names that two classes may have, and why."""


SAYING_NOTHING = frozenset({"choices", "demands", "found", "hands", "inside", "leftovers", "made", "records"})
"""Words that are no names of modules, classes, functions and fields: what was found, inside of what? (Locals stand beside their answer.)"""

EXCUSED = {
    "compiler/__init__.py: Lowered.choices": "schedules, by kernel; kept in the compilation cache under this name",
    "compiler/compilation_cache.py: inside": "inside of what defines it",
    "compiler/loops.py: Rolling.made": "the kernels of loops that have become kernels",
    "compiler/lowering.py: CodeMaker.hands": "threads that make machine code",
    "compiler/profile.py: Profile.records": "public: one for each launch",
    "distributed/network.py: Network.inside": "public: the link within a node",
    "distributed/network.py: Transfer.inside": "what goes over that link",
    "distributed/simulate.py: Prediction.inside": "public: the same of a step",
    "records.py": "records as a dataclass makes them: the word of the field",
    "runtime/cuda/build.py: BuildCounts.found": "code that was kept from an earlier process",
    "runtime/cuda/trace.py: Exchanged.made": "where an exchange between ranks writes",
    "runtime/memory.py: PoolStatistics.made": "public: arrays that were allocated",
    "viz/schema.py: SingleStep.made": "the page's word: a document is written as its fields are called",
}
"""Where such a word stands all the same, and for what."""


@cache
def definitions(path: Path) -> list[tuple[ast.stmt, str]]:
    """The statements of a file, each with the class that its names belong to (statements are enough: expressions name nothing)."""
    found: list[tuple[ast.stmt, str]] = []
    stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text(encoding="utf-8")), "")]
    while stack:
        node, owner = stack.pop()
        if isinstance(node, ast.stmt):
            found.append((node, owner))
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else owner
        parts = [part for name in _BLOCKS for part in getattr(node, name, ())]
        stack += [(part, owner) for part in reversed(parts)]
    return found


def homes(package: Path) -> dict[str, list[str]]:
    """For each name of a class, where one is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node, _ in definitions(path):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(package).as_posix()}:{node.lineno}")
    return found


def test_every_class_has_a_name_of_its_own():
    twice = {name: places for name, places in homes(PACKAGE).items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in SHARED} == {}
    assert all(len(twice.get(name, ())) == 2 for name in SHARED), "what is excused has to be there"


def test_a_name_that_is_given_twice_is_seen(tmp_path: Path):
    (tmp_path / "a.py").write_text("class Step: ...\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("def f():\n    class Step: ...\n", encoding="utf-8")
    assert homes(tmp_path) == {"Step": ["a.py:1", "b.py:2"]}


def names(package: Path) -> set[str]:
    """Modules, classes, functions, and fields of classes (declared, or given to `self`), as `file: Class.name`."""
    found: set[str] = set()
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        found.add(file)
        for node, owner in definitions(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(f"{file}: {owner}{node.name}")
            if isinstance(node, ast.ClassDef):
                fields = [
                    target.id for n in node.body for target in targets(n) if isinstance(target, ast.Name)
                ]
                found.update(f"{file}: {node.name}.{name}" for name in fields)
            given = [target.attr for target in targets(node) if isinstance(target, ast.Attribute)]
            found.update(f"{file}: {owner}{name}" for name in given)
    return found


def targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement gives values to, or declares."""
    each = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [part for one in each for part in (one.elts if isinstance(one, ast.Tuple) else [one])]


def saying_nothing(package: Path) -> set[str]:
    """Names that are such a word, whichever way it is written."""
    return {
        name
        for name in names(package)
        if name.removesuffix(".py").replace(": ", "/").replace(".", "/").split("/")[-1].strip("_").lower()
        in SAYING_NOTHING
    }


def test_names_say_what_they_are_of():
    assert saying_nothing(PACKAGE) == EXCUSED.keys()


def test_a_name_that_says_nothing_is_seen(tmp_path: Path):
    (tmp_path / "leftovers.py").write_text("def take(found): made = found\n", encoding="utf-8")
    (tmp_path / "a.py").write_text(
        "class Found: ...\n"
        "class Step(NamedTuple):\n    made: int\n    inside = 1\n"
        "class Walk:\n    def __init__(self):\n        self.n, self._hands = 1, 2\n"
        "def f():\n    def records(): ...\n",
        encoding="utf-8",
    )
    assert saying_nothing(tmp_path) == {
        "leftovers.py", "a.py: Found", "a.py: Step.made", "a.py: Step.inside", "a.py: Walk._hands", "a.py: records"
    }  # fmt: skip
