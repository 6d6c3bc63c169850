"""Training steps owed are a pure function of the samples that came."""

import pytest

from workflow.errors import ConfigError
from workflow.pacing import Pacing


def test_every_shard_serves_so_many_batches_for_each_sample_it_takes_in():
    pacing = Pacing(parts=2, batches_per_sample=4, first_samples=1)
    owed = []
    for i in range(100):
        pacing.insert([i % 2])
        owed.append(pacing.owed)
    assert owed[0] == 0  # the other shard is empty
    assert owed[1] == 2
    assert owed[-1] == 99 * 4 // 2


def test_no_step_is_owed_before_every_shard_has_its_first_samples():
    pacing = Pacing(parts=2, batches_per_sample=10, first_samples=3)
    pacing.insert([0] * 50)
    assert pacing.owed == 0
    assert not pacing.warm
    pacing.insert([1, 1])
    assert pacing.owed == 0
    pacing.insert([1])
    assert pacing.owed == 5


def test_fewer_batches_than_samples_are_owed_with_a_rate_below_one():
    pacing = Pacing(parts=1, batches_per_sample=0.25, first_samples=1)
    owed = [pacing.insert([0]) or pacing.owed for _ in range(8)]
    assert owed == [0, 0, 0, 1, 1, 1, 1, 2]


def test_extra_steps_come_on_top():
    pacing = Pacing(parts=1, batches_per_sample=1, first_samples=1)
    pacing.insert([0])
    pacing.extra += 7
    assert pacing.owed == 8


def test_a_rate_that_would_never_train_is_refused():
    with pytest.raises(ConfigError, match="batches_per_sample"):
        Pacing(parts=1, batches_per_sample=0, first_samples=1)
