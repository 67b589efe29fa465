"""The reference interpreter: runs any function on NumPy, one instruction after the other.

Slow and obvious on purpose: its results *are* the meaning of a program (docs/semantics.md). Inputs must have
exactly the declared dtypes; dynamic sizes are bound from the shapes of the inputs and checked against their
bounds; every result is checked against the inferred type.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from planish import dtypes
from planish.errors import DTypeError, GraphError, InternalError, OutOfMemoryError, PlanishError, ShapeError
from planish.ptir import trace
from planish.ptir.binding import learn
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.ops.control import CallAttrs, CustomCallAttrs, find_custom_call
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.ops.literal import Array
from planish.ptir.types import Dim, TensorType, substitute

# Calls nest on Python's stack; real programs nest a handful deep, so this many mean endless recursion.
_MAX_CALL_DEPTH = 100
_LARGEST = 1 << 63
Observer = Callable[[Inst, Sequence[Array], Sequence[Array]], None]


def interpret(
    function: Function | Program,
    inputs: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike] = (),
    program: Program | None = None,
    observer: Observer | None = None,
) -> tuple[Array, ...]:
    """The results of a function (or of a program's entry) for arrays given in order or by parameter name.

    `program` is where `call` finds its callees; without it a function may not call others. The `observer` is told of every
    instruction that ran, with what it was given and what it gave.
    """
    if isinstance(function, Program):
        program = function if program is None else program
        function = function.entry
    machine = Interpreter(program, observer)
    machine.check_runnable(function)
    arrays = [np.asarray(x) for x in in_order(function, inputs)]
    with trace.execution(
        Program([function]) if program is None else program,
        targets=[value.id for value in function.results],
        backend="interpreter",
    ):
        results = machine.run_function(function, arrays)
        try:
            return tuple(np.array(result) for result in results)  # some are views that repeat what they show
        except MemoryError:
            shown = ", ".join(map(str, function.result_types))
            raise OutOfMemoryError(f"out of memory: {shown}", remedy="smaller pieces") from None


def in_order(
    function: Function, inputs: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike]
) -> list[npt.ArrayLike]:
    """Inputs in the order of the parameters, given so or by name."""
    names = [param.name or f"parameter {i}" for i, param in enumerate(function.params)]
    if isinstance(inputs, Mapping):
        if set(inputs) != set(names) or len(names) != len(inputs):
            raise GraphError(f"{function.name} takes {', '.join(names)}, not {', '.join(inputs)}")
        return [inputs[name] for name in names]
    if len(inputs) != len(names):
        raise GraphError(
            f"{function.name} takes {len(names)} inputs ({', '.join(names) or 'none'}), not {len(inputs)}"
        )
    return list(inputs)


class Interpreter:
    """One run of a program: callees, and which functions were found runnable."""

    def __init__(self, program: Program | None, observer: Observer | None = None) -> None:
        self.program = program
        self.observer = observer
        self.depth = 0

    def check_runnable(self, function: Function) -> None:
        """Every callee and custom call must exist before anything runs."""
        seen: set[str] = set()
        pending = [function]
        while pending:
            for inst in pending.pop().walk():
                if isinstance(inst.attrs, CustomCallAttrs):
                    _find_custom(inst, inst.attrs)
                elif isinstance(inst.attrs, CallAttrs) and inst.attrs.callee not in seen:
                    seen.add(inst.attrs.callee)
                    pending.append(self.callee(inst, inst.attrs))

    def callee(self, inst: Inst, attrs: CallAttrs) -> Function:
        function = None if self.program is None else self.program.functions.get(attrs.callee)
        if function is None:
            raise GraphError(
                f"there is no function {attrs.callee!r} to call",
                op="call",
                location=inst.loc,
                remedy="pass the program that holds it to interpret",
            )
        return function

    def run_function(self, function: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        sizes: dict[str, int] = {}
        bind_all(function.params, arrays, sizes, f"input of {function.name}")
        return self.run_region(function.body, arrays, {}, sizes)

    def run_region(
        self, region: Region, arrays: Sequence[Array], values: dict[Value, Array], sizes: dict[str, int]
    ) -> tuple[Array, ...]:
        """Run to the end. `values` is shared with the regions around, which is how outer values are seen."""
        values.update(zip(region.args, arrays, strict=True))
        for inst in region:
            values.update(zip(inst.results, self.run_inst(inst, values, sizes), strict=True))
        return tuple(values[value] for value in region.results)

    def run_inst(self, inst: Inst, values: dict[Value, Array], sizes: dict[str, int]) -> tuple[Array, ...]:
        arrays = [values[value] for value in inst.operands]
        attrs = resolve_attrs(inst.attrs, sizes) if sizes else inst.attrs

        def call(index: int, arguments: Sequence[Array]) -> tuple[Array, ...]:
            region = inst.regions[index]
            # Sizes bound inside a region are fresh each time it runs.
            inner = dict(sizes)
            bind_all(region.args, arguments, inner, f"argument of a region of {inst.op.name}")
            return self.run_region(region, arguments, values, inner)

        try:
            if isinstance(attrs, CallAttrs):
                results = self.run_call(self.callee(inst, attrs), arrays)
            elif inst.op.evaluate is None:
                raise InternalError(f"op {inst.op.name} has no evaluation")
            else:
                types = [v.type if v.type.is_static else v.type.substitute(sizes) for v in inst.results]
                _check_room(types)
                results = inst.op.evaluate(arrays, attrs, types, *([call] if inst.regions else ()))
        except MemoryError as error:
            if isinstance(error, PlanishError):
                raise
            shown = ", ".join(str(value.type) for value in inst.results)
            raise OutOfMemoryError(
                f"out of memory: {shown}", op=inst.op.name, location=inst.loc, remedy="smaller pieces"
            ) from None
        except PlanishError as error:
            error.location = error.location or inst.loc
            error.op = error.op or inst.op.name
            raise
        check_results(inst, results, sizes)
        if self.observer is not None:
            self.observer(inst, arrays, results)
        return results

    def run_call(self, callee: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        with self.deeper(callee):
            return self.run_function(callee, arrays)

    @contextmanager
    def deeper(self, callee: Function) -> Iterator[None]:
        """One call more, unless they never end."""
        if self.depth >= _MAX_CALL_DEPTH:
            raise GraphError(f"calls nest {self.depth} deep at {callee.name}", remedy="recursion must end")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def _check_room(types: Sequence[TensorType]) -> None:
    """Refuse what no memory holds, before NumPy is asked for it."""
    for type in types:
        if type.is_static and math.prod(type.shape) * type.dtype.itemsize >= _LARGEST:
            raise OutOfMemoryError(f"{type} has more bytes than memory can have", remedy="smaller pieces")


def _find_custom(inst: Inst, attrs: CustomCallAttrs) -> None:
    try:
        find_custom_call(attrs)
    except GraphError as error:
        error.location = inst.loc
        raise


# --- sizes ------------------------------------------------------------------------------------------------


def resolve_attrs(attrs: Attrs, sizes: Mapping[str, int]) -> Attrs:
    """The attributes with dynamic sizes replaced by their values."""
    changes: dict[str, object] = {}
    for field in dataclasses.fields(attrs):  # type: ignore[arg-type]
        old: object = getattr(attrs, field.name)
        new = _resolve(old, sizes)
        if new is not old:
            changes[field.name] = new
    if not changes:
        return attrs
    return dataclasses.replace(attrs, **changes)  # type: ignore[type-var]


def _resolve(item: object, sizes: Mapping[str, int]) -> object:
    if isinstance(item, Dim):
        return substitute(item, sizes)
    if isinstance(item, tuple) and any(isinstance(part, Dim) for part in item):
        return tuple(_resolve(part, sizes) for part in item)
    return item


def bind_all(values: Sequence[Value], arrays: Sequence[Array], sizes: dict[str, int], what: str) -> None:
    """Check arrays against types and learn the sizes they imply."""
    labels = [f"{what} {value.name}" if value.name else what for value in values]
    for value, array, label in zip(values, arrays, labels, strict=True):
        if dtypes.from_numpy(array.dtype) is not value.type.dtype:
            raise DTypeError(
                f"{label} has dtype {array.dtype}, not {value.type.dtype.name}",
                remedy=f"convert it with .astype({value.type.dtype.name})",
            )
        if array.ndim != value.type.rank:
            raise ShapeError(f"{label} has shape {array.shape}, not the rank of {value.type}")
    learn([value.type for value in values], [array.shape for array in arrays], sizes, labels)


def check_results(inst: Inst, results: Sequence[Array], sizes: dict[str, int]) -> None:
    """What came out is what was inferred; names that only now have a size are bound."""
    ours = not isinstance(inst.attrs, CallAttrs | CustomCallAttrs)
    try:
        if len(results) != len(inst.results):
            raise ShapeError(f"{inst.op.name} gave {len(results)} results, not {len(inst.results)}")
        for value, array in zip(inst.results, results, strict=True):
            if (
                value.type.is_static
                and array.shape == value.type.dims
                and array.dtype == value.type.dtype.numpy
            ):
                continue
            bind_all((value,), (np.asarray(array),), sizes, f"result of {inst.op.name}")
    except PlanishError as error:
        if not ours or inst.op.key is OpKey.OTHER:
            error.location = error.location or inst.loc
            raise
        raise InternalError(
            f"{inst.op.name} gave a wrong result: {error.message}", location=inst.loc
        ) from error
