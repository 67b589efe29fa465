"""The text form of LLIR: what is printed is read back as the same program; what cannot be read says where and why."""

from __future__ import annotations

import math

import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import ParseError
from planish.llir.builder import Builder
from planish.llir.program import FORMS, Buffer, Immediate, Ops, Program, Special
from planish.llir.regalloc import allocate
from planish.llir.text import parse, parse_programs, print_program
from tests.conftest import Golden
from tests.llir import kernels
from tests.llir.generate import random_program

HAND = {
    "add": kernels.add(),
    "matmul": kernels.matmul(3, 4, 5),
    "register_tile": kernels.register_tile(2, 2, 3),
    "block_sum": kernels.block_sum(2, 4),
    "tiled_matmul": kernels.tiled_matmul(4, 2),
    "tensor_core": kernels.tensor_core(),
    "warp_sum": kernels.warp_sum(),
    "copied_tile": kernels.copied_tile(),
    "fetched_boxes": kernels.fetched_boxes(),
    "dealt_rows": kernels.dealt_rows(transposed=True),
    "product_under_way": kernels.product_under_way(),
}


def check(program: Program) -> None:
    text = print_program(program)
    again = parse(text)
    assert again == program
    assert print_program(again) == text


@pytest.mark.parametrize("name", HAND)
def test_kernels_read_as_stored(name: str, golden: Golden) -> None:
    check(HAND[name])
    golden.check(f"llir/{name}.txt", print_program(HAND[name]))


@pytest.mark.parametrize("name", HAND)
def test_allocated_kernels_round_trip(name: str) -> None:
    for registers in (4, 8):
        check(allocate(HAND[name], registers).program)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_round_trip(seed: int) -> None:
    program = random_program(seed)
    check(program)
    check(allocate(program, 4).program)


def test_the_programs_above_use_every_form() -> None:
    used = {type(i) for seed in range(30) for i in random_program(seed).body}
    used |= {type(i) for program in HAND.values() for i in program.body}
    used |= {type(i) for program in HAND.values() for i in allocate(program, 4).program.body}
    assert used == set(FORMS)
    assert any(isinstance(i, Special) for i in HAND["block_sum"].body)


def test_constants_keep_every_bit() -> None:
    b = Builder("constants")
    given = (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1e-45, 3.4028234663852886e38)
    values = [dtypes.float32.const(value) for value in given]
    x = b.param("x", dtypes.float32, 1)
    for value in values:
        b.store(b.address(x, 0), value)
    b.add(Immediate(tuple(values), dtypes.float32.vec(8)), Immediate(1.5, dtypes.float32.vec(8)))
    b.compute(Ops.CMPLT, Immediate(2, dtypes.uint64), Immediate(2**64 - 1, dtypes.uint64))
    b.address(x, Immediate(3, dtypes.int64))
    check(b.program())
    assert Immediate(0.0, dtypes.float32) != Immediate(-0.0, dtypes.float32)
    assert Immediate(math.nan, dtypes.float32) == Immediate(float("nan"), dtypes.float32)
    assert Immediate(1, dtypes.int32) != Immediate(1, dtypes.int64)


def test_buffers_keep_alignment_and_offset() -> None:
    buffers = (
        Buffer("a", dtypes.float32, 4, AddrSpace.GLOBAL, 64, 128),
        Buffer("b", dtypes.float32.vec(16), 2**50, AddrSpace.GLOBAL),
    )
    own = (
        Buffer("c", dtypes.int4, 3, AddrSpace.LOCAL, None, 0),
        Buffer("d", dtypes.bool_, 0, AddrSpace.REG, 1),
    )
    program = Program("memory", buffers, own, ())
    check(program)
    assert f"@b: global f32x16[{2**50}] bytes={2**56} align=4" in print_program(program)
    assert Buffer("a", dtypes.float32, 4, AddrSpace.GLOBAL, 4) == Buffer(
        "a", dtypes.float32, 4, AddrSpace.GLOBAL
    )


def test_comments_and_blank_lines_say_nothing() -> None:
    text = print_program(HAND["add"])
    spaced = "\n\n# a kernel\n" + text.replace("\n", "   # why\n\n").replace("  ", "\t ")
    assert parse(spaced) == HAND["add"]


def test_a_text_may_hold_several_programs() -> None:
    programs = tuple(HAND.values())
    text = "\n".join(map(print_program, programs))
    assert parse_programs(text) == programs
    with pytest.raises(ParseError, match=f"{len(HAND)} programs, expected one program"):
        parse(text)


HEAD = "llir 1\nkernel k\n  @x: global f32[4] bytes=16 align=4\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, ("the text is empty", "llir 1")),
        ("llir 2\nkernel k\n", 1, 5, ("version 2", "llir 1")),
        ("ptir 1\n", 1, 1, ("found 'ptir'", "llir 1")),
        ("llir 1\n", 2, 1, ("the text ends", "kernel <name>")),
        ("llir 1\nkernel 7\n", 2, 8, ("found '7'", "a kernel name")),
        ("llir 1\nkernel k extra\n", 2, 10, ("found 'extra'", "the end of the line")),
        (HEAD + "  @x: global f32[4] bytes=16 align=4\n", 4, 3, ("@x is declared twice",)),
        (HEAD + "  @y: globel f32[4] bytes=16 align=4\n", 4, 7, ("globel", "did you mean 'global'?")),
        (HEAD + "  @y: global flot32[4] bytes=16 align=4\n", 4, 14, ("unknown dtype 'flot32'", "float32")),
        (HEAD + "  @y: global f32[4] bytes=20 align=4\n", 4, 21, ("take 16 bytes, not 20",)),
        (HEAD + "  @y: global f32[4] bytes=16\n", 4, 29, ("the line ends", "align=<number>")),
        (HEAD + "  %0 = address @y[0] : *f32[4]\n", 4, 16, ("unknown buffer @y", "declared: @x")),
        (HEAD + "  %0 = address @xs[0] : *f32[4]\n", 4, 16, ("unknown buffer @xs", "did you mean @x?")),
        (HEAD + "  %0 = adress @x[0] : *f32[4]\n", 4, 8, ("unknown instruction 'adress'", "did you mean 'address'?")),
        (HEAD + "  %0 = address @x[%1] : *f32[4]\n", 4, 19, ("%1 is not defined above",)),
        (HEAD + "  %0 = address @x[0 : *f32[4]\n", 4, 21, ("expected ']'",)),
        (HEAD + "  %0 = store %0 : f32\n", 4, 8, ("store assigns no register",)),
        (HEAD + "  load %0 : f32\n", 4, 3, ("load assigns a register: %n = load",)),
        (HEAD + "  %0 = add 1, 2\n", 4, 16, ("the line ends", "expected ':'")),
        (HEAD + "  %0 = add 1, 2.5 : i32\n", 4, 15, ("2.5 is not a constant of dtype i32",)),
        (HEAD + "  %0 = lanes 1.0[0] : f32\n", 4, 14, ("does not follow", "as in 1.0:f32")),
        (HEAD + "  %0 = cast 1 : i32\n", 4, 20, ("the line ends", "'-'")),
        (HEAD + "  %0 = tile mma 1:i32, 2:i32, 3 : i32\n", 4, 13, ("unknown tile operation 'mma'", "declare it")),
        (HEAD + "  tile mma: 2x2 threads=1\n", 4, 13, ("sizes such as 16x8x16",)),
        (HEAD + "  tile mma: 2x2x2 threads=1 a=(q1)\n", 4, 32, ("a bit such as l0 or r1",)),
        (HEAD + "  end\n", 4, 3, ("no loop is open here", "endif")),
        (HEAD + "  loop %0 < 4 : i32 nonsense\n", 4, 21, ("found 'nonsense'",)),
        (HEAD + "  nonsense\n", 4, 3, ("unknown instruction 'nonsense'",)),
        (HEAD + "  7\n", 4, 3, ("found '7'", "an instruction, a register or a buffer")),
        (HEAD + "  %0 = variable n 1..4 : i32\n", 4, 19, ("in <low>..<high>",)),
        (HEAD + "  prefetch %0\n", 4, 12, ("%0 is not defined",)),
        (HEAD + "  %0 = address @x[0] : *f32[4]\n  store %0, 1.0 if true else 2.0 : f32\n", 5, 25, ("found 'else'", "expected ':'")),
        (HEAD + "  %0 = where 1, 2.0, 3.0 : f32x2\n  %1 = where 7, 2, 3 : i32\n", 5, 14, ("7 is not a constant of dtype bool",)),
    ],
)  # fmt: skip
def test_mistakes_are_shown_where_they_are(text: str, line: int, column: int, words: tuple[str, ...]) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    message = str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column), message
    for word in words:
        assert word in message
    if line <= len(text.splitlines()):
        assert f"{line} | {text.splitlines()[line - 1]}" in message
        assert message.splitlines()[-1].endswith("^")
