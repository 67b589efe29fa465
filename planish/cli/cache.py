"""`planish cache [info|clear]`: what is kept of earlier compilations, and how to be rid of it.

planish cache                      where it is, how much is there, how much there may be
planish cache clear
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.cli.console import OK, CommandParser, Console, examples
from planish.config import current, shared_cache_url
from planish.runtime.cache import DiskCache, DiskCacheInfo, own_cache

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB")


def parser() -> CommandParser:
    parser = CommandParser(
        "planish cache", "Show or clear what is kept of earlier compilations.", examples(__doc__)
    )
    parser.add_argument(
        "action", nargs="?", choices=("info", "clear"), default="info", help="info (default) or clear"
    )
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    cache = own_cache()
    info = cache.clear() if args.action == "clear" else cache.info()
    record = {
        "folder": str(info.folder), "shared": shared_cache_url(), "entries": info.entries, "bytes": info.nbytes, "limit": cache.limit, "on": current().cache,
    }  # fmt: skip
    console.product(record, _text(info, cache, args.action))
    return OK


def _text(info: DiskCacheInfo, cache: DiskCache, action: str) -> str:
    if not current().cache:
        return "the cache is off (setting cache)\n"
    held = f"{info.entries} {'entry' if info.entries == 1 else 'entries'}, {size(info.nbytes)}"
    if action == "clear":
        others = "; what is shared stays" if shared_cache_url() is not None else ""
        return f"removed {held} from {info.folder}{others}\n"
    shared = "" if (url := shared_cache_url()) is None else f"shared   {url}\n"
    return f"folder   {info.folder}\n{shared}contents {held}\nlimit    {size(cache.limit)}\n"


def size(count: int) -> str:
    """Bytes, as people say them."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"
