"""Rules against NumPy's own statistics and against answers by hand."""

from __future__ import annotations

import numpy as np
import pytest

from learners.reducers import Mean, Median, TrimmedMean, mean, median, trimmed_mean
from learners.reducers.rules import comparators
from workflow.errors import ConfigError, DataError


def offers(k, d=20_011, seed=1):
    return np.random.default_rng([seed, k]).standard_normal((k, d)).astype(np.float32)


@pytest.mark.parametrize("k", range(1, 9))
def test_the_network_sorts_every_order_of_zeros_and_ones(k):
    # a network that sorts all sequences of 0 and 1 sorts everything (the zero-one principle)
    rows = np.array(np.meshgrid(*[[0, 1]] * k)).reshape(k, -1)
    wanted = np.sort(rows, axis=0)
    for i, j in comparators(k):
        rows[i], rows[j] = np.minimum(rows[i], rows[j]), np.maximum(rows[i], rows[j])
    assert np.array_equal(rows, wanted)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 15, 33])
def test_median_is_numpys_bit_for_bit(k):
    assert np.array_equal(median(offers(k)), np.median(offers(k), axis=0))


@pytest.mark.parametrize("k", [3, 4, 7, 15])
@pytest.mark.parametrize("trim", [0, 1])
def test_trimmed_mean_is_the_mean_of_the_sorted_middle(k, trim):
    middle = np.sort(offers(k), axis=0)[trim : k - trim].mean(axis=0, dtype=np.float64)
    assert np.array_equal(TrimmedMean(trim=trim)(offers(k)), middle.astype(np.float32))


def test_mean_adds_in_float64():
    big = np.array([[2**24], [1], [1], [-(2**24)]], dtype=np.float32)
    assert mean(big)[0] == 0.5  # in float32 the ones are lost


def test_answers_by_hand():
    x = np.array([[1, 10], [2, 0], [6, -7], [100, 2]], dtype=np.float32)
    assert mean(x).tolist() == [27.25, 1.25]
    assert median(x).tolist() == [4.0, 1.0]
    assert trimmed_mean(x).tolist() == [4.0, 1.0]


def test_the_largest_numbers_do_not_overflow():
    x = np.full((4, 3), 3e38, dtype=np.float32)
    for rule in (mean, median, trimmed_mean):
        assert np.allclose(rule(x), 3e38)


@pytest.mark.parametrize("liars", [1, 2])
def test_robust_rules_stay_among_the_honest_offers(liars):
    x = offers(7, d=500)
    honest = x[liars:].copy()
    x[:liars] = 1e30
    for rule in (median, TrimmedMean(trim=2)):
        assert (rule(x) <= honest.max(axis=0)).all()
        assert (rule(x) >= honest.min(axis=0)).all()
    assert mean(x).min() > 1e29  # and the mean does not


def test_trimming_everything_away_is_refused():
    with pytest.raises(DataError, match=r"TrimmedMean\(trim=2\): wanted more than 4 offers"):
        TrimmedMean(trim=2)(offers(4, d=3))
    with pytest.raises(DataError, match="more than 0 offers"):
        mean(np.empty((0, 3), dtype=np.float32))
    with pytest.raises(ConfigError, match="trim of 0 or more"):
        TrimmedMean(trim=-1)


def test_short_names_are_the_rules():
    assert (mean, median, trimmed_mean) == (Mean(), Median(), TrimmedMean(trim=1))
