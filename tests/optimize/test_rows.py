"""Rows in lanes: attention and columns get the schedule they should, and compute what NumPy does, odd sizes included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import planish as pn
from planish.compiler import Lowered
from planish.config import settings
from planish.llir.program import Store
from tests.placed import brief

Floats = npt.NDArray[np.float32]
Function = Callable[..., pn.Tensor]


def softmax(x: pn.Tensor, axis: int = -1) -> pn.Tensor:
    e = pn.exp(x - pn.max(x, axis=axis, keepdims=True))
    return e / pn.sum(e, axis=axis, keepdims=True)


def attention(q: pn.Tensor, k: pn.Tensor, v: pn.Tensor) -> pn.Tensor:
    return softmax(q @ pn.matrix_transpose(k) * 0.25) @ v


def causal(q: pn.Tensor, k: pn.Tensor, v: pn.Tensor) -> pn.Tensor:
    rows, columns = pn.arange(q.shape[-2]), pn.arange(k.shape[-2])
    return softmax(pn.where(rows[:, None] >= columns[None, :], q @ pn.matrix_transpose(k), -np.inf)) @ v


def sliced(qkv: pn.Tensor) -> pn.Tensor:
    """Queries, keys and values of two heads are columns of one matrix."""
    q, k, v = (
        pn.permute_dims(qkv[:, 32 * part : 32 * part + 32].reshape((-1, 2, 16)), (1, 0, 2))
        for part in range(3)
    )
    return pn.permute_dims(attention(q, k, v), (1, 0, 2))


def _softmax(x: Floats, axis: int = -1) -> Floats:
    e = np.exp(x - x.max(axis, keepdims=True))
    found: Floats = e / e.sum(axis, keepdims=True)
    return found


def _attention(q: Floats, k: Floats, v: Floats) -> Floats:
    found: Floats = _softmax(q @ np.swapaxes(k, -1, -2) * np.float32(0.25)) @ v
    return found


def _causal(q: Floats, k: Floats, v: Floats) -> Floats:
    scores = q @ np.swapaxes(k, -1, -2)
    hidden = np.arange(q.shape[-2])[:, None] < np.arange(k.shape[-2])
    found: Floats = _softmax(np.where(hidden, np.float32(-np.inf), scores)) @ v
    return found


def _sliced(qkv: Floats) -> Floats:
    q, k, v = (qkv[:, 32 * p : 32 * p + 32].reshape(-1, 2, 16).transpose(1, 0, 2) for p in range(3))
    return _attention(q, k, v).transpose(1, 0, 2)


def data(*shapes: tuple[int, ...]) -> list[Floats]:
    source = np.random.default_rng(3)
    return [source.standard_normal(shape, dtype=np.float32) for shape in shapes]


def lowered(function: Function, *shapes: tuple[int, ...]) -> Lowered:
    with settings(target="x86-64-v4", threads=2, cache=False):
        return pn.jit(function).lower(*(pn.asarray(x) for x in data(*shapes)))._lowered


def words(function: Function, *shapes: tuple[int, ...]) -> list[str]:
    """The actions of a function that is one kernel."""
    (choice,) = lowered(function, *shapes).choices
    return brief(choice.actions)


def test_queries_run_in_lanes_and_products_have_enough_sums() -> None:
    assert words(attention, (4, 128, 32), (4, 256, 32), (4, 256, 32))[:4] == [
        "lanes 64", "unroll 4", "upcast 4", "stage 1",
    ]  # fmt: skip


def test_rows_are_as_wide_as_what_is_computed_not_as_what_is_stored() -> None:
    def narrow(q: pn.Tensor, k: pn.Tensor, v: pn.Tensor) -> pn.Tensor:
        return pn.astype(pn.clip(pn.round(attention(q, k, v) * 50) + 100, 0, 255), "uint8")

    shapes = (4, 128, 32), (4, 256, 32), (4, 256, 32)
    assert words(narrow, *shapes) == words(attention, *shapes)
    arrays = data(*shapes)
    wanted = np.clip(np.rint(_attention(*arrays) * 50) + 100, 0, 255)
    assert np.abs(np.asarray(pn.jit(narrow)(*map(pn.asarray, arrays))).astype(int) - wanted).max() <= 1


def buffers(function: Function, *shapes: tuple[int, ...]) -> list[int]:
    """The bytes of scratch that a function of one kernel has."""
    (program,) = lowered(function, *shapes).programs
    return sorted(b.nbytes for b in program.locals if b.name.startswith("local"))


def test_scores_exponentials_and_quotients_are_one_buffer() -> None:
    few = buffers(attention, (2, 128, 32), (2, 64, 32), (2, 64, 32))
    assert few == [64 * 32 * 4, 64 * 64 * 4]  # queries, and a block of rows


def test_a_block_of_longer_rows_at_a_time_meets_the_values() -> None:
    shapes = (2, 128, 32), (2, 256, 32), (2, 256, 32)
    assert words(attention, *shapes)[4] == "hold 64"
    queries, sums, quotients, rows = 64 * 32 * 4, 64 * 32 * 4, 64 * 64 * 4, 64 * 256 * 4
    assert buffers(attention, *shapes) == sorted([queries, sums, quotients, rows])


def test_slices_of_one_matrix_are_staged_head_by_head() -> None:
    queries, keys, scores, held = 64 * 16 * 4, 256 * 16 * 4, 64 * 256 * 4, 64 * (64 + 16) * 4
    found = buffers(sliced, (256, 96))
    assert found[0] == queries
    assert found[-1] == scores
    assert sum(found) <= queries + 3 * keys + scores + held


def test_longer_rows_run_fewer_at_a_time_and_very_long_ones_alone() -> None:
    def width(keys: int) -> str:
        # (with fewer pieces than cores, rows in lanes would leave some idle)
        return words(attention, (8, 256, 16), (8, keys, 16), (8, keys, 16))[0]

    # 64 rows of 12288 are three megabytes, which are walked from end to end; a prime number of keys makes no blocks to meet the values
    assert [width(keys) for keys in (1024, 12288, 20480, 40960)] == [
        "lanes 64", "lanes 64", "lanes 32", "lanes 16",
    ]  # fmt: skip
    assert [width(keys) for keys in (1021, 5113, 12289)] == ["lanes 64", "lanes 32", "lanes 16"]


def test_scores_that_a_mask_hides_are_not_computed() -> None:
    shapes = [(4, 256, 32)] * 3
    assert words(causal, *shapes)[-1] == "limit 64"
    assert "limit" not in " ".join(words(attention, *shapes))


@pytest.mark.parametrize("keys", [192, 100])  # in blocks, or not
def test_values_behind_the_mask_show_as_the_program_says(keys: int) -> None:
    """0 * inf and 0 * NaN are NaN, rows without a maximum are NaN, and nothing else is."""
    q, k, v = data((1, keys, 8), (1, keys, 8), (1, keys, 8))
    v[0, keys - 3, 1], v[0, keys // 2, 2] = np.inf, np.nan
    q[0, 5], q[0, 7, 3] = np.nan, np.inf
    with settings(cache=False), np.errstate(invalid="ignore"):
        jitted = pn.jit(causal)
        given = [pn.asarray(x) for x in (q, k, v)]
        (choice,) = jitted.lower(*given)._lowered.choices
        assert any(action.word == "limit" for action in choice.actions)
        np.testing.assert_allclose(np.asarray(jitted(*given)), _causal(q, k, v), rtol=2e-5, atol=2e-6)


def test_columns_run_in_lanes() -> None:
    assert words(lambda x: softmax(x, 0), (96, 128))[0] == "lanes 64"
    assert words(lambda x: softmax(x, 0), (96, 124))[:2] == ["pad_to 64", "lanes 64"]


def test_rows_that_share_nothing_stay_rows() -> None:
    assert "lanes 64" not in words(softmax, (128, 256))


def centred(x: pn.Tensor) -> pn.Tensor:
    """Less the mean over the first and the last axis: what is kept has rows, and none of them is a whole number of vectors."""
    return x - pn.mean(x, axis=(0, 2), keepdims=True)


def _centred(x: Floats) -> Floats:
    return np.asarray(x - x.mean((0, 2), keepdims=True), np.float32)


CASES: dict[str, tuple[Function, Callable[..., Floats], list[tuple[int, ...]]]] = {
    "whole": (attention, _attention, [(2, 32, 8), (2, 24, 8), (2, 24, 8)]),
    "odd": (attention, _attention, [(29, 7), (23, 7), (23, 6)]),  # nothing divides
    "held": (attention, _attention, [(2, 34, 4), (2, 256, 4), (2, 256, 6)]),
    "causal": (causal, _causal, [(32, 8), (32, 8), (32, 8)]),
    "causal, held": (causal, _causal, [(64, 4), (192, 4), (192, 4)]),
    "sliced": (sliced, _sliced, [(34, 96)]),
    "columns": (lambda x: softmax(x, 0), lambda x: _softmax(x, 0), [(20, 50)]),
    "rows of rows": (centred, _centred, [(9, 4, 37)]),
}


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_finds_what_numpy_does(name: str, target: str) -> None:
    function, expected, shapes = CASES[name]
    arguments = data(*shapes)
    with settings(target=target, cache=False):
        (found,) = pn.jit(function).lower(*map(pn.asarray, arguments))._lowered.interpreted()(*arguments)
    np.testing.assert_allclose(found, expected(*arguments), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_machine_code_gives_the_same_bits(name: str) -> None:
    function, _, shapes = CASES[name]
    arguments = data(*shapes)
    with settings(cache=False):
        jitted = pn.jit(function)
        given = [pn.asarray(x) for x in arguments]
        (found,) = jitted.lower(*given)._lowered.interpreted()(*arguments)
        np.testing.assert_array_equal(np.asarray(jitted(*given)), found)


def test_padded_rows_that_are_kept_have_room_at_their_ends() -> None:
    """Not one place more for all that is beyond: lanes that may be anywhere are stored one by one."""
    (x,) = data((9, 4, 37))
    with settings(target="x86-64-v4", cache=False):
        (kernel,) = pn.jit(centred).lower(pn.asarray(x)).compile().kernels
    stored = [i.value.dtype.lanes for i in kernel.program.body if isinstance(i, Store)]
    assert min(stored) > 1
