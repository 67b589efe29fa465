"""The compilation cache on disk: bytes under the hash of everything they follow from.

An entry is written beside its place and moved there, so that it is whole or absent whoever is killed when; it carries a version
and a digest of its key and content, and one that does not add up is discarded with a warning. Readers mark what they use, and
when the folder grows beyond its limit what was not used for longest goes first. Some entries are machine code, so only what
this user wrote is believed: the folder is the user's alone (mode 0700), one that others own or can write to is refused, and so
is an entry of theirs. Whatever the disk does (full, read-only, gone), the answer is only that nothing is cached.

`code_from` puts a folder that was named as a program in front: what it has is used whoever wrote it, and damage is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from planish.config import cache_folder, current, shared_cache_url
from planish.errors import PlanishError
from planish.filenames import write_whole
from planish.records import dataclass

_MAGIC: Final = b"planish\n"
_VERSION: Final = 2
_HEADER: Final = struct.Struct("<8sIQ32s")
_OTHERS_WRITE: Final = 0o022
_SWEEP: Final = 64
"""Writes between two looks at the size of the folder."""
_FREED: Final = 0.8
"""How full the folder is after old entries have gone."""


class CacheWarning(UserWarning):
    """Something about the cache that costs time, not results."""


@dataclass(slots=True)
class CacheStats:
    """What one process asked of the cache."""

    hits: int = 0
    misses: int = 0
    writes: int = 0
    discarded: int = 0


@dataclass(frozen=True, slots=True)
class DiskCacheInfo:
    """What is on disk."""

    folder: Path
    entries: int
    nbytes: int


@dataclass(slots=True)
class DiskCache:
    """A folder of entries."""

    folder: Path
    limit: int = 2 << 30
    stats: CacheStats = field(default_factory=CacheStats)
    _usable: bool | None = None
    _unswept: int = 0

    @property
    def usable(self) -> bool:
        """Whether anything can be kept."""
        return self._ready()

    def get(self, key: str) -> bytes | None:
        """The bytes under a key; None if there are none that can be trusted."""
        if not self._ready():
            return None
        path = self._path(key)
        try:
            payload = _read(path, key, own=True)
        except OSError:
            self.stats.misses += 1
            return None
        except Damaged as error:
            self.stats.discarded += 1
            self.stats.misses += 1
            warnings.warn(
                f"an entry of the cache was discarded: {path.name} {error}", CacheWarning, stacklevel=2
            )
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self.stats.hits += 1
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep bytes under a key."""
        if not self._ready():
            return
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(path, packed(key, payload))
        except OSError as error:
            self._give_up(f"cannot write to {self.folder} ({error.strerror or error})")
            return
        self.stats.writes += 1
        self._unswept += 1
        if self._unswept >= _SWEEP or self.stats.writes == 1:
            self._unswept = 0
            self.sweep()

    def info(self) -> DiskCacheInfo:
        """How much is there."""
        entries = self._entries()
        return DiskCacheInfo(self.folder, len(entries), sum(size for _, size, _ in entries))

    def clear(self) -> DiskCacheInfo:
        """Remove every entry; what was there is returned."""
        before = self.info()
        for _, _, path in self._entries(unfinished=True):
            with contextlib.suppress(OSError):
                path.unlink()
        return before

    def sweep(self) -> None:
        """Bring the folder below its limit, what was not used for longest first; and remove what killed writers left."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in entries:
                if total <= self.limit * _FREED:
                    break
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size
        newest = max((used for used, _, _ in entries), default=0.0)
        for used, _, path in self._entries(unfinished=True):
            if path.name.startswith(".new-") and used < newest - 3600:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, key: str) -> Path:
        return _place(self.folder, key)

    def _entries(self, *, unfinished: bool = False) -> list[tuple[float, int, Path]]:
        """Last use, size and place of each."""
        entries = []
        with contextlib.suppress(OSError):
            for shelf in self.folder.iterdir():
                if not shelf.is_dir():
                    continue
                for path in shelf.iterdir():
                    with contextlib.suppress(OSError):
                        if unfinished or not path.name.startswith(".new-"):
                            status = path.stat()
                            entries.append((status.st_mtime, status.st_size, path))
        return entries

    def _ready(self) -> bool:
        if self._usable is None:
            self._usable = True
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = self.folder.stat()
            except OSError as error:
                self._give_up(f"cannot use {self.folder} ({error.strerror or error})")
                return False
            if status.st_uid != os.getuid():
                self._give_up(f"{self.folder} belongs to another user")
            elif status.st_mode & _OTHERS_WRITE and not self._take():
                self._give_up(f"others can write to {self.folder} (chmod 700 and empty it, or name another)")
            elif status.st_mode & 0o077:
                with contextlib.suppress(OSError):
                    self.folder.chmod(0o700)
        return self._usable

    def _take(self) -> bool:
        """Make a folder that others could write to the user's alone, if nobody has left anything in it."""
        try:
            if any(self.folder.iterdir()):
                return False
            self.folder.chmod(0o700)
            return not any(self.folder.iterdir())
        except OSError:
            return False

    def _give_up(self, why: str) -> None:
        self._usable = False
        warnings.warn(f"nothing is cached: {why}", CacheWarning, stacklevel=3)


class Damaged(Exception):
    """What is wrong with an entry."""


def _place(folder: Path, key: str) -> Path:
    return folder / key[:2] / key[2:]


def _digest(key: str, payload: bytes) -> bytes:
    """Of a content under its key: under another one it is none."""
    whole = hashlib.sha256(key.encode())
    whole.update(payload)
    return whole.digest()


def _read(path: Path, key: str, *, own: bool) -> bytes:
    """The content of an entry; `own`: only one that nobody else can have written."""
    # a pipe or device in place of a file would be waited for
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise Damaged("is no file")
    with os.fdopen(handle, "rb", buffering=0) as file:
        if own and (status.st_uid != os.getuid() or status.st_mode & _OTHERS_WRITE):
            raise Damaged("may be another user's")
        header = file.read(_HEADER.size) or b""
        return verified(header, file.readall(), key)


def packed(key: str, payload: bytes) -> bytes:
    """An entry as it is written."""
    return _HEADER.pack(_MAGIC, _VERSION, len(payload), _digest(key, payload)) + payload


def unpacked(entry: bytes, key: str) -> bytes:
    """The content of an entry; `Damaged` says what is wrong with it."""
    return verified(entry[: _HEADER.size], entry[_HEADER.size :], key)


def verified(header: bytes, payload: bytes, key: str) -> bytes:
    """The content of an entry, if its header says the same of it."""
    if len(header) < _HEADER.size:
        raise Damaged("is damaged: it is cut off")
    magic, version, length, digest = _HEADER.unpack(header)
    if magic != _MAGIC or version != _VERSION:
        raise Damaged("is damaged, or of another version of planish")
    if length != len(payload):
        raise Damaged("is damaged: its size is not what it says")
    if _digest(key, payload) != digest:
        raise Damaged("is damaged: its digest does not fit")
    return payload


@dataclass(frozen=True, slots=True)
class GivenCode:
    """A folder of entries that was named as a program to run, in front of the user's cache; nothing is written to it."""

    given: Path
    own: DiskCache

    @property
    def folder(self) -> Path:
        """Where the user's own entries are."""
        return self.own.folder

    @property
    def usable(self) -> bool:
        """Whether anything can be kept."""
        return self.own.usable

    def get(self, key: str) -> bytes | None:
        """The bytes under a key: those that were given, or the user's."""
        path = _place(self.given, key)
        try:
            return _read(path, key, own=False)
        except FileNotFoundError:
            return self.own.get(key)
        except (OSError, Damaged) as error:
            raise PlanishError(f"{path} {error}", remedy="compile the program to a new folder") from None

    def put(self, key: str, payload: bytes) -> None:
        """Keep bytes under a key, in the user's cache."""
        self.own.put(key, payload)


_given: Final[ContextVar[Path | None]] = ContextVar("code that was given", default=None)


@contextlib.contextmanager
def code_from(folder: Path) -> Iterator[None]:
    """Use the code in a folder, which the user wants to be run: it can do whatever the user can."""
    token = _given.set(folder)
    try:
        yield
    finally:
        _given.reset(token)


def key_of(*parts: str | bytes) -> str:
    """The key of an entry: the hash of all it follows from."""
    whole = hashlib.blake2b(digest_size=32)
    for part in (fingerprint(), *parts):
        data = part.encode() if isinstance(part, str) else part
        whole.update(struct.pack("<Q", len(data)))
        whole.update(data)
    return whole.hexdigest()


@cache
def fingerprint() -> bytes:
    """This version of planish: its files (rules and tables are code), and the version of what generates code.

    Files count by their content, which is read once: it is kept under their sizes and times.
    """
    return digest_of(Path(__file__).parent.parent, _version_of("llvmlite"), local_cache())


def digest_of(root: Path, generator: str, cache: DiskCache | GivenCode) -> bytes:
    """The hash of the Python files below a folder, and of what generates code from them."""
    stamp, files = hashlib.blake2b(digest_size=32), []
    for name, status in sorted(_sources(str(root))):
        files.append(name)
        stamp.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    stamp.update(generator.encode())
    key = stamp.hexdigest()
    known = cache.get(key)
    if known is not None:
        return known
    whole = hashlib.sha256(generator.encode())  # which processors have instructions for
    beginning = len(str(root)) + 1
    for name in files:
        with open(name, "rb", buffering=0) as file:  # noqa: PTH123 - hundreds of them
            data = file.read()
        whole.update(f"{name[beginning:]} {len(data)}\n".encode())
        whole.update(data)
    cache.put(key, whole.digest())
    return whole.digest()


def _sources(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The Python files of a folder and those below it."""
    todo = [folder]
    for each in todo:
        with os.scandir(each) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif entry.is_dir() and entry.name != "__pycache__":
                    todo.append(entry.path)


def _version_of(package: str) -> str:
    """The version of a package, which need not be imported for it; nor what reads the records of an installation, if it tells itself."""
    spec = find_spec(package)
    told = None if spec is None or spec.origin is None else Path(spec.origin).with_name("_version.py")
    if told is not None and told.exists():
        return told.read_text()
    from importlib.metadata import version

    return version(package)


@cache
def _opened(folder: Path, url: str | None = None) -> DiskCache:
    if url is None:
        return DiskCache(folder)
    from planish.runtime.shared_cache import SharedCache

    return SharedCache(folder, url=url)


_OFF: Final = DiskCache(Path(os.devnull), _usable=False)


def disk_cache() -> DiskCache | GivenCode:
    """The cache that the settings name, behind code that was given, if any was."""
    given = _given.get()
    return own_cache() if given is None else GivenCode(given, own_cache())


def own_cache() -> DiskCache:
    """The cache that the settings name; one that keeps nothing if it is off."""
    return _of_settings(shared_cache_url())


def local_cache() -> DiskCache:
    """The user's own folder, and nothing shared: for what says something about this machine and its files."""
    return _of_settings(None)


def _of_settings(url: str | None) -> DiskCache:
    chosen = current()
    if not chosen.cache:
        return _OFF
    opened = _opened(cache_folder(), url)
    opened.limit = chosen.cache_limit << 20
    return opened
