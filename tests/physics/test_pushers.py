"""One charge in uniform fields.

Gyration: |u| stays exactly; the phase advances per step by 2 atan(tau / g), tau = w_c dt / 2, with

    Boris           g = gamma
    Higuera-Cary    g^2 = [s + sqrt(s^2 + 4 (tau^2 + (u.tau)^2))] / 2,  s = gamma^2 - tau^2

E x B: a charge that starts at v = E x B / B^2 feels no force. Higuera-Cary keeps it there to
rounding; Boris drifts off by a second-order error in dt.
"""

import numpy as np
import pytest
from plasma import make, particles, put

from producers import pic

POSITRON = pic.Species(name="p", charge=1.0, mass=1.0)


def lone(pusher, u, electric=(0, 0, 0), magnetic=(0, 0, 0), grid=(8, 8)):
    """A test charge of some u in uniform fields [m_e c / (e dt)]."""
    slabs = make(
        grid=grid, step=0.5, omega_dt=0.0, per_cell=1, species=(POSITRON,), particles=1,
        pusher=pusher,
    )  # fmt: skip
    for component, value in enumerate((*electric, *magnetic)):
        slabs[0].fields[component] = value
    d = len(grid)
    put(slabs, 0, np.full((d, 1), 4, np.int32), np.full((d, 1), 0.3), np.reshape(u, (3, 1)))
    return slabs


def rotation_gamma(pusher, gamma, tau, along):
    if pusher is pic.Pusher.BORIS:
        return gamma
    s = gamma**2 - tau**2
    return np.sqrt(0.5 * (s + np.sqrt(s * s + 4.0 * (tau**2 + along**2))))


@pytest.mark.parametrize("pusher", list(pic.Pusher))
@pytest.mark.parametrize("grid", [(8, 8), (8, 8, 8)])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("speed", "along"), [(0.1, 0.0), (2.0, 0.0), (2.0, 1.5)])
def test_gyration_is_exact_up_to_the_known_phase(pusher, grid, axis, speed, along):
    turn = 0.4  # w_c dt
    first, second = (axis + 1) % 3, (axis + 2) % 3  # right-handed with the field
    u, magnetic = np.zeros(3), np.zeros(3)
    u[first], u[axis], magnetic[axis] = speed, along, turn
    slabs = lone(pusher, u, magnetic=magnetic, grid=grid)
    gamma = np.sqrt(1.0 + speed**2 + along**2)
    angle = 2 * np.arctan(
        0.5 * turn / rotation_gamma(pusher, gamma, 0.5 * turn, along * 0.5 * turn)
    )
    for n in range(1, 61):
        pic.step(slabs)
        now = particles(slabs, 0)[-3:, 0]
        assert np.linalg.norm(now) == pytest.approx(np.linalg.norm(u), rel=1e-12)
        assert now[first] == pytest.approx(speed * np.cos(n * angle), abs=2e-12 * n)
        assert now[second] == pytest.approx(-speed * np.sin(n * angle), abs=2e-12 * n)
        assert now[axis] == pytest.approx(along, abs=2e-12 * n)


def test_the_two_pushers_turn_by_different_angles():
    found = []
    for pusher in pic.Pusher:
        slabs = lone(pusher, (np.sqrt(3.0), 0, 0), magnetic=(0, 0, 0.4))
        pic.step(slabs)
        now = particles(slabs, 0)[-3:, 0]
        found.append(-np.arctan2(now[1], now[0]))
    assert found == pytest.approx([0.19934, 0.20008], abs=1e-5)  # tau = 0.2, gamma = 2


def worst_drift(pusher, beta, turn):
    """Greatest departure from the drift velocity in 40 / turn steps, E_y = v_x B_z."""
    u = beta / np.sqrt(1.0 - beta**2)
    slabs = lone(pusher, (u, 0, 0), electric=(0, beta * turn, 0), magnetic=(0, 0, turn))
    worst = 0.0
    for _ in range(round(40 / turn)):
        pic.step(slabs)
        now = particles(slabs, 0)[-3:, 0]
        worst = max(worst, np.abs(now / np.sqrt(1.0 + now @ now) - [beta, 0, 0]).max())
    return worst


@pytest.mark.parametrize("beta", [0.1, 0.9])
def test_higuera_cary_keeps_the_drift_and_boris_loses_it_to_second_order(beta):
    assert worst_drift(pic.Pusher.HIGUERA_CARY, beta, 0.4) < 1e-12
    coarse, fine = (worst_drift(pic.Pusher.BORIS, beta, turn) for turn in (0.4, 0.2))
    assert coarse > 1e-5
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


def test_a_uniform_electric_field_gives_the_impulse_of_its_time():
    electron = pic.Species(name="e", charge=-1.0, mass=2.0)
    slabs = make(grid=(8, 8), step=0.5, omega_dt=0.0, per_cell=1, species=(electron,), particles=1)
    slabs[0].fields[1] = 0.01
    put(slabs, 0, np.full((2, 1), 4, np.int32), np.full((2, 1), 0.3), np.zeros((3, 1)))
    for _ in range(50):
        pic.step(slabs)
    np.testing.assert_allclose(particles(slabs, 0)[-3:, 0], [0, -0.25, 0], atol=1e-12)
