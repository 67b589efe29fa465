"""Machines as data: what stages and the optimizer need to know of a target, and nothing of how code is made for it.

A `Target` is a value: nothing in it runs, apart from the two matchers that a machine may bring for stages 17 and 19. A new
machine is a new row in `TARGETS`; `dataclasses.replace` makes a variant.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from dataclasses import field, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from planish.config import cache_folder, current
from planish.dtypes import DType
from planish.errors import SettingsError, did_you_mean
from planish.records import dataclass
from planish.target import calibration
from planish.target import host_features as features
from planish.target.few_rows import FewRows
from planish.target.gpu_lists import GpuLists
from planish.target.gpu_parts import GpuParts
from planish.target.gpu_rates import H200, GpuRates
from planish.target.gpu_shares import GpuShares
from planish.target.gpu_tiles import GpuTiles
from planish.target.panels import Panels
from planish.target.powers import POWERS_OF_TWO
from planish.target.ready_products import ReadyProducts
from planish.target.register_tiles import RegisterTiles
from planish.uop import tensor_cores
from planish.uop.matcher import Matcher
from planish.uop.ops import COMPARISONS, ESTIMATES, Ops
from planish.uop.tensor_cores import Core

_POWERS: Final = (64, 32, 16, 8, 4, 2)
_UNITS: Final = {"K": 10, "M": 20, "G": 30}
_ALIGNED: Final = 64
"""Memory that we allocate ourselves (LOCAL, arenas) starts at a cache line."""


class Parallel(Enum):
    """How a kernel is spread over a machine."""

    NONE = "one thread"
    CORES = "pieces of work that cores take in any order; LOCAL memory is a core's own"
    GRID = "a grid of blocks of threads; LOCAL memory is shared by a block"


MACHINE_OPS: Final = frozenset(
    {
        Ops.NEG, Ops.NOT, Ops.ABS, Ops.RECIP, Ops.SQRT, Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND,
        Ops.POPCOUNT, Ops.CLZ, Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.MAX, Ops.MIN,
        Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.WHERE, Ops.RARE, Ops.MULACC, *COMPARISONS,
    }
)  # fmt: skip
"""What CPUs with a fused multiply-add and GPUs compute by themselves, in the meaning that the kernel IR gives it."""


AVX512_OPS: Final = MACHINE_OPS | {Ops.LOOKUP, Ops.SCALE}
"""With tables in a register of 512 bits, and powers of two as factors."""

GPU_OPS: Final = MACHINE_OPS | ESTIMATES
"""With estimates that functions of floats start from."""


@dataclass(frozen=True, slots=True)
class Target:
    """A machine."""

    name: str
    register_bytes: int
    """The bytes that one operation works on: a vector register, or 1 where operations work on scalars."""
    registers: int
    """How many such registers a thread has."""

    # -- accesses ----------------------------------------------------------------------------------------------------
    folds: tuple[int, ...] = _POWERS
    """How many neighbouring elements one access may move, widest first."""
    half_folds: tuple[int, ...] = ()
    """The same for 16-bit floats where the setting `allow_half8` is on; empty: as `folds`."""
    access_bytes: int = 0
    """The most bytes that one access moves; 0: a register's."""
    thread_bytes: int = 16
    """The most bytes that a thread of a GPU moves or copies at once, however few lanes its code may have."""
    aligned_bytes: int = 0
    """A wide access has to start at a multiple of its size, or of this if that is less; 0: it may start at any element."""
    buffer_alignment: int = 0
    """The alignment in bytes that every parameter is sure to have; 0: no more than its elements."""
    masked: bool = False
    """Whether one vector access can have a gate for each lane."""
    predicated_stores: bool = False
    """Whether a scalar store can have a gate; otherwise the code jumps around it."""

    # -- parallelism and memory --------------------------------------------------------------------------------------
    parallel: Parallel = Parallel.CORES
    cores: int = 64
    """The most pieces that work is cut into for cores (CORES); each may be run by any core."""
    workers: int = 8
    """How many cores there are, as far as is known: where pieces do some work twice, there are not more of them than that."""
    grid: tuple[int, ...] = ()
    """The most blocks along each axis of a grid; empty: there is none, one core index stands for all parallel axes."""
    block: tuple[int, ...] = ()
    """The most threads along each axis of a block; empty: there are no blocks."""
    block_threads: int = 1
    """The most threads in a block."""
    clusters: tuple[int, ...] = ()
    """Of blocks that run at the same time and read each other's LOCAL memory: how many clusters of one, two, … there are at once, if each block has a
    multiprocessor (which of them are neighbours differs from chip to chip: a few less than were found on one); empty: there are none."""
    block_registers: int = 1 << 16
    """The registers that all threads of a block have together."""
    warp: int = 1
    """How many neighbouring threads run in step."""
    local_bytes: int = 256 << 10
    """The most LOCAL memory of a kernel: of a block, or of a core (then a choice: a part of its second cache)."""
    caches: tuple[int, ...] = (32 << 10, 512 << 10, 16 << 20)
    """The bytes of the data caches, nearest first; the last is shared."""
    bytes_per_cycle: tuple[float, ...] = (48.0, 10.0, 4.5)
    """What one core (of a GPU: one multiprocessor) gets per cycle from each cache but the first, and from memory."""
    memory_cores: float = 2.0
    """How many cores the memory serves at full speed; more share what there is."""
    line_bytes: int = 64
    """Bytes that are found by one look into a cache; of the LOCAL memory of a GPU, that a multiprocessor reads at once."""
    sector_bytes: int = 64
    """Bytes that memory moves at least: a line, or a part of it."""
    alias_bytes: int = 4096
    """Addresses so far apart lie in one set of the first cache, and a load at one of them waits for a store at another."""
    alias_window: int = 256
    """How many bytes behind a store it does. (By timing on Ice Lake: up to 128 a function over streams takes twice as long.)"""
    streams: int = 12
    """Streams that are read side by side; they start together in their pages, so that more would not find room in one set of a cache."""
    read_streams: int = 48
    """Tensors in memory that one kernel reads: beyond, they are more streams than hardware follows, and more addresses than registers."""
    kept_bytes: int = 256 << 10
    """Of a row that is kept: what stays in a core's own cache beside the rest."""
    reread_bytes: int = 8 << 20
    """That every row reads again, if a product of matrices is computed row by row: a cache has them."""
    launch: float = 600.0
    """Cycles that a kernel, or a piece of one, costs beside its work."""
    wake: float = 3.5
    """Launches in whose time another core is at work: less is not worth to be shared."""
    cycle_ns: float = 0.3
    """Nanoseconds of a cycle: how work that is counted in cycles is told to those who count in time."""
    launch_ns: float = 25.0
    """Nanoseconds that a launch takes on one thread, besides what it does."""
    copy_ns: float = 10.0
    """Nanoseconds for a copy of a few bytes."""
    share_ns: float = 2500.0
    """Nanoseconds that it takes to divide a launch among cores."""
    small_elements: int = 1 << 16
    """Elements that one core has done before others have started."""
    part_worth: float = 4.0
    """How many times `small_elements` are worth another kernel, or of a scan to be read twice."""
    narrow_terms: int = 256
    """Terms of an element of a product that is computed again: beyond, that costs more than memory does, and a kernel of its own is faster."""
    row_terms: int = 1 << 13
    """Terms of the sums in a row, where rows are few: with more, a kernel laid out for the sums is worth its call."""
    packed_again: float = 2.0
    """How often a product of matrices computes an element of an operand at least: blocks overlap, and cores each pack their own."""
    packed_rows: int = 256
    """Rows or columns for which an operand of a product is packed once."""
    block_elements: int = 1 << 12
    """Elements that one block of a GPU has done before others have started."""
    piece_steps: int = 1 << 16
    """Iterations that are worth a core's attention."""
    least_piece_steps: int = 1 << 14
    """The same of few pieces: about two microseconds, from which on asking another core pays."""

    # -- arithmetic --------------------------------------------------------------------------------------------------
    # (what a core, of a GPU a multiprocessor, does in a cycle, or in how many)
    ports: float = 2.0
    """Operations that start per cycle; each works on a whole register, as those below do."""
    multiplies: float = 2.0
    """Multiplications and multiply-adds among them."""
    loads: float = 2.0
    """Loads from the first cache that start per cycle."""
    stores: float = 1.0
    """Stores that start per cycle."""
    shuffles: float = 1.0
    """Registers per cycle whose lanes are brought into another order."""
    gathers: float = 1.0
    """Cycles for an element that is put into a lane by itself."""
    gather_ops: float = 8.0
    """Operations in whose time a load at a position that data decides brings one element: lanes go one by one."""
    pack_ops: float = 4.0
    """Operations that make bytes of the lanes of a mask, or lanes of bytes."""
    masks: float = 2.0
    """Operations on a vector that one condition of a masked access takes: places are compared, and masks joined."""
    latency: float = 4.0
    """Cycles until the result of a multiply-add can be added to again."""
    window: float = 16.0
    """Iterations that a core has begun at once, if they do not wait for each other."""
    branches: float = 1.5
    """Cycles to count the iterations of a loop and to jump."""
    spills: float = 5.0
    """Cycles for a value that has no register: stored and loaded again, both in the chain of what is computed."""
    hidden: float = 0.15
    """How much of what does not bound a loop is seen nevertheless."""
    supported_ops: frozenset[Ops] = MACHINE_OPS
    """The ALU ops it has; stage 18 writes all others in terms of these."""
    pairs: frozenset[Ops] = frozenset()
    """Ops that it does on two 16-bit floats of one register at once; CAST: from float32, and from bytes."""
    pre_matcher: Matcher | None = None
    """Its own rules before decomposition (stage 17)."""
    extra_matcher: Matcher | None = None
    """Its own rules in the final rewrite (stage 19)."""
    tensor_cores: tuple[Core, ...] = ()
    """Its tensor cores, the preferred ones first."""
    core_products: float = 1024.0
    """Products per cycle of a tensor core that has registers of its own."""
    core_work: int = 1 << 18
    """Products below which configuring its tiles and staging operands costs more than it saves."""
    core_piece: int = 1 << 22
    """Products on it that are worth a core's attention."""
    staged_products: int = 64
    """Products in the time in which one element of an operand is staged."""
    turned_rows: int = 5
    """Rows up to which a product with a constant matrix is sums along the turned matrix. Timed with matrices of 384 × 1536 that came
    from memory: with 2 to 4 rows 0.5 to 0.9 of the time of the matrix as it was; with 6 and more panels are ahead (0.35 with 6, 0.5
    with 16, 0.8 with 77, 1 with 512)."""
    crosswise_terms: int = 256
    """Terms of a sum for which results may be stored crosswise, so that channels are in lanes. (Timed with 1×1 convolutions of 14²
    pixels: with 256 terms it takes 0.95 of the time of the kernel as it was, with 64 terms 1.05.)"""
    crosswise_added: int = 4
    """How many times as many they have to be if another tensor is added to the results, which is read crosswise, too."""
    far_stride: int = 8
    """Strides of a convolution beyond which pixels of a tile lie in lines, and pages, of their own: then a plain product reads them better."""
    register_tiles: RegisterTiles = field(default=RegisterTiles(), hash=False)
    """Of a CPU, how many sums, rows and vectors it does at once."""
    panels: Panels = field(default=Panels(), hash=False)
    """Of a CPU, what is copied for products of matrices."""
    ready_products: ReadyProducts = field(default=ReadyProducts(), hash=False)
    """Of a processor that has ready-made products: when they are used."""
    rates: GpuRates | None = None
    """Of a GPU, what work costs there."""
    shares: GpuShares = field(default=GpuShares(), hash=False)
    """Of a GPU, how work is shared out among threads."""
    parts: GpuParts = field(default=GpuParts(), hash=False)
    """Of a GPU, what becomes several kernels."""
    lists: GpuLists = field(default=GpuLists(), hash=False)
    """Of a GPU, how lists are gone through."""
    tiles: GpuTiles = field(default=GpuTiles(), hash=False)
    """Of a GPU, what blocks and warps do of a product on tensor cores."""
    few_rows: FewRows = field(default=FewRows(), hash=False)
    """Of a GPU, how few rows meet a long matrix."""
    device: str = "cpu"
    """The kind of device that runs its code (`planish.compiler.device_kinds`)."""
    arch: str = ""
    """Of a GPU, what NVRTC is told to compile for."""
    routines: bool = False
    """Whether host ops and sorting have routines there (`planish.runtime.routines`)."""
    native: bool = field(default=False, compare=False)
    """Whether it stands for the machine we run on: then code uses all that machine has, not only what the name promises."""

    def __post_init__(self) -> None:
        if len(self.caches) != len(self.bytes_per_cycle):
            raise SettingsError(
                f"target {self.name}: {len(self.caches)} caches, but bytes per cycle of {len(self.bytes_per_cycle)}",
                remedy="say for each cache how fast what it does not hold comes",
            )

    def lanes(self, dtype: DType) -> int:
        """How many elements of a dtype one operation works on."""
        return max(1, self.register_bytes // max(dtype.itemsize, 1))

    def widths(self, dtype: DType, *, allow_half8: bool = False) -> tuple[int, ...]:
        """How many elements of a dtype one access may move, widest first, 1 (always possible) left out."""
        most = (self.access_bytes or self.register_bytes) // max(dtype.itemsize, 1)
        half = allow_half8 and self.half_folds and dtype.is_float and dtype.bits == 16
        return tuple(width for width in (self.half_folds if half else self.folds) if width <= most)

    def alignment(self, dtype: DType, *, parameter: bool) -> int:
        """The bytes that the first element of a buffer is sure to be aligned to."""
        return max(self.buffer_alignment if parameter else _ALIGNED, dtype.itemsize)

    def rate(self, nbytes: int) -> float:
        """Bytes per cycle of what is that large: it comes from the nearest cache of which it fills no more than a half."""
        level = sum(2 * nbytes > size for size in self.caches)
        return self.bytes_per_cycle[max(level, 1) - 1]

    @property
    def far_bytes(self) -> int:
        """The most LOCAL memory of a core that walks it from end to end: an eighth of the last cache."""
        return self.caches[-1] // 8

    @property
    def streamed_bytes(self) -> int:
        """From how many bytes on a result is written past the caches: below, its reader finds it in the last one (by timing both)."""
        return max(2 * self.caches[1], self.caches[-1] // 4) if len(self.caches) > 1 else 0

    def __repr__(self) -> str:
        vectors = "" if self.is_gpu else f", vectors of {self.register_bytes} bytes"
        return f"<target {self.name}: {self.registers} registers{vectors}; in_full() tells all of it>"

    def in_full(self) -> str:
        """Every field: what generated code may follow from."""
        return ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))

    @property
    def is_gpu(self) -> bool:
        """Whether blocks of threads run it."""
        return self.parallel is Parallel.GRID


_X86_V4: Final = Target(
    "x86-64-v4",
    64,
    32,
    masked=True,
    local_bytes=1 << 20,
    caches=(48 << 10, 2 << 20, 32 << 20),
    supported_ops=AVX512_OPS,
    pre_matcher=POWERS_OF_TWO,
    tensor_cores=tensor_cores.PAIRS[16],
    routines=True,
)

_X86_VNNI: Final = replace(
    _X86_V4, name="x86-64-vnni", tensor_cores=(*tensor_cores.QUADS, *_X86_V4.tensor_cores)
)

_X86_BF16: Final = replace(
    _X86_VNNI, name="x86-64-bf16", tensor_cores=(*tensor_cores.BF16, *_X86_VNNI.tensor_cores)
)

_WIDE_FOLDS: Final = (16, 8, 4, 2)
"""As many neighbours as 16 bytes hold."""
_CUDA: Final = Target(
    "cuda", 1, 255, (4, 2),
    half_folds=(8, 4, 2), access_bytes=16, aligned_bytes=16, buffer_alignment=256, predicated_stores=True,
    parallel=Parallel.GRID, cores=1, grid=((1 << 31) - 1, 65535, 65535), block=(1024, 1024, 64), block_threads=1024,
    warp=32, local_bytes=48 << 10, caches=(256 << 10, 50 << 20), bytes_per_cycle=(40.0, 14.0), line_bytes=128, sector_bytes=32,
    ports=128.0, multiplies=128.0, loads=32.0, stores=32.0, launch=5000.0, tensor_cores=tensor_cores.NVIDIA, device="cuda", arch="sm_90a", rates=H200,
    supported_ops=GPU_OPS, pairs=frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.CAST}),
)  # fmt: skip

TARGETS: Final = {
    target.name: target
    for target in (
        Target("x86-64", 16, 16, supported_ops=MACHINE_OPS - {Ops.MULACC}, routines=True),
        Target("x86-64-v3", 32, 16, masked=True, tensor_cores=tensor_cores.PAIRS[8], routines=True),
        _X86_V4,
        _X86_VNNI,
        _X86_BF16,
        replace(_X86_BF16, name="x86-64-amx", tensor_cores=(*tensor_cores.AMX, *_X86_BF16.tensor_cores)),
        Target("aarch64", 16, 32, caches=(64 << 10, 1 << 20, 32 << 20)),
        Target("scalar", 1, 16, (), parallel=Parallel.NONE, cores=1),
        Target(
            "dsp", 128, 32, (128, 64, 32, 16, 8, 4),
            access_bytes=512, aligned_bytes=128, buffer_alignment=128, parallel=Parallel.NONE, cores=1,
            caches=(32 << 10, 1 << 20), bytes_per_cycle=(48.0, 4.5),
        ),
        _CUDA,
        replace(
            _CUDA, name="sm_80", folds=_WIDE_FOLDS, arch="sm_80", workers=108, local_bytes=163 << 10, caches=(192 << 10, 40 << 20)
        ),
        replace(
            _CUDA, name="sm_90", folds=_WIDE_FOLDS, workers=132, local_bytes=226 << 10,
            clusters=(132, 64, 36, 28, 20, 16, 14, 14),
            tensor_cores=(*tensor_cores.NVIDIA, *tensor_cores.HOPPER),
        ),
    )
}  # fmt: skip
"""The machines that can be named. `scalar` has no vectors at all; `dsp` runs in the interpreters; `cuda` is sm_90."""


def host() -> Target:
    """The machine we run on, with the numbers that were measured of it, if the settings want them."""
    return _calibrated(cache_folder()) if current().calibration else _named_host()


@cache
def _calibrated(folder: Path) -> Target:
    plain = _named_host()
    numbers = calibration.load(calibration.path_in(folder), model_name(), len(plain.bytes_per_cycle))
    return replace(plain, **numbers) if numbers else plain  # type: ignore[arg-type] # checked: numbers of such fields


@cache
def model_name() -> str:
    """The processor that we run on, in words."""
    return features.cpu_model()


@cache
def _named_host() -> Target:
    """The machine we run on, as any of its name."""
    has = features.cpu_flags()
    if "avx512f" in has:
        return host_with(features.amx().features | features.dot_products(has))
    if "avx2" in has:
        name = "x86-64-v3"
    else:
        name = "aarch64" if platform.machine() in {"aarch64", "arm64"} else "x86-64"
    return _here(TARGETS[name])


def host_with(has: Collection[str]) -> Target:
    """An AVX-512 machine that we run on, with what it has of AMX and of dot products (in LLVM's words)."""
    tiles = tuple(core for core in tensor_cores.AMX if core.feature in has)
    halves, quads = (
        tuple(core for core in cores if core.feature in has)
        for cores in (tensor_cores.BF16, tensor_cores.QUADS)
    )
    level = "amx" if tiles else "bf16" if halves else "vnni" if quads else "v4"
    return _here(
        replace(TARGETS[f"x86-64-{level}"], tensor_cores=(*tiles, *halves, *quads, *_X86_V4.tensor_cores))
    )


def _here(named: Target) -> Target:
    """A machine of some name as the one that we run on."""
    running = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    folder = Path("/sys/devices/system/cpu") / f"cpu{running[0] if running else 0}" / "cache"
    caches = caches_in(folder, named.caches)
    return replace(named, native=True, workers=len(running) or os.cpu_count() or 1, caches=caches)


def caches_in(folder: Path, named: tuple[int, ...]) -> tuple[int, ...]:
    """The data caches that the system tells of, in a folder of Linux; `named` is what is true of such machines in general.

    Of the last one, which others use too, no more is counted on than is of any such machine.
    """
    sizes: dict[int, int] = {}
    for each in sorted(folder.glob("index[0-9]*")):
        try:
            level, kind, size = ((each / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size[:-1]) << _UNITS[size[-1]]
        except (OSError, ValueError, KeyError):
            return named
    caches = tuple(size for _, size in sorted(sizes.items()))
    if len(caches) != len(named) or list(caches) != sorted(set(caches)) or not caches[0]:
        return named  # it does not say, or not in words that we know
    return (*caches[:-1], min(caches[-1], named[-1]))


def find(name: str) -> Target:
    """A machine by name; `host` is the one we run on."""
    if name == "host":
        return host()
    if name not in TARGETS:
        close = did_you_mean(name, ("host", *TARGETS))
        hint = f"did you mean {close!r}? " if close else ""
        raise SettingsError(f"unknown target {name!r}", remedy=f"{hint}one of host, {', '.join(TARGETS)}")
    return TARGETS[name]
