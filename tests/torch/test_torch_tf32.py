"""What torch lets its libraries read of float32 on a GPU, planish reads as well: as the settings say, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from planish import dtypes  # noqa: E402
from planish.torch import decompositions  # noqa: E402
from planish.torch.forms import form_like  # noqa: E402
from planish.torch.importing import Import  # noqa: E402


@pytest.fixture
def kept() -> Iterator[None]:
    """Settings that may be changed, also behind torch's own tests, and are afterwards as they were."""
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        yield
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def rounded(function: Any, *shapes: tuple[int, ...], device: str = "cuda", dtype: Any = None) -> int:
    """How many operands are rounded to tfloat32 in what a function becomes."""
    with FakeTensorMode():
        given = [torch.empty(shape, device=device, dtype=dtype or torch.float32) for shape in shapes]
        graph = make_fx(function, decomposition_table=decompositions.table())(*given)
    writing = Import("f")
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            writing.take(node, form_like(node.meta["val"]))
        elif node.op == "call_function":
            writing.lower(node)
    (last,) = graph.graph.find_nodes(op="output")[0].all_input_nodes
    made = writing.values[last]
    assert made.dtype is (dtypes.float32 if dtype is None else dtypes.bfloat16)
    casts = [inst for inst in writing.graph.function.walk() if inst.op.name == "cast"]
    return sum(inst.results[0].type.dtype is dtypes.tfloat32 for inst in casts)


IMAGES, KERNELS = (2, 8, 9, 9), (16, 8, 3, 3)


@pytest.mark.parametrize("allowed", [True, False])
def test_convolutions(allowed: bool, kept: None) -> None:
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = not allowed
    assert rounded(torch.conv2d, IMAGES, KERNELS) == 2 * allowed
    assert rounded(lambda x, w: torch.conv_transpose2d(w, x.mT), IMAGES, (2, 2, 9, 9)) == 2 * allowed
    assert rounded(torch.conv2d, IMAGES, KERNELS, device="cpu") == 0
    assert rounded(torch.conv2d, IMAGES, KERNELS, dtype=torch.bfloat16) == 0
    assert rounded(lambda x, w: torch.conv2d(x, w, groups=8), IMAGES, (8, 1, 3, 3)) == 0


@pytest.mark.parametrize("allowed", [True, False])
def test_products(allowed: bool, kept: None) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = not allowed
    assert rounded(torch.mm, (4, 8), (8, 5)) == 2 * allowed
    assert rounded(torch.bmm, (2, 4, 8), (2, 8, 5)) == 2 * allowed
    assert rounded(torch.addmm, (5,), (4, 8), (8, 5)) == 2 * allowed
    assert rounded(torch.mm, (4, 8), (8, 5), device="cpu") == 0
