"""Loops over lists, in CUDA C++: the threads of a warp look at an entry each and vote (`llir/voting.py`), or do an entry each (`llir/leading.py`).

Votes on several entries for each thread are taken at once, so that what decides is under way for all of them. Then the warp goes on with
those that were voted for, in order; it computes once more, for one entry, what it voted on. Where each thread does an entry, those that store to the
same place find each other (`__match_any_sync`) and take turns, from the lowest lane up: the order of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planish.codegen.c_table import scalar_type
from planish.codegen.cuda_fetch import FetchWriter
from planish.llir import program as ir
from planish.llir.instruction import Instruction
from planish.llir.leading import Lead
from planish.llir.program import Register
from planish.llir.voting import Vote

WARP: Final = 32
_WORDS: Final = 4
"""Entries of each thread that are voted on at once."""
_LANE: Final = "((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 32"


class VoteWriter(FetchWriter):
    """Writes loops that are voted on."""

    votes: Mapping[Register, Vote]

    def led_loop(self, i: ir.Loop, lead: Lead, write: Callable[[Instruction], None]) -> None:
        """All of a loop that any thread of the warp goes through for an entry of its own, as if it were the first."""
        kind, bound = scalar_type(i.counter.dtype), self.value(i.bound)
        base, words = f"base{i.counter.number}", f"votes{i.counter.number}"
        number = f"{base} + {WARP} * word + ({kind})({_LANE})"

        def entry(steps: Sequence[Instruction]) -> None:
            self.emit(f"const {kind} entry = {number};")
            self.emit(f"const {kind} r{i.counter.number} = entry < {bound} ? entry : 0;")
            self.emit(f"const {scalar_type(lead.thread.dtype)} r{lead.thread.number} = 0;")
            for each in (*lead.first, *steps):
                write(each)

        self.emit(f"for ({kind} {base} = 0; {base} < {bound}; {base} += {WARP * _WORDS}) {{")
        self.depth += 1
        self.emit(f"uint32_t {words}[{_WORDS}];")
        self.emit("#pragma unroll")
        self.emit(f"for (int word = 0; word < {_WORDS}; word++) {{")
        self.depth += 1
        entry(lead.voted)
        self.emit(f"{words}[word] = __ballot_sync(0xffffffffu, entry < {bound} && {self.value(lead.gate)});")
        self.depth -= 1
        self.emit("}")
        self.emit("#pragma unroll")
        self.emit(f"for (int word = 0; word < {_WORDS}; word++) if ({words}[word]) {{")
        self.depth += 1
        entry(lead.free)
        place = f"(uint64_t)(uintptr_t){self.value(lead.store.address)}"
        self.emit(f"const bool mine = ({words}[word] >> ({_LANE}) & 1) != 0;")
        self.emit(f"const uint32_t same = __match_any_sync(0xffffffffu, mine ? {place} : 0ull);")
        self.emit(f"const int turn = mine ? __popc(same & ((1u << ({_LANE})) - 1)) : -1;")
        self.emit("for (int now = 0; __any_sync(0xffffffffu, turn >= now); now++) {")
        self.depth += 1
        self.emit("if (turn == now) {")
        self.depth += 1
        for each in lead.turn:
            write(each)
        self.depth -= 1
        self.emit("}")
        self.emit("__syncwarp();")
        for _ in range(3):
            self.depth -= 1
            self.emit("}")

    def voted_loop(self, i: ir.Loop, vote: Vote, write: Callable[[Instruction], None]) -> None:
        """The head of such a loop, up to the body of one entry; `write` writes an instruction."""
        counter, kind, bound = f"r{i.counter.number}", scalar_type(i.counter.dtype), self.value(i.bound)
        base, words = f"base{i.counter.number}", f"votes{i.counter.number}"
        self.emit(f"for ({kind} {base} = 0; {base} < {bound}; {base} += {WARP * _WORDS}) {{")
        self.emit(f"  uint32_t {words}[{_WORDS}];")
        self.emit("  #pragma unroll")
        self.emit(f"  for (int word = 0; word < {_WORDS}; word++) {{")
        self.depth += 2
        self.emit(f"const {kind} entry = {base} + {WARP} * word + ({kind})({_LANE});")
        self.emit(f"const {kind} {counter} = entry < {bound} ? entry : 0;")
        for each in vote.made_by:
            write(each)
        self.emit(f"{words}[word] = __ballot_sync(0xffffffffu, entry < {bound} && {self.value(vote.gate)});")
        self.depth -= 1
        self.emit("}")
        self.emit("#pragma unroll")
        self.emit(f"for (int word = 0; word < {_WORDS}; word++)")
        self.emit(f"for (uint32_t left = {words}[word]; left; left &= left - 1) {{")
        self.depth += 1
        self.emit(f"const {kind} {counter} = {base} + {WARP} * word + (__ffs(left) - 1);")

    def end(self, i: ir.EndLoop | ir.EndIf) -> None:
        super().end(i)
        if isinstance(i, ir.EndLoop) and i.counter in self.votes:
            super().end(i)
