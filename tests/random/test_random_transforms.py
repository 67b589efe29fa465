"""Random numbers in compiled, batched and differentiated functions are the numbers they are outside."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish import nn, random
from planish.frontend import tree


def test_keys_derived_in_a_compiled_function_are_the_same():
    def derive(key: pn.Tensor, step: pn.Tensor) -> tuple[pn.Tensor, ...]:
        own = random.fold_in(key, step)
        return own, random.split(own, 3), random.bits(own, (5,)), random.uniform(random.fold_in(own, 7), (4,))

    key = random.key(5)
    for found, wanted in zip(pn.jit(derive)(key, pn.asarray(3)), derive(key, pn.asarray(3)), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    np.testing.assert_array_equal(
        np.asarray(derive(key, pn.asarray(3))[0]), np.asarray(random.fold_in(key, 3))
    )


def test_many_keys_by_vmap():
    keys = random.split(random.key(1), 4)
    found = np.asarray(pn.vmap(lambda key: random.uniform(key, (3,)))(keys))
    each = [np.asarray(random.uniform(pn.asarray(key), (3,))) for key in np.asarray(keys)]
    np.testing.assert_array_equal(found, np.stack(each))


def test_a_key_per_step_of_a_scan():
    keys = random.split(random.key(2), 5)

    def step(total: pn.Tensor, key: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        drawn = random.uniform(key, ())
        return total + drawn, drawn

    total, drawn = pn.scan(step, pn.asarray(0.0), keys)
    each = [float(random.uniform(pn.asarray(key), ())) for key in np.asarray(keys)]
    np.testing.assert_array_equal(np.asarray(drawn), np.array(each, np.float32))
    assert float(total) == pytest.approx(sum(each))


def test_the_gradient_goes_through_mean_and_deviation():
    slope = pn.grad(lambda s: pn.sum(random.normal(random.key(0), (10,), mean=s, std=2.0 * s)))(
        pn.asarray(1.5)
    )
    noise = np.asarray(random.normal(random.key(0), (10,)))
    assert float(slope) == pytest.approx(float(np.sum(1 + 2 * noise)), rel=1e-5)


def test_a_module_made_in_a_compiled_function():
    def make(key: pn.Tensor) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 2, key=key), nn.BatchNorm1d(2))

    made, plain = pn.jit(make)(random.key(4)), make(random.key(4))
    assert tree.flatten(made)[1] == tree.flatten(plain)[1]
    for name, value in made.state_dict().items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(plain.state_dict()[name]))
    assert made(pn.ones((4, 3))).shape == (4, 2)
