"""The magnetic field that does not wave: electrons that cross the shear plane carry their current
with them, while the ions stay behind; so the mean of B_z over x grows at both planes,

    |<B_z>| ~ beta sqrt(gamma) m_e c omega_pe / e,  a few c/omega_pe wide

(T. Grismayer et al., Phys. Rev. Lett. 111, 015005 (2013)). Flow +x below y = 1/4 and -x above: the
electrons' current there is -x below, so mixing leaves +x above the plane and -x below it... their
excess over the ions makes B_z > 0 at 1/4, and, mirrored, B_z < 0 at 3/4. All flux of a periodic
box is that of the start, none (Stokes).
"""

import math

import numpy as np
import pytest

from producers import shear, units
from producers.khi import KelvinHelmholtz
from producers.pic import Pusher
from producers.setup import Start
from producers.shear import Perturbation
from workflow.types import Hosting

NX, NY, CELL_M = 20, 56, 187e-9  # one wavelength, fastest, of 0.11 c/omega_pe cells
LOW, HIGH = NY // 4, 3 * NY // 4


@pytest.fixture(scope="module", params=list(Pusher))
def profile(request):
    """<B_z>(y) [beta sqrt(gamma) m_e c omega_pe / e], mean over t = 38 to 42 / omega_pe."""
    config = KelvinHelmholtz(
        grid=(NX, NY), cell_m=CELL_M, dt_s=3.58e-16, particles_per_cell=9, start=Start.RANDOM,
        perturbation=Perturbation(mode=1, amplitude=2e-2), pusher=request.param, dtype="float64",
        first_step=600, last_step=660, period=10,
    )  # fmt: skip
    frames = [frame.arrays["B/z"] for (frame,) in config.iterations(1, hosting=Hosting.INLINE)]
    means = [frame.astype(float).mean(axis=1) for frame in frames]
    unit = config.plasma.omega_dt * shear.beta(config.gamma) * math.sqrt(config.gamma)
    return np.mean(means, axis=0) / unit


def test_it_points_up_at_the_first_plane_and_down_at_the_second_and_is_greatest_there(profile):
    assert profile.argmax() in (LOW - 1, LOW)  # B_z lives half a cell above its row
    assert profile.argmin() in (HIGH - 1, HIGH)


def test_its_size_is_that_of_theory(profile):
    print(profile.max(), profile.min())
    assert 0.2 < profile.max() < 1.5
    assert 0.2 < -profile.min() < 1.5


def test_the_two_planes_are_each_others_opposite(profile):
    reach = round(1.5 * units.C / units.plasma_frequency(1e25) / CELL_M)
    first, second = (profile[y - reach : y + reach].sum() for y in (LOW, HIGH))
    print(first, second, profile.sum())
    assert first > 0
    assert second == pytest.approx(-first, rel=0.08)
    assert abs(profile.sum()) < 1e-5 * first
