"""An operation under way: the graph it goes into, its types and regions, and what lowerings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from planish.dtypes import DType
from planish.errors import PlanishError
from planish.ptir.builder import Graph
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.handle import Number
from planish.ptir.library import common
from planish.ptir.library.common import plain, spread
from planish.stablehlo.syntax import HloBlock, HloTensorType, HloValue, Operation, QuantizedElement

if TYPE_CHECKING:
    from planish.stablehlo.importing import ModuleImporter


class CannotImport(PlanishError):
    """Something in a module that planish does not do."""


class Site:
    """What a lowering is told of its operation besides operands and attributes."""

    __slots__ = ("graph", "importer", "op")

    def __init__(self, importer: ModuleImporter, op: Operation) -> None:
        self.importer = importer
        self.graph: Graph = importer.graph
        self.op = op

    @property
    def regions(self) -> list[HloBlock]:
        """Its regions."""
        return self.op.regions

    def refuse(self, why: str, remedy: str | None = None) -> NoReturn:
        """Say what cannot be done, and where it was asked for."""
        shown = ", ".join(str(v.type) for v in self.op.operands)
        raise CannotImport(
            f"{self.op.name}({shown}): {why}", op=self.op.name, location=self.op.location, remedy=remedy
        )

    # --- types ---

    def tensor(self, number: int = 0) -> HloTensorType:
        """The type of a result."""
        type = self.op.results[number].type
        if not isinstance(type, HloTensorType):
            self.refuse("its result is no tensor")
        return type

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.dtype_of(0)

    def dtype_of(self, number: int) -> DType:
        """The dtype of a result, of quantised ones that of their integers."""
        element = self.tensor(number).element
        return element.storage if isinstance(element, QuantizedElement) else element

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the first result, which must be known."""
        return self.dims_of(0)

    def dims_of(self, number: int) -> tuple[int, ...]:
        dims = [d for d in self.tensor(number).dims if d is not None]
        if len(dims) != len(self.tensor(number).dims):
            self.refuse("the sizes of its result must be known")
        return tuple(dims)

    def sizes(self, place: int) -> list[DimLike]:
        """The integers of an operand that says sizes, which must follow from constants and from sizes."""
        integers = self.importer.sizes.integers(self.op.operands[place], self.importer.frame)
        if integers is None:
            self.refuse(
                f"operand {place} decides sizes, and is computed from data",
                "give it as a constant, or computed from sizes",
            )
        return integers

    def whole(self, x: V) -> list[int]:
        """The sizes of a value, which must be numbers."""
        sizes = [d for d in x.dims if isinstance(d, int)]
        if len(sizes) != x.rank:
            self.refuse(f"the sizes of {x.type} must be known", "load it with these sizes as numbers")
        return sizes

    # --- values ---

    def full(self, dims: Sequence[DimLike], number: Number, dtype: DType) -> V:
        return self.graph.full(tuple(dims), plain(number, dtype), dtype)

    def like(self, x: V, number: Number) -> V:
        """One number everywhere."""
        return self.full(x.dims, number, x.dtype)

    def run(self, block: HloBlock, args: Sequence[V]) -> tuple[V, ...]:
        """What a region returns for these arguments."""
        return self.importer.block(block, args)

    def each(self, block: HloBlock, args: Sequence[V]) -> tuple[V, ...]:
        """What a region of scalars returns for the elements of tensors of one shape, one by one."""
        return self.importer.elementwise(self, block, args)

    def known(self, value: HloValue) -> Number | None:
        """The number that all elements of an operand are, if that is a constant."""
        return self.importer.number(value)


def cast(x: V, dtype: DType) -> V:
    """A cast, where it is one; of complex numbers the real part alone counts, as bools too: so its specification has it."""
    return common.cast(x.real() if x.dtype.is_complex and not dtype.is_complex else x, dtype)


def together(*values: V) -> list[V]:
    """Values in one shape: scalars go with what is beside them."""
    dims = max((v.dims for v in values), key=len)
    return [spread(v, dims) for v in values]
