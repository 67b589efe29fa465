"""How inputs are damaged, and what a reader may do with them: a result or a `PlanishError`, in little time and memory.

Bytes are flipped, cut and spliced; JSON and protobuf messages get other values in their fields; text gets other tokens. A number in
place of another is often one at which something ends: of 31, 32, 63 or 64 bits, or with thousands of digits.
"""

from __future__ import annotations

import copy
import gc
import random
import re
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from planish.errors import InternalError, PlanishError

NUMBERS: Final = (
    0, 1, -1, 2, 3, 7, 64, 65, 255, 1000, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63),
    10**30, 10**400,
)  # fmt: skip
TEXTS: Final = (
    "", "x", "0", "-1", "nan", "../x", "/x", "\0", "é", "\ud800", "a b", "%0", "f32", "9" * 5000, "(" * 200, "n" * 100_000, "N", "\n",
)  # fmt: skip


class TooLong(BaseException):
    """A reader did not come to an end; no reader catches it."""


@contextmanager
def limited(seconds: float = 10.0, more: int = 2 << 30) -> Iterator[None]:
    """Little time and memory: whoever wants more fails."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"no end after {seconds} s")

    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, stop)
    told = sys.unraisablehook
    # one that comes while Python cleans up is dropped by it: another comes
    sys.unraisablehook = lambda given: None if given.exc_type is TooLong else told(given)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = told
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Trial:
    """Damaged inputs given to a reader, and what came of them."""

    def __init__(self, *fine: type[BaseException]) -> None:
        self.fine: tuple[type[BaseException], ...] = (PlanishError, *fine)
        self.read = self.refused = 0
        self.failures: Counter[str] = Counter()
        self.first: dict[str, object] = {}

    def __call__(self, reader: Callable[[Any], object], given: Any, seconds: float = 10.0) -> None:
        """Try one."""
        try:
            with limited(seconds), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader(given)
            self.read += 1
        except InternalError as error:
            self._failed(error, given)
        except self.fine:
            self.refused += 1
        except (Exception, TooLong) as error:  # noqa: BLE001 - this is what is looked for
            self._failed(error, given)

    def _failed(self, error: BaseException, given: object) -> None:
        last = traceback.extract_tb(error.__traceback__)
        ours = [f for f in last if "/planish/" in f.filename] or last
        where = f"{type(error).__name__} in {ours[-1].filename.rpartition('/planish/')[2]}:{ours[-1].lineno}: {error}"
        key = re.sub(r"\d+", "0", where)[:160]
        self.failures[key] += 1
        self.first.setdefault(key, (where, given))
        del error
        gc.collect()

    def check(self, *, refused: float = 0.05) -> None:
        """None has failed, and the damage was such that some were refused."""
        assert not self.failures, self.report()
        assert self.refused > refused * (self.read + self.refused)

    def report(self) -> str:
        lines = [f"{self.read} read, {self.refused} refused"]
        lines += [f"{count:5} {self.first[key][0]}" for key, count in self.failures.most_common()]  # type: ignore[index]
        return "\n".join(lines)


def number(rng: random.Random, old: int = 0) -> int:
    return rng.choice([rng.choice(NUMBERS), old + 1, old - 1, -old, old * 2, rng.randrange(-9, 99)])


def text(rng: random.Random, old: str = "") -> str:
    """Another text: one of the odd ones, or the old one with something changed."""
    match rng.randrange(4):
        case 0:
            return rng.choice(TEXTS)
        case 1:
            return old[: rng.randrange(len(old) + 1)]
        case 2:
            at = rng.randrange(len(old) + 1)
            return old[:at] + rng.choice("0x/%@<>[](){}=,. \n\0\x80é9") + old[at + rng.randrange(2) :]
        case _:
            return old + old


def damaged_bytes(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """Bytes with some flipped, cut, repeated, exchanged, or a piece of another file in them."""
    raw = bytearray(data) or bytearray(1)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, size = rng.randrange(len(raw) + 1), rng.choice((1, 2, 4, 8, 60))
        match rng.randrange(7):
            case 0 | 1:
                raw[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                raw[at : at + size] = rng.randbytes(size)
            case 3:
                del raw[at : at + size]
            case 4:
                raw[at:at] = raw[at : at + size]
            case 5:
                begin = rng.randrange(len(other) + 1)
                raw[at : at + size] = other[begin : begin + size]
            case _:
                raw[at : at + size] = rng.choice((b"\xff", b"\0", b"\x80")) * size
    if rng.random() < 0.1:
        del raw[rng.randrange(len(raw) + 1) :]
    return bytes(raw)


_TOKEN: Final = re.compile(r"\s+|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e-?\d+)?|.", re.DOTALL)


def damaged_text(source: str, rng: random.Random, words: list[str]) -> str:
    """Text with some tokens gone, repeated, exchanged, or other ones; `words` are tokens of such texts."""
    tokens = _TOKEN.findall(source)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(tokens))
        old = tokens[at]
        match rng.randrange(7):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] = old + old
            case 2:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], old
            case 3:
                tokens[at] = rng.choice(words)
            case 4:
                tokens[at] = text(rng, old)
            case 5:
                digits = [n for n, token in enumerate(tokens) if token.lstrip("-").isdigit()] or [at]
                place = rng.choice(digits)
                tokens[place] = (
                    str(number(rng, int(tokens[place]) if place != at or old.isdigit() else 0))
                    if digits != [at]
                    else "7"
                )
            case _:
                tokens[at:at] = tokens[at : at + rng.randrange(1, 40)]
    return "".join(tokens)


def words_of(sources: list[str]) -> list[str]:
    return sorted({token for source in sources for token in _TOKEN.findall(source)})


def damaged_json(value: Any, rng: random.Random) -> Any:
    """A JSON value (changed in place) with another value somewhere in it."""
    places: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        part = stack.pop()
        for key in range(len(part)) if isinstance(part, list) else list(part):
            places.append((part, key))
            if isinstance(part[key], list | dict):
                stack.append(part[key])
    if not places:
        return rng.choice([[], {}, 0, None, "x"])
    for _ in range(rng.choice((1, 1, 2))):
        part, key = rng.choice(places)
        if isinstance(part, dict):
            if key not in part:
                continue
            if rng.random() < 0.1:
                del part[key]
                continue
            if rng.random() < 0.05:
                part[text(rng, str(key))] = part.pop(key)
                continue
        elif key >= len(part):
            continue
        old = part[key]
        part[key] = _other(old, rng, rng.choice(places))
    return value


def _other(old: Any, rng: random.Random, place: tuple[Any, Any]) -> Any:
    choice = rng.randrange(6)
    if choice == 0:
        return rng.choice(
            [
                None,
                True,
                False,
                [],
                {},
                1.5,
                float("nan"),
                float("inf"),
                -0.0,
                [[]],
                {"a": 1},
                "x",
                [old],
                {"float": "nan"},
            ]
        )
    if choice == 1 and isinstance(old, list) and old:
        return rng.choice([old * 2, old[1:], old[::-1], old * 70])
    if choice == 2:
        part, key = place
        try:
            return copy.deepcopy(part[key])
        except (KeyError, IndexError):
            return None
    if isinstance(old, bool) or not isinstance(old, int | str):
        return number(rng)
    return number(rng, old) if isinstance(old, int) else text(rng, old)
