"""The rows of benchmarks, and which scripts `make bench` runs."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

from bench import report

ROOT = Path(__file__).parent.parent


def test_a_row_without_a_peer_has_nulls_and_dashes(tmp_path, capsys):
    [row] = report.compare("alone", 10, "us", lambda: 2.0, {}, repeats=3)
    assert (row.ours, row.peer_name, row.peer, row.ratio, row.spread) == (2.0, None, None, None, 0.0)
    path = tmp_path / "rows.json"
    report.finish([row], path)
    shown = capsys.readouterr().out.splitlines()[1].split()
    assert shown == ["alone", "10", "2.000", "-", "-", "0%", "us,", "-"]
    # Not NaN, which is no JSON.
    [loaded] = json.loads(path.read_text(), parse_constant=lambda word: pytest_fail(word))
    assert (loaded["peer"], loaded["ratio"], loaded["peer_name"]) == (None, None, None)


def pytest_fail(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def test_a_row_with_a_peer_has_a_ratio():
    times = iter([2.0, 4.0, 2.0])
    [row] = report.compare("both", 10, "us", lambda: next(times), {"other": lambda: 8.0}, repeats=3)
    assert (row.ours, row.peer_name, row.peer, row.ratio, row.spread) == (2.0, "other", 8.0, 4.0, 1.0)


def test_make_bench_runs_scripts_and_not_what_they_share():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"\$\(filter-out ([^,]*),\$\(wildcard (\S+)\)\)", makefile)
    assert found is not None
    left_out = found.group(1).replace("%", "*").split()
    files = [f"bench/{path.name}" for path in (ROOT / "bench").glob("[a-z]*.py")]
    assert found.group(2) == "bench/[a-z]*.py"
    for file in files:
        runs = not any(fnmatch.fnmatch(file, pattern) for pattern in left_out)
        source = (ROOT / file).read_text(encoding="utf-8")
        assert runs is (
            'if __name__ == "__main__":' in source
            and ('"--json"' in source or re.search(r"\b(report\.)?parser\(", source) is not None)
        ), file
