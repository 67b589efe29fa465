"""Control flow: cond, while, scan with regions that see outer values; call and custom_call.

Only the shape of control is here; running regions and finding callees is the interpreter's part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from planish.errors import GraphError
from planish.ptir.ops import checking
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import BOOL, shape_error, show
from planish.ptir.ops.literal import Array
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class ScanAttrs(d.Attrs):
    """How many operands are carried, how many steps there are, and from which end."""

    num_carries: int
    length: DimLike
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class CallAttrs(d.Attrs):
    """The name of a function of the same program and its result types in the caller's terms."""

    callee: str
    results: tuple[TensorType, ...]


ConfigValue: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class CustomCallAttrs(d.Attrs):
    """A registered function by name and version, its result types, and constants it is given."""

    target: str
    results: tuple[TensorType, ...]
    version: int = 1
    config: tuple[tuple[str, ConfigValue], ...] = ()

    @property
    def effect(self) -> bool:
        """Whether it does something besides: then its last operand and result are tokens, which keep it in its place."""
        return ("effect", True) in self.config


def _need_types(op: str, what: str, given: Sequence[TensorType], wanted: Sequence[TensorType]) -> None:
    if tuple(given) != tuple(wanted):
        shape_error(op, f"{what} are {show(given)}, not {show(wanted)}")


# --- cond and while ---------------------------------------------------------------------------------------


def _evaluate_cond(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types, call: d.RegionCall) -> d.Results:
    return call(0 if bool(arrays[0]) else 1, ())


@d.op(
    d.OpKey.COND, evaluate=_evaluate_cond, num_results=None, num_regions=2, foldable=False, way=d.Way.CONTROL
)
def cond(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    """The results of the first region if the predicate is True, else of the second."""
    checking.need_scalar("cond", types[0], BOOL, "the predicate")
    chosen, other = regions
    _need_types("cond", "arguments of the regions", (*chosen.arg_types, *other.arg_types), ())
    _need_types("cond", "results of the second region", other.result_types, chosen.result_types)
    return chosen.result_types


def _evaluate_while(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types, call: d.RegionCall) -> d.Results:
    carried = tuple(arrays)
    while bool(call(0, carried)[0]):
        carried = call(1, carried)
    return carried


@d.op(
    d.OpKey.WHILE,
    arity=(1, None),
    evaluate=_evaluate_while,
    num_results=None,
    num_regions=2,
    foldable=False,
    way=d.Way.CONTROL,
)
def while_(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    """Carried values through the second region for as long as the first gives True."""
    condition, body = regions
    _need_types("while", "arguments of the condition", condition.arg_types, types)
    _need_types("while", "arguments of the body", body.arg_types, types)
    _need_types("while", "results of the body", body.result_types, types)
    if len(condition.result_types) != 1:
        shape_error("while", f"the condition gives {show(condition.result_types)}, not one bool")
    checking.need_scalar("while", condition.result_types[0], BOOL, "the condition")
    return tuple(types)


# --- scan -------------------------------------------------------------------------------------------------


def _evaluate_scan(arrays: d.Arrays, attrs: ScanAttrs, types: d.Types, call: d.RegionCall) -> d.Results:
    count = attrs.num_carries
    carried, sequences = tuple(arrays[:count]), arrays[count:]
    length = attrs.length if isinstance(attrs.length, int) else attrs.length.evaluate({})
    outputs: list[Array] = []
    for step in range(length):
        position = length - 1 - step if attrs.reverse else step
        produced = call(0, (*carried, *(np.asarray(sequence[position]) for sequence in sequences)))
        carried = produced[:count]
        if not outputs:
            outputs = [np.empty((length, *y.shape), y.dtype) for y in produced[count:]]
        for stack, output in zip(outputs, produced[count:], strict=True):
            stack[position] = output
    if length == 0:
        outputs = [np.empty(t.shape, t.dtype.numpy) for t in types[count:]]
    return (*carried, *outputs)


@d.op(
    d.OpKey.SCAN,
    arity=(0, None),
    evaluate=_evaluate_scan,
    num_results=None,
    num_regions=1,
    foldable=False,
    way=d.Way.CONTROL,
)
def scan(types: d.Types, attrs: ScanAttrs, regions: d.Regions) -> d.ResultTypes:
    """Carried values through a region once per slice of the sequences; its other results are stacked."""
    body = regions[0]
    count = attrs.num_carries
    if not 0 <= count <= len(types):
        shape_error("scan", f"num_carries is {count} with {len(types)} operands")
    if not checking.at_most(0, attrs.length):
        shape_error("scan", f"the length {attrs.length} may be negative")
    carries, sequences = types[:count], types[count:]
    slices: list[TensorType] = []
    for sequence in sequences:
        if not sequence.dims or sequence.dims[0] != attrs.length:
            shape_error("scan", f"{sequence} does not have {attrs.length} slices along axis 0")
        kept = {axis: axis - 1 for axis in range(1, sequence.rank)}
        slices.append(checking.keep_quant("scan", sequence, sequence.dims[1:], kept))
    _need_types("scan", "arguments of the body", body.arg_types, (*carries, *slices))
    _need_types("scan", "carried results of the body", body.result_types[:count], carries)
    stacked: list[TensorType] = []
    for output in body.result_types[count:]:
        shifted = {axis: axis + 1 for axis in range(output.rank)}
        stacked.append(checking.keep_quant("scan", output, (attrs.length, *output.dims), shifted))
    return (*carries, *stacked)


# --- calls ------------------------------------------------------------------------------------------------


call: Final = d.define(
    "call",
    d.OpKey.CALL,
    CallAttrs,
    arity=(0, None),
    infer=lambda types, attrs, regions: attrs.results,
    num_results=None,
    foldable=False,
    way=d.Way.CONTROL,
    doc="The results of another function of the program.",
)

CustomFunction: TypeAlias = Callable[[Sequence[Array], CustomCallAttrs], tuple[Array, ...]]
_CUSTOM: Final[dict[tuple[str, int], CustomFunction]] = {}


def register_custom_call(target: str, function: CustomFunction, version: int = 1) -> None:
    """Make `function` what `custom_call` runs for a target; it must be pure. Registering again replaces it."""
    _CUSTOM[target, version] = function


def find_custom_call(attrs: CustomCallAttrs) -> CustomFunction:
    """The registered function, or an error that names what is known."""
    function = _CUSTOM.get((attrs.target, attrs.version))
    if function is None:
        known = ", ".join(f"{name} v{version}" for name, version in sorted(_CUSTOM)) or "none"
        raise GraphError(
            f"no custom call {attrs.target!r} of version {attrs.version} is registered",
            op="custom_call",
            remedy=f"register_custom_call makes one known; registered: {known}",
        )
    return function


@d.op(
    d.OpKey.CUSTOM_CALL,
    arity=(0, None),
    evaluate=lambda arrays, attrs, types: find_custom_call(attrs)(arrays, attrs),
    num_results=None,
    foldable=False,
    way=d.Way.HOST,
)
def custom_call(types: d.Types, attrs: CustomCallAttrs, regions: d.Regions) -> d.ResultTypes:
    """A function registered under a name and version, outside the compiler's knowledge."""
    if not attrs.target:
        raise GraphError("a custom call needs a target", op="custom_call")
    return attrs.results
