"""The rewrite engine: apply a matcher to a graph until no rule fires.

Two orders
* `sources_first` (the default): a node is offered once its sources are final. What a rule returns is itself
  settled the same way, so the result is a fixpoint. For algebra and lowering.
* `sink_first`: a node is offered before its sources are looked at, until no rule fires on it; then its sources.
  For rules keyed by original nodes: pushing things down, adding control flow.

Cost. Each node of the input is offered once, plus once more for each node that a rule or a changed source brings
into being: visits ≤ N + k·rewrites, where k is what one right-hand side builds plus the users it changes. Nodes
are processed in order of `serial`, which is topological, so the common case needs no stack and no second look.

A pair of rules that undo each other is found at once (a node is to be replaced by something that is waiting for
it); rules that grow a graph for ever run into the budget. Both raise `RewriteError` with the rules and last steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Final, Literal, NamedTuple, cast

from planish.config import current
from planish.errors import RewriteError
from planish.records import dataclass
from planish.uop.matcher import Decisions, Listener, Matcher, Watch
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.trial import active

Order = Literal["sources_first", "sink_first"]

_by_serial: Final = attrgetter("serial")
_NO_OPS: Final[frozenset[Ops]] = frozenset()
_BUDGET_BASE: Final = 20_000
_BUDGET_PER_NODE: Final = 200
"""More rewrites than base + per node·N is taken for a loop: real rule sets need below ten per node."""
_STEPS_SHOWN: Final = 16


@dataclass(slots=True)
class RewriteStats:
    """What a rewrite did; pass one to `rewrite` to have it filled. `watch` adds counts and times per rule."""

    visits: int = 0
    """Nodes offered to the matcher."""
    rewrites: int = 0
    """Times a rule fired."""
    watch: Watch | None = None


@dataclass(slots=True)
class _Run:
    """The state of one rewrite."""

    matcher: Matcher
    decisions: Decisions
    ctx: object
    final: dict[UOp, UOp]
    leaves: frozenset[Ops]
    budget: int
    rewrites: int = 0
    visits: int = 0
    steps: list[str] = field(default_factory=list)


def rewrite(
    root: UOp,
    matcher: Matcher,
    ctx: object = None,
    *,
    order: Order = "sources_first",
    listener: Listener | None = None,
    stats: RewriteStats | None = None,
    memo: dict[UOp, UOp] | None = None,
    leaves: frozenset[Ops] = _NO_OPS,
    budget: int | None = None,
) -> UOp:
    """The graph under `root` after applying the rules of `matcher` until none fires.

    `memo` (sources_first, without ctx) carries results from one call to the next: what is in it is not visited.
    Nodes of the ops in `leaves` stay as they are, with all that is below them; a memo belongs to one set of leaves.
    """
    if order not in _ENGINES:
        raise RewriteError(f"unknown order {order!r}", remedy=f"one of {', '.join(_ENGINES)}")
    watch = stats.watch if stats is not None else None
    if listener is not None:
        watch = Watch(listener) if watch is None else watch.also(listener)
    trying, number = active(), 0
    if trying is not None:
        decisions = trying.decisions(matcher)
        number = trying.begun(matcher, root, order)
    else:
        decisions = matcher.decisions if watch is None else matcher.watched(watch)
    final = {} if memo is None else memo
    run = _Run(matcher, decisions, ctx, final, leaves, -1 if budget is None else budget)
    result = _ENGINES[order](root, run)
    if trying is not None:
        trying.ended(number, result)
    if stats is not None:
        stats.visits += run.visits
        stats.rewrites += run.rewrites
    return result


def _default_budget(nodes: int) -> int:
    return min(_BUDGET_BASE + _BUDGET_PER_NODE * nodes, max(current().rewrite_budget, 16 * nodes))


def _rewrite_sources_first(root: UOp, run: _Run) -> UOp:
    final, decisions, ctx = run.final, run.decisions, run.ctx
    if root in final:
        return final[root]
    leaves = run.leaves
    if root.op in leaves:
        return root
    changed: set[UOp] = set()  # whose final form is another
    todo = _unsettled(root, run, changed) if final or leaves else root.sorted_sources()
    run.visits += len(todo)
    if run.budget < 0:
        run.budget = _default_budget(len(todo))
    remake, is_unchanged = root.table.remake, changed.isdisjoint
    first = 0
    if not changed:  # up to the first node that a rule could match, all stay as they are
        for node in todo:
            if decisions[node.form]:
                break
            first += 1
        final.update(zip(todo[:first], todo[:first], strict=True))
    for node in todo[first:] if first else todo:
        known = final.get(node)
        if known is not None:  # a rule built it earlier than its turn, and it was counted there
            run.visits -= 1
            if known is not node:
                changed.add(node)
            continue
        now = node
        if not is_unchanged(node.src):
            now = remake(node, tuple([final[source] for source in node.src]))
            changed.add(node)
            known = final.get(now)
            if known is not None:
                final[node] = known
                continue
            run.visits += 1
        for function in decisions[now.form]:
            result = function(now, ctx)
            if result is not None:
                run.rewrites += 1
                if now is node:
                    final[node] = final[result] if result in final else _settle(result, node, run)
                    changed.add(node)
                else:
                    if run.rewrites > run.budget:
                        _note_overrun(now, result, run)
                    final[node] = _settle_after(now, result, {node: now, now: result}, run)
                break
        else:
            final[now] = now
            if now is not node:
                final[node] = now
    return final[root]


def _unsettled(root: UOp, run: _Run, changed: set[UOp]) -> list[UOp]:
    """What is below a node and not final yet, sources first; what is final as something else is added to `changed`."""
    final, leaves = run.final, run.leaves
    seen = {root}
    todo = [root]
    for node in todo:
        for source in node.src:
            if source not in seen:
                seen.add(source)
                known = final.get(source)
                if source.op in leaves:
                    final[source] = source
                elif known is None:
                    todo.append(source)
                elif known is not source:
                    changed.add(source)
    todo.sort(key=_by_serial)
    return todo


def _settle(start: UOp, origin: UOp, run: _Run) -> UOp:
    """The final form of a node that came into being in place of `origin`; nodes are offered when their sources are final."""
    final = run.final
    known = final.get(start)
    if known is not None:
        return known
    if start.op in run.leaves:
        final[start] = start
        return start
    waiting = {origin: start}  # node -> what replaces it, once that is final
    for source in start.src:
        if final.get(source) is not source:
            return _settle_all([start], waiting, run)
    # mostly a rule builds one node from final ones, and no rule has anything to say about it
    result = _offer(start, run)
    if result is None:
        final[start] = start
        return start
    waiting[start] = result
    return _settle_after(start, result, waiting, run)


def _settle_after(start: UOp, result: UOp, waiting: dict[UOp, UOp], run: _Run) -> UOp:
    """The final form of a node over final sources that a rule has just given a result for; `waiting` says so already."""
    known = run.final.get(result)
    if known is not None:
        run.final[start] = known
        return known
    if result in waiting or result is start:
        raise _cycle(start, waiting, run)
    return _settle_all([start, result], waiting, run)


def _settle_all(stack: list[UOp], waiting: dict[UOp, UOp], run: _Run) -> UOp:
    """The final form of the first on a stack, once everything on it has one."""
    final, decisions, leaves = run.final, run.decisions, run.leaves
    start = stack[0]
    remake = start.table.remake
    while stack:
        node = stack[-1]
        if node in final:
            stack.pop()
            continue
        replacement = waiting.get(node)
        if replacement is not None:
            final[node] = final[replacement]
            stack.pop()
            continue
        if node.op in leaves:
            final[node] = node
            stack.pop()
            continue
        ready, changed, last = True, False, None
        for source in node.src:
            if source is last:  # one value in all lanes
                continue
            last = source
            settled = final.get(source)
            if settled is None:
                if source in waiting:
                    raise _cycle(source, waiting, run)
                stack.append(source)
                ready = False
            elif settled is not source:
                changed = True
        if not ready:
            continue
        if changed:
            rebuilt = remake(node, tuple([final[source] for source in node.src]))
            if rebuilt not in final and rebuilt not in waiting and not decisions[rebuilt.form]:
                run.visits += 1  # over final sources, and no rule has anything to say about it
                final[rebuilt] = final[node] = rebuilt
                stack.pop()
                continue
            result: UOp | None = rebuilt
        else:
            result = _offer(node, run)
        if result is None:
            final[node] = node
            stack.pop()
        elif result in final:
            final[node] = final[result]
            stack.pop()
        elif result in waiting:
            waiting[node] = result
            raise _cycle(node, waiting, run)
        else:
            waiting[node] = result
            stack.append(result)
    return final[start]


def _offer(node: UOp, run: _Run) -> UOp | None:
    """What the first matching rule makes of a node."""
    run.visits += 1
    ctx = run.ctx
    for function in run.decisions[node.form]:
        result = function(node, ctx)
        if result is not None:
            run.rewrites += 1
            if run.rewrites > run.budget:
                _note_overrun(node, result, run)
            return result
    return None


def _rewrite_sink_first(root: UOp, run: _Run) -> UOp:
    """Nodes are offered on the way down, once; on the way up they are made anew over what became of their sources."""
    final, decisions, leaves = run.final, run.decisions, run.leaves
    if run.budget < 0:
        run.budget = _default_budget(len(root.sorted_sources()))
    remake = root.table.remake
    waiting: dict[UOp, UOp] = {}  # node -> what replaces it, once that is final
    offered: set[UOp] = set()
    stack: list[tuple[UOp, Iterator[UOp]]] = []  # nodes, and what has to be final before they are
    entered: UOp | None = root
    while entered is not None or stack:
        if entered is not None:
            node, entered = entered, None
            if node in final:
                continue
            if node.op in leaves:
                final[node] = node
                continue
            result = None
            if node not in offered:
                offered.add(node)
                if decisions[node.form]:
                    result = _offer(node, run)
                else:
                    run.visits += 1
            if result is None:
                stack.append((node, reversed(node.src)))
                continue
        else:
            node, sources = stack[-1]
            for source in sources:
                if source not in final:
                    if source in waiting:
                        raise _cycle(source, waiting, run)
                    entered = source
                    break
            if entered is not None:
                continue
            stack.pop()
            replacement = waiting.get(node)
            if replacement is not None:
                final[node] = final[replacement]
                continue
            src = tuple([final[source] for source in node.src])
            if src == node.src:
                final[node] = node
                continue
            result = remake(node, src)
            if result not in final and result not in waiting and not decisions[result.form]:
                run.visits += 1  # over final sources, and no rule has anything to say about it
                final[result] = final[node] = result
                continue
        if result in final:
            final[node] = final[result]
            continue
        if result in waiting:
            waiting[node] = result
            raise _cycle(node, waiting, run)
        waiting[node] = result
        stack.append((node, iter((result,))))
    return final[root]


_ENGINES: Final[dict[str, Callable[[UOp, _Run], UOp]]] = {
    "sources_first": _rewrite_sources_first,
    "sink_first": _rewrite_sink_first,
}


def substitute(root: UOp, mapping: Mapping[UOp, UOp], enter: Callable[[UOp], bool] | None = None) -> UOp:
    """The graph with nodes exchanged, all at once: replacements are not looked into, so `{a: b, b: a}` swaps.

    `enter` prunes: what lies below a node it rejects stays as it is.
    """
    if not mapping:
        return root
    final = dict(mapping)
    for node in root.toposort(lambda n: n not in mapping and (enter is None or enter(n))):
        if node in final or (enter is not None and not enter(node)):
            continue
        for source in node.src:
            if final.get(source, source) is not source:
                final[node] = node.table.remake(node, tuple([final.get(s, s) for s in node.src]))
                break
    return final.get(root, root)


class Lines(NamedTuple):
    """What a rule makes of one line of a linear program: the lines in its place, and who is its value now."""

    value: UOp
    lines: tuple[UOp, ...]


def line_rewrite(
    lines: Sequence[UOp], matcher: Matcher, ctx: object = None, *, listener: Listener | None = None
) -> list[UOp]:
    """A linear program with each line offered to the matcher once, in order.

    A rule returns a node (one line for one) or `Lines`. Later lines see the new values of earlier ones.
    """
    trying = active()
    if trying is not None:
        decisions = trying.decisions(matcher)
    else:
        decisions = matcher.decisions if listener is None else matcher.watched(Watch(listener))
    values: dict[UOp, UOp] = {}
    result: list[UOp] = []
    for line in lines:
        src = tuple([values.get(source, source) for source in line.src])
        node = line if src == line.src else line.replace(src=src)
        rewritten: UOp | Lines = node
        for function in decisions[node.form]:
            replacement = cast("UOp | Lines | None", function(node, ctx))
            if replacement is not None:
                rewritten = replacement
                break
        value, new_lines = rewritten if isinstance(rewritten, Lines) else (rewritten, (rewritten,))
        values[line] = value
        result.extend(new_lines)
    return result


# -- errors ----------------------------------------------------------------------------------------------------


def _step(before: UOp, after: UOp, run: _Run) -> str:
    match = run.matcher.first(before, run.ctx)
    name = match[0].name if match is not None and match[1] is after else "its sources changed"
    return f"{name}:  {before!r} -> {after!r}"


def _cycle(node: UOp, waiting: Mapping[UOp, UOp], run: _Run) -> RewriteError:
    """Rules that lead from a node back to it, or to something that contains it."""
    chain: list[str] = []
    current = node
    while current in waiting and len(chain) < _STEPS_SHOWN:
        chain.append(_step(current, waiting[current], run))
        current = waiting[current]
        if current is node:
            break
    return _error(f"rules of {run.matcher.name} undo or contain each other", chain)


def _note_overrun(before: UOp, after: UOp, run: _Run) -> None:
    """Past the budget: watch a few more steps, then stop with them."""
    run.steps.append(_step(before, after, run))
    if len(run.steps) >= _STEPS_SHOWN:
        raise _error(f"no fixpoint after {run.budget} rewrites with {run.matcher.name}", run.steps)


def _error(what: str, steps: Sequence[str]) -> RewriteError:
    error = RewriteError(what, remedy="one of the rules below must decline; the last steps are shown")
    rules = list(dict.fromkeys(step.split(":  ")[0] for step in steps))
    error.add_note("rules: " + "; ".join(rules))
    error.add_note("last steps:\n  " + "\n  ".join(steps))
    return error
