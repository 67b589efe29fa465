"""Arguments of a function that is compiled: trees of tensors and numbers, some of them static.

`CallSignature` says how a function is called: which parameters are static, which are donated, which axes have a named size. It
takes a call apart into leaves and a key. Two calls with equal keys run the same code. What differs between two keys is told
in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from types import EllipsisType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from planish import dtypes
from planish.compiler.device_kinds import accelerator
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, PlanishError, ShapeError, did_you_mean
from planish.frontend import tree
from planish.frontend.expression import Parameter
from planish.frontend.session import interned, tensor_type
from planish.frontend.storage import Storage
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.foreign import is_foreign
from planish.frontend.tensor.operands import DTypeLike, as_dtype
from planish.frontend.tensor.transfer import borrowed
from planish.frontend.tree import Structure
from planish.ptir.dims import Dim
from planish.ptir.types import TensorType
from planish.records import dataclass

Kind: TypeAlias = type
Axes: TypeAlias = "tuple[Dim | int | EllipsisType | None, ...]"
DimSpec: TypeAlias = Any
"""Axes for a tensor, or a container of that for a container."""
_WEAK: Final[dict[type, DType]] = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}
"""How Python numbers are passed. They are weak: in the function they take the dtype of what they meet."""


class TensorSpec:
    """A shape and dtype without data, to lower a function for; sizes are integers or `planish.Dim`s."""

    # No dataclass: that would be a container of leaves.
    __slots__ = ("type",)

    def __init__(self, shape: Sequence[int | Dim], dtype: DTypeLike = dtypes.float32) -> None:
        self.type: Final = tensor_type(as_dtype(dtype), tuple(shape))

    @property
    def shape(self) -> tuple[int | Dim, ...]:
        """The size of each axis."""
        return self.type.dims

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.type.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype.name})"


@dataclass(frozen=True, slots=True)
class LeafType:
    """What is known of a dynamic leaf: its type, and whether it is a Python number."""

    type: TensorType
    python: Kind | None = None
    device: str | None = None

    def __str__(self) -> str:
        if self.python is not None:
            return f"a Python {self.python.__name__}"
        place = "" if self.device is None else f" on {self.device}"
        return f"{self.type.dtype.name}[{', '.join(map(str, self.type.dims))}]{place}"


@dataclass(frozen=True, slots=True)
class CallKey:
    """What decides which code a call runs."""

    structure: Structure
    """Of the dynamic positional arguments and keyword arguments, as one pair."""
    leaves: tuple[LeafType, ...]
    static: tuple[tuple[int | str, type, Hashable], ...]
    """Position or name, type and value."""
    settings: int


@dataclass(slots=True)
class CallParts:
    """A call taken apart."""

    key: CallKey
    leaves: list[Any]
    """Tensors (as they were given), arrays, Python numbers and specs."""
    kinds: list[type]
    """Their classes."""
    names: list[str]
    """Of the leaves."""
    static: dict[int | str, Any]
    count: int
    """Of positional arguments."""


class CallSignature:
    """How a function is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Sequence[str] = (),
        dims: Mapping[str | int, DimSpec] | None = None,
    ) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        try:
            self.parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            self.parameters = []
        self.open_positions = not self.parameters or any(
            p.kind is inspect.Parameter.VAR_POSITIONAL for p in self.parameters
        )
        self.open_names = not self.parameters or any(
            p.kind is inspect.Parameter.VAR_KEYWORD for p in self.parameters
        )
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.positional = [p.name for p in self.parameters if p.kind in kinds]
        self.static = self._both("static", static_argnums, static_argnames)
        self.donated = self._both("donate", donate_argnums, donate_argnames)
        self.dims: dict[int | str, DimSpec] = {}
        if not isinstance(dims or {}, Mapping):
            raise PlanishError.at_caller(
                f"{self.name}: dims is {dims!r}",
                "give the axes by argument: dims={0: (planish.Dim('n', 1, 512), None)}, or by its name",
            )
        for which, spec in (dims or {}).items():
            numbers, names = (which, ()) if isinstance(which, int) else ((), which)
            self.dims.update(dict.fromkeys(self._both("dims", numbers, names), spec))
        both = self.static & self.donated
        if both:
            raise PlanishError.at_caller(
                f"{self.name}: {self.label(next(iter(both)))} is both static and donated"
            )

    def takes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the function can be called so, as far as it tells."""
        try:
            inspect.Signature(self.parameters).bind(*args, **kwargs)
        except TypeError:
            return not self.parameters
        return True

    def label(self, which: int | str) -> str:
        """What an argument is called."""
        if isinstance(which, int) and which < len(self.positional):
            which = self.positional[which]
        return which if isinstance(which, str) else f"#{which}"

    def _both(
        self, what: str, numbers: int | Sequence[int], names: str | Sequence[str]
    ) -> frozenset[int | str]:
        """Positions and names, each of them both ways as far as the function tells."""
        arguments: set[int | str] = set()
        for number in (numbers,) if isinstance(numbers, int) else tuple(numbers):
            at = number + len(self.positional) if number < 0 else number
            if at < 0 or (not self.open_positions and at >= len(self.positional)):
                raise PlanishError.at_caller(
                    f"{what}_argnums: {self.name} has no positional argument {number}",
                    f"it has {', '.join(self.positional) or 'none'}",
                )
            arguments.add(at)
            if at < len(self.positional):
                arguments.add(self.positional[at])
        known = [p.name for p in self.parameters]
        for name in (names,) if isinstance(names, str) else tuple(names):
            if name not in known and not self.open_names:
                close = did_you_mean(name, known)
                hint = "" if close is None else f"did you mean {close!r}? "
                raise PlanishError.at_caller(
                    f"{what}: {self.name} has no argument {name!r}",
                    f"{hint}it has {', '.join(known) or 'none'}",
                )
            arguments.add(name)
            if name in self.positional:
                arguments.add(self.positional.index(name))
        return frozenset(arguments)

    # -- taking a call apart ---------------------------------------------------------------------------------

    def apart(self, args: Sequence[Any], kwargs: Mapping[str, Any], settings: int) -> CallParts:
        """A call as leaves and a key."""
        static: dict[int | str, Any] = {}
        given: list[Any] = []
        specs: list[DimSpec] = []
        prefixes: list[str] = []
        for position, value in enumerate(args):
            if position in self.static:
                static[position] = value
            else:
                given.append(value)
                specs.append(self.dims.get(position))
                prefixes.append(self.label(position))
        named: dict[str, Any] = {}
        for name in sorted(kwargs):
            if name in self.static:
                static[name] = kwargs[name]
            else:
                named[name] = kwargs[name]
        specs += [self.dims.get(name) for name in named]
        prefixes += list(named)
        given_leaves, structure = tree.flatten((tuple(given), named))
        leaves = [_taken_over(leaf) if is_foreign(type(leaf)) else leaf for leaf in given_leaves]
        arguments = [*structure.children[0].children, *structure.children[1].children]
        names = [
            name for prefix, part in zip(prefixes, arguments, strict=True) for name in paths(part, prefix)
        ]
        axes: list[Axes | None] = []
        for part, spec, prefix in zip(arguments, specs, prefixes, strict=True):
            axes += self._axes(part, spec, prefix)
        described = tuple(
            [self._leaf(x, name, spec) for x, name, spec in zip(leaves, names, axes, strict=True)]
        )
        values = tuple([(which, type(value), self._hashed(which, value)) for which, value in static.items()])
        key = CallKey(structure, described, values, settings)
        return CallParts(key, leaves, [type(leaf) for leaf in given_leaves], names, static, len(args))

    def donates(self, call: CallParts) -> list[int]:
        """The numbers of the leaves whose memory may be overwritten."""
        if not self.donated:
            return []
        given, named = call.key.structure.children
        positions = [p for p in range(call.count) if p not in self.static]
        names = named.about if isinstance(named.about, tuple) else ()
        parts = zip([*positions, *names], [*given.children, *named.children], strict=True)
        lent: list[int] = []
        number = 0
        for which, part in parts:
            if which in self.donated:
                lent += [n for n in range(number, number + part.leaves) if call.key.leaves[n].python is None]
            number += part.leaves
        return lent

    def together(self, structure: Structure, leaves: Sequence[Any], static: Mapping[int | str, Any]) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
        """The arguments of a call with other leaves."""
        given, named = tree.unflatten(structure, leaves)
        rest = iter(given)
        count = len(given) + sum(isinstance(which, int) for which in static)
        args = [static[p] if p in static else next(rest) for p in range(count)]
        return args, {**named, **{name: value for name, value in static.items() if isinstance(name, str)}}

    def _hashed(self, which: int | str, value: Any) -> Hashable:
        try:
            hash(value)
        except TypeError:
            is_array = isinstance(value, Tensor | np.ndarray)
            shown = f"an array of shape {value.shape}" if is_array else repr(value)
            raise DTypeError.at_caller(
                f"{self.name}: static argument {self.label(which)} cannot be hashed: {shown}",
                (
                    "take int(x) or tuple(x.tolist())"
                    if is_array
                    else "pass a tuple instead of a list, of pairs instead of a dict"
                )
                + ", or make it a dynamic argument",
            ) from None
        hashable: Hashable = value
        return hashable

    def _leaf(self, x: Any, name: str, axes: Axes | None) -> LeafType:
        if isinstance(x, Tensor):
            leaf = LeafType(x._type, None, x._device)
        elif isinstance(x, TensorSpec):
            leaf = LeafType(x.type)
        elif type(x) in _WEAK:
            return LeafType(tensor_type(_WEAK[type(x)], ()), type(x))
        elif isinstance(x, np.ndarray | np.generic):
            native = x.dtype if x.dtype.isnative else x.dtype.newbyteorder("=")
            leaf = LeafType(tensor_type(dtypes.from_numpy(native), x.shape))
        else:
            raise DTypeError.at_caller(
                f"{self.name}: argument {name} is neither a tensor nor a number: {x!r}",
                f"convert it with planish.asarray, or make it static: static_argnames={name.split('[', maxsplit=1)[0].split('.', maxsplit=1)[0]!r}",
            )
        return leaf if axes is None else LeafType(self._named(leaf.type, name, axes), None, leaf.device)

    def _named(self, type: TensorType, name: str, axes: Axes) -> TensorType:
        """A type whose sizes have the names that the axes give them."""
        spread = tuple(axes)
        if ... in spread:
            at = spread.index(...)
            spread = (*spread[:at], *[None] * (len(type.dims) - len(spread) + 1), *spread[at + 1 :])
        if len(spread) != len(type.dims):
            raise ShapeError.at_caller(
                f"{self.name}: argument {name} has {len(type.dims)} axes ({type}), dims names {len(spread)}"
            )
        dims = list(type.dims)
        for axis, (size, wanted) in enumerate(zip(type.dims, spread, strict=True)):
            if isinstance(wanted, Dim):
                if isinstance(size, int) and not wanted.lo <= size <= wanted.hi:
                    raise ShapeError.at_caller(
                        f"{self.name}: axis {axis} of argument {name} has size {size}, outside of {wanted.declaration}",
                        "widen the bounds of the Dim, or pass a tensor within them",
                    )
                dims[axis] = wanted
            elif isinstance(wanted, int) and size != wanted:
                raise ShapeError.at_caller(
                    f"{self.name}: axis {axis} of argument {name} has size {size}, not {wanted}"
                )
        return interned(TensorType(type.dtype, tuple(dims), type.quant))

    def _axes(self, part: Structure, spec: DimSpec, name: str) -> Iterator[Axes | None]:
        """For each leaf, what `dims` says about it."""
        plain = isinstance(spec, tuple) and all(
            item is None or item is ... or isinstance(item, Dim | int) for item in spec
        )
        if spec is None or part.kind is None or plain:
            if spec is not None and not plain:
                raise PlanishError.at_caller(
                    f"{self.name}: dims of {name} is {spec!r}",
                    "give a tuple with one Dim, size or None per axis",
                )
            yield from [spec] * part.leaves
            return
        items = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec))
        for key, (child, step) in zip(_keys(part), steps_of(part), strict=True):
            yield from self._axes(child, items.get(key), name + step)


def _keys(part: Structure) -> list[Any]:
    if part.kind is not None and issubclass(part.kind, tuple | list):
        return list(range(len(part.children)))
    if isinstance(part.about, tree.Fields):
        return list(part.about.names)
    return list(part.about) if isinstance(part.about, tuple) else list(range(len(part.children)))


def steps_of(part: Structure) -> list[tuple[Structure, str]]:
    """The children of a container, each with how one gets there in Python."""
    kind, about = part.kind, part.about
    names = getattr(kind, "_fields", None) or getattr(about, "names", None)
    if kind is not None and issubclass(kind, dict) and isinstance(about, tuple):
        return [(child, f"[{key!r}]") for key, child in zip(about, part.children, strict=True)]
    if names is None and isinstance(about, tuple) and len(about) == len(part.children):
        names = about if all(isinstance(name, str) for name in about) else None
    if names is not None and len(names) == len(part.children):
        return [(child, f".{name}") for name, child in zip(names, part.children, strict=True)]
    return [(child, f"[{number}]") for number, child in enumerate(part.children)]


def paths(part: Structure, prefix: str) -> Iterator[str]:
    """What each leaf of a tree is called, given what the tree is called."""
    if part.kind is None:
        yield prefix
        return
    for child, step in steps_of(part):
        yield from paths(child, prefix + step)


def difference(old: CallParts, new: CallParts, label: Callable[[int | str], str]) -> list[str]:
    """What changed between two calls, in words."""
    changes: list[str] = []
    before, now = old.key, new.key
    if before.structure != now.structure:
        changes.append(_structures(old, new))
    else:
        for name, was, leaf in zip(new.names, before.leaves, now.leaves, strict=True):
            if was != leaf:
                changes.append(f"argument {name}: {leaf}, was {was}")
    was_static = {which: value for which, _, value in before.static}
    for which, _, value in now.static:
        if which not in was_static:
            changes.append(f"static argument {label(which)}: given, was not")
        elif (type(value), value) != (type(was_static[which]), was_static[which]):
            changes.append(f"static argument {label(which)}: {value!r}, was {was_static[which]!r}")
    if len(before.static) > len(now.static):
        changes.append("a static argument: not given, was")
    if before.settings != now.settings:
        changes.append("settings: changed")
    return changes


def _structures(old: CallParts, new: CallParts) -> str:
    was, now = set(old.names), set(new.names)
    more, less = sorted(now - was), sorted(was - now)
    parts = [f"{', '.join(more)} {'is' if len(more) == 1 else 'are'} new"] if more else []
    parts += [f"{', '.join(less)} {'is' if len(less) == 1 else 'are'} gone"] if less else []
    if not parts:
        # the positional arguments, then those by name
        for before, after, place in zip(
            old.key.structure.children, new.key.structure.children, ("positional", "named"), strict=True
        ):
            if before != after:
                parts.append(_containers(before, after, f"{place} arguments"))
                break
    return f"structure of the arguments: {'; '.join(parts)}"


def _containers(old: Structure, new: Structure, path: str) -> str:
    """Where two trees with the same leaves differ."""
    while True:
        if old.kind is not new.kind:
            return f"{path} is {new}, was {old}"
        for number, (before, after) in enumerate(zip(old.children, new.children, strict=False)):
            if before != after:
                old, new, path = before, after, path + steps_of(new)[number][1]
                break
        else:
            return f"{path} ({new}) changed in {_changed(old.about, new.about)}"


def _changed(old: object, new: object) -> str:
    """What else than its children tells a container apart, before and after."""
    before, after = getattr(old, "static", old), getattr(new, "static", new)
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        pairs = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        return ", ".join(f"{b!r}, was {a!r}" for a, b in pairs)
    return f"{after!r}, was {before!r}"


def known(leaf: Any) -> bool:
    """Whether a leaf can be passed: it has data, or data can be computed."""
    if isinstance(leaf, Tensor):
        return not isinstance(leaf._value, Parameter)
    return not isinstance(leaf, TensorSpec)


def _taken_over(leaf: Any) -> Tensor:
    return borrowed("jit", leaf)


@cache
def _at_once() -> Callable[[Any], Any]:
    return accelerator("cuda").at_once  # who has no GPU does not wait for it


def storage_of(leaf: Any) -> Storage:
    """The elements of an array of another library, in place."""
    if getattr(leaf, "is_cuda", False):
        storage: Storage | None = _at_once()(leaf)
        if storage is not None:
            return storage
    return cast("Storage", _taken_over(leaf)._value.storage)


def array_of(leaf: Any, described: LeafType) -> np.ndarray[Any, Any]:
    """The data of a leaf that is no tensor."""
    try:
        return np.asarray(leaf, described.type.dtype.numpy)
    except OverflowError:
        raise GraphError.at_caller(
            f"the number {leaf!r} does not fit into {described.type.dtype.name}"
        ) from None
