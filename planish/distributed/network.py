"""The alpha-beta model of a network with nodes: what a collective of a group costs, and which links carry how much.

A message of b bytes over a link takes `latency + b / bandwidth`. Ranks of one node are joined by `inside`, nodes by `between`, whose bandwidth all ranks
of a node share. A group that spans nodes works in three steps where that is less: within nodes, between nodes on a part of the data each, and within nodes again. Rings
carry large messages, trees small ones: whichever takes less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from planish.errors import PlanishError
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """What joins two ranks, or two nodes."""

    latency: float
    """Seconds until the first byte arrives."""
    bandwidth: float
    """Bytes per second."""

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise PlanishError(
                f"a link of {self.latency} s and {self.bandwidth} B/s",
                remedy="seconds from 0, bytes per second above 0",
            )


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes of so many ranks: rank r is on node r // node."""

    node: int
    inside: Link
    between: Link
    """The bandwidth is that of a node, shared by its ranks."""

    def __post_init__(self) -> None:
        if self.node < 1:
            raise PlanishError(f"a node of {self.node} ranks", remedy="at least one")


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective on a network."""

    seconds: float
    inside: float = 0.0
    """Bytes that each rank sends within its node."""
    between: float = 0.0
    """Bytes that each rank sends to other nodes."""

    def __add__(self, other: Transfer) -> Transfer:
        return Transfer(
            self.seconds + other.seconds, self.inside + other.inside, self.between + other.between
        )


@dataclass(frozen=True, slots=True)
class GroupPlacement:
    """How a group lies on the nodes."""

    members: int
    per_node: int
    """Of its ranks, on each node that it has some on."""
    sharers: int
    """Ranks of a node that send to other nodes at the same time: all, where every group does the same."""

    @property
    def nodes(self) -> int:
        return -(-self.members // self.per_node)


def group_on(network: Network, ranks: Sequence[int], world: int) -> GroupPlacement:
    """The group of some ranks, while all other groups do the same."""
    counts = Counter(rank // network.node for rank in ranks)
    return GroupPlacement(len(ranks), max(counts.values()), min(network.node, world))


def _ring(link: Link, members: int, nbytes: float, rounds: int, share: int = 1) -> float:
    """So many times around a ring, a part of the data at every step."""
    steps = rounds * (members - 1)
    return steps * (link.latency + nbytes / members * share / link.bandwidth)


def _tree(link: Link, members: int, nbytes: float, rounds: int, share: int = 1) -> float:
    """Up or down a tree, all of the data at every step."""
    return rounds * math.ceil(math.log2(members)) * (link.latency + nbytes * share / link.bandwidth)


def _around(network: Network, group: GroupPlacement, nbytes: float, rounds: int, *, tree: bool) -> Transfer:
    """Data that go `rounds` times around a group: once to gather or to reduce and scatter, twice to do both."""
    if group.members == 1:
        return Transfer(0.0)
    part = nbytes * rounds * (group.members - 1) / group.members

    def least(link: Link, members: int, size: float, share: int = 1) -> float:
        ring = _ring(link, members, size, rounds, share)
        return min(ring, _tree(link, members, size, rounds, share)) if tree else ring

    if group.nodes == 1:
        return Transfer(least(network.inside, group.members, nbytes), part)
    flat = Transfer(least(network.between, group.members, nbytes, group.sharers), 0.0, part)
    if group.per_node == 1:
        return flat
    own = nbytes / group.per_node
    within = rounds * (group.per_node - 1) / group.per_node * nbytes
    across = rounds * (group.nodes - 1) / group.nodes * own
    steps = least(network.inside, group.per_node, nbytes) + least(
        network.between, group.nodes, own, group.sharers
    )
    return min((flat, Transfer(steps, within, across)), key=lambda each: each.seconds)


def _all_to_all(network: Network, group: GroupPlacement, given: float, taken: float) -> Transfer:
    if group.members == 1:
        return Transfer(0.0)
    near = given * (group.per_node - 1) / group.members
    far = given * (group.members - group.per_node) / group.members
    seconds = (group.per_node - 1) * network.inside.latency + near / network.inside.bandwidth
    if far:
        far_seconds = (group.members - group.per_node) * network.between.latency
        seconds = max(seconds, far_seconds + far * group.sharers / network.between.bandwidth)
    return Transfer(seconds, near, far)


def _permute(network: Network, group: GroupPlacement, given: float, taken: float) -> Transfer:
    if group.members == 1:
        return Transfer(0.0)
    if group.nodes == 1:
        return Transfer(network.inside.latency + given / network.inside.bandwidth, given)
    # neighbours in a group: one rank of each node sends to the next
    far = 1 if group.per_node > 1 else group.sharers
    return Transfer(
        network.between.latency + given * far / network.between.bandwidth,
        given * (1 - 1 / group.per_node),
        given / group.per_node,
    )


def _broadcast(network: Network, group: GroupPlacement, given: float, taken: float) -> Transfer:
    if group.members == 1:
        return Transfer(0.0)
    link, share = (
        (network.inside, 1) if group.nodes == 1 else (network.between, group.sharers // group.per_node or 1)
    )
    # in pieces, one behind the other down a tree
    seconds = math.ceil(math.log2(group.members)) * link.latency + given * share / link.bandwidth
    return Transfer(seconds, given if group.nodes == 1 else 0.0, 0.0 if group.nodes == 1 else given)


COSTS: Final[dict[str, Callable[[Network, GroupPlacement, float, float], Transfer]]] = {
    "all_reduce": lambda network, group, given, taken: _around(network, group, given, 2, tree=True),
    "all_gather": lambda network, group, given, taken: _around(network, group, taken, 1, tree=False),
    "reduce_scatter": lambda network, group, given, taken: _around(network, group, given, 1, tree=False),
    "all_to_all": _all_to_all,
    "permute": _permute,
    "broadcast": _broadcast,
}
"""What each collective costs, by the bytes that a rank gives and gets."""
