"""Profiles: every launch of a call with its line, as data first; the median of several after some to warm up."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.compiler import profile
from planish.errors import PlanishError
from planish.schedule.plan import Host, walk


def network(x, w):
    hidden = pn.tanh(x @ w)
    return pn.sum(hidden * 2.0, axis=1), pn.fori_loop(0, 5, lambda i, c: pn.sort(c + hidden, axis=1), hidden)


@pytest.fixture(name="compiled", scope="module")
def _compiled():
    x, w = (
        pn.asarray(np.random.default_rng(0).random(shape, dtype=np.float32)) for shape in ((8, 6), (6, 8))
    )
    return pn.jit(network).lower(x, w).compile(), x, w


def test_every_launch_is_a_record_with_the_line_that_asked_for_it(compiled):
    exe, x, w = compiled
    found = exe.profile(x, w, repeat=2)
    assert len(found) == len(exe._exe.lowered.plan.launches)
    first = network.__code__.co_firstlineno
    product = next(record for record in found if "dot_general" in record.ops)
    assert product.lines[0] == f"{__file__}:{first + 1} in network"
    assert product.calls == 1
    assert product.flops == next(k.flops for k in exe.kernels if k.name == product.kernel)
    # the sum stands on the same line as the loop, which is launched or has become a kernel of its own
    rest = [record for record in found if record is not product]
    assert len(rest) >= 2
    assert all(any(f":{first + 2} in network" in line for line in record.lines) for record in rest)
    assert [r.seconds for r in found] == sorted((r.seconds for r in found), reverse=True)
    assert (found.repeat, found.seconds) == (2, sum(r.seconds for r in found))
    assert all(0 < r.best <= r.seconds for r in found)


def test_launches_in_loops_are_counted():
    def doubled(x):
        return pn.while_loop(lambda c: pn.sum(c) < 100.0, lambda c: pn.sort(c * 2.0, axis=0), x)

    exe = pn.jit(doubled).lower(pn.TensorSpec((4,))).compile()
    found = exe.profile(pn.asarray(np.ones(4, np.float32)), repeat=2)
    # 4, 8, 16, 32, 64: five turns, and the condition once more
    assert {record.calls for record in found} == {5, 6}
    assert all(record.flops % record.calls == 0 for record in found)


def test_a_profile_reads_as_a_table(compiled):
    exe, x, w = compiled
    found = exe.profile(x, w, repeat=2)
    lines = str(found).splitlines()
    assert lines[0].split()[:4] == ["kernel", "calls", "ms", "share"]
    assert len(lines) == len(found) + 2
    assert "(median of 2)" in lines[-1]
    short = found.table(most=1).splitlines()
    assert short[2].startswith(f"{len(found) - 1} others")
    assert repr(found).startswith(f"<profile: {len(found)} launches, ")


def test_lines_are_named_although_the_code_comes_from_the_cache(tmp_path):
    x = pn.asarray(np.ones((4, 4), np.float32))
    with pn.settings(cache=True, cache_dir=str(tmp_path)):
        for _ in range(2):
            exe = pn.jit(lambda x: pn.exp(x) @ x).lower(x).compile()
            assert any(__file__ in line for record in exe.profile(x, repeat=1) for line in record.lines)


def test_the_median_counts_after_warming_up(monkeypatch: pytest.MonkeyPatch):
    # One sample in five is disturbed, and the first ones are not samples at all.
    samples = iter([9.0, 9.0, 9.0, 0.05, 4.3, 0.05, 0.04, 0.06])
    monkeypatch.setattr(profile.CpuWalk, "run", lambda self: [next(samples)])
    monkeypatch.setattr(profile.CpuWalk, "described", lambda self: [("k", 0, 0)])
    g = ptir.Graph("f")
    exe = compiler.compile(g.build(g.input("x", ptir.tensor("f32", (4,))).exp()))
    (record,) = exe.profile(repeat=5)
    assert (record.seconds, record.best) == (0.05, 0.04)


def test_made_up_arguments_fit_any_type():
    g = ptir.Graph("f")
    types = [
        ptir.tensor("f32", (2, "B"), B=(1, 6)),
        *(ptir.tensor(kind, (3,)) for kind in ("i8", "bool", "c64", "bf16")),
    ]
    exe = compiler.compile(g.build(*(g.input(f"x{number}", type) for number, type in enumerate(types))))
    assert [array.shape for array in profile.made_up(exe)] == [(2, 6), (3,), (3,), (3,), (3,)]
    assert exe.profile(repeat=1).repeat == 1


def test_what_is_donated_is_still_there_afterwards():
    g = ptir.Graph("f")
    exe = compiler.compile(g.build(g.input("x", ptir.tensor("f32", (64,))).exp()), donate=(0,))
    given = np.zeros(64, np.float32)
    exe.profile(given, repeat=3)
    assert not given.any()


def test_host_ops_are_part_of_it():
    exe = pn.jit(lambda x: pn.linalg.cholesky(x) + 1).lower(pn.TensorSpec((4, 4))).compile()
    found = exe.profile(pn.eye(4), repeat=1)
    hosts = [step.op.name for step in walk(exe._exe.lowered.plan.steps) if isinstance(step, Host)]
    assert [record.kernel for record in found if record.ops[-1].endswith(" on the host")] == hosts
    assert len(found) == len(hosts) + len(exe._exe.lowered.plan.launches)


def test_mistakes():
    g = ptir.Graph("f")
    lowered = compiler.lower(g.build(g.input("x", ptir.tensor("f32", (4,))).exp()))
    with pytest.raises(PlanishError, match="repeat is at least 1"):
        lowered.compile().profile(repeat=0)
    with pytest.raises(PlanishError, match="only machine code has a profile"):
        lowered.interpreted().profile()
    with pytest.raises(PlanishError, match="takes 1 arrays, not 2"):
        lowered.compile().profile(np.zeros(4, np.float32), np.zeros(4, np.float32))


def test_a_profile_is_data_and_traces(compiled, tmp_path):
    exe, x, w = compiled
    found = exe.profile(x, w, repeat=2)
    record = json.loads(json.dumps(found.to_dict()))
    assert [launch["kernel"] for launch in record["launches"]] == [r.kernel for r in found]
    assert record["launches"][0]["seconds"] == found.records[0].seconds
    found.to_chrome(tmp_path / "trace.json")
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    ran = [r for r in found if r.calls]
    assert len(events) == len(ran)
    # in the order of the plan, each behind the one before
    assert [e["name"] for e in events] == [r.kernel for r in sorted(ran, key=lambda r: r.position)]
    assert all(a["ts"] + a["dur"] == pytest.approx(b["ts"]) for a, b in pairwise(events))
    found.to_speedscope(tmp_path / "scope.json")
    scope = json.loads((tmp_path / "scope.json").read_text())
    (timeline,) = scope["profiles"]
    depth: list[int] = []
    for event in timeline["events"]:
        if event["type"] == "O":
            depth.append(event["frame"])
        else:
            assert depth.pop() == event["frame"]
    assert not depth
    assert timeline["endValue"] == pytest.approx(sum(e["dur"] for e in events))
    first = network.__code__.co_firstlineno
    assert {"file": __file__, "line": first + 1}.items() <= {
        **next(f for f in scope["shared"]["frames"] if f.get("line") == first + 1)
    }.items()
