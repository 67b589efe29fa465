"""The tables of docs/ptir.md, made from what is registered; a test keeps the page equal to them."""

from __future__ import annotations

import dataclasses

from planish.ptir.ops.definition import REGISTRY, OpDef, OpKey, arity_text
from planish.ptir.passes import PASSES
from planish.ptir.verify import RULES


def ops_markdown() -> str:
    """Every op by family."""
    lines = ["| family | op | operands | results | attributes | meaning |", "|---|---|---|---|---|---|"]
    families: dict[OpKey, list[OpDef]] = {}
    for op in REGISTRY.values():
        families.setdefault(op.key, []).append(op)
    for key in OpKey:
        for op in families.get(key, ()):
            fields = ", ".join(field.name for field in dataclasses.fields(op.attrs_type))  # type: ignore[arg-type]
            results = "varies" if op.num_results is None else str(op.num_results)
            doc = f"{op.doc} (host)" if op.host else op.doc
            cells = [key.name, f"`{op.name}`", arity_text(op).rpartition(" ")[0], results, fields, doc]
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def passes_markdown() -> str:
    """Every pass with its options."""
    lines = ["| pass | class | options | what it does |", "|---|---|---|---|"]
    for name, cls in sorted(PASSES.items()):
        if cls.__module__.startswith("planish."):
            fields = dataclasses.fields(cls)  # type: ignore[arg-type]
            options = (
                ", ".join(f"`{field.name.replace('_', '-')}`" for field in fields if field.name != "passes")
                or "–"
            )
            doc = (cls.__doc__ or "").splitlines()[0]
            lines.append(f"| `{name}` | `{cls.__name__}` | {options} | {doc} |")
    return "\n".join(lines)


def invariants_markdown() -> str:
    """The rules of the verifier, in its order."""
    return ", ".join(f"`{rule}`" for rule in RULES)
