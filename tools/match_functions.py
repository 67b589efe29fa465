"""Write the match functions of all rules as a file of Python, `planish/uop/match_functions.py`, to standard output.

    python tools/match_functions.py

`pytest tests/uop/test_match_functions.py --update-golden` puts it in its place.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

sys.path.insert(0, str(Path(__file__).parent.parent))
from planish.uop.compile import sources_of
from planish.uop.matcher import RULES

HEAD = '''"""The match functions of all rules, by digest of their text: what `planish.uop.compile` writes, as tools/match_functions.py found it."""

# mypy: ignore-errors

from __future__ import annotations

FUNCTIONS = {
'''


def main() -> None:
    package = Path(__file__).parent.parent / "planish"
    for part in ("uop", "stages", "actions", "optimize", "schedule"):
        for module in walk_packages([str(package / part)], f"planish.{part}."):
            import_module(module.name)
    sources = sources_of(rule for kept in RULES if (rule := kept()) is not None)
    print(HEAD + "".join(f'    "{digest}": {text},\n' for digest, text in sources.items()) + "}")


if __name__ == "__main__":
    main()
