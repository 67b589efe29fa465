"""Patterns from data: a rewrite written as two trees, matched and built by the same engine as any other.

    {
        "name": "FoldNegOfNeg",
        "match": {"op": "neg", "operands": [{"op": "neg", "operands": ["x"]}]},
        "rewrite": "x",
    }

A tree is a name (any value; the same name twice means the same value), `{"const": number}` (a constant all of
whose elements are that number; NaN never matches), `{"const": "name"}` (any constant, under a name), or
`{"op": ..., "operands": [...], "attrs": {...}}`. In `match`, attributes are equal to the given value or, given
as `"$name"`, bound to a name; in `rewrite` they are given or `"$name"`. `"when"` lists conditions:
`"int"`, `"float"`, `"bool"`, `"complex"` on the root's dtype, and `"one-use:x"`.

Radius, operand filters and `watch_uses` are derived from the tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from planish import dtypes
from planish.errors import RewriteError
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef, constant, constant_kinds, find
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.pattern import OperandFilter, Pattern
from planish.ptir.rewrite.rewriter import ProgramRewriter

_KINDS = {"int": "is_int", "float": "is_float", "bool": "is_bool", "complex": "is_complex"}


class _Leaf(NamedTuple):
    """A value under a name; a constant, by its number or under a name."""

    name: str | None
    is_constant: bool = False
    number: bool | int | float | None = None


class _Op(NamedTuple):
    """An instruction and its operands."""

    op: OpDef
    operands: tuple[_Leaf | _Op, ...]
    attrs: dict[str, object]


_Tree: TypeAlias = "_Leaf | _Op"


class DataPattern(Pattern[Inst]):
    """A pattern described by a mapping; see the module's text for the form."""

    def __init__(self, spec: Mapping[str, object]) -> None:
        name = spec.get("name")
        if not isinstance(name, str) or not name:
            raise RewriteError("a pattern given as data needs a name")
        unknown = sorted(set(spec) - {"name", "match", "rewrite", "benefit", "when"})
        if unknown:
            raise RewriteError(f"pattern {name} has unknown parts: {', '.join(unknown)}")
        tree = _read(name, spec.get("match"))
        if not isinstance(tree, _Op):
            raise RewriteError(f"pattern {name} must match an op at its root")
        self._match = tree
        self._rewrite = _read(name, spec.get("rewrite"))
        self._conditions = _conditions(name, spec.get("when", ()))
        unbound = sorted(_names(self._rewrite) - _names(tree))
        if unbound:
            raise RewriteError(f"pattern {name} rewrites to names it does not match: {', '.join(unbound)}")
        benefit = spec.get("benefit", 1)
        if not isinstance(benefit, int):
            raise RewriteError(f"pattern {name} has benefit {benefit!r}, not an integer")
        # What typed patterns declare in their class bodies belongs to the instance here.
        self.name = name  # type: ignore[misc]
        self.benefit = benefit  # type: ignore[misc]
        self.roots = (tree.op,)  # type: ignore[misc]
        # Naming an operand of an inner op compares or moves it: that looks one definition deeper.
        self.radius = max(depth for _, depth in _walk(tree))  # type: ignore[misc]
        self.operands = tuple([_filter(node) for node in tree.operands])  # type: ignore[misc]
        self.watch_uses = any(kind == "one-use" for kind, _ in self._conditions)  # type: ignore[misc]

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        values: dict[str, Value] = {}
        attrs: dict[object, object] = {}
        if not _matches(self._match, op, values, attrs):
            return rw.fail(op, "the tree does not match")
        for kind, subject in self._conditions:
            if kind == "one-use":
                if not values[subject].has_one_use:
                    return rw.fail(op, f"{subject} has more than one use")
            elif not getattr(op.results[0].type.dtype, _KINDS[kind]):
                return rw.fail(op, f"the dtype is not {kind}")
        rw.replace_op(op, _build(self._rewrite, op, rw, values, attrs))
        return True


def _read(name: str, tree: object) -> _Tree:
    match tree:
        case str():
            return _Leaf(tree)
        case {"const": str() as const, **rest} if not rest:
            return _Leaf(const, is_constant=True)
        case {"const": bool() | int() | float() as number, **rest} if not rest:
            return _Leaf(None, is_constant=True, number=number)
        case {"op": op_name, **rest} if set(rest) <= {"operands", "attrs"}:
            operands, attrs = rest.get("operands", ()), rest.get("attrs", {})
            if (
                isinstance(operands, Sequence)
                and not isinstance(operands, str)
                and isinstance(attrs, Mapping)
            ):
                op = find(str(op_name))
                fields = {field.name: str(field.type) for field in dataclasses.fields(op.attrs_type)}  # type: ignore[arg-type]
                wrong = sorted(set(attrs) - set(fields))
                if wrong:
                    raise RewriteError(f"pattern {name}: {op.name} has no attribute {', '.join(wrong)}")
                given = {field: _attribute(fields[field], value) for field, value in attrs.items()}
                return _Op(op, tuple([_read(name, operand) for operand in operands]), given)
    raise RewriteError(f"pattern {name} cannot be read at {tree!r}: a name, a const or an op is due")


def _attribute(type: str, value: object) -> object:
    """An attribute as plain data spells it: lists for tuples, names for dtypes."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and not _is_name(value) and type.startswith("DType"):
        return dtypes.parse(value)
    return value


def _conditions(name: str, given: object) -> tuple[tuple[str, str], ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise RewriteError(f"pattern {name}: `when` is a list of conditions")
    conditions: list[tuple[str, str]] = []
    for condition in given:
        kind, _, subject = str(condition).partition(":")
        if kind not in _KINDS and (kind != "one-use" or not subject):
            raise RewriteError(f"pattern {name} has an unknown condition {condition!r}")
        conditions.append((kind, subject))
    return tuple(conditions)


def _walk(tree: _Tree) -> Iterator[tuple[_Tree, int]]:
    """The nodes of a tree, each with its depth."""
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        if isinstance(node, _Op):
            pending += [(operand, depth + 1) for operand in node.operands]


def _names(tree: _Tree) -> set[str]:
    parts = [node for node, _ in _walk(tree)]
    attrs = {str(a) for node in parts if isinstance(node, _Op) for a in node.attrs.values() if _is_name(a)}
    return attrs | {node.name for node in parts if isinstance(node, _Leaf) and node.name is not None}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.startswith("$")


def _filter(node: _Tree) -> OperandFilter:
    if isinstance(node, _Op):
        return node.op
    return constant_kinds.get(node.number, constant) if node.is_constant else None


def _matches(tree: _Op, root: Inst, values: dict[str, Value], attrs: dict[object, object]) -> bool:
    pending: list[tuple[_Op, Inst]] = [(tree, root)]
    while pending:
        node, inst = pending.pop()
        if inst.op is not node.op or len(inst.operands) != len(node.operands):
            return False
        for field, wanted in node.attrs.items():
            actual: object = getattr(inst.attrs, field)
            if actual != (attrs.setdefault(wanted, actual) if _is_name(wanted) else wanted):
                return False
        for part, value in zip(node.operands, inst.operands, strict=True):
            if isinstance(part, _Op):
                if value.def_inst is None:
                    return False
                pending.append((part, value.def_inst))
                continue
            literal = value.literal
            if part.is_constant and (
                literal is None or (part.number is not None and literal.item != part.number)
            ):
                return False
            if part.name is not None and values.setdefault(part.name, value) is not value:
                return False
    return True


def _build(
    node: _Tree, root: Inst, rw: ProgramRewriter, values: Mapping[str, Value], attrs: Mapping[object, object]
) -> Value:
    if isinstance(node, _Leaf):
        if node.name is not None:
            return values[node.name]
        type = root.results[0].type
        return rw.materialize_constant(root, Literal.full(type.dtype, type.shape, node.number or 0))
    operands = [_build(operand, root, rw, values, attrs) for operand in node.operands]
    fields = {k: attrs[v] if _is_name(v) else v for k, v in node.attrs.items()}
    record: Attrs = node.op.attrs_type(**fields) if fields else NO_ATTRS
    return rw.insert_before(root, node.op, operands, record).result
