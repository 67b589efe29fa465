"""Tapes on disk: a model that was run before, by this version on this processor, is run again without being imported.

The key is the model's bytes, the types of its inputs and whatever else code follows from. An entry is plain data: which compiled
functions are called, each under its key in the compilation cache, with which inputs, results and weights, and where data decides
the way. Weights that lie in the model are named, not copied, with the layout in which they are read; what was computed of them is in
the entry. A tape with steps that only
this process can do (fresh random numbers) is not kept, nor one of a model that reads text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from planish import dtypes
from planish.compiler import compilation_cache, plan_json
from planish.compiler.arguments import Arguments
from planish.compiler.compilation_cache import disk_cache, key_of
from planish.errors import PlanishError
from planish.onnx.host_call import HostCall
from planish.onnx.tape import Call, End, Tape, TapeStep
from planish.onnx.weight_layouts import AS_IT_IS, WeightLayouts
from planish.records import dataclass

if TYPE_CHECKING:
    from planish import ptir
    from planish.ptir.types import TensorType

Array = NDArray[Any]
_MOST: Final = 256 << 20
"""Bytes that an entry may have."""
_KINDS: Final = {
    "keys": "tuple[str, ...]",
    "names": "tuple[str, ...]",
    "params": "tuple[tuple[TensorType, ...], ...]",
    "results": "tuple[tuple[TensorType, ...], ...]",
    "data": "tuple[Array, ...]",
    "shapes": "tuple[tuple[int, ...], ...]",
    "weights": "tuple[str, ...]",
    "layouts": "tuple[str, ...]",
    "offsets": "tuple[int, ...]",
    "kinds": "tuple[DType, ...]",
}


class Unkept(Exception):
    """A tape that has no plain form."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A compiled function without its body, and its key in the compilation cache."""

    key: str
    name: str
    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    @staticmethod
    def of(function: ptir.Function, text: str) -> Signature:
        """Of a function that `compile` has compiled, and that prints so."""
        where = compilation_cache.standard_key(text)
        return Signature(where, function.name, function.param_types, function.result_types)


@dataclass(frozen=True, slots=True)
class KeptTape:
    """A tape that was kept, and the functions that it calls, by the ids of their calls."""

    tape: Tape
    functions: dict[int, Signature]


def digest_of(parts: Sequence[Any]) -> str:
    """Of the bytes of a model."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()


def key_for(digest: str, *said: object) -> str:
    """Under which a tape is kept."""
    return key_of("onnx tape", digest, repr(said), compilation_cache.surroundings())


def save(
    where: str,
    tape: Tape,
    functions: Mapping[int, Signature],
    initial: Mapping[str, Array],
    layouts: WeightLayouts,
) -> bool:
    """Keep a tape; `functions` are those that were compiled, by the ids of their calls. Whether it could be."""
    cache = disk_cache()
    if not cache.usable:
        return False
    try:
        data = _TapeWriter(functions, initial, layouts).pack(tape)
    except (Unkept, plan_json.Malformed):
        return False
    cache.put(where, data)
    return True


class _TapeWriter:
    def __init__(
        self, functions: Mapping[int, Signature], initial: Mapping[str, Array], layouts: WeightLayouts
    ) -> None:
        self.functions = functions
        self.layouts = layouts
        self.initial = sorted(
            (array.ctypes.data, array.nbytes, name) for name, array in initial.items() if array.nbytes
        )
        self.calls: dict[int, int] = {}
        self.arrays: dict[int, tuple[int, Array]] = {}
        self.nodes: list[object] = []
        self.size = 0

    def pack(self, tape: Tape) -> bytes:
        first = self.edges(tape.first)
        chosen = [self.functions[call] for call in self.calls]
        sources = [self.origin(array) for _, array in self.arrays.values()]
        arrays = [array for array, _ in sources]
        places = [self.place(array) for array in arrays]
        if sum(a.nbytes for a, (name, _) in zip(arrays, places, strict=True) if not name) > _MOST:
            raise Unkept
        values: dict[str, Any] = {
            "keys": tuple(function.key for function in chosen),
            "names": tuple(function.name for function in chosen),
            "params": tuple(function.params for function in chosen),
            "results": tuple(function.results for function in chosen),
            "data": tuple(a for a, (name, _) in zip(arrays, places, strict=True) if not name),
            "shapes": tuple(array.shape for array in arrays),
            "weights": tuple(name for name, _ in places),
            "layouts": tuple(layout for _, layout in sources),
            "offsets": tuple(offset for _, offset in places),
            "kinds": tuple(_dtype(array) for array in arrays),
        }
        return plan_json.pack(
            {name: (kind, values[name]) for name, kind in _KINDS.items()}, [first, self.nodes]
        )

    def origin(self, array: Array) -> tuple[Array, str]:
        """A weight of the model that an array is another layout of, and the layout; else the array."""
        source, layout = self.layouts.source(array)
        return (source, layout) if self.place(source)[0] else (array, AS_IT_IS)

    def place(self, array: Array) -> tuple[str, int]:
        """The weight of the model that an array is, or is a part of, and where it begins there; no name if it is none."""
        if not array.flags.c_contiguous or not array.nbytes:
            return "", 0
        start = array.ctypes.data
        for begin, size, name in self.initial:
            if begin <= start and start + array.nbytes <= begin + size:
                return name, start - begin
        return "", 0

    def edges(self, after: Mapping[Hashable, TapeStep | End]) -> list[object]:
        return [[_written(key), self.node(step)] for key, step in after.items()]

    def node(self, step: TapeStep | End) -> int:
        place = len(self.nodes)
        self.nodes.append(None)
        # a tape is a chain with few branches: what follows is written first, by a loop where there is one way
        chain: list[tuple[int, TapeStep]] = []
        while isinstance(step, TapeStep) and len(step.after) == 1:
            chain.append((place, step))
            ((_, step),) = step.after.items()
            place = len(self.nodes)
            self.nodes.append(None)
        self.nodes[place] = self.one(step)
        for number, each in reversed(chain):
            ((key, _),) = each.after.items()
            self.nodes[number] = [*self.head(each), [[_written(key), place]]]
            place = number
        return place

    def one(self, step: TapeStep | End) -> object:
        if isinstance(step, End):
            return ["end", [self.shape(value) for value in step.outputs]]
        return [*self.head(step), self.edges(step.after)]

    def head(self, step: TapeStep) -> list[object]:
        number: object = None
        if isinstance(step.call, HostCall):
            number = self.host(step.call)
        elif step.call is not None:
            if id(step.call) not in self.functions:
                raise Unkept
            number = self.calls.setdefault(id(step.call), len(self.calls))
        return ["step", number, [self.source(value) for value in step.arguments], step.is_static]

    @staticmethod
    def host(call: HostCall) -> list[object]:
        """An op of the host: its node and what it is given."""
        node = base64.b64encode(call.node.SerializeToString()).decode()
        return [node, call.version, list(call.places)]

    def source(self, value: Any) -> object:
        return value if isinstance(value, int) else [self.array(value)]

    def array(self, value: Array) -> int:
        _dtype(value)
        return self.arrays.setdefault(id(value), (len(self.arrays), value))[0]

    def shape(self, value: Any) -> object:
        if isinstance(value, list):
            return {"list": [self.shape(item) for item in value]}
        return value if value is None or isinstance(value, int) else [self.array(value)]


def _dtype(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise Unkept
    try:
        return dtypes.from_numpy(array.dtype)
    except (PlanishError, TypeError):
        raise Unkept from None


def _written(key: Hashable) -> object:
    """The values or shapes that lead to a step."""
    if not isinstance(key, tuple):
        raise Unkept
    return [
        [kind, list(shape), *(base64.b64encode(raw).decode() for raw in rest)] for kind, shape, *rest in key
    ]


def _read_key(told: Any) -> Hashable:
    return tuple(
        (kind, tuple(map(_read_size, shape)), *(base64.b64decode(raw) for raw in rest))
        for kind, shape, *rest in told
    )


def _read_size(told: Any) -> Hashable:
    """A number, or a name with its bounds."""
    if not isinstance(told, list):
        return int(told)
    name, low, high = told
    return str(name), int(low), int(high)


def load(where: str, initial: Mapping[str, Array], layouts: WeightLayouts) -> KeptTape | None:
    """A tape that was kept; None if there is none, or a part of it is gone."""
    raw = disk_cache().get(where)
    if raw is None:
        return None
    try:
        values, later = plan_json.unpack(raw, _KINDS)
        first, nodes = json.loads(later)
        functions: dict[int, Signature] = {}
        calls: list[Call] = []
        for told in zip(*(values[name] for name in ("keys", "names", "params", "results")), strict=True):
            function = Signature(*told)
            call = compilation_cache.revive(
                function.key, Arguments.named(function.name, function.params, function.results)
            )
            if call is None:
                return None
            functions[id(call)] = function
            calls.append(call)
        return KeptTape(_TapeReader(nodes, calls, _arrays(values, initial, layouts)).tape(first), functions)
    except (plan_json.Malformed, ValueError, KeyError, IndexError, TypeError):
        return None  # an entry of another make: the model is imported again


def _arrays(values: Mapping[str, Any], initial: Mapping[str, Array], layouts: WeightLayouts) -> list[Array]:
    kept = iter(values["data"])
    arrays: list[Array] = []
    for shape, name, offset, kind, layout in zip(
        *(values[n] for n in ("shapes", "weights", "offsets", "kinds", "layouts")), strict=True
    ):
        array = _part(initial[name], offset, shape, kind.numpy) if name else next(kept).reshape(shape)
        arrays.append(layouts.of(layouts.part(array), layout) if layout else array)
    return arrays


def _part(weight: Array, offset: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """A weight of the model, or what it holds from a byte on."""
    if offset == 0 and weight.shape == shape and weight.dtype == dtype:
        return weight
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    whole = weight.reshape(-1).view(np.uint8)
    return np.asarray(whole[offset : offset + size].view(dtype).reshape(shape))


class _TapeReader:
    def __init__(self, nodes: list[Any], calls: Sequence[Call], arrays: Sequence[Array]) -> None:
        self.nodes, self.calls, self.arrays = nodes, calls, arrays

    def tape(self, first: Any) -> Tape:
        steps: list[TapeStep | End] = []
        for node in self.nodes:
            if node[0] == "end":
                steps.append(End(tuple(self.shape(value) for value in node[1])))
                continue
            _, number, arguments, is_static, _ = node
            sources = tuple(v if type(v) is int else self.arrays[v[0]] for v in arguments)
            steps.append(TapeStep(self.call(number), sources, bool(is_static)))
        for node, step in zip(self.nodes, steps, strict=True):
            if isinstance(step, TapeStep):
                step.after.update((_read_key(key), steps[place]) for key, place in node[4])
        return Tape({_read_key(key): steps[place] for key, place in first}, len(steps))

    def call(self, told: Any) -> Call | None:
        if not isinstance(told, list):
            return None if told is None else self.calls[told]
        raw, version, places = told
        return HostCall(NodeProto.FromString(base64.b64decode(raw)), int(version), [int(n) for n in places])

    def shape(self, value: Any) -> Any:
        if isinstance(value, dict):
            return [self.shape(item) for item in value["list"]]
        return value if value is None or type(value) is int else self.arrays[value[0]]


__all__ = ["digest_of", "key_for", "load", "save"]
