"""Current filamentation (cold Weibel): two electron beams +-v0 along z, k along x, ions at rest:

    G^4 + G^2 (k^2 + W^2) - omega_p^2 beta^2 k^2 / gamma = 0,   W^2 = omega_p^2 / gamma^3
    (G, k in omega_p, omega_p/c; G -> beta omega_p / sqrt(gamma) for large k)

by the producer of counter-beams, seeded at one wave, read from B_y(k) of its frames.
"""

import math

import numpy as np
import pytest

from producers import shear, units
from producers.beams import CounterBeams
from producers.setup import Start
from producers.shear import Perturbation
from workflow.errors import ConfigError
from workflow.types import Hosting


def theory(k, gamma):
    b = shear.beta(gamma)
    p = k * k + gamma**-3
    return math.sqrt(0.5 * (-p + math.sqrt(p * p + 4.0 * b * b * k * k / gamma)))


def rate(gamma, *, grid, along, field):
    """Fitted growth rate [omega_p] of the wave with k = 2 along x, one wavelength long."""
    k, expected = 2.0, theory(2.0, gamma)
    cell = 2.0 * math.pi / k / grid[0]  # [c/omega_p]
    cell_m = cell * units.C / units.plasma_frequency(1e25)
    config = CounterBeams(
        grid=grid, along=along, gamma=gamma, temperature_ev=0.0, particles_per_cell=16,
        cell_m=cell_m, dt_s=0.5 * cell_m / units.C, mass_ratio=1e9, dtype="float64",
        perturbation=Perturbation(mode=1, amplitude=1e-6),
        last_step=math.ceil(9.0 / expected / (0.5 * cell)), period=5,
    )  # fmt: skip
    times, amplitude = [], []
    for (frame,) in config.iterations(0, hosting=Hosting.INLINE):
        times.append(frame.iteration * config.plasma.omega_dt)
        amplitude.append(abs(np.fft.fft(frame.arrays[field], axis=-1)[..., 1].mean()))
    folds = np.array(times) * expected
    window = (folds > 4.0) & (folds < 9.0)
    assert window.sum() > 20
    return np.polyfit(np.array(times)[window], np.log(np.array(amplitude)[window]), 1)[0]


@pytest.mark.parametrize("gamma", [1.1, 1.5, 3.0])
def test_filaments_grow_at_the_cold_rate(gamma):
    found = rate(gamma, grid=(32, 4), along="z", field="B/y")
    assert found == pytest.approx(theory(2.0, gamma), rel=0.01)


@pytest.mark.parametrize(("along", "field"), [("z", "B/y"), ("y", "B/z")])
def test_filaments_grow_at_the_same_rate_in_three_dimensions(along, field):
    found = rate(1.5, grid=(32, 4, 4), along=along, field=field)
    assert found == pytest.approx(theory(2.0, 1.5), rel=0.01)


def test_theory_is_the_known_one():
    assert [theory(2.0, g) for g in (1.1, 1.5, 3.0)] == pytest.approx(
        [0.3596, 0.5664, 0.5243], abs=2e-4
    )


@pytest.mark.parametrize("start", list(Start))
def test_beams_start_without_charge_and_current(start):
    config = CounterBeams(grid=(8, 8), start=start, temperature_ev=0.0, last_step=0, period=1)
    ((frame,),) = config.iterations(3, hosting=Hosting.INLINE)
    p = np.stack([frame.arrays[f"e/momentum/{a}"] for a in "xyz"])
    assert np.abs(p[0]).min() == pytest.approx(config.gamma * shear.beta(config.gamma), rel=1e-6)
    assert p.sum(axis=1) == pytest.approx([0, 0, 0], abs=1e-3)
    assert len(frame.arrays["e/weighting"]) == len(frame.arrays["i/weighting"])


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"particles_per_cell": 9}, "particles_per_cell"), ({"along": "r"}, "along")],
)
def test_a_wrong_setting_is_refused_by_name(wrong, name):
    with pytest.raises(ConfigError, match=rf"{name}.*wanted .*got"):
        CounterBeams(last_step=0, period=1, **wrong)
