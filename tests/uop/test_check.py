"""Well-formedness: a malformed node is refused with its op, argument and expectation, and the table stays as it was."""

from __future__ import annotations

import math

import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import GraphError, PlanishError
from planish.uop import (
    Axis,
    AxisType,
    Bufferize,
    Ops,
    ReduceAxes,
    Table,
    TensorCoreOp,
    UnrolledLanes,
    Variable,
)
from planish.uop.access_hints import AccessHints
from planish.uop.hardware_index import HardwareIndex, IndexKind
from planish.uop.ops import BINARY, COMMUTATIVE, COMPARISONS, MOVEMENT, REDUCIBLE, UNARY, DTypeLaw
from tests.uop.graphs import specimens

f32, i32, i64, index, void, bool_ = (
    dtypes.float32, dtypes.int32, dtypes.int64, dtypes.index, dtypes.void, dtypes.bool_,
)  # fmt: skip


class Parts:
    """Sources for malformed nodes."""

    def __init__(self) -> None:
        self.t = t = Table()
        self.n = t.variable("n", 0, 63)
        self.i = t.variable("i", 0, 63, i32)
        self.j = t.variable("j", 0, 63, i64)
        self.r = t.range(10, 0)
        self.f = t.const(1.0, f32)
        self.v = t.const(1.0, f32.vec(4))
        self.flag = self.n < 3
        self.buffer = t.param(0, f32, 100)
        self.place = t.make(Ops.INDEX, f32.ptr(100), (self.buffer, self.r))
        self.store = self.place.store(self.f)
        self.x = t.make(Ops.BUFFER, f32, (), 0)


MALFORMED = [
    # arity
    ("add one", Ops.ADD, index, "n", None, r"ADD\(x y\): given 1 sources \(index\)"),
    ("add three", Ops.ADD, index, "n n n", None, r"ADD\(x y\): given 3 sources"),
    ("neg none", Ops.NEG, index, "", None, r"NEG\(x\): given 0 sources \(none\)"),
    ("const with source", Ops.INVALID, index, "n", None, r"INVALID\(\): given 1 sources"),
    ("where two", Ops.WHERE, index, "flag n", None, r"WHERE\(condition x y\): given 2 sources"),
    ("store one", Ops.STORE, void, "place", None, r"STORE\(place x gate\?\): given 1 sources"),
    ("load four", Ops.LOAD, f32, "place f flag flag", None, r"LOAD\(place alt\? gate\?\): given 4 sources"),
    ("after alone", Ops.AFTER, f32, "f", None, r"AFTER\(x effect\+\): given 1 sources"),
    ("range none", Ops.RANGE, index, "", Axis((0,), AxisType.LOOP), r"RANGE\(bound after\*\): given 0 sources"),
    ("vectorize none", Ops.VECTORIZE, f32, "", None, r"VECTORIZE\(lane\+\): given 0 sources"),
    ("wmma two", Ops.WMMA, f32, "v v", TensorCoreOp("t", (1, 1, 1)), r"WMMA\(a b c thread\?\): given 2 sources"),
    # dtypes
    ("mixed widths", Ops.ADD, i64, "i j", None, "sources of dtype i32, i64 do not make i64"),
    ("index with i32", Ops.MUL, index, "n i", None, "sources of dtype index, i32 do not make index"),
    ("wrong result", Ops.ADD, i64, "i i", None, "sources of dtype i32, i32 do not make i64"),
    ("lanes with scalar", Ops.ADD, f32.vec(4), "v f", None, "sources of dtype f32x4, f32 do not make f32x4"),
    ("sqrt of ints", Ops.SQRT, index, "n", None, "SQRT.*works on float types, not on index"),
    ("floor div of floats", Ops.FLOORDIV, f32, "f f", None, "FLOORDIV.*works on integer and index types, not on f32"),
    ("and of floats", Ops.AND, f32, "f f", None, "AND.*works on integers, index and bool, not on f32"),
    ("compare widths", Ops.CMPLT, bool_, "i j", None, "compares values of one dtype, not i32 with i64"),
    ("compare to int", Ops.CMPLT, index, "n n", None, "CMPLT.*gives bool, not index"),
    ("compare lanes", Ops.CMPLT, bool_, "v v", None, "CMPLT.*gives boolx4, not bool"),
    ("where number", Ops.WHERE, index, "n n n", None, "the condition must be bool, not index"),
    ("where branches", Ops.WHERE, index, "flag n i", None, "both branches must be index, not index, i32"),
    ("where lanes", Ops.WHERE, f32.vec(4), "flag v v", None, "the condition must be boolx4, not bool"),
    ("sink value", Ops.SINK, index, "store", None, "SINK.*has no value, its dtype is void, not index"),
    ("range dtype", Ops.RANGE, i32, "n", Axis((0,), AxisType.LOOP), "counts in the dtype of its bound, index, not i32"),
    ("range float", Ops.RANGE, f32, "f", Axis((0,), AxisType.LOOP), "counts in an integer or index type, not f32"),
    ("special lanes", Ops.SPECIAL, f32.vec(4), "v", HardwareIndex(IndexKind.GRID), "counts in an integer or index type"),
    ("end dtype", Ops.END, f32, "store r", None, "has the dtype of its first source, void, not f32"),
    ("reduce dtype", Ops.REDUCE, i32, "f r", Ops.ADD, "cannot reduce f32 to i32"),
    ("reduce lanes", Ops.REDUCE, f32.vec(3), "v", Ops.ADD, "cannot reduce f32x4 to f32x3"),
    ("index float", Ops.INDEX, f32, "buffer f", None, "indices are integers"),
    ("index gate first", Ops.INDEX, f32, "buffer flag n", None, "only the last source may be a bool"),
    ("index element", Ops.INDEX, i32, "buffer n", None, r"a place in \*f32\[100\] holds f32, not i32"),
    ("load value", Ops.LOAD, f32, "f", None, "loads from a place, not from f32"),
    ("load alt", Ops.LOAD, f32, "place n flag", None, "the alternative must be f32, not index"),
    ("load gate", Ops.LOAD, f32, "place f n", None, "the gate must be bool, not index"),
    ("gep lane", Ops.GEP, f32, "v", (4,), r"lanes \(4,\) of f32x4 are out of range"),
    ("gep dtype", Ops.GEP, f32, "v", (0, 1), "2 lanes of f32x4 do not make f32"),
    ("vectorize vectors", Ops.VECTORIZE, f32.vec(8), "v v", None, "takes scalars; CAT joins vectors"),
    ("vectorize widths", Ops.VECTORIZE, i32.vec(2), "i j", None, "joins values of one dtype into i32x2, not i32, i64"),
    ("vectorize index", Ops.VECTORIZE, i32.vec(2), "i n", None, "joins values of one dtype into i32x2, not i32, index"),
    ("vectorize count", Ops.VECTORIZE, f32.vec(3), "f f", None, "2 lanes of f32, f32 do not make f32x3"),
    ("cat count", Ops.CAT, f32.vec(8), "v f", None, "5 lanes of f32x4, f32 do not make f32x8"),
    ("cast lanes", Ops.CAST, f32, "v", None, "keeps the number of lanes: f32x4 to f32"),
    ("cast effect", Ops.CAST, f32, "store", None, "there is no value to convert: void to f32"),
    ("bitcast size", Ops.BITCAST, i64, "f", None, "f32 and i64 differ in size"),
    ("unroll count", Ops.UNROLL, f32, "v", UnrolledLanes((((0,), 3),)), "3 positions do not relate f32x4 and f32"),
    ("define value", Ops.DEFINE_GLOBAL, f32, "", 0, "its dtype must be a pointer, not f32"),
    ("variable float", Ops.DEFINE_VAR, f32, "", Variable("v", 0, 1), "is one integer or index, not f32"),
    ("invalid float", Ops.INVALID, f32, "", None, "stands for an index, it cannot be f32"),
    # arguments
    ("arg on add", Ops.ADD, index, "n n", 3, r"ADD\(x y\): arg must be nothing, not int 3"),
    ("no arg on reduce", Ops.REDUCE, f32, "f r", None, "REDUCE.*arg must be Ops, not NoneType None"),
    ("reduce sub", Ops.REDUCE, f32, "f r", Ops.SUB, "arg must be one of ADD, MUL, MAX, MIN, AND, OR, XOR"),
    ("slot text", Ops.DEFINE_GLOBAL, f32.ptr(4), "", "0", "arg must be int, not str '0'"),
    ("slot bool", Ops.DEFINE_GLOBAL, f32.ptr(4), "", True, "arg must be int, not bool True"),
    ("slot negative", Ops.DEFINE_LOCAL, f32.ptr(4, AddrSpace.LOCAL), "", -1, "a slot: an integer from 0, not -1"),
    ("axis tuple", Ops.RANGE, index, "n", (0, AxisType.LOOP), "arg must be Axis, not tuple"),
    ("axis path", Ops.RANGE, index, "n", Axis(0, AxisType.LOOP), "an Axis of a path of integers"),  # type: ignore[arg-type]
    ("bounds empty", Ops.DEFINE_VAR, index, "", Variable("v", 3, 2), "bounds 3..2 are empty"),
    ("bounds wide", Ops.DEFINE_VAR, dtypes.int8, "", Variable("v", 0, 128), "bounds 0..128 do not fit i8"),
    ("name", Ops.DEFINE_VAR, index, "", Variable("a b", 0, 1), "an identifier as name"),
    ("special index", Ops.SPECIAL, index, "n", HardwareIndex(IndexKind.GRID, -1), "a HardwareIndex of an IndexKind and the number of an axis"),
    ("shape text", Ops.RESHAPE, f32, "x", "2", "RESHAPE.*arg must be tuple, not str '2'"),
    ("shape negative", Ops.RESHAPE, f32, "x", (-1, 2), r"sizes from 0, not \(-1, 2\)"),
    ("permutation", Ops.PERMUTE, f32, "x", (0, 2), r"a permutation of the axes, not \(0, 2\)"),
    ("pad flat", Ops.PAD, f32, "x", (0, 1), r"a pair of sizes per axis, not \(0, 1\)"),
    ("shrink triple", Ops.SHRINK, f32, "x", ((0, 1, 2),), "a pair of begin and end per axis"),
    ("flip ints", Ops.FLIP, f32, "x", (0, 1), r"a bool per axis, not \(0, 1\)"),
    ("scan axes", Ops.SCAN_AXIS, f32, "x", ReduceAxes(Ops.ADD, (0, 1)), "ReduceAxes of a reducing op and one axis"),
    ("reduce axis op", Ops.REDUCE_AXIS, f32, "x", ReduceAxes(Ops.SUB, (0,)), "ReduceAxes of a reducing op and axes"),
    ("bufferize str", Ops.BUFFERIZE, f32.ptr(10), "f r", "local", "arg must be Bufferize, not str 'local'"),
    ("gep int", Ops.GEP, f32, "v", 0, "arg must be tuple, not int 0"),
    ("lanes", Ops.CONTRACT, f32, "f", UnrolledLanes(((0, 4),)), r"Lanes of \(axis path, size\) pairs"),  # type: ignore[arg-type]
    ("tensor core", Ops.WMMA, f32, "f f f", TensorCoreOp("t", (1, 2)), "three sizes"),  # type: ignore[arg-type]
    ("store hint", Ops.STORE, void, "place f", 1, "arg must be AccessHints or nothing, not int 1"),
    ("hints that say nothing", Ops.STORE, void, "place f", AccessHints(), "AccessHints, some of them given"),
    ("load in the background", Ops.LOAD, f32, "place", AccessHints(asynchronous=True), "AccessHints that a LOAD may have"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "dtype", "sources", "arg", "message"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED]
)
def test_a_malformed_node_is_refused_and_leaves_no_trace(op, dtype, sources, arg, message):
    parts = Parts()
    src = tuple(getattr(parts, name) for name in sources.split())
    before = list(parts.t)
    with pytest.raises(GraphError, match=message) as caught:
        parts.t.make(op, dtype, src, arg)
    assert caught.value.op == op.name
    assert list(parts.t) == before


WRONG_TYPES = [
    ("unknown op", lambda p: p.t.make("ADD", index, (p.n, p.n)), "unknown op 'ADD'; use a member of planish.uop.Ops"),
    ("number as op", lambda p: p.t.make(int(Ops.ADD), index, (p.n, p.n)), "unknown op"),
    ("list of sources", lambda p: p.t.make(Ops.ADD, index, [p.n, p.n]), "ADD: sources must be a tuple"),
    ("list in constant", lambda p: p.t.make(Ops.CONST, index, [], 5), "CONST: sources must be a tuple"),
    ("unhashable arg", lambda p: p.t.make(Ops.RESHAPE, f32, (p.x,), [2, 3]), r"RESHAPE: arg \[2, 3\] is not hashable"),
    ("nested unhashable", lambda p: p.t.make(Ops.PAD, f32, (p.x,), ([0, 1],)), "PAD: arg .* is not hashable"),
    ("number as source", lambda p: p.t.make(Ops.ADD, index, (p.n, 3)), "ADD: source 1 must be a UOp, not int"),
    ("none as source", lambda p: p.t.make(Ops.NEG, index, (None,)), "NEG: source 0 must be a UOp, not NoneType"),
    ("text as dtype", lambda p: p.t.make(Ops.NEG, "index", (p.n,)), "NEG: dtype must be a planish dtype, not 'index'"),
    ("void constant", lambda p: p.t.make(Ops.CONST, void, (), 1), "CONST: a constant cannot be void"),
    ("pointer constant", lambda p: p.t.make(Ops.CONST, f32.ptr(4), (), 1), "CONST: a constant cannot be"),
    ("constant without number", lambda p: p.t.make(Ops.CONST, index), "CONST.*arg must be bool or int or float"),
    ("text constant", lambda p: p.t.const("1"), "'1' is not a constant of dtype index"),
    ("fraction", lambda p: p.t.const(1.5), "1.5 is not a constant of dtype index"),
    ("nan", lambda p: p.t.const(math.nan, i32), "nan is not a constant of dtype i32"),
    ("lanes given as list", lambda p: p.t.make(Ops.VCONST, f32.vec(2), (), [1, 2]), "VCONST: arg must be a tuple"),
    ("lanes missing", lambda p: p.t.make(Ops.VCONST, f32.vec(3), (), (1, 2)), "VCONST.*a number per lane of f32x3"),
    ("lanes on scalar", lambda p: p.t.make(Ops.VCONST, f32, (), (1,)), "VCONST.*a number per lane"),
    ("index into value", lambda p: p.f.index(p.n), "INDEX: the first source must be a buffer, not f32"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), [w[1:] for w in WRONG_TYPES], ids=[w[0] for w in WRONG_TYPES])
def test_a_wrong_type_is_an_error_of_ours_and_leaves_no_trace(build, message):
    parts = Parts()
    before = list(parts.t)
    with pytest.raises(PlanishError, match=message):
        build(parts)
    assert list(parts.t) == before


def test_every_specimen_is_well_formed_and_every_op_states_itself():
    specimens(Table())
    for op in Ops:
        assert op.meaning
        assert op.min_sources <= (op.max_sources if op.max_sources is not None else op.min_sources)
        assert op.max_sources is None or op.max_sources == len(op.sources.split())


def test_arity_is_read_off_the_source_column():
    assert (Ops.ADD.min_sources, Ops.ADD.max_sources) == (2, 2)
    assert (Ops.SINK.min_sources, Ops.SINK.max_sources) == (0, None)
    assert (Ops.AFTER.min_sources, Ops.AFTER.max_sources) == (2, None)
    assert (Ops.LOAD.min_sources, Ops.LOAD.max_sources) == (1, 3)
    assert (Ops.NOOP.min_sources, Ops.NOOP.max_sources) == (0, 1)
    assert all(op.max_sources == 1 for op in UNARY)
    assert all(op.max_sources == 2 for op in BINARY)


def test_the_sets_of_ops_are_what_they_say():
    assert {op.name for op in MOVEMENT} == {"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP"}
    assert {op for op in Ops if op.law is DTypeLaw.COMPARE} == COMPARISONS
    assert COMMUTATIVE <= BINARY
    assert REDUCIBLE <= COMMUTATIVE - COMPARISONS
    assert len(Ops) < 127  # an op and "no source" fit seven bits of a form


def test_axis_types_have_a_letter_and_an_order_each():
    letters = {kind: kind.letter for kind in AxisType}
    assert len(set(letters.values())) == len(AxisType) == 10
    nest = sorted(AxisType, key=lambda kind: kind.order)
    assert nest[0] is AxisType.LOOP
    assert nest[-2:] == [AxisType.REDUCE, AxisType.UNROLL]
    assert str(Axis((3, 0), AxisType.REDUCE)) == "R3_0"
    assert Bufferize() == Bufferize("global", removable=True)
    assert UnrolledLanes((((0,), 4), ((1,), 2))).total == 8
