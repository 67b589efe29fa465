"""The cache on disk: whole or absent, the user's own, and never the reason for a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planish.config import settings
from planish.errors import PlanishError
from planish.runtime.cache import CacheWarning, DiskCache, code_from, digest_of, disk_cache, key_of


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "c")
    key = key_of("kernel", b"bytes")
    assert cache.get(key) is None
    cache.put(key, b"object code")
    assert cache.get(key) == b"object code"
    assert DiskCache(tmp_path / "c").get(key) == b"object code"
    assert (cache.stats.hits, cache.stats.misses, cache.stats.writes) == (1, 1, 1)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700


def test_keys_tell_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a") == key_of(b"a")


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "version"])
def test_a_damaged_entry_is_discarded_with_a_warning(tmp_path: Path, damage: str) -> None:
    cache = DiskCache(tmp_path)
    key = key_of(damage)
    cache.put(key, b"x" * 100)
    (path,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    raw = bytearray(path.read_bytes())
    if damage == "cut":
        raw = raw[:-1]
    elif damage == "flip":
        raw[-7] ^= 1
    elif damage == "empty":
        raw = bytearray()
    elif damage == "foreign":
        raw[:8] = b"\x7fELF\x02\x01\x01\x00"
    else:
        raw[8] += 1
    path.write_bytes(raw)
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.get(key) is None
    assert not path.exists()
    assert cache.stats.discarded == 1


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10_000)
    keys = [key_of(str(n)) for n in range(12)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1000)
        path = tmp_path / key[:2] / key[2:]
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used just now
    cache.sweep()
    left = [n for n, key in enumerate(keys) if (tmp_path / key[:2] / key[2:]).exists()]
    assert 0 in left
    assert 1 not in left
    assert cache.info().nbytes <= 8_000


def test_a_folder_that_cannot_be_used_means_no_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = DiskCache(blocked / "inside")
    with pytest.warns(CacheWarning, match="nothing is cached"):
        cache.put(key_of("a"), b"a")
    cache.put(key_of("b"), b"b")  # said once
    assert cache.get(key_of("a")) is None


def test_the_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.warns(CacheWarning, match="another user"):
        assert cache.get(key_of("a")) is None


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    DiskCache(tmp_path).put(key_of("a"), b"a")
    tmp_path.chmod(0o730)
    cache = DiskCache(tmp_path)
    with pytest.warns(CacheWarning, match="others can write"):
        assert cache.get(key_of("a")) is None
    cache.put(key_of("b"), b"b")  # said once
    assert cache.get(key_of("b")) is None
    assert tmp_path.stat().st_mode & 0o777 == 0o730


def test_an_empty_folder_that_others_could_write_to_is_made_the_users_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache = DiskCache(tmp_path)
    cache.put(key_of("a"), b"a")
    assert cache.get(key_of("a")) == b"a"
    assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whose", ["written by others", "moved", "a pipe", "a folder"])
def test_an_entry_that_may_be_anothers_is_not_believed(tmp_path: Path, whose: str) -> None:
    cache, key = DiskCache(tmp_path), key_of(whose)
    cache.put(key, b"machine code")
    path = tmp_path / key[:2] / key[2:]
    if whose == "written by others":
        path.chmod(0o622)
    elif whose == "moved":  # a digest holds for one key
        other = key_of("other")
        (tmp_path / other[:2]).mkdir(exist_ok=True)
        path = path.rename(tmp_path / other[:2] / other[2:])
        key = other
    else:
        path.unlink()
        os.mkfifo(path) if whose == "a pipe" else path.mkdir()
    with pytest.warns(CacheWarning, match="discarded"):
        assert cache.get(key) is None


def test_given_code_comes_first_and_is_not_written_to(tmp_path: Path) -> None:
    given, own = DiskCache(tmp_path / "given"), DiskCache(tmp_path / "own")
    given.put(key_of("a"), b"given")
    own.put(key_of("a"), b"own")
    (tmp_path / "given").chmod(0o777)
    with settings(cache=True, cache_dir=str(tmp_path / "own")), code_from(tmp_path / "given"):
        assert disk_cache().get(key_of("a")) == b"given"
        disk_cache().put(key_of("b"), b"b")
        assert disk_cache().get(key_of("b")) == b"b"
        path = tmp_path / "given" / key_of("a")[:2] / key_of("a")[2:]
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(PlanishError, match="damaged"):
            disk_cache().get(key_of("a"))
    assert given.info().entries == 1
    assert own.get(key_of("b")) == b"b"


def test_a_full_disk_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    cache = DiskCache(tmp_path)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.put(key_of("a"), b"a")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


_WRITER = """
import os, random, signal, sys, threading
from pathlib import Path
from planish.runtime.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]))
rng = random.Random(int(sys.argv[2]))
threading.Timer(rng.uniform(0.0, 0.15), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
while True:
    n = rng.randrange(20)
    found = cache.get(f"{n:064x}")
    assert found is None or found == bytes([n]) * (1000 + n)
    cache.put(f"{n:064x}", bytes([n]) * (1000 + n))
"""


def test_killed_writers_leave_it_valid(tmp_path: Path) -> None:
    for round_ in range(2):
        running = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", _WRITER, str(tmp_path), str(round_ * 4 + n)]
            )
            for n in range(4)
        ]
        for process in running:
            assert process.wait(timeout=60) == -9  # killed in the middle, not by an error of its own
    cache = DiskCache(tmp_path)
    found = [cache.get(f"{n:064x}") for n in range(20)]
    assert any(found)
    assert all(f is None or f == bytes([n]) * (1000 + n) for n, f in enumerate(found))
    assert not cache.stats.discarded


def test_files_count_by_their_content(tmp_path: Path) -> None:
    cache, root = DiskCache(tmp_path / "cache"), tmp_path / "package"
    (root / "below").mkdir(parents=True)

    def write(name: str, text: str, time: int) -> None:
        (root / name).write_text(text)
        os.utime(root / name, ns=(time, time))

    write("one.py", "x = 1", 1)
    write("below/two.py", "y = 2", 1)
    first = digest_of(root, "1.0", cache)
    write("one.py", "x = 1", 2)
    assert digest_of(root, "1.0", cache) == first  # as after a second installation
    assert digest_of(root, "1.1", cache) != first
    write("below/two.py", "y = 3", 2)
    assert digest_of(root, "1.0", cache) != first
    write("below/two.py", "y = 2", 3)
    hits = cache.stats.hits
    assert digest_of(root, "1.0", cache) == first
    assert cache.stats.hits == hits
    assert digest_of(root, "1.0", cache) == first
    assert cache.stats.hits == hits + 1  # nothing was read again
    (root / "below" / "two.py").rename(root / "two.py")
    assert digest_of(root, "1.0", cache) != first
