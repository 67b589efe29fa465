"""Which host ops a routine computes: one table from op to routine, arguments and memory.

An entry is asked with the attributes and types of an instruction and gives a `Routine`, or None where the routine does not do
it. Whether the machine has the routine, and the libraries that it calls, is known when a plan is loaded; without it the op is
evaluated in Python, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from numpy.typing import NDArray

from planish import dtypes
from planish.config import current
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds, product
from planish.ptir.ops.definition import Attrs
from planish.ptir.types import TensorType
from planish.records import dataclass
from planish.schedule import collectives, fourier
from planish.schedule.plan import RoutineCall

Array = NDArray[Any]
Types: TypeAlias = Sequence[TensorType]


@dataclass(frozen=True, slots=True)
class RoutineUse:
    """A call, and the memory that it wants besides inputs and outputs."""

    call: RoutineCall
    scratch: DimLike = 0
    """Bytes to work in."""
    tables: tuple[Array, ...] = ()


_CHUNKS: Final = 16
"""The most pieces that work is cut into: each has scratch memory of its own."""
_FEW: Final = 64
"""So many best are kept in order all the time."""
_FEW_SORTED: Final = 1024
_FEW_ORDERED: Final = 256
"""Rows of so many elements are sorted by networks (`runtime.routines.networks`), and of so many if keys have 8 bits, or are of 64 bits and carry positions."""
_SMALL: Final = 256
"""The most numbers of a matrix that is factorised in lanes, with others."""
_CHUNK_NS: Final = 50_000
"""Work that is worth a piece of its own: handing one over takes a small part of it. (Nanoseconds here are estimates of one core,
by which work is cut, and nothing else is decided.)"""


def pieces(count: DimLike, each_ns: float) -> tuple[DimLike, int]:
    """Into how many chunks so many equal items are cut, and the work of all, in nanoseconds."""
    most = bounds(count)[1]
    work = int(most * each_ns)
    return max(1, min(_CHUNKS, most, work // _CHUNK_NS)), work


def _rows(type: TensorType) -> tuple[DimLike, DimLike]:
    """How many rows there are along the last axis, and their length."""
    return product(type.dims[:-1]), type.dims[-1]


def _direction(descending: bool) -> str:
    return "descending" if descending else "ascending"


def _sort_few(family: str, type: TensorType, descending: bool) -> RoutineUse | None:
    """By a network on the stack, if rows are short."""
    rows, count = _rows(type)
    bits = type.dtype.itemsize * 8
    fewer = bits == 8 or (bits == 64 and family == "argsort")
    if bounds(count)[1] > (_FEW_ORDERED if fewer else _FEW_SORTED):
        return None
    chunks, work = pieces(rows, 20 + bounds(count)[1] * 2.0)
    name = f"{family}_few.{type.dtype.name}.{_direction(descending)}"
    return RoutineUse(RoutineCall(name, (rows, count, chunks), chunks, work))


def _sort(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, type = cast("ops.SortAttrs", attrs), given[0]
    if len(given) != 1 or of.axis != type.rank - 1:
        return None
    rows, count = _rows(type)
    if (use := _sort_few("sort", type, of.descending)) is not None:
        return use
    chunks, work = pieces(rows, bounds(count)[1] * 2.0 * type.dtype.itemsize)
    name = f"sort.{type.dtype.name}.{_direction(of.descending)}"
    return RoutineUse(
        RoutineCall(name, (rows, count, chunks), chunks, work), product((chunks, count, type.dtype.itemsize))
    )


def _argsort(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, type = cast("ops.ArgsortAttrs", attrs), given[0]
    if of.axis != type.rank - 1:
        return None
    rows, count = _rows(type)
    if (use := _sort_few("argsort", type, of.descending)) is not None:
        return use
    chunks, work = pieces(rows, bounds(count)[1] * 2.0 * type.dtype.itemsize)
    name = f"argsort.{type.dtype.name}.{_direction(of.descending)}"
    return RoutineUse(RoutineCall(name, (rows, count, chunks), chunks, work), product((chunks, count, 24)))


def _top_k(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, type = cast("ops.TopKAttrs", attrs), given[0]
    if of.axis != type.rank - 1 or not isinstance(of.k, int) or results[1].dtype is not dtypes.int64:
        return None
    rows, count = _rows(type)
    chunks, work = pieces(rows, bounds(count)[1] * 0.1 * type.dtype.itemsize + 50 * of.k)
    few = of.k <= _FEW
    # `runtime.routines.selection` says what this is for
    room = 32 * (-(-of.k // 8) * 8 + 16) if few else 64 * (4 * of.k + 32)
    name = f"top_k_{'few' if few else 'many'}.{type.dtype.name}.{_direction(of.largest)}"
    return RoutineUse(
        RoutineCall(name, (rows, count, chunks, of.k, room), chunks, work), product((chunks, room))
    )


def _suppress(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, (boxes, scores, *_) = cast("ops.NonMaxSuppressionAttrs", attrs), given
    batches, classes, count = scores.dims
    name = f"suppress.{boxes.dtype.name}.{'center' if of.center_point_box else 'corners'}"
    most = bounds(product(scores.dims))[1]
    call = RoutineCall(name, (batches, classes, count, of.max_boxes, 0), 1, 30 * most)
    # `runtime.routines.suppression` says what this is for
    return RoutineUse(call, product((count, 48)) + 40 * (of.max_boxes + 16))


def _matrices(type: TensorType) -> tuple[DimLike, DimLike, DimLike]:
    """How many matrices, of how many rows and columns."""
    return product(type.dims[:-2]), type.dims[-2], type.dims[-1]


def _most(*dims: DimLike) -> float:
    """The product of the largest sizes."""
    return float(bounds(product(dims))[1])


def _by_library(name: str, integers: tuple[DimLike, ...], chunks: DimLike, work: int) -> RoutineCall:
    """A call whose last integer is how many threads the library may take: sums in its order, which depends on them."""
    if current().deterministic:
        return RoutineCall(name, (*integers, 1), chunks, work)
    return RoutineCall(name, integers, chunks, work, threads=True)


def _are_small(type: TensorType, *shapes: tuple[DimLike, DimLike]) -> bool:
    """Whether real matrices of such shapes fit into lanes; a single one is left to LAPACK sooner."""
    largest = _SMALL if bounds(product(type.dims[:-2]))[1] > 1 else _SMALL // 4
    return not type.dtype.is_complex and all(bounds(product(shape))[1] <= largest for shape in shapes)


_SOME = 8
"""Bytes of scratch even for matrices without rows: no memory at all would be no argument."""


def _cholesky(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, type = cast("ops.CholeskyAttrs", attrs), given[0]
    batch, n, _ = _matrices(type)
    name = f"cholesky.{type.dtype.name}.{'lower' if of.lower else 'upper'}"
    if _are_small(type, (n, n)):
        chunks, work = pieces(batch, 50 + _most(n, n, n) / 20)
        return RoutineUse(RoutineCall(f"small_{name}", (batch, n, chunks), chunks, work))
    chunks, work = pieces(batch, 300 + _most(n, n, n) / 40)
    return RoutineUse(
        _by_library(name, (batch, n, chunks), chunks, work),
        product((chunks, n, n, type.dtype.itemsize)) + _SOME,
    )


def _triangular_solve(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    of, (a, b) = cast("ops.TriangularSolveAttrs", attrs), given
    batch, n, _ = _matrices(a)
    *_, rows, columns = b.dims
    parts = (
        "triangular_solve", a.dtype.name, "left" if of.left else "right", "lower" if of.lower else "upper",
        of.transform, "unit" if of.unit_diagonal else "full",
    )  # fmt: skip
    if _are_small(a, (n, n), (rows, columns)):
        chunks, work = pieces(batch, 50 + _most(n, rows, columns) / 10)
        return RoutineUse(
            RoutineCall("small_" + ".".join(parts), (batch, n, rows, columns, chunks), chunks, work)
        )
    chunks, work = pieces(batch, 300 + _most(n, rows, columns) / 40)
    return RoutineUse(_by_library(".".join(parts), (batch, n, rows, columns, chunks), chunks, work))


def _qr(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    type = given[0]
    batch, m, n = _matrices(type)
    if not (isinstance(m, int) and isinstance(n, int)):
        return None
    k = cast("int", results[0].dims[-1])
    if _are_small(type, (m, n), (m, k), (k, n)):
        chunks, work = pieces(batch, 50 + m * n * k / 4)
        return RoutineUse(RoutineCall(f"small_qr.{type.dtype.name}", (batch, m, n, k, chunks), chunks, work))
    chunks, work = pieces(batch, 2000 + m * n * min(m, n) / 10)
    # reflections, their factors, and room for LAPACK
    room = (m * max(k, n) + 65 * max(m, n)) * type.dtype.itemsize
    call = _by_library(f"qr.{type.dtype.name}", (batch, m, n, k, chunks, room), chunks, work)
    return RoutineUse(call, product((chunks, room)))


def _lu(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    type = given[0]
    batch, m, n = _matrices(type)
    chunks, work = pieces(batch, 500 + _most(m, n, n) / 30)
    room = product((m, n, type.dtype.itemsize)) + product((m, 8))
    call = _by_library(f"lu.{type.dtype.name}", (batch, m, n, chunks, room), chunks, work)
    return RoutineUse(call, product((chunks, room)) + _SOME)


def _fourier(op: str) -> Callable[[Attrs, Types, Types], RoutineUse | None]:
    backward, real = op in ("ifft", "irfft"), op in ("rfft", "irfft")

    def find(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
        axes = cast("ops.FftAttrs", attrs).axes
        type = results[0] if op == "irfft" else given[0]
        length = type.dims[-1]
        if axes != (type.rank - 1,) or not isinstance(length, int):
            return None
        even = real and length % 2 == 0
        mode = fourier.COMPLEX
        if real:
            modes = (
                (fourier.SPECTRUM_EVEN, fourier.SPECTRUM_ODD)
                if backward
                else (fourier.REAL_EVEN, fourier.REAL_ODD)
            )
            mode = modes[0] if even else modes[1]
        n = length // 2 if even else length
        part = "float32" if type.dtype in (dtypes.float32, dtypes.complex64) else "float64"
        lines = product(type.dims[:-1])
        tables = fourier.tables(part, n, mode, backward, lines if isinstance(lines, int) else None)
        if tables is None:
            return None
        groups = (lines + (tables.groups - 1)) // tables.groups
        chunks, work = pieces(groups, tables.groups * n * max(1, n.bit_length()) / 8)
        spans = [cast("int", t.dims[-1]) * (2 if t.dtype.is_complex else 1) for t in (given[0], results[0])]
        call = RoutineCall(f"fft.{part}", (lines, chunks, *spans, tables.room), chunks, work)
        return RoutineUse(call, product((chunks, tables.room)), (tables.plan, tables.roots))

    return find


def _collective(op: str) -> Callable[[Attrs, Types, Types], RoutineUse | None]:
    find = collectives.collective(op)

    def routine(attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
        call = find(attrs, given, results)
        return None if call is None else RoutineUse(call)

    return routine


_ROUTINES: Final[dict[str, Callable[[Attrs, Types, Types], RoutineUse | None]]] = {
    "sort": _sort,
    "argsort": _argsort,
    "top_k": _top_k,
    **{op: _fourier(op) for op in ("fft", "ifft", "rfft", "irfft")},
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "qr": _qr,
    "lu": _lu,
    "non_max_suppression": _suppress,
    **{op: _collective(op) for op in collectives.KINDS},
}


def find_routine(op: str, attrs: Attrs, given: Types, results: Types) -> RoutineUse | None:
    """The routine for an op on operands of such types; None if there is none."""
    entry = _ROUTINES.get(op)
    return None if entry is None else entry(attrs, given, results)
