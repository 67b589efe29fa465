"""Bytecode of texts that the package writes itself (methods of records, match functions of rules), kept where Python keeps that of files.

Compiling a text takes a hundred times as long as reading its bytecode: 25 ms of the first call of a process. The text is the key, so that
what is kept cannot be out of date; a file that cannot be read or written is no more than time lost. As for files, nothing is written
where bytecode is not to be (`sys.dont_write_bytecode`).
"""

from __future__ import annotations

import atexit
import marshal
import sys
from pathlib import Path
from types import CodeType
from typing import Final

from planish.filenames import write_whole

FILE: Final = "<planish>"
"""What is told of as the file of such a text."""
_MOST: Final = 4096
"""Texts that are kept; where there are more, those that the last process used."""
_HEAD: Final = f"planish {sys.version}\n".encode()


def _place() -> Path | None:
    """Beside the bytecode of this module; nowhere if Python keeps none."""
    cached = __spec__.cached
    return None if cached is None else Path(cached).with_suffix(".texts")


def _kept() -> dict[str, CodeType]:
    """What is kept for this very Python."""
    place = _place()
    try:
        data = b"" if place is None else place.read_bytes()
        found = marshal.loads(data[len(_HEAD) :]) if data.startswith(_HEAD) else {}  # noqa: S302 - trusted as any bytecode beside it
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


class _Texts:
    """The texts of a process."""

    def __init__(self) -> None:
        self.kept = _kept()
        self.used: dict[str, CodeType] = {}
        self.compiled = 0

    def code_of(self, text: str) -> CodeType:
        found = self.used.get(text)
        if found is None:
            found = self.kept.get(text)
            if found is None:
                if not self.compiled:
                    atexit.register(self.keep)
                self.compiled += 1
                found = compile(text, FILE, "exec")
            self.used[text] = found
        return found

    def keep(self) -> None:
        """Write what is used here, and what other processes have kept meanwhile."""
        place = _place()
        if place is None or sys.dont_write_bytecode:
            return
        every = _kept() | self.used
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, _HEAD + marshal.dumps(every if len(every) <= _MOST else self.used), mode=0o666)
        except (OSError, ValueError):  # nobody may write there
            return


_texts: Final = _Texts()


def code_of(text: str) -> CodeType:
    """The code of a text of statements, to be executed."""
    return _texts.code_of(text)


__all__ = ["FILE", "code_of"]
