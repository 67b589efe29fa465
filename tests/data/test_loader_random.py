"""Loaders of random options: every example once an epoch, and on from any place as if never stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import planish as pn


class Stream:
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return iter(range(self.count))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    count=st.integers(0, 17),
    size=st.integers(1, 6),
    kind=st.sampled_from(["array", "list", "stream"]),
    shuffle=st.booleans(),
    drop=st.booleans(),
    prefetch=st.integers(0, 3),
    seed=st.integers(-5, 1 << 70),
    stop=st.integers(0, 12),
)
def test_any_loader(
    count: int, size: int, kind: str, shuffle: bool, drop: bool, prefetch: int, seed: int, stop: int
):
    data: Any = {"array": np.arange(count), "list": list(range(count)), "stream": Stream(count)}[kind]

    def loader() -> pn.data.Loader:
        return pn.data.Loader(
            data, size, shuffle=shuffle, seed=seed, drop_last=drop, prefetch=prefetch, shuffle_buffer=3
        )

    whole = loader()
    epochs = [[batch.tolist() for batch in whole] for _ in range(3)]
    for epoch in epochs:
        seen = [number for batch in epoch for number in batch]
        assert len(seen) == len(set(seen)) == (count // size * size if drop else count)
        assert shuffle or seen == list(range(len(seen)))
    assert whole.epoch == 3
    wanted = [batch for epoch in epochs for batch in epoch]
    part = loader()
    found: list[Any] = []
    while part.epoch < 3 and len(found) < min(stop, len(wanted)):
        for batch in part:
            found.append(batch.tolist())
            if len(found) >= stop:
                break
    rest = loader().load_state_dict(part.state_dict())
    while rest.epoch < 3:
        found += [batch.tolist() for batch in rest]
    assert found == wanted
