"""Field energies over time are PIConGPU's, from its own state and from other noise.

From PIConGPU's particles and fields at step 800 of its 40 x 48 run the next 600 steps, through the
end of the linear phase and the roll-up, have its energies; rounding alone parts the two.

From noise of our own only the rate can be compared. Between 1e-11 J and 1e-10 J of B_z energy,

    rate = ln(10) / (2 omega_pe (t(1e-10 J) - t(1e-11 J))),

PIConGPU's 32 x 64 run has 0.273 omega_pe. Ours of five seeds have 0.288 to 0.319: how much each of
the two shear planes contributes differs, and a plane that has all the energy saturates sooner.
Hence 20 %. (At 128 x 128, with several waves in the box: benchmarks/picongpu_energy.py.)
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from plasma import put

from producers import diagnostics, pic
from producers.khi import KelvinHelmholtz
from producers.recording import Recording
from producers.units import EPS0, C
from workflow.types import Hosting

DATA = Path(__file__).parents[1] / "data"
NAMES = {"B/z": "Bz_J", "E/x": "Ex_J", "E/y": "Ey_J"}


def printed(grid):
    """Steps, and energies [J] by component, of a recorded run."""
    with (DATA / "picongpu_energies.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["grid"] == grid]
    steps = np.array([int(row["step"]) for row in rows])
    return steps, {path: np.array([float(row[n]) for row in rows]) for path, n in NAMES.items()}


def test_from_picongpus_own_state_the_fields_have_its_energies(picongpu):
    recording = Recording(path=str(picongpu / "khi2d_40x48"))
    (frames,) = recording.iterations(0, hosting=Hosting.INLINE)
    config = KelvinHelmholtz(grid=(40, 48), last_step=0, period=1)
    slabs = started(config, frames, recording.series())
    steps, expected = printed("40x48")
    for step in range(frames[0].iteration + 1, 1401):
        pic.step(slabs)
        if step % 100 == 0:
            found = energies(config, slabs)
            wanted = {path: values[steps == step][0] for path, values in expected.items()}
            assert found == pytest.approx(wanted, rel=2e-3), step


def started(config, frames, series):
    """The solver's slabs with the particles and fields of an iteration."""
    particles = sum(len(frame.arrays["e/weighting"]) for frame in frames)
    slabs = pic.allocate(config.plasma, particles=particles, zeros=pic.private_zeros)
    for index, species in enumerate("ei"):
        for frame in frames:
            inside = np.stack([frame.arrays[f"{species}/position/{a}"] for a in "xy"])
            cells = np.stack([frame.arrays[f"{species}/positionOffset/{a}"] for a in "xy"])
            u = diagnostics.momentum(frame, series, species)
            put(slabs, index, cells.astype(np.int32), inside, u)
    for i, path in enumerate(diagnostics.FIELDS):
        unit = config.system.efield if path.startswith("E") else config.system.bfield
        slabs[0].inside(slabs[0].fields[i])[...] = diagnostics.assemble(frames, path) / unit
    pic.mirror(slabs[0], slabs, 0, 6)
    return slabs


def energies(config, slabs):
    """[J] of the components in NAMES."""
    found = {}
    for path in NAMES:
        si = config.system.bfield * C if path.startswith("B") else config.system.efield
        values = slabs[0].inside(slabs[0].fields[diagnostics.FIELDS.index(path)])
        squared = np.sum(values.astype(np.float64) ** 2) * si**2
        found[path] = 0.5 * EPS0 * squared * config.cell_m**3
    return found


def decade_rate(steps, energy, omega_dt):
    """Growth rate [omega_pe] of the amplitude between 1e-11 J and 1e-10 J."""
    first, last = (
        np.interp(np.log(level), np.log(energy), steps) for level in (1e-11, 1e-10)
    )  # the energy rises all the way
    return np.log(10.0) / (2.0 * (last - first) * omega_dt)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_from_other_noise_the_energy_of_the_field_grows_as_fast_as_picongpus(seed):
    config = KelvinHelmholtz(grid=(32, 64), first_step=600, last_step=1040, period=10)
    steps, energy = printed("32x64")
    theirs = decade_rate(steps, energy["B/z"], config.plasma.omega_dt)
    assert theirs == pytest.approx(0.273, abs=1e-3)
    series = config.series()
    ours = [
        (frames[0].iteration, diagnostics.field_energy(frames, series)["B/z"])
        for frames in config.iterations(seed, hosting=Hosting.INLINE)
    ]
    assert decade_rate(*np.array(ours).T, config.plasma.omega_dt) == pytest.approx(theirs, rel=0.2)
