"""Settings: one frozen record, changed for the length of a `with` block, never globally.

The record in force is found through a context variable, so each thread and each asyncio task sees its own
changes and nobody else's. Defaults come from `PLANISH_*` environment variables, read once at first use.
An unknown name or a value a setting cannot take is a `SettingsError` that lists what is valid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field, fields
from functools import lru_cache
from pathlib import Path
from typing import Literal, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack, cast

from planish.errors import Location, SettingsError, did_you_mean
from planish.records import dataclass

Check = Literal["none", "spec", "expensive", "all", "nan"]
Debug = Literal["none", "ir", "kernels", "errors"]
Devectorize = Literal[0, 1, 2]
Value = str | int | bool | None
P = ParamSpec("P")
R = TypeVar("R")

_PREFIX = "PLANISH_"
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default; the line of text beside each is its documentation."""

    target: str = field(default="host", metadata={"doc": "machine to compile for; 'host' is the one running"})
    device: str = field(
        default="cpu",
        metadata={"doc": "where tensors live that nothing puts elsewhere; see planish.devices()"},
    )
    threads: int | None = field(
        default=None, metadata={"doc": "CPU threads per call; none: all cores", "min": 1}
    )
    beam: int = field(
        default=0, metadata={"doc": "width of the schedule search; 0 uses the heuristic", "min": 0}
    )
    beam_budget: int = field(
        default=10, metadata={"doc": "seconds that a schedule search may take for each kernel", "min": 1}
    )
    fastmath: bool = field(
        default=False, metadata={"doc": "allow reassociating and folding float arithmetic"}
    )
    contract: bool = field(default=False, metadata={"doc": "allow a*b+c to become one fused multiply-add"})
    winograd: bool = field(
        default=True,
        metadata={
            "doc": "ONNX: let convolutions with constant weights take fewer products, with errors up to a few times those of the plain sum"
        },
    )
    ready_kernels: bool = field(
        default=True,
        metadata={
            "doc": "products of matrices run by code that is there already where it is as fast; false: each is compiled for its sizes"
        },
    )
    deterministic: bool = field(
        default=False,
        metadata={
            "doc": "use stored winners or the heuristic, never a new search, whose float results could differ; LAPACK on one thread"
        },
    )
    devectorize: Devectorize = field(
        default=1,
        metadata={
            "doc": "0: keep vector values, 1: split to the target's width, 2: split memory accesses neither"
        },
    )
    allow_half8: bool = field(
        default=False, metadata={"doc": "allow loads and stores of eight 16-bit floats"}
    )
    check: Check = field(
        default="none",
        metadata={
            "doc": "verify IR at stage boundaries: by spec, by expensive proofs, or by all; "
            "'nan': find the operation that makes a NaN or an infinity"
        },
    )
    debug: Debug = field(
        default="none",
        metadata={
            "doc": "'ir' prints the IR after every stage, 'kernels' a line for every kernel that runs: its time, rates and the user's line; 'errors' shows planish's own lines in tracebacks, as the others do"
        },
    )
    rewrite_budget: int = field(
        default=1_000_000, metadata={"doc": "rewrites per run before it counts as not ending", "min": 1}
    )
    cache_dir: str | None = field(
        default=None,
        metadata={
            "doc": "directory of the compilation cache, or a URL that many machines share; none: the user's cache directory"
        },
    )
    cache: bool = field(default=True, metadata={"doc": "keep compiled code on disk for the next process"})
    cache_limit: int = field(
        default=2048,
        metadata={"doc": "MiB that the compilation cache may grow to; old entries go first", "min": 1},
    )
    memory_limit: int | None = field(
        default=None,
        metadata={
            "doc": "MiB that results and arenas no longer in use may keep for the next call, in the whole process, "
            "from the next compilation on; none: an eighth of the memory",
            "min": 0,
        },
    )
    work_limit: int | None = field(
        default=100_000,
        metadata={
            "doc": "operations that a node of an ONNX model may ask for, for each element that it reads or makes; none: any number",
            "min": 1,
        },
    )
    keep_collectives: bool = field(
        default=False,
        metadata={
            "doc": "keep collectives of groups of one rank, to try on one device what several would run"
        },
    )
    progress: bool = field(
        default=True,
        metadata={"doc": "show a line on the terminal while something is compiled for more than a second"},
    )
    dump_dir: str | None = field(default=None, metadata={"doc": "directory to write every stage's IR to"})
    disable_stages: str | None = field(
        default=None,
        metadata={"doc": "optional stages to leave out, by name or number, separated by commas"},
    )
    schedule: str | None = field(
        default=None,
        metadata={
            "doc": "steps for kernels in place of those that would be chosen, such as 'upcast(j, 16)'; a line [kernel] before each part"
        },
    )
    jit: bool = field(
        default=True,
        metadata={
            "doc": "compile functions under planish.jit; without it they run op by op, as Python has them"
        },
    )
    calibration: bool = field(
        default=True,
        metadata={
            "doc": "for 'host', choose schedules by the numbers that `planish info --calibrate` measured"
        },
    )
    viz: str | None = field(
        default=None,
        metadata={
            "doc": "record what the process compiles, to be seen with `planish viz`: 1, or the file to write at its end; read when it first compiles"
        },
    )

    def __post_init__(self) -> None:
        _check({name: getattr(self, name) for name in _fields()})


class Changes(TypedDict, total=False):
    """The settings by name, so that type checkers see a misspelt one; a test keeps it equal to `Settings`."""

    target: str
    device: str
    threads: int | None
    beam: int
    beam_budget: int
    fastmath: bool
    contract: bool
    winograd: bool
    ready_kernels: bool
    deterministic: bool
    devectorize: Devectorize
    allow_half8: bool
    check: Check
    debug: Debug
    rewrite_budget: int
    cache_dir: str | None
    cache: bool
    cache_limit: int
    memory_limit: int | None
    work_limit: int | None
    keep_collectives: bool
    progress: bool
    dump_dir: str | None
    disable_stages: str | None
    schedule: str | None
    jit: bool
    calibration: bool
    viz: str | None


@dataclass(frozen=True, slots=True)
class _Field:
    """How one setting is checked and read from text, resolved once from its annotation."""

    name: str
    doc: str
    kind: type  # bool, int or str
    optional: bool
    values: tuple[str | int, ...]
    least: int | None

    def describe(self) -> str:
        if self.values:
            return " | ".join(repr(choice) for choice in self.values)
        text = "true | false" if self.kind is bool else {int: "an integer", str: "text"}[self.kind]
        if self.least is not None:
            text += f" >= {self.least}"
        return f"{text} | none" if self.optional else text

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.optional
        # bool is an int in Python, but `beam=True` and `fastmath=1` are mistakes.
        if type(value) is not self.kind:
            return False
        if self.values:
            return value in self.values
        return self.least is None or (isinstance(value, int) and value >= self.least)

    def from_text(self, text: str) -> Value:
        """The value written as `text` in the environment; text of another type stays text, to be refused."""
        word = text.strip().lower()
        if self.optional and word in ("", "none"):
            return None
        if self.kind is bool:
            return word in _TRUE if word in _TRUE | _FALSE else text
        if self.kind is int:
            return int(word) if re.fullmatch(r"[+-]?[0-9]+", word) else text
        # Choices are words and match in any case; free text such as a path is taken as it stands.
        return word if self.values else text


@lru_cache(maxsize=1)
def _fields() -> dict[str, _Field]:
    hints = typing.get_type_hints(Settings)
    return {item.name: _read_field(item.name, hints[item.name], item.metadata) for item in fields(Settings)}


def _read_field(name: str, hint: object, metadata: Mapping[str, str | int]) -> _Field:
    optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
    if optional:
        hint = next(member for member in typing.get_args(hint) if member is not type(None))
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    kind = type(choices[0]) if choices else hint
    if kind not in (bool, int, str):
        raise TypeError(f"setting {name} has an annotation that settings do not support: {hint!r}")
    least = metadata.get("min")
    return _Field(
        name,
        doc=str(metadata["doc"]),
        kind=cast("type", kind),
        optional=optional,
        values=choices,
        least=least if isinstance(least, int) else None,
    )


def _unknown(name: str, valid: list[str], what: str, location: Location | None = None) -> NoReturn:
    # what all variables begin with makes none of them more alike
    stems = {word.removeprefix(_PREFIX): word for word in valid}
    stem = did_you_mean(name.removeprefix(_PREFIX), list(stems))
    close = None if stem is None else stems[stem]
    hint = "" if close is None else f"did you mean {close!r}? "
    raise SettingsError(
        f"unknown {what} {name!r}", location=location, remedy=f"{hint}valid: {', '.join(valid)}"
    )


def _check(values: Mapping[str, object]) -> None:
    """Each one must be a known setting with a value it can take."""
    known = _fields()
    for name, value in values.items():
        item = known.get(name)
        if item is None:
            _unknown(name, sorted(known), "setting", Location.caller())
        if not item.accepts(value):
            raise SettingsError.at_caller(f"setting {name} cannot be {value!r}", f"valid: {item.describe()}")


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The defaults as changed by the `PLANISH_*` variables of `environment`."""
    known = _fields()
    variables = {_PREFIX + name.upper(): name for name in known}
    changes: dict[str, Value] = {}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variables.get(variable)
        if name is None:
            _unknown(variable, sorted(variables), "environment variable")
        item = known[name]
        value = item.from_text(text)
        if not item.accepts(value):
            raise SettingsError(f"{variable} cannot be {text!r}", remedy=f"valid: {item.describe()}")
        changes[name] = value
    return replaced(Settings(), changes)


def replaced(base: Settings, changes: Mapping[str, object]) -> Settings:
    """`base` with some settings changed, after checking names and values."""
    _check(changes)
    # Checked against the very annotations that the type checker cannot see through here.
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


# Innermost last, each with the object that put it there.
_STACK: ContextVar[tuple[tuple[settings, Settings], ...]] = ContextVar("planish_settings", default=())


@lru_cache(maxsize=1)
def _initial() -> Settings:
    return from_environment(os.environ)


@contextlib.contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Settings for a whole process and those that it starts, by their variables: threads see them as the main one does."""
    variables = {_PREFIX + name.upper(): value for name, value in values.items()}
    unknown = [name for name in values if name not in _fields()]
    if unknown:
        _unknown(unknown[0], sorted(_fields()), "setting")
    chosen = from_environment(variables)  # what is wrong is said before anything changes
    before = {name: os.environ.get(name) for name in variables}
    if variables:
        os.environ.update(variables)
        _initial.cache_clear()
    try:
        # a block that is around this one would hide the variables
        with settings(**cast("Changes", {name: getattr(chosen, name) for name in values})):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if variables:
            _initial.cache_clear()


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's cache folder for planish."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "planish"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the compilation cache on this machine: a shared one has the user's own in front."""
    chosen = current().cache_dir
    return default_folder(environment) if chosen is None or shared_cache_url() is not None else Path(chosen)


def shared_cache_url() -> str | None:
    """Where the cache is that many machines share, if the settings name one."""
    chosen = current().cache_dir
    return chosen if chosen is not None and "://" in chosen else None


def current() -> Settings:
    """The settings in force here: in this thread, this task, this `with` block."""
    stack = _STACK.get()
    return stack[-1][1] if stack else _initial()


class settings:  # noqa: N801 - used like a function: `with settings(beam=4): …`
    """Change settings for a `with` block, or for every call of a decorated function.

    Changes are checked where they are written; they apply on top of what is in force on entry. One object
    may be entered repeatedly, nested in itself, and by several threads at once.
    """

    __slots__ = ("_changes",)

    def __init__(self, **changes: Unpack[Changes]) -> None:
        self._changes: Mapping[str, object] = dict(changes)
        _check(self._changes)

    def __repr__(self) -> str:
        return f"settings({', '.join(f'{name}={value!r}' for name, value in self._changes.items())})"

    def __enter__(self) -> Settings:
        inside = replaced(current(), self._changes)
        _STACK.set((*_STACK.get(), (self, inside)))
        return inside

    def __exit__(self, *exc_info: object) -> None:
        # Not simply the last entry: a generator suspended inside its block may leave it after a later one began.
        stack = list(_STACK.get())
        last = max(at for at, (owner, _) in enumerate(stack) if owner is self)
        del stack[last]
        _STACK.set(tuple(stack))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            # Its body runs in its consumer's context, between the consumer's own statements.
            raise SettingsError(
                f"settings cannot decorate the generator {function.__name__}",
                remedy="use `with settings(...)` around the code that consumes it",
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def inside_task(*args: P.args, **kwargs: P.kwargs) -> object:
                with self:
                    return await function(*args, **kwargs)

            return cast("Callable[P, R]", inside_task)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return call


def describe() -> list[tuple[str, str, str, str]]:
    """One row per setting: name, default, what it takes, what it does. The docs and the CLI print it."""
    default = Settings()
    return [(f.name, repr(getattr(default, f.name)), f.describe(), f.doc) for f in _fields().values()]


__all__ = ["Settings", "current", "describe", "from_environment", "in_environment", "replaced", "settings"]
