"""Charges whose radiation is known exactly.

d2I/(domega dOmega) = q^2 / (16 pi^3 eps0 c) |A|^2, so |A|^2 stands for all of it. dt = c = 1.

Circle (Schott 1912), T a whole number of periods, theta from the axis, harmonic m:
    |A(m w0)|^2 = (T w0 m)^2 [ cot^2(theta) J_m^2(m b sin theta) + b^2 J'_m^2(m b sin theta) ]
Larmor, all harmonics and angles:  sum over m of integral dOmega |A|^2 / T^2 = 4 pi/3 w0^2 b^2 g^4
Undulator, on axis, N periods: peak at w = 2 g^2 w_u / (1 + K^2/2), no even harmonics, and its
height, all to order 1/N and 1/g^2:
    |A|^2 = 4 pi^2 N^2 g^2 K^2 / (1 + K^2/2)^2 [J_0(Z) - J_1(Z)]^2,   Z = K^2 / (4 (1 + K^2/2))
Kick from b1 to b2 within a step, w -> 0:
    A = n x (n x b2) / (1 - n.b2) - n x (n x b1) / (1 - n.b1)
"""

import numpy as np
import pytest
from charges import BACKWARD, TOTAL, bessel, circle, field_of, intensity, radiated

from producers.radiation import Acceleration, Method

ORDERS = np.arange(1, 5)


def schott(m, beta, theta):
    x = m * beta * np.sin(theta)
    slope = 0.5 * (bessel(m - 1, x) - bessel(m + 1, x))
    return (bessel(m, x) / np.tan(theta)) ** 2 + (beta * slope) ** 2


def schott_ratios(beta, steps_per_period, late=0.0, theta=1.0, **changes):
    """Measured / exact intensity of the first four harmonics."""
    periods = 4
    position, u, w0 = circle(beta, steps_per_period, late)
    field = field_of([(np.sin(theta), 0, np.cos(theta))], ORDERS * w0, lag=late, **changes)
    got = intensity(radiated(field, position, u, periods * steps_per_period))[0]
    exact = [schott(m, beta, theta) for m in ORDERS]
    return got / (np.square(2 * np.pi * periods * ORDERS) * exact)


@pytest.mark.parametrize(
    ("acceleration", "beta", "theta", "coarse", "fine"),
    [
        (BACKWARD, 0.3, 1.0, 1.2e-3, 1e-4),
        (BACKWARD, 0.6, 1.27, 3e-3, 1e-4),
        (BACKWARD, 0.9, 0.5, 4.6e-3, 2e-4),
        (BACKWARD, 0.9, 1.0, 5e-2, 3e-3),  # towards the observer 1 - n.beta is 0.24: coarse steps
        (TOTAL, 0.3, 1.0, 8e-3, 5e-4),
        (TOTAL, 0.9, 1.0, 4e-3, 3e-4),
    ],
)
def test_a_charge_on_a_circle_has_schotts_harmonics(acceleration, beta, theta, coarse, fine):
    few = schott_ratios(beta, 50, theta=theta, acceleration=acceleration)
    many = schott_ratios(beta, 200, theta=theta, acceleration=acceleration)
    np.testing.assert_allclose(few, 1, atol=coarse)
    np.testing.assert_allclose(many, 1, atol=fine)


@pytest.mark.parametrize("acceleration", Acceleration)
@pytest.mark.parametrize("late", [0.0, 0.5], ids=["together", "leapfrog"])
def test_the_error_of_the_harmonics_is_of_second_order(acceleration, late):
    few = schott_ratios(0.6, 100, late, acceleration=acceleration)
    many = schott_ratios(0.6, 200, late, acceleration=acceleration)
    orders = np.log2(np.abs((few - 1) / (many - 1)))
    np.testing.assert_allclose(orders, 2, atol=0.2)


def test_momenta_half_a_step_behind_the_position_cost_what_is_known():
    """The leapfrog as it is, with PIConGPU's formula."""
    assert np.abs(schott_ratios(0.9, 50, 0.5, theta=0.5) - 1).max() < 1.8e-2
    assert np.abs(schott_ratios(0.9, 200, 0.5, theta=0.5) - 1).max() < 1.1e-3


def test_the_binned_sum_has_the_same_harmonics():
    direct = schott_ratios(0.6, 50)
    binned = schott_ratios(0.6, 50, method=Method.BINNED, oversampling=8)
    np.testing.assert_allclose(binned, direct, rtol=2e-4)


def test_all_harmonics_in_all_directions_make_up_larmors_power():
    beta, steps, orders = 0.6, 400, np.arange(1, 41)
    gamma = 1 / np.sqrt(1 - beta**2)
    cosines, weights = np.polynomial.legendre.leggauss(24)
    directions = [(np.sqrt(1 - c * c), 0, c) for c in cosines]
    position, u, w0 = circle(beta, steps)
    field = field_of(directions, orders * w0, nyquist=None)
    a2 = intensity(radiated(field, position, u, steps))  # one period
    power = 2 * np.pi * weights @ a2.sum(axis=1) / steps**2
    exact = 4 * np.pi / 3 * w0**2 * beta**2 * gamma**4
    assert power == pytest.approx(exact, rel=1e-3)


def wiggle(k, gamma, periods, steps_per_period):
    """Positions (steps, 3) and u (steps, 3) of a charge in a linear undulator along z."""
    steps, w_u = periods * steps_per_period, 2 * np.pi / steps_per_period

    def velocity(z):
        u_y = k * np.cos(w_u * z)
        return np.array([u_y / gamma, np.sqrt(1 - (1 + u_y**2) / gamma**2)])

    path = np.zeros((steps + 1, 2))  # y, z
    for i in range(steps):  # Runge-Kutta
        z = path[i, 1]
        k1 = velocity(z)
        k2 = velocity(z + 0.5 * k1[1])
        k3 = velocity(z + 0.5 * k2[1])
        k4 = velocity(z + k3[1])
        path[i + 1] = path[i] + (k1 + 2 * k2 + 2 * k3 + k4) / 6
    beta = velocity(path[:, 1])
    zero = np.zeros(steps + 1)
    return np.column_stack([zero, path]), gamma * np.column_stack([zero, *beta]), w_u


@pytest.mark.parametrize(("k", "gamma"), [(0.5, 20.0), (1.5, 30.0)])
def test_an_undulator_shines_at_its_resonance_and_not_at_twice_of_it(k, gamma):
    periods = 20
    positions, u, w_u = wiggle(k, gamma, periods, 200)
    resonance = 2 * gamma**2 * w_u / (1 + k**2 / 2)
    near = np.linspace(0.98, 1.02, 81)
    field = field_of([(0, 0, 1)], resonance * np.append(near, 2.0))
    a2 = intensity(radiated(field, lambda t: positions[t], lambda t: u[t], len(u) - 1))[0]
    z = k**2 / (4 * (1 + k**2 / 2))
    shape = (k / (1 + k**2 / 2) * (bessel(0, z) - bessel(1, z))) ** 2
    exact = 4 * np.pi**2 * periods**2 * gamma**2 * shape
    assert near[a2[:-1].argmax()] == pytest.approx(0.998, abs=1e-3)
    assert a2[:-1].max() == pytest.approx(exact, rel=3e-3)
    assert a2[-1] < 5e-5 * a2[:-1].max()


def kicked(b1, b2, steps, n, acceleration):
    """|A|^2 at w = 0, relative to the exact one, of a change of u spread over some steps."""
    u1, u2 = (b / np.sqrt(1 - b @ b) for b in (b1, b2))
    field = field_of([n], [0.0], acceleration=acceleration)
    way = (u2 - u1) / steps
    a = radiated(field, lambda t: np.zeros(3), lambda t: u1 + t * way, steps)[0, 0]
    exact = np.cross(n, np.cross(n, b2)) / (1 - n @ b2) - np.cross(n, np.cross(n, b1)) / (
        1 - n @ b1
    )
    return intensity(a) / (exact @ exact)


KICKS = [  # two betas and a direction
    (np.array([0.0, 0.0, 0.2]), np.array([0.0, 0.5, 0.3]), np.array([0.0, 0.6, 0.8])),
    (np.array([0.7, 0.0, 0.0]), np.array([0.0, 0.7, 0.0]), np.array([1.0, 0.0, 0.0])),
]


@pytest.mark.parametrize(("b1", "b2", "n"), KICKS)
def test_the_change_of_the_total_is_exact_for_a_kick_of_any_size(b1, b2, n):
    assert kicked(b1, b2, 1, n, TOTAL) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("b1", "b2", "n"), KICKS)
def test_the_backward_formula_needs_small_kicks(b1, b2, n):
    """Wrong by tens of percent for a kick in one step; the error falls as 1 / steps."""
    one, fifty, hundred = (kicked(b1, b2, steps, n, BACKWARD) - 1 for steps in (1, 50, 100))
    assert abs(one) > 0.1
    assert abs(hundred) < 0.03
    assert fifty / hundred == pytest.approx(2, rel=0.05)
