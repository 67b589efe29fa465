"""The server of the page: one recording, on the loopback interface, for whoever has the token.

No request leaves the machine, and none is answered that does not come from this page: the token is random and compared in constant
time, the Host must be the loopback address (so that no other site can speak in its name), what is posted must be JSON from
the page itself, and the page may load nothing from elsewhere (Content-Security-Policy).
"""

from __future__ import annotations

import gzip
import hmac
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from planish._version import __version__
from planish.errors import PlanishError
from planish.target import find
from planish.viz.documents import plain
from planish.viz.edit import edited
from planish.viz.export import exported, page_file
from planish.viz.machine import keep, this_machine
from planish.viz.recording import Comparison, Documents
from planish.viz.schema import Roofline
from planish.viz.search import search

HOST: Final = "127.0.0.1"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src blob:; "
    "img-src data: 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES: Final = {
    "": ("index.html", "text/html; charset=utf-8"),
    "index.html": ("index.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "NOTICES.txt": ("NOTICES.txt", "text/plain; charset=utf-8"),
}
_KERNEL: Final = re.compile(r"(b/)?p(\d{1,6})/k/(\d{1,9})")
_COOKIE: Final = "planish_viz"
_POSTED: Final = 'post {"kernel": "p0/k/3", "schedule": "upcast(j, 16)", "measure": false}'
_LONGEST_BODY: Final = 1 << 16
_WORTH_PACKING: Final = 1 << 10
"""Bytes from which on an answer is compressed."""


Measure = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Tells what each device can do (`planish info --measure`)."""


class RequestError(Exception):
    """A request that is not answered: its status, and why."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class VizServer(ThreadingHTTPServer):
    """Serves one recording until it is closed."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, recording: Documents, port: int = 0, measure: Measure | None = None) -> None:
        self.recording = recording
        self.measure = measure
        self.rooflines: dict[str, Roofline] = {}
        """What was measured since the recording was made."""
        self.token = secrets.token_urlsafe(24)
        self.lock = threading.Lock()
        """Documents are made one at a time: views keep what they made, and a table of nodes is no place for two."""
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise PlanishError(
                f"cannot listen on port {port}: {error.strerror or error}", remedy="--port 0 takes a free one"
            ) from None

    @property
    def port(self) -> int:
        """That it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """What to open."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: VizServer
    protocol_version = "HTTP/1.1"
    server_version = f"planish/{__version__}"
    sys_version = ""
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: addresses hold the token."""

    # -- requests --------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _answered(self, answer: Callable[[str, Mapping[str, list[str]]], None]) -> None:
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=16)
            self._check(query)
            answer(unquote(parts.path), query)
        except RequestError as error:
            self._send_json({"error": error.reason}, error.status)
        except (PlanishError, ValueError) as error:
            self._send_json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except OSError:  # the browser has gone
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - shown on the page; the server goes on
            self._send_json(
                {"error": f"this is a bug in planish: {type(error).__name__}: {error}"},
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )

    def _check(self, query: Mapping[str, list[str]]) -> None:
        """Whether the request comes from somebody who was given the address."""
        host = self.headers.get("Host", "")
        if host not in {f"{HOST}:{self.server.port}", f"localhost:{self.server.port}"}:
            raise RequestError(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}"}:
            raise RequestError(HTTPStatus.FORBIDDEN, "requests of other sites are not answered")
        given = [*query.get("token", []), *self._cookie()]
        if not any(hmac.compare_digest(each.encode(), self.server.token.encode()) for each in given):
            raise RequestError(
                HTTPStatus.FORBIDDEN,
                "the token is missing or wrong: open the address that planish viz printed",
            )

    def _cookie(self) -> list[str]:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(f"{_COOKIE}_{self.server.port}")
        except CookieError:
            return []
        return [] if cookie is None else [cookie.value]

    def _get(self, path: str, query: Mapping[str, list[str]]) -> None:
        name = path.removeprefix("/")
        if name in _FILES:
            file, kind = _FILES[name]
            data = page_file(file)
            if data is None:
                raise RequestError(HTTPStatus.NOT_FOUND, f"there is no {name}")
            self._send(data, kind)
        elif name == "api/search":
            self._send_json(self._locked(lambda: search(self.server.recording, query.get("q", [""])[0])))
        elif name == "api/export":
            text = self._locked(lambda: exported(self.server.recording))
            self._send(
                text.encode(),
                "text/html; charset=utf-8",
                {"Content-Disposition": 'attachment; filename="report.html"'},
            )
        elif name.startswith("api/"):
            self._document(name.removeprefix("api/"))
        else:
            raise RequestError(HTTPStatus.NOT_FOUND, f"there is no {path}")

    def _document(self, path: str) -> None:
        document = self._locked(lambda: self.server.recording.document(path))
        if document is None:
            raise RequestError(HTTPStatus.NOT_FOUND, f"there is no document {path}")
        content = plain(document)
        if path == "index.json" and isinstance(content, dict):
            content["live"] = True
            content["machine"]["rooflines"] |= plain(self.server.rooflines)
        self._send_json(content)

    def _locked(self, make: Callable[[], Any]) -> Any:
        with self.server.lock:
            return make()

    def _post(self, path: str, query: Mapping[str, list[str]]) -> None:
        body = self._body()
        if path not in {"/api/schedule", "/api/measure"}:
            raise RequestError(HTTPStatus.NOT_FOUND, f"there is no {path}")
        if self.headers.get_content_type() != "application/json":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "what is posted has to be JSON")
        if path == "/api/measure":
            self._send_json(self._measured())
            return
        kernel, schedule, measure = _asked(body)
        named = _KERNEL.fullmatch(kernel)
        if named is None:
            raise RequestError(HTTPStatus.BAD_REQUEST, _POSTED)
        second, program, number = named.groups()
        with self.server.lock:
            view = self._recording(second).kernel(program, number)
            if view is None:
                raise RequestError(HTTPStatus.NOT_FOUND, f"there is no kernel {kernel}")
            view.before_schedule()  # its graphs are read once; trying a schedule then only looks at them
        self._send_json(edited(view, schedule, measure=measure))

    def _measured(self) -> dict[str, Roofline]:
        """The roofs of the recorded targets, measured now if this is where they were recorded."""
        if self.server.measure is None:
            raise RequestError(HTTPStatus.NOT_FOUND, "this server measures nothing")
        machine, here = self.server.recording.index.machine, this_machine()
        if (machine.name, machine.threads) != (here.name, here.threads):
            raise RequestError(
                HTTPStatus.CONFLICT,
                f"this was recorded on another machine: {machine.name}, {machine.threads} threads",
            )
        with self.server.lock:
            keep(self.server.measure())
            self.server.rooflines = this_machine(map(find, machine.rooflines)).rooflines
        return self.server.rooflines

    def _recording(self, second: str | None) -> Documents:
        recording = self.server.recording
        if not isinstance(recording, Comparison):
            if second:
                raise RequestError(HTTPStatus.NOT_FOUND, "there is no second recording")
            return recording
        return recording.second if second else recording.first

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "say how long it is")
        if int(length) > _LONGEST_BODY:
            self.close_connection = True
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"no more than {_LONGEST_BODY} bytes")
        return self.rfile.read(int(length))

    # -- answers ---------------------------------------------------------------------------------------------------

    def _send_json(self, value: object, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = json.dumps(plain(value), separators=(",", ":")).encode()
        self._send(data, "application/json; charset=utf-8", status=status)

    def _send(
        self,
        data: bytes,
        kind: str,
        more: Mapping[str, str] | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        headers = {"Content-Type": kind, **_HEADERS, **(more or {})}
        if "gzip" in self.headers.get("Accept-Encoding", "") and len(data) > _WORTH_PACKING:
            data = gzip.compress(data, 1)
            headers["Content-Encoding"] = "gzip"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status is HTTPStatus.OK and kind.startswith("text/html"):
            cookie = f"{_COOKIE}_{self.server.port}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _asked(body: bytes) -> tuple[str, str, bool]:
    """The kernel, the schedule, and whether to measure it."""
    try:
        asked = json.loads(body)
        fields = asked["kernel"], asked["schedule"], asked.get("measure", False)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RequestError(HTTPStatus.BAD_REQUEST, _POSTED) from None
    kernel, schedule, measure = fields
    if not isinstance(kernel, str) or not isinstance(schedule, str) or not isinstance(measure, bool):
        raise RequestError(HTTPStatus.BAD_REQUEST, _POSTED)
    return kernel, schedule, measure


def serve(
    recording: Documents, port: int, opened: Callable[[str], None], measure: Measure | None = None
) -> None:
    """Serve until the user ends it with Ctrl-C; `opened` is told the address."""
    server = VizServer(recording, port, measure)
    try:
        opened(server.url)
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        recording.close()
