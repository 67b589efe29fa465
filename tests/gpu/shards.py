"""All tests that need a GPU, shared out among processes of one machine: `make test-gpu`.

Most of their time is the compiler's, on the host: as many processes as there are cores share one GPU. Every test is run by one of
them; what fails is shown, and any failure, in a test or of a process, is the exit status.

    python -m tests.gpu.shards [--processes N] [ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

HERE: Final = "tests/gpu"
_NOTHING: Final = 5
"""pytest's status where there was no test."""
_MOST: Final = 14
"""Processes: each has a context of its own on the GPU."""


def collected(arguments: list[str]) -> list[str]:
    """The names of all tests, as pytest takes them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", HERE, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode not in (0, _NOTHING):
        raise SystemExit(found.stdout + found.stderr)
    return [line for line in found.stdout.splitlines() if "::" in line]


def dealt(tests: list[str], count: int) -> list[list[str]]:
    """Tests in turn, so that the long ones of a file are not all in one shard."""
    return [shard for shard in (tests[n::count] for n in range(count)) if shard]


def started(shard: list[str], folder: Path, number: int) -> subprocess.Popen[bytes]:
    """A process that runs some tests; what it says goes to a file."""
    named = folder / f"{number}.tests"
    named.write_text("\n".join(shard), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", f"@{named}"]
    environment = {**os.environ, "PLANISH_CACHE_DIR": str(folder / f"cache{number}")}
    with (folder / f"{number}.out").open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)


def counts_of(text: str) -> dict[str, int]:
    """How many tests passed, failed and so on, by pytest's last line."""
    last = text.rstrip().rpartition("\n")[2]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=min(max((os.cpu_count() or 2) - 1, 1), _MOST))
    options, rest = parser.parse_known_args(arguments)
    begun = time.monotonic()
    tests = collected(rest)
    total: dict[str, int] = {}
    status = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        running = [
            started(shard, folder, number)
            for number, shard in enumerate(dealt(tests, max(options.processes, 1)))
        ]
        for number, process in enumerate(running):
            code = process.wait()
            text = (folder / f"{number}.out").read_text(encoding="utf-8", errors="replace")
            for word, count in counts_of(text).items():
                total[word] = total.get(word, 0) + count
            if code:
                status = 1
                print(text, flush=True)
    told = ", ".join(f"{count} {word}" for word, count in sorted(total.items()))
    print(
        f"{told or 'no tests'} of {len(tests)} in {time.monotonic() - begun:.0f} s, {len(running)} processes"
    )
    return status if sum(total.values()) == len(tests) else 1


if __name__ == "__main__":
    raise SystemExit(main())
