"""A cache that machines share: verified on read, whole for every reader, and never the reason for a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish.compiler.object_code import counters
from planish.config import settings
from planish.errors import PlanishError
from planish.runtime.cache import CacheWarning, DiskCache, key_of, own_cache
from planish.runtime.shared_cache import SharedCache

pytest.importorskip("fsspec")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = f"/{tmp_path.name}" if request.param == "memory" else str(tmp_path / "shared")
    return f"{request.param}://{name}"


def test_what_one_machine_makes_another_finds(tmp_path: Path, url: str) -> None:
    here, there = SharedCache(tmp_path / "here", url=url), SharedCache(tmp_path / "there", url=url)
    key = key_of("kernel")
    assert here.get(key) is None
    here.put(key, b"object code")
    assert there.get(key) == b"object code"
    assert there.get(key) == b"object code"
    # the second time its own copy answers
    assert (there.far.hits, there.far.misses, there.stats.hits) == (1, 0, 1)
    assert DiskCache(tmp_path / "there").get(key) == b"object code"


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:-1] + b"?", lambda raw: b""])
def test_a_damaged_entry_is_not_used_and_written_over(tmp_path: Path, damage) -> None:
    shared = tmp_path / "shared"
    here = SharedCache(tmp_path / "here", url=f"file://{shared}")
    key = key_of("kernel")
    here.put(key, b"object code")
    (place,) = _files(shared)
    place.write_bytes(damage(place.read_bytes()))
    there = SharedCache(tmp_path / "there", url=f"file://{shared}")
    with pytest.warns(CacheWarning, match="damaged"):
        assert there.get(key) is None
    assert there.far.discarded == 1
    there.put(key, b"object code")
    assert SharedCache(tmp_path / "third", url=f"file://{shared}").get(key) == b"object code"


_WRITER = """
import sys
from pathlib import Path
from planish.runtime.shared_cache import SharedCache
cache = SharedCache(Path(sys.argv[1]), url=sys.argv[2])
for n in range(60):
    key = format(n % 6, "064x")
    found = cache._fetch(key)
    assert found is None or found == key.encode() * 4000, "torn"
    cache.put(key, key.encode() * 4000)
assert cache.far.discarded == 0
"""


def test_many_writers_never_show_half_an_entry(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'shared'}"
    command = [sys.executable, "-W", "error", "-c", _WRITER]
    writers = [subprocess.Popen([*command, str(tmp_path / str(n)), url]) for n in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(_files(tmp_path / "shared")) == 6  # and nothing is left beside


def test_a_store_that_fails_is_said_once_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("no folder")
    cache = SharedCache(tmp_path / "own", url=f"file://{tmp_path / 'blocked' / 'inside'}")
    with pytest.warns(CacheWarning, match="cannot be used"):
        cache.put(key_of("a"), b"a")
    cache.put(key_of("b"), b"b")  # a second warning would be an error
    assert cache.get(key_of("c")) is None
    assert cache.get(key_of("a")) == b"a"


def test_an_unknown_store_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(PlanishError, match="nowhere://"):
        SharedCache(tmp_path, url="nowhere://x").get(key_of("a"))


def test_the_setting_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path / 'shared'}"

    def call() -> int:
        before = counters.compiled
        x = np.arange(7, dtype=np.float32)
        got = pn.jit(lambda x: pn.sin(x) * 3 + 12.25)(x)
        np.testing.assert_allclose(np.asarray(got), np.sin(x) * 3 + 12.25, rtol=1e-6)
        return counters.compiled - before

    made = []
    for machine in ("one", "two"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
        with settings(cache=True, cache_dir=url):
            assert isinstance(own_cache(), SharedCache)
            assert own_cache().folder == tmp_path / machine / "planish"
            made.append(call())
    assert made[0] > 0
    assert made[1] == 0
