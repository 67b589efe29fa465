"""MkDocs hooks: generated pages join the documents, links out of them become text, tables that ask for it are drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mkdocs.structure.files import File, Files

from tools.docs import figures, generated

_MOVED = {
    "../README.md": "project/about.md",
    "../CONTRIBUTING.md": "project/contributing.md",
    "../CHANGELOG.md": "project/changelog.md",
}
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Folders in the nav stand for the generated pages that are in them."""
    made = [place for place, _ in generated.pages()]

    def unfolded(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {title: unfolded(value) for title, value in entry.items()}
        if isinstance(entry, list):
            return [unfolded(each) for each in entry]
        if entry.endswith("/"):
            inside = [place for place in made if place.startswith(entry)]
            return sorted(inside, key=lambda place: (not place.endswith("index.md"), place))
        return entry

    config["nav"] = unfolded(config["nav"])
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what the code says about itself, and the pictures of tables."""
    for place, text in generated.pages():
        files.append(File.generated(config, place, content=text))
    for place, picture in figures.pictures(Path(config["docs_dir"])):
        files.append(File.generated(config, place, content=picture))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to sources become their names; comments about tables become pictures."""
    depth = page.file.src_uri.count("/")

    def followed(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"]
        plain = target.partition("#")[0]
        if re.match(r"[a-z]+:", target) or not plain:
            return match[0]
        moved = _MOVED.get(plain)
        if moved is not None:
            return f"[{text}]({'../' * depth}{moved})"
        if plain.startswith("../") and not depth:
            return f"{text} (`{plain.removeprefix('../')}`)" if plain not in text else f"`{text}`"
        if depth and not _exists(page.file.src_uri, plain, files):
            return f"{text} (`{plain.lstrip('./')}`)"
        return match[0]

    return figures.placed(_LINK.sub(followed, markdown), page.file.src_uri)


def _exists(source: str, target: str, files: Files) -> bool:
    parts = source.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return False
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return files.get_file_from_path("/".join(parts)) is not None
