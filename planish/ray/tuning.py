"""A tuning campaign whose candidates run on the workers of a Ray cluster.

What a search measures goes to a sandbox; here that is one of many benches, an actor on each worker, with a sandbox of its own there. Times are
compared, so only workers whose machine is the same as this one (processor, features, cores) have a bench. Candidates are handed out one by
one; the finalists meet on one bench. A bench whose worker dies is replaced by another, and its candidate is handed out again: what was
measured stays. Winners are stored here, under the name that the machines share.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from planish.compiler import tuning
from planish.compiler.campaign import Campaign
from planish.config import current
from planish.errors import PlanishError
from planish.ray.cluster import connected
from planish.records import dataclass
from planish.runtime.sandbox import CandidateReport, Sandbox, Trial, TrialBuffer
from planish.target import find as find_target

_START: Final = 120.0
"""Seconds that a worker may take to start."""
_ATTEMPTS: Final = 3
"""How often a candidate is handed out, if benches die under it."""


class Bench:
    """On a worker: a sandbox, for one kernel after another. Candidates that crash end a process of the sandbox, not this one."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    def machine(self, target: str) -> str:
        """What winners of this machine are called."""
        return tuning.machine_name(find_target(target))

    def begin(
        self, places: Sequence[TrialBuffer], threads: int, environment: Mapping[str, str], device: int | None
    ) -> None:
        """Another kernel."""
        self.end()
        self._sandbox = Sandbox(places, threads, workers=1, environment=environment, device=device)
        self._sandbox.__enter__()

    def ask(self, name: str, *given: Any) -> Any:
        """A method of the sandbox."""
        return getattr(self._sandbox, name)(*given)

    def end(self) -> None:
        """The kernel is done with."""
        if self._sandbox is not None:
            self._sandbox.__exit__(None, None, None)
            self._sandbox = None


@dataclass(slots=True)
class Cluster:
    """The benches of a campaign."""

    ray: Any
    machine: str
    target: str
    wanted: int
    benches: list[Any] = field(default_factory=list)
    lost: int = 0
    """Benches whose workers died."""
    unlike: int = 0
    """Workers that are machines of another kind."""

    def start(self) -> Any | None:
        """One more bench, on a worker of this kind; None if there is none."""
        bench = self.ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Bench).remote()
        try:
            machine = self.ray.get(bench.machine.remote(self.target), timeout=_START)
        except (self.ray.exceptions.RayError, TimeoutError):
            self.ray.kill(bench)
            return None
        if machine != self.machine:
            self.unlike += 1
            self.ray.kill(bench)
            return None
        self.benches.append(bench)
        return bench

    def fill(self) -> None:
        """As many benches as are wanted, and as there are workers for."""
        for _ in range(self.wanted - len(self.benches)):
            self.start()
        if not self.benches:
            raise PlanishError(
                f"no worker of the cluster is a machine like this one ({self.machine})",
                remedy="run the campaign on a machine of the kind that the workers are",
            )

    def lose(self, bench: Any) -> None:
        """A worker has died."""
        self.lost += 1
        self.benches.remove(bench)

    def close(self) -> None:
        """Give the workers back."""
        for bench in self.benches:
            self.ray.kill(bench)
        self.benches.clear()


class SpreadSandbox:
    """The sandbox of one kernel, on all benches."""

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[TrialBuffer],
        threads: int,
        *,
        workers: int = 1,
        environment: Mapping[str, str] | None = None,
        device: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._setup = (tuple(places), threads, dict(environment or {}), device)
        self._told: list[tuple[Any, ...]] = []
        """What every bench has to be told before it measures: the reference."""
        self._ready: set[Any] = set()

    def __enter__(self) -> Self:
        self._cluster.fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bench in self._cluster.benches:
            bench.end.remote()

    def remember(self, kernel: Trial, seconds: float, points: Sequence[int] = ()) -> float:
        """Every bench runs the unoptimised kernel; how long the first took."""
        return float(self._tell("remember", kernel, seconds, tuple(points)))

    def extend(self, kernel: Trial, seconds: float) -> str | None:
        """As `Sandbox.extend`, on every bench; what the first says."""
        reply = self._tell("extend", kernel, seconds)
        return None if reply is None else str(reply)

    def measure(self, kernels: Sequence[Trial], best: float) -> list[CandidateReport]:
        """Each candidate on whichever bench is free."""
        ray = self._cluster.ray
        waiting = deque((number, 0) for number in range(len(kernels)))
        reports: dict[int, CandidateReport] = {}
        running: dict[Any, tuple[Any, int, int]] = {}
        while waiting or running:
            busy = {bench for bench, _, _ in running.values()}
            for bench in [bench for bench in self._benches() if bench not in busy]:
                if waiting:
                    number, attempts = waiting.popleft()
                    running[bench.ask.remote("measure", [kernels[number]], best)] = (
                        bench,
                        number,
                        attempts + 1,
                    )
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            bench, number, attempts = running.pop(done)
            try:
                (reports[number],) = ray.get(done)
            except ray.exceptions.RayActorError:
                self._cluster.lose(bench)
                if attempts < _ATTEMPTS:
                    waiting.append((number, attempts))
                else:
                    reports[number] = CandidateReport("crashed", detail="the workers that ran it died")
        return [reports[number] for number in range(len(kernels))]

    def contest(self, kernels: Sequence[Trial], seconds: float) -> list[list[float]]:
        """The finalists in turn, all on one bench: others would differ in more than the schedule."""
        times: list[list[float]] = self._first("contest", list(kernels), seconds)
        return times

    def _tell(self, name: str, *given: Any) -> Any:
        """All benches; one that comes later hears it as well. What the first answers."""
        self._benches()
        self._told.append((name, *given))
        asked = [(bench, bench.ask.remote(name, *given)) for bench in self._cluster.benches]
        answers = []
        for bench, answer in asked:
            try:
                answers.append(self._cluster.ray.get(answer))
            except self._cluster.ray.exceptions.RayActorError:
                self._cluster.lose(bench)
        if answers:
            return answers[0]
        self._told.pop()
        return self._tell(name, *given)

    def _first(self, name: str, *given: Any) -> Any:
        while True:
            bench = self._benches()[0]
            try:
                return self._cluster.ray.get(bench.ask.remote(name, *given))
            except self._cluster.ray.exceptions.RayActorError:
                self._cluster.lose(bench)

    def _benches(self) -> list[Any]:
        """All benches, each with this kernel and what it has to know; those that died are replaced."""
        ray, cluster = self._cluster.ray, self._cluster
        while True:
            cluster.fill()
            for bench in [bench for bench in cluster.benches if bench not in self._ready]:
                try:
                    ray.get(bench.begin.remote(*self._setup))
                    for told in self._told:
                        ray.get(bench.ask.remote(*told))
                except ray.exceptions.RayActorError:
                    cluster.lose(bench)
                    break
                self._ready.add(bench)
            else:
                return list(cluster.benches)


@contextmanager
def tune(
    campaign: Campaign | None = None, *, address: str | None = None, workers: int | None = None
) -> Iterator[Campaign]:
    """Inside, the candidates of every search run on the workers of a Ray cluster whose machine is like this one.

    `campaign` bounds and records the searches (by default one without an end); `settings(beam=…)` asks for them. `address` is the cluster's (None: one on
    this machine), `workers` how many candidates are measured at the same time; by default one on each node, because candidates that share a
    machine disturb each other.
    """
    ray = connected(address)
    going = Campaign() if campaign is None else campaign
    target = current().target
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    cluster = Cluster(ray, tuning.machine_name(find_target(target)), target, workers or max(1, len(nodes)))
    before = going.sandbox
    going.sandbox = partial(SpreadSandbox, cluster)
    try:
        with going:
            yield going
    finally:
        going.sandbox = before
        cluster.close()
        if cluster.unlike:
            warnings.warn(
                f"{cluster.unlike} workers took no part: they are machines of another kind than {cluster.machine}",
                tuning.TuningWarning,
                stacklevel=3,
            )
