"""Text and JSON of a program for whoever writes files: dumps, traces, reproducers.

The printers are imported when first needed, because they know the ops and the ops' tools know this module.
"""

from __future__ import annotations

from planish.ptir.function import Program


def program_text(program: Program) -> str:
    """The text form, ending in a newline."""
    from planish.ptir.text import print as print_text

    return print_text(program).rstrip("\n") + "\n"


def program_json(program: Program) -> str:
    """The JSON form."""
    from planish.ptir.json import dumps

    return dumps(program)
