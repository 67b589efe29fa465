"""Every invariant of LLIR has programs that break it, and the complaint stands under the offending line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import VerifyError
from planish.llir.builder import Builder
from planish.llir.program import (
    Address,
    AnyLane,
    Barrier,
    Bitcast,
    Buffer,
    Build,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    Finish,
    If,
    Immediate,
    LaunchVariable,
    Load,
    Lookup,
    Loop,
    Ops,
    Prefetch,
    Program,
    Register,
    Reload,
    SelectLanes,
    Special,
    Spill,
    Store,
    Tile,
)
from planish.llir.regalloc import allocate
from planish.llir.text import parse, print_program
from planish.llir.tiles import MMA_M16N8K16, TileOp
from planish.llir.verify import INVARIANTS, problems, verify
from planish.uop.hardware_index import index_named
from tests.llir import kernels
from tests.llir.generate import random_program

f32, i32, i64, boolean = dtypes.float32, dtypes.int32, dtypes.int64, dtypes.bool_
X = Buffer("x", f32, 8, AddrSpace.GLOBAL)
P, N, F, G = Register(0, X.pointer), Register(1, i32), Register(2, f32), Register(3, boolean)
F4, I4 = Register(4, f32.vec(4)), Register(5, i32.vec(4))
BASE = (
    Address(P, X, Immediate(0, i32)),
    Compute(N, Ops.ADD, (Immediate(1, i32), Immediate(2, i32))),
    Load(F, P),
    Compute(G, Ops.CMPLT, (F, F)),
    Load(F4, P),
    Build(I4, (N, N, N, N)),
)
NEW = Register(9, f32)


def zero(dtype: dtypes.DType) -> Immediate:
    return Immediate(dtype.const(0), dtype)


def with_body(*body: object) -> Program:
    return Program("k", (X,), (), (*BASE, *body))  # type: ignore[arg-type]


def with_buffer(**fields: object) -> Program:
    return Program("k", (replace(X, **fields),), (), ())  # type: ignore[arg-type]


def with_variable(low: int, high: int, dtype: dtypes.DType = i32, name: str = "n") -> Program:
    return Program("k", (), (), (), (LaunchVariable(Register(0, dtype), name, low, high),))


def loop(number: int, *body: object, bound: int = 3) -> tuple[object, ...]:
    counter = Register(number, i32)
    return (Loop(counter, Immediate(bound, i32)), *body, EndLoop(counter, Immediate(bound, i32)))


PLAIN = TileOp("plain", 2, 2, 2)
BROKEN: dict[str, list[tuple[Program, str]]] = {
    "name": [
        (Program("two words", (), (), ()), "'two words' is not an identifier"),
        (Program("k", (X, X), (), ()), "x is declared twice"),
        (with_variable(0, 1, name="1st"), "'1st' is not an identifier"),
        (replace(with_variable(0, 1), variables=with_variable(0, 1).variables * 2), "n is declared twice"),
    ],
    "buffer": [
        (with_buffer(size=-1), "size -1 is negative"),
        (with_buffer(size=2**61), f"{2**63} bytes are beyond 64 bits"),
        (with_buffer(align=24), "alignment 24 is not a power of two"),
        (with_buffer(align=2), "alignment 2 is not a power of two that holds an element of f32"),
        (with_buffer(offset=2), "offset 2 is not a multiple of its alignment 4"),
        (with_buffer(offset=-4), "offset -4"),
        (with_buffer(offset=2**63 - 8), "beyond 64 bits"),
        (with_buffer(dtype=dtypes.index), "memory cannot hold index"),
        (with_buffer(space=AddrSpace.LOCAL), "parameters are global"),
        (Program("k", (), (X,), ()), "the kernel's own, but in global memory"),
    ],
    "tile": [
        (with_body(Tile(Register(9, f32), zero(f32), zero(f32), zero(f32), TileOp("t", 1, 1, 0))), "must be positive"),
        (with_body(Tile(F4, F4, F4, F4, TileOp("t", 2, 2, 2, 2))), "spread over 2 threads without a layout"),
        (with_body(Tile(NEW, F, F, F, replace(MMA_M16N8K16, c=("r0", "r0")))), "do not number its 16x8 elements"),
        (with_body(Tile(NEW, F, F, F, TileOp("t", 1, 1, 1, a=("x0",)))), "neither l<number> nor r<number>"),
        (with_body(Tile(Register(9, f32.vec(4)), F4, F, F4, PLAIN)), "a thread holds 4 elements of b, not f32"),
    ],
    "once": [(with_body(Load(F, P)), "%2 is assigned a second time")],
    "order": [(with_body(Compute(NEW, Ops.NEG, (Register(77, f32),))), "%77 is read, but not assigned above")],
    "scope": [
        (with_body(*loop(9, Load(Register(10, f32), P)), Store(P, Register(10, f32))), "%10 is assigned in a loop or if"),
        (with_body(*loop(9), Compute(Register(10, i32), Ops.NEG, (Register(9, i32),))), "%9 is assigned in a loop"),
        (with_body(If(G), Load(NEW, P), EndIf(), Store(P, NEW)), "%9 is assigned in a loop or if that has ended"),
    ],
    "nesting": [
        (with_body(EndIf()), "endif where nothing is open"),
        (with_body(Loop(Register(9, i32), Immediate(3, i32))), "a loop is not closed"),
        (with_body(If(G)), "a if is not closed"),
        (with_body(Loop(Register(9, i32), Immediate(3, i32)), EndIf()), "endif closes a loop"),
        (with_body(*loop(9)[:1], EndLoop(Register(9, i32), Immediate(4, i32))), "closes the loop of %9"),
    ],
    "types": [
        (with_body(Compute(NEW, Ops.ADD, (F, N))), "operands f32, i32 where f32, f32 are expected"),
        (with_body(Compute(NEW, Ops.ADD, (F,))), "add(x y) given 1 operands"),
        (with_body(Compute(NEW, Ops.CMPLT, (F, F))), "a comparison gives bool, not f32"),
        (with_body(Compute(NEW, Ops.WHERE, (N, F, F))), "where bool, f32, f32 are expected"),
        (with_body(Compute(NEW, Ops.SHL, (F, F))), "shl works on integers, not on f32"),
        (with_body(Compute(Register(9, i32), Ops.SQRT, (N,))), "sqrt works on floats, not on i32"),
        (with_body(Compute(NEW, Ops.AND, (F, F))), "and works on integers and bools"),
        (with_body(Compute(NEW, Ops.NEG, (Register(2, dtypes.float64),))), "%2 holds f32, it is read as f64"),
        (with_body(Convert(Register(9, i32.vec(2)), F)), "a cast keeps the number of lanes"),
        (with_body(Convert(Register(9, dtypes.index), N)), "%9 cannot be index"),
        (with_body(Bitcast(Register(9, i64), F)), "f32 and i64 differ in size"),
        (with_body(Bitcast(Register(9, boolean), G)), "a bool has no bits"),
        (with_body(SelectLanes(Register(9, i32), F4, (0,))), "1 lanes of f32x4 do not make i32"),
        (with_body(Build(Register(9, f32.vec(2)), (F, N))), "f32, i32 do not join to f32x2"),
        (with_body(Lookup(Register(9, i32.vec(4)), F4, I4)), "the result is f32x4, not i32x4"),
        (with_body(Lookup(Register(9, f32.vec(4)), F4, F4)), "the index is an i32 or i64, not f32x4"),
        (with_body(AnyLane(Register(9, boolean), F4)), "any makes one bool of bools, not bool of f32x4"),
        (with_body(Load(Register(9, i32), P)), "memory of f32 does not hold i32"),
        (with_body(Store(P, N)), "memory of f32 does not hold i32"),
        (with_body(Address(Register(9, i32), X, N)), "the result is *f32[8], not i32"),
        (with_body(Tile(NEW, F4, F4, F4, PLAIN)), "the result is f32x4, not f32"),
        (with_body(Tile(Register(9, f32.vec(4)), F4, I4, F4, PLAIN)), "f32 and i32 are not multiplied"),
    ],
    "address": [
        (with_body(Address(Register(9, X.pointer), Buffer("y", f32, 8, AddrSpace.GLOBAL), N)), "@y is not a buffer"),
        (with_body(Address(Register(9, X.pointer), F, N)), "the base %2 is f32, not an address"),
        (with_body(Address(Register(9, X.pointer), X, F)), "the index is an i32 or i64, not f32"),
        (with_body(Address(Register(9, X.pointer), X, Immediate(1, dtypes.uint8))), "not u8"),
        (with_body(Load(NEW, F)), "%2 is f32, not an address"),
        (with_body(Store(N, F)), "%1 is i32, not an address"),
        (with_body(Prefetch(F)), "%2 is f32, not one address"),
        (Program("k", (), (), (BASE[0], Load(NEW, P))), "no buffer of this kernel is *f32[8]"),
    ],
    "gate": [
        (with_body(Load(NEW, P, N, F)), "the gate is bool or bool, not i32"),
        (with_body(Load(Register(9, f32.vec(2)), P, I4, zero(f32.vec(2)))), "the gate is bool or boolx2, not i32x4"),
        (with_body(Load(NEW, P, G)), "a gate and an alternative go together"),
        (with_body(Load(NEW, P, None, F)), "a gate and an alternative go together"),
        (with_body(Load(NEW, P, G, N)), "the alternative is f32, not i32"),
        (with_body(Store(P, F, N)), "the gate is bool or bool, not i32"),
        (with_body(If(N), EndIf()), "the condition is bool, not i32"),
    ],
    "immediate": [
        (with_body(Compute(Register(9, i32), Ops.NEG, (Immediate(2**31, i32),))), "is not a constant of dtype i32"),
        (with_body(Compute(NEW, Ops.NEG, (Immediate(0.1, f32),))), "0.1 is not exactly a value of f32"),
        (with_body(Compute(NEW, Ops.NEG, (Immediate(1, f32),))), "1 is not exactly a value of f32"),
        (with_body(Compute(Register(9, i32.vec(4)), Ops.NEG, (Immediate((1, 2), i32.vec(4)),))), "2 constants do not fill i32x4"),
        (with_body(SelectLanes(Register(9, dtypes.index), Immediate(1, dtypes.index), (0,))), "a constant cannot be index"),
    ],
    "lanes": [
        (with_body(SelectLanes(NEW, F4, (4,))), "f32x4 has no lanes 4"),
        (with_body(SelectLanes(NEW, F4, ())), "f32x4 has no lanes (none)"),
        (with_body(Lookup(Register(9, f32.vec(4)), Immediate((1.0, 2.0, 3.0), f32.vec(3)), I4)), "a table has a power of two of entries"),
        (with_body(Build(Register(9, f32.vec(3)), (F, F))), "2 lanes do not make f32x3"),
        (with_body(Build(Register(9, f32.vec(5)), (F, F4))), "build takes scalars"),
        (with_body(Concat(Register(9, f32.vec(9)), (F4, F4))), "8 lanes do not make f32x9"),
        (with_body(Address(Register(9, X.pointer.vec(4)), X, I4), Load(F, Register(9, X.pointer.vec(4)))), "4 addresses do not go"),
        (with_body(Address(Register(9, X.pointer.vec(4)), X, I4),
                   Address(Register(10, X.pointer.vec(2)), Register(9, X.pointer.vec(4)), Immediate(0, i32.vec(2)))),
         "2 indices do not go with 4 addresses"),
    ],
    "hint": [
        (with_body(Load(NEW, P, align=3)), "alignment 3 is not a power of two"),
        (with_body(Store(P, F, align=-1)), "alignment -1"),
        (with_body(Prefetch(P, locality=4)), "locality 4 is not 0, 1, 2 or 3"),
        (with_body(Loop(Register(9, i32), Immediate(1, i32), -2), EndLoop(Register(9, i32), Immediate(1, i32))), "unroll count -2"),
    ],
    "barrier": [(with_body(If(G), Barrier(), EndIf()), "a barrier under an if")],
    "bounds": [
        (with_variable(3, 2), "empty bounds 3..2"),
        (with_variable(0, 2**31), "do not fit i32"),
        (with_variable(0, 1, f32), "is an i32 or i64, not f32"),
        (with_body(Special(NEW, index_named("gidx0"), F)), "%9 counts in i32 or i64, not in f32"),
        (with_body(Loop(Register(9, i32), Immediate(1, i64)), EndLoop(Register(9, i32), Immediate(1, i64))), "the bound is i32, not i64"),
    ],
    "product": [
        (with_body(Tile(Register(9, f32.vec(4)), F4, F4, F4, PLAIN, 1), Compute(Register(10, f32.vec(4)), Ops.ADD, (F4, Register(9, f32.vec(4))))), "no finish stands between"),
        (with_body(Tile(Register(9, f32.vec(4)), F4, F4, F4, PLAIN, 1), Finish(Register(10, f32.vec(4)), Register(9, f32.vec(4)), 1)), "no finish stands between"),
        (with_body(Tile(Register(9, f32.vec(4)), F4, F4, F4, PLAIN, 1), SelectLanes(Register(10, f32), Register(9, f32.vec(4)), (0,)), Store(P, Register(10, f32))), "%10 is what a product"),
    ],
    "bank": [
        (with_body(Spill(0, F)), "spill before register allocation"),
        (with_body(Load(Register(0, f32, "s"), P)), "%s0 is not a register as they are before allocation"),
    ],
}  # fmt: skip

CASES = [(name, program, words) for name, cases in BROKEN.items() for program, words in cases]


def test_every_invariant_is_listed_described_and_broken() -> None:
    assert set(BROKEN) == set(INVARIANTS)
    described = re.findall(r"^\* `(\w+)`", sys.modules[verify.__module__].__doc__ or "", re.MULTILINE)
    assert tuple(described) == INVARIANTS


@pytest.mark.parametrize(("name", "program", "words"), CASES, ids=[f"{n}-{w[:30]}" for n, _, w in CASES])
def test_breaking_it_is_found(name: str, program: Program, words: str) -> None:
    found = problems(program)
    assert any(p.invariant == name and words in p.message for p in found), found
    with pytest.raises(VerifyError) as caught:
        verify(program)
    assert f"{name}: " in str(caught.value)
    assert words in str(caught.value)


def test_the_base_of_the_broken_programs_is_whole() -> None:
    assert problems(with_body()) == []


def test_all_problems_are_collected_under_their_lines() -> None:
    text = """llir 1
kernel k
  @x: global f32[8] bytes=32 align=4
  %0 = address @x[0] : *f32[8]
  %1 = load %0 : f32
  if true
    %2 = add %1, 1.0 : f32
    barrier
  endif
  store %0, %2 : f32
"""
    with pytest.raises(VerifyError) as caught:
        verify(parse(text))
    message = str(caught.value)
    assert "breaks the LLIR rules 2 times" in message
    lines = message.splitlines()
    barrier = next(i for i, line in enumerate(lines) if line.endswith("8 |     barrier"))
    assert lines[barrier + 1].strip().startswith("|     ^^^^^^^ barrier: a barrier under an if")
    store = next(i for i, line in enumerate(lines) if line.endswith("10 |   store %0, %2 : f32"))
    assert "^ scope: %2 is assigned in a loop or if that has ended" in lines[store + 1]


def test_many_problems_are_cut() -> None:
    b = Builder("many")
    for _ in range(30):
        b.add(Register(1000, f32), 1.0)
    with pytest.raises(VerifyError, match="and 10 more"):
        verify(b.program())


ALLOCATED = allocate(kernels.matmul(2, 2, 2), 4).program


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: (Reload(Register(0, f32, "s"), 99), *body), "slot 99 is reloaded, but nothing was spilled"),
        (lambda body: (*body, Compute(Register(4, i32), Ops.NEG, (Immediate(1, i32),))), "%4 is not a register as they are after"),
    ],
)  # fmt: skip
def test_allocated_programs_have_rules_of_their_own(
    change: Callable[..., tuple[object, ...]], words: str
) -> None:
    verify(ALLOCATED, allocated=True)
    broken = replace(ALLOCATED, body=change(ALLOCATED.body))  # type: ignore[arg-type]
    assert [(p.invariant, words in p.message) for p in problems(broken, allocated=True)] == [("bank", True)]
    assert any(p.invariant == "once" for p in problems(ALLOCATED))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_whole(seed: int) -> None:
    program = random_program(seed)
    verify(program)
    verify(allocate(program, 4).program, allocated=True)
    assert print_program(program)
