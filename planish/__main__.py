"""`python -m planish`: the command line where it is installed, else version and help."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from planish._version import __version__

_HELP = """\
usage: python -m planish [-h] [-V]

planish, a tensor compiler in Python

options:
  -h, --help     show this help and exit
  -V, --version  show the version and exit
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Answered here even with a command line package: it must work when an extra is missing.
    if given in (["--version"], ["-V"]):
        print(f"planish {__version__}")
        return 0
    if importlib.util.find_spec("planish.cli") is not None:
        cli_main = importlib.import_module("planish.cli").main
        return int(cli_main(arguments) or 0)
    if not given or given in (["--help"], ["-h"]):
        print(_HELP, end="")
        return 0
    print(f"planish: unknown arguments: {' '.join(given)}\n{_HELP}", end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
