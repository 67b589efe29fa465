"""`--load FILE.py`: passes, patterns and cost models of the user's own, by running the Python file that registers them.

from planish import ptir

@ptir.register_pattern
class CancelTransposes(ptir.OpRewritePattern[...]): ...      every `canonicalize` of the pipeline uses it

@ptir.register_pass
@dataclass(frozen=True)
class MyPass: ...                                            -p "my-pass,canonicalize" runs it
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from planish.cli.console import CommandError, CommandParser
from planish.ptir.passes import COST_MODELS, PASSES, PATTERNS


def add_load_argument(parser: CommandParser) -> None:
    """`--load FILE`."""
    parser.several("--load", "FILE.py", "run a Python file that registers passes and patterns; repeatable")


def load_files(paths: Sequence[str]) -> tuple[str, ...]:
    """Run the files; the names of the patterns that they have registered."""
    names: dict[str, None] = {}
    for path in paths:
        before = {id(table): dict(table) for table in (PASSES, PATTERNS, COST_MODELS)}
        run_file(Path(path))
        new = [
            name
            for table in (PASSES, PATTERNS, COST_MODELS)
            for name, value in table.items()
            if before[id(table)].get(name) is not value
        ]
        if not new:
            raise CommandError(
                f"{path} registers nothing",
                remedy="put @planish.ptir.register_pass or @planish.ptir.register_pattern in front of its classes",
            )
        names |= {name: None for name in new if name in PATTERNS}
    return tuple(names)


def run_file(path: Path) -> ModuleType:
    """The module that a Python file is; what it raises is told with its line."""
    if not path.is_file():
        raise CommandError(
            f"cannot load {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"cannot load {path}: it is no Python file", remedy="its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    # Type hints and dataclasses look their module up by name; files beside it can be imported, as from a script.
    taken = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a file of the user's raises
        sys.modules.pop(path.stem, None)
        raise CommandError(f"cannot load {path}: {_told(error, path)}") from error
    finally:
        sys.path.pop(0)
        if taken is not None:
            sys.modules[path.stem] = taken
    return module


def _told(error: BaseException, path: Path) -> str:
    """An error with its line in the file."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    where = f"line {lines[-1]}: " if lines else ""
    what = "it ends the program" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return where + what
