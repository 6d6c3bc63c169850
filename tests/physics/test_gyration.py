"""A charge in a uniform magnetic field, pushed by Boris' rotation:

|u| stays exactly;   the phase advances by 2 atan(w_c dt / (2 gamma)) per step.
"""

import numpy as np
import pytest
from plasma import make, particles, put

from producers import pic


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("speed", [0.1, 2.0])
def test_gyration_is_exact_up_to_the_known_phase(axis, speed):
    field = 0.4  # w_c dt
    positron = pic.Species(name="p", charge=1.0, mass=1.0)
    slabs = make(grid=(8, 8), step=0.5, omega_dt=0.0, per_cell=1, species=(positron,), particles=1)
    slabs[0].fields[3 + axis] = field
    u = np.zeros((3, 1))
    first, second = (axis + 1) % 3, (axis + 2) % 3  # right-handed with the field
    u[first] = speed
    put(slabs, 0, np.full((2, 1), 4, np.int32), np.full((2, 1), 0.3), u)
    angle = 2 * np.arctan(field / 2 / np.sqrt(1 + speed**2))
    for n in range(1, 101):
        pic.step(slabs)
        now = particles(slabs, 0)[2:, 0]
        assert np.linalg.norm(now) == pytest.approx(speed, rel=1e-12)
        assert now[first] == pytest.approx(speed * np.cos(n * angle), abs=1e-12 * n)
        assert now[second] == pytest.approx(-speed * np.sin(n * angle), abs=1e-12 * n)


def test_a_uniform_electric_field_gives_the_impulse_of_its_time():
    electron = pic.Species(name="e", charge=-1.0, mass=2.0)
    slabs = make(grid=(8, 8), step=0.5, omega_dt=0.0, per_cell=1, species=(electron,), particles=1)
    slabs[0].fields[1] = 0.01
    put(slabs, 0, np.full((2, 1), 4, np.int32), np.full((2, 1), 0.3), np.zeros((3, 1)))
    for _ in range(50):
        pic.step(slabs)
    np.testing.assert_allclose(particles(slabs, 0)[2:, 0], [0, -0.25, 0], atol=1e-12)
