"""`planish launch -n N script.py …`: N ranks of a program, started by the mpirun of the MPI that mpi4py uses.

The launcher is MPI's; what is added here is what users would do by hand. The mpirun beside this Python is preferred to others on the path: it
belongs to the library that mpi4py was installed with. The cores are shared out (`PLANISH_THREADS`) unless the user has said how. Each
rank runs the script through `planish.distributed.script`, so that `sys.exit` with a status ends all ranks as an exception does. What mpirun says of a
rank that was killed is told as one line that names the rank.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from planish.errors import PlanishError
from planish.runtime.pool import available_cores
from planish.runtime.rank_faults import ENDED, last_words

_BANNER: Final = (
    "=", "YOUR APPLICATION TERMINATED", "This typically refers to a problem", "Please see the FAQ page", "Abort(",
)  # fmt: skip
"""How lines begin that mpirun of MPICH writes about a rank that ended badly."""
_KILLED: Final = re.compile(r"PID (\d+) (?:RUNNING AT|on node) (\S+)")
_SIGNAL: Final = re.compile(r"signal\s+(\d+)|EXIT CODE: (\d+)\s.*?EXIT STRING: .*?signal", re.DOTALL)
_STATUS: Final = re.compile(r"EXIT CODE: (\d+)")
_RULE: Final = re.compile(r"-{60,}\n")
"""What Open MPI puts before and behind what it says."""
_OPEN_MPI_SAYS: Final = ("prterun", "PRTE", "mpirun", "MPI_ABORT", "Open MPI")
_OPEN_MPI: Final = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none", "OMPI_MCA_hwloc_base_binding_policy": "none",
}  # fmt: skip
"""As MPICH does it: more ranks than cores may be asked for, and a rank's threads may run anywhere."""


def launcher() -> Path:
    """The mpirun to use."""
    beside = Path(sys.executable).parent
    for name in ("mpiexec", "mpirun"):
        path = shutil.which(name, path=str(beside)) or shutil.which(name)
        if path is not None:
            return Path(path)
    raise PlanishError(
        "there is no mpirun here", remedy="pip install 'planish[mpi]', or install MPICH or Open MPI"
    )


def command(
    ranks: int, script: Sequence[str], options: Sequence[str] = (), folder: str | None = None
) -> list[str]:
    """What is run: `script` is a file or `-m module`, with its arguments; `options` are for mpirun."""
    if ranks < 1:
        raise PlanishError(f"there cannot be {ranks} ranks", remedy="planish launch -n 2 script.py")
    if not script:
        raise PlanishError("no script was given", remedy=f"planish launch -n {ranks} script.py")
    if script[0] != "-m" and not Path(script[0]).is_file():
        raise PlanishError(f"there is no script {script[0]!r}", remedy="name a file, or -m and a module")
    told = [] if folder is None else ["--ranks", folder]
    runner = [sys.executable, "-m", "planish.distributed.script", *told]
    return [str(launcher()), "-n", str(ranks), *options, *runner, *script]


def environment(ranks: int, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Of the ranks: each has its share of the cores of this machine."""
    chosen = dict(base)
    chosen.setdefault("PLANISH_THREADS", str(max(1, available_cores() // ranks)))
    for name, value in _OPEN_MPI.items():
        chosen.setdefault(name, value)
    return chosen


def launch(
    ranks: int, script: Sequence[str], options: Sequence[str] = (), *, told: Callable[[str], None]
) -> int:
    """Run a script on ranks; the exit status of all. `told` hears what became of a rank that was killed."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        run = command(ranks, script, options, folder)
        process = subprocess.Popen(  # noqa: S603 - the user's own program
            run, env=environment(ranks), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        banner: list[str] = []
        readers = [
            threading.Thread(target=_relay, args=(stream, number, banner), daemon=True)
            for number, stream in ((1, process.stdout), (2, process.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            status = process.wait()
        for reader in readers:
            reader.join(2.0)
        if words := last_words(Path(folder)):
            os.write(2, words.encode())
            banner.append(words)
        ended = _ended("".join(banner), Path(folder))
        if ended is not None:
            told(ended[0])
            status = ended[1]
        elif status and not any(ENDED in line for line in banner):
            os.write(2, "".join(banner).encode())
        return status if status >= 0 else 128 - status


def _relay(stream: IO[bytes] | None, to: int, banner: list[str]) -> None:
    """What ranks write goes on as it comes; what mpirun writes of their end, on either stream, is kept."""
    held, ruled = b"", b""
    for line in stream or ():
        text = line.decode("utf-8", "replace")
        if ruled or _RULE.fullmatch(text):
            ruled += line
            if ruled != line and _RULE.fullmatch(text):  # the second one: is what is between them Open MPI's?
                block, ruled = ruled, b""
                if any(word.encode() in block for word in _OPEN_MPI_SAYS):
                    banner.append(block.decode("utf-8", "replace"))
                else:
                    os.write(to, held + block)
                    held = b""
            continue
        if text.startswith(_BANNER):
            banner.append(text)
            held = b""
            continue
        if ENDED in text:
            banner.append(text)
        if text == "\n":
            held += line  # an empty line before what mpirun says is its own
            continue
        os.write(to, held + line)
        held = b""
    if ruled or not banner:
        os.write(to, held + ruled)


def _ended(banner: str, folder: Path) -> tuple[str, int] | None:
    """Which rank ended all, by what mpirun says of processes, and with which status; None if none was, or it has said so itself."""
    killed, by, code = (pattern.search(banner) for pattern in (_KILLED, _SIGNAL, _STATUS))
    if killed is None or (by is None and code is None) or ENDED in banner:
        return None
    number = int(by[1] or by[2]) if by is not None else int(code[1]) if code is not None else 0
    how = f"was killed by {signal.Signals(number).name}" if by is not None else f"ended with status {number}"
    pids = (
        {path.read_text().strip(): path.name for path in folder.iterdir() if path.name.isdecimal()}
        if folder.is_dir()
        else {}
    )
    who = f"rank {pids[killed[1]]}" if killed[1] in pids else f"a rank (process {killed[1]} on {killed[2]})"
    return f"{who} {how}, and all ranks ended", number + (128 if by is not None else 0)
