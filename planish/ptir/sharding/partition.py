"""Partitioning: the program that every rank runs on its parts, from one whose `sharding` ops say how values are cut.

Instruction by instruction, of all ways to cut its factors that its operands or results suggest the one is taken that moves least:
the bytes that a rank receives to bring operands and results into place and to combine sums, and the work that each does. Operands
are brought into the specs needed, the op runs on parts, sums are combined, scattered where a part is all that is wanted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from planish.errors import InternalError
from planish.ptir.builder import Graph
from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.collective import MeshAxes, MeshLayout, ShardingAttrs, SpecAxes, group_size, sharding
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.ops.definition import OpKey
from planish.ptir.sharding.factors import Axes, Factors, factors_of
from planish.ptir.sharding.local import Cut, LocalInst, can_shift, emit_local, finish
from planish.ptir.sharding.reshard import TensorPart, reshard
from planish.ptir.sharding.specs import bytes_of, can_cut, is_remade, local_type, moved_bytes, whole

Env = dict[Value, TensorPart]
MOST_CHOICES = 256
"""Ways to cut an instruction that are looked at."""
FLOPS_PER_BYTE = 16.0
"""Work that takes as long as a byte between ranks."""


def partition(function: Function, mesh: MeshAxes, given: Sequence[SpecAxes | None] = ()) -> Function:
    """The function of one rank; its layout says which parts it takes and gives.

    `given` are specs of the first parameters, also of those that nothing uses; None: what `sharding` ops say.
    """
    graph = Graph(function.name)
    graph.function.loc = function.loc
    env: Env = {}
    for number, param in enumerate(function.params):
        said = given[number] if number < len(given) else None
        spec = said or wanted(param) or whole(param.type.rank)
        value = graph.function.body.add_arg(local_type(mesh, param.type, spec), param.name)
        env[param] = TensorPart.of(graph.wrap(value), spec)
    maker = _Partition(graph, mesh)
    results = maker.region(function.body, env)
    local = graph.build([part.value for part in results])
    params = tuple([env[param].spec for param in function.params])
    local.layout = MeshLayout(mesh, params, tuple([part.spec for part in results]))
    return local


def wanted(value: Value) -> SpecAxes | None:
    """The spec that a value is said to have: that of the first `sharding` op of it in its region."""
    home = value.region
    for user in value.users:
        if user.op is sharding and user.parent is home and isinstance(user.attrs, ShardingAttrs):
            return user.attrs.spec
    return None


def _spec(axes: Axes, cut: Cut) -> SpecAxes:
    """The spec of a tensor whose factors are cut so."""
    return tuple([cut.get(axis[0], ()) if axis else () for axis in axes])


class _Partition:
    """Builds the program of one rank."""

    def __init__(self, graph: Graph, mesh: MeshAxes) -> None:
        self.graph = graph
        self.mesh = mesh

    def region(self, region: Region, env: Env) -> list[TensorPart]:
        """Emit the instructions of a region; its results, with their specs."""
        for inst in region:
            self.graph.place = inst.loc
            try:
                self.inst(inst, env)
            except (KeyError, IndexError, AssertionError) as error:
                raise InternalError(
                    f"{inst.op.name} cannot be partitioned: {error!r}", location=inst.loc
                ) from error
        return [env[value] for value in region.results]

    def inst(self, inst: Inst, env: Env) -> None:
        if inst.op is sharding:
            attrs = inst.attrs
            given = env[inst.operands[0]]
            env[inst.result] = TensorPart(self.moved(given, attrs.spec), attrs.spec, given.forms)  # type: ignore[attr-defined]
            return
        if inst.regions:
            parts = self.control(inst, env)
        else:
            parts = self.plain(inst, env)
        env.update(zip(inst.results, parts, strict=True))

    def moved(self, part: TensorPart, spec: SpecAxes) -> GraphValue:
        """A tensor under a spec; each is made once, from what costs least."""
        form = part.forms.get(spec)
        if form is None and is_remade(part.value.value) and not any(part.spec):
            form = part.forms[spec] = self.remade(part, spec)
        if form is None:
            form = part.forms[spec] = reshard(self.graph, self.mesh, self.nearest(part, spec), spec)
        return form

    def remade(self, part: TensorPart, spec: SpecAxes) -> GraphValue:
        """A whole value that is cheap to make, made again as a part."""
        inst = part.value.value.def_inst
        if inst is None:
            raise InternalError(f"{part.value!r} is a parameter")
        factors = factors_of(inst)
        cut = {axis[0]: names for axis, names in zip(factors.results[0], spec, strict=True) if axis and names}
        type = local_type(self.mesh, part.value.type, spec)
        x = [self.graph.wrap(value) for value in inst.operands]
        return next(iter(emit_local(LocalInst(self.graph, self.mesh, inst, factors, cut, x, [type]))))

    def nearest(self, part: TensorPart, spec: SpecAxes) -> TensorPart:
        """The form of a tensor from which a spec is reached with the fewest bytes."""

        def bytes_from(form: tuple[SpecAxes, GraphValue]) -> float:
            old, value = form
            return moved_bytes(self.mesh, bytes_of(value.type), old, spec)

        old, value = min(part.forms.items(), key=bytes_from)
        return TensorPart(value, old, part.forms)

    def plain(self, inst: Inst, env: Env) -> list[TensorPart]:
        factors = factors_of(inst)
        given = [env[value] for value in inst.operands]
        goals = [wanted(value) for value in inst.results]
        cut = self.choose(inst, factors, given, goals)
        x = [self.moved(part, _spec(axes, cut)) for part, axes in zip(given, factors.operands, strict=True)]
        specs = [_spec(axes, cut) for axes in factors.results]
        types = [local_type(self.mesh, v.type, spec) for v, spec in zip(inst.results, specs, strict=True)]
        at = LocalInst(self.graph, self.mesh, inst, factors, cut, x, types)
        parts: list[TensorPart] = []
        for number, value in enumerate(emit_local(at)):
            if value.dims != types[number].dims:
                raise InternalError(
                    f"a part of {inst.op.name} is {value.type}, not {types[number]}", location=inst.loc
                )
            part = self.combined(TensorPart.of(value, specs[number]), factors, cut, goals[number])
            parts.append(TensorPart.of(finish(at, part.value, number), part.spec))
        return parts

    def combined(self, part: TensorPart, factors: Factors, cut: Cut, goal: SpecAxes | None) -> TensorPart:
        """Parts of a sum made one: everywhere, or where the goal says each rank needs only its part of it."""
        value, spec, _ = part
        for kind in dict.fromkeys(factors.reduced.values()):
            over = tuple([n for f, own in factors.reduced.items() if own == kind for n in cut.get(f, ())])
            if not over:
                continue
            axis = _scatters(self.mesh, value, spec, goal, over)
            if axis is None:
                value = value.all_reduce(self.mesh, over, kind)
            else:
                value = value.reduce_scatter(self.mesh, over, axis, kind)
                spec = (*spec[:axis], (*spec[axis], *over), *spec[axis + 1 :])
        return TensorPart.of(value, spec)

    # --- which way to cut ---

    def choose(
        self, inst: Inst, factors: Factors, given: Sequence[TensorPart], goals: Sequence[SpecAxes | None]
    ) -> Cut:
        """The way to cut the factors of an instruction that costs least."""
        offers: dict[int, dict[tuple[str, ...], None]] = {}
        tensors = [
            *((part.spec, axes) for part, axes in zip(given, factors.operands, strict=True)),
            *((goal, axes) for goal, axes in zip(goals, factors.results, strict=True) if goal is not None),
        ]
        for spec, axes in tensors:
            for names, axis in zip(spec, axes, strict=True):
                if axis and axis[0] not in factors.blocked:
                    for length in range(1, len(names) + 1):
                        if can_cut(self.mesh, factors.sizes[axis[0]], names[:length]):
                            offers.setdefault(axis[0], {(): None})[names[:length]] = None
        if not offers:
            return {}
        best: tuple[float, int] | None = None
        chosen: dict[int, tuple[str, ...]] = {}
        ways = itertools.product(*[list(reversed(options)) for options in offers.values()])
        for order, way in enumerate(itertools.islice(ways, MOST_CHOICES)):
            used = [name for part in way for name in part]
            if len(set(used)) != len(used):
                continue
            cut = {number: part for number, part in zip(offers, way, strict=True) if part}
            if not can_shift(inst, factors, cut, self.mesh):
                continue
            cost = (self.cost(inst, factors, cut, given, goals), order)
            if best is None or cost < best:
                best, chosen = cost, cut
        return chosen

    def cost(
        self,
        inst: Inst,
        factors: Factors,
        cut: Cut,
        given: Sequence[TensorPart],
        goals: Sequence[SpecAxes | None],
    ) -> float:
        """Bytes that a rank receives, and its work in bytes."""
        mesh, total, touched = self.mesh, 0.0, 0.0
        for value, part, axes in zip(inst.operands, given, factors.operands, strict=True):
            need = _spec(axes, cut)
            if need not in part.forms:
                total += min(moved_bytes(mesh, bytes_of(v.type), old, need) for old, v in part.forms.items())
            touched += bytes_of(local_type(mesh, value.type, need))
        over = [name for number in factors.reduced for name in cut.get(number, ())]
        for value, goal, axes in zip(inst.results, goals, factors.results, strict=True):
            have = _spec(axes, cut)
            size = bytes_of(local_type(mesh, value.type, have))
            touched += size
            if over:
                count = group_size(mesh, over)
                scattered = goal is not None and any(
                    names[len(own) :] == tuple(over) for names, own in zip(goal, have, strict=True)
                )
                total += size * (count - 1) / count * (1 if scattered else 2)
                if scattered:
                    continue
            if goal is not None:
                total += moved_bytes(mesh, size, have, goal)
        work = touched / 8.0
        if inst.op.key in (OpKey.DOT_GENERAL, OpKey.CONVOLUTION):
            sizes = [
                _length(size) / group_size(mesh, cut.get(number, ()))
                for number, size in enumerate(factors.sizes)
            ]
            work += 2.0 * math.prod(sizes)
        return total + work / FLOPS_PER_BYTE

    # --- control flow ---

    def control(self, inst: Inst, env: Env) -> list[TensorPart]:
        """Values that are carried, or come from either of two ways, have one spec; the first axis of sequences stays whole."""
        key = inst.op.key
        count = inst.attrs.num_carries if isinstance(inst.attrs, ScanAttrs) else len(inst.results)
        results = [self.result_spec(inst, number, count) for number in range(len(inst.results))]
        given = [env[value] for value in inst.operands]
        args: list[list[SpecAxes]]
        if key is OpKey.COND:
            operands, args = [given[0].value], [[], []]
        elif key is OpKey.WHILE:
            operands = [self.moved(part, spec) for part, spec in zip(given, results, strict=True)]
            args = [results, results]
        else:
            sequences = [((), *part.spec[1:]) for part in given[count:]]
            specs = [*results[:count], *sequences]
            operands = [self.moved(part, spec) for part, spec in zip(given, specs, strict=True)]
            args = [[*results[:count], *[spec[1:] for spec in sequences]]]
        regions = []
        for number, (region, own) in enumerate(zip(inst.regions, args, strict=True)):
            goals = (
                None
                if key is OpKey.WHILE and number == 0
                else [spec if place < count else spec[1:] for place, spec in enumerate(results)]
            )
            regions.append(self.inner(inst, region, own, goals, env))
        self.graph.place = inst.loc
        values = self.graph.emit_many(inst.op, operands, inst.attrs, regions)
        return [TensorPart.of(value, spec) for value, spec in zip(values, results, strict=True)]

    def result_spec(self, inst: Inst, number: int, count: int) -> SpecAxes:
        """The spec of a result of control flow: what it is said to be, or what it is carried as."""
        value = inst.results[number]
        said = wanted(value)
        if said is None and number < count and inst.op.key in (OpKey.WHILE, OpKey.SCAN):
            said = wanted(inst.regions[-1].args[number])
        if said is None:
            said = whole(value.type.rank)
        return said if number < count else ((), *said[1:])

    def inner(
        self,
        inst: Inst,
        region: Region,
        specs: Sequence[SpecAxes],
        goals: Sequence[SpecAxes] | None,
        env: Env,
    ) -> Region:
        """A region on parts."""
        types = [local_type(self.mesh, arg.type, spec) for arg, spec in zip(region.args, specs, strict=True)]

        def build(*args: GraphValue) -> list[GraphValue]:
            # what is made inside is not there outside
            inside = {value: part._replace(forms=dict(part.forms)) for value, part in env.items()}
            for arg, value, spec in zip(region.args, args, specs, strict=True):
                inside[arg] = TensorPart.of(value, spec)
            results = self.region(region, inside)
            if goals is None:
                return [part.value for part in results]
            return [self.moved(part, goal) for part, goal in zip(results, goals, strict=True)]

        return self.graph._region(inst.op, build, types, [arg.name for arg in region.args])


def _length(size: object) -> float:
    return float(size) if isinstance(size, int) else 1.0


def _scatters(
    mesh: MeshAxes, value: GraphValue, spec: SpecAxes, goal: SpecAxes | None, over: tuple[str, ...]
) -> int | None:
    """The axis of which each rank needs only its part of a sum."""
    if goal is None:
        return None
    for axis, (names, own) in enumerate(zip(goal, spec, strict=True)):
        if names == (*own, *over) and can_cut(mesh, value.dims[axis], over):
            return axis
    return None
