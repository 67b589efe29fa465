"""On a Ray cluster of this machine: batches are mapped and candidates measured, and a worker that dies costs its own work only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.compiler.campaign import Campaign
from planish.errors import PlanishError
from planish.ray.batches import Compiler, Mapper

ray = pytest.importorskip("ray")


def test_a_mapper_fills_short_batches_and_adds_columns() -> None:
    sizes = []

    def double(x: Any) -> Any:
        sizes.append(len(x))
        return pn.asarray(x) * 2, pn.sum(pn.asarray(x), axis=1)

    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    made = Mapper(double, ["x"], ["y", "z"], 4)({"x": given, "id": np.arange(3)})
    np.testing.assert_array_equal(made["y"], given * 2)
    np.testing.assert_array_equal(made["z"], given.sum(1))
    np.testing.assert_array_equal(made["id"], np.arange(3))
    assert sizes == [4]


@pytest.mark.parametrize(
    ("model", "told"), [(lambda x: (x, x), "gives 2 results"), (lambda x: x.sum(), r"the shape \(\)")]
)
def test_a_model_that_cannot_be_mapped_is_one_error(model: Any, told: str) -> None:
    with pytest.raises(PlanishError, match=told):
        Mapper(model, ["x"], ["y"], 2)({"x": np.ones((2, 3))})


def test_an_artefact_is_all_that_a_worker_needs(tmp_path: Path) -> None:
    from planish.compiler.object_code import counters

    batch = {"x": np.ones((3, 5), np.float32)}

    def model(x: Any) -> Any:
        return pn.tanh(pn.asarray(x)) * 1.5 + 0.123

    with pn.settings(cache=True, cache_dir=str(tmp_path)):
        artefact = Compiler().artefact(pn.jit(model), ["x"], ["y"], batch, 4)
        before = counters.compiled
        made = Mapper(pn.jit(model), ["x"], ["y"], 4, artefact)(batch)
    assert artefact
    assert counters.compiled == before
    np.testing.assert_allclose(made["y"], np.tanh(batch["x"]) * 1.5 + 0.123, rtol=1e-6)


def test_functions_under_jit_go_to_other_processes() -> None:
    import pickle

    from tests.on_ray import jitted

    assert pickle.loads(pickle.dumps(jitted.twice)) is jitted.twice
    local = pn.jit(jitted.thrice)
    there = pickle.loads(pickle.dumps(local))
    np.testing.assert_array_equal(np.asarray(there(np.ones(2, np.float32))), [3, 3])


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    root = str(Path(__file__).parents[2])
    ray.init(
        num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])), "PLANISH_THREADS": "1"}},
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_batches_are_mapped_and_a_dead_worker_loses_nothing(cluster: None, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import planish.ray

    died = tmp_path / "died"

    def model(x: Any) -> Any:
        if x[0, 0] == 400 and not died.exists():
            died.write_text("once")
            os.kill(os.getpid(), signal.SIGKILL)
        return pn.asarray(x) * 2 + 1

    rows = np.arange(1000, dtype=np.float32).reshape(1000, 1)
    dataset = ray.data.from_numpy(rows).repartition(10)
    found = planish.ray.map(model, dataset, inputs=["data"], outputs=["y"], batch_size=100, workers=2)
    made = sorted(row["y"][0] for row in found.take_all())
    assert died.exists()
    assert made == (rows[:, 0] * 2 + 1).tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_candidates_are_measured_and_a_dead_worker_loses_nothing(cluster: None, tmp_path: Path) -> None:
    import planish.ray
    from planish.compiler import tuning

    def kill_one(name: str, progress: Any) -> None:
        """When the search has seen something, one of its workers goes."""
        spread = going.sandbox.args[0]  # type: ignore[attr-defined]
        if progress.measured > 1 and not spread.lost and len(spread.benches) == 2 and not killed:
            killed.append(name)
            ray.kill(spread.benches[1])

    killed: list[str] = []
    going = Campaign(total=60, told=kill_one)
    with (
        planish.ray.tune(going, workers=2),
        pn.settings(beam=2, beam_budget=8, cache=True, cache_dir=str(tmp_path), threads=1),
    ):
        a, b = np.ones((96, 80), np.float32), np.ones((80, 64), np.float32)
        got = np.asarray(pn.jit(lambda a, b: pn.asarray(a) @ pn.asarray(b))(a, b))
        assert len(tuning.winners().all()) == 1
    np.testing.assert_array_equal(got, a @ b)
    assert killed
    assert going.kernels[0].seconds > 0
