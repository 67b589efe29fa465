"""The page that ships is the one that its sources give, and holds nothing that an export or a policy would trip over."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "planish" / "viz" / "page"
FILES = {"index.html", "page.js", "page.css", "NOTICES.txt"}


def test_the_bundle_is_one_page_one_script_and_one_style_sheet():
    assert {file.name for file in PAGE.iterdir()} == FILES
    page = (PAGE / "index.html").read_text("utf-8")
    for tag in (
        '<script type="module" src="./page.js"></script>',
        '<link rel="stylesheet" href="./page.css">',
        "<!--planish:documents-->",
    ):
        assert page.count(tag) == 1
    assert re.findall(r"\son\w+=|style=|javascript:", page) == []


def test_the_bundle_can_be_put_inside_a_page_under_a_strict_policy():
    script, style = (PAGE / "page.js").read_text("utf-8"), (PAGE / "page.css").read_text("utf-8")
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "</style" not in style.lower()
    for forbidden in ("eval(", "new Function(", "document.write", "dangerouslySetInnerHTML:"):
        assert forbidden not in script.replace("retrieval(", "")
    # Names of XML namespaces are no addresses that anything is fetched from.
    addresses = set(re.findall(r"https?://[\w./-]+", script + style)) - {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1998/Math/MathML",
    }
    assert addresses == set()
    assert "@import" not in style
    assert "url(" not in style


def test_each_bundled_library_is_named_with_its_licence():
    notices = (PAGE / "NOTICES.txt").read_text("utf-8")
    for name, version in json.loads((WEB / "package.json").read_text("utf-8"))["dependencies"].items():
        assert f"{name} {version}\n" in notices
    assert "resolved" not in (WEB / "package-lock.json").read_text("utf-8")


@pytest.fixture(scope="module")
def installed() -> None:
    """What the page is built with, as the lock file says."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not here: the page cannot be built again")
    if not (WEB / "node_modules" / ".package-lock.json").exists():
        try:
            subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund"],
                cwd=WEB,
                capture_output=True,
                timeout=100,
                check=True,
            )
        except subprocess.SubprocessError as failure:
            pytest.skip(f"npm cannot install what the page is built with: {failure}")


def ran(*arguments: str) -> None:
    done = subprocess.run(["npm", *arguments], cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("installed")
def test_building_again_gives_the_same_bytes(tmp_path: Path):
    ran("run", "build", "--", "--outDir", str(tmp_path))
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (PAGE / name).read_bytes(), (
            f"{name} is not what web/ gives: run `make page`"
        )


@pytest.mark.usefixtures("installed")
def test_what_the_worker_computes_has_its_properties():
    ran("test")
