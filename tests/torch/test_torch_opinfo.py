"""torch's own table of ops: a sample by the hash of their names, results and gradients; `python -m tests.torch.opinfo` runs all of it."""

from __future__ import annotations

import zlib

import pytest

pytest.importorskip("torch")

from tests.torch import opinfo

pytestmark = pytest.mark.filterwarnings("ignore")

HANDED_BACK = frozenset(
    [
        "_segment_reduce.lengths",
        "_segment_reduce.offsets",
        "chalf",
        "geqrf",
        "hash_tensor",
        "histogramdd",
        "linalg.eig",
        "linalg.eigvals",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
        "linalg.ldl_solve",
        "nn.functional.linear_cross_entropy.chunked",
        "nn.functional.linear_cross_entropy.chunked_none",
        "ormqr",
    ]
)
"""Ops with nodes that torch runs (docs/torch.md says why)."""


def chosen(share: int):
    return [op for op in opinfo.entries() if zlib.crc32(opinfo.name_of(op).encode()) % share == 0]


def outcome(op, gradients):
    row = opinfo.run(op, gradients, 1, {"device": "interpreter"})
    if not row["right"] and "Jiterator" in row["error"]:
        pytest.skip("needs a GPU")
    return row


@pytest.mark.parametrize("op", chosen(40), ids=opinfo.name_of)
def test_results(op):
    row = outcome(op, False)
    assert row["right"] or op.name.split("_")[-1] in ("empty", "like", "strided", "permuted"), row
    assert not row["handed_back"] or row["op"] in HANDED_BACK, row["handed_back"]


@pytest.mark.parametrize("op", [op for op in chosen(60) if op.supports_autograd], ids=opinfo.name_of)
def test_gradients(op):
    row = outcome(op, True)
    assert row["right"], row
    assert not row["handed_back"] or row["op"] in HANDED_BACK, row["handed_back"]
