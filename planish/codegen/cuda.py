"""LLIR into CUDA C++: to be read, and to be compiled by NVRTC.

* One `__global__` function per kernel, in a file that needs no header. Compiled with `FLAGS` it means what the interpreter means:
  integers wrap, floats are not contracted or reordered, nothing is undefined.
* A thread works on scalars. The lanes of a vector are values of their own; a vector in memory is one access where its alignment is
  promised. Floats that CUDA has no type for are held as their bits.
* Blocks and threads are numbered by the special indices (`gidx0` is `blockIdx.x`, `lidx0` is `threadIdx.x`). LOCAL memory is shared
  by a block; REG memory has constant places, so that it ends up in registers.
* A function takes a pointer per parameter, then an int64_t per variable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import Final

from planish import dtypes
from planish.codegen import cuda_bytes, cuda_fetch, cuda_helpers, cuda_pairs, symbols, warpgroup
from planish.codegen.c_table import memory_type, scalar_type
from planish.codegen.cuda_blocks import (
    DYNAMIC_ALIGNED,
    block_sizes,
    launched_threads,
    ranks_of,
    residency,
    shared_memory,
    threads_of,
)
from planish.codegen.cuda_fetch import fetches, maps_of
from planish.codegen.cuda_votes import WARP, VoteWriter
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.instruction import handlers
from planish.llir.layout import pack
from planish.llir.leading import leads_of
from planish.llir.voting import votes_of

_SHORT, _WRITTEN_OUT = 64, 4096
"""Instructions of a function, and over all of its calls, up to which it is written out at each: what a thread computes for one element waits for
itself at every step, unless those of others are done meanwhile."""
FLAGS: Final = (
    "--std=c++17",
    "--fmad=false",
    "--device-as-default-execution-space",
    "--diag-suppress=177,550",
)
"""What NVRTC is told beside the architecture: a multiply-add is one where the program says so, and only there."""
_AXES: Final = "xyz"
_WORD_BYTES: Final = 4


class _Writer(VoteWriter):
    """Writes one file."""

    def __init__(self, program: ir.Program, aliased: Collection[str], threads: int) -> None:
        super().__init__(program.functions)
        self.program = program
        self.aliased = frozenset(aliased)
        self.threads = threads
        self.blocks, self.fetching = residency(program, threads)
        self.has_fetcher = fetches(program)
        self.reads_shared = any(tile.in_memory(matrix) for tile in program.tiles for matrix in "ab")
        """Whether tensor cores read shared memory by themselves."""
        self.relays = frozenset(_relays(program))
        """Counters of loops in which threads hand on values."""
        self.votes = {} if threads % WARP or self.has_fetcher else votes_of(program, self.aliased)
        """Loops whose iterations the threads of a warp vote on."""
        self.leads = {} if threads != WARP or self.has_fetcher else leads_of(program, self.aliased)
        """Loops that any thread goes through for entries of its own, by their places."""
        self.loads = {i.result: i for i in program.body if isinstance(i, ir.Load)}
        self.dealt = {i.operand for i in program.body if isinstance(i, ir.Deal)}
        """What is loaded by who deals it out."""

    # -- the file --------------------------------------------------------------------------------------------------

    def write(self) -> str:
        program = self.program
        self.memory()
        for variable in program.variables:
            self.let(variable.result, f"({scalar_type(variable.result.dtype)}){symbols.size(variable.name)}")
        done = 0
        for at, instruction in enumerate(program.body):
            lead = self.leads.get(at)
            if lead is not None and isinstance(instruction, ir.Loop):
                self.led_loop(instruction, lead, self.write_one)
                done = lead.end + 1
            elif at >= done:
                self.write_one(instruction)
        written = {i.address for i in program.body if isinstance(i, ir.Store)}
        stored = {
            i.base.name
            for i in program.body
            if isinstance(i, ir.Address)
            and isinstance(i.base, ir.Buffer)
            and (i.result in written or self._leads(i.result, written))
        }
        params = [self._parameter(b, b.name in stored) for b in program.params]
        params += [f"int64_t {symbols.size(v.name)}" for v in program.variables]
        called = [*map(self.called, program.functions)]
        parts = [cuda_helpers.PRELUDE]
        if maps := maps_of(program):
            parts.append(f"{cuda_fetch.MAP}\nstruct tensor_maps {{ tensor_map at[{len(maps)}]; }};")
            params.append(f"const __grid_constant__ tensor_maps {cuda_fetch.MAPS}")
        uses_vectors = self.uses_vectors or self.uses_words or self.uses_bytes
        parts += [cuda_helpers.VECTOR] if uses_vectors else []
        parts += [cuda_pairs.WORDS] if self.uses_words else []
        parts += [cuda_pairs.BYTES] if self.uses_bytes else []
        parts += [cuda_helpers.BITS] if self.uses_bits else []
        parts += [cuda_helpers.SHUFFLE] if self.uses_shuffles else []
        parts += [*self.helpers.values(), *called]
        threads = launched_threads(program)
        asked = f"{threads}, {self.blocks}" if self.blocks > 1 else f"{threads}"
        bounds = f" __launch_bounds__({asked})" if threads > 1 else ""
        ranks = ranks_of(program)
        bounds += f" __cluster_dims__({ranks}, 1, 1)" if ranks > 1 else ""
        body = "\n".join(self.lines)
        parts.append(
            f'extern "C" __global__ void{bounds} {symbols.kernel(program.name)}({", ".join(params)}) {{\n{body}\n}}'
        )
        return "\n\n".join(parts) + "\n"

    def write_one(self, instruction: ir.Instruction) -> None:
        write = _WRITE.get(type(instruction))
        if write is None:
            raise LoweringError(f"{instruction.mnemonic} has no CUDA form", op=instruction.mnemonic)
        write(self, instruction)

    def called(self, function: ir.OpFunction) -> str:
        """A function that the kernel calls: its parameters are memory of its own."""
        inner = _Writer(function.body, (), 1)
        inner.helpers = self.helpers
        kind, (result, *operands) = scalar_type(function.dtype), function.body.params
        inner.emit(f"{memory_type(result.dtype)} {symbols.memory(result)}[1];")
        for n, buffer in enumerate(operands):
            inner.emit(f"{memory_type(buffer.dtype)} {symbols.memory(buffer)}[1] = {{x{n}}};")
        inner.memory()
        for instruction in function.body.body:
            _WRITE[type(instruction)](inner, instruction)
        inner.emit(f"return {symbols.memory(result)}[0];")
        self.uses_vectors |= inner.uses_vectors
        self.uses_bits |= inner.uses_bits
        self.uses_words |= inner.uses_words
        self.uses_bytes |= inner.uses_bytes
        params = ", ".join(f"{kind} x{n}" for n in range(len(operands)))
        body = "\n".join(inner.lines)
        name = symbols.function(function.op, function.dtype)
        calls = sum(isinstance(i, ir.Compute) and i.op is function.op for i in self.program.body)
        size = len(function.body.body)
        how = "inline" if size <= _SHORT and calls * size <= _WRITTEN_OUT else "__noinline__"
        return f"static {how} {kind} {name}({params}) {{\n{body}\n}}"

    def _leads(self, pointer: ir.Register, written: Collection[ir.Register]) -> bool:
        return any(
            isinstance(i, ir.Address) and i.base == pointer and i.result in written for i in self.program.body
        )

    def _parameter(self, buffer: ir.Buffer, is_stored: bool) -> str:
        const = "" if is_stored else "const "
        own = "" if buffer.name in self.aliased else "__restrict__ "
        return f"{const}{memory_type(buffer.dtype)} *{own}{symbols.memory(buffer)}"

    def memory(self) -> None:
        """What a block or a thread keeps for itself. Shared memory is one block: it may be planned to overlap."""
        shared = [b for b in self.program.locals if b.space is AddrSpace.LOCAL]
        if shared:
            arena, need = pack(shared), shared_memory(self.program)
            align = max(16, need.alignment)
            if need.dynamic:
                self.emit("extern __shared__ __align__(16) uint8_t shared_bytes[];")
                start = f"((uint32_t)__cvta_generic_to_shared(shared_bytes) & {align - 1})"
                more = f" + (({align} - {start}) & {align - 1})" if align > DYNAMIC_ALIGNED else ""
                self.emit(f"uint8_t *const arena = shared_bytes{more};")
            else:
                self.emit(f"__shared__ __align__({align}) uint8_t arena[{need.nbytes}];")
            for buffer, placed in zip(shared, arena.buffers, strict=True):
                kind = memory_type(buffer.dtype)
                self.emit(f"{kind} *const {symbols.memory(buffer)} = ({kind} *)(arena + {placed.offset});")
        for buffer in self.program.locals:
            if buffer.space is not AddrSpace.LOCAL:
                kind = memory_type(buffer.dtype)
                self.emit(f"{kind} {symbols.memory(buffer)}[{max(buffer.elements, 1)}];")

    # -- memory ----------------------------------------------------------------------------------------------------

    def address(self, i: ir.Address) -> None:
        base = [symbols.memory(i.base)] if isinstance(i.base, ir.Buffer) else self.lanes_of(i.base)
        pointer = i.base.pointer if isinstance(i.base, ir.Buffer) else i.base.dtype
        element = getattr(pointer.scalar, "base", pointer.scalar)
        indices = self.lanes_of(i.index)
        step = f" * {element.lanes}" if element.lanes > 1 else ""
        count = i.result.dtype.lanes
        texts = [f"{base[k % len(base)]} + {indices[k % len(indices)]}{step}" for k in range(count)]
        if i.peer:
            self.helpers.setdefault("peer", cuda_helpers.PEER)
            texts = [f"peer_memory({text}, {i.peer - 1})" for text in texts]
        if isinstance(i.base, ir.Buffer) and i.base.space is AddrSpace.GLOBAL:
            kind = self.pointer(i.result.dtype)
            texts = [f"({kind}){text}" if "+" not in text else f"({kind})({text})" for text in texts]
        self.define(i.result, texts)

    def _at(self, i: ir.Load | ir.Store, lane: int) -> str:
        if i.address.dtype.lanes > 1:
            return f"*{self.lane_of(i.address, lane)}"
        return f"{self.value(i.address)}[{lane}]" if lane else f"*{self.value(i.address)}"

    def _is_one_access(self, i: ir.Load | ir.Store, dtype: DType) -> bool:
        """Whether the lanes are neighbours that one instruction moves."""
        size = dtype.lanes * max(dtype.itemsize, 1)
        whole = i.address.dtype.lanes == 1 and dtype.lanes > 1 and size in {2, 4, 8, 16}
        one = i.gate is None or i.gate.dtype.lanes == 1 or isinstance(i, ir.Store)
        return whole and i.align >= size and one

    def load(self, i: ir.Load) -> None:
        if i.result in self.dealt:
            return
        dtype = i.result.dtype
        gated = i.gate is not None and i.alternative is not None
        if self._is_one_access(i, dtype):
            self.uses_vectors = True
            kind = f"vec<{memory_type(dtype)}, {dtype.lanes}>"
            name = f"r{i.result.number}"
            access = f"*(const {kind} *){self.value(i.address)}"
            if gated and i.gate is not None and i.alternative is not None:
                other = ", ".join(self.lanes_of(i.alternative))
                access = f"{self.value(i.gate)} ? {access} : {kind}{{{other}}}"
            if cuda_pairs.is_half(dtype):
                self.uses_words = True
                kind = f"vec<uint32_t, {dtype.lanes // 2}>"
                access = f"words_at<{dtype.lanes // 2}>({self.value(i.address)})"
                if gated and i.gate is not None and i.alternative is not None:
                    other = ", ".join(self.words_of(i.alternative))
                    access = f"{self.value(i.gate)} ? {access} : {kind}{{{other}}}"
                self.emit(f"{kind} {name} = {access};")
                self.split[i.result] = tuple(
                    half for k in range(dtype.lanes // 2) for half in self.halves_of(f"{name}.at[{k}]")
                )
                return
            if not gated and dtype.is_int and dtype.bits == 8 and dtype.lanes >= _WORD_BYTES:
                self.load_bytes(i, dtype)
                return
            self.emit(f"{kind} {name} = {access};")
            self.split[i.result] = tuple(self.loaded(f"{name}.at[{k}]", dtype) for k in range(dtype.lanes))
            return
        texts = []
        for lane in range(dtype.lanes):
            text = self.loaded(self._at(i, lane), dtype)
            if gated and i.gate is not None and i.alternative is not None:
                gate = self.lane_of(i.gate, lane if i.gate.dtype.lanes > 1 else 0)
                text = f"{gate} ? {text} : {self.lane_of(i.alternative, lane)}"
            texts.append(text)
        self.define(i.result, texts)

    def load_bytes(self, i: ir.Load, dtype: DType) -> None:
        """Bytes by words, so that two of a word can be told apart by one instruction."""
        self.uses_bytes = True
        name, count = f"r{i.result.number}", dtype.lanes // _WORD_BYTES
        self.emit(f"vec<uint32_t, {count}> {name} = bytes_at<{count}>({self.value(i.address)});")
        places = [
            cuda_bytes.Byte(f"{name}.at[{k // _WORD_BYTES}]", k % _WORD_BYTES) for k in range(dtype.lanes)
        ]
        texts = [byte.text(scalar_type(dtype)) for byte in places]
        self.bytes.update(zip(texts, places, strict=True))
        self.split[i.result] = tuple(texts)

    def store(self, i: ir.Store) -> None:
        dtype = i.value.dtype
        if self._is_one_access(i, dtype):
            self.uses_vectors = True
            condition = "" if i.gate is None else f"if ({' && '.join(self.lanes_of(i.gate))}) "
            self._store_whole(i, condition)
            if i.gate is None or i.gate.dtype.lanes == 1:
                return
            self.emit("else {")  # some lanes, or none
            self._store_lanes(i)
            self.emit("}")
            return
        self._store_lanes(i)

    def _store_whole(self, i: ir.Store, condition: str) -> None:
        dtype = i.value.dtype
        if cuda_pairs.is_half(dtype):
            self.uses_words = True
            whole = f"vec<uint32_t, {dtype.lanes // 2}>{{{', '.join(self.words_of(i.value))}}}"
            self.emit(f"{condition}put_words({self.value(i.address)}, {whole});")
            return
        kind = f"vec<{memory_type(dtype)}, {dtype.lanes}>"
        lanes = ", ".join(f"({memory_type(dtype)}){text}" for text in self.lanes_of(i.value))
        self.emit(f"{condition}*({kind} *){self.value(i.address)} = {kind}{{{lanes}}};")

    def _store_lanes(self, i: ir.Store) -> None:
        for lane in range(i.value.dtype.lanes):
            gate = None if i.gate is None else self.lane_of(i.gate, lane if i.gate.dtype.lanes > 1 else 0)
            condition = "" if gate is None else f"if ({gate}) "
            self.emit(f"{condition}{self._at(i, lane)} = {self.lane_of(i.value, lane)};")

    def prefetch(self, i: ir.Prefetch) -> None:
        self.emit(f'asm volatile("prefetch.global.L2 [%0];" :: "l"({self.value(i.address)}));')

    def copy_async(self, i: ir.CopyAsync) -> None:
        name = f"copy_async_{i.nbytes}"
        self.helpers[name] = cuda_helpers.COPY_ASYNC[i.nbytes]
        gate = "true" if i.gate is None else self.value(i.gate)
        self.emit(f"{name}({self.value(i.address)}, {self.value(i.source)}, {gate});")

    def commit_copies(self, i: ir.CommitCopies) -> None:
        self.emit('asm volatile("cp.async.commit_group;" ::: "memory");')

    def wait_copies(self, i: ir.WaitCopies) -> None:
        self.emit(f'asm volatile("cp.async.wait_group {i.groups};" ::: "memory");')

    def tile(self, i: ir.Tile) -> None:
        name, kinds = i.tile.name, _MMA.get(i.tile.name)
        if i.tile.in_memory("b"):
            self.warpgroup_tile(i)
            return
        if kinds is None:
            raise LoweringError(f"{name} is no instruction of this machine", op="WMMA")
        self.uses_vectors = self.uses_bits = True
        if name not in self.helpers:
            self.helpers[name] = _mma_helper(name, kinds, i)
        acc = scalar_type(i.c.dtype)
        number, count = i.result.number, i.result.dtype.lanes
        words = []
        for operand in (i.a, i.b):
            kind, lanes = scalar_type(operand.dtype), self.lanes_of(operand)
            word, total = _words(operand.dtype)
            if cuda_pairs.is_half(operand.dtype):
                self.uses_words, kind, lanes = True, word, self.words_of(operand)
            own = f"vec<{kind}, {len(lanes)}>{{{', '.join(lanes)}}}"
            words.append(own if word == kind else f"bits_as<vec<{word}, {total}>>({own})")
        self.emit(f"vec<{acc}, {count}> r{number} = {{{', '.join(self.lanes_of(i.c))}}};")
        self.emit(f"{name}(r{number}, {words[0]}, {words[1]});")
        self.split[i.result] = tuple(f"r{number}.at[{k}]" for k in range(count))

    def warpgroup_tile(self, i: ir.Tile) -> None:
        name, number, count = i.tile.name, i.result.number, i.result.dtype.lanes
        self.uses_vectors = True
        self.helpers.setdefault("descriptor", warpgroup.DESCRIPTOR)
        name = f"{name}_{i.pending}" if i.pending else name
        anew = isinstance(i.c, ir.Immediate) and i.c.value == 0
        name = f"{name}_anew" if anew else name
        self.helpers.setdefault(name, warpgroup.helper(name, i.tile, i.a.dtype, i.pending, anew=anew))
        start = "" if anew else f" = {{{', '.join(self.lanes_of(i.c))}}}"
        self.emit(f"vec<{scalar_type(i.c.dtype)}, {count}> r{number}{start};")
        left = self.value(i.a) if i.tile.in_memory("a") else ""
        if not left:
            self.uses_words = True
            words = self.words_of(i.a)
            left = f"vec<uint32_t, {len(words)}>{{{', '.join(words)}}}"
        self.emit(f"{name}(r{number}, {left}, {self.value(i.b)});")
        self.split[i.result] = tuple(f"r{number}.at[{k}]" for k in range(count))

    def deal(self, i: ir.Deal) -> None:
        """`ldmatrix` reads the rows and deals them out at once: they are not loaded before."""
        rows = self.loads.get(i.operand)
        row = i.operand.dtype.lanes * i.operand.dtype.itemsize
        is_row = rows is not None and rows.gate is None and rows.align >= row
        if rows is None or not is_row or not self.is_shared(rows.address):
            raise LoweringError(
                "rows are dealt out that are not 16 aligned bytes of shared memory", op="EXCHANGE"
            )
        count, dtype = i.matrices, i.result.dtype
        name = f"ldmatrix_x{count}{'_trans' if i.transposed else ''}"
        self.helpers[name] = cuda_helpers.ldmatrix(name, count, transposed=i.transposed)
        self.uses_vectors = self.uses_bits = True
        number, kind = i.result.number, f"vec<{scalar_type(dtype)}, {dtype.lanes}>"
        self.emit(f"{kind} r{number} = bits_as<{kind}>({name}({self.value(rows.address)}));")
        self.split[i.result] = tuple(f"r{number}.at[{k}]" for k in range(dtype.lanes))

    def is_shared(self, address: ir.Register) -> bool:
        return isinstance(address.dtype, PtrDType) and address.dtype.space is AddrSpace.LOCAL

    def finish(self, i: ir.Finish) -> None:
        names = [f"r{i.result.number}_{k}" for k in range(i.result.dtype.lanes)]
        self.emit(warpgroup.wait(i.pending))  # before anything is done with what is held, even copied
        for name, given in zip(names, self.lanes_of(i.operand), strict=True):
            self.emit(f"{scalar_type(i.result.dtype)} {name} = {given};")
        self.emit(warpgroup.settled(names, i.result.dtype))
        self.same(i.result, names)

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, i: ir.Special) -> None:
        own = "threadIdx" if i.is_thread else "blockIdx"
        axis = i.index.axis
        if self.has_fetcher and i.is_thread:
            sizes = block_sizes(self.program)
            below = prod(size for each, size in sizes.items() if each < axis)
            self.let(i.result, f"({scalar_type(i.result.dtype)})(threadIdx.x / {below} % {sizes[axis]})")
            return
        ranks = ranks_of(self.program)
        number = f"{own}.{_AXES[axis]}"
        if ranks > 1 and not i.is_thread and axis == 0:  # neighbouring blocks are a cluster
            number = f"({number} {'%' if i.is_rank else '/'} {ranks})"
        self.let(i.result, f"({scalar_type(i.result.dtype)}){number}")

    def loop(self, i: ir.Loop) -> None:
        vote = self.votes.get(i.counter)
        if vote is not None:
            self.voted_loop(i, vote, self.write_one)
            return
        count = i.unroll or (_RELAYS if i.counter in self.relays else 0)
        if count:
            self.emit(f"#pragma unroll {count}")
        self.open_loop(i)

    def barrier(self, i: ir.Barrier) -> None:
        if self.reads_shared:  # by tensor cores, which do not read as threads store
            self.emit(warpgroup.FENCE)
        if i.cluster:
            last = i is self.program.body[-1]
            self.emit(cuda_helpers.CLUSTER_END if last else cuda_helpers.CLUSTER_BARRIER)
            return
        own = f'asm volatile("bar.sync 1, {self.threads};" ::: "memory");'
        self.emit(own if self.has_fetcher else "__syncthreads();")


_MMA: Final = {
    "mma_m16n8k16_f16_f32": "f32.f16.f16.f32",
    "mma_m16n8k16_bf16_f32": "f32.bf16.bf16.f32",
    "mma_m16n8k8_tf32_f32": "f32.tf32.tf32.f32",
    "mma_m16n8k8_tfloat32_f32": "f32.tf32.tf32.f32",
    "mma_m16n8k32_s8_s32": "s32.s8.s8.s32",
    "mma_m16n8k32_u8_s32": "s32.u8.u8.s32",
    "mma_m8n8k4_f64_f64": "f64.f64.f64.f64",
}
"""The types of `mma.sync`, by the name of the core: result, left, right, addend."""


_RELAYS: Final = 4
"""Rounds of a loop in which threads hand on values that are written out: what the next ones read is then under way."""


def _relays(program: ir.Program) -> Iterator[ir.Register]:
    """The counters of such loops."""
    counters: list[ir.Register] = []
    for i in program.body:
        if isinstance(i, ir.Loop):
            counters.append(i.counter)
        elif isinstance(i, ir.EndLoop):
            counters.pop()
        elif isinstance(i, ir.CombineThreads) and i.before and counters:
            yield counters[-1]


def _words(dtype: DType) -> tuple[str, int]:
    """How an operand of `mma.sync` lies in registers: the type of one, and how many there are."""
    if dtype.scalar is dtypes.float64:
        return "double", dtype.lanes
    return "uint32_t", dtype.lanes * dtype.itemsize // 4


def _mma_helper(name: str, kinds: str, i: ir.Tile) -> str:
    letters = {"float": "f", "int32_t": "r", "uint32_t": "r", "double": "d"}
    acc, cs = scalar_type(i.c.dtype), i.c.dtype.lanes
    (left, as_), (right, bs) = _words(i.a.dtype), _words(i.b.dtype)
    place = iter(range(cs + as_ + bs))
    c_list, a_list, b_list = (", ".join(f"%{next(place)}" for _ in range(n)) for n in (cs, as_, bs))
    outs = ", ".join(f'"+{letters[acc]}"(c.at[{k}])' for k in range(cs))
    ins = ", ".join(
        f'"{letters[kind]}"({matrix}.at[{k}])'
        for matrix, kind, count in (("a", left, as_), ("b", right, bs))
        for k in range(count)
    )
    return cuda_helpers.MMA.format(
        name=name, kinds=kinds, m=i.tile.m, n=i.tile.n, k=i.tile.k, threads=i.tile.threads, acc=acc, cs=cs,
        left=left, as_=as_, right=right, bs=bs, c_list=c_list, a_list=a_list, b_list=b_list, outs=outs, ins=ins,
    )  # fmt: skip


_WRITE: Final = handlers(_Writer)


def render(program: ir.Program, *, aliased: Collection[str] = ()) -> str:
    """The CUDA C++ of one kernel. `aliased`: parameters that share memory with others."""
    return _Writer(program, aliased, threads_of(program)).write()
