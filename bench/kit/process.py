"""One side in a process of its own: it prepares a workload and takes turns when it is asked to.

`python -m kit.process NAME THREADS FOLDER` reads requests from its standard input, lines of JSON, and answers in lines that begin with
`@`; a line that begins with `~` says how far it is. `Side` is the other end. Inputs and what is to come out (float64) are made once
by whoever asks (`lay_out`), and lie in the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from .sides import SIDES, Left, Reference
from .workloads import WORKLOADS, Array

SHORT = 2e-4
"""Calls shorter than this are timed several at once."""
WARM = 0.01
"""Seconds of calls before the first that counts: others have used the caches meanwhile."""
FEWEST, MOST = 2, 60
"""Samples of a turn."""
PIECE = 1 << 16
"""Elements that are compared at once."""


# -- inputs and results ------------------------------------------------------------------------------------------------


def lay_out(workload: str, folder: Path) -> None:
    """The inputs of a workload and its results in float64, for all sides."""
    w = WORKLOADS[workload]
    arrays = w.arrays()
    reference = Reference()
    for old in folder.glob("*.npy"):
        old.unlink()
    for number, array in enumerate(arrays):
        np.save(folder / f"in{number}.npy", array)
    for number, array in enumerate(reference.as_numpy(reference.prepare(w, arrays)())):
        np.save(folder / f"out{number}.npy", array)


def _laid_out(what: str, folder: Path, mode: Literal["r"] | None = None) -> list[Array]:
    paths = sorted(folder.glob(f"{what}*.npy"), key=lambda path: int(path.stem[len(what) :]))
    return [np.load(path, mmap_mode=mode) for path in paths]


def _error(computed: list[Any], wanted: list[Any]) -> float:
    """The largest difference by the largest value; a piece at a time, so that it stays in a cache."""
    worst = 0.0
    for one, other in zip(computed, wanted, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"shape {one.shape}, not {other.shape}")
        a, b = np.ascontiguousarray(one).reshape(-1), other.reshape(-1)
        pieces = [slice(start, start + PIECE) for start in range(0, a.size, PIECE)]
        off = np.max([np.abs(a[piece] - b[piece]).max() for piece in pieces])
        most = np.max([np.abs(b[piece]).max() for piece in pieces])
        worst = max(worst, float(off / max(most, 1e-30)) if np.isfinite(off) else float("inf"))
    return worst


# -- the process -------------------------------------------------------------------------------------------------------


def turn(run: Callable[[], Any], seconds: float) -> list[float]:
    """Samples for so many seconds, after a few calls that do not count."""
    start, calls = perf_counter(), 0
    while calls == 0 or perf_counter() - start < WARM:
        run()
        calls += 1
    inner = max(1, int(SHORT * calls / (perf_counter() - start)))
    times: list[float] = []
    start = perf_counter()
    while len(times) < FEWEST or (perf_counter() - start < seconds and len(times) < MOST):
        begin = perf_counter()
        for _ in range(inner):
            run()
        times.append((perf_counter() - begin) / inner)
    return times


def serve(name: str, threads: int, folder: Path) -> None:
    """Answer requests until there are no more."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    side = SIDES[name](threads)
    run: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            match request["what"]:
                case "search":
                    w = WORKLOADS[request["workload"]]
                    answer["kernels"] = side.prepare(w, w.arrays())()
                case "prepare":
                    run = None
                    arrays = _laid_out("in", folder)
                    begin = perf_counter()
                    run = side.prepare(WORKLOADS[request["workload"]], arrays)
                    result = run()
                    answer["first"] = perf_counter() - begin
                    for _ in range(2):  # some record first, and replay from the third call on
                        result = run()
                    answer["error"] = _error(side.as_numpy(result), _laid_out("out", folder, "r"))
                    del result
                case _:
                    answer["times"] = turn(run, request["seconds"])
        except Left:
            answer["left"] = True
        except Exception as problem:  # noqa: BLE001 - a peer may fail in any way; the run goes on
            answer["failed"] = f"{type(problem).__name__}: {problem}"[:300]
        print("\n@" + json.dumps(answer), flush=True)


# -- the other end -----------------------------------------------------------------------------------------------------


class Side:
    """A process and what it is called."""

    def __init__(self, name: str, threads: int, folder: Path, extra: Mapping[str, str] | None = None) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
            "NUMBA_NUM_THREADS": str(threads), "NUMEXPR_NUM_THREADS": str(threads),
            "MALLOC_TRIM_THRESHOLD_": "8000000000", "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16", "JAX_PLATFORMS": "cpu", "DEV": "CPU",
            "TOKENIZERS_PARALLELISM": "false", "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "PLANISH_CACHE_DIR": str(folder / "planish"), **(extra or {}),
        }  # fmt: skip
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kit.process", name, str(threads), str(folder)],
            cwd=Path(__file__).parents[1], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(
        self, what: str, *, told: Callable[[dict[str, Any]], None] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Its answer; `told` hears how far it is."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"what": what, **more}) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("~") and told is not None:
                    told(json.loads(line[1:]))
                if line.startswith("@"):
                    answer: dict[str, Any] = json.loads(line[1:])
                    return answer
        except (BrokenPipeError, ValueError):  # it is gone, or was ended
            pass
        return {"failed": f"the process of {self.name} has ended"}

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
