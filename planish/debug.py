"""Looking at values while a program runs, wherever it is: in `jit`, `grad`, `vmap`, loops and branches.

`print` and `breakpoint` of Python see values where they are known; in a function that is traced they run while it is traced. These here
run when the program comes by, with the elements that it has computed, in the order of the program. In a loop that is once per
turn, under `vmap` once per example.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from planish.errors import Location, PlanishError
from planish.frontend.callbacks import effect
from planish.frontend.expression import LazyValue
from planish.frontend.flat import is_data
from planish.frontend.tensor.array import Tensor
from planish.frontend.tree import flatten, map_tree
from planish.records import dataclass


def print(fmt: str, /, *args: Any, ordered: bool = True, **kwargs: Any) -> None:
    """Print a format string, as `str.format` has it, of the elements of tensors: `print("x is {}, y {y:.3f}", x, y=y)`."""
    _check_format(fmt, args, kwargs)
    effect("debug.print", _Print(fmt), args, kwargs)


@dataclass(frozen=True, slots=True)
class _Print:
    """Prints its arguments."""

    fmt: str

    @property
    def __name__(self) -> str:
        return "print"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        shown = [_shown(arg) for arg in args]
        text = self.fmt.format(*shown, **{name: _shown(arg) for name, arg in kwargs.items()})
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _shown(value: Any) -> Any:
    """Single elements are numbers, so that they can be formatted as such; in a shape or a list they read as Python's."""
    if getattr(value, "shape", None) == ():
        return value[()]
    return map_tree(lambda leaf: leaf.item() if getattr(leaf, "shape", None) == () else leaf, value)


class _Fields(string.Formatter):
    """Finds out whether a format string and its arguments belong together."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first = field_name.partition(".")[0].partition("[")[0]
        key: int | str = int(first) if first.isdigit() else first
        return self.get_value(key, args, kwargs), key

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [str(number) for number in range(len(args)) if number not in used_args]
        unused += [repr(name) for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(f"argument {' and '.join(unused)} is not used")


def _check_format(fmt: object, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    wrong: str | None = None
    if not isinstance(fmt, str):
        wrong = f"the first argument is a format string, not a {type(fmt).__name__}"
    else:
        try:
            _Fields().format(fmt, *args, **kwargs)
        except (ValueError, IndexError) as error:
            wrong = f"{fmt!r}: {error}"
        except KeyError as error:
            wrong = f"{fmt!r} asks for {error}, which is not given"
    if wrong is not None:
        raise PlanishError(
            f"debug.print: {wrong}",
            op="debug.print",
            location=Location.caller(),
            remedy='name the values: debug.print("x is {x}", x=x)',
        )


def callback(function: Callable[..., object], /, *args: Any, ordered: bool = True, **kwargs: Any) -> None:
    """Call a function with NumPy arrays for tensors when the program comes by; what it returns is not used."""
    effect("debug.callback", function, args, kwargs)


def breakpoint(*, ordered: bool = True) -> None:
    """Stop in the debugger when the program comes by: at this line, with the tensors of the function as arrays.

    It is the debugger that Python's own `breakpoint()` starts (`PYTHONBREAKPOINT`). What it changes is not seen by the program.
    """
    frame = _caller(sys._getframe(1))
    if frame is None:
        raise PlanishError("debug.breakpoint: there is no function to stop in")
    seen = {name: value for name, value in frame.f_locals.items() if _is_of_tensors(value)}
    rest = {name: value for name, value in frame.f_locals.items() if name not in seen}
    stop = _Stop(frame.f_code.co_filename, frame.f_lineno, _DebuggerNames(frame.f_globals, rest))
    effect("debug.breakpoint", stop, (), {"seen": seen})


class _DebuggerNames:
    """Names that the debugger knows beside tensors."""

    def __init__(self, module: dict[str, Any], local: dict[str, Any]) -> None:
        self.module, self.local = module, local


@dataclass(frozen=True, slots=True)
class _Stop:
    """Stops at a line of a file."""

    file: str
    line: int
    names: _DebuggerNames

    @property
    def __name__(self) -> str:
        return "breakpoint"

    def __call__(self, seen: dict[str, Any]) -> None:
        # A piece of code that stands where the user's line is: debuggers show the source around it.
        code = compile("\n" * (self.line - 1) + "__stop__()", self.file, "exec")
        names = {**self.names.module, **self.names.local, **seen, "__stop__": sys.breakpointhook}
        exec(code, names)  # noqa: S102 - the source is the line above


def _caller(frame: FrameType | None) -> FrameType | None:
    while (
        frame is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]
    ):
        frame = frame.f_back
    return frame


def _is_of_tensors(value: object) -> bool:
    """Whether a variable holds tensors, alone or in containers, and nothing else that would be taken for one."""
    if isinstance(value, LazyValue | type):
        return False
    try:
        leaves, _ = flatten(value)
    except PlanishError:
        return False
    return any(isinstance(leaf, Tensor) for leaf in leaves) and all(map(is_data, leaves))


__all__ = ["breakpoint", "callback", "print"]
