"""Replays a stored corpus of functions: shows every difference that a change makes to the code that is generated.

    python tools/replay.py                    differences, as a readable diff; exit status 1 if there are any
    python tools/replay.py --update           accept them
    python tools/replay.py --only 'networks/*'
    python tools/replay.py --collect          make the corpus anew, after ops have been added

One file per function in tests/replay: its PTIR text, then the LLIR of its kernels for x86-64-v4, whatever machine this is. Kernels are
numbered, not named: names say what is in them.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from planish import compiler, ptir
from planish.errors import PlanishError
from planish.llir.text import print_program

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "replay"
TARGET = "x86-64-v4"
LLIR = "\n==== llir ====\n"
LARGEST = 64 << 10
"""Bytes beyond which a function is too large to be read."""


def generated(text: str) -> str:
    """The LLIR of a PTIR text; the error, where it is one: it is part of what may change."""
    try:
        lowered = compiler.lower(ptir.parse(text), TARGET)
    except PlanishError as error:
        return f"error: {type(error).__name__}: {error}\n"
    return "\n".join(print_program(replace(p, name=f"k{n}")) for n, p in enumerate(lowered.programs))


def entry(text: str) -> str:
    """A file of the corpus."""
    return text.rstrip("\n") + "\n" + LLIR + generated(text)


def replayed(path: str) -> tuple[str, str, str]:
    """A file: its name, what is stored, and what is generated now."""
    stored = Path(path).read_text(encoding="utf-8")
    return path, stored, entry(stored.partition(LLIR)[0])


def files(corpus: Path, only: str) -> list[str]:
    paths = sorted(p for p in corpus.rglob("*.txt"))
    return [str(p) for p in paths if fnmatch.fnmatch(str(p.relative_to(corpus).with_suffix("")), only)]


def difference(name: str, stored: str, now: str) -> Iterator[str]:
    """A diff of the code, with a few lines around each change."""
    a, b = (text.partition(LLIR)[2].splitlines(keepends=True) for text in (stored, now))
    yield from difflib.unified_diff(a, b, f"{name} (stored)", f"{name} (now)", n=2)


def collect(corpus: Path) -> None:
    """Write the functions of `replay_corpus` with what they compile to now."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]  # the op table is the tests'
    import replay_corpus

    stored = dropped = 0
    for folder in corpus.iterdir() if corpus.is_dir() else ():
        if folder.is_dir():
            shutil.rmtree(folder)
    for name, function in replay_corpus.functions():
        text = entry(ptir.print(function))
        if len(text) > LARGEST:
            dropped += 1
            continue
        path = corpus / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        stored += 1
    print(f"{stored} functions stored, {dropped} were too large")


def main(arguments: list[str] | None = None, corpus: Path = CORPUS) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="accept what is generated now")
    parser.add_argument("--collect", action="store_true", help="make the corpus anew")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="functions by name, such as 'ops/add*'"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    args = parser.parse_args(arguments)
    if args.collect:
        collect(corpus)
        return 0
    chosen = files(corpus, args.only)
    changed = 0
    if args.jobs > 1 and len(chosen) > 8:
        with ProcessPoolExecutor(args.jobs) as pool:
            results = list(pool.map(replayed, chosen, chunksize=8))
    else:
        results = list(map(replayed, chosen))
    for path, stored, now in results:
        if stored == now:
            continue
        changed += 1
        if args.update:
            Path(path).write_text(now, encoding="utf-8")
        else:
            sys.stdout.writelines(difference(str(Path(path).relative_to(corpus)), stored, now))
    word = "updated" if args.update else "differ"
    print(f"{len(chosen)} functions, {changed} {word}")
    return 1 if changed and not args.update else 0


if __name__ == "__main__":
    raise SystemExit(main())
