"""`shard`: says how every value is cut over a mesh, from what `sharding` ops of the program say of some.

How specs travel is in `sharding.propagate`.
"""

from __future__ import annotations

from typing import ClassVar

from planish.ptir.function import Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.inline import InlinePass
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class ShardPass:
    """Choose how every value is cut over the mesh, from what `sharding` ops say."""

    name: ClassVar[str] = "shard"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        from planish.ptir.sharding.propagate import mesh_of, propagate, write  # one rank does not wait for it

        mesh = mesh_of(program)
        if mesh is None:
            return PassResult(False, {"sharded": 0}, settled=True)
        InlinePass().run(program, context)
        function = program.entry
        count = write(function, propagate(function, mesh), context.listener)
        return PassResult(bool(count), {"sharded": count}, (function.name,) if count else (), settled=True)
