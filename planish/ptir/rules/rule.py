"""Rules as functions: what stands in the place of an instruction, or why nothing does.

    @rule(benefit=2)
    def FoldTransposeOfTranspose(op: v.TransposeView, inner: v.TransposeView) -> Answer:
        \"\"\"transpose(transpose(x, p), q) -> transpose(x, p[q]).\"\"\"
        return d.transposed(inner.source, compose_permutations(inner.perm, op.perm))

The function becomes a pattern class of its name. Its first parameter is the root; those after it are what defines the
operands, in order: a view is also the filter of that operand, an `Inst` comes with one in `operands`. A rule that edits
by itself asks for `rw` last. It answers with a draft (a tuple of them for several results), with the reason why it
declines, or, if it has edited, with True.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from planish.ptir.function import Inst
from planish.ptir.ops.definition import REGISTRY, OpKey, annotated_types
from planish.ptir.rewrite.pattern import (
    BasePattern,
    OperandFilter,
    OpRewritePattern,
    Pattern,
    PatternSet,
    Root,
)
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.rewrite.views import OpView
from planish.ptir.rules import draft as d

Answer: TypeAlias = "d.Term | tuple[d.Term | None, ...] | str | bool | None"
Match: TypeAlias = Callable[[Any, Any, ProgramRewriter], bool]

_FAMILIES: Final[defaultdict[str, list[type[BasePattern]]]] = defaultdict(list)


def rule(
    *,
    benefit: int = 1,
    radius: int | None = None,
    roots: tuple[Root, ...] = (),
    operands: tuple[OperandFilter, ...] = (),
    any_operand: OperandFilter = None,
    same_operands: bool = False,
    watch_uses: bool = False,
    alone: bool = False,
    when: Callable[[Any], bool] | None = None,
) -> Callable[[Callable[..., Answer]], type[BasePattern]]:
    """The function as a pattern; the arguments are what `BasePattern` declares, and `when` its `may_match`.

    A radius that is not given is 1 if something is said about operands, else 0. A rule with `alone` would do the work of
    its first operand again, so that must have no other use and stand in the same region.
    """

    def decorate(function: Callable[..., Answer]) -> type[BasePattern]:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        edits = names[-1] == "rw"
        views, *inner = [annotated_types(function, name) for name in (names[:-1] if edits else names)]
        filters = list(operands) + [None] * (len(inner) - len(operands))
        for place, (part,) in enumerate(inner):
            if filters[place] is None:
                filters[place] = tuple([_sole(root) for root in part.roots])
        said = bool(filters) or any_operand is not None or same_operands
        body: dict[str, object] = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "benefit": benefit,
            "radius": (1 if said else 0) if radius is None else radius,
            "roots": roots or tuple([root for view in views for root in view.roots]),
            "operands": tuple([f[0] if isinstance(f, tuple) and len(f) == 1 else f for f in filters]),
            "any_operand": any_operand,
            "same_operands": same_operands,
            "watch_uses": watch_uses or alone,
        }
        if when is not None:
            body["may_match"] = lambda self, op, rw: when(op)
        typed = views[0] is not Inst
        if typed:
            body["views"] = views
        cls: Any = type(function.__name__, (OpRewritePattern if typed else Pattern,), body)
        # Set afterwards: the signature that the base class would read is the wrapper's.
        cls.match_and_rewrite = _match(function, [part for (part,) in inner], edits, alone)
        return enlist(function.__module__, cls)

    return decorate


def enlist(module: str, pattern: type[BasePattern]) -> type[BasePattern]:
    """A pattern as one of the family of a module."""
    _FAMILIES[module].append(pattern)
    return pattern


def family(module: str) -> Callable[[PatternSet], None]:
    """What adds the rules of a module to a set, in the order they are written."""

    def populate_canonicalization(patterns: PatternSet) -> None:
        patterns.add(*_FAMILIES[module])

    return populate_canonicalization


def _sole(root: Root) -> Root:
    """The only op of a family, or the family."""
    if isinstance(root, OpKey):
        ops = [op for op in REGISTRY.values() if op.key is root]
        return ops[0] if len(ops) == 1 else root
    return root


def _match(function: Callable[..., Answer], inner: list[Any], edits: bool, alone: bool) -> Match:
    """The method that calls a rule and does what it answers."""
    seen = [part.of if issubclass(part, OpView) else _definition for part in inner]
    first = seen[0] if len(seen) == 1 and not edits else None

    def match_and_rewrite(self: object, op: Any, rw: ProgramRewriter) -> bool:
        inst = op if type(op) is Inst else op.inst
        if alone and not _is_alone(inst):
            return rw.fail(inst, "what it takes is needed elsewhere")
        try:
            # The two frequent cases are written out.
            if first is not None:
                view = first(inst.operands[0])
                if view is None:
                    return False
                answer = function(op, view)
            elif not seen and not edits:
                answer = function(op)
            else:
                given = [see(value) for see, value in zip(seen, inst.operands, strict=False)]
                if None in given or len(given) < len(seen):
                    return False
                answer = function(op, *given, rw) if edits else function(op, *given)
        except d.Declined as reason:
            return rw.fail(inst, str(reason))
        if isinstance(answer, str):
            return rw.fail(inst, answer)
        if isinstance(answer, bool):
            return answer
        return d.replace(rw, inst, *answer) if isinstance(answer, tuple) else d.replace(rw, inst, answer)

    return match_and_rewrite


def _is_alone(inst: Inst) -> bool:
    value = inst.operands[0]
    definition = value.def_inst
    return value.has_one_use and definition is not None and definition.parent is inst.parent


def _definition(value: Any) -> Inst | None:
    return cast("Inst | None", value.def_inst)
