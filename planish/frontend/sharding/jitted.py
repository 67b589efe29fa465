"""`jit` with shardings: a function of tensors becomes the program that each rank of a mesh runs.

A call is traced once per kind of arguments and their specs, `shard` and `partition` make the program of one rank, and that is
compiled where the process is one of the ranks. A process by itself interprets all of them, as virtual ranks: right, and slow.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planish import compiler
from planish.config import current
from planish.errors import GraphError, Location, PlanishError
from planish.frontend import tree
from planish.frontend.arguments import CallParts, CallSignature, TensorSpec, array_of, paths
from planish.frontend.devices import Runnable, default_device, running
from planish.frontend.entries import CapturedCall, lent, trace_call
from planish.frontend.expression import Donated
from planish.frontend.matching import computed
from planish.frontend.session import SESSION, current_scope, evaluate
from planish.frontend.sharding.arrays import Sharded, cut, own_ranks, shard
from planish.frontend.sharding.mesh import Mesh, P, Sharding, current_mesh, fitting_axes, need_mesh, spec_axes
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.transfer import asarray
from planish.frontend.tensor.weak import WeakTensor
from planish.frontend.tree import Structure
from planish.ptir import ops
from planish.ptir.function import Function, Program
from planish.ptir.interpret_ranks import interpret_ranks
from planish.ptir.ops.collective import MeshLayout, SpecAxes, group_size, transport
from planish.ptir.passes import DEFAULT_PIPELINE, PassManager
from planish.ptir.sharding.partition import partition
from planish.ptir.sharding.propagate import propagate, write
from planish.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from planish.ptir.passes import Passes
    from planish.ptir.types import DimLike

Spec = P | Sharding | Callable[[str, tuple[int, ...]], P | None] | None
"""What may stand for a tensor in `in_shardings` and `out_shardings`, or for all tensors of a container."""
SpecOf = Callable[[str, Mesh, P, "Sequence[DimLike]"], SpecAxes]
"""How a spec is read for a tensor of some sizes: all of it must fit, or as much is taken as does."""


def spread(given: object, structure: Structure, what: str) -> list[Spec]:
    """What shardings say of every leaf: an entry holds for all that lies below it."""
    if given is None or isinstance(given, P | Sharding) or callable(given):
        return [given] * _count(structure)
    parts = tree.apart(given)
    if parts is None or len(parts[0]) != len(structure.children):
        count, kind = len(structure.children), getattr(structure.kind, "__name__", None)
        raise GraphError.at_caller(
            f"{what}: {given!r} does not fit {'a tensor' if kind is None else f'{count} values of a {kind}'}",
            "give a spec, None, or as many of them as there are values",
        )
    specs: list[Spec] = []
    for own, part in zip(parts[0], structure.children, strict=True):
        specs += spread(own, part, what)
    return specs


def _count(structure: Structure) -> int:
    return 1 if structure.kind is None else sum(map(_count, structure.children))


class _Code:
    """The program of a rank for one kind of call."""

    def __init__(
        self, traced: CapturedCall, function: Function, ranks: Sequence[int], passes: Passes
    ) -> None:
        self.function = function
        self.traced = traced
        self.ranks = list(ranks)
        self.types = function.result_types
        self.virtual = len(ranks) > 1
        self.settings = current()
        self.place = running(default_device(), self.settings)
        self.run: Runnable | None = (
            None if self.virtual else self.place.compile(function, passes, traced.donated)
        )

    @property
    def layout(self) -> MeshLayout:
        layout = self.function.layout
        assert layout is not None  # noqa: S101 - partition made it
        return layout


class ShardedFunction:
    """A function compiled for the ranks of a mesh. `jit` with shardings makes them."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: CallSignature,
        in_shardings: object,
        out_shardings: object,
        mesh: Mesh | None,
        passes: Passes = compiler.PIPELINE,
        bound: tuple[Any, ...] = (),
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._bound = bound
        """What comes before all arguments: a module whose `__call__` this is, so that its tensors may change."""
        self._signature = signature
        self._in, self._out = in_shardings, out_shardings
        self._mesh = None if mesh is None else need_mesh("jit", mesh)
        self._passes = passes
        self._codes: dict[object, _Code] = {}
        self._quick: dict[object, tuple[_Code, CallParts, Mesh]] = {}

    def __repr__(self) -> str:
        return f"<sharded jit of {self._signature.name}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    @short_tracebacks
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = (*self._bound, *args)
        if current_scope() is not None:
            return self._within(args, kwargs)
        quick = self._quick_key(args, kwargs)
        prepared = None if quick is None else self._quick.get(quick[0])
        if prepared is not None and quick is not None:
            code, call, mesh = prepared
            ranks, leaves = own_ranks(mesh), quick[1]
            if ranks == code.ranks:
                return self._ran(code, call, leaves, mesh, ranks)
        call, leaves, mesh, specs = self._apart(args, kwargs)
        ranks = own_ranks(mesh)
        key = (call.key, specs, mesh, tuple(ranks))
        known = self._codes.get(key)
        code = self._codes[key] = known or self._compiled(call, mesh, specs, ranks)
        if quick is not None:
            # what it was called with is not kept alive
            self._quick[quick[0]] = code, replace(call, leaves=[]), mesh
        return self._ran(code, call, leaves, mesh, ranks)

    def _within(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call inside a function that is traced: its arguments and results are values there, cut as far as they divide."""
        mesh = self._mesh or current_mesh()
        if mesh is None:
            return self._function(*args, **kwargs)

        def said(leaves: list[Any], structure: Structure) -> list[Any]:
            positional, keywords = structure.children
            names = [name for part in structure.children for name in paths(part, self._signature.name)]
            each = zip(leaves, self._entries(positional, keywords), names, strict=True)
            return [_placed(mesh, *one, fitting_axes) for one in each]

        return self._traced(mesh, args, kwargs, said, fitting_axes)

    def _ran(self, code: _Code, call: CallParts, leaves: list[Any], mesh: Mesh, ranks: Sequence[int]) -> Any:
        """One call; what is donated lends its memory to the results and is gone afterwards."""
        rows, owners = self._inputs(code, call, leaves, mesh, ranks)
        for number, tensor in owners.items():
            rows[0][number] = lent(rows[0], number, tensor)
        results = _run(code, mesh, ranks, rows)
        for tensor in owners.values():
            if isinstance(tensor, Tensor):
                tensor._value = Donated.instead(tensor._value)
        return results

    def _quick_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, list[Any]] | None:
        """What calls that need the same code have in common, without taking arguments apart by name; and the leaves."""
        if self._signature.static:
            return None
        leaves, structure = tree.flatten((args, dict(sorted(kwargs.items()))))
        kinds: list[object] = []
        for leaf in leaves:
            if type(leaf) is Tensor:
                kinds.append((leaf._value.type, leaf._value.device))
            elif type(leaf) is Sharded:
                kinds.append((leaf.mesh, leaf.spec, leaf.shape, leaf.dtype))
            elif type(leaf) is np.ndarray:
                kinds.append((leaf.shape, leaf.dtype))
            else:
                return None
        return (structure, tuple(kinds), SESSION.plans.settings_number(current()), current_mesh()), leaves

    def lower(self, *args: Any, **kwargs: Any) -> Function:
        """The program that each rank runs for such arguments; nothing is run. Print it with `planish.ptir.print`."""
        call, _, mesh, specs = self._apart((*self._bound, *args), kwargs)
        return self._partitioned(call, mesh, specs)[1]

    # --- arguments ---

    def _apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CallParts, list[Any], Mesh, tuple[SpecAxes | None, ...]]:
        leaves, structure = tree.flatten(_dynamic(self._signature, args, kwargs))
        plain = [TensorSpec(x.shape, x.dtype) if isinstance(x, Sharded) else x for x in leaves]
        given, named = tree.unflatten(structure, plain)
        rest, static = iter(given), self._signature.static
        called = [arg if k in static else next(rest) for k, arg in enumerate(args)]
        call = self._signature.apart(called, {**kwargs, **named}, SESSION.plans.settings_number(current()))
        evaluate([leaf._value for leaf in leaves if isinstance(leaf, Tensor)])
        positional, keywords = call.key.structure.children
        entries = self._entries(positional, keywords)
        mesh = self._found_mesh(leaves, entries)
        specs: list[SpecAxes | None] = []
        for leaf, entry, name, kind in zip(leaves, entries, call.names, call.key.leaves, strict=True):
            dims = kind.type.dims
            said = entry(name, dims) if callable(entry) and not isinstance(entry, P | Sharding) else entry  # type: ignore[arg-type]
            spec = said.spec if isinstance(said, Sharding) else said
            if spec is not None:
                specs.append(spec_axes(f"the sharding of {name}", mesh, spec, dims))
            else:
                specs.append(leaf.spec if isinstance(leaf, Sharded) else None)
        return call, leaves, mesh, tuple(specs)

    def _entries(self, positional: Structure, keywords: Structure) -> list[Spec]:
        """What `in_shardings` says of every leaf: one entry for all arguments, or one for each in the order of parameters; of what is bound nothing."""
        signature, bound = self._signature, len(self._bound)
        names = keywords.about if isinstance(keywords.about, tuple) else ()
        arguments = [*positional.children[bound:], *keywords.children]
        given = list(self._in) if isinstance(self._in, tuple | list) else [self._in] * len(arguments)
        places: list[int | None] = list(range(len(arguments)))
        if isinstance(self._in, tuple | list):
            order = [name for k, name in enumerate(signature.positional) if k not in signature.static][bound:]
            known = {name: place for place, name in enumerate(order[: len(given)])}
            places[len(arguments) - len(names) :] = map(known.get, names)
            said = [place for place in places if place is not None]
            if sorted(said) != list(range(len(given))):
                raise GraphError.at_caller(
                    f"in_shardings of {signature.name} has {len(given)} entries, and it is called with {len(said)} arguments",
                    "give one entry per argument that is not static (None where nothing is said), or one for all",
                )
        specs: list[Spec] = [None] * sum(map(_count, positional.children[:bound]))
        for place, part in zip(places, arguments, strict=True):
            specs += spread(None if place is None else given[place], part, "in_shardings")
        return specs

    def _found_mesh(self, leaves: Sequence[Any], entries: Sequence[Spec]) -> Mesh:
        """The mesh of the call: that of `jit`, of a sharding, of an argument, or the current one."""
        outs = [leaf for leaf in tree.leaves(self._out) if isinstance(leaf, Sharding)]
        meshes = [self._mesh, *[e.mesh for e in (*entries, *outs) if isinstance(e, Sharding)]]
        meshes += [leaf.mesh for leaf in leaves if isinstance(leaf, Sharded)]
        distinct = list(dict.fromkeys(mesh for mesh in meshes if mesh is not None))
        if len(distinct) > 1:
            raise GraphError.at_caller(
                f"{self._signature.name} is called with arrays of two meshes, {distinct[0]!r} and {distinct[1]!r}",
                "cut all arguments over one mesh: planish.shard(x, mesh, spec)",
            )
        mesh = distinct[0] if distinct else current_mesh()
        if mesh is None:
            raise GraphError.at_caller(
                f"{self._signature.name} has shardings and no mesh",
                "pass mesh= to jit, or call it with arrays that planish.shard made",
            )
        return mesh

    def _inputs(
        self, code: _Code, call: CallParts, leaves: Sequence[Any], mesh: Mesh, ranks: Sequence[int]
    ) -> tuple[list[list[Any]], dict[int, Any]]:
        """The arrays of each rank; and of those that are donated to machine code, by number, the tensors that have them."""
        rows: list[list[Any]] = [[] for _ in ranks]
        owners: dict[int, Any] = {}
        donated = frozenset(() if code.virtual else code.traced.donated)
        captured = (
            [asarray(Tensor(value)).numpy() for value in code.traced.captured]
            if code.virtual
            else [value.storage for value in code.traced.captured]
        )
        described = [*call.key.leaves, *[None] * len(captured)]
        for leaf, kind, spec in zip([*leaves, *captured], described, code.layout.params, strict=True):
            if isinstance(leaf, Sharded):
                own = leaf if leaf.spec == spec else moved(leaf, P(*spec))
                parts = own.parts if isinstance(own, Sharded) else {r: cut(own, mesh, spec, r) for r in ranks}
            elif kind is None:
                parts = {rank: cut(leaf, mesh, spec, rank) for rank in ranks}
            else:
                array = leaf if type(leaf) is Tensor else asarray(array_of(leaf, kind))
                parts = {rank: cut(array, mesh, spec, rank) for rank in ranks}
            for row, rank in zip(rows, ranks, strict=True):
                part = parts[rank]
                if len(row) in donated:
                    # of an array that is not a tensor, the memory is its owner's
                    owners[len(row)] = part if isinstance(leaf, Sharded) or part is leaf else None
                if isinstance(part, Tensor):
                    if part._value.storage is None:
                        evaluate([part._value])
                    part = part.numpy() if code.virtual else part._value.storage
                row.append(part)
        return rows, owners

    # --- programs ---

    def _traced(
        self,
        mesh: Mesh,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        said: Callable[[list[Any], Structure], list[Any]],
        axes_of: SpecOf,
    ) -> Any:
        """The function, with what is said of its arguments and results; static ones stay as they are."""
        static = self._signature.static
        with mesh:
            leaves, structure = tree.flatten(_dynamic(self._signature, args, kwargs))
            given, named = tree.unflatten(structure, said(leaves, structure))
            rest = iter(given)
            placed = [arg if k in static else next(rest) for k, arg in enumerate(args)]
            returned = self._function(*placed, **{**kwargs, **named})
            if self._out is None:
                return returned
            outputs, shape = tree.flatten(returned)
            entries = spread(self._out, shape, "out_shardings")
            each = zip(outputs, entries, paths(shape, "result"), strict=True)
            return tree.unflatten(shape, [_placed(mesh, *one, axes_of) for one in each])

    def _partitioned(
        self, call: CallParts, mesh: Mesh, specs: tuple[SpecAxes | None, ...]
    ) -> tuple[CapturedCall, Function]:
        def said(leaves: list[Any], structure: Structure) -> list[Any]:
            return [_said(mesh, leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]

        def sharded(*args: Any, **kwargs: Any) -> Any:
            return self._traced(mesh, args, kwargs, said, spec_axes)

        traced = trace_call(self._signature, sharded, call)
        program = Program([traced.function])
        # first what the front end left: a reshape there and back hides from specs what it is about
        PassManager.parse(f"inline,{DEFAULT_PIPELINE}").run(program)
        whole = program.entry
        write(whole, propagate(whole, mesh.axes))
        rank_program = Program([partition(whole, mesh.axes, specs)])
        PassManager.parse(f"{DEFAULT_PIPELINE},combine").run(rank_program)
        return traced, rank_program.entry

    def _compiled(
        self, call: CallParts, mesh: Mesh, specs: tuple[SpecAxes | None, ...], ranks: Sequence[int]
    ) -> _Code:
        traced, function = self._partitioned(call, mesh, specs)
        return _Code(traced, function, ranks, self._passes)


def _dynamic(
    signature: CallSignature, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that are not static, in the order in which a call is taken apart."""
    given = [arg for position, arg in enumerate(args) if position not in signature.static]
    return tuple(given), {name: kwargs[name] for name in sorted(kwargs) if name not in signature.static}


def _said(mesh: Mesh, leaf: Any, spec: SpecAxes | None) -> Any:
    if spec is None or not isinstance(leaf, Tensor) or isinstance(leaf, WeakTensor):
        return leaf
    return Tensor.apply(ops.sharding, leaf, attrs=ops.ShardingAttrs(mesh.axes, spec))


def _placed(mesh: Mesh, leaf: Any, entry: Spec, name: str, axes_of: SpecOf) -> Any:
    """A value with what shardings say of it."""
    if callable(entry) and not isinstance(entry, P | Sharding):
        entry = entry(name, tuple(asarray(leaf).shape))
    spec = entry.spec if isinstance(entry, Sharding) else entry
    if spec is None:
        return leaf
    tensor = asarray(leaf)
    return _said(mesh, tensor, axes_of(f"the sharding of {name}", mesh, spec, tensor._value.type.dims))


def _run(code: _Code, mesh: Mesh, ranks: Sequence[int], rows: list[list[Any]]) -> Any:
    """The results: tensors where every rank has all, sharded arrays where they are cut."""
    try:
        if code.run is not None:
            results: list[Sequence[Any]] = [code.run(*rows[0])]
        else:
            results = list(interpret_ranks(code.function, rows))
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    leaves: list[Any] = []
    for number in code.traced.order:
        spec = code.layout.results[number]
        parts = {
            rank: asarray(row[number]) if code.virtual else computed(code.types[number], row[number], None)
            for rank, row in zip(ranks, results, strict=True)
        }
        if any(spec):
            own = parts[ranks[0]]
            shape = [size * group_size(mesh.axes, names) for size, names in zip(own.shape, spec, strict=True)]
            leaves.append(Sharded(mesh, spec, shape, own.dtype, parts))
        else:
            leaves.append(parts[ranks[0]])
    return tree.unflatten(code.traced.structure, leaves)


_MOVERS: Final[dict[tuple[Mesh, P], ShardedFunction]] = {}


def moved(x: Sharded, spec: P, mesh: Mesh | None = None) -> Any:
    """A sharded array cut another way; ranks must call it together."""
    target = mesh or x.mesh
    if target != x.mesh:
        if transport() is not None:
            raise GraphError.at_caller(f"{x!r} cannot go to {target!r}", "cut arrays over one mesh")
        return shard(x.whole(), target, spec)
    mover = _MOVERS.get((target, spec))
    if mover is None:

        def move(value: Tensor) -> Tensor:
            return value.copy()

        mover = _MOVERS[target, spec] = ShardedFunction(
            move, CallSignature(move, (), (), (), (), None), None, spec, target
        )
    return mover(x)
