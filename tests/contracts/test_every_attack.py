"""What every attack promises, and what each one does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from learners.attacks import Constant, GaussianNoise, NotANumber, SignFlip
from workflow.errors import ConfigError

ATTACKS = [
    SignFlip(),
    SignFlip(scale=10.0),
    GaussianNoise(scale=3.0),
    NotANumber(),
    NotANumber(share=0.001),
    Constant(value=5.0),
]


@pytest.fixture(params=ATTACKS, ids=repr)
def attack(request):
    return request.param


def values(d=5_000):
    return np.random.default_rng(1).standard_normal(d).astype(np.float32)


def lie(attack, seed=2):
    return attack(values(), step=3, rng=np.random.default_rng(seed))


def test_a_lie_has_the_form_of_a_gradient_and_differs_from_it(attack):
    assert lie(attack).shape == (5_000,)
    assert lie(attack).dtype == np.float32
    assert not np.array_equal(lie(attack), values())


def test_a_lie_repeats_from_its_generator_and_leaves_the_gradient_alone(attack):
    honest = values()
    honest.flags.writeable = False
    first = attack(honest, step=3, rng=np.random.default_rng(2))
    assert first.tobytes() == lie(attack).tobytes()


def test_an_attack_travels_and_compares(attack):
    assert pickle.loads(pickle.dumps(attack)) == attack


def test_sign_flip_points_the_other_way():
    assert np.array_equal(lie(SignFlip(scale=2.0)), -2 * values())


def test_noise_has_the_size_it_was_given():
    noise = lie(GaussianNoise(scale=3.0)) - values()
    assert np.isclose(noise.std(), 3 * np.sqrt(np.mean(values() ** 2)), rtol=0.05)
    assert not np.array_equal(noise, lie(GaussianNoise(scale=3.0), seed=5) - values())


def test_not_a_number_is_in_the_chosen_share():
    assert np.isnan(lie(NotANumber())).all()
    few = lie(NotANumber(share=0.001))
    assert np.isnan(few).sum() == 5
    assert np.array_equal(few[np.isfinite(few)], values()[np.isfinite(few)])
    assert np.isnan(lie(NotANumber(share=1e-9))).sum() == 1
    with pytest.raises(ConfigError, match="0 < share <= 1"):
        NotANumber(share=0.0)


def test_constant_is_constant():
    assert (lie(Constant(value=5.0)) == 5.0).all()
