"""What is alike along z stays so: a shear flow of some cells in z is the two-dimensional one.

The particles of every plane lie on its middle, z = 1/2, cold, so that no force along z arises but
by rounding; E_z, B_x and B_y stay zero. In E_x, E_y, B_z and u_x, u_y every plane repeats the
two-dimensional run, whose macro-particles stand for the same charge; particles keep their order.
"""

import numpy as np
import pytest
from plasma import field

from producers import course, pic
from producers.khi import KelvinHelmholtz
from producers.pic import Shape
from producers.shear import Perturbation

NX, NY, NZ = 16, 24, 4


def later(grid, shape, steps):
    """The slab of a seeded run after some steps."""
    config = KelvinHelmholtz(
        grid=grid, particles_per_cell=4, temperature_ev=0.0, shape=shape, dtype="float64",
        perturbation=Perturbation(mode=1, amplitude=1e-3), last_step=0, period=1,
    )  # fmt: skip
    slabs = pic.allocate(config.plasma, particles=NX * NY * NZ * 4, zeros=pic.private_zeros)
    course.fill(config, 1, slabs[0])
    for _ in range(steps):
        pic.step(slabs)
    return slabs


@pytest.mark.parametrize("shape", list(Shape))
def test_a_flow_alike_along_z_is_the_flow_in_two_dimensions(shape):
    flat, deep = (later(grid, shape, 48) for grid in ((NX, NY), (NX, NY, NZ)))
    strength = {c: np.abs(field(flat, c)).max() for c in (0, 1, 5)}
    assert min(strength.values()) > 1e-6  # the wave is there
    for component in range(6):
        expected = np.broadcast_to(field(flat, component), (NZ, NY, NX))
        scale = strength.get(component, strength[5])
        np.testing.assert_allclose(field(deep, component), expected, atol=1e-11 * scale)
    for index in range(2):
        at, inside, u = pic.read(flat[0], index)
        at3, inside3, u3 = (part.reshape(-1, NZ, at.shape[1]) for part in pic.read(deep[0], index))
        for plane in range(NZ):
            np.testing.assert_array_equal(at3[:, plane], [*at, np.full(at.shape[1], plane)])
            np.testing.assert_allclose(inside3[:2, plane], inside, atol=1e-11)
            np.testing.assert_allclose(inside3[2, plane], 0.5, atol=1e-11)
            np.testing.assert_allclose(u3[:, plane], u, atol=1e-13)
