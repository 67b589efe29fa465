"""ONNX's own test cases: which there are, and how planish does on them.

    python tests/onnx/onnx_suite.py [--interpret] [--include REGEX]      all of them, in a process that may crash
    python tests/onnx/onnx_suite.py --device cuda --processes 14         those of GPUs, on a machine with one

`make onnx` runs all of them natively; `make test` a part, chosen by the hash of their names.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import multiprocessing
import re
import subprocess
import sys
import time
import unittest
import warnings
from collections.abc import Sequence
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, Final

PASSED: Final = "passed"
REFUSED: Final = "refused"
"""An error of planish that says what it does not do: no answer, and no wrong one."""
SKIPPED: Final = "skipped"
WRONG: Final = "wrong"
FAILED: Final = "failed"

_EXPECTED: Final = {
    r"test_loop16_seq_none_\w+": "the runner of onnx 1.23 asks for the length of an array without axes",
    r"test_bernoulli_\w+": "random by definition; later runners leave them out",
}
"""Cases that do not pass, and why; docs/onnx.md has the same list."""


def is_expected(name: str) -> bool:
    """Whether a case is known not to pass."""
    return any(re.fullmatch(pattern, name) for pattern in _EXPECTED)


@cache
def cases(interpret: bool, device: str = "cpu") -> dict[str, tuple[Any, str]]:
    """Name → class and method of each case of a device."""
    from onnx.backend.test import BackendTest

    from planish.onnx import backend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen: Any = backend.InterpretedBackend if interpret else backend.Backend
        made = BackendTest(chosen, "onnx_suite")
        return {
            name: (found, name)
            for found in made.test_cases.values()
            for name in dir(found)
            if name.startswith("test_") and name.endswith(f"_{device}")
        }


def chosen(names: Sequence[str], one_in: int) -> list[str]:
    """A part of the names, the same one everywhere."""
    return [
        name for name in sorted(names) if int(hashlib.sha256(name.encode()).hexdigest(), 16) % one_in == 0
    ]


def run(name: str, interpret: bool) -> tuple[str, str]:
    """How a case ends, and the last line of what went wrong."""
    found, method = cases(interpret, name.rpartition("_")[2])[name]
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found(method).run(result)
    if result.skipped:
        return SKIPPED, _last(result.skipped[0][1])
    if result.failures:
        return WRONG, _last(result.failures[0][1])
    if result.errors:
        text = result.errors[0][1]
        refused = "planish.onnx.registry.Unsupported" in text or "planish.errors." in text
        return REFUSED if refused else FAILED, _last(text)
    return PASSED, ""


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"[\w.]+(Error|Unsupported|CannotTrace)\b", line)]
    return (told or lines)[-1][:200]


def _work(names: Sequence[str], interpret: bool, connection: Connection) -> None:
    for name in names:
        connection.send((name, None, None))
        connection.send((name, *run(name, interpret)))
    connection.close()


def run_apart(names: Sequence[str], interpret: bool, seconds: float = 120.0) -> dict[str, tuple[str, str]]:
    """Run cases in another process: a crash or a hang costs one of them."""
    results: dict[str, tuple[str, str]] = {}
    on_gpu = any(name.endswith("_cuda") for name in names)
    context: Any = multiprocessing.get_context("spawn" if on_gpu else "fork")  # CUDA does not survive a fork
    if not on_gpu:
        cases(interpret)
    while waiting := [name for name in names if name not in results]:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(waiting, interpret, theirs))
        process.start()
        theirs.close()
        current = waiting[0]
        try:
            while ours.poll(seconds):
                current, end, why = ours.recv()
                if end is not None:
                    results[current] = end, why
            results[current] = "hung", f"no answer within {seconds:g} s"
            process.kill()
        except EOFError:
            process.join()
            if process.exitcode:
                results[current] = "crashed", f"exit status {process.exitcode}"
        process.join()
    return results


def _shared_out(arguments: Sequence[str], count: int) -> int:
    """The same in several processes, each with a part of the cases."""
    command = [sys.executable, __file__, *arguments]
    running = [
        subprocess.Popen([*command, "--shard", str(number), str(count)], stdout=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    counts: collections.Counter[str] = collections.Counter()
    for process in running:
        *lines, last = process.communicate()[0].splitlines() or [""]
        sys.stdout.writelines(f"{line}\n" for line in lines)
        counts.update({end: int(n) for n, end in re.findall(r"(\d+) ([a-z]+)(?=[,;])", last)})
    sys.stdout.write(
        f"{counts.total()} cases: {', '.join(f'{n} {end}' for end, n in sorted(counts.items()))}\n"
    )
    return any(process.returncode for process in running)


def main() -> int:
    """The table, and what did not pass."""
    parser = argparse.ArgumentParser(description="planish on ONNX's test cases")
    parser.add_argument("--interpret", action="store_true", help="by the reference interpreter")
    parser.add_argument("--include", default="", help="names that match this alone")
    parser.add_argument("--one-in", type=int, default=1, help="a part of the names")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--shard", type=int, nargs=2, default=(0, 1), help="which of how many parts")
    args = parser.parse_args()
    if args.processes > 1 and args.shard == (0, 1):
        return _shared_out(sys.argv[1:], args.processes)
    begin = time.monotonic()
    names = [name for name in cases(args.interpret, args.device) if re.search(args.include, name)]
    mine = chosen(names, args.one_in)[args.shard[0] :: args.shard[1]]
    results = run_apart(mine, args.interpret)
    for name, (end, why) in sorted(results.items()):
        if end != PASSED:
            sys.stdout.write(f"{end:8} {name}: {why}\n")
    counts = collections.Counter(end for end, _ in results.values())
    told = ", ".join(f"{count} {end}" for end, count in sorted(counts.items()))
    sys.stdout.write(f"{len(results)} cases: {told}; {time.monotonic() - begin:.0f} s\n")
    fine = (PASSED, REFUSED, SKIPPED) if args.device == "cpu" else (PASSED, REFUSED)
    return any(end not in fine and not is_expected(name) for name, (end, _) in results.items())


if __name__ == "__main__":
    raise SystemExit(main())
