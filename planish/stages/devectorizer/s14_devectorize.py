"""Stage 14, devectorize: vectors of any width become accesses and operations of the widths the target has.

Why: until here a node may have 384 lanes; a register holds 16. Memory is read fastest in whole vectors.

How, in one walk (the names are those of the matchers)
* `load_store_folding`. The index of every lane is written as base + constant (`lane_forms.py`). Lanes with the same base and
  consecutive constants make one access, however long; what stands alone is a scalar access. The loaded pieces are
  joined and put into lane order by one lane selection; a store selects the lanes of its value. Gates: lanes with the
  same gate belong together; where the target masks lanes, so do neighbours whose gates differ. A lane whose gate
  never opens is not loaded at all. Lanes a few elements apart (every second one) are loaded with what lies between
  them, as whole vectors of which the last ends where the last lane is, and selected.
* `correct_load_store`. An access is cut to the lengths the target folds, where it has to be aligned only at places
  that are proved to be. What is proved is also said (`align16`); of a parameter nothing is known but what the
  target promises, on a CPU its element. Other hints (`nontemporal`) stay on every piece.
* `devectorize`. An operation wider than the target's registers becomes several of full width, joined; a vector in an
  accumulator is accessed in such pieces. One lane of a loaded vector in all lanes of a register becomes a load of that
  element (CPUs spread it for nothing, a shuffle takes a turn). Tiles of tensor cores are cut to one core each (`wmma.py`).

Before → after::

    LOAD(INDEX(a, ⟨i i+1 … i+31⟩)) : f32x32         CAT(LOAD(INDEX(a, i)) : f32x16, LOAD(INDEX(a, i + 16)) : f32x16)
    LOAD(INDEX(a, ⟨i i i i⟩)) : f32x4               ⟨x x x x⟩, x = LOAD(INDEX(a, i))
    LOAD(INDEX(a, ⟨p ? i : INVALID …⟩)) : f32x4     LOAD(INDEX(a, i, p)) : f32x4
    ADD(x, y) : f32x32                              CAT(ADD(x[0:16], y[0:16]), ADD(x[16:32], y[16:32]))

Settings: `devectorize=0` leaves operations and accumulators as wide as they are, `devectorize=2` accesses too;
`allow_half8` lets a target with that option move eight 16-bit floats at once.

Would break without it: every lane of an index would be computed in vectors, and every access would be a gather.

Holds afterwards: indices are scalars; no operation has more lanes than a register; results are the same bit for bit. How
many nodes there are depends on the actions taken and the target, never on the sizes of tensors.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache
from itertools import accumulate, pairwise
from math import gcd
from typing import Final, cast

from planish import dtypes
from planish.config import current
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.records import dataclass
from planish.stages.devectorizer.accesses import (
    LaneAccess,
    accesses_of,
    join,
    lanes_of,
    moved,
    parted,
    pieces_of,
)
from planish.stages.devectorizer.lane_forms import ELEMENTWISE, Forms, ahead, base_and_constant
from planish.stages.devectorizer.lane_gates import gate_of
from planish.stages.devectorizer.wmma import pm_split_wmma, pm_whole_tiles, pm_wmma_accumulate
from planish.target import Target
from planish.uop.access_hints import AccessHints, hints_of
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.alignment import const_factor, power_of_two
from planish.uop.symbolic.lanes import is_broadcast, selected
from planish.uop.symbolic.lanes import lanes as lane_rules

_INDEX_BYTES: Final = 4
"""What an index will nearly always take: stage 15 makes it int32 wherever the bounds allow it."""
_REGISTER: Final = AddrSpace.REG
_JOINED: Final = frozenset({Ops.CAT, Ops.VECTORIZE})
_PAIRED: Final = frozenset({dtypes.float32, dtypes.uint8, dtypes.int8})
"""What 16-bit floats are made of two at a time."""


@dataclass(slots=True)
class _LaneRun:
    """One kernel: the machine, the settings, and what is known of its vectors."""

    target: Target
    cut_values: bool
    cut_accesses: bool
    allow_half8: bool
    forms: Forms
    cut: set[UOp] = field(default_factory=set)
    """Accesses that are as the target wants them."""


def _is_vector_place(place: UOp) -> bool:
    return place.op is Ops.INDEX and len(place.src) > 1 and place.src[1].dtype.lanes > 1


def _fold_load(root: UOp, ctx: _LaneRun) -> UOp | None:
    place = root.src[0]
    if not _is_vector_place(place) or len(root.src) > 1:
        return None
    scalar, count = root.dtype.scalar, root.dtype.lanes
    shifted = _shifted(root, ctx)
    if shifted is not None:
        return shifted
    pieces: list[UOp] = []
    order = [-1] * count
    taken = 0
    for access in accesses_of(place, ctx.target.masked, ctx.forms, _anywhere(place, ctx.target)):
        for start, width in _covering(access, scalar, ctx.target):
            index = ahead(access.index, start) if start else access.index
            gate = access.gate(start, start + width)
            load = _cut(root.replace(dtype=scalar.vec(width), src=(moved(place, index, gate),)), ctx)
            pieces += load.src if load.op is Ops.CAT else (load,)
            for element, lanes in enumerate(access.lanes[start : start + width]):
                for lane in lanes:
                    order[lane] = taken + element
            taken += width
    if -1 in order:  # never loaded
        pieces.append(root.table.const(False if scalar.is_bool else 0, scalar))
        order = [taken if lane < 0 else lane for lane in order]
        taken += 1
    joined = join(pieces, scalar.vec(taken))
    if taken == 1:
        return root.table.make(Ops.VECTORIZE, root.dtype, (joined,) * count)
    return selected(joined, tuple(order))


def _shifted(root: UOp, ctx: _LaneRun) -> UOp | None:
    """A load of whole vectors that overlap in memory, as a row and its neighbours do: each by itself, wherever it starts.

    Loading every element once would mean to shift them in registers, which takes more than another load.
    """
    place, width = root.src[0], ctx.target.lanes(root.dtype.scalar)
    if (
        width < 2
        or root.dtype.lanes % width
        or root.dtype.lanes == width
        or _anywhere(place, ctx.target) == 1
    ):
        return None
    form, gates, gate, _ = lanes_of(place, ctx.forms)
    bases, constants = list(form.bases()), form.constants
    vectors: dict[object, list[int | None]] = {}
    order: list[int] = []
    for begin in range(0, root.dtype.lanes, width):
        lanes = range(begin, begin + width)
        first = constants[begin]
        if any(bases[n] != bases[begin] or constants[n] - first != n - begin for n in lanes):
            return None
        key = (bases[begin], first, tuple(gates[n] for n in lanes))
        vectors.setdefault(key, list(lanes))
        number = list(vectors).index(key)
        order.extend(range(number * width, (number + 1) * width))
    starts = {(bases[begin], constants[begin]) for begin in range(0, root.dtype.lanes, width)}
    if not any(one == other and 0 < b - a < width for one, a in starts for other, b in starts):
        return None
    like = place.table.const(0, place.src[1].dtype.scalar)
    pieces = [
        root.replace(
            dtype=root.dtype.scalar.vec(width),
            src=(
                moved(
                    place,
                    ctx.forms.at(form, cast("int", lanes[0]), like),
                    gate_of(gate, gates, lanes, ctx.forms),
                ),
            ),
        )
        for lanes in vectors.values()
    ]
    return selected(join(pieces, root.dtype.scalar.vec(width * len(pieces))), tuple(order))


def _anywhere(place: UOp, target: Target) -> int:
    """Elements of a vector that may start anywhere, so that lanes are selected from what lies around them; 1 if there is none."""
    memory = place.src[0].dtype
    if not isinstance(memory, PtrDType) or memory.space is _REGISTER or target.aligned_bytes:
        return 1
    return target.lanes(memory.base.scalar)


def _covering(access: LaneAccess, dtype: DType, target: Target) -> list[tuple[int, int]]:
    """Where the pieces of an access begin and how long they are: one, or, if it has gaps, whole vectors that overlap at the end."""
    count = len(access.lanes)
    if all(access.lanes):
        return [(0, count)]
    width = next((w for w in target.widths(dtype) if w <= count), 1)
    starts = (*range(0, count - width, width), count - width)
    return [(start, width) for start in starts]


def _fold_store(root: UOp, ctx: _LaneRun) -> UOp | None:
    place, value = root.src[:2]
    if not _is_vector_place(place) or len(root.src) > 2:
        return None
    stores = []
    for access in _stored(place, ctx):
        # of several lanes that write one place, the last one wins
        chosen = tuple(lanes[-1] for lanes in access.lanes)
        store = root.replace(src=(moved(place, access.index, access.gate()), selected(value, chosen)))
        stores.append(_cut(store, ctx))
    return stores[0] if len(stores) == 1 else root.table.make(Ops.GROUP, dtypes.void, tuple(stores))


def _stored(place: UOp, ctx: _LaneRun) -> list[LaneAccess]:
    """The runs of a store.

    Lanes under gates of their own are one access where the target has masks; or where one access of the target writes them all: mostly all of
    them are open, and at the end of a row the code writes one by one.
    """
    apart = list(accesses_of(place, ctx.target.masked, ctx.forms))
    memory = cast("PtrDType", place.src[0].dtype)
    if (
        ctx.target.masked
        or not ctx.target.aligned_bytes
        or memory.space is not AddrSpace.GLOBAL
        or len(apart) < 2
    ):
        return apart
    together = list(accesses_of(place, True, ctx.forms))
    count = place.src[1].dtype.lanes
    if len(together) != 1 or count not in ctx.target.widths(memory.base) or not all(together[0].lanes):
        return apart
    at = place.replace(dtype=memory, src=(place.src[0], together[0].index))
    whole = _proved_alignment(at, ctx) >= count * memory.base.itemsize
    return together if whole else apart


# -- how wide ----------------------------------------------------------------------------------------------------


def _proved_alignment(place: UOp, ctx: _LaneRun, ahead: int = 0) -> int:
    """The bytes that the address of the element so far behind a place is sure to be a multiple of: a power of two."""
    memory = cast("PtrDType", place.dtype)
    start = ctx.target.alignment(memory.base.scalar, parameter=memory.space is AddrSpace.GLOBAL)
    base, constant = base_and_constant(place.src[1])
    size = memory.base.itemsize
    if start & start - 1 or size & size - 1 or start < size:
        return gcd(start, const_factor(base) * size, (constant + ahead) * size)
    return gcd(power_of_two(base, start // size) * size, (constant + ahead) * size)


def _cuts(place: UOp, dtype: DType, ctx: _LaneRun) -> list[int]:
    """The widths of the pieces that an access is cut into, in order."""
    count, target = dtype.lanes, ctx.target
    if cast("PtrDType", place.dtype).space is _REGISTER:
        width = target.lanes(dtype) if ctx.cut_values else count
        return [min(width, count - start) for start in range(0, count, width)]
    widths = target.widths(dtype, allow_half8=ctx.allow_half8)
    pieces: list[int] = []
    start = 0
    while start < count:
        known = _proved_alignment(place, ctx, start) if target.aligned_bytes else 0
        fitting = (
            width
            for width in widths
            if width <= count - start and known % min(width * dtype.itemsize, target.aligned_bytes or 1) == 0
        )
        pieces.append(next(fitting, 1))
        start += pieces[-1]
    return pieces


def _hinted(access: UOp, place: UOp, width: int, ctx: _LaneRun) -> AccessHints | None:
    """The hints of an access with its alignment, as far as that says more than the dtype and is of use."""
    given = cast("AccessHints | None", access.arg)
    memory = cast("PtrDType", place.dtype)
    size = memory.base.itemsize
    if width == 1 or memory.space is _REGISTER or hints_of(access).align:
        return given
    proved = min(_proved_alignment(place, ctx), 1 << (width * size).bit_length() - 1)
    if proved <= size:
        return given
    return hints_of(access)._replace(align=proved)


def _cut(access: UOp, ctx: _LaneRun) -> UOp:
    """An access that was just made, as the rule of `correct_load_store` would make it, who would see it next."""
    if not ctx.cut_accesses or _is_copy(access):  # a copy is cut as what it loads, which is not settled yet
        return access
    corrected = _correct(access, ctx)
    return access if corrected is None else corrected


def _is_copy(access: UOp) -> bool:
    return access.op is Ops.STORE and hints_of(access).asynchronous


def _correct(root: UOp, ctx: _LaneRun) -> UOp | None:
    if root in ctx.cut:
        return None
    place = root.src[0]
    value = root if root.op is Ops.LOAD else root.src[1]
    count = value.dtype.lanes
    if (
        count == 1
        or place.op is not Ops.INDEX
        or len(place.src) < 2
        or place.src[1].dtype.lanes > 1
        or len(root.src) > (1 if root.op is Ops.LOAD else 2)
        or not isinstance(place.dtype, PtrDType)
        or not place.src[1].dtype.is_index
    ):
        return None
    if len(place.src) == 2 and place.src[1].op is not Ops.WHERE and _is_cut(root, place, count, ctx):
        return None
    index, gate = parted(place)
    if gate is not None and is_broadcast(gate):
        gate = gate.src[0]
    widths = _cuts(moved(place, index, None), value.dtype, ctx)
    if _is_copy(root):
        widths = _both(widths, [part.dtype.lanes for part in value.src] if value.op in _JOINED else [count])
    pieces = []
    start = 0
    for width in widths:
        chosen = tuple(range(start, start + width))
        at = moved(place, ahead(index, start), None)
        arg = _hinted(root, at, width, ctx)
        if gate is not None:
            at = moved(place, at.src[1], _piece_of_gate(gate, chosen))
        if root.op is Ops.LOAD:
            pieces.append(root.replace(dtype=value.dtype.scalar.vec(width), src=(at,), arg=arg))
        else:
            pieces.append(root.replace(src=(at, selected(value, chosen)), arg=arg))
        start += width
    ctx.cut.update(pieces)
    if pieces == [root]:
        return None
    if root.op is Ops.LOAD:
        return join(pieces, root.dtype)
    return pieces[0] if len(pieces) == 1 else root.table.make(Ops.GROUP, dtypes.void, tuple(pieces))


def _both(widths: list[int], others: list[int]) -> list[int]:
    """Pieces that end wherever those of either kind do: one copies what one loads."""
    ends = sorted({*accumulate(widths), *accumulate(others)})
    return [end - start for start, end in pairwise((0, *ends))]


def _is_cut(access: UOp, place: UOp, count: int, ctx: _LaneRun) -> bool:
    """Whether an access of so many elements is what it is to be; most are asked about that were just made."""
    memory, target = cast("PtrDType", place.dtype), ctx.target
    if memory.space is _REGISTER:
        return not ctx.cut_values or count <= target.lanes(memory.base)
    return (
        not target.aligned_bytes
        and count in target.widths(memory.base, allow_half8=ctx.allow_half8)
        and _hinted(access, place, count, ctx) == access.arg
    )


def _piece_of_gate(gate: UOp, chosen: tuple[int, ...]) -> UOp:
    if gate.dtype.lanes == 1:
        return gate
    if gate.op is not Ops.VECTORIZE:
        return selected(gate, chosen)
    lanes = tuple(gate.src[lane] for lane in chosen)
    if all(lane is lanes[0] for lane in lanes):
        return lanes[0]
    return gate.table.make(Ops.VECTORIZE, dtypes.bool_.vec(len(lanes)), lanes)


# -- operations --------------------------------------------------------------------------------------------------


def _bytes(dtype: DType) -> int:
    return _INDEX_BYTES if dtype.is_index else dtype.itemsize


def _in_pairs(root: UOp, target: Target) -> bool:
    """Whether one operation computes two lanes of 16-bit floats."""
    dtype = root.dtype.scalar
    if root.op not in target.pairs or not dtype.is_float or dtype.bits != 16:
        return False
    return root.op is not Ops.CAST or root.src[0].dtype.scalar in _PAIRED


def _split_value(root: UOp, ctx: _LaneRun) -> UOp | None:
    count = root.dtype.lanes
    if count == 1:
        return None
    widest = _bytes(root.dtype)
    for source in root.src:
        given = source.dtype
        if given.lanes != count:  # a BITCAST that regroups bytes
            return None
        widest = max(widest, _INDEX_BYTES if given.is_index else given.itemsize)
    width = 2 if _in_pairs(root, ctx.target) else ctx.target.register_bytes // widest or 1
    if count <= width:
        return None
    scalar = root.dtype.scalar
    make, op, arg = root.table.make, root.op, root.arg
    pieces = [
        make(op, scalar.vec(src[0].dtype.lanes), src, arg)
        for src in zip(*[pieces_of(source, width) for source in root.src], strict=True)
    ]
    return join(pieces, root.dtype)


def _broadcast(root: UOp, load: UOp, ctx: _LaneRun) -> UOp | None:
    """One lane of a loaded vector in all lanes: a load of that element, which a CPU spreads on its way into the register."""
    chosen = cast("tuple[int, ...]", root.arg)
    place = load.src[0]
    if (
        ctx.target.is_gpu
        or len(chosen) < ctx.target.lanes(root.dtype)
        or any(lane != chosen[0] for lane in chosen)
        or len(load.src) > 1
        or len(place.src) != 2
        or place.src[1].dtype.lanes > 1
        or not isinstance(place.dtype, PtrDType)
        or place.dtype.space is _REGISTER
    ):
        return None
    at = moved(place, ahead(place.src[1], chosen[0]), None)
    element = load.replace(dtype=load.dtype.scalar, src=(at,), arg=None)
    return root.table.make(Ops.VECTORIZE, root.dtype, (element,) * len(chosen))


load_store_folding: Final = Matcher(
    "load_store_folding",
    [
        rule(node(Ops.LOAD), _fold_load, says="LOAD(INDEX(b, ⟨i…⟩)) -> CAT(LOAD(INDEX(b, i)), …)"),
        rule(
            node(Ops.STORE), _fold_store, says="STORE(INDEX(b, ⟨i…⟩), x) -> GROUP(STORE(INDEX(b, i), x), …)"
        ),
    ],
)

correct_load_store: Final = Matcher(
    "correct_load_store",
    [
        rule(
            node({Ops.LOAD, Ops.STORE}),
            _correct,
            says="an access to many elements -> accesses of the target's widths",
        )
    ],
)

devectorize_values: Final = Matcher(
    "devectorize",
    [
        rule(node(ELEMENTWISE), _split_value, says="op on many lanes -> CAT(op on a register's lanes, …)"),
        rule(
            node(Ops.GEP, node(Ops.LOAD, name="load")),
            _broadcast,
            says="GEP(LOAD(INDEX(b, i)), ⟨k k …⟩) -> ⟨x x …⟩, x = LOAD(INDEX(b, i + k))",
        ),
    ],
)


@cache
def matcher_for(setting: int) -> Matcher:
    """The rules under a value of the setting `devectorize`."""
    matcher = lane_rules + load_store_folding + pm_split_wmma
    if setting < 2:
        matcher = matcher + correct_load_store
    return matcher + devectorize_values if setting == 1 else matcher


def devectorize(sink: UOp, target: Target) -> UOp:
    """Cut vectors to what the target has."""
    nodes = sink.toposort()
    if not any(n.dtype.lanes > 1 for n in nodes):
        return sink
    tiles = any(n.op is Ops.WMMA for n in nodes)
    if tiles:  # while an accumulator is still one load
        sink = rewrite(sink, pm_wmma_accumulate)
    settings = current()
    run = _LaneRun(
        target, settings.devectorize == 1, settings.devectorize < 2, settings.allow_half8, Forms({}, {})
    )
    sink = rewrite(sink, matcher_for(settings.devectorize), run)
    return rewrite(sink, pm_whole_tiles) if tiles else sink
