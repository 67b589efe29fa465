"""Errors of Python from the depths of a public function, told as what they are: arguments that it can do nothing with.

Functions check what people get wrong, one by one. What nobody thought of (a dict as a shape, a class as a tensor) ends in an error of Python's or
NumPy's somewhere inside. `reporting` functions catch those: the error that leaves them names the function, what each parameter was given, the user's
line and how it is called, is still a TypeError, ValueError or IndexError, and keeps the first one as its cause. Errors of the user's own
functions, called from inside, pass as they are; and so do those of functions that a reporting one called: the outermost reports.
A fault of ours looks the same from here: so the error says both, and the cause is kept.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, Final, TypeVar, cast

import numpy as np

from planish.dtypes import DType
from planish.errors import DTypeError, PlanishError, ShapeError, did_you_mean
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import IndexOutOfRange, as_dtype
from planish.frontend.tensor.spelling import PYTORCH, Call, UnknownOption, binds, respelled, signature
from planish.tracebacks import shorten

F = TypeVar("F", bound=Callable[..., Any])
_CAUGHT: Final = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RecursionError)
"""What a mistaken argument may end in."""
_OURS: Final = str(Path(__file__).absolute().parents[2]) + os.sep
_LIBRARIES: Final = (_OURS, str(Path(np.__file__).parent) + os.sep, "<frozen ", "<__array_function__")
_STANDARD: Final = str(Path(os.__file__).parent) + os.sep
_LONGEST: Final = 60
"""Characters of an argument that are shown."""


def reporting(function: F, like: Callable[..., Any] | None = None) -> F:
    """The function, whose errors of Python name it and its arguments; called as NumPy's function `like`, too."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            if like is not None and error.__class__ is TypeError:
                spelled = _spelled(function, like, args, options)
                if spelled is not None:
                    return call(*spelled[0], **spelled[1])
            reason: Exception | None = None
            told = _misspelt(function, args, options, error) if error.__class__ is TypeError else None
            if told is None and isinstance(error, _CAUGHT):
                told, reason = _report(function, args, options, error), error
            if told is None:
                shorten(error)
                raise
        try:
            raise told from reason
        except PlanishError as error:
            shorten(error)
            raise

    _REPORTING.add(cast("FunctionType", call).__code__)
    return cast("F", call)


_REPORTING: Final[set[CodeType]] = set()
"""The code of what reports."""


def naming_dtypes(function: F) -> F:
    """The function, whose `dtype` may also be a name, or NumPy's or torch's."""
    own = signature(function)
    if own is None or "dtype" not in own.parameters:
        return function
    place = list(own.parameters).index("dtype")

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = options.get("dtype") if len(args) <= place else args[place]
        if given is None or given.__class__ is DType:
            return function(*args, **options)
        if len(args) <= place:
            return function(*args, **{**options, "dtype": as_dtype(given)})
        return function(*args[:place], as_dtype(given), *args[place + 1 :], **options)

    return cast("F", call)


def report_all(
    namespace: dict[str, Any],
    names: Iterable[str],
    hot: Iterable[str] = (),
    like: ModuleType | None = None,
    prepared: Callable[[Any], Any] = lambda function: function,
) -> None:
    """Let the functions of these names report, and the constructors of classes; not those that are called millions of times.

    They are called as the functions of that name in `like` are, too. `prepared` is done to functions first.
    """
    for name in set(names) - set(hot):
        member = namespace[name]
        if isinstance(member, FunctionType) and member.__code__ not in _REPORTING:
            wrapper = namespace[name] = reporting(prepared(cast("Any", member)), getattr(like, name, None))
            home = sys.modules.get(member.__module__)
            if home is not None and getattr(home, name, None) is member:
                setattr(home, name, wrapper)  # pickles look for it there
        elif isinstance(member, type) and _is_constructed(member):
            type.__setattr__(member, "__init__", reporting(vars(member)["__init__"]))


def _spelled(
    function: Callable[..., Any], like: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> Call | None:
    """The arguments of a call in NumPy's spelling."""
    try:
        return respelled(function, like, (args, options))
    except UnknownOption as option:
        remedy = f"it is called as {function.__name__}{_signature(function, False)}"
        if option.name == "out":
            remedy = "a function makes a new tensor; x[...] = y writes into one"
        raise DTypeError.of(
            function.__name__, f"there is no option {option.name}={_shown(option.value)}", remedy
        ) from None


def _is_constructed(kind: type) -> bool:
    """Whether users construct objects of a class of ours, and it says how itself."""
    is_ours = kind.__module__.startswith("planish.") and not issubclass(kind, BaseException)
    return is_ours and "__init__" in vars(kind)


def _report(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], error: Exception
) -> PlanishError | None:
    """The error to raise in place of another; None if that says it already, is the user's own, or another function's to tell."""
    if isinstance(error, PlanishError) or not _is_of_ours(error.__traceback__) or _is_called_by_another():
        return None
    is_method = function.__name__ in {"__init__", "__call__"}
    name = type(args[0]).__name__ if is_method else function.__name__
    kind: type[PlanishError] = DTypeError if isinstance(error, TypeError | AttributeError) else ShapeError
    if isinstance(error, IndexError):
        kind = IndexOutOfRange
    given = _given(function, args[1:] if is_method else args, options, is_method)
    return kind.of(
        name,
        f"nothing can be done with {given} ({error})",
        f"it is called as {name}{_signature(function, is_method)}; if that is how it was called, the fault is planish's, and the cause above tells where",
    )


_PYTHONS_WORDS: Final = re.compile(r"^[\w.<>]+\(\) (?P<rest>(?:missing|takes|got) .*)$", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_MISSING: Final = re.compile(r"'(\w+)'")
_WANTED: Final = {"key": "key is a random key, such as planish.random.key(0), or a number to make one of"}
"""What parameters are that people do not know from elsewhere."""


def _misspelt(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], error: Exception
) -> PlanishError | None:
    """The error of a call that Python refuses: an argument too many, one that is missing, or a name that is none of the parameters'."""
    said = _PYTHONS_WORDS.match(str(error))
    own = signature(function)
    if said is None or own is None or binds(own, (args, dict(options))) or _is_called_by_another():
        return None
    is_method = function.__name__ in {"__init__", "__call__"}
    name = type(args[0]).__name__ if is_method else function.__name__
    words, remedies = said["rest"], []
    unexpected = _UNEXPECTED.search(words)
    if unexpected is not None:
        close = did_you_mean(unexpected[1], own.parameters)
        theirs = PYTORCH.get(unexpected[1])
        if theirs in own.parameters:
            remedies.append(f"{unexpected[1]} is called {theirs} here;")
        elif close is not None:
            remedies.append(f"did you mean {close}?")
    elif words.startswith("missing"):
        remedies += [f"{_WANTED[name]};" for name in _MISSING.findall(words) if name in _WANTED]
    remedies.append(f"it is called as {name}{_signature(function, is_method)}")
    return DTypeError.at_caller(f"{name}() {words}", " ".join(remedies), op=name)


def _is_of_ours(trace: TracebackType | None) -> bool:
    """Whether an error was raised in planish, or in what it calls, and not in the user's code nor by the call itself."""
    inside = None if trace is None else trace.tb_next
    if inside is None:
        return False  # Python's own words about an argument too many
    while inside is not None:
        if not _is_library(inside.tb_frame.f_code):
            return False
        inside = inside.tb_next
    return True


def _is_library(code: CodeType) -> bool:
    file = code.co_filename
    is_made = file == "<string>" and code.co_name == "__init__"  # by a dataclass: nobody's line
    return (
        is_made or file.startswith(_LIBRARIES) or (file.startswith(_STANDARD) and "site-packages" not in file)
    )


def _is_called_by_another() -> bool:
    """Whether a function that reports has called the one that does now."""
    frame: FrameType | None = sys._getframe(2)
    own = True
    while frame is not None and _is_library(frame.f_code):
        if frame.f_code in _REPORTING and not own:
            return True
        own, frame = False, frame.f_back
    return False


def _given(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], is_method: bool
) -> str:
    """Every argument with the name of its parameter."""
    try:
        names = list(inspect.signature(function).parameters)[int(is_method) :]
    except (TypeError, ValueError):
        names = []
    shown = [
        f"{names[number]}={_shown(arg)}" if number < len(names) else _shown(arg)
        for number, arg in enumerate(args)
    ]
    return ", ".join([*shown, *(f"{name}={_shown(arg)}" for name, arg in options.items())]) or "no arguments"


def _shown(arg: object) -> str:
    if isinstance(arg, Tensor | np.ndarray):
        return f"{arg.dtype}{list(arg.shape)}"
    text = repr(arg).replace("\n", " ")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _signature(function: Callable[..., Any], is_method: bool) -> str:
    try:
        full = inspect.signature(function)
    except (TypeError, ValueError):
        return "(…)"
    parameters = list(full.parameters.values())[int(is_method) :]
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return str(full.replace(parameters=bare, return_annotation=inspect.Signature.empty))
