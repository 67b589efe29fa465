"""What regions and the instructions that own them use of the values around them."""

from __future__ import annotations

from planish.ptir.function import Inst, Region, Value


def captured(region: Region) -> list[Value]:
    """What a region uses from outside, each once."""
    own: set[Value] = set()
    used: dict[Value, None] = {}
    pending = [region]
    while pending:
        part = pending.pop()
        own.update(part.args)
        for inst in [*part, part.end]:
            used.update(dict.fromkeys(inst.operands))
            own.update(inst.results)
            pending += inst.regions
    return [value for value in used if value not in own]


def needed(inst: Inst) -> list[Value]:
    """What an instruction uses, by its operands and in its regions."""
    return [*inst.operands, *(value for region in inst.regions for value in captured(region))]
