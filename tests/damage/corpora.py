"""Texts to be damaged: programs at every level, small, with as many kinds of lines as there are."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from planish import compiler, ptir
from planish.llir.text import print_program
from planish.ptir import json

TESTS: Final = Path(__file__).parent.parent
_LONGEST: Final = 8000
_LLIR: Final = "\n==== llir ====\n"

MATMUL: Final = """ptir 1
func @f(%x: tensor<{0}, 32x64>, %y: tensor<{0}, 64x32>) -> tensor<{1}, 32x32> {{
  %0 = dot_general %x, %y {{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype={1}, out_dtype={1}}} : tensor<{1}, 32x32>
  return %0
}}
"""
SIZES: Final = """ptir 1
func @f<B in 1..64>(%x: tensor<f32, Bx4>, %n: tensor<i32>) -> tensor<f32, (2*B)x4> {
  %0 = concat %x, %x {axis=0} : tensor<f32, (2*B)x4>
  return %0
}
"""
_TILES: Final = (("cuda", "f16", "f32"), ("x86-64-amx", "bf16", "f32"), ("x86-64-v4", "i8", "i32"))


@cache
def _stored() -> tuple[tuple[str, str], ...]:
    found = [path.read_text(encoding="utf-8").partition(_LLIR) for path in (TESTS / "replay").glob("*/*.txt")]
    return tuple(sorted((program + "\n", llir) for program, _, llir in found))


@cache
def ptir_texts() -> list[str]:
    """Functions of every op, and of networks."""
    found = [program for program, _ in _stored() if len(program) < _LONGEST]
    return [*found, SIZES, *(MATMUL.format(*types) for _, *types in _TILES)]


@cache
def json_texts() -> list[str]:
    return [json.dumps(ptir.parse(text)) for text in ptir_texts()]


@cache
def _tiled() -> list[compiler.Lowered]:
    return [compiler.lower(ptir.parse(MATMUL.format(*types)), target) for target, *types in _TILES]


@cache
def llir_texts() -> list[str]:
    """Kernels, some with tiles."""
    found = [f"llir 1\n{part}" for _, llir in _stored() for part in llir.split("llir 1\n")[1:]]
    found += [path.read_text(encoding="utf-8") for path in sorted((TESTS / "golden" / "llir").glob("*.txt"))]
    tiled = [print_program(program) for lowered in _tiled() for program in lowered.programs]
    short = [text for text in found if len(text) < _LONGEST]
    return [*short, *tiled * max(1, len(short) // 8)]


@cache
def uop_texts() -> list[tuple[str, bool]]:
    """Graphs after every stage, and whether they are linear."""
    lowered = [compiler.lower(ptir.parse(program), "x86-64-v4") for program, _ in _stored()[::20]]
    found: list[tuple[str, bool]] = []
    for each in (*lowered, *_tiled()):
        for stages in each.stages:
            found += [(text, stage in ("21", "22")) for stage, text in stages if len(text) < _LONGEST]
    return found
