"""Watching the compiler: a recording of compilations, and the page that shows it.

    with planish.viz.record() as recording:      whatever is compiled inside
        f(x)
    recording().save("f.planish")                `planish viz f.planish` opens it
    recording().export("report.html")            one file, to be mailed

`PLANISH_VIZ=1` records a whole process. Nothing here is imported, and nothing is paid, by those who do not watch.
"""

from __future__ import annotations

from planish.viz.recording import Recording, record

__all__ = ["Recording", "record"]
