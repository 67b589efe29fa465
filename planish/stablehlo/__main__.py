"""`python -m planish.stablehlo FILE …`: run modules that take no arguments, and the checks in them.

`--interpret` runs them by the reference interpreter instead of compiling.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from planish.errors import PlanishError
from planish.stablehlo import load
from planish.stablehlo.sources import read


def run(path: str, interpret: bool) -> str:
    """What became of a file: how many checks held."""
    module = read(Path(path))
    ran = checks = 0
    for name, function in module.functions.items():
        own = [
            op
            for op in module.operations()
            if "check" in op.name or "check." in str(op.attributes.get("call_target_name"))
        ]
        if function.block.args or (name != "main" and "main" in module.functions):
            continue
        program = load(Path(path), entry=name)
        results = program.interpret() if interpret else program.run()
        ran, checks = ran + 1, len(own)
        if not own:
            for label, value in zip(program.result_names, results, strict=False):
                print(f"{label} = {value}")
    return f"{ran} functions, {checks} checks"


def main(arguments: Sequence[str]) -> int:
    """The number of files that failed."""
    interpret = "--interpret" in arguments
    files = [a for a in arguments if not a.startswith("-")]
    if not files:
        print(__doc__)
        return 2
    failed = 0
    for path in files:
        try:
            print(f"{path}: {run(path, interpret)}")
        except PlanishError as error:
            failed += 1
            print(f"{path}: FAILED: {error}")
    if len(files) > 1:
        print(f"{len(files) - failed} of {len(files)} ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
