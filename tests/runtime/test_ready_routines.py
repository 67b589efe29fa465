"""Routines made beforehand: those of today's writers, as good as compiled ones, and taken only where they fit."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import planish as pn
from planish.compiler import object_code
from planish.runtime import cpu, elf, processors, ready_routines, routines
from planish.runtime.processors import LEVELS, Processor
from planish.runtime.ready_routines import MADE_FOR, WIDE, ReadyRoutine, RoutineArchive, digest, packed
from planish.runtime.routines.keys import KEYS
from planish.runtime.routines.lapack import SCALARS

ROOT = Path(__file__).parents[2]
AGAIN = "a routine has changed: make native (or python tools/routines.py alone)"
FAMILIES = sorted(routines.ROUTINES.keys() - routines.BY_LIBRARY)


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("routines_tool", ROOT / "tools" / "routines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archive() -> RoutineArchive:
    return RoutineArchive(ready_routines.ARCHIVE.read_bytes())


def x86(name: str, *features: str) -> Processor:
    return Processor("x86_64-unknown-linux-gnu", name, ",".join(f"+{each}" for each in features))


# -- what is there -----------------------------------------------------------------------------------------------------


def test_it_is_of_the_files_beside_it() -> None:
    assert archive().sources == ready_routines.sources(), AGAIN


@pytest.mark.parametrize("family", FAMILIES)
def test_every_routine_is_there_and_of_the_ir_that_is_written_now(family: str) -> None:
    written = {name: digest(routines.source(name)) for name in routines.names(family)}
    for level in MADE_FOR:
        wanted = {n: ir for n, ir in written.items() if level in WIDE or not routines.is_wide(n)}
        assert {name: each.ir for name, each in archive().block(family, level).items()} == wanted, AGAIN


def test_all_dtypes_are_there() -> None:
    ordered, numbers = routines.ROUTINES["sort"].parts[0], routines.ROUTINES["lu"].parts[0]
    assert (set(ordered), set(numbers)) == (set(KEYS), set(SCALARS))


@pytest.mark.parametrize(
    "name",
    [
        "sort.int16.descending",
        "top_k_few.float32.descending",
        "trees.float64.le.gaps",
        "product.float64.256.columns",
    ],
)
def test_compiling_again_makes_the_same(name: str) -> None:
    compares(name)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_compiling_all_again_makes_the_same(family: str) -> None:
    for name in routines.names(family):
        compares(name)


def compares(name: str) -> None:
    if archive().llvm != ".".join(map(str, llvm.llvm_version_info)):
        pytest.skip("made by another LLVM")
    for level in MADE_FOR:
        if routines.is_wide(name) and level not in WIDE:
            continue
        assert archive().block(routines.family_of(name), level)[name] == tool().compiled(name, level)


def test_it_is_small() -> None:
    assert ready_routines.ARCHIVE.stat().st_size < 500_000


def test_what_writes_routines_is_in_its_folder() -> None:
    """The digest of the folder stands for what is written: nothing else of the package has a say."""
    imported = {
        node.module
        for path in (ROOT / "planish" / "runtime" / "routines").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("planish")
    }
    others = {name for name in imported if not name.startswith("planish.runtime.routines")}
    # the second is asked by `lu` alone, which is not made beforehand
    assert others == {"planish.records", "planish.runtime.libraries"}


def test_only_those_that_no_library_decides_are_made_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, str]] = []
    for wide in (True, False):
        monkeypatch.setattr("planish.runtime.routines.lapack.wide_integers", lambda wide=wide: wide)
        written.append(
            {family: routines.source(next(routines.names(family))) for family in routines.ROUTINES}
        )
    assert {
        family for family in routines.ROUTINES if written[0][family] != written[1][family]
    } == routines.BY_LIBRARY


# -- when it is taken --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processor", "level"),
    [
        (x86("x86-64"), None),
        (x86("x86-64-v3"), "x86-64-v3"),
        (x86("x86-64-v4"), "x86-64-v4"),
        (x86("x86-64-v4", "avx512vnni"), "x86-64-v4"),
        (x86("znver2", *LEVELS["x86-64-v3"]), "x86-64-v3"),
        (x86("znver5", *LEVELS["x86-64-v4"]), "x86-64-v4"),
        (x86("knl", *LEVELS["x86-64-v3"], "avx512f", "avx512cd"), "x86-64-v3"),
        (x86("sandybridge", "avx"), None),
        (Processor("aarch64-unknown-linux-gnu", "generic"), None),
    ],
)
def test_a_processor_gets_the_best_level_it_has(processor: Processor, level: str | None) -> None:
    assert ready_routines.level_of(processor) == level
    found = ready_routines.ready("sort.float32.ascending", processor)
    wanted = None if level is None else archive().block("sort", level)["sort.float32.ascending"].image
    assert found == wanted


def test_what_is_of_other_files_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ready_routines, "sources", lambda: "others")
    for kept in ("_archive", "_block"):
        monkeypatch.setattr(ready_routines, kept, getattr(ready_routines, kept).__wrapped__)
    with pn.settings(cache_dir=str(tmp_path)):
        compiled = object_code.counters.compiled
        assert object_code.routine_image("sort.float32.ascending", x86("x86-64-v4")) is not None
        assert object_code.counters.compiled == compiled + 1


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b'{"sources": 1}\n', b"\xff\n"])
def test_an_archive_that_is_none_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ready.bin"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(ready_routines, "ARCHIVE", path)
    assert ready_routines._archive.__wrapped__() is None


def test_what_is_packed_is_found_again() -> None:
    made = {
        ("sort", "x86-64-v3"): {
            "sort.a": ReadyRoutine("1", b"\n\0same"),
            "sort.b": ReadyRoutine("2", b"\n\0same"),
        },
        ("fft", "x86-64-v4"): {"fft.a": ReadyRoutine("3", b"")},
    }
    opened = RoutineArchive(packed(made, "1.2.3"))
    assert opened.llvm == "1.2.3"
    assert {key: opened.block(*key) for key in made} == made
    assert opened.block("sort", "x86-64-v4") == {}


def test_a_first_use_compiles_nothing(tmp_path: Path) -> None:
    if ready_routines.level_of(processors.host()) is None:
        pytest.skip("nothing is made for this processor")
    with pn.settings(cache_dir=str(tmp_path)):
        before = object_code.counters.compiled
        assert all(
            object_code.routine_image(next(routines.names(family)), processors.host()) for family in FAMILIES
        )
        assert object_code.counters.compiled == before


# -- what it does ------------------------------------------------------------------------------------------------------

_ROWS = np.random.default_rng(3).standard_normal((7, 1000)).astype(np.float32)
_ROOTS = np.random.default_rng(4).standard_normal((20, 6, 6))
_SQUARES = _ROOTS @ _ROOTS.transpose(0, 2, 1) + 9 * np.eye(6)
_BOXES = np.sort(np.random.default_rng(5).random((1, 50, 4)), axis=-1)


def _by(
    name: str, buffers: list[np.ndarray[Any, Any]], integers: list[int], scratch: int, image: bytes
) -> list[np.ndarray[Any, Any]]:
    """What a routine leaves in buffers of its own."""
    loaded = elf.Loaded(image)
    given = [np.array(each) for each in buffers]
    room = [np.zeros(scratch, np.uint8)] if scratch else []
    words = np.array([*(each.ctypes.data for each in given + room), *integers], np.int64)
    object_code._ROUTINE(loaded.address("routine"))(words.ctypes.data, 0)
    return given


@pytest.mark.parametrize(
    ("name", "buffers", "integers", "scratch"),
    [
        ("sort.float32.ascending", [_ROWS, _ROWS * 0], [7, 1000, 1], 4000),
        ("argsort.float32.descending", [_ROWS, np.zeros((7, 1000), np.int64)], [7, 1000, 1], 24000),
        ("top_k_few.float32.descending", [_ROWS, np.zeros((7, 5), np.float32), np.zeros((7, 5), np.int64)],
         [7, 1000, 1, 5, 1000], 1000),
        ("top_k_many.float32.ascending", [_ROWS, np.zeros((7, 99), np.float32), np.zeros((7, 99), np.int64)],
         [7, 1000, 1, 99, 32000], 32000),
        ("small_cholesky.float64.lower", [_SQUARES, _SQUARES * 0], [20, 6, 1], 0),
        ("small_triangular_solve.float64.left.lower.none.full", [_SQUARES, _SQUARES, _SQUARES * 0], [20, 6, 6, 6, 1], 0),
        ("small_qr.float64", [_SQUARES, _SQUARES * 0, _SQUARES * 0], [20, 6, 6, 6, 1], 0),
        ("suppress.float64.corners",
         [_BOXES, np.linspace(0, 1, 50)[::-1], np.array([20]), np.array([0.5]), np.array([0.1]),
          np.zeros((20, 3), np.int64), np.zeros(1, np.int64)], [1, 1, 50, 20, 0], 4000),
    ],
)  # fmt: skip
def test_ready_code_does_what_compiled_code_does(
    name: str, buffers: list[np.ndarray[Any, Any]], integers: list[int], scratch: int
) -> None:
    here = processors.host()
    levels = [level for level in MADE_FOR if here.name == level or all(map(here.has, LEVELS[level]))]
    source, routine = routines.source(name), routines.routine_named(name)
    assert routine is not None
    compiled = _by(
        name, buffers, integers, scratch, cpu.emit_routine(source, here, unrolled=routine.unrolled)
    )
    for level in levels:
        image = archive().block(routines.family_of(name), level)[name].image
        for own, meant in zip(_by(name, buffers, integers, scratch, image), compiled, strict=True):
            np.testing.assert_allclose(own, meant, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [64, 127, 1000])
def test_ready_transforms_are_transforms(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((5, length)) + 0j
    np.testing.assert_allclose(np.asarray(pn.fft.fft(pn.asarray(x))), np.fft.fft(x), rtol=1e-9, atol=1e-9)
