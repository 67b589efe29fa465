"""The ops of the graph IR, one module per family.

Importing this package defines every op: `REGISTRY` holds them by name, and each is an attribute here
(`from planish.ptir.ops import add, cast`), as is each family's attribute records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.ptir.ops import (
    binary,
    collective,
    contract,
    control,
    convert,
    definition,
    fourier,
    indexing,
    linalg,
    movement,
    order,
    random,
    reduce,
    sizes,
    unary,
)
from planish.ptir.ops.contract import DotAttrs, DotDims
from planish.ptir.ops.control import register_custom_call
from planish.ptir.ops.definition import (
    NO_ATTRS,
    REGISTRY,
    RETURN,
    Attrs,
    ConstantAttrs,
    FoldResult,
    FoldWhen,
    NoAttrs,
    OpDef,
    OpKey,
    constant,
    define,
    find,
)
from planish.ptir.ops.literal import Array, Literal

if TYPE_CHECKING:
    from planish.ptir.ops.binary import *  # noqa: F403
    from planish.ptir.ops.collective import *  # noqa: F403
    from planish.ptir.ops.contract import *  # noqa: F403
    from planish.ptir.ops.control import *  # noqa: F403
    from planish.ptir.ops.convert import *  # noqa: F403
    from planish.ptir.ops.fourier import *  # noqa: F403
    from planish.ptir.ops.indexing import *  # noqa: F403
    from planish.ptir.ops.linalg import *  # noqa: F403
    from planish.ptir.ops.movement import *  # noqa: F403
    from planish.ptir.ops.order import *  # noqa: F403
    from planish.ptir.ops.random import *  # noqa: F403
    from planish.ptir.ops.reduce import *  # noqa: F403
    from planish.ptir.ops.sizes import *  # noqa: F403
    from planish.ptir.ops.unary import *  # noqa: F403
else:
    __all__ = [
        "NO_ATTRS", "REGISTRY", "RETURN", "Array", "Attrs", "ConstantAttrs", "DotAttrs", "DotDims", "FoldResult", "FoldWhen",
        "Literal", "NoAttrs", "OpDef", "OpKey", "constant", "define", "definition", "find", "register_custom_call",
    ]  # fmt: skip
    _EXPORTS = {
        name: value
        for family in (
            binary, collective, contract, control, convert, fourier, indexing, linalg,
            movement, order, random, reduce, sizes, unary,
        )
        for name, value in vars(family).items()
        if isinstance(value, OpDef) or (isinstance(value, type) and issubclass(value, Attrs))
    }  # fmt: skip
    globals().update(_EXPORTS)
    __all__ += [name for name in _EXPORTS if name not in __all__]
