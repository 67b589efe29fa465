"""The page with a recording behind it: over HTTP as `planish viz` serves it, or as one file."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import html
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.viz.synthetic import Synthetic

PAGE = Path(__file__).parents[2] / "planish" / "viz" / "page"
POLICY = "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; worker-src blob:; img-src data:"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}


@contextlib.contextmanager
def served(documents: Synthetic) -> Iterator[str]:
    """The address of a server on the loopback that answers as the real one does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = urlsplit(self.path)
            if not place.path.startswith("/api/"):
                file = PAGE / (place.path.strip("/") or "index.html")
                self.answer(
                    200 if file.is_file() else 404,
                    file.read_bytes() if file.is_file() else b"",
                    KINDS.get(file.suffix, "text/plain"),
                )
            elif place.path == "/api/search":
                words = parse_qs(place.query)["q"][0].lower()
                self.document(
                    {
                        "results": [
                            entry for entry in documents.search()["results"] if words in entry[2].lower()
                        ],
                        "left_out": 0,
                    }
                )
            else:
                self.document(documents(unquote(place.path.removeprefix("/api/"))))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.document(documents.edited(asked["schedule"]))

        def document(self, document: object) -> None:
            body = {"error": f"there is no document {self.path}"} if document is None else document
            self.answer(404 if document is None else 200, json.dumps(body).encode(), "application/json")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY.format(script="'self'", style="'self'"))
            # A tab that goes elsewhere hangs up in the middle of a document.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/?token=secret"
    finally:
        server.shutdown()
        server.server_close()


def exported(documents: Synthetic, paths: list[str]) -> str:
    """One file with these documents inside."""

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    script, style = (PAGE / "page.js").read_text("utf-8"), (PAGE / "page.css").read_text("utf-8")
    policy = POLICY.format(script=hashed(script), style=hashed(style))
    scripts = [
        f'<script type="application/octet-stream" data-path="{html.escape(path)}">{base64.b64encode(gzip.compress(json.dumps(documents(path)).encode())).decode()}</script>'
        for path in paths
    ]
    page = (PAGE / "index.html").read_text("utf-8")
    for tag, text in (
        (
            "<!--planish:documents-->",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">' + "".join(scripts),
        ),
        ('<script type="module" src="./page.js"></script>', f'<script type="module">{script}</script>'),
        ('<link rel="stylesheet" href="./page.css">', f"<style>{style}</style>"),
    ):
        assert page.count(tag) == 1, tag
        page = page.replace(tag, text)
    return page
