"""Actions that walk over keys: what they are told, what they refuse, and how a random one is drawn. `walk.py` is how they walk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

from planish.actions.base import Action, AxisName, CoreName, fitting
from planish.actions.walk import second_core
from planish.target import Target
from planish.uop.nest import LOOP_VALUES, name_of, size_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.products import Product
from planish.uop.ranges import kind_of
from planish.uop.tensor_cores import CORES, Core

_BEFORE: Final = frozenset({AxisType.WARP, AxisType.LOCAL, AxisType.GROUP_REDUCE, AxisType.UPCAST})


class Walked(Protocol):
    """Products on the way to another one."""

    @property
    def inner(self) -> tuple[Product, ...]:
        """Those of queries and keys."""

    @property
    def outer(self) -> Product:
        """That of what is made of them and of the values; of several, the first."""

    @property
    def weights(self) -> tuple[UOp, ...]:
        """What is made of them, at one key, for each sum."""


T = TypeVar("T", bound=Walked)


class KeyWalk(Action, Generic[T]):
    """A walk over the keys, blocks of them at a time, in which products stay in registers."""

    makes: ClassVar[str] = ""
    """What comes of it."""
    core: CoreName
    m: AxisName
    n: AxisName
    k: AxisName
    groups: int = 1
    """How many groups of threads share keys and values."""
    buffers: int = 1
    """How many blocks of keys and values there are: with several, the next ones are fetched while one is used."""
    engine: bool = False
    """Whether a copy engine brings them, while threads do nothing but compute (`tensor_maps.py`)."""

    @classmethod
    @abstractmethod
    def ways(cls, sink: UOp, core: Core) -> Sequence[T]:
        """What a kernel has of the kind."""

    @abstractmethod
    def walked(self, sink: UOp, core: Core, way: T) -> UOp:
        """The kernel with the walk in it."""

    @classmethod
    def of(cls, core: Core, way: T, groups: int = 1, buffers: int = 1, engine: bool = False) -> Self:
        """A way to walk."""
        m, n, k = (name_of(axis) for axis in (way.outer.m, way.outer.n, way.outer.k))
        return cls(core.name, m, n, k, groups, buffers, engine)

    @classmethod
    def drawn(cls, rng: Random, sink: UOp, target: Target) -> Self:
        cores = [core for core in target.tensor_cores if core.reads_memory and core.inputs.itemsize == 2]
        core = rng.choice(cores) if cores else None
        ways = [] if core is None else [cls.of(core, each) for each in cls.ways(sink, core)]
        way = rng.choice(ways) if ways else cls("none", "i", "j", "k")
        return way.replaced(
            groups=rng.choice((1, 1, 2)), buffers=rng.randint(1, 3), engine=rng.random() < 0.5
        )

    def apply(self, sink: UOp, target: Target) -> UOp:
        core = self.chosen(sink, target)
        ways = self.ways(sink, core)
        groups, buffers, engine = self.how
        way = next((each for each in ways if self.of(core, each, groups, buffers, engine) == self), None)
        if way is None:
            said = "; ".join(str(self.of(core, each)) for each in ways)
            raise self.no(f"there is no such {self.makes}", remedy=f"there is {said}" if said else None)
        self.check(core, way)
        return fitting(sink, self.walked(sink, core, way), self, target)

    @property
    def how(self) -> tuple[int, int, bool]:
        """Groups, buffers, and whether there is an engine."""
        return self.groups, self.buffers, self.engine

    def chosen(self, sink: UOp, target: Target) -> Core:
        """The core of the products of queries and keys."""
        core = next((each for each in target.tensor_cores if each.name == self.core), None)
        if core is None or not core.reads_memory or core.inputs.itemsize != 2:
            raise self.no(f"{target.name} has no tensor core {self.core} of 16-bit operands in LOCAL memory")
        if core.n % core.k:
            raise self.no(f"the {core.n} columns of {core.name} are no multiple of {core.k}")
        if any(n.op is Ops.WMMA or (n.op is Ops.RANGE and kind_of(n) in _BEFORE) for n in sink.toposort()):
            raise self.no("must come before axes are shared by threads, and once")
        if not 1 <= self.groups <= target.block_threads // core.threads or self.buffers < 1:
            raise self.no(f"{self.groups} groups of {core.threads} threads and {self.buffers} buffers")
        return core

    def check(self, core: Core, way: T) -> None:
        """Refuse sizes that do not fit, and sums that are no products."""
        outer, rows = way.outer, core.m * self.groups
        if not all(size_of(r) for r in (outer.m, outer.n, outer.k, *(each.k for each in way.inner))):
            raise self.no("sizes are not known")
        if size_of(outer.m) % rows or second_core(core, outer) not in CORES:
            raise self.no(
                f"{size_of(outer.m)} queries and {size_of(outer.n)} columns are no multiple of {rows} and no width of a tile",
                remedy="pad_to makes them so",
            )
        known = {each.reduce for each in way.inner}
        nodes = (n for each in way.weights for n in each.toposort(lambda n: n not in known))
        if any(n.op in LOOP_VALUES and n not in known for n in nodes):
            raise self.no("what is made of the products is made of other sums as well")
