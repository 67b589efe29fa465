"""Gates leave the index: from `x[i if p]` to a load or store that is done only where p holds.

Until here a guarded access is written in its index, `where(p, i, INVALID)`: the algebra simplifies the index knowing the
condition, and loads with equal conditions are seen to be neighbours. Machines do not have such indices. Two steps:

* `pm_gate_of_index` (with stage 15, because INVALID has no machine width): `INDEX(b, where(p, i, INVALID))` becomes
  `INDEX(b, i, p)`.
* `pm_move_gates_from_index` (in stage 19): the gate becomes an operand of the access. This has to come after stage 14:
  loads that differ in their gate operand could not be combined any more.

What the address is where the gate is closed does not matter; nothing may access it.

The algebra leaves `where(p, i, INVALID)` and nothing else of INVALID; `with_plain_gates` brings graphs that did not go
through it to that form.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.uop.laws import space_of
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.gates import gates as gate_rules

# a member of an enum costs more to look up than a name
_CONST, _INDEX, _INVALID, _VCONST, _VECTORIZE, _WHERE = (
    Ops.CONST,
    Ops.INDEX,
    Ops.INVALID,
    Ops.VCONST,
    Ops.VECTORIZE,
    Ops.WHERE,
)


def _gate_of_index(root: UOp) -> UOp | None:
    for index in root.src:
        if index.op is _WHERE or index.op is _INVALID:
            break
    else:  # most have none
        return None
    buffer, *indices = root.src
    gates = [indices.pop()] if indices and indices[-1].dtype.is_bool else []
    plain = []
    for index in indices:
        if index.op is _WHERE and index.src[2].op is _INVALID:
            gates.append(index.src[0])
            plain.append(index.src[1])
        elif index.op is _INVALID:
            gates.append(root.table.const(False, dtypes.bool_.vec(index.dtype.lanes)))
            plain.append(index.const_like(0))
        else:
            plain.append(index)
    if plain == indices:
        return None
    return root.replace(src=(buffer, *plain, _all(gates)))


def _all(gates: list[UOp]) -> UOp:
    """The conjunction; a gate of one lane is one for all lanes."""
    lanes = max(gate.dtype.lanes for gate in gates)
    wide = [
        gate
        if gate.dtype.lanes == lanes
        else gate.table.make(_VECTORIZE, gate.dtype.vec(lanes), (gate,) * lanes)
        for gate in gates
    ]
    result = wide[0]
    for gate in wide[1:]:
        result = result & gate
    return result


pm_gate_of_index: Final = Matcher(
    "pm_gate_of_index",
    [rule(node(Ops.INDEX), _gate_of_index, says="INDEX(b, where(p, i, INVALID)) -> INDEX(b, i, p)")],
)


def with_plain_gates(sink: UOp) -> UOp:
    """The graph with INVALID in no other place than `where(p, i, INVALID)`, the whole of an index."""
    carriers: set[UOp] = set()
    for each in sink.toposort():
        if each.op is _INVALID:
            carriers.add(each)
        elif each.op is not _INDEX and not carriers.isdisjoint(each.src):
            if each.op is not _WHERE or each.src[2].op is not _INVALID:
                return rewrite(sink, gate_rules)
            carriers.add(each)
    return sink


def _parted(place: UOp) -> tuple[UOp, UOp] | None:
    """A place without its gate, and the gate; None if it has none."""
    if place.op is not _INDEX or len(place.src) < 2 or not place.src[-1].dtype.is_bool:
        return None
    return place.replace(src=place.src[:-1]), place.src[-1]


def _load(root: UOp) -> UOp | None:
    parted = _parted(root.src[0])
    if parted is None:
        return None
    place, gate = parted
    zero = root.table.const(False if root.dtype.is_bool else 0, root.dtype)
    alternative = root.src[1] if len(root.src) > 1 else zero
    return root.replace(src=(place, alternative, _all([gate, *root.src[2:]])))


def _store(root: UOp) -> UOp | None:
    parted = _parted(root.src[0])
    if parted is None:
        return None
    place, gate = parted
    return root.replace(src=(place, root.src[1], _all([gate, *root.src[2:]])))


def _donate(p: UOp, load: UOp, y: UOp) -> UOp | None:
    """The select around a load with the same gate says what else the load could give."""
    if len(load.src) != 3 or load.src[2] is not p or _waits_for(y, load):
        return None
    if (
        space_of(load.src[0]) is not AddrSpace.GLOBAL
    ):  # of memory that the loop may write in place, a load stays one load
        return None
    return load.replace(src=(load.src[0], y, p))


def _waits_for(y: UOp, load: UOp) -> bool:
    return y.op not in {_CONST, _VCONST} and load in y.toposort()


pm_move_gates_from_index: Final = Matcher(
    "pm_move_gates_from_index",
    [
        rule(node(Ops.LOAD), _load, says="LOAD(INDEX(b, i, p), alt) -> LOAD(INDEX(b, i), alt or 0, p)"),
        rule(node(Ops.STORE), _store, says="STORE(INDEX(b, i, p), x) -> STORE(INDEX(b, i), x, p)"),
        rule(
            node(Ops.WHERE, anything("p"), node(Ops.LOAD, name="load"), anything("y")),
            _donate,
            says="where(p, LOAD(place, alt, p), y) -> LOAD(place, y, p)",
        ),
    ],
)
