"""The DSL: `Graph` builds a function op by op, `GraphValue` is what the user holds meanwhile.

    g = Graph("softmax")
    x = g.input("x", tensor("f32", (4, "B")))
    e = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x)).exp()
    f = g.build(e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e)))

Every op remembers the user's line; every mistake raises where it is made and says where that is. Control flow
takes Python functions that build the regions; they may use values from outside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, Location, PlanishError, ShapeError
from planish.ptir import ops
from planish.ptir.dims import bounds
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import Dims, DTypeLike, GraphValue, as_dims, as_dtype
from planish.ptir.handle import ElementwiseMethods, Number
from planish.ptir.ops import numerics
from planish.ptir.ops.checking import keep_quant
from planish.ptir.ops.collective import MeshAxes
from planish.ptir.ops.control import ConfigValue
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, DimLike, TensorType

E = TypeVar("E", bound=PlanishError)
Built: TypeAlias = GraphValue | Sequence[GraphValue]


class Graph:
    """A function under construction. `build` ends it."""

    __slots__ = ("_callees", "_regions", "finished", "function", "place")

    function: Function
    finished: bool
    place: Location | None
    """Where what is built comes from; None: from the line of whoever builds it."""

    def __init__(self, name: str = "main", *, function: Function | None = None) -> None:
        """A new function, or more instructions at the end of an existing one whose results are not set yet."""
        self.function = Function(name, loc=Location.caller()) if function is None else function
        self.finished = False
        self.place = None
        self._regions: list[Region] = [self.function.body]
        self._callees: dict[str, Function] = {}

    def __repr__(self) -> str:
        return f"<graph {self.function.name}: {len(self.function)} instructions{', built' if self.finished else ''}>"

    @property
    def region(self) -> Region:
        """Where the next op goes."""
        return self._regions[-1]

    # --- leaves ---

    def input(self, name: str, type: TensorType) -> GraphValue:
        """A parameter of the function."""
        if any(param.name == name for param in self.function.params):
            raise self.located(GraphError(f"there is already an input {name!r}"))
        return self.wrap(self.function.body.add_arg(type, name))

    def import_value(self, spec: Value | TensorType, name: str | None = None) -> GraphValue:
        """Adopt a value that exists in the function already; a bare type becomes a parameter."""
        if isinstance(spec, TensorType):
            return self.input(name or f"arg{len(self.function.params)}", spec)
        handle = self.wrap(spec)
        self._check_visible("import_value", handle)
        if name is not None:
            spec.name = name
        return handle

    def constant(
        self, value: npt.ArrayLike, dtype: DTypeLike | None = None, dims: Dims | None = None
    ) -> GraphValue:
        """Tensor data. With `dims`, one number for all elements; the dtype defaults to NumPy's."""
        target = None if dtype is None else as_dtype(dtype)
        if isinstance(value, bool | int | float | complex):
            natural = {
                bool: dtypes.bool_,
                int: dtypes.int64,
                float: dtypes.float64,
                complex: dtypes.complex128,
            }
            return self.full(() if dims is None else dims, value, target or natural[type(value)])
        try:
            literal = _array_literal(np.asarray(value), target)
        except PlanishError as error:
            raise self.located(error) from None
        data = self.emit(ops.constant, (), ops.ConstantAttrs(literal))
        return data if dims is None else data.broadcast_to(dims)

    def full(self, dims: Dims, value: Number, dtype: DTypeLike) -> GraphValue:
        """Every element is `value`; dynamic sizes are reached by broadcasting a scalar."""
        shape = as_dims(dims)
        static = tuple(dim for dim in shape if isinstance(dim, int))
        try:
            literal = Literal.full(as_dtype(dtype), static if len(static) == len(shape) else (), value)
        except PlanishError as error:
            raise self.located(error) from None
        data = self.emit(ops.constant, (), ops.ConstantAttrs(literal))
        return data if len(static) == len(shape) else data.broadcast_to(shape)

    def iota(self, dims: Dims, axis: int = 0, dtype: DTypeLike = dtypes.int64) -> GraphValue:
        """0, 1, 2 … along an axis."""
        shape = as_dims(dims)
        position = operator.index(axis) + (len(shape) if axis < 0 else 0)
        return self.emit(ops.iota, (), ops.IotaAttrs(as_dtype(dtype), shape, position))

    # --- emitting ---

    def emit(
        self, op: OpDef, operands: Sequence[ElementwiseMethods] = (), attrs: Attrs = NO_ATTRS
    ) -> GraphValue:
        """Append an op that has one result."""
        return self.wrap(self._append(op, operands, attrs, ()).result)

    def emit_many(
        self,
        op: OpDef,
        operands: Sequence[ElementwiseMethods] = (),
        attrs: Attrs = NO_ATTRS,
        regions: Sequence[Region] = (),
    ) -> tuple[GraphValue, ...]:
        """Append an op with any number of results."""
        return tuple(self.wrap(value) for value in self._append(op, operands, attrs, regions).results)

    def _append(
        self, op: OpDef, operands: Sequence[ElementwiseMethods], attrs: Attrs, regions: Sequence[Region]
    ) -> Inst:
        if self.finished:
            raise self.located(GraphError(f"graph {self.function.name} is finished", op=op.name))
        for operand in operands:
            self._check_visible(op.name, operand)
        loc = self.place or Location.caller()
        try:
            return self.region.append(op, [operand.value for operand in operands], attrs, regions, loc=loc)
        except PlanishError as error:
            error.location = error.location or Location.caller()
            raise

    def _check_visible(self, op: str, operand: ElementwiseMethods) -> None:
        if not isinstance(operand, ElementwiseMethods):
            raise self.located(
                GraphError(f"{op} was given {type(operand).__name__}, not a value of this graph", op=op)
            )
        region = operand.value.region
        if region not in self._regions:
            same = region is not None and region.function is self.function
            reason = "is defined inside a region that has ended" if same else "belongs to another graph"
            raise self.located(
                GraphError(f"{operand!r} {reason}", op=op, remedy="pass it as a result or an input")
            )

    def wrap(self, value: Value) -> GraphValue:
        return GraphValue(self, value)

    def located(self, error: E) -> E:
        """The error, pointing to the user's line."""
        error.location = error.location or Location.caller()
        return error

    # --- several operands ---

    def concat(self, values: Sequence[GraphValue], axis: int = 0) -> GraphValue:
        if not values:
            raise self.located(GraphError("there is nothing to concatenate", op="concat"))
        return values[0].concat(values[1:], axis)

    def sort(
        self, values: Sequence[GraphValue], axis: int = -1, descending: bool = False, num_keys: int = 1
    ) -> tuple[GraphValue, ...]:
        """Several values sorted together by the first `num_keys` of them."""
        if not values:
            raise self.located(GraphError("there is nothing to sort", op="sort"))
        return values[0].sort_with(values[1:], axis, descending, num_keys)

    # --- control flow ---

    @contextmanager
    def _building(
        self, arg_types: Sequence[TensorType], names: Sequence[str | None] = ()
    ) -> Iterator[Region]:
        region = Region(self.function, arg_types, names)
        self._regions.append(region)
        try:
            yield region
        finally:
            self._regions.pop()

    def _region(
        self,
        op: OpDef,
        build: Callable[..., Built],
        arg_types: Sequence[TensorType],
        names: Sequence[str | None] = (),
    ) -> Region:
        """The region that a Python function builds from handles of the arguments."""
        with self._building(arg_types, names) as region:
            built = build(*(self.wrap(arg) for arg in region.args))
            results = (built,) if isinstance(built, ElementwiseMethods) else tuple(built)
            for result in results:
                self._check_visible(op.name, result)
            region.set_results(result.value for result in results)
        return region

    def cond(
        self, predicate: GraphValue, then: Callable[[], Built], otherwise: Callable[[], Built]
    ) -> tuple[GraphValue, ...]:
        """The values that `then` builds if the predicate is True, else those of `otherwise`."""
        regions = [self._region(ops.cond, build, ()) for build in (then, otherwise)]
        return self.emit_many(ops.cond, (predicate,), regions=regions)

    def while_loop(
        self, condition: Callable[..., GraphValue], body: Callable[..., Built], *init: GraphValue
    ) -> tuple[GraphValue, ...]:
        """Carried values, through `body` for as long as `condition` gives True of them."""
        types = [value.type for value in init]
        names = [value.value.name for value in init]
        regions = [self._region(ops.while_, build, types, names) for build in (condition, body)]
        return self.emit_many(ops.while_, init, regions=regions)

    def scan(
        self,
        body: Callable[..., Built],
        carries: Sequence[GraphValue],
        sequences: Sequence[GraphValue] = (),
        length: DimLike | None = None,
        reverse: bool = False,
    ) -> tuple[GraphValue, ...]:
        """`body(*carries, *slices)` builds the next carries and then the outputs to stack."""
        if length is None:
            if not sequences or sequences[0].rank == 0:
                raise self.located(GraphError("a scan without sequences needs a length", op="scan"))
            length = sequences[0].dims[0]
        types = [value.type for value in carries]
        for value in sequences:
            # a scale axis moves to the front with the others
            kept = {axis: axis - 1 for axis in range(1, value.rank)}
            types.append(keep_quant("scan", value.type, value.dims[1:], kept))
        region = self._region(ops.scan, body, types)
        attrs = ops.ScanAttrs(len(carries), length, reverse)
        return self.emit_many(ops.scan, (*carries, *sequences), attrs, (region,))

    def call(self, callee: Function, *arguments: GraphValue) -> tuple[GraphValue, ...]:
        """Call another function; `build_program` brings it along."""
        known = self._callees.setdefault(callee.name, callee)
        if known is not callee or callee.name == self.function.name:
            raise self.located(GraphError(f"two functions are called {callee.name!r}", op="call"))
        given = [argument.type for argument in arguments]
        try:
            sizes = _match_params(callee, given)
        except PlanishError as error:
            raise self.located(error) from None
        results = tuple(result.substitute(sizes) for result in callee.result_types)
        return self.emit_many(ops.call, arguments, ops.CallAttrs(callee.name, results))

    def custom_call(
        self,
        target: str,
        operands: Sequence[GraphValue],
        results: Sequence[TensorType],
        version: int = 1,
        config: Mapping[str, ConfigValue] | None = None,
    ) -> tuple[GraphValue, ...]:
        """Call a function registered with `register_custom_call`."""
        attrs = ops.CustomCallAttrs(target, tuple(results), version, tuple((config or {}).items()))
        return self.emit_many(ops.custom_call, operands, attrs)

    def mesh_index(self, mesh: MeshAxes, over: Sequence[str]) -> GraphValue:
        """This rank's place among those along some axes of a mesh."""
        return self.emit(ops.mesh_index, (), ops.CollectiveAttrs(mesh, tuple(over)))

    # --- random numbers (semantics 11.2) ---

    def uniform(self, key: GraphValue, dims: Dims, dtype: DTypeLike = dtypes.float32) -> GraphValue:
        """Numbers on [0, 1): the top bits of a random word, as many as the dtype's precision."""
        target = as_dtype(dtype)
        word, precision = self._random_word(target)
        bits = key.rng_bits(dims, word).shr_logical(word.bits - precision)
        return bits.cast(target).mul(2.0**-precision)

    def normal(self, key: GraphValue, dims: Dims, dtype: DTypeLike = dtypes.float32) -> GraphValue:
        """Normally distributed numbers: sqrt(2) · erfinv of a uniform number on (-1, 1)."""
        target = as_dtype(dtype)
        word, precision = self._random_word(target)
        # Odd multiples of 2**(1 - precision): symmetric, never ±1, and exact in the dtype.
        bits = key.rng_bits(dims, word).shr_logical(word.bits - precision + 1)
        steps = bits.cast(target).mul(2.0 ** (2 - precision)).add(2.0 ** (1 - precision) - 1.0)
        return steps.erfinv().mul(2.0**0.5)

    def _random_word(self, dtype: DType) -> tuple[DType, int]:
        if not dtype.is_float or dtype.bits < 16:
            raise self.located(
                DTypeError(f"random numbers of dtype {dtype.short} are not defined", op="rng_bits")
            )
        word = {16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits]
        return word, dtypes.float_format(dtype).precision

    # --- the end ---

    def build(self, *results: Built) -> Function:
        """Finish: the function with these results."""
        if self.finished:
            raise self.located(GraphError(f"graph {self.function.name} is finished"))
        if len(self._regions) != 1:
            raise self.located(GraphError("a graph cannot be finished inside a region"))
        flat: list[GraphValue] = []
        for result in results:
            flat += [result] if isinstance(result, GraphValue) else result
        for value in flat:
            self._check_visible("build", value)
        self.function.body.set_results(value.value for value in flat)
        self.finished = True
        return self.function

    def build_program(self, *results: Built) -> Program:
        """Finish: a program whose entry is this function, with all it calls."""
        return Program([self.build(*results), *self._callees.values()], self.function.name)


def _array_literal(array: npt.NDArray[np.generic], target: DType | None) -> Literal:
    source = dtypes.from_numpy(array.dtype)
    if target is None or target is source:
        return Literal(array, dtype=source)
    converted = numerics.convert(array, target)
    exact_kinds = not target.is_float and not target.is_complex
    if exact_kinds and not np.array_equal(numerics.widen(converted), array):
        raise DTypeError(
            f"the data does not fit dtype {target.short}", remedy="cast explicitly to round or wrap"
        )
    return Literal(converted, dtype=target)


def _match_params(callee: Function, given: Sequence[TensorType]) -> dict[str, DimLike]:
    """The sizes of the callee's named dims, from the types of the arguments."""
    wanted = callee.param_types
    sizes: dict[str, DimLike] = {}
    if len(wanted) == len(given):
        for parameter, argument in zip(wanted, given, strict=True):
            for dim, size in zip(parameter.dims, argument.dims, strict=False):
                if isinstance(dim, Dim) and dim.name is not None:
                    sizes.setdefault(dim.name, size)
    if tuple(parameter.substitute(sizes) for parameter in wanted) != tuple(given):
        shown = [", ".join(str(t) for t in types) or "nothing" for types in (wanted, given)]
        raise GraphError(f"{callee.name} takes {shown[0]}, not {shown[1]}", op="call")
    for parameter in wanted:
        for dim in parameter.dims:
            if isinstance(dim, Dim) and dim.name is not None:
                (low, high), (least, greatest) = bounds(dim), bounds(sizes[dim.name])
                if not low <= least <= greatest <= high:
                    raise ShapeError(
                        f"{callee.name} takes {dim.name} in {low}..{high}; {sizes[dim.name]} may be {least}..{greatest}",
                        op="call",
                    )
    return sizes


__all__ = ["Graph", "GraphValue"]
