"""The page on a real recording: what the recorder writes and the server answers is what the page reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.viz import rule_schema, schema
from planish.viz.documents import problems
from planish.viz.export import exported
from planish.viz.recording import Recording
from planish.viz.server import VizServer
from tests.viz.browser import Browser, Tab, browser, needs_browser
from tests.viz.synthetic import Compared, Synthetic, small

__all__ = ["browser"]  # a fixture

DOCUMENTS = {
    "index.json": schema.Index,
    "search.json": schema.SearchResults,
    "p0/pass/3.json": schema.Level,
    "p0/pass/3/steps/0.json": schema.StepPage,
    "p0/pass/3/step/1.json": schema.SingleStep,
    "p0/k/2/stage/9.json": schema.Level,
    "p0/k/2/stage/9/steps/0.json": schema.StepPage,
    "p0/k/2/stage/9/step/3.json": schema.SingleStep,
    "p0/k/2/level/llvm.json": schema.SourceText,
    "p0/k/2/why.json": schema.ScheduleWhy,
    "p0/beam/2.json": schema.ScheduleSearch,
    "p0/fusion.json": schema.FusionView,
    "p0/rule/u1.json": rule_schema.RuleFailures,
    "p0/k/2/stage/9/failed.json": rule_schema.Failed,
    "p0/k/2/stage/9/node/3.json": rule_schema.NodeWhy,
    "p0/memory.json": schema.MemoryPlan,
    "p0/patterns.json": rule_schema.Patterns,
    "r0/timeline.json": schema.LaunchTimeline,
}


@pytest.mark.parametrize("made", [small(), Compared(3, 40, 20, live=True)], ids=["one", "two"])
def test_made_up_recordings_are_of_the_form_of_real_ones(made: Synthetic):
    for path, kind in DOCUMENTS.items():
        assert list(problems(made(path), kind)) == [], path
    for schedule in ("upcast(j, 8)", "split(i, 7)"):
        assert list(problems(made.edited(schedule), schema.EditedSchedule)) == []


@pytest.fixture
def live(browser: Browser, recording: Recording) -> Iterator[Tab]:
    server = VizServer(recording)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    tab = Tab(page, server.url)
    yield tab
    page.close()
    server.shutdown()
    server.server_close()
    assert tab.faults == []


@needs_browser
def test_every_view_of_a_real_recording_opens(live: Tab, recording: Recording):
    (program, *_) = recording.index.programs
    kernel = program.kernels[0]
    stage = max(kernel.stages, key=lambda row: row[2])
    live.go("#/p0")
    live.sees("h1", program.name)
    places = [
        "p0/kernels",
        "p0/dataflow",
        "p0/pass/4",
        "p0/rules",
        "p0/fusion",
        "p0/memory",
        "p0/timeline",
        "p0/k/0",
        "p0/k/0/why",
        "p0/k/0/schedule",
    ]
    places += [f"p0/k/0/level/{level}" for level in kernel.levels]
    for place in [
        *places,
        f"p0/k/0/stage/{int(stage[0])}?step=0",
        f"p0/k/0/stage/{int(stage[0])}?show=graph",
    ]:
        live.go(f"#/{place}")
        live.sees("h1")
        live.settles()
        assert live.page.locator("[role=alert]").count() == 0, place


@needs_browser
def test_a_real_schedule_is_refused_and_compiled(live: Tab):
    page = live.go("#/p0/k/0/schedule")
    text = page.get_by_label("Actions one per line")
    recorded = text.input_value()
    text.fill("nonsense(i, 3)")
    text.press("Control+Enter")
    live.sees(".verdict.bad, .notice.bad", "nonsense")
    text.fill(recorded)
    text.press("Control+Enter")
    live.sees(".verdict.good")
    live.sees(".outcome", "Nothing changed in the text.")


@needs_browser
def test_a_real_export_opens_from_a_file(browser: Browser, recording: Recording, tmp_path: Path):
    file = tmp_path / "report.html"
    file.write_text(exported(recording, steps=3), "utf-8")
    page = browser.new_page()
    tab = Tab(page, file.as_uri())
    tab.go("#/p0")
    tab.sees("h1", recording.index.programs[0].name)
    tab.sees(".badge", "export")
    for place in ("p0/k/0/level/llvm", "p0/k/0/stage/1?step=0", "p0/fusion", "p0/timeline"):
        tab.go(f"#/{place}")
        tab.sees("h1")
        tab.settles()
        assert page.locator("[role=alert]").count() == 0, place
    page.close()
    assert tab.faults == []
