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
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from planish import dtypes
from planish.errors import RewriteError
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef, constant, constant_kinds, find
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.pattern import OperandFilter, Pattern
from planish.ptir.rewrite.rewriter import ProgramRewriter

Tree: TypeAlias = "str | Mapping[str, object]"
_KINDS = {"int": "is_int", "float": "is_float", "bool": "is_bool", "complex": "is_complex"}


class _Any:
    """Matches any value and gives it a name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Const:
    """Matches a constant: of one number, or any under a name."""

    __slots__ = ("name", "number")

    def __init__(self, name: str | None, number: bool | int | float | None) -> None:
        self.name = name
        self.number = number


class _Op:
    """Matches an instruction and its operands."""

    __slots__ = ("attrs", "op", "operands")

    def __init__(self, op: OpDef, operands: Sequence[_Node], attrs: Mapping[str, object]) -> None:
        self.op = op
        self.operands = tuple(operands)
        self.attrs = dict(attrs)


_Node: TypeAlias = "_Any | _Const | _Op"


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
        self.radius = _depth(tree)  # type: ignore[misc]
        self.operands = tuple([_filter(node) for node in tree.operands])  # type: ignore[misc]
        self.watch_uses = any(kind == "one-use" for kind, _ in self._conditions)  # type: ignore[misc]

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        values: dict[str, Value] = {}
        attrs: dict[str, object] = {}
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


def _read(name: str, tree: object) -> _Node:
    if isinstance(tree, str):
        return _Any(tree)
    if isinstance(tree, Mapping):
        if set(tree) == {"const"}:
            number = tree["const"]
            if isinstance(number, str):
                return _Const(number, None)
            if isinstance(number, (bool, int, float)):
                return _Const(None, number)
        elif "op" in tree and set(tree) <= {"op", "operands", "attrs"}:
            operands = tree.get("operands", ())
            attrs = tree.get("attrs", {})
            if (
                isinstance(operands, Sequence)
                and not isinstance(operands, str)
                and isinstance(attrs, Mapping)
            ):
                op = find(str(tree["op"]))
                fields = {field.name for field in dataclasses.fields(op.attrs_type)}  # type: ignore[arg-type]
                wrong = sorted(set(attrs) - fields)
                if wrong:
                    raise RewriteError(f"pattern {name}: {op.name} has no attribute {', '.join(wrong)}")
                given = {field: _attribute(op, field, value) for field, value in attrs.items()}
                return _Op(op, [_read(name, operand) for operand in operands], given)
    raise RewriteError(f"pattern {name} cannot be read at {tree!r}: a name, a const or an op is due")


def _attribute(op: OpDef, name: str, value: object) -> object:
    """An attribute as plain data spells it: lists for tuples, names for dtypes."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and not _is_name(value):
        hints = {field.name: str(field.type) for field in dataclasses.fields(op.attrs_type)}  # type: ignore[arg-type]
        return dtypes.parse(value) if hints[name].startswith("DType") else value
    return value


def _conditions(name: str, given: object) -> tuple[tuple[str, str], ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise RewriteError(f"pattern {name}: `when` is a list of conditions")
    found: list[tuple[str, str]] = []
    for condition in given:
        kind, _, subject = str(condition).partition(":")
        if kind not in _KINDS and (kind != "one-use" or not subject):
            raise RewriteError(f"pattern {name} has an unknown condition {condition!r}")
        found.append((kind, subject))
    return tuple(found)


def _names(node: _Node) -> set[str]:
    found: set[str] = set()
    pending: list[_Node] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, _Op):
            pending += part.operands
            found |= {str(a) for a in part.attrs.values() if isinstance(a, str) and a.startswith("$")}
        elif part.name is not None:
            found.add(part.name)
    return found


def _depth(node: _Op) -> int:
    deepest = 0
    pending: list[tuple[_Node, int]] = [(node, 0)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, _Op):
            # Naming an operand of an inner op compares or moves it: that looks one definition deeper.
            pending += [(operand, depth + 1) for operand in part.operands]
        deepest = max(deepest, depth)
    return deepest


def _filter(node: _Node) -> OperandFilter:
    if isinstance(node, _Const):
        kind = constant_kinds.get(node.number)
        return constant if kind is None else kind
    return node.op if isinstance(node, _Op) else None


def _matches(tree: _Op, root: Inst, values: dict[str, Value], attrs: dict[str, object]) -> bool:
    pending: list[tuple[_Op, Inst]] = [(tree, root)]
    while pending:
        node, inst = pending.pop()
        if inst.op is not node.op or len(inst.operands) != len(node.operands):
            return False
        for field, wanted in node.attrs.items():
            actual: object = getattr(inst.attrs, field)
            expected = attrs.setdefault(str(wanted), actual) if _is_name(wanted) else wanted
            if actual != expected:
                return False
        for part, value in zip(node.operands, inst.operands, strict=True):
            if isinstance(part, _Op):
                if value.def_inst is None:
                    return False
                pending.append((part, value.def_inst))
                continue
            if isinstance(part, _Const):
                literal = value.literal
                if literal is None or (part.number is not None and literal.item != part.number):
                    return False
            if part.name is not None and values.setdefault(part.name, value) is not value:
                return False
    return True


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.startswith("$")


def _build(
    node: _Node, root: Inst, rw: ProgramRewriter, values: Mapping[str, Value], attrs: Mapping[str, object]
) -> Value:
    if isinstance(node, _Any):
        return values[node.name]
    if isinstance(node, _Const):
        if node.name is not None:
            return values[node.name]
        type = root.results[0].type
        number = 0 if node.number is None else node.number
        return rw.materialize_constant(root, Literal.full(type.dtype, type.shape, number))
    operands = [_build(operand, root, rw, values, attrs) for operand in node.operands]
    made = {k: attrs[str(v)] if _is_name(v) else v for k, v in node.attrs.items()}
    record: Attrs = node.op.attrs_type(**made) if made else NO_ATTRS
    return rw.insert_before(root, node.op, operands, record).result
