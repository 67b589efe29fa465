"""Winners: found by exactly what they were found for, whole or absent on disk, readable by people."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from planish.actions.base import Action
from planish.actions.stage import Stage
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.errors import PlanishError
from planish.optimize.winners import (
    Where,
    Winner,
    Winners,
    WinnersWarning,
    dumps,
    export,
    import_file,
    loads,
)

WHERE = Where("k1", "some machine", "rules 1", "fastmath=False")
ACTIONS = (
    Upcast("j", 32),
    Stage(2, None, pad=16),
    Thread("i"),
)


def winner(where: Where = WHERE, actions: tuple[Action, ...] = ACTIONS) -> Winner:
    return Winner(where, actions, 1e-3, 2e-3, "add 64x64")


def test_a_winner_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "winners.json"
    Winners(path).add(winner())
    found = Winners(path).find(WHERE)
    assert found == winner()
    assert found is not None
    assert found.gain == 2.0


@pytest.mark.parametrize("field", Where._fields)
def test_another_kernel_machine_rule_or_setting_finds_nothing(field: str, tmp_path: Path) -> None:
    store = Winners(tmp_path / "winners.json")
    store.add(winner())
    assert store.find(WHERE._replace(**{field: "other"})) is None


def test_a_newer_winner_takes_the_place_of_an_older() -> None:
    store = Winners()
    before = store.stamp
    store.add(winner())
    store.add(winner(actions=()))
    assert store.all() == [winner(actions=())]
    assert store.stamp != before


def test_processes_see_what_others_add(tmp_path: Path) -> None:
    path = tmp_path / "winners.json"
    one, other = Winners(path), Winners(path)
    assert one.find(WHERE) is None
    stamp = one.stamp
    other.add(winner())
    assert one.find(WHERE) == winner()
    assert one.stamp != stamp


def _add(path: str, number: int) -> None:
    for step in range(5):
        Winners(Path(path)).add(winner(WHERE._replace(kernel=f"{number}-{step}")))


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "winners.json"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(str(path), number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(Winners(path).all()) == 15
    assert not list(tmp_path.glob(".new-*"))


def test_the_file_is_for_people_too() -> None:
    whole = json.loads(dumps([winner()]))
    assert whole["format"] == "planish winners"
    assert whole["version"] == 2
    (record,) = whole["winners"]
    assert record["schedule"] == "upcast(j, 32); stage(arg2, pad=16); thread(i)"
    assert record["name"] == "add 64x64"
    assert record["machine"] == "some machine"


def changed(text: str, **changes: object) -> str:
    return json.dumps({**json.loads(text), **changes})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a file of winners"),
        ('{"format": "other"}', "not a file of winners"),
        (changed(dumps([winner()]), version=7), "version 7"),
        (changed(dumps([winner()]), winners=[]), "checksum"),
        (changed(dumps([winner()]), checksum="0"), "checksum"),
    ],
)
def test_a_file_that_does_not_add_up_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(PlanishError, match=complaint):
        loads(text)
    path = tmp_path / "winners.json"
    path.write_text(text)
    store = Winners(path)
    with pytest.warns(WinnersWarning, match=complaint):
        assert store.find(WHERE) is None
    assert path.read_text() == text  # whoever wants to look at it still can


def test_export_and_import(tmp_path: Path) -> None:
    there = [
        winner(),
        winner(WHERE._replace(kernel="k2", machine="another")),
        winner(WHERE._replace(kernel="k3", rules="rules 0")),
    ]
    assert export(there, tmp_path / "out.json") == 3
    store = Winners(tmp_path / "winners.json")
    found = import_file(tmp_path / "out.json", store, "some machine", "rules 1")
    assert (found.usable, found.elsewhere, found.outdated) == (1, 1, 1)
    assert sorted(store.all(), key=lambda w: w.where.kernel) == there


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Winners(tmp_path / "file" / "winners.json")
    with pytest.warns(WinnersWarning, match="not kept"):
        store.add(winner())
    assert store.find(WHERE) == winner()  # for this process
