"""How what a program names is called in generated code.

Names of sizes are the user's; a buffer, a special index and the kernel itself have a user's name where the program was written as
text. None of them becomes an identifier as it is: it could be a register, a label, a keyword or a function of the C library. What
lowering itself makes (`arg0`, `local1`, `gidx0`) is kept, since generated code uses those words for nothing else. Everything else is
escaped: `u_`, then letters and digits as they are, `_` doubled, and other characters as `_<hex>_`. That is reversible, so two names are
never one, and no word of the generators begins with `u_`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from planish.dtypes import DType
from planish.llir.program import Buffer, Ops

RESERVED: Final = "u_"
_MEMORY: Final = re.compile(r"(arg|local|acc)(0|[1-9][0-9]*)")
_PLACES: Final = re.compile(r"core|[gl]idx(0|[1-9][0-9]*)")
_KERNELS: Final = re.compile(r"kernel|k[0-9]+|[a-z][a-z0-9_]*_[0-9a-f]{6,}")
"""What the scheduler and the native plan call kernels: no word of C or its library ends in a digest."""


def escaped(name: str) -> str:
    """A name that nothing else in generated code can have."""
    return RESERVED + "".join(map(_letter, name))


def _letter(character: str) -> str:
    if character == "_":
        return "__"
    if character.isascii() and character.isalnum():
        return character
    return f"_{ord(character):x}_"


def memory(buffer: Buffer) -> str:
    """The symbol of a buffer."""
    return _symbol(buffer.name, _MEMORY)


def place(name: str) -> str:
    """The symbol of a special index."""
    return _symbol(name, _PLACES)


def size(name: str) -> str:
    """The symbol of a named size."""
    return escaped(name)


def kernel(name: str) -> str:
    """The symbol of the function that a program becomes."""
    return _symbol(name, _KERNELS)


def function(op: Ops, dtype: DType) -> str:
    """The symbol of a function that kernels call: no word of C or its library has two underscores."""
    return f"{op.name.lower()}__{dtype.scalar}x{dtype.lanes}"


@cache
def _symbol(name: str, kept: re.Pattern[str]) -> str:
    return name if kept.fullmatch(name) else escaped(name)
