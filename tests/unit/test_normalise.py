"""Running moments: merged as if all had been there at once, applied and taken back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transforms.normalise import RunningNormaliser
from workflow.errors import DataError
from workflow.types import Box, Sample

DATA = Path(__file__).parents[1] / "data"
GROUPS = {"particles": [[0, 1, 2], [3, 4, 5]]}


def sample_of(**arrays):
    return Sample(
        stream="simulation",
        iteration=1,
        time_s=0.0,
        box=Box(index=0, offset=(0,), extent=(1,)),
        arrays={name: np.asarray(a, dtype=np.float32) for name, a in arrays.items()},
    )


def moments_of(normaliser, samples):
    moments = {}
    for sample in samples:
        moments = normaliser.merge(moments, normaliser.measure(sample))
    return moments


def real_samples():
    """Twelve real boxes: u and its change (128, 6), and a spectrum (64,)."""
    pairs = np.load(DATA / "khi3d_pairs_thin.npz")
    particles = pairs["particles"].reshape(12, 128, 6)
    power = np.square(np.abs(pairs["amplitude"].astype(complex))).sum(-1)[:, :, 0].reshape(12, 64)
    return [
        sample_of(particles=p, spectrum=np.log(s + 1e-9))
        for p, s in zip(particles, power, strict=True)
    ]


def test_merged_moments_are_those_of_all_samples_together():
    samples = real_samples()
    moments = moments_of(RunningNormaliser(), samples)
    together = np.concatenate([s.arrays["particles"] for s in samples]).astype(np.float64)
    assert int(moments["samples"]) == 12
    assert int(moments["particles/count"]) == 12 * 128
    np.testing.assert_allclose(moments["particles/mean"], together.mean(0), rtol=1e-12, atol=1e-16)
    variance = moments["particles/m2"] / moments["particles/count"]
    np.testing.assert_allclose(variance, together.var(0), rtol=1e-12)


def test_the_order_of_merging_fixes_every_bit_and_hardly_matters_otherwise():
    samples = real_samples()
    normaliser = RunningNormaliser()
    first, again = moments_of(normaliser, samples), moments_of(normaliser, samples)
    backwards = moments_of(normaliser, samples[::-1])
    halves = normaliser.merge(
        moments_of(normaliser, samples[:7]), moments_of(normaliser, samples[7:])
    )
    for name in first:
        assert first[name].tobytes() == again[name].tobytes()
        np.testing.assert_allclose(first[name], backwards[name], rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(first[name], halves[name], rtol=1e-10, atol=1e-15)


def test_a_group_has_one_mean_and_one_std_so_that_vectors_keep_their_direction():
    samples = real_samples()
    normaliser = RunningNormaliser(groups=GROUPS)
    moments = moments_of(normaliser, samples)
    stacked = np.stack([s.arrays["particles"] for s in samples])  # (12, 128, 6)
    out = normaliser.normalise("particles", stacked, moments)
    assert out.shape == stacked.shape
    assert out.dtype == np.float32
    for columns in (slice(0, 3), slice(3, 6)):
        raw = stacked[..., columns].astype(np.float64)
        np.testing.assert_allclose(out[..., columns], (raw - raw.mean()) / raw.std(), atol=1e-5)
        assert out[..., columns].std() == pytest.approx(1.0, rel=1e-5)


def test_a_mean_per_column_centres_every_column_and_keeps_one_std():
    rng = np.random.default_rng(1)
    data = rng.normal([3.0, -1.0, 0.0], [1.0, 2.0, 0.5], (400, 3))
    normaliser = RunningNormaliser(groups={"particles": [[0, 1, 2]]}, mean="column")
    moments = moments_of(normaliser, [sample_of(particles=data)])
    out = normaliser.normalise("particles", data[None].astype(np.float32), moments)
    np.testing.assert_allclose(out.mean((0, 1)), 0.0, atol=1e-6)
    ratio = out.std((0, 1)) / data.std(0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    assert np.mean(np.square(out)) == pytest.approx(1.0, rel=1e-5)


def test_an_array_that_is_not_named_has_a_scalar_mean_and_std():
    samples = real_samples()
    moments = moments_of(RunningNormaliser(groups=GROUPS), samples)
    stacked = np.stack([s.arrays["spectrum"] for s in samples])  # (12, 64)
    out = RunningNormaliser(groups=GROUPS).normalise("spectrum", stacked, moments)
    raw = stacked.astype(np.float64)
    np.testing.assert_allclose(out, (raw - raw.mean()) / raw.std(), atol=1e-5)


def test_columns_outside_all_groups_stand_alone():
    rng = np.random.default_rng(2)
    data = rng.normal(0, [1, 1, 100], (300, 3)).astype(np.float32)
    normaliser = RunningNormaliser(groups={"p": [[0, 1]]})
    out = normaliser.normalise("p", data[None], moments_of(normaliser, [sample_of(p=data)]))
    np.testing.assert_allclose(out.std((0, 1))[2], 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["particles", "spectrum"])
@pytest.mark.parametrize("mean", ["group", "column"])
def test_denormalising_gives_the_numbers_back(name, mean):
    samples = real_samples()
    normaliser = RunningNormaliser(groups=GROUPS, mean=mean)
    moments = moments_of(normaliser, samples)
    stacked = np.stack([s.arrays[name] for s in samples])
    there = normaliser.normalise(name, stacked, moments)
    back = normaliser.denormalise(name, there, moments)
    _, std = normaliser.scale(name, stacked, moments)
    assert (np.abs(back - stacked) / std).max() < 2e-6
    assert back.dtype == np.float32


@pytest.mark.parametrize("value", [0.0, 0.20601, -1.7e9])
def test_a_dead_channel_comes_out_as_zeros_and_back(value):
    dead = np.full((200, 3), value, np.float32)
    normaliser = RunningNormaliser(groups={"p": [[0, 1, 2]]})
    moments = moments_of(normaliser, [sample_of(p=dead)] * 3)
    out = normaliser.normalise("p", dead[None], moments)
    assert np.abs(out).max() <= np.abs(np.float32(value)) * 1e-6
    np.testing.assert_allclose(normaliser.denormalise("p", out, moments), dead[None], rtol=1e-6)


def test_a_channel_of_tiny_but_real_numbers_is_not_dead():
    tiny = np.random.default_rng(3).normal(0, 7.7e-5, (500, 3)).astype(np.float32)
    normaliser = RunningNormaliser()
    out = normaliser.normalise("p", tiny[None], moments_of(normaliser, [sample_of(p=tiny)]))
    assert out.std() == pytest.approx(1.0, rel=1e-4)


def test_frozen_moments_stay_as_they_are():
    samples = real_samples()
    normaliser = RunningNormaliser(freeze_after=5)
    frozen = moments_of(normaliser, samples)
    five = moments_of(RunningNormaliser(), samples[:5])
    assert set(frozen) == set(five)
    for name in five:
        assert frozen[name].tobytes() == five[name].tobytes()


def test_the_empty_set_changes_nothing():
    normaliser = RunningNormaliser()
    one = normaliser.measure(real_samples()[0])
    for merged in (normaliser.merge({}, one), normaliser.merge(one, {})):
        assert {n: m.tobytes() for n, m in merged.items()} == {
            n: m.tobytes() for n, m in one.items()
        }
    assert normaliser.merge({}, {}) == {}


def test_an_array_that_comes_later_is_taken_in():
    normaliser = RunningNormaliser()
    first, second = sample_of(p=np.ones((4, 2))), sample_of(p=np.zeros((4, 2)), s=np.arange(3))
    moments = moments_of(normaliser, [first, second])
    np.testing.assert_array_equal(moments["s/mean"], [0, 1, 2])
    np.testing.assert_array_equal(moments["p/mean"], [0.5, 0.5])


def test_moments_of_a_large_mean_keep_their_digits():
    rng = np.random.default_rng(4)
    data = (1e4 + rng.normal(0, 1, (5000, 1))).astype(np.float32)
    normaliser = RunningNormaliser()
    moments = moments_of(normaliser, [sample_of(p=part) for part in np.split(data, 50)])
    variance = float(moments["p/m2"][0]) / 5000
    assert variance == pytest.approx(data.astype(np.float64).var(), rel=1e-9)


def test_what_cannot_be_normalised_says_why():
    normaliser = RunningNormaliser(groups={"p": [[0, 5]]})
    moments = normaliser.measure(sample_of(p=np.ones((4, 2))))
    with pytest.raises(DataError, match="no moments of it"):
        normaliser.normalise("q", np.ones((1, 4, 2)), moments)
    with pytest.raises(DataError, match="wanted 2 columns"):
        normaliser.normalise("p", np.ones((1, 4, 3)), moments)
    with pytest.raises(DataError, match="column 5"):
        normaliser.normalise("p", np.ones((1, 4, 2)), moments)
    with pytest.raises(DataError, match="at least one column"):
        normaliser.measure(sample_of(p=np.ones((0, 2))))
    with pytest.raises(DataError, match="wanted 2 columns as before"):
        normaliser.merge(moments, normaliser.measure(sample_of(p=np.ones((4, 3)))))
