"""Whether a model can be imported at all: found out before anything is, and said in one error.

Names must be text (protobuf hands out bytes where they are none), and be defined before they are used, once each; functions may not call themselves, and may not multiply without end; every op
needs an import. The walk is a loop, not a recursion, and ends early when a model is larger than any real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from planish.errors import PlanishError
from planish.onnx import registry
from planish.onnx.functions import has_body
from planish.onnx.registry import Unsupported
from planish.onnx.scope import graphs_of
from planish.onnx.wire import MOST_NODES

MOST_CALLS: Final = 64
"""How deep functions may call each other."""
FunctionKey = tuple[str, str, str]


def domain_of(name: str) -> str:
    """A domain, ONNX's own being the empty one."""
    return "" if name == "ai.onnx" else name


def key_of(node: NodeProto | FunctionProto) -> FunctionKey:
    """Under which a function is found."""
    name = node.op_type if isinstance(node, NodeProto) else node.name
    return domain_of(node.domain), name, getattr(node, "overload", "")


@dataclass(slots=True)
class _Census:
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Ops without an import, with the nodes that are such."""
    calls: list[FunctionKey] = field(default_factory=list)
    count: int = 0


def check(
    model: ModelProto, functions: Mapping[FunctionKey, FunctionProto], versions: Mapping[str, int]
) -> None:
    """Raise one error that says everything, or nothing."""
    total = _Census()
    graph = model.graph
    _texts("the name of the graph", graph.name)
    _texts("the domain of an opset", *versions)
    _texts("the name of a function", *(part for key in functions for part in key))
    for domain, version in versions.items():
        if not 0 < version < 1 << 31:
            raise PlanishError(f"the model is of version {version} of the opset {domain or 'ai.onnx'}")
    given = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    given |= {s.values.name for s in graph.sparse_initializer}
    _walk(graph.node, [o.name for o in graph.output], given, functions, versions, total, "the model")
    bodies: dict[FunctionKey, _Census] = {}
    for key, function in functions.items():
        own = {domain_of(i.domain): i.version for i in function.opset_import}
        _texts("the domain of an opset", *own)
        _texts(
            f"an attribute of {function.name!r}",
            *function.attribute,
            *(a.name for a in function.attribute_proto),
        )
        census = _Census(missing=total.missing)
        what = f"function {function.name!r}"
        _walk(
            function.node, function.output, set(function.input), functions, {**versions, **own}, census, what
        )
        bodies[key] = census
    _expanded(total, bodies)
    if total.missing:
        raise Unsupported(f"the model uses ops that planish does not import: {_told(total.missing)}")


def _texts(what: str, *given: object) -> None:
    """That all of this is text."""
    for each in given:
        if type(each) is not str:
            raise PlanishError(f"{what} is no text: {str(each)[:60]}")


def _told(missing: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for op, nodes in sorted(missing.items()):
        shown = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")
        parts.append(f"{op} ({len(nodes)}×: {shown})")
    return "; ".join(parts)


def _name(node: NodeProto) -> str:
    return node.name or f"for {node.output[0] if node.output else '?'}"


def _walk(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    given: set[str],
    functions: Mapping[FunctionKey, FunctionProto],
    versions: Mapping[str, int],
    census: _Census,
    what: str,
) -> None:
    """One graph and the graphs inside it. Names of a graph inside are visible in it alone."""
    stack: list[tuple[Sequence[NodeProto], Sequence[str], set[str], frozenset[str], str]]
    stack = [(nodes, outputs, given, frozenset(), what)]
    while stack:
        nodes, outputs, own, around, what = stack.pop()
        census.count += len(nodes)
        if census.count > MOST_NODES:
            raise PlanishError(f"{what} has more than {MOST_NODES} nodes")
        inner: list[tuple[NodeProto, GraphProto, frozenset[str]]] = []
        _texts(f"a name in {what}", *own)
        for node in nodes:
            _texts(f"the name or op of a node of {what}", node.name, node.op_type, node.domain, node.overload)
            for name in node.input:
                if name and name not in own and name not in around:
                    raise _undefined(node, name, nodes)
            if node.attribute:
                for attribute in node.attribute:
                    _texts(f"an attribute of {_name(node)!r}", attribute.name, attribute.ref_attr_name)
                inside = list(graphs_of(node))
                if inside:
                    visible = around | own
                    inner += [(node, graph, visible) for graph in inside]
            _texts(f"an output of {_name(node)!r}", *node.output)
            for name in node.output:
                if name and name in own:
                    raise PlanishError(
                        f"node {_name(node)!r} ({node.op_type}) defines {name!r}, which is defined before"
                    )
                own.add(name)
            _op(node, functions, versions, census)
        for name in outputs:
            if name and name not in own and name not in around:
                raise PlanishError(f"nothing computes {name!r}, an output of {what}")
        for node, graph, visible in inner:
            names = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            names |= {s.values.name for s in graph.sparse_initializer}
            title = f"graph {graph.name!r} of node {_name(node)!r} ({node.op_type})"
            stack.append((graph.node, [o.name for o in graph.output], names, visible, title))


def _undefined(node: NodeProto, name: str, nodes: Sequence[NodeProto]) -> PlanishError:
    later = next((other for other in nodes if name in other.output), None)
    title = f"node {_name(node)!r} ({node.op_type})"
    if later is None:
        return PlanishError(f"{title} uses {name!r}, which nothing defines")
    return PlanishError(
        f"{title} uses {name!r}, which node {_name(later)!r} ({later.op_type}) computes later: "
        "the nodes are not in order, or go in a circle"
    )


def _op(
    node: NodeProto,
    functions: Mapping[FunctionKey, FunctionProto],
    versions: Mapping[str, int],
    census: _Census,
) -> None:
    key = key_of(node)
    if key in functions:
        census.calls.append(key)
        return
    domain, name, _ = key
    version = versions.get(domain, 1)
    if registry.find(domain, name, version) is None and not has_body(domain, name, version):
        title = f"{domain or 'ai.onnx'}:{name} {version}"
        census.missing.setdefault(title, []).append(_name(node))


def _expanded(total: _Census, bodies: Mapping[FunctionKey, _Census]) -> None:
    """Count nodes with functions written out; find functions that call themselves."""
    sizes: dict[FunctionKey, tuple[int, int]] = {}
    for start in dict.fromkeys(total.calls):
        path: dict[FunctionKey, None] = {}
        stack = [(start, False)]
        while stack:
            key, done = stack.pop()
            if done:
                path.pop(key, None)
                inner = [sizes[called] for called in bodies[key].calls]
                count = bodies[key].count + sum(size for size, _ in inner)
                depth = 1 + max((deep for _, deep in inner), default=0)
                if count > MOST_NODES or depth > MOST_CALLS:
                    raise PlanishError(
                        f"function {key[1]!r}, written out, has {count} nodes in {depth} levels; "
                        f"at most {MOST_NODES} in {MOST_CALLS} are imported"
                    )
                sizes[key] = count, depth
                continue
            if key in sizes:
                continue
            path[key] = None
            stack.append((key, True))
            for called in dict.fromkeys(bodies[key].calls):
                if called in path:
                    raise PlanishError(f"function {called[1]!r} calls itself")
                if called not in sizes:
                    stack.append((called, False))
    count = total.count + sum(sizes[key][0] for key in total.calls)
    if count > MOST_NODES:
        raise PlanishError(
            f"the model, with its functions written out, has {count} nodes; at most {MOST_NODES}"
        )
