"""The server: for whoever has the token, from this machine, and nobody else."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planish.errors import PlanishError
from planish.target import host
from planish.viz import machine
from planish.viz.export import PAGE_FOLDER, exported
from planish.viz.machine import this_machine
from planish.viz.recording import Recording
from planish.viz.server import HOST, VizServer


@pytest.fixture(scope="module")
def server(recording: Recording) -> Iterator[VizServer]:
    made = VizServer(recording)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def ask(
    server: VizServer, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, gzip.decompress(data) if answer.headers["Content-Encoding"] == "gzip" else data


def test_it_listens_on_the_loopback_interface_only(server: VizServer):
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32


@pytest.mark.parametrize("path", ["/", "/api/index.json", "/page.js", "/api/search?q=x", "/api/export"])
@pytest.mark.parametrize("token", ["", "?token=", "?token=wrong", "?token=é"])
def test_nothing_without_the_token(server: VizServer, path: str, token: str):
    joined = path + (token.replace("?", "&") if "?" in path else token)
    answer, data = ask(server, joined.encode("utf-8").decode("latin-1") if joined.isascii() else path)
    assert answer.status == 403
    assert b"token" in data
    assert answer.headers["Set-Cookie"] is None


def test_the_token_is_handed_on_as_a_cookie(server: VizServer):
    answer, _ = ask(server, f"/?token={server.token}")
    assert answer.status == 200
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    answer, data = ask(server, "/api/index.json", Cookie=cookie.partition(";")[0])
    assert answer.status == 200
    assert json.loads(data)["live"] is True
    assert ask(server, "/api/index.json", Cookie=f"planish_viz_{server.port}=wrong")[0].status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "0.0.0.0:1", ""])
def test_other_names_are_refused(server: VizServer, host: str):
    assert ask(server, f"/?token={server.token}", Host=host)[0].status == 421


def test_other_sites_are_refused(server: VizServer):
    path = f"/api/index.json?token={server.token}"
    assert ask(server, path, Origin="http://evil.example")[0].status == 403
    assert ask(server, path, Origin=f"http://127.0.0.1:{server.port}")[0].status == 200


def test_a_page_may_load_nothing_from_elsewhere(server: VizServer):
    answer, _ = ask(server, f"/?token={server.token}")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_answers_are_compressed_for_those_who_can(server: VizServer):
    path = f"/api/p0/k/0/stage/14.json?token={server.token}"
    packed, data = ask(server, path, Accept_Encoding="gzip")
    plain, same = ask(server, path)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Content-Encoding"] is None
    assert data == same
    assert int(packed.headers["Content-Length"]) < len(data) / 3


def test_what_is_not_there_is_an_error_with_words(server: VizServer):
    for path in ("/api/p0/k/0/stage/99.json", "/etc/passwd", "/api/../../etc/passwd", "/page.css.map"):
        answer, data = ask(server, f"{path}?token={server.token}")
        assert answer.status == 404
        assert "there is no" in json.loads(data)["error"]


def test_search(server: VizServer):
    answer, data = ask(server, f"/api/search?q=reduce&token={server.token}")
    assert answer.status == 200
    assert any(kind == "kernel" for kind, _, _ in json.loads(data)["results"])


def post(server: VizServer, body: Any, kind: str = "application/json") -> tuple[int, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    answer, data = ask(server, f"/api/schedule?token={server.token}", "POST", text, Content_Type=kind)
    return answer.status, json.loads(data)


def test_a_schedule_is_tried(server: VizServer):
    status, answer = post(server, {"kernel": "p0/k/1", "schedule": "upcast(j, 32)", "measure": False})
    assert status == 200
    assert answer["legal"]
    assert answer["levels"]["llir"]
    assert answer["estimate_us"] > 0
    status, answer = post(server, {"kernel": "p0/k/1", "schedule": "upcast(nothing, 3)"})
    assert status == 200
    assert not answer["legal"]
    assert answer["refused"]["step"] == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("no json", 400),
        ([], 400),
        ({"kernel": "p0/k/1"}, 400),
        ({"kernel": 3, "schedule": "x"}, 400),
        ({"kernel": "p0/k/1/../..", "schedule": ""}, 400),
        ({"kernel": "p0/k/77", "schedule": ""}, 404),
        ({"kernel": "b/p0/k/0", "schedule": ""}, 404),
        ({"kernel": "p0/k/1", "schedule": "", "measure": "yes"}, 400),
        ("x" * 100_000, 413),
    ],
)
def test_what_is_posted_is_checked(server: VizServer, body: Any, status: int):
    assert post(server, body)[0] == status


def test_a_form_of_another_site_cannot_post(server: VizServer):
    assert post(server, {"kernel": "p0/k/1", "schedule": ""}, "text/plain")[0] == 415


def test_a_port_that_is_taken(server: VizServer, recording: Recording):
    with pytest.raises(PlanishError, match="cannot listen"):
        VizServer(recording, server.port).server_close()


# -- exports -----------------------------------------------------------------------------------------------------------


def unpacked(page: str) -> dict[str, Any]:
    form = r'<script type="application/octet-stream" data-path="([^"]+)">([^<]*)</script>'
    return {
        name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in re.findall(form, page)
    }


@pytest.fixture(scope="module")
def page(recording: Recording) -> str:
    return exported(recording, steps=2)


def test_an_export_holds_the_documents(page: str):
    found = unpacked(page)
    assert found["index.json"]["live"] is False
    kernel = found["index.json"]["programs"][0]["kernels"][0]
    assert all(f"p0/k/0/stage/{int(row[0])}.json" in found for row in kernel["stages"])
    assert all(f"p0/k/0/level/{level}.json" in found for level in kernel["levels"])
    assert {"search.json", "p0/memory.json", "p0/k/0/why.json", "r0/timeline.json"} <= set(found)
    assert sum("/step/" in name and name.startswith("p0/k/0/") for name in found) == 2
    assert "http://" not in page.partition("<body")[0].replace("http://www.w3.org", "")


def test_an_export_runs_its_own_script_alone(page: str):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]
    if (PAGE_FOLDER / "page.js").is_file():
        assert "page.js" not in page
        assert "page.css" not in page


def test_the_machine_is_measured_on_request(
    server: VizServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = f"/api/measure?token={server.token}"
    answer, _ = ask(server, path, "POST", "{}", Content_Type="application/json")
    assert answer.status == 404  # it was not told how
    rates = {
        "threads": this_machine().threads,
        "peak_gflops": {"float32": 80.0, "float64": 40.0},
        "core_read_gbytes": {"L1": 100.0, "L2": 50.0, "memory": 9.0},
        "memory_gbytes": 12.5,
    }
    monkeypatch.setattr(machine, "_place", lambda: tmp_path / "capability.json")
    monkeypatch.setattr(server, "measure", lambda: {"cpu": rates})
    assert this_machine().rooflines[host().name].source != machine.MEASURED
    answer, data = ask(server, path, "POST", "{}", Content_Type="application/json")
    assert answer.status == 200, data
    found = json.loads(data)[host().name]
    assert found["source"] == machine.MEASURED
    assert found["gflops"] == {"f32": 80.0, "f64": 40.0}
    assert found["gbs"]["memory"] == 12.5
    _, data = ask(server, f"/api/index.json?token={server.token}")
    assert json.loads(data)["machine"]["rooflines"][host().name] == found
    assert this_machine().rooflines[host().name].source == machine.MEASURED
