"""The golden helper itself: it fails on a missing or different file, says how to bless, and writes only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Golden


def test_missing_file_fails_and_names_the_flag(tmp_path: Path):
    with pytest.raises(
        pytest.fail.Exception, match=r"a/b.txt is missing; create it with: pytest --update-golden"
    ):
        Golden(update=False, root=tmp_path).check("a/b.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_update_writes_then_the_check_passes_and_a_difference_fails(tmp_path: Path):
    Golden(update=True, root=tmp_path).check("a/b.txt", "one\ntwo")
    assert (tmp_path / "a" / "b.txt").read_text() == "one\ntwo\n"
    check = Golden(update=False, root=tmp_path)
    check.check("a/b.txt", "one\ntwo\n")
    with pytest.raises(pytest.fail.Exception) as caught:
        check.check("a/b.txt", "one\nthree\n")
    assert "-two\n+three\n" in str(caught.value)
    assert "pytest --update-golden" in str(caught.value)
    assert (tmp_path / "a" / "b.txt").read_text() == "one\ntwo\n"
