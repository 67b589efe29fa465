"""What only bools can do: comparisons and extrema of bools are logic, and two comparisons of one value join."""

from __future__ import annotations

from typing import Final

from planish.algebra import scalar
from planish.uop.matcher import Matcher
from planish.uop.symbolic.lawful import rules

boolean: Final = Matcher("boolean", [*rules(scalar.OF_BOOLS), *rules(scalar.JOINED_COMPARISONS)])
