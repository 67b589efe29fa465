"""A loaded module: a function of arrays or tensors.

Sizes that the module leaves open are told by the arguments. Where they have bounds there is one program for all of them,
else one for each set of sizes that is met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from planish import compiler, dtypes, ptir
from planish.dtypes import DType
from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import tensor as as_tensor
from planish.frontend.trace import inline
from planish.ptir.dims import Dim, DimLike
from planish.ptir.types import TensorType
from planish.stablehlo import syntax
from planish.stablehlo.importing import import_function
from planish.stablehlo.syntax import HloModule, Operation, QuantizedElement

Sizes = tuple[tuple[int, ...], ...]


class CheckFailed(PlanishError):
    """A `check.…` of a module does not hold."""


class StableHLOProgram:
    """A function of a StableHLO module. Arrays in, arrays out; planish tensors in, tensors out, with derivatives."""

    def __init__(
        self,
        module: HloModule,
        entry: str = "main",
        *,
        device: str = "cpu",
        dims: Mapping[str, Any] | None = None,
        shapes: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """`dims` has bounds of open sizes, by argument and axis (`x.0`) or by the names that `shapes` calls them by."""
        if entry not in module.functions:
            raise PlanishError(
                f"the module has no function {entry}", remedy=f"it has {', '.join(module.functions)}"
            )
        self.module = module
        self.entry = entry
        self.device = device
        self._function = module.functions[entry]
        self._params = [self._parameter(n) for n in range(len(self._function.block.args))]
        self._bounds = dict(dims or {})
        self._symbolic = shapes
        self._functions: dict[Any, ptir.Function] = {}
        self._checks: dict[Any, list[Operation]] = {}
        self._compiled: dict[Any, Any] = {}
        self.is_static = all(d is not None for t in self._params for d in t.dims)
        self._bounded = None if self.is_static else self._bounded_types()

    def __repr__(self) -> str:
        return f"<StableHLO {self.module.name or 'module'}.{self.entry}: {len(self._params)} arguments>"

    # --- what it takes and gives ---

    def _parameter(self, number: int) -> syntax.HloTensorType:
        type = self._function.block.args[number].type
        if not isinstance(type, syntax.HloTensorType):
            raise PlanishError(
                f"argument {number} of {self.entry} is {type}, no tensor", location=self._function.location
            )
        return type

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Names of the arguments: those that the source had, where it tells them."""
        names: list[str] = []
        for n, told in enumerate(self._function.arg_attributes or [{}] * len(self._params)):
            own = self._function.block.args[n].name.removeprefix("%")
            name = re.sub(r"\W+", "_", str(told.get("jax.arg_info") or told.get("name") or own)).strip("_")
            if not name.isidentifier() or name in names:
                name = next(free for k in count() if (free := f"arg{n}{'_' * k}") not in names)
            names.append(name)
        return tuple(names)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Names of the results."""
        told = self._function.result_attributes
        return tuple(str(t.get("jax.result_info") or f"result{n}") for n, t in enumerate(told))

    @property
    def argument_types(self) -> tuple[str, ...]:
        """Types of the arguments, as the module writes them."""
        return tuple(map(str, self._params))

    # --- as PTIR ---

    def function(self, *shapes: Sequence[int]) -> ptir.Function:
        """As PTIR: for arguments of these shapes, where the module leaves sizes open."""
        if self.is_static or not shapes:
            return self._imported(self._static_types() if self.is_static else self._open_types())
        return self._imported(self._types_for(tuple(tuple(s) for s in shapes)))

    def _static_types(self) -> tuple[TensorType, ...]:
        return tuple(TensorType(_dtype(t), t.dims) for t in self._params)  # type: ignore[arg-type]

    def _open_types(self) -> tuple[TensorType, ...]:
        if self._bounded is None:
            raise ShapeError(
                f"{self!r} leaves sizes open, and gives no bounds for them",
                remedy="give the shapes of the arguments, or bounds: load(…, dims={'arg0.0': (1, 64)})",
            )
        return self._bounded

    def _bounded_types(self) -> tuple[TensorType, ...] | None:
        """Types with a named size for each open one; None if some have no bound."""
        types: list[TensorType] = []
        for name, type in zip(self.argument_names, self._params, strict=True):
            dims: list[DimLike] = []
            for axis, size in enumerate(type.dims):
                told = self._bounds.get(f"{name}.{axis}")
                if told is None:
                    told = self._named(len(types), axis)
                bound = type.bounds[axis] if axis < len(type.bounds) else None
                if size is not None:
                    dims.append(size)
                elif isinstance(told, Dim | int):
                    dims.append(told)
                elif told is not None:
                    dims.append(Dim.named(f"{_letters(name)}_{axis}", *told))
                elif bound is not None:
                    dims.append(Dim.named(f"{_letters(name)}_{axis}", 0, bound))
                else:
                    return None
            types.append(TensorType(_dtype(type), tuple(dims)))
        return tuple(types)

    def _named(self, number: int, axis: int) -> DimLike | None:
        """An open size as the source writes it, if all its names have bounds."""
        if self._symbolic is None:
            return None
        text = self._symbolic[number][axis]
        names = {
            n: Dim.named(n, *self._bounds[n]) for n in re.findall(r"[A-Za-z_]\w*", text) if n in self._bounds
        }
        try:
            return Dim.parse(text, names) if set(re.findall(r"[A-Za-z_]\w*", text)) <= set(names) else None
        except PlanishError:
            return None

    def _types_for(self, shapes: Sizes) -> tuple[TensorType, ...]:
        return tuple(TensorType(_dtype(t), shape) for t, shape in zip(self._params, shapes, strict=True))

    def _imported(self, types: tuple[TensorType, ...]) -> ptir.Function:
        if types not in self._functions:
            function, importer = import_function(self.module, self.entry, types, self.argument_names)
            self._functions[types] = function
            self._checks[types] = [op for op, _ in importer.checks]
        return self._functions[types]

    # --- calls ---

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The results: one alone, several as a tuple."""
        results = self.run(*self._bound(args, named))
        return results[0] if len(results) == 1 else tuple(results)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = self.argument_names
        given = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                why = "is given twice" if name in given else "does not exist"
                raise PlanishError(
                    f"argument {name} {why}", remedy=f"{self!r} takes {', '.join(names) or 'none'}"
                )
            given[name] = value
        if len(args) > len(names) or len(given) != len(names):
            raise PlanishError(
                f"{len(args) + len(named)} arguments are given, {len(names)} are expected",
                remedy=f"they are {', '.join(f'{n}: {t}' for n, t in zip(names, self._params, strict=True))}",
            )
        return [given[name] for name in names]

    def run(self, *args: Any) -> list[Any]:
        """The results as a list."""
        if any(isinstance(x, Tensor) for x in args):
            tensors = [x if isinstance(x, Tensor) else as_tensor("stablehlo", x) for x in args]
            shapes = tuple(tuple(x._type.dims) for x in tensors)
            self._fit([(x.dtype, s) for x, s in zip(tensors, shapes, strict=True)])
            types = self._static_types() if self.is_static else tuple(x._type for x in tensors)
            function = self._imported(types)
            return self._checked(types, list(inline(function, tensors)))
        arrays = [_array(x, t) for x, t in zip(args, self._params, strict=True)]
        self._fit([(dtypes.from_numpy(a.dtype), a.shape) for a in arrays])
        types = self._types_of(arrays)
        call = self._compiled.get(types)
        if call is None:
            call = self._compiled[types] = self._compile(types)
        return self._checked(types, list(call(*arrays)))

    def _types_of(self, arrays: Sequence[Any]) -> tuple[TensorType, ...]:
        if self.is_static:
            return self._static_types()
        if self._bounded is not None and self._fits_bounds(arrays):
            try:
                self._imported(self._bounded)
            except PlanishError:
                # sizes that must be equal have two names, or decide what is computed
                self._bounded = None
            else:
                return self._bounded
        return self._types_for(tuple(a.shape for a in arrays))

    def _fits_bounds(self, arrays: Sequence[Any]) -> bool:
        sizes: dict[str, int] = {}
        for type, array in zip(self._bounded or (), arrays, strict=True):
            for dim, size in zip(type.dims, array.shape, strict=True):
                if isinstance(dim, Dim) and dim.name is not None:
                    low, high = ptir.types.bounds(dim)
                    if sizes.setdefault(dim.name, size) != size or not low <= size <= high:
                        return False
        return True

    def _compile(self, types: tuple[TensorType, ...]) -> Any:
        return compiler.compile(self._imported(types), device=self.device)

    def _checked(self, types: tuple[TensorType, ...], results: list[Any]) -> list[Any]:
        """The results without those of checks, which must be True."""
        checks = self._checks[types]
        if not checks:
            return results
        kept, flags = results[: -len(checks)], results[-len(checks) :]
        for op, ok in zip(checks, flags, strict=True):
            if not bool(np.asarray(ok)):
                raise CheckFailed(
                    f"{op.attributes.get('call_target_name', op.name)} does not hold",
                    op=op.name,
                    location=op.location,
                )
        return kept

    def _fit(self, given: Sequence[tuple[DType, Sequence[DimLike]]]) -> None:
        """Arguments of other types are refused."""
        for name, type, (dtype, dims) in zip(self.argument_names, self._params, given, strict=True):
            shown = f"{dtype.name}{[str(d) if isinstance(d, Dim) else d for d in dims]}"
            if dtype is not _dtype(type):
                raise DTypeError(f"{name} is {shown}, {type} is expected", remedy="astype converts")
            if len(dims) != len(type.dims) or any(
                w is not None and w != d for w, d in zip(type.dims, dims, strict=True)
            ):
                raise ShapeError(f"{name} is {shown}, {type} is expected")

    def interpret(self, *args: Any) -> list[Any]:
        """The results by the reference interpreter: slow, and by definition right."""
        arrays = [_array(x, t) for x, t in zip(args, self._params, strict=True)]
        self._fit([(dtypes.from_numpy(a.dtype), a.shape) for a in arrays])
        types = self._types_of(arrays)
        return self._checked(types, list(ptir.interpret(self._imported(types), arrays)))

    def lower(self, *shapes: Sequence[int]) -> compiler.Lowered:
        """Lowered: as_text, compile."""
        return compiler.lower(self.function(*shapes))


def _letters(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _dtype(type: syntax.HloTensorType) -> DType:
    return type.element.storage if isinstance(type.element, QuantizedElement) else type.element


def _array(x: Any, type: syntax.HloTensorType) -> Any:
    """An argument as an array: Python numbers take the dtype that is expected."""
    wanted = np.dtype(_dtype(type).numpy)
    if isinstance(x, bool | int | float | complex):
        return np.asarray(x, wanted)
    return np.asarray(x)
