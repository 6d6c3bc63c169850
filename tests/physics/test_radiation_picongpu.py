"""What boxes of a growing Kelvin-Helmholtz wave radiate, against PIConGPU's.

PIConGPU: 48 x 96 x 12 cells, six boxes of 24 x 24 x 12 cells, windows of 20 steps, four directions
from +x to +y (benchmarks/data). Ours: 48 x 96 x 4 cells, 9 particles per cell, and a wave that is
seeded, a quarter of its length apart in the two shear planes, so that it needs no 1000 steps. Low
frequencies are coherent:

    |A|^2 ~ (number of electrons)^2,   and so times (12 / 4)^2 (25 / 9)^2;   energy ~ 12 / 4

Compared where the energy of E_x is that of PIConGPU's at step 900: 16 medians over boxes (two
directions of the stream, four of observation), 0.1 to 1, 1 to 3 and 3 to 10 omega_pe. A box's power
depends on where in it the wave is: over boxes it varies by a factor of ten.

E_x was chosen after both clocks were tried: by B_z, as benchmarks/radiation_pairs.py aligns runs
from noise, the ratios of this seeded run are about 0.1. Its B_z is still less than a noise-grown
plane's when E_x is as much. So this test holds what was measured (a window that is lost, a factor,
a cut), it is not evidence of its own that the two codes agree.
"""

import numpy as np
import pytest

from benchmarks import radiation_pairs as pairs
from producers import course, pic
from producers.khi import KelvinHelmholtz
from producers.radiation import Window
from producers.shear import Perturbation

DEPTH, PER_CELL = 4, 9
APART = 12  # columns: a quarter of the wave


def seeded(window):
    """A run of ours in PIConGPU's size, observed through a window."""
    _, direction, omega = pairs.picongpu()
    config = KelvinHelmholtz(
        grid=(*pairs.GRID[:2], DEPTH), last_step=300, period=pairs.EVERY,
        particles_per_cell=PER_CELL, perturbation=Perturbation(mode=1, amplitude=3e-3),
        radiation=pairs.settings(direction, len(omega), window),
    )  # fmt: skip

    def fill(slab):
        for row in slab.rows:
            at, inside, electrons, ions = config.particles(1, row)
            at[0] = (at[0] + APART * (row >= 48)) % 48
            pic.place(slab, course.ELECTRON, at, inside, electrons)
            pic.place(slab, course.ION, at, inside, ions)

    run = pairs.ours(config, fill, name="seeded", omega=omega, dumps=range(180, 301, pairs.EVERY))
    deeper = pairs.GRID[2] / DEPTH
    for energy in run.energy.values():
        energy *= deeper
    run.intensity[...] *= (deeper * 25 / PER_CELL) ** 2
    return run


def ratios(run):
    """PIConGPU's median over ours (stream, direction, band) when both are as far."""
    reference, _, omega = pairs.picongpu()
    at = int(np.flatnonzero(reference.steps == pairs.MIDDLE)[0])
    medians = []
    for runs in ([reference], [run]):
        growth = pairs.on_clock(runs, reference, pairs.Clock.EX)
        logs = pairs.bands_of(growth, omega)[at]
        assert np.isfinite(logs[..., :3]).all()
        medians.append([np.median(logs[growth.forward == w], axis=0) for w in (True, False)])
    theirs, ours = np.array(medians)
    return np.exp(theirs - ours)


@pytest.fixture(scope="module")
def run():
    return seeded(Window.TRIANGLE)


def test_boxes_radiate_what_picongpus_do(run):
    """Measured: means 0.97, 1.22 and 1.40, single ratios 0.36 to 3.0; with no window 0.03."""
    found = ratios(run)[..., :3]
    means = np.exp(np.log(found).mean(axis=(0, 1)))
    assert np.all((means > 1 / 2) & (means < 2)), means
    assert np.all((found > 1 / 6) & (found < 6)), found


def test_frequencies_are_cut_where_picongpu_cuts_them(run):
    """0.5 (pi - 0.01) / (dt (1 - n.beta)) of the fastest electrons of the stream to +x."""
    reference, _, _ = pairs.picongpu()
    theirs, ours = (
        (r.intensity[0][r.forward] > 0).sum(axis=-1).max(axis=0) for r in (reference, run)
    )
    assert theirs.tolist() == [54, 54, 53, 52]
    assert ours.tolist() == theirs.tolist()
