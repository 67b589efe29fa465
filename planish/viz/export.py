"""A recording as one file: the page, its style, its program and all documents, to be opened without a server.

Documents are compressed one by one and unpacked when they are looked at. Of a large recording single steps are left out beyond a
number for each kernel; an index and the lists of steps are always whole up to that.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from planish.compiler.device_kinds import KINDS
from planish.compiler.progress import report
from planish.errors import PlanishError
from planish.filenames import write_whole
from planish.viz.documents import plain
from planish.viz.graphs import PAGE, pages
from planish.viz.recording import Comparison, Document, Documents

PAGE_FOLDER: Final = Path(__file__).parent / "page"
MOST_STEPS: Final = 200
"""Single steps of a kernel that an export holds whole: each is the kernel twice."""
MOST_LISTED: Final = 20_000
"""Steps of a kernel that it lists."""
_LEVELS: Final = ("schedule", "llir", *(level for row in KINDS.values() for level in row.levels))
_MARK: Final = "<!--planish:documents-->"
_STYLE: Final = '<link rel="stylesheet" href="./page.css">'
_SCRIPT: Final = '<script type="module" src="./page.js"></script>'
_PLACEHOLDER: Final = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>planish viz</title>{_MARK}</head>
<body><p>This copy of planish has no page: build it with <code>make page</code>. The documents are under <code>/api/index.json</code>.</p></body></html>
"""


def page_file(name: str) -> bytes | None:
    """A file of the page, as it ships; None if there is none."""
    path = PAGE_FOLDER / name
    if name == "index.html" and not path.is_file():
        return _PLACEHOLDER.encode()
    return path.read_bytes() if path.is_file() else None


def export(recording: Documents, path: Path, *, steps: int = MOST_STEPS) -> None:
    """Write a page of one file."""
    try:
        write_whole(path, exported(recording, steps=steps).encode())
    except OSError as error:
        raise PlanishError(f"cannot write {path}: {error.strerror or error}") from None


def exported(recording: Documents, *, steps: int = MOST_STEPS) -> str:
    """The page with everything in it."""
    page = (page_file("index.html") or b"").decode()
    style = (page_file("page.css") or b"").decode()
    script = (page_file("page.js") or b"").decode()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = [f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy, quote=True)}">']
    for name, document in documents(recording, steps):
        data = gzip.compress(_bytes(document), 6, mtime=0)
        parts.append(
            f'<script type="application/octet-stream" data-path="{html.escape(name, quote=True)}">'
            f"{base64.b64encode(data).decode()}</script>"
        )
    # not by a template: what stands in a recording is never looked at for marks
    head, mark, rest = page.partition(_MARK)
    if not mark:
        raise PlanishError("the page has no place for documents", remedy="build it again")
    rest = rest.replace(_STYLE, f"<style>{style}</style>", 1).replace(
        _SCRIPT, f'<script type="module">{script}</script>', 1
    )
    head = head.replace(_STYLE, f"<style>{style}</style>", 1).replace(
        _SCRIPT, f'<script type="module">{script}</script>', 1
    )
    return head + "\n".join(parts) + rest


def _hash(text: str) -> str:
    return (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" if text else "'none'"
    )


def _bytes(document: Document) -> bytes:
    return json.dumps(plain(document), separators=(",", ":")).encode()


def documents(recording: Documents, steps: int) -> Iterator[tuple[str, Document]]:
    """All documents of an export, by path."""
    if isinstance(recording, Comparison):
        yield "index.json", replace(recording.index, live=False)
        for name, document in documents(recording.first, steps):
            if name != "index.json":
                yield name, document
        for name, document in documents(recording.second, steps):
            if name != "index.json":
                yield f"b/{name}", document
        return
    yield "index.json", replace(recording.index, live=False)
    names = [*recording.program_paths(), "search.json", *_kernel_paths(recording, steps)]
    for number, name in enumerate(names):
        report(number, len(names), name)
        document = recording.document(name)
        if document is not None:
            yield name, document


def _kernel_paths(recording: Documents, most: int) -> Iterator[str]:
    for program in recording.index.programs:
        for each in program.passes:
            yield from (f"{each.id}/step/{number}.json" for number in range(min(each.steps, most)))
        yield from (f"{program.id}/rule/{rule}.json" for rule in recording.index.rules if rule[0] == "u")
        for kernel in program.kernels:
            yield f"{kernel.id}/why.json"
            yield f"{program.id}/beam/{kernel.id.rpartition('/')[2]}.json"
            yield from (f"{kernel.id}/level/{level}.json" for level in _LEVELS if level in kernel.levels)
            whole, listed = most, MOST_LISTED
            for row in kernel.stages:
                number, count = int(row[0]), int(row[2])
                place = f"{kernel.id}/stage/{number}"
                yield f"{place}.json"
                if kernel.like is None:  # those alike fail alike
                    yield f"{place}/failed.json"
                yield from (f"{place}/steps/{page}.json" for page in range(pages(min(count, max(0, listed)))))
                yield from (f"{place}/step/{step}.json" for step in range(min(count, max(0, whole))))
                whole -= count
                listed -= -(-count // PAGE) * PAGE
