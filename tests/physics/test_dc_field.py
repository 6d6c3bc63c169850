"""The magnetic field that does not wave, of electrons that mix across the shear planes.

Below the first plane, y = 1/4, all flows along +x, above it along -x. Where electrons have mixed
they flow slower than the ions, so the current J_x = d<B_z>/dy is > 0 below the plane and < 0 above:
<B_z>, the mean over x, is > 0 and greatest at the plane; at the second plane, 3/4, it is < 0. Size:

    |<B_z>| ~ beta sqrt(gamma) m_e c omega_pe / e        width ~ sqrt(gamma) c / omega_pe

(T. Grismayer et al., Phys. Rev. Lett. 111, 015005 (2013); from 0.2 to 1.5 of the size is demanded
here, from 0.5 to 2 of the width at half of the height).
The box as a whole has the flux of the start, none (Stokes).
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
GAMMA = 1.021  # the default
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
    assert 0.2 < profile.max() < 1.5
    assert 0.2 < -profile.min() < 1.5


def test_its_width_is_that_of_theory(profile):
    skin = units.C / units.plasma_frequency(1e25) / CELL_M  # [cells]
    scale = math.sqrt(GAMMA) * skin
    for sign in (1, -1):
        assert 0.5 < width_at_half_height(sign * profile) / scale < 2.0


def width_at_half_height(profile):
    """Of the highest peak, in cells, between rows by interpolation."""
    top = profile.argmax()
    ends = []
    for way in (-1, 1):
        row, half = top, profile[top] / 2
        while profile[row] > half:
            row += way
        ends.append(abs(row - top) - (half - profile[row]) / (profile[row - way] - profile[row]))
    return sum(ends)


def test_the_two_planes_are_each_others_opposite(profile):
    reach = round(1.5 * units.C / units.plasma_frequency(1e25) / CELL_M)
    first, second = (profile[y - reach : y + reach].sum() for y in (LOW, HIGH))
    assert first > 0
    assert second == pytest.approx(-first, rel=0.08)
    assert abs(profile.sum()) < 1e-5 * first
