"""The far field of many particles: sums, form factors, cuts; and the fast sum against the direct.

A = sum over steps and particles of F V exp(i w tau),   F^2 = N + (N^2 - N) C
C: gauss_spherical exp(-(w dt/2)^2 / 2)^2;  cic, tsc, pcs (prod sinc(n_d dx_d w / 2c))^(2, 4, 6);
   gauss_cell exp(-sum (n_d dx_d w / 2c)^2 / 2)^2;  incoherent 0;  coherent 1
w passes where w < 0.5 (pi - 0.01) / (dt (1 - n.beta))
|binned - direct| <= error(w) F sum |V|,  error = sum over j != 0 of (x / (x + pi j))^4,
x = w dtau / 2; dtau doubles as long as a half period of w still has 16 bins
"""

import dataclasses
import math

import numpy as np
import pytest
from charges import TOTAL, crowd, expected, field_of, intensity

from producers.radiation import (
    Acceleration,
    FarField,
    FormFactor,
    Method,
    Radiation,
    Window,
    coherence,
)
from producers.radiation_sums import Binned, View
from workflow.errors import DataError

DIRECTIONS = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0.48, -0.6, 0.64))
CELL = (1.7, 1.2, 0.9)
LENGTH = (30.0, 20.0, 10.0)
CUT = 0.5 * (math.pi - 0.01)


def waves(count=40, highest=6.4):
    return np.geomspace(0.003, highest, count)


def many_steps(axes=2, steps=4, n=300, spread=0.3):
    return [(s, *crowd(n, axes, seed=s, spread=spread)) for s in range(7, 7 + steps)]


def summed(field, parts, weighting=1.0):
    for step, position, before, now in parts:
        field.add(position, before, now, weighting, step)
    return field.amplitude()


# ---------------------------------------------------------------- the sum itself


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("acceleration", Acceleration)
@pytest.mark.parametrize("axes", [2, 3])
def test_the_amplitude_is_the_sum_that_the_formula_says(axes, acceleration, method):
    parts, omega = many_steps(axes), waves(12)
    field = field_of(
        DIRECTIONS, omega, axes, lag=0.5, cell=CELL[:axes], length=LENGTH[:axes], method=method,
        acceleration=acceleration, oversampling=16,
    )  # fmt: skip
    wanted = expected(
        parts, np.array(DIRECTIONS), omega, cell=np.array(CELL[:axes]), cut=CUT,
        total=acceleration is TOTAL,
    )  # fmt: skip
    atol = 1e-11 if method is Method.DIRECT else 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(summed(field, parts), wanted, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("method", Method)
def test_a_frequency_passes_only_below_the_cut_of_each_particle(method):
    """beta along x is 0.5 and -0.5, so that the cuts differ; none passes above the higher one."""
    u = np.array([[0.5, -0.5], [0, 0], [0, 0]]) / math.sqrt(0.75)
    before, position = u - [[0], [0.01], [0]], np.zeros((2, 2))
    omega = CUT * np.array([0.6, 0.7, 1.9, 2.1])
    amplitudes = []
    for chosen in ([0], [1], [0, 1]):
        field = field_of([(1, 0, 0)], omega, axes=2, method=method)
        field.add(position[:, chosen], before[:, chosen], u[:, chosen], 1.0, 3)
        amplitudes.append(field.amplitude()[0])
    forward, backward, both = amplitudes
    assert list(np.abs(forward).sum(axis=1) > 0) == [True, True, True, False]
    assert list(np.abs(backward).sum(axis=1) > 0) == [True, False, False, False]
    np.testing.assert_allclose(both, forward + backward, rtol=1e-12)


def test_no_cut_lets_everything_pass():
    field = field_of(DIRECTIONS, waves(), axes=2, nyquist=None)
    assert np.all(intensity(summed(field, many_steps())) > 0)


def test_a_triangle_weighs_particles_by_their_place():
    position, before, now = crowd(50)
    weights = np.prod(
        [1 - np.abs(2 * p / ln - 1) for p, ln in zip(position, LENGTH, strict=False)], 0
    )
    omega = waves(6, highest=1.0)
    field = field_of(DIRECTIONS, omega, 2, cell=CELL[:2], length=LENGTH[:2], window=Window.TRIANGLE)
    field.add(position, before, now, 1.0, 5)
    each = [
        w * expected([(5, *(a[:, [i]] for a in (position, before, now)))], np.array(DIRECTIONS),
                     omega, cell=np.array(CELL[:2]), cut=CUT)
        for i, w in enumerate(weights)
    ]  # fmt: skip
    np.testing.assert_allclose(field.amplitude(), np.sum(each, axis=0), rtol=1e-10, atol=1e-14)


# ---------------------------------------------------------------- the fast way


def sum_of_sizes(parts, normals):
    """sum |V| of each direction and component, (directions, 1, 3)."""
    sizes = 0.0
    for part in parts:
        step, position, before, now = part
        for i in range(position.shape[1]):
            one = (step, position[:, [i]], before[:, [i]], now[:, [i]])
            sizes = sizes + np.abs(expected([one], normals, np.zeros(1), cell=np.zeros(2)))
    return sizes


@pytest.mark.parametrize("oversampling", [2, 4, 8])
@pytest.mark.parametrize("nyquist", [0.5, None])
def test_bins_agree_with_the_direct_sum_within_the_stated_error(nyquist, oversampling):
    parts, omega = many_steps(n=60), waves()
    direct, binned = (
        field_of(DIRECTIONS, omega, 2, cell=CELL[:2], length=LENGTH[:2], nyquist=nyquist,
                 method=method, oversampling=oversampling)
        for method in (Method.DIRECT, Method.BINNED)
    )  # fmt: skip
    bins = oversampling * omega[-1] / omega  # per half period
    wider = np.floor(np.log2(bins / max(16, oversampling))).clip(0)
    x = 0.5 * math.pi / bins * 2**wider
    j = np.delete(np.arange(-400, 401), 400)
    error = np.sum((x[:, None] / (x[:, None] + math.pi * j)) ** 4, axis=1)  # (frequencies,)
    stated = {2: 1.5e-2, 4: 6.2e-4, 8: 3.5e-5}[oversampling]
    assert error[-1] <= stated
    view = View.of(
        normals=np.eye(3), omega=omega, cell=np.ones(2), lag=0.0, nyquist=nyquist, total=False
    )
    told = Binned(view, oversampling=oversampling).error
    np.testing.assert_allclose(told, error, rtol=1e-4, atol=1e-11)
    sizes = sum_of_sizes(parts, np.array(DIRECTIONS))
    got, wanted = summed(binned, parts), summed(direct, parts)
    assert np.all(np.abs(got - wanted) <= error[:, None] * sizes + 1e-10)
    if nyquist is None:  # the bound is not idle
        assert np.abs(got - wanted).max() > 0.02 * (error[:, None] * sizes).max()


@pytest.mark.parametrize("asked", [1, 3, 100])
def test_how_often_the_bins_are_transformed_changes_nothing(asked):
    """Bins fill up after some steps, and are transformed when the amplitude is asked for."""
    fields = [
        field_of(DIRECTIONS, waves(20), 2, cell=CELL[:2], length=LENGTH[:2], method=Method.BINNED)
        for _ in range(2)
    ]
    for step in range(0, 400, 4):
        for field in fields:
            field.add(*crowd(20, seed=step), 1.0, step)
        if step % asked == 0:
            fields[0].amplitude()
    first, second = (f.amplitude() for f in fields)
    np.testing.assert_allclose(first, second, atol=1e-10 * np.abs(second).max())


def test_a_reset_forgets():
    field = field_of(DIRECTIONS, waves(20), 2, method=Method.BINNED)
    summed(field, many_steps())
    field.reset()
    assert not field.amplitude().any()
    parts = many_steps(steps=1)
    fresh = field_of(DIRECTIONS, waves(20), 2, method=Method.BINNED)
    np.testing.assert_allclose(summed(field, parts), summed(fresh, parts), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", Method)
def test_particles_without_acceleration_and_no_particles_do_not_radiate(method):
    field = field_of(DIRECTIONS, waves(), 2, method=method)
    position, _, now = crowd(30)
    field.add(position, now, now, 1.0, 3)
    field.add(np.zeros((2, 0)), np.zeros((3, 0)), np.zeros((3, 0)), 1.0, 4)
    assert not field.amplitude().any()


@pytest.mark.parametrize("what", ["position", "momentum"])
def test_a_number_that_is_none_is_refused_by_name(what):
    position, before, now = crowd(30)
    (position if what == "position" else now)[0, 7] = np.nan
    field = field_of(DIRECTIONS, waves(), 2, method=Method.BINNED, acceleration=TOTAL)
    with pytest.raises(DataError, match=rf"step 3: a {what} is not a number"):
        field.add(position, before, now, 1.0, 3)


def test_arrays_that_do_not_fit_are_refused():
    position, before, now = crowd(30)
    field = field_of(DIRECTIONS, waves(), 3)
    with pytest.raises(DataError, match=r"wanted position \(3, n\)"):
        field.add(position, before, now, 1.0, 3)


# ---------------------------------------------------------------- macro-particles


def by_hand(kind, n, omega, cell):
    """C of one direction and frequency."""
    halves = [nd * dx * omega / 2 for nd, dx in zip(n, cell, strict=False)]
    sinc = math.prod(math.sin(h) / h if h else 1.0 for h in halves)
    return {
        FormFactor.GAUSS_SPHERICAL: math.exp(-((omega / 2) ** 2) / 2) ** 2,
        FormFactor.CIC: sinc**2,
        FormFactor.TSC: sinc**4,
        FormFactor.PCS: sinc**6,
        FormFactor.GAUSS_CELL: math.exp(-0.5 * sum(h * h for h in halves)) ** 2,
        FormFactor.INCOHERENT: 0.0,
        FormFactor.COHERENT: 1.0,
    }[kind]


@pytest.mark.parametrize("kind", FormFactor)
@pytest.mark.parametrize("axes", [2, 3])
def test_a_form_factor_is_what_its_formula_says(kind, axes):
    omega, normals = waves(), Radiation(directions=DIRECTIONS).normals
    got = coherence(kind, omega, normals, np.array(CELL[:axes]))
    wanted = [[by_hand(kind, n, w, CELL[:axes]) for w in omega] for n in normals]
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("kind", FormFactor)
def test_the_intensity_of_a_macro_particle_lies_between_n_and_n_squared(kind, method):
    position, before, now = crowd(1)
    omega, weighting = waves(), 250.0
    alike = {"axes": 2, "cell": CELL[:2], "method": method, "nyquist": None}
    one = field_of(DIRECTIONS, omega, **alike)
    one.add(position, before, now, 1.0, 3)
    macro = field_of(DIRECTIONS, omega, form_factor=kind, **alike)
    macro.add(position, before, now, weighting, 3)
    ratio = intensity(macro.amplitude()) / intensity(one.amplitude())
    c = [[by_hand(kind, n, w, CELL[:2]) for w in omega] for n in np.array(DIRECTIONS, float)]
    np.testing.assert_allclose(
        ratio, weighting + (weighting**2 - weighting) * np.array(c), rtol=1e-9
    )
    assert ratio.min() >= weighting * (1 - 1e-9)
    assert ratio.max() <= weighting**2 * (1 + 1e-9)


@pytest.mark.parametrize("method", Method)
def test_particles_at_one_place_are_coherent_and_apart_they_are_not(method):
    """64 single charges that are kicked alike: N^2 together, N on average at random places."""
    count, omega = 64, np.linspace(0.5, 1.5, 60)
    now = np.repeat([[0.1], [0.05], [0.0]], count, axis=1)
    before = now - [[0.0], [0.01], [0.0]]
    single = field_of([(1, 0, 0)], omega, 2, method=method, oversampling=8)
    single.add(np.zeros((2, 1)), before[:, :1], now[:, :1], 1.0, 1)
    one = intensity(single.amplitude())[0]
    together = field_of([(1, 0, 0)], omega, 2, method=method, oversampling=8)
    together.add(np.zeros((2, count)), before, now, 1.0, 1)
    np.testing.assert_allclose(intensity(together.amplitude())[0] / one, count**2, rtol=1e-9)
    ratios = []
    for seed in range(20):
        apart = field_of([(1, 0, 0)], omega, 2, method=method, oversampling=8)
        apart.add(1000 * np.random.default_rng(seed).random((2, count)), before, now, 1.0, 1)
        ratios.append(intensity(apart.amplitude())[0] / one)
    assert np.mean(ratios) == pytest.approx(count, rel=0.1)  # 1200 draws of an exponential


@pytest.mark.parametrize("method", Method)
def test_each_particle_counts_with_its_own_weighting(method):
    position, before, now = crowd(40)
    weighting = np.where(np.arange(40) % 3 == 0, 5.0, 200.0)
    alike = {"axes": 2, "cell": CELL[:2], "method": method, "form_factor": FormFactor.TSC}
    mixed, apart = (field_of(DIRECTIONS, waves(), **alike) for _ in range(2))
    mixed.add(position, before, now, weighting, 3)
    for value in (5.0, 200.0):
        of = weighting == value
        apart.add(position[:, of], before[:, of], now[:, of], value, 3)
    np.testing.assert_allclose(mixed.amplitude(), apart.amplitude(), rtol=1e-12)


@pytest.mark.parametrize("method", Method)
def test_the_amplitudes_of_ranks_add_up_to_that_of_the_whole(method):
    parts = many_steps(n=300)
    radiation = Radiation(directions=DIRECTIONS, method=method)
    more = {"omega": radiation.omega(0.032), "cell": CELL[:2], "length": LENGTH[:2]}
    whole, *ranks = (FarField(dataclasses.replace(radiation), **more) for _ in range(4))
    for step, position, before, now in parts:
        whole.add(position, before, now, 300.0, step)
        owner = np.floor(3 * position[1] / LENGTH[1])
        for i, rank in enumerate(ranks):
            own = owner == i
            rank.add(position[:, own], before[:, own], now[:, own], 300.0, step)
    total = whole.amplitude()
    np.testing.assert_allclose(
        sum(rank.amplitude() for rank in ranks), total, atol=1e-3 * np.abs(total).max()
        if method is Method.BINNED else 1e-12 * np.abs(total).max(),
    )  # fmt: skip
