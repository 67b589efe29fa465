"""Ready kernels: products of matrices in memory are run by code that was compiled before, for any size (`runtime.routines.products`).

A kernel is one if its graph, with its places worked out (the stages before the schedule), is out[m, n] = Σ a[m, k] · b[k, n] and every place
moves by a number along every axis: transposed, sliced and batched operands are other numbers. What follows a product element by
element is cut off before (`product_fission.py`).

Nothing is lowered for such a kernel. Its schedule and its LLIR are made when somebody asks for them, and are those that it has where
ready kernels are not wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from planish import dtypes
from planish.config import current
from planish.records import dataclass
from planish.runtime import ready_routines
from planish.runtime.processors import processor
from planish.runtime.routines.products import NUMBERS, ROWS, vectors
from planish.schedule.plan import For, Plan, ReadyKernel, walk
from planish.stages import pipeline
from planish.uop.nest import constant_size, plain_index, stores_in
from planish.uop.nest.access import Steps, is_global, steps_of
from planish.uop.node import UOp
from planish.uop.ops import Ops

if TYPE_CHECKING:
    from planish.target import Target

READY: Final = "ready-made code"
"""Who chose the schedule of a kernel that has none."""
_FIRST: Final = 7
"""The stage that applies a schedule: before it, places are worked out."""
_EVEN: Final = 12
"""Rows of which pieces have a multiple: of nearly all tiles of the code, on every machine."""
_BATCHES: Final = 2
"""Axes of batches that the code walks."""


class _Axis(NamedTuple):
    """One axis, or several that are walked as one: its length, and by how much out, a and b move along it."""

    size: int
    out: int
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class StridedProduct:
    """A kernel read as a product: its axes, where its operands begin, and which parameters they are."""

    dtype: str
    rows: _Axis
    columns: _Axis
    inner: _Axis
    batches: tuple[_Axis, ...]
    starts: tuple[int, int, int]
    slots: tuple[int, int, int]

    @property
    def by_columns(self) -> bool:
        """Whether the right operand lies along its columns."""
        return self.columns.b != 1

    @property
    def flops(self) -> int:
        """Of all batches."""
        return 2 * prod(axis.size for axis in (self.rows, self.columns, self.inner, *self.batches))


# -- what a kernel is --------------------------------------------------------------------------------------------------


def product_of(sink: UOp, target: Target) -> StridedProduct | None:
    """A kernel before its stages as a product of matrices, if it is nothing else."""
    if not _may_be(sink):
        return None
    machine = pipeline.Machine(target, lambda kernel: ())
    form: pipeline.Form = sink
    for stage in pipeline.stages():
        if stage.number < _FIRST:
            form = stage.run(form, machine)
    return _read(cast("UOp", form))


def _may_be(sink: UOp) -> bool:
    """Whether it is one sum of products that is stored as it is."""
    stores = list(stores_in(sink))
    if len(stores) != 1:
        return False
    value = stores[0].src[1]
    return (
        value.op is Ops.REDUCE
        and value.arg is Ops.ADD
        and value.dtype in _DTYPES
        and value.src[0].op is Ops.MUL
        and all(factor.op is Ops.INDEX for factor in value.src[0].src)
    )


_DTYPES: Final = frozenset({dtypes.float32, dtypes.float64})


def _read(sink: UOp) -> StridedProduct | None:
    stores = list(stores_in(sink))
    if len(stores) != 1 or not _may_be(sink):
        return None
    place, total = stores[0].src
    places = (place, *total.src[0].src)
    indices = [plain_index(each) for each in places]
    if any(index is None or each.src[1] is not index or not is_global(each.src[0]) for each, index in zip(places, indices, strict=True)):  # fmt: skip
        return None  # behind a gate, or no place in a parameter
    if any(each.dtype is not total.dtype for each in places):
        return None
    known = cast("list[UOp]", indices)
    moves = [steps_of(index) for index in known]
    if any(step is None or step < 0 for steps in moves for step in steps.values()):
        return None
    out, a, b = (int(index.vmin) for index in known)
    return _arranged(total, places, moves, (out, a, b))


def _arranged(
    total: UOp, places: Sequence[UOp], moves: Sequence[Steps], starts: tuple[int, int, int]
) -> StridedProduct | None:
    """The axes by what they are: of one factor, of both, reduced."""
    kinds: dict[tuple[bool, bool, bool], list[_Axis]] = {}
    for r in frozenset[UOp]().union(*moves, total.src[1:]):
        size = constant_size(r) if r.op is Ops.RANGE else None
        if size is None:
            return None
        axis = _Axis(size, *(cast("int", steps.get(r, 0)) for steps in moves))
        if size > 1:
            kinds.setdefault((axis.out > 0, axis.a > 0, axis.b > 0), []).append(axis)
    inner = _joined(kinds.pop((False, True, True), []))
    rows, columns = _joined(kinds.pop((True, True, False), [])), _joined(kinds.pop((True, False, True), []))
    batches = _joined(kinds.pop((True, True, True), []))
    if kinds or [len(rows), len(columns), len(inner)] != [1, 1, 1] or len(batches) > _BATCHES:
        return None
    out, a, b = (cast("int", place.src[0].arg) for place in places)
    slots = (out, a, b)
    product = StridedProduct(total.dtype.name, rows[0], columns[0], inner[0], tuple(batches), starts, slots)
    return next(filter(_fits, (product, _turned(product))), None)


def _joined(axes: Sequence[_Axis]) -> list[_Axis]:
    """Neighbouring axes that are walked as one, the outermost first."""
    merged: list[_Axis] = []
    for axis in sorted(axes, key=lambda each: (each.out, each.a, each.b)):
        if merged:
            last = merged[-1]
            if all(axis[n] == last[n] * last.size for n in range(1, 4)):
                merged[-1] = last._replace(size=last.size * axis.size)
                continue
        merged.append(axis)
    return merged[::-1]


def _turned(product: StridedProduct) -> StridedProduct:
    """The transposed product: the factors change places."""

    def other(axis: _Axis) -> _Axis:
        return axis._replace(a=axis.b, b=axis.a)

    out, a, b = range(3)
    return replace(
        product,
        rows=other(product.columns),
        columns=other(product.rows),
        inner=other(product.inner),
        batches=tuple(map(other, product.batches)),
        starts=(product.starts[out], product.starts[b], product.starts[a]),
        slots=(product.slots[out], product.slots[b], product.slots[a]),
    )


def _fits(product: StridedProduct) -> bool:
    """Whether the code is for it: rows of the result without gaps, a right operand along its rows or columns."""
    return (
        product.columns.out == 1
        and 1 in (product.columns.b, product.inner.b)
        and 1 in (product.rows.a, product.inner.a)
    )


# -- how it is called --------------------------------------------------------------------------------------------------


def is_wanted(target: Target) -> bool:
    """Whether kernels may be ready-made: nobody wants to see, check or choose how they are lowered."""
    settings = current()
    return (
        settings.ready_kernels
        and not target.is_gpu
        and target.register_bytes in {32, 64}
        and settings.beam == 0
        and settings.schedule is None
        and settings.check == "none"
        and settings.debug == "none"
        and settings.dump_dir is None
        and settings.disable_stages is None
        and ready_routines.ready(_name(target, "float32", by_columns=False), processor(target)) is not None
    )


def _name(target: Target, dtype: str, *, by_columns: bool) -> str:
    return f"product.{dtype}.{target.register_bytes * 8}.{'columns' if by_columns else 'rows'}"


def ready_kernels(plan: Plan, target: Target) -> dict[int, ReadyKernel]:
    """The kernels of a plan that ready-made code runs; none where loops may become kernels, of kernels that have been lowered."""
    if has_counted_loops(plan):
        return {}
    pairs = ((number, ready_kernel(kernel.sink, target)) for number, kernel in enumerate(plan.kernels))
    return {number: ready for number, ready in pairs if ready is not None}


def has_counted_loops(plan: Plan) -> bool:
    """Whether a plan has loops that may become kernels."""
    return any(isinstance(step, For) for step in walk(plan.steps))


def ready_kernel(sink: UOp, target: Target) -> ReadyKernel | None:
    """How ready-made code runs a kernel; None if it does not, or would be slower than code for the very size."""
    product = product_of(sink, target)
    return None if product is None or not is_fast(product, target) else _called(product, target)


def _panel(product: StridedProduct, target: Target) -> tuple[int, int]:
    """Lanes of a vector, and columns of a panel."""
    lanes = target.register_bytes // (4 if product.dtype == "float32" else 8)
    return lanes, lanes * vectors(str(target.register_bytes * 8))


def is_fast(product: StridedProduct, target: Target) -> bool:
    """Whether the code for any size is as fast for these as code of their own would be, or nearly."""
    lanes, _ = _panel(product, target)
    columns, ready = product.columns.size, target.ready_products
    is_usual = (
        product.rows.size >= ready.least_rows
        and columns >= ready.least_columns
        and product.inner.size >= ready.least_terms
        and columns >= ready.filled * (-(-columns // lanes) * lanes)
    )
    return is_usual or is_slight(_lost_cycles(product, target), target)


def is_slight(cycles: float, target: Target) -> bool:
    """Whether a call may take so much longer, for code that need not be compiled."""
    return cycles * target.cycle_ns <= target.ready_products.slight_ns


def _lost_cycles(product: StridedProduct, target: Target) -> float:
    """What code of its own would spare a product: a copy of the right operand, lanes that are empty, tiles of another size."""
    lanes, panel = _panel(product, target)
    rows, columns, inner = product.rows.size, product.columns.size, product.inner.size
    vectors = -(-columns // lanes)
    empty = rows * inner * (vectors * lanes - columns) / (lanes * target.multiplies)
    tiles = -(-rows // _EVEN) * -(-columns // panel)
    batches, ready = prod(axis.size for axis in product.batches), target.ready_products
    return batches * (vectors * inner * ready.copy + empty + tiles * ready.tile)


def _called(product: StridedProduct, target: Target) -> ReadyKernel:
    panel, ready = _panel(product, target)[1], target.ready_products
    size = 4 if product.dtype == "float32" else 8
    rows, columns = product.rows.size, product.columns.size
    gathered = (
        product.inner.a != 1
        and product.inner.a * size % (target.alias_bytes // 2) == 0
        and columns >= ready.gathered_panels * panel // (2 if target.register_bytes < 64 else 1)
    )
    outer, inner = ((_Axis(1, 0, 0, 0),) * _BATCHES + product.batches)[-_BATCHES:]
    batches, panels = outer.size * inner.size, -(-columns // panel)
    work = cycles_of(product, target) * target.cycle_ns
    most = min(ready.pieces, max(1, int(work / target.share_ns)))
    # pieces of rows copy the same columns: there are some where columns are few, or rows do not stay in a cache
    far = -(-rows * product.inner.size * size // (target.caches[-1] // 4))
    row_pieces = max(
        1, min(max(-(-min(most, target.workers) // (batches * panels)), far), rows // ready.piece_rows)
    )
    if gathered:
        row_pieces = -(-rows // ROWS)
    row_piece = -(-rows // row_pieces // _EVEN) * _EVEN if row_pieces > 1 else rows
    row_pieces = -(-rows // row_piece)
    around = row_pieces * batches
    column_piece = -(-panels // min(panels, -(-most // around))) * panel
    column_pieces = -(-columns // column_piece)
    numbers = {
        "rows": rows, "columns": columns, "inner": product.inner.size,
        "out_row": product.rows.out, "a_row": product.rows.a, "a_inner": product.inner.a,
        "b_other": product.columns.b if product.by_columns else product.inner.b,
        "gathered": int(gathered), "row_piece": row_piece, "column_piece": column_piece,
        "row_pieces": row_pieces, "column_pieces": column_pieces, "inner_batches": inner.size,
        "out_outer": outer.out, "a_outer": outer.a, "b_outer": outer.b,
        "out_batch": inner.out, "a_batch": inner.a, "b_batch": inner.b,
        "out_start": product.starts[0], "a_start": product.starts[1], "b_start": product.starts[2],
    }  # fmt: skip
    name = _name(target, product.dtype, by_columns=product.by_columns)
    given = tuple(numbers[each] for each in NUMBERS)
    # the pool is told of work as `work_of` counts it, two of them in a nanosecond
    told = int(cycles_of(product, target) * ready.instructions / 2)
    return ReadyKernel(name, product.slots, given, around * column_pieces, told)


def cycles_of(product: StridedProduct, target: Target) -> float:
    """What its arithmetic takes on one core."""
    return product.flops / (2 * _panel(product, target)[0] * target.multiplies)


def reaches(ready: ReadyKernel) -> tuple[int, int, int]:
    """The elements that out, a and b have to have, for the numbers that a kernel is called with; negative if these mean nothing."""
    of = dict(zip(NUMBERS, ready.numbers, strict=True))
    sizes = [of[name] for name in ("rows", "columns", "inner", "row_piece", "column_piece", "row_pieces", "column_pieces", "inner_batches")]  # fmt: skip
    outer, rest = divmod(ready.pieces, of["row_pieces"] * of["column_pieces"] * of["inner_batches"] or 1)
    covered = of["row_piece"] * of["row_pieces"] >= of["rows"] and of["column_piece"] * of["column_pieces"] >= of["columns"]  # fmt: skip
    started = of["row_piece"] * (of["row_pieces"] - 1) < of["rows"] and of["column_piece"] * (of["column_pieces"] - 1) < of["columns"]  # fmt: skip
    is_tall = of["gathered"] and (of["row_piece"] > ROWS or of["a_row"] != 1)
    if min(sizes) < 1 or min(ready.numbers) < 0 or rest or outer < 1 or not covered or not started or is_tall:
        return -1, -1, -1
    by_columns = ready.routine.endswith(".columns")
    column, inner = (of["b_other"], 1) if by_columns else (1, of["b_other"])

    def end(name: str, *axes: tuple[int, int]) -> int:
        moves = [(outer, of[f"{name}_outer"]), (of["inner_batches"], of[f"{name}_batch"]), *axes]
        return of[f"{name}_start"] + sum((size - 1) * step for size, step in moves) + 1

    return (
        end("out", (of["rows"], of["out_row"]), (of["columns"], 1)),
        end("a", (of["rows"], of["a_row"]), (of["inner"], of["a_inner"])),
        end("b", (of["columns"], column), (of["inner"], inner)),
    )
