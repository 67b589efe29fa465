"""One entry of the cache of a compiled function: how it is made for a call, and how it is run.

A call is traced into PTIR and compiled; the entry then takes arrays to tensors. Donated arguments are handled here: their memory is
given away only if nobody else can see it, and their names say so afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from planish import compiler, ptir
from planish.compiler import Executable, placement
from planish.compiler.placement import PlacedExecutable, has_copies
from planish.config import Settings
from planish.dtypes import DType, result_type
from planish.errors import DTypeError, GraphError, Location, PlanishError
from planish.frontend import execute, tree
from planish.frontend.arguments import CallParts, CallSignature, TensorSpec, array_of, paths
from planish.frontend.capture import capture_body
from planish.frontend.devices import CPU, DEVICES, INTERPRETER, Device, Runnable, running
from planish.frontend.expression import Donated, LazyValue, Parameter, TracedBody
from planish.frontend.matching import MISSED, CallWork, Match, Short, builder, computed, matcher, shortcut
from planish.frontend.session import evaluate, tensor_type, tracing
from planish.frontend.storage import Storage, overwritable
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import cast_to, constant, from_data
from planish.frontend.tensor.weak import WeakTensor
from planish.frontend.tree import Structure
from planish.ptir.ops.convert import CastAttrs
from planish.ptir.types import TensorType
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.ptir.passes import Passes


# --- tracing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """A function captured for one key."""

    call: CallParts
    function: ptir.Function
    captured: tuple[LazyValue, ...]
    """Values from outside that it uses, its last parameters."""
    structure: Structure
    """Of what it returns."""
    order: tuple[int, ...]
    """Which result each leaf of that is."""
    donated: tuple[int, ...]


def trace_call(signature: CallSignature, function: Callable[..., Any], call: CallParts) -> CapturedCall:
    order: list[int] = []
    with tracing("jit") as scope:
        leaves = call.key.leaves
        params = [
            Parameter.new(leaf.type, scope, f"argument {name}")
            for leaf, name in zip(leaves, call.names, strict=True)
        ]
        given = [
            Tensor(param) if leaf.python is None else WeakTensor.of(Tensor(param), leaf.python)
            for leaf, param in zip(leaves, params, strict=True)
        ]
        args, kwargs = signature.together(call.key.structure, given, call.static)
        returned = function(*args, **kwargs)
        outputs, structure = tree.flatten(returned)
        results: dict[LazyValue, int] = {}
        for leaf, name in zip(outputs, paths(structure, "result"), strict=True):
            value = _returned(leaf, name, signature.name)._value
            order.append(results.setdefault(value, len(results)))
        if scope.token is not None:
            results.setdefault(scope.token, len(results))  # nobody sees it, and it happens
    body = TracedBody(scope, params, list(results))
    evaluate([value for value in body.free if value.storage is None])
    captured, free = capture_body(body, _identifier(signature.name), names=_identifiers(call.names))
    donated = tuple(signature.donates(call))
    # what it was called with is not kept alive
    call = replace(call, leaves=[])
    return CapturedCall(call, captured, free, structure, tuple(order), donated)


def _taken_by_numbers(traced: CapturedCall) -> dict[int, tuple[DType, ...]]:
    """By the number of a leaf that is a Python integer: the dtypes that it takes where it is used."""
    leaves, params = traced.call.key.leaves, traced.function.params
    return {
        number: (
            leaf.type.dtype,
            *(a.dtype for user in param.users if isinstance(a := user.attrs, CastAttrs) and a.dtype.is_int),
        )
        for number, (leaf, param) in enumerate(zip(leaves, params, strict=False))
        if leaf.python is int
    }


def _returned(leaf: Any, name: str, function: str) -> Tensor:
    if isinstance(leaf, WeakTensor):
        return cast_to(leaf, result_type(leaf._weak))
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, bool | int | float | complex):
        return constant(leaf, result_type(leaf))
    if isinstance(leaf, np.ndarray | np.generic):
        return from_data(np.array(leaf))
    raise DTypeError.of(
        "jit",
        f"{function} returned {leaf!r} as {name}, which is neither a tensor nor a number",
        "return tensors in tuples, lists, dicts and dataclasses; keep the rest outside",
    )


def _identifier(name: str) -> str:
    """A name as PTIR takes it: `params['w'][0]` is params_w_0."""
    identifier = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return identifier if identifier[:1].isalpha() else f"f{identifier}"


def _identifiers(names: Sequence[str]) -> list[str]:
    """Such names, all of them different."""
    identifiers: dict[str, None] = {}
    for name in map(_identifier, names):
        # x0, x1 … are what comes from outside
        taken = name in identifiers or re.fullmatch(r"x\d+", name)
        identifiers[f"{name}_{len(identifiers)}" if taken else name] = None
    return list(identifiers)


def host_among(devices: Iterable[str | None]) -> str | None:
    """What results in the host's memory are tied to, by the devices of arguments: the first that is the host, by whatever name."""
    return next((device for device in devices if device in DEVICES), None)


# --- entries ------------------------------------------------------------------------------------------------


class CacheEntry:
    """The code for one key."""

    def __init__(self, traced: CapturedCall, settings: Settings, run: Runnable, place: Device) -> None:
        self.traced = traced
        self.settings = settings
        self.exe = run if isinstance(run, Executable) else None
        self.call = run
        self.place = place
        self.placed = run if isinstance(run, PlacedExecutable) else None
        self.moved: Callable[[Storage], Storage] = place.moved if self.placed is None else _where_it_is
        self.captured = [self.moved(cast("Storage", value.storage)) for value in traced.captured]
        self.donated = traced.donated
        self.taken = _taken_by_numbers(traced)
        self.count = len(traced.call.key.leaves)
        described = traced.call.key.leaves
        self.device = host_among(leaf.device for leaf in described) if place.is_host else place.name
        self.types: list[TensorType | None] = [
            tensor_type(type.dtype, type.dims) if type.is_static else None
            for type in traced.function.result_types
        ]
        self.dtypes = [type.dtype for type in traced.function.result_types]
        self.build = builder(traced.structure, traced.order)
        self.match: Match | None = None
        self.short: Short | None = None
        """A whole call with arguments like the expected ones; where some are donated, `match` and `run`. Written when it is first wanted."""
        self.has_short_way = False
        """Whether calls can be compared with what is expected."""
        self.expect(traced.call)

    def expect(self, call: CallParts) -> None:
        """Take the short way for calls like this one. Types are compared by identity there."""
        self.match = self.short = None
        self.has_short_way = self.placed is None and not any(issubclass(k, TensorSpec) for k in call.kinds)
        self._like = call.key.structure, call.key.leaves, call.kinds, call.static
        self.expected = list(zip([leaf.type for leaf in call.key.leaves], call.kinds, strict=True))

    def _write_short_way(self) -> None:
        """When a call comes that may be like the expected one: many functions are called once."""
        if self.donated:
            self.match = matcher(*self._like, self.place, self.taken, self.donated)
            return
        traced = self.traced
        work = CallWork(
            self.call, self.exe, self.captured, traced.function.result_types, traced.structure, traced.order, self.device,
            self.place, _explained,
        )  # fmt: skip
        self.short = shortcut(*self._like, self.taken, work)

    def expects(self, call: CallParts) -> bool:
        """Whether the short way would have taken it, but for tensors that wait."""
        return all(
            leaf.type is type and given is kind
            for leaf, given, (type, kind) in zip(call.key.leaves, call.kinds, self.expected, strict=True)
        )

    def arrays(self, call: CallParts) -> list[Any]:
        """The data of a call whose tensors have theirs; a number that does not fit where it is used is refused, as it is outside."""
        for number, dtypes in self.taken.items():
            for dtype in dtypes:
                try:
                    dtype.const(call.leaves[number])
                except DTypeError as error:
                    raise DTypeError(
                        f"argument {call.names[number]}: {error.message}",
                        location=Location.caller(),
                        remedy=f"{error.remedy}, or pass a tensor",
                    ) from None
        return [
            leaf._value.storage if isinstance(leaf, Tensor) else array_of(leaf, described)
            for leaf, described in zip(call.leaves, self.traced.call.key.leaves, strict=True)
        ]

    def attempt(self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Any:
        """The result of a call if it is an expected one, else MISSED."""
        if self.short is None and self.match is None and self.has_short_way:
            self._write_short_way()
        if self.short is not None:
            return self.short(args, kwargs, settings)
        arrays = None if self.match is None else self.match(args, kwargs)
        return MISSED if arrays is None else self.run(arrays)

    def run(self, arrays: list[Any]) -> Any:
        """A call with arrays, behind them the donated tensors."""
        if self.donated:
            return self._donating(arrays)
        try:
            storages = self.call(*map(self.moved, arrays), *self.captured)
        except (MemoryError, PlanishError) as error:
            raise _explained(self.exe, error) from error.__cause__
        return self._results(storages)

    def _results(self, storages: Sequence[Storage]) -> Any:
        results: list[Tensor] = []
        for number, storage in enumerate(storages):
            type = self.types[number]
            told = tensor_type(self.dtypes[number], storage.shape) if type is None else type
            results.append(computed(told, storage, self._device_of(number)))
        return self.build(results)

    def _device_of(self, number: int) -> str | None:
        """Where a result lies; on the host it is tied to it only if something else is."""
        device = self.device if self.placed is None else self.placed.devices[number]
        return self.device if device == CPU and self.place.is_host else device

    def _donating(self, given: list[Any]) -> Any:
        arrays, tensors = given[: self.count], given[self.count :]
        del given
        for number, tensor in zip(self.donated, tensors, strict=True):
            arrays[number] = lent(arrays, number, tensor)
        try:
            storages = self.call(*map(self.moved, arrays), *self.captured)
        except (MemoryError, PlanishError) as error:
            raise _explained(self.exe, error) from error.__cause__
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                tensor._value = Donated.instead(tensor._value)
        return self._results(storages)


def _explained(exe: Executable | None, error: MemoryError | PlanishError) -> BaseException:
    """An error of a call, at the user's line."""
    if isinstance(error, MemoryError) and exe is not None:
        return execute.out_of_memory(exe, error)
    if isinstance(error, PlanishError):
        error.location = error.location or Location.caller()
    return error


def lent(arrays: list[Any], number: int, tensor: Any) -> Storage:
    """Memory that may be overwritten: the donated one itself if nobody else can see it, else a copy."""
    storage: Storage = arrays[number]
    if (
        not isinstance(tensor, Tensor)
        or tensor._value.shared
        or sum(other is storage for other in arrays) > 1
        or not overwritable(storage)
    ):
        return storage.copy()
    return storage


def prepared(
    traced: CapturedCall, settings: Settings, device: str, passes: Passes = compiler.PIPELINE
) -> CacheEntry:
    place = running(device, settings)
    try:
        run = _compiled(traced, place, passes)
    except MemoryError as error:
        raise GraphError.at_caller("out of memory while compiling") from error
    return CacheEntry(traced, settings, run, place)


def _compiled(traced: CapturedCall, place: Device, passes: Passes) -> Runnable:
    if place.name == INTERPRETER or not has_copies(traced.function):
        return place.compile(traced.function, passes, traced.donated)
    given = [leaf.device for leaf in traced.call.key.leaves]
    given += [value.device for value in traced.captured]
    return placement.compiled(traced.function, passes, place.name, given, traced.donated)


def _where_it_is(storage: Storage) -> Storage:
    return storage
