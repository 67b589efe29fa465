"""The scalar functions of `planish.scalars` as functions of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planish.scalars.functions import *  # noqa: F403 - a record can be called with what it becomes below
else:
    from planish.frontend.tensor.pointwise import binary, floating, real_floating, unary
    from planish.ptir.ops.definition import find
    from planish.scalars import FUNCTIONS, functions

    __all__ = functions.__all__
    for _name in __all__:
        _of = FUNCTIONS[_name]
        _make, _prepare = (
            (unary, binary)[_of.arity - 1],
            floating if _of.takes == "INEXACT" else real_floating,
        )
        globals()[_name] = _make(_name, find(_name), _prepare, _of.doc)
