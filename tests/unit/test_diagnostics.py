"""Energies and waves out of frames, against numbers known from elsewhere.

field energy     (eps0/2) sum E^2 dV, (1 / 2 mu0) sum B^2 dV: PIConGPU's own output of the same run
kinetic energy   w (gamma - 1) m c^2
growth           exp(Gamma t), put in by hand
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from producers import diagnostics, units
from producers.khi import KelvinHelmholtz
from producers.recording import Recording
from workflow.errors import DataError
from workflow.types import Hosting

# step 800 of the recorded run, as PIConGPU's energy plug-in printed it [J]
PICONGPU = {
    "E/x": 1.43887e-12, "E/y": 3.2577e-12, "E/z": 2.01873e-17,
    "B/x": 2.66498e-17, "B/y": 2.91437e-17, "B/z": 1.16069e-12,
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(picongpu):
    """Frames and series of one iteration that PIConGPU wrote from two ranks."""
    recording = Recording(path=str(picongpu / "khi2d_40x48"))
    (frames,) = recording.iterations(0, hosting=Hosting.INLINE)
    return frames, recording.series()


@pytest.fixture(scope="module")
def cold():
    """Two iterations of our own run without temperature; the first is the start."""
    config = KelvinHelmholtz(
        grid=(16, 32), ranks=2, particles_per_cell=4, temperature_ev=0.0, last_step=4, period=4
    )
    iterations = config.iterations(3, hosting=Hosting.INLINE)
    return config, next(iterations), config.series()


def test_field_energies_are_what_picongpu_itself_says_of_its_run(recorded):
    frames, series = recorded
    assert diagnostics.field_energy(frames, series) == pytest.approx(PICONGPU, rel=1e-5)


def test_the_density_and_plasma_frequency_of_picongpus_run_are_those_of_its_config(recorded):
    frames, series = recorded
    density = diagnostics.density(frames, series, "e")
    assert density.shape == (48, 40)
    assert density.mean() == pytest.approx(1e25, rel=1e-6)
    assert diagnostics.lightest(frames, series) == "e"
    expected = units.plasma_frequency(1e25)
    assert diagnostics.plasma_frequency(frames, series) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("species", "mass"), [("e", 1.0), ("i", 1836.152672)])
def test_a_cold_stream_has_the_kinetic_energy_of_its_gamma(cold, species, mass):
    config, frames, series = cold
    number = config.density_m3 * config.cell_m**3 * 16 * 32
    expected = number * (config.gamma - 1.0) * mass * units.ELECTRON_MASS * units.C**2
    assert diagnostics.kinetic_energy(frames, series, species) == pytest.approx(expected, rel=1e-6)


def test_momenta_and_places_come_in_units_of_mass_and_cells(cold):
    _, frames, series = cold
    u = diagnostics.momentum(frames[1], series, "i")
    assert np.abs(u[0]) == pytest.approx(math.sqrt(1.021**2 - 1), rel=1e-6)
    x, y = diagnostics.places(frames[1], "i")
    assert 0 <= x.min() < x.max() < 16
    assert 16 <= y.min() < y.max() < 32


def test_a_component_without_its_unit_is_refused_by_name(cold):
    _, frames, series = cold
    bare = [replace(f, units={}) for f in frames]
    with pytest.raises(DataError, match=r"E/x.*unitSI"):
        diagnostics.field_energy(bare, series)


def test_boxes_are_put_together_where_they_belong_and_a_hole_is_refused(recorded):
    frames, _ = recorded
    whole = diagnostics.assemble(frames[::-1], "B/z")
    assert whole.shape == (48, 40)
    tesla = frames[1].units["B/z"].si
    assert np.array_equal(whole[24:], frames[1].arrays["B/z"].astype(np.float64) * tesla)
    far = replace(frames[1], box=replace(frames[1].box, offset=(0, 30)))
    with pytest.raises(DataError, match="hole"):
        diagnostics.assemble([frames[0], far], "B/z")


def test_a_cosine_is_a_wave_of_its_amplitude_and_nothing_else():
    x = np.arange(32)
    mesh = np.tile(0.7 * np.cos(2 * np.pi * 3 * x / 32 + 0.4), (10, 1))
    waves = diagnostics.wave_amplitudes(mesh)
    assert waves.shape == (17,)
    assert waves[3] == pytest.approx(0.7)
    assert np.delete(waves, 3) == pytest.approx(np.zeros(16), abs=1e-12)


def wave(rate, *, noise=1e-3, most=1.0, seed=0):
    """Times and the amplitude of a wave that comes out of noise, grows, and saturates."""
    t = np.linspace(0.0, 50.0, 201)
    grown = 1e-5 * np.exp(rate * t)
    limited = grown / np.sqrt(1 + (grown / most) ** 2)
    rng = np.random.default_rng(seed)
    return t, np.abs(limited + noise * (rng.normal(size=201) + 1j * rng.normal(size=201)))


@pytest.mark.parametrize("rate", [0.25, 0.34])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_growth_rate_is_found_between_noise_and_saturation(rate, seed):
    t, amplitude = wave(rate, seed=seed)
    growth = diagnostics.fit_growth(t, amplitude, 4)
    assert growth.rate == pytest.approx(rate, rel=0.03)
    assert growth.mode == 4
    first, last = growth.window
    assert amplitude[last] < 0.31
    assert amplitude[first] > 1e-3
    assert growth.efoldings == pytest.approx(growth.rate * (t[last] - t[first]))


@pytest.mark.parametrize("rate", [0.0, -0.3])
def test_noise_and_decay_are_no_growth(rate):
    t, amplitude = wave(rate, noise=1e-2)
    assert diagnostics.fit_growth(t, amplitude, 1) is None
    assert diagnostics.fit_growth(t, np.exp(-0.1 * t), 1) is None


def test_a_wave_that_starts_from_exactly_nothing_can_be_fitted():
    t, amplitude = wave(0.3)
    amplitude[:3] = 0.0
    assert diagnostics.fit_growth(t, amplitude, 1).rate == pytest.approx(0.3, rel=0.03)


def test_the_dominant_wave_leads_in_the_linear_phase_not_at_the_end():
    t, fast = wave(0.34, most=1.0)
    driven = np.minimum((1e-5 * np.exp(0.34 * t)) ** 2, 4.0)  # by the square of the other
    constant = np.full_like(t, 9.0)  # mode 0 is no wave
    assert driven[-1] > fast[-1]
    assert diagnostics.dominant_mode(np.stack([constant, driven, fast], axis=1)) == 2
