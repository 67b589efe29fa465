"""config: scopes, threads, tasks, environment, and errors that list what is valid."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import typing
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import planish
from planish import config
from planish.config import Settings, current, from_environment, in_environment, settings
from planish.errors import SettingsError

DEFAULT = Settings()


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch):
    """Whatever the developer's environment says, these tests start from the defaults."""
    for name in list(os.environ):
        if name.startswith("PLANISH_"):
            monkeypatch.delenv(name)
    config._initial.cache_clear()
    yield
    config._initial.cache_clear()


def test_scopes_nest_and_restore():
    assert current() == DEFAULT
    with settings(beam=4, fastmath=True) as outer:
        assert outer is current()
        assert (outer.beam, outer.fastmath, outer.contract) == (4, True, False)
        with settings(beam=2, contract=True):
            assert (current().beam, current().fastmath, current().contract) == (2, True, True)
        assert current() is outer
    assert current() == DEFAULT


def test_scopes_restore_after_exceptions():
    with pytest.raises(ZeroDivisionError), settings(beam=1), settings(beam=2):
        raise ZeroDivisionError
    assert current() == DEFAULT


def test_one_object_can_be_reused_and_nested_in_itself():
    fast = settings(fastmath=True)
    with fast, settings(beam=3), fast:
        assert (current().beam, current().fastmath) == (3, True)
    with fast:
        assert current() == Settings(fastmath=True)
    assert current() == DEFAULT


def test_a_suspended_generator_leaves_only_its_own_scope():
    def steps():
        with settings(beam=1):
            yield

    running = steps()
    next(running)
    with settings(threads=3):
        running.close()
        assert current().threads == 3
    assert current() == DEFAULT


def test_decorator_applies_to_each_call():
    @settings(beam=7)
    def inside(extra: int) -> int:
        """Documented."""
        return current().beam + extra

    assert inside(1) == 8
    with settings(threads=2):
        assert inside(extra=2) == 9
    assert current() == DEFAULT
    assert (inside.__name__, inside.__doc__) == ("inside", "Documented.")


def test_decorator_on_a_recursive_function_restores():
    @settings(beam=1)
    def down(n: int) -> int:
        return 0 if n == 0 else down(n - 1) + current().beam

    assert down(20) == 20
    assert current() == DEFAULT


def test_decorator_covers_the_whole_run_of_a_coroutine():
    @settings(beam=5)
    async def inside() -> int:
        await asyncio.sleep(0)
        return current().beam

    assert asyncio.run(inside()) == 5


def test_decorating_a_generator_is_refused():
    with pytest.raises(SettingsError, match="cannot decorate the generator numbers"):

        @settings(beam=5)
        def numbers():
            yield 1


def test_threads_do_not_see_each_other():
    shared = settings(fastmath=True)
    entered = threading.Barrier(9)
    failures: list[str] = []

    def work(number: int) -> None:
        with shared, settings(beam=number):
            entered.wait(timeout=30)  # all are inside at once
            for _ in range(200):
                with settings(threads=number + 1):
                    if (current().beam, current().threads) != (number, number + 1):
                        failures.append(f"{number}: {current()}")
            entered.wait(timeout=30)
        if current() != DEFAULT:
            failures.append(f"{number} after: {current()}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    with settings(contract=True):
        entered.wait(timeout=30)
        assert current() == Settings(contract=True)
        entered.wait(timeout=30)
    for thread in threads:
        thread.join()
    assert failures == []


def test_asyncio_tasks_do_not_see_each_other():
    shared = settings(fastmath=True)

    async def work(number: int) -> tuple[int, bool]:
        with shared, settings(beam=number):
            for _ in range(5):
                await asyncio.sleep(0)
            return current().beam, current().fastmath

    async def main() -> list[tuple[int, bool]]:
        with settings(threads=1):
            return await asyncio.gather(*(work(number) for number in range(10)))

    assert asyncio.run(main()) == [(number, True) for number in range(10)]
    assert current() == DEFAULT


def test_unknown_name_lists_the_valid_ones_and_the_closest():
    with pytest.raises(SettingsError) as caught:
        settings(beem=3)  # type: ignore[call-arg]
    text = str(caught.value)
    assert "unknown setting 'beem'" in text
    assert "did you mean 'beam'?" in text
    assert all(item.name in text for item in fields(Settings))


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({"beam": -1}, "an integer >= 0"),
        ({"beam": True}, "an integer >= 0"),
        ({"beam": "4"}, "an integer >= 0"),
        ({"beam": None}, "an integer >= 0"),
        ({"threads": 0}, "an integer >= 1 | none"),
        ({"fastmath": 1}, "true | false"),
        ({"check": "everything"}, "'none' | 'spec' | 'expensive' | 'all' | 'nan'"),
        ({"devectorize": 3}, "0 | 1 | 2"),
        ({"devectorize": True}, "0 | 1 | 2"),
        ({"target": None}, "text"),
        ({"cache_dir": 3}, "text | none"),
    ],
)
def test_bad_values_are_refused_where_they_are_written(changes, valid: str):
    with pytest.raises(SettingsError) as caught:
        settings(**changes)
    ((name, value),) = changes.items()
    location = caught.value.location
    assert location is not None
    assert location.file == __file__
    assert str(caught.value) == f"setting {name} cannot be {value!r}; at {location}; valid: {valid}"
    with pytest.raises(SettingsError):
        Settings(**changes)


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        current().beam = 3  # type: ignore[misc]


def test_environment_is_typed():
    found = from_environment(
        {
            "PLANISH_BEAM": "4",
            "PLANISH_THREADS": "none",
            "PLANISH_FASTMATH": "1",
            "PLANISH_CONTRACT": "Off",
            "PLANISH_CHECK": "SPEC",
            "PLANISH_DEVECTORIZE": "0",
            "PLANISH_CACHE_DIR": "/Some/Path",
            "PLANISH_DUMP_DIR": "",
            "PATH": "/usr/bin",
        }
    )
    assert found == Settings(beam=4, fastmath=True, check="spec", devectorize=0, cache_dir="/Some/Path")
    assert from_environment({}) == DEFAULT
    for word in ("true", "YES", "on", "1"):
        assert from_environment({"PLANISH_DETERMINISTIC": word}).deterministic is True
    for word in ("false", "No", "off", "0"):
        assert from_environment({"PLANISH_DETERMINISTIC": word}).deterministic is False


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("PLANISH_BEAM", "four", "PLANISH_BEAM cannot be 'four'; valid: an integer >= 0"),
        ("PLANISH_BEAM", "", "PLANISH_BEAM cannot be ''; valid: an integer >= 0"),
        ("PLANISH_BEAM", "1_0", "PLANISH_BEAM cannot be '1_0'; valid: an integer >= 0"),
        ("PLANISH_THREADS", "0", "PLANISH_THREADS cannot be '0'; valid: an integer >= 1 | none"),
        ("PLANISH_FASTMATH", "maybe", "PLANISH_FASTMATH cannot be 'maybe'; valid: true | false"),
        (
            "PLANISH_DEBUG",
            "verbose",
            "PLANISH_DEBUG cannot be 'verbose'; valid: 'none' | 'ir' | 'kernels' | 'errors'",
        ),
    ],
)
def test_bad_environment_values_name_the_variable(variable: str, text: str, message: str):
    with pytest.raises(SettingsError) as caught:
        from_environment({variable: text})
    assert str(caught.value) == message


def test_unknown_variables_are_refused():
    with pytest.raises(
        SettingsError, match=r"unknown environment variable 'PLANISH_BEEM'; did you mean 'PLANISH_BEAM'\?"
    ):
        from_environment({"PLANISH_BEEM": "3"})


def test_environment_is_read_once_at_first_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLANISH_BEAM", "6")
    assert current().beam == 6
    monkeypatch.setenv("PLANISH_BEAM", "7")
    assert current().beam == 6


def test_importing_planish_does_not_read_the_environment():
    script = "import planish, planish.config as c; print('imported'); c.current()"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PLANISH_BEAM": "bad"},
        cwd=Path(planish.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "imported\n"
    assert "SettingsError: PLANISH_BEAM cannot be 'bad'" in ran.stderr


def test_typed_changes_mirror_the_settings():
    assert typing.get_type_hints(config.Changes) == typing.get_type_hints(Settings)


def test_every_setting_is_described_and_documented():
    rows = config.describe()
    assert [row[0] for row in rows] == [item.name for item in fields(Settings)]
    document = (Path(__file__).parent.parent / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, default, takes, doc in rows:
        assert f"| `{name}` | `{default}` | {takes.replace('|', 'or')} | {doc} |" in document


def test_public_name_is_the_context_manager():
    with planish.settings(beam=9):
        assert current().beam == 9


def test_settings_of_a_command_are_nobodys_line():
    with pytest.raises(SettingsError) as caught, in_environment({"thread": "1"}):
        pass
    assert caught.value.location is None
    with pytest.raises(SettingsError) as told:
        settings(thread=1)  # type: ignore[call-arg]
    assert told.value.location is not None
    assert told.value.location.file == __file__
