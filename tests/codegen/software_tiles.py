"""AMX in software: generated code runs with its tile instructions replaced by calls, on any machine.

The LLVM IR of a kernel calls intrinsics and its C uses macros; both are given functions of the same meaning instead. What is checked
is everything but the instructions themselves: which tile register holds what, addresses, order, configuration.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from planish.codegen import amx, amx_text, c, llvm, symbols
from planish.llir.program import Program, Tile
from planish.runtime import cc, cpu
from planish.runtime.elf import Loaded, mathematics
from planish.uop.tensor_cores import multiply_pairs

Array = NDArray[Any]
_PREFIX = "software_tile_"
_INTEGERS = {"tdpbssd": (np.int8, np.int8), "tdpbuud": (np.uint8, np.uint8),
             "tdpbsud": (np.int8, np.uint8), "tdpbusd": (np.uint8, np.int8)}  # fmt: skip
_C_MACROS = """\
void *software_tile[6];
#define CALL(n, ...) ((void (*)())software_tile[n])(__VA_ARGS__)
#define TILE_CONFIGURE(p) CALL(0, (void *)(p))
#define TILE_RELEASE() CALL(1)
#define TILE_ZERO(t) CALL(2, (int8_t)t)
#define TILE_LOAD(t, p) CALL(3, (int8_t)t, (void *)(p), (int64_t)64)
#define TILE_STORE(t, p) CALL(4, (int8_t)t, (void *)(p), (int64_t)64)
#define TILE_DOT(op, c, a, b) CALL(5, (int8_t)c, (int8_t)a, (int8_t)b)"""


class Tiles:
    """Eight registers of 16 rows of 64 bytes, and how often each instruction ran."""

    def __init__(self) -> None:
        self.data = np.zeros((8, 16, 64), np.uint8)
        self.ready = False
        self.counts: dict[str, int] = {}
        self.problems: list[str] = []

    def count(self, name: str, needs: bool = True) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        if needs and not self.ready:
            self.problems.append(f"{name} without a configuration")

    def configure(self, place: int) -> None:
        self.count("ldtilecfg", needs=False)
        if ctypes.string_at(place, 64) != np.array(amx.CONFIGURATION, np.uint64).tobytes():
            self.problems.append("another configuration")
        self.data[:] = 0
        self.ready = True

    def release(self) -> None:
        self.count("tilerelease")
        self.ready = False

    def zero(self, tile: int) -> None:
        self.count("tilezero")
        self.data[tile] = 0

    def load(self, tile: int, place: int, stride: int) -> None:
        self.count("tileloadd")
        self.problems += ["an address that is not aligned"] if place % 64 else []
        for row in range(16):
            self.data[tile, row] = np.frombuffer(ctypes.string_at(place + row * stride, 64), np.uint8)

    def store(self, tile: int, place: int, stride: int) -> None:
        self.count("tilestored")
        for row in range(16):
            ctypes.memmove(place + row * stride, self.data[tile, row].tobytes(), 64)

    def dot(self, name: str, c: int, a: int, b: int) -> None:
        self.count(name)
        self.problems += [f"{name} of one register"] if len({a, b, c}) < 3 else []
        if name == "tdpbf16ps":
            left = self.data[a].view(ml_dtypes.bfloat16).astype(np.float32)
            pairs = self.data[b].view(ml_dtypes.bfloat16).astype(np.float32).reshape(16, 16, 2)
            right = pairs.transpose(0, 2, 1).reshape(32, 16)
            total = multiply_pairs(left, right, self.data[c].view(np.float32))
            self.data[c] = total.astype(np.float32).view(np.uint8)
            return
        kinds = _INTEGERS[name]
        left = self.data[a].view(kinds[0]).astype(np.int32)
        quads = self.data[b].view(kinds[1]).astype(np.int32).reshape(16, 16, 4)
        right = quads.transpose(0, 2, 1).reshape(64, 16)
        self.data[c] = (self.data[c].view(np.int32) + left @ right).view(np.uint8)


def _functions(tiles: Tiles, dots: Sequence[str]) -> dict[str, Any]:
    i8, i64, pointer = ctypes.c_int8, ctypes.c_int64, ctypes.c_void_p
    found = {
        "ldtilecfg": ctypes.CFUNCTYPE(None, pointer)(tiles.configure),
        "tilerelease": ctypes.CFUNCTYPE(None)(tiles.release),
        "tilezero": ctypes.CFUNCTYPE(None, i8)(tiles.zero),
        "tileloadd64": ctypes.CFUNCTYPE(None, i8, pointer, i64)(tiles.load),
        "tilestored64": ctypes.CFUNCTYPE(None, i8, pointer, i64)(tiles.store),
    }
    for name in dots:

        def dot(c: int, a: int, b: int, name: str = name) -> None:
            tiles.dot(name, c, a, b)

        found[name] = ctypes.CFUNCTYPE(None, i8, i8, i8)(dot)
    return found


def _addresses(functions: dict[str, Any]) -> dict[str, int]:
    return {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in functions.items()}


def _call(program: Program, address: int, arrays: Sequence[Array]) -> None:
    """Every block of the grid, one after another."""
    sizes: dict[str, int] = {}
    for special in program.specials:
        sizes[special.name] = int(special.bound.value)  # type: ignore[union-attr, arg-type]
    kinds = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * len(sizes)
    function = ctypes.CFUNCTYPE(None, *kinds)(address)
    for place in np.ndindex(*sizes.values()):
        function(*[array.ctypes.data for array in arrays], *place)


def run_llvm(program: Program, arrays: Sequence[Array]) -> Tiles:
    """A kernel as machine code of this machine made by LLVM."""
    source = llvm.render(program)
    tiles = Tiles()
    functions = _functions(tiles, list(amx.DOT.values()))
    image = cpu.emit_object(
        source.replace("@llvm.x86.t", f"@{_PREFIX}t").replace("@llvm.x86.l", f"@{_PREFIX}l")
    )
    made = {_PREFIX + name: address for name, address in _addresses(functions).items()}
    loaded = Loaded(image, {**mathematics(image), **made})
    _call(program, loaded.address(symbols.kernel(program.name)), arrays)
    return tiles


def run_c(program: Program, arrays: Sequence[Array]) -> Tiles:
    """The same by the C compiler."""
    source = c.render(program)
    assert amx_text.C_MACROS in source
    (name,) = {i.tile.name for i in program.body if isinstance(i, Tile)}
    tiles = Tiles()
    functions = _functions(tiles, [amx.DOT[name]])
    module = cc.CModule.from_image(cc.build([source.replace(amx_text.C_MACROS, _C_MACROS)])[0])
    table = (ctypes.c_void_p * 6).from_address(module.address("software_tile"))
    for number, address in enumerate(_addresses(functions).values()):
        table[number] = address
    _call(program, module.address(symbols.kernel(program.name)), arrays)
    return tiles
