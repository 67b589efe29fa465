"""Everything here needs an NVIDIA GPU; without one it is skipped, and says so."""

from __future__ import annotations

import pytest

from planish.runtime.cuda.driver import device_count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/gpu" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if not device_count():
                item.add_marker(pytest.mark.skip(reason="there is no GPU here"))
