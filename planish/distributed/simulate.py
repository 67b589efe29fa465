"""How long a step of a partitioned program takes on ranks that are not here, and what goes over which links.

    program = step.lower(state, batch)                              # a function under jit with shardings; nothing is run
    simulate(program, mesh, Network(8, Link(3e-6, 300e9), Link(8e-6, 50e9)), Device(400e12, 2.5e12))

All ranks run the same program on parts of the same size, so one rank stands for all. Its work is that of a roofline: products by their arithmetic or their
bytes, whichever takes longer, sums and other ops that go through memory by their bytes; elementwise ops are part of what they feed. A device's figures
are what it reaches, not what it promises: `Device.fitted` takes them from a measured step. Collectives cost what `network` says. They stop the rank, as they do today when
programs run on CPUs (`seconds`); `overlapped` is what remains if whatever does not need their results went on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, cast

from planish.distributed.network import COSTS, GroupPlacement, Link, Network, Transfer, group_on
from planish.errors import PlanishError
from planish.ptir.dims import bounds
from planish.ptir.function import Function, Inst, Program, Value
from planish.ptir.ops import collective as ops
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.ops.definition import OpKey
from planish.ptir.passes import PassManager
from planish.ptir.types import TensorType
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.frontend.sharding import Mesh

__all__ = ["Device", "Link", "Network", "Prediction", "simulate"]
_IN_MEMORY: Final = frozenset(
    {
        OpKey.REDUCE, OpKey.ARG_REDUCE, OpKey.REDUCE_WINDOW, OpKey.CUMULATIVE, OpKey.GATHER, OpKey.SCATTER, OpKey.DYNAMIC_UPDATE_SLICE, OpKey.SORT,
        OpKey.TOP_K,
    }
)  # fmt: skip
"""Ops whose operands and results go through memory; others are part of what they feed."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a rank computes with: figures that programs reach."""

    flops: float
    """Arithmetic per second in products."""
    bandwidth: float
    """Bytes per second from and to memory."""

    def __post_init__(self) -> None:
        if not (self.flops > 0 and self.bandwidth > 0):
            raise PlanishError(
                f"a device of {self.flops} FLOP/s and {self.bandwidth} B/s", remedy="both are above 0"
            )

    def fitted(self, prediction: Prediction, seconds: float) -> Device:
        """The device on which the work of a prediction takes so long."""
        factor = prediction.compute / seconds
        return Device(self.flops * factor, self.bandwidth * factor)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One step of a program on all ranks of a mesh."""

    ranks: int
    compute: float
    """Seconds of work of a rank."""
    communication: float
    """Seconds of its collectives."""
    overlapped: float
    """Seconds of a step in which what does not need a collective's result goes on meanwhile."""
    flops: float
    """Of a rank."""
    inside: float
    """Bytes that a rank sends within its node."""
    between: float
    """Bytes that a rank sends to other nodes."""
    collectives: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """How many of each, and their seconds."""

    @property
    def seconds(self) -> float:
        """Of a step, one thing after another."""
        return self.compute + self.communication

    @property
    def efficiency(self) -> float:
        """The share of the time that is work."""
        return self.compute / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        parts = f"{_time(self.compute)} of work and {_time(self.communication)} of collectives ({self.efficiency:.0%} work)"
        lines = [
            f"{self.ranks} ranks: {_time(self.seconds)} a step, {parts}; {_time(self.overlapped)} with overlap",
            f"each rank sends {self.inside / 1e6:.2f} MB within its node and {self.between / 1e6:.2f} MB to others",
        ]
        lines += [
            f"  {count:5} {name:15} {_time(seconds)}"
            for name, (count, seconds) in sorted(self.collectives.items())
        ]
        return "\n".join(lines)


def _time(seconds: float) -> str:
    return (
        f"{seconds:.3f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3f} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.1f} µs"
    )


def _bytes(types: Iterable[TensorType]) -> float:
    return float(sum(bounds(type.size)[1] * type.dtype.itemsize for type in types))


def _product(dims: Iterable[object]) -> float:
    total = 1.0
    for dim in dims:
        total *= bounds(dim)[1]  # type: ignore[arg-type]
    return total


def flops_of(inst: Inst) -> float:
    """Arithmetic of a product; 0 of anything else, whose bytes take longer."""
    attrs = inst.attrs
    elements = _product(inst.results[0].type.dims) if inst.results else 0.0
    if isinstance(attrs, DotGeneralAttrs):
        left = inst.operands[0].type.dims
        return 2 * elements * _product(left[axis] for axis in attrs.lhs_contract)
    if isinstance(attrs, ConvolutionAttrs):
        kernel, features = inst.operands[1].type.dims, attrs.rhs_layout.index("O")
        return 2 * elements * _product(dim for axis, dim in enumerate(kernel) if axis != features)
    return 0.0


def _work(inst: Inst, device: Device) -> float:
    """Seconds of an op that is no collective and no control flow."""
    flops = flops_of(inst)
    moved = _bytes([value.type for value in (*inst.operands, *inst.results)])
    if flops:
        return max(flops / device.flops, moved / device.bandwidth)
    if inst.op.key in _IN_MEMORY:
        return moved / device.bandwidth
    return 0.0


@dataclass(slots=True)
class _RankRun:
    """One rank's way through a program: when each value is there, and what it all costs."""

    mesh: ops.MeshAxes
    network: Network
    device: Device
    ranks: int
    compute: float = 0.0
    flops: float = 0.0
    transfer: Transfer = field(default_factory=lambda: Transfer(0.0))
    counts: dict[str, tuple[int, float]] = field(default_factory=dict)
    _groups: dict[tuple[str, ...], GroupPlacement] = field(default_factory=dict)

    def block(self, insts: Iterable[Inst], times: float) -> float:
        """Run instructions so often; the seconds of one time with overlap."""
        ready: dict[Value, float] = {}
        working = sending = 0.0
        for inst in insts:
            begin = max((ready.get(value, 0.0) for value in inst.operands), default=0.0)
            if inst.op.key is OpKey.COLLECTIVE and inst.op.name in COSTS:
                cost = self.collective(inst)
                self.transfer += Transfer(cost.seconds * times, cost.inside * times, cost.between * times)
                count, seconds = self.counts.get(inst.op.name, (0, 0.0))
                self.counts[inst.op.name] = count + round(times), seconds + cost.seconds * times
                sending = end = max(begin, sending) + cost.seconds
            else:
                took = self.step(inst, times)
                end = begin
                if took:
                    working = end = max(begin, working) + took
            ready.update(dict.fromkeys(inst.results, end))
        return max(working, sending)

    def step(self, inst: Inst, times: float) -> float:
        """An op, or the regions of one: a loop runs its body as often as it says, a branch counts as the longer one."""
        if not inst.regions:
            took = _work(inst, self.device)
            self.compute += took * times
            self.flops += flops_of(inst) * times
            return took
        turns = float(bounds(inst.attrs.length)[1]) if isinstance(inst.attrs, ScanAttrs) else 1.0
        if inst.op.name == "cond":
            return max(self.block(region, times) for region in inst.regions)
        return sum(self.block(region, times * turns) * turns for region in inst.regions)

    def collective(self, inst: Inst) -> Transfer:
        attrs = cast("ops.CollectiveAttrs", inst.attrs)
        group = self._groups.get(attrs.over)
        if group is None:
            # every group is like the first, but for where it begins
            ranks = _first_group(self.mesh, attrs.over)
            group = self._groups[attrs.over] = group_on(self.network, ranks, self.ranks)
        given, taken = (_bytes([value.type for value in values]) for values in (inst.operands, inst.results))
        return COSTS[inst.op.name](self.network, group, given, taken)


def _first_group(mesh: ops.MeshAxes, over: tuple[str, ...]) -> list[int]:
    """The ranks that are first along all other axes."""
    ranks = [0]
    stride = 1
    for name, size in reversed(mesh):
        if name in over:
            ranks = [rank + place * stride for rank in ranks for place in range(size)]
        stride *= size
    return ranks


def simulate(
    program: Function | Program, mesh: Mesh | ops.MeshAxes, network: Network, device: Device
) -> Prediction:
    """What a step of a partitioned program takes, on a network and devices that need not be here."""
    if not isinstance(program, Function | Program):
        raise PlanishError.at_caller(
            f"simulate takes the program of a rank, not {program!r}",
            "lower the function: step.lower(state, batch), where shapes will do",
        )
    axes = mesh if isinstance(mesh, tuple) else mesh.axes
    copy = program.clone() if isinstance(program, Program) else Program([program.clone()])
    PassManager.parse("inline,expand").run(copy)
    entry = copy.entry
    for inst in entry.walk():
        if inst.op.key is OpKey.COLLECTIVE and cast("ops.CollectiveAttrs", inst.attrs).mesh != axes:
            raise PlanishError(
                f"@{entry.name} is a program for the mesh {cast('ops.CollectiveAttrs', inst.attrs).mesh}, not {axes}",
                op=inst.op.name,
                remedy="simulate it on the mesh that it was partitioned for",
            )
    ranks = 1
    for _, size in axes:
        ranks *= size
    run = _RankRun(axes, network, device, ranks)
    overlapped = run.block(entry, 1.0)
    return Prediction(
        ranks,
        run.compute,
        run.transfer.seconds,
        overlapped,
        run.flops,
        run.transfer.inside,
        run.transfer.between,
        dict(run.counts),
    )
