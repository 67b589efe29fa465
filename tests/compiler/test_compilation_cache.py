"""Kept plans: the same after writing and reading, plain data whatever a file says, and a miss wherever they are damaged."""

from __future__ import annotations

import ast
import json
import os
import pickle
import random
import struct
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.compiler import compilation_cache, plan_json
from planish.compiler.object_code import counters
from planish.config import settings
from planish.runtime import cache as disk
from planish.runtime.cache import CacheWarning, DiskCache
from planish.schedule import plan as planned
from planish.target import Target, find

ROOT = Path(__file__).parent.parent
CORPUS = sorted((ROOT / "replay").glob("*/*.txt"))
ADD = """ptir 1
func @add(%x: tensor<f32, 5>) -> tensor<f32, 5> {
  %0 = constant [1.0, 2.0, 3.0, 4.0, 5.0] : tensor<f32, 5>
  %1 = add %x, %0 : tensor<f32, 5>
  return %1
}
"""
SIZES = """ptir 1
func @f<B in 1..9>(%x: tensor<f32, Bx4x4>) -> (tensor<f32, Bx4x4>, tensor<f32, (2*B)x4x4>) {
  %0 = cholesky %x : tensor<f32, Bx4x4>
  %1 = concat %0, %0 {axis=0} : tensor<f32, (2*B)x4x4>
  return %0, %1
}
"""


def program(text: str) -> ptir.Program:
    return ptir.parse(text.partition("\n==== llir ====\n")[0])


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, planned.Plan | planned.PlanBuffer | planned.Host):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and bool(a == b)


def kept(lowered: compiler.Lowered, given: ptir.Program, folder: Path) -> compiler.Lowered | None:
    """What comes back of a lowered function."""
    with settings(cache=True, cache_dir=str(folder)):
        compilation_cache.save("0" * 64, lowered)
        return compilation_cache.load("0" * 64, given, lowered.target)


def check_same(lowered: compiler.Lowered, given: ptir.Program, folder: Path) -> None:
    found = kept(lowered, given, folder)
    assert found is not None
    kernels = tuple(replace(k, sink=None) for k in lowered.plan.kernels)  # type: ignore[arg-type]
    assert same(found.plan, replace(lowered.plan, kernels=kernels))
    for name in ("sharing", "keys", "scratch", "variables", "calls", "is_plain", "programs", "target"):
        assert same(getattr(found, name), getattr(lowered, name)), name
    assert found.choices == tuple(replace(choice, search=None) for choice in lowered.choices)
    assert ptir.print(found.function) == ptir.print(lowered.function)


@pytest.mark.parametrize("path", CORPUS[::26], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_what_is_kept_comes_back(path: Path, tmp_path: Path) -> None:
    given = program(path.read_text(encoding="utf-8"))
    check_same(compiler.lower(given), given, tmp_path)


@pytest.mark.slow
def test_all_of_the_corpus_comes_back(tmp_path: Path) -> None:
    for path in CORPUS:
        given = program(path.read_text(encoding="utf-8"))
        check_same(compiler.lower(given), given, tmp_path)


def _loops(x: pn.Tensor, n: pn.Tensor) -> Any:
    y = pn.while_loop(lambda c: pn.sum(c) < 100, lambda c: c * 2 + 1, x)
    return pn.cond(n > 0, lambda: y, lambda: x), pn.fori_loop(0, 3, lambda i, c: c @ c, x)


def test_loops_branches_and_host_ops_come_back(tmp_path: Path) -> None:
    x = pn.eye(3)
    given = ptir.parse(pn.jit(_loops).lower(x, pn.asarray(1)).as_text("ptir"))
    check_same(compiler.lower(given), given, tmp_path)
    given = program(SIZES)
    lowered = compiler.lower(given)
    assert {type(step) for step in planned.walk(lowered.plan.steps)} == {planned.Host, planned.Launch}
    check_same(lowered, given, tmp_path)


def test_kernels_are_made_again_under_the_settings_they_were_made_for(tmp_path: Path) -> None:
    given = program(SIZES.replace("cholesky", "exp"))
    lowered = compiler.lower(given)
    found = kept(lowered, given, tmp_path)
    assert found is not None
    (entry,) = (path for path in tmp_path.glob("00/*") if path.is_file())
    assert b"llir 1" not in entry.read_bytes()
    dumps = tmp_path / "dumps"
    with settings(disable_stages="7", dump_dir=str(dumps)):
        other = compiler.lower(given).programs
        assert any(dumps.iterdir())
        before = sorted(dumps.iterdir())
        assert found.programs == lowered.programs != other
        assert sorted(dumps.iterdir()) == before  # nobody asked to see them made


def test_every_record_of_a_plan_has_a_plain_form() -> None:
    kinds = [*plan_json._RECORDS.values(), *get_args(planned.Step)]
    assert len(kinds) >= 17
    for kind in kinds:
        assert is_dataclass(kind)
        if kind is not planned.Host:
            for field in fields(kind):
                assert not field.init or plan_json.codec_of(str(field.type)), (kind, field.name)
    assert set(compilation_cache._NOW) | set(compilation_cache.LATER) | {"arguments", "target", "images", "source"} == {
        *(field.name for field in fields(compiler.Lowered)), "scratch", "variables", "calls", "launches", "is_plain", "chosen",
    }  # fmt: skip


# -- hostile and damaged files ---------------------------------------------------------------------------------


class Runs:
    """A pickle of it runs what it is told to."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self.called = call, arguments

    def __reduce__(self) -> Any:
        return self.called


def exploits(trace: Path) -> Iterator[bytes]:
    """Pickles that leave a file when they are read: by a function of the system, and through names of planish alone."""
    yield pickle.dumps(Runs(os.mkdir, str(trace)))
    # through what an unpickler of planish's own names would find: pathlib's Path, imported by one of its modules
    touch = (
        b"\x8c\x12planish.runtime.cc\x8c\x04Path\x93\x8c"
        + bytes([len(str(trace))])
        + str(trace).encode()
        + b"\x85R"
    )
    yield b"\x80\x04cbuiltins\ngetattr\n" + touch + b"\x8c\x05touch\x86R)R."


def opened(folder: Path, given: ptir.Program) -> tuple[DiskCache, str, Path]:
    """A cache with a function in it: the place of its plan."""
    with settings(cache=True, cache_dir=str(folder)):
        compiler.compile(given)
        cache = disk.own_cache()
        where = compilation_cache.key(given, find("host"), compiler.PIPELINE, frozenset())
    assert cache.get(where) is not None
    return cache, where, folder / where[:2] / where[2:]


X = np.arange(5, dtype=np.float32)


def test_a_crafted_entry_runs_nothing(tmp_path: Path) -> None:
    given = program(ADD)
    cache, where, _ = opened(tmp_path / "cache", given)
    trace = tmp_path / "trace"
    for exploit in exploits(trace):
        pickle.loads(exploit)
        assert trace.exists()  # it would
        trace.rmdir() if trace.is_dir() else trace.unlink()
        whole = plan_json.unpack(cache.get(where) or b"", compilation_cache._NOW)
        assert whole
        for payload in (exploit, struct.pack("<QQ", len(exploit), 0) + exploit):
            cache.put(where, payload)  # with the digest that it takes
            with settings(cache=True, cache_dir=str(tmp_path / "cache")):
                assert compilation_cache.load(where, given, find("host")) is None
                (found,) = compiler.compile(given)(X)
            assert np.array_equal(found, X + np.arange(1, 6))
            assert not trace.exists()


MODULES = {"pickle", "_pickle", "marshal", "shelve", "dill", "copyreg"}


def test_no_pickle_but_between_our_own_processes() -> None:
    allowed = {
        "runtime/sandbox.py",
        "runtime/sandbox_worker.py",
        "compiler/parallel.py",
        "compiler/pickling.py",
        "viz/packing.py",
    }
    package = ROOT.parent / "planish"
    found = set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in (*MODULES, "allow_pickle")):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            if {name.split(".")[0] for name in names} & MODULES:
                found.add(str(path.relative_to(package)))
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
    assert found <= allowed


def mutations(data: bytes, rng: random.Random) -> bytes:
    """The data with something changed: bytes, an end cut off, a piece repeated or gone."""
    raw = bytearray(data)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randint(1, 4)):
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        case 1:
            del raw[rng.randrange(len(raw)) :]
        case 2:
            at, size = rng.randrange(len(raw)), rng.randrange(1, 64)
            raw[at:at] = raw[at : at + size] or b"\0"
        case _:
            at = rng.randrange(len(raw))
            del raw[at : at + rng.randrange(1, 64)]
    return bytes(raw)


@pytest.mark.parametrize("rounds", [60, pytest.param(3000, marks=pytest.mark.fuzz)])
def test_damaged_files_of_the_cache_are_misses(rounds: int, tmp_path: Path) -> None:
    given = program(ADD)
    opened(tmp_path, given)
    files = [path for path in tmp_path.glob("??/*") if path.is_file()]
    whole = {path: path.read_bytes() for path in files}
    assert len(files) >= 3
    rng = random.Random(rounds)
    for _ in range(rounds):
        path = rng.choice(files)
        damaged = mutations(whole[path], rng)
        if damaged == whole[path]:
            continue
        path.write_bytes(damaged)
        with settings(cache=True, cache_dir=str(tmp_path)), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            (found,) = compiler.compile(given)(X)
        assert np.array_equal(found, X + np.arange(1, 6))
        assert all(issubclass(each.category, CacheWarning) for each in told)
        path.write_bytes(whole[path])


def fields_changed(value: Any, rng: random.Random) -> Any:
    """JSON with one value in it exchanged for another."""
    junk: list[Any] = [
        None,
        True,
        -1,
        2**63,
        10**30,
        1.5,
        "x",
        "",
        [],
        {},
        [1, 2],
        "Launch",
        [[]],
        {"a": 1},
        float("nan"),
    ]
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in range(len(part)) if isinstance(part, list) else list(part):
            places.append((part, key))
            if isinstance(part[key], list | dict):
                walk(part[key])

    walk(value)
    part, key = rng.choice(places)
    part[key] = rng.choice([rng.choice(junk), rng.randrange(-2, 40)])
    return value


@pytest.mark.parametrize("rounds", [300, pytest.param(30_000, marks=pytest.mark.fuzz)])
def test_plans_with_other_fields_are_read_or_malformed(rounds: int, tmp_path: Path) -> None:
    """Files whose digest fits: whoever wrote them, reading gives records or nothing."""
    rng = random.Random(rounds)
    sources = [ADD, *(path.read_text(encoding="utf-8") for path in rng.sample(CORPUS, 6))]
    entries = []
    for given in map(program, sources):
        lowered = compiler.lower(given)
        assert kept(lowered, given, tmp_path) is not None
        (path,) = (tmp_path / "00").iterdir()
        entries.append((given, lowered.target, DiskCache(tmp_path).get("0" * 64) or b""))
        path.unlink()
    refused = 0
    for _ in range(rounds):
        given, target, data = rng.choice(entries)
        first, second = struct.unpack_from("<QQ", data)
        head = fields_changed(json.loads(data[16 : 16 + first]), rng)
        text = json.dumps(head).encode()
        start = 16 + first + second
        before = struct.pack("<QQ", len(text), second) + text + data[16 + first : start]
        crafted = before + bytes(-len(before) % 64) + data[start + -start % 64 :]
        refused += loaded(crafted, given, target, tmp_path) is None
    assert refused > rounds // 4


def loaded(data: bytes, given: ptir.Program, target: Target, folder: Path) -> compiler.Lowered | None:
    DiskCache(folder).put("0" * 64, data)
    with settings(cache=True, cache_dir=str(folder)):
        return compilation_cache.load("0" * 64, given, target)


def test_code_of_others_is_not_loaded(tmp_path: Path) -> None:
    given = program(ADD)
    opened(tmp_path, given)
    made = counters.compiled
    tmp_path.chmod(0o770)
    disk._opened.cache_clear()
    with settings(cache=True, cache_dir=str(tmp_path)), pytest.warns(CacheWarning, match="others can write"):
        compiler.compile(given)
    assert counters.compiled > made
    tmp_path.chmod(0o700)
    disk._opened.cache_clear()
