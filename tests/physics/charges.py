"""Charges on given paths, and what the far field says of them. Units: dt = 1, c dt = 1."""

import numpy as np

from producers.radiation import Acceleration, FarField, FormFactor, Method, Radiation

BACKWARD, TOTAL = Acceleration.BACKWARD, Acceleration.TOTAL
DIRECT = {"method": Method.DIRECT, "form_factor": FormFactor.COHERENT}


def field_of(directions, omega, axes=3, lag=0.0, length=None, cell=None, **changes):
    """A FarField of positions in units of c dt (or of `cell`)."""
    radiation = Radiation(directions=tuple(map(tuple, directions)), **(DIRECT | changes))
    return FarField(
        radiation,
        omega=np.asarray(omega, float),
        cell=cell or (1.0,) * axes,
        length=length or (1.0,) * axes,
        lag=lag,
    )


def radiated(field, position, u, steps):
    """A of one charge; position(t), u(t) -> (3,), seen after each of the steps 1 to `steps`."""
    for step in range(1, steps + 1):
        field.add(position(step)[:, None], u(step - 1)[:, None], u(step)[:, None], 1.0, step)
    return field.amplitude()


def intensity(amplitude):
    """|A|^2, summed over components."""
    return np.square(np.abs(amplitude)).sum(axis=-1)


def circle(beta, steps_per_period, late=0.0):
    """Position and u of a charge on a circle around z; u is `late` [dt] behind."""
    w = 2 * np.pi / steps_per_period
    gamma = 1 / np.sqrt(1 - beta**2)

    def position(t):
        return beta / w * np.array([np.sin(w * t), -np.cos(w * t), 0.0])

    def u(t):
        phase = w * (t - late)
        return gamma * beta * np.array([np.cos(phase), np.sin(phase), 0.0])

    return position, u, w


def bessel(m, x):
    """J_m(x) by its integral; the trapezoidal rule converges exponentially."""
    t = np.linspace(0, np.pi, 401)
    return np.trapezoid(np.cos(m * t - x * np.sin(t)), t) / np.pi


def crowd(n, axes=2, seed=0, spread=0.3, length=(30.0, 20.0, 10.0)):
    """Random particles in a box [cells], with u before and after a random kick."""
    rng = np.random.default_rng(seed)
    position = rng.random((axes, n)) * np.array(length[:axes])[:, None]
    now = rng.normal(0, spread, (3, n))
    return position, now - rng.normal(0, 0.01, (3, n)), now


def expected(parts, normals, omega, *, cell, weighting=1.0, factor=None, total=False, cut=None):
    """The amplitude in plain NumPy: (directions, frequencies, 3). parts: [(step, x, u0, u1)]."""
    amplitude = np.zeros((len(normals), len(omega), 3), complex)
    for step, position, before, now in parts:
        b = now / np.sqrt(1 + np.sum(now**2, axis=0))
        a = before / np.sqrt(1 + np.sum(before**2, axis=0))
        for i, n in enumerate(normals):
            s = 1 - n @ b
            if total:
                v = _field(n, b) - _field(n, a)
            else:
                v = np.cross(n, np.cross((n - b.T), (b - a).T)) / s[:, None] ** 2
            tau = step - (n[: len(position)] * cell) @ position
            if total:  # a leapfrog: the push was a whole step ago
                tau += -1 + n[: len(position)] @ b[: len(position)]
            waves = np.exp(1j * np.multiply.outer(omega, tau))
            if cut is not None:
                waves *= np.less.outer(omega, cut / s)
            amplitude[i] += weighting * waves @ v
    return amplitude if factor is None else amplitude * factor[..., None]


def _field(n, beta):
    return np.cross(n, np.cross(n, beta.T)) / (1 - n @ beta)[:, None]
