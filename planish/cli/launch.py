"""`planish launch -n N script.py …`: a program on N ranks, by the mpirun of the MPI that mpi4py uses.

planish launch -n 2 train.py --steps 100        what follows the script is meant for it
planish launch -n 4 -m package.train
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from planish.cli.console import Console, Options, examples
from planish.distributed.launch import launch


def parser() -> Options:
    """The options."""
    parser = Options("planish launch", "Run a program on several ranks.", examples(__doc__))
    parser.add_argument("-n", type=int, required=True, metavar="N", dest="ranks", help="how many ranks")
    parser.add_argument(
        "--mpirun", default="", metavar="OPTIONS", help="further options for mpirun, such as '-hosts a,b'"
    )
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module in place of a script")
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    """Run the command."""
    given, script = _apart(list(arguments))
    args = parser().parse(given, console)
    wanted = ["-m", args.module, *script] if args.module else script
    return launch(args.ranks, wanted, shlex.split(args.mpirun), told=console.complain)


def _apart(given: list[str]) -> tuple[list[str], list[str]]:
    """Options of the launcher, and the script with what is meant for it."""
    at = 0
    while at < len(given):
        word = given[at]
        if word == "-m":
            return given[: at + 2], given[at + 2 :]
        if not word.startswith("-"):
            return given[:at], given[at:]
        at += 1 if "=" in word or word in ("-h", "--help") or (word.startswith("-n") and word != "-n") else 2
    return given, []
