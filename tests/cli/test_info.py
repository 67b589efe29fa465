from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

import planish
from planish.cli.info import cache_directory, numbers_of_devices, settings_in_force
from planish.config import Settings, describe, from_environment
from planish.runtime.limits import Limits
from planish.runtime.memory import available_memory
from planish.target import TARGETS, Target
from tests.cli.conftest import Cli


def test_text_names_versions_machine_settings_and_cache(cli: Cli):
    ran = cli("info")
    assert (ran.status, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["planish", planish.__version__] in lines
    assert ["python", platform.python_version()] in lines
    assert any(line[0] == "features" and len(line) > 1 for line in lines)
    assert ["beam", "0", "(default)"] in lines
    assert ["memory", f"{available_memory() >> 20}", "MiB,", "up", "to", f"{available_memory() >> 23}", "MiB", "kept", "between", "calls"] in lines  # fmt: skip
    assert lines[-1][0] == "cache_dir:"


def test_numbers_of_other_machines_that_are_here_are_told(monkeypatch: pytest.MonkeyPatch):
    class Kind:
        def target(self, number: int) -> Target:
            return TARGETS["sm_90"]

    monkeypatch.setattr("planish.cli.info.devices", lambda: ("cpu", "cuda:0", "cuda:1"))
    monkeypatch.setattr("planish.cli.info.kind_of", lambda device: (Kind(), 0))
    found = numbers_of_devices()
    assert list(found) == ["numbers of sm_90"]
    assert found["numbers of sm_90"]["shares.block"] == "256"


def test_json_has_every_setting(cli: Cli):
    record = json.loads(cli("info", "--json").out)
    assert list(record["settings"]) == [name for name, *_ in describe()]
    assert record["versions"]["numpy"] is not None
    assert record["machine"]["llvm"][0].isdigit()


def test_settings_say_where_they_come_from(monkeypatch: pytest.MonkeyPatch):
    environment = {"PLANISH_BEAM": "4", "HOME": "/nowhere"}
    monkeypatch.setattr("planish.cli.info.current", lambda: from_environment(environment))
    found = settings_in_force(environment)
    assert found["beam"] == {"value": 4, "source": "PLANISH_BEAM"}
    assert found["threads"] == {"value": None, "source": "default"}
    monkeypatch.setattr("planish.cli.info.current", lambda: Settings(beam=2))
    assert settings_in_force(environment)["beam"] == {"value": 2, "source": "set in this process"}


def test_the_cache_is_where_the_setting_says_or_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch):
    with planish.settings(cache_dir=None):
        assert cache_directory({"XDG_CACHE_HOME": "/c"}) == Path("/c/planish")
        assert cache_directory({}) == Path.home() / ".cache" / "planish"
    with planish.settings(cache_dir="/d"):
        assert cache_directory({"XDG_CACHE_HOME": "/c"}) == Path("/d")


def test_a_broken_llvm_is_reported_not_raised(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "llvmlite", None)
    ran = cli("info")
    assert ran.status == 0
    assert "llvm      cannot be loaded: " in ran.out


def test_a_machine_that_runs_nothing_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    assert "runs      compiled code" in cli("info").out
    monkeypatch.setattr("llvmlite.binding.get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    assert (
        "runs      compiled code runs on x86-64 Linux, and this is aarch64-unknown-linux-gnu\n"
        in cli("info").out
    )


def test_what_the_machine_can_do_is_measured_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    class FakeMeter:
        def __init__(self, sandbox: object, lanes: int) -> None:
            """A machine that is known."""

        def flops(self, bits: int) -> float:
            return 3.2e12 / bits

        def limits(self) -> Limits:
            return Limits(1e11, 1.23456e10)

    monkeypatch.setattr("planish.cli.capability.Meter", FakeMeter)
    monkeypatch.setattr("planish.cli.capability.read_rates", lambda m: [1e12] * len(m.caches) + [1e9])
    monkeypatch.setattr("planish.cli.capability._SIDE", {"cpu": 16})
    record = json.loads(cli("info", "--measure", "--json").out)["measured"]["cpu"]
    assert record["peak_gflops"] == {"float32": 100.0, "float64": 50.0}
    assert record["memory_gbytes"] == 12.3
    assert list(record["core_read_gbytes"]) == [*record["caches"], "memory"]
    assert set(record["product_gflops"]) == {"float64", "float32", "bfloat16", "float16", "int8"}
    assert all(rate > 0 for rate in record["product_gflops"].values())
    assert "measured on cpu:" in cli("info", "--measure").out
    assert "measured" not in json.loads(cli("info", "--json").out)
