"""What every rule promises, present and future."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import learners.reducers as reducers

RULES = [reducers.mean, reducers.median, reducers.trimmed_mean, reducers.TrimmedMean(trim=2)]


@pytest.fixture(params=RULES, ids=repr)
def rule(request):
    return request.param


def offers(k=6, d=9_001):
    return np.random.default_rng(3).standard_normal((k, d)).astype(np.float32)


def test_offers_become_one_float32_update(rule):
    update = rule(offers())
    assert update.shape == (9_001,)
    assert update.dtype == np.float32


def test_the_same_offers_give_the_same_bits_and_stay_as_they_are(rule):
    x = offers()
    x.flags.writeable = False
    kept = x.copy()
    assert rule(x).tobytes() == rule(x).tobytes()
    assert np.array_equal(x, kept)


def test_equal_offers_are_the_update(rule):
    x = np.repeat(offers(k=1), 5, axis=0)
    assert np.array_equal(rule(x), x[0])


def test_the_update_lies_between_the_offers(rule):
    x = offers()
    assert (rule(x) >= x.min(axis=0)).all()
    assert (rule(x) <= x.max(axis=0)).all()


def test_a_shift_and_a_power_of_two_pass_through(rule):
    x = offers()
    assert np.array_equal(rule(4 * x), 4 * rule(x))
    assert np.allclose(rule(x + np.float32(3)), rule(x) + 3, atol=1e-5)


def test_a_part_of_the_coordinates_is_reduced_as_within_the_whole(rule):
    x = offers()
    assert np.array_equal(rule(x[:, 8_000:8_500]), rule(x)[8_000:8_500])


def test_nan_in_an_offer_is_not_hidden(rule):
    x = offers()
    x[2, 5] = np.nan
    assert np.isnan(rule(x)[5])
    assert np.isfinite(np.delete(rule(x), 5)).all()


def test_a_rule_travels_and_compares(rule):
    assert pickle.loads(pickle.dumps(rule)) == rule
