"""`partition`: the program that each rank of a mesh runs, from one whose `sharding` ops say how values are cut.

How that is made is in `sharding.partition`.
"""

from __future__ import annotations

from typing import ClassVar

from planish.errors import GraphError
from planish.ptir.function import Function, Program
from planish.ptir.ops.definition import OpKey
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.inline import InlinePass
from planish.ptir.passes.shard import ShardPass
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class PartitionPass:
    """Make the program that each rank runs, with collectives, from what `sharding` ops say."""

    name: ClassVar[str] = "partition"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        # a program for one rank does not wait for these
        from planish.ptir.sharding.partition import partition
        from planish.ptir.sharding.propagate import mesh_of

        mesh = mesh_of(program)
        if mesh is None:
            return PassResult(False, {"collectives": 0}, settled=True)
        InlinePass().run(program, context)
        entry = partition(program.entry, mesh)
        program.functions.clear()
        program.functions[entry.name] = entry
        program.entry_name = entry.name
        count = sum(1 for inst in entry.walk() if inst.op.key is OpKey.COLLECTIVE)
        return PassResult(True, {"collectives": count}, (entry.name,), settled=True)


def partitioned(program: Program) -> Function:
    """The function that each rank runs, of a program in which some `sharding` names a mesh; the program stays as it is."""
    copy = program.clone()
    ShardPass().run(copy)
    if not PartitionPass().run(copy).changed:
        raise GraphError(
            "no sharding says which mesh the program is for", remedy="give one of its values a spec"
        )
    return copy.entry
