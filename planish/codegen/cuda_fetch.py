"""The copy engine of NVIDIA GPUs since Hopper in CUDA C++: bulk tensor copies that complete on barriers in shared memory, by inline PTX.

A block has a warpgroup more than its program says, whose first thread is the fetcher; with `setmaxnreg` it leaves its registers to the others,
which wait for each other at a barrier of their own. Where a multiprocessor runs several blocks it is a warp, and all have the same. A ring is two barriers for each buffer: *full*, which counts the bytes that arrive, and
*empty*, which counts the groups that have released it. Step s waits for a phase by its parity, s / buffers % 2.
The last parameter of the kernel is the tensor maps, as the driver encodes them (`runtime/cuda/tensor_maps.py`).
"""

from __future__ import annotations

from typing import Final, cast

from planish.codegen.cuda_values import CudaValues
from planish.llir import program as ir
from planish.llir.makers import makers_of
from planish.llir.program import GROUP, Box, Buffer, Ops, Program

MAPS: Final = "maps"
REGISTERS: Final = 1 << 16
"""Of a multiprocessor, 32 bits each."""
FETCHER: Final = 40
"""Registers of a thread of the warpgroup that fetches."""
_MOST: Final = 240
"""Registers of a thread."""

MAP: Final = """// a tensor as the copy engine knows it
struct __align__(64) tensor_map { uint64_t word[16]; };"""
KNOWN: Final = """// a tensor map will be used soon
static inline void known_map(const tensor_map &map) { asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory"); }"""
RING: Final = """// barriers in shared memory: how many arrive in a phase, one arrival (with bytes that are to come), and the wait for a phase
static inline void barrier_count(uint64_t *at, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((uint32_t)__cvta_generic_to_shared(at)), "r"(count) : "memory");
}
static inline void barrier_expect(uint64_t *at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((uint32_t)__cvta_generic_to_shared(at)), "r"(bytes) : "memory");
}
static inline void barrier_arrive(uint64_t *at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((uint32_t)__cvta_generic_to_shared(at)) : "memory");
}
static inline void barrier_wait(uint64_t *at, uint32_t parity) {
  uint32_t address = (uint32_t)__cvta_generic_to_shared(at), done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(address), "r"(parity) : "memory");
}"""


def maps_of(program: Program) -> tuple[tuple[Buffer, Box], ...]:
    """The tensor maps that a kernel is given, each once: of which parameter, and the box."""
    return tuple(dict.fromkeys(_map(i) for i in program.boxes))


def _map(i: ir.CopyBox) -> tuple[Buffer, Box]:
    return i.param, i.box._replace(panels=1, buffers=1)


def fetches(program: Program) -> bool:
    """Whether a kernel has a fetcher."""
    return any(isinstance(i, ir.Fetcher) for i in program.body)


def budget(threads: int, blocks: int) -> tuple[int, int] | None:
    """Registers of a thread that fetches and of one that does not; None if all have enough from the start.

    What a block has, it has from the start: who takes more waits until others have given as many back.
    """
    each = min(REGISTERS // blocks // (threads + GROUP) // 8 * 8, _MOST)
    others = min((each * (threads + GROUP) - FETCHER * GROUP) // threads // 8 * 8, _MOST)
    return (FETCHER, others) if each < others else None


def _copy(name: str, rank: int, aside: int) -> str:
    """The function that begins the copy of a box, or of windows that are read some steps aside."""
    coordinates = "".join(f", int32_t c{k}" for k in range(rank + aside))
    places, offsets = (
        ", ".join(f"%{k + 3}" for k in part) for part in (range(rank), range(rank, rank + aside))
    )
    inputs = "".join(f', "r"(c{k})' for k in range(rank))
    inputs += "".join(f', "h"((uint16_t)c{k})' for k in range(rank, rank + aside))
    mode, behind = (".im2col", f", {{{offsets}}}") if aside else ("", "")
    return (
        f"static inline void {name}(void *to, const tensor_map &from, uint64_t *full{coordinates}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%0], [%1, {{{places}}}], [%2]{behind};"\n'
        f'               :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(&from), "r"((uint32_t)__cvta_generic_to_shared(full)){inputs} : "memory");\n'
        f"}}"
    )


class FetchWriter(CudaValues):
    """Writes what a copy engine is told."""

    program: Program
    threads: int
    blocks: int
    fetching: int
    makers: dict[ir.Register, ir.Instruction] | None = None

    def fetcher(self, i: ir.Fetcher) -> None:
        rings = {each.ring: each.buffers for each in self.program.body if isinstance(each, ir.Acquire)}
        self.helpers.setdefault("ring", RING)
        for ring, buffers in rings.items():
            self.emit(f"__shared__ uint64_t full{ring}[{buffers}], empty{ring}[{buffers}];")
        self.helpers.setdefault("known_map", KNOWN)
        self.emit("if (threadIdx.x == 0) {")
        for number in range(len(maps_of(self.program))):
            self.emit(f"known_map({MAPS}.at[{number}]);")
        for ring, buffers in rings.items():
            counts = (
                f"barrier_count(full{ring} + k, 1), barrier_count(empty{ring} + k, {self.threads // GROUP})"
            )
            self.emit(f"for (int32_t k = 0; k < {buffers}; k++) {counts};")
        self.emit('asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");')
        self.emit("}")
        self.emit("__syncthreads();")
        self.emit(f"if (threadIdx.x >= {self.threads}) {{")
        self._registers("dec", 0)
        self.emit(f"if (threadIdx.x > {self.threads}) return;")

    def end_fetcher(self, i: ir.EndFetcher) -> None:
        self.emit("return;")
        self.emit("}")
        self._registers("inc", 1)

    def _registers(self, how: str, which: int) -> None:
        counts = budget(self.threads, self.blocks)
        if counts is not None and self.fetching == GROUP:
            self.emit(f'asm volatile("setmaxnreg.{how}.sync.aligned.u32 {counts[which]};");')

    def _phase(self, i: ir.Acquire | ir.AwaitBoxes | ir.Release | ir.CopyBox) -> tuple[str, str]:
        """The buffer of a step, and the parity of its phase."""
        buffer, turn = self._turn(i.step, i.buffers)
        return buffer, f"{turn} % 2"

    def _turn(self, step: ir.Operand, buffers: int) -> tuple[str, str]:
        """The buffer of a step and how often the ring was filled before, both as they are counted, if they are (`llir/rounds.py`)."""
        maker = None if isinstance(step, ir.Immediate) else self._makers().get(step)
        match maker:
            case ir.Compute(op=Ops.MULACC, inputs=(times, ir.Immediate(value=count), inner)) if (
                count == buffers and self._is_buffer(inner, buffers)
            ):
                return f"(uint32_t){self.value(inner)}", f"(uint32_t){self.value(times)}"
            case ir.Compute(op=Ops.ADD, inputs=(base, inner)) if not isinstance(base, ir.Immediate):
                tiles = self._makers().get(base)
                if isinstance(tiles, ir.Compute) and tiles.op is Ops.MUL:
                    tile, steps = tiles.inputs
                    if isinstance(steps, ir.Immediate) and cast("int", steps.value) % buffers == 0:
                        slot, turn = self._turn(inner, buffers)
                        rounds = cast("int", steps.value) // buffers
                        return slot, f"((uint32_t){self.value(tile)} * {rounds} + {turn})"
            case ir.Compute(op=Ops.SUB, inputs=(later, ir.Immediate(value=int(lag)))) if 0 < lag < buffers:
                slot, turn = self._turn(later, buffers)
                return f"({slot} + {buffers - lag}) % {buffers}", f"({turn} - ({slot} < {lag}))"
        text = f"(uint32_t){self.value(step)}"
        return f"{text} % {buffers}", f"{text} / {buffers}"

    def _is_buffer(self, number: ir.Operand, buffers: int) -> bool:
        """Whether a number counts the buffers of a ring."""
        loop = None if isinstance(number, ir.Immediate) else self._makers().get(number)
        return (
            isinstance(loop, ir.Loop) and isinstance(loop.bound, ir.Immediate) and loop.bound.value == buffers
        )

    def _makers(self) -> dict[ir.Register, ir.Instruction]:
        if self.makers is None:
            self.makers = makers_of(self.program.body)
        return self.makers

    def acquire(self, i: ir.Acquire) -> None:
        buffer, parity = self._phase(i)
        self.emit(f"barrier_wait(empty{i.ring} + {buffer}, {parity} ^ 1);")
        self.emit(f"barrier_expect(full{i.ring} + {buffer}, {i.nbytes});")

    def copy_box(self, i: ir.CopyBox) -> None:
        rank, name = len(i.dims), f"copy_{'windows' if i.offsets else 'box'}_{len(i.dims)}d"
        self.helpers.setdefault(name, _copy(name, rank, len(i.offsets)))
        number = maps_of(self.program).index(_map(i))
        first, *others = [self.value(c) for c in (*i.coordinates, *i.offsets)]
        rest = "".join(f", {c}" for c in others)
        row, rows = i.sizes
        for panel in range(i.box.panels):
            to = self.value(i.address) + (f" + {panel * row * rows}" if panel else "")
            begin = first + (f" + {panel * row}" if panel else "")
            buffer, _ = self._phase(i)
            self.emit(f"{name}({to}, {MAPS}.at[{number}], full{i.ring} + {buffer}, {begin}{rest});")

    def await_boxes(self, i: ir.AwaitBoxes) -> None:
        buffer, parity = self._phase(i)
        self.emit(f"barrier_wait(full{i.ring} + {buffer}, {parity});")

    def release(self, i: ir.Release) -> None:
        gate = "" if i.gate is None else f" && {self.value(i.gate)}"
        self.emit(
            f"if (threadIdx.x % {GROUP} == 0{gate}) barrier_arrive(empty{i.ring} + {self._phase(i)[0]});"
        )
