from __future__ import annotations

import json
from pathlib import Path

import planish
from planish.cli.cache import size
from planish.runtime.cache import disk_cache, key_of
from tests.cli.conftest import Cli


def test_the_cache_is_shown_and_cleared(cli: Cli, tmp_path: Path):
    key_of("")  # the first key of a process is made of a digest of the package, which is kept, too
    with planish.settings(cache_dir=str(tmp_path / "kept"), cache_limit=3):
        disk_cache().put(key_of("a"), b"x" * 3000)
        disk_cache().put(key_of("b"), b"x")
        shown = cli("cache").out
        assert str(tmp_path / "kept") in shown
        assert "2 entries, 3.0 KiB" in shown
        assert "3.0 MiB" in shown
        record = json.loads(cli("cache", "info", "--json").out)
        assert (record["entries"], record["limit"], record["on"]) == (2, 3 << 20, True)
        assert "removed 2 entries" in cli("cache", "clear").out
        assert "0 entries, 0 bytes" in cli("cache").out


def test_a_cache_that_is_off_keeps_nothing(cli: Cli, tmp_path: Path):
    with planish.settings(cache_dir=str(tmp_path / "kept"), cache=False):
        disk_cache().put(key_of("a"), b"x")
        assert disk_cache().get(key_of("a")) is None
        assert "off" in cli("cache").out
    assert not (tmp_path / "kept").exists()


def test_an_action_that_does_not_exist_is_a_usage_error(cli: Cli):
    assert cli("cache", "burn").status == 2


def test_sizes_as_people_say_them():
    assert [size(n) for n in (0, 1023, 1024, 5 << 20, 3 << 40)] == ["0 bytes", "1023 bytes", "1.0 KiB", "5.0 MiB", "3072.0 GiB"]  # fmt: skip
