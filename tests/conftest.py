"""Shared test machinery: the `golden` fixture and its `--update-golden` flag, hypothesis profiles, a cache folder of its own."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from planish.config import settings

GOLDEN = Path(__file__).parent / "golden"

# Examples are few and repeatable in the quick suite; fuzz tests choose their own numbers.
hypothesis_settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True)
hypothesis_settings.register_profile("fuzz", max_examples=2000, deadline=None)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# Compiled code goes to a folder of this session, never to the user's. Workers of pytest-xdist inherit it and share it.
_OWN_CACHE = None if "TESTS_OF_PLANISH_CACHE" in os.environ else tempfile.mkdtemp(prefix="planish-tests-")
# A run with -s on a terminal draws no bars between the dots; read when the first setting is asked for.
os.environ["PLANISH_PROGRESS"] = "0"
os.environ["XDG_CACHE_HOME"] = os.environ.setdefault("TESTS_OF_PLANISH_CACHE", _OWN_CACHE or "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OWN_CACHE is not None:
        shutil.rmtree(_OWN_CACHE, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden/ with what the tests produce now",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and config.getoption("numprocesses", default=None):
        raise pytest.UsageError("--update-golden writes files that several cases share: run it without -n")


class Golden:
    """Compares text with a file under tests/golden/, or writes that file under --update-golden."""

    def __init__(self, update: bool, root: Path = GOLDEN) -> None:
        self.update = update
        self.root = root

    def check(self, name: str, actual: str) -> None:
        """`actual` must be the contents of tests/golden/<name>."""
        path = self.root / name
        text = actual if actual.endswith("\n") else actual + "\n"
        if self.update:
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(
                f"golden file {name} is missing; create it with: pytest --update-golden", pytrace=False
            )
        expected = path.read_text(encoding="utf-8")
        if expected != text:
            diff = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"golden/{name}", "actual"
            )
            pytest.fail(
                f"{''.join(diff)}\ngolden file {name} differs; if the change is meant: pytest --update-golden",
                pytrace=False,
            )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Call `golden.check("family/case.txt", text)`."""
    return Golden(bool(request.config.getoption("--update-golden")))


CHECKED = ("stages", "e2e", "schedule", "llir")
"""The folders of tests that compile: there every stage is held to its spec."""


@pytest.fixture(autouse=True)
def _spec_at_every_boundary(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.path.relative_to(GOLDEN.parent).parts[0] in CHECKED:
        with settings(check="spec"):
            yield
    else:
        yield
