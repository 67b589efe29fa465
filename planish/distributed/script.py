"""One rank of `planish launch`: runs a script as Python would, and ends all ranks if it ends badly.

    python -m planish.distributed.script [--ranks FOLDER] script.py … | -m module …

In the folder, which ranks on other machines do not have, each rank leaves its process number, so that the launcher can say which rank a process was, and
what it says last.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from planish.runtime import rank_faults, ranks


def main(given: Sequence[str]) -> None:
    """Run the script."""
    words = list(given)
    if words[:1] == ["--ranks"]:
        rank = next(
            (os.environ[name] for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK") if name in os.environ), None
        )
        folder = Path(words[1])
        if rank is not None and folder.is_dir():
            (folder / rank).write_text(str(os.getpid()))
            rank_faults.leave_last_words_in(folder)
        del words[:2]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path.insert(0, "")
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        world = ranks.world()
        if error.code in (None, 0) or world.size == 1:
            raise
        status = error.code if isinstance(error.code, int) else 1
        said = "" if isinstance(error.code, int) else f": {error.code}"
        rank_faults.end_all(
            world,
            f"rank {world.rank} of {world.size} left with status {status}{said}, {rank_faults.ENDED}\n",
            status,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
