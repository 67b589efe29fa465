"""What searches found, kept: a file of schedules, each for one kernel on one machine under one set of rules.

The file is JSON that people can read, with a version and a checksum. It is replaced as a whole, never changed in place, and
whoever adds to it holds a lock, so that processes that search at the same time lose nothing. One that does not add up is left alone
with a warning, and counts as empty. An entry is found only by a kernel of the same content, on the same machine, with the same
settings and rules: anything else may make another schedule the best, or this one impossible.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, NamedTuple

from planish.actions.base import Action
from planish.actions.text import parse_schedule, print_schedule
from planish.errors import PlanishError
from planish.filenames import write_whole
from planish.records import dataclass

FORMAT: Final = "planish winners"
VERSION: Final = 2


class WinnersWarning(UserWarning):
    """The file of winners cannot be used: that costs speed, not results."""


class Where(NamedTuple):
    """What a winner is a winner of."""

    kernel: str
    """The content of the kernel, before any action."""
    machine: str
    """Processor, features, cores."""
    rules: str
    """Which rules of planish make code of actions."""
    settings: str
    """The settings that change code."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The best schedule that a search found."""

    where: Where
    actions: tuple[Action, ...]
    seconds: float
    baseline: float
    """Seconds of what the heuristic chose, measured beside it."""
    name: str = ""
    """What the kernel is called, for people."""

    @property
    def gain(self) -> float:
        """How many times faster it is than the heuristic's schedule."""
        return self.baseline / self.seconds if self.seconds > 0 else 1.0


def _record(winner: Winner) -> dict[str, object]:
    return {
        "name": winner.name,
        **winner.where._asdict(),
        "schedule": print_schedule(winner.actions),
        "seconds": winner.seconds,
        "heuristic_seconds": winner.baseline,
    }


def _winner(record: object) -> Winner:
    if not isinstance(record, dict):
        raise PlanishError("an entry is no object")
    try:
        where = Where(*(str(record[name]) for name in Where._fields))
        actions = parse_schedule(str(record["schedule"]))
        seconds, baseline = float(record["seconds"]), float(record["heuristic_seconds"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PlanishError(f"an entry is incomplete: {error}") from None
    if not (math.isfinite(seconds) and math.isfinite(baseline)):
        raise PlanishError(f"an entry took {seconds} and {baseline} seconds")
    return Winner(where, actions, seconds, baseline, str(record.get("name", "")))


def _checksum(records: Sequence[object]) -> str:
    text = json.dumps(records, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def dumps(winners: Iterable[Winner]) -> str:
    """The text of a file of winners."""
    records = [_record(winner) for winner in sorted(winners, key=lambda w: (w.name, w.where))]
    whole = {"format": FORMAT, "version": VERSION, "checksum": _checksum(records), "winners": records}
    return json.dumps(whole, indent=1) + "\n"


def loads(text: str) -> list[Winner]:
    """The winners in a text; PlanishError if it is not what it says."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanishError(f"not JSON: {error}") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise PlanishError("not a file of winners", remedy="`planish bench --export FILE` writes one")
    if whole.get("version") != VERSION:
        raise PlanishError(
            f"a file of winners of version {whole.get('version')!r}, {VERSION} is expected",
            remedy="search again with this version of planish",
        )
    records = whole.get("winners")
    if not isinstance(records, list) or whole.get("checksum") != _checksum(records):
        raise PlanishError("the checksum does not fit: the file is damaged or was changed by hand")
    return [_winner(record) for record in records]


@dataclass(slots=True)
class Winners:
    """The winners of a user, or (without a file) of a process."""

    path: Path | None = None
    _known: dict[Where, Winner] = field(default_factory=dict)
    _stamp: str = ""

    def find(self, where: Where) -> Winner | None:
        """The winner for a kernel, if there is one."""
        self._refresh()
        return self._known.get(where)

    def add(self, *winners: Winner) -> None:
        """Keep winners, in place of older ones of the same kernels."""
        for winner in winners:
            if parse_schedule(print_schedule(winner.actions)) != winner.actions:
                raise PlanishError(f"{print_schedule(winner.actions)} cannot be written down")
        with self._locked():
            self._refresh()
            self._known.update({winner.where: winner for winner in winners})
            self._write()

    def all(self) -> list[Winner]:
        """All of them."""
        self._refresh()
        return list(self._known.values())

    @property
    def stamp(self) -> str:
        """Another one whenever something was added: for keys of what follows from winners."""
        self._refresh()
        return self._stamp or str(len(self._known))

    # -- the file ------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        if self.path is None:
            return
        try:
            status = self.path.stat()
        except OSError:
            self._stamp = ""
            return
        stamp = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            winners = loads(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, PlanishError) as error:
            reason = str(error).partition("\n")[0]
            warnings.warn(f"{self.path} is not used: {reason}", WinnersWarning, stacklevel=3)
            return
        self._known = {winner.where: winner for winner in winners}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self.path is None:
            yield
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            yield  # the folder cannot be written: they are kept for this process
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self) -> None:
        if self.path is None:
            return
        try:
            write_whole(self.path, dumps(self._known.values()).encode())
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(
                f"winners are not kept: cannot write {self.path} ({reason})", WinnersWarning, stacklevel=3
            )
            return
        status = self.path.stat()
        self._stamp = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def export(winners: Iterable[Winner], path: Path) -> int:
    """Write winners to a file; how many they are."""
    chosen = list(winners)
    path.write_text(dumps(chosen), encoding="utf-8")
    return len(chosen)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file brought."""

    usable: int
    elsewhere: int
    """Winners of other machines: kept, and found there alone."""
    outdated: int
    """Winners under other rules: kept as well, and found by that version of planish alone."""


def import_file(path: Path, into: Winners, machine: str, rules: str) -> Imported:
    """Take all winners of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanishError(f"cannot read {path}: {error}") from None
    winners = loads(text)
    into.add(*winners)
    elsewhere = [w for w in winners if w.where.machine != machine]
    outdated = [w for w in winners if w.where.machine == machine and w.where.rules != rules]
    return Imported(len(winners) - len(elsewhere) - len(outdated), len(elsewhere), len(outdated))


__all__ = [
    "Imported", "Where", "Winner", "Winners", "WinnersWarning", "dumps", "export", "import_file", "loads",
]  # fmt: skip
