"""Collectives as plans call them: records of each, read by C (`planish/runtime/collectives`) that calls MPI through pointers.

A plan names a collective by a key (`planish.schedule.collectives`), a hash of the op, its attributes and dtype. When a program is loaded, `prepare`
first lets all ranks compare what they are about to run, and makes the communicators of its groups; then it writes a record per key. Nothing of Python runs when
the plan does, unless a collective fails: then C asks for the exception.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from planish import ptir
from planish.compiler.object_code import object_of
from planish.errors import InternalError
from planish.ptir.ops import collective as ops
from planish.ptir.ops.literal import Array
from planish.records import dataclass
from planish.runtime import native, ranks
from planish.runtime.elf import Loaded
from planish.runtime.ranks import CollectiveError, Groups, World, handle_of
from planish.schedule.collectives import KINDS, collectives_in, key_of, reduction_of
from planish.schedule.plan import Host

if TYPE_CHECKING:
    from planish.compiler import Lowered

_FUNCTIONS: Final = (
    "Iallreduce", "Iallgather", "Ireduce_scatter_block", "Ialltoall", "Ibcast", "Isend", "Irecv",
)  # fmt: skip
"""In the order of the C."""
_SYMBOLS: Final = {
    "collective": "collective",
    "collective.wait": "collective_wait",
    "collective.poll": "collective_poll",
    "collective.index": "collective_index",
}
_LATE: Final = -1
_FIRST: Final = 64


def groups_of(attrs: ops.CollectiveAttrs) -> Groups:
    """Who exchanges with whom."""
    return tuple(map(tuple, ops.groups_of(attrs.mesh, attrs.over)))


@dataclass(frozen=True, slots=True)
class ByMpi:
    """Collectives outside of machine code: all ranks of a group hear each other's arrays, and each works out its own result."""

    world: World

    @property
    def rank(self) -> int:
        return self.world.rank

    @property
    def size(self) -> int:
        return self.world.size

    def exchange(self, op: str, attrs: ops.CollectiveAttrs, array: Array) -> Array:
        """What this rank gets."""
        given = self.world.gather(op, groups_of(attrs), array)
        return ops.EXCHANGES[op](list(given), attrs)[ops.place_of(attrs.mesh, attrs.over, self.rank)]


class Record(ctypes.Structure):
    """`struct record` of the C."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "key", "number", "kind", "communicator", "type", "op", "scale", "itemsize", "members", "place", "root", "source", "target",
        )
    ]  # fmt: skip


@dataclass(slots=True)
class _LoadedCollective:
    """A collective of programs that are loaded."""

    step: Host
    program: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        attrs = cast("ops.CollectiveAttrs", self.step.attrs)
        given = ", ".join(map(str, self.step.input_types))
        over = ", ".join(f"{name} ({dict(attrs.mesh)[name]})" for name in attrs.over)
        at = f" at {' or '.join(self.lines)}" if self.lines else ""
        return f"{self.step.op.name}({given}) over {over} of @{self.program}{at}"


@dataclass(slots=True)
class Binding:
    """The library of MPI, and the C that calls it, in this process."""

    code: Loaded
    is_connected: bool = False
    entries: list[Record] = field(default_factory=list)
    known: dict[int, _LoadedCollective] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)
    """What C has addresses of."""
    failure: BaseException | None = None

    @property
    def world(self) -> World:
        """The ranks that there are: a program may have run before they were found."""
        return ranks.world()

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the C, on numbers and addresses."""
        native.function(self.code, name, *[ctypes.c_int64] * len(arguments))(*arguments)

    def connect(self) -> None:
        """Give the C its pointers."""
        library, wide = _library()
        addresses = [_address(library, f"MPI_{name}{'_c' if wide else ''}") for name in _FUNCTIONS]
        failed = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self.failed)
        pointers = (ctypes.c_int64 * 9)(
            *addresses, _address(library, "MPI_Test"), ctypes.cast(failed, ctypes.c_void_p).value or 0
        )
        self.alive += [library, failed]
        self.is_connected = True
        ranks.on_timeout(lambda seconds: self.call("collectives_patience", int(seconds * 1e9)))
        self.call("collectives_connect", ctypes.addressof(pointers), int(self.world.patience * 1e9))

    def failed(self, number: int, code: int) -> None:
        """Called by C: leaves the exception that the call raises."""
        what = str(self.known.get(number, "a collective"))
        if code == _LATE:
            error = ranks.late(self.world, what, self.world.patience)
        else:
            from mpi4py import MPI

            error = CollectiveError(
                f"rank {self.world.rank} of {self.world.size}: MPI failed in {what}: {MPI.Get_error_string(code)}"
            )
        self.failure = error
        self.call("collectives_error", id(type(error)), id(error))

    def register(self, steps: Iterable[tuple[Host, _LoadedCollective]]) -> None:
        """Records for collectives, in a table that C searches by key."""
        if not self.is_connected and self.world.communicator is not None:
            self.connect()
        there = {record.key for record in self.entries}
        for step, known in steps:
            key = key_of(step.op.name, step.attrs, step.input_types)
            if key not in there:
                there.add(key)
                self.entries.append(self._record(key, step))
                self.known[len(self.entries) - 1] = known
        count = max(_FIRST, 1 << (2 * len(self.entries)).bit_length())
        table = (Record * count)()
        for record in self.entries:
            places = itertools.chain(range(record.key & (count - 1), count), range(count))
            table[next(place for place in places if table[place].key == 0)] = record
        self.alive.append(table)
        self.call("collectives_table", ctypes.addressof(table), count - 1)

    def _record(self, key: int, step: Host) -> Record:
        attrs = cast("ops.CollectiveAttrs", step.attrs)
        members = ops.group_size(attrs.mesh, attrs.over)
        place = ops.place_of(attrs.mesh, attrs.over, self.world.rank)
        dtype = (*step.input_types, *step.output_types)[0].dtype
        record = Record(
            key=key, number=len(self.entries), kind=KINDS[step.op.name], members=members, place=place,
            itemsize=dtype.itemsize, scale=dtype.itemsize, root=-1, source=-1, target=-1,
        )  # fmt: skip
        if isinstance(attrs, ops.BroadcastAttrs):
            record.root = attrs.root
        if isinstance(attrs, ops.PermuteAttrs):
            record.source = next((a for a, b in attrs.pairs if b == place), -1)
            record.target = next((b for a, b in attrs.pairs if a == place), -1)
        if members > 1:
            record.communicator = handle_of(self.world.group(groups_of(attrs)))
            record.type = _handle("BYTE")
            if isinstance(attrs, ops.AllReduceAttrs | ops.ReduceScatterAttrs):
                reduction = reduction_of(attrs.kind, dtype)
                if reduction is None:
                    raise InternalError(f"no reduction {attrs.kind} of {dtype.name}, and yet a routine")
                record.scale, record.type, record.op = 1, *map(_handle, (reduction.type, reduction.op))
        return record


def _handle(name: str) -> int:
    """Of one of MPI's types or operations."""
    from mpi4py import MPI

    return handle_of(getattr(MPI, name))


@cache
def _library() -> tuple[ctypes.CDLL, bool]:
    """The library that mpi4py is linked to, and whether it has functions with wide counts."""
    from mpi4py import MPI

    library = ctypes.CDLL(MPI.__file__)
    try:
        return library, bool(library["MPI_Iallreduce_c"])
    except AttributeError:
        return library, False


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    except AttributeError:
        raise CollectiveError(
            f"the MPI of mpi4py has no {name}", remedy="use MPICH or Open MPI of this decade"
        ) from None


@cache
def binding() -> Binding:
    """The one of this process."""
    raised = ctypes.cast(ctypes.pythonapi.PyErr_SetObject, ctypes.c_void_p).value or 0
    return Binding(Loaded(object_of(native.source("collectives")), {"PyErr_SetObject": raised}))


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the collectives of this process have taken so far."""

    calls: int
    waited: float
    """Seconds in collectives that were not done at once."""
    processor: float
    """Of these, seconds of the processor: whoever waits looks again and again."""


def statistics() -> Statistics:
    """Of this process: how many collectives machine code has called, and how long it waited in them."""
    words = (ctypes.c_int64 * 3)()
    binding().call("collectives_statistics", ctypes.addressof(words))
    return Statistics(words[0], words[1] * 1e-9, words[2] * 1e-9)


def address_of(routine: str) -> int | None:
    """Where a plan's routine is; None if it is no collective."""
    name = _SYMBOLS.get(routine)
    return None if name is None else binding().code.address(name)


def prepare(lowered: Lowered) -> Mapping[int, str]:
    """Before a program with collectives runs: all ranks have the same one, for devices of one kind, and its groups and records are there.

    Gives what each collective is called, by key.
    """
    steps = collectives_in(lowered.plan)
    name = lowered.arguments.function
    world = ranks.world()
    for step in steps:
        attrs = cast("ops.CollectiveAttrs", step.attrs)
        if ops.group_size(attrs.mesh, attrs.over) > 1:
            ops.transport_for(step.op.name, attrs.mesh)
    order = " ".join(str(key_of(step.op.name, step.attrs, step.input_types)) for step in steps)
    device = "a GPU" if lowered.target.is_gpu else "the CPU"
    agree(world, name, ptir.print(lowered.function), device, order)
    lines = lines_of(lowered.source)
    known = [
        (step, _LoadedCollective(step, name, lines.get(step.op.name, ())))
        for step in steps
        if step.call is not None and step.call.name in _SYMBOLS
    ]
    if known and not lowered.target.is_gpu:
        binding().register(known)
    return {key_of(step.op.name, step.attrs, step.input_types): str(each) for step, each in known}


def prepare_interpreted(function: ptir.Function) -> None:
    """As `prepare`, for a rank that interprets its program."""
    world = ranks.world()
    if world.size > 1 and any(inst.op.name in KINDS for inst in function.walk()):
        agree(world, function.name, ptir.print(function), "the interpreter")


def lines_of(function: ptir.Function | None) -> Mapping[str, tuple[str, ...]]:
    """The user's lines that each collective comes from, by op."""
    by_op: dict[str, list[str]] = {}
    for inst in () if function is None else function.walk():
        if (
            inst.op.name in KINDS
            and inst.loc is not None
            and str(inst.loc) not in by_op.setdefault(inst.op.name, [])
        ):
            by_op[inst.op.name].append(str(inst.loc))
    return {op: tuple(lines[:4]) for op, lines in by_op.items()}


def agree(world: World, name: str, text: str, device: str, order: str = "") -> None:
    """All ranks are about to run the same program, on devices of one kind, and meet in the same order."""
    digest, met = (hashlib.blake2b(each.encode(), digest_size=16).hexdigest() for each in (text, order))
    own = "\n".join((digest, device, name, met)).encode()
    told = [each.decode().split("\n") for each in world.agree(f"the agreement on @{name}", own)]
    _compare(told, 1, "devices of one kind", "put all ranks on the CPU, or each on a GPU")
    _compare(
        told, 0, "the same program",
        "every rank must call the same functions with the same shapes and dtypes in the same order; compare planish lower --to ptir",
    )  # fmt: skip
    _compare(
        told, 3, f"plans of @{name} that meet in one order", "compile for what all ranks have: planish.settings(target='x86-64-v3')",
    )  # fmt: skip


def _compare(told: Sequence[Sequence[str]], field: int, what: str, remedy: str) -> None:
    kinds: dict[str, list[int]] = {}
    for rank, each in enumerate(told):
        kinds.setdefault(each[field], []).append(rank)
    if len(kinds) > 1:
        shown = "; ".join(
            f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks[:8]))}{' …' if len(ranks) > 8 else ''}: "
            + (f"@{told[ranks[0]][2]} ({kind[:8]})" if field == 0 else kind)
            for kind, ranks in kinds.items()
        )
        raise CollectiveError(f"the ranks do not run {what}: {shown}", remedy=remedy)
