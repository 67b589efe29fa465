"""Pictures of the page of `planish viz`, for the documents: a transformer block, recorded and looked at (needs Chromium).

python tools/pictures.py            writes docs/pictures/viz-*.png
"""

from __future__ import annotations

import argparse
import io
import threading
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import planish as pn
from planish.viz.recording import record
from planish.viz.runs import MOST_CALLS
from planish.viz.server import VizServer

FOLDER: Final = Path(__file__).parent.parent / "docs" / "pictures"
CHROMIUM: Final = Path("/usr/bin/chromium")
FLAGS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]
LARGEST: Final = 200 * 1024
"""Bytes of a picture: a document with five of them still opens at once."""
ROWS, WIDTH, INNER = 256, 384, 1536


def block(x: Any, attention: Any, out: Any, up: Any, down: Any) -> Any:
    """A transformer block: attention, then two layers, each behind a normalisation."""

    def normal(y: Any) -> Any:
        centred = y - pn.mean(y, axis=-1, keepdims=True)
        return centred / pn.sqrt(pn.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    q, k, v = (normal(x) @ attention[n] for n in range(3))
    scores = q @ k.T / np.float32(WIDTH**0.5)
    weights = pn.exp(scores - pn.max(scores, axis=-1, keepdims=True))
    y = x + (weights / pn.sum(weights, axis=-1, keepdims=True)) @ v @ out
    return y + pn.maximum(normal(y) @ up, 0) @ down


def arrays() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    shapes = [(ROWS, WIDTH), (3, WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH)]
    return [rng.standard_normal(shape).astype(np.float32) * np.float32(0.05) for shape in shapes]


def places(hottest: str, stage: int) -> dict[str, tuple[str, str]]:
    """Each picture by name: where it is, and in which colours."""
    return {
        "viz-journey": ("p0", "light"),
        "viz-rewrite": (f"{hottest}/stage/{stage}?step=3", "dark"),
        "viz-rules": (f"{hottest}/stage/{stage}?panel=rules", "light"),
        "viz-fusion": ("p0/fusion", "dark"),
        "viz-dataflow": ("p0/dataflow", "light"),
        "viz-why": (f"{hottest}/why", "light"),
        "viz-schedule": (f"{hottest}/schedule", "dark"),
        "viz-memory": ("p0/memory", "light"),
        "viz-timeline": ("p0/timeline", "dark"),
    }


def saved(picture: bytes, path: Path) -> None:
    """A picture with as many colours as fit: a page has few."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in (256, 128, 64, 32):
        packed = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
        if packed.tell() <= LARGEST:
            break
    path.write_bytes(packed.getvalue())
    print(f"{path.name}: {packed.tell() // 1024} KiB, {colours} colours")


def taken(page: Page, address: str, place: str, colours: str) -> bytes:
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    page.goto(f"{address}#/{place}")
    page.reload()
    page.locator("h1").first.wait_for()
    page.locator(".notice.quiet").first.wait_for(state="detached")
    page.wait_for_timeout(700)  # fonts, and the worker's layout
    return page.screenshot()


def main() -> None:
    """Record, serve, look."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--to", type=Path, default=FOLDER, metavar="FOLDER", help="where pictures go (default: docs/pictures)"
    )
    folder: Path = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    # one thread, and as many calls as are watched: the fastest run of a kernel says little of what else the machine does
    with record("a transformer block") as recording, pn.settings(cache=False, threads=1):
        compiled, given = pn.jit(block), arrays()
        for _ in range(MOST_CALLS):
            compiled(*given)
        recorded = recording()
    kernels = recorded.index.programs[0].kernels
    hottest = max(kernels, key=lambda kernel: kernel.measured_us or kernel.estimate_us or 0.0)
    stage = int(max((row for row in hottest.stages if row[2] < 60), key=lambda row: row[2])[0])
    server = VizServer(recorded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        for name, (place, colours) in places(hottest.id, stage).items():
            saved(taken(page, server.url, place, colours), folder / f"{name}.png")
        browser.close()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
