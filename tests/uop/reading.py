"""Reads infix text back: a namespace of constructors and leaves in which `planish.uop.infix` output evaluates."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from typing import Any

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.uop.hardware_index import index_named
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, REDUCIBLE, AxisType, Ops


class _Type:
    """`int32(5)` is a constant, `int32(x)` a cast, `int32x2(1, 2)` a constant per lane."""

    def __init__(self, table: Table, dtype: DType) -> None:
        self.table = table
        self.dtype = dtype

    def __call__(self, *values: Any) -> UOp:
        if isinstance(values[0], UOp):
            return values[0].table.make(Ops.CAST, self.dtype.scalar.vec(values[0].dtype.lanes), (values[0],))
        if len(values) > 1:
            return self.table.vconst(values, self.dtype.scalar)
        return self.table.const(values[0], self.dtype)


class Names(dict[str, Any]):
    """The namespace: leaves, constructors, and dtypes by name (`float32x4` included)."""

    def __init__(self, table: Table, leaves: Mapping[str, UOp]) -> None:
        super().__init__(leaves)
        self.table = table
        for op in ALU - {Ops.WHERE}:
            self.setdefault(op.name.lower(), _function(op))
        for op in REDUCIBLE:
            self[f"reduce_{op.name.lower()}"] = _reduce(op)
        for op in (Ops.AFTER, Ops.END, Ops.NOOP):
            self[op.name.lower()] = self._like_first(op)
        for op in (Ops.GROUP, Ops.SINK, Ops.BARRIER, Ops.STORE):
            self[op.name.lower()] = self._effect(op)
        self.update(
            eq=_function(Ops.CMPEQ), ne=_function(Ops.CMPNE), where=self._where, gep=lambda x, *i: x.gep(*i),
            bitcast=lambda x, t: table.make(Ops.BITCAST, t.dtype, (x,)), invalid=lambda t: table.invalid(t.dtype),
            INVALID=table.invalid(), vectorize=self._vectorize, cat=self._cat, get=self._get, at=self._at,
            load=self._load, inf=math.inf, nan=math.nan, complex=builtins.complex,
        )  # fmt: skip

    def __missing__(self, name: str) -> Any:
        return _Type(self.table, dtypes.parse(name))

    def _node(self, value: Any) -> UOp:
        if isinstance(value, UOp):
            return value
        return self.table.const(value, dtypes.bool_ if isinstance(value, bool) else dtypes.index)

    def _like_first(self, op: Ops) -> Any:
        def make(*sources: Any) -> UOp:
            nodes = tuple(map(self._node, sources))
            return self.table.make(op, nodes[0].dtype if nodes else dtypes.void, nodes)

        return make

    def _effect(self, op: Ops) -> Any:
        return lambda *sources: self.table.make(op, dtypes.void, tuple(map(self._node, sources)))

    def _where(self, condition: Any, x: Any, y: Any) -> UOp:
        return self._node(condition).where(x, y)

    def _vectorize(self, *lanes: Any) -> UOp:
        first = next(x for x in lanes if isinstance(x, UOp))
        nodes = tuple(x if isinstance(x, UOp) else self.table.const(x, first.dtype) for x in lanes)
        return self.table.make(Ops.VECTORIZE, first.dtype.vec(len(nodes)), nodes)

    def _cat(self, *parts: UOp) -> UOp:
        lanes = sum(p.dtype.lanes for p in parts)
        return self.table.make(Ops.CAT, parts[0].dtype.scalar.vec(lanes), parts)

    def _get(self, buffer: UOp, *indices: Any) -> UOp:
        return buffer.index(*map(self._node, indices))

    def _at(self, buffer: UOp, *indices: Any) -> UOp:
        assert isinstance(buffer.dtype, PtrDType)
        nodes = tuple(map(self._node, indices))
        lanes = max((i.dtype.lanes for i in nodes), default=1)
        return self.table.make(Ops.INDEX, buffer.dtype.vec(lanes), (buffer, *nodes))

    def _load(self, place: UOp, *rest: Any) -> UOp:
        assert isinstance(place.dtype, PtrDType)
        dtype = place.dtype.base.scalar.vec(place.dtype.lanes)
        others = [
            x if isinstance(x, UOp) else self.table.const(x, d)
            for x, d in zip(rest, (dtype, dtypes.bool_), strict=False)
        ]
        return self.table.make(Ops.LOAD, dtype, (place, *others))


def _function(op: Ops) -> Any:
    def make(*operands: Any) -> UOp:
        first = next(x for x in operands if isinstance(x, UOp))
        nodes = [x if isinstance(x, UOp) else first.table.const(x, first.dtype) for x in operands]
        return nodes[0].alu(op, *nodes[1:])

    return make


def _reduce(op: Ops) -> Any:
    def make(x: UOp, *ranges: Any, lanes: int | None = None) -> UOp:
        dtype = x.dtype if lanes is None else x.dtype.scalar.vec(lanes)
        sources = (x, *(r if isinstance(r, UOp) else x.table.const(r) for r in ranges))
        return x.table.make(Ops.REDUCE, dtype, sources, op)

    return make


def read(text: str, table: Table, leaves: Mapping[str, UOp]) -> UOp:
    """The node that the text stands for."""
    names = Names(table, leaves)
    return names._node(eval(text, {"__builtins__": {}}, names))


def standard_leaves(table: Table) -> dict[str, UOp]:
    """The leaves that golden cases are written over: see tests/golden/uop/README.md."""
    d = dtypes
    far = 2**31
    leaves = {
        name: table.variable(name, low, high)
        for name, low, high in (
            ("a", 0, 7), ("b", 0, 15), ("c", -8, 7), ("d", 1, 8), ("n", 1, 64), ("x", -far, far - 1),
            ("y", -far, far - 1), ("one", 1, 1),
        )
    }  # fmt: skip
    for names, dtype in (("ijk", d.int32), ("st", d.int8), ("uv", d.uint8)):
        low, high = dtype.min, dtype.max
        assert isinstance(low, int)
        assert isinstance(high, int)
        leaves |= {name: table.variable(name, low, high, dtype) for name in names}
    # No dtype but an integer has variables: these stand for elements of buffers of their own.
    opaque = {
        "f": d.float32, "g": d.float32, "h": d.float16, "e": d.float64, "z": d.complex64, "p": d.bool_, "q": d.bool_,
        "r": d.bool_, "F4": d.float32.vec(4), "G4": d.float32.vec(4), "I4": d.int32.vec(4), "P4": d.bool_.vec(4),
    }  # fmt: skip
    zero = table.const(0)
    for slot, (name, dtype) in enumerate(opaque.items(), start=100):
        leaves[name] = table.make(Ops.INDEX, dtype, (table.param(slot, dtype.scalar, 64), zero))
    sizes: dict[str, int | UOp] = {"L0": 16, "L1": 8, "L9": 1, "R0": 4, "R1": leaves["n"], "R9": 1}
    for name, size in sizes.items():
        leaves[name] = table.range(size, int(name[1]), AxisType.LOOP if name[0] == "L" else AxisType.REDUCE)
    for name, bound in (("gidx0", 32), ("lidx0", 1)):
        leaves[name] = table.make(Ops.SPECIAL, d.index, (table.const(bound),), index_named(name))
    for slot, dtype in enumerate((d.float32, d.int32, d.bool_)):
        leaves[f"data{slot}"] = table.param(slot, dtype, 64)
    local, register = d.float32.ptr(64, AddrSpace.LOCAL), d.float32.ptr(64, AddrSpace.REG)
    leaves["local0"] = table.make(Ops.DEFINE_LOCAL, local, (), 0)
    leaves["acc0"] = table.make(Ops.DEFINE_REG, register, (), 0)
    return leaves


__all__ = ["Names", "read", "standard_leaves"]
