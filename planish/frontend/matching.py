"""The short way into a compiled function: straight-line Python, written for the arguments of one entry of its cache.

`matcher` looks at the arguments of a call and gives the arrays to run with, or None where anything is not as it was in the call
that the entry was made for. `builder` puts results together. `shortcut` is a whole call: it looks, runs, and puts together. All
are generated, so that a call costs no walk over trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from planish.compiler import Executable
from planish.compiler.object_code import pool
from planish.config import Settings
from planish.dtypes import DType
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.arguments import LeafType, storage_of
from planish.frontend.devices import Device, Runnable
from planish.frontend.expression import LazyValue
from planish.frontend.session import tensor_type
from planish.frontend.storage import Storage
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.foreign import is_foreign
from planish.frontend.tree import Structure
from planish.ptir import trace
from planish.ptir.types import TensorType
from planish.records import dataclass

Match = Callable[[tuple[Any, ...], dict[str, Any]], "list[Any] | None"]
Short = Callable[[tuple[Any, ...], dict[str, Any], Settings], Any]
"""A call under the settings in force: its result, or MISSED."""
MISSED: Final = object()
"""What comes of a call that is for another entry."""
_new: Final = object.__new__
_INLINED: Final = 4
"""Results that are made without a call: a tenth of a microsecond less for each, but more to compile."""
_FILE: Final = f"{__file__} (generated)"
"""A name inside the package: the line that errors tell is the user's."""


class _SourceCode:
    """Lines of a function, and the objects they name."""

    def __init__(self, missed: str = "None") -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "__name__": __name__, "Tensor": Tensor, "LazyValue": LazyValue, "ndarray": np.ndarray, "array": np.array, "MISSED": MISSED
        }  # fmt: skip
        self.count = 0
        self.missed = missed

    def name(self, value: Any, prefix: str = "k") -> str:
        self.count += 1
        name = f"{prefix}{self.count}"
        self.names[name] = value
        return name

    def local(self, expression: str) -> str:
        self.count += 1
        self.lines.append(f"v{self.count} = {expression}")
        return f"v{self.count}"

    def unless(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return {self.missed}")

    def function(self, head: str, tail: Sequence[str] = ()) -> Any:
        """The lines, in which a missing key or attribute is a miss, and a tail in which it is not."""
        body = "\n        ".join(self.lines)
        source = f"def {head}:\n    try:\n        {body}\n    except (KeyError, AttributeError): return {self.missed}\n"
        source += "".join(f"    {line}\n" for line in tail)
        # The source is written above: every value in it is a name in `names`, or repr of a key that is a string.
        exec(compile(source, _FILE, "exec"), self.names)  # noqa: S102
        # Not left among the names: what they hold goes when the function goes, not with the next collection.
        return self.names.pop(head.partition("(")[0])


def matcher(
    structure: Structure,
    leaves: Sequence[LeafType],
    kinds: Sequence[type],
    static: Mapping[int | str, Any],
    place: Device,
    taken: Mapping[int, Sequence[DType]],
    donated: Sequence[int] = (),
) -> Match:
    """For calls with arguments of that structure whose leaves are of those kinds and types, and those static values.

    Tensors must have their data where it runs. After the arrays come the donated tensors themselves.
    """
    code = _SourceCode()
    arrays, tensors = _matched(code, structure, leaves, kinds, static, place, taken, donated)
    code.lines.append(f"return [{', '.join([*arrays, *tensors])}]")
    match: Match = code.function("match(args, kwargs)")
    return match


def _matched(
    code: _SourceCode,
    structure: Structure,
    leaves: Sequence[LeafType],
    kinds: Sequence[type],
    static: Mapping[int | str, Any],
    place: Device,
    taken: Mapping[int, Sequence[DType]],
    donated: Sequence[int] = (),
) -> tuple[list[str], list[str]]:
    """Write what looks at `args` and `kwargs`: how the arrays and the donated tensors are called."""
    arrays: list[str] = []
    tensors: list[str] = []
    rest = iter(zip(leaves, kinds, strict=True))

    def put(array: str) -> str:
        return array if place.storage is np.ndarray else f"{code.name(place.put)}({array})"

    def leaf(at: str) -> None:
        described, kind = next(rest)
        type, number = described.type, len(arrays)
        if described.python is not None:
            code.unless(f"{at}.__class__ is {code.name(described.python)}")
            if number in taken:
                for dtype in taken[number]:
                    code.unless(f"{dtype.min} <= {at} <= {dtype.max}")
            arrays.append(put(f"array({at}, {code.name(type.dtype.numpy)})"))
            return
        if issubclass(kind, np.ndarray):
            code.unless(f"{at}.__class__ is ndarray and {at}.dtype is {code.name(type.dtype.numpy)}")
            array = at
        elif issubclass(kind, np.generic):
            code.unless(f"{at}.__class__ is {code.name(kind)}")
            array = f"array({at})"
        elif is_foreign(kind):
            code.unless(f"{at}.__class__ is {code.name(kind)}")
            array = code.local(f"{code.name(storage_of)}({at})")
            held = np.ndarray if described.device is None else place.storage
            code.unless(
                f"{array}.__class__ is {code.name(held)} and {array}.dtype == {code.name(type.dtype.numpy)}"
            )
        else:
            code.unless(f"{at}.__class__ is Tensor")
            value = code.local(f"{at}._value")
            array = code.local(f"{value}.storage")
            code.unless(
                f"{array}.__class__ is {code.name(place.storage)} and {value}.device is {code.name(described.device)}"
            )
            if type.is_static:
                code.unless(f"{value}.type is {code.name(type)}")
            else:
                code.unless(f"{value}.type.dtype is {code.name(type.dtype)}")
        if not (type.is_static and issubclass(kind, Tensor)) and not issubclass(kind, np.generic):
            fixed = [
                f"{array}.shape[{axis}] == {size}"
                if isinstance(size, int)
                else f"{size.lo} <= {array}.shape[{axis}] <= {size.hi}"
                for axis, size in enumerate(type.dims)
            ]
            code.unless(" and ".join([f"{array}.ndim == {len(type.dims)}", *fixed]))
        arrays.append(array if issubclass(kind, Tensor) or described.device is not None else put(array))
        if number in donated:
            tensors.append(at)

    def visit(part: Structure, at: str) -> None:
        if part.kind is None:
            leaf(at)
            return
        code.unless(f"{at}.__class__ is {code.name(part.kind)}")
        count = len(part.children)
        if part.kind is type(None):
            return
        if part.kind in (tuple, list) or (issubclass(part.kind, tuple) and hasattr(part.kind, "_fields")):
            code.unless(f"len({at}) == {count}")
            children = [f"{at}[{number}]" for number in range(count)]
        elif part.kind is dict and isinstance(part.about, tuple):
            code.unless(f"len({at}) == {count}")
            children = [f"{at}[{code.name(key)}]" for key in part.about]
        else:
            parts = code.local(f"{code.name(tree.apart)}({at})")
            code.unless(f"{parts}[1] == {code.name(part.about)} and len({parts}[0]) == {count}")
            children = [f"{parts}[0][{number}]" for number in range(count)]
        for child, where in zip(part.children, children, strict=True):
            visit(child, code.local(where))

    given, named = structure.children
    names = tuple(named.about) if isinstance(named.about, tuple) else ()
    fixed = [which for which in static if isinstance(which, str)]
    positions = len(given.children) + len(static) - len(fixed)
    code.unless(f"len(args) == {positions}")
    code.unless(f"len(kwargs) == {len(names) + len(fixed)}" if names or fixed else "not kwargs")
    for which, value in static.items():
        at = code.local(f"args[{which}]" if isinstance(which, int) else f"kwargs[{which!r}]")
        kept = code.name(value)
        code.unless(f"{at} is {kept} or ({at}.__class__ is {code.name(type(value))} and {at} == {kept})")
    dynamic = [position for position in range(positions) if position not in static]
    for position, child in zip(dynamic, given.children, strict=True):
        visit(child, code.local(f"args[{position}]"))
    for name, child in zip(names, named.children, strict=True):
        visit(child, code.local(f"kwargs[{name!r}]"))
    return arrays, tensors


def computed(type: TensorType, storage: Storage, device: str | None) -> Tensor:
    """A tensor with its data: as `Tensor` would make it, without looking at anything. `_inline` is the same as text."""
    value = LazyValue()
    value.type = type
    value.storage = storage
    value.node = None
    value.device = device
    value.shared = False
    result = _new(Tensor)
    result._value = value
    result._scope = None
    return result


def _inline(result: str, type: str, storage: str, device: str) -> list[str]:
    return [
        "value = LazyValue()",
        f"value.type = {type}",
        f"value.storage = {storage}",
        f"value.device = {device}",
        f"{result} = new(Tensor)",
        f"{result}._value = value",
        f"{result}._scope = value.node = None",
        "value.shared = False",
    ]


@dataclass(frozen=True, slots=True)
class CallWork:
    """What a call does with the arrays it was given, and what it makes of those it gets."""

    call: Runnable
    exe: Executable | None
    captured: Sequence[Storage]
    types: Sequence[TensorType]
    """Of the results, in their order."""
    structure: Structure
    order: Sequence[int]
    device: str | None
    """What its results are tied to."""
    place: Device
    """Where it runs."""
    explained: Callable[[Executable | None, MemoryError | PlanishError], BaseException]
    """What to raise for an error of the call."""


def shortcut(
    structure: Structure,
    leaves: Sequence[LeafType],
    kinds: Sequence[type],
    static: Mapping[int | str, Any],
    taken: Mapping[int, Sequence[DType]],
    work: CallWork,
) -> Short:
    """For the same calls as `matcher`, where nothing is donated: the call as a whole."""
    code = _SourceCode("MISSED")
    arrays, _ = _matched(code, structure, leaves, kinds, static, work.place, taken)
    given = [array if array.isidentifier() else code.local(array) for array in arrays]
    given += [code.name(array) for array in work.captured]
    code.names |= {
        "call": work.call, "exe": work.exe, "explained": work.explained, "PlanishError": PlanishError,
        "executions": trace._state, "tensor_type": tensor_type, "new": _new,
        "computed": computed,
    }  # fmt: skip
    called = f"call({', '.join(given)})"
    if work.exe is not None and work.exe.builtin is not None:
        # as the executable would do it
        several = f"{code.name(pool().threads)}(settings)" if work.exe.is_parallel else "1"
        fast = f"{code.name(work.exe.builtin)}({', '.join([several, *given])})"
        called = f"{fast} if executions.sink is None else {called}"
    names = [f"a{number}" for number in range(len(work.types))]
    tail = [
        "try:",
        f"    {''.join(f'{name}, ' for name in names)}= {called}" if names else f"    {called}",
        "except (MemoryError, PlanishError) as error:",
        "    raise explained(exe, error) from error.__cause__",
    ]
    results = [f"r{number}" for number in range(len(names))]
    device = code.name(work.device)
    for name, result, type in zip(names, results, work.types, strict=True):
        known = tensor_type(type.dtype, type.dims) if type.is_static else None
        told = f"tensor_type({code.name(type.dtype)}, {name}.shape)" if known is None else code.name(known)
        if len(names) <= _INLINED:
            tail += _inline(result, told, name, device)
        else:
            tail.append(f"{result} = computed({told}, {name}, {device})")
    tail.append(f"return {_built(code, work.structure, iter([results[number] for number in work.order]))}")
    short: Short = code.function("short(args, kwargs, settings)", tail)
    return short


def builder(structure: Structure, order: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """For results: leaf `n` of the tree is result `order[n]`."""
    code = _SourceCode()
    source = _built(code, structure, iter([f"r[{number}]" for number in order]))
    build: Callable[[Sequence[Any]], Any] = eval(f"lambda r: {source}", code.names)  # noqa: S307
    return build


def _built(code: _SourceCode, structure: Structure, rest: Iterator[str]) -> str:
    """The expression of a tree whose leaves are those expressions."""

    def build(part: Structure) -> str:
        if part.kind is None:
            return next(rest)
        children = [build(child) for child in part.children]
        if part.kind is tuple:
            return f"({', '.join(children)}{',' if len(children) == 1 else ''})"
        if part.kind is list:
            return f"[{', '.join(children)}]"
        if part.kind is type(None):
            return "None"
        if part.kind is dict and isinstance(part.about, tuple):
            pairs = zip(part.about, children, strict=True)
            return "{" + ", ".join(f"{code.name(key)}: {child}" for key, child in pairs) + "}"
        head = f"{code.name(tree.together)}({code.name(part.kind)}, {code.name(part.about)}"
        return f"{head}, [{', '.join(children)}])"

    return build(structure)
