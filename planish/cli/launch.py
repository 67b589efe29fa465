"""`planish launch -n N script.py …`: a program on N ranks, by the mpirun of the MPI that mpi4py uses.

planish launch -n 2 train.py --steps 100        what follows the script is meant for it
planish launch -n 4 -m package.train
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from planish.cli.console import CommandParser, Console, examples
from planish.cli.script import divide
from planish.distributed.launch import launch


def parser() -> CommandParser:
    parser = CommandParser("planish launch", "Run a program on several ranks.", examples(__doc__))
    parser.option("-n", "N", "how many ranks", type=int, required=True, dest="ranks")
    parser.option("--mpirun", "OPTIONS", "further options for mpirun, such as '-hosts a,b'", default="")
    parser.option("-m", "MODULE", "run a module in place of a script", dest="module")
    parser.option("script", "SCRIPT.py", "the program; what follows is meant for it", nargs="?")
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    given, rest = divide(arguments, parser())
    args = parser().parse(given, console)
    start = ["-m", args.module] if args.module else [args.script] if args.script else []
    return launch(args.ranks, [*start, *(rest or ())], shlex.split(args.mpirun), told=console.complain)
