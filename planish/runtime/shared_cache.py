"""Shared compile cache: entries behind a URL that many machines read and write, with the user's own folder in front.

`cache_dir` names it: any URL that fsspec knows, `s3://bucket/planish` or `file:///mnt/shared/planish`. What is found there is
verified by the digest of the entry, as on disk, and copied to the user's own folder, which is asked first. What is made here is
written to both. An entry is named by the hash of everything it follows from, the processor among it, so that writers who meet
under one name bring the same; each writes whole files, beside the place and moved there, where the store has names that can be
moved, in one piece where it is an object store. A damaged entry is made again and written over. A store that cannot be reached is said once and
costs time, not results.

Entries are machine code: whoever can write there can run code as everybody who reads. Digests tell damage, not who wrote it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeVar

from planish.errors import PlanishError
from planish.records import dataclass
from planish.runtime.cache import CacheStats, CacheWarning, Damaged, DiskCache, packed, unpacked

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")
_MOVING: Final = frozenset({"file", "local", "sftp", "ssh", "smb", "hdfs", "webhdfs", "arrow_hdfs"})
"""File systems, where a file that is being written can be seen; a rename is one step there. Object stores show whole objects."""


@dataclass(slots=True)
class SharedCache(DiskCache):
    """A folder of the user's, and behind it what others have made."""

    url: str = ""
    far: CacheStats = field(default_factory=CacheStats)
    """What was asked of the shared store."""
    _store: tuple[AbstractFileSystem, str] | None = None
    _silent: bool = False
    """Whether the store is no longer asked."""

    def get(self, key: str) -> bytes | None:
        """The bytes under a key: the user's copy, or what others made."""
        cached = DiskCache.get(self, key)
        if cached is None and (cached := self._fetch(key)) is not None:
            DiskCache.put(self, key, cached)
        return cached

    def put(self, key: str, payload: bytes) -> None:
        """Keep bytes under a key, here and for others."""
        DiskCache.put(self, key, payload)
        data = packed(key, payload)

        def write(system: AbstractFileSystem, place: str) -> None:
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
            protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
            if protocols & _MOVING:
                beside = f"{place.rpartition('/')[0]}/.new-{os.urandom(8).hex()}"
                system.pipe_file(beside, data)
                system.mv(beside, place)
            else:
                system.pipe_file(place, data)
            self.far.writes += 1

        self._ask(key, write)

    def _fetch(self, key: str) -> bytes | None:
        def read(system: AbstractFileSystem, place: str) -> bytes | None:
            try:
                raw: bytes = system.cat_file(place)
            except FileNotFoundError:
                self.far.misses += 1
                return None
            try:
                payload = unpacked(raw, key)
            except Damaged as error:
                self.far.discarded += 1
                self.far.misses += 1
                warnings.warn(
                    f"an entry of the shared cache is not used: {key} {error}", CacheWarning, stacklevel=2
                )
                return None
            self.far.hits += 1
            return payload

        return self._ask(key, read)

    def _ask(self, key: str, action: Callable[[AbstractFileSystem, str], T]) -> T | None:
        """Do something at the place of a key; after a failure the store is left alone for the rest of the process."""
        if self._silent:
            return None
        try:
            if self._store is None:
                self._store = _opened(self.url)
            system, root = self._store
            return action(system, f"{root}/{key[:2]}/{key[2:]}")
        except PlanishError:
            raise
        except Exception as error:  # noqa: BLE001 - every store has exceptions of its own
            self._silent = True
            warnings.warn(
                f"the shared cache {self.url} cannot be used ({type(error).__name__}: {error}); "
                "this process goes on with the user's own",
                CacheWarning,
                stacklevel=4,
            )
            return None


def _opened(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise PlanishError(
            f"the cache is at {url!r}, and fsspec, which reads URLs, is not installed",
            remedy="pip install 'planish[shared]', or set cache_dir to a folder",
        ) from None
    try:
        system, root = url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise PlanishError(
            f"the cache cannot be at {url!r}: {error}",
            remedy="set cache_dir to a folder, or to a URL of a store that fsspec knows here",
        ) from None
    return system, root.rstrip("/")
