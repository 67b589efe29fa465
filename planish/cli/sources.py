"""What commands work on: a program as text, an ONNX model, or a function of Python's; each becomes a program.

planish lower prog.ptir --to llir
planish lower model.onnx --dim batch=4 --to plan
planish lower mlp.py:forward --args "f32[64, 64], f32[n=1..64, 8]" --to asm
planish lower package.module:function --args "f32[64], axis=0" --to uop
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import re
import sys
from pathlib import Path
from typing import Any, Final

from planish.cli.console import CommandError, CommandParser, Console, UsageError
from planish.cli.files import check_input, parse_source, read_source
from planish.cli.load import run_file
from planish.cli.models import DimSizes, read_dims
from planish.dtypes import parse
from planish.errors import PlanishError, did_you_mean
from planish.ptir import Program

SOURCE_HELP: Final = (
    "prog.ptir, model.onnx, or MODULE:FUNCTION with --args; - or nothing: a program from standard input"
)
_FUNCTION: Final = re.compile(r"(?P<module>[^:]+(?:\.py)?):(?P<name>[A-Za-z_][\w.]*)")
_TENSOR: Final = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<dims>[^\]]*)\]")
_DIM: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<low>\d+)\.\.(?P<high>\d+)")


def add_source_arguments(parser: CommandParser) -> None:
    """What the entry is called with, where it is no program yet."""
    parser.option("--args", "SPECS", 'what a function is called with: "f32[64, 64], i32[n=1..8], axis=0"')
    parser.several("--dim", "NAME=N", "the size of a named dim of a model")


def is_function(word: str) -> bool:
    """Whether a word of the command line names a function: MODULE:FUNCTION or FILE.py:FUNCTION."""
    return _FUNCTION.fullmatch(word) is not None and not Path(word).exists()


def is_model(word: str) -> bool:
    """Whether a word of the command line names an ONNX model."""
    return word.endswith(".onnx")


def read_program(args: argparse.Namespace, console: Console) -> Program:
    """The program that the command line names by `file`, verified."""
    word: str = args.file
    if is_function(word):
        return Program([function_program(word, args.args)])
    if args.args is not None:
        raise UsageError(
            "--args are those of a function", remedy="name it as MODULE:FUNCTION or FILE.py:FUNCTION"
        )
    if is_model(word):
        return Program([model_function(word, read_dims(args.dim))])
    return read_text(word, console)


def read_text(word: str, console: Console) -> Program:
    """A program from a file of text or JSON, verified."""
    if word.endswith(".py") and Path(word).is_file():
        names = _functions(Path(word))
        listed = f"it has {', '.join(names[:8])}" if names else "it has no functions"
        raise UsageError(
            f"{word} is a Python file: name a function of it, as {word}:{(names or ['FUNCTION'])[0]}",
            remedy=listed,
        )
    program = parse_source(read_source(word, console))
    check_input(program, console)
    return program


def _functions(path: Path) -> list[str]:
    """The functions at the top of a file, which is read and not run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    return [node.name for node in body if isinstance(node, ast.FunctionDef)]


def model_function(path: str, sizes: DimSizes) -> Any:
    """A model as one function; the weights are its last parameters."""
    from planish.cli.run import open_model

    return open_model(path, sizes).program().function


def function_program(word: str, specs: str | None) -> Any:
    """A function of Python's, captured for such arguments."""
    from planish.frontend.arguments import TensorSpec
    from planish.frontend.jit import jit

    positional, named = read_arguments(specs or "")
    func = find_function(word)
    fixed = [number for number, value in enumerate(positional) if not isinstance(value, TensorSpec)]
    words = [name for name, value in named.items() if not isinstance(value, TensorSpec)]
    try:
        traced = func if hasattr(func, "lower") else jit(func, static_argnums=fixed, static_argnames=words)
        with contextlib.redirect_stdout(sys.stderr):
            return traced.lower(*positional, **named).function
    except PlanishError:
        raise
    except Exception as error:
        raise CommandError(
            f"{word} cannot be captured with ({specs or ''}): {type(error).__name__}: {error}",
            remedy='--args names what it is called with, such as --args "f32[64, 64], axis=0"',
        ) from error


def find_function(word: str) -> Any:
    """What MODULE:FUNCTION or FILE.py:FUNCTION names."""
    match = _FUNCTION.fullmatch(word)
    if match is None:
        raise UsageError(f"{word!r} names no function", remedy="write MODULE:FUNCTION or FILE.py:FUNCTION")
    # what the user's code prints is no part of the product
    with contextlib.redirect_stdout(sys.stderr):
        module = _module(match["module"])
    value: Any = module
    for part in match["name"].split("."):
        if not hasattr(value, part):
            names = (
                [name for name in vars(value) if callable(getattr(value, name))]
                if hasattr(value, "__dict__")
                else []
            )
            close = did_you_mean(part, names)
            raise UsageError(
                f"{match['module']} has no {match['name']}",
                remedy=None if close is None else f"did you mean {close!r}?",
            )
        value = getattr(value, part)
    if not callable(value):
        raise UsageError(f"{word} is no function, it is a {type(value).__name__}")
    return value


def _module(name: str) -> Any:
    if name.endswith(".py"):
        return run_file(Path(name))
    # as `python -m` does it: modules of the working directory can be named
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise CommandError(
            f"there is no module {error.name!r}", remedy="name a file: FILE.py:FUNCTION"
        ) from None
    finally:
        sys.path.remove(here)


# -- arguments -------------------------------------------------------------------------------------------------------


def read_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """`f32[64, n=1..8], 3, axis=0`: tensors by their types, anything else as Python writes it."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for part in _parts(text):
        keyword = re.fullmatch(r"([A-Za-z_]\w*)\s*=\s*(.+)", part, re.DOTALL)
        if keyword is not None and not _TENSOR.fullmatch(part):
            named[keyword[1]] = _argument(keyword[2])
        elif named:
            raise UsageError(f"--args: {part!r} stands behind a named one")
        else:
            positional.append(_argument(part))
    return positional, named


def _parts(text: str) -> list[str]:
    """What the commas outside of brackets separate."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [part for part in (*parts, text[begin:].strip()) if part]


def _argument(text: str) -> Any:
    from planish.frontend.arguments import TensorSpec

    tensor = _TENSOR.fullmatch(text)
    if tensor is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise UsageError(
                f"--args: {text!r} is neither a tensor nor a value",
                remedy="write f32[64, 64], or a number, text or tuple",
            ) from None
    try:
        return TensorSpec(_dims(tensor["dims"]), parse(tensor["dtype"]))
    except PlanishError as error:
        raise UsageError(f"--args: {text!r}: {error.message}", remedy=error.remedy) from None


def _dims(text: str) -> list[Any]:
    from planish.frontend.jit import Dim

    sizes: list[Any] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        named = _DIM.fullmatch(word)
        if named is not None:
            sizes.append(Dim(named["name"], int(named["low"]), int(named["high"])))
        elif word.isdecimal():
            sizes.append(int(word))
        else:
            raise UsageError(
                f"--args: {word!r} is no size", remedy="write a number, or n=1..64 for a named one"
            )
    return sizes
