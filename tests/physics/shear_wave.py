"""A seeded wave of the Kelvin-Helmholtz producer in a box of one wavelength, and its growth."""

import functools
import math

import numpy as np

from producers import shear, units
from producers.khi import KelvinHelmholtz
from producers.pic import Pusher
from producers.shear import Perturbation
from workflow.types import Hosting

GAMMA, PROTONS, PAIRS = 1.021, 1836.152672, 1.0
FASTEST = 0.612  # k v0 / W
COURANT = 0.574  # c dt / cell, PIConGPU's


def wavenumber(kv, gamma=GAMMA, mass_ratio=PROTONS):
    """k [omega_pe/c] of k v0 = kv W."""
    return kv * shear.natural_rate(gamma, mass_ratio) / shear.beta(gamma)


def amplitudes(
    *, kv, cells, duration, gamma=GAMMA, mass_ratio=PROTONS, shape, pusher=Pusher.BORIS, height=100
):
    """Times up to `duration` [1/omega_pe], and |B_z(k)| at the shear planes."""
    cell = 2 * math.pi / wavenumber(kv, gamma, mass_ratio) / cells  # [c/omega_pe]
    cell_m = cell * units.C / units.plasma_frequency(1e25)
    config = KelvinHelmholtz(
        grid=(cells, height), cell_m=cell_m, dt_s=COURANT * cell_m / units.C, gamma=gamma,
        temperature_ev=0.0, mass_ratio=mass_ratio, particles_per_cell=4,
        perturbation=Perturbation(mode=1, amplitude=1e-6), shape=shape, pusher=pusher,
        dtype="float64", last_step=math.ceil(duration / (COURANT * cell)), period=8,
    )  # fmt: skip
    planes = [height // 4 - 1, height // 4, 3 * height // 4 - 1, 3 * height // 4]
    times, found = [], []
    for (frame,) in config.iterations(0, hosting=Hosting.INLINE):
        times.append(frame.iteration * config.plasma.omega_dt)
        waves = np.fft.fft(frame.arrays["B/z"], axis=1)[:, 1]
        found.append(np.abs(waves[planes]).mean())
    return np.array(times), np.array(found)


@functools.cache
def ratio(*, kv=FASTEST, gamma=GAMMA, mass_ratio=PROTONS, window=(4.0, 7.0), **how):
    """Fitted rate over the cold-fluid rate, in a window of theory's e-foldings."""
    theory = shear.growth_rate(wavenumber(kv, gamma, mass_ratio), gamma, mass_ratio)
    t, found = amplitudes(
        kv=kv, gamma=gamma, mass_ratio=mass_ratio, duration=(window[1] + 0.1) / theory, **how
    )
    inside = (t * theory > window[0]) & (t * theory < window[1])
    assert inside.sum() >= 8
    return np.polyfit(t[inside], np.log(found[inside]), 1)[0] / theory
