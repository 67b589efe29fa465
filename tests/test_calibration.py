"""The calibration of a machine: what is kept, what is believed, and who uses it."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields, replace
from pathlib import Path

import pytest

from planish.config import settings
from planish.runtime import calibrate
from planish.target import TARGETS, Target, calibration, find, host, model_name
from planish.target.calibration import CalibrationWarning, load, path_in, save

NUMBERS: calibration.Numbers = {"ports": 1.5, "latency": 3.0, "bytes_per_cycle": (30.0, 20.0, 5.0)}
V4 = TARGETS["x86-64-v4"]


@pytest.fixture
def levels() -> int:
    with settings(calibration=False):
        return len(host().bytes_per_cycle)


def test_what_was_measured_are_fields_of_a_target() -> None:
    measured = {*calibration.RATES, calibration.LEVELS}
    assert measured.isdisjoint(calibration.TIMED)
    assert {*measured, *calibration.TIMED} <= {field.name for field in fields(Target)}
    seconds = {name: 1e-9 for name, _ in calibrate.probes(V4)}
    found = calibrate.numbers({**seconds, "launch": 1e-7})
    assert {*found} == {*calibration.RATES, calibration.LEVELS}
    assert found["launch"] == 100.0  # cycles of a nanosecond
    assert found["cycle_ns"] == 1.0
    assert found["bytes_per_cycle"] == (1.0, 1.0, 1.0)


def test_what_was_timed_is_told_number_by_number() -> None:
    told = calibration.timed(V4)
    assert told["turned_rows"] == V4.turned_rows
    assert told["ready_products.piece_rows"] == V4.ready_products.piece_rows
    assert all(isinstance(value, int | float | tuple) for value in told.values())
    assert {name.partition(".")[0] for name in told} == {*calibration.TIMED}


def test_of_a_gpu_other_numbers_were_timed() -> None:
    gpu = find("sm_90")
    told = calibration.timed(gpu)
    assert told["shares.busy_threads"] == gpu.shares.busy_threads
    assert gpu.rates is not None
    assert told["rates.memory"] == gpu.rates.memory
    assert {name.partition(".")[0] for name in told} == {*calibration.TIMED_ON_GPUS}


def test_every_number_of_a_record_is_in_the_key_of_compiled_code() -> None:
    faster = replace(V4, ready_products=replace(V4.ready_products, piece_rows=49))
    assert faster != V4
    assert faster.in_full() != V4.in_full()


def test_rates_are_per_cycle_and_latencies_in_cycles() -> None:
    seconds = {name: 1e-9 for name, _ in calibrate.probes(V4)}
    found = calibrate.numbers({**seconds, "clock": 5e-10, "latency": 2e-9, "loads": 2.5e-10})
    assert (found["latency"], found["loads"]) == (4.0, 2.0)


def test_what_each_cache_gives_is_read_from_that_cache() -> None:
    for target in (V4, TARGETS["x86-64-v3"], TARGETS["aarch64"]):
        near, far, memory = calibrate.working_sets(target)
        assert target.caches[0] < near <= target.caches[1] < far <= target.caches[2] < memory


def test_a_calibration_is_found_again(tmp_path: Path) -> None:
    path = path_in(tmp_path / "new")
    assert load(path, "this", 3) == {}
    save(path, "this", NUMBERS)
    assert load(path, "this", 3) == NUMBERS
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(path, "another machine", 3) == {}


def _written(path: Path, **changes: object) -> None:
    record = {"format": 1, "machine": "this", "numbers": {"ports": 1.0}}
    path.write_text(json.dumps({**record, **changes}))


def test_a_calibration_of_another_format_says_nothing(tmp_path: Path) -> None:
    _written(tmp_path / "c.json", format=2)
    assert load(tmp_path / "c.json", "this", 3) == {}


@pytest.mark.parametrize(
    "numbers",
    [
        {"ports": 0}, {"ports": -1.0}, {"ports": float("inf")}, {"ports": float("nan")}, {"ports": "2"}, {"ports": True},
        {"ports": [1.0]}, {"ports": 1e9}, {"registers": 8}, {"native": True}, {"bytes_per_cycle": [1.0, 2.0]},
        {"bytes_per_cycle": 4.0}, {"bytes_per_cycle": [1.0, 2.0, None]}, 7, None,
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_told_and_nothing_is_used(tmp_path: Path, numbers: object) -> None:
    _written(tmp_path / "c.json", numbers=numbers)
    with pytest.warns(CalibrationWarning, match="planish info --calibrate"):
        assert load(tmp_path / "c.json", "this", 3) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": 1}', "[" * 5000, "\udcff"])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.warns(CalibrationWarning):
        assert load(path, "this", 3) == {}


def test_only_the_host_is_calibrated_and_only_if_wanted(tmp_path: Path, levels: int) -> None:
    numbers: calibration.Numbers = {"ports": 1.25, "bytes_per_cycle": tuple([7.0] * levels)}
    save(path_in(tmp_path), model_name(), numbers)
    with settings(cache_dir=str(tmp_path)):
        assert host().ports == find("host").ports == 1.25
        assert host().bytes_per_cycle == (7.0,) * levels
        assert find("x86-64-v4") is V4  # a name stands for any such machine
        with settings(calibration=False):
            assert host().ports != 1.25
    with settings(cache_dir=str(tmp_path / "other")):
        assert host().ports != 1.25


def test_the_loops_that_measure_run(levels: int) -> None:
    """Every probe once, each of few iterations: what they find is a number."""
    told: list[tuple[int, int, str]] = []
    with settings(calibration=False):
        found = calibrate.measure(host(), lambda *how: told.append(how), rounds=1)
    text = json.dumps(found)
    assert calibration._checked(json.loads(text), levels) == found
    assert [number for number, _, _ in told] == list(range(len(told)))
    assert isinstance(found["latency"], float) and found["latency"] >= 1.0  # noqa: PT018 - the first is for mypy
