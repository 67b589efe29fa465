"""A browser to look at the page with, and a tab that notices every fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Locator, Page, Request, expect, sync_playwright

__all__ = ["CHROMIUM", "FLAGS", "Browser", "Tab", "browser", "needs_browser"]

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
needs_browser = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no Chromium at /usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


class Tab:
    """A tab on a recording, which fails on any error of the page and on any request that leaves the machine."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: self.faults.extend([said.text] if said.type == "error" else []))
        page.on("request", self.request)

    def request(self, request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme not in {"data", "blob", "file"} and place.hostname != "127.0.0.1":
            self.faults.append(f"a request left the machine: {request.url}")

    def go(self, place: str) -> Page:
        self.page.goto(f"{self.address}{place}")
        return self.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def sees(self, selector: str, text: str | re.Pattern[str] | None = None) -> Locator:
        found = self.page.locator(selector)
        if text is not None:
            found = found.filter(has_text=text)
        found.first.wait_for(timeout=60_000)
        return found.first

    def settles(self) -> None:
        """Waits until no part of the view is loading."""
        expect(self.page.locator(".notice.quiet")).to_have_count(0, timeout=60_000)
