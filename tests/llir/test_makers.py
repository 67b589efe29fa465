"""Indices as sums: what they are made of, and how far addresses move."""

from __future__ import annotations

import pytest

from planish import dtypes
from planish.llir.builder import Builder
from planish.llir.makers import Makers, Sum
from planish.llir.program import Immediate, Loop, Ops, Program, Register

F32, I32 = dtypes.float32, dtypes.int32


def walked() -> tuple[Program, dict[str, Register]]:
    """Addresses in two loops."""
    b = Builder("walked")
    x, n = b.param("x", F32, 4096), b.param("n", I32, 16)
    found: dict[str, Register] = {}
    with b.loop(8) as i:
        row = b.mul(i, 128)
        data = b.load(b.address(n, i), I32)
        with b.loop(4) as j:
            at = b.add(row, b.compute(Ops.SHL, j, 4))
            found["plain"] = b.address(x, at)
            found["behind"] = b.address(found["plain"], 32)
            found["back"] = b.address(x, b.compute(Ops.SUB, row, b.mul(j, 3)))
            found["fused"] = b.address(x, b.compute(Ops.MULACC, j, 5, i))
            found["chosen"] = b.address(x, b.add(data, j))
            found["turned"] = b.address(x, b.compute(Ops.AND, j, 1))
            found["fixed"] = b.address(x, b.add(b.compute(Ops.AND, row, 7), j))
            for address in found.values():
                b.load(address, F32)
    return b.program(), found


@pytest.mark.parametrize(
    ("name", "inner", "outer"),
    [
        ("plain", 16, 128),
        ("behind", 16, 128),
        ("back", -3, 128),
        ("fused", 5, 1),
        ("chosen", 1, None),  # another row in each iteration
        ("turned", None, None),
        ("fixed", 1, None),
    ],
)
def test_how_far_addresses_move(name: str, inner: int | None, outer: int | None) -> None:
    program, found = walked()
    makers = Makers(program)
    around, loop = ((p, i.counter) for p, i in enumerate(program.body) if isinstance(i, Loop))
    assert makers.step(found[name], loop[1], loop[0]) == inner
    if name in {"plain", "behind", "back", "fused"}:
        index = makers.index(found[name])
        assert index is not None
        assert index.terms[around[1]] == outer


def test_sums_add_up() -> None:
    program, found = walked()
    makers = Makers(program)
    near, far = makers.index(found["plain"]), makers.index(found["behind"])
    assert near is not None
    assert far is not None
    assert far.plus(near, -1) == Sum(32)
    assert Sum(32).number == 32
    assert near.number is None
    assert makers.sum(Immediate(3, I32)) == Sum(3)


def test_new_registers_are_new() -> None:
    program, _ = walked()
    makers = Makers(program)
    new = [makers.fresh(F32) for _ in range(3)]
    assert len({*new, *makers.places}) == len(makers.places) + 3
