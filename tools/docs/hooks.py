"""MkDocs hooks: generated pages join the documents, links out of them become text, tables that ask for it are drawn."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mkdocs.structure.files import File, Files

from tools.docs import figures, generated

_MOVED = (
    (r"README\.md", "project/about.md"),
    (r"(CONTRIBUTING|CHANGELOG)\.md", lambda match: f"project/{match[1].lower()}.md"),
    (r"planish/stages/\w+/(s\d\d_\w+)\.py", lambda match: f"stages/{match[1]}.md"),
    (r"planish/stages/pipeline\.py", "stages/index.md"),
    (r"planish/ptir/rules/README\.md", "rules/ptir.md"),
    (r"planish/uop/symbolic/__init__\.py", "rules/uop.md"),
)
"""Files of the source tree that have a page of their own."""
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Folders in the nav stand for the generated pages that are in them."""
    places = [place for place, _ in generated.pages()]

    def unfolded(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {title: unfolded(value) for title, value in entry.items()}
        if isinstance(entry, list):
            return [unfolded(each) for each in entry]
        if entry.endswith("/"):
            inside = [place for place in places if place.startswith(entry)]
            return sorted(inside, key=lambda place: (not place.endswith("index.md"), place))
        return entry

    config["nav"] = unfolded(config["nav"])
    rest = unlisted(Path(config["docs_dir"]), str(config["nav"]))
    if rest:
        config["nav"].append({"More": rest})
    return config


def unlisted(docs: Path, nav: str) -> list[str]:
    """Documents that the nav does not name: they are shown at its end."""
    places = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    return [place for place in places if f"'{place}'" not in nav]


def on_files(files: Files, config: Any) -> Files:
    """Add what the code says about itself, and the pictures of tables."""
    for place, text in generated.pages():
        files.append(File.generated(config, place, content=text))
    for place, picture in figures.pictures(Path(config["docs_dir"])):
        files.append(File.generated(config, place, content=picture))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links into the source tree become those of generated pages, or names; comments about tables become pictures."""
    source = page.file.src_uri
    is_document = (Path(config["docs_dir"]) / source).is_file()
    back = "../" * source.count("/")

    def followed(match: re.Match[str]) -> str:
        plain = match["target"].partition("#")[0]
        if not is_document or re.match(r"[a-z]+:", match["target"]) or not plain:
            return match[0]
        place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), plain))
        for pattern, moved in _MOVED:
            matched = re.fullmatch(pattern, place)
            if matched is not None:
                return f"[{match['text']}]({back}{moved if isinstance(moved, str) else moved(matched)})"
        if not place.startswith("docs/"):
            return f"{match['text']} (`{place}`)"
        # a file's name says less than its title
        return f"[{_title(place)}]({match['target']})" if match["text"] == plain else match[0]

    return figures.placed(_LINK.sub(followed, markdown), source)


def _title(place: str) -> str:
    text = (Path(__file__).parents[2] / place).read_text(encoding="utf-8")
    return text.partition("\n")[0].removeprefix("# ").strip()
