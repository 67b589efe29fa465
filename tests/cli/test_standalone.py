"""Folders of `planish compile` from C: a program linked with libplanish.so gives what Python gives, or one sentence."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import ptir
from planish.cli import deployment
from planish.cli.deployment import Port, Saved
from planish.compiler import standalone
from planish.config import settings
from planish.ptir import Dim, Graph, tensor
from planish.runtime import cc

Array = NDArray[Any]
CODES = dict(standalone._DTYPES)
DTYPES = {code: np.dtype(name) for name, code in CODES.items() if name != "bfloat16"}
DRIVER = Path(__file__).with_name("standalone_driver.c")
RNG = np.random.default_rng(0)


def deploy(folder: Path, function: ptir.Function, weights: Sequence[Array] = ()) -> Saved:
    inputs = function.params[: len(function.params) - len(weights)]
    ports = [Port(p.name or f"x{n}", p.type.dtype.name, None) for n, p in enumerate(inputs)]
    results = [Port(f"y{n}", t.dtype.name, None) for n, t in enumerate(function.result_types)]
    return deployment.save(folder, function, weights, ports, results)


@cache
def driver(folder: Path) -> Path:
    """The program, linked with the library of a folder."""
    compiler = cc.find_compiler("cc", "gcc", "clang")
    if compiler is None:
        pytest.skip("no C compiler here")
    made = folder.parent / "driver"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    where = [f"-I{folder}", f"-L{folder}", "-lplanish", f"-Wl,-rpath,{folder}"]
    subprocess.run([compiler, *flags, DRIVER, *where, "-o", made], check=True)
    return made


def run_in_c(
    folder: Path, feeds: Mapping[str, Array], threads: int = 1, callers: int = 1
) -> list[Array] | str:
    """The outputs, or what the program said."""
    place = folder.parent / "data"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, array in feeds.items():
        head = struct.pack(f"<{2 + array.ndim}q", CODES[array.dtype.name], array.ndim, *array.shape)
        (place / f"in.{name}").write_bytes(head + array.tobytes())
    program = driver(folder)
    # without Python: nothing of its is in the environment either
    command = [str(program), str(folder), str(place), str(threads), str(callers)]
    done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=60, check=False)
    if done.stdout != "ok\n":
        assert done.returncode == 1, done
        return done.stdout.strip()
    outputs = []
    for path in sorted(place.glob("out.*")):
        raw = path.read_bytes()
        code, rank = struct.unpack_from("<2q", raw)
        shape = struct.unpack_from(f"<{rank}q", raw, 16)
        outputs.append(np.frombuffer(raw, DTYPES[code], offset=16 + 8 * rank).reshape(shape))
    return outputs


def built(build: Callable[[Graph], Sequence[Any]]) -> ptir.Function:
    graph = Graph("f")
    return graph.build(*build(graph))


def products(graph: Graph) -> Sequence[Any]:
    n = Dim.named("n", 1, 64)
    x, w = (
        graph.input(
            "x",
            tensor(
                "f32",
                (
                    n,
                    48,
                ),
            ),
        ),
        graph.input(
            "w",
            tensor(
                "f32",
                (
                    48,
                    33,
                ),
            ),
        ),
    )
    y = (x @ w).tanh()
    return y, y.reduce_sum([0]), x.transpose([1, 0])


def ordered(graph: Graph) -> Sequence[Any]:
    x = graph.input(
        "x",
        tensor(
            "f32",
            (
                3,
                5000,
            ),
        ),
    )
    return x.sort(1), *x.top_k(7)


def passed_on(graph: Graph) -> Sequence[Any]:
    x = graph.input(
        "x",
        tensor(
            "i32",
            (
                4,
                5,
            ),
        ),
    )
    y = x + x
    return x, y, y, graph.constant(np.arange(6, dtype=np.int64).reshape(2, 3))


def narrow(graph: Graph) -> Sequence[Any]:
    x = graph.input("x", tensor("f16", (300,)))
    return (x.exp() + x,)


def chosen(graph: Graph) -> Sequence[Any]:
    n = Dim.named("n", 1, 40)
    x = graph.input(
        "x",
        tensor(
            "f32",
            (
                n,
                6,
            ),
        ),
    )
    return x.pad([1, 0], [2, 0]), (x > 0).cast("i8"), x.cast("f64").reduce_sum([0, 1])


def ready(graph: Graph) -> Sequence[Any]:
    """Products that ready-made code runs, one with something behind it."""
    x = graph.input("x", tensor("f32", (200, 96)))
    w = graph.input("w", tensor("f32", (96, 80)))
    y = (x @ w).tanh()
    return y, y.transpose([1, 0]) @ y


PROGRAMS: dict[str, tuple[Callable[[Graph], Sequence[Any]], Callable[[], dict[str, Array]], list[Array]]] = {
    "products": (
        products,
        lambda: {"x": RNG.standard_normal((int(RNG.integers(1, 65)), 48)).astype(np.float32)},
        [RNG.standard_normal((48, 33)).astype(np.float32)],
    ),
    "ready": (
        ready,
        lambda: {"x": RNG.standard_normal((200, 96)).astype(np.float32)},
        [RNG.standard_normal((96, 80)).astype(np.float32)],
    ),
    "ordered": (ordered, lambda: {"x": RNG.standard_normal((3, 5000)).astype(np.float32)}, []),
    "passed_on": (passed_on, lambda: {"x": RNG.integers(-9, 9, (4, 5)).astype(np.int32)}, []),
    "narrow": (narrow, lambda: {"x": RNG.standard_normal(300).astype(np.float16)}, []),
    "chosen": (
        chosen,
        lambda: {"x": RNG.standard_normal((int(RNG.integers(1, 41)), 6)).astype(np.float32)},
        [],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_c_computes_what_python_computes(name: str, tmp_path: Path) -> None:
    build, draw, weights = PROGRAMS[name]
    folder = tmp_path / "out"
    assert not deploy(folder, built(build), weights).only_python
    for threads, callers in ((1, 1), (2, 1), (2, 3)):
        feeds = draw()
        found = run_in_c(folder, feeds, threads, callers)
        with settings(threads=threads):
            wanted = deployment.load(str(folder)).run(None, feeds)
        assert not isinstance(found, str), found
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_code_for_a_level_runs_on_every_processor_of_it(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with settings(target=target):
        assert not deploy(folder, built(narrow)).only_python
    feeds = {"x": RNG.standard_normal(300).astype(np.float16)}
    found, (wanted,) = run_in_c(folder, feeds), deployment.load(str(folder)).run(None, feeds)
    assert not isinstance(found, str), found
    assert found[0].tobytes() == wanted.tobytes()


def test_what_python_has_to_do_is_said(tmp_path: Path) -> None:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (200, 200)))
    saved = deploy(tmp_path / "out", graph.build(x.cholesky()))
    assert "is done by NumPy's spotrf" in saved.only_python
    assert not (tmp_path / "out" / "plan.bin").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("standalone") / "out"
    assert not deploy(made, built(products), PROGRAMS["products"][2]).only_python
    return made


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": np.zeros((3, 47), np.float32)}, "input x is float32[3, 47], float32[n in 1..64, 48] is expected"),
        ({"x": np.zeros((65, 48), np.float32)}, "input x is float32[65, 48], float32[n in 1..64, 48] is expected"),
        ({"x": np.zeros((3, 48), np.float64)}, "input x is float64[3, 48], float32[n in 1..64, 48] is expected"),
        ({"x": np.zeros((3, 48, 1), np.float32)}, "input x is float32[3, 48, 1], float32[n in 1..64, 48] is expected"),
        ({}, "input x is missing"),
    ],
)  # fmt: skip
def test_bad_inputs_get_a_message(feeds: dict[str, Array], message: str, folder: Path) -> None:
    assert run_in_c(folder, feeds) == message


def test_sizes_of_one_name_agree(tmp_path: Path) -> None:
    def build(graph: Graph) -> Sequence[Any]:
        n = Dim.named("n", 1, 9)
        return (graph.input("a", tensor("f32", (n,))) + graph.input("b", tensor("f32", (n,))),)

    deploy(tmp_path / "out", built(build))
    feeds = {"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)}
    assert run_in_c(tmp_path / "out", feeds) == "input b has 4 for the size n, which is 3 in another axis"


class Error(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int32), ("text", ctypes.c_char * 508))


@pytest.fixture(scope="module")
def loads(folder: Path) -> Callable[[Path], tuple[int, str]]:
    """Loads and verifies a folder: the code of the first error, and its text."""
    library = ctypes.CDLL(str(folder / "libplanish.so"))
    library.planish_free.argtypes = (ctypes.c_void_p,)

    def load(place: Path) -> tuple[int, str]:
        error, model = Error(), ctypes.c_void_p()
        code = library.planish_load(os.fsencode(place), ctypes.byref(model), ctypes.byref(error))
        code = code or library.planish_verify(model, ctypes.byref(error))
        library.planish_free(model)
        assert error.code == code
        return code, error.text.decode()

    return load


def rewritten(plan: bytes, old: bytes, new: bytes) -> bytes:
    """A plan with something else in it, and the digest of that."""
    body = plan[48:].replace(old, new)
    return plan[:16] + hashlib.sha256(body).digest() + body


def test_another_version_or_processor_is_refused(
    folder: Path, tmp_path: Path, loads: Callable[[Path], tuple[int, str]]
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    plan = (copy / "plan.bin").read_bytes()
    assert loads(copy) == (0, "")
    (copy / "plan.bin").write_bytes(plan[:8] + struct.pack("<q", 99) + plan[16:])
    code, text = loads(copy)
    assert code == 3
    assert "was compiled by another version of planish" in text

    row = struct.pack("<4q", 1, 0, 2, 0)
    absent = struct.pack("<4q", 0x40FFFFFF, 0, 3, 31)  # a leaf that no processor has
    assert row in plan
    (copy / "plan.bin").write_bytes(rewritten(plan, row, absent))
    code, text = loads(copy)
    assert code == 4
    assert text.endswith("and this processor lacks sse3")


@pytest.mark.parametrize("rounds", [60, pytest.param(2000, marks=pytest.mark.fuzz)])
def test_damage_is_one_sentence(
    rounds: int, folder: Path, tmp_path: Path, loads: Callable[[Path], tuple[int, str]]
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    rng = random.Random(rounds)
    for _ in range(rounds):
        path = copy / rng.choice(["plan.bin", "model.so", "weights.bin"])
        whole = path.read_bytes()
        raw = bytearray(whole)
        if rng.random() < 0.3:
            del raw[rng.randrange(len(raw)) :]
        else:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        path.write_bytes(raw)
        code, text = loads(copy)
        assert code in {1, 2, 3}
        assert str(copy) in text or path.name in text
        path.write_bytes(whole)
    for name in ("plan.bin", "model.so", "weights.bin"):
        data = (copy / name).read_bytes()
        (copy / name).unlink()
        assert loads(copy) == (1, f"{copy}/{name} cannot be read")
        (copy / name).write_bytes(data)
    assert loads(tmp_path / "nowhere")[0] == 1
    assert loads(copy) == (0, "")
